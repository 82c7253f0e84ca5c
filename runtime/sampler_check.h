/* SPDX-License-Identifier: MIT */
/* Whether a sampler's options leave a token to draw. */
#ifndef SAMPLER_CHECK_H
#define SAMPLER_CHECK_H

#include "llm.h"

/* 0, or -EINVAL with an error line. */
int sampler_check(const struct llm_sampler_options *opts, unsigned int n_vocab);

#endif /* SAMPLER_CHECK_H */
