// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "trie.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

unsigned int trie_class(uint8_t byte)
{
	if (byte >= 0x80)
		return TRIE_CLASS_OTHER;
	if (byte < 0x20 || byte == 0x7f)
		return byte == '\n' ? 1 : byte == '\t' ? 2 : 0;
	if (byte >= 'a' && byte <= 'z')
		return 3;
	if (byte >= 'A' && byte <= 'Z')
		return 4;
	if (byte >= '0' && byte <= '9')
		return 5;
	/* The 33 others: spaces and punctuation. */
	return 6 + (byte < '0'	 ? byte - ' '
		    : byte < 'A' ? byte - ':' + 16
		    : byte < 'a' ? byte - '[' + 23
				 : byte - '{' + 29);
}

/* ---- the order of tokens ---- */

static int by_text(const void *a, const void *b, void *ud)
{
	const struct pieces *p = ud;
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
	size_t x_bytes, y_bytes;
	const char *s = pieces_text(p, x, &x_bytes), *t = pieces_text(p, y, &y_bytes);
	int order = memcmp(s, t, x_bytes < y_bytes ? x_bytes : y_bytes);

	if (order)
		return order;
	if (x_bytes != y_bytes)
		return x_bytes < y_bytes ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Lists the tokens with a text that fits a node's depth. */
static void list_tokens(struct trie *t)
{
	size_t bytes;

	for (size_t id = 0; id < t->pieces->n; id++) {
		pieces_text(t->pieces, (int32_t)id, &bytes);
		if (!bytes || bytes > UINT16_MAX)
			continue;
		t->ids[t->n_tokens++] = (int32_t)id;
		t->max_depth = bytes > t->max_depth ? (uint32_t)bytes : t->max_depth;
	}
	qsort_r(t->ids, t->n_tokens, sizeof(*t->ids), by_text, (void *)t->pieces);
}

/* ---- nodes ---- */

static size_t shared_bytes(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	size_t n = 0;

	while (n < a_bytes && n < b_bytes && a[n] == b[n])
		n++;
	return n;
}

/* Calls @fn for each token in order, with the bytes that it shares with the one before. */
static void each_token(struct trie *t, void (*fn)(struct trie *t, uint32_t i, size_t shared))
{
	const char *before = "", *text;
	size_t before_bytes = 0, bytes;

	for (uint32_t i = 0; i < t->n_tokens; i++) {
		text = pieces_text(t->pieces, t->ids[i], &bytes);
		fn(t, i, shared_bytes(before, before_bytes, text, bytes));
		before = text;
		before_bytes = bytes;
	}
}

static void count_nodes(struct trie *t, uint32_t i, size_t shared)
{
	size_t bytes;

	pieces_text(t->pieces, t->ids[i], &bytes);
	t->n_nodes += (uint32_t)(bytes - shared);
}

static void add_nodes(struct trie *t, uint32_t i, size_t shared)
{
	size_t bytes;
	const char *text = pieces_text(t->pieces, t->ids[i], &bytes);

	for (size_t depth = shared + 1; depth <= bytes; depth++)
		t->nodes[t->n_nodes++] = (struct trie_node){
			.first = i,
			.depth = (uint16_t)depth,
			.byte = (uint8_t)text[depth - 1],
		};
}

/* Sets where the nodes below each one end: @open has the last node of each depth. */
static void set_ends(struct trie *t, uint32_t *open)
{
	uint32_t depth = 0;

	for (uint32_t i = 0; i < t->n_nodes; i++) {
		for (; depth >= t->nodes[i].depth; depth--)
			t->nodes[open[depth]].end = i;
		depth = t->nodes[i].depth;
		open[depth] = i;
	}
	for (; depth; depth--)
		t->nodes[open[depth]].end = t->n_nodes;
}

/* ---- classes ---- */

/*
 * Adds to the nodes on the way to token @i the classes below them. @text is cut into characters:
 * what begins within one is OTHER for the nodes there, as is a character that is not whole.
 */
static void token_classes(const struct trie *t, uint32_t i, const uint32_t *way)
{
	size_t bytes, at = 0, n;
	const char *text = pieces_text(t->pieces, t->ids[i], &bytes);
	uint64_t class;

	for (; at < bytes; at += n) {
		n = utf8_whole((const uint8_t *)text + at, bytes - at);
		class = n > 1	? TRIE_CLASS_WIDE
			: n < 1 ? TRIE_CLASS_OTHER
				: trie_class((uint8_t)text[at]);
		n = n ? n : 1;
		for (size_t d = 1; d <= at; d++)
			t->nodes[way[d]].below |= 1ull << class;
		for (size_t d = at + 1; d < at + n; d++)
			t->nodes[way[d]].below |= 1ull << TRIE_CLASS_OTHER;
	}
}

static void set_classes(struct trie *t, uint32_t *way)
{
	uint32_t node = 0;

	for (uint32_t i = 0; i < t->n_tokens; i++) {
		for (; node < t->n_nodes && t->nodes[node].first <= i; node++)
			way[t->nodes[node].depth] = node;
		token_classes(t, i, way);
	}
}

static int trie_fill(struct trie *t)
{
	uint32_t *way;

	t->ids = malloc((t->pieces->n + 1) * sizeof(*t->ids));
	if (!t->ids)
		return -ENOMEM;
	list_tokens(t);
	each_token(t, count_nodes);
	t->nodes = malloc((t->n_nodes + 1ul) * sizeof(*t->nodes));
	way = calloc(t->max_depth + 1ul, sizeof(*way));
	if (!t->nodes || !way) {
		free(way);
		return -ENOMEM;
	}
	t->n_nodes = 0;
	each_token(t, add_nodes);
	t->nodes[t->n_nodes] = (struct trie_node){ .end = t->n_nodes, .first = t->n_tokens };
	set_ends(t, way);
	set_classes(t, way);
	free(way);
	return 0;
}

int trie_create(const struct pieces *pieces, struct trie **trie)
{
	struct trie *t = calloc(1, sizeof(*t));
	int err = -ENOMEM;

	if (t) {
		t->pieces = pieces;
		err = trie_fill(t);
	}
	if (err) {
		trie_free(t);
		t = NULL;
	}
	*trie = t;
	return err;
}

void trie_free(struct trie *trie)
{
	if (!trie)
		return;
	free(trie->nodes);
	free(trie->ids);
	free(trie);
}
