/* SPDX-License-Identifier: MIT */
/* Random numbers for tests; the seed is printed, and SEED= sets it to repeat a failure. */
#ifndef NPU_RANDOM_H
#define NPU_RANDOM_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static uint64_t random_state;

static inline uint32_t random_u32(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(random_state >> 33) ^ (uint32_t)(random_state >> 17);
}

/* lo..hi, both included. */
static inline uint32_t random_in(uint32_t lo, uint32_t hi)
{
	return lo + random_u32() % (hi - lo + 1);
}

/* -1..1. */
static inline float random_float(void)
{
	return (float)(random_u32() & 0xffffff) / 8388608.0f - 1;
}

static inline void random_floats(float *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = random_float();
}

/* One seed per program; each test starts from a state of its own, so that it can run alone. */
static inline void random_begin(const char *test)
{
	static uint64_t seed;

	if (!seed) {
		seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 0)
				      : (uint64_t)time(NULL) * 2654435761u + 1;
		print_message("SEED=%llu\n", (unsigned long long)seed);
	}
	random_state = seed;
	for (const char *c = test; *c; c++)
		random_state = random_state * 31 + (uint64_t)*c;
	random_u32();
}

#endif /* NPU_RANDOM_H */
