// SPDX-License-Identifier: MIT
/* Schemas to rules: references, alternatives, and which types a schema allows. */
#include "json_schema.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "json_private.h"
#include "llm_fail.h"

static const char common_rules[] =
	"ws ::= (\" \" | \"\\n\" [ \\t]{0,20})?\n"
	"value ::= object | array | string | number | boolean | null\n"
	"object ::= \"{\" ws (member (\",\" ws member)* ws)? \"}\"\n"
	"member ::= string \":\" ws value\n"
	"array ::= \"[\" ws (value (\",\" ws value)* ws)? \"]\"\n"
	"string ::= \"\\\"\" char* \"\\\"\"\n"
	"char ::= plain | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" code)\n"
	/* One code below or above the surrogates, or two of them as a pair */
	"code ::= [0-9a-cA-CefEF] hex{3} | [dD] ([0-7] hex{2} | [89abAB] hex{2} \"\\\\u\" [dD] "
	"[c-fC-F] hex{2})\n"
	/* No ends of lines */
	"dot ::= [^\"\\\\\\x00-\\x1F\\u2028\\u2029] | \"\\\\\" ([\"\\\\/bft] | \"u00\" (\"0\" "
	"[0-9bcefBCEF] | \"1\" hex))\n"
	"plain ::= [^\"\\\\\\x00-\\x1F]\n"
	"hex ::= [0-9a-fA-F]\n"
	"natural ::= \"0\" | [1-9] [0-9]{0,17}\n"
	"integer ::= \"-\"? natural\n"
	"number ::= \"-\"? magnitude\n"
	"magnitude ::= natural (\".\" [0-9]{1,18})? ([eE] [-+]? [0-9]{1,2})?\n"
	"boolean ::= \"true\" | \"false\"\n"
	"null ::= \"null\"\n"
	"date ::= [0-9]{4} \"-\" (\"0\" [1-9] | \"1\" [0-2]) \"-\" "
	"(\"0\" [1-9] | [12] [0-9] | \"3\" [01])\n"
	"clock ::= ([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9]\n"
	"time ::= clock \":\" [0-5] [0-9] (\".\" [0-9]{1,9})? (\"Z\" | [-+] clock)\n"
	"date-time ::= date \"T\" time\n"
	"uuid ::= hex{8} \"-\" hex{4} \"-\" hex{4} \"-\" hex{4} \"-\" hex{12}\n";

static const char annotations[] =
	" title description default example examples deprecated readOnly writeOnly $schema $id "
	"$comment $anchor $defs definitions ";
static const char type_keywords[] =
	" type properties required additionalProperties items prefixItems additionalItems minItems "
	"maxItems minLength maxLength pattern format minimum maximum exclusiveMinimum "
	"exclusiveMaximum ";

/* ---- errors ---- */

static void print_place(const struct schema_place *at, char *path, size_t room)
{
	size_t n;

	if (!at || !at->above)
		return;
	print_place(at->above, path, room);
	n = strlen(path);
	snprintf(path + n, room - n, "/%s", at->key);
}

void schema_error(struct schema *s, int err, const struct schema_place *at, const char *fmt, ...)
{
	char path[256] = "", what[256];
	va_list args;

	if (s->err)
		return;
	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	print_place(at, path, sizeof(path));
	s->err = llm_fail(err, "JSON schema%s%s: %s", *path ? ", at " : "", path, what);
}

static bool is_listed(const char *keyword, const char *list)
{
	size_t n = strlen(keyword);

	for (const char *at = strstr(list, keyword); n && at; at = strstr(at + 1, keyword))
		if (at[-1] == ' ' && at[n] == ' ')
			return true;
	return false;
}

bool schema_is_annotation(const char *keyword)
{
	return is_listed(keyword, annotations);
}

void schema_check(struct schema *s, struct json_object *schema, const struct schema_place *at,
		  const char *known)
{
	json_object_object_foreach(schema, keyword, value)
	{
		if (!value && strcmp(keyword, "const") && !is_listed(keyword, annotations))
			schema_error(s, -EINVAL, at, "%s is null", keyword);
		if (!is_listed(keyword, annotations) && !is_listed(keyword, known))
			schema_error(s, -ENOTSUP, at, "%s is not supported%s", keyword,
				     is_listed(keyword, type_keywords) ? " here" : "");
	}
}

/* ---- keywords ---- */

struct json_object *schema_get(struct json_object *schema, const char *keyword)
{
	struct json_object *value;

	return json_object_object_get_ex(schema, keyword, &value) ? value : NULL;
}

const char *schema_text(struct schema *s, struct json_object *value, const struct schema_place *at,
			const char *keyword)
{
	const char *text = "";

	if (json_object_is_type(value, json_type_string))
		text = json_object_get_string(value);
	else
		schema_error(s, -EINVAL, at, "%s is no text", keyword);
	if (*text && strlen(text) != (size_t)json_object_get_string_len(value))
		schema_error(s, -EINVAL, at, "%s has a NUL", keyword);
	return s->err ? "" : text;
}

uint64_t schema_count(struct schema *s, struct json_object *schema, const struct schema_place *at,
		      const char *keyword, uint64_t otherwise)
{
	struct json_object *value = schema_get(schema, keyword);
	int64_t n;

	if (!value)
		return otherwise;
	n = json_object_get_int64(value);
	if (!json_object_is_type(value, json_type_int) || n < 0 || n > 10000)
		schema_error(s, -EINVAL, at, "%s is not a whole number from 0 to 10000", keyword);
	return (uint64_t)n;
}

/* ---- alternatives ---- */

static void alternatives(struct schema *s, struct json_object *schema, const char *keyword,
			 const struct schema_place *at, FILE *out)
{
	struct json_object *list = schema_get(schema, keyword);
	const struct schema_place here = { at, keyword };
	unsigned int kinds = schema_kinds(s, schema, at), left = 0;
	char number[32];

	if (!json_object_is_type(list, json_type_array) || !json_object_array_length(list)) {
		schema_error(s, -EINVAL, at, "%s is no array of schemas", keyword);
		return;
	}
	for (size_t i = 0; i < json_object_array_length(list) && !s->err; i++) {
		struct json_object *alternative = json_object_array_get_idx(list, i);
		const struct schema_place one = { &here, number };

		snprintf(number, sizeof(number), "%zu", i);
		if (schema_narrow(s, &alternative, kinds, &one))
			fprintf(out, "%ss%u", left++ ? " | " : "",
				schema_rule(s, alternative, &one));
	}
	if (!left)
		schema_error(s, -EINVAL, at, "no alternative of %s is of the type", keyword);
}

static void enumeration(struct schema *s, struct json_object *schema, const struct schema_place *at,
			FILE *out)
{
	struct json_object *list = schema_get(schema, "enum");
	unsigned int kinds = schema_kinds(s, schema, at), left = 0;

	if (!json_object_is_type(list, json_type_array) || !json_object_array_length(list)) {
		schema_error(s, -EINVAL, at, "enum is no array of values");
		return;
	}
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *value = json_object_array_get_idx(list, i);

		if (!schema_fits(kinds, value))
			continue;
		fputs(left++ ? " | " : "", out);
		schema_value(s, value, at, out);
	}
	if (!left)
		schema_error(s, -EINVAL, at, "no value of enum is of the type");
}

static void constant(struct schema *s, struct json_object *schema, const struct schema_place *at,
		     FILE *out)
{
	struct json_object *value = schema_get(schema, "const"), *list;

	if (!schema_fits(schema_kinds(s, schema, at), value))
		schema_error(s, -EINVAL, at, "const is not of the type");
	if (json_object_object_get_ex(schema, "enum", &list) &&
	    !schema_has_value(s, list, value, at))
		schema_error(s, -EINVAL, at, "const is not in enum");
	schema_value(s, value, at, out);
}

/* ---- types ---- */

static void one_type(struct schema *s, struct json_object *schema, const char *type,
		     const struct schema_place *at, FILE *out)
{
	if (!strcmp(type, "object"))
		schema_object(s, schema, at, out);
	else if (!strcmp(type, "array"))
		schema_array(s, schema, at, out);
	else if (!strcmp(type, "string"))
		schema_string(s, schema, at, out);
	else if (!strcmp(type, "integer") || !strcmp(type, "number"))
		schema_number(s, schema, at, type[0] == 'i', out);
	else
		fputs(type, out);
}

static bool has_any(struct json_object *schema, const char *keywords)
{
	json_object_object_foreach(schema, keyword, value)
	{
		(void)value;
		if (is_listed(keyword, keywords))
			return true;
	}
	return false;
}

/* The type of a schema that does not say it; NULL: any. */
static const char *implied_type(struct json_object *schema)
{
	static const struct {
		const char *keywords, *type;
	} implied[] = {
		{ " properties required additionalProperties ", "object" },
		{ " items prefixItems additionalItems minItems maxItems ", "array" },
		{ " minLength maxLength pattern format ", "string" },
		{ " minimum maximum exclusiveMinimum exclusiveMaximum ", "number" },
	};

	for (size_t i = 0; i < sizeof(implied) / sizeof(implied[0]); i++)
		if (has_any(schema, implied[i].keywords))
			return implied[i].type;
	return NULL;
}

static void types(struct schema *s, struct json_object *schema, const struct schema_place *at,
		  FILE *out)
{
	struct json_object *type = schema_get(schema, "type");
	const char *implied = type ? NULL : implied_type(schema);

	schema_check(s, schema, at, type_keywords);
	schema_kinds(s, schema, at);
	if (s->err)
		return;
	if (!type) {
		if (implied)
			one_type(s, schema, implied, at, out);
		else
			fputs("value", out);
		return;
	}
	if (!json_object_is_type(type, json_type_array)) {
		one_type(s, schema, json_object_get_string(type), at, out);
		return;
	}
	for (size_t i = 0; i < json_object_array_length(type) && !s->err; i++) {
		fputs(i ? " | " : "", out);
		one_type(s, schema, json_object_get_string(json_object_array_get_idx(type, i)), at,
			 out);
	}
}

/* ---- rules ---- */

static void any_schema(struct schema *s, struct json_object *schema, const struct schema_place *at,
		       FILE *out)
{
	if (json_object_is_type(schema, json_type_boolean) && json_object_get_boolean(schema)) {
		fputs("value", out);
	} else if (json_object_is_type(schema, json_type_boolean)) {
		schema_error(s, -EINVAL, at, "false allows no value");
	} else if (!json_object_is_type(schema, json_type_object)) {
		schema_error(s, -EINVAL, at, "a schema is an object, true or false");
	} else if (schema_get(schema, "$ref")) {
		schema = schema_resolve(s, schema, at);
		fprintf(out, "s%u", s->err ? 0 : schema_rule(s, schema, at));
	} else if (schema_get(schema, "allOf")) {
		schema = schema_merge(s, schema, at);
		fprintf(out, "s%u", s->err ? 0 : schema_rule(s, schema, at));
	} else if (json_object_object_get_ex(schema, "const", NULL)) {
		schema_check(s, schema, at, " const enum type ");
		constant(s, schema, at, out);
	} else if (schema_get(schema, "enum")) {
		schema_check(s, schema, at, " enum type ");
		enumeration(s, schema, at, out);
	} else if (schema_get(schema, "anyOf")) {
		schema_check(s, schema, at, " anyOf type ");
		alternatives(s, schema, "anyOf", at, out);
	} else if (schema_get(schema, "oneOf")) {
		schema_check(s, schema, at, " oneOf type ");
		alternatives(s, schema, "oneOf", at, out);
	} else {
		types(s, schema, at, out);
	}
}

static unsigned int add_rule(struct schema *s, struct json_object *schema,
			     const struct schema_place *at)
{
	if (s->n_rules == s->rules_room) {
		unsigned int room = 2 * s->rules_room + 32;
		struct schema_rule *grown = realloc(s->rules, room * sizeof(*grown));

		if (!grown) {
			schema_error(s, -ENOMEM, at, "no memory");
			return 0;
		}
		s->rules = grown;
		s->rules_room = room;
	}
	s->rules[s->n_rules].schema = schema;
	return s->n_rules++;
}

unsigned int schema_rule(struct schema *s, struct json_object *schema,
			 const struct schema_place *at)
{
	struct schema_stream stream;
	unsigned int rule;
	char *text;

	for (rule = 0; rule < s->n_rules; rule++)
		if (schema && s->rules[rule].schema == schema)
			return rule;
	if (s->depth >= SCHEMA_MAX_DEPTH)
		schema_error(s, -EINVAL, at, "more than %d schemas in one another",
			     SCHEMA_MAX_DEPTH);
	rule = s->err ? 0 : add_rule(s, schema, at);
	if (s->err)
		return 0;
	schema_stream_open(&stream);
	s->depth++;
	if (stream.out)
		any_schema(s, schema, at, stream.out);
	s->depth--;
	text = schema_stream_close(&stream);
	if (!text)
		schema_error(s, -ENOMEM, at, "no memory");
	fprintf(s->out, "s%u ::= %s\n", rule, s->err ? "" : text);
	free(text);
	return rule;
}

int json_schema_to_grammar(const char *schema, char **grammar)
{
	struct schema s = { .err = 0 };
	const struct schema_place whole = { NULL, NULL };
	struct schema_stream stream;

	schema_stream_open(&stream);
	if (!stream.out)
		schema_error(&s, -ENOMEM, NULL, "no memory");
	s.root = schema_parse(&s, schema);
	s.out = stream.out;
	if (!s.err) {
		fprintf(s.out, "root ::= s0\n%s", common_rules);
		schema_rule(&s, s.root, &whole);
	}
	*grammar = schema_stream_close(&stream);
	if (!*grammar)
		schema_error(&s, -ENOMEM, NULL, "no memory");
	if (s.err) {
		free(*grammar);
		*grammar = NULL;
	}
	for (unsigned int i = 0; i < s.n_made; i++)
		json_object_put(s.made[i]);
	free(s.made);
	free(s.rules);
	json_object_put(s.root);
	return s.err;
}
