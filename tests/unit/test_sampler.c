// SPDX-License-Identifier: MIT
/* Sampling: which tokens are drawn, how often, and the effect of the seed. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "llm.h"

#define OFF .top_p = 1

static struct llm_sampler *create(struct llm_sampler_options opts, unsigned int n_vocab)
{
	struct llm_sampler *s;

	if (llm_sampler_create(&opts, n_vocab, &s))
		fail_msg("%s", llm_error());
	return s;
}

/* Counts how often each token is drawn in @n draws. */
static void draw(struct llm_sampler_options opts, const float *logits, unsigned int n_vocab,
		 unsigned int n, unsigned int *counts)
{
	struct llm_sampler *s = create(opts, n_vocab);

	memset(counts, 0, n_vocab * sizeof(*counts));
	for (unsigned int i = 0; i < n; i++) {
		int32_t id = llm_sample(s, logits);

		assert_in_range(id, 0, n_vocab - 1);
		counts[id]++;
	}
	llm_sampler_free(s);
}

static void test_argmax_is_the_lowest_id_of_equal_ones(void **state)
{
	const float logits[] = { -1, 3, 2, 3, 3 };

	assert_int_equal(llm_argmax(logits, 5), 1);
	assert_int_equal(llm_argmax(logits, 1), 0);
}

static void test_argmax_is_never_a_nan(void **state)
{
	const float logits[] = { NAN, -5, NAN, -4, NAN };

	assert_int_equal(llm_argmax(logits, 5), 3);
	assert_int_equal(llm_argmax(logits, 1), 0);
}

static void test_no_temperature_is_greedy(void **state)
{
	const float logits[] = { 1, 1.001f, 0.9f };
	unsigned int counts[3];

	draw((struct llm_sampler_options){ .temperature = 0, OFF, .seed = 7 }, logits, 3, 100,
	     counts);
	assert_int_equal(counts[1], 100);
	draw((struct llm_sampler_options){ .temperature = -1, OFF, .seed = 7 }, logits, 3, 100,
	     counts);
	assert_int_equal(counts[1], 100);
}

/* Counts of 40,000 draws are within five standard deviations of softmax(logits / temperature). */
static void check_distribution(float temperature)
{
	const float logits[] = { 0, 1, 2, -1, 0.5f };
	unsigned int counts[5], n = 40000;
	double sum = 0;

	for (int i = 0; i < 5; i++)
		sum += exp((double)(logits[i] / temperature));
	draw((struct llm_sampler_options){ .temperature = temperature, OFF, .seed = 1 }, logits, 5,
	     n, counts);
	for (int i = 0; i < 5; i++) {
		double p = exp((double)(logits[i] / temperature)) / sum;

		assert_true(fabs(counts[i] - n * p) < 5 * sqrt(n * p * (1 - p)));
	}
}

static void test_draws_follow_the_softmax_at_the_temperature(void **state)
{
	check_distribution(1);
	check_distribution(0.5f);
	check_distribution(3);
}

static void test_top_k_keeps_the_likeliest(void **state)
{
	const float logits[] = { 0, 3, 1, 3, 2, 2 };
	unsigned int counts[6];

	draw((struct llm_sampler_options){ .temperature = 5, .top_k = 3, OFF }, logits, 6, 2000,
	     counts);
	/* Of the two tokens with a logit of 2, the one with the lower id. */
	assert_true(counts[1] && counts[3] && counts[4]);
	assert_int_equal(counts[0] + counts[2] + counts[5], 0);
}

static void test_top_p_keeps_the_fewest_that_reach_it(void **state)
{
	/* Sorted: 0.5, 0.25, 0.15, 0.1 */
	const float logits[] = { logf(0.1f), logf(0.5f), logf(0.15f), logf(0.25f) };
	unsigned int counts[4];

	draw((struct llm_sampler_options){ .temperature = 1, .top_p = 0.74f }, logits, 4, 2000,
	     counts);
	assert_true(counts[1] && counts[3]);
	assert_int_equal(counts[0] + counts[2], 0);
	draw((struct llm_sampler_options){ .temperature = 1, .top_p = 0.8f }, logits, 4, 2000,
	     counts);
	assert_true(counts[1] && counts[3] && counts[2]);
	assert_int_equal(counts[0], 0);
	draw((struct llm_sampler_options){ .temperature = 1, .top_p = 0.01f }, logits, 4, 200,
	     counts);
	assert_int_equal(counts[1], 200);
}

static void test_top_p_of_a_flat_distribution_keeps_that_share(void **state)
{
	enum { N = 1000 };
	static float logits[N];
	static unsigned int counts[N];
	unsigned int drawn = 0;

	draw((struct llm_sampler_options){ .temperature = 1, .top_p = 0.5f }, logits, N, 20000,
	     counts);
	/* Equal ones are ordered by id. */
	for (int i = 0; i < N; i++)
		drawn += counts[i] > 0;
	for (int i = N / 2; i < N; i++)
		assert_int_equal(counts[i], 0);
	assert_int_equal(drawn, N / 2);
}

static void test_min_p_keeps_tokens_near_the_likeliest(void **state)
{
	const float logits[] = { logf(0.04f), logf(0.5f), logf(0.06f), logf(0.4f) };
	unsigned int counts[4];

	draw((struct llm_sampler_options){ .temperature = 1, .min_p = 0.1f, OFF }, logits, 4, 2000,
	     counts);
	assert_true(counts[1] && counts[2] && counts[3]);
	assert_int_equal(counts[0], 0);
}

static void test_a_seed_fixes_the_draws_and_another_one_changes_them(void **state)
{
	float logits[64] = { 0 };
	struct llm_sampler *a =
		create((struct llm_sampler_options){ .temperature = 1, OFF, .seed = 5 }, 64);
	struct llm_sampler *b =
		create((struct llm_sampler_options){ .temperature = 1, OFF, .seed = 5 }, 64);
	struct llm_sampler *c =
		create((struct llm_sampler_options){ .temperature = 1, OFF, .seed = 6 }, 64);
	int same = 0;

	for (int i = 0; i < 200; i++) {
		int32_t id = llm_sample(a, logits);

		assert_int_equal(llm_sample(b, logits), id);
		same += llm_sample(c, logits) == id;
	}
	assert_true(same < 30);
	llm_sampler_free(a);
	llm_sampler_free(b);
	llm_sampler_free(c);
}

static void test_filters_agree_with_a_full_sort(void **state)
{
	enum { N = 700 };
	static float logits[N];
	static unsigned int counts[N];

	for (int i = 0; i < N; i++)
		logits[i] = (float)(i * 7919 % N) / 40;
	for (int k = 1; k < N; k += 97) {
		draw((struct llm_sampler_options){ .temperature = 1000, .top_k = k, OFF }, logits,
		     N, 5000, counts);
		for (int i = 0; i < N; i++) {
			if (i * 7919 % N < N - k)
				assert_int_equal(counts[i], 0);
		}
	}
}

static void test_tokens_without_a_finite_logit_are_never_drawn(void **state)
{
	const float some[] = { NAN, 1, -INFINITY, 1, NAN }, none[] = { NAN, -INFINITY, NAN };
	unsigned int counts[5];

	draw((struct llm_sampler_options){ .temperature = 1, .top_p = 0.9f, .top_k = 4 }, some, 5,
	     500, counts);
	assert_int_equal(counts[1] + counts[3], 500);
	draw((struct llm_sampler_options){ .temperature = 1, OFF }, none, 3, 5, counts);
	assert_int_equal(counts[1], 5);
}

static void test_options_that_leave_no_token_are_refused(void **state)
{
	const struct llm_sampler_options bad[] = {
		{ .temperature = NAN, OFF },
		{ .temperature = INFINITY, OFF },
		{ .temperature = 1, .top_p = 0 },
		{ .temperature = 1, .top_p = -1 },
		{ .temperature = 1, .top_p = NAN },
		{ .temperature = 1, OFF, .min_p = 1.5f },
		{ .temperature = 1, OFF, .min_p = NAN },
	};
	struct llm_sampler *s;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(llm_sampler_create(&bad[i], 8, &s), -EINVAL);
		assert_null(s);
	}
	assert_int_equal(llm_sampler_create(&(struct llm_sampler_options){ OFF }, 0, &s), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_argmax_is_the_lowest_id_of_equal_ones),
		cmocka_unit_test(test_argmax_is_never_a_nan),
		cmocka_unit_test(test_no_temperature_is_greedy),
		cmocka_unit_test(test_draws_follow_the_softmax_at_the_temperature),
		cmocka_unit_test(test_top_k_keeps_the_likeliest),
		cmocka_unit_test(test_top_p_keeps_the_fewest_that_reach_it),
		cmocka_unit_test(test_top_p_of_a_flat_distribution_keeps_that_share),
		cmocka_unit_test(test_min_p_keeps_tokens_near_the_likeliest),
		cmocka_unit_test(test_a_seed_fixes_the_draws_and_another_one_changes_them),
		cmocka_unit_test(test_filters_agree_with_a_full_sort),
		cmocka_unit_test(test_tokens_without_a_finite_logit_are_never_drawn),
		cmocka_unit_test(test_options_that_leave_no_token_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
