// SPDX-License-Identifier: MIT
/* Grammars: what is a grammar, which texts are of it, and which tokens may follow. TEST_SEED=N
 * repeats a run. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "grammar.h"
#include "grammar_random.h"
#include "llm.h"
#include "matcher.h"
#include "pieces.h"
#include "states.h"
#include "trie.h"

static uint64_t seed;

static struct grammar *parse(const char *text)
{
	struct grammar *g;

	if (grammar_parse(text, &g))
		fail_msg("%s, in\n%s", llm_error(), text);
	return g;
}

/* ---- what is a grammar ---- */

/* Whether a text is a beginning of one of the grammar; *@whole: is one. */
static bool follows(const struct grammar *g, const char *text, size_t bytes, bool *whole)
{
	struct states s;
	int32_t state;

	assert_int_equal(states_init(&s, g), 0);
	state = (int32_t)s.start;
	for (size_t i = 0; i < bytes && state > 0; i++)
		state = states_next(&s, (uint32_t)state, (uint8_t)text[i]);
	assert_true(state >= 0);
	*whole = states_can_end(&s, (uint32_t)state);
	states_fini(&s);
	return state > 0;
}

static void check(const char *grammar, const char *const *yes, const char *const *no)
{
	struct grammar *g = parse(grammar);
	bool whole;

	for (; *yes; yes++)
		if (!follows(g, *yes, strlen(*yes), &whole) || !whole)
			fail_msg("'%s' is no text of %s", *yes, grammar);
	for (; *no; no++)
		if (follows(g, *no, strlen(*no), &whole) && whole)
			fail_msg("'%s' is a text of %s", *no, grammar);
	grammar_free(g);
}

#define TEXTS(...)                \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}

static void test_texts_of_grammars(void **state)
{
	check("root ::= \"a\" | \"b\" # comment\n", TEXTS("a", "b"), TEXTS("", "ab", "c"));
	check("# first\n\nroot ::=\n  x+ # of x\n\n\nx ::= [a-c_] | \"\\\"\"", TEXTS("a", "_\"b"),
	      TEXTS("", "d"));
	check("root ::= (\"ab\"\n \"c\")* |\n \"z\"\n | \"y\"", TEXTS("", "abcabc", "z", "y"),
	      TEXTS("ab", "zz"));
	check("root ::= \"ab\"{2}", TEXTS("abab"), TEXTS("ab", "ababab"));
	check("root ::= [0-9]{2,}", TEXTS("12", "12345"), TEXTS("1", "a"));
	check("root ::= [0-9]{,2}", TEXTS("", "1", "12"), TEXTS("123"));
	check("root ::= [0-9]{1,3} \"x\"?", TEXTS("1", "123x"), TEXTS("1234", "x"));
	check("root ::= [^\\n\\x41-\\u0043]", TEXTS("a", "\u20ac"), TEXTS("\n", "A", "C", "dd"));
	check("root ::= . .", TEXTS("\U0001f600\n", "ab"), TEXTS("a"));
	check("root ::= [\u00e0-\u00ff\\]-]+", TEXTS("\u00e9", "]-"), TEXTS("e", "\u0100"));
	check("root ::= a-1 \"\" a_2\na-1 ::= \"x\"\na_2 ::= \"y\"", TEXTS("xy"), TEXTS("x"));
	check("root ::= \"(\" root \")\" | \"\"", TEXTS("", "((()))"), TEXTS("(()", ")"));
	check("root ::= (\"a\"? \"b\"?)* \"c\"", TEXTS("c", "abbac"), TEXTS("ab"));
	check("root ::= (\"a\"*)* \"b\"", TEXTS("b", "aaab"), TEXTS("a"));
	check("root ::= (\"a\"?){0,3000} \"b\"", TEXTS("b", "aaab"), TEXTS("a"));
}

static void test_what_is_no_grammar_is_refused_with_its_place(void **state)
{
	static const struct {
		const char *grammar, *error;
	} bad[] = {
		{ "", "line 1, column 1: the grammar is empty" },
		{ " # nothing\n\n", "line 3, column 1: the grammar is empty" },
		{ "a ::= \"x\"", "there is no rule root" },
		{ "root ::= a\na ::= b", "line 2, column 7: there is no rule b" },
		{ "root ::= \"a", "line 1, column 10: the literal has no second \"" },
		{ "root ::= \"a\nb\"", "line 1, column 10: the literal has no second \"" },
		{ "root ::= [a-z", "line 1, column 10: the class has no ]" },
		{ "root ::= []", "line 1, column 10: the class has no characters" },
		{ "root ::= [^\\x00-\\U0010FFFF]", "column 10: the class has no characters" },
		{ "root ::= [z-a]", "column 11: the range ends before it begins" },
		{ "root ::= (\"a\"\n\n", "line 1, column 10: the group has no )" },
		{ "root ::= \"a\")", "column 13: neither an element" },
		{ "root ::= \"a\" }", "column 14: neither an element" },
		{ "root := \"a\"", "column 6: ::= is missing" },
		{ "root ::= \"a\"\n = b", "line 2, column 2: not a rule" },
		{ "root ::= \"\\q\"", "column 11: no such escape" },
		{ "root ::= \"\\u12\"", "column 11: \\u needs 2 more hexadecimal digits" },
		{ "root ::= \"\\uD800\"", "column 11: U+D800 is no character" },
		{ "root ::= \"\\U00110000\"", "column 11: U+110000 is no character" },
		{ "root ::= \"\xff\"", "column 11: bytes that are not UTF-8" },
		{ "root ::= \"a\"{2,1}", "column 13: at most 1 repetitions, but at least 2" },
		{ "root ::= \"a\"{x}", "column 14: a number is missing" },
		{ "root ::= \"a\"{2", "column 13: a repetition is" },
		{ "root ::= \"a\"{99999}", "column 14: at most 10000 repetitions" },
		{ "root ::= \"a\"\nroot ::= \"b\"",
		  "line 2, column 1: rule root is defined twice" },
		{ "root ::= root \"a\" | \"b\"", "rule root begins with itself (left recursion)" },
		{ "root ::= a\na ::= \"\"\n b \"x\"", "line 3" },
		{ "root ::= a\na ::= c? b | \"x\"\nb ::= a \"y\"\nc ::= \"z\"",
		  "begins with itself" },
		{ "root ::= a\na ::= a | \"x\"", "rule a begins with itself" },
		{ "root ::= \"a\" root", "rule root never ends" },
	};
	struct grammar *g;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (grammar_parse(bad[i].grammar, &g) != -EINVAL)
			fail_msg("a grammar: %s", bad[i].grammar);
		assert_null(g);
		if (!strstr(llm_error(), bad[i].error))
			fail_msg("'%s' for\n%s", llm_error(), bad[i].grammar);
	}
}

static void test_a_grammar_of_too_many_symbols_is_refused(void **state)
{
	char text[16 + 120 * 14] = "root ::=";
	struct grammar *g;

	/* At the first that is too much, before it takes memory. */
	for (int i = 0; i < 120; i++)
		strcat(text, " \"a\"{10000}");
	assert_int_equal(grammar_parse(text, &g), -EINVAL);
	assert_non_null(
		strstr(llm_error(), "column 1164: the grammar has more than 1048576 symbols"));
}

static void test_mutilated_grammars_do_no_harm(void **state)
{
	static const char good[] =
		"root ::= (\"a\\u20ac\" | [^b-z\\]]{1,3}) x* # c\nx ::= . \"y\"?\n";
	struct random_grammar random = { .state = seed };
	char text[sizeof(good)];
	struct grammar *g;

	for (int i = 0; i < 20000; i++) {
		memcpy(text, good, sizeof(text));
		for (unsigned int n = 1 + grammar_one_of(&random, 3); n; n--)
			text[grammar_one_of(&random, sizeof(text) - 1)] =
				grammar_one_of(&random, 3)
					? good[grammar_one_of(&random, sizeof(good))]
					: (char)grammar_one_of(&random, 256);
		if (!grammar_parse(text, &g))
			grammar_free(g);
	}
}

/* ---- texts of random grammars ---- */

#define MAX_LETTERS 9

static size_t spell(const struct matching *m, char *text)
{
	size_t bytes = 0;

	for (int i = 0; i < m->n; i++) {
		strcpy(text + bytes, letters[m->text[i]]);
		bytes += strlen(letters[m->text[i]]);
	}
	return bytes;
}

/* False if matching takes too long. */
static bool check_text(struct random_grammar *random, const struct grammar *g, const char *grammar)
{
	struct matching m = { .g = random };
	bool whole, expected_whole, expected;
	char text[8 * MAX_LETTERS];

	do {
		m.text[m.n++] = (int)grammar_one_of(random, NR_LETTERS);
		expected = match_text(&m, &expected_whole);
		if (m.steps > MAX_STEPS)
			return false;
		if (follows(g, text, spell(&m, text), &whole) != expected ||
		    whole != expected_whole)
			fail_msg("TEST_SEED=%llu: '%s' is%s the beginning of a text, is%s "
				 "one, of\n%s",
				 (unsigned long long)seed, text, expected ? "" : " not",
				 expected_whole ? "" : " not", grammar);
	} while (m.n < MAX_LETTERS && (expected || m.n == 1));
	return true;
}

static void test_texts_of_random_grammars_are_those_that_match(void **state)
{
	static struct random_grammar random;
	static char grammar[1 << 16];
	struct grammar *g;
	int used = 0, slow = 0;

	for (int i = 0; i < 6000; i++) {
		make_grammar(&random, seed + (uint64_t)i * 1000003);
		print_grammar(&random, grammar, sizeof(grammar));
		if (grammar_parse(grammar, &g)) {
			/* Left recursion and rules without an end are only found there. */
			assert_non_null(strstr(llm_error(), "rule "));
			continue;
		}
		used++;
		for (int j = 0; j < 20; j++)
			if (!check_text(&random, g, grammar)) {
				slow++;
				break;
			}
		grammar_free(g);
	}
	print_message("%d random grammars were used, %d of them in part\n", used, slow);
	assert_true(used > 500 && slow < used / 20);
}

/* ---- tokens ---- */

static const char *const words[] = {
	"",
	"</s>",
	"a",
	"b",
	"\"",
	"\xc3",
	"\xa9",
	"\u00e9",
	"\u20ac",
	"\xe2",
	"\x82\xac",
	"\xf0",
	"\x9f",
	"\x98\x80",
	"ab",
	"a\u20ac",
	"b\"",
	"a\xe2",
	"\xa9"
	"b",
	"\U0001f600",
	"ba\"",
	"c",
	"aaaa",
	"\xff",
	"\xc0\x80",
	"\x80",
	"\u00e9\u00e9",
	"bbb\u00e9a",
};
#define NR_WORDS (sizeof(words) / sizeof(words[0]))

static int word_text(const void *ud, int32_t id, char *buf, size_t max)
{
	size_t n = strlen(words[id]);

	memcpy(buf, words[id], n < max ? n : max);
	return (int)n;
}

static bool word_is_end(const void *ud, int32_t id)
{
	return id == 1;
}

struct vocabulary {
	struct pieces *pieces;
	struct trie *trie;
};

static struct vocabulary make_vocabulary(void)
{
	const struct pieces_source source = { NR_WORDS, word_text, word_is_end, NULL };
	struct vocabulary v;

	assert_int_equal(pieces_create(&source, &v.pieces), 0);
	assert_int_equal(trie_create(v.pieces, &v.trie), 0);
	return v;
}

static void free_vocabulary(struct vocabulary *v)
{
	trie_free(v->trie);
	pieces_free(v->pieces);
}

static struct matcher *make_matcher(const struct vocabulary *v, const char *grammar)
{
	struct matcher *m;

	assert_int_equal(matcher_create(parse(grammar), v->trie, &m), 0);
	return m;
}

/* The allowed tokens by a mask, each of them tried against the text so far. */
static unsigned int check_mask(struct matcher *m, const struct grammar *g, const char *text,
			       size_t bytes, uint8_t *allowed)
{
	float logits[NR_WORDS + 2] = { 0 }, masked[NR_WORDS + 2];
	unsigned int n = 0;
	char longer[512];
	bool whole;

	assert_int_equal(matcher_mask(m, logits, masked, NR_WORDS + 2), 0);
	assert_true(masked[NR_WORDS] == -INFINITY && masked[NR_WORDS + 1] == -INFINITY);
	for (int32_t id = 0; id < (int32_t)NR_WORDS; id++) {
		size_t word = strlen(words[id]);
		bool expected;

		memcpy(longer, text, bytes);
		memcpy(longer + bytes, words[id], word);
		expected = follows(g, longer, bytes + word, &whole) && word;
		if (id == 1) {
			follows(g, text, bytes, &whole);
			expected = whole;
		}
		assert_int_equal(matcher_allows(m, id), expected);
		assert_int_equal(masked[id] == 0, expected);
		allowed[n] = (uint8_t)id;
		n += expected && id != 1;
	}
	return n;
}

static void check_tokens(const struct vocabulary *v, const char *grammar,
			 struct random_grammar *random)
{
	struct matcher *m = make_matcher(v, grammar);
	struct grammar *g = parse(grammar);
	uint8_t allowed[NR_WORDS];
	char text[512] = "";
	size_t bytes = 0;
	unsigned int n;

	for (int i = 0; i < 8; i++) {
		n = check_mask(m, g, text, bytes, allowed);
		if (!n)
			break;
		n = allowed[grammar_one_of(random, n)];
		assert_int_equal(matcher_accept(m, (int32_t)n), 0);
		memcpy(text + bytes, words[n], strlen(words[n]));
		bytes += strlen(words[n]);
	}
	matcher_reset(m);
	check_mask(m, g, "", 0, allowed);
	matcher_free(m);
	grammar_free(g);
}

static void test_masks_allow_the_tokens_that_go_on_with_the_text(void **state)
{
	static struct random_grammar random;
	static char grammar[1 << 16];
	struct vocabulary v = make_vocabulary();
	struct grammar *g;

	check_tokens(&v, "root ::= [^x]*", &random);
	check_tokens(&v, "root ::= [\u00e8-\u20ac\U0001f5ff-\U0001f601]*", &random);
	for (int i = 0; i < 1000; i++) {
		make_grammar(&random, seed + (uint64_t)i * 7919);
		print_grammar(&random, grammar, sizeof(grammar));
		if (grammar_parse(grammar, &g))
			continue;
		grammar_free(g);
		check_tokens(&v, grammar, &random);
	}
	free_vocabulary(&v);
}

static void test_only_end_tokens_follow_an_end(void **state)
{
	struct vocabulary v = make_vocabulary();
	struct matcher *m = make_matcher(&v, "root ::= \"a\"*");

	assert_int_equal(matcher_allows(m, 2), 1);
	assert_int_equal(matcher_accept(m, 1), 0);
	assert_int_equal(matcher_allows(m, 2), 0);
	assert_int_equal(matcher_allows(m, 1), 1);
	matcher_reset(m);
	/* Not allowed. */
	assert_int_equal(matcher_accept(m, 3), 0);
	assert_int_equal(matcher_allows(m, 2), 0);
	assert_int_equal(matcher_allows(m, 1), 1);
	matcher_free(m);
	free_vocabulary(&v);
}

/* Brackets nested in one another make a new state each. */
static void test_long_texts_forget_old_states(void **state)
{
	struct vocabulary v = make_vocabulary();
	struct matcher *m =
		make_matcher(&v, "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\\\"\"");

	enum { DEPTH = 30000 };
	for (int i = 0; i < DEPTH; i++)
		assert_int_equal(matcher_accept(m, 2), 0);
	assert_int_equal(matcher_allows(m, 3), 0);
	assert_int_equal(matcher_accept(m, 4), 0);
	for (int i = 0; i < DEPTH; i++) {
		assert_int_equal(matcher_allows(m, 1), 0);
		assert_int_equal(matcher_accept(m, i % 2 ? 3 : 21), 0);
	}
	assert_int_equal(matcher_allows(m, 1), 1);
	assert_int_equal(matcher_allows(m, 3), 0);
	matcher_free(m);
	free_vocabulary(&v);
}

static bool never(const void *ud, int32_t id)
{
	return false;
}

static void test_a_vocabulary_without_an_end_is_refused(void **state)
{
	const struct pieces_source source = { NR_WORDS, word_text, never, NULL };
	struct grammar *g = parse("root ::= \"a\"");
	struct pieces *pieces;
	struct matcher *m;
	struct trie *trie;

	assert_int_equal(pieces_create(&source, &pieces), 0);
	assert_int_equal(trie_create(pieces, &trie), 0);
	assert_int_equal(matcher_create(g, trie, &m), -EINVAL);
	assert_null(m);
	trie_free(trie);
	pieces_free(pieces);
	grammar_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts_of_grammars),
		cmocka_unit_test(test_what_is_no_grammar_is_refused_with_its_place),
		cmocka_unit_test(test_a_grammar_of_too_many_symbols_is_refused),
		cmocka_unit_test(test_mutilated_grammars_do_no_harm),
		cmocka_unit_test(test_texts_of_random_grammars_are_those_that_match),
		cmocka_unit_test(test_masks_allow_the_tokens_that_go_on_with_the_text),
		cmocka_unit_test(test_only_end_tokens_follow_an_end),
		cmocka_unit_test(test_long_texts_forget_old_states),
		cmocka_unit_test(test_a_vocabulary_without_an_end_is_refused),
	};
	const char *given = getenv("TEST_SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	print_message("TEST_SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
