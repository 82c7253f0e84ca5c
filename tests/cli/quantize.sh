#!/bin/bash
# SPDX-License-Identifier: MIT
# llm-quantize: every type of a real model compared with llama.cpp's files, calibrated files, models of a given shape, wrong command
# lines, damaged input, and outputs that cannot be written.
set -u
. tests/cli/common.bash

t=("$bin/llm-quantize")
out=$scratch/out.gguf

passes "--help" "${t[@]}" --help
for option in --calibrate --calibrate-tokens --outlier-channels --hot --pruning --profile --smooth --smooth-bits --verbose --synthetic --arch --seed --vocab --threads --help --version f32 f16 q8_0 q5_1 q5_0 q4_1 q4_0 w8a8 w4a8 w4a16; do
	grep -q -- "$option" "$scratch/out" || not_ok "--help explains $option"
done
passes "--version" "${t[@]}" --version
refuses "no arguments" 2 "--help" "${t[@]}"
refuses "a word too many" 2 "--help" "${t[@]}" "$model" "$out" f16 f16
refuses "unknown option" 2 "unknown option '--no-such'" "${t[@]}" --no-such
refuses "option without its value" 2 "needs a value" "${t[@]}" "$model" "$out" f16 --seed
refuses "unknown type lists the names" 2 "'q2_0' is none of f32, f16, q8_0, q4_0, q4_1, q5_0, q5_1, iq4_nl, q2_k, .*, q6_k, w8a8, w4a8, w4a16" "${t[@]}" "$model" "$out" q2_0
refuses "--seed without --synthetic" 2 "go with --synthetic" "${t[@]}" "$model" "$out" f16 --seed 1
for bad in "-t 0" "-t x" "--seed -1" "--vocab 259" "--vocab x"; do
	# shellcheck disable=SC2086
	refuses "$bad" 2 "${bad%% *}: " "${t[@]}" --synthetic qwen2.5-0.5b "$out" f16 $bad
done
refuses "input and output are one file" 2 "one file" "${t[@]}" "$model" "$model" f16
ln -s "$PWD/$model" "$scratch/link.gguf"
refuses "input and output are one file through a link" 2 "one file" "${t[@]}" "$model" "$scratch/link.gguf" f16
refuses "input that does not exist" 1 "none.gguf.*No such file" "${t[@]}" none.gguf "$out" f16
head -c 1000000 "$model" >"$scratch/cut.gguf"
refuses "truncated input" 1 "cut.gguf.*truncated" "${t[@]}" "$scratch/cut.gguf" "$out" f16
refuses "output in a folder that does not exist" 1 "/nonexistent/x.*No such file" "${t[@]}" "$model" /nonexistent/x f16
refuses "output that is a folder" 1 "$scratch.*directory" "${t[@]}" "$model" "$scratch" f16
if [ -c /dev/full ]; then
	refuses "full device" 1 "/dev/full: .*No space left" "${t[@]}" "$model" /dev/full f16
	[ -c /dev/full ] && ok "the device is still there" || not_ok "the device is still there"
else
	skip "full device" "no /dev/full"
fi
echo before >"$out"
cat >"$scratch/llm-quantize" <<SH
#!/bin/bash
trap '' XFSZ
ulimit -f 1000
exec "$bin/llm-quantize" "\$@"
SH
chmod +x "$scratch/llm-quantize"
refuses "disk full" 1 "out.gguf: .*File too large" "$scratch/llm-quantize" "$model" "$out" f16
same "the old file stays" "$(<"$out")" before
rm "$out"
# Killed as soon as it has written something: far more is to come.
mkdir "$scratch/killed"
"${t[@]}" --synthetic qwen2.5-0.5b "$scratch/killed/x.gguf" f16 >"$scratch/out" 2>&1 &
pid=$!
while kill -0 $pid && ! grep -q '^write_bytes: [1-9]' /proc/$pid/io && ! ls "$scratch"/killed/* >/dev/null 2>&1; do sleep 0.1; done
kill -KILL $pid
wait $pid 2>/dev/null
same "a program that is killed leaves no file" "$(ls "$scratch/killed" | wc -l)" 0
same "a refusal leaves nothing behind" "none$(find "$scratch" -name 'out.gguf*' -o -name '.vnpu-*')" none

# ---- types ----

# The embedded model is Q8_0: Q8_0 gives a copy, a smaller type a warning.
passes "q8_0 to q8_0" "${t[@]}" "$model" "$out" q8_0
cmp "$model" "$out" >"$scratch/err" && ok "the same type gives the same file" || not_ok "the same type gives the same file" "$(<"$scratch/err")"
passes "q8_0 to f32" "${t[@]}" "$model" "$scratch/f32.gguf" F32
grep -Eq '56 tensors, [0-9]+ -> 23081984 bytes, 32.00 bits per weight, [0-9.]+ s$' "$scratch/out" &&
	ok "the summary counts tensors and bytes" || not_ok "the summary counts tensors and bytes" "$(outcome)"
passes "f32 back to q8_0" "${t[@]}" "$scratch/f32.gguf" "$scratch/again.gguf" q8_0
run "${t[@]}" "$model" "$out" q4_0
[ $rc -eq 0 ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -q 'warning: .*42 tensors are quantised already' "$scratch/err" &&
	ok "q8_0 to q4_0 with a warning" || not_ok "q8_0 to q4_0 with a warning" "$(outcome)"
ln -sf "$scratch/target.gguf" "$scratch/out-link.gguf"
: >"$scratch/target.gguf"
passes "output through a link" "${t[@]}" "$model" "$scratch/out-link.gguf" f16
[ -L "$scratch/out-link.gguf" ] && [ -s "$scratch/target.gguf" ] && ok "the link stays" || not_ok "the link stays"

ppl() { "$bin/llm-perplexity" -m "$1" -f "$refs/p1.txt" -c 64 --preset cpu -o json >"$scratch/ppl.json" 2>&1; python3 -c "import json; print(json.load(open('$scratch/ppl.json'))['perplexity'])"; }
ppl_npu() { "$bin/llm-perplexity" -m "$1" -f "$refs/p1.txt" -c 64 --transport sim --placement npu -o json >"$scratch/ppl.json" 2>&1; python3 -c "import json; print(json.load(open('$scratch/ppl.json'))['perplexity'])"; }
near() {
	true_in_python "$1" "a, b, bound = map(float, sys.argv[1:]); print(a, b); assert abs(a - b) <= bound * b, (a, b)" "$2" "$3" "$4"
}
want=$(ppl "$model")
near "f32 of a q8_0 file computes the same" "$(ppl "$scratch/f32.gguf")" "$want" 1e-6
near "f16 of a q8_0 file computes nearly the same" "$(ppl "$scratch/target.gguf")" "$want" 2e-3
near "q8_0 made again is near" "$(ppl "$scratch/again.gguf")" "$want" 2e-3
near "q4_0 is within 10 %" "$(ppl "$out")" "$want" 0.1

data=${VNPU_DATA:-}/models/docs6m
if [ -n "${VNPU_DATA:-}" ] && [ -r "$data/docs6m-f32.gguf" ]; then
	passes "docs6m f32 to f16" "${t[@]}" "$data/docs6m-f32.gguf" "$scratch/f16.gguf" f16
	near "f16 computes nearly the same as f32" "$(ppl "$scratch/f16.gguf")" "$(ppl "$data/docs6m-f32.gguf")" 1e-3
	for type in q8_0 q4_0; do
		passes "docs6m f32 to $type" "${t[@]}" -t 1 "$data/docs6m-f32.gguf" "$out" $type
		run "${t[@]}" -t 3 "$data/docs6m-f32.gguf" "$scratch/t3.gguf" $type
		cmp "$out" "$scratch/t3.gguf" >"$scratch/err" 2>&1 && ok "$type with three threads" || not_ok "$type with three threads" "$(<"$scratch/err")"
		true_in_python "$type: the tensors of llama.cpp's file, byte for byte" "
sizes = {0: (1, 4), 2: (32, 18), 8: (32, 34), 14: (256, 210)}
def tensors(path):
    d = open(path, 'rb').read()
    number = lambda at, n: int.from_bytes(d[at:at + n], 'little')
    # The tensor table begins with the length of the first name and ends at a multiple of 32.
    at = min(d.index(len(n).to_bytes(8, 'little') + n) for n in (b'output_norm.weight', b'token_embd.weight'))
    found = []
    for _ in range(number(8, 8)):
        name = d[at + 8:at + 8 + number(at, 8)]
        at += 8 + len(name)
        dims = [number(at + 4 + 8 * i, 8) for i in range(number(at, 4))]
        at += 4 + 8 * len(dims)
        found.append((name, dims, number(at, 4), number(at + 4, 8)))
        at += 12
    start = (at + 31) // 32 * 32
    block = {n: (math.prod(dims) // sizes[t][0] * sizes[t][1]) for n, dims, t, at in found}
    return {n: (dims, t, d[start + at:start + at + block[n]]) for n, dims, t, at in found}
a, b = map(tensors, sys.argv[1:])
assert a.keys() == b.keys() and len(a) == 56
# In llama.cpp's Q4_0 file the embedding, which is also the output matrix, is Q6_K.
differ = [n for n in a if a[n] != b[n]]
assert differ == ([b'token_embd.weight'] if '$type' == 'q4_0' else []), differ
" "$out" "$data/docs6m-$type.gguf"
		near "$type computes nearly the same as llama.cpp's file" "$(ppl "$out")" "$(ppl "$data/docs6m-$type.gguf")" 0.01
	done
else
	skip "docs6m f32 to every type" "VNPU_DATA names no folder with models/docs6m/docs6m-f32.gguf"
fi

# ---- packed for the NPU ----

logits() { "$bin/llm-logits" --transport sim --placement npu --tokens 1,5,900,77,3,1200 -o json "$@" >"$scratch/logits" 2>&1 && sed 's/.*"logits"://' "$scratch/logits" || cat "$scratch/logits"; }
for weights in w8a8 w4a8 w4a16; do
	passes "$weights" "${t[@]}" "$model" "$scratch/$weights.gguf" $weights
	run "${t[@]}" -t 1 "$model" "$scratch/t1.gguf" $weights
	cmp "$scratch/$weights.gguf" "$scratch/t1.gguf" >"$scratch/err" 2>&1 && ok "$weights with one thread" || not_ok "$weights with one thread" "$(<"$scratch/err")"
	same "$weights: the logits of the original" "$(logits -m "$scratch/$weights.gguf")" "$(logits -m "$model" --weights $weights)"
done
passes "adaptive" "${t[@]}" "$model" "$scratch/adaptive.gguf" adaptive --bits 4.6
run "${t[@]}" -t 1 "$model" "$scratch/t1.gguf" adaptive --bits 4.6
cmp "$scratch/adaptive.gguf" "$scratch/t1.gguf" >"$scratch/err" 2>&1 && ok "adaptive with one thread" || not_ok "adaptive with one thread" "$(<"$scratch/err")"
same "adaptive: the same logits with placement fine" "$(logits -m "$scratch/adaptive.gguf" --placement fine)" "$(logits -m "$scratch/adaptive.gguf")"
# An NPU that holds about half of the layers' weights; the CPU computes with the others.
sed 's/^space_gib = [^ ]*/space_gib = 0.0015/' share/profiles/sd8gen3.conf >"$scratch/small.conf"
same "adaptive: the same logits with placement linear, half of it on the CPU" \
	"$(logits -m "$scratch/adaptive.gguf" --placement linear --space limited --profile "$scratch/small.conf" --floats cpu)" \
	"$(logits -m "$scratch/adaptive.gguf")"
passes "adaptive of 8 bits" "${t[@]}" "$model" "$scratch/adaptive8.gguf" adaptive --bits 8
for a in row-outliers row-outliers-all mixed; do
	same "adaptive of 8 bits: the logits of w8a8, activations $a" "$(logits -m "$scratch/adaptive8.gguf" --activations $a)" "$(logits -m "$model" --weights w8a8 --activations $a)"
done
same "adaptive: the same logits unpacked to w8a8" "$(logits -m "$scratch/adaptive.gguf" --weights w8a8)" "$(logits -m "$scratch/adaptive.gguf")"
refuses "adaptive for 4 bits" 1 "packed for the NPU with weights adaptive; for w4a8 take the original" "$bin/llm-logits" -m "$scratch/adaptive.gguf" --tokens 1 --weights w4a8
near "adaptive of 4.6 bits predicts nearly as well" "$(ppl_npu "$scratch/adaptive.gguf")" "$want" 0.05
for bad in 0.9 8.1 nan x; do refuses "--bits $bad" 2 "--bits: " "${t[@]}" "$model" "$out" adaptive --bits $bad; done
refuses "--bits of another type" 2 "--bits is the average width of adaptive, not of w8a8" "${t[@]}" "$model" "$out" w8a8 --bits 5
refuses "adaptive weights of a file that has none" 1 "llm-quantize .*docs6m-q8_0.gguf OUT.gguf adaptive" "$bin/llm-logits" -m "$model" --tokens 1 --weights adaptive
refuses "adaptive weights with placement layer" 1 "placement layer has no weights adaptive: choose placement .*npu" "$bin/llm-logits" -m "$scratch/adaptive.gguf" --tokens 1 --placement layer
same "a file packed for w4a16 serves w4a8" "$(logits -m "$scratch/w4a16.gguf" --weights w4a8)" "$(logits -m "$model" --weights w4a8)"
refuses "packed for other weights" 1 "w8a8.gguf: packed for the NPU with weights w8a8; for w4a8 take the original" "$bin/llm-logits" -m "$scratch/w8a8.gguf" --tokens 1 --weights w4a8
refuses "packed, on the CPU" 1 "packed for the NPU with weights w4a8; for f32 take the original" "$bin/llm-logits" -m "$scratch/w4a8.gguf" --tokens 1 --placement cpu
refuses "packing again" 1 "is packed already, for w8a8" "${t[@]}" "$scratch/w8a8.gguf" "$out" w4a8
refuses "unpacking" 1 "is packed for the NPU, which cannot be undone" "${t[@]}" "$scratch/w8a8.gguf" "$out" q8_0
refuses "packed and synthetic" 2 "pack such a file as w8a8" "${t[@]}" --synthetic qwen2.5-0.5b "$out" w8a8
damage() { # NAME FROM WITH: replaces the first occurrence of a text in the file by another one of its length
	python3 - "$scratch/w8a8.gguf" "$scratch/$1.gguf" "$2" "$3" <<'PY'
import sys
d = open(sys.argv[1], 'rb').read()
a, b = (s.encode('latin-1').decode('unicode_escape').encode('latin-1') for s in sys.argv[3:5])
assert a in d and len(a) == len(b)
open(sys.argv[2], 'wb').write(d.replace(a, b, 1))
PY
}
damage version 'vnpu.panels\x04\0\0\0\x03' 'vnpu.panels\x04\0\0\0\x04'
refuses "panels of another version" 1 "packed by another version" "$bin/llm-logits" -m "$scratch/version.gguf" --tokens 1
damage name 'w8a8' 'w7a8'
refuses "packed for unknown weights" 1 "packed for unknown weights 'w7a8'" "$bin/llm-logits" -m "$scratch/name.gguf" --tokens 1
damage lost 'blk.1.attn_q.panels' 'blk.1.attn_q.panelz'
refuses "missing panels" 1 "no tensor blk.1.attn_q.panels" "$bin/llm-logits" -m "$scratch/lost.gguf" --tokens 1
python3 - "$scratch/w8a8.gguf" "$scratch/bytes.gguf" <<'PY'
import sys
d = open(sys.argv[1], 'rb').read()
d = d.replace(b'vnpu.panels', b'vnpu.panelz').replace(b'.panels', b'.weight')
open(sys.argv[2], 'wb').write(d)
PY
refuses "a tensor of bytes in place of weights" 1 "tensor .*weight is I8, which is no type of weights" "$bin/llm-logits" -m "$scratch/bytes.gguf" --tokens 1
refuses "converting a tensor of bytes" 1 "tensor .*weight is I8, which is no type of weights" "${t[@]}" "$scratch/bytes.gguf" "$out" q8_0
python3 - "$scratch/w8a8.gguf" "$scratch/scale.gguf" <<'PY'
import struct, sys
d = bytearray(open(sys.argv[1], 'rb').read())
at = d.index(b'blk.0.attn_k.panels') + 19
dims = struct.unpack_from('<I', d, at)[0]
size = struct.unpack_from('<Q', d, at + 4)[0]
offset = struct.unpack_from('<Q', d, at + 4 + 8 * dims + 4)[0]
end = max(d.rfind(n) + len(n) for n in (b'.weight', b'.panels', b'vnpu.checksums'))
end += 4 + 8 * struct.unpack_from('<I', d, end)[0] + 12
start = (end + 63) // 64 * 64
struct.pack_into('<f', d, start + offset + size - 4, float('nan'))
open(sys.argv[2], 'wb').write(d)
PY
refuses "a scale that is not finite" 1 "row 127 of tensor blk.0.attn_k.panels" "$bin/llm-logits" -m "$scratch/scale.gguf" --tokens 1

# ---- checksums ----

# flip FROM TO TENSOR: a bit in the middle of a tensor; version1 FROM TO: the file without its checksums, as version 1 wrote it.
cat >"$scratch/panels.py" <<'PY'
import struct, sys
d = bytearray(open(sys.argv[2], 'rb').read())
def entry(name): # of the table of tensors: where it begins and ends, the tensor's bytes and offset
    at = d.index(struct.pack('<Q', len(name)) + name)
    dims = at + 8 + len(name)
    assert struct.unpack_from('<I', d, dims)[0] == 1
    size, _, offset = struct.unpack_from('<QIQ', d, dims + 4)
    return at, dims + 24, size, offset
last = max(d.rfind(n) + len(n) for n in (b'.weight', b'.panels', b'vnpu.checksums'))
header = last + 4 + 8 * struct.unpack_from('<I', d, last)[0] + 12
data = (header + 63) // 64 * 64
if sys.argv[1] == 'flip':
    at, end, size, offset = entry(sys.argv[4].encode())
    d[data + offset + size // 2] ^= 16
else:
    at, end, size, offset = entry(b'vnpu.checksums')
    version = d.index(b'vnpu.panels') + 15
    assert d[version] == 3
    d[version] = 1
    struct.pack_into('<Q', d, 8, struct.unpack_from('<Q', d, 8)[0] - 1)
    head = d[:at] + d[end:header]
    d = head + bytes(-len(head) % 64) + d[data:]
open(sys.argv[3], 'wb').write(d)
PY
for type in w8a8 w4a8 adaptive; do
	python3 "$scratch/panels.py" flip "$scratch/$type.gguf" "$scratch/flip.gguf" blk.3.ffn_up.panels
	refuses "$type: a flipped bit" 1 "flip.gguf: tensor blk.3.ffn_up.panels has another checksum.*damaged" "$bin/llm-logits" -m "$scratch/flip.gguf" --tokens 1
	python3 "$scratch/panels.py" version1 "$scratch/$type.gguf" "$scratch/one.gguf"
	same "$type: the logits of a file without checksums, of version 1" "$(logits -m "$scratch/one.gguf")" "$(logits -m "$scratch/$type.gguf")"
done
python3 "$scratch/panels.py" flip "$scratch/adaptive.gguf" "$scratch/flip.gguf" vnpu.checksums
refuses "a flipped bit of a checksum" 1 "tensor blk.[0-9].[a-z_]*.panels has another checksum" "$bin/llm-logits" -m "$scratch/flip.gguf" --tokens 1
head -c -9000 "$scratch/adaptive.gguf" >"$scratch/short.gguf"
refuses "a short file" 1 "tensor '[a-z0-9_.]*' needs .*truncated" "$bin/llm-logits" -m "$scratch/short.gguf" --tokens 1

# ---- calibrated ----

# A text of a few hundred windows' tokens that is in the tree.
cat docs/*.md >"$scratch/text"
# The importance of heads takes nearly all of the time: of one window, or where nothing looks at it of none.
cal=("${t[@]}" --calibrate "$scratch/text" --calibrate-tokens 1024 --head-tokens 512)
short=("${t[@]}" --calibrate "$scratch/text" --calibrate-tokens 1024 --head-tokens 0)
for bad in "--pruning 1.1" "--pruning x" "--hot -1" "--outlier-channels 0" "--outlier-channels 1" "--smooth 2" "--smooth nan" "--smooth any" "--smooth-bits 0.5" "--smooth-bits 9" "--calibrate-tokens 0"; do
	# shellcheck disable=SC2086
	refuses "$bad" 2 "${bad%% *}: " "${cal[@]}" $bad "$model" "$out" f16
done
for option in "--pruning 0.5" "--profile sd8gen3" "--hot 0.5" "--outlier-channels 0.01" "--smooth 0.5" "--smooth auto" "--smooth-bits 4" "--calibrate-tokens 1000" -v; do
	# shellcheck disable=SC2086
	refuses "$option without --calibrate" 2 "go with --calibrate" "${t[@]}" $option "$model" "$out" f16
done
refuses "calibrating a shape" 2 "--calibrate takes a model" "${t[@]}" --calibrate "$scratch/text" --synthetic qwen2.5-0.5b "$out" f16
refuses "a text that does not exist" 1 "none.txt: No such file" "${t[@]}" --calibrate none.txt "$model" "$out" f16
refuses "an empty text" 1 "/dev/null: is empty" "${t[@]}" --calibrate /dev/null "$model" "$out" f16
refuses "a text that is too short" 1 "p1.txt: has 70 tokens, a window 512: give a longer text" "${t[@]}" --calibrate "$refs/p1.txt" "$model" "$out" f16
refuses "too few tokens" 1 "511 tokens .*less than a window: allow 512" "${cal[@]}" --calibrate-tokens 511 "$model" "$out" f16
refuses "calibrating a packed file" 1 "w8a8.gguf: packed for the NPU.*take the original" "${cal[@]}" "$scratch/w8a8.gguf" "$out" w8a8
refuses "calibrating a damaged model" 1 "cut.gguf.*truncated" "${cal[@]}" "$scratch/cut.gguf" "$out" f16
refuses "calibrating, and no place to write" 1 "/nonexistent/x.*No such file" "${cal[@]}" "$model" /nonexistent/x f16
refuses "smoothing what is kept" 2 "--smooth changes the weights, whose numbers native keeps" "${cal[@]}" --smooth 0.5 "$model" "$out" native
same "a refusal of a calibration leaves nothing behind" "none$(find "$scratch" -name 'out.gguf.*')" none

passes "calibrated q8_0" "${cal[@]}" -v "$scratch/f32.gguf" "$scratch/cal.gguf" q8_0
true_in_python "-v prints 24 inputs, of which 15 % are kept, the most important ones" "
lines = open(sys.argv[1]).read().splitlines()
head, rows = lines[0].split(), [l.split() for l in lines[1:25]]
assert head == 'layer input channels scale limit importance outliers cold hot kept'.split(), head
assert [(int(r[0]), r[1]) for r in rows] == [(l, i) for l in range(6) for i in 'attn_qkv attn_output ffn_gate_up ffn_down'.split()]
kept = sorted((float(r[5]) for r in rows if r[9] == 'yes'), reverse=True)
rest = [float(r[5]) for r in rows if r[9] == 'no']
assert len(kept) == 4 and len(rest) == 20 and min(kept) >= max(rest), (kept, rest)
for r in rows:
    k, scale, limit, importance, outliers, cold, hot = map(float, r[2:9])
    assert k == (768 if r[1] == 'ffn_down' else 256)
    assert abs(limit / scale / importance - 1) < 0.02 and importance > 126.9
    assert 0 <= cold <= outliers <= k and 1 <= hot <= k
assert re.search('calibrated with 1024 tokens; 4 of 24 inputs are kept', lines[25])
assert re.search(r'56 tensors, 23081984 -> 6140928 bytes, 8.51 bits per weight, [0-9]+ bytes for the outliers of 4 inputs', lines[26]), lines[26]
" "$scratch/out"
# With FULL=1 the importance of heads, too.
threads=("${short[@]}")
[ -z "${FULL:-}" ] || threads=("${cal[@]}")
passes "calibrated with one thread" "${threads[@]}" -t 1 "$scratch/f32.gguf" "$scratch/t1.gguf" q8_0
passes "calibrated with three threads" "${threads[@]}" -t 3 "$scratch/f32.gguf" "$scratch/t3.gguf" q8_0
cmp "$scratch/t1.gguf" "$scratch/t3.gguf" >"$scratch/err" 2>&1 && ok "the same file with three threads" || not_ok "the same file with three threads" "$(<"$scratch/err")"
passes "a calibrated file again, as it is" "${t[@]}" "$scratch/cal.gguf" "$scratch/again.gguf" q8_0
cmp "$scratch/cal.gguf" "$scratch/again.gguf" >"$scratch/err" 2>&1 && ok "its calibration stays" || not_ok "its calibration stays" "$(<"$scratch/err")"
passes "a calibrated file calibrated again" "${short[@]}" "$scratch/cal.gguf" "$scratch/twice.gguf" q8_0
same "the new calibration replaces the old one" "$(grep -ao 'vnpu\.shadow\.hot_counts\|blk\.[0-9]*\.[a-z_]*\.shadow' "$scratch/twice.gguf" | sort | uniq -c | awk '{ n[$1]++ } END { print n[1] }')" 5
cpu() { "$bin/llm-logits" --placement cpu --tokens 1,5,900,77,3,1200 -o json "$@" >"$scratch/logits" 2>&1 && sed 's/.*"logits"://' "$scratch/logits" || cat "$scratch/logits"; }
same "without static activations it computes the same" "$(cpu -m "$scratch/cal.gguf")" "$(cpu -m "$model")"
passes "calibrated w8a8" "${short[@]}" "$scratch/f32.gguf" "$scratch/cal8.gguf" w8a8
same "packed, too" "$(logits -m "$scratch/cal8.gguf")" "$(logits -m "$model" --weights w8a8)"
passes "packing a calibrated file" "${t[@]}" "$scratch/cal.gguf" "$scratch/cal8b.gguf" w8a8
shadows() { grep -ao 'blk\.[0-9]*\.[a-z_]*\.shadow' "$1"; }
same "keeps the weights for outliers" "$(shadows "$scratch/cal8b.gguf")" "$(shadows "$scratch/cal8.gguf")"
passes "--profile" "${short[@]}" --profile sd8gen3 "$scratch/f32.gguf" "$scratch/chunk.gguf" q8_0
chunk=$(sed -n 's/.*prompts in chunks of \([0-9]*\) tokens are the fastest on sd8gen3$/\1/p' "$scratch/out")
# pp CHUNK: what 1024 tokens take there in chunks of so many, in ns; 0: of as many as the file says.
pp() {
	local with=()
	[ "$1" = 0 ] || with=(--chunk "$1")
	"$bin/llm-bench" -m "$scratch/chunk.gguf" --dry-run --preset llm.npu --profile sd8gen3 "${with[@]}" -p 1024 -n 0 -o json |
		sed -n 's/^ *"avg_ns": \([0-9]*\),$/\1/p'
}
same "an engine takes the file's chunks" "$(pp 0)" "$(pp "$chunk")"
for other in 32 64 128 256 512 1024; do
	[ "$(pp "$chunk")" -le "$(pp $other)" ] && ok "no slower than chunks of $other" || not_ok "no slower than chunks of $other" "$chunk: $(pp "$chunk"), $(pp $other) ns"
done
refuses "a soc that is not there" 1 "no-such-soc" "${cal[@]}" --profile no-such-soc "$scratch/f32.gguf" "$scratch/chunk.gguf" q8_0
for pruning in "0 24" "0.5 12" "1 0"; do
	passes "--pruning ${pruning% *}" "${short[@]}" --pruning "${pruning% *}" "$scratch/f32.gguf" "$scratch/pruned.gguf" f16
	same "keeps ${pruning#* } inputs" "$(shadows "$scratch/pruned.gguf" | wc -l)" "${pruning#* }"
done
passes "calibrated from a file" "${short[@]}" "$scratch/f32.gguf" "$scratch/file.gguf" q8_0
passes "calibrated from standard input" bash -c '"$0" --calibrate - --calibrate-tokens 1024 --head-tokens 0 "$1" "$2" q8_0 <"$3"' "$bin/llm-quantize" "$scratch/f32.gguf" "$scratch/stdin.gguf" "$scratch/text"
cmp "$scratch/file.gguf" "$scratch/stdin.gguf" >"$scratch/err" 2>&1 && ok "the same file from standard input" || not_ok "the same file from standard input" "$(<"$scratch/err")"

passes "smoothed" "${short[@]}" --smooth 0.5 -v "$scratch/f32.gguf" "$scratch/smooth.gguf" f32
head -25 "$scratch/out" >"$scratch/smooth.txt"
near "a smoothed file computes the same" "$(ppl "$scratch/smooth.gguf")" "$(ppl "$scratch/f32.gguf")" 1e-4
passes "the smoothed file calibrated" "${short[@]}" -v "$scratch/smooth.gguf" "$out" f32
true_in_python "the calibration is the smoothed model's" "
a, b = ([l.split() for l in open(f).read().splitlines()[1:25]] for f in sys.argv[1:])
assert len(a) == 24
for x, y in zip(a, b):
    assert x[:3] == y[:3] and all(abs(float(p) / float(q) - 1) < 0.02 for p, q in zip(x[3:6], y[3:6])), (x, y)
" "$scratch/smooth.txt" "$scratch/out"
for kind in auto weights; do
	passes "smoothed with searched exponents: $kind" "${short[@]}" --smooth $kind --smooth-bits 4 -v "$scratch/f32.gguf" "$scratch/$kind.gguf" f32
	awk 'NR > 1 && NR <= 25 { print $NF }' "$scratch/out" >"$scratch/$kind.txt"
	near "$kind computes the same" "$(ppl "$scratch/$kind.gguf")" "$(ppl "$scratch/f32.gguf")" 1e-4
done
true_in_python "activations of one scale want larger exponents than floats" "
a, b = ([float(l) for l in open(f)] for f in sys.argv[1:])
assert len(a) == 24 and all(0 <= x <= 1 for x in a + b), (a, b)
assert len(set(a)) > 1 and sum(a) > sum(b), (a, b)
" "$scratch/auto.txt" "$scratch/weights.txt"
passes "exponents for 8 bits" "${short[@]}" --smooth auto -v "$scratch/f32.gguf" "$out" f32
awk 'NR > 1 && NR <= 25 { print $NF }' "$scratch/out" >"$scratch/8.txt"
true_in_python "and so do wider weights" "
a, b = (sum(float(l) for l in open(f)) for f in sys.argv[1:])
assert a > b, (a, b)
" "$scratch/8.txt" "$scratch/auto.txt"
passes "exponents for adaptive" "${short[@]}" --smooth auto --bits 4 -v "$scratch/f32.gguf" "$scratch/adaptive4.gguf" adaptive
same "are those for its average width" "$(awk 'NR > 1 && NR <= 25 { print $NF }' "$scratch/out")" "$(<"$scratch/auto.txt")"
passes "smoothed and packed" "${short[@]}" --smooth 0.5 "$scratch/f32.gguf" "$scratch/smooth8.gguf" w8a8
passes "the smoothed file packed" "${t[@]}" "$scratch/smooth.gguf" "$scratch/smooth8b.gguf" w8a8
same "smoothed and packed at once, or one after the other" "$(logits -m "$scratch/smooth8.gguf")" "$(logits -m "$scratch/smooth8b.gguf")"

# ---- synthetic models ----

shape() { # NAME KEY=VALUE...: makes a small shape with these values
	printf '[model]\nlayers = 2\ndim = 64\nheads = 4\nkv_heads = 2\nhead_dim = 16\nffn = 96\nvocab = 400\nactivation = silu\ngated = yes\ntied = yes\nqkv_bias = no\n' >"$scratch/$1.conf"
	local change
	for change in "${@:2}"; do
		sed -i "s/^${change%%=*} = .*/${change%%=*} = ${change#*=}/" "$scratch/$1.conf"
	done
}
shape tied
shape untied tied=no qkv_bias=yes head_dim=32
shape odd dim=80
shape relu activation=relu
shape plain gated=no
shape head head_dim=15
shape few vocab=100

for name in tied untied; do
	for type in f32 f16 q8_0 q4_0 q4_1 q5_0 q5_1; do
		passes "synthetic $name, $type" "${t[@]}" --synthetic "$scratch/$name.conf" "$out" $type --seed 7
		for preset in cpu npu; do
			run "$bin/llm-cli" -m "$out" -p "ab c" -n 8 --ids --temp 0 --preset $preset -t 1
			first=$(<"$scratch/out")
			[ $rc -eq 0 ] && [ "$(wc -w <"$scratch/out")" -ge 8 ] && ok "$name $type generates, $preset" ||
				not_ok "$name $type generates, $preset" "$(outcome)"
			run "$bin/llm-cli" -m "$out" -p "ab c" -n 8 --ids --temp 0 --preset $preset -t 3
			same "$name $type generates the same with three threads, $preset" "$(<"$scratch/out")" "$first"
		done
	done
done
shape mha kv_heads=4
for arch in qwen2 qwen3 internlm2 granite smollm3 olmo2 gemma gemma2 gemma3 phi3 phi2 stablelm starcoder2 phonelm; do
	model_of=$scratch/$arch.gguf
	passes "synthetic $arch" "${t[@]}" --synthetic "$scratch/mha.conf" --arch $arch "$model_of" q8_0
	passes "$arch packed" "${t[@]}" "$model_of" "$scratch/packed.gguf" w8a8
	passes "$arch in fewer bits" "${t[@]}" "$model_of" "$scratch/adaptive.gguf" adaptive --bits 4
	passes "and it runs" "$bin/llm-logits" -m "$scratch/adaptive.gguf" --tokens 1,300,301 --placement npu -o text
	run "$bin/llm-logits" -m "$model_of" --tokens 1,300,301 --placement npu --weights w8a8 -o text
	same "packed $arch has the same logits" "$("$bin/llm-logits" -m "$scratch/packed.gguf" --tokens 1,300,301 --placement npu -o text)" "$(<"$scratch/out")"
	for placement in fine linear 'linear --floats all' 'gpu --gpu host'; do
		same "$arch, placement $placement: the NPU's logits" \
			"$("$bin/llm-logits" -m "$scratch/packed.gguf" --tokens 1,300,301 --placement $placement -o text)" "$(<"$scratch/out")"
	done
done
experts() { # NAME ARCH KEY=VALUE...: a model with experts in the architecture
	shape "$1" ffn=64
	printf '%s\n' experts=4 experts_used=2 "${@:3}" >>"$scratch/$1.conf"
	passes "synthetic $1" "${t[@]}" --synthetic "$scratch/$1.conf" --arch "$2" "$scratch/$1.gguf" f16
	passes "$1 packed" "${t[@]}" "$scratch/$1.gguf" "$scratch/packed.gguf" w8a8
	run "$bin/llm-logits" -m "$scratch/$1.gguf" --tokens 1,300,301 --weights w8a8 -o text
	same "packed $1 has the same logits" "$("$bin/llm-logits" -m "$scratch/packed.gguf" --tokens 1,300,301 -o text)" "$(<"$scratch/out")"
	passes "$1 in four bits" "${t[@]}" "$scratch/$1.gguf" "$scratch/packed.gguf" q4_0
	passes "and it runs" "$bin/llm-logits" -m "$scratch/packed.gguf" --tokens 1,300,301 --placement cpu -o text
}
experts mixtral llama
experts qwen2moe qwen2moe shared_ffn=128
experts qwen3moe qwen3moe
refuses "calibrating experts" 1 "a llama model with experts are not calibrated" "${t[@]}" --calibrate "$scratch/text" "$scratch/mixtral.gguf" "$out" f16
refuses "experts in a gemma" 1 "gemma models have none" "${t[@]}" --synthetic "$scratch/mixtral.conf" --arch gemma "$out" f16
refuses "a qwen3moe without experts" 1 "qwen3moe models have some" "${t[@]}" --synthetic "$scratch/mha.conf" --arch qwen3moe "$out" f16
refuses "a qwen2moe without an expert for all" 1 "an expert for all tokens" "${t[@]}" --synthetic "$scratch/mixtral.conf" --arch qwen2moe "$out" f16
refuses "a graph of experts" 1 "choose fine, or cpu" "$bin/llm-logits" -m "$scratch/mixtral.gguf" --tokens 1,300,301 --placement npu -o text
refuses "static activations of experts" 1 "has experts, whose inputs are not calibrated" "$bin/llm-logits" -m "$scratch/mixtral.gguf" --tokens 1,300,301 --activations static -o text
refuses "an unknown architecture" 1 "'mamba' is not known; there are llama" "${t[@]}" --synthetic "$scratch/mha.conf" --arch mamba "$out" f16
refuses "--arch without --synthetic" 2 "go with --synthetic" "${t[@]}" "$model" "$out" f16 --arch gemma
refuses "calibrating a gemma" 1 "a gemma model are not calibrated" "${t[@]}" --calibrate "$scratch/text" "$scratch/gemma.gguf" "$out" f16
same "the vocabulary's words are found" "$("$bin/llm-vocab" --encode <(printf 'ab c') "$out" | wc -l)" 3
make_synthetic() { "${t[@]}" --synthetic "$scratch/tied.conf" "$@" >/dev/null; }
make_synthetic "$scratch/a.gguf" q8_0 --seed 7 -t 1
make_synthetic "$scratch/b.gguf" q8_0 --seed 7 -t 4
make_synthetic "$scratch/c.gguf" q8_0 --seed 8
make_synthetic "$scratch/v.gguf" q8_0 --seed 7 --vocab 1000
cmp "$scratch/a.gguf" "$scratch/b.gguf" >"$scratch/err" 2>&1 && ok "the same seed gives the same file" || not_ok "the same seed gives the same file" "$(<"$scratch/err")"
# The name, which includes the seed, differs too, but only by a few bytes.
differ=$(cmp -l "$scratch/a.gguf" "$scratch/c.gguf" | wc -l)
[ "$differ" -gt 10000 ] && ok "another seed gives other weights" || not_ok "another seed gives other weights" "$differ bytes differ"
passes "--vocab" "$bin/llm-logits" -m "$scratch/v.gguf" --tokens 1,999 --preset cpu -o json
true_in_python "--vocab is the number of logits, all finite" "
l = json.load(open(sys.argv[1]))['logits']
assert len(l) == 1000 and all(map(math.isfinite, l)) and 0.3 < (sum(x * x for x in l) / 1000) ** 0.5 < 3
" "$scratch/out"
grep -aq 'synthetic tied, seed 7' "$scratch/a.gguf" && ok "the file says that it is synthetic" || not_ok "the file says that it is synthetic"
passes "rows that are no multiple of a block" "${t[@]}" --synthetic "$scratch/odd.conf" "$out" q4_0
passes "and they can be loaded" "$bin/llm-logits" -m "$out" --tokens 1,2 --preset cpu
# The last value of the last tensor, [96, 64].
"${t[@]}" --synthetic "$scratch/tied.conf" "$scratch/nan.gguf" f32 >/dev/null
printf '\0\0\300\177' | dd of="$scratch/nan.gguf" bs=4 seek=$(($(stat -c %s "$scratch/nan.gguf") / 4 - 1)) conv=notrunc status=none
rm -f "$out"
for type in f16 q8_0 q4_0 q4_1 q5_0 q5_1; do
	refuses "NaN in a matrix, $type" 1 "nan.gguf: tensor blk.1.ffn_down.weight: value 6143 is nan, which ${type^^}" "${t[@]}" "$scratch/nan.gguf" "$out" $type
done
same "an error leaves nothing behind" "none$(find "$scratch" -name 'out.gguf*' -o -name '.vnpu-*')" none
refuses "unknown shape" 1 "no-such-shape.*share/shapes" "${t[@]}" --synthetic no-such-shape "$out" f16
for name in relu plain; do
	refuses "shape that cannot be executed: $name" 1 "shape $name: only gated SiLU" "${t[@]}" --synthetic "$scratch/$name.conf" "$out" f16
done
refuses "heads of an odd size" 1 "head_dim = 15" "${t[@]}" --synthetic "$scratch/head.conf" "$out" f16
refuses "a vocabulary that is too small" 1 "100.*--vocab 260" "${t[@]}" --synthetic "$scratch/few.conf" "$out" f16
finish
