// SPDX-License-Identifier: MIT
/*
 * Rewritten blocks have the values of the old ones: exactly while the new F16 scale is exact,
 * within its rounding below, and an infinite scale where there is no such number.
 */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "dequant.h"
#include "gguf_blocks.h"
#include "gguf_image.h"
#include "gguf_recast.h"

static const struct {
	enum gguf_type from, to;
	/* Where the F16 scale begins, and the least exponent field with which it stays exact. */
	uint8_t scale_at, exact;
} types[] = {
	{ GGUF_TQ1_0, GGUF_Q2_K, 52, 0 },    { GGUF_TQ2_0, GGUF_Q2_K, 64, 0 },
	{ GGUF_IQ1_S, GGUF_Q3_K, 0, 4 },     { GGUF_IQ3_S, GGUF_IQ4_XS, 0, 0 },
	{ GGUF_IQ3_XXS, GGUF_IQ4_XS, 0, 3 }, { GGUF_IQ1_M, GGUF_Q3_K, 0, 4 },
	{ GGUF_IQ2_XXS, GGUF_Q3_K, 0, 4 },   { GGUF_IQ2_XS, GGUF_Q3_K, 0, 4 },
	{ GGUF_IQ2_S, GGUF_Q3_K, 0, 4 },     { GGUF_MXFP4, GGUF_IQ4_NL, 0, 104 },
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static uint64_t seed;

static unsigned int random_in(unsigned int min, unsigned int max)
{
	return min + (unsigned int)(random_u64(&seed) % (max - min + 1));
}

/* Random bytes with F16 scale @half; MXFP4: its upper byte. */
static void random_block(size_t t, uint8_t *block, uint16_t half)
{
	for (uint32_t i = 0; i < gguf_type_traits(types[t].from)->block_bytes; i++)
		block[i] = (uint8_t)(random_u64(&seed) >> 56);
	if (types[t].from == GGUF_MXFP4)
		block[0] = (uint8_t)(half >> 8);
	else if (types[t].from != GGUF_IQ1_M)
		memcpy(block + types[t].scale_at, &half, 2);
	for (int i = 0; types[t].from == GGUF_IQ1_M && i < 4; i++)
		block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (half >> 4 * i & 15) << 4);
}

/* The values of a block that has been rewritten. */
static void values_of(size_t t, const uint8_t *block, float *values)
{
	const int8_t *levels = gguf_recast_levels(types[t].from);
	const struct gguf_form f = gguf_form(types[t].to);
	int8_t scale[16] = { 1 }, min[16];
	uint8_t numbers[256];
	uint16_t d, dmin;
	const struct gguf_parts parts = { numbers, &d, &dmin, scale, min };

	if (!levels) {
		gguf_dequantize(types[t].to, block, values, f.block);
		return;
	}
	gguf_split(types[t].to, block, f.block, &parts);
	for (int i = 0; i < f.block; i++)
		values[i] = dequant_one_f16((uint8_t *)&d) * (float)scale[i / f.group] *
			    (float)levels[numbers[i]];
}

/* Recasts a block; returns the greatest difference of its values to the old ones. */
static double recast(size_t t, const uint8_t *block)
{
	uint32_t n = gguf_type_traits(types[t].from)->block_values;
	uint8_t other[256];
	float want[256], got[256];
	double worst = 0;

	gguf_recast(types[t].from, block, other, n);
	gguf_dequantize(types[t].from, block, want, n);
	values_of(t, other, got);
	for (uint32_t i = 0; i < n; i++)
		worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
	return worst;
}

static void values_stay_the_same(void **state)
{
	uint8_t block[256];

	for (size_t t = 0; t < N_TYPES; t++) {
		assert_int_equal(gguf_recast_type(types[t].from), types[t].to);
		assert_int_equal(gguf_type_traits(types[t].from)->block_values,
				 gguf_form(types[t].to).block);
		for (int i = 0; i < 1000; i++) {
			uint16_t half = (uint16_t)(random_in(0, 1) << 15 |
						   random_in(types[t].exact, 26) << 10 |
						   random_in(0, 1023));

			if (types[t].from == GGUF_MXFP4)
				half = (uint16_t)(random_in(104, 143) << 8);
			random_block(t, block, half);
			if (recast(t, block) != 0)
				fail_msg("%s: scale %04x: %g",
					 gguf_type_traits(types[t].from)->name, half,
					 recast(t, block));
		}
	}
}

/* A scale is wrong by half of F16's least step, times an integer scale and a number. */
static void small_scales_are_rounded(void **state)
{
	uint8_t block[256];

	for (size_t t = 0; t < N_TYPES; t++) {
		for (int i = 0; i < 1000; i++) {
			uint16_t half = (uint16_t)(random_in(0, 1) << 15 | random_in(0, 4 << 10));

			if (types[t].from == GGUF_MXFP4)
				half = (uint16_t)(random_in(0, 103) << 8);
			random_block(t, block, half);
			assert_true(recast(t, block) <= 0x1p-25 * 31 * 62);
		}
	}
}

static void scales_that_are_no_numbers_become_infinite(void **state)
{
	static const uint16_t halves[] = { 0x7c00, 0xfc00, 0x7e01, 0xff7f };
	uint8_t block[256], other[256];

	for (size_t t = 0; t < N_TYPES; t++) {
		for (size_t i = 0; i < 4; i++) {
			const struct gguf_type_traits *traits = gguf_type_traits(types[t].from);
			uint8_t numbers[256];
			int8_t scale[16], min[16];
			uint16_t d, dmin;
			const struct gguf_parts parts = { numbers, &d, &dmin, scale, min };

			random_block(t, block, halves[i]);
			if (types[t].from == GGUF_MXFP4)
				block[0] = i % 2 ? 255 : 144;
			gguf_recast(types[t].from, block, other, traits->block_values);
			gguf_split(types[t].to, other, traits->block_values, &parts);
			assert_int_equal(d & 0x7fff, 0x7c00);
		}
	}
}

static void other_types_have_none(void **state)
{
	assert_int_equal(gguf_recast_type(GGUF_IQ4_NL), GGUF_IQ4_NL);
	assert_int_equal(gguf_recast_type(GGUF_Q4_K), GGUF_Q4_K);
	assert_int_equal(gguf_recast_type(GGUF_F32), GGUF_F32);
}

int main(void)
{
	const char *given = getenv("TEST_SEED");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_stay_the_same),
		cmocka_unit_test(small_scales_are_rounded),
		cmocka_unit_test(scales_that_are_no_numbers_become_infinite),
		cmocka_unit_test(other_types_have_none),
	};

	seed = given ? strtoull(given, NULL, 0) : 0x5eca57;
	print_message("TEST_SEED=0x%llx\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
