#!/bin/bash
# SPDX-License-Identifier: MIT
# shadowAttn's method on a phone's SoC, and what the estimate finds of a model's greatest scores: the claims of
# docs/shadowattn.md, by build/experiments/shadowattn; and wrong command lines.
set -u
. tests/cli/common.bash

shadowattn=("$BUILD/experiments/shadowattn")
read_table='
lines = [[c.strip() for c in l.strip().strip("|").split("|")] for l in open(sys.argv[1])]
rows = [dict(zip(lines[0], l)) for l in lines[2:]]
policies = ["sequential", "overlap", "fused", "greedy", "insertion", "exhaustive"]
def groups():
    for key in dict.fromkeys((r["soc"], r["model"], r["tokens"], r["heads"], r["top-k"]) for r in rows):
        yield key, {r["policy"]: r for r in rows if (r["soc"], r["model"], r["tokens"], r["heads"], r["top-k"]) == key}
'

passes "plan" "${shadowattn[@]}" plan -p 1024,2048,4096
cp "$scratch/out" "$scratch/plan"
true_in_python "insertion is within 5 % of the best order of 8 heads, and no plan ends before that" "$read_table
for key, g in groups():
    if key[3] == '8':
        assert list(g) == policies, (key, list(g))
        assert float(g['insertion']['worst']) <= 1.05, (key, g['insertion'])
        assert g['exhaustive']['mean'] == g['exhaustive']['worst'] == '1.0000', key
        assert all(float(g[p]['mean']) >= 1 for p in policies[2:]), key
" "$scratch/plan"
true_in_python "insertion is within 5 % of what no order of all heads can beat, on average" "$read_table
n = 0
for key, g in groups():
    if key[3] != '8':
        assert list(g) == policies[:5] and g['insertion']['over'] == 'bound', (key, list(g))
        assert 1 <= float(g['insertion']['mean']) <= 1.05, (key, g['insertion'])
        n += 1
assert n == 24
" "$scratch/plan"
true_in_python "overlap gains, insertion more; algorithm 1 loses to it most where top-k has a core of its own" "$read_table
over = {'own core': [], 'shared core': []}
for key, g in groups():
    end = {p: float(r['end, ms']) for p, r in g.items()}
    assert end['overlap'] < end['sequential'] / 1.2 and end['insertion'] <= min(end['fused'], end['greedy']), (key, end)
    # Where attention takes far longer than estimates, single launches are as good.
    assert end['insertion'] <= 1.02 * end['overlap'], (key, end)
    over[key[4]].append(end['greedy'] / end['insertion'])
mean = {k: sum(v) / len(v) for k, v in over.items()}
assert mean['own core'] > mean['shared core'] > 1, mean
" "$scratch/plan"
true_in_python "fused launches take the NPU less time" "$read_table
for key, g in groups():
    assert float(g['fused']['NPU, ms']) < float(g['overlap']['NPU, ms']), key
    assert g['overlap']['launches'] == key[3] + '.0' and float(g['fused']['launches']) < int(key[3]), key
" "$scratch/plan"

passes "four cores" "${shadowattn[@]}" plan --shape phonelm-0.5b --cores four
true_in_python "with four cores the NPU takes the longest, and fused launches gain most" "$read_table
for key, g in groups():
    end = {p: float(r['end, ms']) for p, r in g.items()}
    assert end['overlap'] / end['fused'] > 1.1, (key, end)
    assert float(g['fused']['NPU, ms']) > 0.9 * end['fused'], (key, g['fused'])
" "$scratch/out"
passes "a shape of 8 heads" "${shadowattn[@]}" plan --shape gemma-2b -p 64
same "is planned once for each use of cores" "$(grep -c 'gemma-2b | 64 | 8 |' "$scratch/out")" 12
cut -d'|' -f1-15 "$scratch/out" >"$scratch/once"
passes "the same again" "${shadowattn[@]}" plan --shape gemma-2b -p 64
same "plans are the same on every run" "$(md5sum <"$scratch/once")" "$(cut -d'|' -f1-15 "$scratch/out" | md5sum)"

# ---- recall, of a file that is calibrated here ----

recall=("${shadowattn[@]}" recall)
read_recall='
lines = [[c.strip() for c in l.strip().strip("|").split("|")] for l in open(sys.argv[1])]
rows = {l[0]: dict(zip(("ratio", "estimate", "worst", "at", "blocks", "worst_blocks", "computed"), l)) for l in lines[2:]}
'
cat tests/data/docs6m/*.txt docs/*.md | head -c 30000 >"$scratch/text"
head -c 8000 docs/architecture.md >"$scratch/other"
passes "calibrating" "$bin/llm-quantize" --calibrate "$scratch/text" --calibrate-tokens 1024 --head-tokens 512 "$model" "$scratch/cal.gguf" q8_0
passes "recall" "${recall[@]}" --windows 2 "$scratch/cal.gguf" "$scratch/other"
cp "$scratch/out" "$scratch/recall"
true_in_python "the estimate finds nearly all of the greatest scores, and far more than blocks do" "$read_recall
assert list(rows) == ['0.2', '0.3', '0.4', '0.5', '0.8'], rows
for r in rows.values():
    assert 0.985 < float(r['estimate']) < 1 and float(r['worst']) <= float(r['estimate']), r
    assert float(r['worst_blocks']) < float(r['blocks']) < float(r['estimate']), r
assert float(rows['0.2']['blocks']) < 0.8 and float(rows['0.2']['computed']) > 1, rows
" "$scratch/recall"
compare_recall="$read_recall
one, other = rows['0.2'], {l.split('|')[1].strip(): l.split('|') for l in open(sys.argv[2])}['0.2']
assert one['blocks'] == other[5].strip(), (one, other)
less = float(other[2]) - float(one['estimate'])
"
passes "recall with one scale" "${recall[@]}" --windows 2 --ratio 0.2 --scale-buckets 1 "$scratch/cal.gguf" "$scratch/other"
true_in_python "one scale for all balanced heads finds as much, and blocks do not depend on it" "$compare_recall
assert abs(less) < 0.002, less
" "$scratch/out" "$scratch/recall"
# A file as it was before heads were balanced: the names of these keys are others.
LC_ALL=C sed 's/vnpu\.attention\.\(key_offsets\|balance\)/none.attention.\1/g' "$scratch/cal.gguf" >"$scratch/unbalanced.gguf"
passes "recall without balance" "${recall[@]}" --windows 2 --ratio 0.2 "$scratch/unbalanced.gguf" "$scratch/other"
cp "$scratch/out" "$scratch/unbalanced"
true_in_python "heads that are not balanced find less" "$compare_recall
assert 0.96 < float(one['estimate']) and less > 0.001, (one, less)
" "$scratch/unbalanced" "$scratch/recall"
passes "recall without balance, with one scale" "${recall[@]}" --windows 2 --ratio 0.2 --scale-buckets 1 "$scratch/unbalanced.gguf" "$scratch/other"
true_in_python "of which one scale for all heads finds less" "$compare_recall
assert less > 0, less
" "$scratch/out" "$scratch/unbalanced"
passes "recall of each head" "${recall[@]}" --windows 1 --ratio 0.3 --ratios uniform --by-head "$scratch/cal.gguf" "$scratch/other"
true_in_python "uniform ratios are those of all heads, whose mean is the table's" "
lines = [[c.strip() for c in l.strip().strip('|').split('|')] for l in open(sys.argv[1])]
heads = [l for l in lines if len(l) == 6][2:]
assert len(heads) == 48 and {l[3] for l in heads} == {'0.3000'}, heads
for column, mean in ((4, lines[2][1]), (5, lines[2][4])):
    assert abs(sum(float(l[column]) for l in heads) / 48 - float(mean)) < 1e-4, (column, mean)
assert min(float(l[4]) for l in heads) == float(lines[2][2]), lines[2]
" "$scratch/out"
passes "recall with every position kept" "${recall[@]}" --windows 1 --ratio 1 --ratios uniform "$scratch/cal.gguf" "$scratch/other"
same "leaves nothing to find" "$(tail -1 "$scratch/out")" "| 1 | 1.0000 | 1.0000 | 0, 0 | 1.0000 | 1.0000 | 1.00 |"
refuses "recall without a text" 2 "takes a model and a text" "${recall[@]}" "$scratch/cal.gguf"
refuses "recall of a file that is not calibrated" 1 "needs the scales of queries and keys" "${recall[@]}" "$model" "$scratch/other"
refuses "recall of a text that is too short" 1 "a window 4096: give a longer text" "${recall[@]}" --tokens 4096 "$scratch/cal.gguf" "$scratch/other"
refuses "recall of a ratio above 1" 2 "[-]-ratio" "${recall[@]}" --ratio 0.2,1.5 "$scratch/cal.gguf" "$scratch/other"
refuses "unknown ratios of heads" 2 "none of gain, head and uniform" "${recall[@]}" --ratios layer "$scratch/cal.gguf" "$scratch/other"
refuses "a number of buckets that is no odd square" 2 "4 scale buckets: choose" "${recall[@]}" --scale-buckets 4 "$scratch/cal.gguf" "$scratch/other"

refuses "no command" 2 "give one of plan" "${shadowattn[@]}"
refuses "an unknown command" 2 "give one of plan" "${shadowattn[@]}" order
refuses "another placement" 2 "llm.npu's placement is linear" "${shadowattn[@]}" plan --placement npu
refuses "an unknown shape" 1 "no-such-shape" "${shadowattn[@]}" plan --shape no-such-shape
refuses "cores that the SoC has not" 1 "profile sd8elite has no little core" "${shadowattn[@]}" plan --profile sd8elite --cores little
finish
