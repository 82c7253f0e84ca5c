#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/coordgen.sh [TEXT...]
# Prints what drafts bring to the embedded model: a table of the modelled phone and one of this host, for tasks that tests/bench/tasks.py
# makes of the texts (default: those in tests/data/tasks.jsonl); and what they cost where nothing that is drafted comes true, because
# the tokens are random. Plain decoding takes turns with each. See docs/coordgen.md.
#
#   BUILD     the folder of bin/ (build)
#   MODEL     a GGUF file (the embedded model)
#   TASKS     of each kind, from texts (8)
#   DRAFTS    pld,sam,calibrated,reuse,coordgen
#   ROUNDS    repetitions, and runs with random tokens (5)
#   PROFILE   the modelled phone (sd8gen3)
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(realpath -m "${BUILD:-$root/build}")/bin
model=${MODEL:-$root/share/models/docs6m/docs6m-q8_0.gguf}
rounds=${ROUNDS:-5}
fail() { echo "coordgen.sh: $*" >&2; exit 1; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
tasks=$root/tests/data/tasks.jsonl
if [ $# -gt 0 ]; then
	tasks=$work/tasks
	python3 "$root/tests/bench/tasks.py" -n "${TASKS:-8}" -c 600 "$@" >"$tasks" || fail "no tasks of $*"
fi

# table TITLE OPTIONS...
table() {
	"$bin/llm-bench" -m "$model" --tasks "$tasks" --draft "${DRAFTS:-pld,sam,calibrated,reuse,coordgen}" -o json "${@:2}" \
		>"$work/json" 2>"$work/log" || fail "$(<"$work/log")"
	python3 - "$work/json" "$1" <<'END'
import json, sys
rows = json.load(open(sys.argv[1]))
kinds = list(dict.fromkeys(r['task'] for r in rows))
print(f"\n| {sys.argv[2]} | tokens a step | nodes | " + " | ".join(kinds) + " | all | drafting, us a step |")
print("|---|" + "---:|" * (len(kinds) + 4))
for draft in dict.fromkeys(r['draft'] for r in rows):
    of = [r for r in rows if r['draft'] == draft]
    tokens = sum(r['n_gen'] for r in of)
    steps = sum(r['n_gen'] / r['accepted_per_step'] for r in of)
    nodes = sum(r['draft_nodes'] * r['n_gen'] / r['accepted_per_step'] for r in of)
    all_of = lambda name: sum(r[name] * r['n_gen'] for r in of)
    gains = [r['plain_token_ms'] / r['token_ms'] for r in of] + [all_of('plain_token_ms') / all_of('token_ms')]
    print(f"| {draft} | {tokens / steps:.2f} | {nodes / steps:.1f} | " + " | ".join(f"{g:.2f}" for g in gains) +
          f" | {1e3 * sum(r['draft_ms'] for r in of) / len(of):.1f} |")
END
}

# random DRAFT SEED: milliseconds for a token, with drafting.
random() {
	"$bin/llm-cli" -m "$model" -p "The kernel" -n 400 --temp 4 --top-k 0 --top-p 1 --min-p 0 --ignore-eos --seed "$2" --draft "$1" --stats \
		2>&1 >"$work/text.$1" | python3 -c "
import re, sys
text = sys.stdin.read()
draft = re.search(r'([0-9.]+) ms a token', text)
n, s = re.search(r'decode +([0-9]+) tokens in ([0-9.]+) s', text).groups()
print(draft.group(1) if draft else 1e3 * float(s) / int(n))"
}

table "${PROFILE:-sd8gen3}, gain" --clock virtual --profile "${PROFILE:-sd8gen3}" -r 1 --no-warmup
table "this host, gain" -r "$rounds"
for ((seed = 0; seed < rounds; seed++)); do
	echo "$(random none "$seed") $(random coordgen "$seed") $(random none "$seed")"
	cmp -s "$work/text.none" "$work/text.coordgen" || fail "other random tokens"
done >"$work/random"
python3 - "$work/random" <<'END'
import statistics, sys
rows = [list(map(float, line.split())) for line in open(sys.argv[1])]
ratios = [d / ((a + b) / 2) for a, d, b in rows]
print(f"\nrandom tokens: coordgen takes {statistics.median(ratios):.3f} times as long as plain decoding ({min(ratios):.3f} to {max(ratios):.3f})")
END
