// SPDX-License-Identifier: MIT
/* 4-bit groups: exact values, the error of others, and values that cannot be quantised. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "gguf_quantize.h"
#include "npu_random.h"
#include "quant_w4.h"

#define GROUPS 64
#define N (GROUPS * QUANT_W4_GROUP)

static void widen(const uint8_t *q, const uint16_t *scale, float *y, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float s;

		gguf_dequantize(GGUF_F16, &scale[i / QUANT_W4_GROUP], &s, 1);
		assert_in_range(q[i], 0, 15);
		y[i] = (float)((int)q[i] - 8) * s;
	}
}

static double squared_error(const float *x, const float *y, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
	return sum;
}

static void random_scales(float *s)
{
	for (int g = 0; g < GROUPS; g++)
		s[g] = exp2f((float)(random_u32() % 16) - 12) * (random_u32() % 2 ? 1.0f : -1.0f);
}

static void values_of_4_bits_are_kept(void **state)
{
	float x[N], y[N], s[GROUPS];
	uint16_t scale[GROUPS];
	uint8_t q[N];

	random_begin(__func__);
	random_scales(s);
	for (int i = 0; i < N; i++)
		x[i] = (float)(int)(random_u32() % 16 - 8) * s[i / QUANT_W4_GROUP];
	/* Each group has both extremes, so that only one scale is exact. */
	for (int g = 0; g < GROUPS; g++) {
		x[g * QUANT_W4_GROUP] = -8 * s[g];
		x[g * QUANT_W4_GROUP + 1] = 7 * s[g];
	}
	assert_true(quant_w4(x, N, q, scale));
	widen(q, scale, y, N);
	assert_memory_equal(x, y, sizeof(x));
}

static void the_search_has_less_error_than_q4_0(void **state)
{
	float x[N], y[N], z[N];
	uint8_t q[N], blocks[GROUPS * 18];
	uint16_t scale[GROUPS];
	double ours = 0, theirs = 0;

	random_begin(__func__);
	for (int round = 0; round < 20; round++) {
		/* Sums of uniform numbers have tails like weights. */
		for (int i = 0; i < N; i++)
			x[i] = (random_float() + random_float() + random_float()) * 0.02f;
		assert_true(quant_w4(x, N, q, scale));
		widen(q, scale, y, N);
		assert_true(gguf_quantize(GGUF_Q4_0, x, blocks, N));
		gguf_dequantize(GGUF_Q4_0, blocks, z, N);
		/* Scales are rounded to F16 after the search. */
		for (int g = 0; g < N; g += QUANT_W4_GROUP)
			assert_true(squared_error(x + g, y + g, QUANT_W4_GROUP) <
				    1.01 * squared_error(x + g, z + g, QUANT_W4_GROUP));
		ours += squared_error(x, y, N);
		theirs += squared_error(x, z, N);
	}
	print_message("squared error %.3f of Q4_0's\n", ours / theirs);
	assert_true(ours < 0.9 * theirs);
}

static void special_groups(void **state)
{
	float x[QUANT_W4_GROUP] = { 0 }, y[QUANT_W4_GROUP];
	uint8_t q[QUANT_W4_GROUP];
	uint16_t scale;

	assert_true(quant_w4(x, QUANT_W4_GROUP, q, &scale));
	widen(q, &scale, y, QUANT_W4_GROUP);
	assert_memory_equal(x, y, sizeof(x));
	/* Too small for an F16 scale: becomes zeros. */
	x[5] = 1e-20f;
	assert_true(quant_w4(x, QUANT_W4_GROUP, q, &scale));
	widen(q, &scale, y, QUANT_W4_GROUP);
	assert_true(y[5] == 0.0f);
	/* The greatest scale. */
	x[5] = -8 * 65504.0f;
	assert_true(quant_w4(x, QUANT_W4_GROUP, q, &scale));
	widen(q, &scale, y, QUANT_W4_GROUP);
	assert_true(y[5] == x[5] && y[4] == 0.0f);
	x[5] = 1e30f;
	assert_false(quant_w4(x, QUANT_W4_GROUP, q, &scale));
	x[5] = INFINITY;
	assert_false(quant_w4(x, QUANT_W4_GROUP, q, &scale));
	x[5] = 1;
	x[31] = NAN;
	assert_false(quant_w4(x, QUANT_W4_GROUP, q, &scale));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_4_bits_are_kept),
		cmocka_unit_test(the_search_has_less_error_than_q4_0),
		cmocka_unit_test(special_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
