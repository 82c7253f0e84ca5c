#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs in the virtual machine, after guest.sh in one of its own: the tools that observe the driver and libnpu. They make the
# kernel patch its code, which the emulator does not always survive (run.sh); guest.sh takes too long to be repeated for that.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/vm/steps.sh

leaks_forget
kept_before=$(kept_kb)
step "insmod" load
step "vnpu-fw starts" fw_start
. tests/vm/observe.sh
. tests/vm/top.sh
step "vnpu-fw stops and its device goes" fw_stop
step "the driver has logged no errors" quiet
step "rmmod" rmmod vnpu
step "the module is gone" no_module
step "the memory of the module is free again" nothing_kept
leaks_step
finish
