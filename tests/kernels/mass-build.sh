#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/kernels/mass-build.sh WHAT...: compiles vnpu.ko at W=1 for many kernels and prints a table: kernel, compiler, result,
# seconds; then a last line like that of the tests. Status 1 if one failed. WHAT is any of
#
#   a kernel of kernels.sh, such as 6.12 or debug-7
#   a folder in which `make -C` builds modules (KDIR)
#   linux-headers-*.deb with its linux-headers-*-common and linux-kbuild, or a folder into which they were unpacked: compiled
#   in the trixie chroot with gcc-14 (as root, or with sudo without a password)
#   archive, for all headers in trixie-backports
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/kernels/archive.sh
. tests/kernels/chroot.sh
. tests/kernels/kernels.sh
. tests/kernels/module.sh
[ $# -gt 0 ] || fail "what? kernels ($kernel_names), folders, linux-headers .deb files, or: archive"
BUILD=${BUILD:-build}/mass
logs=$BUILD/logs
mkdir -p "$logs"
rows=0 bad=0

row() { # KVER KDIR CHROOT
	local start=$SECONDS result=ok cc log=$logs/$1.log
	[ $rows -gt 0 ] || printf '%-36s %-12s %-20s %7s\n' kernel compiler result seconds
	rows=$((rows + 1))
	module_forget "$1"
	if ! module_make "$log" "$1" "$2" "$3"; then
		result="does not compile"
	elif ! module_clean "$log" >/dev/null; then
		result=warnings
	fi
	cc=gcc-14
	[ -n "$3" ] || cc=gcc-$(gcc -dumpfullversion)
	printf '%-36s %-12s %-20s %7d\n' "$1" "$cc" "$result" $((SECONDS - start))
	[ "$result" = ok ] || { bad=$((bad + 1)); grep -E 'error:|warning:|Error' "$log" | head -5 | sed 's/^/    /'; echo "    all of it: $log"; }
}

# The kernels whose headers are in the chroot under one of these names.
in_chroot() { # VERSION-FLAVOUR...
	local v
	for v; do row "$v" "/usr/src/linux-headers-$v" "$trixie"; done
}

flavours() { # names of linux-headers packages or folders -> VERSION-FLAVOUR
	sed -n 's|.*linux-headers-\([^_/]*-[a-z0-9-]*amd64\).*|\1|p' | sort -Vu
}

need_chroot() {
	can_root || fail "the chroot needs root, or sudo without a password"
	lock trixie
	chroot_make
}

from_archive() {
	local names
	archive_update || fail "the archive is not within reach"
	names=$(apt_private apt-cache pkgnames linux-headers- | grep -E '^linux-headers-7\..*\+deb13-amd64$' | flavours)
	[ -n "$names" ] || fail "trixie-backports has no linux-headers-7.x"
	chroot_headers ${names//-amd64/}
	in_chroot $names
}

debs=() folders=()
for what; do
	case $what in
	*.deb) debs+=("$what") ;;
	archive) need_chroot && from_archive ;;
	*)
		if [ -d "$what/usr/src" ]; then
			folders+=("$what")
		elif [ -e "$what/Makefile" ]; then
			row "$(basename "$(realpath "$what")")" "$(realpath "$what")" ""
		elif kernel_find "$what"; then
			row "$kver" "$kdir" "$chroot"
		else
			rows=$((rows + 1)) bad=$((bad + 1))
		fi ;;
	esac
done
if [ ${#debs[@]} -gt 0 ]; then
	need_chroot
	chroot_unpack "${debs[@]}" || fail "not a package among: ${debs[*]}"
	in_chroot $(printf '%s\n' "${debs[@]}" | flavours)
fi
for f in "${folders[@]}"; do
	need_chroot
	tar -c -C "$f" usr | "${as_root[@]}" tar -x --keep-directory-symlink -C "$trixie"
	in_chroot $(ls -d "$f"/usr/src/linux-headers-*amd64 | flavours)
done
echo "$((rows - bad)) passed, $bad failed, 0 skipped"
[ "$bad" -eq 0 ]
