/* SPDX-License-Identifier: MIT */
/* Random grammars: as GBNF, and matched by trying everything. */
#ifndef GRAMMAR_RANDOM_H
#define GRAMMAR_RANDOM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MAX_NODES 400
#define NR_RULES 4
#define NR_LETTERS 6
/* Nodes that are tried for a text at most: some grammars need exponentially many. */
#define MAX_STEPS 1000000

/* What texts are made of: characters of 1 to 4 bytes. */
static const char *const letters[NR_LETTERS] = { "a", "b", "\"", "\u00e9", "\u20ac", "\U0001f600" };
static const char *const escaped[NR_LETTERS] = { "a",	   "\\x62",   "\\\"",
						 "\u00e9", "\\u20ac", "\\U0001F600" };

enum node_kind { NODE_LETTERS, NODE_SEQUENCE, NODE_CHOICE, NODE_REPEAT, NODE_RULE };

struct node {
	enum node_kind kind;
	unsigned int set; /* LETTERS: a bit each */
	bool negated; /* written as [^...] */
	int n, parts[3];
	unsigned int least, most; /* REPEAT; most 9: any number */
	int rule;
};

struct random_grammar {
	struct node nodes[MAX_NODES];
	int n_nodes, rules[NR_RULES];
	uint64_t state;
};

static unsigned int grammar_one_of(struct random_grammar *g, unsigned int n)
{
	uint64_t z = g->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (unsigned int)((z ^ z >> 31) % n);
}

static int make_node(struct random_grammar *g, int depth)
{
	int at = g->n_nodes++;
	struct node *node = &g->nodes[at];
	unsigned int kind = depth > 3 || g->n_nodes > MAX_NODES - 60 ? 0 : grammar_one_of(g, 8);

	memset(node, 0, sizeof(*node));
	if (kind < 3) {
		node->set = 1 + grammar_one_of(g, (1 << NR_LETTERS) - 2);
		node->negated = grammar_one_of(g, 4) == 0;
	} else if (kind == 7) {
		node->kind = NODE_RULE;
		node->rule = (int)grammar_one_of(g, NR_RULES);
	} else {
		node->kind = kind == 3 ? NODE_REPEAT : kind < 6 ? NODE_SEQUENCE : NODE_CHOICE;
		node->least = grammar_one_of(g, 3);
		node->most = grammar_one_of(g, 2) ? 9 : node->least + grammar_one_of(g, 3);
		node->n = node->kind == NODE_REPEAT ? 1 : (int)grammar_one_of(g, 3) + 1;
		for (int i = 0; i < node->n; i++)
			g->nodes[at].parts[i] = make_node(g, depth + 1);
	}
	return at;
}

static void make_grammar(struct random_grammar *g, uint64_t seed)
{
	*g = (struct random_grammar){ .state = seed };
	for (int i = 0; i < NR_RULES; i++)
		g->rules[i] = make_node(g, 0);
}

/* ---- as GBNF ---- */

static void print_letters(const struct node *node, FILE *out)
{
	fputs(node->negated ? "[^" : "[", out);
	for (int i = 0; i < NR_LETTERS; i++)
		if ((node->set >> i & 1) != node->negated)
			fputs(escaped[i], out);
	if (node->negated)
		fputs("c-z", out);
	fputs("]", out);
}

static void print_repeat(const struct node *node, FILE *out)
{
	if (node->most == 9 && node->least < 2)
		fputs(node->least ? "+" : "*", out);
	else if (node->most == 9)
		fprintf(out, "{%u,}", node->least);
	else if (node->most == node->least)
		fprintf(out, "{%u}", node->least);
	else if (node->most == 1)
		fputs("?", out);
	else
		fprintf(out, "{%u,%u}", node->least, node->most);
}

static void print_node(const struct random_grammar *g, int at, FILE *out)
{
	const struct node *node = &g->nodes[at];

	if (node->kind == NODE_LETTERS) {
		print_letters(node, out);
	} else if (node->kind == NODE_RULE) {
		fprintf(out, node->rule ? "r%d" : "root", node->rule);
	} else {
		fputs("(", out);
		for (int i = 0; i < node->n; i++) {
			fputs(!i ? "" : node->kind == NODE_CHOICE ? " | " : " ", out);
			print_node(g, node->parts[i], out);
		}
		fputs(")", out);
		if (node->kind == NODE_REPEAT)
			print_repeat(node, out);
	}
}

static void print_grammar(const struct random_grammar *g, char *text, size_t room)
{
	FILE *out = fmemopen(text, room, "w");

	for (int i = 0; i < NR_RULES; i++) {
		fprintf(out, i ? "r%d ::= " : "root ::= ", i);
		print_node(g, g->rules[i], out);
		fputs("\n", out);
	}
	fclose(out);
}

/* ---- matching ---- */

/* A text of letters, and places in it as bits. */
struct matching {
	const struct random_grammar *g;
	int text[64], n;
	bool goes_on; /* the text ended where a letter would have been taken */
	struct {
		int rule;
		uint64_t from;
	} calls[200]; /* under way */
	int depth, steps;
};

static uint64_t match(struct matching *m, int at, uint64_t from);

static uint64_t match_letters(struct matching *m, const struct node *node, uint64_t from)
{
	uint64_t to = 0;

	m->goes_on |= from >> m->n & 1;
	for (int i = 0; i < m->n; i++)
		if ((from >> i & 1) && (node->set >> m->text[i] & 1))
			to |= 2ull << i;
	return to;
}

static uint64_t match_repeat(struct matching *m, const struct node *node, uint64_t from)
{
	uint64_t to = node->least ? 0 : from, before = 0;

	for (unsigned int i = 1; from && (i <= node->most || node->most == 9); i++) {
		from = match(m, node->parts[0], from);
		before = to;
		if (i >= node->least)
			to |= from;
		if (i > node->least && to == before)
			break;
	}
	return to;
}

static uint64_t match_rule(struct matching *m, int rule, uint64_t from)
{
	uint64_t to;

	for (int i = 0; i < m->depth; i++)
		if (m->calls[i].rule == rule && m->calls[i].from == from)
			return 0;
	m->calls[m->depth].rule = rule;
	m->calls[m->depth++].from = from;
	to = match(m, m->g->rules[rule], from);
	m->depth--;
	return to;
}

/* Where @at can end that begins at @from. */
static uint64_t match(struct matching *m, int at, uint64_t from)
{
	const struct node *node = &m->g->nodes[at];
	uint64_t to = 0;

	if (!from || ++m->steps > MAX_STEPS)
		return 0;
	switch (node->kind) {
	case NODE_LETTERS:
		return match_letters(m, node, from);
	case NODE_SEQUENCE:
		for (int i = 0; i < node->n; i++)
			from = match(m, node->parts[i], from);
		return from;
	case NODE_CHOICE:
		for (int i = 0; i < node->n; i++)
			to |= match(m, node->parts[i], from);
		return to;
	case NODE_REPEAT:
		return match_repeat(m, node, from);
	default:
		return match_rule(m, node->rule, from);
	}
}

/* Whether the text is the beginning of one of the grammar; *@whole: it is one. Unknown if m->steps
 * exceeds MAX_STEPS then. */
static bool match_text(struct matching *m, bool *whole)
{
	m->goes_on = false;
	m->depth = 0;
	m->steps = 0;
	*whole = match_rule(m, 0, 1) >> m->n & 1;
	return *whole || m->goes_on;
}

#endif /* GRAMMAR_RANDOM_H */
