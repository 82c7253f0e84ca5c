#!/bin/bash
# SPDX-License-Identifier: MIT
# llm-bench: the matrix, the five formats, and the fields.
set -u
. tests/cli/common.bash

bench=("$bin/llm-bench" -m "$model")
quick=(-p 8 -n 4 -r 2 --preset cpu)

passes "json" "${bench[@]}" "${quick[@]}" -o json
cp "$scratch/out" "$scratch/json"
true_in_python "json has llama-bench's and our fields, two tests, two samples each" "
rows = json.load(open(sys.argv[1]))
assert [(r['n_prompt'], r['n_gen']) for r in rows] == [(8, 0), (0, 4)], rows
for r in rows:
    for k in '''build_commit build_number cpu_info gpu_info backends n_batch n_ubatch cpu_mask cpu_strict poll type_k type_v n_gpu_layers split_mode main_gpu
        no_kv_offload flash_attn tensor_split use_mmap embeddings model_filename model_type model_size model_n_params n_threads n_prompt n_gen n_depth task test_time
        avg_ns stddev_ns avg_ts stddev_ts samples_ns samples_ts transport clock profile preset graphs placement partition sync order
        weights activations kv start attention draft ttft_ms syncs npu_jobs decision_ns busy_npu busy_gpu busy_cpu busy_storage bubble_npu bubble_gpu bubble_cpu bubble_storage energy_j
        power_w peak_memory_bytes model_n_params_active weight_bytes_read kv_bytes_read memory_gbps shadow_ms shadow_merges shadow_reads shadow_weight_bytes ratio sparse_from attn_keys attn_estimate_ms attn_select_ms attn_attend_ms attn_launches start_read_bytes start_cached_bytes start_wait_ms start_pack_ms panels_cache recall accepted_per_step draft_nodes token_ms plain_token_ms draft_ms calibrate_ms calibrate_head_ms graph_switch_ms graph_load_ms graph_bytes graph_peak_bytes decode_width output_sha256 predictor modelled_ns prefill_breakdown decode_breakdown cold_breakdown'''.split():
        assert k in r, k
    assert len(r['samples_ns']) == len(r['samples_ts']) == 2
    assert abs(r['avg_ns'] - sum(r['samples_ns']) / 2) <= 1
    assert abs(r['avg_ts'] - sum(r['samples_ts']) / 2) < 1e-6 * r['avg_ts']
    assert all(abs(t - (r['n_prompt'] + r['n_gen']) * 1e9 / n) < 1e-6 * t for t, n in zip(r['samples_ts'], r['samples_ns']))
    assert r['model_n_params'] == 5770496 and r['clock'] == 'wall' and r['placement'] == 'cpu' and r['preset'] == 'cpu'
    assert (r['backends'], r['n_gpu_layers'], r['type_k'], r['n_ubatch'], r['flash_attn']) == ('CPU', 0, 'f16', r['chunk'], True), r
    assert r['weights'] == 'f32' and r['peak_memory_bytes'] > 2**20
    for k in 'transport sync npu_jobs decision_ns syncs busy_npu bubble_npu busy_gpu busy_storage energy_j power_w recall accepted_per_step draft_nodes token_ms plain_token_ms draft_ms calibrate_ms task prefill_breakdown decode_breakdown cold_breakdown'.split():
        assert r[k] is None, (k, r[k])
assert rows[0]['ttft_ms'] > 0 and rows[1]['ttft_ms'] is None
assert rows[0]['output_sha256'] is None and re.fullmatch('[0-9a-f]{64}', rows[1]['output_sha256'])
assert rows[0]['memory_gbps'] is None and rows[1]['memory_gbps'] > 0 and rows[1]['weight_bytes_read'] > 4 * 5e6
assert rows[0]['weight_bytes_read'] is None and rows[0]['kv_bytes_read'] is None
" "$scratch/json"
passes "jsonl" "${bench[@]}" "${quick[@]}" -o jsonl
true_in_python "jsonl has one object per line" "
assert [json.loads(l)['n_gen'] for l in open(sys.argv[1])] == [0, 4]
" "$scratch/out"
passes "csv" "${bench[@]}" "${quick[@]}" -o csv
true_in_python "csv has a header and the fields of json except samples" "
rows = list(csv.DictReader(open(sys.argv[1])))
want = json.load(open(sys.argv[2]))
assert len(rows) == 2 and list(rows[0]) == [k for k in want[0] if not k.startswith('samples') and not k.endswith('_breakdown')], list(rows[0])
assert rows[1]['n_gen'] == '4' and rows[0]['transport'] == '' and rows[1]['output_sha256'] == want[1]['output_sha256']
assert None not in rows[0] and None not in rows[0].values()
" "$scratch/out" "$scratch/json"
passes "sql" "${bench[@]}" "${quick[@]}" -o sql
true_in_python "sql builds a table with null where a field does not apply" "
import sqlite3
db = sqlite3.connect(':memory:')
db.executescript(open(sys.argv[1]).read())
got = db.execute('select n_prompt, n_gen, transport, \"order\", model_size from llama_bench').fetchall()
assert got == [(8, 0, None, 'auto', 6140928), (0, 4, None, 'auto', 6140928)], got
" "$scratch/out"
passes "md" "${bench[@]}" "${quick[@]}"
true_in_python "md is a table like llama-bench's" "
lines = open(sys.argv[1]).read().split('\n')
head = [c.strip() for c in lines[0].split('|')[1:-1]]
assert head[:4] == ['model', 'size', 'params', 'backend/transport'] and head[-3:] == ['threads', 'test', 't/s'], head
assert set(lines[1]) <= set('|-: ')
rows = [[c.strip() for c in l.split('|')[1:-1]] for l in lines[2:4]]
assert [r[-2] for r in rows] == ['pp8', 'tg4'] and all('±' in r[-1] for r in rows), rows
assert len({len(l) for l in lines[:4]}) == 1, 'columns do not line up'
assert lines[5].startswith('build: ')
" "$scratch/out"
"${bench[@]}" "${quick[@]}" -oe jsonl >"$scratch/out" 2>"$scratch/err"
true_in_python "-oe jsonl and md" "
assert [json.loads(l)['n_gen'] for l in open(sys.argv[1])] == [0, 4] and '| pp8 |' in re.sub(' +', ' ', open(sys.argv[2]).read())
" "$scratch/err" "$scratch/out"
"${bench[@]}" "${quick[@]}" --progress >"$scratch/out" 2>"$scratch/err"
same "--progress: a line for each warm-up and run" "$(grep -c '^llm-bench: test' "$scratch/err")" 6
"${bench[@]}" "${quick[@]}" --progress --no-warmup >"$scratch/out" 2>"$scratch/err"
same "--no-warmup" "$(grep -c '^llm-bench: test' "$scratch/err")" 4

# tests OPTIONS...: prints the tests of a command line.
tests() { "${bench[@]}" --preset cpu --no-warmup -r 1 -o jsonl "$@" | python3 -c "
import json, sys
print(' '.join('%d/%d/%d/%d' % (r['n_prompt'], r['n_gen'], r['n_depth'], r['n_threads']) for r in map(json.loads, sys.stdin)))"; }
same "lists" "$(tests -p 4,2 -n 0 -t 1)" "4/0/0/1 2/0/0/1"
same "repeated options add up" "$(tests -p 4 -p 2 -n 1 -n 2 -t 1)" "4/0/0/1 2/0/0/1 0/1/0/1 0/2/0/1"
same "range" "$(tests -p 1-4 -n 0 -t 1)" "1/0/0/1 2/0/0/1 3/0/0/1 4/0/0/1"
same "range with a step" "$(tests -p 1-8+3 -n 0 -t 1)" "1/0/0/1 4/0/0/1 7/0/0/1"
same "range with a factor" "$(tests -p 1-8*2 -n 0 -t 1)" "1/0/0/1 2/0/0/1 4/0/0/1 8/0/0/1"
same "pairs and depths" "$(tests -p 0 -n 0 -pg 4,2 -pg 2,1 -d 0,3 -t 1)" "4/2/0/1 2/1/0/1 4/2/3/1 2/1/3/1"
same "threads multiply" "$(tests -p 2 -n 1 -t 1,2)" "2/0/0/1 0/1/0/1 2/0/0/2 0/1/0/2"
same "values without a space after the letter" "$(tests -p4 -n0 -t1)" "4/0/0/1"
same "two models" "$(tests -m "$model,$model" -p 2 -n 0 -t 1 | wc -w)" 3

same "activations multiply" "$(tests --activations int8,mixed,int16 -p 2 -n 0 -t 1 | wc -w)" 3
same "caches multiply" "$(tests --kv f16,q8_0 -p 2 -n 0 -t 1 | wc -w)" 2

# Six layers of keys and values of 128 each; the four tokens attend to 4, 5, 6 and 7.
passes "caches of three types, with and without a device" "${bench[@]}" --preset cpu,npu --kv f16,q8_0,f32 -p 0 -n 4 -d 3 -r 2 -o json
true_in_python "bytes of the cache that tokens read, and the rate with the weights'" "
rows = json.load(open(sys.argv[1]))
bytes = {'f16': 2 * 128, 'q8_0': 34 * 4, 'f32': 4 * 128}
assert len(rows) == 6
for r in rows:
    assert r['kv_bytes_read'] == 2 * 6 * bytes[r['kv']] * (4 + 5 + 6 + 7), r
    gbps = (r['weight_bytes_read'] + r['kv_bytes_read']) / r['avg_ns']
    assert abs(r['memory_gbps'] - gbps) < 1e-5 * gbps, r # avg_ns is rounded
" "$scratch/out"

# With a device.
passes "the whole matrix of presets and syncs" "${bench[@]}" -p 16,65 -n 4 -pg 8,4 -r 2 --preset cpu,npu,fine --sync fast,driver -o json
true_in_python "presets, jobs, busy, bubble; both syncs give the same tokens" "
rows = json.load(open(sys.argv[1]))
assert len(rows) == 4 * 3 * 2
sha = {}
for r in rows:
    if r['placement'] == 'cpu':
        continue
    assert r['npu_jobs'] >= 1 and r['syncs'] >= 1 and r['weights'] == 'w8a8' and r['transport'] in ('sim', 'drm')
    assert 0 < r['busy_npu'] and abs(r['busy_npu'] + r['bubble_npu'] - 1) < 1e-9
    assert 0 <= r['busy_cpu'] <= 1 and abs(r['busy_cpu'] + r['bubble_cpu'] - 1) < 1e-9
    if r['sync'] == 'driver':
        assert r['syncs'] == r['driver_waits'], (r['syncs'], r['driver_waits'])
    sha.setdefault((r['n_prompt'], r['n_gen']), set()).add(r['output_sha256'])
assert all(len(s) == 1 for s in sha.values()), sha
npu = [r for r in rows if r['placement'] == 'npu' and r['n_gen'] == 4 and not r['n_prompt']]
assert all(r['npu_jobs'] == 4 for r in npu), 'one job for each token'
" "$scratch/out"
passes "orders" "${bench[@]}" -p 40 -n 0 -r 1 --preset fine --chunk 16 --order fifo,layer,ooe -o json
true_in_python "time of a decision, where there is one" "
got = {r['order']: r['decision_ns'] for r in json.load(open(sys.argv[1]))}
assert got['fifo'] is None and got['layer'] > 0 and got['ooe'] > 0, got
" "$scratch/out"
passes "a preset that starts cold" "${bench[@]}" --preset edgeflow --profile sd8elite -p 40,8 -n 4 -r 3 -o json
true_in_python "starts in every repetition of every test: each reads all weights" "
rows = json.load(open(sys.argv[1]))
assert [(r['n_prompt'], r['n_gen'], r['start']) for r in rows] == [(40, 0, 'cold'), (8, 0, 'cold'), (0, 4, 'cold')], rows
for r in rows:
    # 5.8 MB at 2.65 GB/s.
    assert len(r['samples_ns']) == 3 and max(r['samples_ns']) < 1.01 * min(r['samples_ns']) and min(r['samples_ns']) > 2e6, r['samples_ns']
    assert r['start_pack_ms'] > 0
    c = r['cold_breakdown']
    # Without a prompt, the first token's evaluation starts.
    assert c['ms'] == r['ttft_ms'] if r['n_prompt'] else c['ms'] < r['avg_ns'] / 1e6, (c, r['ttft_ms'])
    assert c['read_bytes'] > 5.8e6 and c['cached_bytes'] == 0 and 0 < c['energy_j'] <= r['energy_j'] * 1.000001
" "$scratch/out"
passes "a cold start on the wall clock" "${bench[@]}" --placement npu,fine,linear --start cold,warm -p 40 -n 0 -r 2 -o json
true_in_python "is broken down: lanes fill the evaluation, the bound is of its parts, and memory keeps to its bounds" "
rows = json.load(open(sys.argv[1]))
assert len(rows) == 6
for r in rows:
    c = r['cold_breakdown']
    if r['start'] == 'warm':
        assert c is None, r
        continue
    for name, lane in c['lanes'].items():
        assert abs(sum(lane.values()) - (0 if name == 'gpu' else c['ms'])) < 1e-6, (name, lane, c['ms'])
    assert c['plan_ms'] + c['ms'] <= r['samples_ns'][-1] / 1e6
    bound = max(c['read_ms'], c['pack_ms'], c['compute_ms']) + c['first_read_ms'] + c['last_compute_ms']
    assert abs(bound - c['bound_ms']) < 1e-6, c
    assert all(0 < m['peak_bytes'] <= m['bound_bytes'] for name, m in c['memory'].items() if name != 'ring'), c['memory']
    assert c['memory']['ring']['peak_bytes'] <= c['memory']['ring']['bound_bytes']
    assert c['read_bytes'] + c['cached_bytes'] > 5.8e6 and c['energy_j'] is None
    assert min(c[k] for k in 'file_ms tokenizer_ms device_ms load_ms session_ms'.split()) > 0, c
" "$scratch/out"
refuses "tokens of a depth before a cold start" 1 "with -d choose --start warm" "${bench[@]}" --preset edgeflow -p 8 -n 0 -d 4
passes "--breakdown" "${bench[@]}" -p 16 -n 4 -r 2 --preset cpu,npu --breakdown -o json
true_in_python "--breakdown divides the time per token where it can be measured" "
for r in json.load(open(sys.argv[1])):
    for name, measured in (('prefill_breakdown', r['n_prompt']), ('decode_breakdown', r['n_gen'])):
        b = r[name]
        if r['placement'] == 'cpu' or not measured:
            assert b is None, r
            continue
        total = b.pop('total')
        assert abs(sum(b.values()) - total) < 1e-9 * total and b['matmul'] > 0 and b['waiting'] > 0, b
        assert total * measured <= r['avg_ns'] / 1e6, (total, r['avg_ns'])
" "$scratch/out"
if compgen -G "/etc/OpenCL/vendors/*.icd" >/dev/null; then
	run "${bench[@]}" -p 40 -n 4 -r 2 --preset all -o json
	same "all presets, but llm.npu's and shadowattn's, as the file is not calibrated" "$rc $(sed 's/: share.*--calibrate$//' "$scratch/err" | xargs -d '\n')" \
		"0 llm-bench: preset llm.npu is left out llm-bench: preset shadowattn is left out"
	true_in_python "GPU presets report the busy time and repeat their tokens" "
rows = json.load(open(sys.argv[1]))
assert {r['preset'] for r in rows} == {'cpu', 'npu', 'fine', 'gpu', 'hetero-layer', 'hetero-tensor', 'best', 'edgeflow', 'coordgen'}
for r in rows:
    gpu = r['placement'] in ('gpu', 'layer')
    assert (r['busy_gpu'] is not None) == gpu and (not gpu or 0 < r['busy_gpu'] <= 1), r
    assert 0 <= r['busy_cpu'] <= 1 and (r['placement'] != 'layer' or r['weights'] == 'w4a16'), r
" "$scratch/out"
else
	skip "all presets, but llm.npu's, as the file is not calibrated" "no OpenCL platform"
	skip "GPU presets report the busy time and repeat their tokens" "no OpenCL platform"
fi
refuses "llm.npu's preset without a calibration" 1 "is not calibrated" "${bench[@]}" -p 40 -n 0 -r 1 --preset llm.npu
sha() { "${bench[@]}" -p 0 -n 8 -d 4 -r 1 --no-warmup -o jsonl "$@" | python3 -c "import json, sys; print(json.loads(sys.stdin.readline())['output_sha256'])"; }
same "tokens depend only on the seed" "$(sha --preset cpu --seed 1)" "$(sha --preset cpu --seed 1)"
[ "$(sha --preset cpu --seed 1)" != "$(sha --preset cpu --seed 2)" ] && ok "another seed gives another prompt" || not_ok "another seed gives another prompt"

# llm-cli generates the same ids from the same text.
"${bench[@]}" --preset cpu -p 0 -n 0 -pg 70,16 -r 1 --prompt-file "$refs/p1.txt" -o jsonl >"$scratch/out"
"$bin/llm-cli" -m "$model" --preset cpu -f "$refs/p1.txt" -n 16 --temp 0 --ids --ignore-eos >"$scratch/ids"
true_in_python "output_sha256 hashes the ids as little-endian i32" "
import hashlib, struct
ids = list(map(int, open(sys.argv[2]).read().split()))
assert len(ids) == 16
assert json.loads(open(sys.argv[1]).readline())['output_sha256'] == hashlib.sha256(struct.pack('<16i', *ids)).hexdigest()
" "$scratch/out" "$scratch/ids"
here=$(realpath "$bin")
(cd "$scratch" && "$here/llm-bench" --preset cpu -p 2 -n 0 -r 1 -o jsonl) >"$scratch/out" 2>"$scratch/err"
true_in_python "without -m: the installed model, from any folder" "
assert json.loads(open(sys.argv[1]).readline())['model_filename'].endswith('docs6m-q8_0.gguf')
" "$scratch/out"
refuses "a file that is not there" 1 "no-such.gguf" "$bin/llm-bench" -m "$scratch/no-such.gguf"
run "${bench[@]}" -m "$scratch/no-such.gguf" --preset cpu -p 2 -n 0 -r 1 -o json
same "a failure after some rows: status 1 and one line" "$rc $(grep -c '^llm-bench: .*no-such.gguf' "$scratch/err")" "1 1"
true_in_python "a failure after some rows: the output is valid JSON" "
assert [r['n_prompt'] for r in json.load(open(sys.argv[1]))] == [2]
" "$scratch/out"
finish
