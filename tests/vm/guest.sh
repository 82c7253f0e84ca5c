#!/bin/bash
# SPDX-License-Identifier: MIT
# What runs in the virtual machine, as root: a list of steps. BUILD and VNPU_DATA come from tests/vm/run.sh; the tree is
# read-only, TMPDIR is not. The last line is "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/lib.sh
kver=$(uname -r)
export CMOCKA_MESSAGE_OUTPUT=STDOUT

# step NAME COMMAND...: run, show and count. A cmocka binary counts as its tests; anything else as one, where status 77
# means skipped.
step() {
	local name=$1 log rc start=$SECONDS limit=()
	shift
	log=$(mktemp)
	echo "== $name"
	[ "$(type -t "$1")" = function ] || limit=(timeout -k 5 "${STEP_TIMEOUT:-300}")
	"${limit[@]}" "$@" 2>&1 </dev/null | tee "$log"
	rc=${PIPESTATUS[0]}
	if grep -q '^\[==========\]' "$log"; then
		count_cmocka "$log"
		[ $rc -eq 0 ] || [ "$last_failed" -ne 0 ] || { failed=$((failed + 1)) last_failed=1; }
	else
		last_failed=0
		case $rc in
		0) passed=$((passed + 1)) ;;
		77) skipped=$((skipped + 1)) && echo "skip $name" ;;
		*) failed=$((failed + 1)) last_failed=1 ;;
		esac
	fi
	[ "$last_failed" -eq 0 ] || failures+=("$name")
	echo "== $name: status $rc, $((SECONDS - start)) s"
	rm -f "$log"
}

# The driver has nothing to say about what users do wrong; a firmware that breaks its protocol is worth a line.
quiet() {
	! dmesg | grep -E 'vnpu[ :.]|\[drm' | grep -vE 'loading out-of-tree|module verification|Initialized vnpu|out of bounds'
}

no_module() {
	! grep -q '^vnpu ' /proc/modules
}

step "insmod" insmod "$BUILD/kmod/$kver/vnpu.ko"
for t in tests/kmod/test_*.c; do
	n=$(basename "$t" .c)
	step "$n" "$BUILD/tests/$n"
done
step "the driver is silent" quiet
step "rmmod" rmmod vnpu
step "the module is gone" no_module
step "insmod again" insmod "$BUILD/kmod/$kver/vnpu.ko"
step "rmmod again" rmmod vnpu
finish
