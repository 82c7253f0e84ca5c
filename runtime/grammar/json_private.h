/* SPDX-License-Identifier: MIT */
/* Inside json_*.c. */
#ifndef JSON_PRIVATE_H
#define JSON_PRIVATE_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Schemas in one another */
#define SCHEMA_MAX_DEPTH 200

/* A place in the schema, for errors. */
struct schema_place {
	const struct schema_place *above; /* NULL: this is the whole schema */
	const char *key;
};

/* A schema and its rule, sN for entry N. */
struct schema_rule {
	struct json_object *schema;
};

/* A text that grows as a stream writes it. */
struct schema_stream {
	FILE *out; /* NULL: no memory */
	char *text; /* NULL until it is closed, or without memory */
	size_t bytes, room;
	bool failed;
};

struct schema {
	struct json_object *root;
	struct schema_rule *rules;
	unsigned int n_rules, rules_room;
	struct json_object **made; /* schemas that were made of others, and are freed at the end */
	unsigned int n_made;
	unsigned int n_merged; /* schemas of allOf, and alternatives with another type, so far */
	unsigned int depth;
	FILE *out; /* finished rules */
	int err; /* the first error stays */
};

/* The JSON of @text, which has no names with NUL; NULL after an error. */
struct json_object *schema_parse(struct schema *s, const char *text);

/* Unlike open_memstream(), these notice each write that finds no memory. */
void schema_stream_open(struct schema_stream *stream);
/* The text, for free(); NULL: no memory at some time. */
char *schema_stream_close(struct schema_stream *stream);

/* Set the error unless there is one. "JSON schema, at /a/b: ..." */
void schema_error(struct schema *s, int err, const struct schema_place *at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* An error for a keyword other than annotations and those in @known, each with a space before and
 * behind. */
void schema_check(struct schema *s, struct json_object *schema, const struct schema_place *at,
		  const char *known);
/* Keywords that say nothing of values. */
bool schema_is_annotation(const char *keyword);
/* The number of the rule of a schema, which it makes if there is none. 0 after an error. */
unsigned int schema_rule(struct schema *s, struct json_object *schema,
			 const struct schema_place *at);
/* The schema to which the references of @schema lead; NULL after an error. */
struct json_object *schema_resolve(struct schema *s, struct json_object *schema,
				   const struct schema_place *at);
/* The schemas of allOf and the one that they are in as one schema, the schema's. */
struct json_object *schema_merge(struct schema *s, struct json_object *schema,
				 const struct schema_place *at);

/* An empty schema for others to be put together in; NULL after an error. */
struct json_object *schema_new(struct schema *s, const struct schema_place *at);
/* An error if there are too many schemas that are put together, of which this is one more. */
void schema_count_made(struct schema *s, const struct schema_place *at);
/* Adds a keyword or property; @value is its own from then on. */
void schema_add(struct schema *s, struct json_object *into, const char *key,
		struct json_object *value, const struct schema_place *at);

/* The types that a schema's keyword type names, as bits: all without it; 0 after an error. */
unsigned int schema_kinds(struct schema *s, struct json_object *schema,
			  const struct schema_place *at);
/* The keyword type of the values that have @one's and @other's; an error if there are none. */
struct json_object *schema_common_type(struct schema *s, struct json_object *one,
				       struct json_object *other, const struct schema_place *at);
bool schema_fits(unsigned int kinds, struct json_object *value);
/* Makes an alternative one that allows only values of @kinds. False: there are none, or an
 * error. */
bool schema_narrow(struct schema *s, struct json_object **schema, unsigned int kinds,
		   const struct schema_place *at);

/* Whether two values are equal, as 1 and 1.0 are. */
bool schema_is_same(struct json_object *one, struct json_object *other);
/* Whether one of the array @values is @value; an error for what is no array. */
bool schema_has_value(struct schema *s, struct json_object *values, struct json_object *value,
		      const struct schema_place *at);
/* The values that are in both arrays, in @one's order; an error if there are none. */
struct json_object *schema_common_values(struct schema *s, struct json_object *one,
					 struct json_object *other, const struct schema_place *at);

/* The text of a keyword; "" after an error, for what is no text or has a NUL. */
const char *schema_text(struct schema *s, struct json_object *value, const struct schema_place *at,
			const char *keyword);
/* NULL: @schema has no such keyword. */
struct json_object *schema_get(struct json_object *schema, const char *keyword);
/* A keyword that is a number from 0 to @most; @otherwise if there is none. */
uint64_t schema_count(struct schema *s, struct json_object *schema, const struct schema_place *at,
		      const char *keyword, uint64_t otherwise);

/* Each writes an element or alternatives of the schema's rule to @out. */
void schema_object(struct schema *s, struct json_object *schema, const struct schema_place *at,
		   FILE *out);
void schema_array(struct schema *s, struct json_object *schema, const struct schema_place *at,
		  FILE *out);
void schema_string(struct schema *s, struct json_object *schema, const struct schema_place *at,
		   FILE *out);
void schema_number(struct schema *s, struct json_object *schema, const struct schema_place *at,
		   bool integer, FILE *out);
/* A regular expression, as what is between the quotes of a JSON string. */
void schema_pattern(struct schema *s, const char *pattern, const struct schema_place *at,
		    FILE *out);
/* A value of JSON, and a key as a JSON string, as literals. */
void schema_value(struct schema *s, struct json_object *value, const struct schema_place *at,
		  FILE *out);
void schema_key(const char *key, FILE *out);
/* A character of a JSON string, as a literal. */
void schema_char(uint32_t code, FILE *out);

#endif /* JSON_PRIVATE_H */
