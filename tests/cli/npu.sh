#!/bin/bash
# SPDX-License-Identifier: MIT
# npuc and npu-info: what they print, and how they refuse.
. tests/cli/common.bash

cat >"$scratch/layer.txt" <<'GRAPH'
# attention with an INT8 projection
graph layer
param pos
input x f32 2 8
weight w w8 8 8
weight b f32 1 8
state k 16 8
state v 16 8
const f 1 2 = 1 0.01
const ones 1 8 = 1 1 1 1 1 1 1 1
h = rmsnorm x ones 1e-5
r = rope h f 2 pos halves
store r k pos
store h v pos
a = attn r k v 2 2 0.5 pos
q, s = quant a
p = matmul q s w b
d = dequant q s
e = add p d
g = silu e
m = mul g ones
y = softmax m 1 pos
sleep 1000
z = gelu y
output out z
GRAPH

passes "npuc builds a graph" "$bin/npuc" build "$scratch/layer.txt" -o "$scratch/layer.elf"
passes "npuc lists it" "$bin/npuc" dis "$scratch/layer.elf"
for op in rmsnorm rope copy attn quant matmul_i8 dequant add act mul softmax sleep barrier end; do
	grep -q ": $op" "$scratch/out" && ok "the listing has $op" || not_ok "the listing has $op" "$(<"$scratch/out")"
done
passes "npuc describes it" "$bin/npuc" info "$scratch/layer.elf"
grep -q '^one run  *624 multiply-accumulates' "$scratch/out" && ok "multiply-accumulates" || not_ok "multiply-accumulates" "$(<"$scratch/out")"
"$bin/npuc" build - -o "$scratch/stdin.elf" <"$scratch/layer.txt"
cmp -s "$scratch/layer.elf" "$scratch/stdin.elf" && ok "standard input gives the same file" || not_ok "standard input gives the same file"

bad() { # NAME PATTERN LINE...
	local name=$1 pattern=$2
	shift 2
	{ echo "graph bad"; echo "input x f32 2 8"; printf '%s\n' "$@"; } >"$scratch/bad.txt"
	refuses "$name" 1 "$pattern" "$bin/npuc" build "$scratch/bad.txt" -o "$scratch/bad.elf"
}
bad "an unknown statement" "bad.txt:3: 'outputs' is not a statement" "outputs x"
bad "an unknown operator" "bad.txt:3: 'relu' is not an operator" "y = relu x"
bad "an unknown tensor" "bad.txt:3: 'z' is not a tensor" "y = silu z"
bad "a name twice" "bad.txt:3: .*the name is taken" "input x f32 1 1"
bad "a wrong shape" "bad.txt:4: .*'w' is 3 x 8" "weight w f32 3 8" "y = add x w"
bad "a constant that is too short" "wants '=' and 4 values" "const c 1 4 = 1 2 3"
bad "a graph without an output" "no output, store or sleep" "y = silu x"
refuses "a file that is not there" 1 "No such file" "$bin/npuc" build "$scratch/none.txt" -o "$scratch/o.elf"
refuses "an ELF file that is no graph" 1 "not a compiled graph" "$bin/npuc" dis "$bin/npuc"
refuses "a text in place of an image" 1 "no ELF file" "$bin/npuc" info "$scratch/layer.txt"
refuses "no verb" 2 "build, dis or info" "$bin/npuc"
refuses "build without -o" 2 "needs -o" "$bin/npuc" build "$scratch/layer.txt"

passes "npu-info on sim" env NPU_TRANSPORT=sim "$bin/npu-info"
grep -q '^transport  *sim' "$scratch/out" && grep -q '^reason .*NPU_TRANSPORT' "$scratch/out" && ok "npu-info says why" || not_ok "npu-info says why" "$(<"$scratch/out")"
passes "npu-info --json" "$bin/npu-info" --transport sim --json
true_in_python "its JSON has the device's fields" '
d = json.load(open(sys.argv[1]))
assert d["transport"] == "sim" and d["isa"] == "1.0" and d["va_bits"] >= 30 and d["node"] is None and not d["lost"]' "$scratch/out"
refuses "npu-info with a node that is no vnpu" 1 "not a vnpu" "$bin/npu-info" --device /dev/null
refuses "npu-info with an unknown transport" 2 "auto, drm or sim" "$bin/npu-info" --transport pci
NPU_TRANSPORT=pci refuses "NPU_TRANSPORT of an unknown kind" 1 "use auto, drm or sim" "$bin/npu-info"
run "$bin/npu-info" --doctor
if [ -e /sys/module/vnpu ]; then
	grep -q '^ok    module vnpu is loaded' "$scratch/out" && ok "the doctor sees the module" || not_ok "the doctor sees the module" "$(<"$scratch/out")"
elif [ $rc -eq 1 ] && grep -q '^FAIL  module vnpu is not loaded' "$scratch/out" && grep -q 'to mend it: ' "$scratch/out"; then
	ok "the doctor names the first thing that is missing"
else
	not_ok "the doctor names the first thing that is missing" "$(<"$scratch/out")"
fi
for tool in npuc npu-info; do
	passes "$tool --help" "$bin/$tool" --help
	passes "$tool --version" "$bin/$tool" --version
done
finish
