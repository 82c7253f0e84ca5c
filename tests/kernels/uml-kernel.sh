#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/kernels/uml-kernel.sh: builds a user-mode kernel (uml.config) from the newest linux-source-7.x of trixie-backports,
# unless it is in the cache, and prints its directory:
#
#   linux           the kernel, which is a program
#   config
#   build/          what make -C needs to build modules (KDIR, with ARCH=um)
#   release         the version, as of uname -r
#
# Programs run in it at the host's speed, with all of its instructions. 7.x can run them with seccomp=on, where a system call
# costs a fraction of what it costs with ptrace.
# JOBS=N (the number of CPUs). Needs flex, bison, bc; no root, and no network once the source is in the cache.
set -eu
. "$(dirname "$0")/archive.sh"
. "$kernels/source.sh"
jobs=${JOBS:-$(nproc)}

# prepare DEB TREE SOURCE LOG: unpacks and configures the sources.
prepare() {
	local deb=$1 tree=$2 source=$3 log=$4
	rm -rf "$tree"
	unpack "$deb" "$tree" "${source#linux-source-}" 'arch/[a-tv-wyz]*'
	add_prompts "$tree/drivers/gpu/drm/Kconfig" DRM_SCHED DRM_EXEC DRM_GEM_SHMEM_HELPER
	add_prompts "$tree/drivers/base/Kconfig" WANT_DEV_COREDUMP
	say "configuring"
	cp "$kernels/uml.config" "$tree/"
	make -C "$tree" ARCH=um KCONFIG_ALLCONFIG=uml.config allnoconfig >"$log" 2>&1 || { tail -20 "$log" >&2; fail "the configuration failed: see $log"; }
	verify_config "$tree/.config" "$tree/uml.config"
}

# keep TREE OUT: keeps the kernel, and what a module's build reads.
keep() {
	local tree=$1 out=$2
	(cd "$tree" && {
		printf '%s\n' .config Makefile Kbuild Module.symvers
		find Makefile arch/um arch/x86 scripts -name 'Makefile*' -o -name 'Kconfig*'
		find include arch/um/include arch/x86/include arch/x86/um scripts -type f -o -type l | grep -v '\.[oa]$'
	} | sort -u | cpio -pdm --quiet "$out/build")
	cp "$tree/linux" "$out/"
	cp "$tree/.config" "$out/config"
	make -s -C "$tree" ARCH=um kernelrelease >"$out/release"
}

build() {
	local deb=$1 out=$2 source=$3 tree=$cache/building-uml log=$cache/uml.log start=$SECONDS
	prepare "$deb" "$tree" "$source" "$log"
	say "compiling with -j$jobs; 3 minutes on two idle CPUs"
	make -C "$tree" ARCH=um -j"$jobs" linux modules >>"$log" 2>&1 || { tail -20 "$log" >&2; fail "the build failed: see $log"; }
	rm -rf "$out.new"
	mkdir -p "$out.new"
	keep "$tree" "$out.new"
	mv "$out.new" "$out"
	rm -rf "$tree"
	say "$source is ready after $((SECONDS - start)) s, $(du -sh "$out" | cut -f1)"
}

for tool in flex bison bc make gcc; do command -v $tool >/dev/null || fail "no $tool: run make deps"; done
lock uml
# Everything that makes kernels from the same source differ.
recipe=$({ cat "$kernels/uml.config" && declare -f unpack add_prompts keep; } | sha256sum | cut -c1-12)
if ! archive_update; then
	out=$(ls -dt "$cache/built-uml"-*"-$recipe" 2>/dev/null | head -1)
	[ -n "$out" ] || exit 1
	say "using $(basename "$out") of the cache"
	echo "$out"
	exit 0
fi
source=$(archive_newest 'linux-source-7\.[0-9]+')
[ -n "$source" ] || fail "the archive has no linux-source-7.x"
version=$(archive_version "$source")
out=$cache/built-uml-$version-$recipe
if [ ! -e "$out/release" ]; then
	deb=$(source_fetch "$source" "$version")
	build "$deb" "$out" "$source"
fi
publish uml "$out"
echo "$out"
