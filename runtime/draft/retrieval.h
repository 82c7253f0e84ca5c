/* SPDX-License-Identifier: MIT */
/*
 * Drafts by retrieval (CoordGen 2.2 and 4.1): guessed tokens are what followed the last tokens of a
 * session before, in its context or in a history of past answers.
 *
 *	struct retrieval_options o = {
 *		.history = answers, .context = 8192, .min_match = 2, .max_draft = 15,
 *	};
 *	struct retrieval *r;
 *
 *	retrieval_create(&o, &r);
 *	retrieval_read(r, prompt, n_prompt);
 *	for (each step) {
 *		retrieval_grow(r, &growth, 64);
 *		accepted = ... verify a tree of it ...
 *		retrieval_read(r, accepted, n_accepted);
 *	}
 *
 * The context is the session's tokens: the prompt and what has been generated. Without a history
 * this is prompt lookup (PLD), with matches of any length in place of n-grams. With one it is as
 * SAM decoding: the longest end of the session that occurs in the context, and the longest that
 * occurs in the history. Both draft.
 *
 * A match of m tokens has agreed with the session m times in a row. By the rule of succession it
 * agrees once more with a probability of (m + 1) / (m + 2). Longer matches thus draft more tokens
 * above a given probability.
 */
#ifndef RETRIEVAL_H
#define RETRIEVAL_H

#include <stddef.h>
#include <stdint.h>

#include "automaton.h"
#include "calibrated.h"
#include "tree.h"

struct retrieval_options {
	/*
	 * Past answers, each ended by AUTOMATON_BREAK, or NULL. It stays the caller's and must not
	 * change in calls.
	 */
	const struct automaton *history;
	size_t context; /* tokens that the session may reach; more are possible, with a pause */
	uint32_t min_match; /* shorter matches draft nothing; 0 is 1 */
	uint32_t max_draft; /* tokens of a draft */
	double min_confidence; /* the least probability of a node */
};

struct retrieval;

/* 0, or -ENOMEM with the error line. */
int retrieval_create(const struct retrieval_options *o, struct retrieval **retrieval);
void retrieval_free(struct retrieval *r);

/*
 * Tokens that the session has, at the end of those before. 0, or with the error line an error of
 * automaton_append(), before which none, some or all but one of @ids have been read.
 */
int retrieval_read(struct retrieval *r, const int32_t *ids, size_t n);

/* From now on trees grow from calibrated candidates of the context too (CoordGen 3.3). @c stays the
 * caller's. NULL: no more. */
void retrieval_calibrate(struct retrieval *r, const struct calibrated *c);

/*
 * For a tree: adds to @g, whose root is the session's last token, what followed both
 * matches, of each the at most @max (up to TREE_MAX) most probable nodes, no deeper than max_draft,
 * with a probability of min_confidence or more. A token that came c times out of n behind a match
 * of m tokens, and of the path to it, follows with a probability of (m + 1) / (m + 2) c / n; only
 * the RETRIEVAL_NEXTS most frequent are considered. Last comes the calibrated tree of the position
 * where the context's match ends, or of the last one of the same token, to the same depth, with the
 * model's probabilities; its nodes have at least RETRIEVAL_LEAST.
 */
#define RETRIEVAL_LEAST 0.02
#define RETRIEVAL_NEXTS 8
void retrieval_grow(const struct retrieval *r, struct tree_growth *g, uint32_t max);

/* The kinds of guesses (tree.h): RETRIEVAL_LENGTHS of the context, by the length of the match that
 * they follow, as many of the history, then one of calibrated candidates. */
#define RETRIEVAL_LENGTHS 5 /* matches of 1, 2, 3-4, 5-8 and more tokens */
#define RETRIEVAL_CALIBRATED (2 * RETRIEVAL_LENGTHS)
#define RETRIEVAL_KINDS (2 * RETRIEVAL_LENGTHS + 1)
/* Those that retrieval_grow() would add now: a bit each. O(1). */
uint32_t retrieval_kinds(const struct retrieval *r);

/* The session's tokens. */
const struct automaton *retrieval_context(const struct retrieval *r);

#endif /* RETRIEVAL_H */
