// SPDX-License-Identifier: MIT
/*
 * ASan's checks of accesses of 32 and 64 bytes, linked into checked tests in place of ASan's own.
 * In files with many accesses they are calls, of functions that look at ranges of any size: up to
 * half of what tests of whole models do. These look at the shadow of all bytes at once. What is not
 * addressable as a whole is left to ASan.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define UNCHECKED __attribute__((no_sanitize("address", "undefined")))
/* Where ASan puts the shadow of x86-64: a byte for eight, 0 if all eight are addressable. */
#define SHADOW(at) ((const uint8_t *)((at) / 8 + 0x7fff8000))

void *__asan_region_is_poisoned(void *at, size_t n);
void __asan_report_load_n(void *at, long n);
void __asan_report_store_n(void *at, long n);
void __asan_loadN(void *at, long n);
void __asan_storeN(void *at, long n);

UNCHECKED static inline bool is_poisoned(void *at, long n)
{
	const uint8_t *first = SHADOW((uintptr_t)at), *last = SHADOW((uintptr_t)at + (size_t)n - 1);
	uint64_t eight;
	uint32_t four;

	if (n == 64) {
		memcpy(&eight, first, sizeof(eight));
		if (!(eight | *last))
			return false;
	} else if (n == 32) {
		memcpy(&four, first, sizeof(four));
		if (!(four | *last))
			return false;
	}
	return n && __asan_region_is_poisoned(at, (size_t)n);
}

UNCHECKED void __asan_loadN(void *at, long n)
{
	if (is_poisoned(at, n))
		__asan_report_load_n(at, n);
}

UNCHECKED void __asan_storeN(void *at, long n)
{
	if (is_poisoned(at, n))
		__asan_report_store_n(at, n);
}
