#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/peer.sh, with a llama-bench that computes nothing.
set -u
. tests/cli/common.bash
log=$scratch/log fake=$scratch/llama-bench
export BUILD PEER_MODELS=$scratch/models PEER_LOG=$log LLAMA_BENCH=$fake

# Reports 100 tokens per second for prompts and 10 for generation, in its first run a tenth of that, and logs its options.
cat >"$fake" <<'FAKE'
#!/bin/bash
echo "theirs $*" >>"$PEER_LOG"
while [ $# -gt 0 ]; do
	case $1 in
	-p) p=$2 ;;
	-n) n=$2 ;;
	-m) file=$2 ;;
	esac
	shift
done
[ -z "${FAKE_FAILS:-}" ] || { echo "loading" >&2; echo "error: $FAKE_FAILS" >&2; exit 3; }
[ -z "${FAKE_SAYS:-}" ] || { echo "$FAKE_SAYS"; exit 0; }
slow=1
[ "$(grep -c '^theirs.*-r 1 -o json$' "$PEER_LOG")" -gt 1 ] || slow=10
row() {
	echo "$comma{\"build_commit\": \"fake\", \"n_threads\": 2, \"model_filename\": \"$file\", \"n_prompt\": $1, \"n_gen\": $2,"
	echo " \"avg_ns\": 1, \"avg_ts\": $3, \"samples_ts\": [ $3 ]}"
	comma=,
}
echo "["
for x in ${p//,/ }; do row "$x" 0 $((100 / slow)); done
row 0 "$n" $((10 / slow))
echo "]"
FAKE
chmod +x "$fake"
peer=(tests/bench/peer.sh -q -m "$model" -p 4,8 -n 4 -t 1 -r 3)

: >"$log"
passes "json" "${peer[@]}" -o json -- --preset cpu
cp "$scratch/out" "$scratch/json"
true_in_python "prefill, decode, cold start and memory: medians, spreads, and ratios above 1 where ours is better" "
import statistics
rows = json.load(open(sys.argv[1]))
assert [(r['test'], r['unit']) for r in rows] == [('pp4', 't/s'), ('pp8', 't/s'), ('tg4', 't/s'), ('cold start', 's'), ('peak memory', 'MiB')], rows
for r in rows:
    assert r['rounds'] == 3 and r['n_threads'] == 1 and r['placement'] == 'cpu' and r['ours_transport'] is None and r['theirs_build'] == 'fake'
    for who in ('ours', 'theirs'):
        s = r[who + '_samples']
        assert len(s) == 3 and min(s) > 0
        assert (r[who], r[who + '_min'], r[who + '_max']) == (statistics.median(s), min(s), max(s))
    each = [a / b if r['unit'] == 't/s' else b / a for a, b in zip(r['ours_samples'], r['theirs_samples'])]
    assert (r['ratio'], r['ratio_min'], r['ratio_max']) == (statistics.median(each), min(each), max(each))
assert rows[0]['theirs_samples'] == [10, 100, 100] and rows[2]['theirs_samples'] == [1, 10, 10]
assert rows[0]['theirs'] == 100 and rows[2]['theirs'] == 10
memory = rows[-1]
assert 2**20 < memory['ours_peak_memory_bytes'] < memory['ours_max'] * 2**20 * 1.5
" "$scratch/json"
same "both were called alternately, with the same options" "$(sort "$log" | uniq -c | sed 's/^ *//')" \
	"3 theirs -m $model -p 1 -n 1 -t 1 -r 1 --no-warmup -o json
3 theirs -m $model -p 4,8 -n 4 -t 1 -r 1 -o json"
same "each round ends with the cold start" "$(grep -o -e '-p [0-9,]*' "$log" | tr '\n' ' ')" "-p 4,8 -p 1 -p 4,8 -p 1 -p 4,8 -p 1 "

passes "a table" "${peer[@]}" -r 1 -- --preset cpu
true_in_python "has lines of equal width, and says below what was compared" "
lines = open(sys.argv[1]).read().split('\n')
assert len({len(l) for l in lines[:7]}) == 1 and len(lines) == 10 and not lines[7], lines
assert [l.split('|')[2].strip() for l in lines[2:7]] == ['pp4', 'pp8', 'tg4', 'cold start', 'peak memory']
assert lines[8].startswith('medians of 1 alternating rounds') and 'cpu' in lines[8] and lines[8].endswith('llama-bench fake')
" "$scratch/out"

# A shape that is quick to make.
sed -e 's/^layers = .*/layers = 2/' -e 's/^vocab = .*/vocab = 512/' share/shapes/qwen2.5-0.5b.conf >"$scratch/tiny.conf"
made=("$scratch/models/tiny-q8_0.gguf" "$scratch/models/tiny-q4_0.gguf")
small=(tests/bench/peer.sh -q --shapes "$scratch/tiny.conf" -p 4 -n 2 -t 1 -r 1 -o json)
passes "models of random weights" "${small[@]}" --types q8_0,q4_0
true_in_python "are made for each shape and type" "
rows = json.load(open(sys.argv[1]))
assert [r['model'] for r in rows] == ['tiny-q8_0.gguf'] * 4 + ['tiny-q4_0.gguf'] * 4, rows
" "$scratch/out"
before=$(stat -c %i "${made[@]}" 2>&1)
passes "are kept" "${small[@]}" --types q8_0
same "and used again" "$(stat -c %i "${made[@]}" 2>&1)" "$before"
touch -d '+1 minute' "$scratch/tiny.conf"
passes "models after their shape has changed" "${small[@]}" --types q8_0
[ "$(stat -c %i "${made[0]}")" != "$(head -1 <<<"$before")" ] && ok "are made again" || not_ok "are made again"

LLAMA_BENCH= refuses "without a llama-bench" 1 "LLAMA_BENCH is not set; set it to" "${peer[@]}"
LLAMA_BENCH=/no/such refuses "with one that is not there" 1 "LLAMA_BENCH=/no/such: no such program" "${peer[@]}"
FAKE_FAILS="out of luck" refuses "a llama-bench that fails: its last words" 1 "llama-bench ended with status 3 on .*: error: out of luck" "${peer[@]}"
FAKE_SAYS=hello refuses "one that prints something else" 1 "llama-bench printed no JSON of tests" "${peer[@]}"
FAKE_SAYS='[{"n_prompt":8,"n_gen":0,"avg_ts":1}]' refuses "one that leaves a test out" 1 "no result of the test pp4 in the output of llama-bench" "${peer[@]}"
refuses "llm-bench that fails" 1 "llm-bench ended with status 2 on .*no-such-option" \
	"${peer[@]}" -- --no-such-option
refuses "a file that does not exist" 1 "no-such.gguf: no such file" tests/bench/peer.sh -m "$scratch/no-such.gguf"
refuses "a shape that does not exist" 1 "no-such" tests/bench/peer.sh -q --shapes no-such
refuses "an unknown option" 2 "no option '--rounds'" tests/bench/peer.sh --rounds 3
refuses "an unknown format" 2 "neither md nor json" tests/bench/peer.sh -o xml
refuses "an invalid number" 2 "not a number" tests/bench/peer.sh -r many
passes "--help" tests/bench/peer.sh --help

# The table of transports.sh, which has no cold start.
for side in drm sim drm sim; do
	python3 tests/bench/turns.py run "$scratch/runs" $side warm m.gguf printf '[{"build_commit":"x","n_threads":1,"n_prompt":8,"n_gen":0,"avg_ts":%d,"transport":"%s"}]' \
		$([ $side = drm ] && echo 90 || echo 100) $side || not_ok "a run"
done
run python3 tests/bench/turns.py table "$scratch/runs" json drm sim
true_in_python "two transports" "
row, = json.load(open(sys.argv[1]))
assert (row['test'], row['drm'], row['sim'], row['ratio'], row['rounds']) == ('pp8', 90, 100, 0.9, 2), row
assert (row['drm_transport'], row['sim_transport']) == ('drm', 'sim')" "$scratch/out"
passes "sync.sh --help" tests/bench/sync.sh --help
refuses "sync.sh with an unknown option" 2 "no option '--rounds'" tests/bench/sync.sh --rounds 3
refuses "sync.sh without its model" 1 "no-such.gguf: no such file" tests/bench/sync.sh -m "$scratch/no-such.gguf"
run tests/bench/sync.sh -m "$model" -p 40 -n 4 -r 1 -o json -- --preset hetero-tensor --clock virtual
[ $rc -eq 0 ] && ok "sync.sh runs both alternately" || not_ok "sync.sh runs both alternately" "$(<"$scratch/err")"
true_in_python "fast and driver" "
rows = [json.loads(l) for l in open(sys.argv[1])] if open(sys.argv[1]).read(1) == '{' else json.load(open(sys.argv[1]))
assert {r['test'] for r in rows} == {'pp40', 'tg4'} and all(r['ratio'] > 1 for r in rows if r['test'] == 'tg4'), rows
" "$scratch/out"
run tests/bench/sync.sh -m "$model" -p 40 -n 4 -r 1 -- --preset hetero-tensor --partition row --gpu-share 0.5 --gpu host
same "and the predicted waits" "$(grep -cE '^waits    (prefill|decode): [1-9][0-9]* predicted, ' "$scratch/out") $(grep -cE '^         late by .* predicted$' "$scratch/out")" "2 2"
passes "transports.sh --help" tests/bench/transports.sh --help
refuses "transports.sh with an unknown option" 2 "no option '--rounds'" tests/bench/transports.sh --rounds 3
refuses "transports.sh without its model" 1 "no-such.gguf: no such file" tests/bench/transports.sh -m "$scratch/no-such.gguf"
finish
