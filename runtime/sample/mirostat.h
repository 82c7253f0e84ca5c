/* SPDX-License-Identifier: MIT */
/*
 * Mirostat (Basu et al. 2021): keeps the surprise of drawn tokens near tau, by cutting off the tail
 * of each distribution at a bound mu that learns from the tokens drawn.
 *
 * Version 1 estimates the exponent of a Zipf distribution from the likeliest tokens, and computes
 * the k that gives the surprise mu (section 5, algorithm 1); version 2 drops the tokens that
 * surprise by more than mu. After each token, mu loses eta * (its surprise - tau), where the
 * surprise is that among the tokens that were kept, in bits.
 */
#ifndef MIROSTAT_H
#define MIROSTAT_H

#include "candidates.h"
#include "llm.h"
#include "random.h"

struct mirostat {
	unsigned int version; /* 0: off */
	double tau, eta, mu;
};

/* 0, or -EINVAL with an error line. */
int mirostat_init(struct mirostat *m, const struct llm_sampler_options *opts);
void mirostat_clear(struct mirostat *m);
/* Draws a token after candidates_best(), whose logit is @max. */
int32_t mirostat_draw(struct mirostat *m, struct candidates *c, const float *logits, float max,
		      float temperature, struct random *random);

#endif /* MIROSTAT_H */
