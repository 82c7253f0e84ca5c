// SPDX-License-Identifier: MIT
/*
 * JSON schemas as grammars while memory runs out: each allocation fails once, those of json-c and
 * of the C library's streams too. The sanitizers have allocators of their own, so nothing fails
 * with them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "json_schema.h"
#include "llm.h"

static unsigned long n_allocations, fails_at; /* 0: none */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_FAIL true
/* For the calls of shared libraries too */
#define SHARED __attribute__((visibility("default")))

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static bool fails(void)
{
	if (++n_allocations != fails_at)
		return false;
	errno = ENOMEM;
	return true;
}

SHARED void *malloc(size_t bytes)
{
	return fails() ? NULL : __libc_malloc(bytes);
}

SHARED void *calloc(size_t n, size_t bytes)
{
	return fails() ? NULL : __libc_calloc(n, bytes);
}

SHARED void *realloc(void *old, size_t bytes)
{
	return fails() ? NULL : __libc_realloc(old, bytes);
}
#else
#define CAN_FAIL false
#endif

/* With each allocation failed in turn: the same grammar, or -ENOMEM. */
static void check(const char *schema)
{
	char *whole, *text;
	unsigned long n;

	n_allocations = fails_at = 0;
	assert_int_equal(json_schema_to_grammar(schema, &whole), 0);
	n = n_allocations;
	assert_true(n > 20 || !CAN_FAIL);
	for (unsigned long i = 1; i <= n; i++) {
		int err;

		n_allocations = 0;
		fails_at = i;
		err = json_schema_to_grammar(schema, &text);
		fails_at = 0;
		if (err != -ENOMEM && (err || strcmp(text, whole)))
			fail_msg("allocation %lu of %lu: %d, %s, for %s", i, n, err,
				 err ? llm_error() : text, schema);
		assert_true(!err || !text);
		free(text);
	}
	print_message("%lu allocations failed\n", n);
	free(whole);
}

static void test_each_failed_allocation_is_noticed(void **state)
{
	check("{\"type\":\"integer\",\"minimum\":3,\"maximum\":7}");
	check("{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\","
	      "\"minimum\":3,\"maximum\":7},\"c\":{\"enum\":[\"x\",\"y\"]}},\"required\":[\"a\"]},"
	      "{\"$ref\":\"#/$defs/q\"}],\"$defs\":{\"q\":{\"properties\":{\"b\":{\"anyOf\":"
	      "[{\"type\":\"null\"},{\"pattern\":\"^[a-c]{2}$\"}]}},\"required\":[\"b\"]}}}");
	check("{\"allOf\":[{\"type\":[\"string\",\"number\"],\"enum\":[1,\"a text that is "
	      "longer than forty bytes\",null]},{\"type\":[\"null\",\"string\"],\"enum\":"
	      "[\"a text that is longer than forty bytes\",[]]}]}");
	check("{\"type\":[\"string\",\"integer\"],\"oneOf\":[{\"minLength\":3},{\"type\":"
	      "[\"number\",\"null\"]},{\"const\":\"a text that is longer than forty bytes\"}]}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_failed_allocation_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
