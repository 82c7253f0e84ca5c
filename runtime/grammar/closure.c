// SPDX-License-Identifier: MIT
#include "closure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_TABLE 128
/* In place of a set: what the rule returns to that the other bits number. */
#define RETURNS_OF 0x80000000u
/* Of a rule: it is not called; it is, by callers whose own returns are not all known. */
#define RETURNS_NONE (-1)
#define RETURNS_UNKNOWN (-2)

int closure_init(struct closure *c, const struct grammar *g, struct sets *sets)
{
	*c = (struct closure){
		.g = g,
		.sets = sets,
		.table = calloc(FIRST_TABLE, sizeof(*c->table)),
		.table_size = FIRST_TABLE,
		.rules = malloc(g->n_rules * sizeof(*c->rules)),
		.first = calloc(g->n_rules, sizeof(*c->first)),
		.returns = malloc(g->n_rules * sizeof(*c->returns)),
	};
	if (!c->table || !c->rules || !c->first || !c->returns)
		return -ENOMEM;
	memset(c->returns, 0xff, g->n_rules * sizeof(*c->returns));
	return 0;
}

void closure_fini(struct closure *c)
{
	free(c->work.items);
	free(c->members.items);
	free(c->table);
	free(c->callers);
	free(c->rules);
	free(c->first);
	free(c->returns);
}

/* ---- places to look at ---- */

static uint32_t slot(const struct closure *c, uint32_t symbol, uint32_t returns)
{
	uint64_t h = ((uint64_t)symbol << 32 | returns) * 0x9e3779b97f4a7c15u;
	uint32_t at = (uint32_t)(h >> 40) & (c->table_size - 1);

	for (; c->table[at]; at = (at + 1) & (c->table_size - 1)) {
		const struct place *p = &c->work.items[c->table[at] - 1];

		if (p->symbol == symbol && p->returns == returns)
			break;
	}
	return at;
}

static int table_grow(struct closure *c)
{
	uint32_t *table = calloc(2 * c->table_size, sizeof(*table));

	if (!table)
		return -ENOMEM;
	free(c->table);
	c->table = table;
	c->table_size *= 2;
	for (uint32_t i = 0; i < c->work.n; i++)
		c->table[slot(c, c->work.items[i].symbol, c->work.items[i].returns)] = i + 1;
	return 0;
}

int closure_add(struct closure *c, uint32_t symbol, uint32_t returns)
{
	uint32_t at = slot(c, symbol, returns);

	if (c->table[at])
		return 0;
	if (places_add(&c->work, symbol, returns))
		return -ENOMEM;
	c->table[at] = c->work.n;
	return 2 * c->work.n < c->table_size ? 0 : table_grow(c);
}

static int add_caller(struct closure *c, uint32_t rule, uint32_t symbol, uint32_t returns)
{
	if (c->n_callers == c->callers_room) {
		uint32_t room = c->callers_room ? 2 * c->callers_room : 64;
		struct caller *grown = realloc(c->callers, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		c->callers = grown;
		c->callers_room = room;
	}
	c->callers[c->n_callers++] = (struct caller){ { symbol, returns }, c->first[rule] };
	c->first[rule] = c->n_callers;
	return 0;
}

/* Calls the rule of a place's symbol. */
static int call(struct closure *c, struct place p)
{
	uint32_t rule = c->g->symbols[p.symbol].rule;
	const struct grammar_rule *r = &c->g->rules[rule];
	int err = add_caller(c, rule, p.symbol + 1, p.returns);

	if (!err && r->nullable)
		err = closure_add(c, p.symbol + 1, p.returns);
	if (c->returns[rule] != RETURNS_NONE)
		return err;
	c->returns[rule] = RETURNS_UNKNOWN;
	c->rules[c->n_rules++] = rule;
	for (uint32_t i = 0; i < r->n && !err; i++)
		err = closure_add(c, c->g->alternatives[r->first + i], RETURNS_OF | rule);
	return err;
}

/* Goes on behind the rule that ended with a place. */
static int go_back(struct closure *c, struct place p)
{
	struct set set;
	int err = 0;

	/* It was called here: it can be empty. */
	if (p.returns & RETURNS_OF)
		return 0;
	set = c->sets->sets[p.returns];
	for (uint32_t i = 0; i < set.n && !err; i++) {
		struct place back = c->sets->members[set.first + i];

		err = closure_add(c, back.symbol, back.returns);
	}
	return err;
}

static int look_at(struct closure *c, struct place p)
{
	if (p.symbol == PLACE_FINISH)
		return 0;
	switch (c->g->symbols[p.symbol].kind) {
	case GRAMMAR_RULE:
		return call(c, p);
	case GRAMMAR_END:
		return go_back(c, p);
	default:
		return 0;
	}
}

/* ---- what rules return to ---- */

/* The set that a place returns to; RETURNS_UNKNOWN. */
static int32_t known(const struct closure *c, uint32_t returns)
{
	return returns & RETURNS_OF ? c->returns[returns & ~RETURNS_OF] : (int32_t)returns;
}

/* Adds to members where a caller goes on: behind its own end, that is what it returns to. 1: that
 * is not known yet. */
static int add_return(struct closure *c, uint32_t rule, struct place back)
{
	bool at_end = c->g->symbols[back.symbol].kind == GRAMMAR_END;
	int32_t returns = known(c, back.returns);
	const struct set *set;
	int err = 0;

	if (at_end && back.returns == (RETURNS_OF | rule))
		return 0;
	if (returns < 0)
		return 1;
	if (!at_end)
		return places_add(&c->members, back.symbol, (uint32_t)returns);
	set = &c->sets->sets[returns];
	for (uint32_t i = 0; i < set->n && !err; i++) {
		struct place p = c->sets->members[set->first + i];

		err = places_add(&c->members, p.symbol, p.returns);
	}
	return err;
}

/* Finds the set that a rule returns to, if those of its callers are known. */
static int find_returns(struct closure *c, uint32_t rule)
{
	int32_t found;
	int err = 0;

	c->members.n = 0;
	for (uint32_t i = c->first[rule]; i && !err; i = c->callers[i - 1].next)
		err = add_return(c, rule, c->callers[i - 1].back);
	if (err)
		return err < 0 ? err : 0;
	found = sets_find_sorted(c->sets, &c->members);
	if (found < 0)
		return found;
	c->returns[rule] = found;
	return 0;
}

/* No rule begins with itself, so each time some more become known. */
static int find_all_returns(struct closure *c)
{
	bool all = false;
	int err = 0;

	while (!all && !err) {
		all = true;
		for (uint32_t i = 0; i < c->n_rules && !err; i++) {
			if (c->returns[c->rules[i]] != RETURNS_UNKNOWN)
				continue;
			err = find_returns(c, c->rules[i]);
			all &= c->returns[c->rules[i]] != RETURNS_UNKNOWN;
		}
	}
	return err;
}

static int32_t find_set(struct closure *c)
{
	c->members.n = 0;
	for (uint32_t i = 0; i < c->work.n; i++) {
		struct place p = c->work.items[i];

		if (p.symbol != PLACE_FINISH && c->g->symbols[p.symbol].kind != GRAMMAR_CHARS)
			continue;
		if (places_add(&c->members, p.symbol, (uint32_t)known(c, p.returns)))
			return -ENOMEM;
	}
	return sets_find_sorted(c->sets, &c->members);
}

static void closure_clear(struct closure *c)
{
	for (uint32_t i = 0; i < c->n_rules; i++) {
		c->returns[c->rules[i]] = RETURNS_NONE;
		c->first[c->rules[i]] = 0;
	}
	memset(c->table, 0, c->table_size * sizeof(*c->table));
	c->work.n = c->n_callers = c->n_rules = 0;
}

int32_t closure_find(struct closure *c)
{
	int32_t found;
	int err = 0;

	for (uint32_t i = 0; i < c->work.n && !err; i++)
		err = look_at(c, c->work.items[i]);
	err = err ? err : find_all_returns(c);
	found = err ? err : find_set(c);
	closure_clear(c);
	return found;
}
