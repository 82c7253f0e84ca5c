#!/bin/bash
# SPDX-License-Identifier: MIT
# Caches of panels: --panels-cache of the programs that load models, and what may go wrong with its files.
set -u
. tests/cli/common.bash

mkdir "$scratch/models"
m=$scratch/models/m.gguf cache=$scratch/models/m.gguf.w8a8.panels
cp "$model" "$m"
cold=(-m "$m" --transport sim --placement npu --start cold)
cli=("$bin/llm-cli" -p "The kernel" --temp 0 -n 12 --ids "${cold[@]}")
bench=("$bin/llm-bench" -p 16 -n 0 "${cold[@]}" -o json)
want=$("${cli[@]}" --start warm)

# says NAME STATE: the statistics of the last run, which had the tokens of a warm start.
says() {
	if [ $rc -eq 0 ] && [ "$(<"$scratch/out")" = "$want" ] && grep -Eq "^cache    $2" "$scratch/err"; then
		ok "$1"
	else
		not_ok "$1" "$(outcome)"
	fi
}

# warns NAME PATTERN COMMAND...: status 0, the tokens of a warm start, and one line on stderr, a warning of the pattern.
warns() {
	local name=$1 pattern=$2
	shift 2
	run "$@"
	if [ $rc -eq 0 ] && [ "$(<"$scratch/out")" = "$want" ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] &&
		grep -Eq "^llm-cli: warning: .*m.gguf.w8a8.panels: .*($pattern)" "$scratch/err"; then
		ok "$name"
	else
		not_ok "$name" "$(outcome "$@")"
	fi
}

# in_file_system SIZE OPTIONS COMMAND...: with a file system at $scratch/full, mounted again with OPTIONS once it has the model.
cat >"$scratch/in_file_system" <<'SH'
#!/bin/bash
at=$(dirname "$0")/full size=$1 options=$2
shift 2
mount -t tmpfs -o "size=$size" none "$at" && cp "$(dirname "$0")/models/m.gguf" "$at" || exit
[ -z "$options" ] || mount -o "remount,$options" "$at" || exit
exec "$@"
SH
chmod +x "$scratch/in_file_system"
in_file_system=(unshare -m "$scratch/in_file_system")

run "${cli[@]}" --stats
same "without the option there is none" "$rc$(grep -c ^cache "$scratch/err")$(ls "$scratch/models")" "00m.gguf"
run "${cli[@]}" --panels-cache 1 --stats
says "the first start makes it" "made: .*/m.gguf.w8a8.panels, 5.65 MiB$"
run "${cli[@]}" --panels-cache 1 --stats
says "the next one finds it" "found: .*/m.gguf.w8a8.panels, 5.65 MiB$"
passes "a found one is used without a word" "${cli[@]}" --panels-cache 1
run "${cli[@]}" --panels-cache 1 --stats --preset edgeflow --profile sd8elite
says "another placement and clock find it, too" "found"
passes "llm-logits" "$bin/llm-logits" "${cold[@]}" --panels-cache 1 --tokens 1,2
refuses "it is no model" 1 "is a cache of another file's panels" "$bin/llm-cli" -p x -m "$cache"
refuses "nor can it be quantised" 1 "is packed for the NPU" "$bin/llm-quantize" "$cache" "$scratch/x.gguf" q8_0

rm "$cache"
passes "llm-bench makes it" "${bench[@]}" -r 2 --panels-cache 1
true_in_python "in the first repetition" "assert [r['panels_cache'] for r in json.load(open(sys.argv[1]))] == ['made']" "$scratch/out"
passes "llm-bench finds it" "${bench[@]}" -r 2 --panels-cache 1
true_in_python "in all" "assert [r['panels_cache'] for r in json.load(open(sys.argv[1]))] == ['found']" "$scratch/out"
passes "llm-bench without it" "${bench[@]}" -r 1
true_in_python "has none" "assert [r['panels_cache'] for r in json.load(open(sys.argv[1]))] == [None]" "$scratch/out"

touch "$m"
run "${cli[@]}" --panels-cache 1 --stats
says "one of a changed model is made again" made
truncate -s -100000 "$cache"
run "${cli[@]}" --panels-cache 1 --stats
says "so is a short one" made
printf x | dd of="$cache" bs=1 seek=3000000 conv=notrunc status=none
refuses "a damaged one is an error" 1 "m.gguf.w8a8.panels: tensor .* the file is damaged; this cache has been removed: start again" \
	"${cli[@]}" --panels-cache 1
run "${cli[@]}" --panels-cache 1 --stats
says "after which the next start works" made

passes "one beyond the limit is used once more" "${cli[@]}" --panels-cache 0.001
same "and goes" "$(ls "$scratch/models")" m.gguf
warns "then none is made" "it has 5.7 MiB, and a cache of panels at most 1.0 MiB: allow more" "${cli[@]}" --panels-cache 0.001

# Four at once make it, and each makes what the others make.
for i in 1 2 3 4; do
	"${cli[@]}" --panels-cache 1 >"$scratch/one$i" 2>&1 &
done
wait
same "processes at once" "$(cat "$scratch"/one? | sort -u)" "$want"
same "leave one cache" "$(ls "$scratch/models" | xargs)" "m.gguf m.gguf.w8a8.panels"

mkdir "$scratch/full"
if unshare -m true 2>/dev/null; then
	warns "a full disk: nothing is written" "it needs 5.7 MiB, and [01].[0-9] MiB are free" \
		"${in_file_system[@]}" 7m "" "${cli[@]}" -m "$scratch/full/m.gguf" --panels-cache 1
	warns "a read-only file system" "Read-only file system" \
		"${in_file_system[@]}" 99m ro "${cli[@]}" -m "$scratch/full/m.gguf" --panels-cache 1
else
	skip "a full disk, a read-only file system" "they take mounts, which only root makes"
fi

# Killed as soon as it has a file without a name, which it is writing.
"$bin/llm-quantize" --synthetic qwen2.5-0.5b --vocab 1000 "$scratch/models/big.gguf" q4_0 >"$scratch/out" 2>&1
"$bin/llm-cli" -m "$scratch/models/big.gguf" --transport sim --placement npu --start cold --weights w8a8 -p x -n 1 --ids --panels-cache 1 \
	>"$scratch/out" 2>&1 &
pid=$!
writing=no
while [ $writing = no ] && kill -0 $pid 2>/dev/null; do
	ls -l /proc/$pid/fd 2>/dev/null | grep -q "$scratch/models/.*(deleted)" && writing=yes
done
kill -KILL $pid
wait $pid 2>/dev/null
same "one that is killed while it writes leaves nothing" "$writing $(ls "$scratch/models" | xargs)" "yes big.gguf m.gguf m.gguf.w8a8.panels"

refuses "a warm start has none" 2 "choose start cold" "${cli[@]}" --start warm --panels-cache 1
refuses "nor has a dry run" 2 "leave the cache of panels out" "$bin/llm-bench" --dry-run -m "$m" --start cold --panels-cache 1
for value in -1 x ''; do
	refuses "--panels-cache '$value'" 2 "--panels-cache: " "${cli[@]}" --panels-cache "$value"
done
finish
