#!/bin/bash
# SPDX-License-Identifier: MIT
# llm-bench on a phone's SoC: dry runs and their timelines, models on the virtual clock, and the calibration.
set -u
. tests/cli/common.bash

dry=("$bin/llm-bench" --dry-run)
# names GREP-OPTION: of the shapes that have experts (-l) or none (-L), separated by commas
names() { (cd share/shapes && grep "$1" '^experts' ./*.conf | sed 's|.*/||; s|\.conf$||' | paste -sd,); }
shapes=$(names -L)

passes "a dry run" "${dry[@]}" --shape llama3.2-1b --preset all -p 256 -n 4 -o json
cp "$scratch/out" "$scratch/json"
true_in_python "has the fields of the simulation" "
rows = json.load(open(sys.argv[1]))
assert {(r['preset'], r['n_prompt']) for r in rows} == {(p, n) for p in ('cpu', 'npu', 'fine', 'gpu', 'hetero-layer', 'hetero-tensor', 'best', 'llm.npu', 'edgeflow', 'shadowattn', 'coordgen')
    for n in (256, 0)}, rows
for r in rows:
    assert r['clock'] == 'virtual' and r['profile'] == 'sd8gen3' and r['model_filename'] is None
    assert len(r['samples_ns']) == 1 and r['samples_ns'][0] > 0 and r['stddev_ns'] is None
    assert r['decision_ns'] > 0
    assert r['energy_j'] > 0 and abs(r['power_w'] - r['energy_j'] * 1e9 / r['avg_ns']) < 1e-9 * r['power_w']
    assert 0 < r['memory_gbps'] <= 60
    lanes = [r['busy_npu'], r['busy_gpu'], r['busy_cpu'], r['busy_storage']]
    assert all(0 <= b <= 1 + 1e-9 for b in lanes) and sum(lanes) > 0.9
    for b, bubble in zip(lanes, [r['bubble_npu'], r['bubble_gpu'], r['bubble_cpu'], r['bubble_storage']]):
        assert bubble is None if b == 0 else abs(bubble - (1 - b)) < 1e-9
    for k in 'transport output_sha256 recall npu_submits driver_waits n_threads'.split():
        assert r[k] is None, (k, r[k])
    assert r['peak_memory_bytes'] > r['model_size'] > 6e8
    assert r['partition'] == {'hetero-layer': 'none', 'hetero-tensor': 'auto', 'best': 'auto'}.get(r['preset'])
by = {(r['preset'], r['n_prompt']): r for r in rows}
assert by['npu', 0]['busy_gpu'] == 0 and by['gpu', 0]['busy_npu'] == 0 and by['cpu', 0]['busy_npu'] == 0
assert by['npu', 0]['npu_jobs'] == 4 and by['cpu', 0]['npu_jobs'] == 0
" "$scratch/json"
passes "a prompt of one token" "${dry[@]}" --shape llama3.2-1b --placement cpu,npu,fine,gpu,layer -p 1 -n 1 -o jsonl
true_in_python "costs as much as a generated token" "
rows = [json.loads(l) for l in open(sys.argv[1])]
by = {(r['placement'], r['n_prompt']): r['avg_ns'] for r in rows}
assert len(by) == 10 and all(by[p, 1] == by[p, 0] > 0 for p, n in by), by
" "$scratch/out"
passes "cores of the CPU lane" "${dry[@]}" --shape qwen2.5-0.5b --placement cpu --weights f16 --cores four,big,middle,little -p 64 -n 0 -o jsonl
true_in_python "differ in speed and power" "
r = {r['cores']: r for r in (json.loads(l) for l in open(sys.argv[1]))}
assert r['four']['avg_ts'] > r['big']['avg_ts'] > r['middle']['avg_ts'] > r['little']['avg_ts'], r
assert r['four']['power_w'] > r['big']['power_w'] > r['middle']['power_w'] > r['little']['power_w'], r
" "$scratch/out"
refuses "a core that the SoC lacks" 1 "no little core" "${dry[@]}" --shape qwen2.5-0.5b --profile sd8elite --placement cpu --cores little -p 8
passes "the same dry run again" "${dry[@]}" --shape llama3.2-1b --preset all -p 256 -n 4 -o json
same "a dry run can be repeated to the nanosecond" "$(grep -A1 samples_ns "$scratch/out")" "$(grep -A1 samples_ns "$scratch/json")"
run "${dry[@]}" --shape qwen1.5-moe-a2.7b --preset fine,llm.npu,hetero-tensor -p 64 -n 2 -o json
same "a preset that is refused does not end the run" "$rc $(grep -c '^llm-bench: ' "$scratch/err") $(wc -l <"$scratch/err")" "1 2 2"
true_in_python "the others are measured" "
assert {r['preset'] for r in json.load(open(sys.argv[1]))} == {'fine'}" "$scratch/out"
passes "every shape with three presets" "${dry[@]}" --shape "$shapes" --preset cpu,gpu,npu -p 64,128,256,512,1024 -n 0 -o jsonl
same "is one test each" "$(wc -l <"$scratch/out")" "$(($(wc -w <<<"${shapes//,/ }") * 15))"
passes "shapes with experts" "${dry[@]}" --shape "$(names -l)" --placement cpu,fine -p 256 -n 16 -o jsonl
true_in_python "are as large as their card says" "
rows = [json.loads(l) for l in open(sys.argv[1])]
assert len(rows) == 4 and {r['model_type'] for r in rows} == {'qwen1.5-moe-a2.7b'}
fine = {r['n_prompt']: r for r in rows if r['placement'] == 'fine'}
# The card's 14.3 thousand million parameters, of which a token takes 2.7.
assert 14e9 < fine[0]['model_n_params'] < 14.6e9, fine[0]['model_n_params']
assert 2.6e9 < fine[0]['model_n_params_active'] < 2.8e9, fine[0]['model_n_params_active']
assert fine[256]['avg_ts'] > fine[0]['avg_ts'], fine
" "$scratch/out"
for profile in share/profiles/*.conf; do
	passes "profile $profile" "${dry[@]}" --shape qwen2.5-0.5b --profile "$profile" -p 64 -n 0
done
passes "--sync driver and fast" "${dry[@]}" --shape qwen2.5-0.5b --sync driver,fast -p 0 -n 2 -o jsonl
true_in_python "fast is faster" "
a, b = (json.loads(l) for l in open(sys.argv[1]))
assert (a['sync'], b['sync']) == ('driver', 'fast') and a['avg_ns'] > 1.5 * b['avg_ns']
" "$scratch/out"

passes "cold and warm starts" "${dry[@]}" --shape qwen2.5-0.5b --placement fine,npu -p 32 -n 0 --start warm,cold -o json
true_in_python "a cold start waits for storage, which reads all weights" "
rows = {(r['placement'], r['start']): r for r in json.load(open(sys.argv[1]))}
for place in ('fine', 'npu'):
    warm, cold = rows[place, 'warm'], rows[place, 'cold']
    assert warm['busy_storage'] == 0 and cold['busy_storage'] > 0.5, (place, cold['busy_storage'])
    # At 2.65 GB/s the 494 million weights take 186 ms.
    assert 185e6 < cold['avg_ns'] * cold['busy_storage'] < 188e6, cold['avg_ns'] * cold['busy_storage']
    assert max(warm['avg_ns'], 185e6) < cold['avg_ns'] < warm['avg_ns'] + 190e6, place
    c = cold['cold_breakdown']
    assert warm['cold_breakdown'] is None and c['ms'] * 1e6 == cold['avg_ns'] and abs(c['energy_j'] - cold['energy_j']) < 1e-9
    assert abs(c['lanes']['storage']['read_ms'] * 1e6 - cold['avg_ns'] * cold['busy_storage']) < 1e4
    assert 493e6 < c['read_bytes'] < 495e6 and c['cached_bytes'] == 0 and c['memory']['weights']['peak_bytes'] == c['read_bytes']
    # Without weights to wait for, all is computed as fast as warm, but for handovers and the memory that storage takes.
    assert 0.8 * warm['avg_ns'] < c['compute_ms'] * 1e6 < 1.1 * warm['avg_ns'], (c['compute_ms'], warm['avg_ns'])
    assert c['memory']['ring']['peak_bytes'] <= c['memory']['ring']['bound_bytes'] < 494e6 / 39, c['memory']" "$scratch/out"
passes "a timeline of a cold start" "${dry[@]}" --shape qwen2.5-0.5b --preset edgeflow -p 32 -n 1 --timeline "$scratch/trace" -o json
true_in_python "counts what has been read and what is in memory" "
trace, bench = (json.load(open(f)) for f in sys.argv[1:])
prompts = [e for e in trace['traceEvents'] if e['pid'] == 1]
cold = bench[0]['cold_breakdown']
counters = {name: [e for e in prompts if e['ph'] == 'C' and e['name'] == name] for name in ('bytes in memory', 'bytes read')}
loads = [e for e in prompts if e['ph'] == 'X' and e['name'] in ('read', 'pack')]
for name, events in counters.items():
    assert [e['ts'] for e in events] == sorted(e['ts'] for e in events) and len(events) == len(loads) > 600, (name, len(events))
read = [e['args']['weights'] for e in counters['bytes read']]
assert read == sorted(read) and read[-1] == cold['read_bytes']
memory = [e['args'] for e in counters['bytes in memory']]
assert [m['weights'] for m in memory] == sorted(m['weights'] for m in memory)
assert memory[-1]['weights'] == cold['memory']['weights']['peak_bytes'] and memory[-1]['read, not packed'] == 0
assert 0 < max(m['read, not packed'] for m in memory) <= cold['memory']['ring']['peak_bytes']
assert {(m['KV cache'], m['activations']) for m in memory} == {(cold['memory'][k]['peak_bytes'], cold['memory'][a]['peak_bytes']) for k, a in [('kv', 'activations')]}
" "$scratch/trace" "$scratch/out"

passes "a start from a file of 5 bits" "${dry[@]}" --shape qwen2.5-0.5b --profile sd8elite --placement fine --start cold --bits 5 --weights w8a8,adaptive -p 32 -n 0 -o json
true_in_python "reads them, and unpacks them only for INT8" "
w8a8, adaptive = json.load(open(sys.argv[1]))
assert w8a8['model_size'] == adaptive['model_size'] < 494e6 * 6 / 8
ms = {r['weights']: {lane: r['avg_ns'] * r['busy_' + lane] / 1e6 for lane in ('storage', 'cpu')} for r in (w8a8, adaptive)}
assert abs(ms['w8a8']['storage'] - ms['adaptive']['storage']) < 1, ms
# The 358 million weights of the layers at 7.7e9 a second.
assert 46 < ms['w8a8']['cpu'] - ms['adaptive']['cpu'] < 50, ms
" "$scratch/out"

passes "a timeline" "${dry[@]}" --shape qwen2.5-0.5b --preset fine -p 64 -n 2 --timeline "$scratch/trace"
true_in_python "has all lanes, nested or disjoint slices, and flows" "
trace = json.load(open(sys.argv[1]))['traceEvents']
names = {(e['pid'], e['tid']): e['args']['name'] for e in trace if e['name'] == 'thread_name'}
processes = [e['args']['name'] for e in trace if e['name'] == 'process_name']
assert processes == ['qwen2.5-0.5b fine w8a8 pp64', 'qwen2.5-0.5b fine w8a8 tg2'], processes
assert {n for (p, t), n in names.items() if p == 1} == {'npu', 'gpu', 'cpu', 'storage'}
slices = [e for e in trace if e['ph'] == 'X']
tasks = [e for e in slices if e['name'] != 'start']
assert len(tasks) == 3 * (1 + 24 * 10 + 2), len(tasks)
for key in names:
    end = -1
    for e in sorted((e for e in tasks if (e['pid'], e['tid']) == key), key=lambda e: e['ts']):
        assert e['ts'] >= end - 1e-6 and e['dur'] >= 0
        end = e['ts'] + e['dur']
flows = [e for e in trace if e['ph'] == 's']
assert len(flows) == len([e for e in trace if e['ph'] == 'f']) > 24
assert {e['args']['layer'] for e in tasks} == set(range(25))
" "$scratch/trace"

# Jitter: the seed determines the timeline.
for run in "--dry-run --shape qwen2.5-0.5b --preset fine -p 64 -n 2 -r 3" "-m $model --transport sim --clock virtual --preset fine -p 24 -n 2 -r 3"; do
	passes "varying durations: $run" "$bin/llm-bench" $run -o jsonl --jitter 0.2 --seed 7 --timeline "$scratch/trace.7"
	cp "$scratch/trace.7" "$scratch/first"
	true_in_python "vary between repetitions" "
for line in open(sys.argv[1]):
    r = json.loads(line)
    assert len(set(r['samples_ns'])) == 3 and 0 < r['stddev_ns'] < 0.2 * r['avg_ns'], r
" "$scratch/out"
	passes "the same seed" "$bin/llm-bench" $run -o jsonl --jitter 0.2 --seed 7 --timeline "$scratch/trace.7"
	passes "another seed" "$bin/llm-bench" $run -o jsonl --jitter 0.2 --seed 8 --timeline "$scratch/trace.8"
	passes "the same seed gives the same timeline, bit for bit" cmp "$scratch/first" "$scratch/trace.7"
	passes "another seed gives another timeline" sh -c "! cmp -s '$scratch/first' '$scratch/trace.8'"
done
refuses "jitter on the wall clock" 2 "only on the virtual clock" "$bin/llm-bench" -m "$model" --jitter 0.1
refuses "jitter that makes times negative" 2 "jitter" "$bin/llm-bench" --dry-run --shape llama3-8b --jitter 1

# Timelines of a real model on both clocks.
for clock in wall virtual; do
	passes "a timeline on the $clock clock" "$bin/llm-bench" -m "$model" --transport sim --preset fine --chunk 16 -p 32 -n 3 -r 2 \
		-o json --clock $clock --timeline "$scratch/trace"
	true_in_python "has every task of both tests and repetitions, one at a time" "
trace = json.load(open(sys.argv[1]))['traceEvents']
bench = json.load(open(sys.argv[2]))
processes = [e['args']['name'] for e in trace if e['name'] == 'process_name']
assert len(processes) == 2 and processes[0].endswith('fine w8a8 pp32') and processes[1].endswith('fine w8a8 tg3'), processes
tasks = [e for e in trace if e['ph'] == 'X' and e['name'] != 'start']
prompt = [e for e in tasks if e['pid'] == 1]
layers = 1 + max(e['args']['layer'] for e in prompt if e['name'] == 'attn')
assert layers > 1 and len(prompt) == 2 * (2 * (1 + 10 * layers) + 2), (len(prompt), layers)
assert sum(e['name'] == 'embed' for e in tasks) == 2 * 2 + 2 * 3
for pid in (1, 2):
    end = -1
    for e in sorted((e for e in tasks if e['pid'] == pid), key=lambda e: e['ts']):
        assert e['ts'] >= end - 1e-3, e
        end = e['ts'] + e['dur']
busy = sum(e['dur'] for e in prompt) / 2
assert busy <= bench[0]['avg_ns'] / 1e3 + 1, (busy, bench[0]['avg_ns'])
" "$scratch/trace" "$scratch/out"
done
passes "a timeline of llm-cli" "$bin/llm-cli" -m "$model" --transport sim -p "The kernel" -n 4 --timeline "$scratch/trace"
true_in_python "has the prompt and the tokens after it" "
trace = json.load(open(sys.argv[1]))['traceEvents']
assert sum(e['name'] == 'embed' for e in trace) == 1 + 3
" "$scratch/trace"
refuses "a timeline of llm-cli that cannot be written" 1 "/nowhere/t.json" "$bin/llm-cli" -m "$model" --transport sim -p A -n 1 --timeline /nowhere/t.json

real=("$bin/llm-bench" -m "$model" --transport sim --preset cpu,fine -pg 40,6 -p 0 -n 0 -r 2 --no-warmup -o jsonl)
passes "a real model on the wall clock" "${real[@]}" --clock wall
cp "$scratch/out" "$scratch/wall"
passes "and on the virtual clock" "${real[@]}" --clock virtual
true_in_python "gives the same tokens in the SoC's time" "
wall, phone = ([json.loads(l) for l in open(f)] for f in sys.argv[1:])
assert [r['output_sha256'] for r in wall] == [r['output_sha256'] for r in phone] and len(wall) == 2
for w, p in zip(wall, phone):
    assert (w['clock'], w['profile'], w['energy_j'], w['busy_gpu']) == ('wall', None, None, None)
    assert (p['clock'], p['profile']) == ('virtual', 'sd8gen3') and p['energy_j'] > 0 and p['busy_gpu'] == 0
    assert len(set(p['samples_ns'])) == 1 and p['stddev_ns'] == 0
    assert p['ttft_ms'] < p['avg_ns'] / 1e6
" "$scratch/wall" "$scratch/out"
cp "$scratch/out" "$scratch/phone"
passes "and a dry run of its file" "$bin/llm-bench" --dry-run -m "$model" --preset cpu,fine -pg 40,6 -p 0 -n 0 -o jsonl
true_in_python "is the same plan, without results" "
phone, dry = ([json.loads(l) for l in open(f)] for f in sys.argv[1:])
assert len(dry) == 2
for p, d in zip(phone, dry):
    for k in 'avg_ns ttft_ms syncs npu_jobs busy_npu busy_cpu weights model_type model_n_params chunk'.split():
        assert p[k] == d[k], (k, p[k], d[k])
    assert d['output_sha256'] is None and d['transport'] is None and d['stddev_ns'] is None
    assert abs(p['energy_j'] - d['energy_j']) < 1e-9 * p['energy_j']
" "$scratch/phone" "$scratch/out"
places=()
for clock in wall virtual; do
	run "$bin/llm-bench" -m "$model" --transport sim --clock $clock -p 8 -n 0 -r 1 -o jsonl
	places+=("$(sed -n 's/.*"placement": *"\([a-z]*\)".*/\1/p' "$scratch/out")")
done
run "${dry[@]}" --shape qwen2.5-0.5b -p 8 -n 0 -r 1 --placement auto -o jsonl
places+=("$(sed -n 's/.*"placement": *"\([a-z]*\)".*/\1/p' "$scratch/out")")
same "the default placement on the wall clock, on the virtual clock, in a dry run" "${places[*]}" "npu fine fine"
refuses "an unknown profile for a real model" 1 "profile nope" "${real[@]}" --profile nope

passes "the calibration" "$BUILD/experiments/calibration" -o json
true_in_python "has rows of three kinds, and counts a characteristic of several sizes once" "
c = json.load(open(sys.argv[1]))
assert c['profile'] == 'sd8gen3' and {r['kind'] for r in c['rows']} == {'parameter', 'fitted', 'predicted'}
for r in c['rows']:
    low, high, m = r['published_low'], r['published_high'], r['modelled']
    assert abs(r['error'] - (m / low - 1 if m < low else m / high - 1 if m > high else 0)) < 1e-9, r
    assert r['note'] or r['kind'] != 'fitted', r
for kind in ('parameter', 'fitted', 'predicted'):
    by = {}
    for r in c['rows']:
        if r['kind'] == kind:
            by.setdefault(r['characteristic'], []).append(abs(r['error']))
    assert len(by) == c[kind]['characteristics']
    assert abs(c[kind]['mean_error'] - sum(sum(e) / len(e) for e in by.values()) / len(by)) < 1e-9
    assert c[kind]['worst_error'] == max(max(e) for e in by.values())
assert c['predicted']['characteristics'] >= 14 and c['predicted']['mean_error'] < 0.2
" "$scratch/out"
passes "the calibration as a table" "$BUILD/experiments/calibration"
same "shows the source of every number of the profile" "$(grep -cE '\| (published|fitted|assumed|derived) +\|' "$scratch/out")" \
	"$(grep -cE '^[a-z0-9_]+ = .* @ ' share/profiles/sd8gen3.conf)"

# choices OPTIONS...: prints the choices of a command line's tests.
choices() { "${dry[@]}" --shape qwen2.5-0.5b -p 8 -n 0 -o jsonl "$@" | python3 -c "
import json, sys
print(' '.join('/'.join(str(r[c]) for c in ('placement', 'weights', 'graphs', 'kv')) for r in map(json.loads, sys.stdin)))"; }
same "auto weights depend on the placement" "$(choices --placement cpu,gpu,npu,fine,layer)" \
	"cpu/f16/bucketed/f16 gpu/f16/bucketed/f16 npu/w8a8/bucketed/f16 fine/w8a8/bucketed/f16 layer/w4a16/bucketed/f16"
same "the auto placement depends on weights and graphs" "$(choices --weights auto,f32,f16) $(choices --graphs bucketed,pipe)" \
	"fine/w8a8/bucketed/f16 cpu/f32/bucketed/f16 fine/f16/bucketed/f16 fine/w8a8/bucketed/f16 layer/w4a16/pipe/f16"
same "options after a preset override it" "$(choices --preset hetero-layer,npu --graphs bucketed --weights w8a8)" \
	"layer/w8a8/bucketed/f16 npu/w8a8/bucketed/f16"
same "a preset replaces earlier options that it sets" \
	"$(choices --placement cpu --weights f32 --graphs pipe --kv q8_0 --preset hetero-layer)" "layer/w4a16/padded/q8_0"
same "all lists multiply, the first ones slowest" "$(choices --weights w8a8,w4a8 --graphs fixed,bucketed --kv f32,f16)" \
	"$(for w in w8a8 w4a8; do for g in fixed bucketed; do for k in f32 f16; do echo "fine/$w/$g/$k"; done; done; done | xargs)"

refuses "no shape" 2 "needs a model's shape" "${dry[@]}"
refuses "an unknown shape" 1 "shape nope" "${dry[@]}" --shape nope
refuses "an unknown profile" 1 "profile nope" "${dry[@]}" --shape llama3-8b --profile nope
refuses "a model file that does not exist" 1 "no-such.gguf" "${dry[@]}" -m /no-such.gguf
refuses "the wall clock" 2 "no wall clock" "${dry[@]}" --shape llama3-8b --clock wall
refuses "an unknown clock" 2 "none of wall, virtual" "${dry[@]}" --shape llama3-8b --clock sun
refuses "a timeline that cannot be written" 1 "/nowhere/t.json" "${dry[@]}" --shape llama3-8b -p 8 -n 0 --timeline /nowhere/t.json
refuses "a shape without a dry run" 2 "only with --dry-run" "$bin/llm-bench" --shape llama3-8b
refuses "weights only for dry runs" 2 "can only be planned" "$bin/llm-bench" -m "$model" --weights f16 -p 8 -n 0
refuses "a calibration as csv" 2 "md or json" "$BUILD/experiments/calibration" -o csv
finish
