/* SPDX-License-Identifier: MIT */
/*
 * Grammars in GBNF, the notation of llama.cpp (docs/sampling.md describes it), as symbols.
 *
 * A rule has alternatives, each of them symbols up to an END: a set of characters, or a rule.
 * Groups and repetitions are rules without a name. All grammars have these properties, or are
 * errors: there is a rule root; every rule that is named exists, and can end; and no rule begins
 * with itself.
 */
#ifndef GRAMMAR_H
#define GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum grammar_kind {
	GRAMMAR_END,
	GRAMMAR_RULE,
	GRAMMAR_CHARS,
};

struct grammar_symbol {
	enum grammar_kind kind;
	uint32_t rule; /* RULE: its index */
	uint32_t first, n; /* CHARS: its ranges */
};

/* Code points, both included. Those of a set are ascending and do not touch. */
struct grammar_range {
	uint32_t first, last;
};

struct grammar_rule {
	char *name; /* of a rule without a name: NULL */
	uint32_t first, n; /* its alternatives */
	uint32_t line, column; /* where it was first named */
	bool defined;
	bool nullable; /* it has the empty text */
	bool ends; /* it has a text that is not infinite */
};

struct grammar {
	struct grammar_symbol *symbols;
	struct grammar_range *ranges;
	uint32_t *alternatives; /* where they begin in symbols */
	struct grammar_rule *rules;
	uint32_t n_symbols, n_ranges, n_alternatives, n_rules;
	uint32_t root;
};

/* Most symbols, and most repetitions of one element. */
#define GRAMMAR_MAX_SYMBOLS (1u << 20)
#define GRAMMAR_MAX_REPEATS 10000

/* 0, or -EINVAL or -ENOMEM with an error line, which names the line and column. */
int grammar_parse(const char *text, struct grammar **grammar);
void grammar_free(struct grammar *grammar); /* NULL: nothing */
bool grammar_contains(const struct grammar *g, const struct grammar_symbol *chars, uint32_t code);

#endif /* GRAMMAR_H */
