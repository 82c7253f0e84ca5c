#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/kernels/debian-kernel.sh: unpacks Debian's newest 7.x kernel (trixie-backports) in the cache, without installing it,
# with the headers to build modules for it, and a small trixie chroot, because the headers' tools and gcc-14 do not run on
# Debian 12. Prints the kernel's directory, with the layout of debug-kernel.sh's:
#
#   bzImage, System.map, release, modules/
#   build -> the headers, as a path in the chroot
#   chroot -> the chroot (in-trixie.sh runs commands there)
#
# Needs root, or sudo without a password. Status 77, with the reason: the archive or root is not available.
set -eu
. "$(dirname "$0")/archive.sh"
. "$kernels/chroot.sh"

# Of 4000 modules, those that vnpu.ko, its tests and QEMU's devices need, with their dependencies.
subset=(drivers/gpu/drm/'*.ko*' drivers/gpu/drm/scheduler drivers/gpu/drm/vgem drivers/virtio drivers/char/hw_random
	drivers/dma-buf drivers/video drivers/acpi drivers/i2c fs/9p fs/netfs net/9p lib)

# unpack_some DEB DIR PATTERN...: unpacks matching files. A pattern may match nothing, if this kernel has the driver built in.
unpack_some() {
	local deb=$1 dir=$2 said
	shift 2
	if ! said=$(dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir" --wildcards --no-wildcards-match-slash --no-anchored "$@" 2>&1) &&
		grep -vE 'Not found in archive|Exiting with failure status' <<<"$said" >&2; then
		fail "$deb cannot be unpacked"
	fi
}

# kernel VERSION OUT: unpacks the image and the modules.
kernel() {
	local v=$1 out=$2 debs=$cache/source/debian-7 d patterns=()
	for d in "${subset[@]}"; do patterns+=("kernel/$d"); done
	rm -rf "$debs" "$out.new"
	say "fetching linux $v (120 MB)"
	archive_get "$debs" "linux-binary-$v-amd64" "linux-modules-$v-amd64" "linux-base-$v-amd64" || fail "linux $v cannot be fetched"
	mkdir -p "$out.new/root"
	for d in "$debs"/*.deb; do
		case $d in
		*/linux-modules-*)
			unpack_some "$d" "$out.new/root" "${patterns[@]}" ;;
		*) dpkg -x "$d" "$out.new/root" ;;
		esac
	done
	find "$out.new/root" -name "vmlinuz*" -type f -exec mv {} "$out.new/bzImage" \;
	find "$out.new/root" -name "System.map*" -type f -exec mv {} "$out.new/System.map" \;
	mv "$(find "$out.new/root" -type d -path '*/lib/modules/*' -name "$v-amd64" | head -1)" "$out.new/modules"
	[ -s "$out.new/bzImage" ] && [ -d "$out.new/modules/kernel" ] || fail "linux-binary and linux-modules of $v are not laid out as expected"
	# depmod needs lib/modules/VERSION.
	mkdir -p "$out.new/dep/lib/modules"
	ln -s "$out.new/modules" "$out.new/dep/lib/modules/$v-amd64"
	depmod -b "$out.new/dep" "$v-amd64" || fail "depmod failed"
	rm -rf "$out.new/dep" "$out.new/root" "$debs"
	ln -s "/usr/src/linux-headers-$v-amd64" "$out.new/build"
	ln -s "$trixie" "$out.new/chroot"
	echo "$v-amd64" >"$out.new/release"
	mv "$out.new" "$out"
}

lock trixie
can_root || { say "a chroot needs root, or sudo without a password"; exit 77; }
if archive_update; then
	name=$(archive_newest 'linux-headers-7\.[0-9.]+\+deb13-amd64')
	[ -n "$name" ] || { say "trixie-backports has no linux-headers-7.x"; exit 77; }
	v=${name#linux-headers-}
	v=${v%-amd64}
	out=$cache/built-7-$v
else
	out=$(ls -dt "$cache"/built-7-*/release 2>/dev/null | head -1)
	[ -n "$out" ] && [ -d "$trixie" ] || exit 77
	out=${out%/release}
	v=${out#"$cache/built-7-"}
	say "using $v of the cache"
fi
chroot_make
chroot_headers "$v"
[ -e "$out/release" ] || kernel "$v" "$out"
publish 7 "$out"
echo "$out"
