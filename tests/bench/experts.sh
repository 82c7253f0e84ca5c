#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/experts.sh
# Prints what a model with experts takes beside two dense ones of the same layers: one whose FFN is as long as those of a token's
# experts together, and one with that of all experts. A token reads its own experts only, so decoding should be near the first. The
# models take turns in each round; medians. See docs/models.md.
#
#   BUILD      the folder of bin/ (build)
#   PLACEMENT  fine
#   TYPE       of the files (q8_0)
#   ROUNDS     5
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(realpath -m "${BUILD:-$root/build}")/bin
fail() { echo "experts.sh: $*" >&2; exit 1; }
experts=32 used=4 ffn=512
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# shape NAME FFN: writes a shape of random weights, and its model.
shape() {
	printf '[model]\nlayers = 12\ndim = 1024\nheads = 16\nkv_heads = 4\nhead_dim = 64\nffn = %d\nvocab = 8192\nactivation = silu\ngated = yes\ntied = no\nqkv_bias = no\n' \
		"$2" >"$work/$1.conf"
	[ "$1" != experts ] || printf 'experts = %d\nexperts_used = %d\n' $experts $used >>"$work/$1.conf"
	"$bin/llm-quantize" --synthetic "$work/$1.conf" "$work/$1.gguf" "${TYPE:-q8_0}" >/dev/null || exit 1
}

shape experts $ffn
shape active $((ffn * used))
shape whole $((ffn * experts))
for ((round = 0; round < ${ROUNDS:-5}; round++)); do
	for side in experts active whole; do
		"$bin/llm-bench" -m "$work/$side.gguf" -p 128 -n 32 -r 1 --placement "${PLACEMENT:-fine}" -o json >"$work/json" 2>"$work/log" ||
			fail "$(<"$work/log")"
		python3 -c '
import json, sys
for row in json.load(open(sys.argv[1])):
    print(sys.argv[2], row["n_gen"], row["avg_ts"], row["weight_bytes_read"] or 0)' "$work/json" "$side" >>"$work/runs" || exit 1
	done
done
python3 - "$work/runs" <<'END'
import statistics, sys
runs = [line.split() for line in open(sys.argv[1])]
speed = lambda side, n: statistics.median(float(r[2]) for r in runs if r[0] == side and (int(r[1]) > 0) == n)
read = {r[0]: float(r[3]) / int(r[1]) / 2**20 for r in runs if int(r[1])}
print('| model | prompt, t/s | decode, t/s | of the active one | MiB a token |\n|---|---:|---:|---:|---:|')
for side in 'experts', 'active', 'whole':
    print('| %s | %.0f | %.1f | %.2f | %.0f |' % (side, speed(side, False), speed(side, True),
          speed(side, True) / speed('active', True), read[side]))
END
