// SPDX-License-Identifier: MIT
/*
 * All pre-tokenizers: ids compared with those of another engine of regular expressions, and with a
 * vocabulary that shows where words are cut (see tests/data/tokens).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "tools/llm-vocab/json.c"
#include "tokenizer_fixture.h"
#include "tokenizer_pre.h"

#define WORDS "tests/data/tokens/words.json"
#define MAX_PRE 64

static struct json_object *texts_file, *words, *want;
/* One vocabulary for each pre-tokenizer, by its first name. */
static struct {
	const char *name;
	struct fixture f;
} pre[MAX_PRE];
static size_t n_pre;

static struct fixture convert_words(const char *name)
{
	struct vocab_options opts = { .pre = name };
	char path[] = "/tmp/test_tokenizer.XXXXXX", err[512];
	int fd = mkstemp(path);
	struct fixture f;

	assert_true(fd >= 0);
	close(fd);
	if (vocab_convert(WORDS, path, &opts, err, sizeof(err)))
		fail_msg("%s", err);
	f = fixture_open(path);
	unlink(path);
	return f;
}

static int open_all(void **state)
{
	const char *name;

	texts_file = json_object_from_file("tests/data/tokens/texts.json");
	words = json_object_from_file(WORDS);
	want = json_object_from_file("tests/data/tokens/pre.json");
	if (!texts_file || !words || !want) {
		print_error("tests/data/tokens cannot be read; run the tests in the root of the "
			    "source tree\n");
		return -1;
	}
	for (size_t i = 0; (name = pre_name(i)); i++) {
		if (pre_find(name, strlen(name))->names[0] != name)
			continue;
		assert_true(n_pre < MAX_PRE);
		pre[n_pre].name = name;
		pre[n_pre++].f = convert_words(name);
	}
	return 0;
}

static int close_all(void **state)
{
	json_object_put(texts_file);
	json_object_put(words);
	json_object_put(want);
	for (size_t i = 0; i < n_pre; i++)
		fixture_close(&pre[i].f);
	return 0;
}

/* Compares with 16 bits of each text's hash. Returns the number of texts. */
static size_t assert_hashes(size_t p, struct json_object *texts, const char *hashes)
{
	size_t n = json_object_array_length(texts);

	for (size_t i = 0; i < n; i++) {
		struct json_object *text = json_object_array_get_idx(texts, i);
		long n_ids;
		int32_t *ids = encode(pre[p].f.tok, json_object_get_string(text),
				      json_object_get_string_len(text), 0, &n_ids);
		uint64_t h = hash_ids(ids, n_ids);
		char hex[5];

		h ^= h >> 16 ^ h >> 32 ^ h >> 48;
		snprintf(hex, sizeof(hex), "%04x", (unsigned int)(h & 0xffff));
		if (memcmp(hex, hashes + 4 * i, 4))
			fail_msg("%s cuts %s otherwise", pre[p].name,
				 json_object_to_json_string(text));
		free(ids);
	}
	return n;
}

static void ids_equal_those_of_perls_regular_expressions(void **state)
{
	struct json_object *ids = json_object_object_get(want, "ids");

	assert_int_equal(json_object_object_length(ids), n_pre);
	for (size_t p = 0; p < n_pre; p++) {
		const char *hashes =
			json_object_get_string(json_object_object_get(ids, pre[p].name));
		size_t n;

		if (!hashes)
			fail_msg("no ids of %s", pre[p].name);
		n = assert_hashes(p, json_object_object_get(texts_file, "texts"), hashes);
		n += assert_hashes(p, json_object_object_get(words, "texts"), hashes + 4 * n);
		assert_int_equal(strlen(hashes), 4 * n);
	}
}

static void every_name_is_known_once(void **state)
{
	const char *name;
	size_t i, j;

	for (i = 0; (name = pre_name(i)); i++) {
		assert_true(tokenizer_knows_pre(name));
		for (j = 0; j < i; j++)
			assert_string_not_equal(pre_name(j), name);
	}
	assert_true(i > 80);
	assert_null(pre_find("gpt", 3));
	assert_null(pre_find("gpt-22", 6));
	assert_null(pre_find("", 0));
}

static void any_bytes_come_back(void **state)
{
	uint64_t seed = test_seed();
	uint8_t text[700];

	for (int round = 0; round < 600; round++) {
		size_t n = random_bytes(text, sizeof(text), &seed);

		for (size_t p = 0; p < n_pre; p++)
			assert_lossless(pre[p].f.tok, text, n);
	}
}

/* With a quadratic step, or with a limit of libpcre2, these texts would not come back in time. */
static void long_texts_without_a_break_take_no_quadratic_time(void **state)
{
	static const char *const fillings[] = { "a",	  "A",	     "aB",     " ",  "\n", " \n",
						"1",	  "1\u00b2", "\u4e2d", "=",  "'s", "a ",
						"\u0301", "a\u0301", "\u3042", "\t " };
	static const char *const ends[] = { "", "x", "\u4e2d", "1", "_" };
	const size_t bytes = 1 << 18;
	char *text = malloc(bytes + 8);

	assert_non_null(text);
	for (size_t i = 0; i < sizeof(fillings) / sizeof(fillings[0]); i++) {
		const char *end = ends[i % (sizeof(ends) / sizeof(ends[0]))];
		size_t n, of = strlen(fillings[i]);

		for (n = 0; n < bytes - of; n += of)
			memcpy(text + n, fillings[i], of);
		strcpy(text + n, end);
		for (size_t p = 0; p < n_pre; p++)
			assert_lossless(pre[p].f.tok, text, n + strlen(end));
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_equal_those_of_perls_regular_expressions),
		cmocka_unit_test(every_name_is_known_once),
		cmocka_unit_test(any_bytes_come_back),
		cmocka_unit_test(long_texts_without_a_break_take_no_quadratic_time),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
