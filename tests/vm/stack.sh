# SPDX-License-Identifier: MIT
# Sourced by tests/vm/guest.sh while vnpu-fw runs: the library, the runtime and the tools over /dev/accel/accel0, compared
# with the sim transport in the same guest.

stories=${VNPU_DATA:-}/models/stories260K/stories260K-f32.gguf

# over TRANSPORT COMMAND...: without a fallback to the other transport.
over() {
	NPU_TRANSPORT=$1 "${@:2}"
}

# Without VNPU_DATA, steps that need one of its models are skipped by name.
have() {
	[ -r "$1" ] || { echo "no $1: give VNPU_DATA"; return 77; }
}

# libnpu's test binary on the real device.
over_drm() {
	over drm "$BUILD/tests/$1"
}

bench() {
	have "$1" || return
	"$bin/llm-bench" -m "$1" --transport drm -p "$2" -n 8 -r 2 &&
		"$bin/llm-bench" -m "$1" --transport drm -p 0 -n 4 -r 1 -o json | grep -q '"transport": "drm"'
}

# Greedy tokens and all bits of the logits are the same on both transports, and there are some.
same_tokens() {
	have "$1" || return
	for t in drm sim; do
		"$bin/llm-cli" -m "$1" --transport $t --placement "$2" -p "$3" -n 24 --temp 0 --ignore-eos --ids >"$out/ids.$t" || return 1
	done
	cat "$out/ids.drm"
	[ "$(wc -w <"$out/ids.drm")" -eq 24 ] && cmp "$out/ids.drm" "$out/ids.sim"
}

same_logits() {
	have "$1" || return
	for t in drm sim; do
		"$bin/llm-logits" -m "$1" --transport $t --placement "$2" -p "$3" -o f32 >"$out/logits.$t" || return 1
	done
	[ -s "$out/logits.drm" ] && cmp "$out/logits.drm" "$out/logits.sim" &&
		echo "$(($(stat -c %s "$out/logits.drm") / 4)) logits, bit for bit the same"
}

# Prompts with static activations, shadow outliers and more options, of the model that run.sh has calibrated: all bits of the logits
# on both transports.
same_shadow() {
	for t in drm sim; do
		"$bin/llm-logits" -m "$BUILD/vm/calibrated.gguf" --transport $t --preset llm.npu --chunk 32 "$@" \
			-p "$(head -c 300 docs/words.md)" -o f32 >"$out/logits.$t" || return 1
	done
	[ -s "$out/logits.drm" ] && cmp "$out/logits.drm" "$out/logits.sim" &&
		echo "$(($(stat -c %s "$out/logits.drm") / 4)) logits, bit for bit the same"
}

# The ioctls as strace prints them: SUBMIT is _IOW('d', 0x4a, 24), WAIT is _IOWR('d', 0x4b, 32).
count_calls() { # FILE CODE
	grep -c "ioctl([0-9]*, $2" "$1"
}

# A decoded token costs one SUBMIT, and a WAIT only if polling did not see the job's end; strace must count the same as
# llm-bench. Subtracts the calls of two runs of different length, so that loading does not count.
calls_per_token() {
	local n submits=() waits=() polls=()
	for n in 8 40; do
		strace -f -X raw -e trace=ioctl -o "$out/strace.$n" "$bin/llm-bench" -m "$model" --transport drm \
			--sync "$1" -p 0 -n $n -r 1 --no-warmup -o json >"$out/bench.$n" || return 1
		submits+=("$(count_calls "$out/strace.$n" 0x40186449)")
		waits+=("$(count_calls "$out/strace.$n" 0xc020644a)")
		polls+=("$(sed -n 's/.*"syncs": \([0-9]*\),/\1/p' "$out/bench.$n")")
		polls[-1]=$((${polls[-1]} - $(sed -n 's/.*"driver_waits": \([0-9]*\),/\1/p' "$out/bench.$n")))
	done
	echo "--sync $1: 32 tokens more cost $((submits[1] - submits[0])) SUBMIT and $((waits[1] - waits[0])) WAIT;" \
		"of 40 tokens ${polls[1]} were seen by polling"
	[ $((submits[1] - submits[0])) -eq 32 ] || return 1
	[ "${waits[1]}" -eq $((40 - polls[1])) ] || return 1
	[ "$1" = fast ] || [ "${polls[1]}" -eq 0 ]
}

# One decoded line per device call.
decoded_log() {
	NPU_LOG=ioctl "$bin/llm-cli" -m "$model" --transport drm -p "The kernel" -n 2 --temp 0 2>&1 >/dev/null |
		tee "$out/log" | grep -E 'SUBMIT|WAIT' | head -4
	grep -q SUBMIT "$out/log" && grep -q BO_CREATE "$out/log"
}

doctor() {
	"$bin/npu-info" --doctor
}

# An ordinary user outside the device's group: drm reports the cause, auto falls back.
no_permission() {
	chmod 660 /dev/accel/accel0
	setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/npu-info" --transport drm 2>"$out/denied" && return 1
	cat "$out/denied"
	grep -qi 'permission denied' "$out/denied" || return 1
	setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/npu-info" | tee "$out/auto" | head -2
	grep -q '^transport *sim' "$out/auto" || return 1
	! setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/npu-info" --doctor
}

unless_late "npu-info --doctor" doctor
unless_late "a user without permission" no_permission
for t in test_npu_device test_npu_timeline test_npu_file test_npu_faults test_npu_isolation test_npu_calls test_npu_ops test_npu_matmul test_npu_qk test_npu_attn_i8 test_npu_tree test_npu_columns test_npu_graph test_npu_image test_npu_log test_npu_shape test_npu_times test_npu_trace; do
	unless_late "$t over drm" over_drm $t
done
unless_late "llm-bench docs6m over drm" bench $model 64
unless_late "llm-bench stories260K over drm" bench "$stories" 64
for p in fine npu; do
	unless_late "docs6m's tokens, drm and sim, $p" same_tokens $model $p "The kernel allocates memory for"
	unless_late "docs6m's logits, drm and sim, $p" same_logits $model $p "The kernel allocates memory for"
	unless_late "stories260K's tokens, drm and sim, $p" same_tokens "$stories" $p "Once upon a time"
	unless_late "stories260K's logits, drm and sim, $p" same_logits "$stories" $p "Once upon a time"
done
unless_late "logits with shadow outliers, drm and sim" same_shadow --floats all --order fifo
unless_late "logits with shadow outliers out of order, drm and sim" same_shadow --floats cpu --order ooe
unless_late "logits with attention shadow, drm and sim" same_shadow --attention shadow --sparse-from 1 --floats npu --order fifo
unless_late "logits with attention npu, drm and sim" same_shadow --attention npu --sparse-from 1 --floats npu --order fifo
unless_late "calls per token, fast" calls_per_token fast
unless_late "calls per token, driver" calls_per_token driver
unless_late "NPU_LOG=ioctl" decoded_log
