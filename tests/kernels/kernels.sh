# SPDX-License-Identifier: MIT
# Sourced: the kernels that the module is tested on, by name.
#
#   6.12        Debian 12's newest 6.12 that is installed (make deps)
#   7           Debian's newest 7.x                            debian-kernel.sh
#   debug-6.12  6.12 with all checkers                         debug-kernel.sh 6.12
#   debug-7     the newest 7.x with all checkers               debug-kernel.sh 7
#   kcsan-6.12  6.12 with the checker for data races           debug-kernel.sh kcsan
#   VERSION     another installed one, as of uname -r
#   DIR         another one with the layout of debug-kernel.sh

kernel_names="6.12 7 debug-6.12 debug-7 kcsan-6.12"
kernel_cache=${XDG_CACHE_HOME:-$HOME/.cache}/vnpu/kernels

# kernel_find NAME: sets kver, kimg, moddir, kdir, machine (pc or microvm) and chroot (in which kdir is; else empty). Status 1
# with a message if there is none.
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
	# The debug kernels have no ACPI or PCI.
	! grep -qx 'CONFIG_VIRTIO_MMIO_CMDLINE_DEVICES=y' "$dir/config" 2>/dev/null || machine=microvm
}
