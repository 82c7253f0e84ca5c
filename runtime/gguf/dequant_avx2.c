// SPDX-License-Identifier: MIT
/*
 * Widening with AVX2 and F16C: the operations of dequant.c in the same order on eight values at a
 * time, with bit-identical results.
 */
#include "dequant.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

static float scale_f16(const uint8_t *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof(h));
	return _cvtsh_ss(h);
}

/* 32 bytes as signed integers times @scale. */
static void store_scaled(float *dst, __m256i q, __m256 scale)
{
	__m128i low = _mm256_castsi256_si128(q), high = _mm256_extracti128_si256(q, 1);

	_mm256_storeu_ps(dst, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low))));
	low = _mm_srli_si128(low, 8);
	_mm256_storeu_ps(dst + 8,
			 _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low))));
	_mm256_storeu_ps(dst + 16,
			 _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high))));
	high = _mm_srli_si128(high, 8);
	_mm256_storeu_ps(dst + 24,
			 _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high))));
}

/* 32 bytes as unsigned integers times @scale minus @offset, rounded after each operation. */
static void store_offset(float *dst, __m256i q, float scale, float offset)
{
	__m256 o = _mm256_set1_ps(offset);
	int i;

	store_scaled(dst, q, _mm256_set1_ps(scale));
	for (i = 0; i < 32; i += 8)
		_mm256_storeu_ps(dst + i, _mm256_sub_ps(_mm256_loadu_ps(dst + i), o));
}

/* 32 bytes as integers, times a scale for each 16. */
static void store_two(float *dst, __m256i q, const float scale[2])
{
	store_scaled(dst, q, _mm256_set1_ps(1));
	for (int i = 0; i < 32; i += 8)
		_mm256_storeu_ps(dst + i, _mm256_mul_ps(_mm256_set1_ps(scale[i / 16]),
							_mm256_loadu_ps(dst + i)));
}

static __m256i load_bytes(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

/* The low nibbles of 32 bytes, or with @shift 4 the high ones. */
static __m256i nibbles(__m256i bytes, int shift)
{
	return _mm256_and_si256(_mm256_srli_epi16(bytes, shift), _mm256_set1_epi8(15));
}

/* 16 bytes: their low nibbles, then the high ones. */
static __m256i both_nibbles(const uint8_t *p)
{
	__m128i q = _mm_loadu_si128((const __m128i *)p), mask = _mm_set1_epi8(15);

	return _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16(q, 4), mask), _mm_and_si128(q, mask));
}

static void dequant_f16(const uint8_t *src, float *dst, size_t n)
{
	size_t i;

	for (i = 0; i + 8 <= n; i += 8)
		_mm256_storeu_ps(dst + i,
				 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + 2 * i))));
	for (; i < n; i++)
		dst[i] = scale_f16(src + 2 * i);
}

static void dequant_bf16(const uint8_t *src, float *dst, size_t n)
{
	size_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		__m256i wide =
			_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(src + 2 * i)));

		_mm256_storeu_si256((__m256i *)(dst + i), _mm256_slli_epi32(wide, 16));
	}
	if (i < n)
		dequant_generic[GGUF_BF16](src + 2 * i, dst + i, n - i);
}

static void dequant_q8_0(const uint8_t *src, float *dst, size_t n)
{
	size_t i;

	for (i = 0; i < n; i += 32, src += 34)
		store_scaled(dst + i, load_bytes(src + 2), _mm256_set1_ps(scale_f16(src)));
}

static void dequant_q4_0(const uint8_t *src, float *dst, size_t n)
{
	for (size_t i = 0; i < n; i += 32, src += 18)
		store_scaled(dst + i, _mm256_sub_epi8(both_nibbles(src + 2), _mm256_set1_epi8(8)),
			     _mm256_set1_ps(scale_f16(src)));
}

static void dequant_q4_k(const uint8_t *src, float *dst, size_t n)
{
	float scale[8], offset[8];
	size_t i;
	int g;

	for (i = 0; i < n; i += 256, src += 144) {
		dequant_k_scales(src, scale, offset);
		for (g = 0; g < 8; g++)
			store_offset(dst + i + 32 * g,
				     nibbles(load_bytes(src + 16 + g / 2 * 32), g % 2 * 4),
				     scale[g], offset[g]);
	}
}

static void dequant_q5_k(const uint8_t *src, float *dst, size_t n)
{
	float scale[8], offset[8];
	size_t i;
	int g;

	for (i = 0; i < n; i += 256, src += 176) {
		__m256i high = load_bytes(src + 16);

		dequant_k_scales(src, scale, offset);
		for (g = 0; g < 8; g++) {
			__m256i fifth =
				_mm256_and_si256(_mm256_srli_epi16(high, g), _mm256_set1_epi8(1));
			__m256i q = nibbles(load_bytes(src + 48 + g / 2 * 32), g % 2 * 4);

			store_offset(dst + i + 32 * g,
				     _mm256_or_si256(q, _mm256_slli_epi16(fifth, 4)), scale[g],
				     offset[g]);
		}
	}
}

static void dequant_q6_k(const uint8_t *src, float *dst, size_t n)
{
	size_t i;
	int g;

	for (i = 0; i < n; i += 256, src += 210) {
		const int8_t *scales = (const int8_t *)src + 192;
		float d = scale_f16(src + 208);

		for (g = 0; g < 8; g++) {
			__m256i high = load_bytes(src + 128 + g / 4 * 32);
			__m256i pair = _mm256_and_si256(_mm256_srli_epi16(high, g % 4 * 2),
							_mm256_set1_epi8(3));
			__m256i q =
				nibbles(load_bytes(src + g / 4 * 64 + g % 2 * 32), g % 4 / 2 * 4);
			const float scale[2] = { d * (float)scales[2 * g],
						 d * (float)scales[2 * g + 1] };

			q = _mm256_or_si256(q, _mm256_slli_epi16(pair, 4));
			store_two(dst + i + 32 * g, _mm256_sub_epi8(q, _mm256_set1_epi8(32)),
				  scale);
		}
	}
}

/* Bit i of @bits as the fifth bit of byte i. */
static __m256i fifth_bits(uint32_t bits)
{
	const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202,
						0x0303030303030303),
		      bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
	__m256i x = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), byte);

	x = _mm256_cmpeq_epi8(_mm256_and_si256(x, bit), bit);
	return _mm256_and_si256(x, _mm256_set1_epi8(16));
}

static void dequant_q4_1(const uint8_t *src, float *dst, size_t n)
{
	for (size_t i = 0; i < n; i += 32, src += 20)
		store_offset(dst + i, both_nibbles(src + 4), scale_f16(src), -scale_f16(src + 2));
}

static uint32_t load_32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void dequant_q5_0(const uint8_t *src, float *dst, size_t n)
{
	for (size_t i = 0; i < n; i += 32, src += 22) {
		__m256i q = _mm256_or_si256(both_nibbles(src + 6), fifth_bits(load_32(src + 2)));

		store_scaled(dst + i, _mm256_sub_epi8(q, _mm256_set1_epi8(16)),
			     _mm256_set1_ps(scale_f16(src)));
	}
}

static void dequant_q5_1(const uint8_t *src, float *dst, size_t n)
{
	for (size_t i = 0; i < n; i += 32, src += 24) {
		__m256i q = _mm256_or_si256(both_nibbles(src + 8), fifth_bits(load_32(src + 4)));

		store_offset(dst + i, q, scale_f16(src), -scale_f16(src + 2));
	}
}

/* The bit pairs of values 32 @g to 32 @g + 31, as Q2_K and Q3_K have them. */
static __m256i bit_pairs(const uint8_t *pairs, int g)
{
	return _mm256_and_si256(_mm256_srli_epi16(load_bytes(pairs + g / 4 * 32), g % 4 * 2),
				_mm256_set1_epi8(3));
}

static void dequant_q2_k(const uint8_t *src, float *dst, size_t n)
{
	for (size_t i = 0; i < n; i += 256, src += 84) {
		const float d = scale_f16(src + 80), m = scale_f16(src + 82);

		for (int g = 0; g < 8; g++, dst += 32) {
			const uint8_t *s = src + 2 * g;
			const float scale[2] = { d * (float)(s[0] & 15), d * (float)(s[1] & 15) };
			const float offset[2] = { m * (float)(s[0] >> 4), m * (float)(s[1] >> 4) };

			store_two(dst, bit_pairs(src + 16, g), scale);
			for (int k = 0; k < 32; k += 8)
				_mm256_storeu_ps(dst + k,
						 _mm256_sub_ps(_mm256_loadu_ps(dst + k),
							       _mm256_set1_ps(offset[k / 16])));
		}
	}
}

/* Q3_K's integer scale of group @g of 16 (gguf_blocks.c), times @d. */
static float q3_k_scale(const uint8_t *s, int g, float d)
{
	int low = s[g % 8] >> g / 8 * 4 & 15, high = s[8 + g % 4] >> g / 4 * 2 & 3;

	return d * (float)((low | high << 4) - 32);
}

static void dequant_q3_k(const uint8_t *src, float *dst, size_t n)
{
	for (size_t i = 0; i < n; i += 256, src += 110) {
		const float d = scale_f16(src + 108);
		const __m256i thirds = load_bytes(src);

		for (int g = 0; g < 8; g++, dst += 32) {
			const float scale[2] = { q3_k_scale(src + 96, 2 * g, d),
						 q3_k_scale(src + 96, 2 * g + 1, d) };
			__m256i third =
				_mm256_and_si256(_mm256_srli_epi16(thirds, g), _mm256_set1_epi8(1));
			__m256i q = _mm256_or_si256(bit_pairs(src + 32, g),
						    _mm256_slli_epi16(third, 2));

			store_two(dst, _mm256_sub_epi8(q, _mm256_set1_epi8(4)), scale);
		}
	}
}

const dequant_fn dequant_plain_avx2[GGUF_TYPES] = {
	[GGUF_F16] = dequant_f16,   [GGUF_BF16] = dequant_bf16, [GGUF_Q8_0] = dequant_q8_0,
	[GGUF_Q4_0] = dequant_q4_0, [GGUF_Q4_K] = dequant_q4_k, [GGUF_Q5_K] = dequant_q5_k,
	[GGUF_Q6_K] = dequant_q6_k, [GGUF_Q4_1] = dequant_q4_1, [GGUF_Q5_0] = dequant_q5_0,
	[GGUF_Q5_1] = dequant_q5_1, [GGUF_Q2_K] = dequant_q2_k, [GGUF_Q3_K] = dequant_q3_k,
};

dequant_fn dequant_avx2(enum gguf_type type)
{
	return dequant_plain_avx2[type] ? dequant_plain_avx2[type] : dequant_levels_avx2[type];
}
#endif
