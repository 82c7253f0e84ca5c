// SPDX-License-Identifier: MIT
/* Lists of numbers: see range.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "range.h"
#include "tool.h"

/* A longer list must be a mistake. */
#define RANGE_MAX 4096

int range_add(struct range *range, unsigned int value)
{
	unsigned int *v;

	if (range->n == RANGE_MAX)
		return tool_usage("more than %d values of one option", RANGE_MAX);
	v = realloc(range->v, (range->n + 1) * sizeof(*v));
	if (!v)
		return tool_fail("no memory for %zu values", range->n + 1);
	range->v = v;
	range->v[range->n++] = value;
	return 0;
}

static int number(const char **s, unsigned int *value)
{
	unsigned long v;
	char *end;

	if (**s < '0' || **s > '9')
		return -EINVAL;
	errno = 0;
	v = strtoul(*s, &end, 10);
	if (errno || v > UINT32_MAX)
		return -ERANGE;
	*s = end;
	*value = (unsigned int)v;
	return 0;
}

/* Parses FIRST, FIRST-LAST, FIRST-LAST+STEP or FIRST-LAST*FACTOR. */
static int range_parse_item(const char **s, uint64_t *first, uint64_t *last, uint64_t *step,
			    uint64_t *factor)
{
	unsigned int a, b, by = 1;
	char kind = '+';

	if (number(s, &a))
		return -EINVAL;
	b = a;
	if (**s == '-') {
		(*s)++;
		if (number(s, &b) || b < a)
			return -EINVAL;
		if (**s == '+' || **s == '*') {
			kind = *(*s)++;
			/* A factor of 1, or a first number of 0, would never end. */
			if (number(s, &by) || !by || (kind == '*' && (by < 2 || !a)))
				return -EINVAL;
		}
	}
	*first = a;
	*last = b;
	*step = kind == '+' ? by : 0;
	*factor = kind == '*' ? by : 1;
	return 0;
}

int range_parse(struct range *range, const char *what, const char *s, unsigned int min,
		unsigned int max)
{
	const char *p = s;

	for (;;) {
		uint64_t first, last, step, factor;

		if (range_parse_item(&p, &first, &last, &step, &factor) || (*p && *p != ','))
			return tool_usage(
				"%s: '%s' is not a list of numbers such as 64,256 or 1-8, 1-8+2, "
				"1-64*2",
				what, s);
		for (uint64_t v = first; v <= last; v = v * factor + step) {
			int err;

			if (v < min || v > max)
				return tool_usage("%s: %llu is not from %u to %u", what,
						  (unsigned long long)v, min, max);
			err = range_add(range, (unsigned int)v);
			if (err)
				return err;
		}
		if (!*p++)
			return 0;
	}
}

int range_parse_words(struct range *range, const char *s,
		      int (*parse)(const void *ud, const char *word, unsigned int *value),
		      const void *ud)
{
	char *copy = strdup(s), *next = copy, *word;
	int err = copy ? 0 : tool_fail("no memory for an option's value");

	while (!err && (word = strsep(&next, ","))) {
		unsigned int value = 0;

		err = parse(ud, word, &value);
		if (!err)
			err = range_add(range, value);
	}
	free(copy);
	return err;
}

void range_free(struct range *range)
{
	free(range->v);
	*range = (struct range){ 0 };
}
