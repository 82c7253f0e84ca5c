#!/bin/bash
# SPDX-License-Identifier: MIT
# The tests behind `make check`: unit tests, command lines, the module in a VM, briefly on Debian's newest kernel too, and the
# unit tests again under ASan and UBSan, and the kernels of aarch64 in emulation. What is most likely to find something new comes first.
# From the root of the tree: tests/check.sh [unit] [cli] [vm] [san] [arm] [kernels]     BUILD=DIR, VNPU_DATA=DIR as in the Makefile.
# CHECK_UNTIL (tests/lib.sh) bounds the run.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
export BUILD=${BUILD:-build}
# Kernels of OpenCL that PoCL has compiled; a path that does not depend on where a test runs.
export POCL_CACHE_DIR=${POCL_CACHE_DIR:-$(realpath -m "$BUILD")/pocl}
mkdir -p "$POCL_CACHE_DIR"
# A version manager's python3 is a script that looks for the right one at every start.
python=$(python3 -c 'import sys; print(sys.executable)')
[ "$python" = "$(command -v python3)" ] || PATH=${python%/*}:$PATH
[ $# -gt 0 ] || set -- unit cli vm san arm kernels

# unit_half LABEL DIR N: every second of the unit tests, built in DIR, from the first (0) or the second (1). Without test_llm_refs
# of the sanitizers: whole models' figures, which take it minutes there, by paths that others take too.
unit_half() {
	local t n at=0
	for t in tests/unit/test_*.c; do
		[ $((at++ % 2)) -eq "$3" ] || continue
		n=$(basename "$t" .c)
		[ "$1 $n" != "san test_llm_refs" ] || continue
		run_cmocka "$1 $n" "$2/$n"
	done
}

# unit_tests LABEL DIR: two at a time, as most have one thread or wait.
unit_tests() {
	local n
	set -m
	trap 'kill $(jobs -p); exit 1' TERM
	for n in 0 1; do side "$1 $n" unit_half "$1" "$2" "$n" & done
	wait
	trap - TERM
	set +m
	side_add "$1 0"
	side_add "$1 1"
}

run_group() {
	local t
	case $1 in
	unit)
		unit_tests unit "$BUILD/tests" ;;
	san)
		# The sim transport reserves whole address spaces; nothing of that is touched by accident.
		export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
		export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$PWD/tests/lsan.supp:print_suppressions=0}
		# More of them look for wrong tokens, and the plain build has those; one takes the same paths.
		export VNPU_DRAFTERS=1
		run_build "san build" make --no-print-directory -j2 SAN=1 CFLAGS="-O1 -g1" san-tests || return
		unit_tests san "$BUILD/san/tests" ;;
	cli)
		for t in tests/cli/*.sh; do
			run_script "cli $(basename "$t" .sh)" bash "$t"
		done ;;
	vm)
		run_build "module for 6.12" make --no-print-directory kmod || return
		run_script "vm 6.12" bash tests/vm/run.sh
		run_script "vm 6.12, tracing" bash tests/vm/run.sh tests/vm/tracing.sh
		run_script "vm 6.12, deadlines" env VM_CLOCK=instructions bash tests/vm/run.sh tests/vm/deadlines.sh
		run_script "vm 6.12, fuzz" env FUZZ_SECONDS=20 KILLS=20 bash tests/vm/run.sh tests/vm/fuzz.sh ;;
	arm)
		if command -v qemu-aarch64 >/dev/null; then
			run_build "arm build" nice -n 10 make --no-print-directory -j2 arm-tests || return
		fi
		run_script "arm" bash tests/arm/check.sh ;;
	kernels)
		run_script "kernels" env FETCH=1 bash tests/kernels/check.sh 6.12 7 ;;
	esac
}

# A guest, which waits for its device's time limits, leaves half of two CPUs idle, so the emulated groups run beside the
# others. The limits are of a real clock: what else runs yields to the guests.
native=() emulated=()
for group; do
	case $group in
	unit | cli | san) native+=("$group") ;;
	vm | arm | kernels) emulated+=("$group") ;;
	*)
		echo "tests/check.sh: no group '$group'; there are unit, cli, vm, san, arm, kernels" >&2
		exit 2 ;;
	esac
done

run_groups() {
	local group
	for group; do run_group "$group"; done
}

# side NAME COMMAND...: runs tests in a shell of their own, which the caller has made; side_add NAME adds its counts.
side() {
	local name=$1
	shift
	passed=0 failed=0 skipped=0 failures=() reasons=()
	"$@"
	counts_print >"$sides/$name"
}

side_add() {
	. "$sides/$1" || { failed=$((failed + 1)) && failure "the $1 tests did not come to their end"; }
}

# With job control, so that the tests do not ignore SIGINT. Who ends this script ends the sides.
sides=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$sides"' EXIT
set -m
side emulated run_groups "${emulated[@]}" &
(renice -n 10 $BASHPID >"$sides/log" && side native run_groups "${native[@]}") &
wait
side_add native
side_add emulated
finish
