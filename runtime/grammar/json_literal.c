// SPDX-License-Identifier: MIT
/* Values, names and characters of JSON as literals of a grammar. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "json_private.h"
#include "utf8.h"

/* A byte of a JSON string's value, within a literal: as JSON escapes it, then as GBNF does. */
static void put_byte(char c, FILE *out)
{
	static const char escaped[] = "\b\f\n\r\t", letters[] = "bfnrt";
	const char *short_form = c ? strchr(escaped, c) : NULL;

	if (short_form)
		fprintf(out, "\\\\%c", letters[short_form - escaped]);
	else if (c == '"' || c == '\\')
		fprintf(out, "\\\\\\%c", c);
	else if ((unsigned char)c < 0x20)
		fprintf(out, "\\\\u%04x", (unsigned int)c);
	else
		fputc(c, out);
}

static void put_string(const char *text, size_t bytes, FILE *out)
{
	fputs("\\\"", out);
	for (size_t i = 0; i < bytes; i++)
		put_byte(text[i], out);
	fputs("\\\"", out);
}

/* json-c keeps the text of a number with a point or an exponent, and makes integers beyond int64_t
 * the nearest that there is. */
static void put_number(struct schema *s, struct json_object *value, const struct schema_place *at,
		       FILE *out)
{
	const char *text = json_object_get_userdata(value);

	if (json_object_is_type(value, json_type_double)) {
		if (!text)
			schema_error(s, -EINVAL, at, "a number that JSON does not have");
		fputs(text ? text : "", out);
		return;
	}
	if (json_object_get_uint64(value) > INT64_MAX || json_object_get_int64(value) == INT64_MIN)
		schema_error(s, -ENOTSUP, at, "integers are supported between -2^63 and 2^63");
	fprintf(out, "%" PRId64, json_object_get_int64(value));
}

static void put_value(struct schema *s, struct json_object *value, const struct schema_place *at,
		      FILE *out);

static void put_array(struct schema *s, struct json_object *value, const struct schema_place *at,
		      FILE *out)
{
	fputc('[', out);
	for (size_t i = 0; i < json_object_array_length(value); i++) {
		fputs(i ? "," : "", out);
		put_value(s, json_object_array_get_idx(value, i), at, out);
	}
	fputc(']', out);
}

static void put_object(struct schema *s, struct json_object *value, const struct schema_place *at,
		       FILE *out)
{
	const char *comma = "";

	fputc('{', out);
	json_object_object_foreach(value, key, inner)
	{
		fputs(comma, out);
		put_string(key, strlen(key), out);
		fputc(':', out);
		put_value(s, inner, at, out);
		comma = ",";
	}
	fputc('}', out);
}

static void put_value(struct schema *s, struct json_object *value, const struct schema_place *at,
		      FILE *out)
{
	switch (json_object_get_type(value)) {
	case json_type_null:
		fputs("null", out);
		break;
	case json_type_boolean:
		fputs(json_object_get_boolean(value) ? "true" : "false", out);
		break;
	case json_type_int:
	case json_type_double:
		put_number(s, value, at, out);
		break;
	case json_type_string:
		put_string(json_object_get_string(value), (size_t)json_object_get_string_len(value),
			   out);
		break;
	case json_type_array:
		put_array(s, value, at, out);
		break;
	case json_type_object:
		put_object(s, value, at, out);
		break;
	}
}

void schema_value(struct schema *s, struct json_object *value, const struct schema_place *at,
		  FILE *out)
{
	fputc('"', out);
	put_value(s, value, at, out);
	fputc('"', out);
}

void schema_key(const char *key, FILE *out)
{
	fputc('"', out);
	put_string(key, strlen(key), out);
	fputc('"', out);
}

void schema_char(uint32_t code, FILE *out)
{
	char bytes[4];
	size_t n = utf8_encode(code, bytes);

	fputc('"', out);
	for (size_t i = 0; i < n; i++)
		put_byte(bytes[i], out);
	fputc('"', out);
}
