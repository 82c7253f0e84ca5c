// SPDX-License-Identifier: MIT
/* Properties of rules: which can be empty, which can end, and which begin with themselves. */
#include <errno.h>
#include <stdlib.h>

#include "grammar_private.h"
#include "llm_fail.h"

/* An alternative of which every symbol is nullable, or can end. */
static bool alternative_is(const struct grammar *g, uint32_t start, bool nullable)
{
	for (const struct grammar_symbol *s = &g->symbols[start]; s->kind != GRAMMAR_END; s++) {
		if (s->kind == GRAMMAR_CHARS && nullable)
			return false;
		if (s->kind == GRAMMAR_RULE &&
		    !(nullable ? g->rules[s->rule].nullable : g->rules[s->rule].ends))
			return false;
	}
	return true;
}

static bool rule_is(const struct grammar *g, const struct grammar_rule *r, bool nullable)
{
	for (uint32_t i = 0; i < r->n; i++)
		if (alternative_is(g, g->alternatives[r->first + i], nullable))
			return true;
	return false;
}

/* Rules follow from others until nothing changes. */
static void find_nullable_and_ending(struct grammar *g)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (uint32_t i = 0; i < g->n_rules; i++) {
			struct grammar_rule *r = &g->rules[i], before = *r;

			r->nullable = r->nullable || rule_is(g, r, true);
			r->ends = r->ends || rule_is(g, r, false);
			changed |= r->nullable != before.nullable || r->ends != before.ends;
		}
	}
}

static int check_endings(const struct grammar *g)
{
	for (uint32_t i = 0; i < g->n_rules; i++)
		if (!g->rules[i].ends && g->rules[i].name)
			return llm_fail(-EINVAL,
					"grammar, line %u, column %u: rule %s never ends, as each "
					"of its alternatives needs another one",
					g->rules[i].line, g->rules[i].column, g->rules[i].name);
	return 0;
}

/* ---- left recursion ---- */

/* A place among the symbols that a rule can begin with. */
struct place {
	uint32_t rule, alternative, symbol; /* the symbol's index in the alternative */
};

struct search {
	const struct grammar *g;
	struct place *stack; /* [n_rules] */
	uint32_t depth;
	uint8_t *seen; /* 1: on the stack, 2: done */
};

static const struct grammar_symbol *symbol_at(const struct grammar *g, const struct place *p)
{
	return &g->symbols[g->alternatives[g->rules[p->rule].first + p->alternative] + p->symbol];
}

/* A repetition of what may be empty begins with itself, which does no harm: an alternative's last
 * symbol, behind others. */
static bool is_harmless(const struct grammar *g, const struct place *p)
{
	const struct grammar_symbol *s = symbol_at(g, p);

	return s->rule == p->rule && p->symbol && s[1].kind == GRAMMAR_END;
}

/* Passes over a symbol, or over the rest of the alternative if it is not nullable. */
static void advance(const struct grammar *g, struct place *p)
{
	const struct grammar_symbol *s = symbol_at(g, p);

	if (s->kind == GRAMMAR_RULE && g->rules[s->rule].nullable) {
		p->symbol++;
		return;
	}
	p->alternative++;
	p->symbol = 0;
}

/* Looks at one symbol. -EINVAL: its rule is being looked at. */
static int search_step(struct search *s)
{
	struct place *top = &s->stack[s->depth - 1], here = *top;
	const struct grammar_symbol *symbol;

	if (top->alternative == s->g->rules[top->rule].n) {
		s->seen[top->rule] = 2;
		s->depth--;
		return 0;
	}
	symbol = symbol_at(s->g, top);
	advance(s->g, top);
	if (symbol->kind != GRAMMAR_RULE || is_harmless(s->g, &here) || s->seen[symbol->rule] == 2)
		return 0;
	if (s->seen[symbol->rule] == 1)
		return -EINVAL;
	s->seen[symbol->rule] = 1;
	s->stack[s->depth++] = (struct place){ .rule = symbol->rule };
	return 0;
}

/* The named rule on the stack that is nearest to its top. */
static int left_recursion(const struct search *s)
{
	const struct grammar_rule *r = &s->g->rules[s->g->root];

	for (uint32_t i = 0; i < s->depth; i++)
		if (s->g->rules[s->stack[i].rule].name)
			r = &s->g->rules[s->stack[i].rule];
	return llm_fail(-EINVAL,
			"grammar, line %u, column %u: rule %s begins with itself (left "
			"recursion); put the repeated part behind, as in a ::= b (\",\" b)*",
			r->line, r->column, r->name);
}

static int search_from(struct search *s, uint32_t rule)
{
	if (s->seen[rule])
		return 0;
	s->seen[rule] = 1;
	s->stack[s->depth++] = (struct place){ .rule = rule };
	while (s->depth)
		if (search_step(s))
			return left_recursion(s);
	return 0;
}

int grammar_analyse(struct grammar *g)
{
	struct search s = {
		.g = g,
		.stack = malloc(g->n_rules * sizeof(*s.stack)),
		.seen = calloc(g->n_rules, 1),
	};
	int err = s.stack && s.seen ? 0 : llm_fail(-ENOMEM, "no memory for a grammar");

	if (!err) {
		find_nullable_and_ending(g);
		err = check_endings(g);
	}
	for (uint32_t i = 0; i < g->n_rules && !err; i++)
		err = search_from(&s, i);
	free(s.stack);
	free(s.seen);
	return err;
}
