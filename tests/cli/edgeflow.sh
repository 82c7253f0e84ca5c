#!/bin/bash
# SPDX-License-Identifier: MIT
# EdgeFlow's method on a phone's SoC: the claims of docs/edgeflow.md, by build/experiments/edgeflow and llm-bench; and wrong command lines.
set -u
. tests/cli/common.bash

edgeflow=("$BUILD/experiments/edgeflow")
dry=("$bin/llm-bench" --dry-run)
read_table='
lines = [[c.strip() for c in l.strip().strip("|").split("|")] for l in open(sys.argv[1])]
rows = [dict(zip(lines[0], l)) for l in lines[2:]]
def steps(**of):
    return {r["step"]: r for r in rows if all(r[k] == v for k, v in of.items())}
def percent(r, lane):
    return float(r[lane + " bubbles"].rstrip(" %"))
'

passes "pipeline" "${edgeflow[@]}" pipeline
true_in_python "the position of a chunk fills the NPU's bubbles, and the CPU has many" "$read_table
for model in 'llama3-8b', 'qwen1.5-1.8b':
    for soc in 'sd8elite', 'sd8gen3':
        s = steps(soc=soc, model=model, tokens='1024')
        assert len(s) == 6 and percent(s['layer'], 'NPU') < percent(s['fine'], 'NPU') - 10, s
        assert float(s['layer']['ms']) < min(float(s['llm.npu']['ms']), float(s['fine']['ms']), float(s['chunk']['ms'])), s
s = steps(soc='sd8elite', model='llama3-8b', tokens='512')
assert abs(percent(s['layer'], 'CPU') - 65) < 5, s
" "$scratch/out"
true_in_python "a CPU of the paper's ratio takes tasks, and is less idle" "$read_table
for soc in 'sd8elite', 'sd8gen3':
    for tokens in '512', '1024':
        s = steps(soc=soc, model='llama3-8b', tokens=tokens)
        assert s['steal, 5']['CPU / NPU'] == '5.0' and int(s['steal, 5']['taken']) > 50
        assert percent(s['steal, 5'], 'CPU') < percent(s['layer'], 'CPU') - 20
        assert float(s['steal, 5']['ms']) < float(s['layer']['ms'])
assert all(r['taken'] == '0' for r in rows if not r['step'].startswith('steal'))
" "$scratch/out"
passes "pipeline of short chunks" "${edgeflow[@]}" pipeline --profile sd8elite --shape llama3-8b -p 1024 --chunk 64
cp "$scratch/out" "$scratch/short"
# 1024 rows of activations are those of 16 chunks of 64, or of 8 of 128, and of half of 2048 tokens.
passes "the same by the preset" "${dry[@]}" --shape llama3-8b --profile sd8elite --preset edgeflow --order layer,chunk,steal --start warm -p 1024 -n 0 --chunk 64 -o json
true_in_python "which takes tasks too, and as long" "$read_table
steps = {r['step']: r for r in rows if r['model'] == 'llama3-8b'}
assert int(steps['steal']['taken']) > 50
for r in json.load(open(sys.argv[2])):
    assert round(r['avg_ns'] / 1e6) == int(steps[r['order']]['ms']), (r, steps)
" "$scratch/short" "$scratch/out"
passes "pipeline of more chunks than are in flight" "${edgeflow[@]}" pipeline --profile sd8elite --shape llama3-8b -p 1024,2048
cp "$scratch/out" "$scratch/long"
passes "the same by the preset with each order" "${dry[@]}" --shape llama3-8b --profile sd8elite --preset edgeflow --order layer,chunk,steal --start warm -p 1024,2048 -n 0 --chunk 128 -o json
true_in_python "takes as long" "$read_table
got = json.load(open(sys.argv[2]))
assert len(got) == 6, got
for r in got:
    s = steps(tokens=str(r['n_prompt']))[r['order']]
    assert round(r['avg_ns'] / 1e6) == int(s['ms']), (r, s)
" "$scratch/long" "$scratch/out"

# Quantising with a known scale takes the CPU less than finding each row's and its outliers.
passes "the paper's activations" "${dry[@]}" --shape llama3-8b --profile sd8elite --preset edgeflow --start warm --activations row-outliers,static,static-max -p 512 -n 0 -o json
true_in_python "have one scale, and static ones shadow outliers too" "
ns = {r['activations']: r['avg_ns'] * r['busy_cpu'] for r in json.load(open(sys.argv[1]))}
assert ns['static-max'] < ns['static'] < ns['row-outliers'], ns
" "$scratch/out"

passes "cold starts" "${edgeflow[@]}" start --profile sd8elite -p 128,1024
cp "$scratch/out" "$scratch/start"
true_in_python "llm.npu waits for graphs, k-quants for the CPU, and EdgeFlow for storage" "$read_table
for model in 'llama3-8b', 'qwen1.5-1.8b':
    old = steps(model=model, tokens='128', bits='8')
    assert list(old) == ['cpu', 'llm.npu', 'materialised', 'overlapped', 'file'], old
    ms = {step: float(r['ms']) for step, r in old.items()}
    assert ms['llm.npu'] > 3 * ms['materialised'] > 3 * ms['overlapped'] > 9 * ms['file'], ms
    assert percent(old['overlapped'], 'NPU') > 90
    for bits in '4', '5', '6', '7':
        new = steps(model=model, tokens='128', bits=bits)
        assert percent(new['quantised'], 'CPU') < 13 and float(new['quantised']['ms']) > ms['file'], new
        assert percent(new['packed'], 'storage') < 2 and float(new['stealing']['ms']) < ms['file'], new
        # The output matrix has 8 bits.
        assert float(new['packed']['storage, ms']) < float(old['file']['storage, ms']) * (int(bits) + 2) / 8
" "$scratch/out"
true_in_python "the position of a chunk fills bubbles of long prompts, and of short ones storage is all" "$read_table
for bits in '4', '5', '6', '7':
    long, short = (steps(model='llama3-8b', tokens=tokens, bits=bits) for tokens in ('1024', '128'))
    assert percent(long['priority'], 'NPU') < percent(long['placement'], 'NPU') - 10, long
    assert len({short[s]['ms'] for s in ('packed', 'placement', 'priority', 'stealing')}) == 1, short
mean, = [r for r in rows if (r['tokens'], r['bits'], r['model']) == ('all', '5', 'llama3-8b')]
each = [float(steps(model='llama3-8b', tokens=tokens, bits='5')['stealing']['over file']) for tokens in ('128', '1024')]
assert abs(float(mean['over file']) - math.sqrt(each[0] * each[1])) < 0.01, (mean, each)
" "$scratch/out"
passes "the same from a file of 5 bits, as the preset has it" "${dry[@]}" --shape llama3-8b --profile sd8elite --preset edgeflow --bits 5 -p 128,1024 -n 0 --chunk 128 -o json
true_in_python "takes as long" "$read_table
for r in json.load(open(sys.argv[2])):
    s, = [s for s in rows if (s['model'], s['bits'], s['tokens'], s['step']) == ('llama3-8b', '5', str(r['n_prompt']), 'stealing')]
    assert round(r['avg_ns'] / 1e6) == int(s['ms']) and r['start'] == 'cold', (r['avg_ns'], s)
" "$scratch/start" "$scratch/out"

# A phone's NPU has no adaptive weights.
passes "a file of 5 bits" "$bin/llm-quantize" "$model" "$scratch/a5.gguf" adaptive --bits 5
edge=(--preset edgeflow -p 64 -n 0 -r 1 -o json)
passes "on the wall clock" "$bin/llm-bench" -m "$scratch/a5.gguf" --transport sim "${edge[@]}"
cp "$scratch/out" "$scratch/wall"
passes "by the virtual clock" "$bin/llm-bench" -m "$scratch/a5.gguf" --transport sim --profile sd8elite "${edge[@]}"
cp "$scratch/out" "$scratch/virtual"
passes "in a dry run of the file" "$bin/llm-bench" -m "$scratch/a5.gguf" --dry-run --profile sd8elite "${edge[@]}"
cp "$scratch/out" "$scratch/dry"
passes "in a dry run of a shape" "${dry[@]}" --shape llama3-8b --profile sd8elite --bits 5 "${edge[@]}"
true_in_python "the CPU unpacks it but on the wall clock" "
wall, virtual, dry, shape = (json.load(open(f))[0] for f in sys.argv[1:])
assert wall['weights'] == 'adaptive'
assert virtual['weights'] == dry['weights'] == shape['weights'] == 'w8a8'
pack = [r['cold_breakdown']['pack_ms'] for r in (virtual, dry)]
assert pack[0] == pack[1] > 0.5, pack
" "$scratch/wall" "$scratch/virtual" "$scratch/dry" "$scratch/out"

refuses "no command" 2 "give one of pipeline, start" "${edgeflow[@]}"
refuses "files of no bits" 2 "--bits" "${edgeflow[@]}" start --bits 0
refuses "an unknown command" 2 "give one of pipeline" "${edgeflow[@]}" lunch
refuses "another placement" 2 "edgeflow's placement is fine" "${edgeflow[@]}" pipeline --placement npu
refuses "an unknown SoC" 1 "no-such-soc" "${edgeflow[@]}" pipeline --profile no-such-soc
refuses "order steal with another placement" 2 "placement npu has no order steal: choose placement fine" \
	"${dry[@]}" --shape qwen1.5-1.8b --placement npu --order steal -p 64
finish
