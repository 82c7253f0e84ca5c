/* SPDX-License-Identifier: MIT */
/*
 * Reuse of rejected drafts (CoordGen 3.4): tokens behind a mismatch may still come, after others
 * that were missing in the draft, or with one word for another. Of each rejected draft the longest
 * plausible segment is kept for the next steps.
 *
 *	struct reuse r;
 *
 *	reuse_begin(&r, 64, 0.1);
 *	for (each step) {
 *		reuse_grow(&r, &growth);
 *		... pick a tree ...
 *		reuse_step(&r, &tree);
 *		... evaluate it ...
 *		... its accepted path [n], by token_tree_child() ...
 *		reuse_keep(&r, &tree, path, n, confidence);
 *	}
 *
 * The segment is the paper's equation (3), read from the words around it: confidence-based and
 * length-first. With a draft d and the confidence c of each token, the segment is the longest
 * d[s..e] behind the last accepted token with c[i] >= the threshold for all s <= i <= e; of equally
 * long ones the first. One pass over a draft finds it. A confidence is how probable the model found
 * the token behind the draft's tokens before it, as a share of what it gave the likeliest token
 * there: that needs no sum over the vocabulary.
 *
 * A segment takes part in at least one step after that of its draft. It is dropped after the first
 * step whose draft would be longer than a limit with it: the draft are the nodes of other guesses
 * in the step's tree, and the segments, of which the newest are counted first.
 */
#ifndef REUSE_H
#define REUSE_H

#include <stddef.h>
#include <stdint.h>

#include "tree.h"

#define REUSE_SEGMENTS 8 /* at a time; with more the oldest goes */
/* Kinds of guesses (tree.h): that a segment begins behind the last token; that the segment which it
 * is in goes on behind it; and that a segment goes on after one of these. */
#define REUSE_BEGINS (TREE_KINDS - 3)
#define REUSE_CONTINUES (TREE_KINDS - 2)
#define REUSE_NEXT (TREE_KINDS - 1)

struct reuse {
	uint32_t limit; /* tokens of a step's draft */
	double threshold;
	uint32_t n;
	struct reuse_segment { /* the newest first */
		uint32_t n; /* tokens */
		int32_t tokens[TREE_MAX];
		double p[TREE_MAX]; /* confidences */
	} segments[REUSE_SEGMENTS];
};

/* @limit: of the tokens of a step's draft. @threshold: of confidence, 0 to 1. */
void reuse_begin(struct reuse *r, uint32_t limit, double threshold);

/* The longest run of @confidence [n] that is at least @threshold: returns its length; stores its
 * @start if the length is not 0. */
uint32_t reuse_segment(const double *confidence, uint32_t n, double threshold, uint32_t *start);

/*
 * Adds the segments to @g behind its root, the session's last token: from their start on, and, if
 * the root is one of their tokens, from behind it on. A token follows with the confidence that it
 * had. Returns how many tokens were offered.
 */
uint32_t reuse_grow(const struct reuse *r, struct tree_growth *g);

/* After a step's tree was picked: drops the segments whose time is over. */
void reuse_step(struct reuse *r, const struct token_tree *t);

/* The kinds of first guesses that reuse_grow() would add behind @token: a bit each. */
uint32_t reuse_kinds(const struct reuse *r, int32_t token);

/*
 * After a step: keeps the longest segment of the drafts of @t that were rejected, where @path [n]
 * was accepted and the model had the @confidence [t->n] in each node's token behind its parent; of
 * equally long ones that of the earliest leaf. Returns its length; 0: there was none, or an older
 * segment contains it, which goes on in its stead. Accepted tokens leave the segments that they
 * came from.
 */
uint32_t reuse_keep(struct reuse *r, const struct token_tree *t, const uint8_t *path, uint32_t n,
		    const double *confidence);

#endif /* REUSE_H */
