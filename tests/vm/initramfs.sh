#!/bin/bash
# SPDX-License-Identifier: MIT
# initramfs.sh KVER MODDIR OUT: makes a busybox initramfs that loads the modules of MODDIR that vnpu.ko, its tests and 9p need
# (from a kernel's modules.dep and modules.builtin), mounts the host's / read-only and runs the script named on the kernel's
# command line there.
set -eu
kver=$1 moddir=$2 out=$3
modules="9p 9pnet_virtio virtio_rng gpu-sched drm_shmem_helper drm_exec vgem"
# The bus of QEMU's devices; microvm's kernels only have virtio_mmio.
grep -q '/virtio_mmio\.ko' "$moddir/modules.builtin" || modules="virtio_pci $modules"
busybox=$(command -v busybox) || { echo "initramfs.sh: no busybox: apt-get install busybox-static" >&2; exit 1; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir"/{bin,proc,sys,dev,mods,host}
cp "$busybox" "$dir/bin/busybox"
for applet in sh mount insmod cat ln mkdir chroot dmesg poweroff reboot; do ln -s busybox "$dir/bin/$applet"; done

# modules.dep lists a module's dependencies, the first one needed last.
: >"$dir/mods/order"
add() {
	local rel=$1 name
	name=$(basename "$rel")
	name=${name%.xz}
	[ ! -e "$dir/mods/$name" ] || return 0
	case $rel in
	*.xz) xz -dc "$moddir/$rel" >"$dir/mods/$name" ;;
	*) cp "$moddir/$rel" "$dir/mods/$name" ;;
	esac
	echo "$name" >>"$dir/mods/order"
}
for m in $modules; do
	line=$(grep -E "/${m//[-_]/[-_]}\.ko(\.xz)?:" "$moddir/modules.dep" || true)
	if [ -z "$line" ]; then
		grep -qE "/${m//[-_]/[-_]}\.ko" "$moddir/modules.builtin" && continue
		echo "initramfs.sh: kernel $kver has no module $m" >&2
		exit 1
	fi
	for rel in $(echo "${line#*:}" | tr ' ' '\n' | tac) "${line%%:*}"; do add "$rel"; done
done

cat >"$dir/init" <<'INIT'
#!/bin/sh
# VM_SCRIPT, VM_BUILD and VM_DATA come from the kernel's command line.
export PATH=/bin:/usr/bin:/sbin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null
while read -r m; do insmod "/mods/$m" || echo "insmod $m failed"; done </mods/order
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro hostroot /host || echo "no host file system"
for d in proc sys dev; do mount --rbind /$d /host/$d 2>/dev/null || mount -o bind /$d /host/$d; done
case " $VM_SCRIPT $VM_BUILD $VM_DATA" in
*" /tmp/"*) ;;
*) mount -t tmpfs tmp /host/tmp ;;
esac
mount -t tmpfs run /host/run
ln -s /proc/self/fd /dev/fd
export HOME=/dev/shm TMPDIR=/dev/shm BUILD="$VM_BUILD" VNPU_DATA="$VM_DATA"
[ -n "$VNPU_DATA" ] || unset VNPU_DATA
# Nothing here uses OpenCL, and loading its compiler takes an emulated CPU longer than most steps.
mkdir -p /dev/shm/no-opencl
export OCL_ICD_VENDORS=/dev/shm/no-opencl
# Booting usually takes ten seconds, twenty on a busy machine. If it takes longer, tests of time limits are meaningless.
read -r up _ </proc/uptime
if [ "${up%.*}" -le "${VM_BOOT_LIMIT:-60}" ]; then
	chroot /host /bin/bash "$VM_SCRIPT" </dev/null
	echo "vm: script ended with status $?"
else
	echo "skip the steps in the guest: booting it took $up s, this host is too slow or too busy for time limits (VM_BOOT_LIMIT raises the bound)"
	echo "0 passed, 0 failed, 1 skipped"
	echo "vm: script ended with status 0"
fi
echo "vm: dmesg begins"
dmesg
echo "vm: dmesg ends"
reboot -f
INIT
chmod +x "$dir/init"
(cd "$dir" && find . | cpio -o -H newc --quiet | gzip -1) >"$out.$$"
mv "$out.$$" "$out"
