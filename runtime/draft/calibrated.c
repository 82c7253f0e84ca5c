// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "calibrated.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"

struct candidate {
	int32_t id;
	float p;
};

struct calibrated {
	size_t n;
	uint32_t k;
	int32_t *context; /* [n] */
	/* [n] each: positions by token, and by token and the one before; equal ones by position. */
	uint32_t *by_token, *by_pair;
	uint8_t *nr; /* [n]: candidates of a position */
	struct candidate *candidates; /* [n][k], the most probable first */
};

/* The token before @at; -1: none. */
static int32_t before(const struct calibrated *c, size_t at)
{
	return at ? c->context[at - 1] : -1;
}

/* The token at @at, or if @back the one before, as a number in the order of tokens from -1 on. */
static uint32_t sort_key(const struct calibrated *c, size_t at, bool back)
{
	return (uint32_t)(back ? before(c, at) : c->context[at]) ^ 1u << 31;
}

/* Sorts positions by the token at them, or @back = 1: before them; equal ones stay in their
 * order: by digits, the lowest first. @other: room for as many. */
static void sort_by(const struct calibrated *c, bool back, uint32_t *order, uint32_t *other)
{
	enum { BITS = 11, DIGITS = 3 };
	size_t first[1 << BITS];

	for (int digit = 0; digit < DIGITS; digit++) {
		const unsigned int shift = BITS * digit, mask = (1 << BITS) - 1;

		memset(first, 0, sizeof(first));
		for (size_t i = 0; i < c->n; i++)
			first[sort_key(c, i, back) >> shift & mask]++;
		for (size_t i = 0, sum = 0, n; i < 1 << BITS; i++, sum += n) {
			n = first[i];
			first[i] = sum;
		}
		for (size_t i = 0; i < c->n; i++)
			other[first[sort_key(c, order[i], back) >> shift & mask]++] = order[i];
		memcpy(order, other, c->n * sizeof(*order));
	}
}

/* Makes *@array have room for @bytes. */
static bool resize(void **array, size_t bytes)
{
	void *resized = realloc(*array, bytes);

	if (resized)
		*array = resized;
	return resized;
}

static bool make_room(struct calibrated *c, size_t n)
{
	return resize((void **)&c->context, n * sizeof(*c->context)) &&
	       resize((void **)&c->by_token, n * sizeof(*c->by_token)) &&
	       resize((void **)&c->by_pair, n * sizeof(*c->by_pair)) &&
	       resize((void **)&c->nr, n * sizeof(*c->nr)) &&
	       resize((void **)&c->candidates, n * c->k * sizeof(*c->candidates));
}

int calibrated_extend(struct calibrated *c, const int32_t *ids, size_t n)
{
	uint32_t *other;

	if (n >= UINT32_MAX - c->n)
		return llm_fail(-EINVAL, "calibration of %zu tokens after %zu", n, c->n);
	other = malloc((c->n + n) * sizeof(*other));
	if (!other || !make_room(c, c->n + n)) {
		free(other);
		return llm_fail(-ENOMEM, "no memory for the candidates of %zu tokens", c->n + n);
	}
	memcpy(c->context + c->n, ids, n * sizeof(*ids));
	memset(c->nr + c->n, 0, n * sizeof(*c->nr));
	c->n += n;
	for (size_t i = 0; i < c->n; i++)
		c->by_token[i] = c->by_pair[i] = (uint32_t)i;
	sort_by(c, false, c->by_token, other);
	sort_by(c, true, c->by_pair, other);
	sort_by(c, false, c->by_pair, other);
	free(other);
	return 0;
}

size_t calibrated_tokens(const struct calibrated *c)
{
	return c->n;
}

int calibrated_create(const int32_t *context, size_t n, uint32_t k, struct calibrated **calibrated)
{
	struct calibrated *c;
	int err;

	if (!n || !k || k > CALIBRATED_MAX)
		return llm_fail(-EINVAL, "calibration of %zu tokens with %u candidates each", n, k);
	c = calloc(1, sizeof(*c));
	if (!c)
		return llm_fail(-ENOMEM, "no memory for the candidates of %zu tokens", n);
	c->k = k;
	err = calibrated_extend(c, context, n);
	if (err)
		calibrated_free(c);
	else
		*calibrated = c;
	return err;
}

void calibrated_free(struct calibrated *c)
{
	if (!c)
		return;
	free(c->context);
	free(c->by_token);
	free(c->by_pair);
	free(c->nr);
	free(c->candidates);
	free(c);
}

int calibrated_add(struct calibrated *c, size_t position, const int32_t *ids, const float *p,
		   uint32_t n)
{
	struct candidate *list;
	uint32_t nr = 0;

	if (position >= c->n)
		return llm_fail(-EINVAL, "no position %zu in a context of %zu tokens", position,
				c->n);
	list = c->candidates + position * c->k;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = nr < c->k ? nr++ : c->k;

		for (; at && list[at - 1].p < p[i]; at--)
			if (at < c->k)
				list[at] = list[at - 1];
		if (at < c->k)
			list[at] = (struct candidate){ ids[i], p[i] };
	}
	c->nr[position] = (uint8_t)nr;
	return 0;
}

/* ---- search ---- */

/* What is looked for: @token, behind @before if it is a pair, at @position or later. */
struct key {
	int32_t token, before;
	bool pair;
	size_t position;
};

static bool matches(const struct calibrated *c, const struct key *k, size_t at)
{
	return c->context[at] == k->token && (!k->pair || before(c, at) == k->before);
}

static bool is_before(const struct calibrated *c, size_t at, const struct key *k)
{
	if (c->context[at] != k->token)
		return c->context[at] < k->token;
	if (k->pair && before(c, at) != k->before)
		return before(c, at) < k->before;
	return at < k->position;
}

/* The place in @order of the first that is not before the key. */
static size_t lower_bound(const struct calibrated *c, const uint32_t *order, const struct key *k)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (is_before(c, order[middle], k))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The first position from the key on that has candidates. */
static size_t first_from(const struct calibrated *c, const uint32_t *order, const struct key *k)
{
	for (size_t i = lower_bound(c, order, k); i < c->n && matches(c, k, order[i]); i++)
		if (c->nr[order[i]])
			return order[i];
	return CALIBRATED_NONE;
}

static size_t last_of(const struct calibrated *c, int32_t token)
{
	const struct key k = { .token = token, .position = SIZE_MAX };

	for (size_t i = lower_bound(c, c->by_token, &k); i-- && matches(c, &k, c->by_token[i]);)
		if (c->nr[c->by_token[i]])
			return c->by_token[i];
	return CALIBRATED_NONE;
}

size_t calibrated_find(const struct calibrated *c, int32_t token, size_t position)
{
	size_t found = CALIBRATED_NONE;

	if (position < c->n) {
		found = first_from(c, c->by_pair,
				   &(struct key){ token, c->context[position], true, 0 });
		if (found == CALIBRATED_NONE)
			found = first_from(c, c->by_token,
					   &(struct key){ token, 0, false, position + 1 });
	}
	return found == CALIBRATED_NONE ? last_of(c, token) : found;
}

size_t calibrated_begin(const struct calibrated *c, int32_t token, size_t position)
{
	bool here = position < c->n && c->context[position] == token && c->nr[position];

	return here ? position : last_of(c, token);
}

/* A place of the search: a node, its position, and the next of its candidates. */
struct place {
	uint32_t node, candidate;
	size_t position;
};

uint32_t calibrated_grow(const struct calibrated *c, size_t position, struct tree_growth *g,
			 uint32_t node, const struct calibrated_limits *limits)
{
	struct place path[TREE_MAX + 1] = { { node, 0, position } };
	uint32_t most = limits->depth < TREE_MAX ? limits->depth : TREE_MAX;
	uint32_t depth = 0, visited = 0;

	for (;;) {
		struct place *p = &path[depth];
		size_t here = p->position;
		const struct candidate *next;
		uint32_t child;

		if (here >= c->n || p->candidate == c->nr[here] || depth == most) {
			if (!depth--)
				return visited;
			continue;
		}
		next = &c->candidates[here * c->k + p->candidate++];
		if (g->nodes[p->node].p * (double)next->p < limits->least)
			continue;
		child = tree_add(g, p->node, next->id, (double)next->p);
		if (child == TREE_NONE)
			return visited;
		visited++;
		path[++depth] = (struct place){ child, 0, calibrated_find(c, next->id, here) };
	}
}

size_t calibrated_bytes(const struct calibrated *c)
{
	return sizeof(*c) + c->n * (sizeof(*c->context) + 2 * sizeof(uint32_t) + sizeof(*c->nr) +
				    c->k * sizeof(*c->candidates));
}
