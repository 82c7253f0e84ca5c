#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/vm/uml.sh SCRIPT: boots a user-mode kernel (tests/kernels/uml-kernel.sh) and runs the script in it as root, with the
# host's / mounted read-only: no KVM, no emulation, and no root. It is as fast as the host and has all of the processor's
# instructions, which QEMU's emulation lacks; but it has one CPU, a system call costs ten times as much, and its time passes
# while the host stalls. Fails if the script fails or does not end.
#
#   BUILD=DIR       where vnpu.ko is built, and the programs are (build)
#   VM_OUT=DIR      a folder of the host that the script can write to, as $VM_OUT
#   VM_MEM (4G), VM_TIMEOUT (seconds, 3600)
#   VM_APPEND       words NAME=VALUE that become the script's environment
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
fail() { echo "tests/vm/uml.sh: $*" >&2; exit 1; }
[ $# -eq 1 ] || fail "which script?"
script=$(realpath "$1")
build=$(realpath -m "${BUILD:-$root/build}")
# The kernel fills this file with the guest's memory, and must be able to map it executable.
export TMPDIR=${TMPDIR:-/dev/shm}

kernel=$("$root/tests/kernels/uml-kernel.sh") || exit $?
kver=$(<"$kernel/release")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
make --no-print-directory -C "$root" kmod ARCH=um BUILD="$build" KVER="$kver" KDIR="$kernel/build" >"$log" 2>&1 ||
	{ tail -20 "$log" >&2; fail "vnpu.ko does not build for $kver"; }

# Standard output must be a pipe.
timeout -k 5 "${VM_TIMEOUT:-3600}" "$kernel/linux" mem="${VM_MEM:-4G}" seccomp=on rootfstype=hostfs rootflags=/ ro quiet \
	con=null con0=null,fd:1 panic=-1 init="$here/uml-init.sh" VM_SCRIPT="$script" VM_BUILD="$build" VM_OUT="${VM_OUT:-}" \
	${VM_APPEND:-} </dev/null 2>&1 | sed -u 's|\r||g' | tee "$log" |
	sed -u -n '/^vm: begin$/,/^vm: script ended/{/^vm: /!p}'
rc=${PIPESTATUS[0]}
[ "$rc" -ne 124 ] || fail "the guest did not end in ${VM_TIMEOUT:-3600} s"
status=$(sed -n 's/^vm: script ended with status \([0-9]*\)$/\1/p' "$log" | tail -1)
if grep -qE 'WARNING:|BUG:|Oops|Call Trace|Kernel panic' "$log" || [ -z "$status" ]; then
	tail -60 "$log" >&2
	fail "the kernel complained, or died"
fi
[ "$status" -eq 0 ] || fail "the guest script ended with status $status"
