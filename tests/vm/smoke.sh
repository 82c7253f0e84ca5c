#!/bin/bash
# SPDX-License-Identifier: MIT
# A short guest.sh, for kernels that are not always tested completely: the module is loaded, answers its clients and a
# firmware, computes, and is unloaded.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/vm/steps.sh

leaks_forget
kept_before=$(kept_kb)
kunit_step
step "insmod" load
for t in test_ioctl test_submit; do
	step "$t" "$BUILD/tests/$t"
done
step "vnpu-fw starts" fw_start
step "npu-info --doctor" "$BUILD/bin/npu-info" --doctor
step "test_npu_device over drm" env NPU_TRANSPORT=drm "$BUILD/tests/test_npu_device"
step "vnpu-fw stops and its device goes" fw_stop
step "the driver has logged no errors" quiet
step "rmmod" rmmod vnpu
step "the module is gone" no_module
step "the memory of the module is free again" nothing_kept
leaks_step
finish
