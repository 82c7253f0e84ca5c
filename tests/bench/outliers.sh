#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/outliers.sh MODEL CALIBRATION TEXT [CHANNELS...]
# Prints what quantising activations costs a model, a float GGUF file: perplexity of TEXT and agreement with MODEL in floats, for
# scales per row, one scale a tensor, smoothing, and shadow outliers by pruning. Each column after the first is the same model with
# that many channels of outliers injected (build/experiments/inject), in which F32 computes the same. See docs/llm.npu.md.
#
#   CHANNELS   numbers of channels (default: 1 4)
#   BUILD      the folder of bin/ and experiments/ (build)
#   FACTOR     how much larger the injected channels are at the model's ends (64)
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath -m "${BUILD:-$root/build}")
fail() { echo "outliers.sh: $*" >&2; exit 1; }
[ $# -ge 3 ] || { sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
model=$1 calibration=$2 text=$3
shift 3
[ $# -gt 0 ] || set -- 1 4
[ -x "$build/experiments/inject" ] || fail "no $build/experiments/inject: run make experiments"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# calibrated NAME FILE: files of FILE that keep all outliers, plain and smoothed. Twice as many
# channels as are injected are taken for outliers, but at least 0.3 % of all, llm-quantize's default.
calibrated() {
	local name=$1 file=$2 share=$3
	"$build/bin/llm-quantize" --calibrate "$calibration" --head-tokens 0 --pruning 0 --outlier-channels "$share" "$file" "$work/$name.gguf" w8a8 \
		>"$work/log" 2>&1 || fail "$(<"$work/log")"
	"$build/bin/llm-quantize" --calibrate "$calibration" --head-tokens 0 --pruning 0 --outlier-channels "$share" --smooth 0.5 "$file" \
		"$work/$name-smooth.gguf" w8a8 >"$work/log" 2>&1 || fail "$(<"$work/log")"
}

# measure FILE OPTIONS...: "perplexity, agreement".
measure() {
	local file=$1
	shift
	"$build/bin/llm-perplexity" -m "$file" -f "$text" -o json --reference "$model" "$@" 2>"$work/log" >"$work/json" ||
		fail "$(<"$work/log")"
	python3 -c "import json,sys; r = json.load(open(sys.argv[1])); print('%.3f, %.1f %%' % (r['perplexity'], 100 * r['agreement']))" \
		"$work/json"
}

names=(plain) files=("$model") heads="| activations | the model |"
for n; do
	"$build/experiments/inject" "$model" "$work/inject-$n.gguf" --channels "$n" --factor "${FACTOR:-64}" --seed 1 >"$work/log" 2>&1 ||
		fail "$(<"$work/log")"
	names+=("inject-$n") files+=("$work/inject-$n.gguf") heads+=" $n channel$([ "$n" = 1 ] || echo s) |"
done
width=$(python3 - "$model" <<'PY'
import struct, sys
data = open(sys.argv[1], 'rb').read(1 << 20)
key = data.find(b'.embedding_length') + len('.embedding_length')
print(struct.unpack_from('<I', data, key + 4)[0])
PY
)
echo "$heads"
echo "|---|$(printf '%.0s---:|' "${names[@]}")"
shares=()
for i in "${!names[@]}"; do
	n=${names[i]#inject-}
	[ "$n" != plain ] || n=0
	shares+=("$(python3 -c "print(max(0.003, 2 * $n / $width))")")
	calibrated "cal-${names[i]}" "${files[i]}" "${shares[i]}"
	"$build/bin/llm-quantize" "${files[i]}" "$work/groups-${names[i]}.gguf" q8_0 >"$work/log" 2>&1 || fail "$(<"$work/log")"
done
# row LABEL KIND OPTIONS...: KIND is f32, groups, cal or smooth.
row() {
	local label=$1 kind=$2 line file
	shift 2
	line="| $label |"
	for i in "${!names[@]}"; do
		case $kind in
		f32) file=${files[i]} ;;
		groups) file=$work/groups-${names[i]}.gguf ;;
		cal) file=$work/cal-${names[i]}.gguf ;;
		smooth) file=$work/cal-${names[i]}-smooth.gguf ;;
		esac
		line+=" $(measure "$file" "$@") |" || exit 1
	done
	echo "$line"
}
row "F32" f32 --preset cpu
row "weights in groups of 32, activations in floats" groups --preset cpu
row "a scale per row" cal --preset npu --activations int8
row "the same, row outliers in floats" cal --preset npu --activations row-outliers-all
row "one scale a tensor" cal --preset llm.npu --activations static-max
row "the same, smoothed" smooth --preset llm.npu --activations static-max
for pruning in 1 0.85 0.5 0; do
	row "shadow outliers, pruning $(python3 -c "print(round(100 * $pruning))") %" cal --preset llm.npu --pruning $pruning
done
