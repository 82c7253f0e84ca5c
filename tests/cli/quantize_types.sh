#!/bin/bash
# SPDX-License-Identifier: MIT
# llm-quantize as llama-quantize is called: K-quants and their mixes, types of single tensors, importance, and its order of words.
set -u
. tests/cli/common.bash

t=("$bin/llm-quantize")
out=$scratch/out.gguf
"${t[@]}" "$model" "$scratch/f32.gguf" f32 >"$scratch/log" 2>&1 || not_ok "f32" "$(<"$scratch/log")"
f32=$scratch/f32.gguf

# types FILE: the types of its tensors, as "NAME TYPE" lines.
types() {
	python3 - "$1" <<'PYTHON'
import struct, sys
d = open(sys.argv[1], "rb").read()
names = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K",
         14: "Q6_K", 20: "IQ4_NL"}
at = 24
def number(size):
    global at
    at += size
    return int.from_bytes(d[at - size:at], "little")
def string():
    global at
    n = number(8)
    at += n
    return d[at - n:at].decode(errors="replace")
def skip(kind):
    global at
    if kind == 8:
        string()
    elif kind == 9:
        inner, n = number(4), number(8)
        for _ in range(n):
            skip(inner)
    else:
        at += {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}[kind]
n_tensors, n_keys = struct.unpack("<QQ", d[8:24])
for _ in range(n_keys):
    key = string()
    kind = number(4)
    if key == "general.file_type":
        print("file_type", int.from_bytes(d[at:at + 4], "little"))
    skip(kind)
for _ in range(n_tensors):
    name = string()
    dims = [number(8) for _ in range(number(4))]
    print(name, names[number(4)])
    number(8)
PYTHON
}
# counts FILE: how many matrices have each type.
counts() { types "$1" | awk '$1 != "file_type" && $2 != "F32" { n[$2]++ } END { for (t in n) print t "x" n[t] }' | sort | xargs; }
ppl() { "$bin/llm-perplexity" -m "$1" -f "$scratch/text" -c 128 --preset cpu -o json 2>&1 | python3 -c "import json, sys; print(json.load(sys.stdin)['perplexity'])"; }
cat "$refs"/p[1-4].txt >"$scratch/text"

# ---- K-quants: the mixes that llama-quantize makes of this model ---------------------------------

for mix in "q2_k Q2_Kx24 Q3_Kx18 Q6_Kx1" "q3_k_m Q3_Kx24 Q4_Kx16 Q5_Kx2 Q6_Kx1" "q4_k_s Q4_Kx38 Q5_Kx4 Q6_Kx1" "q4_k_m Q4_Kx38 Q6_Kx5" \
	"q5_k_m Q5_Kx38 Q6_Kx5" "q6_k Q6_Kx43"; do
	type=${mix%% *}
	passes "$type" "${t[@]}" "$f32" "$scratch/$type.gguf" "${type^^}"
	same "$type has llama-quantize's types" "$(counts "$scratch/$type.gguf")" "${mix#* }"
done
same "file types are llama.cpp's" "$(for f in q2_k q3_k_m q4_k_s q4_k_m q5_k_m q6_k; do types "$scratch/$f.gguf" | sed -n 's/file_type //p'; done | xargs)" "10 12 14 15 17 18"
run "${t[@]}" "$f32" "$out" q4_k
cmp -s "$out" "$scratch/q4_k_m.gguf" && ok "q4_k is q4_k_m" || not_ok "q4_k is q4_k_m"
run "${t[@]}" "$f32" "$out" q4_k_m 1
cmp -s "$out" "$scratch/q4_k_m.gguf" && ok "one thread gives the same file" || not_ok "one thread gives the same file"
want=$(ppl "$f32")
for bound in q6_k:0.004 q5_k_m:0.008 q4_k_m:0.02 q3_k_m:0.06 q2_k:0.2; do
	true_in_python "${bound%:*} is near f32" "a, b = map(float, sys.argv[1:]); print(a, b); assert abs(a - b) <= ${bound#*:} * b" "$(ppl "$scratch/${bound%:*}.gguf")" "$want"
done
sed 's/^layers .*/layers = 8/' share/shapes/qwen2.5-0.5b.conf >"$scratch/short.conf"
passes "rows that are no multiple of 256" "${t[@]}" --synthetic "$scratch/short.conf" "$out" q4_k_m --vocab 300
same "become types of smaller blocks, as in llama.cpp" "$(counts "$out" | sed 's/x[0-9]*//g')" "Q4_K Q5_0 Q6_K Q8_0"
same "matrix by matrix" "$(types "$out" | grep -E '^(token_embd|blk\.(0|3)\.(attn_q|attn_v|ffn_down|ffn_up))\.weight' | xargs)" \
	"token_embd.weight Q8_0 blk.0.attn_q.weight Q5_0 blk.0.attn_v.weight Q8_0 blk.0.ffn_up.weight Q5_0 blk.0.ffn_down.weight Q6_K blk.3.attn_q.weight Q5_0 blk.3.attn_v.weight Q8_0 blk.3.ffn_up.weight Q5_0 blk.3.ffn_down.weight Q6_K"

# ---- single tensors ------------------------------------------------------------------------------

passes "--tensor-type" "${t[@]}" --tensor-type 'ffn_down=q6_k' --tensor-type '\.[01]\.attn_v=Q8_0' --tensor-type 'attn_v=q5_k' "$f32" "$out" q4_k_s
same "the first that fits counts" "$(types "$out" | grep -E 'blk\.(0|2)\.(attn_v|ffn_down|ffn_up)' | xargs)" \
	"blk.0.attn_v.weight Q8_0 blk.0.ffn_down.weight Q6_K blk.0.ffn_up.weight Q4_K blk.2.attn_v.weight Q5_K blk.2.ffn_down.weight Q6_K blk.2.ffn_up.weight Q4_K"
passes "--token-embedding-type" "${t[@]}" --token-embedding-type q5_k "$f32" "$out" q4_k_m
same "its type" "$(types "$out" | sed -n 's/^token_embd.weight //p')" Q5_K
passes "--output-tensor-type of a model whose embeddings are that" "${t[@]}" --output-tensor-type q5_k "$f32" "$out" q4_k_m
same "the embeddings have it" "$(types "$out" | sed -n 's/^token_embd.weight //p')" Q5_K
passes "--pure" "${t[@]}" --pure "$f32" "$out" q4_k_m
same "one type" "$(counts "$out")" Q4_Kx43
refuses "a pattern that fits nothing" 1 "'ffn_dawn' fits no matrix" "${t[@]}" --tensor-type ffn_dawn=q6_k "$f32" "$out" q4_k_m
passes "--leave-output-tensor of a model without one" "${t[@]}" --leave-output-tensor "$f32" "$out" q4_k_m
cmp -s "$out" "$scratch/q4_k_m.gguf" && ok "changes nothing" || not_ok "changes nothing"
refuses "a type of files" 1 "'q4_k_m' is no type of tensors: choose .*q4_k" "${t[@]}" --tensor-type ffn_down=q4_k_m "$f32" "$out" q4_k_m
refuses "a type that is only read" 1 "'iq2_xs' is a type that is only read" "${t[@]}" --tensor-type ffn_down=iq2_xs "$f32" "$out" q4_k_m
refuses "no regular expression" 1 "'\(' is no regular expression" "${t[@]}" --tensor-type '(=q6_k' "$f32" "$out" q4_k_m
for bad in ffn_down =q6_k ffn_down= ''; do
	refuses "--tensor-type '$bad'" 2 "NAME=TYPE" "${t[@]}" --tensor-type "$bad" "$f32" "$out" q4_k_m
done
refuses "a tensor's type in a packed file" 2 "not packed" "${t[@]}" --tensor-type ffn_down=q6_k "$f32" "$out" w8a8

# ---- importance ----------------------------------------------------------------------------------

# Odd channels count a thousandth; in the two formats.
python3 - "$scratch" <<'PYTHON'
import struct, sys
names = [f"blk.{i}.{k}.weight" for i in range(6) for k in ("ffn_up", "ffn_gate", "attn_q", "attn_k", "attn_v", "attn_output")]
means = [0.001 if i % 2 else 1.0 for i in range(256)]
with open(sys.argv[1] + "/old.dat", "wb") as f:
    f.write(struct.pack("<i", len(names)))
    for n in names:
        f.write(struct.pack("<i", len(n)) + n.encode() + struct.pack("<ii", 4, 256) + struct.pack("<256f", *(4 * v for v in means)))
    f.write(struct.pack("<ii", 4, 4) + b"text")
string = lambda s: struct.pack("<Q", len(s)) + s.encode()
tensors, data = b"", b""
for n in names:
    for name, dims, values in ((n + ".in_sum2", (256, 1), [8 * v for v in means]), (n + ".counts", (1, 1), [8.0])):
        tensors += string(name) + struct.pack("<I2QIQ", 2, *dims, 0, len(data))
        data += struct.pack(f"<{len(values)}f", *values)
        data += bytes(-len(data) % 32)
head = b"GGUF" + struct.pack("<IQQ", 3, 2 * len(names), 1) + string("general.type") + struct.pack("<I", 8) + string("imatrix") + tensors
open(sys.argv[1] + "/new.gguf", "wb").write(head + bytes(-len(head) % 32) + data)
PYTHON
for file in old.dat new.gguf; do
	run "${t[@]}" --imatrix "$scratch/$file" "$f32" "$scratch/$file.q" q3_k_s
	if [ $rc -eq 0 ] && grep -q 'says nothing of 7 tensors' "$scratch/err" && [ "$(wc -l <"$scratch/err")" -eq 1 ]; then ok "--imatrix $file"; else not_ok "--imatrix $file" "$(outcome)"; fi
done
cmp -s "$scratch/old.dat.q" "$scratch/new.gguf.q" && ok "both formats give the same file" || not_ok "both formats give the same file"
passes "q3_k_s without" "${t[@]}" "$f32" "$scratch/plain.q" q3_k_s
for q in old.dat plain; do "${t[@]}" "$scratch/$q.q" "$scratch/$q.f32" f32 >"$scratch/log" 2>&1; done
true_in_python "important channels lose less, and others more" "
import array
def tensor(path):
    d = open(path, 'rb').read()
    name = b'blk.2.ffn_up.weight'
    at = d.index(len(name).to_bytes(8, 'little') + name) + 8 + len(name) + 4
    cols, rows = (int.from_bytes(d[at + 8 * i:at + 8 * i + 8], 'little') for i in range(2))
    offset = int.from_bytes(d[at + 20:at + 28], 'little')
    return cols, cols * rows, d, offset
def values(path):
    cols, n, d, offset = tensor(path)
    # The last tensor's end is the file's, so the data's start follows from the F32 file's size.
    start = len(d) - sizes
    return cols, array.array('f', d[start + offset:start + offset + 4 * n])
sizes = 23081984
cols, a = values(sys.argv[1])
errors = []
for path in sys.argv[2:]:
    _, b = values(path)
    errors.append([sum((a[i] - b[i]) ** 2 for i in range(len(a)) if i % 2 == odd) for odd in (0, 1)])
print(errors)
(w_in, w_out), (p_in, p_out) = errors
assert w_in < 0.9 * p_in and w_out > p_out, errors
" "$f32" "$scratch/old.dat.f32" "$scratch/plain.f32"
refuses "an imatrix that is none" 1 "not a file of llama-imatrix" "${t[@]}" --imatrix "$model" "$f32" "$out" q4_k_m
head -c 20000 "$scratch/old.dat" >"$scratch/short.dat"
refuses "an imatrix that ends early" 1 "short.dat: (ends within|entry)" "${t[@]}" --imatrix "$scratch/short.dat" "$f32" "$out" q4_k_m
refuses "an imatrix that is not there" 1 "no-such: No such file" "${t[@]}" --imatrix "$scratch/no-such" "$f32" "$out" q4_k_m
# entry VALUE CHANNELS: an imatrix of one matrix.
entry() {
	python3 -c '
import struct, sys
n, value, channels = b"blk.0.ffn_up.weight", float(sys.argv[1]), int(sys.argv[2])
sys.stdout.buffer.write(struct.pack("<ii", 1, len(n)) + n + struct.pack("<ii", 1, channels) + struct.pack("<f", value) * channels)' "$@"
}
entry -1 256 >"$scratch/negative.dat"
refuses "an imatrix with negative values" 1 "channel 0 of blk.0.ffn_up.weight has no importance" "${t[@]}" --imatrix "$scratch/negative.dat" "$f32" "$out" q4_k_m
entry 1 128 >"$scratch/narrow.dat"
refuses "an imatrix of another model" 1 "blk.0.ffn_up.weight has 128 channels, and 256 in" "${t[@]}" --imatrix "$scratch/narrow.dat" "$f32" "$out" q4_k_m

# ---- the order of words --------------------------------------------------------------------------

cp "$f32" "$scratch/model.gguf"
passes "IN TYPE" "${t[@]}" "$scratch/model.gguf" q4_k_m
cmp -s "$scratch/ggml-model-Q4_K_M.gguf" "$scratch/q4_k_m.gguf" && ok "is named as llama-quantize does" || not_ok "is named as llama-quantize does" "$(ls "$scratch")"
passes "options, IN OUT TYPE THREADS" "${t[@]}" --allow-requantize --token-embedding-type q6_k "$f32" "$out" Q4_K_M 2
cmp -s "$out" "$scratch/q4_k_m.gguf" && ok "the same file" || not_ok "the same file"
refuses "threads that are none" 2 "THREADS: 'x'" "${t[@]}" "$f32" "$out" q4_k_m x
refuses "no thread" 2 "THREADS: '0'" "${t[@]}" "$f32" "$out" q4_k_m 0
refuses "--keep-split" 2 "one file is written" "${t[@]}" --keep-split "$f32" "$out" q4_k_m
finish
