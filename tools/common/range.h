/* SPDX-License-Identifier: MIT */
/*
 * Lists of numbers for benchmarks: "64,256", "1-8", "1-8+2" (steps), "1-64*2" (factors), and any of
 * these separated by commas.
 */
#ifndef RANGE_H
#define RANGE_H

#include <stddef.h>

struct range {
	unsigned int *v;
	size_t n;
};

/* Append to @range. 0, or 2 after a message (1: no memory). */
int range_add(struct range *range, unsigned int value);
int range_parse(struct range *range, const char *what, const char *s, unsigned int min,
		unsigned int max);
/* Calls @parse with @ud for each word of the comma-separated @s and appends its *@value. */
int range_parse_words(struct range *range, const char *s,
		      int (*parse)(const void *ud, const char *word, unsigned int *value),
		      const void *ud);
void range_free(struct range *range);

#endif /* RANGE_H */
