#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/vm/run.sh [GUEST_SCRIPT]: boots a kernel in QEMU (software emulation: no KVM, no root) and runs the script in it as
# root, with the host's / mounted read-only. Fails if the script fails or does not end, or if the kernel complains.
#
#   BUILD=DIR       where vnpu.ko and the test binaries are (build)
#   KERNEL=NAME     6.12 (the default), 7, debug-6.12, debug-7, kcsan-6.12, or another of
#                   tests/kernels/kernels.sh
#   VNPU_DATA=DIR   models and texts for the larger steps
#   FUZZ_SECONDS, FUZZ_SEED, KILLS, SOAK_SEED, IGT_TESTS  are passed to the script
#   VM_CLOCK=instructions   the guest's time is the number of executed instructions, and idle time
#                   is skipped, so that stalls of the host do not show. The CPUs run alternately.
#                   The default is the host's clock.
#   VM_BOOT_LIMIT   seconds (60) for the guest to boot; on a slower host its script is skipped
#   VM_MEM, VM_SMP, VM_TIMEOUT (seconds), VM_APPEND (more of the kernel's command line)
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
script=$(realpath "${1:-$here/guest.sh}")
build=$(realpath -m "${BUILD:-$root/build}")

fail() { echo "tests/vm/run.sh: $*" >&2; exit 1; }
. "$root/tests/lib.sh"
. "$root/tests/kernels/kernels.sh"
kernel_find "${KERNEL:-6.12}" || exit 1
[ -r "$build/kmod/$kver/vnpu.ko" ] ||
	fail "no $build/kmod/$kver/vnpu.ko: run $([ -n "${KERNEL:-}" ] && echo "tests/kernels/check.sh $KERNEL" || echo "make kmod")"
command -v qemu-system-x86_64 >/dev/null || fail "no qemu-system-x86_64: run make deps"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/vnpu
initrd=$cache/initramfs-$kver-$(cksum <"$here/initramfs.sh" | cut -d' ' -f1).gz
mkdir -p "$cache" || exit 1
[ -r "$initrd" ] || bash "$here/initramfs.sh" "$kver" "$moddir" "$initrd" || fail "no initramfs for $kver"

# A model for stack.sh. To calibrate it takes a third of a second here, and a quarter of an hour in the emulator.
calibrated=$build/vm/calibrated.gguf
if [ "$script" = "$here/guest.sh" ] && ! [ "$calibrated" -nt "$build/bin/llm-quantize" ]; then
	mkdir -p "$build/vm" && "$build/bin/llm-quantize" --calibrate "$root/docs/driver.md" --calibrate-tokens 512 --head-tokens 0 --pruning 0 \
		"$root/share/models/docs6m/docs6m-q8_0.gguf" "$calibrated" q8_0 >"$build/vm/log" 2>&1 || fail "$(<"$build/vm/log")"
fi

# Words with an equals sign and no dot on the kernel's command line go to the environment of init.
pass=
for v in VM_BOOT_LIMIT FUZZ_SECONDS FUZZ_SEED KILLS SOAK_SEED IGT_TESTS; do
	[ -z "${!v:-}" ] || pass+=" $v=${!v}"
done

# Debian's kernels find their devices on PCI; the debug kernels only have microvm's, and are slower.
case $machine in
pc) qemu=(-device virtio-rng-pci -device virtio-9p-pci,fsdev=host,mount_tag=hostroot) limit=${VM_TIMEOUT:-4000} reboot= ;;
microvm)
	qemu=(-M "microvm,acpi=off,pic=on,pit=on,rtc=on,isa-serial=on,auto-kernel-cmdline=on" -no-user-config
		-device virtio-rng-device -device virtio-9p-device,fsdev=host,mount_tag=hostroot)
	limit=${VM_TIMEOUT:-3600} reboot=reboot=t ;;
esac

# QEMU 7.2 can lose the flags of cmpxchg16b on an interrupt, which breaks kernels whose allocator uses it; often when it counts
# instructions.
cpu=max,-cx16
# KCSAN logs the details of a race at a lower level than the race itself.
verbosity=quiet
! grep -qx 'CONFIG_KCSAN=y' "$(dirname "$kimg")/config" 2>/dev/null || verbosity=loglevel=5

case ${VM_CLOCK:-host} in
host)
	accel=(-accel tcg,thread=multi)
	# Time for the guest's steps; the last quarter is for shutting everything down on a slow host.
	pass+=" CHECK_UNTIL=$(($(date +%s) + $(time_limit "$limit") * 3 / 4))" ;;
instructions) accel=(-accel tcg,thread=single -icount shift=1,sleep=off) ;;
*) fail "VM_CLOCK is host or instructions" ;;
esac

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A busy host starves the guest's CPUs; stalls of the emulator are not the kernel's fault. Keep the kernel from testing the
# timer, whose failure would panic, and from giving up the TSC, which would patch its code, which the emulator does not always
# survive with two CPUs. For the same reason tracing does not record the names of tasks: that alone would patch the scheduler.
# Only a CPU that stays in the kernel for two minutes counts as locked up.
boot() {
	timeout -k 5 "$limit" qemu-system-x86_64 "${accel[@]}" -cpu "$cpu" -smp "${VM_SMP:-2}" -m "${VM_MEM:-2G}" \
		-nodefaults -display none -monitor none -serial stdio -no-reboot \
		-fsdev local,id=host,path=/,security_model=none,multidevs=remap,readonly=on "${qemu[@]}" -kernel "$kimg" -initrd "$initrd" \
		-append "console=ttyS0 $verbosity panic=-1 oops=panic mitigations=off watchdog_thresh=60 nmi_watchdog=0 no_timer_check tsc=reliable rcupdate.rcu_cpu_stall_timeout=300 kunit.enable=1 trace_options=norecord-cmd \
VM_SCRIPT=$script VM_BUILD=$build VM_DATA=${VNPU_DATA:-} $reboot $pass ${VM_APPEND:-}" \
		</dev/null 2>&1 | sed -u 's|\r||g' | tee "$log" | sed -u '/^vm: dmesg begins$/,/^vm: dmesg ends$/d'
	rc=${PIPESTATUS[0]}
}

# The breakpoint that a kernel writes while it patches its code, executed after it is gone: QEMU 7.2 lets a CPU run code that
# another has replaced long before. No driver can cause that, and the guest is dead.
for try in 1 2 3; do
	boot
	[ "$try" -lt 3 ] && grep -q 'Oops: int3: ' "$log" || break
	echo "tests/vm/run.sh: the emulator executed code that was no longer there (int3): all steps again" >&2
done

[ "$rc" -ne 124 ] || fail "the guest did not end in $limit s"
status=$(sed -n 's/^vm: script ended with status \([0-9]*\)$/\1/p' "$log" | tail -1)

# kernel_log: the log without KCSAN's reports of data races outside the module: 6.12 itself has dozens, some of them in
# functions that the module calls (drm_dev_unplug(), shmem, hrtimers). A race is the module's if its code made either access,
# directly or through a helper on its own data: lists, trees, xarrays, drm_mm, memory. A report goes from "BUG: KCSAN" to a
# line of equals signs, and is also kept if another kernel message is in it.
kernel_log() {
	awk '
		!open && /BUG: KCSAN: / {report = $0; ours = inner = 0; open = 1; next}
		!open {print; next}
		/ by (task|interrupt)/ {inner = 1}
		inner && /\+0x[0-9a-f]+\/0x[0-9a-f]+/ {
			if (/\[vnpu\]/) ours = 1
			inner = / (__)?(list|hlist|rb|xa|xas|idr|ida|drm_mm|mem|find|bitmap|refcount|sort)[a-z_]*\+0x/
		}
		/BUG: |WARNING: |Oops/ {ours = 1}
		{report = report "\n" $0}
		/====================/ {if (ours) print report; else others++; open = 0}
		END {
			if (open) print report
			if (others) print "vm: " others " reports of data races are not of the module"
		}' "$log"
}

# The first words of reports of the kernel itself, lockdep, KASAN, UBSAN, kmemleak, DEBUG_OBJECTS and DMA_API_DEBUG, or their
# messages when they give up; KCSAN's begin with BUG.
complaints=$(kernel_log | grep -nE 'WARNING:|BUG:|Oops|Call Trace|general protection|unable to handle|refcount_t|Kernel panic|Bad page|bad pmd|leaked|soft lockup|Unbalanced|INFO: task|possible (circular|recursive|irq)|inconsistent lock|bad unlock|INFO: (trying to register|lockdep is turned off)|turning off the locking|KASAN|UBSAN|kmemleak: .*(new suspected|disabled|Cannot|pool empty)|ODEBUG: |DMA-API: .*(error|device driver|leak)' |
	grep -v 'Command line')
kernel_log | grep '^vm: .* reports of data races are'

if [ -n "$complaints" ]; then
	echo "tests/vm/run.sh: the kernel complained:" >&2
	kernel_log | sed -n '/^vm: dmesg begins$/,/^vm: dmesg ends$/p' | grep -v '^vm:' | tail -150 >&2
	exit 1
fi
[ -n "$status" ] || fail "the guest script did not end"
grep -q '^vm: dmesg ends$' "$log" || fail "the guest died after its script"
[ "$status" -eq 0 ] || fail "the guest script ended with status $status"
