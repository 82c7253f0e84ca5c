#!/bin/bash
# SPDX-License-Identifier: MIT
# npuc and npu-info: their output and errors.
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
u = glu g e gelu
m = mul u ones
y = softmax m 1 pos
sleep 1000
z = gelu y
output out z
GRAPH

passes "npuc builds a graph" "$bin/npuc" build "$scratch/layer.txt" -o "$scratch/layer.elf"
passes "npuc lists it" "$bin/npuc" dis "$scratch/layer.elf"
for op in rmsnorm rope copy attn quant matmul_i8 dequant add act glu mul softmax sleep barrier end; do
	grep -q ": $op" "$scratch/out" && ok "the listing has $op" || not_ok "the listing has $op" "$(<"$scratch/out")"
done
cat >"$scratch/w4.txt" <<'GRAPH'
graph w4
input x f32 3 64
weight w w4 10 64 32
q, s = quant x
y = matmul_w4 q s w
z = matmul_w4f x w
output out y
output outf z
GRAPH
passes "npuc builds a graph of 4-bit weights" "$bin/npuc" build "$scratch/w4.txt" -o "$scratch/w4.elf"
passes "npuc lists it" "$bin/npuc" dis "$scratch/w4.elf"
grep -q '^graph w4 isa=1.2 ' "$scratch/out" && grep -q ': matmul_w4 .* group=32' "$scratch/out" && grep -q ': matmul_w4f ' "$scratch/out" &&
	ok "the listing has 4-bit matmuls" || not_ok "the listing has 4-bit matmuls" "$(<"$scratch/out")"
sed 's/^output out y/permute y\n&/' "$scratch/w4.txt" >"$scratch/permuted.txt"
passes "npuc builds a permuted matmul" "$bin/npuc" build "$scratch/permuted.txt" -o "$scratch/permuted.elf"
passes "npuc lists it" "$bin/npuc" dis "$scratch/permuted.elf"
grep -q '^graph w4 isa=1.5 ' "$scratch/out" && grep -q ': matmul_w4 permuted c=out ' "$scratch/out" && grep -q ': matmul_w4f c=' "$scratch/out" &&
	ok "the listing says which is permuted" || not_ok "the listing says which is permuted" "$(<"$scratch/out")"
same "npuc info says which ISA it needs" "$("$bin/npuc" info "$scratch/permuted.elf" | sed -n 's/^isa *//p')" 1.5
sed 's/^output out y/permute x\n&/' "$scratch/w4.txt" >"$scratch/permuted.txt"
refuses "no matmul to permute" 1 "permuted.txt:7: .*'x' is no result of a matmul" "$bin/npuc" build "$scratch/permuted.txt" -o "$scratch/permuted.elf"
sed 's/ f32 3 64/ f32 96 64/; s/^output out y/shape y 6\nshape z\n&/' "$scratch/w4.txt" >"$scratch/shaped.txt"
passes "npuc builds matmuls with a shape" "$bin/npuc" build "$scratch/shaped.txt" -o "$scratch/shaped.elf" --profile sd8gen3
passes "npuc lists it" "$bin/npuc" dis --profile sd8gen3 "$scratch/shaped.elf"
grep -q '^graph w4 isa=1.7 ' "$scratch/out" && grep -Eq ': matmul_w4 .* width=6 device_ns=[0-9]+ ' "$scratch/out" &&
	grep -Eq ': matmul_w4f .* width=12 device_ns=[0-9]+ ' "$scratch/out" &&
	ok "the listing has the width stated and the one chosen" || not_ok "the listing has the width stated and the one chosen" "$(<"$scratch/out")"
for bad in "y 5:has 96 rows, which are no lines of 5" "y 0:a line of 0 rows" "y x:'x' is not an integer" "x 3:'x' is no result of a matmul" "s:'result' is no result of a matmul"; do
	sed "s/^shape y 6/shape ${bad%%:*}/" "$scratch/shaped.txt" >"$scratch/bad.txt"
	refuses "shape ${bad%%:*}" 1 "bad.txt:7: .*${bad#*:}" "$bin/npuc" build "$scratch/bad.txt" -o "$scratch/bad.elf"
done
sed 's/^output \(.*\)/output \1 12/' "$scratch/w4.txt" >"$scratch/columns.txt"
passes "npuc builds outputs that are columns of a wider matrix" "$bin/npuc" build "$scratch/columns.txt" -o "$scratch/w4.elf"
passes "npuc lists their rows" "$bin/npuc" dis "$scratch/w4.elf"
grep -q ': matmul_w4 .* ldc=12 ' "$scratch/out" && ok "rows are wider than the output" || not_ok "rows are wider than the output" "$(<"$scratch/out")"
sed -i 's/^output \(.*\) 12/output \1 9/' "$scratch/columns.txt"
refuses "a matrix narrower than its columns" 1 "the matrix is narrower than the output" "$bin/npuc" build "$scratch/columns.txt" -o "$scratch/w4.elf"
sed -i 's/ w4 10 64 32/ w4 10 64/' "$scratch/w4.txt"
refuses "w4 without a group" 1 "w4 needs a group after its shape, and no other type does" "$bin/npuc" build "$scratch/w4.txt" -o "$scratch/w4.elf"
cat >"$scratch/planes.txt" <<'GRAPH'
graph planes
input x f32 3 60
weight w w8 70 60
q, s = quant16 x
c = matmul q s w
y = fold c
output y y
GRAPH
passes "npuc builds a graph with two planes" "$bin/npuc" build "$scratch/planes.txt" -o "$scratch/planes.elf"
passes "npuc lists it" "$bin/npuc" dis "$scratch/planes.elf"
grep -q '^graph planes isa=1.4 ' "$scratch/out" && grep -q ': quant16 .* rows=3 cols=60 ' "$scratch/out" &&
	grep -q ': matmul_i8 .* m=6 n=70 ' "$scratch/out" && grep -q ': add .* rows=3 cols=70 ' "$scratch/out" &&
	ok "multiplies twice the rows and adds their halves" ||
	not_ok "multiplies twice the rows and adds their halves" "$(<"$scratch/out")"
sed -i 's/^y = fold c/y = fold x/; s/ f32 3 / f32 5 /' "$scratch/planes.txt"
refuses "fold with an odd number of rows" 1 "5 rows; needs an even number" "$bin/npuc" build "$scratch/planes.txt" -o "$scratch/planes.elf"
cat >"$scratch/static.txt" <<'GRAPH'
graph static
input x f32 3 60
weight s f32 1 1
weight w w8 70 60
q, scale = quant_static x s
y = matmul q scale w
output y y
GRAPH
passes "npuc builds a graph with a static scale" "$bin/npuc" build "$scratch/static.txt" -o "$scratch/static.elf"
passes "npuc lists it" "$bin/npuc" dis "$scratch/static.elf"
grep -q '^graph static isa=1.7 ' "$scratch/out" && grep -q ': quant_static .* static_scale=s rows=3 cols=60 ' "$scratch/out" &&
	ok "the scale is a binding" || not_ok "the scale is a binding" "$(<"$scratch/out")"
sed -i 's/^weight s f32 1 1/weight s f32 1 2/' "$scratch/static.txt"
refuses "a static scale for each column" 1 "'s' is 1 x 2, not 1 x 1" "$bin/npuc" build "$scratch/static.txt" -o "$scratch/static.elf"
cat >"$scratch/scores.txt" <<'GRAPH'
graph scores
param pos
input x f32 3 60 200
input s f32 1 1
input k k8 128 60
q, scale = quant_static x s
y = qk_i8 q k 5 pos
output y y 192
GRAPH
passes "npuc builds a graph of scores" "$bin/npuc" build "$scratch/scores.txt" -o "$scratch/scores.elf"
passes "npuc lists it" "$bin/npuc" dis "$scratch/scores.elf"
grep -q '^graph scores isa=1.9 ' "$scratch/out" && grep -q '^slot 2 input k k8 \[128\]\[60\] bytes=7680' "$scratch/out" &&
	grep -q ': quant_static .* rows=3 cols=60 ldx=200 ' "$scratch/out" &&
	grep -q ': qk_i8 .* rows=3 head_dim=60 ctx_rows=128 ldq=60 lds=192 shift=5 pos=' "$scratch/out" &&
	ok "queries are columns of a matrix, scores of another" || not_ok "queries are columns of a matrix, scores of another" "$(<"$scratch/out")"
cat >"$scratch/attn.txt" <<'GRAPH'
graph attn
input q f32 3 128
input k k8 128 64
input v v8 128 64
input s f32 1 3
y = attn_i8 q k v s 2 0.125 -
output y y
GRAPH
passes "npuc builds a graph of INT8 attention" "$bin/npuc" build "$scratch/attn.txt" -o "$scratch/attn.elf"
passes "npuc lists it" "$bin/npuc" dis "$scratch/attn.elf"
grep -q '^graph attn isa=1.9 ' "$scratch/out" && grep -q '^slot 2 input v v8 \[128\]\[64\] bytes=8192' "$scratch/out" &&
	grep -q ': attn_i8 .* rows=3 heads=2 head_dim=64 ctx_rows=128 ldq=128 ldy=128 scale=0.125' "$scratch/out" &&
	ok "one command has a KV head's queries" || not_ok "one command has a KV head's queries" "$(<"$scratch/out")"
cat >"$scratch/tree.txt" <<'GRAPH'
graph tree
param pos
input q f32 3 128
input depths u32 3 1
input mask u64 3 1
const f 1 4 = 1 0.5 0.25 0.125
state k f16 64 64
state v f16 64 64
r = rope_at q f depths 2 pos halves
t = attn_mask r k v mask 2 1 0.125 pos 0 0
y = attn_mask t k v - 2 1 0.125 pos 16 30
output y y
GRAPH
passes "npuc builds a graph for token trees" "$bin/npuc" build "$scratch/tree.txt" -o "$scratch/tree.elf"
passes "npuc lists it" "$bin/npuc" dis "$scratch/tree.elf"
grep -q '^graph tree isa=1.10 ' "$scratch/out" && grep -q '^slot 2 input mask u64 \[3\]\[1\] bytes=24' "$scratch/out" &&
	grep -q ': rope_at .* positions=depths rows=3 heads=2 head_dim=64 rot_dim=8 ' "$scratch/out" &&
	grep -q ': attn_mask .* mask=mask rows=3 heads=2 kv_heads=1 head_dim=64 ctx_rows=64 .* kv=f16 pos=pos$' "$scratch/out" &&
	grep -q ': attn_mask .* mask=none .* kv=f16 window=16 cap=30 pos=pos$' "$scratch/out" &&
	ok "positions and masks are bindings" || not_ok "positions and masks are bindings" "$(<"$scratch/out")"
cat >"$scratch/at.txt" <<'GRAPH'
graph at
param pos
input q f32 3 128
input positions u32 3 1
state k f16 64 64
state v f16 64 64
t = attn_at q k v positions 2 1 0.125 pos 40 0 0
y = attn_at t k v positions 2 1 0.125 pos 40 16 30
output y y
GRAPH
passes "npuc builds a graph of chosen rows" "$bin/npuc" build "$scratch/at.txt" -o "$scratch/at.elf"
passes "npuc lists it" "$bin/npuc" dis "$scratch/at.elf"
grep -q '^graph at isa=1.11 ' "$scratch/out" && grep -q '^slot . input positions u32 \[3\]\[1\] bytes=12' "$scratch/out" &&
	grep -q ': attn_at .* positions=positions rows=3 heads=2 kv_heads=1 head_dim=64 ctx_rows=64 .* kv=f16 span=40 pos=pos$' "$scratch/out" &&
	grep -q ': attn_at .* kv=f16 span=40 window=16 cap=30 pos=pos$' "$scratch/out" &&
	ok "span and window are listed" || not_ok "span and window are listed" "$(<"$scratch/out")"
cat >"$scratch/acts.txt" <<'GRAPH'
graph acts
input x f32 3 64
const w 1 4 = 1 2 3 4
n = layernorm x w 1e-5 w
a = gelu_erf n
b = gelu_quick a
c = relu b
d = relu_squared c
e = glu d x relu_squared
y = cap e 30
output y y
GRAPH
passes "npuc builds a graph of norms and activations" "$bin/npuc" build "$scratch/acts.txt" -o "$scratch/acts.elf"
passes "npuc lists it" "$bin/npuc" dis "$scratch/acts.elf"
grep -q '^graph acts isa=1.10 ' "$scratch/out" && grep -q ': layernorm .* w=__const bias=__const rows=48 cols=4 ' "$scratch/out" &&
	grep -q ': act gelu_erf .* rows=3 cols=64 ldx=64 ldy=64$' "$scratch/out" && grep -q ': act gelu_quick ' "$scratch/out" &&
	grep -q ': act relu ' "$scratch/out" && grep -q ': act relu_squared ' "$scratch/out" && grep -q ': glu relu_squared ' "$scratch/out" &&
	grep -q ': act cap .* ldy=64 cap=30$' "$scratch/out" && ok "a norm's heads are rows, an activation's kind has a name" ||
	not_ok "a norm's heads are rows, an activation's kind has a name" "$(<"$scratch/out")"
for bad in "k k8 100 60:100 positions of 60 values" "k k8 128 60 64:only f32 can be columns" "x f32 3 60 59:narrower than the input"; do
	name=${bad%% *}
	sed "s/^input $name .*/input ${bad%%:*}/" "$scratch/scores.txt" >"$scratch/bad.txt"
	refuses "input ${bad%%:*}" 1 "bad.txt:[0-9]*: .*${bad#*:}" "$bin/npuc" build "$scratch/bad.txt" -o "$scratch/bad.elf"
done
cat >"$scratch/outliers.txt" <<'GRAPH'
graph outliers
input x f32 3 64
weight w w4 70 64 32
q, s, o = quant_outliers x
c = matmul_w4 q s w
y = add_outliers c o w
output y y
GRAPH
passes "npuc builds a graph with outliers" "$bin/npuc" build "$scratch/outliers.txt" -o "$scratch/outliers.elf"
passes "npuc lists the outliers" "$bin/npuc" dis "$scratch/outliers.elf"
grep -q '^graph outliers isa=1.4 ' "$scratch/out" && grep -q ': quant_outliers .* rows=3 cols=64 ' "$scratch/out" &&
	grep -q ': add_outliers .* m=3 n=70 k=64 ldx=[0-9]* ldy=[0-9]* group=32' "$scratch/out" &&
	ok "separates outliers and adds them with the matmul's weights" ||
	not_ok "separates outliers and adds them with the matmul's weights" "$(<"$scratch/out")"
sed 's/ w4 70 64 32/ wk 70 64 5/; s/matmul_w4/matmul_wk/' "$scratch/outliers.txt" >"$scratch/wk_outliers.txt"
passes "npuc builds it with weights of 5 bits" "$bin/npuc" build "$scratch/wk_outliers.txt" -o "$scratch/outliers.elf"
passes "npuc lists those outliers" "$bin/npuc" dis "$scratch/outliers.elf"
grep -q '^graph outliers isa=1.8 ' "$scratch/out" &&
	grep -q ': add_outliers_wk .* m=3 n=70 k=64 ldx=[0-9]* ldy=[0-9]* w_bytes=' "$scratch/out" &&
	ok "adds outliers with weights of 5 bits" || not_ok "adds outliers with weights of 5 bits" "$(<"$scratch/out")"
sed -i 's/^q, s, o = /q, s = /' "$scratch/outliers.txt"
refuses "outliers without a name" 1 "is not a statement" "$bin/npuc" build "$scratch/outliers.txt" -o "$scratch/outliers.elf"
cat >"$scratch/wk.txt" <<'GRAPH'
graph wk
input x f32 3 62
weight w wk 150 62 3,7
weight b f32 1 150
q, s = quant x
y = matmul_wk q s w b
output out y
GRAPH
passes "npuc builds a graph of weights of 1 to 8 bits" "$bin/npuc" build "$scratch/wk.txt" -o "$scratch/wk.elf"
passes "npuc lists it" "$bin/npuc" dis "$scratch/wk.elf"
# A table of 64 bytes, panels of 3, 7 and 7 bits.
grep -q '^graph wk isa=1.3 ' "$scratch/out" && grep -q ' weight w wk \[150\]\[62\] bytes=10304$' "$scratch/out" &&
	grep -q ': matmul_wk .* w=w bias=b m=3 n=150 k=62 w_bytes=10304 ' "$scratch/out" &&
	ok "the listing has the wk matmul" || not_ok "the listing has the wk matmul" "$(<"$scratch/out")"
for bits in 0 9 3, 3,,4 3,x -1 3:4; do
	sed "s/ 62 3,7/ 62 $bits/" "$scratch/wk.txt" >"$scratch/bad.txt"
	refuses "widths of $bits" 1 "widths are 1 to 8 bits, with a comma between them" "$bin/npuc" build "$scratch/bad.txt" -o "$scratch/bad.elf"
done
sed 's/ 62 3,7/ 62 1,2,3,4/' "$scratch/wk.txt" >"$scratch/bad.txt"
refuses "widths of more panels than there are" 1 "150 rows have fewer panels than '1,2,3,4' has widths" "$bin/npuc" build "$scratch/bad.txt" -o "$scratch/bad.elf"
sed 's/ 62 3,7/ 62/' "$scratch/wk.txt" >"$scratch/bad.txt"
refuses "wk without widths" 1 "wk needs widths after its shape" "$bin/npuc" build "$scratch/bad.txt" -o "$scratch/bad.elf"
passes "npuc describes it" "$bin/npuc" info "$scratch/layer.elf"
grep -q '^one run  *624 multiply-accumulates' "$scratch/out" && ok "multiply-accumulates" || not_ok "multiply-accumulates" "$(<"$scratch/out")"
"$bin/npuc" build - -o "$scratch/stdin.elf" <"$scratch/layer.txt"
cmp -s "$scratch/layer.elf" "$scratch/stdin.elf" && ok "standard input gives the same file" || not_ok "standard input gives the same file"

passes "npuc builds for a profile" "$bin/npuc" build "$scratch/layer.txt" -o "$scratch/timed.elf" --profile sd8gen3
passes "npuc info of a graph with a profile" "$bin/npuc" info "$scratch/timed.elf"
grep -Eq '^device time +[0-9]+ ns, [0-9]+ cycles on sd8gen3$' "$scratch/out" && ok "prints the device time" || not_ok "prints the device time" "$(<"$scratch/out")"
passes "npuc info of a graph without a profile" "$bin/npuc" info "$scratch/layer.elf"
! grep -q '^device time' "$scratch/out" && ok "prints no device time" || not_ok "prints no device time" "$(<"$scratch/out")"
passes "npuc dis --profile" "$bin/npuc" dis --profile sd8elite "$scratch/layer.elf"
grep -q '^profile sd8elite ' "$scratch/out" && grep -Eq ': matmul_i8 .* device_ns=[0-9]+ cycles=[0-9]+$' "$scratch/out" && ok "prints the time of each command" || not_ok "prints the time of each command" "$(<"$scratch/out")"
refuses "npuc build with a profile that does not exist" 1 "profile no-such-soc: No such file" "$bin/npuc" build "$scratch/layer.txt" -o "$scratch/o.elf" --profile no-such-soc
refuses "npuc dis with a profile that does not exist" 1 "profile no-such-soc: No such file" "$bin/npuc" dis --profile no-such-soc "$scratch/layer.elf"
refuses "npuc info with a profile" 2 "build and dis only" "$bin/npuc" info --profile sd8gen3 "$scratch/layer.elf"

bad() { # NAME PATTERN LINE...
	local name=$1 pattern=$2
	shift 2
	{ echo "graph bad"; echo "input x f32 2 8"; printf '%s\n' "$@"; } >"$scratch/bad.txt"
	refuses "$name" 1 "$pattern" "$bin/npuc" build "$scratch/bad.txt" -o "$scratch/bad.elf"
}
bad "an unknown statement" "bad.txt:3: 'outputs' is not a statement" "outputs x"
bad "an unknown operator" "bad.txt:3: 'swish' is not an operator" "y = swish x"
bad "an operation without arguments" "bad.txt:3: 'silu' has 3 words, needs 4 to 4" "y = silu"
bad "an operation with too many arguments" "bad.txt:3: 'quant' has 6 words, needs 5 to 5" "q, s = quant x x"
bad "too few results" "bad.txt:3: 'quant' is not an operator" "q = quant x"
bad "results without a comma" "bad.txt:3: 'q' is not a statement" "q s = quant x"
bad "an unknown activation" "bad.txt:3: 'cap' is not an activation: use silu or gelu or gelu_erf" "y = glu x x cap"
bad "a store into what is no state" "bad.txt:3: .*'x' is both what is stored and where" "store x x -"
bad "an unknown tensor" "bad.txt:3: 'z' is not a tensor" "y = silu z"
bad "a name twice" "bad.txt:3: .*the name is taken" "input x f32 1 1"
bad "a wrong shape" "bad.txt:4: .*'w' is 3 x 8" "weight w f32 3 8" "y = add x w"
bad "a constant that is too short" "needs '=' and 4 values" "const c 1 4 = 1 2 3"
bad "a graph without an output" "no output, store or sleep" "y = silu x"
long=$(printf 'n%.0s' {1..64})
bad "a name that is too long" "bad.txt:3: .*a name of 1 to 63 characters" "input $long f32 1 1"
echo "graph $long" >"$scratch/bad.txt"
refuses "a graph's name that is too long" 1 "bad.txt:1: graph: a name of 1 to 63 characters" "$bin/npuc" build "$scratch/bad.txt" -o "$scratch/bad.elf"
refuses "an image without an end" 1 "/dev/zero: more than 1024 MiB, and not a regular file" "$bin/npuc" dis /dev/zero
refuses "a file that does not exist" 1 "No such file" "$bin/npuc" build "$scratch/none.txt" -o "$scratch/o.elf"
refuses "an ELF file that is no graph" 1 "not a compiled graph" "$bin/npuc" dis "$bin/npuc"
refuses "a text in place of an image" 1 "no ELF file" "$bin/npuc" info "$scratch/layer.txt"
refuses "no verb" 2 "build, dis or info" "$bin/npuc"
refuses "build without -o" 2 "needs -o" "$bin/npuc" build "$scratch/layer.txt"

passes "npuc lists the instruction set" "$bin/npuc" isa
cp "$scratch/out" "$scratch/isa"
version=$(sed -n 's/^Version \(.*\)\.$/\1/p' "$scratch/isa")
grep -q "^Version $version\. " docs/isa.md && ok "docs/isa.md has the version" || not_ok "docs/isa.md has the version" "npuc isa says $version"
sed -n '/^| number | operation/,/^$/p' docs/isa.md | grep . >"$scratch/documented"
diff <(grep '^|' "$scratch/isa") "$scratch/documented" >"$scratch/diff" && ok "docs/isa.md has the same table" || not_ok "docs/isa.md has the same table" "$(<"$scratch/diff")"
while IFS='|' read -r _ number op since _; do
	grep -q "^### .*\b${op// /}\b" docs/isa.md || not_ok "docs/isa.md explains each operation" "$op has no section"
	[ $since = 1.0 ] || grep -q "^| ${since// /} | .*\b${op// /}\b" docs/isa.md || not_ok "docs/isa.md lists each version's operations" "$op of $since"
done < <(grep '^| [0-9]' "$scratch/isa")
refuses "npuc isa with a file" 2 "want build, dis or info" "$bin/npuc" isa "$scratch/layer.elf"
refuses "npuc isa with a profile" 2 "or isa" "$bin/npuc" isa --profile sd8gen3

passes "npu-info on sim" env NPU_TRANSPORT=sim "$bin/npu-info"
grep -q '^transport  *sim' "$scratch/out" && grep -q '^reason .*NPU_TRANSPORT' "$scratch/out" && ok "npu-info prints the reason" || not_ok "npu-info prints the reason" "$(<"$scratch/out")"
grep -Eq '^threads  *[0-9]+: the affinity mask has [0-9]+ CPUs?, (no control group has a quota|/sys/.* grants the time of [0-9.]+)$' "$scratch/out" &&
	ok "npu-info says how many threads, and why" || not_ok "npu-info says how many threads, and why" "$(<"$scratch/out")"
passes "npu-info on one CPU" taskset -c "$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')" "$bin/npu-info" --transport sim --json
true_in_python "one CPU gets one thread" '
c = json.load(open(sys.argv[1]))["cpus"]
assert c["threads"] == 1 and c["affinity"] == 1, c
assert (c["quota"] is None) == (c["quota_file"] is None), c' "$scratch/out"
passes "npu-info --json" "$bin/npu-info" --transport sim --json
true_in_python "the JSON has the device's fields" '
d = json.load(open(sys.argv[1]))
assert d["transport"] == "sim" and d["isa"] == sys.argv[2] and d["va_bits"] >= 30 and d["node"] is None and not d["lost"]' "$scratch/out" "$version"
mkdir "$scratch/no-vendors"
OCL_ICD_VENDORS=$scratch/no-vendors passes "npu-info without a platform of OpenCL" "$bin/npu-info" --transport sim
grep -q '^opencl  *none: no OpenCL platform; install .*pocl-opencl-icd' "$scratch/out" && ok "npu-info names what to install" || not_ok "npu-info names what to install" "$(<"$scratch/out")"
OCL_ICD_VENDORS=$scratch/no-vendors passes "npu-info --json without one" "$bin/npu-info" --transport sim --json
true_in_python "the JSON has no OpenCL device" 'assert json.load(open(sys.argv[1]))["opencl"] == []' "$scratch/out"
OCL_ICD_VENDORS=$scratch/no-vendors run "$bin/npu-info" --doctor
grep -q '^--    no OpenCL platform; install ' "$scratch/out" && ok "the doctor reports no OpenCL platform" || not_ok "the doctor reports no OpenCL platform" "$(<"$scratch/out")"
if compgen -G "/etc/OpenCL/vendors/*.icd" >/dev/null; then
	passes "npu-info with OpenCL platforms" "$bin/npu-info" --transport sim
	grep -Eq '^opencl 0 +[^,]+, .+' "$scratch/out" && ok "npu-info lists the OpenCL devices" || not_ok "npu-info lists the OpenCL devices" "$(<"$scratch/out")"
	passes "npu-info --json with OpenCL platforms" "$bin/npu-info" --transport sim --json
	true_in_python "the JSON has their fields" '
for d in json.load(open(sys.argv[1]))["opencl"]:
    assert d["name"] and d["platform"] and d["version"].startswith("OpenCL ") and d["compute_units"] > 0 and d["max_buffer_bytes"] > 0' "$scratch/out"
	run "$bin/npu-info" --doctor
	grep -Eq '^ok    OpenCL has [0-9]+ devices?; the first is ' "$scratch/out" && ok "the doctor names the first OpenCL device" || not_ok "the doctor names the first OpenCL device" "$(<"$scratch/out")"
else
	skip "npu-info lists the OpenCL devices" "no platform is installed: apt-get install pocl-opencl-icd"
fi
refuses "npu-info with a node that is no vnpu" 1 "not a vnpu" "$bin/npu-info" --device /dev/null
refuses "npu-info with an unknown transport" 2 "auto, drm, sim" "$bin/npu-info" --transport pci
NPU_TRANSPORT=pci refuses "NPU_TRANSPORT of an unknown kind" 1 "use auto, drm or sim" "$bin/npu-info"
NPU_PROFILE=no-such-soc refuses "NPU_PROFILE that is not there" 1 "profile no-such-soc: No such file" "$bin/npu-info" --transport sim
NPU_PROFILE=sd8elite passes "NPU_PROFILE of another SoC" "$bin/npu-info" --transport sim
refuses "vnpu-fw with a profile that does not exist" 1 "profile no-such-soc: No such file" "$bin/vnpu-fw" --profile no-such-soc
refuses "vnpu-fw with a file that is no profile" 1 "profile /dev/null: .* is missing" "$bin/vnpu-fw" --profile /dev/null
run "$bin/npu-info" --doctor
if [ -e /sys/module/vnpu ]; then
	grep -q '^ok    module vnpu is loaded' "$scratch/out" && ok "the doctor sees the module" || not_ok "the doctor sees the module" "$(<"$scratch/out")"
elif [ $rc -eq 1 ] && grep -q '^FAIL  module vnpu is not loaded' "$scratch/out" && grep -q 'to fix it: ' "$scratch/out"; then
	ok "the doctor names the first missing thing"
else
	not_ok "the doctor names the first missing thing" "$(<"$scratch/out")"
fi
for tool in npuc npu-info; do
	passes "$tool --help" "$bin/$tool" --help
	passes "$tool --version" "$bin/$tool" --version
done
for command in "npuc --help" "npuc --version" "npu-info --help" "npu-info --version" "vnpu-fw --help" "vnpu-fw --version"; do
	$bin/$command >/dev/full 2>"$scratch/err"
	same "$command on a full disk is a failure" "$? $(grep -c '^[a-z-]*: stdout: .*No space left on device' "$scratch/err")" "1 1"
done
finish
