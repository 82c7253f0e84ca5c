/* SPDX-License-Identifier: MIT */
/*
 * Merging of neighbours in a word, best pair first, for both models.
 *
 * A word is a linked list of symbols. The heap holds the pairs of neighbours that the model can
 * merge, the smallest order first and equal ones from left to right. merge_heap_run() merges the
 * first pair and adds the two new pairs until the heap is empty: O(n log n) for any word.
 */
#ifndef TOKENIZER_HEAP_H
#define TOKENIZER_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct merge_symbol {
	uint32_t value; /* the model's: a token, or an offset in the text */
	uint32_t bytes; /* 0: merged into its left neighbour */
	int32_t prev, next; /* -1: none */
};

struct merge_pair {
	uint64_t rank; /* order << 32 | left symbol; the smallest comes first */
	uint32_t bytes; /* of both symbols; the pair is stale if they have grown since */
	uint32_t value; /* of the merged symbol */
};

struct merge_heap {
	/* Whether @left and @right merge; if so, it sets *@order and *@value. */
	bool (*find)(void *ud, const struct merge_symbol *left, const struct merge_symbol *right,
		     uint32_t *order, uint32_t *value);
	void *ud;
	/* The word. Symbol 0 stays the first one. */
	struct merge_symbol *symbols;
	struct merge_pair *pairs;
	size_t n_symbols, max_symbols, n_pairs, max_pairs;
};

/* Starts a new word in the memory of the last one. */
static inline void merge_heap_clear(struct merge_heap *heap)
{
	heap->n_symbols = 0;
	heap->n_pairs = 0;
}

/* Makes room for more symbols. 0 or -ENOMEM. */
int merge_heap_grow(struct merge_heap *heap);

/* Appends a symbol of @bytes (not 0) to the word of at most INT32_MAX bytes. 0 or -ENOMEM. */
static inline int merge_heap_add(struct merge_heap *heap, uint32_t value, uint32_t bytes)
{
	size_t i = heap->n_symbols;
	int ret = i == heap->max_symbols ? merge_heap_grow(heap) : 0;

	if (ret)
		return ret;
	heap->symbols[i] = (struct merge_symbol){ value, bytes, (int32_t)i - 1, -1 };
	if (i)
		heap->symbols[i - 1].next = i;
	heap->n_symbols++;
	return 0;
}

/* Merges until no pair is left. 0 or -ENOMEM. */
int merge_heap_run(struct merge_heap *heap);
void merge_heap_free(struct merge_heap *heap);

/* The order of a score: greater scores first, 0 equal to -0, NaN last. */
static inline uint32_t merge_order(float score)
{
	uint32_t bits;

	if (score != score)
		return UINT32_MAX;
	/* Turns -0 into 0. */
	score += 0.0f;
	memcpy(&bits, &score, sizeof(bits));
	/* Negative scores already come later the greater their magnitude; non-negative ones are
	 * reversed and come before them. */
	return bits & 0x80000000u ? bits : 0x7fffffffu - bits;
}

#endif /* TOKENIZER_HEAP_H */
