// SPDX-License-Identifier: MIT
#include "retrieval.h"

#include <errno.h>
#include <stdlib.h>

#include "llm_fail.h"

struct retrieval {
	struct retrieval_options o;
	struct automaton *context;
	struct automaton_match history; /* of the session in o.history */
	const struct calibrated *calibrated;
};

int retrieval_create(const struct retrieval_options *o, struct retrieval **retrieval)
{
	struct retrieval *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return llm_fail(-ENOMEM, "no memory for drafts");
	r->o = *o;
	r->o.min_match += !r->o.min_match;
	err = automaton_create(o->context, &r->context);
	if (err)
		free(r);
	else
		*retrieval = r;
	return err;
}

void retrieval_free(struct retrieval *r)
{
	if (!r)
		return;
	automaton_free(r->context);
	free(r);
}

int retrieval_read(struct retrieval *r, const int32_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int err = automaton_append(r->context, ids[i]);

		if (err)
			return err;
		if (r->o.history)
			automaton_follow(r->o.history, &r->history, ids[i]);
	}
	return 0;
}

/* ---- trees ---- */

/* A node that may be added to a growth. */
struct hope {
	uint32_t parent; /* in the growth */
	uint32_t depth;
	int32_t token;
	double p, all; /* that it follows its parent; that its path is right */
	struct automaton_match m; /* with it */
};

struct hopes {
	const struct automaton *a;
	struct automaton_match from; /* what the root has matched */
	double least;
	uint32_t max_depth, n;
	struct hope list[(TREE_MAX + 1) * RETRIEVAL_NEXTS];
};

/* What followed @m, which is of node @parent in @depth. */
static void hope_behind(struct hopes *h, struct automaton_match m, uint32_t parent, uint32_t depth,
			double all)
{
	double agrees = (m.length + 1.0) / (m.length + 2.0);
	struct automaton_next next[RETRIEVAL_NEXTS];
	uint64_t total;
	size_t n = automaton_nexts(h->a, m.state, next, RETRIEVAL_NEXTS, &total);

	/* The end of the context, which goes on as behind its repeat. */
	if (!total)
		n = automaton_nexts(h->a, h->from.state, next, RETRIEVAL_NEXTS, &total);
	for (size_t i = 0; i < n && depth < h->max_depth; i++) {
		double p = agrees * next[i].count / (double)total;

		if (all * p >= h->least)
			h->list[h->n++] =
				(struct hope){ parent, depth + 1, next[i].token,
					       p,      all * p,	  { next[i].state, m.length + 1 } };
	}
}

static struct hope take_best(struct hopes *h)
{
	uint32_t best = 0;
	struct hope taken;

	for (uint32_t i = 1; i < h->n; i++)
		if (h->list[i].all > h->list[best].all)
			best = i;
	taken = h->list[best];
	h->list[best] = h->list[--h->n];
	return taken;
}

/* The kind of guesses behind a match, of which the shortest has @first. */
static uint32_t kind_of(struct automaton_match m, uint32_t first)
{
	uint32_t i = 0;

	while (i + 1 < RETRIEVAL_LENGTHS && m.length > 1u << i)
		i++;
	return first + i;
}

static void grow_from(const struct retrieval *r, const struct automaton *a,
		      struct automaton_match m, struct tree_growth *g, uint32_t max)
{
	struct hopes h = {
		.a = a,
		.from = m,
		.least = r->o.min_confidence,
		.max_depth = r->o.max_draft,
	};

	if (m.length < r->o.min_match)
		return;
	hope_behind(&h, m, 0, 0, 1);
	for (uint32_t i = 0; i < max && h.n; i++) {
		struct hope best = take_best(&h);
		uint32_t node = tree_add(g, best.parent, best.token, best.p);

		if (node == TREE_NONE)
			return;
		hope_behind(&h, best.m, node, best.depth, best.all);
	}
}

void retrieval_calibrate(struct retrieval *r, const struct calibrated *c)
{
	r->calibrated = c;
}

static void grow_calibrated(const struct retrieval *r, struct tree_growth *g)
{
	const struct calibrated_limits limits = {
		.depth = r->o.max_draft,
		.least = r->o.min_confidence > RETRIEVAL_LEAST ? r->o.min_confidence
							       : RETRIEVAL_LEAST,
	};
	struct automaton_match m = automaton_repeat(r->context);
	size_t end = m.length ? automaton_end(r->context, m) : CALIBRATED_NONE;
	size_t position = calibrated_begin(r->calibrated, g->nodes[0].token, end);

	if (position != CALIBRATED_NONE)
		calibrated_grow(r->calibrated, position, g, 0, &limits);
}

void retrieval_grow(const struct retrieval *r, struct tree_growth *g, uint32_t max)
{
	struct automaton_match repeat = automaton_repeat(r->context);

	tree_source(g);
	g->kind = kind_of(repeat, 0);
	grow_from(r, r->context, repeat, g, max);
	tree_source(g);
	g->kind = kind_of(r->history, RETRIEVAL_LENGTHS);
	if (r->o.history)
		grow_from(r, r->o.history, r->history, g, max);
	tree_source(g);
	g->kind = RETRIEVAL_CALIBRATED;
	if (r->calibrated)
		grow_calibrated(r, g);
}

uint32_t retrieval_kinds(const struct retrieval *r)
{
	struct automaton_match repeat = automaton_repeat(r->context);
	uint32_t kinds = 0;

	if (repeat.length >= r->o.min_match)
		kinds |= 1u << kind_of(repeat, 0);
	if (r->o.history && r->history.length >= r->o.min_match)
		kinds |= 1u << kind_of(r->history, RETRIEVAL_LENGTHS);
	return r->calibrated ? kinds | 1u << RETRIEVAL_CALIBRATED : kinds;
}

const struct automaton *retrieval_context(const struct retrieval *r)
{
	return r->context;
}
