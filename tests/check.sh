#!/bin/bash
# SPDX-License-Identifier: MIT
# The tests behind `make check`: unit tests, unit tests under ASan and UBSan, command lines, and the module: compiled for its
# kernels, and in a VM.
# From the root of the tree: tests/check.sh [unit] [san] [cli] [kernels] [vm]     BUILD=DIR, VNPU_DATA=DIR as in the Makefile.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
export BUILD=${BUILD:-build}
[ $# -gt 0 ] || set -- unit san cli kernels vm

for group; do
	case $group in
	unit)
		for t in tests/unit/test_*.c; do
			n=$(basename "$t" .c)
			run_cmocka "unit $n" "$BUILD/tests/$n"
		done ;;
	san)
		# The sim transport reserves whole address spaces; nothing of that is touched by accident.
		export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
		for t in tests/unit/test_*.c; do
			n=$(basename "$t" .c)
			TEST_TIMEOUT=900 run_cmocka "san $n" "$BUILD/san/tests/$n"
		done ;;
	cli)
		for t in tests/cli/*.sh; do
			run_script "cli $(basename "$t" .sh)" bash "$t"
		done ;;
	kernels)
		run_script "kernels" bash tests/kernels/check.sh ;;
	vm)
		run_script "vm 6.12" bash tests/vm/run.sh ;;
	*)
		echo "tests/check.sh: no group '$group'; there are unit, san, cli, kernels, vm" >&2
		exit 2 ;;
	esac
done
finish
