# SPDX-License-Identifier: MIT
# What the test scripts share: running a cmocka binary or a script of ok/not ok lines, and counting.
# Every group of tests ends with the line "N passed, N failed, N skipped".

passed=0 failed=0 skipped=0
failures=() reasons=()

# failure LABEL [REASON]: what finish names.
failure() {
	failures+=("$1")
	reasons+=("${2:-}")
}

# report: prints its input in one piece, since other tests may run beside this one.
report() {
	flock "${BASH_SOURCE[0]}" cat
}

# CHECK_UNTIL: when the run must have ended, in seconds since 1970; empty for never. A machine that is too slow for all of
# the tests runs as many as it can, and says which it did not.
seconds_left() {
	[ -n "${CHECK_UNTIL:-}" ] && echo $((CHECK_UNTIL - $(date +%s))) || echo 86400
}

# time_limit SECONDS: that, or what is left of the run if that is less.
time_limit() {
	local left
	left=$(seconds_left)
	echo $(($1 < left ? $1 : left))
}

# no_time LABEL: true, and counted as a skip, if the run's time is over.
no_time() {
	[ "$(seconds_left)" -le 0 ] || return 1
	skipped=$((skipped + 1))
	echo "skip $1: the time for this run is over"
}

# count_cmocka LOG: adds a cmocka log's tests to the counts; prints the names of failed and skipped ones.
count_cmocka() {
	local p s f
	p=$(grep -c '^\[       OK \]' "$1")
	s=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test(s).*/\1/p' "$1" | awk '{n += $1} END {print n + 0}')
	f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test(s).*/\1/p' "$1" | awk '{n += $1} END {print n + 0}')
	passed=$((passed + p)) skipped=$((skipped + s)) failed=$((failed + f))
	last_counts="$p passed, $f failed, $s skipped"
	last_failed=$f last_total=$((p + s + f))
}

# seeds LOG: what repeats the failure that a test program's output shows: its seed, or those of its failed tests.
seeds() {
	local names
	names=$(sed -n 's/^\[  FAILED  \] \([a-z][a-z0-9_]*\)$/\1/p' "$1" | sort -u | paste -sd '|')
	grep -E "^(SEED|TEST_SEED|($names): VNPU_SEED)=" "$1" | sort -u | head -4
}

# run_cmocka LABEL BINARY: one test binary, its output shown if it failed.
run_cmocka() {
	local label=$1 bin=$2 log rc start=$SECONDS
	no_time "$label" && return
	log=$(mktemp)
	CMOCKA_MESSAGE_OUTPUT=STDOUT timeout -k 5 "$(time_limit "${TEST_TIMEOUT:-600}")" "$bin" >"$log" 2>&1 </dev/null
	rc=$?
	count_cmocka "$log"
	if [ $rc -eq 124 ] && [ "$last_failed" -eq 0 ] && no_time "$label, in its middle"; then
		rm -f "$log"
		return
	fi
	if [ $rc -ne 0 ] && [ "$last_failed" -eq 0 ] || [ "$last_total" -eq 0 ]; then
		failed=$((failed + 1)) last_failed=1
		last_counts+=", ended with status $rc ($([ $rc -eq 124 ] && echo timeout || echo crash or no test))"
	fi
	{
		echo "$label: $last_counts ($((SECONDS - start)) s)"
		sed -n 's/^\[  SKIPPED \] \([a-z_].*\)/    skipped: \1/p' "$log" | sort -u
		[ "$last_failed" -eq 0 ] || sed 's/^/    | /' "$log" | tail -60
	} | report
	[ "$last_failed" -eq 0 ] ||
		failure "$label" "$(grep -E '^\[ *(ERROR|LINE|FAILED) *\]|Sanitizer|runtime error' "$log" | head -8; seeds "$log")"
	rm -f "$log"
}

# ended LABEL STATUS LOG LINES: the end of the output of what failed.
ended() {
	echo "$1 ended with status $2; the end of its output:"
	tail -n "$4" "$3" | sed 's/^/    | /'
}

# run_script LABEL COMMAND...: a script whose last line is "N passed, N failed, N skipped".
run_script() {
	local label=$1 log rc start=$SECONDS line
	shift
	no_time "$label" && return
	log=$(mktemp)
	timeout -k 10 "$(time_limit "${TEST_TIMEOUT:-4000}")" "$@" >"$log" 2>&1 </dev/null
	rc=$?
	if [ $rc -eq 124 ] && ! grep -qE '^(not ok|fail)|status [1-9]' "$log" && no_time "$label, in its middle"; then
		rm -f "$log"
		return
	fi
	line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -1)
	if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
		passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2])) skipped=$((skipped + BASH_REMATCH[3]))
		last_failed=${BASH_REMATCH[2]}
	else
		last_failed=0 line="no closing line"
	fi
	if [ $rc -ne 0 ] && [ "$last_failed" -eq 0 ] || [ "$line" = "no closing line" ]; then
		failed=$((failed + 1)) last_failed=1
	fi
	{
		echo "$label: $line ($((SECONDS - start)) s)"
		grep -E '^skip ' "$log" | sed 's/^/    /'
		[ "$last_failed" -eq 0 ] || ended "$label" $rc "$log" 80
	} | report
	[ "$last_failed" -eq 0 ] || failure "$label" "$(grep -E '^(not ok|fail|    \| )' "$log" | head -40)"
	rm -f "$log"
}

# run_build LABEL COMMAND...: what must be built for the tests that follow; false if it was not.
run_build() {
	local label=$1 log rc
	shift
	no_time "$label" && return 1
	log=$(mktemp)
	timeout -k 10 "$(seconds_left)" "$@" >"$log" 2>&1 </dev/null
	rc=$?
	if [ $rc -ne 0 ] && ! { [ $rc -eq 124 ] && no_time "$label, in its middle"; }; then
		failed=$((failed + 1))
		failure "$label" "$(grep -E 'error|Error' "$log" | head -8)"
		ended "$label" $rc "$log" 40 | report
	fi
	rm -f "$log"
	[ $rc -eq 0 ]
}

# counts_print: commands that add this shell's counts and failures to another's.
counts_print() {
	local i
	echo "passed=\$((passed + $passed)) failed=\$((failed + $failed)) skipped=\$((skipped + $skipped))"
	for i in "${!failures[@]}"; do printf 'failure %q %q\n' "${failures[i]}" "${reasons[i]}"; done
}

# finish: what failed and why once more, since often only the end of a log is kept, and the closing line; status 1 if
# anything failed.
finish() {
	local i
	for i in "${!failures[@]}"; do
		echo "failed: ${failures[i]}"
		[ -z "${reasons[i]}" ] || sed 's/^/    | /' <<<"${reasons[i]}"
	done
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
}
