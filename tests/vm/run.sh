#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/vm/run.sh [GUEST_SCRIPT]: boot a kernel in QEMU (software emulation: no KVM, no root) and run the script in it as
# root, with the host's / read-only beneath. Fails if the script does, if it does not end, or if the kernel complains.
#
#   BUILD=DIR       where vnpu.ko and the test binaries are (build)
#   KERNEL=NAME     6.12 (the default), 7, debug-6.12, debug-7, or another of tests/kernels/kernels.sh
#   VNPU_DATA=DIR   models and texts for the larger steps
#   FUZZ_SECONDS, FUZZ_SEED, KILLS, SOAK_SEED  go to the script
#   VM_BOOT_LIMIT   seconds (30) in which the guest must be up; on a host that is slower its script is skipped
#   VM_MEM, VM_SMP, VM_TIMEOUT (seconds), VM_APPEND (more of the kernel's command line)
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
script=$(realpath "${1:-$here/guest.sh}")
build=$(realpath -m "${BUILD:-$root/build}")

fail() { echo "tests/vm/run.sh: $*" >&2; exit 1; }
. "$root/tests/kernels/kernels.sh"
kernel_find "${KERNEL:-6.12}" || exit 1
[ -r "$build/kmod/$kver/vnpu.ko" ] ||
	fail "no $build/kmod/$kver/vnpu.ko: run $([ -n "${KERNEL:-}" ] && echo "tests/kernels/check.sh $KERNEL" || echo "make kmod")"
command -v qemu-system-x86_64 >/dev/null || fail "no qemu-system-x86_64: run make deps"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/vnpu
initrd=$cache/initramfs-$kver-$(cksum <"$here/initramfs.sh" | cut -d' ' -f1).gz
mkdir -p "$cache" || exit 1
[ -r "$initrd" ] || bash "$here/initramfs.sh" "$kver" "$moddir" "$initrd" || fail "no initramfs for $kver"

# What has an equals sign and no dot on the kernel's command line becomes the environment of the first process.
pass=
for v in VM_BOOT_LIMIT FUZZ_SECONDS FUZZ_SEED KILLS SOAK_SEED; do
	[ -z "${!v:-}" ] || pass+=" $v=${!v}"
done

# Debian's kernels find their devices on PCI; the debug kernels have only what microvm has, and are slower.
case $machine in
pc) qemu=(-device virtio-rng-pci -device virtio-9p-pci,fsdev=host,mount_tag=hostroot) limit=${VM_TIMEOUT:-4000} reboot= ;;
microvm)
	qemu=(-M "microvm,acpi=off,pic=on,pit=on,rtc=on,isa-serial=on,auto-kernel-cmdline=on" -no-user-config
		-device virtio-rng-device -device virtio-9p-device,fsdev=host,mount_tag=hostroot)
	limit=${VM_TIMEOUT:-3600} reboot=reboot=t ;;
esac

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A busy host starves the guest's CPUs: stalls of the emulator are not the kernel's fault, and its timer works (which the
# kernel would doubt, and panic).
timeout -k 5 "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp "${VM_SMP:-2}" -m "${VM_MEM:-2G}" \
	-nodefaults -display none -monitor none -serial stdio -no-reboot \
	-fsdev local,id=host,path=/,security_model=none,multidevs=remap,readonly=on "${qemu[@]}" -kernel "$kimg" -initrd "$initrd" \
	-append "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nowatchdog no_timer_check rcupdate.rcu_cpu_stall_timeout=300 \
VM_SCRIPT=$script VM_BUILD=$build VM_DATA=${VNPU_DATA:-} $reboot $pass ${VM_APPEND:-}" \
	</dev/null 2>&1 | tr -d '\r' | tee "$log" | sed '/^vm: dmesg begins$/,/^vm: dmesg ends$/d'
rc=${PIPESTATUS[0]}

[ "$rc" -ne 124 ] || fail "the guest did not end in $limit s"
status=$(sed -n 's/^vm: script ended with status \([0-9]*\)$/\1/p' "$log" | tail -1)
# What the kernel itself, lockdep, KASAN, UBSAN, kmemleak, DEBUG_OBJECTS and DMA_API_DEBUG begin their reports with, or say
# when they give up.
complaints=$(grep -nE 'WARNING:|BUG:|Oops|Call Trace|general protection|unable to handle|refcount_t|Kernel panic|Bad page|bad pmd|leaked|soft lockup|Unbalanced|INFO: task|possible (circular|recursive|irq)|inconsistent lock|bad unlock|INFO: (trying to register|lockdep is turned off)|turning off the locking|KASAN|UBSAN|kmemleak: .*(new suspected|disabled|Cannot|pool empty)|ODEBUG: |DMA-API: .*(error|device driver|leak)' "$log" |
	grep -v 'Command line')
if [ -n "$complaints" ]; then
	echo "tests/vm/run.sh: the kernel complained:" >&2
	sed -n '/^vm: dmesg begins$/,/^vm: dmesg ends$/p' "$log" | grep -v '^vm:' | tail -150 >&2
	exit 1
fi
[ -n "$status" ] || fail "the guest script did not end"
grep -q '^vm: dmesg ends$' "$log" || fail "the guest died after its script"
[ "$status" -eq 0 ] || fail "the guest script ended with status $status"
