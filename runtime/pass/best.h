/* SPDX-License-Identifier: MIT */
/* The most probable tokens of a row of logits (CoordGen 3.3). */
#ifndef BEST_H
#define BEST_H

#include "cpu_kernels.h"
#include "llm.h"

/*
 * Writes the @k tokens with the greatest of @logits [n] to @best, the greatest first, of equal ones
 * the lowest id, with their probabilities among all. A NaN is no candidate; if fewer than @k are
 * left, the rest has id -1 and probability 0.
 */
void best_tokens(const struct cpu_kernels *kernels, const float *logits, unsigned int n,
		 struct llm_candidate *best, unsigned int k);

#endif /* BEST_H */
