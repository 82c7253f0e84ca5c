# SPDX-License-Identifier: MIT
# Sourced by the scripts that run in the virtual machine, as root, from the root of the tree: steps that are counted, the real
# firmware, and what must be left when the driver is unloaded. tests/vm/run.sh sets BUILD and VNPU_DATA; the tree is
# read-only, TMPDIR is not.
. tests/lib.sh
kver=$(uname -r)
export CMOCKA_MESSAGE_OUTPUT=STDOUT
model=share/models/docs6m/docs6m-q8_0.gguf
bin=$BUILD/bin
out=${TMPDIR:-/tmp}

# step NAME COMMAND...: runs, prints and counts. A cmocka binary counts as its tests; anything else as one. Status 77 means
# skipped, and so does a timeout at the end of the run's time (CHECK_UNTIL).
step() {
	local name=$1 log rc start=$SECONDS limit=()
	shift
	log=$(mktemp)
	echo "== $name"
	[ "$(type -t "$1")" = function ] || limit=(timeout -k 5 "${STEP_TIMEOUT:-900}")
	"${limit[@]}" "$@" 2>&1 </dev/null | tee "$log"
	rc=${PIPESTATUS[0]}
	if grep -q '^\[==========\]' "$log"; then
		count_cmocka "$log"
		[ $rc -eq 0 ] || [ "$last_failed" -ne 0 ] || step_out_of_time "$name" $rc || { failed=$((failed + 1)) last_failed=1; }
	elif last_failed=0 && ! step_out_of_time "$name" $rc; then
		case $rc in
		0) passed=$((passed + 1)) ;;
		77) skipped=$((skipped + 1)) && echo "skip $name" ;;
		*) failed=$((failed + 1)) last_failed=1 ;;
		esac
	fi
	[ "$last_failed" -eq 0 ] || failure "$name" "$(tail -n 12 "$log")"
	echo "== $name: status $rc, $((SECONDS - start)) s"
	rm -f "$log"
}

step_out_of_time() { # NAME STATUS
	[ "$2" -eq 124 ] && no_time "$1, in its middle"
}

# unless_late NAME COMMAND...: a step on which no other depends. Skipped by name if the run's time is over.
unless_late() {
	no_time "$1" || STEP_TIMEOUT=$(time_limit "${STEP_TIMEOUT:-900}") step "$@"
}

# The driver must not print anything about errors of users; a firmware that breaks its protocol may cause a line. Messages of
# other parts of the kernel about injected memory failures are ignored.
quiet() {
	! dmesg | grep -E 'vnpu[ :.]|\[drm' | grep -vE 'loading out-of-tree|module verification|Initialized (vnpu|vgem)|device reset, epoch|drm_sched_init: .*out of memory|kobject_add_internal failed for .*error: -12'
}

# load [PARAMETER=VALUE...]: loads the module. A host that stalls for ten seconds, enough for a reset, must not look like a
# device that hangs.
load() {
	insmod "$BUILD/kmod/$kver/vnpu.ko" reset_ms=20000 "$@"
}

no_module() {
	! grep -q '^vnpu ' /proc/modules
}

# The tests of tests/kmod that check time limits. The limits are exact if the guest has a clock of its own (deadlines.sh); a
# busy host stalls the emulator for longer, so VNPU_SLOW=1 makes them generous there (guest.sh).
deadline_tests="test_recovery test_fw_death test_hostile"

# ---- the real firmware ----

fw_log=${TMPDIR:-/tmp}/vnpu-fw.log
fw_pid=${TMPDIR:-/tmp}/vnpu-fw.pid

wait_for() {
	for _ in $(seq 200); do
		"$@" && return 0
		sleep 0.1
	done
	echo "timed out: $*"
	return 1
}

fw_start() {
	"$BUILD/bin/vnpu-fw" --verbose "$@" >"$fw_log" 2>&1 </dev/null &
	echo $! >"$fw_pid"
	wait_for grep -q ' is /dev/accel/accel0' "$fw_log" || { cat "$fw_log"; return 1; }
}

fw_gone() {
	! kill -0 "$(cat "$fw_pid")" 2>/dev/null
}

fw_kill() {
	kill "$1" "$(cat "$fw_pid")" && wait_for fw_gone
}

fw_stop() {
	fw_kill -TERM && wait_for test ! -e /dev/accel/accel0 || { cat "$fw_log"; return 1; }
}

# A dead firmware leaves its device behind, and another takes it over.
fw_dies() {
	fw_kill -KILL && test -c /dev/accel/accel0
}

# doctor_says PATTERN: npu-info --doctor must fail and print this cause and a remedy.
doctor_says() {
	local said
	said=$("$BUILD/bin/npu-info" --doctor) && return 1
	echo "$said"
	grep -A1 "^FAIL .*$1" <<<"$said" | grep -q 'to fix it: ..'
}

# Kilobytes that buffers and rings may still hold, without the files in the guest's memory.
kept_kb() {
	awk -v files="$(du -sk "${TMPDIR:-/tmp}" | cut -f1)" '/^(Shmem|VmallocUsed):/ {n += $2} END {print n - files}' /proc/meminfo
}

nothing_kept() {
	sync
	echo "$kept_before kB before, $(kept_kb) kB after"
	[ "$(kept_kb)" -lt $((kept_before + 2048)) ]
}

rmmod_refused() {
	! rmmod vnpu 2>/dev/null
}

# A 32-bit and a 64-bit program print the same for every call.
same_for_32_bits() {
	"$BUILD/tests/abi64" >"${TMPDIR:-/tmp}/abi64.log" || { cat "${TMPDIR:-/tmp}/abi64.log"; return 1; }
	"$BUILD/tests/abi32" >"${TMPDIR:-/tmp}/abi32.log"
	[ $? -ne 126 ] || { echo "this kernel runs no 32-bit programs"; return 77; }
	diff "${TMPDIR:-/tmp}/abi64.log" "${TMPDIR:-/tmp}/abi32.log" && echo "$(wc -l <"${TMPDIR:-/tmp}/abi64.log") lines, the same"
}

# fence_holds_module signalled|pending: a sync_file is all that is left of a device, and the module must stay loaded for it.
fence_holds_module() {
	local log=${TMPDIR:-/tmp}/fence.log pid rc=0
	"$BUILD/tests/test_fences" hold "$1" >"$log" 2>&1 </dev/null &
	pid=$!
	wait_for grep -q '^holding\|^no vgem' "$log" || { cat "$log"; return 1; }
	grep -q '^no vgem' "$log" && { cat "$log"; return 77; }
	rmmod_refused || rc=1
	kill "$pid"
	wait "$pid"
	# A job that waits for another driver's fence ends when that signals.
	[ $rc -eq 0 ] && wait_for rmmod vnpu 2>/dev/null && load
}

# ---- KUnit, where the kernel has it ----

kunit=$BUILD/kmod/$kver/kunit/vnpu_kunit.ko

kunit_suites() {
	local results=${TMPDIR:-/tmp}/kunit.results
	insmod "$kunit" && cat /sys/kernel/debug/kunit/vnpu_*/results >"$results" && rmmod vnpu_kunit || return
	cat "$results"
	[ "$(grep -c '^ok ' "$results")" -eq 3 ] && ! grep 'not ok' "$results"
}

kunit_step() {
	local name="KUnit suites of rings, tags and addresses"
	if [ -e "$kunit" ]; then
		step "$name" kunit_suites
	else
		skipped=$((skipped + 1))
		echo "skip $name: kernel $kver is built without KUnit"
	fi
}

# ---- kmemleak, where the kernel has it ----

leaks=/sys/kernel/debug/kmemleak

# Findings from before the module was loaded do not count.
leaks_forget() {
	[ ! -w $leaks ] || echo clear >$leaks
}

# Twice: the first scan may find pointers on a stack, and leaks count only after five seconds.
no_leaks() {
	echo scan >$leaks && sleep 6 && echo scan >$leaks || { echo "kmemleak has given up"; return 1; }
	head -200 $leaks
	[ -z "$(head -c 1 $leaks)" ]
}

leaks_step() {
	[ ! -e $leaks ] || step "kmemleak finds nothing" no_leaks
}
