/* SPDX-License-Identifier: MIT */
/*
 * Token trees: several drafts that are verified in one pass (CoordGen 3.1).
 *
 *	struct tree_growth g;
 *	struct token_tree t;
 *
 *	tree_begin(&g, last_token);
 *	for (each source of guesses) {
 *		tree_source(&g);
 *		node = tree_add(&g, node, id, 0.8);	drafts share their beginnings
 *	}
 *	tree_settle(&g);
 *	tree_pick(&g, 16, &t);
 *	... evaluate t.n tokens at positions pos + depth; node i sees its ancestors ...
 *	while ((node = token_tree_child(&t, node, id)) != TREE_NONE)
 *		... @id, which the model puts behind the node before, is accepted ...
 *	n = token_tree_moves(path, n, moves);
 *	... move rows of the KV cache, then truncate it to pos + n ...
 *
 * Node 0, the root, is the last token of the session, which is known but not evaluated yet; so a
 * tree of one node is plain decoding. The other nodes are guesses: each may follow its parent. A
 * growth holds all drafts as one tree with probabilities; a pick takes its most probable nodes.
 */
#ifndef TREE_H
#define TREE_H

#include <stddef.h>
#include <stdint.h>

#define TREE_MAX 64 /* nodes of a token tree */
#define TREE_GROWTH 512 /* nodes of a growth */
#define TREE_NONE UINT32_MAX
#define TREE_KINDS 14 /* of guesses (retrieval.h, reuse.h) */

struct tree_growth {
	uint32_t n;
	uint32_t source; /* of the guesses that are added next: how many there have been */
	uint32_t kind; /* of these */
	double factors[TREE_KINDS]; /* that a kind's probabilities are multiplied with */
	struct tree_node {
		int32_t token;
		uint32_t parent, child, sibling; /* child, sibling: 0: none */
		uint32_t kind; /* of its likeliest guess */
		uint32_t source; /* the last one that guessed it */
		double likeliest; /* of the guesses that it follows its parent */
		double before, now; /* the same of all sources before @source, and of that */
		double q; /* that it follows its parent, with what all sources say */
		double p; /* that all tokens from the root to this one are right */
	} nodes[TREE_GROWTH];
};

/* An empty growth: the root, of probability 1. Its kind is 0, all factors are 1. */
void tree_begin(struct tree_growth *g, int32_t token);

/* The guesses that follow come from another source than those before. */
void tree_source(struct tree_growth *g);

/*
 * Adds @token behind @node, which it follows with probability @p (what is not in 0..1 is taken as
 * the nearer of the two, NaN as 0), times the factor of g->kind. Returns its node: an existing one
 * if another draft had it; or TREE_NONE if the growth is full. Of guesses of one source the higher
 * probability counts. Those of several are taken as independent: a token does not follow if all of
 * them are wrong.
 */
uint32_t tree_add(struct tree_growth *g, uint32_t node, int32_t token, double p);

/*
 * Call when all guesses have been added, before a tree is picked: only one token can follow a node,
 * so a child's probability is multiplied with that of all likelier ones being wrong.
 */
void tree_settle(struct tree_growth *g);

/* In depth-first order, the more probable child first: each node follows its parent, and a path
 * that is accepted is often a beginning of the tree. */
struct token_tree {
	uint32_t n; /* at least 1 */
	int32_t tokens[TREE_MAX];
	uint8_t parents[TREE_MAX]; /* the root's is 0 */
	uint8_t depths[TREE_MAX]; /* positions behind the root's */
	uint8_t kinds[TREE_MAX]; /* of the guesses: tree_growth.kind */
	/* Bit j: the node sees node j; itself and the root are included. */
	uint64_t ancestors[TREE_MAX];
	double p[TREE_MAX];
};

/*
 * The tree of the @n (1..TREE_MAX) most probable nodes, or of all if there are fewer. A child is
 * never more probable than its parent, so this is best-first growth: no tree of that size has a
 * higher expectation of accepted tokens.
 */
void tree_pick(const struct tree_growth *g, uint32_t n, struct token_tree *tree);

/* tree_pick() of that of @nr sizes @n, ascending, which is expected to generate most tokens in the
 * time @cost of its pass, in any unit. Returns its index. */
uint32_t tree_pick_best(const struct tree_growth *g, const uint32_t *n, const double *cost,
			uint32_t nr, struct token_tree *tree);

/* The child of @node with @token, or TREE_NONE: for samplers, which draw a node's next token only
 * when the node has been accepted. */
uint32_t token_tree_child(const struct token_tree *t, uint32_t node, int32_t token);

/*
 * Rows of a tree's part of the KV cache that are to be moved: @rows of them from @from on to @to.
 */
struct tree_move {
	uint8_t from, to, rows;
};
/*
 * What compacts the cache to the accepted @path [n]: afterwards the path's rows are the first @n of
 * the tree's. Moves are done in their order; a move's rows may overlap, as with memmove(). Returns
 * their number, at most @n; 0: the path is the beginning of the tree.
 */
uint32_t token_tree_moves(const uint8_t *path, uint32_t n, struct tree_move *moves);

#endif /* TREE_H */
