/* SPDX-License-Identifier: MIT */
/* Inside grammar_*.c. */
#ifndef GRAMMAR_PRIVATE_H
#define GRAMMAR_PRIVATE_H

#include "grammar.h"

/* A list of items of one size. */
struct grammar_list {
	void *items;
	uint32_t n, room;
};

/* The text that is parsed, and where. An error stays, and is that of grammar_parse(). */
struct grammar_text {
	const char *at;
	const char *line_start;
	uint32_t line;
	int err;
};

struct grammar_parser {
	struct grammar_text text;
	struct grammar_list symbols, ranges, alternatives, rules;
	unsigned int depth; /* of groups */
};

/* Appends an item. -ENOMEM. */
int grammar_list_add(struct grammar_list *l, const void *item, size_t size);

/* Sets an error at the place @at of the line, unless there is one. */
void grammar_error(struct grammar_text *t, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
bool grammar_is(const struct grammar_text *t, char c);
/* Passes over spaces and comments, and with @lines over the ends of lines. */
void grammar_skip(struct grammar_text *t, bool lines);
/* The next character of a literal or a class, which may be escaped. */
uint32_t grammar_char(struct grammar_text *t);
/* A number; UINT32_MAX after an error. */
uint32_t grammar_number(struct grammar_text *t);

/* Parses a class, after its bracket, and adds its ranges. */
void grammar_class(struct grammar_parser *p, struct grammar_symbol *symbol);
/* The set of one range. */
void grammar_range(struct grammar_parser *p, uint32_t first, uint32_t last,
		   struct grammar_symbol *symbol);

/* Finds what is empty, endless or left-recursive. 0, or -EINVAL or -ENOMEM with an error line. */
int grammar_analyse(struct grammar *g);

#endif /* GRAMMAR_PRIVATE_H */
