// SPDX-License-Identifier: MIT
/* Texts that end a generation: see stop.h. */
#define _GNU_SOURCE /* memmem */
#include <stdlib.h>
#include <string.h>

#include "escapes.h"
#include "stop.h"
#include "tool.h"

int stop_add(struct stop *stop, const char *text)
{
	if (!*text)
		return tool_usage("-r: an empty text would end every other: leave it out");
	if (stop->n == STOP_MAX)
		return tool_usage("-r: at most %d texts", STOP_MAX);
	stop->given[stop->n++] = text;
	return 0;
}

static char *copy(const char *text, size_t *bytes)
{
	char *copied = strdup(text);

	*bytes = strlen(text);
	if (!copied)
		tool_fail("no memory for a text");
	return copied;
}

int stop_init(struct stop *stop, bool escapes)
{
	for (size_t i = 0; i < stop->n; i++) {
		stop->texts[i] = (escapes ? escapes_decode : copy)(stop->given[i], &stop->bytes[i]);
		if (!stop->texts[i])
			return 1;
		if (stop->bytes[i] > stop->longest)
			stop->longest = stop->bytes[i];
	}
	return 0;
}

void stop_begin(struct stop *stop)
{
	stop->n_end = 0;
}

bool stop_seen(struct stop *stop, const char *text, size_t bytes)
{
	char *end = stop->n ? realloc(stop->end, stop->n_end + bytes + 1) : NULL;
	size_t surplus;
	bool seen = false;

	if (!end)
		return false;
	memcpy(end + stop->n_end, text, bytes);
	stop->end = end;
	stop->n_end += bytes;
	for (size_t i = 0; i < stop->n; i++)
		seen |= memmem(end, stop->n_end, stop->texts[i], stop->bytes[i]) != NULL;
	surplus = stop->n_end >= stop->longest ? stop->n_end - stop->longest + 1 : 0;
	stop->n_end -= surplus;
	memmove(end, end + surplus, stop->n_end);
	return seen;
}

void stop_free(struct stop *stop)
{
	for (size_t i = 0; i < stop->n; i++)
		free(stop->texts[i]);
	free(stop->end);
}
