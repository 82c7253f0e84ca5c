// SPDX-License-Identifier: MIT
/*
 * Types whose scales are searched: blocks taken apart and put together again, the errors of random
 * blocks beside those of plain rounding, importance, and values that cannot be held.
 */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "gguf_image.h"
#include "gguf_blocks.h"
#include "gguf_quantize.h"

#define BLOCK 256
#define ROUNDS 300

/* The greatest relative error of normally distributed blocks: root mean square. */
static const struct {
	enum gguf_type type;
	double bound;
} types[] = {
	{ GGUF_Q2_K, 0.30 },  { GGUF_Q3_K, 0.16 },  { GGUF_Q4_K, 0.075 },
	{ GGUF_Q5_K, 0.037 }, { GGUF_Q6_K, 0.019 }, { GGUF_IQ4_NL, 0.08 },
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static uint64_t start_seed(void)
{
	const char *given = getenv("TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 0x5ca1e5;

	print_message("TEST_SEED=0x%llx\n", (unsigned long long)seed);
	return seed ? seed : 1;
}

/* About normally distributed, of variance 1. */
static float random_normal(uint64_t *seed)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += (double)(random_u64(seed) >> 11) * 0x1p-53;
	return (float)(sum - 6);
}

static void fill(float v[BLOCK], uint64_t *seed)
{
	for (int i = 0; i < BLOCK; i++)
		v[i] = 0.02f * random_normal(seed);
}

/* Sums of squares of the errors of values i with i % 2 == @odd, or of all if that is negative. */
static double error_of(enum gguf_type type, const float v[BLOCK], const float *importance, int odd)
{
	uint8_t block[1024];
	float back[BLOCK];
	double sum = 0;

	assert_true(gguf_quantize_searched(type, v, importance, block, BLOCK));
	gguf_dequantize(type, block, back, BLOCK);
	for (int i = 0; i < BLOCK; i++)
		if (odd < 0 || i % 2 == odd)
			sum += ((double)back[i] - (double)v[i]) * ((double)back[i] - (double)v[i]);
	return sum;
}

static void joining_is_the_inverse_of_splitting(void **state)
{
	uint64_t seed = start_seed();

	for (size_t t = 0; t < N_TYPES; t++) {
		uint8_t block[256], again[256], numbers[BLOCK];
		uint32_t bytes = gguf_type_traits(types[t].type)->block_bytes;
		int8_t scale[16], min[16];
		uint16_t d, dmin;
		struct gguf_parts parts = { numbers, &d, &dmin, scale, min };

		for (int round = 0; round < ROUNDS && types[t].type != GGUF_IQ4_NL; round++) {
			for (uint32_t i = 0; i < bytes; i++)
				block[i] = (uint8_t)random_u64(&seed);
			gguf_split(types[t].type, block, BLOCK, &parts);
			gguf_join(types[t].type, &parts, again);
			assert_memory_equal(block, again, bytes);
		}
	}
}

static void random_blocks_are_within_the_bound_of_their_type(void **state)
{
	uint64_t seed = start_seed();

	for (size_t t = 0; t < N_TYPES; t++) {
		double error = 0, all = 0;
		float v[BLOCK];

		for (int round = 0; round < ROUNDS; round++) {
			fill(v, &seed);
			error += error_of(types[t].type, v, NULL, -1);
			for (int i = 0; i < BLOCK; i++)
				all += (double)v[i] * (double)v[i];
		}
		error = sqrt(error / all);
		if (error > types[t].bound)
			fail_msg("%s: %g is above %g", gguf_type_traits(types[t].type)->name, error,
				 types[t].bound);
	}
}

/* Q4_K and Q4_0 both take 4.5 bits for a weight. */
static void searched_types_lose_less_than_plain_ones(void **state)
{
	uint64_t seed = start_seed();
	double searched = 0, plain = 0;
	float v[BLOCK], back[BLOCK];
	uint8_t block[1024];

	for (int round = 0; round < ROUNDS; round++) {
		fill(v, &seed);
		searched += error_of(GGUF_Q4_K, v, NULL, -1);
		assert_true(gguf_quantize(GGUF_Q4_0, v, block, BLOCK));
		gguf_dequantize(GGUF_Q4_0, block, back, BLOCK);
		for (int i = 0; i < BLOCK; i++)
			plain +=
				((double)back[i] - (double)v[i]) * ((double)back[i] - (double)v[i]);
	}
	assert_true(searched < 0.7 * plain);
}

static void important_values_lose_less(void **state)
{
	uint64_t seed = start_seed();
	float v[BLOCK], importance[BLOCK];

	for (int i = 0; i < BLOCK; i++)
		importance[i] = i % 2 ? 0.001f : 1;
	for (size_t t = 0; t < N_TYPES; t++) {
		double with[2] = { 0 }, without[2] = { 0 };

		for (int round = 0; round < ROUNDS; round++) {
			fill(v, &seed);
			for (int odd = 0; odd < 2; odd++) {
				with[odd] += error_of(types[t].type, v, importance, odd);
				without[odd] += error_of(types[t].type, v, NULL, odd);
			}
		}
		assert_true(with[0] < 0.95 * without[0]);
		assert_true(with[1] > without[1]);
	}
}

/* The groups with a scale of their own, of which half have no importance, or all. */
static void values_without_importance_are_not_lost(void **state)
{
	static const unsigned int groups[] = { 16, 16, 32, 32, 16, 32 };
	uint64_t seed = start_seed();
	float v[BLOCK], importance[BLOCK];

	for (size_t t = 0; t < N_TYPES; t++)
		for (unsigned int some = 0; some < 2; some++) {
			double error = 0, all = 0;

			for (unsigned int i = 0; i < BLOCK; i++)
				importance[i] = (float)(some && i / groups[t] % 2);
			for (int round = 0; round < ROUNDS; round++) {
				fill(v, &seed);
				error += error_of(types[t].type, v, importance, -1);
				for (int i = 0; i < BLOCK; i++)
					all += (double)v[i] * (double)v[i];
			}
			error = sqrt(error / all);
			if (error > types[t].bound)
				fail_msg("%s: %g is above %g",
					 gguf_type_traits(types[t].type)->name, error,
					 types[t].bound);
		}
}

/* Up to the rounding of scales; the least of all are lost. */
static void blocks_of_one_value_come_back(void **state)
{
	static const float values[] = { 0, -0.0f, 1, -1, 0.37f, -0.3f, 1e-30f };

	for (size_t t = 0; t < N_TYPES; t++)
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			float v[BLOCK];
			double error;

			for (int j = 0; j < BLOCK; j++)
				v[j] = values[i];
			error = sqrt(error_of(types[t].type, v, NULL, -1) / BLOCK);
			if (error > 0.005 * fabs((double)values[i]) + 0x1p-18)
				fail_msg("%s: %g of %g", gguf_type_traits(types[t].type)->name,
					 error, (double)values[i]);
		}
}

static void values_out_of_range_are_refused(void **state)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY, 1e30f, -1e9f };
	uint64_t seed = start_seed();
	uint8_t block[1024];
	float v[BLOCK];

	for (size_t t = 0; t < N_TYPES; t++)
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			fill(v, &seed);
			v[random_u64(&seed) % BLOCK] = bad[i];
			assert_false(gguf_quantize(types[t].type, v, block, BLOCK));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(joining_is_the_inverse_of_splitting),
		cmocka_unit_test(random_blocks_are_within_the_bound_of_their_type),
		cmocka_unit_test(searched_types_lose_less_than_plain_ones),
		cmocka_unit_test(important_values_lose_less),
		cmocka_unit_test(values_without_importance_are_not_lost),
		cmocka_unit_test(blocks_of_one_value_come_back),
		cmocka_unit_test(values_out_of_range_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
