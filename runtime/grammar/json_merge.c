// SPDX-License-Identifier: MIT
/* References, allOf, and other schemas that are put together. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "json_private.h"

/* Schemas of allOf, and alternatives that get a type, each as often as it is referred to */
#define MAX_MERGED 10000

/* Replaces each %XX of @text by its byte. False: there is another %. */
static bool decode_percents(char *text)
{
	char *to = text;

	for (; *text; text++, to++) {
		char digits[3] = { 0 };

		*to = *text;
		if (*text != '%')
			continue;
		memcpy(digits, text + 1, strnlen(text + 1, 2));
		*to = (char)strtoul(digits, NULL, 16);
		if (!isxdigit((unsigned char)digits[0]) || !isxdigit((unsigned char)digits[1]) ||
		    !*to)
			return false;
		text += 2;
	}
	*to = 0;
	return true;
}

/* What is at @path, a JSON pointer in a fragment of a URI. */
static struct json_object *find(struct schema *s, const char *path, const struct schema_place *at)
{
	struct json_object *found = NULL;
	char *pointer = strdup(path);

	if (!pointer)
		schema_error(s, -ENOMEM, at, "no memory");
	else if (!decode_percents(pointer))
		schema_error(s, -EINVAL, at, "$ref with a %% without its two digits");
	else if (json_pointer_get(s->root, pointer, &found) && errno == ENOMEM)
		schema_error(s, -ENOMEM, at, "no memory");
	else if (!found)
		schema_error(s, -EINVAL, at, "$ref to #%s, which is not there", path);
	free(pointer);
	return found;
}

/* The schema that the $ref of @schema names. */
static struct json_object *follow(struct schema *s, struct json_object *schema,
				  const struct schema_place *at)
{
	const char *path = schema_text(s, schema_get(schema, "$ref"), at, "$ref");

	schema_check(s, schema, at, " $ref ");
	if (path[0] != '#')
		schema_error(s, -ENOTSUP, at,
			     "$ref is supported to places in the schema, as #/...");
	if (s->err)
		return NULL;
	return path[1] ? find(s, path + 1, at) : s->root;
}

struct json_object *schema_resolve(struct schema *s, struct json_object *schema,
				   const struct schema_place *at)
{
	unsigned int steps = 0;

	while (!s->err && json_object_is_type(schema, json_type_object) &&
	       schema_get(schema, "$ref")) {
		if (++steps > SCHEMA_MAX_DEPTH)
			schema_error(s, -EINVAL, at, "a $ref that leads to itself");
		else
			schema = follow(s, schema, at);
	}
	return s->err ? NULL : schema;
}

void schema_count_made(struct schema *s, const struct schema_place *at)
{
	if (++s->n_merged > MAX_MERGED)
		schema_error(s, -EINVAL, at,
			     "more than %d schemas in allOf and in alternatives beside a type",
			     MAX_MERGED);
}

void schema_add(struct schema *s, struct json_object *into, const char *key,
		struct json_object *value, const struct schema_place *at)
{
	if (json_object_object_add(into, key, value)) {
		schema_error(s, -ENOMEM, at, "no memory");
		json_object_put(value);
	}
}

/* A property may have the name of a keyword. */
static void merge_property(struct schema *s, struct json_object *into, const char *name,
			   struct json_object *value, const struct schema_place *at)
{
	struct json_object *old;

	if (!json_object_object_get_ex(into, name, &old))
		schema_add(s, into, name, json_object_get(value), at);
	else if (!json_object_equal(old, value))
		schema_error(s, -ENOTSUP, at, "allOf with two different schemas of property %s",
			     name);
}

static void merge_required(struct schema *s, struct json_object *into, struct json_object *names,
			   const struct schema_place *at)
{
	for (size_t i = 0; i < json_object_array_length(names) && !s->err; i++) {
		struct json_object *name = json_object_get(json_object_array_get_idx(names, i));

		if (!json_object_array_add(into, name))
			continue;
		json_object_put(name);
		schema_error(s, -ENOMEM, at, "no memory");
	}
}

/* Two values of a keyword that leave those that both allow. False: it is no such keyword. */
static bool merge_sets(struct schema *s, struct json_object *into, const char *keyword,
		       struct json_object *value, const struct schema_place *at)
{
	struct json_object *old = schema_get(into, keyword), *both = NULL;

	if (!strcmp(keyword, "type"))
		both = schema_common_type(s, old, value, at);
	else if (!strcmp(keyword, "enum"))
		both = schema_common_values(s, old, value, at);
	else
		return false;
	if (both)
		schema_add(s, into, keyword, both, at);
	return true;
}

static void merge_keyword(struct schema *s, struct json_object *into, const char *keyword,
			  struct json_object *value, const struct schema_place *at)
{
	struct json_object *old;

	if (!json_object_object_get_ex(into, keyword, &old)) {
		schema_add(s, into, keyword, json_object_get(value), at);
	} else if (!strcmp(keyword, "required") && json_object_is_type(value, json_type_array) &&
		   json_object_is_type(old, json_type_array)) {
		merge_required(s, old, value, at);
	} else if (!strcmp(keyword, "properties") && json_object_is_type(value, json_type_object) &&
		   json_object_is_type(old, json_type_object)) {
		json_object_object_foreach(value, name, property)
			merge_property(s, old, name, property, at);
	} else if (!strcmp(keyword, "const")) {
		if (!schema_is_same(old, value))
			schema_error(s, -EINVAL, at, "allOf with two different values of const");
	} else if (!json_object_equal(old, value) && !schema_is_annotation(keyword) &&
		   !merge_sets(s, into, keyword, value, at)) {
		schema_error(s, -ENOTSUP, at, "allOf with two different values of %s", keyword);
	}
}

/* An error if @schema says what properties beside its own are, and @beside has such. */
static void check_others(struct schema *s, struct json_object *schema, struct json_object *beside,
			 const struct schema_place *at)
{
	struct json_object *others, *own = schema_get(schema, "properties"),
				    *properties = schema_get(beside, "properties");

	if (!json_object_object_get_ex(schema, "additionalProperties", &others) ||
	    (json_object_is_type(others, json_type_boolean) && json_object_get_boolean(others)) ||
	    !json_object_is_type(properties, json_type_object))
		return;
	json_object_object_foreach(properties, name, property)
	{
		(void)property;
		if (!json_object_is_type(own, json_type_object) ||
		    !json_object_object_get_ex(own, name, NULL))
			schema_error(s, -ENOTSUP, at,
				     "allOf with additionalProperties beside a schema with the "
				     "property %s",
				     name);
	}
}

static void merge(struct schema *s, struct json_object *into, struct json_object *from,
		  const struct schema_place *at);

/* @from's keywords without allOf, and those of its allOf, into @into. @from changes. */
static void merge_all(struct schema *s, struct json_object *into, struct json_object *from,
		      const struct schema_place *at)
{
	struct json_object *all = schema_get(from, "allOf");

	check_others(s, into, from, at);
	check_others(s, from, into, at);
	json_object_object_foreach(from, keyword, value) if (strcmp(keyword, "allOf"))
		merge_keyword(s, into, keyword, value, at);
	if (all && !json_object_is_type(all, json_type_array))
		schema_error(s, -EINVAL, at, "allOf is no array");
	for (size_t i = 0; all && !s->err && i < json_object_array_length(all); i++)
		merge(s, into, json_object_array_get_idx(all, i), at);
}

static void merge(struct schema *s, struct json_object *into, struct json_object *from,
		  const struct schema_place *at)
{
	struct json_object *copy = NULL;

	if (from && schema_get(from, "$ref"))
		from = schema_resolve(s, from, at);
	if (s->err || !from || !json_object_is_type(from, json_type_object) ||
	    ++s->depth > SCHEMA_MAX_DEPTH) {
		schema_error(s, -EINVAL, at, "allOf of what is no object, or refers to itself");
		return;
	}
	schema_count_made(s, at);
	if (s->err)
		return;
	/* What is merged changes, so it is a copy. */
	if (json_object_deep_copy(from, &copy, NULL))
		schema_error(s, -ENOMEM, at, "no memory");
	else
		merge_all(s, into, copy, at);
	json_object_put(copy);
	s->depth--;
}

struct json_object *schema_new(struct schema *s, const struct schema_place *at)
{
	struct json_object *made = json_object_new_object(),
			   **grown = realloc(s->made, (s->n_made + 1) * sizeof(*grown));

	if (grown)
		s->made = grown;
	if (!made || !grown) {
		json_object_put(made);
		schema_error(s, -ENOMEM, at, "no memory");
		return NULL;
	}
	s->made[s->n_made++] = made;
	return made;
}

struct json_object *schema_merge(struct schema *s, struct json_object *schema,
				 const struct schema_place *at)
{
	struct json_object *merged = schema_new(s, at);

	if (merged)
		merge(s, merged, schema, at);
	return s->err ? NULL : merged;
}
