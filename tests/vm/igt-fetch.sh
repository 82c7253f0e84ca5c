#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/vm/igt-fetch.sh [DIR]: downloads Debian forky's igt-gpu-tools (its tests and gputop) and the libraries that they need,
# and unpacks them in DIR (by default in the cache) as a root for chroot. Prints DIR, for IGT_TESTS=DIR of tests/vm/igt.sh.
# Downloads 25 MB, once; installs nothing, needs no root, and does not change the host's apt.
set -u
. "$(dirname "$0")/../kernels/archive.sh"
dir=$(realpath -m "${1:-${XDG_CACHE_HOME:-$HOME/.cache}/vnpu/igt}")
packages=(igt-gpu-tools igt-gpu-tools-tests)
apt_root=$dir.apt
key=/usr/share/keyrings/debian-archive-keyring.gpg

lock igt
if [ -e "$dir/versions" ]; then
	echo "$dir"
	exit 0
fi
site=$(archive_site)
[ -n "$site" ] || fail "apt knows no archive of Debian 12 (bookworm main): run apt-get update"
rm -rf "$apt_root" "$dir.new"
mkdir -p "$apt_root"/etc/{apt.conf.d,preferences.d,trusted.gpg.d} "$apt_root"/state/lists/partial "$apt_root"/cache/archives/partial
echo "deb [signed-by=$key] $site forky main" >"$apt_root/etc/sources.list"
say "reading the index of forky"
apt_private apt-get update >"$apt_root/update.log" 2>&1 && ! grep -q '^[EW]:' "$apt_root/update.log" ||
	{ tail -5 "$apt_root/update.log" >&2; fail "forky cannot be read from $site"; }

# Of the dependencies only the libraries: python is for scripts and fonts for displays, unused here.
depends=$(apt_private apt-get -s --no-install-recommends install "${packages[@]}" 2>"$apt_root/depends.log" |
	sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -E '^(lib|zlib1g)' | grep -vE '^libpython|-data$|-extra$')
[ -n "$depends" ] || { tail -5 "$apt_root/depends.log" >&2; fail "apt finds no ${packages[*]} in forky"; }
say "fetching ${packages[*]} and $(wc -w <<<"$depends") libraries"
archive_get "$apt_root/debs" base-files ncurses-base "${packages[@]}" $depends || fail "a package cannot be fetched"

# base-files first: /lib and /bin are links.
mkdir -p "$dir.new"
for deb in "$apt_root"/debs/base-files_*.deb "$apt_root"/debs/*.deb; do
	dpkg -x "$deb" "$dir.new" || fail "$deb cannot be unpacked"
done
rm -rf "$dir.new"/usr/share/{doc,man,locale,bug,lintian}
for p in "${packages[@]}"; do echo "$p $(archive_version "$p")"; done >"$dir.new/versions"
rm -rf "$dir" "$apt_root" && mv "$dir.new" "$dir" || fail "$dir cannot be written"
say "$(paste -sd ' ' "$dir/versions"), $(du -sh "$dir" | cut -f1) in $dir"
echo "$dir"
