#!/bin/bash
# SPDX-License-Identifier: MIT
# The USDT probes of libnpu: they are those of docs/tracing.md, with their arguments, and each is a nop unless it is traced.
set -u
. tests/cli/common.bash

lib=$BUILD/lib/libnpu.so
readelf -n "$lib" >"$scratch/notes" 2>/dev/null
# NAME ARGUMENTS, from the ELF notes and from the documentation's table: "| `name` | a, b | ... |".
awk '/Provider: libnpu/ {p = 1} p && /Name:/ {name = $2} p && /Arguments:/ {print name, NF - 1; p = 0}' "$scratch/notes" |
	sort -u >"$scratch/is"
sed -n '/^## USDT/,/^## /s/^| `\([a-z_]*\)` | \([a-z_, ]*[a-z]\) *|.*/\1 \2/p' docs/tracing.md |
	awk '{print $1, NF - 1}' | sort -u >"$scratch/documented"
[ -s "$scratch/is" ] && ok "there are probes" || not_ok "there are probes" "$(head -5 "$scratch/notes")"
while read -r name count; do
	grep -qx "$name $count" "$scratch/is" && ok "$name has $count arguments" ||
		not_ok "$name has $count arguments" "$(grep "^$name " "$scratch/is")"
done <"$scratch/documented"
same "no probe is undocumented" "$(<"$scratch/is")" "$(<"$scratch/documented")"

sed -n '/Provider: libnpu/,/Arguments/s/.*Location: \(0x[0-9a-f]*\),.*Semaphore: \(0x[0-9a-f]*\).*/\1 \2/p' "$scratch/notes" >"$scratch/places"
nops=0
while read -r place semaphore; do
	objdump -d --start-address="$place" --stop-address=$((place + 1)) "$lib" | grep -q $'\t90 .*nop' &&
		[ $((semaphore)) -eq 0 ] && nops=$((nops + 1))
done <"$scratch/places"
same "each probe is one nop, without a semaphore" "$nops" "$(wc -l <"$scratch/places")"
finish
