# SPDX-License-Identifier: MIT
# Sourced: the kernels that the module is tested on, by name.
#
#   6.12        Debian 12's newest 6.12 that is installed (make deps)
#   7           Debian's newest 7.x                            debian-kernel.sh
#   debug-6.12  6.12 with every checker that finds mistakes    debug-kernel.sh 6.12
#   debug-7     the newest 7.x likewise                        debug-kernel.sh 7
#   kcsan-6.12  6.12 with the checker that finds data races    debug-kernel.sh kcsan
#   VERSION     another that is installed, as uname -r says it
#   DIR         another that is laid out as debug-kernel.sh lays it out

kernel_names="6.12 7 debug-6.12 debug-7 kcsan-6.12"
kernel_cache=${XDG_CACHE_HOME:-$HOME/.cache}/vnpu/kernels

# kernel_find NAME: sets kver, kimg, moddir, kdir, machine (pc or microvm) and chroot (where kdir is; else empty). Status 1
# and a line if there is none.
kernel_find() {
	local dir=
	chroot='' machine=pc
	case $1 in
	6.12) kver=$(ls /boot/vmlinuz-6.12* 2>/dev/null | sed 's|.*/vmlinuz-||' | sort -V | tail -1) ;;
	7 | debug-* | kcsan-*) dir=$kernel_cache/$1 ;;
	*/*) dir=$1 ;;
	*) kver=$1 ;;
	esac
	if [ -z "$dir" ]; then
		kimg=/boot/vmlinuz-$kver moddir=/lib/modules/$kver kdir=/lib/modules/$kver/build
		[ -r "$kimg" ] || { echo "no kernel '$1': there are $kernel_names (6.12 comes with make deps) and those of /boot" >&2; return 1; }
		return 0
	fi
	if ! kver=$(cat "$dir/release" 2>/dev/null); then
		case $1 in
		7) echo "no kernel '7' yet: run tests/kernels/debian-kernel.sh" >&2 ;;
		debug-*) echo "no kernel '$1' yet: run tests/kernels/debug-kernel.sh ${1#debug-}" >&2 ;;
		kcsan-*) echo "no kernel '$1' yet: run tests/kernels/debug-kernel.sh kcsan" >&2 ;;
		*) echo "no kernel in $dir" >&2 ;;
		esac
		return 1
	fi
	kimg=$dir/bzImage moddir=$dir/modules kdir=$dir/build
	[ ! -e "$dir/chroot" ] || { chroot=$(readlink "$dir/chroot"); kdir=$(readlink "$dir/build"); }
	# ACPI and PCI are left out of the debug kernels.
	! grep -qx 'CONFIG_VIRTIO_MMIO_CMDLINE_DEVICES=y' "$dir/config" 2>/dev/null || machine=microvm
}
