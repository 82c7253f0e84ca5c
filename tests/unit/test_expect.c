// SPDX-License-Identifier: MIT
/* Waiting with an expected end: how a waiter sleeps and polls for a known kind of work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "expect.h"

/* The course of a wait for work of some length, if sleeps end @late_ns late. */
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

static void long_work_is_mostly_slept_through(void **state)
{
	static const int64_t took_us[] = { 500, 1000, 3000, 10000 };

	for (size_t i = 0; i < sizeof(took_us) / sizeof(took_us[0]); i++) {
		struct expect e = { 0 };
		struct sleeps s = { 0 };
		int64_t took_ns = took_us[i] * 1000;
		struct wait w = wait_for(&e, &s, took_ns, 60000);

		/* Nothing was known before the first one. */
		assert_int_equal(w.slept_ns, 0);
		assert_true(w.gave_up);
		for (int k = 0; k < 20; k++) {
			w = wait_for(&e, &s, took_ns, 60000);
			assert_false(w.overslept || w.gave_up);
			assert_true(w.polled_ns > 0 && w.polled_ns <= 250000);
		}
	}
}

static void short_work_is_polled_for(void **state)
{
	struct expect e = { 0 };
	struct sleeps s = { 0 };

	for (int k = 0; k < 20; k++)
		assert_int_equal(wait_for(&e, &s, 130000, 0).slept_ns, 0);
}

static void the_expected_time_falls_fast_and_rises_slowly(void **state)
{
	struct expect e = { 0 };

	expect_learn(&e, 1000000, false);
	assert_int_equal(expect_ns(&e), 1000000);
	/* One that took ten times as long. */
	expect_learn(&e, 10000000, false);
	assert_in_range(expect_ns(&e), 2000000, 4000000);
	for (int k = 0; k < 4; k++)
		expect_learn(&e, 1000000, false);
	assert_in_range(expect_ns(&e), 1000000, 1200000);
	/* Work that takes longer from now on is learned, too. */
	for (int k = 0; k < 12; k++)
		expect_learn(&e, 2000000, false);
	assert_in_range(expect_ns(&e), 1900000, 2000000);
}

static void a_sleep_that_was_too_long_is_shortened_and_the_expected_end_stays(void **state)
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

static void work_that_has_become_shorter_is_learned(void **state)
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

static void if_sleeps_end_late_there_are_fewer_of_them(void **state)
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
	/* Until sleeps end in time again. */
	for (int k = 0; k < 2000; k++)
		wait_for(&e, &s, 2000000, 60000);
	assert_true(expect_sleep_ns(&e, &s, 0) > 1500000);
	/* If sleeps are too late to be used, they are tried again after a while. */
	sleeps_learn(&s, 500000, 10000000);
	assert_int_equal(expect_sleep_ns(&e, &s, 0), 0);
	for (int k = 0; k < 200; k++)
		wait_for(&e, &s, 2000000, 60000);
	assert_int_equal(expect_sleep_ns(&e, &s, 0), 0);
	for (int k = 0; k < 2000; k++)
		wait_for(&e, &s, 2000000, 60000);
	assert_true(expect_sleep_ns(&e, &s, 0) > 1500000);
	/* A second of short waits has the same effect. */
	sleeps_learn(&s, 500000, 10000000);
	for (int k = 0; k < 200000; k++)
		sleeps_forget(&s, 20000);
	assert_true(expect_sleep_ns(&e, &s, 0) > 1500000);
	/* A signal that shortens a sleep says nothing about the next one. */
	sleeps_learn(&s, 500000000, 1000);
	assert_true(expect_sleep_ns(&e, &s, 0) <= 2000000 - EXPECT_LATE_NS);
	sleeps_learn(&s, 500000, 1500000);
	assert_true(expect_sleep_ns(&e, &s, 0) < 1600000);
}

static void a_sleep_takes_its_part_of_the_expected_time(void **state)
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
		cmocka_unit_test(long_work_is_mostly_slept_through),
		cmocka_unit_test(short_work_is_polled_for),
		cmocka_unit_test(the_expected_time_falls_fast_and_rises_slowly),
		cmocka_unit_test(a_sleep_that_was_too_long_is_shortened_and_the_expected_end_stays),
		cmocka_unit_test(work_that_has_become_shorter_is_learned),
		cmocka_unit_test(if_sleeps_end_late_there_are_fewer_of_them),
		cmocka_unit_test(a_sleep_takes_its_part_of_the_expected_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
