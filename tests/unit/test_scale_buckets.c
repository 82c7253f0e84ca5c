// SPDX-License-Identifier: MIT
/* Scale buckets: the grid, the choice beside all pairs, and a calibration's means. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "llm.h"
#include "npu_random.h"
#include "scale_buckets.h"

static void make(struct scale_buckets *b, unsigned int n, double q, double k, double sigma)
{
	if (scale_buckets_init(b, n, q, k, sigma))
		fail_msg("%s", llm_error());
}

static void the_nine_buckets_are_the_papers(void **state)
{
	static const double steps[] = { 0.5, 1, 2 };
	struct scale_buckets b;

	make(&b, SCALE_BUCKETS_DEFAULT, 0.25, 0.0625, SCALE_BUCKETS_SIGMA);
	assert_int_equal(scale_buckets_count(&b), 9);
	for (unsigned int q = 0; q < 3; q++)
		for (unsigned int k = 0; k < 3; k++) {
			unsigned int i = scale_buckets_index(&b, q, k);

			assert_int_equal(i, 3 * q + k);
			assert_true(scale_buckets_q(&b, i) == 0.25 * steps[q]);
			assert_true(scale_buckets_k(&b, i) == 0.0625 * steps[k]);
		}
}

static void any_odd_grid_has_the_mean_in_its_middle(void **state)
{
	struct scale_buckets b;

	for (unsigned int side = 1; side <= SCALE_BUCKETS_MAX_SIDE; side += 2) {
		make(&b, side * side, 0.3, 0.07, 0.7);
		assert_int_equal(scale_buckets_count(&b), side * side);
		assert_true(b.q[side / 2] == 0.3f && b.k[side / 2] == 0.07f);
		for (unsigned int i = 1; i < side; i++) {
			assert_float_equal(b.q[i - 1] / b.q[i], 0.7, 1e-6);
			assert_float_equal(b.k[i - 1] / b.k[i], 0.7, 1e-6);
		}
	}
}

static long double squared_error(const struct scale_buckets *b, unsigned int i, float q, float k)
{
	long double dq = (long double)q - scale_buckets_q(b, i),
		    dk = (long double)k - scale_buckets_k(b, i);

	return dq * dq + dk * dk;
}

/* Scales of 0.1 to 10 times the mean, and exactly between two. */
static float random_scale(const float *scales, unsigned int side)
{
	unsigned int i = random_in(0, side - 1), j = random_in(0, side - 1);

	if (random_u32() % 4 == 0)
		return (scales[i] + scales[j]) / 2;
	return scales[side / 2] * powf(10, random_float());
}

/* The choice by coordinates has the least error of all pairs; of equals the first. */
static void each_coordinate_takes_its_nearest(void **state)
{
	random_begin(__func__);
	for (int round = 0; round < 20000; round++) {
		struct scale_buckets b;
		unsigned int side = 1 + 2 * random_in(0, SCALE_BUCKETS_MAX_SIDE / 2), best = 0;
		float q, k;

		make(&b, side * side, exp2(4 * random_float()), exp2(4 * random_float()),
		     random_in(20, 95) / 100.0);
		q = random_scale(b.q, side);
		k = random_scale(b.k, side);
		for (unsigned int i = 1; i < scale_buckets_count(&b); i++)
			if (squared_error(&b, i, q, k) < squared_error(&b, best, q, k))
				best = i;
		assert_int_equal(scale_buckets_pick(&b, q, k), best);
		assert_int_equal(scale_buckets_index(&b, scale_buckets_nearest_q(&b, q),
						     scale_buckets_nearest_k(&b, k)),
				 best);
	}
}

static void names_say_the_steps(void **state)
{
	char name[SCALE_BUCKETS_NAME_BYTES];
	struct scale_buckets b;

	make(&b, 1, 1, 1, 0.5);
	scale_buckets_name(&b, 0, name);
	assert_string_equal(name, "q0k0");
	make(&b, 25, 1, 1, 0.5);
	scale_buckets_name(&b, scale_buckets_pick(&b, 4, 0.5f), name);
	assert_string_equal(name, "q+2k-1");
	scale_buckets_name(&b, scale_buckets_pick(&b, 1, 2), name);
	assert_string_equal(name, "q0k+1");
	scale_buckets_name(&b, scale_buckets_pick(&b, 0.25f, 1), name);
	assert_string_equal(name, "q-2k0");
}

static void bad_grids_are_refused(void **state)
{
	static const unsigned int counts[] = { 0, 2, 4, 8, 10, 16, 100, 121 };
	static const double sigmas[] = { 0, 1, -0.5, 2, NAN };
	static const double means[] = { 0, -1, NAN, INFINITY, 1e-40, 1e40 };
	struct scale_buckets b;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		assert_int_equal(scale_buckets_init(&b, counts[i], 1, 1, 0.5), -EINVAL);
		assert_non_null(strstr(llm_error(), "square of an odd number"));
	}
	for (size_t i = 0; i < sizeof(sigmas) / sizeof(sigmas[0]); i++) {
		assert_int_equal(scale_buckets_init(&b, 9, 1, 1, sigmas[i]), -EINVAL);
		assert_non_null(strstr(llm_error(), "step"));
	}
	for (size_t i = 0; i < sizeof(means) / sizeof(means[0]); i++) {
		assert_int_equal(scale_buckets_init(&b, 9, means[i], 1, 0.5), -EINVAL);
		assert_int_equal(scale_buckets_init(&b, 9, 1, means[i], 0.5), -EINVAL);
		assert_non_null(strstr(llm_error(), "mean scales"));
	}
	/* The mean is a float, a step from it is none. */
	assert_int_equal(scale_buckets_init(&b, 9, 1e38, 1, 0.1), -EINVAL);
}

static void a_scale_is_the_largest_magnitude_of_a_heads_rows(void **state)
{
	enum { ROWS = 7, HEADS = 3, DIM = 5 };
	float x[ROWS][HEADS][DIM], max;

	random_begin(__func__);
	for (int round = 0; round < 100; round++) {
		random_floats(&x[0][0][0], ROWS * HEADS * DIM);
		for (int h = 0; h < HEADS; h++) {
			max = 0;
			for (int r = 0; r < ROWS; r++)
				for (int i = 0; i < DIM; i++)
					max = fmaxf(max, fabsf(x[r][h][i]));
			assert_true(scale_buckets_scale(x[0][h], ROWS, DIM, HEADS * DIM) ==
				    max / 127);
		}
	}
	x[ROWS - 1][1][DIM - 1] = NAN;
	assert_true(isnan(scale_buckets_scale(x[0][1], ROWS, DIM, HEADS * DIM)));
	assert_true(isfinite(scale_buckets_scale(x[0][2], ROWS, DIM, HEADS * DIM)));
	x[2][2][0] = -INFINITY;
	assert_true(isinf(scale_buckets_scale(x[0][2], ROWS, DIM, HEADS * DIM)));
}

static void means_are_of_what_was_added(void **state)
{
	struct scale_mean m = { 0 };

	assert_true(scale_mean(&m) == 0);
	assert_int_equal(scale_mean_add(&m, 1), 0);
	assert_int_equal(scale_mean_add(&m, 0), 0);
	assert_int_equal(scale_mean_add(&m, NAN), -EINVAL);
	assert_int_equal(scale_mean_add(&m, INFINITY), -EINVAL);
	assert_int_equal(scale_mean_add(&m, -1), -EINVAL);
	assert_int_equal(scale_mean_add(&m, 3.5f), 0);
	assert_true(scale_mean(&m) == 1.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nine_buckets_are_the_papers),
		cmocka_unit_test(any_odd_grid_has_the_mean_in_its_middle),
		cmocka_unit_test(each_coordinate_takes_its_nearest),
		cmocka_unit_test(names_say_the_steps),
		cmocka_unit_test(bad_grids_are_refused),
		cmocka_unit_test(a_scale_is_the_largest_magnitude_of_a_heads_rows),
		cmocka_unit_test(means_are_of_what_was_added),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
