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
new=$(mktemp) || exit 1
trap 'rm -f "$new"' EXIT

for page in $(grep -l '^\.\\" Written by docs/man/options.sh: ' docs/man/*.[18]); do
	awk -v bin="$bin/" '
		/^\.\\" End of what is written\./ { inside = 0 }
		!inside
		sub(/^\.\\" Written by docs\/man\/options\.sh: /, "") {
			inside = 1
			while (((bin $0) | getline line) > 0) print line
			if (close(bin $0)) exit 1
		}
	' "$page" >"$new" || exit 1
	if [ "${1:-}" = --check ]; then
		diff -u "$page" "$new" || status=1
	else
		cmp -s "$page" "$new" || cat "$new" >"$page"
	fi
done
exit $status
