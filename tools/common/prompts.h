/* SPDX-License-Identifier: MIT */
/* Prompts for measurements: random tokens, or those of a text. */
#ifndef PROMPTS_H
#define PROMPTS_H

#include "tokens.h"

/* Prompts for one engine. All begin with the same tokens. */
struct prompts {
	const struct llm_engine *engine;
	uint64_t seed; /* of random tokens */
	const char *path; /* of the text; NULL: random tokens */
	struct token_list text;
	int32_t *allowed; /* the ids that random prompts are made of */
	size_t n_allowed;
};

/* 0, or 1 after a message. Call prompts_free() in either case. */
int prompts_init(struct prompts *p, const struct llm_engine *engine, const char *path,
		 uint64_t seed);
/* Returns @n tokens, BOS first if the model wants it; free() them. NULL after a message. */
int32_t *prompts_make(const struct prompts *p, size_t n);
void prompts_free(struct prompts *p);

#endif /* PROMPTS_H */
