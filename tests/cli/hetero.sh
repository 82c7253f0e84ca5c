#!/bin/bash
# SPDX-License-Identifier: MIT
# Placement layer and cut matmuls on a phone's SoC: the figures of docs/hetero.md for profile sd8gen3, on the virtual clock; the
# output of cuts; a game at the same time, also with a real model, and cuts of given shares (build/experiments/hetero); and wrong
# command lines.
set -u
. tests/cli/common.bash

dry=("$bin/llm-bench" --dry-run)
cuts=("$BUILD/experiments/cuts")
hetero=("$BUILD/experiments/hetero")
dry_hetero=("${hetero[@]}" --dry-run)
models=llama3-8b,llama2-7b,llama3.2-3b,internlm2-1.8b
read_rows='
rows = [json.loads(l) for f in sys.argv[1:] for l in open(f)]
models = list(dict.fromkeys(r["model_type"] for r in rows))
def ts(key): return {tuple(r[k] for k in key): r["avg_ts"] for r in rows}
'

passes "whole and cut matmuls" "${dry[@]}" --shape $models --preset hetero-layer,hetero-tensor -p 64,256,1024 -n 32 -o jsonl
cp "$scratch/out" "$scratch/hetero"
true_in_python "cut matmuls are 1.25 times as fast on average, and never slower" "$read_rows
assert len(models) == 4
v = ts(('model_type', 'preset', 'n_prompt'))
gains = {(m, p): v[m, 'hetero-tensor', p] / v[m, 'hetero-layer', p] for m in models for p in (64, 256, 1024, 0)}
assert min(gains.values()) >= 1, gains
prompts = [g for (m, p), g in gains.items() if p]
assert sum(prompts) / len(prompts) >= 1.25, gains
for r in rows:
    assert r['placement'] == 'layer' and r['weights'] == 'w4a16' and r['energy_j'] > 0 and r['power_w'] > 0
    assert (r['partition'], r['graphs']) == (('none', 'padded') if r['preset'] == 'hetero-layer' else ('auto', 'pipe'))
    assert r['syncs'] > 0 and r['busy_gpu'] > 0 and (r['chunk'] is None) == (r['n_prompt'] == 0)
    if r['preset'] == 'hetero-tensor':
        assert r['busy_npu'] > 0 and r['npu_jobs'] > 0
" "$scratch/hetero"
passes "chunks that follow one another besides" "${dry[@]}" --shape $models --preset hetero-tensor,best -p 64,1024 -n 0 -o jsonl
true_in_python "are a choice of their own, that only best has, and no slower" "$read_rows
v = ts(('model_type', 'preset', 'n_prompt'))
assert all(v[m, 'best', p] >= v[m, 'hetero-tensor', p] for m in models for p in (64, 1024)), v
assert all((r['division'], r['chunk'] is None or r['chunk'] >= r['n_prompt']) == ('none', True) for r in rows if r['preset'] == 'hetero-tensor'), rows
assert all(r['division'] == 'fastest' for r in rows if r['preset'] == 'best'), rows
" "$scratch/out"
passes "everything on the GPU" "${dry[@]}" --shape $models --preset gpu --weights w4a16 -p 256 -n 32 -o jsonl
cp "$scratch/out" "$scratch/gpu"
true_in_python "is slower for every model in prefill and decode, and takes more energy" "$read_rows
v = ts(('model_type', 'preset', 'n_prompt'))
e = {(r['model_type'], r['preset'], r['n_prompt']): r['energy_j'] for r in rows}
for m in models:
    assert v[m, 'hetero-tensor', 0] > 1.1 * v[m, 'gpu', 0], (m, v)
    assert v[m, 'hetero-layer', 256] > v[m, 'gpu', 256] and e[m, 'hetero-tensor', 256] < e[m, 'gpu', 256]
" "$scratch/hetero" "$scratch/gpu"

lengths=135,300,525,600,1000
passes "--graphs online, padded and pipe" "${dry[@]}" --shape $models --preset hetero-layer --graphs online,padded,pipe -p $lengths -n 0 -o jsonl
cp "$scratch/out" "$scratch/graphs"
passes "cut matmuls at lengths without a graph" "${dry[@]}" --shape $models --preset hetero-tensor -p $lengths -n 0 -o jsonl
true_in_python "are faster than each of these at every length" "$read_rows
v = {(r['model_type'], r['partition'], r['graphs'], r['n_prompt']): r['avg_ts'] for r in rows}
for m in models:
    for p in (135, 300, 525, 600, 1000):
        for g in ('online', 'padded', 'pipe'):
            assert v[m, 'auto', 'pipe', p] > v[m, 'none', g, p], (m, g, p)
        # Several graphs load and widen the weights several times: at 135 tokens that is more than padding to 256.
        assert v[m, 'none', 'pipe', p] > 0.9 * v[m, 'none', 'padded', p] > 0.9 * v[m, 'none', 'online', p]
        assert v[m, 'none', 'pipe', p] >= v[m, 'none', 'padded', p] or p == 135, (m, p)
" "$scratch/graphs" "$scratch/out"
passes "each cut alone, and all of them" "${dry[@]}" --shape llama3-8b --preset hetero-tensor --chunk 1024 \
	--partition none,row,sequence,multi-sequence,hybrid,auto -p 64,135,600 -n 4 -o jsonl
true_in_python "more freedom is not slower" "$read_rows
v = ts(('partition', 'n_prompt', 'n_gen'))
for p in (64, 135, 600):
    for cut in 'row sequence multi-sequence hybrid auto'.split():
        assert v[cut, p, 0] >= 0.999 * v['none', p, 0], (cut, p)
        assert v['auto', p, 0] >= 0.99 * v[cut, p, 0], (cut, p)
assert v['row', 0, 4] == v['auto', 0, 4] > v['none', 0, 4] == v['sequence', 0, 4]
" "$scratch/out"
passes "--sync fast and driver" "${dry[@]}" --shape $models --preset hetero-layer,hetero-tensor --sync fast,driver -p 256 -n 8 -o jsonl
true_in_python "fast is faster" "$read_rows
v = ts(('model_type', 'preset', 'n_prompt', 'sync'))
for m in models:
    for preset in ('hetero-layer', 'hetero-tensor'):
        assert v[m, preset, 256, 'fast'] > 1.05 * v[m, preset, 256, 'driver'], (m, preset)
    # The cuts of the fast way, by the slow one: 400 us a crossing are more than a token's matmuls take (4.2).
    assert v[m, 'hetero-tensor', 0, 'fast'] > 2 * v[m, 'hetero-tensor', 0, 'driver'], m
" "$scratch/out"
passes "a solver that knows of the slow one" "${dry[@]}" --shape $models --preset hetero-tensor --sync fast,driver --solver fast,sync -p 256 -n 8 -o jsonl
true_in_python "cuts less for it, and the same for the fast one" "$read_rows
v = ts(('model_type', 'n_prompt', 'sync', 'solver'))
for m in models:
    assert v[m, 0, 'driver', 'sync'] > 1.5 * v[m, 0, 'driver', 'fast'] and v[m, 256, 'driver', 'sync'] > v[m, 256, 'driver', 'fast'], m
    assert all(v[m, p, 'fast', 'sync'] == v[m, p, 'fast', 'fast'] for p in (0, 256)), m
" "$scratch/out"

# games FILE ARGUMENTS...: runs the same tests with four presets and writes their results to FILE.
games() {
	local file=$1 preset
	shift
	: >"$file"
	for preset in gpu npu hetero-layer hetero-tensor; do
		passes "a game at the same time: $preset ${*: -1}" "${dry_hetero[@]}" --shape llama3-8b --preset $preset --weights w4a16 -p 256 -n 16 "$@"
		cat "$scratch/out" >>"$file"
	done
}
games "$scratch/game" --game 60:4
true_in_python "shows its frames unless the GPU's work is enqueued far ahead" "$read_rows
assert [(r['preset'], r['n_prompt']) for r in rows] == [(p, n) for p in ('gpu', 'npu', 'hetero-layer', 'hetero-tensor') for n in (256, 0)]
for r in rows:
    assert r['game_frame_ns'] == 4e6
    slowdown = r['avg_ns'] / r['alone_ns'] - 1
    if r['preset'] == 'gpu':
        assert r['game_fps'] < 10 and r['game_dropped'] > 0, r
    elif r['preset'] == 'hetero-tensor' and r['n_prompt']:
        # Slices of FFN-down take longer than a frame.
        assert 20 < r['game_fps'] < 55, r
    else:
        assert r['game_fps'] > 55, r
    if r['preset'] == 'npu':
        assert slowdown == 0 and r['game_dropped'] == 0
    if r['n_prompt']:
        assert 0 <= slowdown < 0.10, (r['preset'], slowdown)
    else:
        assert 0 <= slowdown < 0.35, (r['preset'], slowdown)
" "$scratch/game"
passes "the same without the game" "${dry[@]}" --shape llama3-8b --preset gpu,npu,hetero-layer,hetero-tensor --weights w4a16 -p 256 -n 16 -o jsonl
true_in_python "takes as long as llm-bench says" "
a, b = ([json.loads(l) for l in open(f)] for f in sys.argv[1:])
key = lambda r: (r['preset'], r['n_prompt'])
assert {key(r): r['alone_ns'] for r in a} == {key(r): r['avg_ns'] for r in b}" "$scratch/game" "$scratch/out"
games "$scratch/again" --game 60:4:16
same "has 16 kernels per frame, and can be repeated" "$(<"$scratch/again")" "$(<"$scratch/game")"
passes "without a game" "${dry_hetero[@]}" --shape llama3-8b --preset hetero-layer -p 64
true_in_python "there are no frames" "$read_rows
assert len(rows) == 1 and not [k for k in rows[0] if 'game' in k or 'alone' in k]" "$scratch/out"
for clock in "--clock virtual" "--profile sd8gen3" "--dry-run"; do
	# shellcheck disable=SC2086
	passes "a game and a model, $clock" "${hetero[@]}" -m "$model" --preset hetero-tensor -pg 40,4 -d 9 -r 2 --jitter 0.2 --seed 3 --game 60:4 $clock
	cp "$scratch/out" "$scratch/by $clock"
done
same "has the times and frames of the dry run" "$(sed 's/.*"avg_ns"/"avg_ns"/; s/"output_sha256": [^,]*,//' "$scratch/by --clock virtual")" \
	"$(sed 's/.*"avg_ns"/"avg_ns"/; s/"output_sha256": [^,]*,//' "$scratch/by --dry-run")"
same "on the same profile" "$(<"$scratch/by --clock virtual")" "$(<"$scratch/by --profile sd8gen3")"
true_in_python "keeps the model's tokens, with other times in each repetition" "$read_rows
a, b, c = rows
assert a['output_sha256'] and not c['output_sha256'] and a['game_dropped'] + a['game_shown'] > 0
assert len(set(a['samples_ns'])) == len(set(a['alone_samples_ns'])) == 2 and a['avg_ns'] > a['alone_ns']" \
	"$scratch/by --clock virtual" "$scratch/by --profile sd8gen3" "$scratch/by --dry-run"
passes "a game's timeline" "${dry_hetero[@]}" --shape llama3-8b --preset hetero-layer -n 1 --game 60:4 --timeline "$scratch/timeline.json"
true_in_python "has the runs without the game and with it" "
events = json.load(open(sys.argv[1]))['traceEvents']
assert [e['pid'] for e in events if e['ph'] == 'X' and e['name'] == 'embed'] == [1, 2]
assert [e['args']['name'] for e in events if e['name'] == 'process_name'] == ['pp0+tg1 @ d0', 'pp0+tg1 @ d0 beside a game']" "$scratch/timeline.json"

passes "cuts" "${cuts[@]}" --exhaustive --shape llama3-8b --preset hetero-tensor -p 64,300 -n 1 -o json
true_in_python "list each matmul's slices and their times" "
rows = json.load(open(sys.argv[1]))
assert {(r['test'], r['matmul']) for r in rows} == {(t, p) for t in ('pp64', 'pp300', 'tg1')
    for p in ('qkv', 'attn_output', 'gate_up', 'down', 'head')}
for r in rows:
    assert abs(r['predicted_ns'] / r['simulated_ns'] - 1) < 0.01, r
    assert abs(max(r['gpu_ns'], r['npu_ns']) + r['sync_ns'] + r['copy_ns'] - r['predicted_ns']) < 1
    assert 1 <= r['of_all'] <= 1.03 and r['solver_ns'] > 0
    assert r['gpu_cols'] % 256 == 0 or r['cut'] == 'gpu'
    tokens = sum(r['npu_graphs']) - r['npu_padding'] + r['gpu_tokens']
    assert tokens == r['tokens'] or r['cut'] == 'gpu', r
" "$scratch/out"
passes "cuts as a table" "${cuts[@]}" --shape llama3-8b --preset hetero-layer -p 300
same "a row per matmul" "$(grep -cE '^\| llama3-8b .* (npu|gpu) ' "$scratch/out")" 5

# Solving with predictions from samples of the profile itself.
passes "a predictor" sh -c "'$bin/npu-profile' measure --random 1000 --weights w8a8,w4a16 --order stationary,streamed -o '$scratch/s.csv' >/dev/null &&
	'$bin/npu-profile' fit '$scratch/s.csv' -o '$scratch/npu.model' >/dev/null"
passes "a predictor of the GPU" sh -c "'$bin/npu-profile' measure --random 1000 --weights w8a8,w4a16 --lane gpu -o '$scratch/g.csv' >/dev/null &&
	'$bin/npu-profile' fit '$scratch/g.csv' --lane gpu -o '$scratch/gpu.model' >/dev/null"
for models in npu.model npu.model,gpu.model gpu.model,npu.model gpu.model; do
	passes "plans by predictions of $models" "${dry[@]}" --shape llama3-8b --preset hetero-tensor -p 32,100,300,600 -n 4 -o jsonl \
		--predictor "$scratch/${models/,/,$scratch/}"
	true_in_python "are near plans by measurements" "$read_rows
for r in rows:
    assert 0.95 < r['avg_ns'] / r['modelled_ns'] < 1.05, r" "$scratch/out"
	cp "$scratch/out" "$scratch/by.$models"
done
true_in_python "do not depend on the order of the files" "
rows = [[json.loads(l)['avg_ns'] for l in open(f)] for f in sys.argv[1:]]
assert rows[0] == rows[1]" "$scratch/by.npu.model,gpu.model" "$scratch/by.gpu.model,npu.model"
refuses "two predictors of a lane" 1 "a second predictor of lane npu" "${dry[@]}" --shape llama3-8b --preset hetero-tensor -p 8 -n 0 \
	--predictor "$scratch/npu.model,$scratch/npu.model"
refuses "a predictor without a name" 1 "No such file" "${dry[@]}" --shape llama3-8b --preset hetero-tensor -p 8 -n 0 --predictor "$scratch/npu.model,"

refuses "a placement without cuts" 2 "placement fine cuts no matmuls" "${cuts[@]}" --shape llama3-8b -p 64
refuses "cuts as csv" 2 "none of md, json" "${cuts[@]}" --shape llama3-8b --preset hetero-tensor -o csv
refuses "cuts without a shape" 2 "no shape" "${cuts[@]}" --preset hetero-tensor -p 64
for game in 60 60: :4 0:4 60:0 60:-1 x:4 60:4x 60:4:0 60:4:1.5 60:4:16: 60:4:16:1 nan:4 1e9:4 60:1e9 ''; do
	refuses "a game '$game'" 2 "--game: " "${dry_hetero[@]}" --shape llama3-8b --preset gpu -p 8 --game "$game"
done
for share in -0.1 1.1 nan x ''; do
	refuses "a share '$share'" 2 "--gpu-share: " "${dry_hetero[@]}" --shape llama3-8b --preset hetero-tensor -p 8 --gpu-share "$share"
done
refuses "a share without a cut" 2 "share without a cut" "${hetero[@]}" --placement layer -p 8 --gpu-share 0.5
refuses "hetero without a test" 2 "-p, -n or -pg" "${dry_hetero[@]}" --shape llama3-8b
refuses "a dry run without a shape" 2 "needs a model's shape" "${dry_hetero[@]}" -p 8
refuses "a dry run on the wall clock" 2 "no wall clock" "${dry_hetero[@]}" --shape llama3-8b --clock wall -p 8
refuses "a shape that does not exist" 1 "no-such-shape" "${dry_hetero[@]}" --shape no-such-shape -p 8
refuses "a shape without a dry run" 2 "--shape: only with --dry-run" "${hetero[@]}" --shape llama3-8b -p 8
refuses "jitter on the wall clock" 2 "--jitter: only on the virtual clock" "${hetero[@]}" -p 8 --jitter 0.1
for bad in "-p 0" "-p x" "-n 0" "-pg 5" "-pg 5,0" "-pg 1,2,3" "-r 0" "-d x" "--jitter 1" "--seed x" "--no-such" "-p 8 word"; do
	# shellcheck disable=SC2086
	refuses "hetero $bad" 2 "." "${dry_hetero[@]}" --shape llama3-8b $bad
done
refuses "graphs of placement layer with placement npu" 2 "placement npu has no graphs pipe: choose placement layer" "${dry[@]}" --shape llama3-8b --preset npu --graphs pipe
refuses "a cut with placement gpu" 2 "placement gpu has no partition auto: choose placement layer" "${dry[@]}" --shape llama3-8b --preset gpu --partition auto
refuses "an unknown cut" 2 "none, row, sequence, multi-sequence, hybrid, auto" "${dry[@]}" --shape llama3-8b --partition column

# The embedded model, with weights of 4 bits, so that all lanes multiply the same numbers.
greedy=("$bin/llm-cli" -m "$model" --weights w4a16 -p "The kernel is" -n 24 --ids)
run "${greedy[@]}" --placement npu
want=$(<"$scratch/out")
mkdir "$scratch/no-vendors"
for way in "--placement gpu" "--preset hetero-layer" "--preset hetero-tensor" "--preset hetero-tensor --cuts-profile sd8gen3"; do
	if compgen -G "/etc/OpenCL/vendors/*.icd" >/dev/null; then
		# shellcheck disable=SC2086
		passes "tokens of $way" "${greedy[@]}" $way
		same "are the NPU's tokens" "$(<"$scratch/out")" "$want"
	else
		skip "tokens of $way" "no OpenCL platform"
		skip "are the NPU's tokens" "no OpenCL platform"
	fi
	# shellcheck disable=SC2086
	OCL_ICD_VENDORS=$scratch/no-vendors passes "tokens of $way, on the CPU lane" "${greedy[@]}" $way --gpu host
	same "are the NPU's tokens from the CPU lane" "$(<"$scratch/out")" "$want"
	case $way in *cuts-profile*) continue ;; esac
	# shellcheck disable=SC2086
	OCL_ICD_VENDORS=$scratch/no-vendors passes "tokens of $way, on the virtual clock" "${greedy[@]}" $way --clock virtual
	same "are the NPU's tokens on the virtual clock" "$(<"$scratch/out")" "$want"
done
if compgen -G "/etc/OpenCL/vendors/*.icd" >/dev/null; then
	run "${greedy[@]}" --preset hetero-tensor --cuts-profile sd8gen3 --stats
	grep -Eq '^waits +decode: [1-9][0-9]* predicted' "$scratch/err" && grep -q '^GPU  *[^ ]' "$scratch/err" &&
		ok "--stats shows predicted waits and the GPU's name" || not_ok "--stats shows predicted waits and the GPU's name" "$(<"$scratch/err")"
	refuses "a GPU that does not exist" 1 "no such GPU" "${greedy[@]}" --placement gpu --gpu "no such GPU"
	refuses "drafts with its attention" 1 "placement gpu: trees of guesses have no attention in OpenCL: choose gpu host, or draft none" \
		"${greedy[@]}" --placement gpu --draft pld
	echo "The kernel is" >"$scratch/context"
	run "${greedy[@]}" --placement layer --context "$scratch/context" --draft none
	want_context=$(<"$scratch/out")
	run "${greedy[@]}" --placement layer --context "$scratch/context"
	[ $rc -eq 0 ] && grep -q 'warning: nothing is drafted: placement layer: ' "$scratch/err" && [ "$(<"$scratch/out")" = "$want_context" ] &&
		ok "drafts that --context alone asks for are left out" || not_ok "drafts that --context alone asks for are left out" "$(outcome)"
else
	for what in "--stats shows predicted waits and the GPU's name" "a GPU that does not exist" "drafts with its attention" \
		"drafts that --context alone asks for are left out"; do
		skip "$what" "no OpenCL platform"
	done
fi
# Matmuls that are cut even if that is slower.
text=("${hetero[@]}" -m "$model" --weights w4a16 --prompt-file "$refs/p1.txt" -pg 40,24 -r 1)
sha() { sed -n 's/.*"output_sha256": "\([0-9a-f]*\)".*/\1/p' "$scratch/out"; }
run "${text[@]}" --placement npu
want=$(sha)
for way in "--preset hetero-tensor --partition row --gpu-share 0.5" "--preset hetero-tensor --partition sequence --gpu-share 0.4 --sync driver"; do
	if compgen -G "/etc/OpenCL/vendors/*.icd" >/dev/null; then
		# shellcheck disable=SC2086
		passes "tokens of $way" "${text[@]}" $way
		same "are the NPU's tokens" "$(sha)" "$want"
	else
		skip "tokens of $way" "no OpenCL platform"
		skip "are the NPU's tokens" "no OpenCL platform"
	fi
	# shellcheck disable=SC2086
	OCL_ICD_VENDORS=$scratch/no-vendors passes "tokens of $way, on the CPU lane" "${text[@]}" $way --gpu host
	same "are the NPU's tokens from the CPU lane" "$(sha)" "$want"
	cp "$scratch/out" "$scratch/host"
	# shellcheck disable=SC2086
	OCL_ICD_VENDORS=$scratch/no-vendors passes "tokens of $way, on the virtual clock" "${text[@]}" $way --clock virtual
	same "are the NPU's tokens on the virtual clock" "$(sha)" "$want"
	true_in_python "the share and the predicted waits are reported" "$read_rows
a, b = rows
assert (a['partition'], round(a['gpu_share'], 6)) == (b['partition'], round(b['gpu_share'], 6)) in (('row', 0.5), ('sequence', 0.4))
assert b['token_waits'] is None and b['prompt_waits'] is None
fast = a['sync'] == 'fast'
assert bool(a['token_waits']) == bool(a['prompt_waits']) == fast, a
assert not fast or all(a[k]['waits'] > 0 and len(a[k]['late_us']) == 4 for k in ('token_waits', 'prompt_waits')), a" \
		"$scratch/host" "$scratch/out"
done
# A GPU with memory of its own, which discrete_layer.c makes of any device.
layer=$(realpath "$BUILD/tests/discrete_layer.so")
if compgen -G "/etc/OpenCL/vendors/*.icd" >/dev/null; then
	OPENCL_LAYERS=$layer passes "a device with memory of its own" "$bin/npu-info"
	same "is said to be so" "$(grep -c ' MiB, buffers up to ' "$scratch/out") $(grep -c ' MiB shared with the host' "$scratch/out")" \
		"$(grep -c '^opencl [0-9]' "$scratch/out") 0"
	[ "$(grep -c '^opencl [0-9]' "$scratch/out")" -gt 0 ] && ok "and listed" || not_ok "and listed" "$(<"$scratch/out")"
else
	skip "a device with memory of its own" "no OpenCL platform"
	skip "is said to be so" "no OpenCL platform"
	skip "and listed" "no OpenCL platform"
fi
for way in "--placement gpu" "--preset hetero-layer" "--preset hetero-tensor --partition row --gpu-share 0.5" \
	"--preset hetero-tensor --partition sequence --gpu-share 0.4" "--preset hetero-layer --sync driver"; do
	if compgen -G "/etc/OpenCL/vendors/*.icd" >/dev/null; then
		# shellcheck disable=SC2086
		OPENCL_LAYERS=$layer passes "tokens of $way, with memory of its own" "${text[@]}" $way
		same "are the NPU's tokens with memory of its own" "$(sha)" "$want"
	else
		skip "tokens of $way, with memory of its own" "no OpenCL platform"
		skip "are the NPU's tokens with memory of its own" "no OpenCL platform"
	fi
done
for share in 0 0.25 0.75; do
	passes "every matmul cut, a share of $share for the GPU" "${dry_hetero[@]}" --shape llama3-8b --preset hetero-tensor --partition row --gpu-share $share -n 1
	cp "$scratch/out" "$scratch/share-$share"
done
passes "matmuls cut by the solver" "${dry_hetero[@]}" --shape llama3-8b --preset hetero-tensor --partition row -n 1
true_in_python "no share is faster than the solver's cuts" "
none, less, more, solver = (json.load(open(f))['avg_ns'] for f in sys.argv[1:])
assert solver <= min(none, less, more) and less != more != none, (none, less, more, solver)" \
	"$scratch"/share-{0,0.25,0.75} "$scratch/out"

# A game at the same time. Its frames and the slowdown of the model depend on the machine.
game=("${hetero[@]}" -m "$model" --weights w4a16 -p 16 -n 4 -r 2)
OCL_ICD_VENDORS=$scratch/no-vendors refuses "a game without OpenCL" 1 "--game: no OpenCL platform" "${game[@]}" --placement cpu --weights f32 --game 60:4
if compgen -G "/etc/OpenCL/vendors/*.icd" >/dev/null; then
	refuses "a game on a GPU that does not exist" 1 "--game: .*no such GPU" "${game[@]}" --placement cpu --weights f32 --game 60:4 --gpu "no such GPU"
	for preset in npu gpu hetero-tensor; do
		run "${game[@]}" --preset $preset --weights w4a16
		cp "$scratch/out" "$scratch/alone"
		passes "a game and a model, $preset" "${game[@]}" --preset $preset --weights w4a16 --game 60:4
		true_in_python "every frame is shown or dropped, and the tokens stay the same" "
alone, rows = ([json.loads(l) for l in open(f)] for f in sys.argv[1:])
assert len(alone) == len(rows) == 2
for a, r in zip(alone, rows):
    assert (a['preset'], a['n_gen'], a['output_sha256']) == (r['preset'], r['n_gen'], r['output_sha256'])
    assert bool(r['output_sha256']) == bool(r['n_gen'])
    assert 'game_fps' not in a and r['alone_ns'] > 0 and r['game_frame_ns'] > 0
    assert len(r['samples_ns']) == len(r['alone_samples_ns']) == 2
    # The game lasts as long as the repetitions, or a little longer; a frame may be in flight.
    assert r['game_fps'] >= 0 and r['game_dropped'] + 1 >= (60 - r['game_fps']) * sum(r['samples_ns']) / 1e9, r
" "$scratch/alone" "$scratch/out"
	done
	passes "a game of short frames and placement cpu" "${hetero[@]}" -m "$model" --placement cpu -p 8 -r 1 --game 500:0.2:2
	same "is counted" "$(grep -cE '"alone_ns": [1-9].*"game_shown": [0-9]+, "game_dropped": [0-9]+, "game_fps": [0-9.]+, "game_frame_ns": [1-9]' "$scratch/out")" 1
	run "${hetero[@]}" -m "$model" --placement cpu -p 8 -r 2 --game 60:1 --progress
	same "the runs with the game follow those without it" "$(sed 's/.*d0//; s/ beside a game, /+/; s/, //' "$scratch/err" | paste -sd' ')" "warm-up run 1/2 run 2/2 +warm-up +run 1/2 +run 2/2"
else
	for what in "a game on a GPU that does not exist" "a game beside a model" "every frame is shown or dropped, and the tokens stay the same" \
		"a game of short frames and placement cpu" "is counted" "the runs with the game follow those without it"; do
		skip "$what" "no OpenCL platform"
	done
fi
passes "a bench on the virtual clock" "$bin/llm-bench" -m "$model" --preset hetero-tensor --clock virtual -p 40 -n 4 -r 1 -o jsonl
true_in_python "reports the GPU's time" "$read_rows
for r in rows:
    assert r['preset'] == 'hetero-tensor' and r['busy_gpu'] > 0 and r['busy_npu'] is not None and r['energy_j'] > 0, r" "$scratch/out"
finish
