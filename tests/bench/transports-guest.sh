#!/bin/bash
# SPDX-License-Identifier: MIT
# The part of transports.sh that runs in the guest.
set -u
export TURNS_FOR=transports.sh
cd "$(dirname "$0")/../.." || exit 1
eval "args=($(<"$VM_OUT/args"))"
insmod "$BUILD/kmod/$(uname -r)/vnpu.ko" || exit 1
# The guest has one CPU.
"$BUILD/bin/vnpu-fw" --threads 1 &
fw=$!
for _ in $(seq 100); do [ ! -e /dev/accel/accel0 ] || break; sleep 0.1; done
[ -e /dev/accel/accel0 ] || { echo "no /dev/accel/accel0"; exit 1; }

measure() { # TRANSPORT
	python3 tests/bench/turns.py run "$VM_OUT/runs" "$1" warm "$BENCH_MODEL" "$BUILD/bin/llm-bench" -m "$BENCH_MODEL" --transport "$1" \
		-p "$BENCH_PROMPTS" -n "$BENCH_GEN" -t 1 -r 1 -o json "${args[@]}" || exit 1
}

for ((round = 1; round <= BENCH_ROUNDS; round++)); do
	echo "transports.sh: round $round of $BENCH_ROUNDS"
	measure sim
	measure drm
done
for ((round = 1; BENCH_PATH && round <= 2; round++)); do
	for t in sim drm; do
		NPU_TRANSPORT=$t "$BUILD/tests/bench_npu_path" 2000 || exit 1
		echo
	done
done >"$VM_OUT/path"
kill $fw && wait $fw
exit 0
