/* SPDX-License-Identifier: MIT */
/* Token ids of texts and of lists, and their hash. */
#ifndef TOKENS_H
#define TOKENS_H

#include "llm.h"

struct token_list {
	int32_t *ids;
	size_t n;
};

/* Tokenizes a text. 0, or 1 after a message. free() list->ids. */
int tokens_from_text(const struct llm_engine *engine, const char *text, size_t bytes,
		     unsigned int flags, struct token_list *list);
/* Parses ids such as "1,2,3" (commas or spaces). 0, or 2 after a message. */
int tokens_from_list(const char *what, const char *s, struct token_list *list);

/* The SHA-256 of ids as little-endian 32-bit integers, in hexadecimal. */
#define TOKENS_SHA256_CHARS 64
void tokens_sha256(const int32_t *ids, size_t n, char hex[TOKENS_SHA256_CHARS + 1]);

#endif /* TOKENS_H */
