// SPDX-License-Identifier: MIT
/*
 * The tools' shared code: lists of numbers, lists of token ids, files.
 *
 * The sources are compiled into this test, with a fake engine whose texts
 * have three tokens per byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "tools/common/progress.c"
#include "tools/common/range.c"
#include "tools/common/tokens.c"
#include "tools/common/tool.c"

const char tool_build_commit[] = "test";

const char *llm_error(void)
{
	return "unknown id";
}

long llm_tokenize(const struct llm_engine *engine, const char *text, size_t bytes,
		  unsigned int flags, int32_t *ids, size_t max)
{
	/* Three tokens per byte, more than a caller expects. */
	for (size_t i = 0; i < 3 * bytes && i < max; i++)
		ids[i] = (unsigned char)text[i / 3];
	return (long)(3 * bytes);
}

/* Discards the error messages, which are expected. */
static int silence(void **state)
{
	int fd = dup(STDERR_FILENO);

	*state = (void *)(intptr_t)fd;
	return freopen("/dev/null", "w", stderr) ? 0 : -1;
}

static int speak(void **state)
{
	int fd = (int)(intptr_t)*state;

	fflush(stderr);
	dup2(fd, STDERR_FILENO);
	close(fd);
	return 0;
}

static void check_range(const char *s, const unsigned int *want, size_t n)
{
	struct range r = { 0 };

	assert_int_equal(range_parse(&r, "-p", s, 0, 100000), 0);
	assert_int_equal(r.n, n);
	assert_memory_equal(r.v, want, n * sizeof(*want));
	range_free(&r);
}

static void ranges_give_the_numbers_they_name(void **state)
{
	check_range("7", (const unsigned int[]){ 7 }, 1);
	check_range("64,256,0", (const unsigned int[]){ 64, 256, 0 }, 3);
	check_range("3-6", (const unsigned int[]){ 3, 4, 5, 6 }, 4);
	check_range("5-5", (const unsigned int[]){ 5 }, 1);
	check_range("1-8+3", (const unsigned int[]){ 1, 4, 7 }, 3);
	check_range("1-64*4,2", (const unsigned int[]){ 1, 4, 16, 64, 2 }, 5);
	check_range("3-100000*100000", (const unsigned int[]){ 3 }, 1);
}

static void ranges_with_random_steps_match_a_loop(void **state)
{
	unsigned int seed = (unsigned int)time(NULL);

	print_message("seed %u\n", seed);
	srand(seed);
	for (int round = 0; round < 500; round++) {
		unsigned int a = (unsigned int)rand() % 50 + 1, b = a + (unsigned int)rand() % 500;
		unsigned int by = (unsigned int)rand() % 9 + 2, want[512];
		bool factor = rand() % 2;
		char s[64];
		size_t n = 0;

		for (unsigned int v = a; v <= b; v = factor ? v * by : v + by)
			want[n++] = v;
		snprintf(s, sizeof(s), "%u-%u%c%u", a, b, factor ? '*' : '+', by);
		check_range(s, want, n);
	}
}

static void invalid_ranges_are_bad_usage(void **state)
{
	static const char *const bad[] = {
		"",	 "-",	  "x",	   "1,",     ",1",	     "1-",
		"4-2",	 "1-4+",  "1-4+0", "1-4*",   "1-4*1",	     "0-4*2",
		"1-4*0", "1-4-6", "1 ,2",  "1-4+2x", "4294967296",   "99999999999999999999",
		"1;2",	 "+1",	  "-1",	   "0x10",   "1-4294967295", "101",
		"1-101",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct range r = { 0 };

		assert_int_equal(range_parse(&r, "-p", bad[i], 0, 100), 2);
		range_free(&r);
	}
}

static void a_range_of_too_many_values_is_bad_usage(void **state)
{
	struct range r = { 0 };

	assert_int_equal(range_parse(&r, "-p", "1-1000000", 0, 1000000), 2);
	range_free(&r);
}

static int parse_ab(const void *ud, const char *word, unsigned int *value)
{
	const char *found = *word && !word[1] ? strchr(ud, *word) : NULL;

	if (!found)
		return tool_usage("'%s' is neither a nor b", word);
	*value = (unsigned int)(found - (const char *)ud);
	return 0;
}

static void lists_of_words_have_the_parsed_values(void **state)
{
	struct range r = { 0 };

	assert_int_equal(range_parse_words(&r, "b,a,b", parse_ab, "ab"), 0);
	assert_int_equal(r.n, 3);
	assert_memory_equal(r.v, ((const unsigned int[]){ 1, 0, 1 }), 3 * sizeof(*r.v));
	assert_int_equal(range_parse_words(&r, "c", parse_ab, "ab"), 2);
	assert_int_equal(range_parse_words(&r, "", parse_ab, "ab"), 2);
	assert_int_equal(r.n, 3);
	range_free(&r);
}

static void token_lists_take_commas_and_spaces(void **state)
{
	struct token_list list;

	assert_int_equal(tokens_from_list("--tokens", "1,2 ,  3 4,2147483647", &list), 0);
	assert_int_equal(list.n, 5);
	assert_memory_equal(list.ids, ((const int32_t[]){ 1, 2, 3, 4, INT32_MAX }),
			    5 * sizeof(int32_t));
	free(list.ids);
}

static void token_lists_refuse_invalid_ids(void **state)
{
	static const char *const bad[] = { "",	 ",", "1,", ",1",	  "1,,2",
					   "-1", "x", "1x", "2147483648", "1;2" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct token_list list;

		assert_int_equal(tokens_from_list("--tokens", bad[i], &list), 2);
	}
}

static void texts_of_more_tokens_than_bytes_are_complete(void **state)
{
	char text[100];
	struct token_list list = { 0 };

	memset(text, 'a', sizeof(text));
	assert_int_equal(tokens_from_text(NULL, text, sizeof(text), 0, &list), 0);
	assert_int_equal(list.n, 300);
	assert_int_equal(list.ids[299], 'a');
	free(list.ids);
}

static void the_hash_is_of_little_endian_integers(void **state)
{
	char hex[TOKENS_SHA256_CHARS + 1];

	tokens_sha256(NULL, 0, hex);
	assert_string_equal(hex,
			    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	/* "abcd" as one integer */
	tokens_sha256((const int32_t[]){ 0x64636261 }, 1, hex);
	assert_string_equal(hex,
			    "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589");
}

static void numbers_outside_their_limits_are_bad_usage(void **state)
{
	unsigned int u;
	float f;

	assert_int_equal(tool_parse_uint("-t", "8", 1, 8, &u), 0);
	assert_int_equal(u, 8);
	assert_int_equal(tool_parse_uint("-t", "9", 1, 8, &u), 2);
	assert_int_equal(tool_parse_uint("-t", " 3", 1, 8, &u), 2);
	assert_int_equal(tool_parse_float("--temp", "0.25", 0, 1, &f), 0);
	assert_true(f == 0.25f);
	assert_int_equal(tool_parse_float("--temp", "nan", 0, 1, &f), 2);
	assert_int_equal(tool_parse_float("--temp", "inf", 0, 1, &f), 2);
	assert_int_equal(tool_parse_float("--temp", "1.5", 0, 1, &f), 2);
	assert_int_equal(tool_parse_float("--temp", "", 0, 1, &f), 2);
}

static void a_file_is_read_whole(void **state)
{
	char path[] = "/tmp/test_tools-XXXXXX", *text;
	int fd = mkstemp(path);
	size_t bytes, n = 200001;
	char *want = malloc(n);

	assert_true(fd >= 0 && want);
	for (size_t i = 0; i < n; i++)
		want[i] = (char)(i * 31);
	assert_int_equal(write(fd, want, n), n);
	close(fd);
	text = tool_read_file(path, &bytes);
	unlink(path);
	assert_non_null(text);
	assert_int_equal(bytes, n);
	assert_memory_equal(text, want, n);
	assert_int_equal(text[n], 0);
	free(text);
	free(want);
	assert_null(tool_read_file(path, &bytes));
	assert_null(tool_read_file("/tmp", &bytes));
}

int main(void)
{
#define QUIET(f) cmocka_unit_test_setup_teardown(f, silence, speak)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_give_the_numbers_they_name),
		cmocka_unit_test(ranges_with_random_steps_match_a_loop),
		QUIET(invalid_ranges_are_bad_usage),
		QUIET(a_range_of_too_many_values_is_bad_usage),
		QUIET(lists_of_words_have_the_parsed_values),
		cmocka_unit_test(token_lists_take_commas_and_spaces),
		QUIET(token_lists_refuse_invalid_ids),
		cmocka_unit_test(texts_of_more_tokens_than_bytes_are_complete),
		cmocka_unit_test(the_hash_is_of_little_endian_integers),
		QUIET(numbers_outside_their_limits_are_bad_usage),
		QUIET(a_file_is_read_whole),
	};

	tool_name = "test_tools";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
