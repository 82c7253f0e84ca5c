// SPDX-License-Identifier: MIT
/*
 * Widening of the types of gguf_levels.h with AVX2: their integers times their scales, as in
 * dequant.c, with bit-identical results. Nibbles are looked up 32 at a time.
 */
#include "gguf_levels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

/* 16 integers times @scale. */
static inline void store_16(float *dst, __m128i numbers, float scale)
{
	const __m256 s = _mm256_set1_ps(scale);
	__m256i low = _mm256_cvtepi8_epi32(numbers),
		high = _mm256_cvtepi8_epi32(_mm_srli_si128(numbers, 8));

	_mm256_storeu_ps(dst, _mm256_mul_ps(s, _mm256_cvtepi32_ps(low)));
	_mm256_storeu_ps(dst + 8, _mm256_mul_ps(s, _mm256_cvtepi32_ps(high)));
}

static inline __m128i load_16(const void *p)
{
	return _mm_loadu_si128((const __m128i *)p);
}

static void dequant_levels(enum gguf_type type, const uint8_t *src, float *dst, size_t n)
{
	const struct gguf_type_traits *traits = gguf_type_traits(type);
	struct gguf_levels block;

	for (size_t i = 0; i < n; i += traits->block_values, src += traits->block_bytes) {
		gguf_levels_of[type](src, &block);
		for (uint32_t k = 0; k < traits->block_values; k += 16, dst += 16)
			store_16(dst, load_16(block.numbers + k),
				 block.unit * (float)block.scale[k / GGUF_LEVELS_GROUP]);
	}
}

#define DEQUANT_LEVELS(name, type)                                           \
	static void dequant_##name(const uint8_t *src, float *dst, size_t n) \
	{                                                                    \
		dequant_levels(type, src, dst, n);                           \
	}
DEQUANT_LEVELS(iq1_s, GGUF_IQ1_S)
DEQUANT_LEVELS(iq1_m, GGUF_IQ1_M)
DEQUANT_LEVELS(iq2_xxs, GGUF_IQ2_XXS)
DEQUANT_LEVELS(iq2_xs, GGUF_IQ2_XS)
DEQUANT_LEVELS(iq2_s, GGUF_IQ2_S)
DEQUANT_LEVELS(iq3_xxs, GGUF_IQ3_XXS)
DEQUANT_LEVELS(iq3_s, GGUF_IQ3_S)
DEQUANT_LEVELS(tq1_0, GGUF_TQ1_0)

/* 16 bytes of nibbles, as look_up_32() in gguf_levels.c, times @scale. */
static inline void store_nibbles(float *dst, const uint8_t *nibbles, __m128i levels, float scale)
{
	const __m128i low = _mm_set1_epi8(15), bytes = load_16(nibbles);

	store_16(dst, _mm_shuffle_epi8(levels, _mm_and_si128(bytes, low)), scale);
	store_16(dst + 16, _mm_shuffle_epi8(levels, _mm_and_si128(_mm_srli_epi16(bytes, 4), low)),
		 scale);
}

static float scale_f16(const uint8_t *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof(h));
	return _cvtsh_ss(h);
}

static void dequant_iq4_nl(const uint8_t *src, float *dst, size_t n)
{
	const __m128i levels = load_16(gguf_levels_iq4);

	for (size_t i = 0; i < n; i += 32, src += 18)
		store_nibbles(dst + i, src + 2, levels, scale_f16(src));
}

static void dequant_mxfp4(const uint8_t *src, float *dst, size_t n)
{
	const __m128i levels = load_16(gguf_levels_e2m1);

	for (size_t i = 0; i < n; i += 32, src += 17)
		store_nibbles(dst + i, src + 1, levels, gguf_levels_e8m0_half(*src));
}

static void dequant_iq4_xs(const uint8_t *src, float *dst, size_t n)
{
	const __m128i levels = load_16(gguf_levels_iq4);
	int8_t scale[8];

	for (size_t i = 0; i < n; i += 256, src += 136) {
		const float d = scale_f16(src);

		gguf_levels_iq4_xs_scales(src, scale);
		for (int g = 0; g < 8; g++)
			store_nibbles(dst + i + 32 * g, src + 8 + 16 * g, levels,
				      d * (float)scale[g]);
	}
}

static void dequant_tq2_0(const uint8_t *src, float *dst, size_t n)
{
	const __m128i low = _mm_set1_epi8(3), one = _mm_set1_epi8(1);

	for (size_t i = 0; i < n; i += 256, src += 66) {
		const float d = scale_f16(src + 64);

		for (int k = 0; k < 256; k += 16) {
			__m128i pairs = load_16(src + k / 128 * 32 + k % 32);

			pairs = _mm_and_si128(_mm_srli_epi16(pairs, k % 128 / 32 * 2), low);
			store_16(dst + i + k, _mm_sub_epi8(pairs, one), d);
		}
	}
}

const dequant_fn dequant_levels_avx2[GGUF_TYPES] = {
	[GGUF_IQ1_S] = dequant_iq1_s,	  [GGUF_IQ1_M] = dequant_iq1_m,
	[GGUF_IQ2_XXS] = dequant_iq2_xxs, [GGUF_IQ2_XS] = dequant_iq2_xs,
	[GGUF_IQ2_S] = dequant_iq2_s,	  [GGUF_IQ3_XXS] = dequant_iq3_xxs,
	[GGUF_IQ3_S] = dequant_iq3_s,	  [GGUF_IQ4_NL] = dequant_iq4_nl,
	[GGUF_IQ4_XS] = dequant_iq4_xs,	  [GGUF_TQ1_0] = dequant_tq1_0,
	[GGUF_TQ2_0] = dequant_tq2_0,	  [GGUF_MXFP4] = dequant_mxfp4,
};
#endif
