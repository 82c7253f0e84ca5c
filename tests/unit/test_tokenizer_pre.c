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
#include "tokenizer_nfc.h"
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

/* The text, or with form C what has the same ids as the text, and in form C again itself. */
static void assert_comes_back(size_t p, const uint8_t *text, size_t bytes)
{
	const struct tokenizer *tok = pre[p].f.tok;
	int32_t *ids, *again;
	long n, n_again, n_back;
	char *back;

	if (!pre_find(pre[p].name, strlen(pre[p].name))->nfc) {
		assert_lossless(tok, text, bytes);
		return;
	}
	ids = encode(tok, text, bytes, 0, &n);
	back = malloc(3 * bytes + 1);
	assert_non_null(back);
	n_back = tokenizer_decode(tok, ids, n, back, 3 * bytes + 1);
	assert_in_range(n_back, 0, 3 * bytes);
	again = encode(tok, back, n_back, 0, &n_again);
	assert_int_equal(n, n_again);
	assert_memory_equal(ids, again, n * sizeof(*ids));
	assert_lossless(tok, back, n_back);
	free(ids);
	free(again);
	free(back);
}

static void any_bytes_come_back(void **state)
{
	uint64_t seed = test_seed();
	uint8_t text[700];

	for (int round = 0; round < 300; round++) {
		size_t n = random_bytes(text, sizeof(text), &seed);

		for (size_t p = 0; p < n_pre; p++)
			assert_comes_back(p, text, n);
	}
}

static void texts_become_form_c(void **state)
{
	static const char *const cases[][2] = {
		{ "e\u0301 caf\u00e9", "\u00e9 caf\u00e9" },
		{ "\u212b\u2126", "\u00c5\u03a9" },
		/* A character that form C takes apart, Hangul, and marks out of their order */
		{ "\u0958", "\u0915\u093c" },
		{ "\u1112\u1161\u11ab", "\ud55c" },
		{ "q\u0307\u0323", "q\u0323\u0307" },
		{ "\u4e2d\u6587 \U0001f600\uffff", NULL },
		{ "a\u0300", "\u00e0" },
		{ "Plain text.", NULL },
		{ "", NULL },
	};
	uint8_t *out;
	size_t n;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *want = cases[i][1] ? cases[i][1] : cases[i][0];

		assert_int_equal(
			nfc_normalise((const uint8_t *)cases[i][0], strlen(cases[i][0]), &out, &n),
			0);
		if (cases[i][1])
			assert_non_null(out);
		if (out) {
			assert_int_equal(n, strlen(want));
			assert_memory_equal(out, want, n);
		}
		free(out);
	}
}

static void runs_of_too_many_marks_are_left_alone(void **state)
{
	uint8_t text[2 * (NFC_MAX_MARKS + 1) + 1];
	uint8_t *out;
	size_t n;

	text[0] = 'e';
	for (size_t i = 1; i < sizeof(text); i += 2)
		memcpy(text + i, i % 4 == 1 ? "\u0301" : "\u0323", 2);
	assert_int_equal(nfc_normalise(text, sizeof(text) - 2, &out, &n), 0);
	assert_non_null(out);
	/* U+1EB9: the first dot below joins the letter. */
	assert_memory_equal(out, "\u1eb9\u0323", 5);
	free(out);
	assert_int_equal(nfc_normalise(text, sizeof(text), &out, &n), 0);
	assert_null(out);
}

/* With a quadratic step, 2^32 for each of these texts, they would not come back in time; with
 * libpcre2's stack of 32 KiB some would not match. */
static void long_texts_without_a_break_take_no_quadratic_time(void **state)
{
	static const char *const fillings[] = { "a",	  "A",	     "aB",     " ",  "\n", " \n",
						"1",	  "1\u00b2", "\u4e2d", "=",  "'s", "a ",
						"\u0301", "a\u0301", "\u3042", "\t " };
	static const char *const ends[] = { "", "x", "\u4e2d", "1", "_" };
	const size_t bytes = 1 << 16;
	char *text = malloc(bytes + 8);

	assert_non_null(text);
	for (size_t i = 0; i < sizeof(fillings) / sizeof(fillings[0]); i++) {
		const char *end = ends[i % (sizeof(ends) / sizeof(ends[0]))];
		size_t n, of = strlen(fillings[i]);

		for (n = 0; n < bytes - of; n += of)
			memcpy(text + n, fillings[i], of);
		strcpy(text + n, end);
		for (size_t p = 0; p < n_pre; p++)
			assert_comes_back(p, (uint8_t *)text, n + strlen(end));
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_equal_those_of_perls_regular_expressions),
		cmocka_unit_test(every_name_is_known_once),
		cmocka_unit_test(texts_become_form_c),
		cmocka_unit_test(runs_of_too_many_marks_are_left_alone),
		cmocka_unit_test(any_bytes_come_back),
		cmocka_unit_test(long_texts_without_a_break_take_no_quadratic_time),
	};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
