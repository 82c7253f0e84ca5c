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

static int compare_tokens(const void *a, const void *b, void *calibrated)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct calibrated *c = calibrated;

	if (c->context[x] != c->context[y])
		return c->context[x] < c->context[y] ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int compare_pairs(const void *a, const void *b, void *calibrated)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct calibrated *c = calibrated;

	if (c->context[x] == c->context[y] && before(c, x) != before(c, y))
		return before(c, x) < before(c, y) ? -1 : 1;
	return compare_tokens(a, b, calibrated);
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
	if (n >= UINT32_MAX - c->n)
		return llm_fail(-EINVAL, "calibration of %zu tokens after %zu", n, c->n);
	if (!make_room(c, c->n + n))
		return llm_fail(-ENOMEM, "no memory for the candidates of %zu tokens", c->n + n);
	memcpy(c->context + c->n, ids, n * sizeof(*ids));
	memset(c->nr + c->n, 0, n * sizeof(*c->nr));
	for (size_t i = c->n; i < c->n + n; i++)
		c->by_token[i] = c->by_pair[i] = (uint32_t)i;
	c->n += n;
	qsort_r(c->by_token, c->n, sizeof(uint32_t), compare_tokens, c);
	qsort_r(c->by_pair, c->n, sizeof(uint32_t), compare_pairs, c);
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
