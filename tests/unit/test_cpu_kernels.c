// SPDX-License-Identifier: MIT
/*
 * The CPU lane's kernels, each set compared with double precision, over random shapes; TEST_SEED=N
 * repeats a run.
 *
 * Bounds: a dot product of n terms in 8 or 16 lanes stays within (n / 8 + 8) roundings of the sum
 * of magnitudes; INT8 is exact, since all sets round x / scale in the same way.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "cpu_kernels.h"

static uint64_t state;

static uint32_t random_u32(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (uint32_t)(state * 0x2545f4914f6cdd1du >> 32);
}

static unsigned int random_in(unsigned int min, unsigned int max)
{
	return min + random_u32() % (max - min + 1);
}

static float random_float(float range)
{
	return ((float)random_u32() / 2147483648.0f - 1.0f) * range;
}

/* Exactly n floats, so that the sanitizer sees overruns. */
static float *random_floats(size_t n, float range)
{
	float *x = malloc(n * sizeof(*x));

	for (size_t i = 0; i < n; i++)
		x[i] = random_float(range);
	return x;
}

static const struct cpu_kernels *const *all_sets(unsigned int *n)
{
	static const struct cpu_kernels *sets[3];
	static const char *const names[] = { "generic", "avx2", "avx512" };

	*n = 0;
	for (int i = 0; i < 3; i++) {
		const struct cpu_kernels *set = cpu_kernels_get(names[i]);

		if (set)
			sets[(*n)++] = set;
	}
	return sets;
}

#define for_each_set(set)                                                   \
	unsigned int nr_sets_, i_ = 0;                                      \
	const struct cpu_kernels *const *sets_ = all_sets(&nr_sets_), *set; \
	for (; i_ < nr_sets_ && (set = sets_[i_]); i_++)

static void check_close(const struct cpu_kernels *set, const char *what, double got, double want,
			double bound)
{
	if (!(fabs(got - want) <= bound))
		fail_msg("%s %s: %.9g, expected %.9g within %.3g", set->name, what, got, want,
			 bound);
}

/* Indices and sums have the same bits in all sets; NaNs and limits themselves are not beyond. */
static void test_outliers_have_the_same_bits_in_all_sets(void **s)
{
	for (int round = 0; round < 200; round++) {
		size_t n = random_in(1, 300), rows = random_in(0, 20), nr[3] = { 0 };
		float *x = random_floats(n, 4), *a = random_floats(rows + 1, 2), *y[3];
		uint16_t *w = malloc((rows + 1) * n * sizeof(*w));
		const uint16_t *list[20];
		uint32_t *found[3];
		float limit = 3.5f;

		x[random_in(0, (unsigned int)n - 1)] = NAN;
		x[random_in(0, (unsigned int)n - 1)] = limit;
		x[random_in(0, (unsigned int)n - 1)] = -INFINITY;
		for (size_t i = 0; i < rows * n; i++)
			w[i] = (uint16_t)(random_u32() % 0x7c00 | (random_u32() & 0x8000));
		for (size_t i = 0; i < rows; i++)
			list[i] = w + i * n;
		for_each_set(set)
		{
			int at = (int)i_;

			found[at] = malloc(n * sizeof(uint32_t));
			y[at] = random_floats(n, 1);
			nr[at] = set->beyond(found[at], x, n, limit);
			set->sum_rows(y[at], list, a, rows, n);
			assert_int_equal(nr[at], nr[0]);
			assert_memory_equal(found[at], found[0], nr[0] * sizeof(uint32_t));
			assert_memory_equal(y[at], y[0], n * sizeof(float));
		}
		for (size_t i = 0, next = 0; i < n; i++) {
			bool is = next < nr[0] && found[0][next] == i;

			assert_int_equal(is, fabsf(x[i]) > limit);
			next += is;
		}
		for (unsigned int i = 0; i < nr_sets_; i++) {
			free(found[i]);
			free(y[i]);
		}
		free(x);
		free(a);
		free(w);
	}
}

static void test_the_generic_set_is_always_there(void **s)
{
	assert_ptr_equal(cpu_kernels_get("generic"), &cpu_kernels_generic);
	assert_non_null(cpu_kernels_get(NULL));
	assert_null(cpu_kernels_get("mmx"));
}

static void check_matmul(const struct cpu_kernels *set, unsigned int m, unsigned int n,
			 unsigned int k)
{
	size_t ldx = k + random_in(0, 9), ldw = k + random_in(0, 9), ldy = n + random_in(0, 9);
	float *x = random_floats((m - 1) * ldx + k, 2), *w = random_floats((n - 1) * ldw + k, 2);
	float *y = random_floats((m - 1) * ldy + n, 1), *one = random_floats(n, 1);

	set->matmul(y, ldy, x, ldx, m, w, ldw, n, k);
	for (unsigned int i = 0; i < m; i++) {
		for (unsigned int j = 0; j < n; j++) {
			double sum = 0, mag = 0;

			for (unsigned int c = 0; c < k; c++) {
				double term = (double)x[i * ldx + c] * (double)w[j * ldw + c];

				sum += term;
				mag += fabs(term);
			}
			check_close(set, "matmul", (double)y[i * ldy + j], sum,
				    mag * 6e-8 * (k / 8.0 + 8));
		}
		/* An element does not depend on the other rows. */
		set->matmul(one, n, x + i * ldx, ldx, 1, w, ldw, n, k);
		assert_memory_equal(one, y + i * ldy, n * sizeof(float));
	}
	for (unsigned int j = 0; j < n; j++) {
		set->matmul(one, 1, x, ldx, 1, w + j * ldw, ldw, 1, k);
		assert_memory_equal(one, y + j, sizeof(float));
	}
	free(x);
	free(w);
	free(y);
	free(one);
}

static void test_matmul_equals_double_precision_in_any_blocking(void **s)
{
	for_each_set(set)
	{
		for (int i = 0; i < 60; i++)
			check_matmul(set, random_in(1, 13), random_in(1, 21), random_in(1, 130));
	}
}

static void test_quantisation_is_the_same_in_all_sets_and_nearest_even(void **s)
{
	for_each_set(set)
	{
		for (int i = 0; i < 100; i++) {
			unsigned int n = random_in(1, 200);
			float *x = random_floats(n, i % 3 ? 4 : 1e-38f), scale, max = 0;
			int8_t *q = malloc(n);

			/* Half-way values: a scale of one. */
			if (i % 5 == 0) {
				for (unsigned int c = 0; c < n; c++)
					x[c] = (float)((int)random_in(0, 508) - 254) / 2;
				x[random_in(0, n - 1)] = -127;
			}
			for (unsigned int c = 0; c < n; c++)
				max = fmaxf(max, fabsf(x[c]));
			assert_int_equal(set->quant(q, &scale, x, n), 0);
			assert_true(scale == max / 127.0f);
			for (unsigned int c = 0; c < n; c++) {
				float r = scale > 0 ? nearbyintf(x[c] / scale) : 0;

				assert_int_equal(q[c], r > 127 ? 127 : r < -127 ? -127 : (int)r);
			}
			free(x);
			free(q);
		}
	}
}

static void test_quantisation_refuses_nan_and_infinity(void **s)
{
	static const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };

	for_each_set(set)
	{
		for (unsigned int n = 1; n < 40; n++) {
			for (int b = 0; b < 4; b++) {
				float x[40] = { 0 }, scale;
				int8_t q[40];

				x[n - 1] = bad[b];
				assert_int_equal(set->quant(q, &scale, x, n), -1);
				x[n - 1] = 0;
				assert_int_equal(set->quant(q, &scale, x, n), 0);
				assert_true(scale == 0 && q[n - 1] == 0);
			}
		}
	}
}

/* Logits of some kind, in a row of exactly @n. */
static float *random_logits(size_t n)
{
	float *x = random_floats(n, random_in(0, 1) ? 300 : 1e-3f);

	if (random_in(0, 2) == 0)
		x[random_in(0, (unsigned int)n - 1)] = -3e38f;
	return x;
}

static double exp_bound(double want)
{
	return 8 * 0x1p-53 * want + 1e-307;
}

static void test_exp_is_the_same_in_all_sets_and_close_to_libm(void **s)
{
	for (int round = 0; round < 200; round++) {
		unsigned int n = random_in(1, 300);
		float temperature = random_in(0, 1) ? 1 : 0.1f + random_float(0.05f),
		      max = -INFINITY;
		float *x = random_logits(n);
		double *first = malloc(n * sizeof(*first)), *p = malloc(n * sizeof(*p)), sum = 0;

		for (unsigned int i = 0; i < n; i++)
			max = x[i] > max ? x[i] : max;
		for_each_set(set)
		{
			double got = set->exp(set == sets_[0] ? first : p, x, n, max, temperature);

			if (set == sets_[0])
				sum = got;
			assert_true(got == sum);
			assert_true(set == sets_[0] || !memcmp(p, first, n * sizeof(*p)));
			for (unsigned int i = 0; i < n; i++) {
				double want =
					exp(((double)x[i] - (double)max) / (double)temperature);

				/* The exponent's rounding counts as often as it is large. */
				check_close(set, "exp", first[i], want,
					    exp_bound(want) * (1 + fabs(log(want + 1e-307))));
			}
		}
		free(x);
		free(first);
		free(p);
	}
}

static void test_the_exp_of_the_greatest_logit_is_1_and_of_one_far_below_0(void **s)
{
	const float x[] = { 3, 3 - 709, -INFINITY, NAN };
	double p[4];

	for_each_set(set)
	{
		assert_true(set->exp(p, x, 4, 3, 1) == 1);
		assert_true(p[0] == 1 && p[1] == 0 && p[2] == 0 && p[3] == 0);
	}
}

static void test_sums_of_exp_are_the_same_in_all_sets_and_close_to_libm(void **s)
{
	for (int round = 0; round < 200; round++) {
		unsigned int n = random_in(1, 3000);
		float *x = random_logits(n), max = -INFINITY;
		double want = 0, bound = 0, sum = 0;

		for (unsigned int i = 0; i < n; i++)
			max = x[i] > max ? x[i] : max;
		for (unsigned int i = 0; i < n; i++) {
			double below = (double)max - (double)x[i];

			if (random_in(0, 20) == 0 && x[i] < max)
				x[i] = random_in(0, 1) ? NAN : -INFINITY;
			else
				want += exp(-below), bound += exp(-below) * 4e-7 * (1 + below);
		}
		for_each_set(set)
		{
			double got = set->sum_exp(x, n, max);

			if (set == sets_[0])
				sum = got;
			assert_true(got == sum);
			check_close(set, "sum of exp", got, want, bound + n * 0x1p-126);
		}
		free(x);
	}
}

static void test_ranges_and_counts_skip_nans(void **s)
{
	for (int round = 0; round < 200; round++) {
		unsigned int n = random_in(1, 300), blocks = (n + 63) / 64, count = 0;
		float *x = random_logits(n), *max = malloc(blocks * sizeof(*max));
		float least = INFINITY, most = -INFINITY, from = x[random_in(0, n - 1)];

		for (unsigned int i = 0; i < n; i++) {
			if (random_in(0, 20) == 0)
				x[i] = random_in(0, 1) ? NAN : -INFINITY;
			least = x[i] < least ? x[i] : least;
			most = x[i] > most ? x[i] : most;
			count += x[i] >= from;
		}
		for_each_set(set)
		{
			float low, high;

			set->range(&low, &high, x, n);
			assert_true(low == least && high == most);
			assert_int_equal(set->count_from(x, n, from), count);
			set->block_max(max, x, n);
			for (unsigned int b = 0; b < blocks; b++) {
				set->range(&low, &high, x + b * 64,
					   n - b * 64 < 64 ? n - b * 64 : 64);
				assert_true(max[b] == high);
			}
		}
		free(x);
		free(max);
	}
}

static void test_buckets_are_the_same_in_all_sets_and_in_order(void **s)
{
	for (int round = 0; round < 200; round++) {
		unsigned int n = random_in(2, 300);
		float *x = random_logits(n), least, most;
		int32_t *first = malloc(n * sizeof(*first)), *of = malloc(n * sizeof(*of));

		cpu_kernels_generic.range(&least, &most, x, n);
		for_each_set(set)
		{
			set->bucket(set == sets_[0] ? first : of, x, n, most,
				    fminf(most - least, 64), 4095);
			assert_true(set == sets_[0] || !memcmp(of, first, n * sizeof(*of)));
		}
		for (unsigned int i = 0; i < n; i++) {
			assert_in_range(first[i], 0, 4095);
			for (unsigned int j = 0; j < n; j++)
				assert_true(x[i] >= x[j] || first[i] >= first[j]);
			if (x[i] == most)
				assert_int_equal(first[i], 0);
		}
		free(x);
		free(first);
		free(of);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_generic_set_is_always_there),
		cmocka_unit_test(test_outliers_have_the_same_bits_in_all_sets),
		cmocka_unit_test(test_matmul_equals_double_precision_in_any_blocking),
		cmocka_unit_test(test_quantisation_is_the_same_in_all_sets_and_nearest_even),
		cmocka_unit_test(test_quantisation_refuses_nan_and_infinity),
		cmocka_unit_test(test_exp_is_the_same_in_all_sets_and_close_to_libm),
		cmocka_unit_test(test_the_exp_of_the_greatest_logit_is_1_and_of_one_far_below_0),
		cmocka_unit_test(test_sums_of_exp_are_the_same_in_all_sets_and_close_to_libm),
		cmocka_unit_test(test_ranges_and_counts_skip_nans),
		cmocka_unit_test(test_buckets_are_the_same_in_all_sets_and_in_order),
	};
	const char *given = getenv("TEST_SEED");

	state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u | 1;
	print_message("TEST_SEED=%llu\n", (unsigned long long)state);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
