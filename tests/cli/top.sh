#!/bin/bash
# SPDX-License-Identifier: MIT
# npu-top on folders that look like /sys and /proc: tables, JSON, the screen in terminals of all sizes, and files that change or
# vanish meanwhile.
set -u
. tests/cli/common.bash

tree=$scratch/tree
top=("$bin/npu-top" --sysroot "$tree")

# device NODE BUSY_US, client PID ID COMM BUSY_NS
device() {
	local dir=$tree/sys/class/accel/$1/device
	mkdir -p "$dir"
	echo 1048576 >"$dir/npu_memory_utilization"
	echo "$2" >"$dir/npu_busy_time_us"
}
client() {
	mkdir -p "$tree/proc/$1/fd" "$tree/proc/$1/fdinfo"
	ln -sfn /dev/accel/accel0 "$tree/proc/$1/fd/3"
	printf '%s' "$3" >"$tree/proc/$1/comm"
	printf 'pos:\t0\ndrm-driver:\tvnpu\ndrm-client-id:\t%s\ndrm-engine-npu:\t%s ns\ndrm-engine-capacity-npu:\t1\ndrm-total-memory:\t4 MiB\ndrm-resident-memory:\t1 MiB\n' \
		"$2" "$4" >"$tree/proc/$1/fdinfo/3"
}
says() { # NAME PATTERN: the output has such a line
	grep -Eq -- "$2" "$scratch/out" && ok "$1" || not_ok "$1" "$(outcome)"
}

# Runs npu-top in the background and waits until it has shown a table; later waits for a line of the pattern.
watch_begin() {
	"${top[@]}" -b -d 0.1 >"$scratch/watch" 2>&1 &
	watcher=$!
	watch_for '^accel0 +0\.0 '
}
watch_for() {
	for _ in $(seq 300); do
		grep -Eq -- "$1" "$scratch/watch" && return
		sleep 0.1
	done
	return 1
}
watch_end() { # NAME PATTERN
	watch_for "$2" && ok "$1" || not_ok "$1" "$(tail -20 "$scratch/watch")"
	kill $watcher
	wait $watcher 2>/dev/null
}

# ---- no device, and bad usage ----

mkdir -p "$tree/proc"
refuses "no device" 1 "no device in .*start vnpu-fw" "${top[@]}" -b -n 1
refuses "no device, JSON" 1 "no device in .*start vnpu-fw" "${top[@]}" --json -n 1
device accel0 1000
refuses "the screen needs a terminal" 1 "no terminal: use --batch" "${top[@]}"
for value in 0 -1 x '' 1x; do
	refuses "-n '$value'" 2 "-n: " "${top[@]}" -b -n "$value"
	refuses "-d '$value'" 2 "-d: " "${top[@]}" -b -d "$value"
done
refuses "-d nan" 2 "-d: " "${top[@]}" -b -d nan
refuses "an unknown order" 2 "npu, memory, time, pid" "${top[@]}" -b --sort name
refuses "two kinds of output" 2 "choose one" "${top[@]}" -b --json
refuses "a word" 2 "'word'" "${top[@]}" word
refuses "an unknown option" 2 "unknown option '--no-such'" "${top[@]}" --no-such
rmdir "$tree/proc"
refuses "no /proc" 1 "/proc: No such file.*mount it" "${top[@]}" -b -n 1
passes "--help" "${top[@]}" --help
for option in --batch --json --samples --delay --sort --sysroot; do
	grep -q -- "$option" "$scratch/out" && grep -q -- "Fl ${option#-}" docs/man/npu-top.1 && ok "$option is explained" ||
		not_ok "$option is explained in --help and in the manual"
done
passes "--version" "${top[@]}" --version

# ---- tables ----

client 100 1 llm-bench 5000000000
client 200 2 größe模型 0
passes "a table of two clients" "${top[@]}" -b -n 1 -d 0.1
says "the device's line" '^accel0 +0\.0 +1\.0M +2 -$'
says "an idle client" '^ +100 [^ ]+ +accel0 +0\.0 +0:05\.00 +4\.0M +1\.0M llm-bench$'
says "a name with other than ASCII characters" 'größe模型$'
watch_begin
device accel0 9000001000
client 100 1 llm-bench 9005000000000
watch_end "a busy client" '^ +100 .*accel0 +100\.0 +150:05\.00'
grep -Eq '^accel0 +100\.0 ' "$scratch/watch" && ok "a busy device" || not_ok "a busy device" "$(tail -20 "$scratch/watch")"
client 100 1 $'\e[2Jevil\x07' 0
passes "a name of control characters" "${top[@]}" -b -n 1 -d 0.1
says "are replaced" ' \?\[2Jevil\?$'
true_in_python "the output has no control character" 'assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", open(sys.argv[1], "rb").read())' "$scratch/out"
env LC_ALL=C "${top[@]}" -b -n 1 -d 0.1 >"$scratch/out"
says "another locale" ' gr\?\?e\?\?|gr\?+e\?+$'

passes "JSON" "${top[@]}" --json -n 2 -d 0.1
true_in_python "has these objects" '
samples = [json.loads(line) for line in open(sys.argv[1])]
assert len(samples) == 2
for s in samples:
    assert s["interval_ns"] >= 100e6 and s["hidden_processes"] == 0
    d, = s["devices"]
    assert d["device"] == "accel0" and d["busy"] == 0 and d["memory_bytes"] == 1 << 20 and d["gone"] is False
    a, b = sorted(s["clients"], key=lambda c: c["pid"])
    assert a["pid"] == 100 and a["client_id"] == 1 and a["engines"]["npu"]["busy_ns"] == 0
    assert b["command"] == "größe模型" and b["total_bytes"] == 4 << 20 and b["pdev"] is None' "$scratch/out"
for key in npu memory time pid; do passes "--sort $key" "${top[@]}" -b -n 1 -d 0.1 --sort $key; done
if [ -c /dev/full ]; then
	"${top[@]}" --json -n 3 -d 0.1 >/dev/full 2>"$scratch/err"
	rc=$?
	[ $rc -eq 1 ] && grep -q 'npu-top: stdout: ' "$scratch/err" && ok "a full disk is a failure" || not_ok "a full disk is a failure" "$(outcome)"
fi

# ---- files that may not be read ----

mkdir -p "$tree/proc/300/fd" "$tree/proc/2/fd"
chmod 000 "$tree/proc/300/fd" "$tree/proc/2/fd"
echo "2 (k (x) y) S 0 0 0 0 -1 2129984 0 0" >"$tree/proc/2/stat"
as_nobody=()
if [ "$(id -u)" -eq 0 ]; then
	chmod 755 "$scratch"
	cp "$bin/npu-top" "$scratch/npu-top"
	as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	top[0]=$scratch/npu-top
fi
passes "processes of other users" "${as_nobody[@]}" "${top[@]}" -b -n 1 -d 0.1
says "are counted, without kernel threads" '^1 process of other users .*permission denied.* as root'
chmod 000 "$tree/proc/200/fdinfo/3"
passes "fdinfo of other users" "${as_nobody[@]}" "${top[@]}" -b -n 1 -d 0.1
says "is counted" '^2 processes of other users'
chmod 755 "$tree/proc/300/fd" "$tree/proc/2/fd"
chmod 644 "$tree/proc/200/fdinfo/3"

# ---- files that vanish ----

watch_begin
rm -rf "$tree/sys/class/accel/accel0"
watch_end "a device that vanishes is shown as gone" '^accel0 .*, gone$'
device accel0 1000
(for _ in $(seq 40); do rm -rf "$tree/proc/100"; client 100 1 llm-bench 7; done) 2>/dev/null &
passes "a client that comes and goes" "${top[@]}" --json -n 20 -d 0.1
kill $! 2>/dev/null
wait
client 100 1 llm-bench 7

# ---- the screen ----

cat >"$scratch/screen.py" <<'PYTHON'
# screen.py COLUMNS LINES KEYS COMMAND...: runs the command in a terminal of this size, presses the keys, changes the size, and
# exits with the command's status.
import fcntl, os, pty, select, signal, struct, sys, termios, time
columns, lines, keys = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode().decode("unicode_escape").encode()
def size(fd, lines, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
pid, fd = pty.fork()
if not pid:
    size(0, lines, columns)
    os.environ["TERM"] = os.environ.get("TERM_FOR_TEST", "xterm")
    os.environ["LC_ALL"] = "C.UTF-8"
    os.environ.pop("LINES", None)
    os.environ.pop("COLUMNS", None)
    os.execvp(sys.argv[4], sys.argv[4:])
out = b""
def read(seconds):
    global out
    end = time.monotonic() + seconds
    while time.monotonic() < end and select.select([fd], [], [], 0.05)[0] is not None:
        try:
            if select.select([fd], [], [], 0)[0]:
                out += os.read(fd, 65536)
        except OSError:
            return
read(0.3)
for key in keys.split(b"|"):
    if key == b"resize":
        size(fd, 3, 7)
        read(0.2)
        size(fd, lines, columns)
    elif key == b"hangup":
        os.close(fd)
        break
    else:
        os.write(fd, key)
    read(0.1)
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        sys.stdout.buffer.write(out)
        sys.exit(os.waitstatus_to_exitcode(status) % 256)
    time.sleep(0.05)
os.kill(pid, signal.SIGKILL)
sys.exit("it did not end")
PYTHON
screen() { # NAME STATUS COLUMNS LINES KEYS
	run python3 "$scratch/screen.py" "$3" "$4" "$5" "${top[@]}" -d 0.1
	[ $rc -eq "$2" ] && [ ! -s "$scratch/err" ] && ok "$1" || not_ok "$1" "$(outcome)"
}
for n in $(seq 101 140); do client "$n" "$n" "many$n" "$n"; done
down='\x1b[B' up='\x1b[A' page='\x1b[6~'
for size in "1 1" "7 4" "20 5" "20 24" "60 10" "500 200"; do
	# shellcheck disable=SC2086
	screen "a terminal of $size" 0 $size "s|$down$down|$page|$up|pp|sss|resize|xq"
done
screen "80 columns" 0 80 24 "s|p|x|q"
for word in 'NPU \[' 'accel0, 1\.0M of memory, 42 clients' 'COMMAND' 'many101' 'sort: .*npu' 'memory' 'continue'; do
	LC_ALL=C.UTF-8 grep -Eaq -- "$word" "$scratch/out" && ok "the screen shows $word" || not_ok "the screen shows $word" "$(tr '\033' ' ' <"$scratch/out" | head -c 600)"
done
run python3 "$scratch/screen.py" 80 24 'x|hangup' "${top[@]}" -d 0.1
[ $rc -ne 0 ] && ! grep -q 'did not end' "$scratch/err" && ok "it ends with its terminal" || not_ok "it ends with its terminal" "$(outcome)"
TERM_FOR_TEST=no-such-terminal run python3 "$scratch/screen.py" 80 24 'x' "${top[@]}"
[ $rc -eq 1 ] && grep -q "unknown terminal .no-such-terminal.: set TERM, or use --batch" "$scratch/out" && ok "an unknown terminal" || not_ok "an unknown terminal" "$(outcome)"
finish
