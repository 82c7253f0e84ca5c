// SPDX-License-Identifier: MIT
#include <stdbool.h>
#include <stddef.h>

#include "reader.h"

#define PART (READER_BYTES / 4)

/* Sums memory, from four places at a time or from one. */
static inline __attribute__((always_inline)) void sum(const uint8_t *memory, bool one)
{
	typedef uint64_t vec __attribute__((vector_size(32), aligned(32)));
	const size_t apart = one ? 64 : PART, step = one ? 256 : 64;
	const uint8_t *p = memory, *end = p + (one ? READER_BYTES : PART);
	vec a[4] = { { 0 } };

	for (; p < end; p += step) {
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++) {
			const uint8_t *line = p + i * apart;

			if (one) {
				__builtin_prefetch(line + 4096, 0, 3);
			} else {
				__builtin_prefetch(line + 768, 0, 2);
				__builtin_prefetch(line + 256, 0, 3);
			}
			a[i] += ((const vec *)line)[0] + ((const vec *)line)[1];
		}
	}
	a[0] += a[1] + a[2] + a[3];
	__asm__ volatile("" : : "r"(a[0][0] + a[0][1] + a[0][2] + a[0][3]));
}

#if defined(__x86_64__)
#define READER __attribute__((target("avx2"))) static void
#else
#define READER static void
#endif
READER from_one(const uint8_t *memory)
{
	sum(memory, true);
}

READER from_four(const uint8_t *memory)
{
	sum(memory, false);
}

const reader_fn readers[READERS] = { from_one, from_four };
