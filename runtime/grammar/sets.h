/* SPDX-License-Identifier: MIT */
/*
 * Sets of places in a grammar, of which equal ones are one, with a number. Set 0 is empty. The
 * members of a set name other sets with lower numbers only.
 */
#ifndef SETS_H
#define SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct place {
	uint32_t symbol; /* an index of the grammar's symbols, or a number of the matcher's */
	uint32_t returns; /* a set: where the rule returns to */
};

struct places {
	struct place *items;
	uint32_t n, room;
};

struct set {
	uint32_t first, n; /* its members */
	uint32_t hash;
	/* Where each byte leads to, as a set; SET_UNKNOWN. NULL: for none is it known. */
	int32_t *next;
	uint64_t loops; /* classes of a trie whose characters lead back to it */
	bool loops_known;
};
#define SET_UNKNOWN (-1)

struct sets {
	struct place *members;
	struct set *sets;
	uint32_t *table; /* of hashes: set numbers + 1, or 0 */
	uint32_t n_members, n_sets, members_room, sets_room, table_size;
	uint32_t n_next; /* sets with a next */
};

/* 0 or -ENOMEM; in both cases free it with sets_fini(). */
int sets_init(struct sets *s);
void sets_fini(struct sets *s);
/* The number of the set of @n members, in this order; -ENOMEM. */
int32_t sets_find(struct sets *s, const struct place *members, uint32_t n);
/* The same of members in any order, some of them more than once; sorts @p. */
int32_t sets_find_sorted(struct sets *s, struct places *p);
/* The set's next, which it has from then on; NULL: no memory. */
int32_t *sets_next(struct sets *s, uint32_t set);
/* Makes @to hold what *@set of @from leads to, and nothing else; sets its number there. 0 or
 * -ENOMEM. Numbers of symbols from @special on have two members that are no places: the first one's
 * returns is a set. */
int sets_copy(struct sets *to, const struct sets *from, uint32_t special, uint32_t *set);

/* 0 or -ENOMEM. */
int places_add(struct places *p, uint32_t symbol, uint32_t returns);

#endif /* SETS_H */
