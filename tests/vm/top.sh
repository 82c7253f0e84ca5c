# SPDX-License-Identifier: MIT
# Sourced by tests/vm/tracing.sh while vnpu-fw runs: npu-top beside a program that uses the device, and libnpu's USDT probes
# as bpftrace and perf see them.

# busy_client PID: npu-top lists that process, and a busy device.
busy_client() {
	awk -v pid="$1" '
		$1 == "accel0" && $2 > 0 && $3 != "0B" && $4 > 0 { device = 1 }
		$1 == pid && $2 == "root" && $3 == "accel0" && $4 > 0 && $6 ~ /^[1-9]/ && $7 ~ /^[1-9]/ && $8 == "llm-bench" { client = 1 }
		END { exit !(device && client) }' "$out/top"
}

npu_top() {
	local pid rc=1
	"$bin/llm-bench" -m $model --transport drm --placement npu -p 64 -n 32 -r 20 >"$out/bench" 2>&1 &
	pid=$!
	for _ in $(seq 60); do
		"$bin/npu-top" --batch -n 1 -d 1 >"$out/top" || break
		busy_client $pid && rc=0 && break
	done
	cat "$out/top"
	if [ $rc -eq 0 ]; then
		"$bin/npu-top" --json -n 1 -d 1 | tee "$out/json" | cut -c1-400
		grep -Eq "\"pid\": $pid, .*\"command\": \"llm-bench\".*\"driver\": \"vnpu\".*\"npu\": \{ \"busy\": (0\.[0-9]+|1)," "$out/json" || rc=1
		setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/npu-top" -b -n 1 -d 1 | tee "$out/top" | tail -2
		grep -q 'processes of other users' "$out/top" && ! grep -q llm-bench "$out/top" || rc=1
	fi
	kill $pid
	wait $pid 2>/dev/null
	return $rc
}

# The full screen, in a terminal of the guest.
npu_top_screen() {
	TERM=xterm script -qec "stty cols 80 rows 24; '$bin/npu-top' -n 2 -d 0.5" "$out/screen" >"$out/log" || { cat "$out/log"; return 1; }
	grep -aq 'q quit' "$out/log" && grep -aq accel0 "$out/log"
}

have_uprobes() {
	[ -e /sys/kernel/tracing/uprobe_events ] || { echo "this kernel has no uprobes"; return 77; }
}

# Jobs per program: the script's counts must equal llm-bench's.
usdt_bpftrace() {
	have_uprobes || return
	bpftrace -q -c "$bin/llm-bench -m $model --transport drm --placement npu -p 0 -n 8 -r 1 --no-warmup -o json" \
		share/bpftrace/npu-latency.bt "$bin/llm-bench" >"$out/bt" 2>&1 || { cat "$out/bt"; return 1; }
	sed -n '/^@us/,$p' "$out/bt"
	grep -Eq '^@us\[[a-z].*\]:' "$out/bt" && grep -Eq '^\[[0-9]+[KM]?, [0-9]+[KM]?\) +[1-9]' "$out/bt"
}

usdt_perf() {
	local event
	have_uprobes || return
	perf buildid-cache --add "$bin/llm-bench" && perf list sdt 2>/dev/null | grep libnpu >"$out/sdt" || return
	cat "$out/sdt"
	for event in submit job_submit job_done; do
		perf probe -q "sdt_libnpu:$event" || return
	done
	perf record -q -e 'sdt_libnpu:*' -o "$out/perf.data" -- "$bin/llm-bench" -m $model --transport drm --placement npu \
		-p 0 -n 8 -r 1 --no-warmup >/dev/null || return
	perf probe -q -d 'sdt_libnpu:*'
	perf script -i "$out/perf.data" >"$out/perf"
	head -6 "$out/perf"
	grep -q sdt_libnpu:job_submit "$out/perf" &&
		[ "$(grep -c sdt_libnpu:job_submit "$out/perf")" -eq "$(grep -c sdt_libnpu:job_done "$out/perf")" ]
}

unless_late "npu-top beside llm-bench" npu_top
unless_late "npu-top's screen" npu_top_screen
unless_late "bpftrace share/bpftrace/npu-latency.bt" usdt_bpftrace
unless_late "perf on USDT probes" usdt_perf
