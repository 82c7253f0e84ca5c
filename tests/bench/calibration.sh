#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/calibration.sh MODEL=PROMPT...
# Prints what candidates for calibration cost a prompt: each file of text is evaluated by turns with --draft sam and --draft coordgen.
# The shares are of the prompt without calibration. See docs/coordgen.md.
#
#   BUILD     the folder of bin/ (build)
#   ROUNDS    prompts of each (9)
#   CONTEXT   tokens of the sessions (4096)
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -gt 0 ] || { echo "usage: calibration.sh MODEL=PROMPT..." >&2; exit 2; }
exec python3 - "$(realpath -m "${BUILD:-$root/build}")/bin/llm-cli" "${ROUNDS:-9}" "${CONTEXT:-4096}" "$@" <<'END'
import os, re, statistics, subprocess, sys
cli, rounds, context, *runs = sys.argv[1:]

def prompt(model, text, draft):
    command = [cli, "-m", model, "-f", text, "-c", context, "-n", "4", "--temp", "0", "--draft", draft, "--stats"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"calibration.sh: {run.stderr}")
    tokens, s = re.search(r"prefill +(\d+) tokens in ([0-9.]+) s", run.stderr).groups()
    cost = re.search(r"calibration of (\d+) positions ([0-9.]+) ms, of which the last layer ([0-9.]+), the output matrix ([0-9.]+)",
                     run.stderr).groups()
    return int(tokens), 1e3 * float(s), *map(float, cost)

print("| model | positions | times as long | output matrix | last layer | all else | without the output matrix |")
print("|---|---:|---:|---:|---:|---:|---:|")
for model, text in (run.rsplit("=", 1) for run in runs):
    turns = [(prompt(model, text, "sam"), prompt(model, text, "coordgen")) for _ in range(int(rounds))]
    times = [b[1] / a[1] for a, b in turns]
    shares = [[100 * x / (b[1] - b[3]) for x in (b[5], b[4], b[3] - b[4] - b[5], b[3] - b[5])] for _, b in turns]
    head, layer, rest, both = (statistics.median(s[i] for s in shares) for i in range(4))
    low, high = min(s[3] for s in shares), max(s[3] for s in shares)
    tokens, _, positions, *_ = turns[0][1]
    print(f"| {os.path.basename(model).removesuffix('.gguf')} | {positions:.0f} of {tokens} | {statistics.median(times):.2f} | "
          f"{head:.1f} % | {layer:.1f} % | {rest:.1f} % | {both:.2f} % ({low:.2f} to {high:.2f}) |", flush=True)
END
