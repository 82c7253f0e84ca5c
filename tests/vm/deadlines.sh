#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs in the virtual machine with VM_CLOCK=instructions: the driver's promises about time.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/vm/steps.sh

leaks_forget
kept_before=$(kept_kb)
step "insmod" insmod "$BUILD/kmod/$kver/vnpu.ko"
for t in $deadline_tests; do
	step "$t" "$BUILD/tests/$t"
done
step "the driver has logged no errors" quiet
step "rmmod" rmmod vnpu
step "the memory of the module is free again" nothing_kept
leaks_step
finish
