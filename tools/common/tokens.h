/* SPDX-License-Identifier: MIT */
/*
 * Token ids on their way between a user and an engine: prompts, lists of ids, text that is written as it comes.
 */
#ifndef TOKENS_H
#define TOKENS_H

#include <stdio.h>

#include "llm.h"

struct token_list {
	int32_t *ids;
	size_t n;
};

/* Ids of a text; 0, or 1 after a message. Free list->ids. */
int tokens_from_text(const struct llm_engine *engine, const char *text, size_t bytes, unsigned int flags,
		     struct token_list *list);
/* Ids written as "1,2,3" (commas or spaces); 0, or 2 after a message. */
int tokens_from_list(const char *what, const char *s, struct token_list *list);

/* Hash of ids as little-endian 32-bit integers, in hexadecimal. */
#define TOKENS_SHA256_CHARS 64
void tokens_sha256(const int32_t *ids, size_t n, char hex[TOKENS_SHA256_CHARS + 1]);

/* Writes the text of tokens, holding back the bytes of a UTF-8 character until it is complete. */
struct token_writer {
	FILE *out;
	unsigned char held[4];
	unsigned int n_held;
	bool newline; /* the last byte written was one, or nothing was written */
};
void token_writer_init(struct token_writer *w, FILE *out);
/* 0, or 1 after a message. */
int token_writer_add(struct token_writer *w, const struct llm_engine *engine, int32_t id);
/* Writes what is held back: an incomplete character, as it is. */
void token_writer_end(struct token_writer *w);

#endif /* TOKENS_H */
