// SPDX-License-Identifier: MIT
/*
 * SentencePiece's BPE.
 *
 * The text is a linked list of symbols, at first one per character. A heap holds every pair of neighbours that is a
 * piece of the vocabulary, the best score first and of equals the leftmost; the best pair is merged and its new
 * neighbours are looked up, until nothing merges: O(n log n) for any text. An entry whose symbols have changed since
 * is recognised by its length and dropped. What is no piece in the end becomes byte tokens.
 *
 * Where no piece has a space behind something else (all vocabularies trained by words), no merge crosses from a word
 * to the next one's space, so each word is done for itself: the same result from a small, warm heap.
 */
#include "tokenizer_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct spm_symbol {
	uint32_t start, bytes; /* bytes 0: merged into its left neighbour */
	int32_t prev, next; /* -1: none */
};

struct spm_pair {
	float score;
	uint32_t left, right, bytes;
};

struct spm_work {
	const struct tokenizer *tok;
	const uint8_t *text;
	struct spm_symbol *symbols;
	struct spm_pair *heap;
	uint32_t n_symbols, max_symbols, n_heap, max_heap;
	/* For pieces of type unused: bytes of the left half they were last merged from. */
	uint16_t *left_bytes;
	struct id_list *out;
};

int spm_load(struct tokenizer *tok, struct tokenizer_error *e)
{
	uint32_t i, j;

	tok->words_apart = true;
	for (i = 0; i < tok->n_tokens; i++) {
		const struct token *t = &tok->tokens[i];
		const uint8_t *text = token_text(tok, i);

		if (t->type != TOKEN_NORMAL && t->type != TOKEN_UNUSED)
			continue;
		tok->has_unused |= t->type == TOKEN_UNUSED;
		for (j = 1; j < t->bytes; j++)
			if (text[j] == ' ' && text[j - 1] != ' ')
				tok->words_apart = false;
	}
	return 0;
}

static bool pair_before(const struct spm_pair *a, const struct spm_pair *b)
{
	return a->score != b->score ? a->score > b->score : a->left < b->left;
}

static int heap_push(struct spm_work *w, const struct spm_pair *pair)
{
	uint32_t i = w->n_heap;

	if (i == w->max_heap) {
		uint32_t max = w->max_heap ? w->max_heap * 2 : 64;
		struct spm_pair *heap = realloc(w->heap, max * sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		w->heap = heap;
		w->max_heap = max;
	}
	w->n_heap++;
	while (i && pair_before(pair, &w->heap[(i - 1) / 2])) {
		w->heap[i] = w->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	w->heap[i] = *pair;
	return 0;
}

static struct spm_pair heap_pop(struct spm_work *w)
{
	struct spm_pair top = w->heap[0], last = w->heap[--w->n_heap];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < w->n_heap) {
		if (child + 1 < w->n_heap && pair_before(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!pair_before(&w->heap[child], &last))
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = last;
	return top;
}

/* Puts the pair into the heap if it is a piece. */
static int offer_pair(struct spm_work *w, int32_t left, int32_t right)
{
	const struct spm_symbol *a, *b;
	struct spm_pair pair;
	int32_t id;

	if (left < 0 || right < 0)
		return 0;
	a = &w->symbols[left];
	b = &w->symbols[right];
	id = vocab_find(w->tok, w->text + a->start, a->bytes + b->bytes);
	if (id < 0)
		return 0;
	if (w->left_bytes && w->tok->tokens[id].type == TOKEN_UNUSED)
		w->left_bytes[id] = a->bytes;
	pair = (struct spm_pair){ w->tok->tokens[id].score, left, right, a->bytes + b->bytes };
	return heap_push(w, &pair);
}

static int merge_all(struct spm_work *w)
{
	uint32_t i;
	int ret;

	w->n_heap = 0;
	for (i = 1; i < w->n_symbols; i++) {
		ret = offer_pair(w, i - 1, i);
		if (ret)
			return ret;
	}
	while (w->n_heap) {
		struct spm_pair pair = heap_pop(w);
		struct spm_symbol *a = &w->symbols[pair.left], *b = &w->symbols[pair.right];

		if (!a->bytes || !b->bytes || a->bytes + b->bytes != pair.bytes)
			continue;
		a->bytes += b->bytes;
		b->bytes = 0;
		a->next = b->next;
		if (b->next >= 0)
			w->symbols[b->next].prev = pair.left;
		ret = offer_pair(w, a->prev, pair.left);
		if (!ret)
			ret = offer_pair(w, pair.left, a->next);
		if (ret)
			return ret;
	}
	return 0;
}

static void emit(struct spm_work *w, const uint8_t *text, uint32_t bytes)
{
	int32_t id = vocab_find(w->tok, text, bytes);
	uint32_t i, left;

	if (id >= 0 && w->left_bytes && w->tok->tokens[id].type == TOKEN_UNUSED && w->left_bytes[id]) {
		left = w->left_bytes[id];
		emit(w, text, left);
		emit(w, text + left, bytes - left);
	} else if (id >= 0) {
		id_list_push(w->out, id);
	} else {
		for (i = 0; i < bytes; i++) {
			id = w->tok->byte_ids[text[i]];
			if (id < 0)
				id = w->tok->unknown;
			if (id >= 0)
				id_list_push(w->out, id);
		}
	}
}

static int encode_word(struct spm_work *w, uint32_t start, uint32_t end)
{
	uint32_t pos = start;
	int32_t i;
	int ret;

	w->n_symbols = 0;
	while (pos < end) {
		unsigned int n = utf8_bytes(w->text + pos, end - pos);

		if (w->n_symbols == w->max_symbols) {
			uint32_t max = w->max_symbols ? w->max_symbols * 2 : 64;
			struct spm_symbol *symbols = realloc(w->symbols, max * sizeof(*symbols));

			if (!symbols)
				return -ENOMEM;
			w->symbols = symbols;
			w->max_symbols = max;
		}
		n = n ? n : 1;
		w->symbols[w->n_symbols] = (struct spm_symbol){ pos, n, (int32_t)w->n_symbols - 1, w->n_symbols + 1 };
		w->n_symbols++;
		pos += n;
	}
	w->symbols[w->n_symbols - 1].next = -1;
	ret = merge_all(w);
	if (ret)
		return ret;
	for (i = 0; i >= 0; i = w->symbols[i].next)
		emit(w, w->text + w->symbols[i].start, w->symbols[i].bytes);
	return 0;
}

int spm_encode(const struct tokenizer *tok, const uint8_t *text, size_t bytes, bool space, struct id_list *out)
{
	struct spm_work w = { .tok = tok, .out = out };
	uint8_t *copy = NULL;
	uint32_t start = 0, end, n = bytes;
	int ret = 0;

	w.text = text;
	if (space) {
		copy = malloc(bytes + 1);
		if (!copy)
			return -ENOMEM;
		copy[0] = ' ';
		memcpy(copy + 1, text, bytes);
		w.text = copy;
		n++;
	}
	if (tok->has_unused) {
		w.left_bytes = calloc(tok->n_tokens, sizeof(*w.left_bytes));
		if (!w.left_bytes)
			ret = -ENOMEM;
	}
	for (; !ret && start < n; start = end) {
		end = tok->words_apart ? start + 1 : n;
		while (end < n && !(w.text[end] == ' ' && w.text[end - 1] != ' '))
			end++;
		ret = encode_word(&w, start, end);
	}
	free(w.left_bytes);
	free(w.symbols);
	free(w.heap);
	free(copy);
	return ret;
}
