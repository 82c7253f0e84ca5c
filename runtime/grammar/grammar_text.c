// SPDX-License-Identifier: MIT
/* The characters of a grammar's text, and where errors are. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar_private.h"
#include "llm_fail.h"
#include "utf8.h"

int grammar_list_add(struct grammar_list *l, const void *item, size_t size)
{
	if (l->n == l->room) {
		uint32_t room = l->room ? 2 * l->room : 32;
		void *grown = realloc(l->items, room * size);

		if (!grown)
			return llm_fail(-ENOMEM, "no memory for a grammar");
		l->items = grown;
		l->room = room;
	}
	memcpy((char *)l->items + l->n++ * size, item, size);
	return 0;
}

/* Characters of the line before @at. */
static unsigned int column(const struct grammar_text *t, const char *at)
{
	unsigned int n = 0;

	for (const char *c = t->line_start; c < at; c++)
		n += (*c & 0xc0) != 0x80;
	return n + 1;
}

void grammar_error(struct grammar_text *t, const char *at, const char *fmt, ...)
{
	char what[256];
	va_list args;

	if (t->err)
		return;
	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	t->err = llm_fail(-EINVAL, "grammar, line %u, column %u: %s", t->line, column(t, at), what);
}

bool grammar_is(const struct grammar_text *t, char c)
{
	return *t->at == c;
}

static void skip_line_end(struct grammar_text *t)
{
	t->at += *t->at == '\r' && t->at[1] == '\n';
	t->at++;
	t->line++;
	t->line_start = t->at;
}

void grammar_skip(struct grammar_text *t, bool lines)
{
	for (;;) {
		if (*t->at == ' ' || *t->at == '\t')
			t->at++;
		else if (*t->at == '#')
			t->at += strcspn(t->at, "\r\n");
		else if (lines && (*t->at == '\n' || *t->at == '\r'))
			skip_line_end(t);
		else
			return;
	}
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static uint32_t hex_escape(struct grammar_text *t, const char *begin, unsigned int digits)
{
	uint32_t code = 0;

	for (; digits; digits--, t->at++) {
		int digit = hex_digit(*t->at);

		if (digit < 0) {
			grammar_error(t, begin, "\\%c needs %u more hexadecimal digits", begin[1],
				      digits);
			return 0;
		}
		code = code << 4 | (uint32_t)digit;
	}
	if (code > UTF8_MAX || (code >= 0xd800 && code < 0xe000))
		grammar_error(t, begin, "U+%04X is no character", code);
	return code;
}

static uint32_t escape(struct grammar_text *t)
{
	const char *begin = t->at++;
	char c = *t->at;

	t->at += c != 0;
	switch (c) {
	case 'x':
		return hex_escape(t, begin, 2);
	case 'u':
		return hex_escape(t, begin, 4);
	case 'U':
		return hex_escape(t, begin, 8);
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 't':
		return '\t';
	}
	if (!c || !strchr("\\\"[]-^", c))
		grammar_error(t, begin,
			      "no such escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ "
			      "\\xXX \\uXXXX \\UXXXXXXXX");
	return (uint32_t)c;
}

uint32_t grammar_char(struct grammar_text *t)
{
	uint32_t code = 0;
	size_t n;

	if (*t->at == '\\')
		return escape(t);
	n = utf8_decode((const uint8_t *)t->at, strnlen(t->at, 4), &code);
	if (!n)
		grammar_error(t, t->at, "bytes that are not UTF-8");
	t->at += n;
	return code;
}

uint32_t grammar_number(struct grammar_text *t)
{
	const char *begin = t->at;
	uint32_t n = 0;

	for (; *t->at >= '0' && *t->at <= '9'; t->at++)
		if (n <= GRAMMAR_MAX_REPEATS)
			n = n * 10 + (uint32_t)(*t->at - '0');
	if (t->at == begin)
		grammar_error(t, begin, "a number is missing");
	else if (n > GRAMMAR_MAX_REPEATS)
		grammar_error(t, begin, "at most %d repetitions are supported",
			      GRAMMAR_MAX_REPEATS);
	return t->err ? UINT32_MAX : n;
}
