/* SPDX-License-Identifier: MIT */
/* Whether a sampler's options leave a token to draw, and whether it fits a vocabulary. */
#ifndef SAMPLER_CHECK_H
#define SAMPLER_CHECK_H

#include "llm.h"

/* 0, or -EINVAL with an error line. */
int sampler_check(const struct llm_sampler_options *opts, unsigned int n_vocab);
/* The same for one that was created: -EINVAL if logits of @n_vocab tokens are not what it takes. */
int sampler_check_vocab(const struct llm_sampler *sampler, unsigned int n_vocab);

#endif /* SAMPLER_CHECK_H */
