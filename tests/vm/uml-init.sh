#!/bin/bash
# SPDX-License-Identifier: MIT
# The first process in the guest of uml.sh, whose / is the host's. The command line sets VM_SCRIPT, VM_BUILD and VM_OUT.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs -o size=80% shm /dev/shm
mount -t debugfs debugfs /sys/kernel/debug
export HOME=/dev/shm TMPDIR=/dev/shm BUILD="$VM_BUILD"
# Loading the host's OpenCL platforms takes longer than most steps.
mkdir -p /dev/shm/no-opencl
export OCL_ICD_VENDORS=/dev/shm/no-opencl
if [ -n "$VM_OUT" ]; then
	mkdir /dev/shm/out
	mount -t hostfs -o "$VM_OUT" out /dev/shm/out && VM_OUT=/dev/shm/out
fi
echo "vm: begin"
bash "$VM_SCRIPT" </dev/null
echo "vm: script ended with status $?"
dmesg -l emerg,alert,crit,err,warn 2>/dev/null
# The last output of a guest process is lost unless it is read before the end.
sync
poweroff -f >/dev/null 2>&1 || busybox poweroff -f
