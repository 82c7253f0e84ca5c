// SPDX-License-Identifier: MIT
/*
 * Narrowing to GGUF's tensor types: blocks computed by hand, the error bounds of each type, the
 * SIMD kernels compared bit by bit with the portable ones, and llama.cpp's files.
 */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "gguf_image.h"
#include "checksum.h"
#include "gguf_quantize.h"

static const enum gguf_type all_types[] = { GGUF_F32,  GGUF_F16,  GGUF_Q8_0, GGUF_Q4_0,
					    GGUF_Q4_1, GGUF_Q5_0, GGUF_Q5_1 };
#define N_TYPES (sizeof(all_types) / sizeof(all_types[0]))

static uint64_t start_seed(void)
{
	const char *given = getenv("TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 0x9a11ce;

	print_message("TEST_SEED=0x%llx\n", (unsigned long long)seed);
	return seed ? seed : 1;
}

static float from_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* -1..1 */
static float random_unit(uint64_t *seed)
{
	return (float)(int64_t)random_u64(seed) * 0x1p-63f;
}

enum pattern {
	ANY_BITS, /* also NaN and infinity */
	FINITE_BITS,
	LARGE,
	NEAR_ONE,
	DENORMAL,
	GRID, /* multiples of a step: many ties, and greatest magnitudes of both signs */
	NEAR_GRID, /* one bit off a tie */
	ZEROS,
	SPARSE,
	N_PATTERNS,
};

static float random_value(enum pattern pattern, uint64_t *seed)
{
	uint64_t r = random_u64(seed);

	switch (pattern) {
	case ANY_BITS:
		return from_bits(r >> 32);
	case FINITE_BITS:
		return from_bits((r >> 32) % 0x7f800000 | (uint32_t)(r & 1) << 31);
	case LARGE:
		return random_unit(seed) * 1e6f;
	case NEAR_ONE:
		return random_unit(seed);
	case DENORMAL:
		return from_bits((r >> 32) & 0x80ffffff);
	case GRID:
		return (float)((int)(r >> 40) % 255 - 127) * 0.5f;
	case NEAR_GRID:
		return nextafterf((float)((int)(r >> 40) % 255 - 127) * 0.5f, r & 1 ? 1e3f : -1e3f);
	case ZEROS:
		return r & 1 ? 0 : -0.0f;
	default:
		return r % 16 ? 0 : random_unit(seed);
	}
}

static void f16_rounds_to_nearest_even(void **state)
{
	uint32_t h;

	/* The middle of two values is rounded to the even one; one bit off the
	 * middle, to the nearer one. */
	for (h = 0; h < 0x7bff; h++) {
		uint16_t ends[2] = { h, h + 1 }, got[6];
		float wide[2], v[6];
		double middle;
		int i;

		gguf_dequantize(GGUF_F16, ends, wide, 2);
		middle = ((double)wide[0] + wide[1]) / 2;
		v[0] = wide[0];
		v[1] = nextafterf((float)middle, 0);
		v[2] = (float)middle;
		v[3] = nextafterf((float)middle, 1e6f);
		v[4] = wide[1];
		v[5] = -(float)middle;
		assert_true(quantize_generic[GGUF_F16](v, (uint8_t *)got, 6));
		for (i = 0; i < 6; i++) {
			uint32_t even = h + (h & 1),
				 want[6] = { h, h, even, h + 1, h + 1, even | 0x8000 };

			if (got[i] != want[i])
				fail_msg("%a becomes 0x%x, not 0x%x", v[i], got[i], want[i]);
		}
	}
}

static void blocks_are_those_computed_by_hand(void **state)
{
	float v[32] = { 0 };
	uint8_t got[34], zeros[34] = { 0 };

	/* d = 127 / 127 = 1, 0x3c00 in F16; ties are rounded away from zero. */
	v[0] = -127;
	v[1] = 0.5f;
	v[2] = -0.5f;
	v[3] = 0.49999997f;
	v[31] = 126.5f;
	assert_true(gguf_quantize(GGUF_Q8_0, v, got, 32));
	assert_int_equal(got[0] | got[1] << 8, 0x3c00);
	assert_int_equal((int8_t)got[2], -127);
	assert_int_equal((int8_t)got[3], 1);
	assert_int_equal((int8_t)got[4], -1);
	assert_int_equal((int8_t)got[5], 0);
	assert_int_equal((int8_t)got[33], 127);

	/* d = 4 / -8 = -0.5, 0xb800: 4 becomes 0, 0 becomes 8, -4 would be 16. The first of 4
	 * and -4 decides the sign. */
	memset(v, 0, sizeof(v));
	v[1] = 4;
	v[2] = -4;
	v[17] = -3.5f;
	v[18] = 0.25f; /* 8 - 0.5 is rounded up */
	assert_true(gguf_quantize(GGUF_Q4_0, v, got, 32));
	assert_int_equal(got[0] | got[1] << 8, 0xb800);
	assert_int_equal(got[2], 0x88);
	assert_int_equal(got[3], 0xf0);
	assert_int_equal(got[4], 0x8f);
	v[1] = -4;
	assert_true(gguf_quantize(GGUF_Q4_0, v, got, 32));
	assert_int_equal(got[0] | got[1] << 8, 0x3800);
	assert_int_equal(got[3] & 15, 0);

	memset(v, 0, sizeof(v));
	assert_true(gguf_quantize(GGUF_Q8_0, v, got, 32));
	assert_memory_equal(got, zeros, 34);

	/* d = (29 + 2) / 31 = 1, m = -2, 0xc000: 29 becomes 31, 0.5 is rounded up to 3. */
	v[0] = -2;
	v[1] = 29;
	v[16] = 0.5f;
	assert_true(gguf_quantize(GGUF_Q5_1, v, got, 32));
	assert_int_equal(got[0] | got[1] << 8, 0x3c00);
	assert_int_equal(got[2] | got[3] << 8, 0xc000);
	assert_int_equal(got[4], 2);
	assert_int_equal(got[5] | got[6] | got[7], 0);
	assert_int_equal(got[8], 0x30);
	assert_int_equal(got[9], 0x2f);
}

/* Half a step of the type, plus the effect of the scale's F16 rounding on the greatest value. */
static double error_bound(enum gguf_type type, const float *block, float x)
{
	double great = 0, min = block[0], max = block[0], step;
	int j;

	for (j = 0; j < 32; j++) {
		great = fmax(great, fabs((double)block[j]));
		min = fmin(min, (double)block[j]);
		max = fmax(max, (double)block[j]);
	}
	switch (type) {
	case GGUF_F16:
		return fmax(fabs((double)x) * 0x1p-11, 0x1p-25);
	case GGUF_Q8_0:
		step = great / 127;
		/* Scales up to 2^-25 are rounded to 0. */
		return step / 2 * (1 + 1e-5) + 127 * fmax(step * 0x1p-11, 0x1p-25);
	case GGUF_Q4_0:
		step = great / 8;
		/* The value opposite to the greatest one is at most seven steps. */
		return step * (1 + 1e-5) + 8 * fmax(step * 0x1p-11, 0x1p-25);
	case GGUF_Q5_0:
		step = great / 16;
		return step * (1 + 1e-5) + 16 * fmax(step * 0x1p-11, 0x1p-25);
	case GGUF_Q4_1:
	case GGUF_Q5_1:
		j = type == GGUF_Q4_1 ? 15 : 31;
		step = (max - min) / j;
		return step / 2 * (1 + 1e-5) + j * fmax(step * 0x1p-11, 0x1p-25) +
		       fmax(great * 0x1p-11, 0x1p-25);
	default:
		return 0;
	}
}

static void widening_gives_values_within_the_error_bound(void **state)
{
	static const enum pattern patterns[] = { NEAR_ONE,  LARGE, DENORMAL, GRID,
						 NEAR_GRID, ZEROS, SPARSE };
	uint64_t seed = start_seed();
	float v[256], back[256];
	uint8_t block[1024];
	size_t t, p;
	int round, i;

	for (t = 0; t < N_TYPES; t++) {
		for (round = 0; round < 7000; round++) {
			p = round % 7;
			/* F16 has a smaller range than most other types. */
			if (patterns[p] == LARGE &&
			    (all_types[t] == GGUF_F16 || all_types[t] == GGUF_Q4_1 ||
			     all_types[t] == GGUF_Q5_1))
				continue;
			for (i = 0; i < 256; i++) {
				v[i] = random_value(patterns[p], &seed);
				if (patterns[p] == LARGE && all_types[t] == GGUF_Q4_0)
					v[i] *= 0.5f;
			}
			assert_true(gguf_quantize(all_types[t], v, block, 256));
			gguf_dequantize(all_types[t], block, back, 256);
			for (i = 0; i < 256; i++) {
				double bound = error_bound(all_types[t], v + i / 32 * 32, v[i]);

				if (!(fabs((double)back[i] - v[i]) <= bound))
					fail_msg("%s: pattern %d: %a became %a, more than %a away",
						 gguf_type_traits(all_types[t])->name, patterns[p],
						 v[i], back[i], bound);
			}
		}
	}
}

static void simd_kernels_give_the_same_bits(void **state)
{
#if defined(__x86_64__)
	enum { MAX = 32 * 9 };
	uint64_t seed = start_seed();
	uint8_t a[4 * MAX + 2], b[4 * MAX + 2];
	float v[MAX + 1];
	unsigned int accepted[N_TYPES] = { 0 }, refused[N_TYPES] = { 0 }, found = 0;
	size_t t;
	int round;

	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c"))
		skip();
	for (t = 1; t < N_TYPES; t++) {
		const struct gguf_type_traits *traits = gguf_type_traits(all_types[t]);

		if (!quantize_avx2[all_types[t]])
			continue;
		for (round = 0; round < 30000; round++) {
			uint32_t block = traits->block_values;
			size_t n = (1 + random_u64(&seed) % (block > 1 ? 9 : 67)) * block, i;
			size_t bytes = n / block * traits->block_bytes;
			int shift = random_u64(&seed) % 2; /* any alignment */
			enum pattern p = random_u64(&seed) % N_PATTERNS;
			bool done;

			/*
			 * Blocks of random bits are nearly always refused, so
			 * keep one such value only.
			 */
			for (i = 0; i < n; i++)
				v[shift + i] = random_value(p == ANY_BITS ? NEAR_ONE : p, &seed);
			if (p == ANY_BITS)
				v[shift + random_u64(&seed) % n] = random_value(ANY_BITS, &seed);
			memset(a, 42, sizeof(a));
			memset(b, 42, sizeof(b));
			done = quantize_generic[all_types[t]](v + shift, a + shift, n);
			assert_int_equal(quantize_avx2[all_types[t]](v + shift, b + shift, n),
					 done);
			if (done)
				assert_memory_equal(a, b, bytes + 2);
			accepted[t] += done;
			refused[t] += !done;
		}
		found++;
		assert_true(accepted[t] > 1000 && refused[t] > 1000);
	}
	assert_int_equal(found, 3);
#else
	skip();
#endif
}

static void values_out_of_range_are_refused(void **state)
{
	const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };
	float v[64] = { 1, 2, 3 };
	uint8_t out[256];
	size_t t, i;

	for (t = 0; t < N_TYPES; t++) {
		enum gguf_type type = all_types[t];

		for (i = 0; i < 4 * 64; i++) {
			float kept = v[i % 64];

			v[i % 64] = bad[i / 64];
			assert_false(gguf_quantize(type, v, out, 64));
			assert_false(quantize_generic[type](v, out, 64));
			v[i % 64] = kept;
		}
		assert_true(gguf_quantize(type, v, out, 64));
	}
	/* The greatest values whose F16, or scale, is rounded to 65504, and the next ones. */
	v[40] = nextafterf(65520, 0);
	assert_true(gguf_quantize(GGUF_F16, v, out, 64));
	v[40] = 65520;
	assert_false(gguf_quantize(GGUF_F16, v, out, 64));
	v[40] = -65504.0f * 127;
	assert_true(gguf_quantize(GGUF_Q8_0, v, out, 64));
	v[40] = -65520.0f * 127;
	assert_false(gguf_quantize(GGUF_Q8_0, v, out, 64));
	v[40] = 65504.0f * 8;
	assert_true(gguf_quantize(GGUF_Q4_0, v, out, 64));
	v[40] = 65520.0f * 8;
	assert_false(gguf_quantize(GGUF_Q4_0, v, out, 64));
	v[40] = -65504.0f * 16;
	assert_true(gguf_quantize(GGUF_Q5_0, v, out, 64));
	v[40] = -65520.0f * 16;
	assert_false(gguf_quantize(GGUF_Q5_0, v, out, 64));
	v[40] = -65504.0f;
	assert_true(gguf_quantize(GGUF_Q4_1, v, out, 64));
	v[40] = -65520.0f;
	assert_false(gguf_quantize(GGUF_Q4_1, v, out, 64));
}

/*
 * The checksums (runtime/base/checksum.h) of 4096 blocks of values that are random_unit()'s from
 * state 0x6b6e6f776e on, as llama.cpp's functions quantize_row_*_ref make them: commit c392e5094
 * (b4747), on x86-64.
 */
static void blocks_are_those_of_llama_cpp(void **state)
{
	enum { N = 32 * 4096 };
	static const struct {
		enum gguf_type type;
		uint64_t sum;
	} known[] = { { GGUF_Q8_0, 0x1354c35d02294f68 },
		      { GGUF_Q4_0, 0x836a086706eda243 },
		      { GGUF_Q4_1, 0xc5f9eb357ee11765 },
		      { GGUF_Q5_0, 0xe9b8a12852b2c275 },
		      { GGUF_Q5_1, 0x38cd5209147f6993 } };
	static uint8_t blocks[2 * N];
	static float v[N];
	uint64_t seed = 0x6b6e6f776e;

	for (int i = 0; i < N; i++)
		v[i] = random_unit(&seed);
	for (size_t t = 0; t < sizeof(known) / sizeof(known[0]); t++) {
		const struct gguf_type_traits *traits = gguf_type_traits(known[t].type);
		struct llm_checksum c;

		assert_true(gguf_quantize(known[t].type, v, blocks, N));
		llm_checksum_begin(&c);
		llm_checksum_add(&c, blocks, N / 32 * traits->block_bytes);
		if (llm_checksum_end(&c) != known[t].sum)
			fail_msg("%s", traits->name);
	}
}

/* ---- llama.cpp's files ----------------------------------------------------------------------- */

static struct gguf_file *open_data(const char *name)
{
	const char *data = getenv("VNPU_DATA");
	struct gguf_file *file;
	char path[512], err[256];

	if (!data)
		return NULL;
	snprintf(path, sizeof(path), "%s/models/docs6m/%s", data, name);
	if (gguf_open(path, &file, err, sizeof(err)))
		fail_msg("%s", err);
	return file;
}

/* Makes all tensors of @type in the file @name again from the F32 file. */
static void check_tensors_of_a_file(const char *name, enum gguf_type type, unsigned int n_tensors)
{
	struct gguf_file *exact = open_data("docs6m-f32.gguf"), *file;
	size_t i;

	if (!exact)
		skip();
	file = open_data(name);
	for (i = 0; i < gguf_n_tensors(file); i++) {
		const struct gguf_tensor *t = gguf_tensor(file, i),
					 *e = gguf_find_tensor(exact, t->name);
		uint8_t *mine;

		if (t->type != type)
			continue;
		mine = malloc(t->bytes);
		assert_true(gguf_quantize(type, e->data, mine, t->dims[0] * t->dims[1]));
		if (memcmp(mine, t->data, t->bytes))
			fail_msg("%s differs", t->name);
		free(mine);
		n_tensors--;
	}
	assert_int_equal(n_tensors, 0);
	gguf_close(file);
	gguf_close(exact);
}

static void q8_0_equals_llama_cpps(void **state)
{
	check_tensors_of_a_file("docs6m-q8_0.gguf", GGUF_Q8_0, 43);
}

/* In this file the embedding, which is also the output matrix, is Q6_K. */
static void q4_0_equals_llama_cpps(void **state)
{
	check_tensors_of_a_file("docs6m-q4_0.gguf", GGUF_Q4_0, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(f16_rounds_to_nearest_even),
		cmocka_unit_test(blocks_are_those_computed_by_hand),
		cmocka_unit_test(widening_gives_values_within_the_error_bound),
		cmocka_unit_test(simd_kernels_give_the_same_bits),
		cmocka_unit_test(values_out_of_range_are_refused),
		cmocka_unit_test(blocks_are_those_of_llama_cpp),
		cmocka_unit_test(q8_0_equals_llama_cpps),
		cmocka_unit_test(q4_0_equals_llama_cpps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
