/* SPDX-License-Identifier: MIT */
/* Chains of tokens in token trees: drafts that are added, and the path that a model accepts. */
#ifndef TREE_DRAFTS_H
#define TREE_DRAFTS_H

#include "tree.h"

/* Adds @draft [n] behind the root; each token follows with probability @p. Returns how many tokens
 * are in the growth now: fewer than @n if it is full. */
static inline size_t add_draft(struct tree_growth *g, const int32_t *draft, size_t n, double p)
{
	uint32_t node = 0;

	for (size_t i = 0; i < n; i++) {
		node = tree_add(g, node, draft[i], p);
		if (node == TREE_NONE)
			return i;
	}
	return n;
}

/* The path from the root on, by the token @next that the model puts behind each node. Returns its
 * length. */
static inline uint32_t accept_path(const struct token_tree *t, const int32_t *next, uint8_t *path)
{
	uint32_t n = 0;

	for (uint32_t node = 0; node != TREE_NONE; node = token_tree_child(t, node, next[node]))
		path[n++] = (uint8_t)node;
	return n;
}

#endif /* TREE_DRAFTS_H */
