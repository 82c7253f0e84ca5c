#!/bin/bash
# SPDX-License-Identifier: MIT
# Checks the form of the C sources, headers and OpenCL kernels in the tree (lengths of lines, files and
# functions, includes, spaces, clang-format 14), and that docs/papers.md, words.md and extending.md name existing
# files and functions. First tries the checks on files with each fault.
set -u
. tests/cli/common.bash

# measure FOLDER FILE...: writes the offenders of each check to a file in FOLDER, which is empty if there
# are none, and the lengths of functions to FOLDER/figures.
#
# A function begins with the first line of its head and ends with its closing brace. In kernel style both
# braces are in the first column.
measure() {
	python3 - "$@" <<'PYTHON'
import re, sys

MAX_COLUMNS, MAX_LINES, MAX_P99 = 100, 800, 60
folder, paths = sys.argv[1], sys.argv[2:]
faults = {name: [] for name in ("columns", "lines", "includes", "spaces", "functions")}
functions = []

def head_line(lines, brace):
    """The first line of the head of the function whose opening brace is in line `brace`."""
    first = brace
    while first > 0 and not re.match(r"\s*$|#|.*([;}]|\*/|\\)$|.*//", lines[first - 1]):
        first -= 1
    return first

for path in paths:
    lines = open(path, encoding="utf-8").read().split("\n")
    if lines[-1] == "":
        lines.pop()
    if len(lines) > MAX_LINES:
        faults["lines"].append(f"{path}: {len(lines)} lines")
    brace = None
    for number, line in enumerate(lines):
        where = f"{path}:{number + 1}"
        columns = len(line.expandtabs(8))
        if columns > MAX_COLUMNS:
            faults["columns"].append(f"{where}: {columns} columns")
        if re.match(r'\s*#\s*include\s*["<]([^">]*/)?\.\.', line):
            faults["includes"].append(f"{where}: {line.strip()}")
        if line != line.rstrip():
            faults["spaces"].append(f"{where}: space at the end of the line")
        if line == "{":
            brace = number
        elif line == "}" and brace is not None:
            first = head_line(lines, brace)
            functions.append((number - first + 1, f"{path}:{first + 1}"))
            brace = None

functions.sort(key=lambda f: (-f[0], f[1]))
lengths = sorted(length for length, where in functions)
p50, p90, p99 = (lengths[-(-len(lengths) * p // 100) - 1] if lengths else 0 for p in (50, 90, 99))
longest = [f"{where}: {length} lines" for length, where in functions[:20]]
if p99 >= MAX_P99:
    faults["functions"] = [f"p99 is {p99} lines; the longest are"] + longest[:19]
with open(f"{folder}/figures", "w") as out:
    print(f"functions: {len(functions)}, lines at p50/p90/p99: {p50}/{p90}/{p99}; the longest:",
          *longest[:5], sep="\n    ", file=out)
for name, found in faults.items():
    with open(f"{folder}/{name}", "w") as out:
        print(f"{len(found)} in all:", *found, sep="\n", file=out) if len(found) > 20 else \
            print(*found, sep="\n", end="\n" if found else "", file=out)
PYTHON
}

# astray FILE...: prints paths in documents that do not exist, and each `function()` without a file in
# brackets after it or which is not in that file.
astray() {
	python3 - "$@" <<'PYTHON'
import os, re, sys

FUNCTION = r"`\w+\(\)`"
for path in sys.argv[1:]:
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        for named in re.findall(r"(?<![\w/.-])(?:[\w-]+/)+[\w.-]+\.(?:cl|[ch]|sh|py)\b", line):
            if not os.path.exists(named):
                print(f"{path}:{number}: no file {named}")
        behind = re.findall(rf"({FUNCTION}(?:(?:, | and ){FUNCTION})*) \(([\w/.-]+\.[ch]l?)\)", line)
        placed = set()
        for functions, source in behind:
            text = open(source, encoding="utf-8").read() if os.path.exists(source) else ""
            for function in re.findall(r"\w+(?=\()", functions):
                placed.add(function)
                if not re.search(rf"^[a-zA-Z][^\n;=]*\b{function}\(", text, re.M):
                    print(f"{path}:{number}: no function {function}() in {source}")
        for function in set(re.findall(r"`(\w+)\(\)`", line)) - placed:
            print(f"{path}:{number}: {function}() without its file")
PYTHON
}

# reports NAME FILE: ok if the file is empty; otherwise it lists the offenders.
reports() {
	if [ -e "$2" ] && [ ! -s "$2" ]; then ok "$1"; else not_ok "$1" "$(cat "$2" 2>&1)"; fi
}

# finds NAME CHECK LINES: measure reports these lines for the files in $bad.
finds() { same "$1" "$(sed "s|$bad/||" "$scratch/self/$2")" "$3"; }

# unformatted FILE...: prints the places that clang-format would change, or its error.
unformatted() {
	rm -f "$scratch"/says.*
	printf '%s\0' "$@" | scratch=$scratch xargs -0 -P 2 -n 64 \
		sh -c '"$0" --style=file --dry-run "$@" 2>"$scratch/says.$$"' "$clang_format" ||
		{ echo "clang-format fails:" && cat "$scratch"/says.*; }
	sed -n 's/^\(.*:[0-9]*\):[0-9]*: warning: .*/\1: is formatted otherwise/p' "$scratch"/says.* |
		sort -uV
}

clang_format=
for program in clang-format-14 clang-format; do
	"$program" --version 2>/dev/null | grep -q ' version 14\.' && clang_format=$program && break
done

# ---- each fault is found -------------------------------------------------------------------------

bad=$scratch/bad
mkdir "$bad" "$scratch/self" "$scratch/tree"
columns() { printf "%${1}s" '' | tr ' ' x; }
lines() { yes "$2" | head -n "$1"; }
{
	echo "int $(columns 95);"
	echo "int $(columns 96);"
	printf '\tint %s;\n' "$(columns 87)"
	printf '\tint %s;\n' "$(columns 88)"
	printf 'int /*\t*/ %s;\n' "$(columns 86)"
	printf '// %s\n' "$(columns 97 | sed 's/x/ß/g')"
} >"$bad/columns.c"
lines 800 'int a;' >"$bad/lines_800.c"
lines 801 'int a;' >"$bad/lines_801.c"
printf '#include "%s"\n' '../a.h' 'b/../a.h' 'a..h' 'b/a.h' >"$bad/includes.c"
printf '#  include <%s>\n' '../a.h' 'b/a.h' >>"$bad/includes.c"
printf 'int a; \nint b;\t\n\t\nint c;\n' >"$bad/spaces.c"
{
	printf '/* What it does. */\nstatic int a(int b,\n\t     int c)\n{\n\treturn b;\n}\n\n'
	printf 'struct s {\n\tint a;\n};\n\n#define X 1\n'
	printf 'int long_one(void)\n{\n%s\n}\n' "$(lines 57 '	x;')"
} >"$bad/functions.c"

measure "$scratch/self" "$bad"/{columns,lines_800,lines_801,includes,spaces,functions}.c
finds "a line of 101 columns is found, with tabs and with characters of two bytes" columns \
	'columns.c:2: 101 columns
columns.c:4: 101 columns'
finds "a file of 801 lines is found" lines 'lines_801.c: 801 lines'
finds "an include that goes up a folder is found" includes 'includes.c:1: #include "../a.h"
includes.c:2: #include "b/../a.h"
includes.c:5: #  include <../a.h>'
finds "space at the end of a line is found" spaces 'spaces.c:1: space at the end of the line
spaces.c:2: space at the end of the line
spaces.c:3: space at the end of the line'
finds "functions of 60 lines at p99 are found, from head to brace" functions \
	'p99 is 60 lines; the longest are
functions.c:13: 60 lines
functions.c:2: 5 lines'
if [ -n "$clang_format" ]; then
	cp .clang-format "$bad/"
	printf 'int f(void)\n{\n\treturn  1;\n}\n' >"$bad/format.c"
	unformatted "$bad/format.c" "$bad/lines_800.c" >"$scratch/self/format"
	finds "a line that clang-format changes is found" format "format.c:3: is formatted otherwise"
fi

cat >"$bad/doc.md" <<'DOC'
| `expect_learn()` (wait/expect.h), `run()` and `ok()` (soc/soc_cost.c) | soc/none.h |
| `sched_run()` in runtime/none/x.c |
DOC
astray "$bad/doc.md" >"$scratch/self/astray"
finds "a document that names what is not there is found" astray 'doc.md:1: no file soc/none.h
doc.md:1: no function run() in soc/soc_cost.c
doc.md:1: no function ok() in soc/soc_cost.c
doc.md:2: no file runtime/none/x.c
doc.md:2: sched_run() without its file'

# ---- the tree ------------------------------------------------------------------------------------

git=(git -c safe.directory='*')
if "${git[@]}" rev-parse >/dev/null 2>&1; then
	mapfile -t files < <("${git[@]}" ls-files '*.c' '*.h' '*.cl' | xargs ls -d 2>/dev/null)
else # an archive of the tree
	mapfile -t files < <(find . \( -path ./build -o -path "./$BUILD" \) -prune -o \
		-name '*.[ch]' -print -o -name '*.cl' -print | cut -c3- | sort)
fi
same "there are sources" "$([ ${#files[@]} -gt 100 ] && echo some || echo "${#files[@]}")" some
measure "$scratch/tree" "${files[@]}"
reports "no line is longer than 100 columns" "$scratch/tree/columns"
reports "no file is longer than 800 lines" "$scratch/tree/lines"
reports "no include goes up a folder" "$scratch/tree/includes"
reports "no line ends in space" "$scratch/tree/spaces"
reports "of 100 functions 99 are shorter than 60 lines" "$scratch/tree/functions"
cat "$scratch/tree/figures"
astray docs/papers.md docs/words.md docs/extending.md >"$scratch/tree/astray"
reports "docs/papers.md, words.md and extending.md name what is there" "$scratch/tree/astray"
if [ -n "$clang_format" ]; then
	unformatted "${files[@]}" >"$scratch/tree/format"
	reports "clang-format 14 changes nothing" "$scratch/tree/format"
else
	skip "clang-format 14 changes nothing" "clang-format 14 is not installed"
fi
finish
