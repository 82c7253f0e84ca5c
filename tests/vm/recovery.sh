# SPDX-License-Identifier: MIT
# Sourced by tests/vm/guest.sh while no firmware runs: vnpu-fw with the unit's command line, through resets, its death, and
# suspend.

device_dir() {
	echo "/sys/kernel/debug/accel/$(basename "$(realpath /sys/class/accel/accel0/device)")"
}

# The unit's command line (share/systemd/vnpu-fw.service.in), with the log that fw_start waits for.
fw_as_unit() {
	fw_start --attach-or-add vnpu-sim --user nobody
}

# status_is FIELD PATTERN: checks a status field of the process that serves the device.
status_is() {
	grep -E "^$1:[[:space:]]*$2\$" "/proc/$(cat "$fw_pid")/status" ||
		{ grep "^$1:" "/proc/$(cat "$fw_pid")/status"; echo "$1 should be $2"; return 1; }
}

# It has none of root's privileges.
confined() {
	local uid gid
	uid=$(id -u nobody) gid=$(id -g nobody)
	status_is Uid "($uid[[:space:]]*){4}" && status_is Gid "($gid[[:space:]]*){4}" && status_is CapEff 0+ &&
		status_is CapPrm 0+ && status_is CapInh 0+ && status_is CapAmb 0+ && status_is NoNewPrivs 1 && status_is Seccomp 2
}

busy_us() {
	cat /sys/class/accel/accel0/device/npu_busy_time_us
}

busier_than() {
	[ "$(busy_us)" -gt "$1" ]
}

# True while the device works on something.
at_work() {
	wait_for busier_than "$(busy_us)"
}

# load_begin, load_end: run one client that uses the device through one open file, and llm-bench again and again, which ends
# when its context is lost. load_end sets $losses to how often the device lost its state.
load_begin() {
	: >"$out/load"
	while [ -e "$out/load" ]; do
		"$bin/llm-bench" -m $model --transport drm --placement npu -p 16 -n 8 -r 3 >"$out/load.log" 2>&1 </dev/null
	done >/dev/null 2>&1 &
	load_pid=$!
	"$BUILD/tests/follow" >"$out/follow" 2>&1 </dev/null &
	follow_pid=$!
	wait_for grep -q 'it computes' "$out/follow" || { cat "$out/follow"; return 1; }
}

load_end() {
	local rc=0
	rm -f "$out/load"
	kill -TERM $follow_pid
	wait $follow_pid || rc=1
	wait $load_pid
	cat "$out/follow"
	losses=$(sed -n 's/.* epoch \([0-9]*\) to \([0-9]*\)$/\2 - \1/p' "$out/follow")
	losses=$((${losses:--1}))
	return $rc
}

# The node and the process are the same, there are no others, and the device computes.
same_device() { # NODE
	[ "$(node)" = "$1" ] && [ ! -e /dev/accel/accel1 ] || { ls -li /dev/accel; return 1; }
	"$bin/llm-bench" -m $model --transport drm --placement npu -p 16 -n 4 -r 1
}

node() {
	stat -c '%n %t:%T %i' /dev/accel/accel*
}

# Forced resets do not wedge the device, however many there are.
forced_resets() {
	local i pid was rc=0
	pid=$(cat "$fw_pid") was=$(node)
	load_begin || rc=1
	[ $rc -ne 0 ] || for i in $(seq 25); do
		at_work && echo 1 >"$(device_dir)/force_reset" || { echo "after $i resets"; rc=1; break; }
		kill -0 "$pid" || { echo "vnpu-fw did not survive reset $i"; cat "$fw_log"; rc=1; break; }
	done
	[ $rc -eq 0 ] && at_work || rc=1
	load_end || rc=1
	echo "$losses resets"
	[ $rc -eq 0 ] && [ "$losses" -eq 25 ] && [ "$(cat "$fw_pid")" -eq "$pid" ] && same_device "$was"
}

# As systemd does with Restart=: the same command line takes over the same device, and clients go on.
killed_and_again() {
	local was rc=0
	was=$(node)
	load_begin && at_work && fw_kill -KILL && fw_as_unit && at_work || rc=1
	load_end || rc=1
	[ $rc -eq 0 ] && [ "$losses" -eq 1 ] && same_device "$was"
}

# While processes are frozen the device's time limits stop: a job that vnpu-fw has not started outlives a suspend that is
# longer than its timeout.
frozen() {
	local pid rc=0 resets
	[ -w /sys/power/pm_test ] || { echo "this kernel has no /sys/power/pm_test"; return 77; }
	resets=$(dmesg | grep -c 'device reset')
	[ ! -e /sys/power/sync_on_suspend ] || echo 0 >/sys/power/sync_on_suspend
	echo 12 >/sys/module/suspend/parameters/pm_test_delay
	kill -STOP "$(cat "$fw_pid")"
	"$BUILD/tests/follow" once 5000 >"$out/once" 2>&1 </dev/null &
	pid=$!
	wait_for grep -q submitted "$out/once" || rc=1
	{ echo freezer >/sys/power/pm_test && echo mem >/sys/power/state; } || rc=1
	kill -CONT "$(cat "$fw_pid")"
	echo none >/sys/power/pm_test
	wait $pid || rc=1
	cat "$out/once"
	dmesg | grep -E 'PM: suspend|suspend debug|Freezing|Restarting tasks' | tail -6
	dmesg | grep -q 'suspend debug: Waiting for 12 second' || rc=1
	[ "$(dmesg | grep -c 'device reset')" -eq "$resets" ] || { echo "the device was reset"; rc=1; }
	return $rc
}

step "vnpu-fw starts as the unit starts it" fw_as_unit
unless_late "vnpu-fw has no rights left" confined
unless_late "25 forced resets under load" forced_resets
unless_late "vnpu-fw is killed and started again as the unit would" killed_and_again
unless_late "it has no rights either" confined
unless_late "processes are frozen while a job waits" frozen
step "vnpu-fw stops again and its device goes" fw_stop
