// SPDX-License-Identifier: MIT
/*
 * Regular expressions of schemas as GBNF: from ^ to $, with characters, escapes, classes, groups,
 * alternatives within groups, and repetitions. Both notations are built alike, so a pattern is
 * translated from left to right. Characters are those of the string's value; those that JSON
 * escapes become their escapes.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "grammar.h"
#include "json_private.h"
#include "utf8.h"

#define MAX_RANGES 64

struct range {
	uint32_t first, last;
};

struct pattern {
	struct schema *s;
	const struct schema_place *place;
	const char *at;
	unsigned int depth; /* of groups */
	FILE *out;
};

struct class
{
	struct range ranges[MAX_RANGES];
	unsigned int n;
	bool negated;
};

static void refuse(struct pattern *p, const char *what)
{
	schema_error(p->s, -ENOTSUP, p->place, "pattern: %s, at \"%.20s\"", what, p->at);
}

static uint32_t next_code(struct pattern *p)
{
	uint32_t code = 0;
	size_t n = utf8_decode((const uint8_t *)p->at, strnlen(p->at, 4), &code);

	if (!n)
		refuse(p, "bytes that are not UTF-8");
	p->at += n;
	return code;
}

/* ---- classes ---- */

static void add_range(struct pattern *p, struct class *c, uint32_t first, uint32_t last)
{
	if (c->n == MAX_RANGES || last < first)
		refuse(p, "a class of too many ranges, or a range that ends before it begins");
	else
		c->ranges[c->n++] = (struct range){ first, last };
}

/* \d, \w and \s. False: it is none of them. */
static bool add_named(struct pattern *p, struct class *c, char name)
{
	if (name != 'd' && name != 'w' && name != 's')
		return false;
	if (name == 's') {
		add_range(p, c, ' ', ' ');
		add_range(p, c, '\t', '\n');
		add_range(p, c, '\r', '\r');
		return true;
	}
	add_range(p, c, '0', '9');
	if (name == 'w') {
		add_range(p, c, 'a', 'z');
		add_range(p, c, 'A', 'Z');
		add_range(p, c, '_', '_');
	}
	return true;
}

static uint32_t hex_code(struct pattern *p, int digits)
{
	char text[5] = { 0 };
	uint32_t code;
	int n = 0;

	for (; n < digits && isxdigit((unsigned char)p->at[n]); n++)
		text[n] = p->at[n];
	code = (uint32_t)strtoul(text, NULL, 16);
	if (n < digits || (code >= 0xd800 && code < 0xe000)) {
		refuse(p, "no hexadecimal number of a character");
		return 0;
	}
	p->at += digits;
	return code;
}

/* The character of an escape, behind its backslash. */
static uint32_t escape(struct pattern *p)
{
	static const char from[] = "ntrf", to[] = "\n\t\r\f";
	const char *found;
	char c = *p->at;

	found = c ? strchr(from, c) : NULL;
	if (found || c == 'x' || c == 'u') {
		p->at++;
		return found ? (uint32_t)to[found - from] : hex_code(p, c == 'x' ? 2 : 4);
	}
	if (!c || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'))
		refuse(p, "this escape is not supported");
	return next_code(p);
}

static uint32_t class_code(struct pattern *p)
{
	if (*p->at != '\\')
		return next_code(p);
	p->at++;
	return escape(p);
}

static void parse_class(struct pattern *p, struct class *c)
{
	uint32_t first, last;

	c->negated = *p->at == '^';
	p->at += c->negated;
	while (*p->at && *p->at != ']' && !p->s->err) {
		if (*p->at == '\\' && p->at[1] && add_named(p, c, p->at[1])) {
			p->at += 2;
			continue;
		}
		first = last = class_code(p);
		if (p->at[0] == '-' && p->at[1] && p->at[1] != ']') {
			p->at++;
			last = class_code(p);
		}
		add_range(p, c, first, last);
	}
	if (*p->at != ']' || !c->n)
		refuse(p, "a class without ] or without characters");
	p->at += *p->at == ']';
}

/* The part of a range from @first to @last, for a class. */
static void put_part(struct pattern *p, const struct range *r, uint32_t first, uint32_t last)
{
	first = r->first > first ? r->first : first;
	last = r->last < last ? r->last : last;
	if (first <= last)
		fprintf(p->out, "\\U%08X-\\U%08X", first, last);
}

static bool contains(const struct class *c, uint32_t code)
{
	for (unsigned int i = 0; i < c->n; i++)
		if (code >= c->ranges[i].first && code <= c->ranges[i].last)
			return true;
	return false;
}

/* Alternatives of the class: the characters that are in it and that JSON escapes, with @bar before
 * the first. */
static void put_escaped(const struct class *c, const char *bar, FILE *out)
{
	for (uint32_t code = 0; code <= '\\'; code++) {
		if ((code >= ' ' && code != '"' && code != '\\') || !contains(c, code))
			continue;
		fputs(bar, out);
		schema_char(code, out);
		bar = " | ";
	}
}

/* Ranges of the class, of characters that JSON does not escape. */
static void put_plain(struct pattern *p, const struct class *c)
{
	for (unsigned int i = 0; i < c->n; i++) {
		put_part(p, &c->ranges[i], ' ', '!');
		put_part(p, &c->ranges[i], '#', '[');
		put_part(p, &c->ranges[i], ']', UTF8_MAX);
	}
}

static bool has_plain(const struct class *c)
{
	for (unsigned int i = 0; i < c->n; i++) {
		const struct range *r = &c->ranges[i];
		bool all_escaped = r->first == r->last && (r->first == '"' || r->first == '\\');

		if (r->last >= ' ' && !all_escaped)
			return true;
	}
	return false;
}

/* The class as an element: characters as they are, or else escaped. */
static void put_class(struct pattern *p, const struct class *c)
{
	bool plain = has_plain(c);

	if (c->negated) {
		fputs("[^\\\"\\\\\\x00-\\x1F", p->out);
		put_plain(p, c);
		fputc(']', p->out);
		return;
	}
	fputs(plain ? "([" : "(", p->out);
	if (plain)
		put_plain(p, c);
	fputs(plain ? "]" : "", p->out);
	put_escaped(c, plain ? " | " : "", p->out);
	fputc(')', p->out);
}

/* ---- the pattern ---- */

static void atom(struct pattern *p)
{
	struct class c = { .n = 0 };

	if (*p->at == '.') {
		p->at++;
		fputs("dot", p->out);
	} else if (*p->at == '[') {
		p->at++;
		parse_class(p, &c);
		put_class(p, &c);
	} else if (*p->at == '\\' && p->at[1] && add_named(p, &c, p->at[1])) {
		p->at += 2;
		put_class(p, &c);
	} else if (*p->at == '\\') {
		p->at++;
		schema_char(escape(p), p->out);
	} else if (strchr("^$*+?{", *p->at)) {
		refuse(p, "not supported here");
	} else {
		schema_char(next_code(p), p->out);
	}
}

/* Reads digits; false: there are none. */
static bool count(const char **at, unsigned long *n)
{
	char *end;

	if (!strchr("0123456789", **at) || !**at)
		return false;
	*n = strtoul(*at, &end, 10);
	*at = end;
	return true;
}

/* The length of {m}, {m,} or {m,n}; 0: refused. */
static size_t counts(struct pattern *p)
{
	const char *end = p->at + 1;
	unsigned long least = 0, most = 0;

	if (!count(&end, &least))
		refuse(p, "a repetition is {m}, {m,} or {m,n}");
	most = least;
	if (*end == ',') {
		end++;
		count(&end, &most);
	}
	if (*end != '}')
		refuse(p, "a repetition is {m}, {m,} or {m,n}");
	else if (most < least)
		refuse(p, "a repetition whose n is less than its m");
	else if (most > GRAMMAR_MAX_REPEATS)
		refuse(p, "more repetitions than are supported");
	return p->s->err ? 0 : (size_t)(end + 1 - p->at);
}

static void repetition(struct pattern *p)
{
	size_t n = strchr("*+?", *p->at) != NULL;

	if (!*p->at)
		return;
	if (*p->at == '{')
		n = counts(p);
	fprintf(p->out, "%.*s", (int)n, p->at);
	p->at += n;
	/* Lazy ones match the same. */
	p->at += n && *p->at == '?';
}

static void begin_group(struct pattern *p)
{
	p->at++;
	if (p->at[0] == '?' && p->at[1] == ':')
		p->at += 2;
	else if (*p->at == '?')
		refuse(p, "this kind of group is not supported");
	p->depth++;
	fputs("(\"\" ", p->out);
}

static void end_group(struct pattern *p)
{
	if (!p->depth) {
		refuse(p, "a ) without its (");
		return;
	}
	p->at++;
	p->depth--;
	fputc(')', p->out);
	repetition(p);
}

static void alternative(struct pattern *p)
{
	if (!p->depth)
		refuse(p, "alternatives are supported in groups, as ^(a|b)$");
	p->at++;
	fputs("| \"\" ", p->out);
}

void schema_pattern(struct schema *s, const char *pattern, const struct schema_place *at, FILE *out)
{
	struct pattern p = { .s = s, .place = at, .at = pattern, .out = out };

	if (*p.at++ != '^') {
		p.at = pattern;
		refuse(&p, "it is supported from ^ to $ only");
	}
	fputs("\"\" ", out);
	while (!s->err && *p.at && strcmp(p.at, "$")) {
		if (*p.at == '(') {
			begin_group(&p);
		} else if (*p.at == ')') {
			end_group(&p);
		} else if (*p.at == '|') {
			alternative(&p);
		} else {
			atom(&p);
			repetition(&p);
		}
		fputc(' ', out);
	}
	if (*p.at != '$')
		refuse(&p, "it is supported from ^ to $ only");
	else if (p.depth)
		refuse(&p, "a ( without its )");
}
