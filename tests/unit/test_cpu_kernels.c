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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_generic_set_is_always_there),
		cmocka_unit_test(test_matmul_equals_double_precision_in_any_blocking),
		cmocka_unit_test(test_quantisation_is_the_same_in_all_sets_and_nearest_even),
		cmocka_unit_test(test_quantisation_refuses_nan_and_infinity),
	};
	const char *given = getenv("TEST_SEED");

	state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u | 1;
	print_message("TEST_SEED=%llu\n", (unsigned long long)state);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
