// SPDX-License-Identifier: MIT
/* JSON schemas as grammars: which values fit, and what is refused. TEST_SEED=N repeats a run. */
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

static void check(const char *schema, const char *const *yes, const char *const *no)
{
	struct grammar *g = make(schema);

	for (; *yes; yes++)
		if (!fits(g, *yes))
			fail_msg("%s does not fit %s", *yes, schema);
	for (; *no; no++)
		if (fits(g, *no))
			fail_msg("%s fits %s", *no, schema);
	grammar_free(g);
}

#define VALUES(...)               \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}

static void test_any_value(void **state)
{
	static const char *const any[] = { "{}", "true", "{\"title\": \"t\"}" };

	for (size_t i = 0; i < 3; i++)
		check(any[i],
		      VALUES("{}", "[]", "[1, -2.5e+3,\n  \"x\"]", "{\"a\": {\"b\":null}}", "true",
			     "\"\\u00e9\\n\u20ac\"", "0", "-0"),
		      VALUES("", "{", "01", "1.", "\"\n\"", "\"\\x\"", "{a:1}", "[1,]", "nul",
			     "{\"a\":1,}", "+1", "'a'"));
}

static void test_types(void **state)
{
	check("{\"type\":\"string\"}", VALUES("\"\"", "\"a\\\"\""), VALUES("1", "null"));
	check("{\"type\":\"number\"}", VALUES("1", "-1.5E-3"), VALUES("\"1\""));
	check("{\"type\":\"number\",\"minimum\":0}", VALUES("0.5", "1"), VALUES("-1"));
	check("{\"type\":\"boolean\"}", VALUES("true", "false"), VALUES("1"));
	check("{\"type\":\"null\"}", VALUES("null"), VALUES("0"));
	check("{\"type\":[\"integer\",\"null\"]}", VALUES("1", "null"), VALUES("1.5", "true"));
	check("{\"type\":\"object\"}", VALUES("{}", "{\"a\":1}"), VALUES("[]"));
	check("{\"type\":\"array\"}", VALUES("[]", "[{}]"), VALUES("{}"));
}

static void test_objects(void **state)
{
	check("{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"},\"c\":{}},"
	      "\"required\":[\"b\"]}",
	      VALUES("{\"b\":null}", "{\"a\": 1, \"b\": null}", "{\n  \"a\":1,\n  \"b\":null\n}",
		     "{\"b\":null,\"c\":[]}"),
	      VALUES("{}", "{\"a\":1}", "{\"a\":1\"b\":null}", "{\"b\":null,}", "{,\"b\":null}",
		     "{\"b\":null,\"d\":1}", "{\"a\":null,\"b\":null}"));
	check("{\"properties\":{\"a\":{}}}", VALUES("{}", "{\"a\":1}"), VALUES("{\"b\":1}"));
	check("{\"properties\":{\"ab\":{\"type\":\"null\"},\"a\\u00e9\":{\"type\":\"null\"},"
	      "\"\":{\"type\":\"null\"}},"
	      "\"additionalProperties\":{\"type\":\"integer\"}}",
	      VALUES("{}", "{\"ab\":null,\"a\":1,\"abc\":2,\"b\":3,\"ac\":4}", "{\"a\u00e8\":1}",
		     "{\"a\u00e9\":null,\"\":null,\"a\u00e9\u00e9\":1}"),
	      VALUES("{\"ab\":1}", "{\"a\":null}", "{\"a\u00e9\":1}", "{\"\":1}"));
	check("{\"additionalProperties\":{\"type\":\"integer\"}}",
	      VALUES("{}", "{\"x\":1,\"y\":2}"), VALUES("{\"x\":\"y\"}"));
	check("{\"type\":\"object\",\"required\":[\"x\"]}",
	      VALUES("{\"x\":1}", "{\"x\":1,\"y\":2}"), VALUES("{}", "{\"y\":1}"));
	check("{\"properties\":{\"q\\\"\\\\\":{}},\"required\":[\"q\\\"\\\\\"]}",
	      VALUES("{\"q\\\"\\\\\":1}"), VALUES("{}"));
	check("{\"properties\":{},\"additionalProperties\":false}", VALUES("{}", "{ }"),
	      VALUES("{\"a\":1}"));
}

static void test_arrays(void **state)
{
	check("{\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":3}",
	      VALUES("[1,2]", "[ 1, 2, 3 ]"), VALUES("[]", "[1]", "[1,2,3,4]", "[1,\"a\"]"));
	check("{\"items\":{\"type\":\"integer\"},\"minItems\":1}", VALUES("[1]", "[1,2,3,4,5]"),
	      VALUES("[]"));
	check("{\"maxItems\":0}", VALUES("[]"), VALUES("[1]"));
	check("{\"maxItems\":1}", VALUES("[]", "[1]"), VALUES("[1,1]"));
	check("{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":false}",
	      VALUES("[1,\"a\"]"), VALUES("[]", "[1]", "[1,\"a\",1]", "[\"a\",1]"));
	check("{\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"null\"},"
	      "\"maxItems\":2}",
	      VALUES("[1]", "[1,null]"), VALUES("[1,1]", "[1,null,null]"));
}

static void test_strings(void **state)
{
	check("{\"minLength\":2,\"maxLength\":3}", VALUES("\"ab\"", "\"\u20ac\\n\U0001f600\""),
	      VALUES("\"a\"", "\"abcd\""));
	check("{\"minLength\":1}", VALUES("\"a\"", "\"abcdef\""), VALUES("\"\""));
	check("{\"maxLength\":1}", VALUES("\"\\ud83d\\uDE00\"", "\"\\u20aC\"", "\"\\uD7ff\""),
	      VALUES("\"\\ud83d\"", "\"\\ude00\"", "\"\\u0061\\u0061\""));
	check("{\"format\":\"date\"}", VALUES("\"2024-02-29\""),
	      VALUES("\"2024-13-01\"", "\"2024-1-1\"", "\"2024-01-32\""));
	check("{\"format\":\"time\"}", VALUES("\"23:59:59Z\"", "\"00:00:00.123+01:30\""),
	      VALUES("\"24:00:00Z\"", "\"10:00:00\""));
	check("{\"format\":\"date-time\"}", VALUES("\"2024-02-29T01:02:03-08:00\""),
	      VALUES("\"2024-02-29\""));
	check("{\"format\":\"uuid\"}", VALUES("\"123e4567-e89b-12d3-a456-426614174000\""),
	      VALUES("\"123e4567\""));
}

static void test_patterns(void **state)
{
	check("{\"pattern\":\"^a+(b|cd)?[x-z\\\"]{2,3}$\"}",
	      VALUES("\"axy\"", "\"aabzz\\\"\"", "\"acdxxx\""),
	      VALUES("\"ab\"", "\"a\"", "\"xy\""));
	check("{\"pattern\":\"^\\\\d{3}-\\\\w\\\\s\\\\.$\"}",
	      VALUES("\"123-_ .\"", "\"000-A\\n.\""), VALUES("\"123-_ x\"", "\"12-a .\""));
	check("{\"pattern\":\"^[^a-c]*?.$\"}", VALUES("\"xyz\"", "\"x\u20acb\""),
	      VALUES("\"axx\""));
	check("{\"pattern\":\"^\\\\u00e9\\\\x41\\\\t\\\\\\\\$\"}", VALUES("\"\u00e9A\\t\\\\\""),
	      VALUES("\"e\""));
	check("{\"pattern\":\"^(?:)$\"}", VALUES("\"\""), VALUES("\"a\""));
	check("{\"pattern\":\"^[\\\\d.]+$\"}", VALUES("\"1.2\""), VALUES("\"1,2\""));
	check("{\"pattern\":\"^.{2}$\"}",
	      VALUES("\"\\t\\\"\"", "\"\u00e9\\u0001\"", "\"\U0001f600a\""),
	      VALUES("\"a\\n\"", "\"a\\r\"", "\"a\\u000a\"", "\"a\u2028\""));
}

static void test_patterns_with_control_characters(void **state)
{
	check("{\"pattern\":\"^[\\\\f]$\"}", VALUES("\"\\f\""), VALUES("\"\"", "\"f\""));
	check("{\"pattern\":\"^[\\\\x01-\\\\x08]$\"}", VALUES("\"\\u0001\"", "\"\\b\""),
	      VALUES("\"\"", "\"\\u0000\"", "\"\\t\""));
	check("{\"pattern\":\"^a[\\\\x00-\\\\x1f]?b$\"}",
	      VALUES("\"ab\"", "\"a\\fb\"", "\"a\\u0000b\"", "\"a\\u001fb\"", "\"a\\nb\""),
	      VALUES("\"a b\""));
	check("{\"pattern\":\"^[\\\"\\\\\\\\]$\"}", VALUES("\"\\\"\"", "\"\\\\\""), VALUES("\"\""));
}

static void test_alternatives_and_references(void **state)
{
	check("{\"enum\":[\"a\",1,null,{\"b\":[true]}]}",
	      VALUES("\"a\"", "1", "null", "{\"b\":[true]}"), VALUES("\"b\"", "2"));
	check("{\"const\":\"x\\\"y\\u20ac/\"}", VALUES("\"x\\\"y\u20ac/\""), VALUES("\"x\""));
	check("{\"const\":null}", VALUES("null"), VALUES("1"));
	check("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", VALUES("1", "null"),
	      VALUES("true"));
	check("{\"oneOf\":[{\"const\":1},{\"const\":2}]}", VALUES("1", "2"), VALUES("3"));
	check("{\"$ref\":\"#/$defs/x\",\"$defs\":{\"x\":{\"type\":\"null\"}}}", VALUES("null"),
	      VALUES("1"));
	check("{\"items\":{\"$ref\":\"#\"},\"type\":\"array\"}", VALUES("[]", "[[],[[]]]"),
	      VALUES("[1]"));
	check("{\"$ref\":\"#/definitions/list\",\"definitions\":{\"list\":{\"properties\":"
	      "{\"next\":{\"anyOf\":[{\"$ref\":\"#/definitions/list\"},{\"type\":\"null\"}]}},"
	      "\"required\":[\"next\"]}}}",
	      VALUES("{\"next\":null}", "{\"next\":{\"next\":null}}"), VALUES("{}", "null"));
	check("{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},"
	      "{\"$ref\":\"#/$defs/b\"}],\"$defs\":{\"b\":{\"properties\":{\"b\":{\"type\":"
	      "\"null\"}},\"required\":[\"b\"]}}}",
	      VALUES("{\"a\":1,\"b\":null}"), VALUES("{\"a\":1}", "{\"b\":null}"));
}

static void test_types_beside_values_and_alternatives(void **state)
{
	check("{\"enum\":[\"a\",1,2.0,2.5,null],\"type\":\"integer\"}", VALUES("1", "2.0"),
	      VALUES("\"a\"", "2.5", "null"));
	check("{\"enum\":[\"a\",1,2.5,null,[],{},true],\"type\":[\"number\",\"array\"]}",
	      VALUES("1", "2.5", "[]"), VALUES("\"a\"", "null", "{}", "true"));
	check("{\"const\":null,\"type\":\"null\"}", VALUES("null"), VALUES("1"));
	check("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"type\":\"integer\"}",
	      VALUES("1"), VALUES("null"));
	check("{\"oneOf\":[{\"type\":[\"number\",\"null\"]},true,{\"minLength\":2}],\"type\":"
	      "[\"integer\",\"string\"]}",
	      VALUES("1", "\"a\""), VALUES("null", "1.5", "[]"));
	check("{\"type\":\"object\",\"oneOf\":[{\"$ref\":\"#/$defs/a\"},{\"allOf\":[{"
	      "\"properties\":"
	      "{\"b\":{\"type\":\"null\"}},\"required\":[\"b\"]}]}],\"$defs\":{\"a\":{\"anyOf\":"
	      "[{\"type\":\"null\"},{\"type\":[\"object\",\"null\"],\"properties\":{\"a\":"
	      "{\"$ref\":\"#/$defs/a\"}},\"required\":[\"a\"]}]}}}",
	      VALUES("{\"a\":null}", "{\"a\":{\"a\":null}}", "{\"b\":null}"),
	      VALUES("null", "{}", "{\"a\":1}"));
	check("{\"allOf\":[{\"enum\":[1,\"a\"]},{\"type\":\"string\"}]}", VALUES("\"a\""),
	      VALUES("1"));
}

static void test_numbers_and_strings_of_values_stay(void **state)
{
	static const char value[] =
		"[9223372036854775807,-9223372036854775807,1.50,1e400,-0.0,\"a\\u0000\\b\\u001f/"
		"\u00e9\\\"\\\\\",{\"a\\n\":{},\"\":[true,false]}]";
	char schema[sizeof(value) + 16];

	snprintf(schema, sizeof(schema), "{\"const\":%s}", value);
	check(schema, VALUES(value), VALUES("[]"));
}

static void test_references_are_decoded(void **state)
{
	check("{\"$ref\":\"#/$defs/a%20b%25%2fc\",\"$defs\":{\"a b%\":"
	      "{\"c\":{\"type\":\"null\"}}}}",
	      VALUES("null"), VALUES("1"));
}

static void test_what_is_not_supported_is_named(void **state)
{
	static const struct {
		const char *schema;
		int err;
		const char *error;
	} bad[] = {
		{ "", -EINVAL, "not JSON" },
		{ "{", -EINVAL, "not JSON" },
		{ "{} {}", -EINVAL, "not JSON" },
		{ "5", -EINVAL, "a schema is an object, true or false" },
		{ "false", -EINVAL, "false allows no value" },
		{ "{\"type\":\"strin\"}", -EINVAL, "no type strin" },
		{ "{\"type\":[]}", -EINVAL, "type is an empty array" },
		{ "{\"not\":{}}", -ENOTSUP, "not is not supported" },
		{ "{\"properties\":{\"a\":{\"multipleOf\":2}}}", -ENOTSUP,
		  "at /properties/a: multipleOf is not supported" },
		{ "{\"items\":[{}]}", -ENOTSUP, "items as an array" },
		{ "{\"uniqueItems\":true,\"items\":{}}", -ENOTSUP, "uniqueItems" },
		{ "{\"$ref\":\"http://x\"}", -ENOTSUP, "$ref is supported to places" },
		{ "{\"$ref\":\"#/x\"}", -EINVAL, "$ref to #/x, which is not there" },
		{ "{\"anyOf\":[]}", -EINVAL, "anyOf is no array of schemas" },
		{ "{\"enum\":[]}", -EINVAL, "enum is no array" },
		{ "{\"anyOf\":[{}],\"properties\":{}}", -ENOTSUP,
		  "properties is not supported here" },
		{ "{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", -EINVAL,
		  "allOf with types that no value has all of" },
		{ "{\"allOf\":[{\"type\":\"string\"},{\"type\":\"strin\"}]}", -EINVAL,
		  "no type strin" },
		{ "{\"allOf\":[{\"enum\":[1,[2]]},{\"enum\":[2,[1]]}]}", -EINVAL,
		  "allOf with enums that have no value in common" },
		{ "{\"allOf\":[{\"enum\":[1]},{\"enum\":5}]}", -EINVAL, "enum is no array" },
		{ "{\"allOf\":[{\"enum\":5},{\"enum\":[1]}]}", -EINVAL, "enum is no array" },
		{ "{\"const\":1,\"enum\":[2]}", -EINVAL, "const is not in enum" },
		{ "{\"const\":1,\"enum\":5}", -EINVAL, "enum is no array" },
		{ "{\"allOf\":[{\"const\":9007199254740993},{\"const\":9007199254740992.0}]}",
		  -EINVAL, "two different values of const" },
		{ "{\"allOf\":[{\"minLength\":1},{\"minLength\":2}]}", -ENOTSUP,
		  "two different values of minLength" },
		{ "{\"allOf\":[{\"properties\":5},{\"properties\":{\"a\":{}}}]}", -ENOTSUP,
		  "two different values of properties" },
		{ "{\"allOf\":[{\"properties\":{\"title\":{\"type\":\"string\"}}},"
		  "{\"properties\":{\"title\":{\"type\":\"null\"}}}]}",
		  -ENOTSUP, "two different schemas of property title" },
		{ "{\"allOf\":5}", -EINVAL, "allOf is no array" },
		{ "{\"allOf\":[{\"allOf\":{}}]}", -EINVAL, "allOf is no array" },
		{ "{\"allOf\":[{\"$ref\":\"#\"}]}", -EINVAL, "allOf of what" },
		{ "{\"minLength\":3,\"maxLength\":2}", -EINVAL,
		  "minLength is more than maxLength" },
		{ "{\"minLength\":-1}", -EINVAL, "minLength is not a whole number" },
		{ "{\"minLength\":1,\"pattern\":\"^$\"}", -ENOTSUP, "only one of pattern" },
		{ "{\"minItems\":3,\"maxItems\":2}", -EINVAL, "no array has so many" },
		{ "{\"format\":\"email\"}", -ENOTSUP, "format email is not supported" },
		{ "{\"minimum\":0.5,\"type\":\"number\"}", -ENOTSUP, "a minimum other than 0" },
		{ "{\"maximum\":5,\"type\":\"number\"}", -ENOTSUP, "maximum is only supported" },
		{ "{\"minimum\":5,\"maximum\":4,\"type\":\"integer\"}", -EINVAL,
		  "no integer is from 5 to 4" },
		{ "{\"minimum\":0.5,\"type\":\"integer\"}", -ENOTSUP, "minimum is not a whole" },
		{ "{\"exclusiveMinimum\":9223372036854775807,\"type\":\"integer\"}", -ENOTSUP,
		  "exclusiveMinimum is not a whole" },
		{ "{\"exclusiveMaximum\":-9223372036854775808,\"type\":\"integer\"}", -ENOTSUP,
		  "exclusiveMaximum is not a whole" },
		{ "{\"pattern\":\"a\"}", -ENOTSUP, "from ^ to $" },
		{ "{\"pattern\":\"^a\"}", -ENOTSUP, "from ^ to $" },
		{ "{\"pattern\":\"^a|b$\"}", -ENOTSUP, "alternatives are supported in groups" },
		{ "{\"pattern\":\"^(a$\"}", -ENOTSUP, "a ( without its )" },
		{ "{\"pattern\":\"^a)$\"}", -ENOTSUP, "a ) without its (" },
		{ "{\"pattern\":\"^(?=a)$\"}", -ENOTSUP, "kind of group" },
		{ "{\"pattern\":\"^\\\\b$\"}", -ENOTSUP, "this escape" },
		{ "{\"pattern\":\"^[a$\"}", -ENOTSUP, "a class without ]" },
		{ "{\"pattern\":\"^a{$\"}", -ENOTSUP, "a repetition is {m}" },
		{ "{\"pattern\":\"^a{1,2,3}$\"}", -ENOTSUP, "a repetition is {m}" },
		{ "{\"pattern\":\"^a{3,2}$\"}", -ENOTSUP, "n is less than its m" },
		{ "{\"pattern\":\"^a{10001}$\"}", -ENOTSUP, "more repetitions" },
		{ "{\"pattern\":\"^a{99999999999999999999,}$\"}", -ENOTSUP, "more repetitions" },
		{ "{\"$ref\":\"#\"}", -EINVAL, "a $ref that leads to itself" },
		{ "{\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/a\"}},"
		  "\"properties\":{\"c\":{\"$ref\":\"#/$defs/a\"}}}",
		  -EINVAL, "at /properties/c: a $ref that leads to itself" },
		{ "{\"pattern\":\"^[b-a]$\"}", -ENOTSUP, "ends before it begins" },
		{ "{\"properties\":{},\"required\":[\"a\"],\"additionalProperties\":false}",
		  -EINVAL, "a is required, but neither" },
		{ "{\"required\":5}", -EINVAL, "required is no array" },
		{ "{\"required\":[5]}", -EINVAL, "required is no text" },
		{ "{\"const\":1,\"type\":\"string\"}", -EINVAL, "const is not of the type" },
		{ "{\"allOf\":[{\"const\":1},{\"type\":\"string\"}]}", -EINVAL,
		  "const is not of the type" },
		{ "{\"allOf\":[{\"const\":null},{\"const\":1}]}", -EINVAL,
		  "two different values of const" },
		{ "{\"enum\":[1],\"type\":\"string\"}", -EINVAL,
		  "no value of enum is of the type" },
		{ "{\"enum\":[1],\"type\":\"strin\"}", -EINVAL, "no type strin" },
		{ "{\"anyOf\":[{\"type\":\"null\"}],\"type\":\"string\"}", -EINVAL,
		  "no alternative of anyOf is of the type" },
		{ "{\"anyOf\":[5],\"type\":\"string\"}", -EINVAL, "at /anyOf/0: a schema is an" },
		{ "{\"const\":123456789012345678901234567890}", -ENOTSUP,
		  "integers are supported between -2^63 and 2^63" },
		{ "{\"enum\":[[9223372036854775808]]}", -ENOTSUP,
		  "integers are supported between" },
		{ "{\"const\":-123456789012345678901234567890}", -ENOTSUP,
		  "integers are supported between" },
		{ "{\"const\":NaN}", -EINVAL, "a number that JSON does not have" },
		{ "{\"properties\":{\"a\\u0000b\":{}}}", -EINVAL, "a name has a NUL" },
		{ "{\"const\":{\"\\\\\\u0000\" :1}}", -EINVAL, "a name has a NUL" },
		{ "{\"required\":[\"a\\u0000b\"]}", -EINVAL, "required has a NUL" },
		{ "{\"pattern\":\"^a$\\u0000\"}", -EINVAL, "pattern has a NUL" },
		{ "{\"pattern\":5}", -EINVAL, "pattern is no text" },
		{ "{\"type\":null}", -EINVAL, "type is null" },
		{ "{\"type\":[null]}", -EINVAL, "type is no text" },
		{ "{\"items\":null}", -EINVAL, "items is null" },
		{ "{\"properties\":{\"a\":null}}", -EINVAL, "property a is null" },
		{ "{\"minimum\":\"abc\",\"type\":\"number\"}", -EINVAL, "minimum is no number" },
		{ "{\"pattern\":\"^\\\\x+4$\"}", -ENOTSUP, "no hexadecimal number" },
		{ "{\"pattern\":\"^\\\\u 041$\"}", -ENOTSUP, "no hexadecimal number" },
		{ "{\"$ref\":\"#/%4\"}", -EINVAL, "$ref with a % without its two digits" },
		{ "{\"$ref\":\"#/%00\"}", -EINVAL, "$ref with a % without its two digits" },
		{ "{\"allOf\":[{\"properties\":{\"a\":{}},\"additionalProperties\":false},"
		  "{\"properties\":{\"b\":{}}}]}",
		  -ENOTSUP, "additionalProperties beside a schema with the property b" },
		{ "{\"allOf\":[{\"properties\":{\"b\":{}}}],\"additionalProperties\":{}}", -ENOTSUP,
		  "additionalProperties beside a schema with the property b" },
	};
	char *text;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int err = json_schema_to_grammar(bad[i].schema, &text);

		if (err != bad[i].err || !strstr(llm_error(), bad[i].error))
			fail_msg("%d, '%s' for %s", err, llm_error(), bad[i].schema);
		assert_null(text);
	}
}

static void test_schemas_that_double_at_each_step_are_refused(void **state)
{
	char schema[64 * 64] = "{\"allOf\":[{\"$ref\":\"#/$defs/d0\"}],\"$defs\":{", step[64],
			 *text;

	for (int i = 0; i < 40; i++) {
		snprintf(step, sizeof(step), "\"d%d\":{\"allOf\":[{\"$ref\":\"#/$defs/d%d\"},", i,
			 i + 1);
		strcat(schema, step);
		snprintf(step, sizeof(step), "{\"$ref\":\"#/$defs/d%d\"}]},", i + 1);
		strcat(schema, step);
	}
	strcat(schema, "\"d40\":{}}}");
	assert_int_equal(json_schema_to_grammar(schema, &text), -EINVAL);
	assert_non_null(strstr(llm_error(), "more than 10000 schemas in allOf"));
}

/* A schema that allows others beside a property of a name of @bytes. */
static int name_beside_others(size_t bytes, char **text)
{
	const char *before = "{\"properties\":{\"",
		   *behind = "\":{}},\"additionalProperties\":true}";
	size_t at = strlen(before);
	char *schema = malloc(at + bytes + strlen(behind) + 1);
	int err;

	assert_non_null(schema);
	strcpy(schema, before);
	memset(schema + at, 'a', bytes);
	strcpy(schema + at + bytes, behind);
	err = json_schema_to_grammar(schema, text);
	free(schema);
	return err;
}

static void test_long_names_beside_others_are_refused(void **state)
{
	struct grammar *g;
	char *text;

	assert_int_equal(name_beside_others(190, &text), 0);
	assert_int_equal(grammar_parse(text, &g), 0);
	grammar_free(g);
	free(text);
	/* More than a stack has room for. */
	assert_int_equal(name_beside_others(1 << 20, &text), -ENOTSUP);
	assert_non_null(strstr(llm_error(), "more than 190 characters"));
	assert_int_equal(name_beside_others(191, &text), -ENOTSUP);
}

/* ---- random ranges ---- */

/* Of random magnitude. */
static int64_t some_number(void)
{
	int64_t n = (int64_t)(next() >> (4 + next() % 60)) % 1000000000000000000;

	return next() % 2 ? n : -n;
}

static void test_integers_of_a_range_fit_it(void **state)
{
	char schema[128], number[32];

	for (int i = 0; i < 300; i++) {
		int64_t a = some_number(),
			b = next() % 3 ? some_number() : a + (int64_t)(next() % 50);
		int64_t from = a < b ? a : b, to = a < b ? b : a;
		struct grammar *g;

		snprintf(schema, sizeof(schema),
			 "{\"type\":\"integer\",\"minimum\":%" PRId64 ",\"maximum\":%" PRId64 "}",
			 from, to);
		g = make(schema);
		for (int j = 0; j < 60; j++) {
			int64_t near = (int64_t)(next() % 5) - 2,
				n = j % 3 ? (j % 2 ? from : to) + near : some_number();

			if (n > 999999999999999999 || n < -999999999999999999)
				continue;
			snprintf(number, sizeof(number), "%" PRId64, n);
			if (fits(g, number) != (n >= from && n <= to))
				fail_msg("%s in %s", number, schema);
		}
		assert_false(fits(g, "-0"));
		assert_false(fits(g, "007"));
		grammar_free(g);
	}
	check("{\"type\":\"integer\",\"exclusiveMinimum\":3,\"exclusiveMaximum\":6}",
	      VALUES("4", "5"), VALUES("3", "6"));
	check("{\"type\":\"integer\",\"minimum\":8}", VALUES("8", "10", "99999"),
	      VALUES("7", "-8"));
}

static void test_mutilated_schemas_do_no_harm(void **state)
{
	static const char good[] =
		"{\"properties\":{\"a\":{\"pattern\":\"^(a|[b-d]){2,3}$\"},\"b\":{\"minimum\":-12,"
		"\"maximum\":345,\"type\":\"integer\"}},\"required\":[\"b\"],\"allOf\":[{\"items\":"
		"{\"$ref\":\"#\"}}],\"additionalProperties\":{\"enum\":[1,\"x\"]}}";
	char schema[sizeof(good)], *text;
	struct grammar *g;

	for (int i = 0; i < 20000; i++) {
		memcpy(schema, good, sizeof(schema));
		for (uint64_t n = 1 + next() % 3; n; n--)
			schema[next() % (sizeof(schema) - 1)] =
				next() % 4 ? good[next() % sizeof(good)] : (char)next();
		if (json_schema_to_grammar(schema, &text))
			continue;
		if (!grammar_parse(text, &g))
			grammar_free(g);
		free(text);
	}
}

/* ---- texts are JSON ---- */

/* Writes random characters that the state allows, until it can end and none is wanted. */
static void write_text(const struct grammar *g, char *text, size_t room)
{
	struct states s;
	uint32_t state;
	size_t n = 0;

	assert_int_equal(states_init(&s, g), 0);
	state = s.start;
	while (n + 1 < room && !(states_can_end(&s, state) && next() % 4 == 0)) {
		uint8_t byte =
			next() % 3 ? (uint8_t) "{}[]\":,\\ 0a"[next() % 11] : (uint8_t)next();
		int32_t to = states_next(&s, state, byte);

		if (to > STATE_NONE) {
			text[n++] = (char)byte;
			state = (uint32_t)to;
		} else if (states_can_end(&s, state) && next() % 64 == 0) {
			break;
		}
	}
	text[states_can_end(&s, state) ? n : 0] = 0;
	states_fini(&s);
}

static void test_texts_of_schemas_are_json(void **state)
{
	static const char *const schemas[] = {
		"{}",
		"{\"type\":\"object\"}",
		"{\"items\":{\"type\":\"string\"},\"maxItems\":3}",
		"{\"properties\":{\"a\":{\"pattern\":\"^[\\\"\\\\\\\\\\\\w]{0,9}$\"},\"b\":{}},"
		"\"additionalProperties\":true}",
	};
	static char text[400];
	int used = 0;

	for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
		struct grammar *g = make(schemas[i]);

		for (int j = 0; j < 300; j++) {
			struct json_object *parsed;
			enum json_tokener_error error;

			write_text(g, text, sizeof(text));
			if (!*text)
				continue;
			used++;
			parsed = json_tokener_parse_verbose(text, &error);
			if (error != json_tokener_success)
				fail_msg("%s: %s", json_tokener_error_desc(error), text);
			json_object_put(parsed);
		}
		grammar_free(g);
	}
	print_message("%d texts\n", used);
	assert_true(used > 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_value),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_objects),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_patterns_with_control_characters),
		cmocka_unit_test(test_alternatives_and_references),
		cmocka_unit_test(test_types_beside_values_and_alternatives),
		cmocka_unit_test(test_numbers_and_strings_of_values_stay),
		cmocka_unit_test(test_references_are_decoded),
		cmocka_unit_test(test_what_is_not_supported_is_named),
		cmocka_unit_test(test_schemas_that_double_at_each_step_are_refused),
		cmocka_unit_test(test_long_names_beside_others_are_refused),
		cmocka_unit_test(test_integers_of_a_range_fit_it),
		cmocka_unit_test(test_mutilated_schemas_do_no_harm),
		cmocka_unit_test(test_texts_of_schemas_are_json),
	};
	const char *given = getenv("TEST_SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	print_message("TEST_SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
