#!/bin/bash
# SPDX-License-Identifier: MIT
# The long runs in a virtual machine: tests/vm/run.sh tests/vm/fuzz.sh
#   FUZZ_SECONDS=N  time to fuzz the ioctls (600; 0: none); FUZZ_SEED=N repeats the first choices
#   KILLS=N         number of firmwares, and of clients, to kill under load (1000; 0: none)
# Afterwards the device must compute, the module unload, and memory be free again; kmemleak must find nothing if the kernel
# has it.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/vm/steps.sh
export FUZZ_SECONDS=${FUZZ_SECONDS:-600}
kills=${KILLS:-1000}

computes() {
	NPU_TRANSPORT=drm "$BUILD/bin/llm-cli" -m share/models/docs6m/docs6m-q8_0.gguf --placement npu -p "The kernel" -n 2 \
		--temp 0 --ids >"$TMPDIR/drm" &&
		"$BUILD/bin/llm-cli" -m share/models/docs6m/docs6m-q8_0.gguf --transport sim --placement npu -p "The kernel" \
			-n 2 --temp 0 --ids >"$TMPDIR/sim" && cat "$TMPDIR/drm" && cmp "$TMPDIR/drm" "$TMPDIR/sim"
}

# soak_kill exports the fences of the clients that it kills.
insmod_once() {
	insmod "$BUILD/kmod/$kver/vnpu.ko" fence_export=1
}

# Once, for memory that is allocated only once.
step "insmod" insmod_once
step "soak_kill, briefly" "$BUILD/tests/soak_kill" 3
step "rmmod" rmmod vnpu
leaks_forget
kept_before=$(kept_kb)
step "insmod again" insmod_once
[ "$FUZZ_SECONDS" -eq 0 ] || STEP_TIMEOUT=$((FUZZ_SECONDS + 300)) step "fuzz_ioctl, $FUZZ_SECONDS s" "$BUILD/tests/fuzz_ioctl"
[ "$kills" -eq 0 ] || STEP_TIMEOUT=$((kills * 30 + 300)) step "soak_kill $kills" "$BUILD/tests/soak_kill" "$kills"
step "vnpu-fw starts" fw_start
step "npu-info --doctor" "$BUILD/bin/npu-info" --doctor
step "libnpu's tests over drm" env NPU_TRANSPORT=drm "$BUILD/tests/test_npu_device"
step "docs6m's tokens, drm and sim" computes
step "vnpu-fw stops and its device goes" fw_stop
step "rmmod again" rmmod vnpu
step "the module is gone" no_module
step "the memory of the module is free again" nothing_kept
leaks_step
finish
