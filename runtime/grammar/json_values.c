// SPDX-License-Identifier: MIT
/* Sets of values: when two are the same, and which two sets have in common. */
#include <errno.h>
#include <string.h>

#include "json_private.h"

static bool is_number(struct json_object *value)
{
	return json_object_is_type(value, json_type_int) ||
	       json_object_is_type(value, json_type_double);
}

/* Exact: an integer beyond 2^53 is not the double next to it. */
static bool is_same_number(struct json_object *one, struct json_object *other)
{
	double number = json_object_get_double(one);

	if (json_object_is_type(one, json_type_int) && json_object_is_type(other, json_type_int))
		return json_object_equal(one, other);
	if (json_object_is_type(one, json_type_int))
		return is_same_number(other, one);
	if (json_object_is_type(other, json_type_double))
		return number == json_object_get_double(other);
	return number >= -0x1p63 && number < 0x1p63 && (double)(int64_t)number == number &&
	       (int64_t)number == json_object_get_int64(other);
}

static bool is_same_array(struct json_object *one, struct json_object *other)
{
	size_t n = json_object_array_length(one);

	if (n != json_object_array_length(other))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!schema_is_same(json_object_array_get_idx(one, i),
				    json_object_array_get_idx(other, i)))
			return false;
	return true;
}

static bool is_same_object(struct json_object *one, struct json_object *other)
{
	struct json_object *its;

	if (json_object_object_length(one) != json_object_object_length(other))
		return false;
	json_object_object_foreach(one, key, value)
	{
		if (!json_object_object_get_ex(other, key, &its) || !schema_is_same(value, its))
			return false;
	}
	return true;
}

bool schema_is_same(struct json_object *one, struct json_object *other)
{
	if (is_number(one) && is_number(other))
		return is_same_number(one, other);
	if (json_object_get_type(one) != json_object_get_type(other))
		return false;
	switch (json_object_get_type(one)) {
	case json_type_array:
		return is_same_array(one, other);
	case json_type_object:
		return is_same_object(one, other);
	default:
		return json_object_equal(one, other);
	}
}

bool schema_has_value(struct schema *s, struct json_object *values, struct json_object *value,
		      const struct schema_place *at)
{
	if (!json_object_is_type(values, json_type_array)) {
		schema_error(s, -EINVAL, at, "enum is no array of values");
		return false;
	}
	for (size_t i = 0; i < json_object_array_length(values); i++)
		if (schema_is_same(json_object_array_get_idx(values, i), value))
			return true;
	return false;
}

struct json_object *schema_common_values(struct schema *s, struct json_object *one,
					 struct json_object *other, const struct schema_place *at)
{
	struct json_object *both = json_object_new_array();

	if (!both)
		schema_error(s, -ENOMEM, at, "no memory");
	if (!json_object_is_type(one, json_type_array))
		schema_error(s, -EINVAL, at, "enum is no array of values");
	for (size_t i = 0; !s->err && i < json_object_array_length(one); i++) {
		struct json_object *value = json_object_array_get_idx(one, i);

		if (schema_has_value(s, other, value, at) &&
		    json_object_array_add(both, json_object_get(value))) {
			json_object_put(value);
			schema_error(s, -ENOMEM, at, "no memory");
		}
	}
	if (!s->err && !json_object_array_length(both))
		schema_error(s, -EINVAL, at, "allOf with enums that have no value in common");
	if (s->err) {
		json_object_put(both);
		both = NULL;
	}
	return both;
}
