/* SPDX-License-Identifier: MIT */
/* The pieces of a vocabulary: the bytes of each token, and which tokens end a text. */
#ifndef PIECES_H
#define PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where they come from. */
struct pieces_source {
	size_t n;
	/* Stores at most @max bytes and returns how many the token has, as llm_token_text(). */
	int (*text)(const void *ud, int32_t id, char *buf, size_t max);
	bool (*is_end)(const void *ud, int32_t id);
	const void *ud;
};

struct pieces {
	size_t n;
	char *bytes; /* of all tokens, one after the other */
	uint32_t *offsets; /* [n + 1] */
	int32_t *ends; /* [nr_ends]: ids of end tokens */
	size_t nr_ends;
};

/* 0 or -ENOMEM. Tokens that @source has no text of are empty. */
int pieces_create(const struct pieces_source *source, struct pieces **pieces);
void pieces_free(struct pieces *pieces); /* NULL: nothing */
/* Empty for an id that the vocabulary lacks. */
const char *pieces_text(const struct pieces *pieces, int32_t id, size_t *bytes);
bool pieces_is_end(const struct pieces *pieces, int32_t id);

#endif /* PIECES_H */
