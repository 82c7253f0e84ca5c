#!/bin/bash
# SPDX-License-Identifier: MIT
# llm-cli and llm-logits: prompts of boundary lengths, results that must be equal, and the reference texts.
set -u
. tests/cli/common.bash

cli=("$bin/llm-cli" -m "$model")
logits=("$bin/llm-logits" -m "$model")
prompt="The kernel allocates"

# ids OPTIONS...: prints greedy token ids after the prompt, or the error.
ids() { "${cli[@]}" -p "$prompt" --temp 0 -n 16 --ids "$@" 2>&1; }

same "greedy tokens, twice" "$(ids --preset fine)" "$(ids --preset fine)"
same "greedy tokens, --sync fast and driver, placement fine" "$(ids --preset fine --sync fast)" "$(ids --preset fine --sync driver)"
same "greedy tokens, --sync fast and driver, placement npu" "$(ids --preset npu --sync fast)" "$(ids --preset npu --sync driver)"
same "greedy tokens, placements fine and npu" "$(ids --preset fine)" "$(ids --preset npu)"
for kv in f32 q8_0; do
	same "greedy tokens, placements fine and npu, --kv $kv" "$(ids --preset fine --kv $kv)" "$(ids --preset npu --kv $kv)"
done
same "greedy tokens, chunks of 64 and 3" "$(ids --preset npu)" "$(ids --preset npu --chunk 3)"
same "greedy tokens, one and two workers of the device" "$(ids --preset npu --transport sim --npu-threads 1)" "$(ids --preset npu --transport sim --npu-threads 2)"
same "greedy tokens on the CPU, one and two threads" "$(ids --preset cpu -t 1)" "$(ids --preset cpu -t 2)"
same "an option overrides its part of a preset" "$(ids --preset cpu)" "$(ids --preset npu --placement cpu --weights f32)"
same "a preset overrides what stood before it" "$(ids --preset cpu)" "$(ids --placement npu --weights w8a8 --preset cpu)"
a=$("${cli[@]}" --preset cpu -p "$prompt" -n 24 --ids --seed 7)
same "sampled tokens with the same seed" "$a" "$("${cli[@]}" --preset cpu -p "$prompt" -n 24 --ids --seed 7)"
[ "$a" != "$("${cli[@]}" --preset cpu -p "$prompt" -n 24 --ids --seed 8)" ] && ok "another seed gives other tokens" || not_ok "another seed gives other tokens" "$a"
same "--top-k -1 and 0 are off" "$("${cli[@]}" --preset cpu -p "$prompt" -n 16 --ids --top-k -1 --temp 1 --seed 3)" \
	"$("${cli[@]}" --preset cpu -p "$prompt" -n 16 --ids --top-k 0 --temp 1 --seed 3)"
same "--top-k 1 is greedy" "$(ids --preset cpu)" "$("${cli[@]}" --preset cpu -p "$prompt" -n 16 --ids --top-k 1 --temp 1 --seed 3)"
printf '%s' "$prompt" >"$scratch/prompt"
same "-f FILE is the same as -p" "$(ids --preset cpu)" "$("${cli[@]}" --preset cpu -f "$scratch/prompt" --temp 0 -n 16 --ids)"
same "-f - is stdin" "$(ids --preset cpu)" "$("${cli[@]}" --preset cpu -f - --temp 0 -n 16 --ids <"$scratch/prompt")"
same "-n counts tokens" "$("${cli[@]}" --preset cpu -p "$prompt" --temp 0 -n 5 --ids --ignore-eos | wc -w)" 5
run "${cli[@]}" --preset cpu -p "$prompt" -n 0
[ $rc -eq 0 ] && [ ! -s "$scratch/out" ] && ok "-n 0 writes nothing" || not_ok "-n 0 writes nothing" "$(outcome)"

# Prompts of one token, a whole chunk, and a chunk and one token; the JSON of llm-logits counts them.
long=$(cat "$refs"/p*.txt)
for n in 1 63 64 65 128 129; do
	list=$(python3 -c "import json; print(','.join(map(str, (json.load(open('$refs/p4.json'))['ids'])[:$n])))")
	for preset in fine npu; do
		run "${logits[@]}" --tokens "$list" --preset $preset
		cp "$scratch/out" "$scratch/$preset.json"
	done
	run "${logits[@]}" --tokens "$list" --preset cpu
	true_in_python "prompt of $n tokens: fine and npu give the same logits, near the CPU's F32" "
f, n, c = (json.load(open(a)) for a in sys.argv[1:])
assert f['n_tokens'] == n['n_tokens'] == c['n_tokens'] == min($n, 200), (f['n_tokens'], $n)
d = max(abs(x - y) for x, y in zip(f['logits'], n['logits']))
assert d == 0, ('fine and npu differ by', d)
rms = math.sqrt(sum(x * x for x in c['logits']) / len(c['logits']))
e = math.sqrt(sum((x - y) ** 2 for x, y in zip(f['logits'], c['logits'])) / len(c['logits']))
assert e < 0.1 * rms, ('w8a8 is off by', e, 'of', rms)
" "$scratch/fine.json" "$scratch/npu.json" "$scratch/out"
done
refuses "prompt longer than the context" 1 "the context 16.* -c" "${cli[@]}" --preset cpu -c 16 -p "$long"
refuses "token ids longer than the context" 1 "16" "${logits[@]}" --preset cpu -c 16 --tokens 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17
refuses "unknown token id" 1 "4096" "${logits[@]}" --preset cpu --tokens 1,4096
refuses "unknown token id on the NPU" 1 "4096" "${logits[@]}" --preset npu --tokens 1,4096
refuses "empty prompt without BOS" 1 "empty" "${cli[@]}" --preset cpu --no-bos -p ""
refuses "context beyond the limit" 1 "100000000 tokens, a KV cache of 307200000000 bytes" "${cli[@]}" --preset cpu -c 100000000 -p x
# 16 million tokens of this model take 46 GiB. The test sets a limit, as memory may be overcommitted; AddressSanitizer does not
# work with a limit.
if grep -q __asan_init "$bin/llm-cli"; then
	skip "the error for a KV cache too large for memory names its bytes" "built with AddressSanitizer"
else
	(ulimit -v 4000000; "${cli[@]}" --preset cpu -c 16000000 -p x) >"$scratch/out" 2>"$scratch/err"
	rc=$?
	if [ $rc -eq 1 ] && grep -Eq '^llm-cli: .*([0-9]{8,} bytes|[0-9]+ [GM]i?B)' "$scratch/err"; then
		ok "the error for a KV cache too large for memory names its bytes"
	else
		not_ok "the error for a KV cache too large for memory names its bytes" "$(outcome)"
	fi
fi
run "${cli[@]}" --preset cpu -p "$prompt" --temp 0 -n -1 -c 32 --ignore-eos --ids
if [ $rc -eq 0 ] && grep -q "context of 32 tokens is full" "$scratch/err" && [ "$(wc -l <"$scratch/err")" -eq 1 ]; then
	ok "a full context ends the text with a note"
else
	not_ok "a full context ends the text with a note" "$(outcome)"
fi
run "${cli[@]}" --preset npu -p "$prompt" --temp 0 -n 8 --stats
if [ $rc -eq 0 ] && grep -Eq '^prefill +[0-9]+ tokens' "$scratch/err" && grep -Eq '^decode +7 tokens' "$scratch/err" &&
	grep -Eq '^NPU +[1-9][0-9]* jobs' "$scratch/err"; then ok "--stats counts tokens and jobs"; else not_ok "--stats counts tokens and jobs" "$(outcome)"; fi

true_in_python "--stats divides the time per token of prefill and decode among kinds of work, which add up" "
rows = {m[0]: [float(x) for x in m[1:]] for m in re.findall(
    r'^ *([a-z]+) +([0-9.]+) +([0-9.]+)% +([0-9.]+) +([0-9.]+)%$', open(sys.argv[1]).read(), re.M)}
total = rows.pop('total')
assert set(rows) == set('matmul attention store rope norm quant outliers other waiting start runtime sampling'.split()), rows
for i in range(4):
    assert abs(sum(r[i] for r in rows.values()) - total[i]) < 0.07 and total[1] == total[3] == 100, (rows, total)
speed = {m[0]: float(m[1]) for m in re.findall(r'^(prefill|decode) .* ([0-9.]+) t/s', open(sys.argv[1]).read(), re.M)}
for i, what in ((0, 'prefill'), (2, 'decode')):
    assert total[i] - rows['sampling'][i] < 1000 / speed[what] * 1.01, (what, total, speed)
" "$scratch/err"
run "${cli[@]}" --preset cpu -p "$prompt" --temp 0 -n 2 --stats
if [ $rc -eq 0 ] && grep -q '^time .*only known with placement npu' "$scratch/err"; then
	ok "--stats says where that is not known"
else
	not_ok "--stats says where that is not known" "$(outcome)"
fi

for clock in wall virtual; do
	run "${cli[@]}" --preset edgeflow --clock $clock -p "$prompt" --temp 0 -n 2 --stats
	true_in_python "--stats of a cold start, $clock clock: each lane's times fill the evaluation, and the bound is of its parts" "
text = open(sys.argv[1]).read()
number = r'([0-9]+\.[0-9]+)'
lanes = re.findall(r'^ *(npu|cpu|storage)' + 5 * (' +' + number) + '$', text, re.M)
bound = re.search(f'longest of read {number}, pack {number}, compute {number}; first layer.s read {number}, last layer.s compute {number}\n'
                  f' +together {number} ms; the evaluation took {number} ms, {number} times as long', text)
read, pack, compute, first, last, together, took, times = map(float, bound.groups())
assert len(lanes) == 3 and all(abs(sum(map(float, l[1:])) - took) < 0.004 for l in lanes), (lanes, took)
assert abs(max(read, pack, compute) + first + last - together) < 0.003 and abs(took / together - times) < 0.02
assert re.search(r'^cold .*tokenizer ' + ('[0-9.]*[1-9]' if '$clock' == 'wall' else r'0\.000,'), text, re.M)
assert re.search(r'^loaded +[0-9.]+ MiB from storage, [0-9.]+ MiB from the page cache' + ('$' if '$clock' == 'wall' else '; [0-9.]+ J$'), text, re.M)
assert re.search(r'^memory +MiB at most: weights [0-9.]+ of .*; the process [0-9.]+$', text, re.M)
" "$scratch/err"
done
run "${cli[@]}" --preset npu -p "$prompt" --temp 0 -n 2 --stats
if grep -q '^cold' "$scratch/err"; then not_ok "--stats of a warm start has none of this" "$(outcome)"; else ok "--stats of a warm start has none of this"; fi

# The three output formats of llm-logits agree.
run "${logits[@]}" --preset cpu -p "$prompt"
cp "$scratch/out" "$scratch/l.json"
run "${logits[@]}" --preset cpu -p "$prompt" -o text
cp "$scratch/out" "$scratch/l.txt"
run "${logits[@]}" --preset cpu -p "$prompt" -o f32
true_in_python "llm-logits: json, text and f32 have the same numbers" "
import struct
j = json.load(open(sys.argv[1]))
t = [line.split() for line in open(sys.argv[2])]
f = list(struct.iter_unpack('<f', open(sys.argv[3], 'rb').read()))
assert len(j['logits']) == len(t) == len(f) == j['n_vocab'] == 4096
r = lambda x: struct.unpack('<f', struct.pack('<f', float(x)))[0]
assert all(int(a) == i and r(x) == r(y) == z[0] for i, ((a, x), y, z) in enumerate(zip(t, j['logits'], f)))
" "$scratch/l.json" "$scratch/l.txt" "$scratch/out"

# Text is written in whole characters: a long sample is valid UTF-8, and equals the concatenated texts of the ids.
"${cli[@]}" --preset cpu -p "naïve café – “" --temp 1.5 -n 200 --ignore-eos --seed 5 >"$scratch/out" 2>/dev/null
[ -s "$scratch/out" ] && ok "a prompt of several scripts" || not_ok "a prompt of several scripts"
true_in_python "Ctrl-C ends the text, which is written, and the program ends by the signal" "
import signal, subprocess
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
first = p.stdout.read(1)
p.send_signal(signal.SIGINT)
out, err = p.communicate(timeout=60)
assert first and p.returncode == -signal.SIGINT, (first, p.returncode, err)
assert err == b'llm-cli: warning: -c 16384: the model was trained with contexts of 512 tokens, and predicts badly beyond them\n', err
" "${cli[@]}" --preset cpu -p "$prompt" --temp 0 -n -1 --ignore-eos -c 16384

# A progress bar is drawn and removed if stderr is a terminal; stdout has none of it.
for i in {1..60}; do cat "$refs"/p*.txt; done >"$scratch/text"
true_in_python "a terminal gets a progress bar, which is removed" "
import os, pty, subprocess
master, slave = pty.openpty()
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=slave)
os.close(slave)
out, bar = p.communicate(timeout=100)[0], b''
try:
    while chunk := os.read(master, 65536):
        bar += chunk
except OSError:
    pass
assert p.returncode == 0 and out.startswith(b'perplexity') and b'\\x1b' not in out
assert b'perplexity' in bar and b'%' in bar and bar.endswith(b'\\r\\x1b[K'), bar[-200:]
" "$bin/llm-perplexity" -m "$model" -f "$scratch/text" --preset cpu -t 1
passes "a pipe gets no progress bar" "$bin/llm-perplexity" -m "$model" -f "$scratch/text" --preset cpu

f32=${VNPU_DATA:-}/models/docs6m/docs6m-f32.gguf
for p in p1 p2 p3 p4; do
	if [ ! -r "$f32" ]; then
		skip "reference text $p" "VNPU_DATA names no folder with models/docs6m/docs6m-f32.gguf"
		continue
	fi
	"$bin/llm-cli" -m "$f32" --preset cpu --kv f32 -f "$refs/$p.txt" --temp 0 -n 64 >"$scratch/text"
	"$bin/llm-cli" -m "$f32" --preset cpu --kv f32 -f "$refs/$p.txt" --temp 0 -n 64 --ids >"$scratch/ids"
	"$bin/llm-logits" -m "$f32" --preset cpu --kv f32 -p "$(<"$refs/$p.txt")" >"$scratch/logits"
	true_in_python "reference text, ids and logits $p" "
import struct
ref = json.load(open('$refs/$p.json'))
text = open(sys.argv[1]).read()
assert ref['full_text'] == ref['prompt'] + text, (text, ref['greedy_text'])
ids = [i for i in map(int, open(sys.argv[2]).read().split())]
assert ids == [i for i in ref['greedy_ids'] if i != 2], (ids, ref['greedy_ids'])
got = json.load(open(sys.argv[3]))
assert got['tokens'] == ref['ids']
want = [x[0] for x in struct.iter_unpack('<f', open('$refs/$p.last.f32', 'rb').read())]
d = max(abs(a - b) for a, b in zip(got['logits'], want))
assert d < 2e-3, d
" "$scratch/text" "$scratch/ids" "$scratch/logits"
done
finish
