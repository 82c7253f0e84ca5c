// SPDX-License-Identifier: MIT
/*
 * Polling: when it gives way, and what it learns from finding what it waited for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fw_poll.h"

/* One poll whose look after @looks others finds something; how often it gave way. */
static unsigned int poll(struct fw_poll *p, unsigned int looks)
{
	unsigned int gave_way = 0;

	for (unsigned int i = 0; i < looks; i++) {
		fw_poll_again(p);
		gave_way += p->gave_way;
	}
	fw_poll_end(p, true);
	return gave_way;
}

static void a_short_answer_costs_no_system_call(void **state)
{
	struct fw_poll p = { 0 };

	for (int i = 0; i < 10; i++)
		assert_int_equal(poll(&p, FW_POLL_ALONE - 1), 0);
}

static void a_long_poll_gives_way_again_and_again(void **state)
{
	struct fw_poll p = { 0 };

	assert_int_equal(poll(&p, FW_POLL_ALONE + 10 * FW_POLL_LOOKS), 11);
	assert_int_equal(poll(&p, FW_POLL_ALONE - 1), 0);
}

static void an_answer_that_comes_by_giving_way_is_waited_for_so_from_then_on(void **state)
{
	struct fw_poll p = { 0 };

	assert_int_equal(poll(&p, FW_POLL_ALONE), 1);
	assert_int_equal(poll(&p, FW_POLL_LOOKS), 1);
	assert_int_equal(poll(&p, FW_POLL_LOOKS), 1);
	/* Until one comes by itself. */
	assert_int_equal(poll(&p, FW_POLL_LOOKS - 1), 0);
	assert_int_equal(poll(&p, FW_POLL_LOOKS), 0);
}

static void after_a_sleep_it_gives_way_early(void **state)
{
	struct fw_poll p = { 0 };

	fw_poll_woken(&p);
	assert_int_equal(poll(&p, FW_POLL_LOOKS), 1);
}

static void a_first_look_that_finds_it_teaches_nothing(void **state)
{
	struct fw_poll p = { 0 };

	fw_poll_woken(&p);
	assert_int_equal(poll(&p, 0), 0);
	assert_int_equal(poll(&p, FW_POLL_LOOKS), 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_short_answer_costs_no_system_call),
		cmocka_unit_test(a_long_poll_gives_way_again_and_again),
		cmocka_unit_test(an_answer_that_comes_by_giving_way_is_waited_for_so_from_then_on),
		cmocka_unit_test(after_a_sleep_it_gives_way_early),
		cmocka_unit_test(a_first_look_that_finds_it_teaches_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
