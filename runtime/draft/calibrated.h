/* SPDX-License-Identifier: MIT */
/*
 * In-context distribution calibration (CoordGen 3.3): drafts in the model's words rather than the
 * context's. For positions of the context, prefill has computed which tokens the model expects
 * next; these candidates are drafts.
 *
 *	struct calibrated *c;
 *
 *	calibrated_create(prompt, n, 4, &c);
 *	calibrated_add(c, position, ids, p, 4);	for each position whose logits were computed
 *	...
 *	calibrated_grow(c, position, &growth, 0, &limits);	at each step
 *
 * The tree of a position has its candidates as children (the paper's step 1, sample). Under each
 * child is the tree of a position where the child's token occurs in the context (step 2, search),
 * and so on: "Clinton" leads to "arrived", which the model expects there, and where "arrived"
 * stands the model expects "at". A token that does not occur, or only where no candidates are
 * known, is a leaf.
 *
 * The paper leaves open which occurrence the search takes of several. Here it is the first of these
 * with candidates: one that follows the token before it, as in the tree; the next one behind the
 * position; the last one.
 *
 * The trees of all positions overlap, since each is made of others. So they are not built after
 * prefill, but a depth-first search visits what a draft needs. Memory is 13 bytes for each token of
 * the context and 8 for each candidate, where explicit trees of depth d would take k^d nodes for
 * each position.
 */
#ifndef CALIBRATED_H
#define CALIBRATED_H

#include <stddef.h>
#include <stdint.h>

#include "tree.h"

#define CALIBRATED_MAX 16 /* candidates of a position */
#define CALIBRATED_NONE SIZE_MAX

struct calibrated;

/*
 * For a context of @n tokens, which are copied and may be extended, and at most @k
 * (1..CALIBRATED_MAX) candidates for each position. 0, or with the error line -EINVAL, -ENOMEM.
 */
int calibrated_create(const int32_t *context, size_t n, uint32_t k, struct calibrated **calibrated);
void calibrated_free(struct calibrated *c);

/* Appends @n tokens without candidates to the context, which is sorted anew. 0, or with the error
 * line -EINVAL, -ENOMEM; nothing has changed then. */
int calibrated_extend(struct calibrated *c, const int32_t *ids, size_t n);
size_t calibrated_tokens(const struct calibrated *c); /* of the context */

/*
 * The model's @n most probable tokens behind @position of the context, in any order, with their
 * probabilities; those beyond k are left out, the least probable first. A second call replaces
 * them. 0, or -EINVAL with the error line if there is no such position.
 */
int calibrated_add(struct calibrated *c, size_t position, const int32_t *ids, const float *p,
		   uint32_t n);

/*
 * The occurrence of @token that the search takes when it comes from @position, which it follows in
 * the tree; CALIBRATED_NONE if there is none with candidates. @position CALIBRATED_NONE: the last
 * one.
 */
size_t calibrated_find(const struct calibrated *c, int32_t token, size_t position);

/* The position whose tree begins with a session's last token, which is @token and, if its longest
 * match says so, that at @position: this one if it has candidates, or else the last that does. */
size_t calibrated_begin(const struct calibrated *c, int32_t token, size_t position);

struct calibrated_limits {
	uint32_t depth; /* of nodes below the one where the tree begins, at most TREE_MAX */
	double least; /* probability of a node's path in the growth; less ends a path; above 0 */
};
/*
 * Adds the tree of @position to @g, behind @node, which stands for the token at that position.
 * Returns how many nodes were visited: 0 if the position has no candidates. The search stops when
 * the growth is full, so what is more probable is added before it.
 */
uint32_t calibrated_grow(const struct calibrated *c, size_t position, struct tree_growth *g,
			 uint32_t node, const struct calibrated_limits *limits);

size_t calibrated_bytes(const struct calibrated *c);

#endif /* CALIBRATED_H */
