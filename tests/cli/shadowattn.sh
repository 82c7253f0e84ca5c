#!/bin/bash
# SPDX-License-Identifier: MIT
# shadowAttn's method on a phone's SoC: the claims of docs/shadowattn.md, by build/experiments/shadowattn; and wrong command lines.
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

refuses "no command" 2 "give one of plan" "${shadowattn[@]}"
refuses "an unknown command" 2 "give one of plan" "${shadowattn[@]}" order
refuses "another placement" 2 "llm.npu's placement is linear" "${shadowattn[@]}" plan --placement npu
refuses "an unknown shape" 1 "no-such-shape" "${shadowattn[@]}" plan --shape no-such-shape
refuses "cores that the SoC has not" 1 "profile sd8elite has no little core" "${shadowattn[@]}" plan --profile sd8elite --cores little
finish
