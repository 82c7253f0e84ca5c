# SPDX-License-Identifier: MIT
# Sourced by the scripts beside it: the cache, and Debian packages from archives that the host's apt does not list.

kernels=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/vnpu/kernels
export LC_ALL=C
mkdir -p "$cache" || exit 1

fail() {
	echo "$(basename "$0"): $*" >&2
	exit 1
}

# say WHAT: a line of progress. Standard output is for results.
say() {
	echo "$(basename "$0"): $*" >&2
}

# One build or download of a kind at a time; others wait and then find the finished result.
lock() {
	exec 9>"$cache/$1.lock"
	flock -n 9 || { say "waiting for another $1 to end" && flock 9; }
}

# Separate apt directories, so that neither the host's sources nor its lists change.
apt_root=$cache/apt
apt_private() {
	local command=$1
	shift
	"$command" -q -o Dir::Etc="$apt_root/etc" -o Dir::State="$apt_root/state" -o Dir::State::status=/dev/null \
		-o Dir::Cache="$apt_root/cache" -o Dir::Log="$apt_root" -o APT::Sandbox::User= -o Acquire::Retries=3 "$@"
}

# The host's mirror for Debian 12 also has trixie-backports.
archive_site() {
	apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT) $(IDENTIFIER)' |
		awk '$2 == "bookworm" && $3 == "main" && $4 == "Packages" {print $1; exit}'
}

# archive_update: updates the package lists (Debian 12's security updates and trixie-backports), at most every 6 hours.
archive_update() {
	local site key=/usr/share/keyrings/debian-archive-keyring.gpg stamp=$apt_root/updated
	[ -z "$(find "$stamp" -mmin -360 2>/dev/null)" ] || return 0
	site=$(archive_site)
	[ -n "$site" ] || { say "apt knows no archive of Debian 12 (bookworm main): run apt-get update"; return 1; }
	mkdir -p "$apt_root"/etc/{apt.conf.d,preferences.d,sources.list.d,trusted.gpg.d} "$apt_root"/state/lists/partial \
		"$apt_root"/cache/archives/partial
	{
		apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT) $(IDENTIFIER)' |
			awk -v k="$key" '$2 == "bookworm-security" && $3 == "main" && $4 == "Packages" {
				print "deb [signed-by=" k "] " $1 " bookworm-security main"; exit}'
		echo "deb [signed-by=$key] $site trixie-backports main"
	} >"$apt_root/etc/sources.list"
	say "reading the index of trixie-backports"
	apt_private apt-get update >"$apt_root/update.log" 2>&1 && ! grep -q '^[EW]:' "$apt_root/update.log" ||
		{ tail -5 "$apt_root/update.log" >&2; say "trixie-backports cannot be read from $site"; return 1; }
	touch "$stamp"
}

# archive_newest REGEX: prints the package with the highest version in its name.
archive_newest() {
	apt_private apt-cache pkgnames linux- | grep -Ex "$1" | sort -V | tail -1
}

archive_version() { # PACKAGE
	apt_private apt-cache show --no-all-versions "$1" | sed -n 's/^Version: //p'
}

# archive_get DIR PACKAGE...: downloads the .deb files; apt checks them against the signed index.
archive_get() {
	local dir=$1
	shift
	mkdir -p "$dir"
	(cd "$dir" && apt_private apt-get download "$@") >"$apt_root/download.log" 2>&1 ||
		{ tail -5 "$apt_root/download.log" >&2; return 1; }
}

# publish NAME DIR: makes DIR what kernels.sh finds under this name, and removes its predecessors.
publish() {
	local old
	ln -sfn "$2" "$cache/$1"
	for old in "$cache/built-$1"-*; do [ "$old" = "$2" ] || rm -rf "$old"; done
}
