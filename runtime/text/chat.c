// SPDX-License-Identifier: MIT
/* The text of a conversation: see chat.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"

/* ---- texts with ranges ---- */

static void *grow(struct chat_text *t, void *array, size_t *room, size_t want, size_t each)
{
	void *grown;

	if (t->failed || want <= *room)
		return t->failed ? NULL : array;
	grown = realloc(array, 2 * want * each);
	if (grown)
		*room = 2 * want;
	else
		t->failed = true;
	return grown;
}

static bool put(struct chat_text *t, const char *bytes, size_t n)
{
	char *to = grow(t, t->bytes, &t->room, t->n + n + 1, 1);

	if (!to)
		return false;
	t->bytes = to;
	if (n)
		memcpy(to + t->n, bytes, n);
	t->n += n;
	return true;
}

/* Marks what was put since @begin as the format's. */
static void mark(struct chat_text *t, size_t begin)
{
	struct tokenizer_range *r;

	if (begin == t->n)
		return;
	if (t->nr_ranges && t->ranges[t->nr_ranges - 1].end == begin) {
		t->ranges[t->nr_ranges - 1].end = t->n;
		return;
	}
	r = grow(t, t->ranges, &t->ranges_room, t->nr_ranges + 1, sizeof(*r));
	if (!r)
		return;
	t->ranges = r;
	r[t->nr_ranges++] = (struct tokenizer_range){ begin, t->n };
}

static void put_token(const struct chat *c, struct chat_text *t, int id)
{
	size_t n;
	const char *text = tokenizer_spelling(c->tok, id, &n);

	if (text)
		put(t, text, n);
}

static void put_piece(const struct chat *c, struct chat_text *t, const char *piece)
{
	size_t begin = t->n;

	for (size_t n; piece && *piece; piece += n) {
		n = strcspn(piece, CHAT_BOS CHAT_EOS);
		if (n)
			put(t, piece, n);
		else
			put_token(c, t,
				  *piece == *CHAT_BOS ? tokenizer_bos(c->tok)
						      : tokenizer_eos(c->tok));
		n += !n;
	}
	mark(t, begin);
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static void put_message(struct chat_text *t, const char *text, size_t n, bool trims)
{
	for (; trims && n && is_space(*text); n--)
		text++;
	while (trims && n && is_space(text[n - 1]))
		n--;
	put(t, text, n);
}

void chat_text_free(struct chat_text *t)
{
	free(t->bytes);
	free(t->ranges);
	*t = (struct chat_text){ 0 };
}

/* ---- conversations ---- */

static bool has_system(const struct chat *c)
{
	return c->system || c->format->system_always;
}

/* The first piece of all: chat_begin() or the vocabulary puts BOS in front. */
static const char *behind_bos(const char *piece)
{
	return piece && *piece == *CHAT_BOS ? piece + 1 : piece;
}

static void put_system(const struct chat *c, struct chat_text *t)
{
	const struct chat_format *f = c->format;

	if (!has_system(c))
		return;
	put_piece(c, t, behind_bos(f->system.before));
	if (c->system)
		put_message(t, c->system, strlen(c->system), f->trims);
	put_piece(c, t, f->system.after);
}

void chat_begin(const struct chat *c, struct chat_text *t)
{
	if (c->bos && !tokenizer_adds_bos(c->tok))
		put_piece(c, t, CHAT_BOS);
	put_piece(c, t, c->format->start);
	if (!c->format->system_inside)
		put_system(c, t);
}

void chat_user(const struct chat *c, struct chat_text *t, bool first, const char *text,
	       size_t bytes)
{
	const struct chat_format *f = c->format;
	bool first_piece = first && (f->system_inside || !has_system(c));

	put_piece(c, t, first_piece ? behind_bos(f->user.before) : f->user.before);
	if (first && f->system_inside)
		put_system(c, t);
	put_message(t, text, bytes, f->trims);
	put_piece(c, t, f->user.after);
	put_piece(c, t, f->answer.before);
	put_piece(c, t, c->opening);
}

void chat_answer(const struct chat *c, struct chat_text *t, const char *text, size_t bytes)
{
	const struct chat_format *f = c->format;
	size_t opening = c->opening ? strlen(c->opening) : 0;

	if (opening && opening <= bytes && !memcmp(text, c->opening, opening)) {
		text += opening;
		bytes -= opening;
	}
	if (f->lead)
		put(t, f->lead, strlen(f->lead));
	put_message(t, text, bytes, f->trims || f->trims_answers);
}

void chat_close(const struct chat *c, struct chat_text *t, bool ended)
{
	if (!ended && c->format->tail)
		put(t, c->format->tail, strlen(c->format->tail));
	put_piece(c, t, c->format->answer.after);
}

long chat_tokens(const struct chat *c, const struct chat_text *t, bool whole, int32_t *ids,
		 size_t max)
{
	unsigned int flags = whole ? (c->bos ? TOKENIZE_BOS : 0) : TOKENIZE_CONTINUES;

	if (t->failed)
		return -ENOMEM;
	return tokenizer_encode_ranges(c->tok, t->bytes, t->n, flags, t->ranges, t->nr_ranges, ids,
				       max);
}
