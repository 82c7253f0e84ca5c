/* SPDX-License-Identifier: MIT */
/*
 * Prompts to measure with: random tokens, or those of a text.
 */
#ifndef PROMPTS_H
#define PROMPTS_H

#include "tokens.h"

/* For one engine; any number of prompts, which all begin alike. */
struct prompts {
	const struct llm_engine *engine;
	uint64_t seed; /* of random ones */
	const char *path; /* of the text; NULL: random ones */
	struct token_list text;
	int32_t *allowed; /* ids that random prompts are made of */
	size_t n_allowed;
};

/* 0, or 1 after a message. Free it in any case. */
int prompts_init(struct prompts *p, const struct llm_engine *engine, const char *path,
		 uint64_t seed);
/* @n tokens, the first of them BOS if the model wants it; to be freed. NULL after a message. */
int32_t *prompts_make(const struct prompts *p, size_t n);
void prompts_free(struct prompts *p);

#endif /* PROMPTS_H */
