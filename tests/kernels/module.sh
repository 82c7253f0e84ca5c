# SPDX-License-Identifier: MIT
# Sourced from the root of the tree, after archive.sh, chroot.sh and kernels.sh: compiles vnpu.ko with all of kbuild's
# warnings (W=1), for a kernel that needs the trixie chroot or not.

# module_make LOG KVER KDIR CHROOT [VARIABLE...]: make kmod, with its output in LOG.
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

# module_forget KVER: deletes objects, because up-to-date ones would not warn again.
module_forget() {
	[ ! -d "$BUILD/kmod/$1" ] || find "$BUILD/kmod/$1" -name '*.o' -delete
}

# module_clean LOG: fails, and prints it, if the compiler, modpost or objtool warned. A compiler other than the kernel's is
# not the module's fault.
module_clean() {
	! grep -iE 'warning:' "$1" | grep -v 'the compiler differs'
}

# module_sparse LOG KVER KDIR: runs sparse on all of the module's files, outside the chroot. Ignores its warnings about the
# kernel's own headers. sparse does not know the cleanup attribute, so it takes every guard() for a lock that is not released;
# lockdep checks locks.
module_sparse() {
	module_make "$1" "$2" "$3" "" C=2 CHECK="sparse -Wno-context" && grep -q '  CHECK .*vnpu_drv' "$1" || return 1
	! grep -E '/kmod/[^/ ]+/[^ ]*:[0-9]+:[0-9]+: (warning|error):' "$1"
}
