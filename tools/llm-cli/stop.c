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
	struct stop_text *texts;

	if (!*text)
		return tool_usage("-r: an empty text would end every other: leave it out");
	texts = realloc(stop->texts, (stop->n + 1) * sizeof(*texts));
	if (!texts)
		return tool_fail("no memory for a text");
	stop->texts = texts;
	texts[stop->n++] = (struct stop_text){ .given = text };
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
		struct stop_text *t = &stop->texts[i];

		t->text = (escapes ? escapes_decode : copy)(t->given, &t->bytes);
		if (!t->text)
			return 1;
		if (t->bytes > stop->longest)
			stop->longest = t->bytes;
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
		seen |= memmem(end, stop->n_end, stop->texts[i].text, stop->texts[i].bytes) != NULL;
	surplus = stop->n_end >= stop->longest ? stop->n_end - stop->longest + 1 : 0;
	stop->n_end -= surplus;
	memmove(end, end + surplus, stop->n_end);
	return seen;
}

void stop_free(struct stop *stop)
{
	for (size_t i = 0; i < stop->n; i++)
		free(stop->texts[i].text);
	free(stop->texts);
	free(stop->end);
}
