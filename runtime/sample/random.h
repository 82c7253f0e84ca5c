/* SPDX-License-Identifier: MIT */
/* Random numbers that a seed fixes on every host: xoshiro256** seeded by splitmix64. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

struct random {
	uint64_t state[4];
};

void random_seed(struct random *r, uint64_t seed);
/* The next number, at least 0 and below 1. */
double random_uniform(struct random *r);

#endif /* RANDOM_H */
