// SPDX-License-Identifier: MIT
/* What a template tells without being run: see chat_format.h. */
#define _GNU_SOURCE /* memmem */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chat_format.h"

/* A copy with NUL behind it, in which the escape \n of string literals is a newline. */
static char *plain(const char *text, size_t bytes)
{
	char *copy = malloc(bytes + 1), *to = copy;

	for (size_t i = 0; copy && i < bytes; i++) {
		bool newline = text[i] == '\\' && i + 1 < bytes && text[i + 1] == 'n';

		/* A NUL would end the text that is searched. */
		*to++ = newline ? '\n' : text[i] ? text[i] : ' ';
		i += newline;
	}
	if (copy)
		*to = '\0';
	return copy;
}

static bool has_marks(const struct chat_format *f, const char *text)
{
	for (size_t i = 0; i < CHAT_MARKS && f->marks[i]; i++)
		if (!strstr(text, f->marks[i]))
			return false;
	return f->marks[0];
}

/* The rest of a literal that begins with @begin, up to the quote that began it and without the
 * newlines in front of that. */
static int find_literal(const char *begin, const char *text, char **system)
{
	const char *at = strstr(text, begin), *end;

	if (!at || at == text || (at[-1] != '\'' && at[-1] != '"'))
		return 0;
	end = strchr(at, at[-1]);
	if (!end)
		return 0;
	while (end[-1] == '\n')
		end--;
	*system = strndup(at, (size_t)(end - at));
	return *system ? 0 : -ENOMEM;
}

/* A system text that the template has as a constant: it stands between the two pieces, and no
 * literal ends before the second. */
static int find_system(const struct chat_format *f, const char *text, char **system)
{
	const char *before = f->system.before, *after = f->system.after, *end;
	size_t n_before, n_after;

	if (f->own_system)
		return find_literal(f->own_system, text, system);
	if (!before || !after)
		return 0;
	n_before = strlen(before);
	n_after = strlen(after);
	n_after -= after[n_after - 1] == '\n';
	for (; (text = strstr(text, before)); text++) {
		end = memmem(text, strlen(text), after, n_after);
		if (!end || end <= text + n_before)
			continue;
		if (strcspn(text + n_before, "'\"{") < (size_t)(end - text) - n_before)
			continue;
		*system = strndup(text + n_before, (size_t)(end - text) - n_before);
		return *system ? 0 : -ENOMEM;
	}
	return 0;
}

/* What follows what opens an answer in the same literal, to its end. Templates that open thoughts
 * only if they are asked to have a literal of its own for that. */
static const char *find_opening(const struct chat_format *f, const char *text)
{
	static const char *const openings[] = { "<think>\n", "<think>" };
	const char *before = f->answer.before;
	size_t n = before ? strlen(before) : 0;

	for (; n && (text = strstr(text, before)); text += n) {
		for (size_t i = 0; i < sizeof(openings) / sizeof(openings[0]); i++) {
			size_t bytes = strlen(openings[i]);

			if (!strncmp(text + n, openings[i], bytes) && text[n + bytes] &&
			    strchr("'\"", text[n + bytes]))
				return openings[i];
		}
	}
	return NULL;
}

int chat_format_recognise(const char *text, size_t bytes, struct chat_template *template)
{
	char *copy = plain(text, bytes);
	const struct chat_format *f;
	int err = 0;

	*template = (struct chat_template){ 0 };
	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; (f = chat_format_at(i)) && !has_marks(f, copy); i++)
		;
	template->format = f;
	if (f) {
		template->bos = f->bos || strstr(copy, "bos_token");
		template->opening = find_opening(f, copy);
		err = find_system(f, copy, &template->own_system);
	}
	free(copy);
	return f ? err : -ENOENT;
}
