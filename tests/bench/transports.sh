#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/transports.sh [options] [-- arguments for llm-bench]
# The same programs, the same model, the same device, once through vnpu.ko and once inside the process, by turns in one guest:
# what the driver costs. The guest is a user-mode kernel with one CPU (tests/vm/uml.sh), which is built if need be. Prints how
# many times faster the driver was, so 0.95 is 5 % slower. docs/benchmarks.md says more.
#
#   --shape NAME    the model's shape (qwen2.5-0.5b), of random weights
#   --type TYPE     their type (q8_0)
#   -m FILE         this model in its place
#   -p LIST         prompt lengths (256)
#   -n N            tokens to generate (32)
#   -r N            rounds (5)
#   -o FORMAT       md for a table (the default), json for one object per comparison
#   --no-path       without bench_npu_path
#
#   BUILD           where the programs are (build)
#   PEER_MODELS     where models of random weights are kept (~/.cache/vnpu/models)
set -u
export TURNS_FOR=transports.sh
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(realpath -m "${BUILD:-$root/build}")
models=${PEER_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/vnpu/models}
shape=qwen2.5-0.5b type=q8_0 model='' prompts=256 gen=32 rounds=5 format=md path=1

fail() { echo "transports.sh: $*" >&2; exit 1; }
usage() { echo "transports.sh: $*; transports.sh --help tells more" >&2; exit 2; }
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
[ "$format" = md ] || [ "$format" = json ] || usage "-o $format: there are md and json"
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
# Words with blanks would not survive a kernel's command line.
{ [ $# -eq 0 ] || printf '%q ' "$@"; } >"$work/args"
VM_OUT=$work BUILD=$build VM_APPEND="BENCH_MODEL=$model BENCH_PROMPTS=$prompts BENCH_GEN=$gen BENCH_ROUNDS=$rounds BENCH_PATH=$path" \
	"$root/tests/vm/uml.sh" "$here/transports-guest.sh" >&2 || exit 1
python3 "$here/turns.py" table "$work/runs" "$format" drm sim || exit 1
[ "$path" = 0 ] || [ "$format" = json ] || { echo; cat "$work/path"; }
