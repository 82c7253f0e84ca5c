#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs in the virtual machine, as root: a list of steps. The last line is "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/vm/steps.sh

leaks_forget
kept_before=$(kept_kb)
kunit_step
step "npu-info --doctor without the module" doctor_says "not loaded"
step "insmod" load
# deadlines.sh also runs these, with one CPU at a time; here things happen at the same moment. With a host that stalls, or a
# debug kernel, everything is late.
export VNPU_SLOW=1
for t in tests/kmod/test_*.c; do
	n=$(basename "$t" .c)
	unless_late "$n" "$BUILD/tests/$n"
done
unless_late "32-bit programs" same_for_32_bits
unless_late "rmmod is refused while a signalled fence lives" fence_holds_module signalled
unless_late "rmmod is refused while an unsignalled fence lives" fence_holds_module pending
step "npu-info --doctor without a firmware" doctor_says "no firmware is running"
step "vnpu-fw starts" fw_start
step "rmmod is refused while a firmware runs" rmmod_refused
. tests/vm/stack.sh
step "vnpu-fw is killed, and its device stays" fw_dies
step "npu-info --doctor with a dead firmware" doctor_says "firmware"
step "another vnpu-fw takes over" fw_start --attach lost
step "npu-info --doctor" "$BUILD/bin/npu-info" --doctor
step "vnpu-fw stops and its device goes" fw_stop
. tests/vm/recovery.sh
step "the driver has logged no errors" quiet
step "rmmod" rmmod vnpu
step "the module is gone" no_module
step "the memory of the module is free again" nothing_kept
step "insmod again" load
step "rmmod again" rmmod vnpu
leaks_step
finish
