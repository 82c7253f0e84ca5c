/* SPDX-License-Identifier: MIT */
/*
 * The text of generated tokens. Text is held back while it may be the beginning of a stop string
 * or is an incomplete character; the rest is ready for the caller.
 *
 * The search for stop strings goes byte by byte, so its result does not depend on where tokens
 * begin: the first byte that completes a stop string ends the text, and if it completes several,
 * the longest one counts.
 */
#ifndef GENERATE_TEXT_H
#define GENERATE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct llm_engine;

struct generate_text {
	const char *const *stops; /* the caller's; none is empty */
	size_t nr_stops;
	char *bytes;
	size_t n, room;
	size_t ready; /* how many of the n bytes can be given to the caller */
	bool stopped; /* a stop string was found; it and the bytes after it are removed */
	size_t stop; /* its index */
};

/* Adds a token's text, or some bytes. -ENOMEM, or -EINVAL for an unknown id, with an error line. */
int generate_text_token(struct generate_text *t, const struct llm_engine *engine, int32_t id);
int generate_text_put(struct generate_text *t, const char *bytes, size_t n);
/* Removes the ready bytes, which the caller has taken. */
void generate_text_given(struct generate_text *t);
/* Marks all text as ready, as no more comes. */
void generate_text_end(struct generate_text *t);
void generate_text_free(struct generate_text *t);

#endif /* GENERATE_TEXT_H */
