#!/bin/bash
# SPDX-License-Identifier: MIT
# What runs in the virtual machine with VM_CLOCK=instructions: the driver's promises of time.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/vm/steps.sh

leaks_forget
kept_before=$(kept_kb)
step "insmod" insmod "$BUILD/kmod/$kver/vnpu.ko"
for t in $deadline_tests; do
	step "$t" "$BUILD/tests/$t"
done
step "the driver is silent" quiet
step "rmmod" rmmod vnpu
step "and so is its memory" nothing_kept
leaks_step
finish
