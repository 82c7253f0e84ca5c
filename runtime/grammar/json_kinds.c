// SPDX-License-Identifier: MIT
/* Sets of types: which values and alternatives the type beside them leaves. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "json_private.h"

enum {
	KIND_OBJECT = 1,
	KIND_ARRAY = 2,
	KIND_STRING = 4,
	KIND_INTEGER = 8,
	KIND_FRACTION = 16, /* numbers that are no integers */
	KIND_BOOLEAN = 32,
	KIND_NULL = 64,
	KINDS_ALL = 127,
};

static const struct {
	const char *name;
	unsigned int kinds;
} types[] = {
	{ "object", KIND_OBJECT },   { "array", KIND_ARRAY },
	{ "string", KIND_STRING },   { "number", KIND_INTEGER | KIND_FRACTION },
	{ "integer", KIND_INTEGER }, { "boolean", KIND_BOOLEAN },
	{ "null", KIND_NULL },
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static unsigned int kinds_of(struct schema *s, struct json_object *type,
			     const struct schema_place *at)
{
	const char *name = schema_text(s, type, at, "type");

	for (size_t i = 0; i < N_TYPES; i++)
		if (!strcmp(name, types[i].name))
			return types[i].kinds;
	schema_error(s, -EINVAL, at,
		     "no type %s; there are object, array, string, number, integer, boolean and "
		     "null",
		     name);
	return 0;
}

/* Of the keyword type. */
static unsigned int kinds_of_types(struct schema *s, struct json_object *type,
				   const struct schema_place *at)
{
	unsigned int kinds = 0;

	if (!json_object_is_type(type, json_type_array))
		return kinds_of(s, type, at);
	if (!json_object_array_length(type))
		schema_error(s, -EINVAL, at, "type is an empty array");
	for (size_t i = 0; i < json_object_array_length(type); i++)
		kinds |= kinds_of(s, json_object_array_get_idx(type, i), at);
	return kinds;
}

unsigned int schema_kinds(struct schema *s, struct json_object *schema,
			  const struct schema_place *at)
{
	struct json_object *type;

	if (!json_object_object_get_ex(schema, "type", &type))
		return KINDS_ALL;
	return kinds_of_types(s, type, at);
}

static unsigned int kind_of_value(struct json_object *value)
{
	double number;

	switch (json_object_get_type(value)) {
	case json_type_object:
		return KIND_OBJECT;
	case json_type_array:
		return KIND_ARRAY;
	case json_type_string:
		return KIND_STRING;
	case json_type_int:
		return KIND_INTEGER;
	case json_type_double:
		number = json_object_get_double(value);
		return floor(number) == number ? KIND_INTEGER : KIND_FRACTION;
	case json_type_boolean:
		return KIND_BOOLEAN;
	default:
		return KIND_NULL;
	}
}

bool schema_fits(unsigned int kinds, struct json_object *value)
{
	return kinds & kind_of_value(value);
}

/* ---- alternatives ---- */

static struct json_object *type_of(struct schema *s, unsigned int kinds,
				   const struct schema_place *at)
{
	struct json_object *list = json_object_new_array(), *name;

	for (size_t i = 0; list && i < N_TYPES; i++) {
		if ((kinds & types[i].kinds) != types[i].kinds)
			continue;
		kinds &= ~types[i].kinds;
		name = json_object_new_string(types[i].name);
		if (!name || json_object_array_add(list, name)) {
			json_object_put(name);
			json_object_put(list);
			list = NULL;
		}
	}
	if (!list)
		schema_error(s, -ENOMEM, at, "no memory");
	return list;
}

struct json_object *schema_common_type(struct schema *s, struct json_object *one,
				       struct json_object *other, const struct schema_place *at)
{
	unsigned int kinds = kinds_of_types(s, one, at);

	kinds &= kinds_of_types(s, other, at);
	if (!kinds)
		schema_error(s, -EINVAL, at, "allOf with types that no value has all of");
	return s->err ? NULL : type_of(s, kinds, at);
}

/* A copy of @schema, which may be true, with another type. */
static struct json_object *with_type(struct schema *s, struct json_object *schema,
				     unsigned int kinds, const struct schema_place *at)
{
	struct json_object *copy = schema_new(s, at), *type = type_of(s, kinds, at);

	schema_count_made(s, at);
	if (s->err) {
		json_object_put(type);
		return NULL;
	}
	schema_add(s, copy, "type", type, at);
	if (json_object_is_type(schema, json_type_object)) {
		json_object_object_foreach(schema, keyword, value) if (strcmp(keyword, "type"))
			schema_add(s, copy, keyword, json_object_get(value), at);
	}
	return copy;
}

bool schema_narrow(struct schema *s, struct json_object **schema, unsigned int kinds,
		   const struct schema_place *at)
{
	unsigned int own = KINDS_ALL;

	if (kinds == KINDS_ALL)
		return true;
	*schema = schema_resolve(s, *schema, at);
	if (json_object_is_type(*schema, json_type_object) && schema_get(*schema, "allOf"))
		*schema = schema_merge(s, *schema, at);
	if (s->err)
		return false;
	if (json_object_is_type(*schema, json_type_object))
		own = schema_kinds(s, *schema, at);
	else if (!json_object_is_type(*schema, json_type_boolean) ||
		 !json_object_get_boolean(*schema))
		return true;
	if (!s->err && own & kinds && own & ~kinds)
		*schema = with_type(s, *schema, own & kinds, at);
	return !s->err && own & kinds;
}
