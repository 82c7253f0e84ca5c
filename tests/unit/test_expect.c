// SPDX-License-Identifier: MIT
/* Waiting by prediction: how a waiter sleeps and polls for work of a kind that it knows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "expect.h"

/* How a wait for work that takes so long goes, where sleeps end @late_ns late. */
struct wait {
	int64_t slept_ns, polled_ns;
	bool overslept;
	bool gave_up; /* before the end */
};

/* Waits as libnpu and the runtime do, and learns from it. */
static struct wait wait_for(struct expect *e, struct sleeps *s, int64_t took_ns, int64_t late_ns)
{
	int64_t expected_ns = expect_ns(e), sleep_ns = expect_sleep_ns(e, s, 0);
	struct wait w = { 0 };

	if (sleep_ns) {
		w.slept_ns = sleep_ns + late_ns;
		sleeps_learn(s, sleep_ns, w.slept_ns);
		w.overslept = w.slept_ns >= took_ns;
	}
	if (!w.overslept) {
		w.gave_up = took_ns > expected_ns + expect_patience_ns(expected_ns);
		w.polled_ns = took_ns - w.slept_ns;
	}
	expect_learn(e, w.overslept ? w.slept_ns : took_ns, w.overslept);
	sleeps_forget(s, took_ns);
	return w;
}

static void what_took_long_is_slept_through_for_the_most_part(void **state)
{
	static const int64_t took_us[] = { 500, 1000, 3000, 10000 };

	for (size_t i = 0; i < sizeof(took_us) / sizeof(took_us[0]); i++) {
		struct expect e = { 0 };
		struct sleeps s = { 0 };
		int64_t took_ns = took_us[i] * 1000;
		struct wait w = wait_for(&e, &s, took_ns, 60000);

		/* Of the first one nothing was known. */
		assert_int_equal(w.slept_ns, 0);
		assert_true(w.gave_up);
		for (int k = 0; k < 20; k++) {
			w = wait_for(&e, &s, took_ns, 60000);
			assert_false(w.overslept || w.gave_up);
			assert_true(w.polled_ns > 0 && w.polled_ns <= 250000);
		}
	}
}

static void what_is_short_is_polled_for(void **state)
{
	struct expect e = { 0 };
	struct sleeps s = { 0 };

	for (int k = 0; k < 20; k++)
		assert_int_equal(wait_for(&e, &s, 130000, 0).slept_ns, 0);
}

static void the_expected_time_comes_down_fast_and_goes_up_slowly(void **state)
{
	struct expect e = { 0 };

	expect_learn(&e, 1000000, false);
	assert_int_equal(expect_ns(&e), 1000000);
	/* One that was late ten times over. */
	expect_learn(&e, 10000000, false);
	assert_in_range(expect_ns(&e), 2000000, 4000000);
	for (int k = 0; k < 4; k++)
		expect_learn(&e, 1000000, false);
	assert_in_range(expect_ns(&e), 1000000, 1200000);
	/* What takes longer from now on is followed, too. */
	for (int k = 0; k < 12; k++)
		expect_learn(&e, 2000000, false);
	assert_in_range(expect_ns(&e), 1900000, 2000000);
}

static void a_sleep_that_was_too_long_is_cut_and_not_the_expected_end(void **state)
{
	struct expect e = { 0 };
	struct sleeps s = { 0 };
	int64_t sleep_ns;

	expect_learn(&e, 1000000, false);
	sleep_ns = expect_sleep_ns(&e, &s, 0);
	expect_learn(&e, 5000000, true);
	assert_int_equal(expect_ns(&e), 1000000);
	assert_true(expect_sleep_ns(&e, &s, 0) <= sleep_ns / 2);
}

static void work_that_has_become_shorter_is_found_out(void **state)
{
	struct expect e = { 0 };
	struct sleeps s = { 0 };
	unsigned int overslept = 0;

	expect_learn(&e, 4000000, false);
	for (int k = 0; k < 40; k++)
		overslept += wait_for(&e, &s, 1000000, 60000).overslept;
	assert_in_range(overslept, 1, 5);
	assert_in_range(expect_ns(&e), 1000000, 1050000);
}

static void where_sleeps_end_late_there_are_fewer_of_them(void **state)
{
	struct expect e = { 0 };
	struct sleeps s = { 0 };
	unsigned int overslept = 0;

	expect_learn(&e, 2000000, false);
	for (int k = 0; k < 100; k++)
		overslept += wait_for(&e, &s, 2000000, 900000).overslept;
	assert_in_range(overslept, 0, 5);
	assert_in_range(expect_sleep_ns(&e, &s, 0), 1, 1100000);
	assert_int_equal(expect_sleep_ns(&e, &s, 1100000), 0);
	/* Until they end in time again. */
	for (int k = 0; k < 2000; k++)
		wait_for(&e, &s, 2000000, 60000);
	assert_true(expect_sleep_ns(&e, &s, 0) > 1500000);
	/* Where they are too late for any at all, they are tried again after a while. */
	sleeps_learn(&s, 500000, 10000000);
	assert_int_equal(expect_sleep_ns(&e, &s, 0), 0);
	for (int k = 0; k < 200; k++)
		wait_for(&e, &s, 2000000, 60000);
	assert_int_equal(expect_sleep_ns(&e, &s, 0), 0);
	for (int k = 0; k < 2000; k++)
		wait_for(&e, &s, 2000000, 60000);
	assert_true(expect_sleep_ns(&e, &s, 0) > 1500000);
	/* A second of short waits is as long. */
	sleeps_learn(&s, 500000, 10000000);
	for (int k = 0; k < 200000; k++)
		sleeps_forget(&s, 20000);
	assert_true(expect_sleep_ns(&e, &s, 0) > 1500000);
	/* A signal shortens a sleep, which says nothing of the next one. */
	sleeps_learn(&s, 500000000, 1000);
	assert_true(expect_sleep_ns(&e, &s, 0) <= 2000000 - EXPECT_LATE_NS);
	sleeps_learn(&s, 500000, 1500000);
	assert_true(expect_sleep_ns(&e, &s, 0) < 1600000);
}

static void a_sleep_ends_when_its_part_of_the_work_is_over(void **state)
{
	struct expect e = { 0 };
	struct sleeps s = { 0 };
	int64_t sleep_ns;

	assert_int_equal(expect_sleep_ns(&e, &s, 0), 0);
	expect_learn(&e, 1000000, false);
	sleep_ns = expect_sleep_ns(&e, &s, 0);
	assert_in_range(sleep_ns, 700000, 900000);
	assert_int_equal(expect_sleep_ns(&e, &s, 500000), sleep_ns - 500000);
	assert_int_equal(expect_sleep_ns(&e, &s, sleep_ns - EXPECT_MIN_SLEEP_NS + 1), 0);
	assert_int_equal(expect_sleep_ns(&e, &s, 2000000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_took_long_is_slept_through_for_the_most_part),
		cmocka_unit_test(what_is_short_is_polled_for),
		cmocka_unit_test(the_expected_time_comes_down_fast_and_goes_up_slowly),
		cmocka_unit_test(a_sleep_that_was_too_long_is_cut_and_not_the_expected_end),
		cmocka_unit_test(work_that_has_become_shorter_is_found_out),
		cmocka_unit_test(where_sleeps_end_late_there_are_fewer_of_them),
		cmocka_unit_test(a_sleep_ends_when_its_part_of_the_work_is_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
