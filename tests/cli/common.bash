# SPDX-License-Identifier: MIT
# Shared by the command-line tests, which source it from the root of the tree. Each check prints "ok NAME", "not ok NAME" with
# the reason, or "skip NAME: REASON"; `finish` prints the counts.
. tests/lib.sh

BUILD=${BUILD:-build}
bin=$BUILD/bin
model=share/models/docs6m/docs6m-q8_0.gguf
refs=tests/data/docs6m
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

ok() { passed=$((passed + 1)); echo "ok $1"; }
not_ok() {
	failed=$((failed + 1))
	failure "$1"
	echo "not ok $1"
	[ $# -lt 2 ] || printf '%s\n' "$2" | head -20 | cut -c1-300 | sed 's/^/    /'
}
skip() { skipped=$((skipped + 1)); echo "skip $1: $2"; }

# run COMMAND...: leaves $rc, $scratch/out and $scratch/err. Only what hangs takes ten minutes, even beside a guest.
run() {
	timeout -k 5 600 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
	rc=$?
}
outcome() { printf 'command: %s\nstatus %s, stderr: %s\nstdout: %s\n' "$*" "$rc" "$(<"$scratch/err")" "$(head -c 300 "$scratch/out" | tr -d '\0')"; }

# passes NAME COMMAND...: status 0 and nothing on stderr.
passes() {
	local name=$1
	shift
	run "$@"
	if [ $rc -eq 0 ] && [ ! -s "$scratch/err" ]; then ok "$name"; else not_ok "$name" "$(outcome "$@")"; fi
}

# refuses NAME STATUS PATTERN COMMAND...: exits with STATUS, and prints one line on stderr that begins with the program's name
# and matches the (extended) pattern, and nothing on stdout.
refuses() {
	local name=$1 status=$2 pattern=$3 tool
	shift 3
	tool=$(basename "$1")
	run "$@"
	if [ $rc -eq "$status" ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] && [ ! -s "$scratch/out" ] &&
		grep -Eq "^$tool: .*($pattern)" "$scratch/err"; then
		ok "$name"
	else
		not_ok "$name" "$(outcome "$@")"
	fi
}

# same NAME A B: two outputs that must be equal and not empty.
same() {
	if [ -n "$2" ] && [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "$(printf 'first:  %s\nsecond: %s' "$2" "$3")"; fi
}

# true_in_python NAME CODE [FILE...]: the assertions of CODE hold; sys.argv[1:] are the files.
true_in_python() {
	local name=$1 code=$2
	shift 2
	if python3 -c "import csv, io, json, math, re, sys
$code" "$@" >"$scratch/py" 2>&1; then ok "$name"; else not_ok "$name" "$(tail -5 "$scratch/py")"; fi
}
