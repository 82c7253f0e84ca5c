#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/kernels/debug-kernel.sh 6.12|7|kcsan: builds the debug kernel (debug.config) from Debian's linux-source-6.12 or from
# the newest linux-source-7.x of trixie-backports, or the kernel that finds data races (kcsan.config) from linux-source-6.12,
# unless it is in the cache, and prints its directory:
#
#   bzImage, config, System.map
#   modules/        as /lib/modules/VERSION (nearly everything is built in)
#   build/          what make -C needs to build modules (KDIR)
#   release         the version, as of uname -r
#
# JOBS=N (the number of CPUs). Needs flex, bison, bc, libelf-dev; no root, and no network once the source is in the cache.
set -eu
. "$(dirname "$0")/archive.sh"
. "$kernels/source.sh"
jobs=${JOBS:-$(nproc)}

# debug.config with this kernel's names: 7.3 has renamed PROC_SYSCTL. Lines of kcsan.config take precedence.
wanted_config() {
	case $name in
	debug-6.12) cat "$kernels/debug.config" ;;
	debug-7) sed 's/^CONFIG_PROC_SYSCTL=/CONFIG_SYSCTL=/' "$kernels/debug.config" ;;
	kcsan-6.12)
		awk '
			function option() {return $2 ~ /^CONFIG_/ ? $2 : substr($1, 1, index($1, "=") - 1)}
			!/CONFIG_[A-Z0-9_]*(=| is not set)/ {if (FNR != NR) print; next}
			FNR == NR {own[option()]; line[++n] = $0; next}
			!(option() in own)
			END {for (i = 1; i <= n; i++) print line[i]}' "$kernels/kcsan.config" "$kernels/debug.config" ;;
	esac
}

# watch_some MAKEFILE: KCSAN checks modules and DRM, and elsewhere only instruments barriers. It samples accesses at random:
# with the whole kernel checked, it would hardly ever sample the module's.
watch_some() {
	local some='drivers/gpu/drm% drivers/accel% drivers/dma-buf%'
	sed -i '/^ifeq (\$(CONFIG_KCSAN),y)$/a\
ifeq ($(KCSAN_SANITIZE)$(KBUILD_EXTMOD)$(filter '"$some"',$(obj)),)\
KCSAN_SANITIZE := n\
KCSAN_INSTRUMENT_BARRIERS = $(if $(is-kernel-object),y,n)\
endif' "$1"
	grep -q '^KCSAN_INSTRUMENT_BARRIERS = ' "$1" || fail "no KCSAN in $1"
}

# keep TREE OUT: keeps what a module's build reads; everything else is 20 times as large.
keep() {
	local tree=$1 out=$2
	(cd "$tree" && {
		printf '%s\n' .config Makefile Kbuild Module.symvers System.map tools/objtool/objtool
		find Makefile arch/x86 scripts -name 'Makefile*' -o -name 'Kconfig*'
		find include arch/x86/include scripts -type f -o -type l | grep -v '\.o$'
	} | sort -u | cpio -pdm --quiet "$out/build")
	make -s -C "$tree" INSTALL_MOD_PATH="$out/root" modules_install >/dev/null 2>&1 || fail "modules_install failed"
	mv "$out"/root/lib/modules/* "$out/modules" && rm -rf "$out/root" "$out"/modules/{build,source}
	cp "$tree/arch/x86/boot/bzImage" "$tree/System.map" "$out/"
	cp "$tree/.config" "$out/config"
	make -s -C "$tree" kernelrelease >"$out/release"
}

# prepare DEB TREE SOURCE LOG: unpacks and configures the sources.
prepare() {
	local deb=$1 tree=$2 source=$3 log=$4
	rm -rf "$tree"
	unpack "$deb" "$tree" "${source#linux-source-}" 'arch/[a-wyz]*'
	add_prompts "$tree/drivers/gpu/drm/Kconfig" DRM_SCHED DRM_EXEC DRM_GEM_SHMEM_HELPER
	add_prompts "$tree/drivers/base/Kconfig" WANT_DEV_COREDUMP
	[ "$name" != kcsan-6.12 ] || watch_some "$tree/scripts/Makefile.lib"
	say "configuring"
	wanted_config >"$tree/debug.config"
	make -C "$tree" KCONFIG_ALLCONFIG=debug.config allnoconfig >"$log" 2>&1 || { tail -20 "$log" >&2; fail "the configuration failed: see $log"; }
	verify_config "$tree/.config" "$tree/debug.config"
}

# build DEB OUT SOURCE: prepares, compiles, keeps; continues an interrupted build for the same OUT. The log stays at the
# printed path.
build() {
	local deb=$1 out=$2 source=$3 tree=$cache/building-$name log=$cache/$name.log start=$SECONDS mark
	mark=$tree/.vnpu-$(basename "$out")
	if [ -e "$mark" ]; then
		say "going on with a build that was interrupted"
	else
		prepare "$deb" "$tree" "$source" "$log"
		touch "$mark"
	fi
	rm -rf "$out.new"
	say "compiling with -j$jobs; 15 minutes on two idle CPUs; $log grows by 1400 lines"
	make -C "$tree" -j"$jobs" bzImage modules >>"$log" 2>&1 || { tail -20 "$log" >&2; fail "the build failed: see $log"; }
	mkdir -p "$out.new"
	keep "$tree" "$out.new"
	mv "$out.new" "$out"
	rm -rf "$tree"
	say "$source is ready after $((SECONDS - start)) s, $(du -sh "$out" | cut -f1)"
}

case ${1:-} in
6.12) name=debug-6.12 pattern='linux-source-6\.12' ;;
7) name=debug-7 pattern='linux-source-7\.[0-9]+' ;;
kcsan) name=kcsan-6.12 pattern='linux-source-6\.12' ;;
*) fail "which one? debug-kernel.sh 6.12, 7 for the newest 7.x, or kcsan" ;;
esac
for tool in flex bison bc make gcc; do command -v $tool >/dev/null || fail "no $tool: run make deps"; done

lock $name
# Everything that makes kernels from the same source differ.
recipe=$({
	wanted_config && declare -f unpack add_prompts keep
	[ "$name" != kcsan-6.12 ] || declare -f watch_some
} | sha256sum | cut -c1-12)
if ! archive_update; then
	# Without the archive, use the newest one that these scripts have built.
	out=$(ls -dt "$cache/built-$name"-*"-$recipe" 2>/dev/null | head -1)
	[ -n "$out" ] || exit 1
	say "using $(basename "$out") of the cache"
	echo "$out"
	exit 0
fi
source=$(archive_newest "$pattern")
[ -n "$source" ] || fail "the archive has no package like $pattern"
version=$(archive_version "$source")
out=$cache/built-$name-$version-$recipe
if [ ! -e "$out/release" ]; then
	deb=$(source_fetch "$source" "$version")
	build "$deb" "$out" "$source"
fi
publish "$name" "$out"
echo "$out"
