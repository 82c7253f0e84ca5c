// SPDX-License-Identifier: MIT
#include "automaton.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"

struct state {
	uint32_t length; /* of its longest substring */
	uint32_t link;
	uint32_t end, count;
	int32_t token; /* the first transition; target 0: none, as none leads to the empty state */
	uint32_t target;
	uint32_t more; /* the others: an edge + 1; 0: none */
};

/* A further transition of a state. */
struct edge {
	uint32_t from;
	int32_t token;
	uint32_t target;
	uint32_t next; /* of the same state, + 1 */
};

struct automaton {
	size_t room; /* tokens */
	int32_t *text; /* [room] */
	struct state *states; /* [2 room + 1] */
	struct edge *edges; /* [room] */
	uint32_t *table; /* [1 << bits]: an edge + 1; 0: empty */
	unsigned int bits;
	uint32_t nr_tokens, nr_states, nr_edges;
	uint32_t last; /* the state of the whole text */
	uint32_t since_break; /* tokens */
};

static size_t slot_of(const struct automaton *a, uint32_t from, int32_t token)
{
	uint64_t key = (uint64_t)from << 32 | (uint32_t)token;

	return (size_t)(key * 0x9e3779b97f4a7c15u >> (64 - a->bits));
}

static void insert(struct automaton *a, uint32_t edge)
{
	size_t mask = ((size_t)1 << a->bits) - 1;
	size_t slot = slot_of(a, a->edges[edge].from, a->edges[edge].token);

	while (a->table[slot])
		slot = (slot + 1) & mask;
	a->table[slot] = edge + 1;
}

/* ---- memory ---- */

/* A table for @room edges, of which at least half remains empty. */
static int grow_table(struct automaton *a, size_t room)
{
	unsigned int bits = 4;
	uint32_t *table;

	while ((size_t)1 << bits < 2 * room)
		bits++;
	table = calloc((size_t)1 << bits, sizeof(*table));
	if (!table)
		return -ENOMEM;
	free(a->table);
	a->table = table;
	a->bits = bits;
	for (uint32_t edge = 0; edge < a->nr_edges; edge++)
		insert(a, edge);
	return 0;
}

static bool resize(void *array, size_t n, size_t size)
{
	void *new = reallocarray(*(void **)array, n, size);

	if (new)
		*(void **)array = new;
	return new;
}

static int grow(struct automaton *a, size_t room)
{
	if (room > AUTOMATON_MAX_TOKENS)
		room = AUTOMATON_MAX_TOKENS;
	if (!resize(&a->text, room, sizeof(*a->text)) ||
	    !resize(&a->states, 2 * room + 1, sizeof(*a->states)) ||
	    !resize(&a->edges, room, sizeof(*a->edges)) || grow_table(a, room))
		return llm_fail(-ENOMEM, "no memory for a suffix automaton of %zu tokens", room);
	a->room = room;
	return 0;
}

int automaton_create(size_t room, struct automaton **automaton)
{
	struct automaton *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return llm_fail(-ENOMEM, "no memory for a suffix automaton");
	err = grow(a, room < 16 ? 16 : room);
	if (err) {
		automaton_free(a);
		return err;
	}
	a->states[0] = (struct state){ 0 };
	a->nr_states = 1;
	*automaton = a;
	return 0;
}

void automaton_free(struct automaton *a)
{
	if (!a)
		return;
	free(a->text);
	free(a->states);
	free(a->edges);
	free(a->table);
	free(a);
}

/* ---- transitions ---- */

/* The target of a transition, or NULL. */
static uint32_t *transition(const struct automaton *a, uint32_t from, int32_t token)
{
	struct state *s = &a->states[from];
	size_t mask = ((size_t)1 << a->bits) - 1;

	if (s->target && s->token == token)
		return &s->target;
	if (!s->more)
		return NULL;
	for (size_t slot = slot_of(a, from, token); a->table[slot]; slot = (slot + 1) & mask) {
		struct edge *e = &a->edges[a->table[slot] - 1];

		if (e->from == from && e->token == token)
			return &e->target;
	}
	return NULL;
}

static void add_transition(struct automaton *a, uint32_t from, int32_t token, uint32_t target)
{
	struct state *s = &a->states[from];

	if (!s->target) {
		s->token = token;
		s->target = target;
		return;
	}
	a->edges[a->nr_edges] = (struct edge){ from, token, target, s->more };
	insert(a, a->nr_edges++);
	s->more = a->nr_edges;
}

/* ---- appending ---- */

/*
 * Counts the end of the text as an occurrence of its suffixes. This is done when the next token
 * comes, so that until then the suffixes' ends are earlier ones.
 */
static void count_suffixes(struct automaton *a)
{
	uint32_t state = a->last;

	for (unsigned int i = 0; state && i < AUTOMATON_REACH; i++) {
		a->states[state].end = a->nr_tokens - 1;
		a->states[state].count++;
		state = a->states[state].link;
	}
}

/* A state for the substrings of @q of at most @length tokens. Returns it. */
static uint32_t split(struct automaton *a, uint32_t q, uint32_t length)
{
	uint32_t clone = a->nr_states++;

	a->states[clone] = a->states[q];
	a->states[clone].length = length;
	a->states[clone].more = 0;
	for (uint32_t e = a->states[q].more; e; e = a->edges[e - 1].next)
		add_transition(a, clone, a->edges[e - 1].token, a->edges[e - 1].target);
	a->states[q].link = clone;
	return clone;
}

/* Leads the transitions by @token from @state and its suffixes to @clone that led to @q. */
static void redirect(struct automaton *a, uint32_t state, int32_t token, uint32_t q, uint32_t clone)
{
	for (;;) {
		uint32_t *target = transition(a, state, token);

		if (!target || *target != q)
			return;
		*target = clone;
		if (!state)
			return;
		state = a->states[state].link;
	}
}

/* The link of @new, the state of the text with @token, whose transitions it makes. */
static uint32_t link_suffixes(struct automaton *a, uint32_t new, int32_t token)
{
	uint32_t state = a->last, *target, q, clone;

	while (!(target = transition(a, state, token))) {
		add_transition(a, state, token, new);
		if (!state)
			return 0;
		state = a->states[state].link;
	}
	q = *target;
	if (a->states[q].length == a->states[state].length + 1)
		return q;
	clone = split(a, q, a->states[state].length + 1);
	redirect(a, state, token, q, clone);
	return clone;
}

int automaton_append(struct automaton *a, int32_t token)
{
	uint32_t new;
	int err;

	if (a->nr_tokens == AUTOMATON_MAX_TOKENS)
		return llm_fail(-E2BIG, "a suffix automaton has at most %u tokens",
				AUTOMATON_MAX_TOKENS);
	err = a->nr_tokens == a->room ? grow(a, 2 * a->room) : 0;
	if (err)
		return err;
	count_suffixes(a);
	new = a->nr_states++;
	a->states[new] = (struct state){ .length = a->nr_tokens + 1, .end = a->nr_tokens };
	a->states[new].link = link_suffixes(a, new, token);
	a->text[a->nr_tokens++] = token;
	a->last = new;
	a->since_break = token == AUTOMATON_BREAK ? 0 : a->since_break + 1;
	return 0;
}

/* ---- matching ---- */

static struct automaton_match match_of(const struct automaton *a, uint32_t state)
{
	return (struct automaton_match){ state, a->states[state].length };
}

/* The state of the match, which may have been split since. */
static uint32_t state_now(const struct automaton *a, struct automaton_match m)
{
	while (m.state && m.length <= a->states[a->states[m.state].link].length)
		m.state = a->states[m.state].link;
	return m.state;
}

struct automaton_match automaton_repeat(const struct automaton *a)
{
	struct automaton_match m = match_of(a, a->states[a->last].link);

	if (m.length > a->since_break)
		m.length = a->since_break;
	m.state = state_now(a, m);
	return m;
}

void automaton_follow(const struct automaton *a, struct automaton_match *m, int32_t token)
{
	const uint32_t *target = NULL;

	m->state = state_now(a, *m);
	if (token == AUTOMATON_BREAK)
		*m = (struct automaton_match){ 0 };
	else
		while (!(target = transition(a, m->state, token)) && m->state)
			*m = match_of(a, a->states[m->state].link);
	if (target)
		*m = (struct automaton_match){ *target, m->length + 1 };
}

uint32_t automaton_end(const struct automaton *a, struct automaton_match m)
{
	return a->states[state_now(a, m)].end;
}

/* Puts a transition into its place among the @n first of @next, of which at most @max remain. */
static size_t rank(const struct automaton *a, int32_t token, uint32_t target,
		   struct automaton_next *next, size_t n, size_t max)
{
	uint32_t count = a->states[target].count;
	size_t i = n < max ? n++ : max;

	count += !count;
	for (; i && next[i - 1].count < count; i--)
		if (i < max)
			next[i] = next[i - 1];
	if (i < max)
		next[i] = (struct automaton_next){ token, target, count };
	return n;
}

size_t automaton_nexts(const struct automaton *a, uint32_t state, struct automaton_next *next,
		       size_t max, uint64_t *total)
{
	const struct state *s = &a->states[state];
	struct edge first = { state, s->token, s->target, s->more };
	size_t n = 0;

	*total = 0;
	if (!s->target)
		return 0;
	for (const struct edge *e = &first;; e = &a->edges[e->next - 1]) {
		uint32_t count = a->states[e->target].count;

		*total += count + !count;
		if (e->token != AUTOMATON_BREAK)
			n = rank(a, e->token, e->target, next, n, max);
		if (!e->next)
			return n;
	}
}

size_t automaton_tokens(const struct automaton *a)
{
	return a->nr_tokens;
}

int32_t automaton_token(const struct automaton *a, size_t position)
{
	return a->text[position];
}

size_t automaton_states(const struct automaton *a)
{
	return a->nr_states;
}

size_t automaton_bytes(const struct automaton *a)
{
	return sizeof(*a) + a->nr_tokens * sizeof(*a->text) + a->nr_states * sizeof(*a->states) +
	       a->nr_edges * sizeof(*a->edges) + ((size_t)1 << a->bits) * sizeof(*a->table);
}
