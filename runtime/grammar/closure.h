/* SPDX-License-Identifier: MIT */
/*
 * From places anywhere in a grammar to the places where a character is taken next: rules are
 * called, and returned from. What a rule that is called here returns to is only known when all its
 * callers are; until then, it goes by the number of the rule. A rule that can be empty is also
 * passed over where it is called, so a rule that ends where it was called needs no further thought.
 */
#ifndef CLOSURE_H
#define CLOSURE_H

#include "grammar.h"
#include "sets.h"

/* In place of a symbol: the end of the text, if nothing follows. */
#define PLACE_FINISH 0x7fffffffu
/* The set whose only member is that. */
#define SET_FINISH 1

struct caller {
	struct place back; /* where the rule returns to */
	uint32_t next; /* the rule's next caller: index + 1, or 0 */
};

struct closure {
	const struct grammar *g;
	struct sets *sets;
	struct places work; /* all different; those that have been looked at, then the others */
	uint32_t *table, table_size; /* of hashes of work: indices + 1, or 0 */
	struct caller *callers;
	uint32_t n_callers, callers_room;
	uint32_t *rules, n_rules; /* that are called, in order: [g->n_rules] */
	uint32_t *first; /* [g->n_rules]: of those called, a caller: index + 1 */
	int32_t *returns; /* [g->n_rules]: of those called, the sets; RETURNS_* */
	struct places members;
};

/* 0 or -ENOMEM; in both cases free it with closure_fini(). */
int closure_init(struct closure *c, const struct grammar *g, struct sets *sets);
void closure_fini(struct closure *c);
/* Adds a place to begin from. 0 or -ENOMEM. */
int closure_add(struct closure *c, uint32_t symbol, uint32_t returns);
/* The set of places that take a character, and PLACE_FINISH if the text can end, from those that
 * were added; -ENOMEM. Then there are none again. */
int32_t closure_find(struct closure *c);

#endif /* CLOSURE_H */
