// SPDX-License-Identifier: MIT
/*
 * Merging of neighbours, best pair first: a binary heap of pairs over a linked list of symbols.
 *
 * Stale pairs stay in the heap until they are the first, and are dropped then. Their length tells
 * that their symbols have changed, as symbols only grow.
 */
#include "tokenizer_heap.h"

#include <errno.h>
#include <stdlib.h>

/* Doubles the array's room; NULL: no memory. */
static void *grow(void *array, size_t *max, size_t element)
{
	size_t want = *max ? 2 * *max : 64;

	array = realloc(array, want * element);
	if (array)
		*max = want;
	return array;
}

int merge_heap_grow(struct merge_heap *heap)
{
	struct merge_symbol *symbols = grow(heap->symbols, &heap->max_symbols, sizeof(*symbols));

	if (!symbols)
		return -ENOMEM;
	heap->symbols = symbols;
	return 0;
}

static int push(struct merge_heap *heap, struct merge_pair pair)
{
	size_t i = heap->n_pairs;

	if (i == heap->max_pairs) {
		struct merge_pair *pairs = grow(heap->pairs, &heap->max_pairs, sizeof(*pairs));

		if (!pairs)
			return -ENOMEM;
		heap->pairs = pairs;
	}
	heap->n_pairs++;
	while (i && pair.rank < heap->pairs[(i - 1) / 2].rank) {
		heap->pairs[i] = heap->pairs[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap->pairs[i] = pair;
	return 0;
}

static struct merge_pair pop(struct merge_heap *heap)
{
	struct merge_pair top = heap->pairs[0], last = heap->pairs[--heap->n_pairs];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < heap->n_pairs) {
		if (child + 1 < heap->n_pairs &&
		    heap->pairs[child + 1].rank < heap->pairs[child].rank)
			child++;
		if (heap->pairs[child].rank >= last.rank)
			break;
		heap->pairs[i] = heap->pairs[child];
		i = child;
	}
	heap->pairs[i] = last;
	return top;
}

/* Adds the pair to the heap if the model can merge it. */
static int offer(struct merge_heap *heap, int32_t left, int32_t right)
{
	const struct merge_symbol *a, *b;
	uint32_t order, value;

	if (left < 0 || right < 0)
		return 0;
	a = &heap->symbols[left];
	b = &heap->symbols[right];
	if (!heap->find(heap->ud, a, b, &order, &value))
		return 0;
	return push(heap, (struct merge_pair){ (uint64_t)order << 32 | (uint32_t)left,
					       a->bytes + b->bytes, value });
}

int merge_heap_run(struct merge_heap *heap)
{
	int ret = 0;
	size_t i;

	for (i = 1; !ret && i < heap->n_symbols; i++)
		ret = offer(heap, i - 1, i);
	while (!ret && heap->n_pairs) {
		struct merge_pair pair = pop(heap);
		int32_t left = (int32_t)(uint32_t)pair.rank;
		struct merge_symbol *a = &heap->symbols[left], *b;

		if (!a->bytes || a->next < 0)
			continue;
		b = &heap->symbols[a->next];
		if (a->bytes + b->bytes != pair.bytes)
			continue;
		a->value = pair.value;
		a->bytes = pair.bytes;
		b->bytes = 0;
		a->next = b->next;
		if (b->next >= 0)
			heap->symbols[b->next].prev = left;
		ret = offer(heap, a->prev, left);
		if (!ret)
			ret = offer(heap, left, a->next);
	}
	return ret;
}

void merge_heap_free(struct merge_heap *heap)
{
	free(heap->symbols);
	free(heap->pairs);
}
