// SPDX-License-Identifier: MIT
/*
 * JSON's objects: the properties of a schema in their order, some of them left out, then others if
 * they are allowed.
 *
 * Two chains of rules tell whether a comma comes first: in sN-first-I nothing has been written, in
 * sN-next-I something has; both go on with property I or, if that may be left out, with the next.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "json_private.h"
#include "utf8.h"

/* Characters of a name that others are told from: a group of the grammar each, in one another */
#define MAX_NAME 190

struct property {
	const char *name;
	struct json_object *schema; /* NULL: any value */
	bool required;
};

struct object {
	struct property *list;
	size_t n;
	unsigned int id; /* of its rules */
	bool others; /* properties that are not in the list are allowed */
	unsigned int others_rule; /* their values'; UINT32_MAX: any */
};

static bool is_required(struct json_object *required, const char *name)
{
	for (size_t i = 0; required && i < json_object_array_length(required); i++) {
		struct json_object *one = json_object_array_get_idx(required, i);

		if (json_object_is_type(one, json_type_string) &&
		    !strcmp(json_object_get_string(one), name))
			return true;
	}
	return false;
}

static bool is_in(const struct object *o, const char *name)
{
	for (size_t i = 0; i < o->n; i++)
		if (!strcmp(o->list[i].name, name))
			return true;
	return false;
}

/* Those of the schema, then those that are only required. */
static void list_properties(struct schema *s, struct object *o, struct json_object *properties,
			    struct json_object *required, struct json_object *others,
			    const struct schema_place *at)
{
	bool is_closed = json_object_is_type(others, json_type_boolean) && !o->others;

	if (properties) {
		json_object_object_foreach(properties, name, value)
		{
			if (!value)
				schema_error(s, -EINVAL, at, "property %s is null", name);
			o->list[o->n++] =
				(struct property){ name, value, is_required(required, name) };
		}
	}
	for (size_t i = 0; required && i < json_object_array_length(required); i++) {
		const char *name =
			schema_text(s, json_object_array_get_idx(required, i), at, "required");

		if (s->err || is_in(o, name))
			continue;
		if (is_closed)
			schema_error(s, -EINVAL, at,
				     "%s is required, but neither in properties nor allowed by "
				     "additionalProperties",
				     name);
		o->list[o->n++] = (struct property){
			.name = name,
			.schema = json_object_is_type(others, json_type_object) ? others : NULL,
			.required = true,
		};
	}
}

/* ---- names of other properties ---- */

/* The rule of names that begin with the first @depth bytes of @name and are not in the list, from
 * there on. Names are compared by their characters, as they have no escapes. */
static void other_names(const struct object *o, const char *name, size_t depth, FILE *out);

static bool begins_with(const char *text, const char *name, size_t depth)
{
	return !strncmp(text, name, depth) && strlen(text) >= depth;
}

/* The character of @text at @depth, unless a property before @before has the same there. */
static size_t new_char(const struct object *o, size_t before, const char *text, size_t depth,
		       uint32_t *code)
{
	size_t n = utf8_decode((const uint8_t *)text + depth, strlen(text + depth), code);

	for (size_t i = 0; i < before && n; i++)
		if (begins_with(o->list[i].name, text, depth + n))
			return 0;
	return n;
}

static void class_char(uint32_t code, FILE *out)
{
	fprintf(out, "\\U%08X", code);
}

static void other_names(const struct object *o, const char *name, size_t depth, FILE *out)
{
	bool is_name = false;
	uint32_t code;
	size_t n;

	fputc('(', out);
	for (size_t i = 0; i < o->n; i++) {
		const char *text = o->list[i].name;

		if (!begins_with(text, name, depth))
			continue;
		is_name |= !text[depth];
		n = new_char(o, i, text, depth, &code);
		if (!n)
			continue;
		schema_char(code, out);
		fputc(' ', out);
		other_names(o, text, depth + n, out);
		fputs(" | ", out);
	}
	fputs("[^\\\"\\\\\\x00-\\x1F", out);
	for (size_t i = 0; i < o->n; i++)
		if (begins_with(o->list[i].name, name, depth) &&
		    new_char(o, i, o->list[i].name, depth, &code))
			class_char(code, out);
	fprintf(out, "] plain*)%s", is_name ? "" : "?");
}

static size_t characters(const char *name)
{
	size_t n = 0;

	for (; *name; name++)
		n += (*name & 0xc0) != 0x80;
	return n;
}

static void check_names(struct schema *s, const struct object *o, const struct schema_place *at)
{
	for (size_t i = 0; i < o->n && o->others; i++)
		if (characters(o->list[i].name) > MAX_NAME)
			schema_error(s, -ENOTSUP, at,
				     "a property whose name has more than %d characters is not "
				     "supported beside additionalProperties",
				     MAX_NAME);
}

/* ---- rules ---- */

static void others_rule(const struct object *o, FILE *out)
{
	fprintf(out, "s%u-other ::= \"\\\"\" ", o->id);
	other_names(o, "", 0, out);
	fputs(" \"\\\"\" \":\" ws ", out);
	if (o->others_rule == UINT32_MAX)
		fputs("value\n", out);
	else
		fprintf(out, "s%u\n", o->others_rule);
}

static void property_rules(struct schema *s, const struct object *o, size_t i,
			   const struct schema_place *at)
{
	const struct property *p = &o->list[i];
	const struct schema_place properties = { at, "properties" },
				  here = { &properties, p->name };
	unsigned int rule = p->schema ? schema_rule(s, p->schema, &here) : 0;

	fprintf(s->out, "s%u-property-%zu ::= ", o->id, i);
	schema_key(p->name, s->out);
	if (p->schema)
		fprintf(s->out, " \":\" ws s%u\n", rule);
	else
		fputs(" \":\" ws value\n", s->out);
	for (int first = 0; first < 2; first++) {
		const char *kind = first ? "first" : "next";

		fprintf(s->out, "s%u-%s-%zu ::= %ss%u-property-%zu s%u-next-%zu", o->id, kind, i,
			first ? "" : "\",\" ws ", o->id, i, o->id, i + 1);
		if (!p->required)
			fprintf(s->out, " | s%u-%s-%zu", o->id, kind, i + 1);
		fputc('\n', s->out);
	}
}

static void last_rules(struct schema *s, const struct object *o)
{
	if (!o->others) {
		fprintf(s->out, "s%u-first-%zu ::= \"\"\ns%u-next-%zu ::= \"\"\n", o->id, o->n,
			o->id, o->n);
		return;
	}
	others_rule(o, s->out);
	fprintf(s->out, "s%u-next-%zu ::= (\",\" ws s%u-other)*\n", o->id, o->n, o->id);
	fprintf(s->out, "s%u-first-%zu ::= (s%u-other s%u-next-%zu)?\n", o->id, o->n, o->id, o->id,
		o->n);
}

static bool check(struct schema *s, struct json_object *properties, struct json_object *required,
		  const struct schema_place *at)
{
	if (properties && !json_object_is_type(properties, json_type_object))
		schema_error(s, -EINVAL, at, "properties is no object");
	if (required && !json_object_is_type(required, json_type_array))
		schema_error(s, -EINVAL, at, "required is no array");
	return !s->err;
}

/* What additionalProperties says: without it, objects with properties have no others. */
static void set_others(struct schema *s, struct object *o, struct json_object *others,
		       bool properties, const struct schema_place *at)
{
	const struct schema_place here = { at, "additionalProperties" };

	o->others_rule = UINT32_MAX;
	o->others = others ? !json_object_is_type(others, json_type_boolean) ||
				     json_object_get_boolean(others)
			   : !properties;
	if (others && !json_object_is_type(others, json_type_boolean))
		o->others_rule = schema_rule(s, others, &here);
}

void schema_object(struct schema *s, struct json_object *schema, const struct schema_place *at,
		   FILE *out)
{
	struct json_object *properties = schema_get(schema, "properties"),
			   *required = schema_get(schema, "required"),
			   *others = schema_get(schema, "additionalProperties");
	/* A schema has a rule before it is looked at, so no other object gets this number. */
	struct object o = { .id = s->n_rules };
	size_t most;

	if (!check(s, properties, required, at))
		return;
	if (!properties && !required && !others) {
		fputs("object", out);
		return;
	}
	most = (properties ? (size_t)json_object_object_length(properties) : 0) +
	       (required ? json_object_array_length(required) : 0);
	o.list = calloc(most + 1, sizeof(*o.list));
	if (!o.list) {
		schema_error(s, -ENOMEM, at, "no memory");
		return;
	}
	set_others(s, &o, others, properties, at);
	list_properties(s, &o, properties, required, others, at);
	check_names(s, &o, at);
	for (size_t i = 0; i < o.n && !s->err; i++)
		property_rules(s, &o, i, at);
	if (!s->err)
		last_rules(s, &o);
	fprintf(out, "\"{\" ws s%u-first-0 ws \"}\"", o.id);
	free(o.list);
}
