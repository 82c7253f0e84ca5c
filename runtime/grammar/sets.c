// SPDX-License-Identifier: MIT
#include "sets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_TABLE 1024

int places_add(struct places *p, uint32_t symbol, uint32_t returns)
{
	if (p->n == p->room) {
		uint32_t room = p->room ? 2 * p->room : 64;
		struct place *grown = realloc(p->items, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		p->items = grown;
		p->room = room;
	}
	p->items[p->n++] = (struct place){ symbol, returns };
	return 0;
}

int sets_init(struct sets *s)
{
	*s = (struct sets){
		.table = calloc(FIRST_TABLE, sizeof(*s->table)),
		.table_size = FIRST_TABLE,
	};
	/* Set 0. */
	return s->table && sets_find(s, NULL, 0) == 0 ? 0 : -ENOMEM;
}

void sets_fini(struct sets *s)
{
	for (uint32_t i = 0; i < s->n_sets; i++)
		free(s->sets[i].next);
	free(s->members);
	free(s->sets);
	free(s->table);
}

static uint32_t hash(const struct place *members, uint32_t n)
{
	uint64_t h = n;

	for (uint32_t i = 0; i < n; i++) {
		h ^= (uint64_t)members[i].symbol << 32 | members[i].returns;
		h *= 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	return (uint32_t)h;
}

static int table_grow(struct sets *s)
{
	uint32_t size = 2 * s->table_size, *table = calloc(size, sizeof(*table));

	if (!table)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n_sets; i++) {
		uint32_t at = s->sets[i].hash & (size - 1);

		while (table[at])
			at = (at + 1) & (size - 1);
		table[at] = i + 1;
	}
	free(s->table);
	s->table = table;
	s->table_size = size;
	return 0;
}

static int sets_reserve(struct sets *s, uint32_t members)
{
	if (s->n_sets == s->sets_room) {
		uint32_t room = s->sets_room ? 2 * s->sets_room : 64;
		struct set *grown = realloc(s->sets, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->sets = grown;
		s->sets_room = room;
	}
	if (s->members_room - s->n_members < members) {
		uint32_t room = 2 * (s->n_members + members);
		struct place *grown = realloc(s->members, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->members = grown;
		s->members_room = room;
	}
	return 2 * s->n_sets < s->table_size ? 0 : table_grow(s);
}

static uint32_t sets_slot(const struct sets *s, const struct place *members, uint32_t n, uint32_t h)
{
	uint32_t at = h & (s->table_size - 1);

	for (; s->table[at]; at = (at + 1) & (s->table_size - 1)) {
		const struct set *set = &s->sets[s->table[at] - 1];

		if (set->hash == h && set->n == n &&
		    (!n || !memcmp(s->members + set->first, members, n * sizeof(*members))))
			break;
	}
	return at;
}

int32_t sets_find(struct sets *s, const struct place *members, uint32_t n)
{
	uint32_t h = hash(members, n), at = sets_slot(s, members, n, h);

	if (s->table[at])
		return (int32_t)s->table[at] - 1;
	if (sets_reserve(s, n))
		return -ENOMEM;
	at = sets_slot(s, members, n, h);
	s->sets[s->n_sets++] = (struct set){ .first = s->n_members, .n = n, .hash = h };
	if (n)
		memcpy(s->members + s->n_members, members, n * sizeof(*members));
	s->n_members += n;
	s->table[at] = s->n_sets;
	return (int32_t)s->n_sets - 1;
}

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->symbol != y->symbol)
		return x->symbol < y->symbol ? -1 : 1;
	return x->returns < y->returns ? -1 : x->returns > y->returns;
}

int32_t sets_find_sorted(struct sets *s, struct places *p)
{
	uint32_t kept = 0;

	if (p->n > 1)
		qsort(p->items, p->n, sizeof(*p->items), by_place);
	for (uint32_t i = 0; i < p->n; i++)
		if (!i || by_place(&p->items[i], &p->items[kept - 1]))
			p->items[kept++] = p->items[i];
	p->n = kept;
	return sets_find(s, p->items, kept);
}

int32_t *sets_next(struct sets *s, uint32_t set)
{
	int32_t **next = &s->sets[set].next;

	if (*next)
		return *next;
	*next = malloc(256 * sizeof(**next));
	if (!*next)
		return NULL;
	s->n_next++;
	memset(*next, 0xff, 256 * sizeof(**next));
	return *next;
}

/* ---- copying ---- */

/* Marks the sets that set @last names, directly or not: they have lower numbers. */
static void mark_named(const struct sets *s, uint32_t special, uint32_t last, int32_t *number)
{
	number[last] = 0;
	for (uint32_t i = last + 1; i-- > 0;) {
		const struct set *set = &s->sets[i];
		const struct place *m = s->members + set->first;
		uint32_t n = set->n && m->symbol >= special ? 1 : set->n;

		if (number[i] == SET_UNKNOWN)
			continue;
		for (uint32_t j = 0; j < n; j++)
			number[m[j].returns] = 0;
	}
}

static int copy_set(struct sets *to, const struct sets *from, uint32_t special, uint32_t i,
		    const int32_t *number, struct places *room)
{
	const struct set *set = &from->sets[i];
	const struct place *m = from->members + set->first;
	bool is_special = set->n && m->symbol >= special;
	int err = 0;

	room->n = 0;
	for (uint32_t j = 0; j < set->n && !err; j++)
		err = places_add(room, m[j].symbol,
				 is_special && j ? m[j].returns : (uint32_t)number[m[j].returns]);
	if (err)
		return err;
	return is_special ? sets_find(to, room->items, room->n) : sets_find_sorted(to, room);
}

int sets_copy(struct sets *to, const struct sets *from, uint32_t special, uint32_t *set)
{
	int32_t *number = malloc((*set + 1ul) * sizeof(*number)), found = 0;
	struct places room = { 0 };

	if (!number)
		return -ENOMEM;
	memset(number, 0xff, (*set + 1ul) * sizeof(*number));
	mark_named(from, special, *set, number);
	for (uint32_t i = 0; i <= *set && found >= 0; i++)
		if (number[i] != SET_UNKNOWN)
			number[i] = found = copy_set(to, from, special, i, number, &room);
	if (found >= 0)
		*set = (uint32_t)found;
	free(number);
	free(room.items);
	return found < 0 ? found : 0;
}
