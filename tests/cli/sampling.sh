#!/bin/bash
# SPDX-License-Identifier: MIT
# llm-cli's options of sampling: their effect, grammars and JSON schemas, and wrong values.
set -u
. tests/cli/common.bash

cli=("$bin/llm-cli" -m "$model" --preset cpu)
prompt="The kernel allocates"

# text OPTIONS...: the text after the prompt, or the error.
text() { "${cli[@]}" -p "$prompt" -n 24 "$@" 2>&1; }
ids() { text --temp 0 --ids "$@"; }
# differs NAME A B
differs() { [ "$2" != "$3" ] && ok "$1" || not_ok "$1" "$2"; }

greedy=$(ids)
for off in "--repeat-penalty 1" "--presence-penalty 0" "--dry-multiplier 0" "--xtc-probability 1" "--typical 0.3" "--top-nsigma 1" \
	"--repeat-last-n 0 --repeat-penalty 2" "--dry-penalty-last-n 0 --dry-multiplier 2" "--mirostat 2"; do
	# shellcheck disable=SC2086
	same "greedy tokens stay the same: $off" "$(ids $off)" "$greedy"
done
for on in "--repeat-penalty 1.5" "--presence-penalty 2" "--frequency-penalty 2" "--dry-multiplier 5 --dry-allowed-length 1" \
	"--repeat-penalty 1.5 --repeat-last-n -1"; do
	# shellcheck disable=SC2086
	differs "greedy tokens change: $on" "$(ids $on)" "$greedy"
done
first=${greedy%% *}
differs "-l ID-inf rules a token out" "$(ids -l "$first-inf" | tr ' ' '\n' | grep -cx "$first")" "$(ids | tr ' ' '\n' | grep -cx "$first")"
same "and it never comes" "$(ids -l "$first-inf" | tr ' ' '\n' | grep -cx "$first")" 0
same "-l ID+X rules a token in" "$(ids -l 99+1000 | tr ' ' '\n' | sort -u)" 99
sampled=$(text --seed 5)
for on in "--typical 0.2" "--xtc-probability 1 --xtc-threshold 0.01" "--mirostat 1" "--mirostat 2 --mirostat-ent 2 --mirostat-lr 0.3" \
	"--top-nsigma 0.5" "--dynatemp-range 0.7 --dynatemp-exp 2"; do
	# shellcheck disable=SC2086
	differs "sampled text changes: $on" "$(text --seed 5 $on)" "$sampled"
	# shellcheck disable=SC2086
	same "and is the same again" "$(text --seed 5 $on)" "$(text --seed 5 $on)"
done

# ---- grammars and schemas ----

same "a grammar" "$(text --grammar 'root ::= "yes" | "no"' --temp 0 | grep -cxE 'yes|no')" 1
printf 'root ::= [0-9]{3} "-" [a-f]{2} # a number\n' >"$scratch/number.gbnf"
same "a grammar in a file" "$(text --grammar-file "$scratch/number.gbnf" --seed 2 | grep -cxE '[0-9]{3}-[a-f]{2}')" 1
same "a grammar from stdin" "$(text --grammar-file - --seed 2 <"$scratch/number.gbnf")" "$(text --grammar-file "$scratch/number.gbnf" --seed 2)"
same "a grammar on the NPU" "$("$bin/llm-cli" -m "$model" -p "$prompt" --grammar-file "$scratch/number.gbnf" --seed 2 | grep -cxE '[0-9]{3}-[a-f]{2}')" 1
cat >"$scratch/schema.json" <<'END'
{"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "id": {"type": "integer", "minimum": 5,
 "maximum": 17}, "tags": {"items": {"enum": ["a", "b"]}, "maxItems": 2}}, "required": ["name", "id"]}
END
for seed in 1 2 3 4 5; do
	text -n 100 -jf "$scratch/schema.json" --seed $seed --temp 1.5 >"$scratch/out"
	true_in_python "JSON that fits a schema, seed $seed" "
v = json.load(open(sys.argv[1]))
assert set(v) <= {'name', 'id', 'tags'} and len(v['name']) <= 12 and 5 <= v['id'] <= 17, v
assert len(v.get('tags', [])) <= 2 and set(v.get('tags', [])) <= {'a', 'b'}, v
" "$scratch/out"
done
same "a schema in the arguments" "$(text -j '{"const":["x"]}')" '["x"]'
same "the last one counts" "$(text -j '{"const":1}' --grammar 'root ::= "g"')" g

# ---- wrong values ----

work=(-p x)
for option in --repeat-penalty --presence-penalty --frequency-penalty --dry-multiplier --dry-base --typical --xtc-probability --xtc-threshold \
	--top-nsigma --dynatemp-range --dynatemp-exp --mirostat-lr --mirostat-ent; do
	for value in x '' nan 1e9; do
		refuses "$option '$value'" 2 "$option: " "${cli[@]}" "${work[@]}" "$option" "$value"
	done
done
for option in --repeat-last-n --dry-penalty-last-n --dry-allowed-length --mirostat; do
	for value in x '' -2 1.5; do refuses "$option '$value'" 2 "$option: " "${cli[@]}" "${work[@]}" "$option" "$value"; done
done
for value in 5 x+1 5+ 5+x 5,1 5+-1 '5+ 1' 5+inf +1; do
	refuses "-l '$value'" 2 "-l: .*ID\+X or ID-X" "${cli[@]}" "${work[@]}" -l "$value"
done
refuses "-l: a token that is not there" 1 "token 4096; the vocabulary has 4096" "${cli[@]}" "${work[@]}" -l 4096+1
dry="--dry-multiplier 5 --dry-allowed-length 1 --dry-sequence-breaker"
# shellcheck disable=SC2086
same "escapes of a break" "$(ids $dry '\x20\n')" "$(ids $dry $' \n')"
refuses "a break with a NUL" 2 "without NUL" "${cli[@]}" "${work[@]}" --dry-sequence-breaker 'a\x00'
refuses "an empty break" 2 "--dry-sequence-breaker" "${cli[@]}" "${work[@]}" --dry-sequence-breaker ''
printf 'root ::= a\na ::= b' >"$scratch/wrong.gbnf"
echo '{type}' >"$scratch/wrong.json"
refuses "a wrong grammar" 2 "grammar, line 2, column 7: there is no rule b" "${cli[@]}" "${work[@]}" --grammar "$(<"$scratch/wrong.gbnf")"
refuses "a wrong grammar in a file" 1 "wrong.gbnf: grammar, line 2, column 7: there is no rule b" "${cli[@]}" "${work[@]}" --grammar-file "$scratch/wrong.gbnf"
refuses "a missing grammar" 1 "no-such.gbnf" "${cli[@]}" "${work[@]}" --grammar-file "$scratch/no-such.gbnf"
refuses "a wrong schema" 2 "at /properties/a: no type text" "${cli[@]}" "${work[@]}" -j '{"properties":{"a":{"type":"text"}}}'
refuses "a keyword that is not supported" 2 "multipleOf is not supported" "${cli[@]}" "${work[@]}" -j '{"multipleOf":3}'
refuses "a wrong schema in a file" 1 "wrong.json: JSON schema: not JSON" "${cli[@]}" "${work[@]}" -jf "$scratch/wrong.json"
refuses "a schema that is not JSON" 2 "not JSON" "${cli[@]}" "${work[@]}" -j '{type}'
finish
