#!/bin/bash
# SPDX-License-Identifier: MIT
# LLAMA_BENCH=PEER[,PEER...] tests/bench/peer.sh [options] [-- arguments only for llm-bench]
# Runs llm-bench and one or more llama-bench (of llama.cpp and its forks) alternately on the same files, and prints how many times
# better llm-bench was than each: prefill and decode in tokens per second, a cold start in seconds, memory in bytes; and how fast
# llm-bench read memory in decode, beside plain reads by as many threads. See docs/benchmarks.md.
#
#   --shapes LIST   the models' shapes (qwen2.5-0.5b,llama3.2-1b,qwen1.5-1.8b): names in share/shapes, or files
#   --types LIST    their weights (q8_0,q4_0); others than f32, f16, q8_0 and q4_0 need LLAMA_QUANTIZE
#   -m LIST         these files instead of models with random weights
#   -p LIST         prompt lengths (64,256,512)
#   -n N            tokens to generate (64)
#   -d LIST         tokens in the KV cache before a test (0): pp64@d2048, tg64@d2048
#   --kv LIST       types of the KV cache, for all programs (each program's default); a quantised one gives peers -fa 1
#   -r N            rounds (5)
#   -t N            threads of each (2)
#   -o FORMAT       md for tables (the default), json for one object per comparison
#   -q              no progress lines
#
#   LLAMA_BENCH     the peers, each [LABEL=]PROGRAM [OPTIONS]: 'llama.cpp=/opt/a/llama-bench -fa 1,ik=/opt/b/llama-bench -rtr 1'.
#                   Words end at spaces, peers at commas. Without a label it is the program's name. A peer has its options in
#                   all runs, and this script's environment; a variable for one peer: 'amx=env NAME=VALUE /opt/a/llama-bench'
#   LLAMA_QUANTIZE  the llama-quantize that makes types that llm-quantize does not write, such as q4_k_m, from f16
#   BUILD           the folder of bin/llm-bench (build)
#   READ_MIB        memory that the plain reads go through, in MiB: a multiple of 64 (512)
#   PEER_MODELS     the folder of the models with random weights (~/.cache/vnpu/models)
set -u
export TURNS_FOR=peer.sh
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(realpath -m "${BUILD:-$root/build}")
bin=$build/bin
models=${PEER_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/vnpu/models}
shapes=qwen2.5-0.5b,llama3.2-1b,qwen1.5-1.8b types=q8_0,q4_0 files='' prompts=64,256,512 gen=64 depths=0 kvs='' rounds=5 threads=2
format=md quiet=

fail() { echo "peer.sh: $*" >&2; exit 1; }
usage() { echo "peer.sh: $*; see peer.sh --help" >&2; exit 2; }
number() { [[ $2 =~ ^[1-9][0-9]*$ ]] || usage "$1 $2: not a number"; }
say() { [ -n "$quiet" ] || echo "peer.sh: $*" >&2; }

while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
	--) shift; break ;;
	-q) quiet=1; shift; continue ;;
	--shapes | --types | --kv | -m | -p | -n | -d | -r | -t | -o) [ $# -gt 1 ] || usage "$1 needs a value" ;;
	*) usage "no option '$1'" ;;
	esac
	case $1 in
	--shapes) shapes=$2 ;;
	--types) types=$2 ;;
	--kv) kvs=$2 ;;
	-m) files=$2 ;;
	-p) prompts=$2 ;;
	-n) number -n "$2"; gen=$2 ;;
	-d) depths=$2 ;;
	-r) number -r "$2"; rounds=$2 ;;
	-t) number -t "$2"; threads=$2 ;;
	-o) format=$2 ;;
	esac
	shift 2
done
[[ $prompts =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ ]] || usage "-p $prompts: not a list of numbers"
[[ $depths =~ ^(0|[1-9][0-9]*)(,(0|[1-9][0-9]*))*$ ]] || usage "-d $depths: not a list of numbers"
[[ $kvs =~ ^([a-z0-9_]+(,[a-z0-9_]+)*)?$ ]] || usage "--kv $kvs: not a list of types"
[ "$format" = md ] || [ "$format" = json ] || usage "-o $format: neither md nor json"
command -v python3 >/dev/null || fail "no python3: run make deps"
[ -x "$bin/llm-bench" ] || fail "no $bin/llm-bench: run make all"
[ -x "$build/tests/bench_memory" ] || fail "no $build/tests/bench_memory: run make tests"

work=$(mktemp -d) || exit 1
partial=
trap 'rm -rf "$work" ${partial:+"$partial"}' EXIT

# ---- the peers -----------------------------------------------------------------------------------

# By number: its label, its program and options, how it measures at a depth (-d, -gp or nothing), and how it leaves out the warm-up.
labels=() commands=() deep=() cold=()

# add_peer TEXT: an entry of LLAMA_BENCH.
add_peer() {
	local words label program
	read -ra words <<<"$1"
	[ ${#words[@]} -gt 0 ] || fail "LLAMA_BENCH=$LLAMA_BENCH: an empty entry; peers are separated by single commas"
	label=$(basename -- "${words[0]}")
	if [[ ${words[0]} =~ ^([^/=]*)=(.*)$ ]]; then
		label=${BASH_REMATCH[1]} words[0]=${BASH_REMATCH[2]}
		[ -n "$label" ] || fail "LLAMA_BENCH: an empty label before '=${words[0]}'"
		[ -n "${words[0]}" ] || fail "LLAMA_BENCH: no program after '$label='"
	fi
	[[ " llm-bench ${labels[*]} " != *" $label "* ]] ||
		fail "LLAMA_BENCH: two programs are called $label; give each a label of its own"
	program=$(command -v -- "${words[0]}") || fail "LLAMA_BENCH: ${words[0]}: no such program"
	words[0]=$program
	labels+=("$label") commands+=("${words[*]}")
}

# ask_peer NUMBER: reads from its help what it can measure, and writes down what it cannot.
ask_peer() {
	local label=${labels[$1]} command help
	read -ra command <<<"${commands[$1]}"
	help=$(timeout 60 "${command[@]}" --help 2>&1 </dev/null)
	grep -q -e '--n-prompt' <<<"$help" || fail "$label: ${command[0]} is no llama-bench: its --help says '$(head -1 <<<"$help")'"
	deep[$1]='' cold[$1]=''
	if grep -q -e '--n-depth' <<<"$help"; then
		deep[$1]=-d
	elif grep -q -e '^ *-gp ' <<<"$help"; then
		deep[$1]=-gp
		cannot "$1" 'pp.*@d.*' "its llama-bench has no -d, and -gp is for generation only"
	elif [[ $depths =~ (^|,)0(,|$) ]]; then
		cannot "$1" '.*@d.*' "its llama-bench has neither -d nor -gp"
	else
		fail "$label: its llama-bench has neither -d nor -gp, so it can do none of the tests of -d $depths"
	fi
	if grep -q -e '--no-warmup' <<<"$help"; then
		cold[$1]=--no-warmup
	elif grep -q -e '--warmup <0|1>' <<<"$help"; then
		cold[$1]='-w 0'
	else
		cannot "$1" 'cold start' "its llama-bench cannot leave out the warm-up"
	fi
}

# cannot NUMBER TESTS REASON
cannot() { python3 "$here/turns.py" skip "$work/runs" "theirs:${labels[$1]}" "$2" "$3" || exit 1; }

# their_tests NUMBER: sets $tests to the options for prompts, generation and depths.
their_tests() {
	local depth
	tests=(-p "$prompts" -n "$gen")
	[ "$depths" != 0 ] || return 0
	case ${deep[$1]} in
	-d) tests+=(-d "$depths") ;;
	-gp)
		[[ $depths =~ (^|,)0(,|$) ]] || tests=(-p 0 -n 0)
		for depth in ${depths//,/ }; do
			[ "$depth" = 0 ] || tests+=(-gp "$depth,$gen")
		done
		;;
	esac
}

# their_cache NUMBER KV: sets $cache to the options for a cache of this type. Most llama-bench keep quantised values only with flash
# attention. Peers multiply their tests by repeated options, so one with -fa of its own gets no other.
their_cache() {
	cache=()
	[ -n "$2" ] || return 0
	cache=(-ctk "$2" -ctv "$2")
	case $2 in
	f32 | f16 | bf16) return 0 ;;
	esac
	[[ " ${commands[$1]} " == *" -fa "* || " ${commands[$1]} " == *" --flash-attn "* ]] || cache+=(-fa 1)
}

[ -n "${LLAMA_BENCH:-}" ] || fail "LLAMA_BENCH is not set; set it to llama.cpp's llama-bench, or to a list of them (see --help)"
IFS=, read -ra entries <<<"${LLAMA_BENCH//$'\n'/ }"
for entry in "${entries[@]}"; do
	add_peer "$entry"
done
for i in "${!labels[@]}"; do
	ask_peer "$i"
done

# ---- the models ----------------------------------------------------------------------------------

# make_model FILE COMMAND...: the command writes the name that replaces @.
make_model() {
	local file=$1
	shift
	say "making $file"
	mkdir -p "$models" || exit 1
	partial=$file.$$
	"${@/#@/$partial}" >"$work/out" 2>"$work/err" && mv "$partial" "$file"
}

# synthetic SHAPE TYPE: sets $file, and makes it if needed. The same seed makes the same weights on every machine.
synthetic() {
	local f16
	file=$models/$(basename "$1" .conf)-$2.gguf
	# A shape that is a file may have changed since.
	if [ -e "$file" ] && ! [ "$1" -nt "$file" ]; then
		return 0
	fi
	case $2 in
	f32 | f16 | q8_0 | q4_0)
		make_model "$file" "$bin/llm-quantize" --synthetic "$1" @ "$2" --seed 1 || fail "$(head -1 "$work/err")"
		return
		;;
	esac
	[ -n "${LLAMA_QUANTIZE:-}" ] ||
		fail "--types $2: LLAMA_QUANTIZE is not set; set it to llama.cpp's llama-quantize, as llm-quantize does not write $2"
	command -v -- "$LLAMA_QUANTIZE" >/dev/null || fail "LLAMA_QUANTIZE=$LLAMA_QUANTIZE: no such program"
	synthetic "$1" f16
	f16=$file file=$models/$(basename "$1" .conf)-$2.gguf
	make_model "$file" "$LLAMA_QUANTIZE" "$f16" @ "$2" "$threads" ||
		fail "$LLAMA_QUANTIZE did not make $2: $(cat "$work/out" "$work/err" | grep . | tail -1)"
}

# ---- measuring -----------------------------------------------------------------------------------

common=(-t "$threads" -r 1)

# measure SIDE KIND FILE COMMAND...: appends the results of one run to $work/runs.
measure() { python3 "$here/turns.py" run "$work/runs" "$@" || exit 1; }

# theirs NUMBER KIND FILE KV OPTIONS...
theirs() {
	local command number=$1 kind=$2 file=$3 kv=$4
	shift 4
	read -ra command <<<"${commands[$number]}"
	their_cache "$number" "$kv"
	measure "theirs:${labels[$number]}" "$kind" "$file" "${command[@]}" -m "$file" "$@" "${cache[@]}" -o json
}

# compare FILE KV ARGUMENTS...: all rounds on one file with one type of cache.
compare() {
	local model=$1 kv=$2 round i ours depth=()
	shift 2
	export TURNS_KV=$kv
	ours=("$bin/llm-bench" -m "$model" ${kv:+--kv "$kv"} "${common[@]}" --npu-threads "$threads" -o json)
	[ "$depths" = 0 ] || depth=(-d "$depths")
	for ((round = 1; round <= rounds; round++)); do
		say "$(basename "$model")${kv:+, a cache of $kv}, round $round of $rounds"
		measure host read "$model" "$build/tests/bench_memory" -t "$threads" -m "${READ_MIB:-512}"
		measure ours warm "$model" "${ours[@]}" -p "$prompts" -n "$gen" "${depth[@]}" "$@"
		measure host read "$model" "$build/tests/bench_memory" -t "$threads" -m "${READ_MIB:-512}"
		for i in "${!labels[@]}"; do
			their_tests "$i"
			theirs "$i" warm "$model" "$kv" "${tests[@]}" "${common[@]}"
		done
		measure ours cold "$model" "${ours[@]}" -p 1 -n 1 --no-warmup "$@"
		for i in "${!labels[@]}"; do
			# shellcheck disable=SC2086
			[ -z "${cold[$i]}" ] || theirs "$i" cold "$model" "$kv" -p 1 -n 1 "${common[@]}" ${cold[$i]}
		done
	done
}

made=()
if [ -n "$files" ]; then
	for file in ${files//,/ }; do
		[ -r "$file" ] || fail "$file: no such file"
		made+=("$file")
	done
else
	for shape in ${shapes//,/ }; do
		for type in ${types//,/ }; do
			synthetic "$shape" "$type"
			made+=("$file")
		done
	done
fi
IFS=, read -ra caches <<<"${kvs:-,}"
for file in "${made[@]}"; do
	for kv in "${caches[@]}"; do
		compare "$file" "$kv" "$@"
	done
done
python3 "$here/turns.py" table "$work/runs" "$format" ours "${labels[@]/#/theirs:}"
