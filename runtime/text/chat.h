/* SPDX-License-Identifier: MIT */
/*
 * The text of a conversation, with the places where control tokens are recognised: in the pieces of
 * its format, and nowhere in what people and models wrote.
 *
 *	struct chat_text t = { 0 };
 *
 *	chat_begin(&chat, &t);
 *	chat_user(&chat, &t, true, "Hello", 5);
 *	n = chat_tokens(&chat, &t, true, ids, max);
 *	chat_text_free(&t);
 *
 * A conversation's text consists of chat_begin()'s, and for each turn chat_user()'s, the answer and
 * chat_close()'s. Its tokens are those of the whole, or what the parts have one after the other: a
 * part is tokenized as the continuation of those before it.
 */
#ifndef CHAT_H
#define CHAT_H

#include "chat_format.h"
#include "tokenizer.h"

struct chat {
	const struct tokenizer *tok;
	const struct chat_format *format;
	const char *system; /* NULL: none */
	const char *opening; /* of each answer, behind the format's pieces; NULL: none */
	bool bos; /* it begins with BOS */
};

struct chat_text {
	char *bytes;
	size_t n, room;
	struct tokenizer_range *ranges; /* where control tokens are recognised */
	size_t nr_ranges, ranges_room;
	bool failed; /* no memory: what it has is of no use */
};

/* Appends what stands in front of the first turn. */
void chat_begin(const struct chat *c, struct chat_text *t);
/* Appends a user's turn, @first of all or a later one, and what opens the answer. */
void chat_user(const struct chat *c, struct chat_text *t, bool first, const char *text,
	       size_t bytes);
/* Appends an answer as the model would write it, whether or not @text begins with the opening. */
void chat_answer(const struct chat *c, struct chat_text *t, const char *text, size_t bytes);
/* Appends what closes an answer. @ended: the model gave the end token, which is one of them. */
void chat_close(const struct chat *c, struct chat_text *t, bool ended);
void chat_text_free(struct chat_text *t);

/* The tokens of a text; @whole: it begins with chat_begin()'s. As tokenizer_encode(), and -ENOMEM
 * if the text failed. */
long chat_tokens(const struct chat *c, const struct chat_text *t, bool whole, int32_t *ids,
		 size_t max);

#endif /* CHAT_H */
