// SPDX-License-Identifier: MIT
/* What is learned of guesses, and of the time that passes take. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "acceptance.h"
#include "npu_random.h"
#include "widths.h"

static const double ones[TREE_KINDS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

static struct tree_growth *grown(const struct acceptance *a)
{
	static struct tree_growth g;

	tree_begin(&g, 0);
	memcpy(g.factors, a->factors, sizeof(g.factors));
	return &g;
}

/* A source that states 0.8 and is right three times in ten is taken for what it is. */
static void a_factor_is_the_share_that_came_by_what_was_stated(void **state)
{
	struct acceptance a;

	random_begin("share");
	acceptance_begin(&a, ones);
	for (int i = 0; i < 3000; i++) {
		struct tree_growth *g = grown(&a);
		int32_t came = random_in(0, 9) < 3 ? 5 : 6;

		g->kind = 2;
		tree_add(g, 0, 5, 0.8);
		g->kind = 3;
		tree_add(g, 0, 7, 0.1);
		acceptance_learn(&a, g, &came, 1);
	}
	assert_true(fabs(a.factors[2] - 0.3 / 0.8) < 0.2);
	/* What never came fades to nearly nothing, and other kinds are as at first. */
	assert_true(a.factors[3] < 0.2);
	assert_float_equal(a.factors[4], 1, 1e-12);
}

static void only_guesses_that_were_tried_count(void **state)
{
	static const int32_t came[] = { 1, 2, 9, 4 };
	struct acceptance a;
	struct tree_growth *g;
	uint32_t node;

	acceptance_begin(&a, ones);
	g = grown(&a);
	node = tree_add(g, 0, 1, 0.5);
	g->kind = 1;
	node = tree_add(g, node, 2, 0.5);
	g->kind = 2;
	node = tree_add(g, node, 3, 0.5);
	/* Behind a guess that was wrong. */
	g->kind = 3;
	tree_add(g, node, 4, 0.5);
	acceptance_learn(&a, g, came, 4);
	assert_float_equal(a.came[0], 1, 1e-12);
	assert_float_equal(a.expected[0], 0.5, 1e-12);
	assert_float_equal(a.came[1], 1, 1e-12);
	assert_float_equal(a.came[2], 0, 1e-12);
	assert_float_equal(a.expected[2], 0.5, 1e-12);
	assert_float_equal(a.expected[3], 0, 1e-12);
}

static void trust_that_was_lost_can_be_won_again(void **state)
{
	static const int32_t right = 1, wrong = 2;
	struct acceptance a;

	acceptance_begin(&a, ones);
	for (int i = 0; i < 4000; i++) {
		struct tree_growth *g = grown(&a);

		tree_add(g, 0, 1, 0.5);
		acceptance_learn(&a, g, i < 2000 ? &wrong : &right, 1);
		if (i == 1999)
			assert_true(a.factors[0] < 0.2);
	}
	assert_true(a.factors[0] > 1.5);
}

/* ---- widths ---- */

static void plain_decoding_comes_first(void **state)
{
	struct widths_times w;
	double costs[WIDTHS];

	widths_begin(&w, 5);
	for (int i = 0; i < 2; i++) {
		widths_costs(&w, costs);
		assert_true(costs[0] > 0 && isfinite(costs[0]));
		for (int j = 1; j < WIDTHS; j++)
			assert_true(isinf(costs[j]));
		widths_add(&w, 0, 100);
	}
	widths_costs(&w, costs);
	for (int j = 0; j < WIDTHS; j++)
		assert_float_equal(costs[j], 100 + 5 * (widths[j] - 1), 1e-9);
	/* A prompt that was disturbed says little. */
	w.row_ns = 80;
	widths_costs(&w, costs);
	assert_float_equal(costs[4], 100 + 10 * 63, 1e-9);
}

static void a_cost_is_the_least_of_the_recent_passes(void **state)
{
	struct widths_times w;
	double costs[WIDTHS];

	widths_begin(&w, 0);
	widths_add(&w, 0, 1);
	widths_add(&w, 0, 100);
	/* The first one does not count. */
	widths_add(&w, 2, 5);
	widths_costs(&w, costs);
	assert_true(costs[2] > 100 + 9 * 15 && costs[2] < 100 + 10 * 15);
	widths_add(&w, 2, 900);
	widths_add(&w, 2, 300);
	widths_costs(&w, costs);
	assert_float_equal(costs[2], 300, 1e-9);
	for (int i = 0; i < WIDTHS_RECENT; i++)
		widths_add(&w, 2, 400 + i);
	widths_costs(&w, costs);
	assert_float_equal(costs[2], 400, 1e-9);
	/* A width that is not used is forgotten, slowly. */
	for (int i = 0; i < 1000; i++)
		widths_add(&w, 0, 100);
	widths_costs(&w, costs);
	assert_float_equal(costs[0], 100, 1e-9);
	assert_true(costs[2] < 100 && costs[2] > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_factor_is_the_share_that_came_by_what_was_stated),
		cmocka_unit_test(only_guesses_that_were_tried_count),
		cmocka_unit_test(trust_that_was_lost_can_be_won_again),
		cmocka_unit_test(plain_decoding_comes_first),
		cmocka_unit_test(a_cost_is_the_least_of_the_recent_passes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
