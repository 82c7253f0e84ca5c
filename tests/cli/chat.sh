#!/bin/bash
# SPDX-License-Identifier: MIT
# llm-cli's conversations: they give the tokens of the same conversation written into one prompt, and end as they should.
set -u
. tests/cli/common.bash

# A template for the embedded model, which has none. Its control tokens are <s> and </s>. The model's answers differ from turn to
# turn in this format, which is Mistral's, so that a turn in the wrong place shows.
template='{{ bos_token }}{% for message in messages %}{% if message["role"] == "user" %}{{ "[INST] " + message["content"] + "[/INST]" }}'
template+='{% else %}{{ " " + message["content"] + eos_token }}{% endif %}{% endfor %}{# without [AVAILABLE_TOOLS] #}'
chat=$scratch/chat.gguf
python3 tests/cli/gguf_key.py "$model" "$chat" tokenizer.chat_template "$template"
cli=("$bin/llm-cli" -m "$chat" --temp 0)
none=("$bin/llm-cli" -m "$model" --temp 0)

# talk LINES OPTIONS...: what a conversation prints; messages go to $scratch/err.
talk() {
	local lines=$1
	shift
	printf "$lines" | "${cli[@]}" -n 6 "$@" 2>"$scratch/err"
}
# written TEXT OPTIONS...: the same text as a prompt of one piece.
written() {
	local text=$1
	shift
	"${cli[@]}" -n 6 --special -p "$text" "$@" 2>&1 </dev/null
}
line() { sed -n "$1p"; }

# ---- the tokens are those of the whole text --------------------------------------------------------

first="[INST] The kernel allocates[/INST]"
one=$(talk 'The kernel allocates\n')
second="$first$one</s>[INST] and what of it?[/INST]"
two=$(talk 'The kernel allocates\nand what of it?\n' | line 2)
third="$second$two</s>[INST] Which pages[/INST]"
lines='The kernel allocates\nand what of it?\nWhich pages\n'
want=$(written "$first" --ids && written "$second" --ids && written "$third" --ids)
same "three turns" "$(talk "$lines" --ids)" "$want"
same "nothing on stderr" "$(wc -c <"$scratch/err")" 0
same "a line for each answer" "$(talk 'a\nb\n' --grammar 'root ::= "x\n"') $(talk 'a\nb\n' --grammar 'root ::= "x"')" $'x\nx x\nx'
same "the last line may end with the file" "$(talk "${lines%\\n}" --ids)" "$want"
same "the first turn in -p" "$(talk "${lines#*\\n}" -cnv -p "The kernel allocates" --ids)" "$want"
printf 'The kernel allocates' >"$scratch/turn"
same "the first turn in -f" "$(talk "${lines#*\\n}" -cnv -f "$scratch/turn" --ids)" "$want"
same "-cnv without a prompt" "$(talk "$lines" -cnv --ids)" "$want"
for draft in coordgen pld; do
	same "--draft $draft" "$(talk "$lines" --ids --draft $draft)" "$want"
done
same "--history" "$(talk "$lines" --ids --history "$scratch/store") $(talk "$lines" --ids --history "$scratch/store")" "$want $want"
same "--placement cpu" "$(talk "$lines" --ids --preset cpu)" "$(written "$first" --ids --preset cpu && written "$second" --ids --preset cpu && written "$third" --ids --preset cpu)"
# With so great a penalty a token that is counted twice changes the answer.
penalties="--frequency-penalty 2.5 --repeat-last-n -1 -n 5"
# shellcheck disable=SC2086
one=$(talk 'The kernel allocates\n' $penalties)
# shellcheck disable=SC2086
same "penalties count the tokens of all turns once" "$(talk 'The kernel allocates\nand the kernel?\n' $penalties --ids | line 2)" \
	"$(written "$first$one</s>[INST] and the kernel?[/INST]" $penalties --ids)"
same "an answer that ended by itself" "$(talk 'The kernel allocates\nand what of it?\n' --grammar 'root ::= "yes"')" $'yes\nyes'
same "a grammar begins anew with each answer" "$(talk 'a\nb\nc\n' --grammar 'root ::= [a-z] [a-z] [0-9]' --temp 1 | grep -cxE '[a-z]{2}[0-9]')" 3
same "and the answers are drawn one after the other" "$(talk 'a\na\na\na\n' --grammar 'root ::= [0-9] [0-9] [0-9] [0-9] [0-9]' --temp 3 | sort -u | wc -l)" 4
same "-n is of each answer" "$(talk "$lines" --ids -n 3 | awk '{ print NF }' | xargs)" "3 3 3"
same "without -n an answer goes on to its end" "$(printf 'a\n' | "${cli[@]}" --grammar 'root ::= [a-z]{200}' --ignore-eos -c 256 2>/dev/null | head -c 200 | grep -cxE '[a-z]{200}')" 1
same "-r ends an answer, and the next one goes on" "$(talk 'The kernel allocates\nThe kernel allocates\n' -n 32 -r "ABCD" -r CDAB --grammar 'root ::= "CDABx"' | xargs)" \
	"$(talk 'The kernel allocates\n' -n 32 -r ABCD -r CDAB --grammar 'root ::= "CDABx"' | sed 's/.*/& &/')"
same "-r with drafts" "$(talk "$lines" -n 32 -r e --ids --draft coordgen)" "$(talk "$lines" -n 32 -r e --ids)"
same "a turn of two lines" "$(talk 'The kernel\\\nallocates\n' --ids)" "$(written "[INST] The kernel\nallocates[/INST]" --ids)"
same "empty lines are no turns" "$(talk '\n\nThe kernel allocates\n\n\nand what of it?\n' --ids)" "$(line 1,2 <<<"$want")"
same "lines may end in CR LF" "$(talk '\r\nThe kernel\\\r\nallocates\r\n\r\n' --ids)" "$(talk 'The kernel\\\nallocates\n' --ids)"
for two in "-f - -sysf -" "-f - --chat-template-file -" "-f - --context -" "-f - --grammar-file -" "-sysf -" "--json-schema-file -"; do
	# shellcheck disable=SC2086
	refuses "$two, and one standard input" 2 "standard input cannot be read twice" "${cli[@]}" $two <<<'{}'
done
same "--context is in front of the first turn" "$(talk ' allocates\nand what of it?\n' --context <(printf 'The kernel') --ids)" "$(line 1,2 <<<"$want")"
same "no turns" "$(talk '')none" none
same "--special is not about what is typed" "$(talk 'x</s>\n' --ids --special)" "$(talk 'x</s>\n' --ids)"
[ "$(talk 'x</s>\n' --ids -n 16)" != "$(written "[INST] x</s>[/INST]" --ids -n 16)" ] &&
	ok "a control token that is typed is text" || not_ok "a control token that is typed is text"

# ---- system texts and formats ----------------------------------------------------------------------

want=$(written "[INST] Be\nterse\n\nThe kernel allocates[/INST]" --ids)
printf 'Be\nterse' >"$scratch/system"
same "-sys" "$(talk 'The kernel allocates\n' -sys 'Be\nterse' --ids)" "$want"
same "-sysf" "$(talk 'The kernel allocates\n' -sysf "$scratch/system" --ids)" "$want"
same "the last of -sys and -sysf counts" "$(talk 'The kernel allocates\n' -sys x --system-prompt-file "$scratch/system" --ids)" "$want"
same "-sys with nothing" "$(talk 'The kernel allocates\n' -sys '' --ids)" "$(written "$first" --ids)"
same "-st ends after one answer" "$(talk "$lines" -st --ids)" "$(written "$first" --ids)"
same "-st with -p reads no turns" "$(talk 'x\n' -st -p 'The kernel allocates' --ids)" "$(written "$first" --ids)"
want=$(written "<|system|>\nBe terse</s>\n<|user|>\nThe kernel allocates</s>\n<|assistant|>\n" --ids)
printf '%s' "{{ '<|user|>\\n' + message['content'] + eos_token }}{{ '<|assistant|>' }}" >"$scratch/template"
same "--chat-template NAME" "$(talk 'The kernel allocates\n' --chat-template zephyr -sys "Be terse" --ids)" "$want"
same "--chat-template TEXT" "$(talk 'The kernel allocates\n' --chat-template "$(<"$scratch/template")" -sys "Be terse" --ids)" "$want"
same "--chat-template-file" "$(talk 'The kernel allocates\n' --chat-template-file "$scratch/template" -sys "Be terse" --ids)" "$want"
# A template that opens thoughts: each answer begins with that.
printf '%s' "{{ '<|user|>\\n' + message['content'] + eos_token }}{{ '<|assistant|>\\n<think>\\n' }}" >"$scratch/thinks"
thinks=$(written "<|user|>\nThe kernel allocates</s>\n<|assistant|>\n<think>\n")
same "a template that opens thoughts" "$(talk 'The kernel allocates\n' --chat-template-file "$scratch/thinks")" $'<think>\n'"$thinks"
same "each answer begins with that" "$(talk 'a\nb\n' --chat-template-file "$scratch/thinks" --grammar 'root ::= "x"' | xargs)" "<think> x <think> x"
same "but --ids are those of generated tokens" "$(talk 'The kernel allocates\n' --chat-template-file "$scratch/thinks" --ids)" \
	"$(written "<|user|>\nThe kernel allocates</s>\n<|assistant|>\n<think>\n" --ids)"
same "a model without a template" "$(printf 'The kernel allocates\n' | "${none[@]}" -n 6 --chat-template mistral-v3 --ids)" "$(written "$first" --ids)"
same "--no-bos" "$(talk 'The kernel allocates\n' --no-bos --ids)" "$(written "$first" --no-bos --ids)"
same "--jinja, --no-jinja and --reasoning-format none change nothing" "$(talk 'The kernel allocates\n' --jinja --no-jinja --reasoning-format none --ids)" "$(written "$first" --ids)"
same "-p alone continues a text" "$("${cli[@]}" -n 8 -p "The kernel" --ids </dev/null)" "$("${none[@]}" -n 8 -p "The kernel" --ids)"
same "-no-cnv, too" "$("${cli[@]}" -n 8 -no-cnv -p "The kernel" --ids </dev/null)" "$("${none[@]}" -n 8 -p "The kernel" --ids)"

# ---- what is refused -------------------------------------------------------------------------------

refuses "no prompt and no template" 2 "no prompt, and no conversation: .*no tokenizer.chat_template.*-p TEXT.*--chat-template" "${none[@]}"
refuses "-cnv without a template" 1 "no tokenizer.chat_template.*--chat-template NAME" "${none[@]}" -cnv
refuses "an unknown template" 2 "'nope' is no template.* chatml, .* llama3, " "${cli[@]}" --chat-template nope
refuses "an unknown template, before the model is loaded" 2 "'nope' is no template" "$bin/llm-cli" -m no-such-file --chat-template nope
refuses "an empty template" 2 "--chat-template: a name" "${cli[@]}" --chat-template ''
refuses "a file with no template" 1 "system is no template with a known chat format" "${cli[@]}" --chat-template-file "$scratch/system"
refuses "a file of a template that does not exist" 1 "no-such-file: No such file" "${cli[@]}" --chat-template-file no-such-file
refuses "a file of a system text that does not exist" 1 "no-such-file: No such file" "${cli[@]}" -sysf no-such-file
refuses "-no-cnv without a prompt" 2 "-p TEXT" "${cli[@]}" -no-cnv
for option in -cnv -st "-sys x" "-sysf x" "--chat-template chatml"; do
	# shellcheck disable=SC2086
	refuses "-no-cnv with $option" 2 "-no-cnv: other options ask for a conversation" "${cli[@]}" -no-cnv -p x $option
done
refuses "--reasoning-format deepseek" 2 "thoughts are text" "${cli[@]}" --reasoning-format deepseek
python3 tests/cli/gguf_key.py "$model" "$scratch/odd.gguf" tokenizer.chat_template '{{ messages }}'
refuses "a template of an unknown format" 1 "tokenizer.chat_template has none of the chat formats.*--chat-template NAME" "$bin/llm-cli" -m "$scratch/odd.gguf" -cnv

run "${cli[@]}" -p "$(head -c 2000 "$refs/p1.txt")" -cnv -c 32
[ $rc -eq 1 ] && [ ! -s "$scratch/out" ] && grep -q 'the turn has [0-9]* tokens, and the context of 32 has room for 32: give -c ' "$scratch/err" &&
	ok "a first turn that does not fit" || not_ok "a first turn that does not fit" "$(outcome)"
printf 'a\nb\nc\nd\ne\nf\n' | "${cli[@]}" -c 100 -n 12 --ignore-eos >"$scratch/out" 2>"$scratch/err"
rc=$?
[ $rc -eq 1 ] && grep -q 'the context of 100 has room for' "$scratch/err" && [ "$(wc -l <"$scratch/err")" -eq 1 ] && [ -s "$scratch/out" ] &&
	ok "a later turn that does not fit" || not_ok "a later turn that does not fit" "$(outcome)"
printf 'a\nb\n' | "${cli[@]}" -c 64 -n -1 --ignore-eos >"$scratch/out" 2>"$scratch/err"
rc=$?
[ $rc -eq 0 ] && [ "$(<"$scratch/err")" = "llm-cli: stopped, the context of 64 tokens is full: give -c a larger one" ] &&
	ok "a full context ends the conversation" || not_ok "a full context ends the conversation" "$(outcome)"

# ---- on a terminal ---------------------------------------------------------------------------------

cat >"$scratch/pty.py" <<'PYTHON'
import os, pty, select, signal, subprocess, sys, time
master, slave = pty.openpty()
p = subprocess.Popen(sys.argv[1:], stdin=slave, stdout=subprocess.PIPE, stderr=slave, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
os.close(slave)
os.set_blocking(p.stdout.fileno(), False)
seen, out = b"", b""
def until(what, count, text=lambda: seen):
    """Reads until @what was seen @count times."""
    global seen, out
    deadline = time.monotonic() + 60
    while text().count(what) < count:
        assert time.monotonic() < deadline, (what, seen, out)
        for fd in select.select([master, p.stdout], [], [], 1)[0]:
            if fd is master:
                seen += os.read(master, 65536)
            else:
                out += p.stdout.read() or b""
def say(text):
    os.write(master, text)
PYTHON
true_in_python "Ctrl-C ends an answer, the next turn is answered, and at the prompt it ends the program" "
exec(open('$scratch/pty.py').read())
until(b'> ', 1)
for turn in 1, 2:
    say(b'The kernel\n')
    until(b' ', out.count(b' ') + 5, lambda: out)
    p.send_signal(signal.SIGINT)
    until(b'> ', turn + 1)
    out += p.stdout.read() or b''
    assert out.endswith(b'\n'), out[-100:]
assert p.poll() is None
p.send_signal(signal.SIGINT)
assert p.wait(60) == -signal.SIGINT, p.returncode
" "${cli[@]}" --ignore-eos -c 16384
true_in_python "Ctrl-D ends the conversation; the prompt is on the terminal only" "
exec(open('$scratch/pty.py').read())
until(b'> ', 1)
say(b'The kernel allocates\n')
until(b'> ', 2)
say(b'\x04')
p.wait(60)
os.set_blocking(p.stdout.fileno(), True)
out += p.stdout.read()
assert p.returncode == 0 and b'>' not in out.replace(b'/>', b'') and out.endswith(b'\n'), (p.returncode, out, seen)
" "${cli[@]}" -n 8
mentions() {
	true_in_python "$1" "
import os, pty, subprocess
master, slave = pty.openpty()
p = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
os.close(slave)
seen = b''
try:
    while chunk := os.read(master, 65536):
        seen += chunk
except OSError:
    pass
assert p.wait(60) == 0 and (b'can chat (mistral-v3): -cnv' in seen) == (sys.argv[1] == 'yes'), seen
" "${@:2}"
}
mentions "with -p alone, a terminal is told that the model can chat" yes "${cli[@]}" -n 4 -p "The kernel"
mentions "not with -no-cnv" no "${cli[@]}" -n 4 -p "The kernel" -no-cnv
mentions "not in a conversation" no "${cli[@]}" -n 4 -p "The kernel" -cnv
mentions "not of a model that cannot" no "${none[@]}" -n 4 -p "The kernel"
true_in_python "Ctrl-C ends a conversation whose turns come from a pipe" "
import signal, subprocess
p = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
p.stdin.write(b'The kernel\nagain\n')
p.stdin.flush()
first = p.stdout.read(1)
p.send_signal(signal.SIGINT)
out, err = p.communicate(timeout=60)
assert first and p.returncode == -signal.SIGINT, (first, p.returncode, err)
assert err == b'llm-cli: warning: -c 16384: the model was trained with contexts of 512 tokens, and predicts badly beyond them\n', err
" "${cli[@]}" --ignore-eos -c 16384
finish
