#!/bin/bash
# SPDX-License-Identifier: MIT
# Tests for every DRM driver, on vnpu: IGT_TESTS=DIR tests/vm/run.sh tests/vm/igt.sh, where tests/vm/igt-fetch.sh has created
# DIR. Runs igt's core_*, syncobj_* and *_drm_fdinfo, subtest by subtest: those that do not pass must be in igt-known.txt with
# the reason, and those in it must not pass. Then gputop must show a client that computes. See docs/igt.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/vm/steps.sh
dir=${IGT_TESTS:?tests/vm/igt.sh: set IGT_TESTS to what tests/vm/igt-fetch.sh printed}
libexec=/usr/libexec/igt-gpu-tools
known=tests/vm/igt-known.txt
shim=(/lib64/ld-linux-x86-64.so.2 --preload /tmp/accel_as_dri.so)

# igt opens /dev/dri/cardN, /dev/dri/renderDN and debugfs' dri/N: in its own root these are the accel device.
igt_root() {
	local at
	for at in dev proc sys; do mount --rbind "/$at" "$dir/$at" || return 1; done
	for at in tmp run; do mount -t tmpfs "$at" "$dir/$at" || return 1; done
	cp "$BUILD/tests/accel_as_dri.so" "$dir/tmp/" || return 1
	mkdir -p /dev/dri && mount -t tmpfs dri "$dir/dev/dri" || return 1
	for at in card0 renderD128; do
		mknod -m 660 "$dir/dev/dri/$at" c $(tr : ' ' </sys/class/accel/accel0/dev) || return 1
	done
	mount -t tmpfs dri "$dir/sys/kernel/debug/dri" && mkdir "$dir/sys/kernel/debug/dri/0" &&
		mount --bind "/sys/kernel/debug/accel/$(basename "$(realpath /sys/class/accel/accel0/device)")" \
			"$dir/sys/kernel/debug/dri/0"
}

# in_igt COMMAND...: runs a program of DIR with its own libraries.
in_igt() {
	IGT_FORCE_DRIVER=vnpu TERM=xterm LC_ALL=C.UTF-8 timeout -k 5 900 chroot "$dir" "$@"
}

# results NAME: prints "NAME@SUBTEST pass|skip|fail SECONDS REASON" for each result of an igt log, where the reason is the
# last requirement or assertion in it. A test without subtests is its own subtest.
results() {
	awk -v test="$1" '
		function result(name, word, seconds) {
			gsub(/[(s)]/, "", seconds)
			word = word == "SUCCESS" ? "pass" : word == "SKIP" ? "skip" : "fail"
			print test "@" name, word, seconds + 0, (word == "pass" ? "" : reason)
		}
		/^Starting subtest: / {reason = ""}
		/Test requirement: / {sub(/.*Test requirement: /, ""); reason = $0}
		/Failed assertion: / {sub(/.*Failed assertion: /, ""); reason = $0}
		/^Subtest [^ ]*: [A-Z]+ \(/ {result(substr($2, 1, length($2) - 1), $3, $4)}
		/^(SUCCESS|SKIP|FAIL) \(/ {result("", $1, $2)}'
}

# expected NAME: what igt-known.txt says about the subtest: "skip REASON", "fail REASON", "may-skip REASON" if this kernel
# lacks what it needs, or nothing.
expected() {
	local pattern word rest
	while read -r pattern word rest; do
		# shellcheck disable=SC2053
		[[ $pattern != '#'* && $1 == $pattern ]] || continue
		if [ "$word" != needs ]; then
			echo "$word $rest"
		elif [ ! -e "${rest%% *}" ]; then
			echo "may-skip needs $rest"
		fi
		return
	done <"$known"
}

# count NAME WORD SECONDS REASON: counts a result as expected or not.
count() {
	local want
	want=$(expected "$1")
	echo "igt: $*"
	case $2:$want in
	pass: | pass:may-skip*) passed=$((passed + 1)) ;;
	skip:skip* | skip:may-skip* | fail:fail*) skipped=$((skipped + 1)) && echo "skip $1: $want" ;;
	*)
		failed=$((failed + 1))
		failure "$1"
		echo "$1: $2, expected ${want:-pass}" ;;
	esac
}

# igt_test NAME [LOADER...]: runs all subtests of a program; those that it lists without a result fail.
igt_test() {
	local name=$1 log rc start=$SECONDS subtest got before=$failed
	log=$(mktemp)
	in_igt "${@:2}" "$libexec/$name" >"$log" 2>&1 </dev/null
	rc=$?
	results "$name" <"$log" >"$log.results"
	while read -r subtest; do
		got=$(grep -m1 "^$name@$subtest " "$log.results")
		# shellcheck disable=SC2086
		count ${got:-"$name@$subtest fail 0 no result, status $rc"}
	done < <(in_igt "$libexec/$name" --list-subtests 2>/dev/null || echo)
	echo "== $name: status $rc, $((SECONDS - start)) s"
	# run.sh treats WARNING: as the kernel's.
	[ "$failed" -eq "$before" ] || sed 's/WARNING:/warning:/; s/^/    | /' "$log" | tail -100
	rm -f "$log" "$log.results"
}

busy_us() {
	cat /sys/class/accel/accel0/device/npu_busy_time_us
}

busier_than() {
	[ "$(busy_us)" -gt "$1" ]
}

# gputop knows vnpu only through drm-usage-stats.rst: it must list the client that computes, with a busy engine.
gputop_shows() {
	local out=$TMPDIR/gputop.txt pid before
	before=$(busy_us)
	"$BUILD/bin/llm-bench" -m $model --transport drm --placement npu -p 0 -n 32 -r 1000 >/dev/null 2>&1 </dev/null &
	pid=$!
	wait_for busier_than "$before"
	in_igt "${shim[@]}" /usr/bin/gputop -n 3 -d 3 >"$out" </dev/null
	kill $pid
	cat "$out"
	grep -q "llm-bench" "$out" && grep -q "npu" "$out"
}

step "insmod" load fence_export=1 prime_export=1
step "vnpu-fw starts" fw_start
step "a root for igt" igt_root
for name in $(cd "$dir$libexec" && ls -d core_* syncobj_* *_drm_fdinfo); do
	case $name in
	core_debugfs | core_sysfs) igt_test "$name" "${shim[@]}" ;;
	*) igt_test "$name" ;;
	esac
done
step "gputop shows who computes" gputop_shows
step "vnpu-fw stops and its device goes" fw_stop
step "the driver has logged no errors" quiet
step "rmmod" rmmod vnpu
finish
