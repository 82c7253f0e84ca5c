#!/bin/bash
# SPDX-License-Identifier: MIT
# BUILD=build tests/vm/run.sh tests/bench/sync-guest.sh: the gain by fast synchronisation through
# vnpu.ko in the VM, which has two CPUs: tokens of the embedded model, with a job per token, and with
# every matmul cut between the NPU and the CPU lane.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/vm/steps.sh

bench() { # ARGUMENTS...: with fast, then with the driver's synchronisation
	local sync
	for sync in fast driver; do
		"$BUILD/experiments/hetero" -m share/models/docs6m/docs6m-q8_0.gguf --transport drm \
			-n 32 -r 3 --sync $sync "$@" || return 1
	done
}

step "insmod" load
step "vnpu-fw starts" fw_start
for _ in 1 2 3; do
	step "a job per token" bench --preset npu
	step "every matmul cut" bench --preset hetero-tensor --partition row --gpu-share 0.25 --gpu host
done
step "vnpu-fw stops" fw_stop
step "rmmod" rmmod vnpu
finish
