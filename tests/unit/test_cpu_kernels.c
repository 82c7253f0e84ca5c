// SPDX-License-Identifier: MIT
/*
 * The CPU lane's kernels, each set against double precision, over random shapes; TEST_SEED=N repeats a run.
 *
 * Bounds: a dot product of n terms in 8 or 16 lanes stays within (n / 8 + 8) roundings of the sum of magnitudes; exp,
 * softmax and SiLU within 4e-7 relative; norms within 1e-6 plus their sum's error; INT8 is exact but for x / scale
 * that lies between two integers, where one step is allowed to nobody: all sets round alike.
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

/* Exactly n floats, so that the sanitizer sees a read beyond them. */
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

static void check_close(const struct cpu_kernels *set, const char *what, double got, double want, double bound)
{
	if (!(fabs(got - want) <= bound))
		fail_msg("%s %s: %.9g, expected %.9g within %.3g", set->name, what, got, want, bound);
}

static void test_the_generic_set_is_always_there(void **s)
{
	assert_ptr_equal(cpu_kernels_get("generic"), &cpu_kernels_generic);
	assert_non_null(cpu_kernels_get(NULL));
	assert_null(cpu_kernels_get("mmx"));
}

static void check_matmul(const struct cpu_kernels *set, unsigned int m, unsigned int n, unsigned int k)
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
			check_close(set, "matmul", (double)y[i * ldy + j], sum, mag * 6e-8 * (k / 8.0 + 8));
		}
		/* No element depends on the rows beside it. */
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

static void check_weigh(const struct cpu_kernels *set, unsigned int m, unsigned int n, unsigned int d)
{
	size_t ldp = n + random_in(0, 9), ldv = d + random_in(0, 9), ldy = d + random_in(0, 9);
	float *p = random_floats((m - 1) * ldp + n, 1), *v = random_floats((n - 1) * ldv + d, 2);
	float *y = random_floats((m - 1) * ldy + d, 1), *one = random_floats(d, 1);

	set->weigh(y, ldy, p, ldp, m, v, ldv, n, d);
	for (unsigned int i = 0; i < m; i++) {
		for (unsigned int c = 0; c < d; c++) {
			double sum = 0, mag = 0;

			for (unsigned int t = 0; t < n; t++) {
				double term = (double)p[i * ldp + t] * (double)v[t * ldv + c];

				sum += term;
				mag += fabs(term);
			}
			check_close(set, "weigh", (double)y[i * ldy + c], sum, mag * 6e-8 * (n + 8));
		}
		set->weigh(one, d, p + i * ldp, ldp, 1, v, ldv, n, d);
		assert_memory_equal(one, y + i * ldy, d * sizeof(float));
	}
	free(p);
	free(v);
	free(y);
	free(one);
}

static void test_weigh_equals_double_precision_in_any_blocking(void **s)
{
	for_each_set(set)
	{
		for (int i = 0; i < 60; i++)
			check_weigh(set, random_in(1, 11), random_in(1, 80), random_in(1, 150));
	}
}

static void test_rmsnorm_equals_double_precision(void **s)
{
	for_each_set(set)
	{
		for (int i = 0; i < 60; i++) {
			unsigned int n = random_in(1, 300);
			float *x = random_floats(n, 3), *w = random_floats(n, 2), *y = random_floats(n, 1);
			double sum = 0;

			for (unsigned int c = 0; c < n; c++)
				sum += (double)x[c] * (double)x[c];
			set->rmsnorm(y, x, w, n, 1e-5f);
			for (unsigned int c = 0; c < n; c++) {
				double want = (double)x[c] / sqrt(sum / n + (double)1e-5f) * (double)w[c];

				check_close(set, "rmsnorm", (double)y[c], want, fabs(want) * (1e-6 + 6e-8 * n / 8));
			}
			/* In place. */
			set->rmsnorm(x, x, w, n, 1e-5f);
			assert_memory_equal(x, y, n * sizeof(float));
			free(x);
			free(w);
			free(y);
		}
	}
}

static void test_softmax_equals_double_precision(void **s)
{
	for_each_set(set)
	{
		for (int i = 0; i < 60; i++) {
			unsigned int n = random_in(1, 200);
			float *x = random_floats(n, 30), scale = 0.05f + fabsf(random_float(1));
			double *want = malloc(n * sizeof(*want)), sum = 0, max = -INFINITY;

			for (unsigned int c = 0; c < n; c++)
				max = fmax(max, (double)x[c]);
			for (unsigned int c = 0; c < n; c++)
				sum += want[c] = exp(((double)x[c] - max) * (double)scale);
			set->softmax(x, n, scale);
			/* The argument, up to 60, is rounded twice before exp() magnifies that. */
			for (unsigned int c = 0; c < n; c++)
				check_close(set, "softmax", (double)x[c], want[c] / sum,
					    want[c] / sum * (4e-7 + 6e-8 * (n / 8.0 + 120)) + 1e-37);
			free(x);
			free(want);
		}
	}
}

static void test_softmax_of_far_apart_values_has_no_overflow(void **s)
{
	for_each_set(set)
	{
		float x[19];

		for (int i = 0; i < 19; i++)
			x[i] = i == 7 ? 3e30f : -3e30f;
		set->softmax(x, 19, 1.0f);
		for (int i = 0; i < 19; i++)
			check_close(set, "softmax", (double)x[i], i == 7, 1e-30);
	}
}

static void test_silu_equals_double_precision(void **s)
{
	for_each_set(set)
	{
		for (int i = 0; i < 30; i++) {
			unsigned int n = random_in(1, 300);
			float *gate = random_floats(n, i % 2 ? 5 : 120), *up = random_floats(n, 3);
			float *y = random_floats(n, 1);

			set->silu_mul(y, gate, up, n);
			for (unsigned int c = 0; c < n; c++) {
				double g = (double)gate[c], want = g / (1 + exp(-g)) * (double)up[c];

				check_close(set, "silu", (double)y[c], want,
					    fabs(want) * (4e-7 + 1.2e-7 * fabs(g)) + 1e-35);
			}
			set->silu_mul(gate, gate, up, n);
			assert_memory_equal(gate, y, n * sizeof(float));
			free(gate);
			free(up);
			free(y);
		}
	}
}

static void test_a_nan_is_never_lost(void **s)
{
	for_each_set(set)
	{
		float x[21], up[21], w[21];

		for (int i = 0; i < 21; i++)
			x[i] = up[i] = w[i] = 1;
		x[13] = NAN;
		set->silu_mul(up, x, up, 21);
		assert_true(isnan(up[13]) && up[12] < 1);
		set->softmax(x, 21, 1.0f);
		assert_true(isnan(x[13]));
		set->rmsnorm(x, x, w, 21, 0);
		assert_true(isnan(x[0]));
	}
}

static void test_add_is_exact(void **s)
{
	for_each_set(set)
	{
		for (unsigned int n = 1; n < 70; n++) {
			float *x = random_floats(n, 9), *y = random_floats(n, 9), *want = malloc(n * sizeof(*want));

			for (unsigned int c = 0; c < n; c++)
				want[c] = y[c] + x[c];
			set->add(y, x, n);
			assert_memory_equal(y, want, n * sizeof(*want));
			free(x);
			free(y);
			free(want);
		}
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

static void test_quantisation_refuses_what_is_not_finite(void **s)
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
		cmocka_unit_test(test_weigh_equals_double_precision_in_any_blocking),
		cmocka_unit_test(test_rmsnorm_equals_double_precision),
		cmocka_unit_test(test_softmax_equals_double_precision),
		cmocka_unit_test(test_softmax_of_far_apart_values_has_no_overflow),
		cmocka_unit_test(test_silu_equals_double_precision),
		cmocka_unit_test(test_a_nan_is_never_lost),
		cmocka_unit_test(test_add_is_exact),
		cmocka_unit_test(test_quantisation_is_the_same_in_all_sets_and_nearest_even),
		cmocka_unit_test(test_quantisation_refuses_what_is_not_finite),
	};
	const char *given = getenv("TEST_SEED");

	state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u | 1;
	print_message("TEST_SEED=%llu\n", (unsigned long long)state);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
