#!/bin/bash
# SPDX-License-Identifier: MIT
# vnpu-fw from ADD_DEV to SIGTERM with a fake /dev/vnpu-control (fake_node.c): resets in every order, processes that die and are
# replaced, several that start at once, and its user and privileges. The system calls are real, and so is the filter, which ends
# the process if it makes a call that is not allowed.
set -u
. tests/cli/common.bash

export FAKE_NODE=$scratch/node VNPU_PROFILES=$PWD/share/profiles
shim=$PWD/$BUILD/tests/fake_node.so
[[ $BUILD = /* ]] && shim=$BUILD/tests/fake_node.so
node() { python3 tests/cli/fake_node.py "$@"; }
devices() { node devices | paste -sd, ; }
fresh() { rm -rf "$FAKE_NODE"; mkdir "$FAKE_NODE"; chmod 777 "$FAKE_NODE"; }

# wait_for COMMAND...: waits until it succeeds, at most 20 s.
wait_for() {
	for _ in {1..2000}; do
		"$@" >/dev/null && return
		sleep 0.01
	done
	return 1
}
served() { [ "$(grep -c 'is /dev/accel' "$scratch/log")" -ge "$1" ]; }

# begin ARGS...: starts vnpu-fw in the background, with its pid in $pid and its output in $scratch/log, and waits until it serves.
begin() {
	: >"$scratch/log"
	env LD_PRELOAD="$shim" "$bin/vnpu-fw" --threads 3 "$@" >"$scratch/log" 2>&1 </dev/null &
	pid=$!
	wait_for served 1
}
# ends NAME STATUS PATTERN: the process of begin ends with STATUS, and its last line matches (extended).
ends() {
	timeout 20 tail --pid="$pid" -f /dev/null
	wait "$pid"
	rc=$?
	if [ $rc -eq "$2" ] && tail -1 "$scratch/log" | grep -Eq "$3"; then ok "$1"; else not_ok "$1" "status $rc, log: $(<"$scratch/log")"; fi
}
# fw_refuses NAME PATTERN ARGS...: exits with status 1 and prints one line that matches.
fw_refuses() {
	local name=$1 pattern=$2
	shift 2
	run env LD_PRELOAD="$shim" "$bin/vnpu-fw" "$@"
	if [ $rc -eq 1 ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] && [ ! -s "$scratch/out" ] && grep -Eq "^vnpu-fw: .*($pattern)" "$scratch/err"; then
		ok "$name"
	else
		not_ok "$name" "$(outcome vnpu-fw "$@")"
	fi
}
end_by_signal() { kill -TERM "$pid"; ends "$1" 0 'is /dev/accel/accel'; }

# ---- one device, one process after the other

fresh
begin --attach-or-add npu
same "--attach-or-add adds a device" "$(devices)" "0 npu ready 0 taken"
node submit 1 1 0 7 cmd_va=0x800000 table_va=0x900000 cmd_size=64 table_size=64
same "a job faults at unbound memory" "$(node done 1)" "1 7 2"
node submit 3 1 0 0
same "a context is closed" "$(node done 2)" "2 1 0"
fw_refuses "a second process for that device is refused" "device 0 is called npu and has a firmware already, process $pid" --attach-or-add npu
fw_refuses "and so is --attach" "device 0 has a firmware already" --attach 0
fw_refuses "--attach lost finds no lost device" "no device has lost its firmware" --attach lost
kill -KILL "$pid"
wait "$pid" 2>/dev/null
begin --attach-or-add npu
same "after SIGKILL the next one takes over the same device" "$(devices)" "0 npu ready 1 taken"
end_by_signal "SIGTERM ends it with status 0"
same "and removes the device" "none$(devices)" none
begin --attach-or-add npu --keep
end_by_signal "with --keep it also ends on SIGTERM"
same "but leaves the device" "$(devices)" "0 npu lost 0 free"
begin --attach lost
same "and --attach lost takes it over" "$(devices)" "0 npu ready 1 taken"
end_by_signal "and removes it at its end"

# ---- resets

fresh
begin --attach-or-add npu --spin-us 1000000
for n in 1 2 3 4 5 6; do
	# Some resets come while a job is queued.
	[ $((n % 3)) -ne 0 ] || node submit 1 1 0 7 cmd_va=0x800000 table_va=0x900000 cmd_size=64 table_size=64
	if [ $((n % 2)) -eq 0 ]; then node reset; else node reset late; fi
	wait_for served $((n + 1))
done
same "six resets later it serves the same device" "$(devices)" "0 npu ready 6 taken"
same "and has reported each reset" "$(grep -c 'was reset by the kernel' "$scratch/log")" 6
same "and nothing else" "none$(grep -v 'was reset by the kernel\|is /dev/accel' "$scratch/log")" none
node submit 3 1 0 0
same "it still answers" "$(node done 1)" "2 1 0"
node reset wedge
ends "a wedged device ends it" 1 'device 0 is wedged, .* vnpu-fw --remove 0'
fw_refuses "and --attach-or-add says so" "device 0 is wedged, .* vnpu-fw --remove 0" --attach-or-add npu
run env LD_PRELOAD="$shim" "$bin/vnpu-fw" --remove 0
same "--remove removes it" "$rc$(devices)" 0
fresh
begin --attach-or-add npu
node submit 1 1 0 7 flags=0x10
ends "an entry with an unknown flag ends it" 1 'the kernel broke the protocol.*flags 0x10'
same "and leaves the device for the next process" "$(devices)" "0 npu lost 0 free"

# ---- several at once

fresh
for n in 1 2 3 4 5; do
	env LD_PRELOAD="$shim" "$bin/vnpu-fw" --threads 1 --attach-or-add npu >"$scratch/log.$n" 2>&1 </dev/null &
	pids[n]=$!
done
ended=0 left=
for n in 1 2 3 4 5; do
	wait_for test -s "$scratch/log.$n"
	if grep -q 'is /dev/accel/accel0' "$scratch/log.$n"; then left=${pids[n]}; else wait "${pids[n]}"; ended=$((ended + $?)); fi
done
same "of five started at once, four are refused" "$ended $(cat "$scratch"/log.? | grep -c 'has a firmware already')" "4 4"
same "and there is one device" "$(devices)" "0 npu ready 0 taken"
kill -TERM "$left"
wait "$left"

# ---- user and privileges

of() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$pid/status" | tr '\t' ' '; }
fresh
begin
same "it has no capability" "$(of CapInh) $(of CapPrm) $(of CapEff) $(of CapAmb)" "$(printf '0000000000000000 %.0s' 1 2 3 4 | sed 's/ $//')"
same "and cannot gain any" "$(of NoNewPrivs)" 1
same "its system calls are filtered" "$(of Seccomp)" 2
end_by_signal "it ends on SIGTERM"
if [ "$(id -u)" = 0 ]; then
	fresh
	begin --user nobody
	u=$(id -u nobody) g=$(id -g nobody)
	same "with --user it runs as that user" "$(of Uid)" "$u $u $u $u"
	same "with the user's group" "$(of Gid)" "$g $g $g $g"
	same "and supplementary groups" "$(of Groups | xargs -n 1 | sort -n | xargs)" "$(id -G nobody | xargs -n 1 | sort -n | xargs)"
	same "and its bounding set is empty" "$(of CapBnd)" 0000000000000000
	same "it cannot be dumped or traced by that user" "$(stat -c %u "/proc/$pid/environ")" 0
	node reset
	wait_for served 2
	same "and it re-attaches without root" "$(devices)" "0 vnpu-sim ready 1 taken"
	end_by_signal "and removes its device"
else
	skip "vnpu-fw --user" "not root"
fi
fw_refuses "a user that does not exist" "user no-such-user: there is no such user" --user no-such-user
finish
