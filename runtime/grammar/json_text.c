// SPDX-License-Identifier: MIT
/* The text of a schema as JSON. */
#include <errno.h>
#include <string.h>

#include "json_private.h"

#define WHITE_SPACE " \t\n\v\f\r"

/* Whether a name of @json has a NUL, where json-c would end it. */
static bool has_nul_in_name(const char *json)
{
	for (const char *at = json; *at; at++) {
		bool nul = false;
		char quote = *at;

		if (quote != '"' && quote != '\'')
			continue;
		for (at++; *at != quote; at++) {
			if (*at != '\\')
				continue;
			nul |= !strncmp(at, "\\u0000", 6);
			at++;
		}
		if (nul && at[1 + strspn(at + 1, WHITE_SPACE)] == ':')
			return true;
	}
	return false;
}

/* json-c leaves out what it finds no memory for. Only errno tells, up to the next number, so it
 * gets the text token by token. Sets *@end to the bytes that are read. */
static struct json_object *parse(struct json_tokener *tokener, const char *text, size_t *end)
{
	size_t bytes = strlen(text), begin = 0, n;
	struct json_object *parsed;

	do {
		/* With the NUL, so that a number at the end is one. */
		n = strcspn(text + begin, ",:]}") + 1;
		errno = 0;
		parsed = json_tokener_parse_ex(tokener, text + begin, (int)n);
		*end = begin + json_tokener_get_parse_end(tokener);
		begin += n;
	} while (json_tokener_get_error(tokener) == json_tokener_continue && errno != ENOMEM &&
		 begin <= bytes);
	if (*end < bytes)
		*end += strspn(text + *end, WHITE_SPACE);
	return parsed;
}

struct json_object *schema_parse(struct schema *s, const char *text)
{
	struct json_tokener *tokener = json_tokener_new_ex(SCHEMA_MAX_DEPTH);
	struct json_object *parsed;
	enum json_tokener_error error;
	size_t end;

	if (!tokener || strlen(text) >= INT32_MAX) {
		schema_error(s, -ENOMEM, NULL, "no memory");
		if (tokener)
			json_tokener_free(tokener);
		return NULL;
	}
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	parsed = parse(tokener, text, &end);
	error = json_tokener_get_error(tokener);
	if (errno == ENOMEM)
		schema_error(s, -ENOMEM, NULL, "no memory");
	else if (error != json_tokener_success || end < strlen(text) || !parsed)
		schema_error(s, -EINVAL, NULL, "not JSON, at byte %zu: %s", end,
			     error != json_tokener_success ? json_tokener_error_desc(error)
							   : "no value, or more than one");
	else if (has_nul_in_name(text))
		schema_error(s, -EINVAL, NULL, "a name has a NUL");
	json_tokener_free(tokener);
	return parsed;
}
