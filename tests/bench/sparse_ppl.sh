#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/sparse_ppl.sh [RATIO...]
# Prints what ways of attention cost models: perplexity for the mean RATIOs of positions (0.2 0.3 0.4 0.6), with all attention sparse
# (--sparse-from 1), and how many times that of full attention it is. Matmuls are the NPU's in INT8 in all rows (--placement fine).
# The files are calibrated with a text of its own. See docs/shadowattn.md.
#
#   VNPU_DATA   the folder of models/docs6m, models/stories260K and text/tinystories_val.txt
#   BUILD       the folder of bin/ (build)
#   BYTES       of the texts to measure (60000)
#   CTX         tokens of a window (512)
#   MODELS      docs6m stories260K, and there is docs34m
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(realpath -m "${BUILD:-$root/build}")/bin
fail() { echo "sparse_ppl.sh: $*" >&2; exit 1; }
data=${VNPU_DATA:?names no folder of models and texts}
[ $# -gt 0 ] || set -- 0.2 0.3 0.4 0.6
ratios=("$@")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# measure OPTIONS...: the perplexity.
measure() {
	"$bin/llm-perplexity" -m "$work/model.gguf" -f "$work/text" -c "${CTX:-512}" --placement fine --kv f32 -o json "$@" 2>"$work/log" >"$work/json" ||
		fail "$(<"$work/log")"
	python3 -c "import json,sys; print('%.3f' % json.load(open(sys.argv[1]))['perplexity'])" "$work/json"
}

# cell OPTIONS...: of the table.
cell() {
	local ppl
	ppl=$(measure --sparse-from 1 "$@") || exit 1
	echo " $ppl ($(python3 -c "print('%.3f' % ($ppl / $full))")) |"
}

# row LABEL OPTIONS...: a line of the table.
row() {
	local line="| $1 |" ratio
	shift
	for ratio in "${ratios[@]}"; do
		line+=$(cell --ratio "$ratio" "$@") || exit 1
	done
	echo "$line"
}

# table NAME MODEL TYPE CALIBRATION: of the model that $work/text is for.
table() {
	local line
	"$bin/llm-quantize" --calibrate "$4" --pruning 1 "$2" "$work/model.gguf" "$3" >"$work/log" 2>&1 || fail "$(<"$work/log")"
	full=$(measure --attention full) || exit 1
	echo "$1: full $full"
	echo
	echo "| attention |$(printf ' ratio %s |' "${ratios[@]}")"
	echo "|---|$(printf '%.0s---:|' "${ratios[@]}")"
	row "sparse" --attention sparse
	row "shadow" --attention shadow
	row "shadow, ratios by importance" --attention shadow --ratios head
	row "shadow, uniform ratios" --attention shadow --ratios uniform
	row "shadow, one scale bucket" --attention shadow --scale-buckets 1
	row "block" --attention block
	row "block, uniform ratios" --attention block --ratios uniform
	# Heads of 8 values are none for ATTN_I8.
	[ "$1" = stories260K ] || line=$(cell --attention npu) || exit 1
	[ "$1" = stories260K ] || echo "| npu, which has no ratio |$line"
	echo
}

for name in ${MODELS:-docs6m stories260K}; do
	case $name in
	docs6m)
		head -c "${BYTES:-60000}" "$data/models/docs6m/test.txt" >"$work/text"
		table docs6m "$data/models/docs6m/docs6m-f32.gguf" f32 "$data/models/docs6m/valid.txt"
		;;
	docs34m)
		head -c "${BYTES:-60000}" "$data/models/docs6m/test.txt" >"$work/text"
		table docs34m "$root/share/models/docs34m/docs34m-q8_0.gguf" q8_0 "$data/models/docs6m/valid.txt"
		;;
	stories260K)
		head -c 100000 "$data/text/tinystories_val.txt" >"$work/calibration"
		tail -c +100001 "$data/text/tinystories_val.txt" | head -c "${BYTES:-60000}" >"$work/text"
		table stories260K "$data/models/stories260K/stories260K-f32.gguf" f32 "$work/calibration"
		;;
	*) fail "no model '$name'" ;;
	esac
done
