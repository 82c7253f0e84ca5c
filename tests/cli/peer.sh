#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/peer.sh, with llama-benches that compute nothing.
set -u
. tests/cli/common.bash
log=$scratch/log fake=$scratch/llama-bench
export BUILD PEER_MODELS=$scratch/models PEER_LOG=$log LLAMA_BENCH=$fake
# Plain reads have figures, but they need not be the memory's.
export READ_MIB=128

# Reports 100 tokens per second for prompts and 10 for generation, in its first run a tenth of that, and logs its options.
# --speed N: that many for prompts. --kind gp or none: without -d; none: without -gp and an end to the warm-up, too. --twice: all
# results twice.
cat >"$fake" <<'FAKE'
#!/bin/bash
speed=100 kind=d depths=0 gp=() words="$*"
while [ $# -gt 0 ]; do
	case $1 in
	-p) p=$2 ;;
	-n) n=$2 ;;
	-m) file=$2 ;;
	-d) depths=$2 ;;
	-gp) gp+=("$2") ;;
	--speed) speed=$2 ;;
	--kind) kind=$2 ;;
	--twice) depths=0,0 ;;
	--help) help=1 ;;
	esac
	shift
done
if [ -n "${help:-}" ]; then
	[ -z "${FAKE_HELPS:-}" ] || { echo "$FAKE_HELPS"; exit 0; }
	echo "  -p, --n-prompt <n>  (default: 512)"
	case $kind in
	d) printf '  -d, --n-depth <n>\n  --no-warmup\n' ;;
	gp) printf '  -gp <pp,tg>\n  -w, --warmup <0|1>\n' ;;
	esac
	exit 0
fi
echo "theirs $words" >>"$PEER_LOG"
[ -z "${FAKE_FAILS:-}" ] || { echo "loading" >&2; echo "error: $FAKE_FAILS" >&2; exit 3; }
[ -z "${FAKE_SAYS:-}" ] || { echo "$FAKE_SAYS"; exit 0; }
slow=1
[ "$(grep -c '^theirs.*-r 1 -o json$' "$PEER_LOG")" -gt 1 ] || slow=10
row() { # N_PROMPT N_GEN RATE DEPTH TEST
	echo "$comma{\"build_commit\": \"fake\", \"n_threads\": 2, \"model_filename\": \"$file\", \"n_prompt\": $1, \"n_gen\": $2,"
	[ $kind != d ] || echo " \"n_depth\": $4,"
	echo " \"test\": \"$5\", \"avg_ns\": 1, \"avg_ts\": $3, \"samples_ts\": [ $3 ]}"
	comma=,
}
echo "["
for d in ${depths//,/ }; do
	for x in ${p//,/ }; do
		[ "$x" = 0 ] || row "$x" 0 $((speed / slow)) "$d" "pp$x"
	done
	[ "$n" = 0 ] || row 0 "$n" $((10 / slow)) "$d" "tg$n"
done
for x in "${gp[@]}"; do
	row "${x%,*}" "${x#*,}" 5 0 "tg${x#*,}@pp${x%,*}"
done
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
    assert r['peer'] == 'llama-bench' and r['theirs_options'] == '' and r['skipped'] is None and r['kv'] == 'f16'
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
# The model's matrices take 34 bytes for 32 weights; it has six layers of 128 keys and values of two bytes each. The four tokens of
# tg4 attend to 1, 2, 3 and 4.
true_in_python "decode: bytes per token, their rate, and its fraction of plain reads" "
rows = json.load(open(sys.argv[1]))
assert [('ours_bytes_per_token' in r) for r in rows] == [False, False, True, False, False], rows
r = rows[2]
weights = r['ours_bytes_per_token'] - 2 * 6 * 128 * 2 * 2.5
assert weights % 34 == 0 and 4.7e6 < weights / 34 * 32 < 5770496, r
for each in ('', '_min', '_max'):
    gbps = r['ours_bytes_per_token'] * r['ours' + each] / 1e9
    assert abs(r['ours_gbps' + each] - gbps) < 1e-9 * gbps, r
assert 0.1 < r['ours_host_gbps_min'] <= r['ours_host_gbps'] <= r['ours_host_gbps_max'] < 10000
assert r['ours_gbps_min'] / r['ours_host_gbps_max'] <= r['ours_of_host_min'] <= r['ours_of_host'] <= r['ours_of_host_max'] <= \
    r['ours_gbps_max'] / r['ours_host_gbps_min']
" "$scratch/json"
same "both were called alternately, with the same options" "$(sort "$log" | uniq -c | sed 's/^ *//')" \
	"3 theirs -m $model -p 1 -n 1 -t 1 -r 1 --no-warmup -o json
3 theirs -m $model -p 4,8 -n 4 -t 1 -r 1 -o json"
same "each round ends with the cold start" "$(grep -o -e '-p [0-9,]*' "$log" | tr '\n' ' ')" "-p 4,8 -p 1 -p 4,8 -p 1 -p 4,8 -p 1 "

passes "a table" "${peer[@]}" -r 1 -- --preset cpu
true_in_python "has lines of equal width, says below what was compared, and what decode read" "
lines = open(sys.argv[1]).read().split('\n')
assert len({len(l) for l in lines[:7]}) == 1 and len(lines) == 16 and not lines[7] + lines[9] + lines[11], lines
assert [l.split('|')[2].strip() for l in lines[2:7]] == ['pp4', 'pp8', 'tg4', 'cold start', 'peak memory']
assert lines[8].startswith('medians of 1 alternating rounds') and 'cpu' in lines[8] and lines[8].endswith('llama-bench fake')
cells = [[c.strip() for c in l.split('|')[1:-1]] for l in lines[12:15]]
assert cells[0] == ['model', 'test', 'MiB per token', 'GB/s', 'plain reads, GB/s', 'fraction of them'], cells
" "$scratch/out"
one=(tests/bench/peer.sh -q -m "$model" -p 4 -n 4 -t 1 -r 2)

# ---- several peers -------------------------------------------------------------------------------

: >"$log"
two="fast=$fake --speed 400, b.2=$fake  --kind gp -rtr 1"
LLAMA_BENCH=$two passes "two peers" "${one[@]}" -o json -- --preset cpu
true_in_python "each is compared with ours, with its own options" "
rows = json.load(open(sys.argv[1]))
assert [(r['test'], r['peer']) for r in rows] == [(t, p) for t in ('pp4', 'tg4', 'cold start', 'peak memory') for p in ('fast', 'b.2')], rows
assert rows[0]['theirs_max'] == 400 and rows[1]['theirs_max'] == 100
assert [r['theirs_options'] for r in rows[:2]] == ['--speed 400', '--kind gp -rtr 1']
assert rows[0]['ours_samples'] == rows[1]['ours_samples']
for r in rows[:4]:
    assert len(r['theirs_samples']) == 2 and abs(r['ratio_max'] - max(a / b for a, b in zip(r['ours_samples'], r['theirs_samples']))) < 1e-9
" "$scratch/out"
turn="theirs --speed 400 -m $model -p 4 -n 4 -t 1 -r 1 -o json
theirs --kind gp -rtr 1 -m $model -p 4 -n 4 -t 1 -r 1 -o json
theirs --speed 400 -m $model -p 1 -n 1 -t 1 -r 1 --no-warmup -o json
theirs --kind gp -rtr 1 -m $model -p 1 -n 1 -t 1 -r 1 -w 0 -o json"
same "and all take turns in each round" "$(<"$log")" "$turn
$turn"
LLAMA_BENCH=$two passes "two peers in a table" "${one[@]}" -r 1 -- --preset cpu
true_in_python "have two columns each" "
lines = open(sys.argv[1]).read().split('\n')
cells = [c.strip() for c in lines[0].split('|')[1:-1]]
assert cells == ['model', 'test', 'unit', 'llm-bench', 'fast', 'times better', 'b.2', 'times better'], cells
assert len({len(l) for l in lines[:6]}) == 1 and lines[7].endswith('fast fake (--speed 400), b.2 fake (--kind gp -rtr 1)'), lines
" "$scratch/out"

# ---- depths and caches ---------------------------------------------------------------------------

: >"$log"
LLAMA_BENCH="new=$fake,old=$fake --kind gp,oldest=$fake --kind none" passes "depths" "${one[@]}" -r 1 -d 0,16 -o json -- --preset cpu
true_in_python "are part of the tests' names, and a peer that cannot measure at one says so" "
rows = {(r['test'], r['peer']): r for r in json.load(open(sys.argv[1]))}
assert {t for t, _ in rows} == {'pp4', 'tg4', 'pp4@d16', 'tg4@d16', 'cold start', 'peak memory'}, rows.keys()
assert all(rows[t, 'new']['theirs'] for t, _ in rows)
assert rows['tg4@d16', 'new']['theirs'] == 1 and rows['tg4@d16', 'old']['theirs'] == 5 and rows['tg4', 'oldest']['theirs'] == 10
skipped = {k: r['skipped'] for k, r in rows.items() if r['skipped']}
assert skipped == {('pp4@d16', 'old'): 'its llama-bench has no -d, and -gp is for generation only',
    ('pp4@d16', 'oldest'): 'its llama-bench has neither -d nor -gp', ('tg4@d16', 'oldest'): 'its llama-bench has neither -d nor -gp',
    ('cold start', 'oldest'): 'its llama-bench cannot leave out the warm-up'}, skipped
assert all(r['theirs'] is None and r['ratio'] is None and r['theirs_samples'] is None for r in rows.values() if r['skipped'])
deep, flat = rows['tg4@d16', 'new']['ours_bytes_per_token'], rows['tg4', 'new']['ours_bytes_per_token']
assert deep - flat == 16 * 2 * 6 * 128 * 2, (deep, flat)
" "$scratch/out"
same "by -d, by -gp, or not at all" "$(grep -v -e '-n 1 ' "$log" | sed 's/^theirs //; s/-m [^ ]* //; s/ -t.*//')" "-p 4 -n 4 -d 0,16
--kind gp -p 4 -n 4 -gp 16,4
--kind none -p 4 -n 4"
: >"$log"
LLAMA_BENCH="old=$fake --kind gp" passes "a depth alone, in a table" "${one[@]}" -r 1 -d 16 -- --preset cpu
same "names what is missing, and why" "$(grep '^old has no' "$scratch/out")" \
	"old has no pp4@d16: its llama-bench has no -d, and -gp is for generation only"
same "and does not run tests at depth 0" "$(sed -n '1s/ -t.*//; 1s/.*gguf//p' "$log")" " -p 0 -n 0 -gp 16,4"
: >"$log"
LLAMA_BENCH="a=$fake,b=$fake -fa 0" passes "types of the cache" "${one[@]}" -r 1 --kv f16,q8_0 -o json -- --preset cpu
true_in_python "are compared apart" "
rows = json.load(open(sys.argv[1]))
got = [(r['kv'], r['test'], r['ours_bytes_per_token']) for r in rows if r['peer'] == 'a' and r['test'] == 'tg4']
assert [g[:2] for g in got] == [('f16', 'tg4'), ('q8_0', 'tg4')] and got[0][2] - got[1][2] == 2 * 6 * 2.5 * (2 * 128 - 34 * 4), got
" "$scratch/out"
same "peers get them, and flash attention for quantised ones, unless they have that option" \
	"$(grep -v -e '-n 1 ' "$log" | sed 's/^theirs //; s/-m [^ ]* //')" "-p 4 -n 4 -t 1 -r 1 -ctk f16 -ctv f16 -o json
-fa 0 -p 4 -n 4 -t 1 -r 1 -ctk f16 -ctv f16 -o json
-p 4 -n 4 -t 1 -r 1 -ctk q8_0 -ctv q8_0 -fa 1 -o json
-fa 0 -p 4 -n 4 -t 1 -r 1 -ctk q8_0 -ctv q8_0 -o json"

# ---- models --------------------------------------------------------------------------------------

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

touch -d '-1 minute' "$scratch/tiny.conf"
# Copies, so that what it makes can be read.
cat >"$scratch/llama-quantize" <<'FAKE'
#!/bin/bash
echo "quantize $*" >>"$PEER_LOG"
[ -z "${FAKE_FAILS:-}" ] || { echo "half" >"$2"; echo "loading" >&2; echo "error: $FAKE_FAILS" >&2; exit 1; }
cp "$1" "$2"
FAKE
chmod +x "$scratch/llama-quantize"
: >"$log"
refuses "a type that llm-quantize does not write, without a llama-quantize" 1 "--types q4_k_m: LLAMA_QUANTIZE is not set; set it to" \
	"${small[@]}" --types q8_0,q4_k_m
same "before anything is measured" "$(wc -l <"$log")" 0
LLAMA_QUANTIZE=/no/such refuses "with one that is not there" 1 "LLAMA_QUANTIZE=/no/such: no such program" "${small[@]}" --types q4_k_m
export LLAMA_QUANTIZE=$scratch/llama-quantize
FAKE_FAILS="no such type" refuses "one that fails: its last words" 1 "did not make q4_k_m: error: no such type" "${small[@]}" --types q4_k_m
same "and leaves no half model" "$(cd "$scratch/models" && echo *q4_k*)" "*q4_k*"
: >"$log"
passes "with one that works" "${small[@]}" --types q4_k_m
true_in_python "the model is made" "
assert {r['model'] for r in json.load(open(sys.argv[1]))} == {'tiny-q4_k_m.gguf'}" "$scratch/out"
same "from the one of f16" "$(sed -n 's|^quantize ||p' "$log" | sed "s|$scratch/||g; s|gguf\.[0-9]*|gguf.NEW|")" \
	"models/tiny-f16.gguf models/tiny-q4_k_m.gguf.NEW q4_k_m 1"
unset LLAMA_QUANTIZE
passes "which is kept, so that llama-quantize is not needed again" "${small[@]}" --types q4_k_m

# ---- errors --------------------------------------------------------------------------------------

LLAMA_BENCH= refuses "without a llama-bench" 1 "LLAMA_BENCH is not set; set it to" "${peer[@]}"
LLAMA_BENCH=/no/such refuses "with one that is not there" 1 "LLAMA_BENCH: /no/such: no such program" "${peer[@]}"
LLAMA_BENCH="a=$fake,b=/no/such -x" refuses "with a second one that is not there" 1 "LLAMA_BENCH: /no/such: no such program" "${peer[@]}"
LLAMA_BENCH="a=$fake,,b=$fake" refuses "with nothing between two commas" 1 "an empty entry" "${peer[@]}"
LLAMA_BENCH="=$fake" refuses "an empty label" 1 "an empty label before '=$fake'" "${peer[@]}"
LLAMA_BENCH="a= $fake" refuses "a label without a program" 1 "no program after 'a='" "${peer[@]}"
LLAMA_BENCH="a=$fake,a=$fake -x" refuses "the same label twice" 1 "two programs are called a; give each a label" "${peer[@]}"
LLAMA_BENCH="$fake,$fake -x" refuses "the same program twice without labels" 1 "two programs are called llama-bench" "${peer[@]}"
LLAMA_BENCH="llm-bench=$fake" refuses "our label" 1 "two programs are called llm-bench" "${peer[@]}"
LLAMA_BENCH="a=$(command -v true)" refuses "a program that is no llama-bench" 1 "a: .*true is no llama-bench" "${peer[@]}"
FAKE_HELPS="libllama.so: not found" refuses "one that cannot start" 1 "is no llama-bench: its --help says 'libllama.so: not found'" "${peer[@]}"
LLAMA_BENCH="a=$fake,b=$fake --kind none" refuses "depths only, of one that has none" 1 \
	"b: its llama-bench has neither -d nor -gp, so it can do none of the tests of -d 16,32" "${peer[@]}" -d 16,32
LLAMA_BENCH="a=$fake,b=env FAKE_FAILS=unlucky $fake" refuses "a second peer that fails, with a variable of its own" 1 \
	"b ended with status 3 on .*: error: unlucky" "${peer[@]}"
LLAMA_BENCH="a=$fake --twice" refuses "options of a peer that multiply the tests" 1 "2 results of the test pp4 in the output of a" "${peer[@]}" -r 1
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
refuses "an invalid depth" 2 "-d 16,: not a list of numbers" tests/bench/peer.sh -d 16,
refuses "an invalid type of cache" 2 "--kv f16;q8_0: not a list of types" tests/bench/peer.sh --kv "f16;q8_0"
refuses "a type of cache that llm-bench does not have" 1 "llm-bench ended with status 2 on .*'q2_x' is none of" "${peer[@]}" --kv q2_x
BUILD=$scratch/empty refuses "without llm-bench" 1 "no .*/bin/llm-bench: run make all" "${peer[@]}"
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
