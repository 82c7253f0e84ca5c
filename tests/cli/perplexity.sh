#!/bin/bash
# SPDX-License-Identifier: MIT
# llm-perplexity. On the embedded model: windows, formats, W8A8 near F32. With VNPU_DATA, over the whole held-out text:
# the figures of a float64 reference (F32 file) and of llama-perplexity (quantised files). Two minutes on two idle cores.
set -u
. tests/cli/common.bash

ppl=("$bin/llm-perplexity" -m "$model")
cat "$refs"/p[1-4].txt >"$scratch/text"
passes "json" "${ppl[@]}" -f "$scratch/text" -c 64 -o json --preset cpu
cp "$scratch/out" "$scratch/cpu.json"
true_in_python "counts: whole windows, 31 of 64 tokens each" "
r = json.load(open(sys.argv[1]))
assert r['n_windows'] == r['text_tokens'] // 64 and r['n_tokens'] == 31 * r['n_windows'] > 0, r
assert abs(r['perplexity'] - math.exp(r['nll'])) < 1e-9 * r['perplexity'] and r['stderr'] > 0
assert r['weights'] == 'f32' and r['npu_jobs'] is None
" "$scratch/cpu.json"
passes "--all" "${ppl[@]}" -f "$scratch/text" -c 64 -o json --preset cpu --all
true_in_python "--all scores 63 of 64 tokens" "
r = json.load(open(sys.argv[1]))
assert r['n_tokens'] == 63 * r['n_windows'], r
" "$scratch/out"
same "text by -f -" "$("${ppl[@]}" -f "$scratch/text" -c 64 --preset cpu)" "$("${ppl[@]}" -f - -c 64 --preset cpu <"$scratch/text")"
passes "odd window" "${ppl[@]}" -f "$scratch/text" -c 33 -o json --preset cpu
true_in_python "a window of 33 scores 16" "
r = json.load(open(sys.argv[1]))
assert r['n_tokens'] == 16 * r['n_windows'], r
" "$scratch/out"
for preset in fine npu; do
	passes "$preset" "${ppl[@]}" -f "$scratch/text" -c 64 -o json --preset $preset
	true_in_python "$preset: W8A8 within 5 % of F32 over a short text, and jobs are counted" "
r, c = (json.load(open(a)) for a in sys.argv[1:])
assert r['npu_jobs'] > 0 and r['weights'] == 'w8a8' and r['n_tokens'] == c['n_tokens']
assert abs(r['perplexity'] / c['perplexity'] - 1) < 0.05, (r['perplexity'], c['perplexity'])
" "$scratch/out" "$scratch/cpu.json"
done

passes "a reference" "${ppl[@]}" -f "$scratch/text" -c 64 -o json --preset cpu --reference "$model"
true_in_python "a model agrees with itself everywhere" "
r, c = (json.load(open(a)) for a in sys.argv[1:])
assert r['agreement'] == 1 and c['agreement'] is None and r['perplexity'] == c['perplexity'], r
" "$scratch/out" "$scratch/cpu.json"
passes "a quantised model and its reference" "${ppl[@]}" -f "$scratch/text" -c 64 -o json --preset npu --activations int8 --reference "$model"
true_in_python "which agree nearly everywhere" "
r = json.load(open(sys.argv[1]))
assert 0.8 < r['agreement'] < 1, r['agreement']
" "$scratch/out"
refuses "a reference that is not there" 1 "no-such.gguf" "${ppl[@]}" -f "$scratch/text" -c 64 --preset cpu --reference no-such.gguf

data=${VNPU_DATA:-}/models/docs6m
# whole NAME FILE WANT TOLERANCE OPTIONS...: sets $got to the perplexity of the held-out text.
whole() {
	local name=$1 file=$2 want=$3 tolerance=$4
	shift 4
	if [ ! -r "$data/$file" ] || [ ! -r "$data/test.txt" ]; then
		skip "$name" "VNPU_DATA names no folder with models/docs6m/$file and test.txt"
		return
	fi
	timeout 600 "$bin/llm-perplexity" -m "$data/$file" -f "$data/test.txt" -c 512 -o json "$@" >"$scratch/out" 2>"$scratch/err"
	true_in_python "$name" "
r = json.load(open(sys.argv[1]))
print(r['perplexity'], 'wanted', $want)
assert r['n_tokens'] == 41820 and abs(r['perplexity'] - $want) <= $tolerance, (r['perplexity'], $want)
" "$scratch/out"
	sed 's/^/    /' "$scratch/err"
	head -1 "$scratch/py" | sed 's/^/    /'
	got=$(head -1 "$scratch/py" | cut -d' ' -f1)
}
f32=$(python3 -c "import json; print(json.load(open('$refs/ppl-f32.json'))['half']['ppl'])")
whole "F32 is the float64 reference's within 0.01" docs6m-f32.gguf "$f32" 0.01 --preset cpu --kv f32
# Narrower KV caches: 41.71060 and 41.71288 instead of 41.71058.
whole "an F16 cache is as good within 0.002" docs6m-f32.gguf "$f32" 0.002 --preset cpu --kv f16
whole "a Q8_0 cache is as good within 0.02" docs6m-f32.gguf "$f32" 0.02 --preset cpu --kv q8_0
for q in q8_0:41.7174 q6_k:41.7535 q5_k_m:41.7642 q4_k_m:41.9078 q4_0:42.0382; do
	whole "${q%:*} is llama-perplexity's within 0.5 %" "docs6m-${q%:*}.gguf" "${q#*:}" "0.005 * ${q#*:}" --preset cpu
done
cpu_q4_0=${got:-}
# Integer activations; docs/architecture.md has the figures.
whole "W8A8, fine, within 0.03 % of F32" docs6m-f32.gguf "$f32" "0.0003 * $f32" --preset fine
whole "W8A8, npu, within 0.03 % of F32" docs6m-f32.gguf "$f32" "0.0003 * $f32" --preset npu
whole "W8A8, INT8 activations, within 0.1 % of F32" docs6m-f32.gguf "$f32" "0.001 * $f32" --preset npu --activations int8
whole "W8A8, INT16 activations, within 0.03 % of F32" docs6m-f32.gguf "$f32" "0.0003 * $f32" --preset npu --activations int16
whole "W8A8 with a Q8_0 cache, fine, within 0.1 % of F32" docs6m-f32.gguf "$f32" "0.001 * $f32" --preset fine --kv q8_0
whole "W8A8 from the Q8_0 file, fine, is llama-perplexity's within 0.01 %" docs6m-q8_0.gguf 41.7174 "0.0001 * $f32" --preset fine
# The file's own numbers with float activations: below llama-perplexity's 42.0382 by more than the tolerance.
whole "W4A8 from the Q4_0 file is the CPU's within 0.01 %" docs6m-q4_0.gguf "$cpu_q4_0" "0.0001 * $f32" --preset npu
whole "W4A8, mixed activations, is the CPU's within 0.01 %" docs6m-q4_0.gguf "$cpu_q4_0" "0.0001 * $f32" --preset npu --activations mixed
for q in q6_k:41.7535 q5_k_m:41.7642 q4_k_m:41.9078; do
	whole "${q%:*}, native on the NPU, is llama-perplexity's within 0.05 %" "docs6m-${q%:*}.gguf" "${q#*:}" \
		"0.0005 * ${q#*:}" --preset npu
done
finish
