/* SPDX-License-Identifier: MIT */
/*
 * The text of generated tokens on its way to a program: what can be given away, and what is held
 * back, because it may be the beginning of a stop string or is an unfinished character.
 *
 * Stop strings are looked for byte by byte, so where one is found does not depend on how the text
 * is cut into tokens: at the first byte that completes one, and of those that it completes the
 * longest.
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
	size_t ready; /* the first of the n bytes: they can be given away */
	bool stopped;
	size_t stop; /* if so, by which string: it is gone, and what followed it */
};

/* Adds a token's text, or some bytes. -ENOMEM with the error line; an unknown id is -EINVAL. */
int generate_text_token(struct generate_text *t, const struct llm_engine *engine, int32_t id);
int generate_text_put(struct generate_text *t, const char *bytes, size_t n);
/* What was ready has been given away. */
void generate_text_given(struct generate_text *t);
/* No more text comes: all of it is ready. */
void generate_text_end(struct generate_text *t);
void generate_text_free(struct generate_text *t);

#endif /* GENERATE_TEXT_H */
