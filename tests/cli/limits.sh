#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs in narrow places: few addresses, a narrow terminal, a HOME that cannot be written; and the same mistake ends all tools
# with the same status.
set -u
. tests/cli/common.bash

cli=("$bin/llm-cli" -m "$model" -p "The kernel" -n 8 --temp 0 --transport sim)
want=$("${cli[@]}")
for kib in 8000000 2000000; do
	same "the sim transport within ulimit -v $kib" "$(ulimit -v $kib; "${cli[@]}" 2>&1)" "$want"
done
(ulimit -v 150000; "${cli[@]}") >"$scratch/out" 2>"$scratch/err"
rc=$?
same "far too few addresses are a failure" "$rc $(wc -l <"$scratch/err")" "1 1"
if command -v valgrind >/dev/null; then
	same "within what valgrind gives" "$(valgrind -q "${cli[@]}" -t 1 --npu-threads 1 2>"$scratch/err")" "$want"
else
	skip "within what valgrind gives" "valgrind is not installed"
fi

# bar COLUMNS: the longest line that a bar has on a terminal of that width.
bar() {
	python3 - "$1" "$bin/llm-perplexity" -m "$model" -f "$scratch/text" --preset cpu -t 1 <<'PYTHON'
import fcntl, os, pty, re, struct, subprocess, sys, termios
main, terminal = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
p = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal)
os.close(terminal)
seen = b""
while True:
    try:
        got = os.read(main, 65536)
    except OSError:
        break
    if not got:
        break
    seen += got
    if sys.argv[1] != "20" and seen.count(b"%") >= 6:
        p.send_signal(2)  # the bar of 20 columns is watched to its end
lines = [re.sub(rb"\x1b\[K", b"", l) for l in re.split(rb"[\r\n]", seen) if b"%" in l]
print("shown" if lines else "none", max(map(len, lines), default=0) < int(sys.argv[1]), all(b"#" in l or b"." in l for l in lines))
PYTHON
}
for _ in {1..60}; do cat "$refs"/p*.txt; done >"$scratch/text"
for columns in 20 40 80 200; do
	same "a bar does not wrap at $columns columns" "$(bar $columns)" "shown True True"
done

if "$bin/npu-info" --json 2>/dev/null | grep -q 'Portable Computing Language'; then
	env -u POCL_CACHE_DIR -u XDG_CACHE_HOME HOME=/dev/null "$bin/llm-cli" -m "$model" -p x -n 1 --placement gpu >"$scratch/out" 2>"$scratch/err"
	rc=$?
	if [ $rc -eq 1 ] && grep -Eq '/dev/null/.cache/pocl.*POCL_CACHE_DIR' "$scratch/err" && [ "$(wc -l <"$scratch/err")" -eq 1 ]; then
		ok "a HOME that cannot be written is told"
	else
		not_ok "a HOME that cannot be written is told" "$(outcome)"
	fi
else
	skip "a HOME that cannot be written is told" "PoCL is not installed"
fi

# ---- closed streams ------------------------------------------------------------------------------

# Nothing that the programs open may get the number of a stream, or what they print goes there.
fails_quietly() { # NAME COMMAND...: status 1, with all standard streams closed
	local name=$1
	shift
	"$@" <&- >&- 2>&-
	same "$name" "status $?" "status 1"
}
fails_quietly "llm-cli without standard streams" "${cli[@]}"
fails_quietly "llm-bench without standard streams" "$bin/llm-bench" -m "$model" -p 8 -n 2 -r 1 --transport sim
fails_quietly "npu-info without standard streams" "$bin/npu-info" --transport sim
fails_quietly "npuc without standard streams" "$bin/npuc" isa
for stream in "<&-" ">&-"; do
	command="\"$bin/llm-cli\" -m $model -f - -n 8 --temp 0 --transport sim"
	echo "The kernel" | eval "$command $stream" 2>"$scratch/err" | cat >"$scratch/out"
	rc=${PIPESTATUS[1]}
	if [ "$rc" -eq 1 ] && [ ! -s "$scratch/out" ] && grep -Eq ' std(in|out): (Bad file descriptor|a write failed)' "$scratch/err"; then
		ok "llm-cli $stream"
	else
		not_ok "llm-cli $stream" "$(outcome)"
	fi
done

# ---- the same mistake, the same status -----------------------------------------------------------

tools=(llm-bench llm-cli llm-logits llm-perplexity llm-quantize llm-vocab npu-info npu-profile npu-top npu-trace npuc)
for tool in "${tools[@]}"; do
	refuses "$tool: unknown option" 2 "unknown option '--no-such'" "$bin/$tool" --no-such
	refuses "$tool: unknown letter" 2 "unknown option '-Q'" "$bin/$tool" -Q
done
# reads TOOL FILE: the tool reads the file as its model.
reads() {
	case $1 in
	llm-bench) "$bin/llm-bench" -m "$2" ;;
	llm-cli) "$bin/llm-cli" -m "$2" -p x ;;
	llm-logits) "$bin/llm-logits" -m "$2" --tokens 1 ;;
	llm-perplexity) "$bin/llm-perplexity" -m "$2" -f "$refs/p1.txt" -c 32 ;;
	llm-quantize) "$bin/llm-quantize" "$2" "$scratch/x" f16 ;;
	llm-vocab) "$bin/llm-vocab" --encode "$refs/p1.txt" "$2" ;;
	npuc) "$bin/npuc" info "$2" ;;
	esac >"$scratch/out" 2>"$scratch/err"
	echo "$?"
}
for tool in llm-bench llm-cli llm-logits llm-perplexity llm-quantize llm-vocab npuc; do
	same "$tool: a file that is not there" "$(reads $tool no-such.gguf) $(grep -c 'no-such.gguf: No such file' "$scratch/err")" "1 1"
	same "$tool: a file of another kind" "$(reads $tool "$refs/p1.txt")" 1
done
finish
