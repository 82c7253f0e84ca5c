#!/bin/bash
# SPDX-License-Identifier: MIT
# Command lines as users of llama.cpp type them: each works, or is refused by a sentence that says what to do.
set -u
. tests/cli/common.bash

cli=("$bin/llm-cli" -m "$model" --temp 0)
printf 'The kernel\n' >"$scratch/prompt"
text() { "${cli[@]}" "$@" 2>"$scratch/err" </dev/null; }
# as NAME "OPTIONS" "OPTIONS": llm-cli's text is the same with both.
as() {
	# shellcheck disable=SC2086
	same "$1" "$(text -p "The kernel" -n 8 $2)" "$(text -p "The kernel" -n 8 $3)"
}
works() {
	local name=$1
	shift
	passes "$name" "$@"
	[ -s "$scratch/out" ] || not_ok "$name: it prints something"
}

# ---- a day's command lines -------------------------------------------------------------------------

works "llama-cli -p -n -ngl" "${cli[@]}" -p "The kernel" -n 8 -ngl 99
works "all layers, a context of 256, flash attention" "${cli[@]}" -p "The kernel" -n 8 -c 256 -ngl all -fa
works "flash attention on" "${cli[@]}" -p "The kernel" -n 8 -fa on -c 0
works "batches" "${cli[@]}" -p "The kernel" -n 8 -b 2048 -ub 512 -t 2 -tb 2
works "an 8-bit cache" "${cli[@]}" -p "The kernel" -n 8 -fa 1 -ctk q8_0 -ctv q8_0
works "no conversation" "${cli[@]}" -no-cnv -p "The kernel" -n 8 --no-display-prompt
works "quiet" "${cli[@]}" -p "The kernel" -n 8 --log-disable --simple-io --color --no-warmup --no-perf
works "without mmap" "${cli[@]}" -p "The kernel" -n 8 --no-mmap --numa numactl --prio 0
works "a file, escapes" "${cli[@]}" -f "$scratch/prompt" -n 8 -e --keep -1
works "a file byte for byte, underscores" "${cli[@]}" -bf "$scratch/prompt" --n_predict 8 --batch_size 512
works "a reverse prompt" "${cli[@]}" -p "The kernel" -n 64 -r "." -s 42
works "any number of reverse prompts" "${cli[@]}" -p "The kernel" -n 8 $(printf -- '-r no%d ' {1..20})
same "the last of them ends the text" "$(text -p "The kernel" -n 32 $(printf -- '-r no%d ' {1..20}) -r e)" "$(text -p "The kernel" -n 32 -r e)"
works "to the end of the text" "${cli[@]}" -p "The kernel" -n -2 -r "." --threads 2 --predict 16
works "samplers" "$bin/llm-cli" -m "$model" -p "The kernel" -n 8 --temperature 0.7 --top-k 20 --top-p 0.9 --min-p 0.05 -s 7
works "a chat of one turn" "${cli[@]}" -cnv -st --chat-template chatml -sys "You are helpful" -p "The kernel" -n 8 --jinja
works "a chat, its first turn in a file" "${cli[@]}" --conversation --single-turn --chat-template llama3 -f "$scratch/prompt" -n 8 --no-jinja --reasoning-format none
works "a system prompt in a file" "${cli[@]}" -sysf "$scratch/prompt" --chat-template gemma -p "The kernel" -n 8 -c 256 -ngl 99 -fa
works "--jinja without a chat" "${cli[@]}" --jinja -no-cnv -p "The kernel" -n 8
works "llama-bench" "$bin/llm-bench" -m "$model" -p 16 -n 4 -r 1 -ngl 0,99 -fa 1 -mmp 1 -t 2 --numa numactl
works "llama-bench -o json" "$bin/llm-bench" -m "$model" -p 16 -n 0 -r 1 -b 256 -ub 64,128 -ctk f16 -ctv f16 -o json
works "llama-bench -pg" "$bin/llm-bench" -m "$model" -p 0 -n 0 -pg 16,4 -r 1 -mmp 0 -sm none -nkvo 0 -dio 0 -embd 0
works "llama-perplexity" "$bin/llm-perplexity" -m "$model" -f tests/data/docs6m/p1.txt -c 32 -b 512 -ngl 99 -fa

works "llama-perplexity --save-all-logits" "$bin/llm-perplexity" -m "$model" -f tests/data/docs6m/p1.txt -c 32 --chunks 2 --save-all-logits "$scratch/base"
works "llama-perplexity --kl-divergence" "$bin/llm-perplexity" -m "$model" --kl-divergence-base "$scratch/base" --kl-divergence -ngl 99

refuses "-hf" 2 "nothing is downloaded.*-m FILE" "$bin/llm-cli" -hf ggml-org/models -p x
refuses "-hf in a benchmark" 2 "nothing is downloaded.*-m FILE" "$bin/llm-bench" -hf ggml-org/models
refuses "-cnv where there is no chat" 2 "only llm-cli talks" "$bin/llm-perplexity" -m "$model" -f x -cnv
refuses "a system prompt where there is no chat" 2 "only llm-cli talks" "$bin/llm-bench" -sys "You are helpful"
refuses "interactive" 2 "llm-cli -cnv reads turns" "${cli[@]}" -i -r "User:" -p "User: hi"
refuses "what stands around turns" 2 "--chat-template" "${cli[@]}" --in-prefix "User: " -p hi
refuses "thoughts" 2 "thoughts are text" "${cli[@]}" -p x --reasoning-format deepseek
refuses "--numa distribute" 2 "numactl --interleave=all" "${cli[@]}" -p x --numa distribute
refuses "--mlock" 2 "not locked.*swapoff" "${cli[@]}" -p x --mlock
refuses "without flash attention" 2 "-fa off: attention" "${cli[@]}" -p x -fa off
refuses "half of the layers on a GPU of two" 2 "--gpu" "${cli[@]}" -p x -ngl 20 -sm row -ts 3,1
refuses "a KV cache of two types" 2 "-ctv f16: q8_0 was asked for before.*same type" "${cli[@]}" -p x -ctk q8_0 -ctv f16
refuses "a cache type that is none" 2 "q4_0.*f16, f32, q8_0" "${cli[@]}" -p x -ctk q4_0
refuses "two numbers of threads" 2 "-tb 8: 4 was asked for before" "${cli[@]}" -p x -t 4 -tb 8
refuses "two numbers of threads, the other way round" 2 "-t 4: 8 was asked for before" "${cli[@]}" -p x -tb 8 -t 4
refuses "a second model for drafts" 2 "no second model" "${cli[@]}" -p x -md draft.gguf
refuses "how many tokens are drafted" 2 "what passes cost.*--draft" "${cli[@]}" -p x --draft-max 16
refuses "a cache of what followed" 2 "--history" "${cli[@]}" -p x -lcd cache
refuses "an order of samplers" 2 "samplers follow one another" "${cli[@]}" -p x --samplers "top_k;temperature"
refuses "an adapter" 2 "merge" "${cli[@]}" -p x --lora adapter.gguf
refuses "verbose" 2 "--stats" "${cli[@]}" -p x -v
refuses "HellaSwag" 2 "perplexity" "$bin/llm-perplexity" -m "$model" -f x --hellaswag
refuses "a seed where nothing is drawn" 2 "-s is --seed, which llm-perplexity does not have: leave it out" "$bin/llm-perplexity" -m "$model" -f x -s 1

# ---- what they mean ------------------------------------------------------------------------------

as "-ngl 0 is placement cpu" "-ngl 0" "--placement cpu"
as "-ngl 99 leaves the placement" "--placement cpu -ngl 99" "--placement cpu"
as "--typical-p and --top-n-sigma are --typical and --top-nsigma" "--temp 1 --seed 1 --typical-p 0.5 --top-n-sigma 2" "--temp 1 --seed 1 --typical 0.5 --top-nsigma 2"
as "-dev none is placement cpu" "-dev none" "--placement cpu"
as "-ctk is --kv" "-ctk f32" "--kv f32"
as "-s is --seed" "--temp 2 -s 5" "--temp 2 --seed 5"
tests() { "$bin/llm-bench" -m "$model" -p 16 -n 0 -r 1 -o csv "$@" 2>/dev/null | python3 -c '
import csv, sys
print(*("/".join(r[k] for k in ("placement", "chunk", "kv", "n_threads")) for r in csv.DictReader(sys.stdin)))'; }
same "lists of llama-bench" "$(tests -ngl 0,99 -ub 32,64 -ctk f32 -t 1)" "$(tests --placement cpu,auto --chunk 32,64 --kv f32 -t 1)"
same "-b and -fa are no lists of tests" "$(tests -b 16,32 -fa 1,1 -ngl 99,100 -t 1)" "$(tests -t 1)"
refuses "-fa with a zero" 2 "-fa 0,1: attention" "$bin/llm-bench" -fa 0,1
refuses "-ngl of no number" 2 "-ngl many: 0 is --placement cpu" "${cli[@]}" -p x -ngl many
for option in -ngl -ctk -hf --numa; do
	refuses "$option without a value" 2 "$option needs a value" "${cli[@]}" -p x "$option"
done
refuses "a value too many" 2 "'--jinja=yes': this option takes no value" "${cli[@]}" -p x --jinja=yes

ids() { "$bin/llm-logits" -m "$model" -o json "$@" | python3 -c 'import json, sys; print(json.load(sys.stdin)["tokens"])'; }
same "escapes in a prompt" "$(ids -p 'a\n\t\x41\\\"\q\x4')" "$(ids --no-escape -p $'a\n\tA\\"\\q\\x4')"
same "--no-escape" "$(text -p 'a\nb' -n 8 --no-escape)" "$(printf '%s' 'a\nb' | "${cli[@]}" -f - -n 8)"
same "-e behind --no-escape counts" "$(text -p 'a\nb' -n 8 --no-escape -e)" "$(text -p 'a\nb' -n 8)"
same "--no-escape behind --escape counts" "$(text -p 'a\nb' -n 8 --escape --no-escape)" "$(text -p 'a\nb' -n 8 --no-escape)"
escaped() { "$bin/llm-logits" -m "$model" --preset cpu -p 'a\nb' "$@" | sha256sum; }
same "the last one counts in llm-logits" "$(escaped --no-escape -e) $(escaped -e --no-escape)" "$(escaped) $(escaped --no-escape)"
same "escapes of llm-cli" "$(text -p 'a\nb' -n 8)" "$(text -p $'a\nb' -n 8)"

all=$(text -p "The kernel" -n 32)
for stop in " " "e" "${all:9:7}"; do
	same "-r '$stop' ends behind it" "$(text -p "The kernel" -n 32 -r "$stop")" "$(for n in $(seq 32); do part=$(text -p "The kernel" -n "$n"; echo .) && [[ ${part%.} == *"$stop"* ]] && echo "${part%.}" && break; done)"
done
same "-r with an escape" "$(text -p "The kernel" -n 32 -r '\x65')" "$(text -p "The kernel" -n 32 -r e)"
same "the first of two ends it" "$(text -p "The kernel" -n 32 -r zzzz -r e)" "$(text -p "The kernel" -n 32 -r e)"
refuses "-r with nothing" 2 "-r: an empty text" "${cli[@]}" -p x -r ""

text -p "The kernel" -n 8 --temp 2 -s -1 >"$scratch/first"
seed=$(sed -n 's/^llm-cli: seed \([0-9]*\)$/\1/p' "$scratch/err")
same "a random seed is told" "$(text -p "The kernel" -n 8 --temp 2 -s "${seed:-none}")" "$(<"$scratch/first")"
text -p "The kernel" -n 1 -s -1 >"$scratch/out"
same "the next one is another" "$(grep -cx "llm-cli: seed $seed" "$scratch/err")" 0

for bad in "-n -3:-2 to 4294967295" "-c 4294967295:0.*1 to 4294967294" "-s -2:-1.*18446744073709551615" "--top-k -2:0 to 2147483647" "-t 0:1 to"; do
	# shellcheck disable=SC2086
	refuses "the range of ${bad%%:*}" 2 "${bad#*:}" "${cli[@]}" -p x ${bad%%:*}
done

# ---- names are read as a whole -------------------------------------------------------------------

for name in -np2 -nope -ngls -tx -cc -hh; do
	refuses "$name is no cluster" 2 "unknown option '$name'" "${cli[@]}" -p x "$name"
done
refuses "names are not shortened" 2 "unknown option '--plac'" "${cli[@]}" -p x --plac cpu
same "a number may follow its letter" "$(text -p "The kernel" -n8 -t2)" "$(text -p "The kernel" -n 8 -t 2)"
refuses "words behind -- are no options" 2 "'-n': not an option" "${cli[@]}" -p x -- -n 8

passes "--help=habits" "$bin/llm-cli" --help=habits
same "--help=habits fits 100 columns" "$(awk 'length > 100' "$scratch/out")none" none
same "--help=habits has names and values" "$(grep -c -e '^  -ngl, --gpu-layers, --n-gpu-layers N$' -e '^  -fa, --flash-attn \[on|off|auto\]$' "$scratch/out")" 2
cp "$scratch/out" "$scratch/habits"
for tool in llm-cli llm-bench llm-perplexity llm-logits; do
	"$bin/$tool" --help=habits | cmp -s - "$scratch/habits" && ok "$tool --help=habits" || not_ok "$tool --help=habits"
done
same "no habit has two names alike" "$(grep -oE '^  -[^ ]+(, -[^ ,]+)*' "$scratch/habits" | tr -d ' ' | tr ',' '\n' | sort | uniq -d)none" none
finish
