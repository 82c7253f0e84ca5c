/* SPDX-License-Identifier: MIT */
/* Penalties of tokens that have occurred lately: see struct llm_sampler_options. */
#ifndef PENALTIES_H
#define PENALTIES_H

#include <stdbool.h>

#include "llm.h"
#include "recent.h"

struct penalties {
	float repeat, presence, frequency;
	size_t last_n; /* 0: there are none */
	uint32_t *counts; /* [n_vocab], zero between calls */
};

/* 0 or -ENOMEM; in both cases free it with penalties_fini(). */
int penalties_init(struct penalties *p, const struct llm_sampler_options *opts,
		   unsigned int n_vocab);
void penalties_fini(struct penalties *p);
/* Changes the logits of the last last_n tokens. */
void penalties_apply(struct penalties *p, const struct recent *recent, float *logits);

#endif /* PENALTIES_H */
