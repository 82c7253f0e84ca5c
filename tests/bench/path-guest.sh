#!/bin/bash
# SPDX-License-Identifier: MIT
# BUILD=build tests/vm/run.sh tests/bench/path-guest.sh: runs bench_npu_path in the VM, alternately through the module and in the
# process. The VM has two CPUs, so both sides of the path can poll.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/vm/steps.sh

bench() { # TRANSPORT
	NPU_TRANSPORT=$1 "$BUILD/tests/bench_npu_path" 1000
}

step "insmod" load
step "vnpu-fw starts" fw_start
for _ in 1 2; do
	step "bench_npu_path, sim" bench sim
	step "bench_npu_path, drm" bench drm
done
step "vnpu-fw stops" fw_stop
step "rmmod" rmmod vnpu
finish
