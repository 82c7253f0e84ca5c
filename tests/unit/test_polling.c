// SPDX-License-Identifier: MIT
/* Polling: when it yields, and what it learns from finding a change. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "polling.h"

/* A wait that finds a change after @looks polls. Returns how often it yielded. */
static unsigned int poll(struct polling *p, unsigned int looks)
{
	unsigned int gave_way = 0;

	for (unsigned int i = 0; i < looks; i++) {
		polling_again(p);
		gave_way += p->gave_way;
	}
	polling_end(p, true);
	return gave_way;
}

static void a_short_answer_costs_no_system_call(void **state)
{
	struct polling p = { 0 };

	for (int i = 0; i < 10; i++)
		assert_int_equal(poll(&p, POLLING_ALONE - 1), 0);
}

static void a_long_poll_yields_again_and_again(void **state)
{
	struct polling p = { 0 };

	assert_int_equal(poll(&p, POLLING_ALONE + 10 * POLLING_LOOKS), 11);
	assert_int_equal(poll(&p, POLLING_ALONE - 1), 0);
}

static void after_a_change_found_by_yielding_it_yields_early(void **state)
{
	struct polling p = { 0 };

	assert_int_equal(poll(&p, POLLING_ALONE), 1);
	assert_int_equal(poll(&p, POLLING_LOOKS), 1);
	assert_int_equal(poll(&p, POLLING_LOOKS), 1);
	/* Until a change is found without yielding. */
	assert_int_equal(poll(&p, POLLING_LOOKS - 1), 0);
	assert_int_equal(poll(&p, POLLING_LOOKS), 0);
}

static void after_a_sleep_it_yields_early(void **state)
{
	struct polling p = { 0 };

	polling_woken(&p);
	assert_int_equal(poll(&p, POLLING_LOOKS), 1);
}

static void a_change_found_by_the_first_poll_teaches_nothing(void **state)
{
	struct polling p = { 0 };

	polling_woken(&p);
	assert_int_equal(poll(&p, 0), 0);
	assert_int_equal(poll(&p, POLLING_LOOKS), 1);
}

/* Number of changes after yielding until the thread moves or would move; 0: more than @most. */
static unsigned int polls_until_move(struct polling *p, unsigned int most)
{
	for (unsigned int i = 1; i <= most; i++) {
		unsigned int patience = p->patience;

		poll(p, POLLING_LOOKS);
		if (p->patience != patience || !p->together)
			return i;
	}
	return 0;
}

static void a_thread_of_the_device_leaves_a_cpu_that_has_been_shared_for_long(void **state)
{
	struct polling p = { .may_move = true };
	cpu_set_t before, after;
	int cpu;

	polling_woken(&p);
	for (unsigned int i = 0; i < POLLING_PATIENCE; i++)
		poll(&p, POLLING_LOOKS);
	assert_false(p.trial);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	cpu = sched_getcpu();
	for (unsigned int i = 0; i < POLLING_LOOKS; i++)
		polling_again(&p);
	assert_int_equal(p.trial, CPU_COUNT(&before) > 1);
	print_message("from CPU %d to CPU %d\n", cpu, sched_getcpu());
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&before, &after));
	polling_end(&p, true);
	if (CPU_COUNT(&before) < 2)
		return;
	/* There it finds the change without yielding, and yields no more. */
	assert_int_equal(poll(&p, POLLING_ALONE - 1), 0);
	assert_false(p.shared);
	assert_int_equal(poll(&p, POLLING_ALONE - 1), 0);
}

static void moves_that_do_not_help_become_rarer(void **state)
{
	struct polling p = { .may_move = true };
	unsigned int wait = POLLING_PATIENCE;

	polling_woken(&p);
	assert_int_equal(polls_until_move(&p, 1000), wait + 1);
	for (int i = 0; i < 12; i++) {
		/* No change is found without yielding. */
		assert_int_equal(poll(&p, POLLING_ALONE), 1);
		assert_false(p.trial);
		assert_true(p.shared);
		wait = wait < POLLING_PATIENCE_MAX ? 2 * wait : wait;
		assert_in_range(polls_until_move(&p, 2 * POLLING_PATIENCE_MAX), wait - 1, wait + 1);
	}
}

static void a_thread_with_one_cpu_stays(void **state)
{
	cpu_set_t all, one;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_false(polling_move());
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static void a_client_s_thread_is_not_moved(void **state)
{
	struct polling p = { 0 };

	polling_woken(&p);
	for (int i = 0; i < 4 * POLLING_PATIENCE; i++) {
		assert_int_equal(poll(&p, POLLING_LOOKS), 1);
		assert_int_equal(p.patience, 0);
	}
}

static void long_polls_are_no_reason_to_move(void **state)
{
	struct polling p = { .may_move = true };

	polling_woken(&p);
	for (int i = 0; i < 4 * POLLING_PATIENCE; i++) {
		poll(&p, POLLING_ALONE + POLLING_LOOKS);
		assert_int_equal(p.patience, 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_short_answer_costs_no_system_call),
		cmocka_unit_test(a_long_poll_yields_again_and_again),
		cmocka_unit_test(after_a_change_found_by_yielding_it_yields_early),
		cmocka_unit_test(after_a_sleep_it_yields_early),
		cmocka_unit_test(a_change_found_by_the_first_poll_teaches_nothing),
		cmocka_unit_test(a_thread_of_the_device_leaves_a_cpu_that_has_been_shared_for_long),
		cmocka_unit_test(moves_that_do_not_help_become_rarer),
		cmocka_unit_test(a_thread_with_one_cpu_stays),
		cmocka_unit_test(a_client_s_thread_is_not_moved),
		cmocka_unit_test(long_polls_are_no_reason_to_move),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
