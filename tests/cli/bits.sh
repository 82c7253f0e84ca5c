#!/bin/bash
# SPDX-License-Identifier: MIT
# build/experiments/bits: rounded models have the numbers that each way of quantising allows and the average that was asked for,
# other tensors stay, and wrong command lines are refused.
set -u
. tests/cli/common.bash

t=("$BUILD/experiments/bits")
out=$scratch/out.gguf

passes "--help" "${t[@]}" --help
refuses "no arguments" 2 "--help" "${t[@]}"
refuses "no method" 2 "--method and --bits" "${t[@]}" "$model" "$out" --bits 4
refuses "an unknown option" 2 "unknown option '--no-such'" "${t[@]}" --no-such
refuses "an unknown method" 2 "--method: 'awq' is none of" "${t[@]}" "$model" "$out" --bits 4 --method awq
refuses "no width" 2 "--bits: " "${t[@]}" "$model" "$out" --bits 9 --method adaptive
refuses "a fraction for all channels" 2 "only adaptive ways take 4.5" "${t[@]}" "$model" "$out" --bits 4.5 --method uniform
refuses "cmpq without a text" 2 "--text goes with" "${t[@]}" "$model" "$out" --bits 4 --method cmpq
refuses "adaptive-model without a text" 2 "--text goes with" "${t[@]}" "$model" "$out" --bits 4 --method adaptive-model
refuses "a text for uniform" 2 "--text goes with" "${t[@]}" "$model" "$out" --bits 4 --method uniform --text README.md
refuses "more bits than cmpq has" 2 "give 2 to 7" "${t[@]}" "$model" "$out" --bits 8 --method cmpq --text README.md
refuses "a file that does not exist" 1 "none.gguf.*No such file" "${t[@]}" none.gguf "$out" --bits 4 --method uniform
"$bin/llm-quantize" "$model" "$scratch/w8a8.gguf" w8a8 >/dev/null
refuses "a packed file" 1 "is packed, for w8a8" "${t[@]}" "$scratch/w8a8.gguf" "$out" --bits 4 --method uniform
same "a refusal leaves nothing behind" "none$(find "$scratch" -name 'out.gguf*')" none

# A model small enough for Python: matrices of 64 or 96 columns.
printf '[model]\nlayers = 2\ndim = 64\nheads = 4\nkv_heads = 2\nhead_dim = 16\nffn = 96\nvocab = 400\nactivation = silu\ngated = yes\ntied = no\nqkv_bias = yes\n' >"$scratch/qwen2.conf"
"$bin/llm-quantize" --synthetic "$scratch/qwen2.conf" "$scratch/in.gguf" f32 --seed 3 >/dev/null
cat docs/*.md | head -c 40000 >"$scratch/text"
cat >"$scratch/read.py" <<'PYTHON'
import struct, sys

def tensors(path):
    """{name: (dims, values)} of a file with F32 tensors only."""
    data, at = open(path, "rb").read(), 24
    def take(fmt):
        nonlocal at
        v = struct.unpack_from("<" + fmt, data, at)[0]
        at += struct.calcsize("<" + fmt)
        return v
    def text():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode(errors="replace")
    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, n = take("I"), take("Q")
            return [value(inner) for _ in range(n)]
        return take({0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}[kind])
    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
    for _ in range(n_keys):
        text(), value(take("I"))
    infos = []
    for _ in range(n_tensors):
        name, dims = text(), [take("Q") for _ in range(take("I"))]
        assert take("I") == 0, name
        infos.append((name, dims, take("Q")))
    base = (at + 31) // 32 * 32
    result = {}
    for name, dims, offset in infos:
        n = 1
        for d in dims:
            n *= d
        result[name] = dims, struct.unpack_from(f"<{n}f", data, base + offset)
    return result

method, average = sys.argv[3], float(sys.argv[4])
before, after = tensors(sys.argv[1]), tensors(sys.argv[2])
assert before.keys() == after.keys()
bits = weights = 0
for name, (dims, values) in after.items():
    if not (name.startswith("blk.") and len(dims) == 2):
        assert before[name] == (dims, values), name
        continue
    cols, rows = dims
    assert before[name][1] != values, name
    if method.startswith("cmpq"):
        for c in range(cols):
            assert len(set(values[c::cols])) <= 2 ** (average + 1), (name, c)
        continue
    for r in range(rows):
        row = values[r * cols:(r + 1) * cols]
        was = before[name][1][r * cols:(r + 1) * cols]
        assert sum((x - y) ** 2 for x, y in zip(was, row)) < sum(x * x for x in was) / 8, (name, r)
        # Numbers of a step that is their smallest difference.
        levels = sorted(set(row))
        width = next(b for b in range(1, 9) if len(levels) <= 2 ** b)
        assert method != "uniform" or width <= average, (name, r, width)
        if len(levels) > 2:
            step = min(b - a for a, b in zip(levels, levels[1:]))
            assert all(abs(v / step - round(v / step)) < 1e-3 for v in levels), (name, r)
            assert levels[-1] / step < 2 ** 7 and levels[0] / step >= -2 ** 7 - 1e-3
PYTHON
for case in "uniform 3" "uniform 6" "adaptive 3" "adaptive 4.5" "adaptive-inputs 3" "adaptive-model 4.5" "cmpq 3" "cmpq-shared 3"; do
	method=${case% *} bits=${case#* } text=()
	[[ $method = uniform || $method = adaptive ]] || text=(--text "$scratch/text")
	passes "$case" "${t[@]}" "$scratch/in.gguf" "$out" --method "$method" --bits "$bits" "${text[@]}"
	true_in_python "$case: the average" "assert abs(float(sys.argv[1]) - float(sys.argv[2])) < 0.02, sys.argv" \
		"$(sed -n 's/.*: \([0-9.]*\) bits per weight.*/\1/p' "$scratch/out")" "$bits"
	run python3 "$scratch/read.py" "$scratch/in.gguf" "$out" "$method" "$bits"
	same "$case: the numbers that the width allows" "$rc$(<"$scratch/err")" 0
done
finish
