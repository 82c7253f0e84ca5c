// SPDX-License-Identifier: MIT
/* Parsing GBNF: rules, alternatives, and elements with their repetitions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "grammar_private.h"
#include "llm_fail.h"
#include "utf8.h"

#define MAX_DEPTH 200 /* of groups */

/* ---- rules and symbols ---- */

static void add(struct grammar_parser *p, struct grammar_list *l, const void *item, size_t size)
{
	if (!p->text.err)
		p->text.err = grammar_list_add(l, item, size);
}

static void add_symbol(struct grammar_parser *p, struct grammar_list *l,
		       const struct grammar_symbol *s)
{
	add(p, l, s, sizeof(*s));
}

/* @name: the parser's. */
static uint32_t add_rule(struct grammar_parser *p, char *name, const char *at)
{
	const struct grammar_rule rule = {
		.name = name,
		.line = p->text.line,
		.column = (uint32_t)(at - p->text.line_start) + 1,
		.defined = !name,
	};

	add(p, &p->rules, &rule, sizeof(rule));
	if (p->text.err)
		free(name);
	return p->rules.n - 1;
}

static struct grammar_rule *rule_at(struct grammar_parser *p, uint32_t i)
{
	return (struct grammar_rule *)p->rules.items + i;
}

/* The rule of a name, which may not be defined yet. */
static uint32_t named_rule(struct grammar_parser *p, const char *name, size_t bytes)
{
	char *copy;

	for (uint32_t i = 0; i < p->rules.n; i++) {
		const char *other = rule_at(p, i)->name;

		if (other && strlen(other) == bytes && !memcmp(other, name, bytes))
			return i;
	}
	copy = strndup(name, bytes);
	if (copy)
		return add_rule(p, copy, name);
	p->text.err = llm_fail(-ENOMEM, "no memory for a grammar");
	return 0;
}

static void check_symbols(struct grammar_parser *p, uint32_t n)
{
	if (n > GRAMMAR_MAX_SYMBOLS)
		grammar_error(&p->text, p->text.at, "the grammar has more than %u symbols",
			      GRAMMAR_MAX_SYMBOLS);
}

/* Appends an alternative's symbols; @starts: where its rule's alternatives begin. */
static void add_alternative(struct grammar_parser *p, struct grammar_list *starts,
			    const struct grammar_symbol *symbols, uint32_t n)
{
	static const struct grammar_symbol end = { .kind = GRAMMAR_END };
	uint32_t start = p->symbols.n;

	for (uint32_t i = 0; i < n; i++)
		add_symbol(p, &p->symbols, &symbols[i]);
	add_symbol(p, &p->symbols, &end);
	add(p, starts, &start, sizeof(start));
	check_symbols(p, p->symbols.n);
}

/* Gives a rule its alternatives, and frees @starts. */
static void define_rule(struct grammar_parser *p, uint32_t rule, struct grammar_list *starts)
{
	uint32_t first = p->alternatives.n, *start = starts->items;

	for (uint32_t i = 0; i < starts->n; i++)
		add(p, &p->alternatives, &start[i], sizeof(*start));
	if (!p->text.err) {
		rule_at(p, rule)->first = first;
		rule_at(p, rule)->n = starts->n;
		rule_at(p, rule)->defined = true;
	}
	free(starts->items);
}

/* ---- repetitions ---- */

static struct grammar_symbol rule_symbol(uint32_t rule)
{
	return (struct grammar_symbol){ .kind = GRAMMAR_RULE, .rule = rule };
}

/* A rule: @element and then rule @rest, or the rule itself if that is UINT32_MAX, or nothing. */
static uint32_t optional(struct grammar_parser *p, const struct grammar_symbol *element,
			 uint32_t rest)
{
	uint32_t rule = add_rule(p, NULL, p->text.at);
	const struct grammar_symbol both[] = { *element,
					       rule_symbol(rest == UINT32_MAX ? rule : rest) };
	struct grammar_list starts = { 0 };

	add_alternative(p, &starts, both, 2);
	add_alternative(p, &starts, NULL, 0);
	define_rule(p, rule, &starts);
	return rule;
}

/* A rule with one alternative, or with none of its symbols. */
static uint32_t group(struct grammar_parser *p, const struct grammar_symbol *symbols, uint32_t n)
{
	uint32_t rule = add_rule(p, NULL, p->text.at);
	struct grammar_list starts = { 0 };

	add_alternative(p, &starts, symbols, n);
	define_rule(p, rule, &starts);
	return rule;
}

/* Replaces the last symbols of @sequence, from @from on, by their @least to @most repetitions;
 * @most UINT32_MAX: any number. */
static void repeat(struct grammar_parser *p, struct grammar_list *sequence, uint32_t from,
		   uint32_t least, uint32_t most)
{
	struct grammar_symbol *symbols = (struct grammar_symbol *)sequence->items + from, element;
	uint32_t n = sequence->n - from, rest;

	element = n == 1 ? *symbols : rule_symbol(group(p, symbols, n));
	sequence->n = from;
	check_symbols(p, from + least);
	for (uint32_t i = 0; i < least; i++)
		add_symbol(p, sequence, &element);
	if (most == least)
		return;
	if (most == UINT32_MAX)
		rest = optional(p, &element, UINT32_MAX);
	else
		rest = group(p, NULL, 0);
	for (uint32_t i = least; i < most && most != UINT32_MAX; i++)
		rest = optional(p, &element, rest);
	element = rule_symbol(rest);
	add_symbol(p, sequence, &element);
}

/* {m}, {m,}, {,n} or {m,n}, after the brace. */
static void parse_bounds(struct grammar_parser *p, uint32_t *least, uint32_t *most)
{
	struct grammar_text *t = &p->text;
	const char *begin = t->at - 1;

	grammar_skip(t, false);
	*least = grammar_is(t, ',') ? 0 : grammar_number(t);
	*most = *least;
	grammar_skip(t, false);
	if (grammar_is(t, ',')) {
		t->at++;
		grammar_skip(t, false);
		*most = grammar_is(t, '}') ? UINT32_MAX : grammar_number(t);
		grammar_skip(t, false);
	}
	if (!grammar_is(t, '}'))
		grammar_error(t, begin, "a repetition is {m}, {m,}, {,n} or {m,n}");
	t->at += grammar_is(t, '}');
	if (*most < *least)
		grammar_error(t, begin, "at most %u repetitions, but at least %u", *most, *least);
}

/* What may follow an element. */
static void parse_repeat(struct grammar_parser *p, struct grammar_list *sequence, uint32_t from)
{
	struct grammar_text *t = &p->text;
	char c = *t->at;
	uint32_t least = c == '+', most = c == '?' ? 1 : UINT32_MAX;

	if (t->err || !c || !strchr("*+?{", c))
		return;
	t->at++;
	if (c == '{')
		parse_bounds(p, &least, &most);
	if (!t->err)
		repeat(p, sequence, from, least, most);
}

/* ---- elements ---- */

static uint32_t parse_alternatives(struct grammar_parser *p, uint32_t rule, bool nested);

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_';
}

static void parse_literal(struct grammar_parser *p, struct grammar_list *sequence)
{
	struct grammar_text *t = &p->text;
	const char *begin = t->at++;
	struct grammar_symbol symbol;
	uint32_t code;

	while (!t->err && !grammar_is(t, '"')) {
		if (!*t->at || *t->at == '\n' || *t->at == '\r') {
			grammar_error(t, begin, "the literal has no second \"");
			return;
		}
		code = grammar_char(t);
		grammar_range(p, code, code, &symbol);
		add_symbol(p, sequence, &symbol);
	}
	t->at += grammar_is(t, '"');
}

static struct grammar_symbol parse_group(struct grammar_parser *p)
{
	struct grammar_text *t = &p->text;
	struct grammar_text begin = *t;
	uint32_t rule;

	t->at++;
	if (++p->depth > MAX_DEPTH)
		grammar_error(t, begin.at, "more than %d groups in one another", MAX_DEPTH);
	rule = parse_alternatives(p, UINT32_MAX, true);
	p->depth--;
	if (!t->err && !grammar_is(t, ')')) {
		grammar_error(&begin, begin.at, "the group has no )");
		t->err = begin.err;
	}
	t->at += grammar_is(t, ')');
	return rule_symbol(rule);
}

static struct grammar_symbol parse_name(struct grammar_parser *p)
{
	const char *begin = p->text.at;

	while (is_name(*p->text.at))
		p->text.at++;
	return rule_symbol(named_rule(p, begin, (size_t)(p->text.at - begin)));
}

/* True: there was one. */
static bool parse_element(struct grammar_parser *p, struct grammar_list *sequence)
{
	struct grammar_text *t = &p->text;
	uint32_t from = sequence->n;
	struct grammar_symbol symbol = { 0 };

	if (t->err)
		return false;
	if (grammar_is(t, '"')) {
		parse_literal(p, sequence);
		parse_repeat(p, sequence, from);
		return true;
	}
	if (grammar_is(t, '[')) {
		t->at++;
		grammar_class(p, &symbol);
	} else if (grammar_is(t, '.')) {
		t->at++;
		grammar_range(p, 0, UTF8_MAX, &symbol);
	} else if (grammar_is(t, '(')) {
		symbol = parse_group(p);
	} else if (is_name(*t->at)) {
		symbol = parse_name(p);
	} else {
		return false;
	}
	add_symbol(p, sequence, &symbol);
	parse_repeat(p, sequence, from);
	return true;
}

/* Spaces between elements; in a group, lines end anywhere. */
static bool parse_next(struct grammar_parser *p, struct grammar_list *sequence, bool nested)
{
	grammar_skip(&p->text, nested);
	return parse_element(p, sequence);
}

/* Whether a | follows, which may be on a later line. */
static bool next_alternative(struct grammar_text *t)
{
	const struct grammar_text here = *t;

	grammar_skip(t, true);
	if (grammar_is(t, '|')) {
		t->at++;
		return true;
	}
	*t = here;
	return false;
}

/* Parses the alternatives of @rule, or of a new one if that is UINT32_MAX. */
static uint32_t parse_alternatives(struct grammar_parser *p, uint32_t rule, bool nested)
{
	struct grammar_list starts = { 0 }, sequence = { 0 };
	struct grammar_text *t = &p->text;
	bool more = true;

	if (rule == UINT32_MAX)
		rule = add_rule(p, NULL, t->at);
	while (more && !t->err) {
		sequence.n = 0;
		grammar_skip(t, true);
		while (parse_next(p, &sequence, nested)) {
		}
		add_alternative(p, &starts, sequence.items, sequence.n);
		more = next_alternative(t);
	}
	free(sequence.items);
	define_rule(p, rule, &starts);
	return rule;
}

/* ---- the whole ---- */

static void parse_rule(struct grammar_parser *p)
{
	struct grammar_text *t = &p->text;
	const char *begin = t->at;
	uint32_t rule;

	if (!is_name(*begin)) {
		grammar_error(t, begin, "not a rule; one is NAME ::= ALTERNATIVES");
		return;
	}
	rule = parse_name(p).rule;
	grammar_skip(t, false);
	if (!t->err && rule_at(p, rule)->defined)
		grammar_error(t, begin, "rule %s is defined twice", rule_at(p, rule)->name);
	if (strncmp(t->at, "::=", 3))
		grammar_error(t, t->at, "::= is missing after the name of a rule");
	if (t->err)
		return;
	t->at += 3;
	parse_alternatives(p, rule, false);
	if (*t->at && *t->at != '\n' && *t->at != '\r')
		grammar_error(t, t->at, "neither an element of a rule nor the end of the line");
}

static int find_root(struct grammar *g)
{
	for (g->root = 0; g->root < g->n_rules; g->root++)
		if (g->rules[g->root].name && !strcmp(g->rules[g->root].name, "root"))
			return 0;
	return llm_fail(-EINVAL, "grammar: there is no rule root");
}

static int check_defined(const struct grammar *g)
{
	for (uint32_t i = 0; i < g->n_rules; i++)
		if (!g->rules[i].defined)
			return llm_fail(-EINVAL, "grammar, line %u, column %u: there is no rule %s",
					g->rules[i].line, g->rules[i].column, g->rules[i].name);
	return 0;
}

int grammar_parse(const char *text, struct grammar **grammar)
{
	struct grammar_parser p = { .text = { .at = text, .line_start = text, .line = 1 } };
	struct grammar *g = calloc(1, sizeof(*g));
	int err = g ? 0 : llm_fail(-ENOMEM, "no memory for a grammar");

	*grammar = NULL;
	if (err)
		return err;
	grammar_skip(&p.text, true);
	if (!*p.text.at)
		grammar_error(&p.text, p.text.at, "the grammar is empty");
	for (; *p.text.at && !p.text.err; grammar_skip(&p.text, true))
		parse_rule(&p);
	*g = (struct grammar){
		.symbols = p.symbols.items,
		.ranges = p.ranges.items,
		.alternatives = p.alternatives.items,
		.rules = p.rules.items,
		.n_symbols = p.symbols.n,
		.n_ranges = p.ranges.n,
		.n_alternatives = p.alternatives.n,
		.n_rules = p.rules.n,
	};
	err = p.text.err;
	err = err ? err : check_defined(g);
	err = err ? err : find_root(g);
	err = err ? err : grammar_analyse(g);
	if (err)
		grammar_free(g);
	else
		*grammar = g;
	return err;
}

void grammar_free(struct grammar *grammar)
{
	if (!grammar)
		return;
	for (uint32_t i = 0; i < grammar->n_rules; i++)
		free(grammar->rules[i].name);
	free(grammar->rules);
	free(grammar->alternatives);
	free(grammar->symbols);
	free(grammar->ranges);
	free(grammar);
}
