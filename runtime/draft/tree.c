// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "tree.h"

#include <stdbool.h>
#include <stdlib.h>

static double probability(double p)
{
	return p > 0 ? p < 1 ? p : 1 : 0;
}

void tree_begin(struct tree_growth *g, int32_t token)
{
	g->n = 1;
	g->source = 0;
	g->kind = 0;
	for (uint32_t i = 0; i < TREE_KINDS; i++)
		g->factors[i] = 1;
	g->nodes[0] = (struct tree_node){ .token = token, .q = 1, .p = 1 };
}

void tree_source(struct tree_growth *g)
{
	g->source++;
}

/* The child of @node that is @token, a new one if there is none; TREE_NONE: the growth is full. */
static uint32_t child_of(struct tree_growth *g, uint32_t node, int32_t token)
{
	uint32_t i = g->nodes[node].child;

	while (i && g->nodes[i].token != token)
		i = g->nodes[i].sibling;
	if (i)
		return i;
	if (g->n == TREE_GROWTH)
		return TREE_NONE;
	g->nodes[g->n] = (struct tree_node){
		.token = token,
		.parent = node,
		.sibling = g->nodes[node].child,
		.kind = g->kind,
		.source = g->source,
	};
	g->nodes[node].child = g->n;
	return g->n++;
}

uint32_t tree_add(struct tree_growth *g, uint32_t node, int32_t token, double p)
{
	double guess = probability(probability(p) * g->factors[g->kind]);
	uint32_t i = child_of(g, node, token);
	struct tree_node *child;

	if (i == TREE_NONE)
		return i;
	child = &g->nodes[i];
	if (child->source != g->source) {
		child->source = g->source;
		child->before = child->q;
		child->now = 0;
	}
	if (guess > child->now)
		child->now = guess;
	if (guess > child->likeliest) {
		child->likeliest = guess;
		child->kind = g->kind;
	}
	child->q = 1 - (1 - child->before) * (1 - child->now);
	child->p = g->nodes[node].p * child->q;
	return i;
}

/* The child of @node with the highest q of those that are not @settled, or 0. */
static uint32_t likeliest_child(const struct tree_growth *g, uint32_t node, const bool *settled)
{
	uint32_t best = 0;

	for (uint32_t i = g->nodes[node].child; i; i = g->nodes[i].sibling)
		if (!settled[i] && (!best || g->nodes[i].q > g->nodes[best].q))
			best = i;
	return best;
}

void tree_settle(struct tree_growth *g)
{
	bool settled[TREE_GROWTH] = { false };

	for (uint32_t node = 0; node < g->n; node++) {
		double left = 1;
		uint32_t i;

		while ((i = likeliest_child(g, node, settled))) {
			double q = g->nodes[i].q;

			settled[i] = true;
			g->nodes[i].q = q * left;
			g->nodes[i].p = g->nodes[node].p * q * left;
			left *= 1 - q;
		}
	}
}

/* ---- picking ---- */

/* A node before those that are less probable, and as probable ones that came later: its parent is
 * before it. */
static bool is_before(const struct tree_growth *g, uint32_t a, uint32_t b)
{
	double pa = g->nodes[a].p, pb = g->nodes[b].p;

	return pa > pb || (pa == pb && a < b);
}

static int by_rank(const void *a, const void *b, void *growth)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return is_before(growth, x, y) ? -1 : 1;
}

/* All nodes, the most probable first. */
static void rank_nodes(const struct tree_growth *g, uint32_t *ranked)
{
	for (uint32_t i = 0; i < g->n; i++)
		ranked[i] = i;
	qsort_r(ranked, g->n, sizeof(*ranked), by_rank, (void *)g);
}

static uint8_t append(const struct tree_growth *g, uint32_t node, uint8_t parent,
		      struct token_tree *t)
{
	uint8_t i = (uint8_t)t->n++;

	t->tokens[i] = g->nodes[node].token;
	t->p[i] = g->nodes[node].p;
	t->kinds[i] = (uint8_t)g->nodes[node].kind;
	t->parents[i] = parent;
	t->depths[i] = i ? t->depths[parent] + 1 : 0;
	t->ancestors[i] = (i ? t->ancestors[parent] : 0) | 1ull << i;
	return i;
}

/* The best child of @node that is still to come, or 0. */
static uint32_t next_child(const struct tree_growth *g, uint32_t node, const bool *to_come)
{
	uint32_t best = 0;

	for (uint32_t i = g->nodes[node].child; i; i = g->nodes[i].sibling)
		if (to_come[i] && (!best || is_before(g, i, best)))
			best = i;
	return best;
}

/* The tree of the first @n of @ranked nodes. */
static void pick_ranked(const struct tree_growth *g, const uint32_t *ranked, uint32_t n,
			struct token_tree *tree)
{
	bool to_come[TREE_GROWTH] = { false };
	uint32_t node = 0;
	uint8_t at;

	for (uint32_t i = 0; i < n && i < g->n; i++)
		to_come[ranked[i]] = true;
	tree->n = 0;
	at = append(g, 0, 0, tree);
	for (;;) {
		uint32_t child = next_child(g, node, to_come);

		if (child) {
			to_come[child] = false;
			at = append(g, child, at, tree);
			node = child;
		} else if (node) {
			node = g->nodes[node].parent;
			at = tree->parents[at];
		} else {
			return;
		}
	}
}

void tree_pick(const struct tree_growth *g, uint32_t n, struct token_tree *tree)
{
	uint32_t ranked[TREE_GROWTH];

	rank_nodes(g, ranked);
	pick_ranked(g, ranked, n, tree);
}

uint32_t tree_pick_best(const struct tree_growth *g, const uint32_t *n, const double *cost,
			uint32_t nr, struct token_tree *tree)
{
	uint32_t ranked[TREE_GROWTH], best = 0, at = 0;
	double sum = 0, most = 0;

	rank_nodes(g, ranked);
	for (uint32_t i = 0; i < nr; i++) {
		for (; at < n[i] && at < g->n; at++)
			sum += g->nodes[ranked[at]].p;
		if (sum / cost[i] > most) {
			most = sum / cost[i];
			best = i;
		}
	}
	pick_ranked(g, ranked, n[best], tree);
	return best;
}

/* ---- accepting ---- */

uint32_t token_tree_child(const struct token_tree *t, uint32_t node, int32_t token)
{
	for (uint32_t i = node + 1; i < t->n; i++)
		if (t->parents[i] == node && t->tokens[i] == token)
			return i;
	return TREE_NONE;
}

uint32_t token_tree_moves(const uint8_t *path, uint32_t n, struct tree_move *moves)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (path[i] == i)
			continue;
		if (nr && path[i] == path[i - 1] + 1)
			moves[nr - 1].rows++;
		else
			moves[nr++] = (struct tree_move){ path[i], (uint8_t)i, 1 };
	}
	return nr;
}
