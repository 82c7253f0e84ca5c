#!/bin/bash
# SPDX-License-Identifier: MIT
# Files that are no models (absent, unreadable, truncated, with hostile headers) are refused with one line; models that are split
# into several files are as good as whole ones.
set -u
. tests/cli/common.bash

t=("$bin/llm-logits" --tokens 1,2 --preset cpu -m)
refuses "absent file" 1 "no-such.gguf: No such file" "${t[@]}" "$scratch/no-such.gguf"
refuses "folder" 1 "$scratch" "${t[@]}" "$scratch"
: >"$scratch/empty.gguf"
refuses "empty file" 1 "empty.gguf" "${t[@]}" "$scratch/empty.gguf"
refuses "text file" 1 "p1.txt" "${t[@]}" "$refs/p1.txt"
# Root can read everything, so root runs this as nobody.
cp "$model" "$scratch/secret.gguf" && chmod 0 "$scratch/secret.gguf" && chmod 755 "$scratch"
cp "$bin/llm-logits" "$scratch/"
as_nobody=()
[ "$(id -u)" -ne 0 ] || as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
run "${as_nobody[@]}" "$scratch/llm-logits" --tokens 1,2 --preset cpu -m "$scratch/secret.gguf"
same "file without permission" "$rc $(<"$scratch/err")" "1 llm-logits: $scratch/secret.gguf: Permission denied"
for bytes in 1 4 8 23 24 100 5000 60000 100000 150000 1000000 6000000; do
	head -c $bytes "$model" >"$scratch/short.gguf"
	refuses "truncated after $bytes bytes" 1 "short.gguf" "${t[@]}" "$scratch/short.gguf"
done

# patch NAME OFFSET HEX: makes a copy of the model with bytes replaced.
patch() {
	python3 -c "import sys
b = bytearray(open('$model', 'rb').read())
h = bytes.fromhex('$3')
b[$2:$2 + len(h)] = h
open('$scratch/$1.gguf', 'wb').write(b)"
}
patch magic 0 00000000
patch version 4 63000000
patch big-endian 4 00000003
patch tensors 8 ffffffffffffffff
patch keys 16 ffffffffffffff7f
patch key-length 24 ffffffffffffffff
for name in magic version big-endian tensors keys key-length; do
	refuses "hostile $name" 1 "$name.gguf" "${t[@]}" "$scratch/$name.gguf"
done

# The header and the metadata alone.
python3 -c "import sys
b = open('$model', 'rb').read()
end = b.index(b'\\x11\\0\\0\\0\\0\\0\\0\\0token_embd.weight')
open('$scratch/vocabulary.gguf', 'wb').write(b[:8] + bytes(8) + b[16:end])"
refuses "a vocabulary" 1 "vocabulary.gguf: has a vocabulary and no tensors: give a model" "${t[@]}" "$scratch/vocabulary.gguf"

# Random bytes in the header: the outcome is a result or one line, never a signal.
seed=${SEED:-$RANDOM}
bad=
for i in {1..40}; do
	python3 -c "import random
r = random.Random($seed * 1000 + $i)
b = bytearray(open('$model', 'rb').read())
for _ in range(r.choice([1, 2, 8])):
    b[r.randrange(24, 120000)] = r.randrange(256)
open('$scratch/fuzz.gguf', 'wb').write(b)"
	run "${t[@]}" "$scratch/fuzz.gguf"
	if [ $rc -gt 1 ] || { [ $rc -eq 1 ] && [ "$(wc -l <"$scratch/err")" -ne 1 ]; }; then
		bad="seed $seed, file $i: $(outcome)"
		break
	fi
done
[ -z "$bad" ] && ok "40 files with random bytes in the header (seed $seed)" || not_ok "40 files with random bytes in the header" "$bad"

# ---- models in several files ---------------------------------------------------------------------

python3 tests/cli/split_gguf.py "$model" "$scratch/m" 3
first=$scratch/m-00001-of-00003.gguf
text() { "$bin/llm-cli" -p "The kernel allocates" -n 22 --temp 0 "$@" 2>"$scratch/err"; }
for options in "--start warm" "--start cold" "--preset cpu"; do
	# shellcheck disable=SC2086
	same "a split model's text with $options" "$(text -m "$first" $options)" "$(text -m "$model" $options)"
done
passes "a split model's logits" "${t[@]}" "$first"
passes "a split model in a benchmark" "$bin/llm-bench" -m "$first" -p 16 -n 4 -r 1 -o json
true_in_python "its size is that of all files" "
assert json.load(open(sys.argv[1]))[0]['model_size'] == 6140928" "$scratch/out"
run "$bin/llm-quantize" "$first" "$scratch/one.gguf" q4_0
run "$bin/llm-quantize" "$model" "$scratch/whole.gguf" q4_0
cmp "$scratch/one.gguf" "$scratch/whole.gguf" >"$scratch/err" && ok "one file is made of a split model" ||
	not_ok "one file is made of a split model" "$(<"$scratch/err")"
cp "$scratch/m-00002-of-00003.gguf" "$scratch/second"
refuses "an output that is one of the files" 1 "m-00002-of-00003.gguf is a file of the model $first" \
	"$bin/llm-quantize" "$first" "$scratch/m-00002-of-00003.gguf" q4_0
cmp -s "$scratch/second" "$scratch/m-00002-of-00003.gguf" && ok "that file is as before" || not_ok "that file is as before"
refuses "the second of the files" 1 "is shard 2 of 3 of a model; open the first, $first" "${t[@]}" "$scratch/m-00002-of-00003.gguf"
mv "$scratch/m-00003-of-00003.gguf" "$scratch/x"
refuses "a file that is missing" 1 "m-00003-of-00003.gguf: is missing: shard 3 of 3" "${t[@]}" "$first"
refuses "a file that is missing, to quantise" 1 "m-00003-of-00003.gguf: is missing" "$bin/llm-quantize" "$first" "$scratch/y" q4_0
head -c 500000 "$scratch/x" >"$scratch/m-00003-of-00003.gguf"
refuses "a file that is cut off" 1 "m-00003-of-00003.gguf: .*truncated" "${t[@]}" "$first"
finish
