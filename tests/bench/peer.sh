#!/bin/bash
# SPDX-License-Identifier: MIT
# LLAMA_BENCH=PROGRAM tests/bench/peer.sh [options] [-- arguments only for llm-bench]
# Runs llm-bench and llama.cpp's llama-bench alternately on the same files, and prints how many times better llm-bench was: prefill
# and decode in tokens per second, a cold start in seconds, memory in bytes. See docs/benchmarks.md.
#
#   --shapes LIST   the models' shapes (qwen2.5-0.5b,llama3.2-1b,qwen1.5-1.8b): names in share/shapes, or files
#   --types LIST    their weights (q8_0,q4_0)
#   -m LIST         these files instead of models with random weights
#   -p LIST         prompt lengths (64,256,512)
#   -n N            tokens to generate (64)
#   -r N            rounds (5)
#   -t N            threads of both (2)
#   -o FORMAT       md for a table (the default), json for one object per comparison
#   -q              no progress lines
#
#   LLAMA_BENCH     the llama-bench, which gets this script's environment, such as GGML_BACKEND_PATH
#   BUILD           the folder of bin/llm-bench (build)
#   PEER_MODELS     the folder of the models with random weights (~/.cache/vnpu/models)
set -u
export TURNS_FOR=peer.sh
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=$(realpath -m "${BUILD:-$root/build}")/bin
models=${PEER_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/vnpu/models}
shapes=qwen2.5-0.5b,llama3.2-1b,qwen1.5-1.8b types=q8_0,q4_0 files='' prompts=64,256,512 gen=64 rounds=5 threads=2 format=md quiet=

fail() { echo "peer.sh: $*" >&2; exit 1; }
usage() { echo "peer.sh: $*; see peer.sh --help" >&2; exit 2; }
number() { [[ $2 =~ ^[1-9][0-9]*$ ]] || usage "$1 $2: not a number"; }

while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
	--) shift; break ;;
	-q) quiet=1; shift; continue ;;
	--shapes | --types | -m | -p | -n | -r | -t | -o) [ $# -gt 1 ] || usage "$1 needs a value" ;;
	*) usage "no option '$1'" ;;
	esac
	case $1 in
	--shapes) shapes=$2 ;;
	--types) types=$2 ;;
	-m) files=$2 ;;
	-p) prompts=$2 ;;
	-n) number -n "$2"; gen=$2 ;;
	-r) number -r "$2"; rounds=$2 ;;
	-t) number -t "$2"; threads=$2 ;;
	-o) format=$2 ;;
	esac
	shift 2
done
[[ $prompts =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ ]] || usage "-p $prompts: not a list of numbers"
[ "$format" = md ] || [ "$format" = json ] || usage "-o $format: neither md nor json"
[ -n "${LLAMA_BENCH:-}" ] || fail "LLAMA_BENCH is not set; set it to llama.cpp's llama-bench"
theirs=$(command -v -- "$LLAMA_BENCH") || fail "LLAMA_BENCH=$LLAMA_BENCH: no such program"
[ -x "$bin/llm-bench" ] || fail "no $bin/llm-bench: run make all"
command -v python3 >/dev/null || fail "no python3: run make deps"

say() { [ -n "$quiet" ] || echo "peer.sh: $*" >&2; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# synthetic SHAPE TYPE: sets $file, and makes it if needed. The same seed makes the same weights on every machine.
synthetic() {
	file=$models/$(basename "$1" .conf)-$2.gguf
	# A shape that is a file may have changed since.
	if [ -e "$file" ] && ! [ "$1" -nt "$file" ]; then
		return 0
	fi
	mkdir -p "$models" || exit 1
	say "making $file"
	"$bin/llm-quantize" --synthetic "$1" "$file.$$" "$2" --seed 1 >"$work/out" 2>"$work/err" && mv "$file.$$" "$file" && return 0
	rm -f "$file.$$"
	fail "$(head -1 "$work/err")"
}

# measure SIDE KIND FILE COMMAND...: appends the results of one run to $work/runs.
measure() {
	python3 "$here/turns.py" run "$work/runs" "$@" || exit 1
}

compare() {
	local model=$1 round
	shift
	for ((round = 1; round <= rounds; round++)); do
		say "$(basename "$model"), round $round of $rounds"
		measure ours warm "$model" "$bin/llm-bench" -m "$model" -p "$prompts" -n "$gen" -t "$threads" -r 1 -o json "$@"
		measure theirs warm "$model" "$theirs" -m "$model" -p "$prompts" -n "$gen" -t "$threads" -r 1 -o json
		measure ours cold "$model" "$bin/llm-bench" -m "$model" -p 1 -n 1 -t "$threads" -r 1 --no-warmup -o json "$@"
		measure theirs cold "$model" "$theirs" -m "$model" -p 1 -n 1 -t "$threads" -r 1 --no-warmup -o json
	done
}

if [ -n "$files" ]; then
	for file in ${files//,/ }; do
		[ -r "$file" ] || fail "$file: no such file"
		compare "$file" "$@"
	done
else
	for shape in ${shapes//,/ }; do
		for type in ${types//,/ }; do
			synthetic "$shape" "$type"
			compare "$file" "$@"
		done
	done
fi
python3 "$here/turns.py" table "$work/runs" "$format" ours theirs
