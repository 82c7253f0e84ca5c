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
passes "the same by the preset" "${dry[@]}" --shape llama3-8b --profile sd8elite --preset edgeflow -p 1024 -n 0 --chunk 64 -o json
true_in_python "which takes tasks too, and as long" "$read_table
r, = json.load(open(sys.argv[2]))
s, = (r for r in rows if r['step'] == 'steal')
assert int(s['taken']) > 50 and r['order'] == 'steal' and round(r['avg_ns'] / 1e6) == int(s['ms']), (r, s)
" "$scratch/short" "$scratch/out"

refuses "no command" 2 "give one of pipeline" "${edgeflow[@]}"
refuses "an unknown command" 2 "give one of pipeline" "${edgeflow[@]}" lunch
refuses "another placement" 2 "edgeflow's placement is fine" "${edgeflow[@]}" pipeline --placement npu
refuses "an unknown SoC" 1 "no-such-soc" "${edgeflow[@]}" pipeline --profile no-such-soc
refuses "order steal with another placement" 1 "placement npu has no order steal: choose placement fine" \
	"${dry[@]}" --shape qwen1.5-1.8b --placement npu --order steal -p 64
finish
