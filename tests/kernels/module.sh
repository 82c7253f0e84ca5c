# SPDX-License-Identifier: MIT
# Sourced from the root of the tree, after archive.sh, chroot.sh and kernels.sh: compiling vnpu.ko with all of kbuild's
# warnings (W=1), for a kernel that needs the trixie chroot or not.

# module_make LOG KVER KDIR CHROOT [VARIABLE...]: make kmod, with the output in LOG.
module_make() {
	local log=$1 v=$2 dir=$3 where=$4 vars build
	build=$(realpath -m "$BUILD")
	shift 4
	vars=(-C "$PWD" kmod BUILD="$build" KVER="$v" KDIR="$dir" W=1 "$@")
	mkdir -p "$build"
	if [ -n "$where" ]; then
		trixie=$where in_trixie "$PWD" "$build" -- make "${vars[@]}" CC=gcc-14 >"$log" 2>&1 </dev/null || return 1
		"${as_root[@]}" chown -R --reference="$build" "$build/kmod/$v"
	else
		make "${vars[@]}" >"$log" 2>&1 </dev/null || return 1
	fi
	[ -s "$build/kmod/$v/vnpu.ko" ]
}

# module_forget KVER: what is compiled already would not warn again.
module_forget() {
	[ ! -d "$BUILD/kmod/$1" ] || find "$BUILD/kmod/$1" -name '*.o' -delete
}

# module_clean LOG: fails, and shows it, if the compiler, modpost or objtool warned. That the compiler is not the kernel's own
# is no fault of the module.
module_clean() {
	! grep -iE 'warning:' "$1" | grep -v 'the compiler differs'
}

# module_sparse LOG KVER KDIR: sparse over all of the module's files, outside the chroot. It warns of the kernel's own headers
# too, which is not ours. It does not know the cleanup attribute, so it takes every guard() for a lock that is not given
# back; that locks are is lockdep's to find.
module_sparse() {
	module_make "$1" "$2" "$3" "" C=2 CHECK="sparse -Wno-context" && grep -q '  CHECK .*vnpu_drv' "$1" || return 1
	! grep -E '/kmod/[^/ ]+/[^ ]*:[0-9]+:[0-9]+: (warning|error):' "$1"
}
