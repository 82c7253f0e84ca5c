// SPDX-License-Identifier: MIT
/* Schemas to rules: references, alternatives, and which types a schema allows. */
#include "json_schema.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "json_private.h"
#include "llm_fail.h"

#define MAX_DEPTH 200
/* Schemas of allOf that are merged, each as often as it is referred to */
#define MAX_MERGED 10000

static const char common_rules[] =
	"ws ::= (\" \" | \"\\n\" [ \\t]{0,20})?\n"
	"value ::= object | array | string | number | boolean | null\n"
	"object ::= \"{\" ws (member (\",\" ws member)* ws)? \"}\"\n"
	"member ::= string \":\" ws value\n"
	"array ::= \"[\" ws (value (\",\" ws value)* ws)? \"]\"\n"
	"string ::= \"\\\"\" char* \"\\\"\"\n"
	"char ::= [^\"\\\\\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" hex{4})\n"
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

void schema_check(struct schema *s, struct json_object *schema, const struct schema_place *at,
		  const char *known)
{
	json_object_object_foreach(schema, keyword, value)
	{
		(void)value;
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

/* ---- references and allOf ---- */

/* The schema that the $ref of @schema names. */
static struct json_object *follow(struct schema *s, struct json_object *schema,
				  const struct schema_place *at)
{
	struct json_object *ref = schema_get(schema, "$ref"), *found = NULL;
	const char *path = json_object_get_string(ref);

	schema_check(s, schema, at, " $ref ");
	if (!path || path[0] != '#') {
		schema_error(s, -ENOTSUP, at,
			     "$ref is supported to places in the schema, as #/...");
		return NULL;
	}
	if (!path[1])
		return s->root;
	if (json_pointer_get(s->root, path + 1, &found))
		schema_error(s, -EINVAL, at, "$ref to %s, which is not there", path);
	return found;
}

struct json_object *schema_resolve(struct schema *s, struct json_object *schema,
				   const struct schema_place *at)
{
	unsigned int steps = 0;

	while (!s->err && json_object_is_type(schema, json_type_object) &&
	       schema_get(schema, "$ref")) {
		if (++steps > MAX_DEPTH)
			schema_error(s, -EINVAL, at, "a $ref that leads to itself");
		else
			schema = follow(s, schema, at);
	}
	return s->err ? NULL : schema;
}

/* A property may have the name of a keyword. */
static void merge_property(struct schema *s, struct json_object *into, const char *name,
			   struct json_object *value, const struct schema_place *at)
{
	struct json_object *old = schema_get(into, name);

	if (!old)
		json_object_object_add(into, name, json_object_get(value));
	else if (!json_object_equal(old, value))
		schema_error(s, -ENOTSUP, at, "allOf with two different schemas of property %s",
			     name);
}

static void merge_keyword(struct schema *s, struct json_object *into, const char *keyword,
			  struct json_object *value, const struct schema_place *at)
{
	struct json_object *old = schema_get(into, keyword);

	if (!old) {
		json_object_object_add(into, keyword, json_object_get(value));
	} else if (!strcmp(keyword, "required") && json_object_is_type(value, json_type_array) &&
		   json_object_is_type(old, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(value); i++)
			json_object_array_add(old,
					      json_object_get(json_object_array_get_idx(value, i)));
	} else if (!strcmp(keyword, "properties") && json_object_is_type(value, json_type_object) &&
		   json_object_is_type(old, json_type_object)) {
		json_object_object_foreach(value, name, property)
			merge_property(s, old, name, property, at);
	} else if (!json_object_equal(old, value) && !is_listed(keyword, annotations)) {
		schema_error(s, -ENOTSUP, at, "allOf with two different values of %s", keyword);
	}
}

/* @from's keywords without allOf, and those of its allOf, into @into. */
static void merge(struct schema *s, struct json_object *into, struct json_object *from,
		  const struct schema_place *at)
{
	struct json_object *all, *copy = NULL;

	if (from && schema_get(from, "$ref"))
		from = schema_resolve(s, from, at);
	if (s->err || !from || !json_object_is_type(from, json_type_object) ||
	    ++s->depth > MAX_DEPTH) {
		schema_error(s, -EINVAL, at, "allOf of what is no object, or refers to itself");
		return;
	}
	if (++s->n_merged > MAX_MERGED) {
		schema_error(s, -EINVAL, at, "more than %d schemas in allOf", MAX_MERGED);
		return;
	}
	/* What is merged changes, so it is a copy. */
	json_object_deep_copy(from, &copy, NULL);
	json_object_object_foreach(copy, keyword, value) if (strcmp(keyword, "allOf"))
		merge_keyword(s, into, keyword, value, at);
	all = schema_get(copy, "allOf");
	if (all && !json_object_is_type(all, json_type_array))
		schema_error(s, -EINVAL, at, "allOf is no array");
	for (size_t i = 0; all && !s->err && i < json_object_array_length(all); i++)
		merge(s, into, json_object_array_get_idx(all, i), at);
	json_object_put(copy);
	s->depth--;
}

struct json_object *schema_merge(struct schema *s, struct json_object *schema,
				 const struct schema_place *at)
{
	struct json_object *merged = json_object_new_object(),
			   **grown = realloc(s->made, (s->n_made + 1) * sizeof(*grown));

	if (!merged || !grown) {
		json_object_put(merged);
		schema_error(s, -ENOMEM, at, "no memory");
		return NULL;
	}
	s->made = grown;
	s->made[s->n_made++] = merged;
	merge(s, merged, schema, at);
	return s->err ? NULL : merged;
}

/* ---- alternatives ---- */

static void alternatives(struct schema *s, struct json_object *schema, const char *keyword,
			 const struct schema_place *at, FILE *out)
{
	struct json_object *list = schema_get(schema, keyword);
	const struct schema_place here = { at, keyword };
	char number[32];

	if (!json_object_is_type(list, json_type_array) || !json_object_array_length(list)) {
		schema_error(s, -EINVAL, at, "%s is no array of schemas", keyword);
		return;
	}
	for (size_t i = 0; i < json_object_array_length(list) && !s->err; i++) {
		const struct schema_place one = { &here, number };

		snprintf(number, sizeof(number), "%zu", i);
		fprintf(out, "%ss%u", i ? " | " : "",
			schema_rule(s, json_object_array_get_idx(list, i), &one));
	}
}

static void enumeration(struct schema *s, struct json_object *list, const struct schema_place *at,
			FILE *out)
{
	if (!json_object_is_type(list, json_type_array) || !json_object_array_length(list)) {
		schema_error(s, -EINVAL, at, "enum is no array of values");
		return;
	}
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		fputs(i ? " | " : "", out);
		schema_value(json_object_array_get_idx(list, i), out);
	}
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
	else if (!strcmp(type, "boolean") || !strcmp(type, "null"))
		fputs(type, out);
	else
		schema_error(s, -EINVAL, at,
			     "no type %s; there are object, array, string, number, "
			     "integer, boolean and null",
			     type);
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
	struct json_object *type = schema_get(schema, "type"), *one;
	const char *implied = type ? NULL : implied_type(schema);

	schema_check(s, schema, at, type_keywords);
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
	if (!json_object_array_length(type))
		schema_error(s, -EINVAL, at, "type is an empty array");
	for (size_t i = 0; i < json_object_array_length(type) && !s->err; i++) {
		one = json_object_array_get_idx(type, i);
		fputs(i ? " | " : "", out);
		one_type(s, schema, one ? json_object_get_string(one) : "null", at, out);
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
		schema_check(s, schema, at, " const type ");
		schema_value(schema_get(schema, "const"), out);
	} else if (schema_get(schema, "enum")) {
		schema_check(s, schema, at, " enum type ");
		enumeration(s, schema_get(schema, "enum"), at, out);
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
	char *text = NULL;
	size_t bytes;
	unsigned int rule;
	FILE *out;

	for (rule = 0; rule < s->n_rules; rule++)
		if (schema && s->rules[rule].schema == schema)
			return rule;
	if (s->depth >= MAX_DEPTH)
		schema_error(s, -EINVAL, at, "more than %d schemas in one another", MAX_DEPTH);
	rule = s->err ? 0 : add_rule(s, schema, at);
	out = s->err ? NULL : open_memstream(&text, &bytes);
	if (!out) {
		schema_error(s, -ENOMEM, at, "no memory");
		return 0;
	}
	s->depth++;
	any_schema(s, schema, at, out);
	s->depth--;
	if (fclose(out))
		schema_error(s, -ENOMEM, at, "no memory");
	fprintf(s->out, "s%u ::= %s\n", rule, s->err ? "" : text);
	free(text);
	return rule;
}

static struct json_object *parse(const char *text)
{
	struct json_tokener *tokener = json_tokener_new_ex(MAX_DEPTH);
	struct json_object *parsed = NULL;
	enum json_tokener_error error;
	size_t bytes = strlen(text), end;

	if (!tokener || bytes > INT32_MAX) {
		llm_fail(-ENOMEM, "no memory for a JSON schema");
		json_tokener_free(tokener);
		return NULL;
	}
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	/* With the NUL, so that a number at the end is one. */
	parsed = json_tokener_parse_ex(tokener, text, (int)bytes + 1);
	error = json_tokener_get_error(tokener);
	end = json_tokener_get_parse_end(tokener);
	if (error != json_tokener_success || end < bytes || !parsed) {
		llm_fail(-EINVAL, "JSON schema: not JSON, at byte %zu: %s", end,
			 error != json_tokener_success ? json_tokener_error_desc(error)
						       : "no value, or more than one");
		json_object_put(parsed);
		parsed = NULL;
	}
	json_tokener_free(tokener);
	return parsed;
}

int json_schema_to_grammar(const char *schema, char **grammar)
{
	struct schema s = { .root = parse(schema) };
	const struct schema_place whole = { NULL, NULL };
	size_t bytes;

	*grammar = NULL;
	if (!s.root)
		return -EINVAL;
	s.out = open_memstream(grammar, &bytes);
	if (s.out) {
		fprintf(s.out, "root ::= s0\n%s", common_rules);
		schema_rule(&s, s.root, &whole);
	}
	if (!s.out || fclose(s.out))
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
