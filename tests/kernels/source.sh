# SPDX-License-Identifier: MIT
# Sourced after archive.sh by the scripts that build kernels from Debian's linux-source packages.

# source_fetch PACKAGE VERSION: prints the .deb; downloads it if it is not in the cache.
source_fetch() {
	local debs=$cache/source/$1-$2
	if [ -z "$(ls "$debs"/*.deb 2>/dev/null)" ]; then
		say "fetching $1 $2"
		rm -rf "$cache/source/$1"-* && archive_get "$debs.new" "$1" || fail "$1 cannot be fetched"
		mv "$debs.new" "$debs"
	fi
	ls "$debs"/*.deb
}

# Gives a prompt to options that 6.12 lets only drivers select, so that debug.config can set them. 7.x has prompts for some of
# them already.
add_prompts() {
	local file=$1 option text
	shift
	for option; do
		text="$option, by name"
		sed -i "/^config $option\$/,/^\$/s/^\t\(bool\|tristate\)\$/\t\1 \"$text\"/" "$file"
		sed -n "/^config $option\$/,/^\$/p" "$file" | grep -qP '^\t(bool|tristate) "' || fail "no prompt for $option in $file"
	done
}

# unpack DEB DIR VERSION PATTERN...: without the drivers that the configurations here leave out, and those of the patterns,
# such as other architectures, except for their Kconfig files.
unpack() {
	local deb=$1 dir=$2 version=$3 tarball=./usr/src/linux-source-$3.tar.xz skip
	shift 3
	say "unpacking linux-source-$version"
	skip=(--wildcards-match-slash --anchored)
	# Of folders with a slash at the end, keep the files directly in them: the common part of their kind.
	for d in sound drivers/{media,staging,infiniband,iio,sound,pinctrl,mtd} drivers/{net,scsi,video,usb,clk,crypto}/*/ \
		drivers/gpu/drm/{amd,i915,xe,nouveau,radeon,msm,exynos,mediatek,etnaviv} $*; do
		skip+=(--exclude="linux-source-$version/${d%/}/*.[chS]" --exclude="linux-source-$version/${d%/}/*.dts*")
	done
	skip+=(--exclude='linux-source-*/Documentation/*/*' --exclude='linux-source-*/tools/testing/*/*')
	mkdir -p "$dir"
	dpkg-deb --fsys-tarfile "$deb" | tar -xO "$tarball" | tar -xJ -C "$dir" --strip-components=1 "${skip[@]}"
}

# Fails unless every line is in the final configuration, because the kernel would silently test less.
verify_config() { # CONFIG WANTED
	local missing
	missing=$(awk '
		FNR == NR && /^CONFIG_/ {have[$0] = 1; sub(/=.*/, ""); set[$0] = 1}
		FNR == NR {next}
		/^CONFIG_/ && !($0 in have) {print}
		/^# CONFIG_.* is not set$/ && $2 in set {print $2 "=n"}' "$1" "$2")
	[ -z "$missing" ] || fail "not in the final configuration:" $missing
}
