#!/bin/bash
# SPDX-License-Identifier: MIT
# LLAMA_BENCH=PEER[,PEER...] tests/bench/start.sh [options] MODEL.gguf[=PACKED.gguf]...
# Times whole programs from their start until a prompt has been evaluated: llm-bench with --start cold and warm, and the
# llama-bench of llama.cpp and its forks, one after another, with the page cache dropped before each or with the file in it. Prints
# medians in seconds, with median and quartiles of how many times longer than the cold start of the same round. Programs take turns at
# being the first. Before each, 4 GiB of memory is touched and freed, more for files above a third of that, so that none of them waits
# for a hypervisor to give it memory. Touched in huge pages: after small ones, the kernel gives llm-bench other huge pages, untouched.
# Dropping the page cache needs root.
#
# Of MODEL=PACKED, llm-bench has the packed file and the peers the other. More columns say what bounds a cold start, in seconds:
#   read     reading its file past the page cache and doing nothing else, in each round (0 if it is cached)
#   pack     packing the weights, in the warm starts, where nothing is computed beside it, or in the cold ones if that was faster:
#            these only check the panels of a packed file
#   prefill  a prompt with all weights in memory, at the end
#   before   what comes before the first task of a cold start: the whole program without the evaluation
#   bound    the longest of read, pack and prefill, with the first layer's read and the last layer's compute as the cold starts have
#            them; in brackets how many times as long the evaluation took, the median and the quartiles
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
import json, mmap, os, re, shlex, statistics, subprocess, sys, threading, time

prompts, rounds, caches, models = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3].split(","), sys.argv[4:]
threads = os.environ["threads"]
POPULATE_WRITE = 23  # MADV_POPULATE_WRITE
programs = {f"vnpu {start}": [os.environ["bin"] + "/llm-bench", "--start", start, "--no-warmup", "--npu-threads", threads, "-o", "json"]
            for start in ("cold", "warm")}
for peer in filter(None, os.environ.get("LLAMA_BENCH", "").split(",")):
    label, command = re.fullmatch(r"(?:([\w. -]+)=)?(.*)", peer).groups()
    programs[label or os.path.basename(shlex.split(command)[0])] = shlex.split(command)

def fill(model):
    with open(model, "rb") as f:
        while f.read(1 << 24):
            pass

def put(model, cache):
    """Brings the file into the page cache, or drops all of that, and touches memory, which may evict parts of the file."""
    if cache == "dropped":
        os.sync()
        open("/proc/sys/vm/drop_caches", "w").write("3\n")
    else:
        fill(model)
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with mmap.mmap(-1, min(max(3 * os.path.getsize(model), 4 << 30), available * 3 // 4)) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory.madvise(POPULATE_WRITE)
    if cache != "dropped":
        fill(model)

def read_alone(model, bytes_each=2 << 20):
    """Seconds of reading the file past the page cache, four reads at a time."""
    fd = os.open(model, os.O_RDONLY | os.O_DIRECT)
    offsets = iter(range(0, os.path.getsize(model), bytes_each))
    lock = threading.Lock()
    def work():
        with mmap.mmap(-1, bytes_each) as buffer:
            while True:
                with lock:
                    offset = next(offsets, None)
                if offset is None:
                    return
                os.preadv(fd, [buffer], offset)
    threads = [threading.Thread(target=work) for _ in range(4)]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    os.close(fd)
    return time.monotonic() - begin

def prefill(model, prompt):
    command = [programs["vnpu warm"][0], "--npu-threads", threads, "-t", threads, "-m", model, "-p", prompt, "-n", "0", "-r", "5", "-o", "json"]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return statistics.median(json.loads(run.stdout)[0]["samples_ns"]) / 1e9

def seconds(command, model, prompt):
    """Of the whole program, and what it printed."""
    full = command + ["-m", model, "-p", prompt, "-n", "0", "-r", "1", "-t", threads]
    begin = time.monotonic()
    run = subprocess.run(full, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode:
        sys.exit(f"start.sh: {shlex.join(full)}: {run.stderr.decode().strip().splitlines()[-1:]}")
    return time.monotonic() - begin, run.stdout

def spread(ratios):
    ratios = sorted(ratios)
    return f"{statistics.median(ratios):.2f}; {ratios[len(ratios) // 4]:.2f} .. {ratios[-1 - len(ratios) // 4]:.2f}"

print("| model | cache | prompt | " + " | ".join(programs) + " | read | pack | prefill | before | bound |")
print("|---|---|--:|" + "---|" * len(programs) + "--:|--:|--:|--:|---|")
for model in models:
    model, _, packed = model.partition("=")
    ours_file = packed or model
    for cache in caches:
        for prompt in prompts:
            taken = {label: [] for label in programs}
            reads, starts, packs = [], [], {}
            for i in range(rounds):
                turn = list(programs)
                for label in turn[i % len(turn):] + turn[:i % len(turn)]:
                    file = ours_file if label.startswith("vnpu ") else model
                    put(file, cache)
                    whole, out = seconds(programs[label], file, prompt)
                    taken[label].append(whole)
                    if label == "vnpu cold":
                        starts.append(json.loads(out)[0]["cold_breakdown"])
                    if label.startswith("vnpu "):
                        packs.setdefault(label, []).append(json.loads(out)[0]["start_pack_ms"] / 1e3)
                if cache == "dropped":
                    put(ours_file, cache)
                reads.append(read_alone(ours_file) if cache == "dropped" else 0)
            ours, cells = taken["vnpu cold"], []
            for label, s in taken.items():
                cells.append(f"{statistics.median(s):.3f}" + ("" if s is ours else f" ({spread(t / o for t, o in zip(s, ours))})"))
            alone = [statistics.median(reads), min(map(statistics.median, packs.values())), prefill(ours_file, prompt)]
            before = statistics.median(t - c["ms"] / 1e3 for t, c in zip(ours, starts))
            bound = max(alone) + statistics.median(c["first_read_ms"] + c["last_compute_ms"] for c in starts) / 1e3
            cells += [f"{s:.3f}" for s in alone + [before]]
            cells.append(f"{bound:.3f} ({spread(c['ms'] / 1e3 / bound for c in starts)})")
            print(f"| {os.path.basename(ours_file)} | {cache} | {prompt} | " + " | ".join(cells) + " |", flush=True)
PYTHON
