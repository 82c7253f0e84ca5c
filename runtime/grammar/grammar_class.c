// SPDX-License-Identifier: MIT
/* Sets of characters: classes such as [a-z_] and [^"], as ranges. */
#include <stdlib.h>

#include "grammar_private.h"
#include "utf8.h"

static void add_range(struct grammar_parser *p, uint32_t first, uint32_t last)
{
	const struct grammar_range r = { first, last };
	int err;

	if (p->text.err)
		return;
	err = grammar_list_add(&p->ranges, &r, sizeof(r));
	p->text.err = err;
}

static int by_first(const void *a, const void *b)
{
	const struct grammar_range *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* Sorts the ranges from @from on, and joins those that touch. */
static void join_ranges(struct grammar_parser *p, uint32_t from)
{
	struct grammar_range *r = (struct grammar_range *)p->ranges.items + from;
	uint32_t n = p->ranges.n - from, kept = 0;

	if (!n)
		return;
	qsort(r, n, sizeof(*r), by_first);
	for (uint32_t i = 1; i < n; i++) {
		if (r[i].first > r[kept].last + 1)
			r[++kept] = r[i];
		else if (r[i].last > r[kept].last)
			r[kept].last = r[i].last;
	}
	p->ranges.n = from + kept + 1;
}

/* Makes the ranges from @from on those that they leave out. */
static void complement(struct grammar_parser *p, uint32_t from)
{
	struct grammar_range *r = (struct grammar_range *)p->ranges.items + from;
	uint32_t n = p->ranges.n - from, next = 0, kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct grammar_range left = { next, r[i].first - 1 };

		next = r[i].last + 1;
		if (left.first <= left.last && left.last != UINT32_MAX)
			r[kept++] = left;
	}
	p->ranges.n = from + kept;
	if (next <= UTF8_MAX)
		add_range(p, next, UTF8_MAX);
}

void grammar_range(struct grammar_parser *p, uint32_t first, uint32_t last,
		   struct grammar_symbol *symbol)
{
	*symbol = (struct grammar_symbol){
		.kind = GRAMMAR_CHARS,
		.first = p->ranges.n,
		.n = 1,
	};
	add_range(p, first, last);
}

/* A character, or two with a dash between them. */
static void class_range(struct grammar_parser *p)
{
	struct grammar_text *t = &p->text;
	const char *begin = t->at;
	uint32_t first = grammar_char(t), last = first;

	if (!t->err && t->at[0] == '-' && t->at[1] != ']') {
		t->at++;
		last = *t->at ? grammar_char(t) : 0;
	}
	if (last < first)
		grammar_error(t, begin, "the range ends before it begins");
	add_range(p, first, last);
}

void grammar_class(struct grammar_parser *p, struct grammar_symbol *symbol)
{
	struct grammar_text *t = &p->text;
	const char *begin = t->at - 1;
	uint32_t from = p->ranges.n;
	bool negated = grammar_is(t, '^');

	t->at += negated;
	while (!t->err && !grammar_is(t, ']')) {
		if (!*t->at || *t->at == '\n' || *t->at == '\r')
			grammar_error(t, begin, "the class has no ]");
		else
			class_range(p);
	}
	if (t->err)
		return;
	t->at++;
	join_ranges(p, from);
	if (negated)
		complement(p, from);
	*symbol = (struct grammar_symbol){
		.kind = GRAMMAR_CHARS,
		.first = from,
		.n = p->ranges.n - from,
	};
	if (!symbol->n)
		grammar_error(t, begin, "the class has no characters");
}

bool grammar_contains(const struct grammar *g, const struct grammar_symbol *chars, uint32_t code)
{
	const struct grammar_range *r = g->ranges + chars->first;

	for (uint32_t i = 0; i < chars->n && r[i].first <= code; i++)
		if (code <= r[i].last)
			return true;
	return false;
}
