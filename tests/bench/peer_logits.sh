#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/peer_logits.sh LLAMA_CPP [ARCH...]
# Compares logits with those of a llama.cpp, built with shared libraries in the source tree LLAMA_CPP/build: small random models of each
# architecture (all that docs/models.md names, and llama with experts as "mixtral"), for prompts and decoded tokens. With quantised weights a llama.cpp rounds activations
# too, so it also reads the same numbers widened to F32. Prints for each model the greatest difference in parts of the greatest logit
# of its position, and the median of all positions'; "-" where that llama.cpp does not know the architecture.
#
#   BUILD       the folder of bin/ and tests/ (build)
#   SHAPE       a name of share/shapes in place of the small shape, with a small vocabulary
#   TYPES       of weights (f32 q8_0)
#   PLACEMENTS  cpu
#   TOKENS      of the prompt (600), beyond the window of models that have one; 8 more are decoded
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath -m "${BUILD:-$root/build}")
fail() { echo "peer_logits.sh: $*" >&2; exit 1; }
[ $# -ge 1 ] && [ -f "$1/include/llama.h" ] || fail "give the source tree of a llama.cpp that is built"
peer=$(realpath "$1")
shift
tokens=${TOKENS:-600}
vocab=1024
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
archs=("$@")
[ ${#archs[@]} -gt 0 ] || archs=(llama qwen2 qwen3 internlm2 granite smollm3 olmo2 gemma gemma2 gemma3 phi3 phi2 stablelm starcoder2
	qwen2moe qwen3moe mixtral)

mapfile -t libraries < <(find "$peer/build" -name 'libllama.so' -o -name 'libggml*.so')
[ ${#libraries[@]} -gt 1 ] || fail "$peer/build has no libllama.so and libggml.so"
folders=$(printf '%s\n' "${libraries[@]%/*}" | sort -u | paste -sd:)
cc -O1 -Wno-deprecated-declarations -I"$peer/include" -I"$peer/ggml/include" "$root/tests/bench/peer_logits.c" -o "$work/peer" \
	"${libraries[@]}" -Wl,-rpath,"$folders" -lstdc++ -lm 2>"$work/log" || fail "$(<"$work/log")"
make -s -C "$root" O="$build" "$build/tests/bench_logits" >&2 || exit 1

# The shape's name becomes the model's, from which llama.cpp would conclude things: it must be none of theirs.
# Some architectures have as many KV heads as heads, share the embeddings with the output, or are of known depths only.
shape() {
	local kv=2 tied=no layers=6 ffn=1024
	case $1 in olmo2) kv=8 ;; gemma2) tied=yes layers=26 ;; gemma*) tied=yes ;; *moe) ffn=256 ;; esac
	printf '[model]\nlayers = %d\ndim = 512\nheads = 8\nkv_heads = %d\nhead_dim = 64\nffn = %d\nvocab = %d\nactivation = silu\ngated = yes\ntied = %s\nqkv_bias = no\n' \
		$layers $kv $ffn $vocab $tied >"$work/shape.conf"
	case $1 in *moe | mixtral) printf 'experts = 8\nexperts_used = 2\n' >>"$work/shape.conf" ;; esac
	[ "$1" != qwen2moe ] || echo shared_ffn = 512 >>"$work/shape.conf"
}

mapfile -t ids < <(awk -v n=$((tokens + 8)) -v v=$vocab 'BEGIN { srand(1); print 1; for (i = 1; i < n; i++) print 300 + int(rand() * (v - 300)) }')

# compare NAME TYPE THEIRS: prints a row for the model, whose numbers the peer reads from the file THEIRS.
compare() {
	"$work/peer" "$3" $vocab "$tokens" "${ids[@]}" >"$work/logits" 2>"$work/log" || : >"$work/logits"
	for placement in ${PLACEMENTS:-cpu}; do
		if [ -s "$work/logits" ]; then
			"$build/tests/bench_logits" "$work/model.gguf" "$placement" "$tokens" "${ids[@]}" <"$work/logits" >"$work/out" || exit 1
			read -r _ prompt prompts _ decode decodes <"$work/out"
		else
			prompt=- prompts=- decode=- decodes=-
		fi
		echo "| $1 | $2 | $placement | $prompt | $prompts | $decode | $decodes |"
	done
}

echo "| architecture | weights | placement | prompt | median | decode | median |"
echo "|---|---|---|---:|---:|---:|---:|"
for arch in "${archs[@]}"; do
	shape "$arch"
	for type in ${TYPES:-f32 q8_0}; do
		"$build/bin/llm-quantize" --synthetic "${SHAPE:-$work/shape.conf}" --vocab $vocab --arch "${arch/mixtral/llama}" "$work/model.gguf" "$type" \
			--seed 7 >/dev/null || exit 1
		compare "$arch" "$type" "$work/model.gguf"
		[ "$type" = f32 ] && continue
		"$build/bin/llm-quantize" "$work/model.gguf" "$work/wide.gguf" f32 >/dev/null 2>&1 || exit 1
		compare "$arch" "$type, the peer's widened" "$work/wide.gguf"
	done
done
