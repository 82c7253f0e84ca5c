# SPDX-License-Identifier: MIT
# Sourced after archive.sh: a chroot of Debian 13 (trixie) in the cache that compiles modules, and commands in it.

trixie=$cache/trixie
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)

can_root() {
	"${as_root[@]}" true 2>/dev/null
}

# pahole is for the module's BTF, which kbuild requires if the kernel has BTF.
chroot_packages="base-files bash dash coreutils sed grep mawk findutils diffutils gzip tar make gcc-14 binutils libc6-dev \
libelf1t64 libssl3t64 zlib1g kmod perl-base pahole"
chroot_ready=$trixie/ready-$(cksum <<<"$chroot_packages" | cut -d' ' -f1)

# chroot_make: creates it if missing. Packages are unpacked but not configured, which compilers do not need.
chroot_make() {
	local site start=$SECONDS
	[ ! -e "$chroot_ready" ] || return 0
	command -v mmdebstrap >/dev/null || fail "no mmdebstrap: run make deps"
	site=$(archive_site)
	[ -n "$site" ] || fail "apt knows no archive of Debian 12 (bookworm main): run apt-get update"
	say "making a trixie chroot with gcc-14 (100 MB to fetch)"
	"${as_root[@]}" rm -rf "$trixie.new"
	"${as_root[@]}" mmdebstrap --quiet --mode=root --variant=extract --include="$chroot_packages" trixie "$trixie.new" \
		"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site trixie main" >"$cache/trixie.log" 2>&1 ||
		{ tail -5 "$cache/trixie.log" >&2; fail "mmdebstrap failed: see $cache/trixie.log"; }
	"${as_root[@]}" ln -sf mawk "$trixie.new/usr/bin/awk"
	"${as_root[@]}" rm -rf "$trixie.new"/usr/share/{doc,man,locale} "$trixie.new"/var/cache/apt/archives/*.deb
	"${as_root[@]}" touch "$trixie.new/${chroot_ready##*/}"
	"${as_root[@]}" rm -rf "$trixie" && "${as_root[@]}" mv "$trixie.new" "$trixie"
	say "the chroot is ready after $((SECONDS - start)) s, $("${as_root[@]}" du -sh "$trixie" | cut -f1)"
}

# chroot_unpack DEB...: keeps the links /lib and /bin, which a package may contain as directories.
chroot_unpack() {
	local deb
	for deb; do
		dpkg-deb --fsys-tarfile "$deb" | "${as_root[@]}" tar -x --keep-directory-symlink -C "$trixie" || return 1
	done
}

# chroot_headers VERSION...: installs missing headers of trixie-backports, such as 7.3.4+deb13. A version is there if all of
# its packages are unpacked.
chroot_headers() {
	local v debs=$cache/source/headers missing=()
	for v; do
		[ -e "$trixie/usr/src/linux-headers-$v-amd64/.complete" ] ||
			missing+=("linux-headers-$v-amd64" "linux-headers-$v-common" "linux-kbuild-$v")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	say "fetching the headers of $((${#missing[@]} / 3)) versions (15 MB each)"
	rm -rf "$debs"
	archive_get "$debs" "${missing[@]}" || fail "the headers cannot be fetched"
	chroot_unpack "$debs"/*.deb || fail "the headers cannot be unpacked into $trixie"
	for v; do "${as_root[@]}" touch "$trixie/usr/src/linux-headers-$v-amd64/.complete"; done
	rm -rf "$debs"
}

# in_trixie DIR... -- COMMAND...: with the directories mounted at the same paths. objtool needs /proc.
in_trixie() {
	local dirs=()
	while [ "$1" != -- ]; do dirs+=("$1") && shift; done
	shift
	"${as_root[@]}" unshare -m bash -c '
		root=$0 n=$1
		shift
		mount --make-rprivate / && mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev" || exit 1
		for ((; n > 0; n--)); do
			mkdir -p "$root$1" && mount --bind "$1" "$root$1" || exit 1
			shift
		done
		exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin LC_ALL=C "$@"' "$trixie" ${#dirs[@]} "${dirs[@]}" "$@"
}
