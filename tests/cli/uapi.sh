#!/bin/bash
# SPDX-License-Identifier: MIT
# The ABI headers have one layout for 32-bit and 64-bit programs, and C++ can include them (tests/uapi/layout.c).
set -u
passed=0 failed=0 skipped=0
includes="-Iuapi $(pkg-config --cflags libdrm)"
# asm/ is the same for 32 and 64 bits.
m32=(-m32 -idirafter "/usr/include/$(gcc -print-multiarch)")

compile() { # NAME COMPILER FLAGS...
	local name=$1 cc=$2
	shift 2
	if [[ " $* " = *" -m32 "* ]] && ! echo '#include <stddef.h>
#include <linux/types.h>' | $cc "$@" -x c -fsyntax-only - 2>/dev/null; then
		echo "skip $name: $cc has no 32-bit headers (gcc-12-multilib)"
		skipped=$((skipped + 1))
	elif $cc "$@" -Wall -Wextra -Werror $includes -fsyntax-only tests/uapi/layout.c; then
		echo "ok $name"
		passed=$((passed + 1))
	else
		echo "not ok $name"
		failed=$((failed + 1))
	fi
}

compile "layout as 64-bit C" gcc -std=c11 -m64
compile "layout as 32-bit C" gcc -std=c11 "${m32[@]}"
compile "layout as 64-bit C++" g++ -x c++ -std=c++11 -Wno-invalid-offsetof -m64
compile "layout as 32-bit C++" g++ -x c++ -std=c++11 -Wno-invalid-offsetof "${m32[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
