#!/bin/bash
# SPDX-License-Identifier: MIT
# tests/bench/unpack_count.sh: SIMD instructions per weight of unpacking weights of 1 to 8 bits (EdgeFlow 4.2), for registers of
# R = 128, 256 and 512 bits. `make unpack-once` builds what it needs.
#
# Every instruction of unpacking a panel of 64 channels of 1024 numbers is counted when it is executed: on x86-64 the processor
# traps after each, for NEON qemu-aarch64 logs each. A SIMD instruction is one with a vector register among its operands,
# whatever it does: loads, stores and copies count.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
numbers=1024
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# listing PROGRAM OBJDUMP REGISTERS: the addresses of instructions with such registers, in $out/PROGRAM's name.
listing() {
	$2 -d --no-show-raw-insn "$1" | sed -nE 's/^ *([0-9a-f]+):\t(.*)/\1 \2/p' |
		awk -v r="$3" '{ text = $0; sub(/^[^ ]+ /, "", text); if (text ~ r) print $1 }'
}

# addresses ISA FORMAT BITS: of all instructions executed.
addresses() {
	if [ "$1" != neon ]; then
		"$BUILD/tests/unpack_once" "$1" "$2" "$3" $numbers
		return
	fi
	qemu-aarch64 -singlestep -d exec,nochain -D "$out/log" "$arm" generic "$2" "$3" $numbers || return
	awk -v begin="$begin" -v end="$end" -F/ '{ pc = $2; sub(/^0+/, "", pc) }
		pc == begin { on = 1 } pc == end { on = 0 } on { print pc }' "$out/log"
}

# count ISA FORMAT BITS: SIMD instructions and all instructions per weight.
count() {
	addresses "$1" "$2" "$3" >"$out/executed" || exit 1
	awk -v weights=$((numbers * 64)) 'NR == FNR { simd[$1]; next } { all++ } $1 in simd { n++ }
		END { printf "%.4f %.4f\n", n / weights, all / weights }' "$out/simd.$1" "$out/executed"
}

isas=(generic avx2 avx512)
declare -A title=([neon]="NEON, 128" [generic]="SSE2, 128" [avx2]="AVX2, 256" [avx512]="AVX-512, 512")
listing "$BUILD/tests/unpack_once" objdump '%[xyz]mm' >"$out/simd.generic"
cp "$out/simd.generic" "$out/simd.avx2"
cp "$out/simd.generic" "$out/simd.avx512"
arm=$BUILD/arm/tests/unpack_once
if command -v qemu-aarch64 >/dev/null && [ -x "$arm" ]; then
	isas=(neon "${isas[@]}")
	listing "$arm" aarch64-linux-gnu-objdump '[\t {][vqds][0-9]+' >"$out/simd.neon"
	begin=$(aarch64-linux-gnu-nm "$arm" | sed -n 's/^0*\([0-9a-f]*\) . unpack_begin$/\1/p')
	end=$(aarch64-linux-gnu-nm "$arm" | sed -n 's/^0*\([0-9a-f]*\) . unpack_end$/\1/p')
fi

echo "SIMD instructions per weight:"
echo
printf '| format | registers | 1 bit | 2 | 3 | 4 | 5 | 6 | 7 | 8 | mix of 5 | worst mix of 5 | all instructions, 5 bits |\n|---|---|'
printf -- '---:|%.0s' {1..11}
echo
for format in ${FORMATS:-wk figure7-rows figure7 k-quant k-quant-O3}; do
	for isa in "${isas[@]}"; do
		[ "$isa" = neon ] || "$BUILD/tests/unpack_once" "$isa" "$format" 1 $numbers >/dev/null 2>&1 || continue
		for bits in 1 2 3 4 5 6 7 8; do
			count "$isa" "$format" "$bits"
		done >"$out/counts"
		# The mix has 3 to 7 bits in the proportions 1, 4, 6, 4, 1. The worst mix with an average of 5 has two widths.
		awk -v head="| $format | ${title[$isa]} |" '{ n[NR] = $1; all[NR] = $2 }
			END {
				printf "%s", head
				for (b = 1; b <= 8; b++)
					printf " %.3f |", n[b]
				worst = n[5]
				for (a = 1; a < 5; a++)
					for (b = 6; b <= 8; b++) {
						x = (n[a] * (b - 5) + n[b] * (5 - a)) / (b - a)
						if (x > worst)
							worst = x
					}
				printf " %.3f | %.3f | %.3f |\n", (n[3] + 4 * n[4] + 6 * n[5] + 4 * n[6] + n[7]) / 16, worst, all[5]
			}' "$out/counts"
	done
done
