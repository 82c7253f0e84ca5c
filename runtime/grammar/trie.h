/* SPDX-License-Identifier: MIT */
/*
 * The texts of a vocabulary as a trie of bytes, in depth-first order: a walk goes through the nodes
 * one after the other, and passes over what is below a node by going on at its end.
 *
 * A walk can take what is below a node as a whole if it does not matter there which byte comes.
 * Therefore each node has the classes of the bytes below it. The letters of a case, digits, control
 * characters and all of UTF-8's characters of several bytes are a class each, other ASCII
 * characters one alone.
 */
#ifndef TRIE_H
#define TRIE_H

#include "pieces.h"

#define TRIE_CLASS_OTHER 63 /* bytes that do not make whole characters of UTF-8 */
#define TRIE_CLASS_WIDE 62 /* whole characters of several bytes */

struct trie_node {
	uint32_t end; /* the node behind those below it */
	/* Where its tokens begin in the order of texts: first those of this node's text, up to the
	 * next node's, then those below it, up to its end's. */
	uint32_t first;
	uint64_t below; /* classes of the bytes below it */
	uint16_t depth; /* bytes of its text */
	uint8_t byte; /* the last one of its text */
};

struct trie {
	const struct pieces *pieces;
	struct trie_node *nodes; /* [n_nodes + 1]: the last one ends the tokens */
	uint32_t n_nodes, n_tokens, max_depth;
	int32_t *ids; /* [n_tokens], in the order of texts; no end tokens and no empty ones */
};

/* The class of an ASCII character; TRIE_CLASS_OTHER of other bytes. */
unsigned int trie_class(uint8_t byte);
/* 0 or -ENOMEM. @pieces must outlive it. */
int trie_create(const struct pieces *pieces, struct trie **trie);
void trie_free(struct trie *trie); /* NULL: nothing */

#endif /* TRIE_H */
