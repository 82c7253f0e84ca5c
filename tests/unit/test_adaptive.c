// SPDX-License-Identifier: MIT
/* Adaptive quantisation: widths, the error in closed form beside the exact one, and the numbers. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "adaptive.h"
#include "llm.h"
#include "npu_random.h"

#define FEW 4
#define WEIGHTS 512

static double total_error(const struct adaptive_channel *c, const uint8_t *bits, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += adaptive_error(&c[i], bits[i]);
	return sum;
}

static unsigned int total_bits(const uint8_t *bits, size_t n)
{
	unsigned int sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += bits[i];
	return sum;
}

/* The least error of all widths that add up to no more than @budget. */
static double least_error(const struct adaptive_channel *c, size_t n, unsigned int budget)
{
	double least = INFINITY;
	uint8_t bits[FEW];

	for (unsigned int code = 0; code < 1u << (3 * n); code++) {
		for (size_t i = 0; i < n; i++)
			bits[i] = (uint8_t)(1 + (code >> (3 * i)) % 8);
		if (total_bits(bits, n) <= budget)
			least = fmin(least, total_error(c, bits, n));
	}
	return least;
}

static struct adaptive_channel random_channel(void)
{
	/* Maxima of 1 to 2^8 times the root of the mean square. */
	float max = exp2f((float)(random_u32() % 40) - 20),
	      ratio = exp2f(8 * fabsf(random_float()));

	return (struct adaptive_channel){ max, (double)max * max / ratio / ratio };
}

static void no_other_widths_lose_less(void **state)
{
	struct adaptive_channel c[FEW];
	uint8_t bits[FEW];

	random_begin(__func__);
	for (int round = 0; round < 300; round++) {
		size_t n = random_in(1, FEW);
		unsigned int budget = random_in((uint32_t)n, (uint32_t)(8 * n));

		for (size_t i = 0; i < n; i++)
			c[i] = random_channel();
		assert_int_equal(adaptive_allocate(c, n, (double)budget / (double)n, bits), 0);
		assert_int_equal(total_bits(bits, n), budget);
		assert_float_equal(total_error(c, bits, n) / least_error(c, n, budget), 1, 1e-12);
	}
}

static void widths_add_up_to_any_average(void **state)
{
	static const double averages[] = { 1, 1.001, 3.25, 4.7, 6.999, 7.3, 8 };
	struct adaptive_channel c[1000];
	uint8_t bits[1000];

	random_begin(__func__);
	for (size_t i = 0; i < 1000; i++)
		c[i] = random_channel();
	for (size_t a = 0; a < sizeof(averages) / sizeof(averages[0]); a++)
		for (size_t n = 1; n <= 1000; n += random_in(1, 200)) {
			double exact = (double)n * averages[a];

			assert_int_equal(adaptive_allocate(c, n, averages[a], bits), 0);
			for (size_t i = 0; i < n; i++)
				assert_in_range(bits[i], 1, 8);
			assert_true(total_bits(bits, n) <= exact + 1e-3);
			assert_true(total_bits(bits, n) > exact - 1);
		}
	assert_int_equal(adaptive_allocate(c, 0, 4, bits), 0);
}

static void equal_channels_differ_by_a_bit_and_the_first_have_it(void **state)
{
	struct adaptive_channel c[10];
	uint8_t bits[10];

	for (size_t i = 0; i < 10; i++)
		c[i] = (struct adaptive_channel){ 3, 1 };
	assert_int_equal(adaptive_allocate(c, 10, 4.3, bits), 0);
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(bits[i], i < 3 ? 5 : 4);
}

static void averages_out_of_range_are_refused(void **state)
{
	static const double bad[] = { 0.99, 8.01, -1, NAN, INFINITY };
	struct adaptive_channel c = { 1, 1 };
	uint8_t bits = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(adaptive_allocate(&c, 1, bad[i], &bits), -EINVAL);
		assert_non_null(strstr(llm_error(), "choose 1 to 8"));
		assert_int_equal(bits, 0);
	}
}

static void channels_of_zeros_lose_nothing_and_get_bits_last(void **state)
{
	float zeros[WEIGHTS] = { 0 }, w[WEIGHTS];
	struct adaptive_channel c[3];
	uint8_t bits[3];
	int8_t q[WEIGHTS];

	random_begin(__func__);
	random_floats(w, WEIGHTS);
	c[0] = c[2] = adaptive_measure(zeros, WEIGHTS);
	c[1] = adaptive_measure(w, WEIGHTS);
	assert_int_equal(adaptive_allocate(c, 3, 10 / 3.0, bits), 0);
	assert_true(bits[0] == 1 && bits[1] == 8 && bits[2] == 1);
	assert_int_equal(adaptive_allocate(c, 3, 8, bits), 0);
	assert_int_equal(total_bits(bits, 3), 24);
	for (unsigned int b = 1; b <= 8; b++) {
		assert_true(adaptive_error(&c[0], b) == 0);
		assert_true(adaptive_quantize(zeros, WEIGHTS, b, q) == 0);
		for (size_t i = 0; i < WEIGHTS; i++)
			assert_int_equal(q[i], b == 1 ? 1 : 0);
	}
	assert_true(adaptive_distance(zeros, q, WEIGHTS) == 0);
	assert_true(adaptive_distance(w, q, WEIGHTS) == 1);
}

/* Sums of uniform numbers: nearly normal. */
static void random_weights(float *w, float scale)
{
	for (size_t i = 0; i < WEIGHTS; i++) {
		w[i] = 0;
		for (int k = 0; k < 6; k++)
			w[i] += random_float() * scale;
	}
}

static double squared_error(const float *w, const int8_t *q, float scale)
{
	double sum = 0;

	for (size_t i = 0; i < WEIGHTS; i++)
		sum += ((double)w[i] - (double)scale * q[i]) *
		       ((double)w[i] - (double)scale * q[i]);
	return sum;
}

/*
 * A step of 2 max / 2^b has the error max^2 / 2^2b / 3 on average, and half of its ratio to
 * the mean square is the distance: a sixth of the closed form. Narrow numbers are better than that,
 * as their search clips what is rare.
 */
static void the_closed_form_is_six_times_the_distance(void **state)
{
	float w[WEIGHTS];
	int8_t q[WEIGHTS];

	random_begin(__func__);
	for (unsigned int b = 1; b <= 8; b++) {
		double exact = 0, closed = 0;

		for (int round = 0; round < 100; round++) {
			struct adaptive_channel c;

			random_weights(w, 0.01f);
			c = adaptive_measure(w, WEIGHTS);
			closed += adaptive_error(&c, b) / 6;
			adaptive_quantize(w, WEIGHTS, b, q);
			exact += adaptive_distance(w, q, WEIGHTS);
		}
		print_message("%u bits: the distance is %.2f of a sixth of the closed form\n", b,
			      exact / closed);
		assert_true(exact / closed < 1.1);
		if (b >= 6)
			assert_float_equal(exact / closed, 1, 0.15);
	}
}

static void numbers_are_of_their_width_and_the_scale_has_the_least_error(void **state)
{
	float w[WEIGHTS];
	int8_t q[WEIGHTS];

	random_begin(__func__);
	for (int round = 0; round < 50; round++)
		for (unsigned int b = 1; b <= 8; b++) {
			float scale;
			double error;

			random_weights(w, exp2f((float)(random_u32() % 60) - 30));
			scale = adaptive_quantize(w, WEIGHTS, b, q);
			error = squared_error(w, q, scale);
			assert_true(scale > 0);
			for (size_t i = 0; i < WEIGHTS; i++)
				if (b == 1)
					assert_true(q[i] == 1 || q[i] == -1);
				else
					assert_true(q[i] >= -(1 << (b - 1)) && q[i] < 1 << (b - 1));
			assert_true(error <= squared_error(w, q, scale * 1.001f));
			assert_true(error <= squared_error(w, q, scale * 0.999f));
		}
}

static void more_bits_lose_less(void **state)
{
	float w[WEIGHTS];
	int8_t q[WEIGHTS];

	random_begin(__func__);
	for (int round = 0; round < 50; round++) {
		double last = INFINITY;

		random_weights(w, 1);
		for (unsigned int b = 1; b <= 8; b++) {
			double error = squared_error(w, q, adaptive_quantize(w, WEIGHTS, b, q));

			assert_true(error < last);
			last = error;
		}
	}
}

static void the_search_is_better_than_a_scale_of_the_maximum(void **state)
{
	float w[WEIGHTS];
	int8_t q[WEIGHTS], plain[WEIGHTS];

	random_begin(__func__);
	for (unsigned int b = 2; b <= 8; b++) {
		double searched = 0, maximum = 0;

		for (int round = 0; round < 50; round++) {
			float scale, step;

			random_weights(w, 1);
			scale = adaptive_quantize(w, WEIGHTS, b, q);
			searched += squared_error(w, q, scale);
			step = adaptive_measure(w, WEIGHTS).max / (float)((1 << (b - 1)) - 1);
			for (size_t i = 0; i < WEIGHTS; i++)
				plain[i] = (int8_t)lrintf(w[i] / step);
			maximum += squared_error(w, plain, step);
		}
		print_message("%u bits: squared error %.3f of max / %d's\n", b, searched / maximum,
			      (1 << (b - 1)) - 1);
		assert_true(searched < maximum);
	}
}

/*
 * EdgeFlow divides outputs by their maxima, with beta = 1. An output channel's scale absorbs any
 * factor: its numbers and its relative error stay the same, so there is nothing to compute for it.
 */
static void a_factor_of_an_output_channel_changes_only_its_scale(void **state)
{
	float w[WEIGHTS], scaled[WEIGHTS];
	int8_t q[WEIGHTS], other[WEIGHTS];

	random_begin(__func__);
	for (unsigned int b = 1; b <= 8; b++) {
		float factor = exp2f((float)random_in(0, 20) - 10), scale;
		struct adaptive_channel c, d;

		random_weights(w, 1);
		for (size_t i = 0; i < WEIGHTS; i++)
			scaled[i] = w[i] / factor;
		c = adaptive_measure(w, WEIGHTS);
		d = adaptive_measure(scaled, WEIGHTS);
		assert_true(adaptive_error(&c, b) == adaptive_error(&d, b));
		scale = adaptive_quantize(w, WEIGHTS, b, q);
		assert_true(adaptive_quantize(scaled, WEIGHTS, b, other) * factor == scale);
		assert_memory_equal(q, other, sizeof(q));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_other_widths_lose_less),
		cmocka_unit_test(widths_add_up_to_any_average),
		cmocka_unit_test(equal_channels_differ_by_a_bit_and_the_first_have_it),
		cmocka_unit_test(averages_out_of_range_are_refused),
		cmocka_unit_test(channels_of_zeros_lose_nothing_and_get_bits_last),
		cmocka_unit_test(the_closed_form_is_six_times_the_distance),
		cmocka_unit_test(numbers_are_of_their_width_and_the_scale_has_the_least_error),
		cmocka_unit_test(more_bits_lose_less),
		cmocka_unit_test(a_factor_of_an_output_channel_changes_only_its_scale),
		cmocka_unit_test(the_search_is_better_than_a_scale_of_the_maximum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
