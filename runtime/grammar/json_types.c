// SPDX-License-Identifier: MIT
/* JSON's arrays, strings and numbers with a schema's limits. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "json_private.h"

/* ---- arrays ---- */

/* Elements behind those of prefixItems: none if *@rule is false. */
static const char *rest_items(struct schema *s, struct json_object *schema,
			      const struct schema_place *at, char rule[16])
{
	struct json_object *items = schema_get(schema, "items");
	const struct schema_place here = { at, "items" };

	if (!items)
		return "value";
	if (json_object_is_type(items, json_type_boolean) && !json_object_get_boolean(items))
		return NULL;
	if (json_object_is_type(items, json_type_array)) {
		schema_error(s, -ENOTSUP, at,
			     "items as an array is not supported; see prefixItems");
		return NULL;
	}
	snprintf(rule, 16, "s%u", schema_rule(s, items, &here));
	return rule;
}

static void prefix_items(struct schema *s, struct json_object *prefix, size_t n,
			 const struct schema_place *at, FILE *out)
{
	const struct schema_place here = { at, "prefixItems" };
	char number[32];

	for (size_t i = 0; i < n && !s->err; i++) {
		const struct schema_place one = { &here, number };

		snprintf(number, sizeof(number), "%zu", i);
		fprintf(out, "%ss%u ", i ? "\",\" ws " : "",
			schema_rule(s, json_object_array_get_idx(prefix, i), &one));
	}
}

/* Between @least and @most elements of rule @items, the first one behind a comma. */
static void more_items(const char *items, uint64_t least, uint64_t most, FILE *out)
{
	fprintf(out, "(\",\" ws %s)", items);
	if (most == UINT64_MAX)
		fprintf(out, "{%" PRIu64 ",}", least);
	else
		fprintf(out, "{%" PRIu64 ",%" PRIu64 "}", least, most);
}

static uint64_t less(uint64_t n, uint64_t by)
{
	return n == UINT64_MAX ? n : n > by ? n - by : 0;
}

/* An array that has @n elements of prefixItems at least. */
static void array_behind(const char *items, uint64_t n, uint64_t least, uint64_t most, FILE *out)
{
	if (n) {
		more_items(items, less(least, n), less(most, n), out);
		return;
	}
	if (!most)
		return;
	fprintf(out, "(%s ", items);
	more_items(items, less(least, 1), less(most, 1), out);
	fputs(least ? ") " : ")? ", out);
}

void schema_array(struct schema *s, struct json_object *schema, const struct schema_place *at,
		  FILE *out)
{
	struct json_object *prefix = schema_get(schema, "prefixItems");
	uint64_t least = schema_count(s, schema, at, "minItems", 0),
		 most = schema_count(s, schema, at, "maxItems", UINT64_MAX);
	size_t n =
		json_object_is_type(prefix, json_type_array) ? json_object_array_length(prefix) : 0;
	char rule[16];
	const char *items = rest_items(s, schema, at, rule);

	if (prefix && !n)
		schema_error(s, -EINVAL, at, "prefixItems is no array of schemas");
	if (schema_get(schema, "additionalItems"))
		schema_error(s, -ENOTSUP, at, "additionalItems is not supported; see items");
	if (!items)
		most = n < most ? n : most;
	if (most < least || (n && most < n))
		schema_error(s, -EINVAL, at,
			     "no array has so many elements: there are more in minItems or "
			     "prefixItems than in maxItems or items");
	fputs("\"[\" ws ", out);
	prefix_items(s, prefix, n, at, out);
	if (items)
		array_behind(items, n, least, most, out);
	fputs(" ws \"]\"", out);
}

/* ---- strings ---- */

static void string_format(struct schema *s, const char *format, const struct schema_place *at,
			  FILE *out)
{
	static const char *const known[] = { "date", "time", "date-time", "uuid" };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(format, known[i])) {
			fprintf(out, "\"\\\"\" %s \"\\\"\"", format);
			return;
		}
	schema_error(s, -ENOTSUP, at,
		     "format %s is not supported; date, time, date-time and uuid are", format);
}

void schema_string(struct schema *s, struct json_object *schema, const struct schema_place *at,
		   FILE *out)
{
	struct json_object *pattern = schema_get(schema, "pattern"),
			   *format = schema_get(schema, "format");
	uint64_t least = schema_count(s, schema, at, "minLength", 0),
		 most = schema_count(s, schema, at, "maxLength", UINT64_MAX);
	bool length = least || most != UINT64_MAX;

	if (!!pattern + !!format + length > 1)
		schema_error(s, -ENOTSUP, at,
			     "only one of pattern, format, and minLength and maxLength is "
			     "supported");
	if (least > most)
		schema_error(s, -EINVAL, at, "minLength is more than maxLength");
	if (pattern) {
		fputs("\"\\\"\" ", out);
		schema_pattern(s, schema_text(s, pattern, at, "pattern"), at, out);
		fputs(" \"\\\"\"", out);
	} else if (format) {
		string_format(s, schema_text(s, format, at, "format"), at, out);
	} else if (most != UINT64_MAX) {
		fprintf(out, "\"\\\"\" char{%" PRIu64 ",%" PRIu64 "} \"\\\"\"", least, most);
	} else if (length) {
		fprintf(out, "\"\\\"\" char{%" PRIu64 ",} \"\\\"\"", least);
	} else {
		fputs("string", out);
	}
}

/* ---- numbers ---- */

#define MOST_NUMBER 999999999999999999 /* of 18 digits */

static void digits(char first, char last, size_t n, FILE *out)
{
	if (first == last)
		fprintf(out, "\"%c\"", first);
	else
		fprintf(out, "[%c-%c]", first, last);
	if (n)
		fprintf(out, " [0-9]{%zu}", n);
}

static bool all_are(const char *text, char c)
{
	return strspn(text, (char[]){ c, 0 }) == strlen(text);
}

/* Numbers from @from to @to, of equally many digits. */
static void same_length(const char *from, const char *to, FILE *out)
{
	size_t rest = strlen(from) - 1;
	bool from_all = all_are(from + 1, '0'), to_all = all_are(to + 1, '9');
	char first = (char)(from[0] + !from_all), last = (char)(to[0] - !to_all);
	const char *bar = "";

	if (from[0] == to[0] && rest && !(from_all && to_all)) {
		fprintf(out, "\"%c\" ", from[0]);
		same_length(from + 1, to + 1, out);
		return;
	}
	fputc('(', out);
	if (!from_all) {
		char nines[20] = { 0 };

		memset(nines, '9', rest);
		fprintf(out, "\"%c\" ", from[0]);
		same_length(from + 1, nines, out);
		bar = " | ";
	}
	if (first <= last) {
		fputs(bar, out);
		digits(first, last, rest, out);
		bar = " | ";
	}
	if (!to_all) {
		char zeros[20] = { 0 };

		memset(zeros, '0', rest);
		fprintf(out, "%s\"%c\" ", bar, to[0]);
		same_length(zeros, to + 1, out);
	}
	fputc(')', out);
}

/* Numbers from @from to @to, both at least 0. */
static void natural_range(uint64_t from, uint64_t to, FILE *out)
{
	char a[24], b[24];
	uint64_t ten = 10;

	/* Those with the digits of @from first. */
	for (; from / ten; ten *= 10) {
	}
	for (; from <= to; from = ten, ten *= 10) {
		uint64_t last = to < ten - 1 ? to : ten - 1;

		snprintf(a, sizeof(a), "%" PRIu64, from);
		snprintf(b, sizeof(b), "%" PRIu64, last);
		same_length(a, b, out);
		if (last < to)
			fputs(" | ", out);
	}
}

static void integer_range(int64_t from, int64_t to, FILE *out)
{
	if (from < 0) {
		fputs("\"-\" (", out);
		natural_range((uint64_t)(to < 0 ? -to : 1), (uint64_t)-from, out);
		fputs(to >= 0 ? ") | " : ")", out);
	}
	if (to >= 0)
		natural_range(from > 0 ? (uint64_t)from : 0, (uint64_t)to, out);
}

/* A limit of integers; @step: what is added to an exclusive one. */
static int64_t limit(struct schema *s, struct json_object *schema, const struct schema_place *at,
		     const char *keyword, const char *exclusive, int64_t step, int64_t otherwise)
{
	struct json_object *value = schema_get(schema, keyword),
			   *other = schema_get(schema, exclusive);
	int64_t n;

	if (value && other)
		schema_error(s, -ENOTSUP, at, "both %s and %s are not supported", keyword,
			     exclusive);
	if (!value && !other)
		return otherwise;
	n = json_object_get_int64(value ? value : other);
	if (json_object_is_type(value ? value : other, json_type_int) && n <= MOST_NUMBER &&
	    n >= -MOST_NUMBER)
		return value ? n : n + step;
	schema_error(s, -ENOTSUP, at, "%s is not a whole number of at most 18 digits",
		     value ? keyword : exclusive);
	return otherwise;
}

/* Of numbers that are no integers, only a sign is a limit that characters show. */
static void fraction(struct schema *s, struct json_object *schema, const struct schema_place *at,
		     FILE *out)
{
	static const char *const others[] = { "maximum", "exclusiveMinimum", "exclusiveMaximum" };
	struct json_object *least = schema_get(schema, "minimum");

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (schema_get(schema, others[i]))
			schema_error(s, -ENOTSUP, at, "%s is only supported of type integer",
				     others[i]);
	if (least && !json_object_is_type(least, json_type_int) &&
	    !json_object_is_type(least, json_type_double))
		schema_error(s, -EINVAL, at, "minimum is no number");
	if (least && json_object_get_double(least) != 0)
		schema_error(s, -ENOTSUP, at,
			     "a minimum other than 0 is only supported of type "
			     "integer");
	fputs(least ? "magnitude" : "number", out);
}

void schema_number(struct schema *s, struct json_object *schema, const struct schema_place *at,
		   bool integer, FILE *out)
{
	int64_t from, to;

	if (!integer) {
		fraction(s, schema, at, out);
		return;
	}
	from = limit(s, schema, at, "minimum", "exclusiveMinimum", 1, -MOST_NUMBER);
	to = limit(s, schema, at, "maximum", "exclusiveMaximum", -1, MOST_NUMBER);
	if (from > to)
		schema_error(s, -EINVAL, at, "no integer is from %" PRId64 " to %" PRId64, from,
			     to);
	if (s->err)
		return;
	if (from == -MOST_NUMBER && to == MOST_NUMBER)
		fputs("integer", out);
	else
		integer_range(from, to, out);
}
