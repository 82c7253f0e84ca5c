#!/bin/bash
# SPDX-License-Identifier: MIT
# Writes the lists of options into the manual pages, each between its two lines of comment, from the programs that have them:
#
#	docs/man/options.sh [--check]     BUILD=DIR as in the Makefile
#
# With --check nothing is written, and pages that would change are shown and make it fail. From the root of the tree.
set -u
bin=${BUILD:-build}/bin
status=0
new=$(mktemp) && list=$(mktemp) || exit 1
trap 'rm -f "$new" "$list"' EXIT

for page in $(grep -l '^\.\\" Written by docs/man/options.sh: ' docs/man/*.[18]); do
	read -r tool arguments <<<"$(sed -n 's|^\.\\" Written by docs/man/options.sh: ||p' "$page")"
	# shellcheck disable=SC2086
	"$bin/$tool" $arguments >"$list" || exit 1
	awk -v list="$list" '
		/^\.\\" End of what is written\./ { inside = 0 }
		!inside
		/^\.\\" Written by docs\/man\/options\.sh: / { inside = 1; while ((getline line < list) > 0) print line }
	' "$page" >"$new"
	if [ "${1:-}" = --check ]; then
		diff -u "$page" "$new" || status=1
	else
		cmp -s "$page" "$new" || cat "$new" >"$page"
	fi
done
exit $status
