// SPDX-License-Identifier: MIT
/* Ratios of heads: equation 3 of shadowAttn, and the cases that it leaves open. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "head_ratios.h"
#include "llm.h"
#include "npu_random.h"

#define LAYERS 6
#define HEADS 5
#define N (LAYERS * HEADS)

struct model {
	double heads[N], layers[LAYERS], ratios[N];
};

static struct head_importance of(const struct model *m)
{
	return (struct head_importance){ LAYERS, HEADS, m->heads, m->layers };
}

static void give_below(struct model *m, double mean, double limit, double whole)
{
	const struct head_importance all = of(m);
	const struct head_share share = { mean, limit, whole };

	if (head_ratios(&all, &share, m->ratios))
		fail_msg("%s", llm_error());
}

static void give(struct model *m, double mean, double limit)
{
	give_below(m, mean, limit, 1);
}

static void fill(struct model *m, double head, double layer)
{
	for (int i = 0; i < N; i++)
		m->heads[i] = head;
	for (int j = 0; j < LAYERS; j++)
		m->layers[j] = layer;
}

/* 10^-4 to 10^1.6, as losses can be, so that no product counts as 0; some negative. */
static double random_loss(void)
{
	double loss = pow(10, 2.8 * random_float() - 1.2);

	return random_u32() % 10 ? loss : -loss;
}

static void fill_randomly(struct model *m)
{
	for (int i = 0; i < N; i++)
		m->heads[i] = random_loss();
	for (int j = 0; j < LAYERS; j++)
		m->layers[j] = random_loss();
}

static double product(const struct model *m, int i, double limit)
{
	double head = m->heads[i], layer = m->layers[i / HEADS];

	return head > 0 && layer > 0 ? fmin(head * layer, limit) : 0;
}

static double mean_of(const double *ratios)
{
	double sum = 0;

	for (int i = 0; i < N; i++)
		sum += ratios[i];
	return sum / N;
}

static void ratios_are_those_of_equation_3(void **state)
{
	const double limit = 1e-3;
	struct model m;
	double sum = 0;

	random_begin(__func__);
	/* Products of a quarter to all of the limit, and some beyond it: no ratio is cut. */
	for (int j = 0; j < LAYERS; j++)
		m.layers[j] = 0.02 * exp2(0.5 * random_float());
	for (int i = 0; i < N; i++)
		m.heads[i] = i % 7 ? 0.025 * exp2(0.5 * random_float()) : 1 + i;
	give(&m, 0.2, limit);
	for (int i = 0; i < N; i++)
		sum += product(&m, i, limit);
	for (int i = 0; i < N; i++)
		assert_float_equal(m.ratios[i], 0.2 * N * product(&m, i, limit) / sum, 1e-12);
}

/* Not its factors: 5000 times the limit, in a layer of a tenth of it, is half of it. */
static void the_limit_is_of_the_product(void **state)
{
	struct model m;

	fill(&m, 0.1, 0.01);
	m.heads[3] = 5;
	for (int h = 0; h < 3; h++)
		m.heads[h] = 10;
	m.heads[4] = 10;
	m.layers[0] = 1e-4;
	give(&m, 0.2, 1e-3);
	assert_float_equal(m.ratios[3] / m.ratios[N - 1], 0.5, 1e-12);
	assert_float_equal(m.ratios[4] / m.ratios[N - 1], 1, 1e-12);
}

static void the_mean_stays_and_more_importance_never_gives_less(void **state)
{
	static const double limits[] = { 1e-3, 1, DBL_MAX };
	struct model m;

	random_begin(__func__);
	for (int round = 0; round < 1000; round++) {
		double mean = round % 10 ? (random_in(1, 100)) / 100.0 : 1;
		double limit = limits[round % 3];

		fill_randomly(&m);
		give(&m, mean, limit);
		assert_float_equal(mean_of(m.ratios), mean, 1e-12);
		for (int i = 0; i < N; i++) {
			assert_true(m.ratios[i] >= mean * HEAD_RATIOS_FLOOR && m.ratios[i] <= 1);
			for (int j = 0; j < N; j++)
				if (product(&m, i, limit) >= product(&m, j, limit))
					assert_true(m.ratios[i] >= m.ratios[j]);
		}
	}
}

/* Those between floor and 1 keep the proportions of their products. */
static void what_is_cut_goes_to_the_others_in_proportion(void **state)
{
	struct model m;

	random_begin(__func__);
	for (int round = 0; round < 300; round++) {
		double mean = random_in(5, 90) / 100.0, floor = mean * HEAD_RATIOS_FLOOR, scale = 0;

		fill_randomly(&m);
		give(&m, mean, DBL_MAX);
		for (int i = 0; i < N; i++) {
			double p = product(&m, i, DBL_MAX);

			if (m.ratios[i] >= 1 || m.ratios[i] <= floor || p == 0)
				continue;
			if (scale == 0)
				scale = m.ratios[i] / p;
			assert_true(fabs(m.ratios[i] / p / scale - 1) < 1e-9);
		}
		for (int i = 0; i < N && scale > 0; i++) {
			double p = product(&m, i, DBL_MAX);

			if (m.ratios[i] == 1)
				assert_true(p * scale >= 1 - 1e-9);
			if (p > 0 && m.ratios[i] == floor)
				assert_true(p * scale <= floor * (1 + 1e-9));
		}
	}
}

static void one_head_that_matters_keeps_all_and_the_others_share_the_rest(void **state)
{
	struct model m;

	fill(&m, 0, 1);
	m.heads[7] = 1;
	give(&m, 0.2, 1e-3);
	for (int i = 0; i < N; i++)
		assert_float_equal(m.ratios[i], i == 7 ? 1 : (0.2 * N - 1) / (N - 1), 1e-12);
	/* With little to share it cannot keep all. */
	give(&m, 0.02, 1e-3);
	for (int i = 0; i < N; i++)
		assert_float_equal(m.ratios[i],
				   i == 7 ? 0.02 * (N - (N - 1) * HEAD_RATIOS_FLOOR)
					  : 0.02 * HEAD_RATIOS_FLOOR,
				   1e-14);
}

/* ---- heads that have all keys from some ratio on ---- */

static void fill_with_layers_alike(struct model *m)
{
	fill_randomly(m);
	for (int j = 0; j < LAYERS; j++)
		m->layers[j] = 1;
}

static void heads_with_all_keys_count_as_1_in_the_mean(void **state)
{
	static const double limits[] = { 1e-3, 1e-1, 1, DBL_MAX };
	struct model m;

	random_begin(__func__);
	for (int round = 0; round < 1000; round++) {
		double mean = random_in(1, 95) / 100.0, limit = limits[round % 4],
		       whole = round % 3 ? 0.5 : random_in(30, 90) / 100.0;

		fill_with_layers_alike(&m);
		give_below(&m, mean, limit, whole);
		assert_true(fabs(mean_of(m.ratios) - mean) < 1e-12);
		for (int i = 0; i < N; i++) {
			assert_true(m.ratios[i] >= mean * HEAD_RATIOS_FLOOR);
			assert_true(m.ratios[i] < whole || m.ratios[i] == 1);
			for (int j = 0; j < N; j++)
				if (product(&m, i, limit) > product(&m, j, limit))
					assert_true(m.ratios[i] >= m.ratios[j]);
		}
	}
}

/* Of heads with weights of 4, 2 and 1 by turns: what the others have is still in proportion. */
static void heads_beside_those_with_all_keys_keep_their_proportions(void **state)
{
	struct model m;
	double share;

	fill(&m, 1, 1);
	for (int i = 0; i < N; i++)
		m.heads[i] = i % 3 ? 2 - i % 3 / 2 : 4;
	/* At the scale where a 4 is a half, 10 of 1, 10 of 1/4 and 10 of 1/8 would be 13.75. */
	give_below(&m, 14.0 / N, DBL_MAX, 0.5);
	share = (14.0 - 10) / (10 * 3);
	for (int i = 0; i < N; i++)
		assert_true(fabs(m.ratios[i] - (i % 3 ? share * m.heads[i] : 1)) < 1e-12);
}

/* Ten heads alike could have all keys or less than half. The mean allows two of them all, and what
 * is then left is not enough for a third. */
static void the_first_of_equal_heads_have_all_keys_where_not_all_can(void **state)
{
	struct model m;

	fill(&m, 1e-3, 1);
	for (int i = 0; i < 10; i++)
		m.heads[3 * i] = 1;
	give_below(&m, 6.4 / N, DBL_MAX, 0.5);
	assert_true(m.ratios[0] == 1 && m.ratios[3] == 1);
	for (int i = 6; i < N; i += 3)
		assert_true(m.ratios[i] == nextafter(0.5, 0));
	assert_true(fabs(mean_of(m.ratios) - 6.4 / N) < 1e-12);
}

static void equal_importance_gives_equal_ratios(void **state)
{
	static const double equals[][2] = { { 0, 0 },	  { 0.5, 2 },	  { 1e-200, 1e-150 },
					    { -1, 1 },	  { -1, -1 },	  { NAN, 1 },
					    { 1, 1e300 }, { INFINITY, 1 } };
	static const double means[] = { 0.01, 0.2, 0.5, 1 };
	struct model m;

	for (size_t i = 0; i < sizeof(equals) / sizeof(equals[0]); i++)
		for (int k = 0; k < 4; k++) {
			fill(&m, equals[i][0], equals[i][1]);
			give(&m, means[k], HEAD_RATIOS_LIMIT);
			for (int h = 0; h < N; h++)
				assert_float_equal(m.ratios[h], means[k], 1e-14);
		}
}

static void heads_without_which_the_loss_is_no_worse_get_the_floor(void **state)
{
	static const double worthless[][2] = {
		{ -1, 1 }, { -1, -1 }, { NAN, 1 }, { -INFINITY, 1 }, { 0, 1 }
	};
	struct model m;

	for (size_t i = 0; i < sizeof(worthless) / sizeof(worthless[0]); i++) {
		fill(&m, 0.01, 0.01);
		for (int h = 0; h < HEADS; h++)
			m.heads[h] = worthless[i][0];
		m.layers[0] = worthless[i][1];
		give(&m, 0.3, 1e-3);
		for (int h = 0; h < N; h++)
			assert_float_equal(m.ratios[h],
					   h < HEADS ? 0.3 * HEAD_RATIOS_FLOOR
						     : (0.3 * N - HEADS * 0.3 * HEAD_RATIOS_FLOOR) /
							       (N - HEADS),
					   1e-12);
	}
	/* What the loss overflows without is as important as anything at the limit. */
	fill(&m, 1, 1);
	m.heads[2] = INFINITY;
	m.heads[3] = 1e-4;
	m.heads[4] = 1e-13;
	give(&m, 0.3, DBL_MAX);
	assert_true(m.ratios[2] == 1 && m.ratios[0] < 1);
	give(&m, 0.3, 1e-3);
	/* Far too little to be more than the floor. */
	assert_true(m.ratios[4] == 0.3 * HEAD_RATIOS_FLOOR);
	assert_true(m.ratios[2] == m.ratios[0] && m.ratios[3] < m.ratios[0]);
}

static void bad_arguments_are_refused(void **state)
{
	static const double means[] = { 0, -0.1, 1.0001, NAN, INFINITY };
	static const double limits[] = { 0, -1, NAN, INFINITY };
	struct model m;
	struct head_importance all = of(&m);
	struct head_share share;

	fill(&m, 1, 1);
	for (size_t i = 0; i < sizeof(means) / sizeof(means[0]); i++) {
		share = (struct head_share){ means[i], 1, 1 };
		assert_int_equal(head_ratios(&all, &share, m.ratios), -EINVAL);
		assert_non_null(strstr(llm_error(), "mean ratio"));
	}
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		share = (struct head_share){ 0.5, limits[i], 1 };
		assert_int_equal(head_ratios(&all, &share, m.ratios), -EINVAL);
		assert_non_null(strstr(llm_error(), "limit"));
	}
	all.n_head = 0;
	share = (struct head_share){ 0.5, 1, 1 };
	assert_int_equal(head_ratios(&all, &share, m.ratios), -EINVAL);
}

/* ---- gains ---- */

static void give_gains(struct model *m, double mean, double limit)
{
	const struct head_importance gains = { LAYERS, HEADS, m->heads, NULL };
	const struct head_share share = { mean, limit, 1 };

	if (head_ratios(&gains, &share, m->ratios))
		fail_msg("%s", llm_error());
}

/* If a head's loss is its gain by its ratio, no other ratios of that mean lose less. */
static void ratios_by_gains_lose_least(void **state)
{
	random_begin(__func__);
	for (int round = 0; round < 100; round++) {
		double other[N], sum = 0, least = 0, loss = 0;
		struct model m;

		for (int i = 0; i < N; i++) {
			m.heads[i] = 0.04 + 0.03 * random_float();
			other[i] = 1 + 0.5 * random_float();
			sum += other[i];
		}
		give_gains(&m, 0.2, 1);
		for (int i = 0; i < N; i++) {
			assert_true(m.ratios[i] < 1);
			least += m.heads[i] / m.ratios[i];
			loss += m.heads[i] / (0.2 * N * other[i] / sum);
		}
		assert_true(least < loss);
	}
}

static void gains_below_what_can_be_measured_are_alike(void **state)
{
	struct model m;

	for (int i = 0; i < N; i++)
		m.heads[i] = i == 0	  ? 4 * HEAD_RATIOS_NOISE
			     : i % 3 == 0 ? -1
			     : i % 3 == 1 ? HEAD_RATIOS_NOISE / 2
					  : (double)NAN;
	give_gains(&m, 0.2, 1);
	for (int i = 0; i < N; i++)
		assert_float_equal(m.ratios[i], 0.2 * N / (N + 1) * (i ? 1 : 2), 1e-12);
	/* A limit as low as that makes no difference between heads. */
	give_gains(&m, 0.2, 1e-4);
	for (int i = 0; i < N; i++)
		assert_float_equal(m.ratios[i], 0.2, 1e-12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ratios_are_those_of_equation_3),
		cmocka_unit_test(the_limit_is_of_the_product),
		cmocka_unit_test(the_mean_stays_and_more_importance_never_gives_less),
		cmocka_unit_test(what_is_cut_goes_to_the_others_in_proportion),
		cmocka_unit_test(one_head_that_matters_keeps_all_and_the_others_share_the_rest),
		cmocka_unit_test(heads_with_all_keys_count_as_1_in_the_mean),
		cmocka_unit_test(heads_beside_those_with_all_keys_keep_their_proportions),
		cmocka_unit_test(the_first_of_equal_heads_have_all_keys_where_not_all_can),
		cmocka_unit_test(equal_importance_gives_equal_ratios),
		cmocka_unit_test(heads_without_which_the_loss_is_no_worse_get_the_floor),
		cmocka_unit_test(ratios_by_gains_lose_least),
		cmocka_unit_test(gains_below_what_can_be_measured_are_alike),
		cmocka_unit_test(bad_arguments_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
