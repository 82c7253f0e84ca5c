/* SPDX-License-Identifier: MIT */
/*
 * How often guesses come true: corrects the probabilities that the sources of drafts state
 * (CoordGen leaves open how likely a draft is).
 *
 *	acceptance_begin(&a, first);
 *	for (each step) {
 *		tree_begin(&growth, token);
 *		memcpy(growth.factors, a.factors, sizeof(growth.factors));
 *		... add drafts, settle, pick a tree, evaluate it ...
 *		acceptance_learn(&a, &growth, tokens, n);
 *	}
 *
 * Each kind of guesses has a factor: the share that came true, by what its probabilities added up
 * to without it. Guesses count that were tried: those behind the root, and behind each node that
 * came true; one that agrees with others, or comes only if likelier ones do not, counts as
 * tree_settle() left it. It makes no difference whether a tree with them was evaluated, since the
 * next token is known in any case; so a kind that is not drafted from any more can win trust again.
 *
 * What was learned fades: a kind remembers about ACCEPTANCE_MEMORY expected tokens. Its first
 * factor, which is a guess, counts as ACCEPTANCE_PRIOR of them at the beginning. With less, chance
 * would move factors.
 */
#ifndef ACCEPTANCE_H
#define ACCEPTANCE_H

#include "tree.h"

#define ACCEPTANCE_MEMORY 100.0
#define ACCEPTANCE_PRIOR 12.0

struct acceptance {
	double expected[TREE_KINDS], came[TREE_KINDS]; /* tokens */
	double factors[TREE_KINDS];
};

void acceptance_begin(struct acceptance *a, const double first[TREE_KINDS]);
/* @tokens [n] came behind the root of @g. */
void acceptance_learn(struct acceptance *a, const struct tree_growth *g, const int32_t *tokens,
		      uint32_t n);

#endif /* ACCEPTANCE_H */
