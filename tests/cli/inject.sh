#!/bin/bash
# SPDX-License-Identifier: MIT
# build/experiments/inject: a model with outliers computes the same logits bit for bit, its calibration finds them at the ends, and
# wrong command lines are refused.
set -u
. tests/cli/common.bash

t=("$BUILD/experiments/inject")
out=$scratch/out.gguf
some=(--channels 1 --factor 64 --seed 1)

passes "--help" "${t[@]}" --help
refuses "no arguments" 2 "--help" "${t[@]}"
refuses "no factor" 2 "--channels, --factor and --seed" "${t[@]}" "$model" "$out" --channels 1 --seed 1
refuses "an unknown option" 2 "unknown option '--no-such'" "${t[@]}" --no-such
for bad in "--factor 3" "--factor 1" "--factor 0.5" "--channels 0" "--seed -1" "--inputs ffn_up" "--inputs ," "--inputs attn_qk"; do
	# shellcheck disable=SC2086
	refuses "$bad" 2 "${bad%% *}: " "${t[@]}" "$model" "$out" "${some[@]}" $bad
done
refuses "more channels than an input has" 1 "attn_output has 128 channels: choose fewer" "${t[@]}" "$model" "$out" "${some[@]}" --channels 128
refuses "a file that does not exist" 1 "none.gguf.*No such file" "${t[@]}" none.gguf "$out" "${some[@]}"
"$bin/llm-quantize" "$model" "$scratch/w8a8.gguf" w8a8 >/dev/null
refuses "a packed file" 1 "is packed, for w8a8" "${t[@]}" "$scratch/w8a8.gguf" "$out" "${some[@]}"
same "a refusal leaves nothing behind" "none$(find "$scratch" -name 'out.gguf*')" none

# ---- the same bits ----

# A second architecture, with biases and an output matrix.
printf '[model]\nlayers = 3\ndim = 64\nheads = 4\nkv_heads = 2\nhead_dim = 16\nffn = 96\nvocab = 400\nactivation = silu\ngated = yes\ntied = no\nqkv_bias = yes\n' >"$scratch/qwen2.conf"
"$bin/llm-quantize" --synthetic "$scratch/qwen2.conf" "$scratch/qwen2.gguf" f32 --seed 3 >/dev/null
logits() { "$bin/llm-logits" --placement cpu --tokens 1,5,300,77,3,120,7 -o json "$@" >"$scratch/logits" 2>&1 && sed 's/.*"logits"://' "$scratch/logits" || cat "$scratch/logits"; }
for from in "$model" "$scratch/qwen2.gguf"; do
	name=$(basename "$from" .gguf)
	for inputs in attn_qkv attn_output ffn_gate_up ffn_down attn_qkv,attn_output,ffn_gate_up,ffn_down; do
		passes "$name: $inputs" "${t[@]}" "$from" "$out" --channels 3 --factor 256 --seed 7 --inputs $inputs
		cmp -s "$from" "$out" && not_ok "$name: $inputs changes the file" || ok "$name: $inputs changes the file"
		for kv in f32 f16; do
			same "$name: $inputs leaves the logits' bits, KV cache $kv" "$(logits --kv $kv -m "$out")" "$(logits --kv $kv -m "$from")"
		done
	done
done

# ---- what it is for ----

cat docs/*.md >"$scratch/text"
"$bin/llm-quantize" "$model" "$scratch/f32.gguf" f32 >/dev/null
passes "outliers in three inputs" "${t[@]}" "$scratch/f32.gguf" "$out" "${some[@]}" --inputs attn_qkv,ffn_gate_up,ffn_down
same "the factors fall towards the middle" "$(grep -o '[0-9]* times' "$scratch/out" | paste -sd' ')" \
	"64 times 4 times 1 times 1 times 4 times 64 times"
run "${t[@]}" "$scratch/f32.gguf" "$scratch/again.gguf" "${some[@]}" --inputs attn_qkv,ffn_gate_up,ffn_down
cmp -s "$out" "$scratch/again.gguf" && ok "the same seed gives the same file" || not_ok "the same seed gives the same file"
run "${t[@]}" "$scratch/f32.gguf" "$scratch/other.gguf" "${some[@]}" --inputs attn_qkv,ffn_gate_up,ffn_down --seed 2
cmp -s "$out" "$scratch/other.gguf" && not_ok "another seed gives another file" || ok "another seed gives another file"
for file in f32 out; do
	passes "calibrating $file" "$bin/llm-quantize" --calibrate "$scratch/text" --calibrate-tokens 2048 --head-tokens 0 -v "$scratch/$file.gguf" "$scratch/cal.gguf" q8_0
	head -25 "$scratch/out" >"$scratch/$file.txt"
done
true_in_python "the most important inputs are those of the ends, and far more important than before" "
before, after = ([l.split() for l in open(f).read().splitlines()[1:25]] for f in sys.argv[1:])
ends = [i for i, r in enumerate(after) if r[0] in '05' and r[1] != 'attn_output']
importance = lambda rows: [float(r[5]) for r in rows]
least = min(importance(after)[i] for i in ends)
assert least > max(importance(after)[i] for i in range(24) if i not in ends), after
assert least > 3 * max(importance(before)), (least, before)
# The scales are those of the other channels.
assert all(float(after[i][3]) < 2 * float(before[i][3]) for i in range(24)), (before, after)
assert all(after[i][9] == 'no' for i in range(24) if i not in ends)
" "$scratch/f32.txt" "$scratch/out.txt"
finish
