/* SPDX-License-Identifier: MIT */
/* Inside json_*.c. */
#ifndef JSON_PRIVATE_H
#define JSON_PRIVATE_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A place in the schema, for errors. */
struct schema_place {
	const struct schema_place *above; /* NULL: this is the whole schema */
	const char *key;
};

/* A schema and its rule, sN for entry N. */
struct schema_rule {
	struct json_object *schema;
};

struct schema {
	struct json_object *root;
	struct schema_rule *rules;
	unsigned int n_rules, rules_room;
	struct json_object **made; /* schemas that were made of others, and are freed at the end */
	unsigned int n_made;
	unsigned int n_merged; /* schemas of allOf so far */
	unsigned int depth;
	FILE *out; /* finished rules */
	int err; /* the first error stays */
};

/* Set the error unless there is one. "JSON schema, at /a/b: ..." */
void schema_error(struct schema *s, int err, const struct schema_place *at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* An error for a keyword other than annotations and those in @known, each with a space before and
 * behind. */
void schema_check(struct schema *s, struct json_object *schema, const struct schema_place *at,
		  const char *known);
/* The number of the rule of a schema, which it makes if there is none. 0 after an error. */
unsigned int schema_rule(struct schema *s, struct json_object *schema,
			 const struct schema_place *at);
/* The schema to which the references of @schema lead; NULL after an error. */
struct json_object *schema_resolve(struct schema *s, struct json_object *schema,
				   const struct schema_place *at);
/* The schemas of allOf and the one that they are in as one schema, the schema's. */
struct json_object *schema_merge(struct schema *s, struct json_object *schema,
				 const struct schema_place *at);

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
/* Texts as literals: as they are; or as the inside of a JSON string. */
void schema_literal(const char *text, FILE *out);
void schema_value(struct json_object *value, FILE *out);
/* A key as a JSON string's literal. */
void schema_key(const char *key, FILE *out);
/* A character of a JSON string, as a literal. */
void schema_char(uint32_t code, FILE *out);

#endif /* JSON_PRIVATE_H */
