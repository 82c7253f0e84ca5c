// SPDX-License-Identifier: MIT
/*
 * Widening of GGUF's plain and K types: against blocks worked out by hand, against a definition
 * written per value in double precision, against the unquantised model, and the SIMD kernels bit by
 * bit against the portable ones.
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

static const enum gguf_type all_types[] = { GGUF_F32,  GGUF_F16,  GGUF_BF16, GGUF_Q8_0, GGUF_Q4_0,
					    GGUF_Q4_K, GGUF_Q5_K, GGUF_Q6_K, GGUF_Q4_1, GGUF_Q5_0,
					    GGUF_Q5_1, GGUF_Q2_K, GGUF_Q3_K };
#define N_TYPES (sizeof(all_types) / sizeof(all_types[0]))
#define MAX_BLOCK_BYTES 256

static uint64_t start_seed(void)
{
	const char *given = getenv("TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 0xdec0de;

	print_message("TEST_SEED=0x%llx\n", (unsigned long long)seed);
	return seed ? seed : 1;
}

static void f16_of_every_value_is_exact(void **state)
{
	uint32_t h;

	for (h = 0; h < 0x10000; h++) {
		int exponent = h >> 10 & 31, mantissa = h & 1023;
		double want =
			exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
		uint16_t value = h;
		float got[2];

		dequant_generic[GGUF_F16]((const uint8_t *)&value, &got[0], 1);
		gguf_dequantize(GGUF_F16, &value, &got[1], 1);
		if (exponent == 31) {
			assert_true(mantissa ? isnan(got[0]) && isnan(got[1])
					     : isinf(got[0]) && isinf(got[1]));
		} else {
			want = h & 0x8000 ? -want : want;
			assert_true(got[0] == want && got[1] == want);
		}
		assert_int_equal(!!signbit(got[0]), h >> 15);
		assert_int_equal(!!signbit(got[1]), h >> 15);
	}
}

static void bf16_is_the_upper_half_of_f32(void **state)
{
	static const float values[] = { 0,	   -0.0f,     1,	   -2.5f,
					0x1p-126f, 0x1p-133f, 0x1.fep127f, INFINITY };
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		uint16_t half;
		float got;

		memcpy(&half, (const char *)&values[i] + 2, 2);
		gguf_dequantize(GGUF_BF16, &half, &got, 1);
		assert_memory_equal(&got, &values[i], 4);
	}
}

/* 0x3800 is 0.5 and 0xc000 is -2 in F16. */
static void blocks_worked_out_by_hand(void **state)
{
	uint8_t block[MAX_BLOCK_BYTES] = { 0x00, 0x38 };
	float got[256];

	block[2] = 127;
	block[3] = 0x80; /* -128 */
	block[33] = 0xff;
	gguf_dequantize(GGUF_Q8_0, block, got, 32);
	assert_true(got[0] == 63.5f && got[1] == -64 && got[2] == 0 && got[31] == -0.5f);

	memset(block + 2, 0x88, 16);
	block[2] = 0xf0;
	block[17] = 0x19;
	gguf_dequantize(GGUF_Q4_0, block, got, 32);
	assert_true(got[0] == -4 && got[16] == 3.5f && got[1] == 0 && got[15] == 0.5f &&
		    got[31] == -3.5f);

	/*
	 * Q4_K: d 0.5, m -2. Group 1: scale 3, offset 5. Group 6: scale
	 * 0x2b = 43, offset 0x17 = 23.
	 */
	memset(block, 0, sizeof(block));
	memcpy(block, "\x00\x38\x00\xc0", 4);
	block[4 + 1] = 3;
	block[4 + 5] = 5;
	block[4 + 2] = 2 << 6; /* upper bits of group 6's scale */
	block[4 + 6] = 1 << 6; /* and offset */
	block[4 + 10] = 0x7b;
	block[16 + 4] = 0xa0; /* value 4 of group 1 is 10 */
	block[16 + 3 * 32 + 31] = 0x0c; /* value 31 of group 6 is 12 */
	gguf_dequantize(GGUF_Q4_K, block, got, 256);
	assert_true(got[32 + 4] == 0.5f * 3 * 10 + 2 * 5);
	assert_true(got[32] == 2 * 5);
	assert_true(got[6 * 32 + 31] == 0.5f * 43 * 12 + 2 * 23);
	assert_true(got[0] == 0 && got[255] == 0);

	/* Q6_K: d 0.5. Value 200 is in half 1, group 2, upper nibbles; its scale is number 12. */
	memset(block, 0, sizeof(block));
	block[208] = 0x00;
	block[209] = 0x38;
	block[192 + 12] = 0xfd; /* -3 */
	block[64 + 8] = 0x70;
	block[128 + 32 + 8] = 2 << 4;
	gguf_dequantize(GGUF_Q6_K, block, got, 256);
	assert_true(got[200] == 0.5f * -3 * (32 + 7 - 32));
	assert_true(got[201] == 0.5f * -3 * -32);
	assert_true(got[100] == 0);
}

static double f16_at(const uint8_t *p)
{
	int exponent = p[1] >> 2 & 31, mantissa = (p[1] & 3) << 8 | p[0];
	double v = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);

	return p[1] & 0x80 ? -v : v;
}

/* Six bits of the packed scales (@which 0) or offsets (1) of a K block's group. */
static int k_six_bits(const uint8_t *packed, int group, int which)
{
	if (group < 4)
		return packed[4 * which + group] % 64;
	return packed[8 + group - 4] / (which ? 16 : 1) % 16 +
	       packed[4 * which + group - 4] / 64 * 16;
}

/* Six bits of Q3_K's packed scales. */
static int q3_k_scale(const uint8_t *packed, int group)
{
	int low = packed[group % 8] / (group < 8 ? 1 : 16) % 16;

	return low + 16 * (packed[8 + group % 4] >> group / 4 * 2 & 3);
}

/* Value @i of a block, and in *@size how large the terms are that were added. */
static double define(enum gguf_type type, const uint8_t *b, int i, double *size)
{
	int group = i / 32, j = i % 32, q;
	double scale, offset = 0;

	switch (type) {
	case GGUF_Q8_0:
		scale = f16_at(b);
		q = (int8_t)b[2 + i];
		break;
	case GGUF_Q4_0:
		scale = f16_at(b);
		q = (i < 16 ? b[2 + i] % 16 : b[2 + i - 16] / 16) - 8;
		break;
	case GGUF_Q4_K:
	case GGUF_Q5_K:
		scale = f16_at(b) * k_six_bits(b + 4, group, 0);
		offset = f16_at(b + 2) * k_six_bits(b + 4, group, 1);
		q = b[(type == GGUF_Q4_K ? 16 : 48) + group / 2 * 32 + j] / (group % 2 ? 16 : 1) %
		    16;
		if (type == GGUF_Q5_K)
			q += 16 * (b[16 + j] >> group & 1);
		break;
	case GGUF_Q4_1:
		scale = f16_at(b);
		offset = -f16_at(b + 2);
		q = i < 16 ? b[4 + i] % 16 : b[4 + i - 16] / 16;
		break;
	case GGUF_Q5_0:
	case GGUF_Q5_1:
		scale = f16_at(b);
		offset = type == GGUF_Q5_0 ? 0 : -f16_at(b + 2);
		b += type == GGUF_Q5_0 ? 2 : 4;
		q = (i < 16 ? b[4 + i] % 16 : b[4 + i - 16] / 16) + 16 * (b[i / 8] >> i % 8 & 1);
		q -= type == GGUF_Q5_0 ? 16 : 0;
		break;
	case GGUF_Q2_K:
		scale = f16_at(b + 80) * (b[i / 16] % 16);
		offset = f16_at(b + 82) * (b[i / 16] / 16);
		q = b[16 + i / 128 * 32 + j] >> group % 4 * 2 & 3;
		break;
	case GGUF_Q3_K:
		scale = f16_at(b + 108) * (q3_k_scale(b + 96, i / 16) - 32);
		q = (b[32 + i / 128 * 32 + j] >> group % 4 * 2 & 3) - (b[j] >> group & 1 ? 0 : 4);
		break;
	default:
		scale = f16_at(b + 208) * (int8_t)b[192 + i / 16];
		q = b[i / 128 * 64 + i % 64] / (i % 128 < 64 ? 1 : 16) % 16;
		q += 16 * (b[128 + i / 128 * 32 + j] >> i % 128 / 32 * 2 & 3);
		q -= 32;
	}
	*size = fabs(scale * q) + fabs(offset);
	return scale * q - offset;
}

/* Random bytes; the scales are made finite if @finite. */
static void random_block(enum gguf_type type, uint8_t *block, bool finite, uint64_t *seed)
{
	static const uint8_t scales_at[GGUF_TYPES][2] = {
		[GGUF_Q8_0] = { 1, 1 },	    [GGUF_Q4_0] = { 1, 1 },	[GGUF_Q4_K] = { 1, 3 },
		[GGUF_Q5_K] = { 1, 3 },	    [GGUF_Q6_K] = { 209, 209 }, [GGUF_Q4_1] = { 1, 3 },
		[GGUF_Q5_0] = { 1, 1 },	    [GGUF_Q5_1] = { 1, 3 },	[GGUF_Q2_K] = { 81, 83 },
		[GGUF_Q3_K] = { 109, 109 },
	};
	uint32_t i;

	for (i = 0; i < gguf_type_traits(type)->block_bytes; i++)
		block[i] = random_u64(seed) >> 56;
	if (finite) {
		block[scales_at[type][0]] &= 0xbb; /* an exponent of 31 becomes one of 14 */
		block[scales_at[type][1]] &= 0xbb;
	}
}

static void block_types_follow_their_definition(void **state)
{
	uint64_t seed = start_seed();
	uint8_t block[MAX_BLOCK_BYTES];
	float got[256];
	size_t t;
	int round, i;

	for (t = 3; t < N_TYPES; t++) {
		for (round = 0; round < 500; round++) {
			int n = gguf_type_traits(all_types[t])->block_values;

			random_block(all_types[t], block, true, &seed);
			gguf_dequantize(all_types[t], block, got, n);
			for (i = 0; i < n; i++) {
				double size, want = define(all_types[t], block, i, &size);

				if (!(fabs(got[i] - want) <= 0x1p-22 * size + 0x1p-149))
					fail_msg("%s: value %d is %g, not %g",
						 gguf_type_traits(all_types[t])->name, i, got[i],
						 want);
			}
		}
	}
}

/* The numbers and scales of a type's blocks make up its values; nothing is written beyond them. */
static void blocks_taken_apart_have_the_same_values(void **state)
{
	enum { BLOCKS = 3 };
	uint64_t seed = start_seed();
	uint8_t src[BLOCKS * MAX_BLOCK_BYTES], numbers[BLOCKS * 256 + 1];
	int8_t scale[BLOCKS * 16 + 1], min[BLOCKS * 16 + 1];
	uint16_t d[BLOCKS + 1], dmin[BLOCKS + 1];
	const struct gguf_parts parts = { numbers, d, dmin, scale, min };
	unsigned int found = 0;
	float want[BLOCKS * 256];

	for (size_t t = 0; t < N_TYPES; t++) {
		const struct gguf_type_traits *traits = gguf_type_traits(all_types[t]);
		const struct gguf_form f = gguf_form(all_types[t]);
		int n = BLOCKS * f.block, groups = f.block ? n / f.group : 0, small = f.block == 32;

		if (!f.block)
			continue;
		found++;
		for (int i = 0; i < BLOCKS; i++)
			random_block(all_types[t], src + i * traits->block_bytes, true, &seed);
		numbers[n] = 0xa5;
		d[BLOCKS] = dmin[f.mins ? BLOCKS : 0] = 0xa5a5;
		scale[small ? 0 : groups] = min[small || !f.mins ? 0 : groups] = 0x5a;
		gguf_split(all_types[t], src, n, &parts);
		assert_int_equal(numbers[n], 0xa5);
		assert_int_equal(d[BLOCKS], 0xa5a5);
		assert_int_equal(dmin[f.mins ? BLOCKS : 0], 0xa5a5);
		assert_int_equal(scale[small ? 0 : groups], 0x5a);
		assert_int_equal(min[small || !f.mins ? 0 : groups], 0x5a);
		gguf_dequantize(all_types[t], src, want, n);
		for (int i = 0; i < n; i++) {
			int zero = f.mins ? 0 : 1 << (f.bits - 1);
			float s = (float)f16_at((uint8_t *)&d[i / f.block]), m = 0;

			assert_in_range(numbers[i], 0, (1 << f.bits) - 1);
			s *= small ? 1 : (float)scale[i / f.group];
			if (f.mins)
				m = (float)f16_at((uint8_t *)&dmin[i / f.block]) *
				    (small ? 1 : (float)min[i / f.group]);
			assert_true(want[i] == s * (float)(numbers[i] - zero) - m);
		}
	}
	assert_int_equal(found, 8);
}

static void simd_kernels_give_the_same_bits(void **state)
{
#if defined(__x86_64__)
	enum { BLOCKS = 7 };
	uint64_t seed = start_seed();
	uint8_t src[BLOCKS * MAX_BLOCK_BYTES + 1];
	float a[BLOCKS * 256 + 1], b[BLOCKS * 256 + 1];
	size_t t;
	int round;

	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c"))
		skip();
	for (t = 0; t < N_TYPES; t++) {
		const struct gguf_type_traits *traits = gguf_type_traits(all_types[t]);

		for (round = 0; dequant_avx2(all_types[t]) && round < 500; round++) {
			size_t n = 1 + random_u64(&seed) % BLOCKS, i;
			int shift = random_u64(&seed) % 2; /* any alignment */

			for (i = 0; i < n; i++)
				random_block(all_types[t], src + shift + i * traits->block_bytes,
					     traits->block_values > 1 && round % 2, &seed);
			a[n * traits->block_values] = b[n * traits->block_values] = 42;
			dequant_generic[all_types[t]](src + shift, a, n * traits->block_values);
			dequant_avx2(all_types[t])(src + shift, b, n * traits->block_values);
			assert_memory_equal(a, b, (n * traits->block_values + 1) * sizeof(float));
		}
	}
#else
	skip();
#endif
}

/* ---- real weights ---------------------------------------------------------------------------- */

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

static void widen(const struct gguf_tensor *t, float *out)
{
	gguf_dequantize(t->type, t->data, out, t->dims[0] * t->dims[1]);
}

/*
 * Of all tensors of @type in the file: RMS of the difference to the F32 file's,
 * relative to the latter's RMS.
 */
static double relative_error(const struct gguf_file *exact, const struct gguf_file *file,
			     enum gguf_type type)
{
	double error = 0, size = 0;
	size_t i, j, n;

	for (i = 0; i < gguf_n_tensors(file); i++) {
		const struct gguf_tensor *t = gguf_tensor(file, i),
					 *e = gguf_find_tensor(exact, t->name);
		float *a, *b;

		if (t->type != type)
			continue;
		assert_non_null(e);
		n = t->dims[0] * t->dims[1];
		a = malloc(n * sizeof(*a));
		b = malloc(n * sizeof(*b));
		widen(t, a);
		widen(e, b);
		for (j = 0; j < n; j++) {
			error += ((double)a[j] - b[j]) * ((double)a[j] - b[j]);
			size += (double)b[j] * b[j];
		}
		free(a);
		free(b);
	}
	return sqrt(error / size);
}

/*
 * A uniform quantiser of 2 * L levels over a block's largest value errs by about largest / (L *
 * sqrt(12)), and of 32 normally distributed values the largest is about 2.1 deviations, of 16 about
 * 1.8. The ranges below are that within a factor of 1.5 (the K types search their scales; Q4_0's
 * one-sided scale costs some).
 */
static void quantised_models_are_as_near_as_their_bits_allow(void **state)
{
	static const struct {
		const char *name;
		enum gguf_type type;
		double low, high;
	} files[] = {
		{ "docs6m-q8_0.gguf", GGUF_Q8_0, 0.003, 0.007 },
		{ "docs6m-q4_0.gguf", GGUF_Q4_0, 0.05, 0.11 },
		{ "docs6m-q4_k_m.gguf", GGUF_Q4_K, 0.045, 0.09 },
		{ "docs6m-q5_k_m.gguf", GGUF_Q5_K, 0.022, 0.045 },
		{ "docs6m-q6_k.gguf", GGUF_Q6_K, 0.01, 0.025 },
	};
	struct gguf_file *exact = open_data("docs6m-f32.gguf"), *file;
	size_t i;

	if (!exact)
		skip();
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		double error;

		file = open_data(files[i].name);
		error = relative_error(exact, file, files[i].type);
		print_message("%s: relative RMS error %.5f\n",
			      gguf_type_traits(files[i].type)->name, error);
		assert_true(error > files[i].low && error < files[i].high);
		gguf_close(file);
	}
	gguf_close(exact);
}

static void block_sizes_are_those_of_the_format(void **state)
{
	static const uint32_t want[N_TYPES][2] = { { 1, 4 },	 { 1, 2 },     { 1, 2 },
						   { 32, 34 },	 { 32, 18 },   { 256, 144 },
						   { 256, 176 }, { 256, 210 }, { 32, 20 },
						   { 32, 22 },	 { 32, 24 },   { 256, 84 },
						   { 256, 110 } };
	size_t t;

	for (t = 0; t < N_TYPES; t++) {
		assert_int_equal(gguf_type_traits(all_types[t])->block_values, want[t][0]);
		assert_int_equal(gguf_type_traits(all_types[t])->block_bytes, want[t][1]);
	}
	assert_null(gguf_type_traits(4));
	assert_null(gguf_type_traits(31));
	assert_null(gguf_type_traits(40));
	assert_null(gguf_type_traits(-1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(block_sizes_are_those_of_the_format),
		cmocka_unit_test(f16_of_every_value_is_exact),
		cmocka_unit_test(bf16_is_the_upper_half_of_f32),
		cmocka_unit_test(blocks_worked_out_by_hand),
		cmocka_unit_test(block_types_follow_their_definition),
		cmocka_unit_test(blocks_taken_apart_have_the_same_values),
		cmocka_unit_test(simd_kernels_give_the_same_bits),
		cmocka_unit_test(quantised_models_are_as_near_as_their_bits_allow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
