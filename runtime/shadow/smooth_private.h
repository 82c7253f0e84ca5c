/* SPDX-License-Identifier: MIT */
/* Shared by the ways of choosing factors: by one exponent, by a search of each input's. */
#ifndef SMOOTH_PRIVATE_H
#define SMOOTH_PRIVATE_H

#include "smooth.h"

/* Raises the values of attn_output's channels that have one factor to the largest of them. */
void smooth_share_heads(const struct llm_model *m, float *v);
/* Sets the factors of v's rows to those of the channels that read them. */
void smooth_set_v_rows(struct shadow_smooth *sm, const struct llm_model *m, unsigned int layer);

#endif /* SMOOTH_PRIVATE_H */
