// SPDX-License-Identifier: MIT
/* Generated text: see generate_text.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "generate_text.h"
#include "llm.h"
#include "llm_fail.h"

/* Most tokens have fewer. */
#define TOKEN_BYTES 64

static int text_reserve(struct generate_text *t, size_t bytes)
{
	size_t room = 2 * (t->n + bytes);
	char *grown;

	if (t->room - t->n >= bytes)
		return 0;
	grown = realloc(t->bytes, room);
	if (!grown)
		return llm_fail(-ENOMEM, "no memory for %zu bytes of text", room);
	t->bytes = grown;
	t->room = room;
	return 0;
}

/* Cuts off the longest stop string that ends at the end of the text. */
static bool text_stop(struct generate_text *t)
{
	size_t longest = 0;

	for (size_t i = 0; i < t->nr_stops; i++) {
		size_t n = strlen(t->stops[i]);

		if (n > longest && n <= t->n && !memcmp(t->bytes + t->n - n, t->stops[i], n)) {
			longest = n;
			t->stop = i;
		}
	}
	t->stopped = longest;
	t->n -= longest;
	return longest;
}

/* Whether the last @n bytes are the beginning of a stop string. */
static bool text_begins_stop(const struct generate_text *t, size_t n)
{
	for (size_t i = 0; i < t->nr_stops; i++) {
		if (strlen(t->stops[i]) > n && !memcmp(t->stops[i], t->bytes + t->n - n, n))
			return true;
	}
	return false;
}

/* Bytes of the character that begins with @lead; 1 for an invalid first byte. */
static size_t utf8_length(unsigned char lead)
{
	if (lead < 0xc2 || lead >= 0xf8)
		return 1;
	return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
}

/* Length of an incomplete character at the end of the @n bytes; 0: there is none. */
static size_t unfinished(const char *bytes, size_t n)
{
	for (size_t i = 1; i <= 3 && i <= n; i++) {
		unsigned char byte = (unsigned char)bytes[n - i];

		if ((byte & 0xc0) != 0x80)
			return utf8_length(byte) > i ? i : 0;
	}
	return 0;
}

static void text_hold(struct generate_text *t)
{
	size_t held = 0;

	for (size_t i = 0; i < t->nr_stops; i++) {
		size_t n = strlen(t->stops[i]) - 1;

		held = n > held ? n : held;
	}
	held = held < t->n ? held : t->n;
	while (held && !text_begins_stop(t, held))
		held--;
	t->ready = t->n - held;
	t->ready -= unfinished(t->bytes, t->ready);
}

/* Appends the @n bytes that are in the buffer behind the text. */
static void text_take(struct generate_text *t, size_t n)
{
	if (!t->nr_stops)
		t->n += n;
	for (size_t i = 0; t->nr_stops && i < n; i++) {
		t->n++;
		if (text_stop(t)) {
			t->ready = t->n;
			return;
		}
	}
	text_hold(t);
}

int generate_text_put(struct generate_text *t, const char *bytes, size_t n)
{
	int err = n ? text_reserve(t, n) : 0;

	if (err || !n)
		return err;
	memcpy(t->bytes + t->n, bytes, n);
	text_take(t, n);
	return 0;
}

int generate_text_token(struct generate_text *t, const struct llm_engine *engine, int32_t id)
{
	int err = text_reserve(t, TOKEN_BYTES), n;

	if (err)
		return err;
	n = llm_token_text(engine, id, t->bytes + t->n, t->room - t->n);
	if (n > 0 && (size_t)n > t->room - t->n) {
		err = text_reserve(t, (size_t)n);
		if (err)
			return err;
		n = llm_token_text(engine, id, t->bytes + t->n, t->room - t->n);
	}
	if (n < 0)
		return n;
	text_take(t, (size_t)n);
	return 0;
}

void generate_text_given(struct generate_text *t)
{
	memmove(t->bytes, t->bytes + t->ready, t->n - t->ready);
	t->n -= t->ready;
	t->ready = 0;
}

void generate_text_end(struct generate_text *t)
{
	t->ready = t->n;
}

void generate_text_free(struct generate_text *t)
{
	free(t->bytes);
	*t = (struct generate_text){ 0 };
}
