#!/bin/bash
# SPDX-License-Identifier: MIT
# The systemd unit of vnpu-fw: systemd accepts it, rates it as well confined, and its filter allows every system call of vnpu-fw;
# and its user and the udev rule that gives the node to that user agree.
set -u
. tests/cli/common.bash

unit=$scratch/vnpu-fw.service
mkdir "$scratch/sbin"
cp "$bin/vnpu-fw" "$scratch/sbin/"
sed "s|@PREFIX@|$scratch|" share/systemd/vnpu-fw.service.in >"$unit"
setting() { sed -n "s/^$1=//p" "$unit" | paste -sd' '; }

user=$(setting User)
same "the user of the unit comes with share/sysusers" "$(awk '$1 == "u" {print $2}' share/sysusers/vnpu.conf)" "$user"
same "the control node belongs to the user's group, and the unit waits for it" \
	"$(grep -c "KERNEL==\"vnpu-control\", GROUP=\"$(setting Group)\", MODE=\"0660\", TAG+=\"systemd\"" share/udev/60-vnpu.rules)" 1
same "the unit takes over the device that it left" "$(setting ExecStart | cut -d' ' -f2-)" "--attach-or-add vnpu-sim"

if ! command -v systemd-analyze >/dev/null; then
	skip "systemd checks the unit" "systemd-analyze is not installed"
	finish
	exit
fi
run systemd-analyze verify --man=no "$unit"
same "systemd reports nothing about the unit" "status $rc$(grep -F "$unit" "$scratch/err" "$scratch/out")" "status 0"
run systemd-analyze security --offline=yes --threshold=30 --no-pager "$unit"
same "the unit's exposure is below 3.0" "status $rc" "status 0"
grep -h 'Overall exposure' "$scratch/out"

if ! command -v systemd-sysusers >/dev/null; then
	skip "systemd-sysusers makes the user" "systemd-sysusers is not installed"
else
	mkdir -p "$scratch/root/etc"
	run systemd-sysusers --root="$scratch/root" "$PWD/share/sysusers/vnpu.conf"
	same "systemd-sysusers makes user and group" \
		"$(grep -c "^$user:" "$scratch/root/etc/passwd") $(grep -c "^$user:" "$scratch/root/etc/group")" "1 1"
fi

# The system calls of vnpu-fw, from execve to exit_group, with a fake of its node.
if ! command -v strace >/dev/null || ! strace -o /dev/null true 2>/dev/null; then
	skip "the unit's filter allows vnpu-fw's system calls" "strace does not work here"
	finish
	exit
fi
shim=$(realpath "$BUILD/tests/fake_node.so")
export FAKE_NODE=$scratch/node VNPU_PROFILES=$PWD/share/profiles
mkdir "$FAKE_NODE"
strace -f -qq -e signal=none -o "$scratch/trace" -E LD_PRELOAD="$shim" "$bin/vnpu-fw" --threads 3 --attach-or-add vnpu-sim \
	>"$scratch/log" 2>&1 </dev/null &
pid=$!
for n in 1 2 3; do
	for _ in {1..2000}; do
		[ "$(grep -c 'is /dev/accel' "$scratch/log")" -lt "$n" ] || break
		sleep 0.01
	done
	[ "$n" -eq 3 ] || python3 tests/cli/fake_node.py reset late
done
# The process is the tracer's child.
kill -TERM "$(cat "/proc/$pid/task/$pid/children")"
wait "$pid"
same "vnpu-fw survives two resets under strace" "status $? $(grep -c 'is /dev/accel' "$scratch/log")" "status 0 3"
systemd-analyze syscall-filter --no-pager >"$scratch/groups" 2>/dev/null
true_in_python "the unit's filter allows each call that it makes" '
groups, name = {}, None
for line in open(sys.argv[1]):
    if line.startswith("@"):
        name = line.strip()
        groups[name] = set()
    elif line.startswith("    ") and not line.strip().startswith("#"):
        groups[name].add(line.strip())
def expand(x):
    return set().union(*map(expand, groups[x])) if x in groups else {x}
allowed = set()
for line in open(sys.argv[2]):
    if line.startswith("SystemCallFilter="):
        value = line.strip().split("=", 1)[1]
        calls = set().union(*map(expand, value.lstrip("~").split()))
        allowed = allowed - calls if value[0] == "~" else allowed | calls
made = set(re.findall(r"^\d+ +(\w+)\(", open(sys.argv[3]).read(), re.M))
# The user that systemd starts has no capability to drop.
made.discard("capset")
assert len(made) > 30, made
assert not made - allowed, made - allowed' "$scratch/groups" "$unit" "$scratch/trace"
finish
