#!/bin/bash
# SPDX-License-Identifier: MIT
# The module's Debian package in a throw-away Debian 12: built for 6.12, reported and passed over where that cannot be, and
# gone without a trace when removed; whatever becomes of the module, apt and dpkg succeed. Needs root, for chroot and mounts;
# the first run downloads a Debian (150 MB) into ${XDG_CACHE_HOME:-~/.cache}/vnpu. From the root of the tree.
set -u
. tests/cli/common.bash

# whole SKIP_REASON: all that is here cannot be tested.
whole() {
	skip "the module's package in a Debian 12" "$1"
	finish
	exit 0
}
if [ -z "${IN_NAMESPACE:-}" ]; then
	[ "$(id -u)" = 0 ] || whole "not root, and chroot is root's"
	unshare --mount true 2>/dev/null || whole "this root may not mount"
	rm -rf "$scratch"
	IN_NAMESPACE=yes exec unshare --mount --propagation private bash "$0"
fi
trap 'umount -R -l "$roots" 2>/dev/null; rm -rf --one-file-system "$scratch"' EXIT
roots=$scratch/roots

version=$(sed -n 's/^VERSION := //p' Makefile)
deb=$BUILD/deb/vnpu-dkms_${version}_all.deb
[ -r "$deb" ] || make DEPS=no BUILD="$BUILD" deb >"$scratch/log" 2>&1 ||
	{ not_ok "make deb" "$(tail -20 "$scratch/log")"; finish; exit 1; }

# ---- the Debian -----------------------------------------------------------------------------------------------------

# The host's archives of Debian 12, as lines of sources.list.
sources=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(CREATED_BY) $(SITE) $(CODENAME) main' |
	sed -n 's|^bookworm[a-z-]* main Packages |deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] |p' | sort -u)
[ -n "$sources" ] || whole "apt here knows no archive of Debian 12"
headers=(linux-headers-amd64 linux-headers-6.12-amd64)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/vnpu
base=$cache/bookworm-$(cksum <"$0" | cut -d' ' -f1)
mkdir -p "$cache"
exec 9>"$cache/bookworm.lock"
flock 9
if [ ! -d "$base" ]; then
	# Headers and what the packages depend on are downloaded and not installed: that is for the tests.
	if ! mmdebstrap --mode=root --variant=apt --include=dkms,openssl --skip=cleanup/apt \
		--customize-hook='chroot "$1" apt-get -q -y -d --no-install-recommends install '"${headers[*]}"' libdrm-dev libelf-dev \
			libjson-c5 libpcre2-8-0 libutf8proc2 libxxhash0 libnettle8 ocl-icd-libopencl1' \
		bookworm "$base.new" - <<<"$sources" >"$scratch/log" 2>&1; then
		rm -rf --one-file-system "$base.new"
		not_ok "a Debian 12 to install in" "$(tail -20 "$scratch/log")"
		finish
		exit 1
	fi
	mv "$base.new" "$base"
fi
flock -u 9
mkdir -p "$roots"
mount -t tmpfs -o mode=755 tmpfs "$roots" || exit 1

# fresh NAME: a Debian of its own from here on, in $root.
fresh() {
	root=$roots/$1/root
	mkdir -p "$root" "$roots/$1/upper" "$roots/$1/work"
	mount -t overlay -o "lowerdir=$base,upperdir=$roots/$1/upper,workdir=$roots/$1/work" overlay "$root" &&
		mount -t proc proc "$root/proc" && cp "$scratch"/*.deb "$root/tmp/" || exit 1
}

inside() {
	timeout -k 5 600 chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@" \
		>"$scratch/out" 2>&1 </dev/null
}

# succeeds NAME COMMAND...: status 0 in there; the output stays in $scratch/out.
succeeds() {
	local name=$1
	shift
	if inside "$@"; then ok "$name"; else not_ok "$name" "status $? of $*: $(tail -20 "$scratch/out")"; fi
}

# says NAME PATTERN: the last command's output has a line that matches.
says() {
	if grep -Eq "$2" "$scratch/out"; then ok "$1"; else not_ok "$1" "no line matches '$2': $(tail -20 "$scratch/out")"; fi
}

apt_install=(apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 install)

# configured NAME: vnpu-dkms is installed as far as dpkg is concerned, and nothing else is half done.
configured() {
	inside dpkg-query -W -f '${Status}' vnpu-dkms
	same "$1" "$(<"$scratch/out")" "install ok installed"
	inside dpkg --audit
	same "$1, and dpkg finds nothing half done" "none$(<"$scratch/out")" none
}

# kernels: "VERSION of vnpu for KERNEL" for every module that DKMS has installed.
kernels() {
	inside dkms status
	sed -n 's|^vnpu/\([^,]*\), \([^,]*\),.*: installed.*|\1 for \2|p' "$scratch/out" | sort
}

# traces: what there is of vnpu, but for dpkg's and apt's notes about packages.
traces() {
	find "$root" -xdev \( -path "$root/proc" -o -path "$root/tmp" -o -path "$root/var/cache/apt" -o -path "$root/var/lib/apt" -o \
		-path "$root/var/log/apt" \) -prune -o -name '*vnpu*' -printf '/%P '
	grep -l vnpu "$root"/lib/modules/*/modules.dep 2>/dev/null
}

# variant OUT VERSION COMMAND...: the package with another version, after COMMAND in its unpacked sources.
variant() {
	local out=$1 to=$2 d=$scratch/variant
	shift 2
	rm -rf "$d"
	dpkg-deb -R "$deb" "$d"
	[ "$to" = "$version" ] || mv "$d/usr/src/vnpu-$version" "$d/usr/src/vnpu-$to"
	sed -i "s/^Version: .*/Version: $to/" "$d/DEBIAN/control"
	sed -i "s/^version=.*/version=$to/" "$d/usr/lib/vnpu-dkms/module"
	sed -i "s/^PACKAGE_VERSION=.*/PACKAGE_VERSION=\"$to\"/" "$d/usr/src/vnpu-$to/dkms.conf"
	(cd "$d/usr/src/vnpu-$to" && "$@")
	dpkg-deb --root-owner-group -b "$d" "$scratch/$out" >/dev/null
}

cp "$deb" "$scratch/vnpu.deb"
variant newer.deb 99 true
variant broken.deb "$version" sh -c 'echo "#error broken on purpose" >>kmod/vnpu_drv.c'
variant broken-newer.deb 99 sh -c 'echo "#error broken on purpose" >>kmod/vnpu_drv.c'
tar -C "$scratch" -xf "$BUILD/deb/vnpu_$version.tar.xz"

# ---- the tests --------------------------------------------------------------------------------------------------------

fresh modern
succeeds "with 6.12's headers vnpu-dkms installs" "${apt_install[@]}" linux-headers-6.12-amd64 /tmp/vnpu.deb
new=$(ls "$root/lib/modules" | grep '^6\.12')
new_re=$(sed 's/[.+]/\\&/g' <<<"$new")
same "the module is built and installed for 6.12" "$(kernels)" "$version for $new"
configured "vnpu-dkms is configured"
same "the module is for that kernel" "$(modinfo -F vermagic "$root"/lib/modules/"$new"/updates/dkms/vnpu.ko* | cut -d' ' -f1)" "$new"
same "depmod knows it" "$(grep -c 'updates/dkms/vnpu.ko' "$root/lib/modules/$new/modules.dep")" 1
succeeds "it can be installed again" "${apt_install[@]}" --reinstall /tmp/vnpu.deb
same "and the module is there again" "$(kernels)" "$version for $new"
succeeds "a newer version takes its place" "${apt_install[@]}" /tmp/newer.deb
same "with a module of the newer version only" "$(kernels)" "99 for $new"
same "and no sources of the older" "$(ls -d "$root"/usr/src/vnpu-* "$root"/var/lib/dkms/vnpu/[0-9]* | sed "s|$root||" | xargs)" \
	"/usr/src/vnpu-99 /var/lib/dkms/vnpu/99"
succeeds "headers of a kernel that is too old install beside it" "${apt_install[@]}" linux-headers-amd64
says "with the reason why they get no module" '^vnpu-dkms: 6\.1\.[^ ]*: no vnpu.ko, which needs Linux 6\.12'
same "the module stays where it was" "$(kernels)" "99 for $new"
succeeds "it is removed" apt-get -q -y remove vnpu-dkms
same "but for its hooks" "$(traces | tr ' ' '\n' | grep -v ^/var/lib/dpkg/info/ | sort | xargs)" \
	"/etc/kernel/header_postinst.d/vnpu-dkms /etc/kernel/postinst.d/vnpu-dkms"
succeeds "which do not get into a kernel's way" run-parts --exit-on-error --arg="$new" /etc/kernel/header_postinst.d
succeeds "it is purged" apt-get -q -y purge vnpu-dkms
same "and leaves nothing" "none$(traces)" none

fresh old
succeeds "where 6.1 is all there is vnpu-dkms installs" "${apt_install[@]}" linux-headers-amd64 /tmp/vnpu.deb
says "and says what kernel it needs" '^vnpu-dkms: 6\.1\.[^ ]*: no vnpu.ko, which needs Linux 6\.12'
configured "vnpu-dkms is configured for 6.1"
same "without a module" "none$(kernels)" none
succeeds "headers of 6.12 are installed afterwards" "${apt_install[@]}" linux-headers-6.12-amd64
same "and get the module by themselves" "$(kernels)" "$version for $new"
succeeds "it is purged from two kernels" apt-get -q -y purge vnpu-dkms
same "and leaves nothing on either" "none$(traces)" none

fresh bare
succeeds "without any kernel vnpu-dkms installs" "${apt_install[@]}" /tmp/vnpu.deb
says "and says what it waits for" '^vnpu-dkms: no kernel is installed; vnpu.ko is built when headers'
configured "vnpu-dkms is configured without a kernel"
mkdir -p "$root/lib/modules/$new"
succeeds "with a kernel that has no headers too" dpkg-reconfigure vnpu-dkms
says "and says which headers it waits for" "^vnpu-dkms: $new_re: no vnpu.ko without headers; .*linux-headers-$new_re"

fresh broken
succeeds "with a module that does not compile vnpu-dkms installs" "${apt_install[@]}" linux-headers-6.12-amd64 /tmp/broken.deb
says "with a warning" "^vnpu-dkms: WARNING: $new_re: vnpu.ko could not be built"
says "and the log's name" "^vnpu-dkms: The log is /var/log/vnpu-dkms/$new_re.log"
same "the compiler's error is in the log" "$(grep -c 'error: #error broken on purpose' "$root/var/log/vnpu-dkms/$new.log")" 1
configured "vnpu-dkms is configured without its module"
succeeds "a kernel's headers install beside it" "${apt_install[@]}" --reinstall "linux-headers-$new"
says "with the warning again" "^vnpu-dkms: WARNING: $new_re: vnpu.ko could not be built"
succeeds "a version that compiles takes its place" "${apt_install[@]}" /tmp/newer.deb
same "and is built" "$(kernels)" "99 for $new"
same "which the log does not outlive" "none$(ls "$root/var/log/vnpu-dkms" 2>/dev/null)" none
succeeds "one that does not compile takes its place" "${apt_install[@]}" /tmp/broken-newer.deb --reinstall
same "and leaves no module that is not its own" "none$(kernels)" none
succeeds "it is purged after a failed build" apt-get -q -y purge vnpu-dkms
same "and leaves nothing after a failed build" "none$(traces)" none

fresh tree
cp -r "$scratch/vnpu-$version" "$root/root/vnpu"
inside "${apt_install[@]}" linux-headers-6.12-amd64 || not_ok "headers of 6.12" "$(tail -20 "$scratch/out")"
succeeds "dkms installs the module from the source tree" dkms install /root/vnpu -k "$new"
same "for 6.12" "$(kernels)" "$version for $new"
finish
