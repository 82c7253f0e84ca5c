// SPDX-License-Identifier: MIT
#include "states.h"

#include <errno.h>
#include <string.h>

#include "trie.h"
#include "utf8.h"

/*
 * States within a character have these in place of a symbol, with the number of bytes that are
 * missing added. ANY: whatever they are, they lead to the set that follows. SOME: it depends; the
 * set that follows is the state before the character, and a second member has the bits so far and
 * the character's length.
 */
#define PLACE_SPECIAL 0xfffffff0u
#define PLACE_ANY 0xfffffff0u
#define PLACE_SOME 0xfffffff8u

/* Sets that know where bytes lead to, of 1 KiB each, and members of sets. */
#define MAX_NEXT 8192
#define MAX_MEMBERS (4u << 20)

static int states_begin(struct states *s)
{
	const struct grammar_rule *root = &s->g->rules[s->g->root];
	const struct place finish = { PLACE_FINISH, 0 };
	int32_t start;
	int err = sets_init(&s->sets);

	if (err)
		return err;
	if (sets_find(&s->sets, &finish, 1) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < root->n && !err; i++)
		err = closure_add(&s->closure, s->g->alternatives[root->first + i], SET_FINISH);
	start = err ? err : closure_find(&s->closure);
	s->start = start < 0 ? STATE_NONE : (uint32_t)start;
	return start < 0 ? start : 0;
}

int states_init(struct states *s, const struct grammar *g)
{
	int err;

	*s = (struct states){ .g = g };
	err = closure_init(&s->closure, g, &s->sets);
	return err ? err : states_begin(s);
}

void states_fini(struct states *s)
{
	closure_fini(&s->closure);
	sets_fini(&s->sets);
}

static const struct place *members_of(const struct states *s, uint32_t state, uint32_t *n)
{
	const struct set *set = &s->sets.sets[state];

	*n = set->n;
	return s->sets.members + set->first;
}

static const struct grammar_symbol *chars_of(const struct states *s, const struct place *p)
{
	return p->symbol == PLACE_FINISH ? NULL : &s->g->symbols[p->symbol];
}

/* Where a character leads to. */
static int32_t next_code(struct states *s, uint32_t state, uint32_t code)
{
	const struct grammar_symbol *chars;
	const struct place *p;
	uint32_t n;

	p = members_of(s, state, &n);
	for (uint32_t i = 0; i < n; i++) {
		chars = chars_of(s, &p[i]);
		if (chars && grammar_contains(s->g, chars, code) &&
		    closure_add(&s->closure, p[i].symbol + 1, p[i].returns))
			return -ENOMEM;
	}
	return closure_find(&s->closure);
}

/* ---- within characters ---- */

enum overlap {
	OVERLAP_NONE,
	OVERLAP_SOME,
	OVERLAP_SAME, /* each set of characters has all of them, or none */
};

static enum overlap overlap_chars(const struct grammar *g, const struct grammar_symbol *chars,
				  uint32_t first, uint32_t last)
{
	for (uint32_t i = 0; i < chars->n; i++) {
		const struct grammar_range *r = &g->ranges[chars->first + i];

		if (r->last < first || r->first > last)
			continue;
		return r->first <= first && r->last >= last ? OVERLAP_SAME : OVERLAP_SOME;
	}
	return OVERLAP_NONE;
}

/* How the characters that a state takes overlap with some. */
static enum overlap overlap(const struct states *s, uint32_t state, uint32_t first, uint32_t last)
{
	enum overlap all = OVERLAP_NONE, one;
	const struct grammar_symbol *chars;
	const struct place *p;
	uint32_t n;

	p = members_of(s, state, &n);
	for (uint32_t i = 0; i < n; i++) {
		chars = chars_of(s, &p[i]);
		one = chars ? overlap_chars(s->g, chars, first, last) : OVERLAP_NONE;
		if (one == OVERLAP_SOME)
			return one;
		all = one == OVERLAP_SAME ? one : all;
	}
	return all;
}

static bool is_surrogate(uint32_t code)
{
	return code >= 0xd800 && code < 0xe000;
}

static int32_t some_missing(struct states *s, uint32_t before, uint32_t bits, unsigned int length,
			    unsigned int missing)
{
	const struct place two[] = { { PLACE_SOME + missing, before }, { bits, length } };

	return sets_find(&s->sets, two, 2);
}

static int32_t any_missing(struct states *s, int32_t target, unsigned int missing)
{
	const struct place one = { PLACE_ANY + missing, (uint32_t)target };

	return target <= STATE_NONE ? target : sets_find(&s->sets, &one, 1);
}

/* From state @before, after some bytes of a character of @length bytes that gave @bits. */
static int32_t within(struct states *s, uint32_t before, uint32_t bits, unsigned int length,
		      unsigned int missing)
{
	uint32_t first = bits << 6 * missing, last = first | ((1u << 6 * missing) - 1);
	bool cut = first < utf8_least(length) || last > UTF8_MAX || is_surrogate(first) ||
		   is_surrogate(last);
	enum overlap o;

	if (last < utf8_least(length) || first > UTF8_MAX ||
	    (is_surrogate(first) && is_surrogate(last)))
		return STATE_NONE;
	first = first < utf8_least(length) ? utf8_least(length) : first;
	last = last > UTF8_MAX ? UTF8_MAX : last;
	o = overlap(s, before, first, last);
	if (o == OVERLAP_NONE)
		return STATE_NONE;
	if (o == OVERLAP_SOME || cut)
		return some_missing(s, before, bits, length, missing);
	return any_missing(s, next_code(s, before, first), missing);
}

static int32_t continued(struct states *s, const struct place *p, uint8_t byte)
{
	bool any = p->symbol < PLACE_SOME;
	unsigned int missing = p->symbol - (any ? PLACE_ANY : PLACE_SOME) - 1;
	uint32_t before = p->returns, bits;

	if ((byte & 0xc0) != 0x80)
		return STATE_NONE;
	if (any)
		return missing ? any_missing(s, (int32_t)before, missing) : (int32_t)before;
	bits = p[1].symbol << 6 | (byte & 0x3f);
	if (missing)
		return within(s, before, bits, p[1].returns, missing);
	if (bits < utf8_least(p[1].returns) || bits > UTF8_MAX || is_surrogate(bits))
		return STATE_NONE;
	return next_code(s, before, bits);
}

static int32_t find_next(struct states *s, uint32_t state, uint8_t byte)
{
	const struct place *p;
	unsigned int length;
	uint32_t n;

	p = members_of(s, state, &n);
	if (!n)
		return STATE_NONE;
	if (p->symbol >= PLACE_SPECIAL)
		return continued(s, p, byte);
	length = utf8_length(byte);
	if (length == 1)
		return next_code(s, state, byte);
	return length ? within(s, state, utf8_lead_bits(byte, length), length, length - 1)
		      : STATE_NONE;
}

int32_t states_next(struct states *s, uint32_t state, uint8_t byte)
{
	int32_t *next = sets_next(&s->sets, state);

	if (!next)
		return -ENOMEM;
	if (next[byte] == SET_UNKNOWN) {
		int32_t found = find_next(s, state, byte);

		if (found < 0)
			return found;
		next[byte] = found;
	}
	return next[byte];
}

bool states_can_end(const struct states *s, uint32_t state)
{
	const struct place *p;
	uint32_t n;

	p = members_of(s, state, &n);
	/* Sorted. */
	for (uint32_t i = n; i-- > 0;)
		if (p[i].symbol == PLACE_FINISH)
			return true;
	return false;
}

/* ---- loops ---- */

static int find_loops(struct states *s, uint32_t state, uint64_t *classes)
{
	uint64_t others = 1ull << TRIE_CLASS_OTHER;
	int32_t next = (int32_t)state;

	for (unsigned int byte = 0; byte < 0x80; byte++) {
		next = states_next(s, state, (uint8_t)byte);
		if (next < 0)
			return next;
		if (next != (int32_t)state)
			others |= 1ull << trie_class((uint8_t)byte);
	}
	next = next_code(s, state, 0x80);
	if (next < 0)
		return next;
	if (next != (int32_t)state || overlap(s, state, 0x80, UTF8_MAX) != OVERLAP_SAME)
		others |= 1ull << TRIE_CLASS_WIDE;
	*classes = ~others;
	return 0;
}

int states_loops(struct states *s, uint32_t state, uint64_t *classes)
{
	struct set *set = &s->sets.sets[state];
	int err;

	if (set->loops_known) {
		*classes = set->loops;
		return 0;
	}
	err = find_loops(s, state, classes);
	/* It has moved. */
	set = &s->sets.sets[state];
	set->loops = *classes;
	set->loops_known = !err;
	return err;
}

/* ---- forgetting ---- */

int states_forget(struct states *s, uint32_t *state)
{
	struct states fresh = { .g = s->g, .closure = s->closure };
	int err;

	if (s->sets.n_next < MAX_NEXT && s->sets.n_members < MAX_MEMBERS)
		return 0;
	fresh.closure.sets = &fresh.sets;
	err = states_begin(&fresh);
	err = err ? err : sets_copy(&fresh.sets, &s->sets, PLACE_SPECIAL, state);
	sets_fini(err ? &fresh.sets : &s->sets);
	/* The closure's memory may have moved. */
	s->closure = fresh.closure;
	s->closure.sets = &s->sets;
	if (!err) {
		s->sets = fresh.sets;
		s->start = fresh.start;
	}
	return err;
}
