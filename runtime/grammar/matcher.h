/* SPDX-License-Identifier: MIT */
/*
 * How a text goes on by a grammar: which tokens are allowed next.
 *
 * A state is the set of places in the grammar where the text can be: a symbol that takes a
 * character, and where its rule returns to when it ends. The latter is a set of places too, shared
 * by all that called the rule at the same character, as in generalised LL parsing (Scott and
 * Johnstone 2010). Equal sets are one, and what is left of a rule after its last symbol is nothing,
 * so a repetition comes back to the state that it began in. A state remembers where each byte leads
 * to: what is matched again costs a look-up. A character of several bytes has states in between, so
 * tokens may begin and end within one.
 *
 * To try all tokens, a walk goes through the trie of the vocabulary. It stops where the grammar
 * does, and takes what is below a node as a whole if the state there is the same after each
 * character that occurs below.
 */
#ifndef MATCHER_H
#define MATCHER_H

#include <stdbool.h>
#include <stdint.h>

struct grammar;
struct matcher;
struct trie;

/* 0, or -EINVAL for a vocabulary without end tokens, or -ENOMEM, with an error line. Owns @grammar
 * from then on, if it is 0. */
int matcher_create(struct grammar *grammar, const struct trie *trie, struct matcher **matcher);
void matcher_free(struct matcher *m); /* NULL: nothing */
/* Goes back to the start. */
void matcher_reset(struct matcher *m);

/* Whether a token may follow: 1, 0, or -ENOMEM. */
int matcher_allows(struct matcher *m, int32_t id);
/* Copies the logits of the tokens that may follow to @masked [n], which may be @logits, and sets
 * the others to -INFINITY. 0 or -ENOMEM. */
int matcher_mask(struct matcher *m, const float *logits, float *masked, unsigned int n);
/* The first end token. */
int32_t matcher_end(const struct matcher *m);
/* The text goes on with a token. Behind an end token, or one that was not allowed, only end tokens
 * are. 0 or -ENOMEM. */
int matcher_accept(struct matcher *m, int32_t id);

#endif /* MATCHER_H */
