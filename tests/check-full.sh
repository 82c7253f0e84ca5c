#!/bin/bash
# SPDX-License-Identifier: MIT
# The tests behind `make check-full`, which are too long for `make check` or need what it does not fetch.
# From the root of the tree: tests/check-full.sh [unit] [thread] [deb] [kernels] [igt] [mass] [fuzz]     BUILD=DIR, VNPU_DATA=DIR
# as in the Makefile.
#
#   unit      unit tests whose random loops are longer than in `make check`, and perplexities of all types and caches
#   thread    unit tests of what has threads, under TSan: the device, its queues, waits, schedulers
#   deb       the Debian packages: what is in them, lintian, and the module's in a Debian 12 of its own (150 MB to fetch, once)
#   kernels   no warning at W=1 and from sparse on 6.12; all of tests/vm/guest.sh and tracing.sh on Debian's newest 7.x, on the debug
#             kernels of 6.12 and 7.x and on the one that looks for data races: fetches 450 MB and compiles three kernels,
#             once; 45 minutes on two idle CPUs, then 10 minutes a kernel
#   igt       core_*, syncobj_* and *_drm_fdinfo of Debian forky's igt-gpu-tools, and gputop, on the debug kernel of 6.12 that
#             the group kernels has made (25 MB to fetch, once)
#   fuzz      tests/vm/fuzz.sh, ten minutes of the ioctl fuzzer and 1,000 kills each, on 6.12 and on the kernels that the
#             group kernels has made; FUZZ_SECONDS, KILLS
#   mass      vnpu.ko compiles for every 7.x that trixie-backports has headers of
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
export BUILD=${BUILD:-build}
[ $# -gt 0 ] || set -- unit thread deb kernels igt mass fuzz

for group; do
	case $group in
	unit)
		VNPU_DRAFTERS=20 run_cmocka "unit test_drafter, longer" "$BUILD/tests/test_drafter"
		FULL=1 run_script "cli quantize, heads with other threads" bash tests/cli/quantize.sh
		FULL=1 run_script "cli perplexity, all" bash tests/cli/perplexity.sh ;;
	thread)
		threaded="test_threadpool test_polling test_expect test_fw_core test_fw_queue test_fw_session test_fw_matmul
			test_npu_threads test_npu_device test_npu_faults test_npu_transport test_npu_isolation test_npu_trace
			test_npu_calls test_npu_matmul test_gpu_queue test_reader test_scheduler test_scheduler_async
			test_scheduler_steal test_llm_shadow"
		# shellcheck disable=SC2086
		run_build "thread build" make --no-print-directory -j2 SAN=thread CFLAGS="-O1 -g" \
			$(printf "$BUILD/tsan/tests/%s " $threaded) || continue
		for t in $threaded; do
			run_cmocka "thread $t" "$BUILD/tsan/tests/$t"
		done ;;
	deb)
		TEST_TIMEOUT=3600 run_script "deb packages" bash tests/deb/packages.sh
		TEST_TIMEOUT=3600 run_script "deb module in a Debian 12" bash tests/deb/chroot.sh ;;
	kernels)
		FETCH=1 FULL=1 TEST_TIMEOUT=36000 run_script "kernels" bash tests/kernels/check.sh 6.12 7 debug-6.12 debug-7 kcsan-6.12 ;;
	igt)
		if dir=$(bash tests/vm/igt-fetch.sh); then
			KERNEL=debug-6.12 VM_CLOCK=instructions IGT_TESTS=$dir TEST_TIMEOUT=4000 \
				run_script "igt" bash tests/vm/run.sh tests/vm/igt.sh
		else
			echo "igt: cannot be fetched"
			failed=$((failed + 1))
			failure "igt-fetch"
		fi ;;
	mass)
		TEST_TIMEOUT=7200 run_script "mass build" bash tests/kernels/mass-build.sh archive ;;
	fuzz)
		for kernel in 6.12 debug-6.12 debug-7 kcsan-6.12; do
			KERNEL=$kernel VM_TIMEOUT=36000 TEST_TIMEOUT=36000 \
				run_script "fuzz on $kernel" bash tests/vm/run.sh tests/vm/fuzz.sh
		done ;;
	*)
		echo "tests/check-full.sh: no group '$group'; there are unit, thread, deb, kernels, igt, mass, fuzz" >&2
		exit 2 ;;
	esac
done
finish
