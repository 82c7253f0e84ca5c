#!/bin/bash
# SPDX-License-Identifier: MIT
# LLAMA_BENCH=PEER[,PEER...] tests/bench/start.sh [options] MODEL.gguf...
# Times whole programs from their start until a prompt has been evaluated: llm-bench with --start cold and warm, and the
# llama-bench of llama.cpp and its forks, one after another, with the page cache dropped before each or with the file in it. Prints
# medians in seconds, with median and quartiles of how many times longer than the cold start of the same round. Programs take turns at
# being the first. Before each, as much memory as three files is touched and freed, so that none of them waits for a hypervisor to give
# it memory for the first time. Dropping the page cache needs root.
#
#   -p LIST   prompt lengths (64,128,512)
#   -r N      rounds (5)
#   -t N      threads of each (2)
#   -c LIST   dropped, cached or both (dropped,cached)
#
#   LLAMA_BENCH  the peers, as in tests/bench/peer.sh: [LABEL=]PROGRAM [OPTIONS], separated by commas
#   BUILD        the folder of bin/llm-bench (build)
set -u
here=$(cd "$(dirname "$0")" && pwd)
bin=$(realpath -m "${BUILD:-$here/../../build}")/bin
prompts=64,128,512 rounds=5 threads=2 caches=dropped,cached
while getopts p:r:t:c: option; do
	case $option in
	p) prompts=$OPTARG ;;
	r) rounds=$OPTARG ;;
	t) threads=$OPTARG ;;
	c) caches=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo "start.sh: give a model file" >&2; exit 2; }
[[ $caches != *dropped* ]] || [ -w /proc/sys/vm/drop_caches ] || { echo "start.sh: dropping the page cache needs root; give -c cached" >&2; exit 1; }
bin=$bin threads=$threads exec python3 - "$prompts" "$rounds" "$caches" "$@" <<'PYTHON'
import mmap, os, re, shlex, statistics, subprocess, sys, time

prompts, rounds, caches, models = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3].split(","), sys.argv[4:]
threads = os.environ["threads"]
POPULATE_WRITE = 23  # MADV_POPULATE_WRITE
programs = {f"vnpu {start}": [os.environ["bin"] + "/llm-bench", "--start", start, "--no-warmup", "--npu-threads", threads]
            for start in ("cold", "warm")}
for peer in filter(None, os.environ.get("LLAMA_BENCH", "").split(",")):
    label, command = re.fullmatch(r"(?:([\w. -]+)=)?(.*)", peer).groups()
    programs[label or os.path.basename(shlex.split(command)[0])] = shlex.split(command)

def put(model, cache):
    """Brings the file into the page cache, or drops all of that. Then touches memory."""
    if cache == "dropped":
        os.sync()
        open("/proc/sys/vm/drop_caches", "w").write("3\n")
    else:
        with open(model, "rb") as f:
            while f.read(1 << 24):
                pass
    with mmap.mmap(-1, 3 * os.path.getsize(model)) as memory:
        memory.madvise(POPULATE_WRITE)

def seconds(command, model, prompt):
    full = command + ["-m", model, "-p", prompt, "-n", "0", "-r", "1", "-t", threads]
    begin = time.monotonic()
    run = subprocess.run(full, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if run.returncode:
        sys.exit(f"start.sh: {shlex.join(full)}: {run.stderr.decode().strip().splitlines()[-1:]}")
    return time.monotonic() - begin

print("| model | cache | prompt | " + " | ".join(programs) + " |")
print("|---|---|--:|" + "---|" * len(programs))
for model in models:
    for cache in caches:
        for prompt in prompts:
            taken = {label: [] for label in programs}
            for i in range(rounds):
                turn = list(programs)
                for label in turn[i % len(turn):] + turn[:i % len(turn)]:
                    put(model, cache)
                    taken[label].append(seconds(programs[label], model, prompt))
            ours, cells = taken["vnpu cold"], []
            for label, s in taken.items():
                ratios = sorted(t / o for t, o in zip(s, ours))
                cells.append(f"{statistics.median(s):.3f}" + ("" if s is ours else
                             f" ({statistics.median(ratios):.2f}; {ratios[len(ratios) // 4]:.2f} .. {ratios[-1 - len(ratios) // 4]:.2f})"))
            print(f"| {os.path.basename(model)} | {cache} | {prompt} | " + " | ".join(cells) + " |", flush=True)
PYTHON
