#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/kernels/check.sh [KERNEL...]: for each kernel of kernels.sh (6.12 and 7 by default) the module must compile without
# warnings at W=1; for 6.12 also without warnings of sparse; and it must run briefly on 7 (tests/vm/smoke.sh).
#
#   FETCH=1   downloads a 7.x that is not in the cache (280 MB and a chroot), and builds missing debug kernels;
#             without it they are skipped
#   FULL=1    runs all of tests/vm/guest.sh and tracing.sh on every kernel except 6.12, on which `make check` runs them
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/lib.sh
. tests/kernels/archive.sh
. tests/kernels/chroot.sh
. tests/kernels/kernels.sh
. tests/kernels/module.sh
export BUILD=${BUILD:-build}
[ $# -gt 0 ] || set -- 6.12 7
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# ok NAME COMMAND...: one test; prints its log if it fails.
ok() {
	local name=$1 start=$SECONDS
	shift
	if "$@"; then
		passed=$((passed + 1))
		echo "ok $name ($((SECONDS - start)) s)"
	else
		not_ok "$name"
	fi
}

not_ok() {
	failed=$((failed + 1))
	failure "$1"
	echo "not ok $1"
	tail -40 "$log" | sed 's/^/    | /'
}

skip() {
	skipped=$((skipped + 1))
	echo "skip $*"
}

# provide NAME: finds the kernel, or downloads or builds it with FETCH. Status 77 if this machine cannot have it.
provide() {
	kernel_find "$1" 2>/dev/null && [ -z "${FETCH:-}" ] && return 0
	[ -n "${FETCH:-}" ] || return 77
	case $1 in
	7) bash tests/kernels/debian-kernel.sh >/dev/null 2>"$log" ;;
	debug-*) bash tests/kernels/debug-kernel.sh "${1#debug-}" >/dev/null 2>"$log" ;;
	kcsan-*) bash tests/kernels/debug-kernel.sh kcsan >/dev/null 2>"$log" ;;
	esac
}

compiles() {
	module_forget "$kver"
	module_make "$log" "$kver" "$kdir" "$chroot" && module_clean "$log"
}

# runs SCRIPT: in the virtual machine, adding its counts.
runs() {
	KERNEL=$name TEST_TIMEOUT=4000 run_script "$kver: $1" bash tests/vm/run.sh "$1"
}

for name; do
	provide "$name"
	if [ $? -eq 77 ]; then
		why="not in the cache; make check-full fetches it"
		[ -z "${FETCH:-}" ] || why=$(tail -1 "$log")
		skip "kernel $name: $why"
		continue
	fi
	if ! kernel_find "$name" 2>>"$log"; then
		not_ok "kernel $name can be had"
		continue
	fi
	if [ -n "$chroot" ] && ! can_root; then
		skip "kernel $name: its chroot needs root, or sudo without a password"
		continue
	fi
	ok "$kver: vnpu.ko compiles at W=1 without a warning" compiles
	case $name in
	6.12)
		if command -v sparse >/dev/null; then
			ok "$kver: sparse has nothing to say" module_sparse "$log" "$kver" "$kdir"
		else
			skip "sparse: not installed"
		fi ;;
	*)
		if [ -n "${FULL:-}" ]; then
			runs tests/vm/guest.sh
			runs tests/vm/tracing.sh
		else
			runs tests/vm/smoke.sh
		fi ;;
	esac
done
finish
