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

drafts=${DRAFTS:-pld,sam,calibrated,reuse,coordgen}

# table TITLE ROUNDS OPTIONS... Drafts take turns, as they do in beginning a round; figures are medians of the rounds.
table() {
	local first=$drafts
	rm -f "$work"/json.*
	for ((round = 0; round < $2; round++)); do
		"$bin/llm-bench" -m "$model" --tasks "$tasks" --draft "$first" -r 1 -o json "${@:3}" >"$work/json.$round" 2>"$work/log" ||
			fail "$(<"$work/log")"
		[[ $first = *,* ]] && first=${first#*,},${first%%,*}
	done
	python3 - "$1" "$drafts" "$work"/json.* <<'END'
import json, statistics, sys
rounds = [{(r['draft'], r['task']): r for r in json.load(open(name))} for name in sys.argv[3:]]
drafts = sys.argv[2].split(',')
kinds = list(dict.fromkeys(task for _, task in rounds[0]))
median = statistics.median
total = lambda r, draft, name: sum(r[draft, k][name] * r[draft, k]['n_gen'] for k in kinds)
gain = lambda r, draft: total(r, draft, 'plain_token_ms') / total(r, draft, 'token_ms')
steps = lambda r, draft: sum(r[draft, k]['n_gen'] / r[draft, k]['accepted_per_step'] for k in kinds)
def a_step(r, draft, value):
    return sum(value(r[draft, k]) * r[draft, k]['n_gen'] / r[draft, k]['accepted_per_step'] for k in kinds) / steps(r, draft)
print(f"\n| {sys.argv[1]} | tokens a step | nodes | " + " | ".join(kinds) + " | all | drafting, us a step |")
print("|---|" + "---:|" * (len(kinds) + 4))
for d in drafts:
    print(f"| {d} | {median(a_step(r, d, lambda x: x['accepted_per_step']) for r in rounds):.2f}"
          f" | {median(a_step(r, d, lambda x: x['draft_nodes']) for r in rounds):.1f} | "
          + " | ".join(f"{median(r[d, k]['plain_token_ms'] / r[d, k]['token_ms'] for r in rounds):.2f}" for k in kinds)
          + f" | {median(gain(r, d) for r in rounds):.2f}"
          f" | {median(1e3 * a_step(r, d, lambda x: x['draft_ms']) for r in rounds):.1f} |")
if len(rounds) > 1:
    for d in drafts[1:]:
        to_first = sorted(gain(r, d) / gain(r, drafts[0]) for r in rounds)
        print(f"{d} gains {median(to_first):.3f} times what {drafts[0]} does ({to_first[0]:.3f} to {to_first[-1]:.3f}; "
              f"more in {sum(x > 1 for x in to_first)} of {len(rounds)} rounds)")
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

table "${PROFILE:-sd8gen3}, gain" 1 --clock virtual --profile "${PROFILE:-sd8gen3}" --no-warmup
table "this host, gain" "$rounds"
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
