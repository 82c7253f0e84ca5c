// SPDX-License-Identifier: MIT
/*
 * Widening of the ternary types, of those with uneven levels and of those with code books: against
 * a definition written per value in double precision, SIMD bit by bit against portable code, and
 * all types against what llama.cpp makes of the same blocks.
 */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "checksum.h"
#include "gguf_codebooks.h"
#include "gguf_image.h"
#include "gguf_levels.h"

#define MAX_BLOCK_BYTES 256

static const enum gguf_type level_types[] = {
	GGUF_IQ1_S, GGUF_IQ1_M,	 GGUF_IQ2_XXS, GGUF_IQ2_XS, GGUF_IQ2_S, GGUF_IQ3_XXS,
	GGUF_IQ3_S, GGUF_IQ4_NL, GGUF_IQ4_XS,  GGUF_TQ1_0,  GGUF_TQ2_0, GGUF_MXFP4,
};
#define N_TYPES (sizeof(level_types) / sizeof(level_types[0]))

static uint64_t start_seed(void)
{
	const char *given = getenv("TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 0x1e7e15;

	print_message("TEST_SEED=0x%llx\n", (unsigned long long)seed);
	return seed ? seed : 1;
}

static double f16(unsigned int h)
{
	int exponent = h >> 10 & 31, mantissa = h & 1023;
	double v = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);

	return h & 0x8000 ? -v : v;
}

/* Bits @first to @first + @n - 1 of a block: its first bit is the lowest one of its first byte. */
static unsigned int bits(const uint8_t *b, unsigned int first, unsigned int n)
{
	unsigned int v = 0;

	for (unsigned int i = 0; i < n; i++)
		v |= (unsigned int)(b[(first + i) / 8] >> (first + i) % 8 & 1) << i;
	return v;
}

static double f16_at(const uint8_t *b)
{
	return f16(bits(b, 0, 16));
}

/* E2M1 by its definition: exponents 1 to 3 with a bias of 1, 0 is subnormal. */
static double e2m1(unsigned int nibble)
{
	double v = nibble >> 1 & 3 ? ldexp(2 + (nibble & 1), (int)(nibble >> 1 & 3) - 2)
				   : 0.5 * (nibble & 1);

	return nibble & 8 ? -v : v;
}

/* The digit @i to the base 3 of the fraction @byte / 256, minus 1. */
static double ternary(unsigned int byte, unsigned int i)
{
	double x = byte / 256.0 * pow(3, i);

	return floor(3 * (x - floor(x))) - 1;
}

static double define_16_levels(enum gguf_type type, const uint8_t *b, unsigned int i)
{
	unsigned int g = i / 32, nibble = i % 16 * 8 + i % 32 / 16 * 4; /* its first bit */

	switch (type) {
	case GGUF_IQ4_NL:
		return f16_at(b) * gguf_levels_iq4[bits(b + 2, nibble, 4)];
	case GGUF_MXFP4:
		return ldexp(e2m1(bits(b + 1, nibble, 4)), b[0] - 127);
	default: /* IQ4_XS */
		return f16_at(b) *
		       ((int)(bits(b + 4, g * 4, 4) | bits(b + 2, g * 2, 2) << 4) - 32) *
		       gguf_levels_iq4[bits(b + 8 + g * 16, nibble, 4)];
	}
}

static double define_ternary(enum gguf_type type, const uint8_t *b, unsigned int i)
{
	unsigned int j = i - 160, k = i - 240;

	if (type == GGUF_TQ2_0)
		return f16_at(b + 64) *
		       ((int)bits(b + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2) - 1);
	if (i < 160)
		return f16_at(b + 52) * ternary(b[i % 32], i / 32);
	if (i < 240)
		return f16_at(b + 52) * ternary(b[32 + j % 16], j / 16);
	return f16_at(b + 52) * ternary(b[48 + k % 4], k / 4);
}

static double sign(unsigned int signs, unsigned int i)
{
	return signs >> i & 1 ? -1 : 1;
}

/* Signs of which the last one is left out: it makes their number even. */
static unsigned int seven(unsigned int signs)
{
	return signs | (unsigned int)__builtin_popcount(signs) % 2 << 7;
}

static double define_iq2(enum gguf_type type, const uint8_t *b, unsigned int i)
{
	const struct gguf_codebooks *books = gguf_codebooks();
	unsigned int p = i / 8, g = i / 16, signs, s;
	uint64_t point;

	if (type == GGUF_IQ2_XXS) {
		point = books->iq2_xxs[b[2 + i / 32 * 8 + p % 4]];
		signs = seven(bits(b + 2 + i / 32 * 8 + 4, p % 4 * 7, 7));
		s = b[2 + i / 32 * 8 + 7] >> 4;
	} else if (type == GGUF_IQ2_XS) {
		point = books->iq2_xs[bits(b + 2, p * 16, 9)];
		signs = seven(bits(b + 2, p * 16 + 9, 7));
		s = bits(b + 66, g * 4, 4);
	} else {
		point = books->iq2_s[b[2 + p] | bits(b + 66, p * 2, 2) << 8];
		signs = b[34 + p];
		s = bits(b + 74, g * 4, 4);
	}
	return f16_at(b) * (s + 0.5) / 4 * sign(signs, i % 8) * (point >> i % 8 * 8 & 255);
}

static double define_iq3(enum gguf_type type, const uint8_t *b, unsigned int i)
{
	const struct gguf_codebooks *books = gguf_codebooks();
	unsigned int p = i / 4, g = i / 32, s;

	if (type == GGUF_IQ3_XXS) {
		s = b[66 + 4 * g + 3] >> 4;
		return f16_at(b) * (s + 0.5) / 2 *
		       sign(seven(bits(b + 66 + 4 * g, i / 8 % 4 * 7, 7)), i % 8) *
		       (books->iq3_xxs[b[2 + p]] >> i % 4 * 8 & 255);
	}
	return f16_at(b) * (1 + 2 * bits(b + 106, g * 4, 4)) * sign(b[74 + i / 8], i % 8) *
	       (books->iq3_s[b[2 + p] | bits(b + 66, p, 1) << 8] >> i % 4 * 8 & 255);
}

static double define_iq1(enum gguf_type type, const uint8_t *b, unsigned int i)
{
	const struct gguf_codebooks *books = gguf_codebooks();
	unsigned int p = i / 8, v, s, half = 0;
	double d, shift;

	if (type == GGUF_IQ1_S) {
		v = bits(b + 34, i / 32 * 16, 16);
		d = f16_at(b);
		s = v >> 12 & 7;
		shift = v >> 15 ? -0.125 : 0.125;
		p = b[2 + p] | (v >> p % 4 * 3 & 7) << 8;
	} else {
		for (unsigned int n = 0; n < 4; n++)
			half |= bits(b + 48, n * 16 + 12, 4) << 4 * n;
		d = f16(half);
		s = bits(b + 48, i / 64 * 16 + i / 16 % 4 * 3, 3);
		shift = bits(b + 32, p * 4 + 3, 1) ? -0.125 : 0.125;
		p = b[p] | bits(b + 32, p * 4, 3) << 8;
	}
	return d * (2 * s + 1) * (((int)(books->iq1[p] >> i % 8 * 8 & 255) - 136) / 8 + shift);
}

static double define(enum gguf_type type, const uint8_t *b, unsigned int i)
{
	switch (type) {
	case GGUF_IQ1_S:
	case GGUF_IQ1_M:
		return define_iq1(type, b, i);
	case GGUF_IQ2_XXS:
	case GGUF_IQ2_XS:
	case GGUF_IQ2_S:
		return define_iq2(type, b, i);
	case GGUF_IQ3_XXS:
	case GGUF_IQ3_S:
		return define_iq3(type, b, i);
	case GGUF_TQ1_0:
	case GGUF_TQ2_0:
		return define_ternary(type, b, i);
	default:
		return define_16_levels(type, b, i);
	}
}

/* Random bytes; the scale is made finite if @finite. */
static void random_block(enum gguf_type type, uint8_t *block, bool finite, uint64_t *seed)
{
	/* Where the scale's exponent has its upper bits, and a mask that makes it finite. */
	static const uint8_t scale_at[GGUF_TYPES][2] = {
		[GGUF_TQ1_0] = { 53, 0xbb },
		[GGUF_TQ2_0] = { 65, 0xbb },
		[GGUF_IQ1_M] = { 55, 0xbf },
		[GGUF_MXFP4] = { 0, 0x7f },
	};
	const uint8_t *at = scale_at[type][1] ? scale_at[type] : (const uint8_t[]){ 1, 0xbb };

	for (uint32_t i = 0; i < gguf_type_traits(type)->block_bytes; i++)
		block[i] = (uint8_t)(random_u64(seed) >> 56);
	if (finite)
		block[at[0]] &= at[1];
}

static void levels_follow_their_definition(void **state)
{
	uint64_t seed = start_seed();
	uint8_t block[MAX_BLOCK_BYTES];
	float got[256];

	for (size_t t = 0; t < N_TYPES; t++) {
		const struct gguf_type_traits *traits = gguf_type_traits(level_types[t]);

		for (int round = 0; round < 500; round++) {
			random_block(level_types[t], block, true, &seed);
			dequant_generic[level_types[t]](block, got, traits->block_values);
			for (unsigned int i = 0; i < traits->block_values; i++) {
				double want = define(level_types[t], block, i);

				if ((double)got[i] != want)
					fail_msg("%s: value %u is %g, not %g", traits->name, i,
						 (double)got[i], want);
			}
		}
	}
}

static void an_mxfp4_scale_of_255_is_nan(void **state)
{
	uint8_t block[17] = { 255, 0x10 };
	float got[32];

	gguf_dequantize(GGUF_MXFP4, block, got, 32);
	for (int i = 0; i < 32; i++)
		assert_true(isnan(got[i]));
	block[0] = 0; /* 2^-127 */
	gguf_dequantize(GGUF_MXFP4, block, got, 32);
	assert_true(got[16] == 0x1p-128f && got[0] == 0);
}

/* Nothing is written behind the last value, and nothing read behind the last block. */
static void simd_kernels_give_the_same_bits(void **state)
{
#if defined(__x86_64__)
	enum { BLOCKS = 7 };
	uint64_t seed = start_seed();
	float a[BLOCKS * 256 + 1], b[BLOCKS * 256 + 1];

	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c"))
		skip();
	for (unsigned int round = 0; round < 500 * N_TYPES; round++) {
		enum gguf_type type = level_types[round % N_TYPES];
		const struct gguf_type_traits *traits = gguf_type_traits(type);
		size_t blocks = 1 + random_u64(&seed) % BLOCKS, n = blocks * traits->block_values;
		uint8_t *src = malloc(blocks * traits->block_bytes);

		for (size_t i = 0; i < blocks; i++)
			random_block(type, src + i * traits->block_bytes, round % 2, &seed);
		a[n] = b[n] = 42;
		assert_non_null(dequant_avx2(type));
		dequant_generic[type](src, a, n);
		dequant_avx2(type)(src, b, n);
		assert_memory_equal(a, b, (n + 1) * sizeof(float));
		free(src);
	}
#else
	skip();
#endif
}

/* ---- code books ------------------------------------------------------------------------------ */

/* The points of a book, [n] of @bytes each, ascend; with @even the indices of their magnitudes in
 * @values have an even sum. */
static void check_book(const void *book, size_t n, size_t bytes, const char *values, bool even)
{
	uint64_t before = 0, point;

	for (size_t i = 0; i < n; i++, before = point) {
		unsigned int sum = 0;

		point = 0;
		memcpy(&point, (const uint8_t *)book + i * bytes, bytes);
		assert_true(!i || point > before);
		for (size_t j = 0; j < bytes; j++) {
			const char *at = strchr(values, (int)(point >> 8 * j & 255));

			assert_true(at && *at);
			sum += (unsigned int)(at - values);
		}
		assert_true(!even || sum % 2 == 0);
	}
}

static void code_books_hold_as_many_points_as_numbers_name(void **state)
{
	const struct gguf_codebooks *b = gguf_codebooks();

	check_book(b->iq2_xxs, 256, 8, "\x08\x19\x2b", true);
	check_book(b->iq2_xs, 512, 8, "\x08\x19\x2b", true);
	check_book(b->iq2_s, 1024, 8, "\x08\x19\x2b", true);
	check_book(b->iq1, 2048, 8, "\x80\x88\x90", false);
	check_book(b->iq3_xxs, 256, 4, "\x04\x0c\x14\x1c\x24\x2c\x34\x3e", true);
	check_book(b->iq3_s, 512, 4, "\1\3\5\7\x09\x0b\x0d\x0f", false);
}

/* ---- known answers --------------------------------------------------------------------------- */

/*
 * The checksums (runtime/base/checksum.h) of the values of 4096 blocks of bytes that are the top
 * ones of random_u64() from state 0x6b6e6f776e on, with every NaN made 0x7fc00000. They are of the
 * values that the functions dequantize_row_* make: of llama.cpp, commit c392e5094 (b4747), on
 * x86-64 with F16C; and for MXFP4 of ik_llama.cpp, commit 8337e4cd3, from blocks whose scale is 254
 * where it was 255, which is no number.
 */
static const struct {
	enum gguf_type type;
	uint64_t sum;
} known[] = {
	{ GGUF_Q4_0, 0x351607c7478c4ffa },    { GGUF_Q4_1, 0xfee182b52d675602 },
	{ GGUF_Q5_0, 0x816ac5352b712a7e },    { GGUF_Q5_1, 0xe8ad71d454c43567 },
	{ GGUF_Q8_0, 0x124a784387b27c85 },    { GGUF_Q2_K, 0x501890188d680a94 },
	{ GGUF_Q3_K, 0xd5232997346cc643 },    { GGUF_Q4_K, 0x64877767f709fee2 },
	{ GGUF_Q5_K, 0x86676bed33b276c2 },    { GGUF_Q6_K, 0x5bca4ee7278a1d9c },
	{ GGUF_IQ1_S, 0xfb1e3f518933afb7 },   { GGUF_IQ1_M, 0x54573f509aea1ed7 },
	{ GGUF_IQ2_XXS, 0x4548d355763a0bf0 }, { GGUF_IQ2_XS, 0x1af58fe21ff95ef2 },
	{ GGUF_IQ2_S, 0x467f0c4b32d4a670 },   { GGUF_IQ3_XXS, 0x672d69e0d6bb1fd4 },
	{ GGUF_IQ3_S, 0x528fa0fb288a76c7 },   { GGUF_IQ4_NL, 0xd9ada1b92d38f997 },
	{ GGUF_IQ4_XS, 0xcbef9b96a8dadbd3 },  { GGUF_TQ1_0, 0xfc0a7d305f03e3be },
	{ GGUF_TQ2_0, 0x49650453cd5ccd92 },   { GGUF_MXFP4, 0xe0df487fc1e387ac },
};

static void known_block(enum gguf_type type, uint8_t *block, uint64_t *seed)
{
	for (uint32_t i = 0; i < gguf_type_traits(type)->block_bytes; i++)
		block[i] = (uint8_t)(random_u64(seed) >> 56);
	if (type == GGUF_MXFP4 && block[0] == 255)
		block[0] = 254;
}

static void add_values(struct llm_checksum *sum, float *v, size_t n)
{
	static const uint32_t nan = 0x7fc00000;

	for (size_t i = 0; i < n; i++)
		if (isnan(v[i]))
			memcpy(&v[i], &nan, sizeof(nan));
	llm_checksum_add(sum, v, n * sizeof(*v));
}

static void all_types_widen_as_in_llama_cpp(void **state)
{
	uint8_t block[MAX_BLOCK_BYTES];
	float v[256];

	for (size_t t = 0; t < sizeof(known) / sizeof(known[0]); t++) {
		const struct gguf_type_traits *traits = gguf_type_traits(known[t].type);
		struct llm_checksum generic, chosen;
		uint64_t seed = 0x6b6e6f776e;

		llm_checksum_begin(&generic);
		llm_checksum_begin(&chosen);
		for (int i = 0; i < 4096; i++) {
			known_block(known[t].type, block, &seed);
			dequant_generic[known[t].type](block, v, traits->block_values);
			add_values(&generic, v, traits->block_values);
			gguf_dequantize(known[t].type, block, v, traits->block_values);
			add_values(&chosen, v, traits->block_values);
		}
		if (llm_checksum_end(&generic) != known[t].sum ||
		    llm_checksum_end(&chosen) != known[t].sum)
			fail_msg("%s", traits->name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_follow_their_definition),
		cmocka_unit_test(an_mxfp4_scale_of_255_is_nan),
		cmocka_unit_test(simd_kernels_give_the_same_bits),
		cmocka_unit_test(code_books_hold_as_many_points_as_numbers_name),
		cmocka_unit_test(all_types_widen_as_in_llama_cpp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
