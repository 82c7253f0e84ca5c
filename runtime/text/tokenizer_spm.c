// SPDX-License-Identifier: MIT
/*
 * SentencePiece's BPE.
 *
 * Each character of the text is a symbol at first. The pair of neighbours that form the piece with
 * the best score, and of equal ones the leftmost, is merged until no pair forms a piece. A symbol
 * that is no piece at the end becomes byte tokens.
 *
 * If no piece has a space after another character (as in all vocabularies trained on words), no
 * merge crosses from a word to the next one's space. Words are then encoded one by one, with the
 * same result from a smaller heap.
 */
#include "tokenizer_heap.h"
#include "tokenizer_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct spm_work {
	const struct tokenizer *tok;
	const uint8_t *text;
	struct merge_heap heap; /* values are offsets in the text */
	/* For pieces of type unused: bytes of the left symbol that they were last merged from. */
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

static bool find_pair(void *ud, const struct merge_symbol *left, const struct merge_symbol *right,
		      uint32_t *order, uint32_t *value)
{
	const struct spm_work *w = ud;
	int32_t id = vocab_find(w->tok, w->text + left->value, left->bytes + right->bytes);

	if (id < 0)
		return false;
	if (w->left_bytes && w->tok->tokens[id].type == TOKEN_UNUSED)
		w->left_bytes[id] = left->bytes;
	*order = merge_order(w->tok->tokens[id].score);
	*value = left->value;
	return true;
}

static void emit(struct spm_work *w, const uint8_t *text, uint32_t bytes)
{
	int32_t id = vocab_find(w->tok, text, bytes);
	uint32_t i, left;

	if (id >= 0 && w->left_bytes && w->tok->tokens[id].type == TOKEN_UNUSED &&
	    w->left_bytes[id]) {
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
	struct merge_heap *heap = &w->heap;
	uint32_t pos = start;
	int ret = 0;
	int32_t i;

	merge_heap_clear(heap);
	while (!ret && pos < end) {
		unsigned int n = utf8_bytes(w->text + pos, end - pos);

		n = n ? n : 1;
		ret = merge_heap_add(heap, pos, n);
		pos += n;
	}
	if (!ret)
		ret = merge_heap_run(heap);
	for (i = 0; !ret && i >= 0; i = heap->symbols[i].next)
		emit(w, w->text + heap->symbols[i].value, heap->symbols[i].bytes);
	return ret;
}

int spm_encode(const struct tokenizer *tok, const uint8_t *text, size_t bytes, bool space,
	       struct id_list *out)
{
	struct spm_work w = { .tok = tok, .heap = { .find = find_pair, .ud = &w }, .out = out };
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
	merge_heap_free(&w.heap);
	free(copy);
	return ret;
}
