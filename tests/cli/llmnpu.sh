#!/bin/bash
# SPDX-License-Identifier: MIT
# Placement linear on a phone's SoC: the claims of docs/llm.npu.md, by build/experiments/llmnpu and llm-bench; and wrong command lines.
set -u
. tests/cli/common.bash

llmnpu=("$BUILD/experiments/llmnpu")
dry=("$bin/llm-bench" --dry-run)
read_table='
lines = [[c.strip() for c in l.strip().strip("|").split("|")] for l in open(sys.argv[1])]
rows = [dict(zip(lines[0], l)) for l in lines[2:]]
'

passes "the anchor's prompt" "${dry[@]}" --shape qwen1.5-1.8b --preset llm.npu --floats cpu,norms,npu -p 256 -n 0 -o jsonl
# The CPU is fitted to half of 315 ms (3.4). Taking turns with it leaves the NPU idle for a third of the time, not for 37 %.
true_in_python "floats cpu is nearest to llm.npu 3.4: 315 ms of the NPU, which is idle for 37 %" "
rows = {r['floats']: r for r in map(json.loads, open(sys.argv[1]))}
npu = {f: r['avg_ns'] / 1e6 * r['busy_npu'] for f, r in rows.items()}
assert min(npu, key=lambda f: abs(npu[f] - 315)) == 'cpu' and abs(npu['cpu'] / 315 - 1) < 0.1, npu
assert min(rows, key=lambda f: abs(rows[f]['bubble_npu'] - 0.37)) == 'cpu' and abs(rows['cpu']['bubble_npu'] - 1/3) < 0.02
" "$scratch/out"

passes "subgraphs" "${llmnpu[@]}" subgraphs --shape qwen1.5-1.8b
true_in_python "120 of 144 subgraphs can be shared (llm.npu 3.2)" "$read_table
norms, = [r for r in rows if r['floats'] == 'norms']
assert (norms['subgraphs'], norms['shared']) == ('144', '120'), norms
for r in rows:
    assert float(r['position a param, GB']) < float(r['shared, GB']) < float(r['graphs a chunk, GB'])
" "$scratch/out"
passes "a chunk of the whole prompt shares nothing" "${llmnpu[@]}" subgraphs --shape qwen1.5-1.8b --chunk 1024
true_in_python "and saves nothing" "$read_table
assert all(r['chunks'] == '1' and r['saved'] == '0 %' for r in rows), rows
" "$scratch/out"

passes "what fits" "${llmnpu[@]}" fits --shape qwen1.5-1.8b,llama2-7b
true_in_python "the FFN goes first" "$read_table
small, large = rows
assert small['of the multiply-adds'] == '100 %' and large['attn_output'] == '0' and large['gate_up, layers'] == '32'
assert float(large['on the NPU, GB']) <= 2**32 / 1e9
" "$scratch/out"

passes "steps" "${llmnpu[@]}" steps
true_in_python "each of llm.npu's steps is faster than the one before it" "$read_table
for model in {r['model'] for r in rows}:
    ms = {r['step']: float(r['ms']) for r in rows if r['model'] == model}
    assert ms['naive'] > ms['sharing'] > ms['shadow'] > ms['chunk'] > ms['ooe'], (model, ms)
assert all(float(r['decision, ns']) > 0 for r in rows)
" "$scratch/out"

passes "merging" "${llmnpu[@]}" merging --shape qwen1.5-1.8b -p 256,1024
true_in_python "fewer pruned inputs take longer" "$read_table
for tokens in '256', '1024':
    of = [r for r in rows if r['tokens'] == tokens]
    assert [float(r['ms']) for r in of] == sorted(float(r['ms']) for r in of) and len(of) == 4
    assert [float(r['J']) for r in of] == sorted(float(r['J']) for r in of)
" "$scratch/out"
passes "chunks" "${llmnpu[@]}" chunks --shape qwen1.5-1.8b --profile sd8gen2,sd8gen3 -p 512
true_in_python "a chunk of all tokens has no order, and a longer one is padded" "$read_table
assert [r['soc'] for r in rows] == ['sd8gen2'] * 2 + ['sd8gen3'] * 2
assert all(a['512, ms'] == b['512, ms'] and float(a['512, ms']) < float(a['1024, ms']) for a, b in zip(rows[::2], rows[1::2])), rows
" "$scratch/out"

# The same by llm-bench.
passes "orders" "${dry[@]}" --shape llama2-7b --preset llm.npu --order fifo,chunk,layer,ooe,auto -p 1024 -n 0 -o jsonl
true_in_python "auto is ooe, and the fastest here" "
ns = {r['order']: r['avg_ns'] for r in map(json.loads, open(sys.argv[1]))}
assert ns['auto'] == ns['ooe'] == min(ns.values()) and ns['fifo'] == max(ns.values()), ns
" "$scratch/out"

# 8 chunks, of which 4 are in flight; and 8 shorter ones, which are all in flight.
for chunk in 256:2048 128:1024; do
	read -r rows tokens <<<"${chunk/:/ }"
	passes "steps of 8 chunks of $rows" "${llmnpu[@]}" steps --shape llama2-7b --chunk "$rows" -p "$tokens"
	cp "$scratch/out" "$scratch/steps"
	passes "the same by the preset" "${dry[@]}" --shape llama2-7b --preset llm.npu --order fifo,chunk,layer,ooe --chunk "$rows" -p "$tokens" -n 0 -o json
	true_in_python "takes as long, whatever the order" "$read_table
steps = {r['step']: r for r in rows}
steps['fifo'] = steps['shadow']
got = json.load(open(sys.argv[2]))
assert len(got) == 4, got
for r in got:
    assert round(r['avg_ns'] / 1e6) == int(steps[r['order']]['ms']), (r, steps)
" "$scratch/steps" "$scratch/out"
done

# Of Llama-2-7B the NPU has 65 % of the weights; both lanes read at nearly the same rate.
passes "tokens with the NPU's space" "${dry[@]}" --shape llama2-7b --preset llm.npu --space all,limited -p 0 -n 16 -o json
true_in_python "the CPU has the weights for which there is no room, of tokens too" "
all, limited = json.load(open(sys.argv[1]))
assert all['busy_cpu'] < 0.05 and limited['avg_ns'] > all['avg_ns'], (all, limited)
assert abs(limited['avg_ns'] * limited['busy_npu'] / (all['avg_ns'] * all['busy_npu']) - 0.65) < 0.03, (all, limited)
assert 0.3 < limited['busy_cpu'] < 0.45 and limited['busy_cpu'] + limited['busy_npu'] < 1.001, limited
" "$scratch/out"

refuses "no command" 2 "give one of subgraphs, fits" "${llmnpu[@]}"
refuses "an unknown command" 2 "give one of subgraphs, fits" "${llmnpu[@]}" lunch
refuses "another placement" 2 "llm.npu's placement is linear" "${llmnpu[@]}" steps --placement npu
refuses "an unknown shape" 1 "no-such-shape" "${llmnpu[@]}" steps --shape no-such-shape
refuses "an unknown SoC" 1 "no-such-soc" "${llmnpu[@]}" steps --profile no-such-soc
refuses "graphs fixed, which linear calls shared" 2 "placement linear has no graphs fixed: choose placement fine" \
	"${dry[@]}" --shape qwen1.5-1.8b --placement linear --graphs fixed -p 64
refuses "static activations with another placement" 2 "placement npu has no activations static: choose placement fine or linear" \
	"${dry[@]}" --shape qwen1.5-1.8b --placement npu --activations static -p 64
finish
