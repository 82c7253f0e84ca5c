/* SPDX-License-Identifier: MIT */
/*
 * Token ids on their way between a user and an engine: prompts, lists of ids, hashes of them.
 */
#ifndef TOKENS_H
#define TOKENS_H

#include "llm.h"

struct token_list {
	int32_t *ids;
	size_t n;
};

/* Ids of a text; 0, or 1 after a message. Free list->ids. */
int tokens_from_text(const struct llm_engine *engine, const char *text, size_t bytes,
		     unsigned int flags, struct token_list *list);
/* Ids written as "1,2,3" (commas or spaces); 0, or 2 after a message. */
int tokens_from_list(const char *what, const char *s, struct token_list *list);

/* Hash of ids as little-endian 32-bit integers, in hexadecimal. */
#define TOKENS_SHA256_CHARS 64
void tokens_sha256(const int32_t *ids, size_t n, char hex[TOKENS_SHA256_CHARS + 1]);

#endif /* TOKENS_H */
