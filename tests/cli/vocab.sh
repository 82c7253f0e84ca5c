#!/bin/bash
# SPDX-License-Identifier: MIT
# llm-vocab: wrong command lines, ids of a text, and conversion of a tokenizer.json.
set -u
. tests/cli/common.bash

t=("$bin/llm-vocab")
json=$scratch/tokenizer.json
cat >"$json" <<'EOF'
{"added_tokens": [{"id": 3, "content": "<end>", "special": true}], "pre_tokenizer": {"type": "ByteLevel"},
 "model": {"type": "BPE", "vocab": {"a": 0, "Ġ": 1, "Ġa": 2}, "merges": ["Ġ a"]}}
EOF
printf 'a a<end>' >"$scratch/text"

passes "--help" "${t[@]}" --help
for option in -o --pre --bos --eos --encode --special --bench --list; do
	grep -q -- "$option" "$scratch/out" || not_ok "--help explains $option"
done
passes "--version" "${t[@]}" --version
refuses "no arguments" 2 "--help" "${t[@]}"
refuses "unknown option" 2 "unknown option '--no-such'" "${t[@]}" --no-such
refuses "option without its value" 2 "needs a value" "${t[@]}" "$json" -o
refuses "two actions" 2 "one of" "${t[@]}" -o x --encode y "$json"
refuses "unknown pre-tokenizer" 2 "'none'.*--list" "${t[@]}" "$json" -o "$scratch/x" --pre none
same "--list prints names that --pre takes" "$("${t[@]}" --list | grep -cx -e gpt-2 -e llama-bpe -e tekken -e deepseek-v3)" 4
refuses "missing tokenizer.json" 1 "none.json.*No such file" "${t[@]}" none.json -o "$scratch/x"
refuses "GGUF in place of a tokenizer.json" 1 "JSON" "${t[@]}" "$model" -o "$scratch/x"
refuses "tokenizer.json in place of a GGUF" 1 "not a GGUF" "${t[@]}" --encode "$scratch/text" "$json"
refuses "output that cannot be written" 1 "/nonexistent/x.*No such file" "${t[@]}" "$json" -o /nonexistent/x
refuses "unknown BOS" 1 "no token '<s>'" "${t[@]}" "$json" -o "$scratch/x" --bos '<s>'
# merges NAME ERROR MERGES: a vocabulary with these merges is refused.
merges() {
	sed "s/\[\"Ġ a\"\]/$3/" "$json" >"$scratch/merges.json"
	refuses "$1" 1 "$2" "${t[@]}" "$scratch/merges.json" -o "$scratch/x"
}
merges "a merge of a token that does not exist" "x: merge 1, 'a b', names a token that is not in the vocabulary" '["Ġ a", "a b"]'
merges "a merge of one token" "x: merge 0 is not two tokens with a space between" '["a"]'
merges "a merge with a space in a token" "model.merges.0. has a space in a token" '[["a b", "c"]]'
merges "a merge of three tokens" "model.merges.0. is neither a string nor a pair" '[["a", "b", "c"]]'
merges "a merge with a NUL" "model.merges.0. is neither a string nor a pair" '["Ġ a\\u0000"]'
[ ! -e "$scratch/x" ] && ok "a refusal leaves no file" || not_ok "a refusal leaves no file"

passes "conversion" "${t[@]}" "$json" -o "$scratch/v.gguf" --eos '<end>'
passes "a file of a vocabulary alone can be written again" "$bin/llm-quantize" "$scratch/v.gguf" "$scratch/w.gguf" f16
grep -q 'nan\|per weight' "$scratch/out" && not_ok "it has no weights of so many bits" "$(<"$scratch/out")" || ok "it has no weights of so many bits"
same "ids of a text" "$("${t[@]}" --encode "$scratch/text" "$scratch/v.gguf" | tr '\n' ' ')" "0 2 "
same "ids of a text with a control token" "$("${t[@]}" --encode "$scratch/text" --special "$scratch/v.gguf" | tr '\n' ' ')" "0 2 3 "
want=$(python3 -c "import json; print(*json.load(open('$refs/p1.json'))['ids'][1:])")
same "ids of a prompt with the embedded model" "$("${t[@]}" --encode "$refs/p1.txt" "$model" | xargs)" "$want"
sed 's/tokenizer\.ggml\.pre/tokenizer.ggml.prx/' "$scratch/v.gguf" >"$scratch/without.gguf"
run "${t[@]}" --encode "$scratch/text" "$scratch/without.gguf"
[ $rc -eq 0 ] && grep -Eq '^llm-vocab: warning: tokenizer.ggml.pre is missing' "$scratch/err" && [ "$(wc -l <"$scratch/err")" -eq 1 ] &&
	ok "a file without a pre-tokenizer is read with a warning" || not_ok "a file without a pre-tokenizer is read with a warning" "$(outcome)"
sed 's/gpt-2/gpt-x/' "$scratch/v.gguf" >"$scratch/unknown.gguf"
refuses "file with an unknown pre-tokenizer" 1 "unknown.gguf: pre-tokenizer 'gpt-x' is not known .*--list" "${t[@]}" --encode "$scratch/text" "$scratch/unknown.gguf"
passes "--bench" "${t[@]}" --bench "$refs/p1.txt" "$model"
grep -Eq '^encode [0-9.]+ MB/s, decode [0-9.]+ MB/s, 317 bytes, 70 ids, lossless$' "$scratch/out" &&
	ok "--bench counts bytes and ids" || not_ok "--bench counts bytes and ids" "$(outcome)"

# The comparison with a llama-tokenize, by one that is llm-vocab
cat >"$scratch/fake" <<EOF
#!/bin/bash
echo "[\$("$(realpath "$bin")/llm-vocab" --encode "\$4" "\$2" | paste -sd,)]"
EOF
chmod +x "$scratch/fake"
export BUILD=${bin%/bin}
refuses "peer_tokens.sh without a llama-tokenize" 2 "LLAMA_TOKENIZE" tests/bench/peer_tokens.sh
LLAMA_TOKENIZE=$scratch/fake run tests/bench/peer_tokens.sh
if [ $rc -eq 1 ] && grep -q '^docs6m  *0 of 709 texts have other ids$' "$scratch/out" &&
	grep -q "^deepseek-v3: the ids of text [0-9]*, '\$+<=>^~|\`', are equal now$" "$scratch/out"; then
	ok "peer_tokens.sh tells what has changed"
else
	not_ok "peer_tokens.sh tells what has changed" "$(outcome)"
fi
if [ -n "${VNPU_DATA:-}" ]; then
	passes "conversion of SmolLM2's tokenizer.json" "${t[@]}" "$VNPU_DATA/models/tokenizers/smollm2_tokenizer.json" -o "$scratch/s.gguf"
else
	skip "conversion of SmolLM2's tokenizer.json" "VNPU_DATA is not set"
fi
finish
