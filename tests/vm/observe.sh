# SPDX-License-Identifier: MIT
# Sourced by tests/vm/tracing.sh while vnpu-fw runs: the driver's tracepoints as common tools print them, while a model runs.

# No spaces within words, because bpftrace takes a command as one string.
work=("$bin/llm-cli" -m $model --transport drm --placement npu -p Kernel -n 4 --temp 0 --ignore-eos --ids)

# shown FILE PATTERN: a line matches; prints the first one.
shown() {
	grep -m1 -E "$2" "$1" || { echo "no line like: $2; but:"; tail -5 "$1"; return 1; }
}

# as_many FILE EVENT EVENT: both events occur equally often, at least once.
as_many() {
	local a b
	a=$(grep -c "$2[:(]" "$1") b=$(grep -c "$3[:(]" "$1")
	echo "$2 $a times, $3 $b times"
	[ "$a" -gt 0 ] && [ "$a" -eq "$b" ]
}

job='dev=0 client=[1-9][0-9]* pid=[1-9][0-9]* comm=llm-cli ctx=1 queue=1 hwq=[0-9]+ seqno=[1-9][0-9]*'

# The kernel's own format, which perf script and trace-cmd report print.
readable() {
	shown "$1" "vnpu_bind: +dev=0 .* comm=llm-cli ctx=1 op=map va=0x[0-9a-f]+ bytes=[1-9][0-9]* handle=[1-9][0-9]* bo_offset=[0-9]+ flags=" &&
		shown "$1" "vnpu_job_submit: +$job cmd_va=0x[0-9a-f]+ cmd_bytes=[1-9][0-9]* table_bytes=[1-9][0-9]* priority=normal timeout_ms=[1-9]" &&
		shown "$1" "vnpu_job_start: +$job queued_ns=[0-9]+" &&
		shown "$1" "vnpu_job_complete: +$job error=0 duration_ns=[1-9][0-9]* busy_ns=[1-9][0-9]* by=firmware" &&
		as_many "$1" vnpu_job_submit vnpu_job_complete && as_many "$1" vnpu_job_start vnpu_job_complete
}

perf_record() {
	perf record -q -a -e 'vnpu:*' -o "$out/perf.data" -- "${work[@]}" || return
	perf script -i "$out/perf.data" >"$out/perf.txt" && readable "$out/perf.txt"
}

# perf trace prints fields in a format of its own.
perf_trace() {
	perf trace -a -e 'vnpu:*' -o "$out/perf.txt" -- "${work[@]}" || return
	shown "$out/perf.txt" 'llm-cli/[0-9]+ vnpu:vnpu_job_submit\(.*client: [1-9].*comm: "?llm-cli' &&
		shown "$out/perf.txt" 'vnpu:vnpu_job_complete\(.*queue: 1.*duration_ns: [1-9].*busy_ns: [1-9]' &&
		as_many "$out/perf.txt" vnpu_job_submit vnpu_job_complete
}

trace_cmd() {
	trace-cmd record -q -e vnpu -o "$out/trace.dat" "${work[@]}" >"$out/log" 2>&1 || { cat "$out/log"; return 1; }
	trace-cmd report -i "$out/trace.dat" 2>/dev/null >"$out/report.txt"
	readable "$out/report.txt"
}

bpftrace_script() {
	[ -e /sys/kernel/btf/vmlinux ] || { echo "this kernel has no BTF, without which bpftrace does not know a tracepoint's types"; return 77; }
	bpftrace -q share/bpftrace/vnpu-jobs.bt -c "${work[*]}" >"$out/bt.txt" 2>&1 || { cat "$out/bt.txt"; return 1; }
	grep -E -A6 '^@(jobs|busy_us|took_us)' "$out/bt.txt" || { cat "$out/bt.txt"; return 1; }
	shown "$out/bt.txt" '^@jobs\[0, [0-9]+, llm-cli\]: [1-9]' >/dev/null &&
		shown "$out/bt.txt" '^@busy_us\[0, [0-9]+, llm-cli\]: [1-9]' >/dev/null &&
		shown "$out/bt.txt" '^@took_us\[0, [0-9]+, 1\]:' >/dev/null &&
		shown "$out/bt.txt" '^\[[0-9]+[KM]?, [0-9]+[KM]?\) +[1-9]' >/dev/null && ! grep '^@failed' "$out/bt.txt"
}

# Each job that llm-bench counts, in two tests whose queues have the same number, is a slice of the driver's that is linked to
# libnpu's, and no temporary file is left.
npu_trace() {
	local jobs slices
	"$bin/npu-trace" -k yes -o "$out/trace.json" --stats -- "$bin/llm-bench" -m $model --transport drm --placement npu \
		-p 8 -n 4 -r 1 --no-warmup -o json >"$out/bench" 2>"$out/log" || { cat "$out/log"; return 1; }
	cat "$out/log"
	jobs=$(awk -F'[:,]' '/"npu_jobs"/ {n += $2} END {print n + 0}' "$out/bench")
	slices=$(grep -c '"ph":"X".*"cat":"vnpu".*"duration_ns":[1-9].*"status":0' "$out/trace.json")
	echo "$jobs jobs, $slices slices"
	[ "$jobs" -gt 0 ] && [ "$jobs" -eq "$slices" ] &&
		shown "$out/log" ", $jobs jobs, $jobs of them and 0 others seen by the driver; 0 dropped" &&
		shown "$out/trace.json" '"name":"thread_name","args":\{"name":"llm-bench [0-9]+, context 1, queue 1 ' &&
		shown "$out/trace.json" '"name":"bind","s":"t"' && tail -1 "$out/trace.json" | grep -qx ']}' &&
		! compgen -G '/sys/kernel/*tracing/instances/npu-trace-*' && ! compgen -G '/sys/kernel/debug/tracing/instances/npu-trace-*'
}

# What monitors read of the accel drivers that they know; vnpu has no other files in sysfs.
monitors_files() {
	local dir=/sys/class/accel/accel0/device before after
	before=$(cat $dir/npu_busy_time_us)
	"${work[@]}" || return
	after=$(cat $dir/npu_busy_time_us)
	grep -H . $dir/npu_*
	[ "$after" -gt "$before" ] && [ "$(cat $dir/npu_memory_utilization)" -eq 0 ] &&
		[ "$(compgen -G "$dir/npu_*" | wc -l)" -eq 2 ]
}

unless_late "perf record, perf script" perf_record
unless_late "perf trace" perf_trace
unless_late "trace-cmd" trace_cmd
unless_late "npu-trace" npu_trace
unless_late "bpftrace share/bpftrace/vnpu-jobs.bt" bpftrace_script
unless_late "sysfs, as monitors read it" monitors_files
