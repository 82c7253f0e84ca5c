#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/arm/check.sh: the aarch64 kernels, emulated, on CPUs with SMMLA, with SDOT only and with neither: the right ones are
# chosen, all give the bits of the portable ones, and these the bits of this machine. `make arm-tests` builds what it needs.
# SEED= repeats a failure.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/lib.sh
BUILD=${BUILD:-build}
seed=${SEED:-$(date +%s)}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# ok NAME COMMAND...: one test.
ok() {
	local name=$1
	shift
	if "$@" >"$out/log" 2>&1; then
		passed=$((passed + 1))
		echo "ok $name"
	else
		failed=$((failed + 1))
		failure "$name"
		echo "not ok $name"
		head -20 "$out/log" | sed 's/^/    | /'
	fi
}

# run NAME COMMAND...: writes kernel_bits' lines to $out/NAME.
run() {
	local name=$1
	shift
	timeout 300 "$@" "$seed" >"$out/$name.all"
	local rc=$?
	grep -v '^set ' "$out/$name.all" >"$out/$name"
	[ $rc -eq 0 ] || echo "status $rc, its last line: $(tail -1 "$out/$name.all")"
	return $rc
}

best() {
	local got
	got=$(sed -n 's/^set //p' "$out/$1.all" | tail -1)
	[ "$got" = "$2" ] || { echo "the best is $got, not $2"; false; }
}

same() {
	[ -s "$out/host" ] && diff "$out/host" "$out/$1"
}

if ! command -v qemu-aarch64 >/dev/null; then
	skipped=1
	echo "skip kernels of aarch64: no qemu-aarch64; tools/install-deps.sh installs it"
	finish
	exit
fi
echo "SEED=$seed"
ok "this machine's kernels have the portable ones' bits" run host "$BUILD/tests/kernel_bits"
for cpu in max:neon-i8mm neoverse-n1:neon-dotprod cortex-a53:generic; do
	set=${cpu#*:} cpu=${cpu%:*}
	ok "$cpu: its kernels have the portable ones' bits" run "$cpu" qemu-aarch64 -cpu "$cpu" "$BUILD/arm/tests/kernel_bits"
	ok "$cpu: $set is the best" best "$cpu" "$set"
	ok "$cpu: the portable kernels have this machine's bits" same "$cpu"
done
finish
