// SPDX-License-Identifier: MIT
/*
 * allOf of types, enum and const: random schemas beside a validator that does what JSON Schema
 * 2020-12 says of each keyword, one after the other. TEST_SEED=N repeats a run.
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "json_fits.h"

#define SCHEMAS 4000
#define MAX_SCHEMA 4096

/* One of each type at least. A value has a type and a name, by which it is the same in two
 * spellings. */
static const struct value {
	const char *type, *name, *spelled, *other; /* other: NULL if there is one spelling */
} values[] = {
	{ "null", "null", "null", NULL },
	{ "boolean", "true", "true", NULL },
	{ "boolean", "false", "false", NULL },
	{ "integer", "1", "1", "1.0" },
	{ "integer", "-3", "-3", "-3.00" },
	{ "integer", "2^53", "9007199254740992", "9007199254740992.0" },
	{ "integer", "2^53+1", "9007199254740993", NULL },
	{ "fraction", "1.5", "1.5", "1.50" },
	{ "string", "a", "\"a\"", NULL },
	{ "string", "empty", "\"\"", NULL },
	{ "array", "[]", "[]", NULL },
	{ "array", "[1]", "[1]", "[1.0]" },
	{ "object", "{}", "{}", NULL },
	{ "object", "a1", "{\"a\":1}", "{\"a\":1.0}" },
};
#define N_VALUES (sizeof(values) / sizeof(values[0]))

static const char *const types[] = { "null",   "boolean", "integer", "number",
				     "string", "array",	  "object" };
#define N_TYPES (sizeof(types) / sizeof(types[0]))

/* What a schema allows: a bit for each value. */
static unsigned int of_type(size_t type)
{
	unsigned int allowed = 0;

	for (size_t i = 0; i < N_VALUES; i++)
		if (!strcmp(values[i].type, types[type]) ||
		    (!strcmp(types[type], "number") &&
		     (!strcmp(values[i].type, "integer") || !strcmp(values[i].type, "fraction"))))
			allowed |= 1u << i;
	return allowed;
}

static unsigned int put_type(FILE *out)
{
	size_t first = next() % N_TYPES, n = 1 + next() % 4;
	unsigned int allowed = 0;

	if (next() % 3 == 0) {
		fprintf(out, "\"type\":\"%s\"", types[first]);
		return of_type(first);
	}
	fputs("\"type\":[", out);
	for (size_t i = 0; i < n; i++) {
		size_t type = next() % N_TYPES;

		fprintf(out, "%s\"%s\"", i ? "," : "", types[type]);
		allowed |= of_type(type);
	}
	fputs("]", out);
	return allowed;
}

static unsigned int put_value(FILE *out)
{
	size_t i = next() % N_VALUES;

	fputs(values[i].other && next() % 2 ? values[i].other : values[i].spelled, out);
	return 1u << i;
}

static unsigned int put_enum(FILE *out)
{
	unsigned int allowed = 0;

	fputs("\"enum\":[", out);
	for (uint64_t n = 3 + next() % 12; n; n--) {
		allowed |= put_value(out);
		fputs(n > 1 ? "," : "]", out);
	}
	return allowed;
}

/* The values that all keywords allow. */
static unsigned int put_schema(FILE *out, int depth)
{
	unsigned int allowed = (1u << N_VALUES) - 1;

	fputs("{\"title\":\"t\"", out);
	if (next() % 2) {
		fputs(",", out);
		allowed &= put_type(out);
	}
	if (next() % 3 == 0) {
		fputs(",", out);
		allowed &= put_enum(out);
	}
	if (next() % 16 == 0) {
		fputs(",\"const\":", out);
		allowed &= put_value(out);
	}
	if (!depth || (depth < 3 && next() % 4 == 0)) {
		fputs(",\"allOf\":[", out);
		for (uint64_t n = 1 + next() % 3; n; n--) {
			allowed &= put_schema(out, depth + 1);
			fputs(n > 1 ? "," : "]", out);
		}
	}
	fputs("}", out);
	return allowed;
}

/* The values that fit the grammar, in some spelling. */
static unsigned int fitting(const char *schema)
{
	struct grammar *g = make(schema);
	unsigned int fit = 0;

	for (size_t i = 0; i < N_VALUES; i++)
		if (fits(g, values[i].spelled) || (values[i].other && fits(g, values[i].other)))
			fit |= 1u << i;
	grammar_free(g);
	return fit;
}

static void test_all_of_allows_what_each_schema_allows(void **state)
{
	char schema[MAX_SCHEMA], *text;
	int empty = 0;

	for (int i = 0; i < SCHEMAS; i++) {
		FILE *out = fmemopen(schema, sizeof(schema), "w");
		unsigned int allowed = put_schema(out, 0);

		assert_int_equal(fclose(out), 0);
		if (!allowed) {
			empty++;
			if (json_schema_to_grammar(schema, &text) != -EINVAL)
				fail_msg("%s is not refused, but allows nothing", schema);
		} else if (fitting(schema) != allowed) {
			fail_msg("%#x fits, but %#x is allowed by %s", fitting(schema), allowed,
				 schema);
		}
	}
	print_message("%d of %d schemas allow nothing\n", empty, SCHEMAS);
	assert_in_range(empty, SCHEMAS / 20, SCHEMAS - SCHEMAS / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_of_allows_what_each_schema_allows),
	};
	const char *given = getenv("TEST_SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	print_message("TEST_SEED=%" PRIu64 "\n", seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
