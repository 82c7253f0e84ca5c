#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/sparse.sh [MODEL]
# Prints what sparse attention brings to whole prompts: a table of the modelled phones, and one of this host for MODEL, a calibrated
# file (llm-quantize --calibrate). On the host NPU and CPU are the same cores, so the CPU time of all threads, with that of loading
# the model, stands beside the wall clock. Attentions take turns in each round. See docs/shadowattn.md.
#
#   BUILD         the folder of bin/ (build)
#   PROMPTS       tokens of a prompt, separated by spaces (1024 2048 4096)
#   ROUNDS        3
#   SHAPES        of the phones' table (the paper's)
#   LLAMA_BENCH   llama-bench of a peer, which takes turns with full attention; with PEER_MODEL, a file that it can load
#   PEER_OPTIONS  its options (-fa 1 -w 0 -rtr 1, of ik_llama.cpp)
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(realpath -m "${BUILD:-$root/build}")/bin
fail() { echo "sparse.sh: $*" >&2; exit 1; }
prompts=${PROMPTS:-1024 2048 4096}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

phones() {
	"$bin/llm-bench" --dry-run --shape "${SHAPES:-phonelm-0.5b,phonelm-1.5b,qwen2.5-0.5b,qwen2.5-1.5b}" --preset shadowattn \
		--cores middle --attention full,sparse,shadow --sparse-from 1 -p "${prompts// /,}" -n 0 -r 1 --profile "$1" -o json \
		>"$work/json" 2>"$work/log" || fail "$(<"$work/log")"
	python3 - "$work/json" <<'END'
import json, sys
rows = json.load(open(sys.argv[1]))
full = {(r['model_type'], r['n_prompt']): r for r in rows if r['attention'] == 'full'}
for r in sorted(rows, key=lambda r: (r['model_type'], r['n_prompt'])):
    of = full[r['model_type'], r['n_prompt']]
    print('| %s | %s | %d | %s | %.2f | %.2f | %.1f | %.2f |' % (
        r['profile'], r['model_type'], r['n_prompt'], r['attention'], r['ttft_ms'] / 1e3, of['ttft_ms'] / r['ttft_ms'],
        r['energy_j'], of['energy_j'] / r['energy_j']))
END
}

# once SIDE TOKENS COMMAND...: appends the side's tokens per second and CPU seconds of one run.
once() {
	python3 - "$work/runs" "$@" <<'END' || fail "$1 failed"
import json, os, subprocess, sys
runs, side, tokens, *command = sys.argv[1:]
child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
text = child.stdout.read()
_, status, usage = os.wait4(child.pid, 0)
if status:
    sys.exit(1)
row = json.loads(text)[0]
print(side, tokens, row['avg_ts'], usage.ru_utime + usage.ru_stime, file=open(runs, 'a'))
END
}

host() {
	local round tokens side from
	for ((round = 0; round < ${ROUNDS:-3}; round++)); do
		for tokens in $prompts; do
			for side in full sparse shadow; do
				from=(--sparse-from 1)
				[ "$side" != full ] || from=()
				once "$side" "$tokens" "$bin/llm-bench" -m "$1" --placement fine --attention "$side" "${from[@]}" -p "$tokens" -n 0 \
					-r 1 -o json
			done
			# shellcheck disable=SC2086
			[ -z "${LLAMA_BENCH:-}" ] || once peer "$tokens" "$LLAMA_BENCH" -m "${PEER_MODEL:-$1}" -p "$tokens" -n 0 -r 1 -t 2 -o json \
				${PEER_OPTIONS:--fa 1 -w 0 -rtr 1}
		done
	done
	python3 - "$work/runs" <<'END'
import statistics, sys
runs = {}
for line in open(sys.argv[1]):
    side, tokens, speed, cpu = line.split()
    runs.setdefault((int(tokens), side), []).append((float(speed), float(cpu)))
median = {k: [statistics.median(v) for v in zip(*r)] for k, r in runs.items()}
print('| tokens | attention | tokens/s | times as fast | CPU time, s |\n|---:|---|---:|---:|---:|')
for (tokens, side), (speed, cpu) in median.items():
    print('| %d | %s | %.1f | %.2f | %.1f |' % (tokens, side, speed, speed / median[tokens, 'full'][0], cpu))
END
}

echo "| soc | model | tokens | attention | s | times as fast | energy, J | times less |"
echo "|---|---|---:|---|---:|---:|---:|---:|"
for profile in sd8gen3 sd8gen2; do phones "$profile"; done
[ $# -eq 0 ] || { echo; host "$1"; }
