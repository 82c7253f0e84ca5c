#!/bin/bash
# SPDX-License-Identifier: MIT
# npu-trace: documents of programs that succeed, fail or are killed, of several processes and threads; and its errors.
set -u
. tests/cli/common.bash

trace=$scratch/trace.json
run_trace=("$bin/npu-trace" -k no -o "$trace" --)
bench=("$bin/llm-bench" -m "$model" --transport sim --placement npu -r 1 --no-warmup)
cli=("$bin/llm-cli" -m "$model" --transport sim --placement npu -p x -n 4 --temp 0 --ignore-eos)

# Checks that every document must pass, and names for its contents.
cat >"$scratch/document.py" <<'PY'
import json, sys, collections
from decimal import Decimal
doc = json.load(open(sys.argv[1]), parse_float=Decimal)
events = doc['traceEvents']
assert [e['ts'] for e in events] == sorted(e['ts'] for e in events), 'sorted by time'
open_jobs, jobs, bad = {}, [], 0
for e in events:
    assert {'ph', 'pid', 'tid', 'ts', 'name'} <= e.keys(), e
    if e['ph'] == 'b':
        assert e['id'] not in open_jobs, 'one job, one id'
        open_jobs[e['id']] = e
    elif e['ph'] == 'e':
        b = open_jobs.pop(e['id'])
        assert (b['pid'], b['name'], b['cat']) == (e['pid'], e['name'], e['cat'])
        jobs.append((b, e))
    elif e['ph'] == 'n':
        assert e['id'] in open_jobs
    elif e['ph'] == 'X':
        assert e['dur'] >= 0
    else:
        assert e['ph'] in 'CMstfi', e['ph']
assert not open_jobs, 'every job has an end'
# Slices of one thread are nested or disjoint.
threads = collections.defaultdict(list)
for e in events:
    if e['ph'] == 'X':
        threads[e['pid'], e['tid']].append((e['ts'], -e['dur']))
for slices in threads.values():
    ends = []
    for start, dur in sorted(slices):
        while ends and ends[-1] <= start:
            ends.pop()
        assert not ends or start - dur <= ends[-1], 'slices that overlap'
        ends.append(start - dur)
processes = {e['pid'] for e in events if e['ph'] == 'M' and e['name'] == 'process_name'}
names = {e['args']['name'] for e in events if e['ph'] == 'M' and e['name'] == 'process_name'}
calls = collections.Counter(e['name'] for e in events if e['ph'] == 'X')
unfinished = sum('unfinished' in e['args'] for _, e in jobs)
PY

# holds NAME CODE [FILE...]: the document is valid, and the assertions of CODE hold.
holds() {
	local name=$1 code=$2
	shift 2
	if python3 -c "$(<"$scratch/document.py")
$code" "$trace" "$@" >"$scratch/python" 2>&1; then ok "$name"; else not_ok "$name" "$(tail -3 "$scratch/python"; cat "$scratch/err")"; fi
}

# ends NAME STATUS PATTERN COMMAND...: exits with STATUS, and prints a line that matches on stderr.
ends() {
	local name=$1 status=$2 pattern=$3
	shift 3
	run "$@"
	if [ $rc -eq "$status" ] && grep -Eq -- "$pattern" "$scratch/err"; then ok "$name"; else not_ok "$name" "$(outcome "$@")"; fi
}

# ---- usage ----

refuses "no file" 2 "-o FILE" "$bin/npu-trace" -- true
refuses "no command" 2 "no command" "$bin/npu-trace" -o "$trace"
refuses "an unknown option" 2 "unknown option '--no-such'" "$bin/npu-trace" --no-such
refuses "an option without its value" 2 "needs a value" "$bin/npu-trace" -o
refuses "--kernel takes three words" 2 "auto, yes, no" "$bin/npu-trace" -o "$trace" -k maybe -- true
passes "--help" "$bin/npu-trace" --help
for option in --output --kernel --stats; do
	grep -q -- "$option" "$scratch/out" && grep -q -- "Fl ${option#-}" docs/man/npu-trace.1 && ok "$option is explained" ||
		not_ok "$option is explained in --help and in the manual"
done
passes "--version" "$bin/npu-trace" --version

ran=$scratch/ran
refuses "a folder that does not exist" 1 "No such file" "$bin/npu-trace" -k no -o "$scratch/no/trace" -- touch "$ran"
refuses "a file that is a folder" 1 "directory" "$bin/npu-trace" -k no -o "$scratch" -- touch "$ran"
refuses "a file that is a device" 1 "regular file" "$bin/npu-trace" -k no -o /dev/full -- touch "$ran"
if [ -d /sys/kernel/tracing/events/vnpu ]; then
	skip "no events of the driver" "there are some"
else
	refuses "no events of the driver" 1 "--kernel yes: .*(mount|module|as root)" "$bin/npu-trace" -k yes -o "$trace" -- touch "$ran"
	ends "auto goes on without them, and reports it" 0 "without the driver's events: ." "$bin/npu-trace" -o "$trace" -- true
fi
[ ! -e "$ran" ] && ok "no command was run" || not_ok "no command was run"

# ---- the command's end ----

ends "npu-trace ends with the command's status" 7 "0 dropped" "${run_trace[@]}" sh -c 'exit 7'
holds "a command without devices" "assert not events"
printf -v longest '%0255d' 0
ends "an output with the longest name" 0 "0 dropped" "$bin/npu-trace" -o "$scratch/$longest" -- true
ends "npu-trace ends with the command's signal" 143 "0 dropped" "${run_trace[@]}" sh -c 'kill -TERM $$'
ends "no such command" 127 "no-such-command: No such file" "${run_trace[@]}" no-such-command
holds "no such command leaves a document" "assert not events"
ends "a folder as the command" 126 "Permission denied" "${run_trace[@]}" "$scratch"
echo input | "${run_trace[@]}" sh -c 'cat; echo error >&2' >"$scratch/out" 2>"$scratch/err"
same "stdin and stdout are the command's" "$(<"$scratch/out")" input
grep -qx error "$scratch/err" && ok "and so is stderr" || not_ok "and so is stderr" "$(<"$scratch/err")"
same "the command's options are not npu-trace's" "$("${run_trace[@]}" echo -o --help 2>/dev/null)" "-o --help"

# npu-trace forwards a signal to the command and writes the document.
"${run_trace[@]}" bash -c 'trap "exit 9" USR1; touch "$1"; while :; do sleep 0.1; done' - "$ran" 2>"$scratch/err" &
pid=$!
for _ in $(seq 100); do [ -e "$ran" ] && break; sleep 0.1; done
kill -USR1 $pid
wait $pid
same "signals are forwarded" "$?" 9
holds "and the document is written" "assert not events"

# ---- the document ----

run "${run_trace[@]}" "${bench[@]}" -p 16 -n 8 -o json
cp "$scratch/out" "$scratch/bench.json"
holds "a job for each that llm-bench counts" "
assert len(jobs) == sum(t['npu_jobs'] for t in json.load(open(sys.argv[2]))) > 0
assert all(b['args']['seqno'] > 0 and b['args']['program'] and b['args']['ctx'] for b, _ in jobs)
assert all(e['args']['status'] == 0 for _, e in jobs) and not unfinished
assert all(b['ts'] < e['ts'] for b, e in jobs)
assert calls['npu_queue_submit'] == calls['SUBMIT'] > 0 and calls['npu_queue_wait'] > 0
assert names == {'llm-bench'} and doc['otherData']['command'].startswith('$bin/llm-bench -m')
memory = [e['args']['bytes'] for e in events if e['name'] == 'buffer memory']
assert max(memory) > 0 and memory[-1] == 0
flight = [e['args']['jobs'] for e in events if e['name'].startswith('jobs in flight')]
assert max(flight) >= 1 and flight[-1] == 0" "$scratch/bench.json"
before=$(python3 -c 'import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC))')
run "${run_trace[@]}" "${cli[@]}" --sync fast
after=$(python3 -c 'import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC))')
holds "times are within the run" "
assert all($before <= e['ts'] * 1000 <= $after for e in events if e['ph'] != 'M')
assert all((e['ts'] + e['dur']) * 1000 <= $after for e in events if e['ph'] == 'X')"
ends "--stats" 0 "^ +[0-9]+ +1 +[0-9]+ +1 +[1-9][0-9]* \| +[0-9.]+ +[0-9.]+ +[0-9.]+ \| +- +- +-$" \
	"$bin/npu-trace" -k no -o "$trace" --stats -- "${cli[@]}"

run "${run_trace[@]}" sh -c '"$@" & "$@"; wait' - "${cli[@]}"
holds "two processes at once" "
assert len(processes) == 2 and {b['pid'] for b, _ in jobs} == processes
count = collections.Counter(b['pid'] for b, _ in jobs)
assert len(set(count.values())) == 1 and not unfinished"
run "${run_trace[@]}" "$BUILD/tests/bench_npu_path" 2000
holds "many thousand jobs" "assert len(jobs) == 5 * 2 * (2000 + 41) and not unfinished and doc['otherData']['bad_lines'] == 0"
there=$(realpath "$bin")
(cd "$scratch" && "$there/npu-trace" -k no -o relative.json -- sh -c 'cd / && "$@"' - "$there/npu-info" --transport sim >out 2>err)
trace=$scratch/relative.json
holds "a relative file name, and a command that changes its folder" "assert calls['npu_device_open'] == 1"
trace=$scratch/trace.json

# ---- failures ----

# The command is killed: the events so far are in the document, and it is not that of the last run.
rm -f "$trace"
"${run_trace[@]}" "${bench[@]}" -p 64 -n 64 -r 1000 >/dev/null 2>"$scratch/err" &
pid=$!
for _ in $(seq 100); do [ "$(stat -c %s "$trace" 2>/dev/null || echo 0)" -gt 200000 ] && break; sleep 0.1; done
kill -KILL $(pgrep -P $pid)
wait $pid 2>/dev/null
same "a killed command: its signal" "$?" 137
holds "and the document is valid" "assert len(jobs) > 10"

# NPU_TRACE without npu-trace: the file is valid JSON once its end is added, as viewers do.
rm -f "$trace"
NPU_TRACE=$trace "${cli[@]}" >"$scratch/text" 2>"$scratch/err"
true_in_python "NPU_TRACE alone makes an array" "
events = json.loads(open(sys.argv[1]).read().rstrip(',\n') + ']')
assert sum(e['ph'] == 'b' for e in events) == sum(e['ph'] == 'e' for e in events) > 0" "$trace"
NPU_TRACE=$trace "${cli[@]}" >/dev/null 2>&1
true_in_python "a second program appends to it" "
events = json.loads(open(sys.argv[1]).read().rstrip(',\n') + ']')
assert len({e['pid'] for e in events}) == 2" "$trace"
for file in /dev/full "$scratch/no/trace" "$scratch"; do
	NPU_TRACE=$file "${cli[@]}" >"$scratch/out" 2>"$scratch/err"
	rc=$?
	if [ $rc -eq 0 ] && cmp -s "$scratch/out" "$scratch/text" && [ "$(grep -c "^libnpu: NPU_TRACE=$file: " "$scratch/err")" -eq 1 ]; then
		ok "NPU_TRACE=${file##*/} costs one line"
	else
		not_ok "NPU_TRACE=${file##*/} costs one line" "$(outcome)"
	fi
done
# On a full disk npu-trace keeps libnpu's raw events.
if mkdir "$scratch/small" && mount -t tmpfs -o size=256k small "$scratch/small" 2>/dev/null; then
	run "$bin/npu-trace" -k no -o "$scratch/small/trace.json" -- "$BUILD/tests/bench_npu_path" 2000
	if [ $rc -eq 1 ] && grep -q '^libnpu: NPU_TRACE=.*No space' "$scratch/err" && grep -q '^npu-trace: .*No space.*as they came' "$scratch/err" &&
		grep -q '^fast wait' "$scratch/out" && [ "$(ls "$scratch/small")" = trace.json ]; then
		ok "a disk that fills up"
	else
		not_ok "a disk that fills up" "$(outcome)"
	fi
	umount "$scratch/small"
else
	skip "a disk that fills up" "no tmpfs may be mounted here"
fi
finish
