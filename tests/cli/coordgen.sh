#!/bin/bash
# SPDX-License-Identifier: MIT
# Drafts in llm-cli and llm-bench: the same text with all of them, stores of past answers, tasks and traces; and wrong
# options and files.
set -u
. tests/cli/common.bash

cli=("$bin/llm-cli" -m "$model" -n 60)
bench=("$bin/llm-bench" -m "$model" -r 1 --no-warmup -o json)
tasks=tests/data/tasks.jsonl
export XDG_STATE_HOME=$scratch/state

# ---- the text is the same ------------------------------------------------------------------------

head -c 700 "$refs/p1.txt" >"$scratch/context"
prompt="The kernel"
for sampling in "--temp 0" "--seed 3"; do
	# shellcheck disable=SC2086
	plain=$("${cli[@]}" $sampling -p "$(<"$scratch/context")$prompt")
	for draft in auto none pld sam calibrated reuse coordgen; do
		# shellcheck disable=SC2086
		same "draft $draft, $sampling: the text is that without drafts" "$plain" \
			"$("${cli[@]}" $sampling --draft $draft --context "$scratch/context" -p "$prompt")"
	done
done
for preset in coordgen cpu fine; do
	same "preset $preset: the text is that without drafts" \
		"$("${cli[@]}" --temp 0 --preset $preset --draft none -p "$prompt")" \
		"$("${cli[@]}" --temp 0 --preset $preset --draft coordgen -p "$prompt")"
done
same "preset coordgen drafts" \
	"$("${cli[@]}" --temp 0 --preset coordgen --stats -p "$prompt" 2>&1 >"$scratch/out" | grep -o '^draft    coordgen')" \
	"draft    coordgen"
same "a context drafts by itself, without candidates of the prompt" \
	"$("${cli[@]}" --temp 0 --context "$scratch/context" --stats -p "$prompt" 2>&1 >"$scratch/out" | grep -o '^draft    reuse')" \
	"draft    reuse"
same "without context and history nothing is drafted" \
	"none$("${cli[@]}" --temp 0 --stats -p "$prompt" 2>&1 >"$scratch/out" | grep '^draft')" none

# ---- history -------------------------------------------------------------------------------------

# steps FILE: how many steps the statistics in it tell of.
steps() { sed -n 's/^draft .* in \([0-9]*\) steps.*/\1/p' "$1"; }
first=$("${cli[@]}" --temp 0 --history mail --draft sam --stats -p "$prompt" 2>"$scratch/first")
second=$("${cli[@]}" --temp 0 --history mail --draft sam --stats -p "$prompt" 2>"$scratch/second")
same "a history changes no text" "$first" "$second"
if [ "$(steps "$scratch/second")" -lt "$(steps "$scratch/first")" ]; then
	ok "an answer that the store has takes fewer steps"
else
	not_ok "an answer that the store has takes fewer steps" "$(cat "$scratch/first" "$scratch/second")"
fi
[ -s "$XDG_STATE_HOME/vnpu/mail.history" ] && ok "a store has its place" || not_ok "a store has its place"
printf 'no store at all, but as long as a header' >"$scratch/text"
mkdir "$scratch/folder" && mkfifo "$scratch/fifo" && head -c -1 "$XDG_STATE_HOME/vnpu/mail.history" >"$scratch/broken"
printf x >>"$scratch/broken"
# warns NAME STORE PATTERN: the text is that with a store, and one line says what matches (extended).
warns() {
	run "${cli[@]}" --temp 0 --history "$2" --draft sam -p "$prompt"
	if [ $rc -eq 0 ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -Eq "^llm-cli: warning: --history: $2: $3\$" "$scratch/err"; then
		ok "$1 is named in one line"
	else
		not_ok "$1 is named in one line" "$(outcome llm-cli)"
	fi
	same "$1: the text is the same" "$first" "$(<"$scratch/out")"
}
warns "a text" "$scratch/text" "is another file, no history store: name another; the text is generated without it"
same "a text is left alone" "$(<"$scratch/text")" 'no store at all, but as long as a header'
warns "a broken store" "$scratch/broken" "a broken history: the answer at byte [0-9]+; remove it; the text is generated without it"
warns "a folder" "$scratch/folder" "is a folder: name a file in it; the text is generated without it"
warns "a FIFO" "$scratch/fifo" "is no regular file, as a history store is; the text is generated without it"
warns "a device" /dev/null "is no regular file, as a history store is; the text is generated without it"
warns "a folder that does not exist" "$scratch/no/store" "cannot make it: its folder does not exist; the text is complete, but not kept"
: >"$scratch/empty"
passes "an empty file becomes a store" "${cli[@]}" --temp 0 --history "$scratch/empty" -p "$prompt"
same "with its answer" "$(head -c 8 "$scratch/empty")" VNPUHIST
refuses "a store without a name" 2 "--history: a store has a name" "${cli[@]}" -p x --history ""

refuses "a history without drafts" 2 "--history.*--draft none" "${cli[@]}" -p x --history mail --draft none
refuses "a context that is missing" 1 "nowhere" "${cli[@]}" -p x --context "$scratch/nowhere"
refuses "an unknown draft lists the names" 2 "auto, none, pld, sam, calibrated, reuse, coordgen" "${cli[@]}" -p x --draft eagle
refuses "sparse decoding cannot verify drafts" 2 "draft pld: .*decode full, or draft none" \
	"${cli[@]}" -p x --draft pld --placement cpu --attention sparse --decode sparse
refuses "nor those of a context" 2 "draft reuse: .*decode full, or draft none" \
	"${cli[@]}" -p x --context "$scratch/context" --attention sparse --decode sparse
refuses "nor those of tasks, before a model is loaded" 2 "draft coordgen: .*decode full, or draft none" \
	"$BUILD/bin/llm-bench" -m "$scratch/none.gguf" --tasks "$tasks" --attention sparse --decode sparse

# ---- tasks ---------------------------------------------------------------------------------------

passes "tasks" "${bench[@]}" --tasks "$tasks" --draft none,pld,coordgen --clock virtual --acceptance-out "$scratch/trace"
cp "$scratch/out" "$scratch/tasks"
true_in_python "each kind is a test, and drafts save time on a modelled phone" "
rows = json.load(open(sys.argv[1]))
assert [(r['draft'], r['task']) for r in rows] == [(d, k) for d in ('none', 'pld', 'coordgen') for k in ('summary', 'qa', 'ui', 'reply')]
for r in rows:
    assert r['n_gen'] == 6 * 63 and r['n_prompt'] == 0 and r['plain_token_ms'] > 0, r
    if r['draft'] == 'none':
        assert r['accepted_per_step'] is None and r['token_ms'] is None and r['draft_ms'] is None, r
        continue
    assert 1 < r['accepted_per_step'] < r['draft_nodes'] and r['draft_ms'] > 0, r
    assert r['token_ms'] < r['plain_token_ms'], r
    assert (r['calibrate_ms'] is not None) == (r['draft'] == 'coordgen'), r
mean = lambda d: sum(r['accepted_per_step'] for r in rows if r['draft'] == d)
assert mean('coordgen') > mean('pld')
" "$scratch/tasks"
passes "tasks without a choice of drafts" "${bench[@]}" --tasks "$tasks" --clock virtual
true_in_python "have all of them" "
drafted = [[(r['task'], r['accepted_per_step']) for r in json.load(open(f)) if r['draft'] == 'coordgen'] for f in sys.argv[1:]]
assert len(drafted[0]) == 4 and drafted[0] == drafted[1], drafted" "$scratch/out" "$scratch/tasks"
true_in_python "the trace has the tokens of all tasks" "
steps = [tuple(map(int, l.split())) for l in open(sys.argv[1])]
assert all(1 <= t <= n <= 64 for n, t in steps)
assert sum(t for n, t in steps) == 2 * 4 * 6 * 63
" "$scratch/trace"

# ---- traces --------------------------------------------------------------------------------------

printf '16 4\n\n8 5\n1 1\n32 7\n' >"$scratch/steps"
passes "a trace" "${bench[@]}" --acceptance "$scratch/steps" -d 0,20
passes "a trace, planned" "$bin/llm-bench" --dry-run --shape llama3.2-1b --acceptance "$scratch/steps" -o json
true_in_python "a trace is decoded with its steps, and faster on a modelled phone" "
r, = json.load(open(sys.argv[1]))
assert r['n_gen'] == 17 and r['accepted_per_step'] == 17 / 4 and r['draft_nodes'] == 57 / 4
assert r['token_ms'] < r['plain_token_ms'] / 1.5 and r['draft_ms'] is None and r['task'] is None
" "$scratch/out"

# ---- bad files -----------------------------------------------------------------------------------

bad() { printf '%s\n' "$1" >"$scratch/bad"; refuses "$2" 1 "$3" "${bench[@]}" "${@:4}" "$scratch/bad"; }
bad '{"kind": "qa", "n": 4}' "a task without a prompt" 'bad:1: no "kind" or "prompt"' --tasks
bad '{"kind": "qa", "prompt": "x", "n": 1}' "a task of one token" 'bad:1: "n" is not' --tasks
bad '{"kind"' "a line that is no JSON" 'bad:1: no JSON object' --tasks
bad '' "a file without tasks" 'no tasks' --tasks
bad '4 5' "more tokens than nodes" 'bad:1: not the nodes' --acceptance
bad '65 1' "too many nodes" 'at most 64' --acceptance
bad '4 1 1' "three numbers" 'bad:1: not the nodes' --acceptance
bad '' "a trace without steps" 'no steps' --acceptance
refuses "tasks that are missing" 1 nowhere "${bench[@]}" --tasks "$scratch/nowhere"
echo kept >"$scratch/kept"
refuses "drafts without tasks" 2 "--draft has no effect: it goes with --tasks" "$bin/llm-bench" -p 8 -n 4 -r 1 --draft none,coordgen
refuses "drafts with a trace" 2 "--draft has no effect: it goes with --tasks" "$bin/llm-bench" --acceptance "$scratch/steps" --draft pld
run "$bin/llm-bench" -p 8 -n 4 -r 1 --preset coordgen,npu -o json
same "preset coordgen without tasks says that nothing is drafted" "$rc $(<"$scratch/err")" \
	"0 llm-bench: preset coordgen drafts with --tasks only: nothing is drafted"
true_in_python "and its rows say so" "
assert [r['draft'] for r in json.load(open(sys.argv[1]))] == ['none'] * 4" "$scratch/out"
refuses "a trace of nothing" 2 "goes with --tasks" "${bench[@]}" --acceptance-out "$scratch/kept"
same "which leaves the file as it is" "$(<"$scratch/kept")" kept
refuses "a trace that cannot be written" 1 nowhere "${bench[@]}" --tasks "$tasks" --acceptance-out "$scratch/nowhere/x"

finish
