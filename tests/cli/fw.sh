#!/bin/bash
# SPDX-License-Identifier: MIT
# The life of vnpu-fw, from ADD_DEV to SIGTERM, in a fake of /dev/vnpu-control (fake_node.c): resets in every order, processes
# that die and are replaced, several that start at once, and who it is meanwhile. The system calls are real, and so is the
# filter: a call that is missing there ends the process.
set -u
. tests/cli/common.bash

export FAKE_NODE=$scratch/node VNPU_PROFILES=$PWD/share/profiles
shim=$PWD/$BUILD/tests/fake_node.so
[[ $BUILD = /* ]] && shim=$BUILD/tests/fake_node.so
node() { python3 tests/cli/fake_node.py "$@"; }
devices() { node devices | paste -sd, ; }
fresh() { rm -rf "$FAKE_NODE"; mkdir "$FAKE_NODE"; chmod 777 "$FAKE_NODE"; }

# wait_for COMMAND...: until it succeeds, for 20 s.
wait_for() {
	for _ in {1..2000}; do
		"$@" >/dev/null && return
		sleep 0.01
	done
	return 1
}
served() { [ "$(grep -c 'is /dev/accel' "$scratch/log")" -ge "$1" ]; }

# begin ARGS...: vnpu-fw in the background, its pid in $pid, its output in $scratch/log; waits until it serves.
begin() {
	: >"$scratch/log"
	env LD_PRELOAD="$shim" "$bin/vnpu-fw" --threads 3 "$@" >"$scratch/log" 2>&1 </dev/null &
	pid=$!
	wait_for served 1
}
# ends NAME STATUS PATTERN: the process of begin ends so, and its last line matches (extended).
ends() {
	timeout 20 tail --pid="$pid" -f /dev/null
	wait "$pid"
	rc=$?
	if [ $rc -eq "$2" ] && tail -1 "$scratch/log" | grep -Eq "$3"; then ok "$1"; else not_ok "$1" "status $rc, log: $(<"$scratch/log")"; fi
}
# fw_refuses NAME PATTERN ARGS...: status 1 and one line that matches.
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
same "a job that touches what is not bound faults" "$(node done 1)" "1 7 2"
node submit 3 1 0 0
same "a context is closed" "$(node done 2)" "2 1 0"
fw_refuses "a second one of that name is refused" "device 0 is called npu and has a firmware already, process $pid" --attach-or-add npu
fw_refuses "so is --attach" "device 0 has a firmware already" --attach 0
fw_refuses "and no device is lost" "no device has lost its firmware" --attach lost
kill -KILL "$pid"
wait "$pid" 2>/dev/null
begin --attach-or-add npu
same "after SIGKILL the next one takes over the same device" "$(devices)" "0 npu ready 1 taken"
end_by_signal "SIGTERM ends it with status 0"
same "and removes the device" "none$(devices)" none
begin --attach-or-add npu --keep
end_by_signal "with --keep it ends, too"
same "but the device stays" "$(devices)" "0 npu lost 0 free"
begin --attach lost
same "for --attach lost" "$(devices)" "0 npu ready 1 taken"
end_by_signal "which removes it at its end"

# ---- resets

fresh
begin --attach-or-add npu --spin-us 1000000
for n in 1 2 3 4 5 6; do
	# A job of a context that sleeps, or none.
	[ $((n % 3)) -ne 0 ] || node submit 1 1 0 7 cmd_va=0x800000 table_va=0x900000 cmd_size=64 table_size=64
	if [ $((n % 2)) -eq 0 ]; then node reset; else node reset late; fi
	wait_for served $((n + 1))
done
same "six resets later it serves the same device" "$(devices)" "0 npu ready 6 taken"
same "and has said so each time" "$(grep -c 'was reset by the kernel' "$scratch/log")" 6
same "and nothing else" "none$(grep -v 'was reset by the kernel\|is /dev/accel' "$scratch/log")" none
node submit 3 1 0 0
same "it still answers" "$(node done 1)" "2 1 0"
node reset wedge
ends "a device that is wedged ends it" 1 'device 0 is wedged, .* vnpu-fw --remove 0'
fw_refuses "and --attach-or-add says so" "device 0 is wedged, .* vnpu-fw --remove 0" --attach-or-add npu
run env LD_PRELOAD="$shim" "$bin/vnpu-fw" --remove 0
same "--remove removes it" "$rc$(devices)" 0
fresh
begin --attach-or-add npu
node submit 1 1 0 7 flags=0x10
ends "an entry with a flag that it does not know ends it" 1 'the kernel broke the protocol.*flags 0x10'
same "the device waits for the next one" "$(devices)" "0 npu lost 0 free"

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
same "of five that start at once four are refused" "$ended $(cat "$scratch"/log.? | grep -c 'has a firmware already')" "4 4"
same "and there is one device" "$(devices)" "0 npu ready 0 taken"
kill -TERM "$left"
wait "$left"

# ---- who it is

of() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$pid/status" | tr '\t' ' '; }
fresh
begin
same "it has no capability" "$(of CapInh) $(of CapPrm) $(of CapEff) $(of CapAmb)" "$(printf '0000000000000000 %.0s' 1 2 3 4 | sed 's/ $//')"
same "and gets none" "$(of NoNewPrivs)" 1
same "its system calls are filtered" "$(of Seccomp)" 2
end_by_signal "and it ends as told"
if [ "$(id -u)" = 0 ]; then
	fresh
	begin --user nobody
	u=$(id -u nobody) g=$(id -g nobody)
	same "with --user it is that user" "$(of Uid)" "$u $u $u $u"
	same "with the user's group" "$(of Gid)" "$g $g $g $g"
	same "and groups" "$(of Groups | xargs -n 1 | sort -n | xargs)" "$(id -G nobody | xargs -n 1 | sort -n | xargs)"
	same "and can bound no capability" "$(of CapBnd)" 0000000000000000
	same "it cannot be dumped or traced by that user" "$(stat -c %u "/proc/$pid/environ")" 0
	node reset
	wait_for served 2
	same "and it re-attaches without root" "$(devices)" "0 vnpu-sim ready 1 taken"
	end_by_signal "and removes its device"
else
	skip "vnpu-fw --user" "not root"
fi
fw_refuses "a user that is not there" "user no-such-user: there is no such user" --user no-such-user
finish
