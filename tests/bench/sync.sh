#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/sync.sh [options] [-- arguments for hetero]
# Measures the gain by fast synchronisation (HeteroLLM 4.2; runtime/schedule/waits.h): runs
# build/experiments/hetero with --sync fast and with --sync driver alternately on the same model, and
# prints how well the ends of the lanes' work were predicted. See docs/hetero.md.
#
#   --shapes LIST   shapes of models with random weights (qwen2.5-0.5b,llama3.2-1b): names in share/shapes, or files
#   -m LIST         these files instead
#   -p LIST         prompt lengths (64)
#   -n N            tokens to generate (32)
#   -r N            rounds (5)
#   -o FORMAT       md for a table (the default), json for one object per comparison
#
# Without arguments for hetero: --preset hetero-tensor --partition row --gpu-share 0.25, so that
# every matmul is cut.
#   BUILD           the folder of experiments/hetero (build)
#   PEER_MODELS     the folder of the models with random weights (~/.cache/vnpu/models)
set -u
export TURNS_FOR=sync.sh
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(realpath -m "${BUILD:-$root/build}")
hetero=$build/experiments/hetero
models=${PEER_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/vnpu/models}
shapes=qwen2.5-0.5b,llama3.2-1b files='' prompts=64 gen=32 rounds=5 format=md

fail() { echo "sync.sh: $*" >&2; exit 1; }
usage() { echo "sync.sh: $*; see sync.sh --help" >&2; exit 2; }

while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
	--) shift; break ;;
	--shapes | -m | -p | -n | -r | -o) [ $# -gt 1 ] || usage "$1 needs a value" ;;
	*) usage "no option '$1'" ;;
	esac
	case $1 in
	--shapes) shapes=$2 ;;
	-m) files=$2 ;;
	-p) prompts=$2 ;;
	-n) gen=$2 ;;
	-r) rounds=$2 ;;
	-o) format=$2 ;;
	esac
	shift 2
done
[[ $prompts =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ ]] || usage "-p $prompts: not a list of numbers"
[[ $gen =~ ^[1-9][0-9]*$ ]] || usage "-n $gen: not a number"
[[ $rounds =~ ^[1-9][0-9]*$ ]] || usage "-r $rounds: not a number"
[ "$format" = md ] || [ "$format" = json ] || usage "-o $format: neither md nor json"
[ -x "$hetero" ] || fail "no $hetero: run make experiments"
[ $# -gt 0 ] || set -- --preset hetero-tensor --partition row --gpu-share 0.25

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

measure() { # SYNC FILE ARGUMENTS...
	local sync=$1 file=$2
	shift 2
	python3 "$here/turns.py" run "$work/runs" "$sync" warm "$file" "$hetero" -m "$file" -p "$prompts" -n "$gen" -r 1 \
		"$@" --sync "$sync" || exit 1
}

compare() { # FILE ARGUMENTS...
	local file=$1 round
	shift
	for ((round = 1; round <= rounds; round++)); do
		echo "sync.sh: $(basename "$file"), round $round of $rounds" >&2
		measure fast "$file" "$@"
		measure driver "$file" "$@"
	done
	# The same prompt length, so that the waits are like those of the measured prompt.
	"$hetero" -m "$file" -pg "${prompts%%,*},$gen" -r 1 "$@" --sync fast \
		>"$work/out" 2>"$work/err" || fail "$(tail -1 "$work/err")"
	{
		basename "$file"
		python3 "$here/turns.py" waits "$work/out"
	} >>"$work/waits"
}

if [ -n "$files" ]; then
	for file in ${files//,/ }; do
		[ -r "$file" ] || fail "$file: no such file"
		compare "$file" "$@"
	done
else
	mkdir -p "$models" || exit 1
	for shape in ${shapes//,/ }; do
		file=$models/$(basename "$shape" .conf)-q4_0.gguf
		if [ ! -e "$file" ]; then
			echo "sync.sh: making $file" >&2
			"$build/bin/llm-quantize" --synthetic "$shape" "$file.$$" q4_0 --seed 1 2>"$work/err" && mv "$file.$$" "$file" ||
				fail "$(head -1 "$work/err")"
		fi
		compare "$file" "$@"
	done
fi
python3 "$here/turns.py" table "$work/runs" "$format" fast driver
[ "$format" = json ] || { echo; cat "$work/waits"; }
