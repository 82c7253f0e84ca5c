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
	double sum = 0;

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
		sum += i < 1000 ? 0 : a.factors[2];
	}
	/* It follows the latest guesses; of its mean, this is seven times the deviation. */
	assert_true(fabs(sum / 2000 - 0.3 / 0.8) < 0.1);
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
	for (int kind = 0; kind < 3; kind++) {
		assert_float_equal(a.came[kind], ACCEPTANCE_PRIOR + (kind < 2), 1e-12);
		assert_float_equal(a.expected[kind], ACCEPTANCE_PRIOR + 0.5, 1e-12);
	}
	assert_float_equal(a.expected[3], ACCEPTANCE_PRIOR, 1e-12);
}

/* Two tokens come as often as a half of what was stated, if the second is taken to come only where
 * the first does not: with a factor of a half they are believed, and stay so. */
static void what_is_believed_counts_as_it_was_stated(void **state)
{
	static const int32_t came[] = { 1, 9, 1, 2, 1, 9, 1, 9 };
	double halves[TREE_KINDS];
	struct acceptance a;

	for (int i = 0; i < TREE_KINDS; i++)
		halves[i] = 0.5;
	acceptance_begin(&a, halves);
	for (int i = 0; i < 4000; i++) {
		struct tree_growth *g = grown(&a);

		tree_add(g, 0, 1, 1);
		g->kind = 1;
		tree_add(g, 0, 2, 0.5);
		tree_settle(g);
		acceptance_learn(&a, g, &came[i % 8], 1);
		assert_float_equal(a.factors[0], 0.5, 0.05);
		assert_float_equal(a.factors[1], 0.5, 0.05);
	}
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

static const double nothing[WIDTHS];

static void plain_decoding_comes_first(void **state)
{
	struct widths_times w;
	double costs[WIDTHS];

	widths_begin(&w, nothing);
	w.row_ns = 5;
	widths_costs(&w, costs);
	assert_float_equal(costs[0], 1, 0);
	for (int j = 1; j < WIDTHS; j++)
		assert_true(isinf(costs[j]));
	widths_add(&w, 0, 100);
	widths_costs(&w, costs);
	for (int j = 0; j < WIDTHS; j++)
		assert_float_equal(costs[j], 1 + 0.05 * (widths[j] - 1), 1e-9);
	/* A prompt that was disturbed says little. */
	w.row_ns = 80;
	widths_costs(&w, costs);
	assert_float_equal(costs[WIDTHS - 1], 1 + 0.1 * 63, 1e-9);
}

static void a_cost_is_the_least_of_the_recent_passes(void **state)
{
	struct widths_times w;
	double costs[WIDTHS];

	widths_begin(&w, nothing);
	widths_add(&w, 0, 100);
	widths_costs(&w, costs);
	assert_float_equal(costs[2], 1 + 0.1 * (widths[2] - 1), 0.01);
	widths_add(&w, 2, 900);
	widths_add(&w, 2, 300);
	widths_add(&w, 0, 100);
	widths_costs(&w, costs);
	assert_float_equal(costs[2], 3, 0.01);
	/* It is no more than that of a wider one, of which nothing is known. */
	assert_true(costs[3] > costs[2]);
	for (int i = 0; i < WIDTHS_RECENT; i++)
		widths_add(&w, 2, 400 + i);
	widths_add(&w, 0, 100);
	widths_costs(&w, costs);
	assert_float_equal(costs[2], 4, 0.01);
	/* A wider one costs no less. */
	widths_add(&w, 3, 50);
	widths_add(&w, 0, 100);
	widths_costs(&w, costs);
	assert_float_equal(costs[3], costs[2], 0);
}

/* Passes of a wider tree take @ns, and others give as many tokens in @best_ns. Returns the share of
 * the time that trying it loses. */
static double lost(double ns, double best_ns, uint32_t *tries)
{
	struct widths_times w;
	double costs[WIDTHS], all = 0, vain = 0;

	widths_begin(&w, nothing);
	widths_add(&w, 0, best_ns);
	widths_add(&w, 1, ns);
	for (*tries = 0; all < 1e6 * best_ns;) {
		widths_costs(&w, costs);
		*tries += costs[1] <= 1;
		vain += costs[1] <= 1 ? ns - best_ns : 0;
		all += costs[1] <= 1 ? ns : best_ns;
		widths_add(&w, costs[1] <= 1, costs[1] <= 1 ? ns : best_ns);
	}
	return vain / all;
}

static void a_slow_width_is_tried_again_and_little_is_lost(void **state)
{
	uint32_t tries, before = UINT32_MAX;

	for (double ns = 105; ns < 3000; ns *= 1.7) {
		double share = lost(ns, 100, &tries);

		print_message("%.1f tokens: %u tries, which lose %.2f %%\n", ns / 100, tries,
			      100 * share);
		assert_in_range(tries, 1, before);
		assert_true(share <= WIDTHS_FORGET);
		before = tries;
	}
}

/* What @width costs behind a pass of it in @ns and one of a token in @token_ns. */
static double cost_after(struct widths_times *w, uint32_t width, double ns, double token_ns)
{
	double costs[WIDTHS];

	widths_add(w, width, ns);
	widths_add(w, 0, token_ns);
	widths_costs(w, costs);
	return costs[width];
}

static void what_was_known_is_where_the_next_begins(void **state)
{
	struct widths_times w;
	double costs[WIDTHS], known[WIDTHS];

	widths_begin(&w, nothing);
	widths_known(&w, known);
	assert_memory_equal(known, nothing, sizeof(known));
	widths_add(&w, 0, 100);
	widths_add(&w, 2, 350);
	widths_add(&w, 0, 100);
	widths_add(&w, 2, 350);
	widths_known(&w, known);
	assert_float_equal(known[0], 1, 0.02);
	assert_float_equal(known[2], 3.5, 0.1);
	assert_true(!known[1] && !known[3]);
	/* Another session's tokens take longer. Before any, a tree is affordable. */
	widths_begin(&w, known);
	widths_costs(&w, costs);
	assert_float_equal(costs[2], known[2], 0);
	assert_true(costs[1] > 1 && isfinite(costs[4]));
	widths_add(&w, 0, 1000);
	widths_costs(&w, costs);
	assert_float_equal(costs[2], 3.5, 0.1);
	/* A single pass that was disturbed does not change that, */
	assert_float_equal(cost_after(&w, 2, 90000, 1000), 3.5, 0.1);
	assert_float_equal(cost_after(&w, 2, 2000, 1000), 2, 0.01);
	/* others do. */
	for (int i = 1; i < WIDTHS_RECENT; i++)
		widths_add(&w, 2, 5000);
	assert_float_equal(cost_after(&w, 2, 5000, 1000), 5, 0.02);
}

static void a_slow_first_pass_is_in_doubt_until_a_second_one(void **state)
{
	struct widths_times w;
	double known[WIDTHS];

	widths_begin(&w, nothing);
	widths_add(&w, 0, 100);
	assert_float_equal(cost_after(&w, 1, 900, 100), 1.1, 0.01);
	widths_known(&w, known);
	assert_float_equal(known[1], 0, 0);
	assert_float_equal(cost_after(&w, 1, 800, 100), 8, 0.02);
	/* One that is not that slow is believed. */
	assert_float_equal(cost_after(&w, 3, 1600, 100), 16, 0.02);
}

static void drafts_are_worth_what_they_give_for_their_time(void **state)
{
	struct widths_times w;
	double costs[WIDTHS];

	widths_begin(&w, nothing);
	widths_add(&w, 0, 100);
	widths_add(&w, 1, 120);
	widths_add(&w, 0, 100);
	widths_costs(&w, costs);
	/* Of a chain that comes true in one of five, 1.25 tokens are expected, for 1.2 passes. */
	assert_true(widths_are_worth(&w, costs, 0.2));
	assert_false(widths_are_worth(&w, costs, 0.16));
	/* Drafting that takes 0.04 passes is still worth it, 0.06 not. Disturbed steps do not
	 * count. */
	widths_add_drafting(&w, 50);
	assert_false(widths_are_worth(&w, costs, 0.2));
	widths_add_drafting(&w, 4);
	assert_true(widths_are_worth(&w, costs, 0.2));
	for (int i = 0; i < WIDTHS_RECENT; i++)
		widths_add_drafting(&w, 6);
	assert_false(widths_are_worth(&w, costs, 0.2));
	assert_true(widths_are_worth(&w, costs, 0.22));
	/* What comes true for sure is worth any time. */
	assert_true(widths_are_worth(&w, costs, 1));
}

static void drafting_is_free_until_a_token_was_measured(void **state)
{
	static const double known[WIDTHS] = { 1, 1.2, 1.4, 1.8, 2.6, 4, 6 };
	struct widths_times w;
	double costs[WIDTHS];

	widths_begin(&w, known);
	widths_add_drafting(&w, 1e9);
	widths_costs(&w, costs);
	assert_true(widths_are_worth(&w, costs, 0.2));
	widths_add(&w, 0, 100);
	widths_costs(&w, costs);
	assert_false(widths_are_worth(&w, costs, 0.2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_factor_is_the_share_that_came_by_what_was_stated),
		cmocka_unit_test(only_guesses_that_were_tried_count),
		cmocka_unit_test(what_is_believed_counts_as_it_was_stated),
		cmocka_unit_test(trust_that_was_lost_can_be_won_again),
		cmocka_unit_test(plain_decoding_comes_first),
		cmocka_unit_test(a_cost_is_the_least_of_the_recent_passes),
		cmocka_unit_test(a_slow_width_is_tried_again_and_little_is_lost),
		cmocka_unit_test(what_was_known_is_where_the_next_begins),
		cmocka_unit_test(a_slow_first_pass_is_in_doubt_until_a_second_one),
		cmocka_unit_test(drafts_are_worth_what_they_give_for_their_time),
		cmocka_unit_test(drafting_is_free_until_a_token_was_measured),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
