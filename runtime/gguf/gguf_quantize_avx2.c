// SPDX-License-Identifier: MIT
/*
 * Narrowing with AVX2 and F16C: the operations of gguf_quantize.c on eight values at a time, with
 * bit-identical results.
 *
 * Magnitudes are compared as integers, their bit patterns: these have the order of the values, and
 * NaN and infinity are the greatest, so put_scale() detects them.
 */
#include "gguf_quantize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define F16_INFINITY 0x7c00

static __m256i magnitude_bits(__m256 v)
{
	return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff));
}

/* Loads a block of 32 values into v; returns its greatest magnitude in all lanes. */
static __m256i load_block(const float *src, __m256 v[4])
{
	__m256i m;
	int i;

	for (i = 0; i < 4; i++)
		v[i] = _mm256_loadu_ps(src + 8 * i);
	m = _mm256_max_epu32(_mm256_max_epu32(magnitude_bits(v[0]), magnitude_bits(v[1])),
			     _mm256_max_epu32(magnitude_bits(v[2]), magnitude_bits(v[3])));
	m = _mm256_max_epu32(m, _mm256_permute2x128_si256(m, m, 1));
	m = _mm256_max_epu32(m, _mm256_shuffle_epi32(m, _MM_SHUFFLE(1, 0, 3, 2)));
	return _mm256_max_epu32(m, _mm256_shuffle_epi32(m, _MM_SHUFFLE(2, 3, 0, 1)));
}

/* Stores a block's scale, and 1 / scale or 0 in all lanes of *@inverse. False: it is not finite. */
static bool put_scale(uint8_t *dst, float d, __m256 *inverse)
{
	uint16_t h = _cvtss_sh(d, _MM_FROUND_TO_NEAREST_INT);

	memcpy(dst, &h, sizeof(h));
	*inverse = _mm256_set1_ps(h & 0x7fff ? 1 / d : 0);
	return (h & 0x7fff) < F16_INFINITY;
}

/* Packs four vectors of integers into bytes, in order, with saturation. */
static __m256i pack_bytes(const __m256i q[4])
{
	__m256i low = _mm256_packs_epi32(q[0], q[1]), high = _mm256_packs_epi32(q[2], q[3]);

	/* Packing works within 128-bit halves and leaves groups of four as 0 2 4 6, 1 3 5 7. */
	return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high),
					   _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static bool quantize_f16(const float *src, uint8_t *dst, size_t n)
{
	const __m128i exponent = _mm_set1_epi16(F16_INFINITY);
	__m128i bad = _mm_setzero_si128();
	size_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		__m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);

		bad = _mm_or_si128(bad, _mm_cmpeq_epi16(_mm_and_si128(h, exponent), exponent));
		_mm_storeu_si128((__m128i *)(dst + 2 * i), h);
	}
	return _mm_testz_si128(bad, bad) && quantize_generic[GGUF_F16](src + i, dst + 2 * i, n - i);
}

/*
 * Rounds ties away from zero by adding the float just below 0.5: adding 0.5 would carry values just
 * below a tie over it.
 */
static __m256i round_away(__m256 x)
{
	const __m256 sign = _mm256_set1_ps(-0.0f), half = _mm256_set1_ps(0x1.fffffep-2f);

	return _mm256_cvttps_epi32(_mm256_add_ps(x, _mm256_or_ps(_mm256_and_ps(x, sign), half)));
}

static bool quantize_q8_0(const float *src, uint8_t *dst, size_t n)
{
	size_t i;
	int j;

	for (i = 0; i < n; i += 32, src += 32, dst += 34) {
		__m256 v[4], inverse;
		__m256i q[4], m = load_block(src, v);

		if (!put_scale(dst, _mm256_cvtss_f32(_mm256_castsi256_ps(m)) / 127, &inverse))
			return false;
		for (j = 0; j < 4; j++)
			q[j] = round_away(_mm256_mul_ps(v[j], inverse));
		_mm256_storeu_si256((__m256i *)(dst + 2), pack_bytes(q));
	}
	return true;
}

/* The first value of the block whose magnitude is @m. */
static float first_of(const float *src, const __m256 v[4], __m256i m)
{
	uint32_t found = 0;
	int i;

	for (i = 0; i < 4; i++) {
		__m256i equal = _mm256_cmpeq_epi32(magnitude_bits(v[i]), m);

		found |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(equal)) << 8 * i;
	}
	return src[__builtin_ctz(found)];
}

static bool quantize_q4_0(const float *src, uint8_t *dst, size_t n)
{
	const __m256 middle = _mm256_set1_ps(8.5f);
	size_t i;
	int j;

	for (i = 0; i < n; i += 32, src += 32, dst += 18) {
		__m256 v[4], inverse;
		__m256i q[4], bytes, m = load_block(src, v);
		__m128i high;

		if (!put_scale(dst, first_of(src, v, m) / -8, &inverse))
			return false;
		for (j = 0; j < 4; j++)
			q[j] = _mm256_cvttps_epi32(
				_mm256_add_ps(_mm256_mul_ps(v[j], inverse), middle));
		bytes = _mm256_min_epi8(pack_bytes(q), _mm256_set1_epi8(15));
		high = _mm_slli_epi16(_mm256_extracti128_si256(bytes, 1), 4);
		_mm_storeu_si128((__m128i *)(dst + 2),
				 _mm_or_si128(_mm256_castsi256_si128(bytes), high));
	}
	return true;
}

const quantize_fn quantize_avx2[GGUF_TYPES] = {
	[GGUF_F16] = quantize_f16,
	[GGUF_Q8_0] = quantize_q8_0,
	[GGUF_Q4_0] = quantize_q4_0,
};
#endif
