#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/transports.sh [options] [-- arguments for llm-bench]
# Measures the cost of the driver: runs the same programs with the same model alternately through vnpu.ko and inside the process,
# in one guest. The guest is a user-mode kernel with one CPU (tests/vm/uml.sh), which is built if needed. Prints how many times
# faster the driver was; 0.95 is 5 % slower. See docs/benchmarks.md.
#
#   --shape NAME    the shape of a model with random weights (qwen2.5-0.5b)
#   --type TYPE     their type (q8_0)
#   -m FILE         this model instead
#   -p LIST         prompt lengths (256)
#   -n N            tokens to generate (32)
#   -r N            rounds (5)
#   -o FORMAT       md for a table (the default), json for one object per comparison
#   --no-path       without bench_npu_path
#
#   BUILD           the folder of the programs (build)
#   PEER_MODELS     the folder of the models with random weights (~/.cache/vnpu/models)
set -u
export TURNS_FOR=transports.sh
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(realpath -m "${BUILD:-$root/build}")
models=${PEER_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/vnpu/models}
shape=qwen2.5-0.5b type=q8_0 model='' prompts=256 gen=32 rounds=5 format=md path=1

fail() { echo "transports.sh: $*" >&2; exit 1; }
usage() { echo "transports.sh: $*; see transports.sh --help" >&2; exit 2; }
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
	--) shift; break ;;
	--no-path) path=0; shift; continue ;;
	--shape | --type | -m | -p | -n | -r | -o) [ $# -gt 1 ] || usage "$1 needs a value" ;;
	*) usage "no option '$1'" ;;
	esac
	case $1 in
	--shape) shape=$2 ;;
	--type) type=$2 ;;
	-m) model=$(realpath "$2") ;;
	-p) prompts=$2 ;;
	-n) gen=$2 ;;
	-r) rounds=$2 ;;
	-o) format=$2 ;;
	esac
	shift 2
done
[ "$format" = md ] || [ "$format" = json ] || usage "-o $format: neither md nor json"
[[ $rounds =~ ^[1-9][0-9]*$ ]] || usage "-r $rounds: not a number"
for b in bin/llm-bench bin/vnpu-fw tests/bench_npu_path; do
	[ -x "$build/$b" ] || fail "no $build/$b: run make tests"
done
if [ -z "$model" ]; then
	model=$models/$(basename "$shape" .conf)-$type.gguf
	if [ ! -e "$model" ]; then
		mkdir -p "$models" || exit 1
		echo "transports.sh: making $model" >&2
		"$build/bin/llm-quantize" --synthetic "$shape" "$model.$$" "$type" --seed 1 >/dev/null && mv "$model.$$" "$model" || exit 1
	fi
fi
[ -r "$model" ] || fail "$model: no such file"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# Passed in a file, as a kernel's command line would split words at spaces.
{ [ $# -eq 0 ] || printf '%q ' "$@"; } >"$work/args"
VM_OUT=$work BUILD=$build VM_APPEND="BENCH_MODEL=$model BENCH_PROMPTS=$prompts BENCH_GEN=$gen BENCH_ROUNDS=$rounds BENCH_PATH=$path" \
	"$root/tests/vm/uml.sh" "$here/transports-guest.sh" >&2 || exit 1
python3 "$here/turns.py" table "$work/runs" "$format" drm sim || exit 1
[ "$path" = 0 ] || [ "$format" = json ] || { echo; cat "$work/path"; }
