// SPDX-License-Identifier: MIT
#include "random.h"

void random_seed(struct random *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t z = seed += 0x9e3779b97f4a7c15u;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		r->state[i] = z ^ z >> 31;
	}
}

static uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static uint64_t random_next(struct random *r)
{
	uint64_t *w = r->state, result = rotl(w[1] * 5, 7) * 9, t = w[1] << 17;

	w[2] ^= w[0];
	w[3] ^= w[1];
	w[1] ^= w[2];
	w[0] ^= w[3];
	w[2] ^= t;
	w[3] = rotl(w[3], 45);
	return result;
}

double random_uniform(struct random *r)
{
	return (double)(random_next(r) >> 11) * 0x1p-53;
}
