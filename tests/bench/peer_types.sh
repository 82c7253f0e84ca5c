#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/peer_types.sh LLAMA_BIN [TYPE...]
# Perplexities of a model in the types that the llama-quantize of folder LLAMA_BIN writes, beside that of its llama-perplexity: with the
# weights widened (placement cpu) and as the NPU multiplies them (weights native), and how far these are from it in percent. Files of
# 1 to 3 bits are made with an importance matrix of CALIBRATION, by its llama-imatrix. "-": that program does not know the type.
#
#   BUILD        the folder of bin/ (build)
#   MODEL        a GGUF file in F32 or F16
#   CALIBRATION  a text for the importance matrix
#   TEXT         the text whose perplexity is measured
#   CHUNKS       of 512 tokens, the first ones (-1: all)
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(realpath -m "${BUILD:-$root/build}")/bin
fail() { echo "peer_types.sh: $*" >&2; exit 1; }
[ $# -ge 1 ] && [ -x "$1/llama-quantize" ] && [ -x "$1/llama-perplexity" ] || fail "give the folder of llama-quantize and llama-perplexity"
[ -f "${MODEL:-}" ] && [ -f "${CALIBRATION:-}" ] && [ -f "${TEXT:-}" ] || fail "set MODEL, CALIBRATION and TEXT to files"
peer=$(realpath "$1")
MODEL=$(realpath "$MODEL") CALIBRATION=$(realpath "$CALIBRATION") TEXT=$(realpath "$TEXT")
shift
chunks=${CHUNKS:--1}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# The other programs leave logs where they run.
cd "$work" || exit 1
types=("$@")
[ ${#types[@]} -gt 0 ] || types=(Q8_0 Q6_K Q5_K_M Q5_K_S Q5_1 Q5_0 Q4_K_M Q4_K_S Q4_1 Q4_0 IQ4_NL IQ4_XS MXFP4 Q3_K_L Q3_K_M Q3_K_S
	IQ3_M IQ3_S IQ3_XS IQ3_XXS Q2_K Q2_K_S IQ2_M IQ2_S IQ2_XS IQ2_XXS TQ2_0 TQ1_0 IQ1_M IQ1_S F16 BF16)
"$peer/llama-imatrix" -m "$MODEL" -f "$CALIBRATION" -o "$work/imatrix" -c 512 --chunks 150 >"$work/log" 2>&1 || fail "llama-imatrix: $(tail -1 "$work/log")"

# The number that a line names as the perplexity.
number() { grep -oE "$1 *[0-9.]+" | tail -1 | grep -oE '[0-9.]+$'; }
ours() {
	"$bin/llm-perplexity" -m "$work/model" -f "$TEXT" -c 512 --chunks "$chunks" "$@" 2>"$work/log" | number perplexity
}

echo "| file | bytes | llama-perplexity | cpu | % | native | % |"
echo "|---|---:|---:|---:|---:|---:|---:|"
for type in "${types[@]}"; do
	with=()
	# The embedding, which may be the output too, has no importance of its own, so these types refuse it.
	case $type in
		IQ[12]*|Q2_K_S) with=(--imatrix "$work/imatrix" --token-embedding-type q6_k --output-tensor-type q6_k) ;;
		IQ3*|Q2*|Q3*) with=(--imatrix "$work/imatrix") ;;
	esac
	if ! "$peer/llama-quantize" "${with[@]}" "$MODEL" "$work/model" "$type" 2 >"$work/log" 2>&1; then
		echo "$type: $(grep -iE -m1 'error|invalid|assert' "$work/log")" >&2
		echo "| $type | - | - | - | - | - | - |"
		continue
	fi
	theirs=$("$peer/llama-perplexity" -m "$work/model" -f "$TEXT" -c 512 --chunks "$chunks" -t 2 2>&1 | number 'Final estimate: PPL.* =')
	[ -n "$theirs" ] || fail "$type: llama-perplexity prints no estimate"
	cpu=$(ours --placement cpu)
	native=$(ours --placement npu --weights native)
	[ -n "$cpu" ] && [ -n "$native" ] || fail "$type: $(tail -1 "$work/log")"
	python3 - "$type" "$(stat -c %s "$work/model")" "$theirs" "$cpu" "$native" <<'END'
import sys
name, size, theirs, cpu, native = sys.argv[1:]
off = lambda a: f"{100 * (float(a) / float(theirs) - 1):+.2f}"
print(f"| {name} | {int(size):,} | {theirs} | {cpu} | {off(cpu)} | {native} | {off(native)} |", flush=True)
END
done
