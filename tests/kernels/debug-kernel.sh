#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/kernels/debug-kernel.sh 6.12|7: builds the debug kernel (debug.config) from Debian's linux-source-6.12 or from the
# newest linux-source-7.x of trixie-backports, unless the cache has it, and prints its directory:
#
#   bzImage, config, System.map
#   modules/        what /lib/modules/VERSION would be (nearly all is built in)
#   build/          what make -C needs to build modules (KDIR)
#   release         the version that uname -r says
#
# JOBS=N (the number of CPUs). Needs flex, bison, bc, libelf-dev; no root, no network once the source is in the cache.
set -eu
. "$(dirname "$0")/archive.sh"
series=${1:-}
jobs=${JOBS:-$(nproc)}

# Options that 6.12 has only for drivers to select get a prompt, so that debug.config can name them. 7.x is the same but
# where it has prompts already.
add_prompts() {
	local file=$1 option text
	shift
	for option; do
		text="$option, by name"
		sed -i "/^config $option\$/,/^\$/s/^\t\(bool\|tristate\)\$/\t\1 \"$text\"/" "$file"
		sed -n "/^config $option\$/,/^\$/p" "$file" | grep -qP '^\t(bool|tristate) "' || fail "no prompt for $option in $file"
	done
}

# unpack DEB DIR: without the drivers and architectures that debug.config leaves out, whose Kconfig files alone are read.
unpack() {
	local deb=$1 dir=$2 tarball=./usr/src/linux-source-${3}.tar.xz skip
	skip=(--wildcards-match-slash --anchored)
	for d in sound drivers/{net,media,staging,scsi,infiniband,iio,video,usb,sound,pinctrl,clk,mtd,crypto} \
		drivers/gpu/drm/{amd,i915,xe,nouveau,radeon,msm,exynos,mediatek,etnaviv} arch/[a-wyz]*; do
		skip+=(--exclude="linux-source-$3/$d/*.[chS]" --exclude="linux-source-$3/$d/*.dts*")
	done
	skip+=(--exclude='linux-source-*/Documentation/*/*' --exclude='linux-source-*/tools/testing/*/*')
	mkdir -p "$dir"
	dpkg-deb --fsys-tarfile "$deb" | tar -xO "$tarball" | tar -xJ -C "$dir" --strip-components=1 "${skip[@]}"
}

# Every line of debug.config, or the kernel would silently test less.
verify_config() { # CONFIG
	local missing
	missing=$(awk '
		FNR == NR && /^CONFIG_/ {have[$0] = 1; sub(/=.*/, ""); set[$0] = 1}
		FNR == NR {next}
		/^CONFIG_/ && !($0 in have) {print}
		/^# CONFIG_.* is not set$/ && $2 in set {print $2 "=n"}' "$1" "$kernels/debug.config")
	[ -z "$missing" ] || fail "not in the final configuration:" $missing
}

# keep TREE OUT: what a module's build reads; everything else is 20 times as large.
keep() {
	local tree=$1 out=$2
	(cd "$tree" && {
		printf '%s\n' .config Makefile Kbuild Module.symvers System.map tools/objtool/objtool
		find . -name 'Makefile*' -o -name 'Kconfig*' | grep -E '^\./(arch/x86|scripts|Makefile)'
		find include arch/x86/include scripts -type f -o -type l | grep -v '\.o$'
	} | sort -u | cpio -pdm --quiet "$out/build")
	make -s -C "$tree" INSTALL_MOD_PATH="$out/root" modules_install >/dev/null 2>&1 || fail "modules_install failed"
	mv "$out"/root/lib/modules/* "$out/modules" && rm -rf "$out/root" "$out"/modules/{build,source}
	cp "$tree/arch/x86/boot/bzImage" "$tree/System.map" "$out/"
	cp "$tree/.config" "$out/config"
	make -s -C "$tree" kernelrelease >"$out/release"
}

# build DEB OUT SOURCE: unpack, configure, compile, keep. The log stays where it says.
build() {
	local deb=$1 out=$2 source=$3 tree=$cache/building-$series log=$cache/debug-$series.log start=$SECONDS
	rm -rf "$tree" "$out.new"
	say "unpacking $source"
	unpack "$deb" "$tree" "${source#linux-source-}"
	add_prompts "$tree/drivers/gpu/drm/Kconfig" DRM_SCHED DRM_EXEC DRM_GEM_SHMEM_HELPER
	add_prompts "$tree/drivers/base/Kconfig" WANT_DEV_COREDUMP
	say "configuring"
	make -C "$tree" KCONFIG_ALLCONFIG="$kernels/debug.config" allnoconfig >"$log" 2>&1 || { tail -20 "$log" >&2; fail "the configuration failed: see $log"; }
	verify_config "$tree/.config"
	say "compiling with -j$jobs; 15 minutes on two idle CPUs; $log grows by 1400 lines"
	make -C "$tree" -j"$jobs" bzImage modules >>"$log" 2>&1 || { tail -20 "$log" >&2; fail "the build failed: see $log"; }
	mkdir -p "$out.new"
	keep "$tree" "$out.new"
	mv "$out.new" "$out"
	rm -rf "$tree"
	say "$source is ready after $((SECONDS - start)) s, $(du -sh "$out" | cut -f1)"
}

case $series in
6.12) pattern='linux-source-6\.12' ;;
7) pattern='linux-source-7\.[0-9]+' ;;
*) fail "which one? debug-kernel.sh 6.12, or debug-kernel.sh 7 for the newest 7.x" ;;
esac
for tool in flex bison bc make gcc; do command -v $tool >/dev/null || fail "no $tool: run make deps"; done

lock debug-$series
recipe=$(cat "$kernels/debug.config" "$kernels/debug-kernel.sh" | sha256sum | cut -c1-12)
if ! archive_update; then
	# Without the archive, the newest one that these scripts built before will do.
	out=$(ls -dt "$cache/built-debug-$series"-*"-$recipe" 2>/dev/null | head -1)
	[ -n "$out" ] || exit 1
	say "using $(basename "$out") of the cache"
	echo "$out"
	exit 0
fi
source=$(archive_newest "$pattern")
[ -n "$source" ] || fail "the archive has no package like $pattern"
version=$(archive_version "$source")
out=$cache/built-debug-$series-$version-$recipe
if [ ! -e "$out/release" ]; then
	debs=$cache/source/$source-$version
	if [ -z "$(ls "$debs"/*.deb 2>/dev/null)" ]; then
		say "fetching $source $version"
		rm -rf "$debs.new" && archive_get "$debs.new" "$source" || fail "$source cannot be fetched"
		rm -rf "$cache/source/$source"-* && mv "$debs.new" "$debs"
	fi
	build "$debs"/*.deb "$out" "$source"
fi
publish "debug-$series" "$out"
echo "$out"
