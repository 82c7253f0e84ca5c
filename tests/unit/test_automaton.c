// SPDX-License-Identifier: MIT
/* The suffix automaton against brute force on random texts. SEED=N repeats a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "automaton.h"
#include "npu_random.h"

/* Texts of so many tokens have no suffix that the automaton's reach leaves out. */
#define MAX_TEXT AUTOMATON_REACH

struct text {
	int32_t ids[400];
	uint32_t n;
};

/* Whether the last @length tokens of @of occur in @in, ending at @end. */
static bool ends_at(const struct text *in, uint32_t end, const struct text *of, uint32_t length)
{
	return length <= end + 1 && !memcmp(in->ids + end + 1 - length, of->ids + of->n - length,
					    length * sizeof(int32_t));
}

/* The latest position before @before where they end, or UINT32_MAX. */
static uint32_t latest(const struct text *in, uint32_t before, const struct text *of,
		       uint32_t length)
{
	while (before-- > 0)
		if (ends_at(in, before, of, length))
			return before;
	return UINT32_MAX;
}

/* The length of the longest suffix of @of that ends before position @before of @in. */
static uint32_t longest(const struct text *in, uint32_t before, const struct text *of)
{
	uint32_t length = 0;

	while (length < of->n && of->ids[of->n - 1 - length] != AUTOMATON_BREAK &&
	       latest(in, before, of, length + 1) != UINT32_MAX)
		length++;
	return length;
}

static struct automaton *create(void)
{
	struct automaton *a;

	assert_int_equal(automaton_create(random_in(0, 20), &a), 0);
	return a;
}

static void append(struct automaton *a, struct text *t, int32_t id)
{
	t->ids[t->n++] = id;
	assert_int_equal(automaton_append(a, id), 0);
}

/* What followed the last @length tokens of @of in @t, by how often. */
static void check_nexts(const struct automaton *a, struct automaton_match m, const struct text *t,
			const struct text *of)
{
	struct automaton_next next[10];
	uint64_t total, sum = 0, breaks = 0;
	size_t n = automaton_nexts(a, m.state, next, 10, &total);

	for (size_t i = 0; i < n; i++) {
		uint32_t count = 0;

		for (uint32_t end = 0; end + 1 < t->n; end++)
			count += t->ids[end + 1] == next[i].token && ends_at(t, end, of, m.length);
		assert_int_equal(next[i].count, count);
		assert_true(!i || next[i - 1].count >= count);
		assert_int_not_equal(next[i].token, AUTOMATON_BREAK);
		sum += count;
	}
	for (uint32_t end = 0; end + 1 < t->n; end++)
		breaks += t->ids[end + 1] == AUTOMATON_BREAK && ends_at(t, end, of, m.length);
	assert_int_equal(total, sum + breaks);
}

static void check_repeat(const struct automaton *a, const struct text *t)
{
	struct automaton_match m = automaton_repeat(a);
	uint32_t end = latest(t, t->n - 1, t, m.length);

	assert_int_equal(m.length, longest(t, t->n - 1, t));
	if (!m.length)
		return;
	assert_int_equal(automaton_end(a, m), end);
	check_nexts(a, m, t, t);
}

static void a_repeat_is_the_longest_and_latest(void **state)
{
	random_begin("repeat");
	for (int round = 0; round < 2000; round++) {
		struct automaton *a = create();
		uint32_t alphabet = random_in(1, 4), n = random_in(1, MAX_TEXT);
		struct text t = { .n = 0 };

		check_repeat(a, &t);
		while (t.n < n) {
			bool ends = !random_in(0, 15);

			append(a, &t, ends ? AUTOMATON_BREAK : (int32_t)random_in(0, alphabet - 1));
			check_repeat(a, &t);
			assert_in_range(automaton_states(a), t.n + 1, 2 * t.n + 1);
			assert_int_equal(automaton_tokens(a), t.n);
			assert_int_equal(automaton_token(a, t.n - 1), t.ids[t.n - 1]);
		}
		automaton_free(a);
	}
}

static void ids_of_any_size_are_kept_apart(void **state)
{
	static const int32_t some[] = { 0, INT32_MAX, 1, 1 << 16, 1 << 24, INT32_MAX - 1, 151935 };

	random_begin("ids");
	for (int round = 0; round < 300; round++) {
		struct automaton *a = create();
		struct text t = { .n = 0 };

		while (t.n < MAX_TEXT) {
			append(a, &t, some[random_in(0, 6)]);
			check_repeat(a, &t);
		}
		automaton_free(a);
	}
}

/* Long texts: the length is right, and the end is that of an occurrence, though any. */
static void long_and_periodic_texts_have_their_repeats(void **state)
{
	random_begin("long");
	for (int round = 0; round < 60; round++) {
		struct automaton *a = create();
		uint32_t period = random_in(1, 20), noise = random_in(0, 1) ? random_in(5, 60) : 0;
		struct text t = { .n = 0 };
		struct automaton_match m;

		while (t.n < 400) {
			bool odd = t.n < period || (noise && !random_in(0, noise));

			append(a, &t, odd ? (int32_t)random_in(0, 3) : t.ids[t.n - period]);
			m = automaton_repeat(a);
			assert_int_equal(m.length, longest(&t, t.n - 1, &t));
			assert_true(automaton_end(a, m) < t.n - 1 || !m.length);
			assert_true(ends_at(&t, automaton_end(a, m), &t, m.length));
		}
		assert_in_range(automaton_states(a), t.n + 1, 2 * t.n);
		automaton_free(a);
	}
}

/* Reads @other in @a, to which tokens are still being appended. */
static void check_follow(struct automaton *a, struct text *t, uint32_t alphabet)
{
	struct automaton_match m = { 0 };
	struct text other = { .n = 0 };

	for (int i = 0; i < 40; i++) {
		int32_t id = (int32_t)random_in(0, alphabet);
		bool breaks = !random_in(0, 20);
		uint32_t end;

		other.ids[other.n++] = breaks ? AUTOMATON_BREAK : id;
		/* What grows while others read cannot make their match longer: it is checked
		 * against the text as it was for the tokens so far. */
		automaton_follow(a, &m, other.ids[other.n - 1]);
		assert_int_equal(m.length, longest(t, t->n, &other));
		if (!m.length)
			continue;
		end = automaton_end(a, m);
		assert_true(ends_at(t, end, &other, m.length));
	}
}

static void a_match_follows_another_text(void **state)
{
	random_begin("follow");
	for (int round = 0; round < 500; round++) {
		struct automaton *a = create();
		uint32_t alphabet = random_in(1, 4), n = random_in(1, 200);
		struct text t = { .n = 0 };

		while (t.n < n)
			append(a, &t,
			       random_in(0, 9) ? (int32_t)random_in(0, alphabet - 1)
					       : AUTOMATON_BREAK);
		if (random_in(0, 1))
			append(a, &t, AUTOMATON_BREAK);
		check_follow(a, &t, alphabet);
		automaton_free(a);
	}
}

/* The match remains one of the text when its state is split by tokens that come later. */
static void a_match_survives_appending(void **state)
{
	random_begin("survives");
	for (int round = 0; round < 500; round++) {
		struct automaton *a = create();
		struct automaton_match m = { 0 };
		struct text t = { .n = 0 }, other = { .n = 0 };

		while (t.n < 100) {
			uint32_t before = m.length, now;

			append(a, &t, (int32_t)random_in(0, 2));
			if (random_in(0, 1))
				continue;
			other.ids[other.n++] = (int32_t)random_in(0, 2);
			automaton_follow(a, &m, other.ids[other.n - 1]);
			now = longest(&t, t.n, &other);
			assert_true(m.length <= now && m.length <= before + 1);
			assert_true(ends_at(&t, automaton_end(a, m), &other, m.length));
			/* As long as the longest, or as one that began before the text grew. */
			assert_true(m.length == now || now > before);
		}
		automaton_free(a);
	}
}

static void nothing_follows_the_end(void **state)
{
	struct automaton *a;
	struct automaton_match m = { 0 };
	struct automaton_next next[4];
	uint64_t total;

	assert_int_equal(automaton_create(0, &a), 0);
	assert_int_equal(automaton_repeat(a).length, 0);
	assert_int_equal(automaton_append(a, 5), 0);
	assert_int_equal(automaton_append(a, 6), 0);
	assert_int_equal(automaton_repeat(a).length, 0);
	automaton_follow(a, &m, 6);
	assert_int_equal(m.length, 1);
	assert_int_equal(automaton_nexts(a, m.state, next, 4, &total), 0);
	assert_int_equal(total, 0);
	automaton_free(a);
	automaton_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_repeat_is_the_longest_and_latest),
		cmocka_unit_test(ids_of_any_size_are_kept_apart),
		cmocka_unit_test(long_and_periodic_texts_have_their_repeats),
		cmocka_unit_test(a_match_follows_another_text),
		cmocka_unit_test(a_match_survives_appending),
		cmocka_unit_test(nothing_follows_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
