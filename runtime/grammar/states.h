/* SPDX-License-Identifier: MIT */
/* The states of a text in a grammar, and where bytes lead: see matcher.h. */
#ifndef STATES_H
#define STATES_H

#include "closure.h"

struct states {
	const struct grammar *g;
	struct sets sets;
	struct closure closure;
	uint32_t start;
};

#define STATE_NONE 0 /* no text goes on from here */

/* 0 or -ENOMEM; in both cases free it with states_fini(). */
int states_init(struct states *s, const struct grammar *g);
void states_fini(struct states *s);
/* Where a byte leads to from a state; -ENOMEM. */
int32_t states_next(struct states *s, uint32_t state, uint8_t byte);
/* Whether the text can end in a state. */
bool states_can_end(const struct states *s, uint32_t state);
/* Sets *@classes to the classes of a trie (trie.h) whose characters all lead back to the state. 0
 * or -ENOMEM. */
int states_loops(struct states *s, uint32_t state, uint64_t *classes);
/* Forgets all states but *@state, whose number may change, and the start, if they are too many. */
int states_forget(struct states *s, uint32_t *state);

#endif /* STATES_H */
