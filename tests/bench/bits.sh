#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/bits.sh MODEL CALIBRATION TEXT [BITS...]
# Prints what ways of quantising weights to BITS on average (4 5 6 7) cost a model, a float GGUF file: perplexity of TEXT and
# agreement with MODEL in floats. Three tables: with activations in floats, as the engine has them by default (INT8 with a scale for
# each row, and outliers apart), and as an NPU has them, INT8 with one scale a tensor.
# Files are F32 with the rounded weights (build/experiments/bits). For the last two the engine rounds them once more, to INT8 with a
# scale for each output channel, the same for all ways. Like CMPQ has levels of their own for each input channel, so the last lines
# are of adaptive in as many bits as these take together. See docs/edgeflow.md.
#
#   BUILD    the folder of bin/ and experiments/ (build)
#   PLACES   the tables (floats rows npu)
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath -m "${BUILD:-$root/build}")
fail() { echo "bits.sh: $*" >&2; exit 1; }
[ $# -ge 3 ] || { sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
model=$1 calibration=$2 text=$3
shift 3
[ $# -gt 0 ] || set -- 4 5 6 7
[ -x "$build/experiments/bits" ] || fail "no $build/experiments/bits: run make experiments"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
quiet() { "$@" >"$work/log" 2>&1 || fail "$(<"$work/log")"; }

# calibrate NAME OPTIONS...: the model with the largest values of its activations, and smoothed as the options say.
calibrate() {
	local name=$1
	shift
	quiet "$build/bin/llm-quantize" --calibrate "$calibration" --head-tokens 0 --pruning 1 "$@" "$model" "$work/$name.gguf" f32
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

# smoothed AVERAGE: the name of a file whose smoothing is searched for weights of that average.
smoothed() {
	local name=searched-$place-$1
	[ -e "$work/$name.gguf" ] || calibrate "$name" --smooth "$search" --smooth-bits "$1"
	echo "$name"
}

# row LABEL FROM METHOD OPTIONS...: a line of the table. FROM is a calibrated file, or "searched" for its smoothing. ${size[i]} is
# left as the bits of a weight with scales, widths and levels.
row() {
	local label=$1 from=$2 method=$3 line="| $1 |" i name cell
	shift 3
	for i in "${!widths[@]}"; do
		name=$from
		[ "$from" != searched ] || name=$(smoothed "${widths[i]}") || exit 1
		quiet "$build/experiments/bits" "$work/$name.gguf" "$work/rounded.gguf" --method "$method" --bits "${widths[i]}" "$@"
		size[i]=$(sed -n 's/.*: \([0-9.]*\) bits per weight, and \([0-9.]*\) .*/\1 + \2/p' "$work/log")
		cell=$(measure "$work/rounded.gguf" "${engine[@]}") || exit 1
		line+=" $cell |"
	done
	echo "$line"
}

# as_large: adaptive and smoothed, with as many bits as the last row had, 8 for weights at most.
as_large() {
	local widths=("${widths[@]}") size=("${size[@]}") i line="| bits of these |"
	for i in "${!widths[@]}"; do
		line+=" ${size[i]} |"
		# A scale of 32 bits and a width of 3 take 0.12 bits in rows of about 300 weights.
		widths[i]=$(python3 -c "print(round(min(8, ${size[i]} - 0.12), 2))")
	done
	echo "$line"
	row "adaptive, smoothed, as many bits" searched adaptive
	line="| bits of these |"
	for i in "${!widths[@]}"; do line+=" ${size[i]} |"; done
	echo "$line"
}

# shadowed: the line of llm.npu's shadow outliers, of all inputs.
shadowed() {
	local engine=("${engine[@]}")
	engine[-1]=static
	row "uniform, shadow outliers" shadow uniform
}

widths=("$@")
calibrate plain
calibrate smooth --smooth 0.5
calibrate shadow --pruning 0
for place in ${PLACES:-floats rows npu}; do
	search=auto engine=(--placement linear --weights w8a8 --activations static-max)
	what="INT8, one scale a tensor"
	case $place in
	floats) what=floats search=weights engine=(--placement cpu) ;;
	rows) what="INT8, a scale for each row, and outliers apart" search=weights engine=(--placement linear --weights w8a8) ;;
	esac
	echo "activations: $what"
	echo
	echo "| weights |$(printf ' %s bits |' "${widths[@]}")"
	echo "|---|$(printf '%.0s---:|' "${widths[@]}")"
	echo "| not rounded |$(printf " $(measure "$work/plain.gguf" "${engine[@]}" | sed s/%/%%/) |%.0s" "${widths[@]}")"
	row "uniform" plain uniform
	row "like CMPQ, levels shared" plain cmpq-shared --text "$calibration"
	row "uniform, smoothed by 0.5" smooth uniform
	[ "$place" != npu ] || shadowed
	row "adaptive" plain adaptive
	row "adaptive, smoothed" searched adaptive
	row "adaptive, smoothed, steps by activations" searched adaptive-inputs --text "$calibration"
	row "the same, widths over all matrices" searched adaptive-model --text "$calibration"
	row "like CMPQ" plain cmpq --text "$calibration"
	as_large
	echo
done
