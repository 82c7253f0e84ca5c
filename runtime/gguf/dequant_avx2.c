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

static __m256i load_bytes(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

/* The low nibbles of 32 bytes, or with @shift 4 the high ones. */
static __m256i nibbles(__m256i bytes, int shift)
{
	return _mm256_and_si256(_mm256_srli_epi16(bytes, shift), _mm256_set1_epi8(15));
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
	size_t i;

	for (i = 0; i < n; i += 32, src += 18) {
		__m128i q = _mm_loadu_si128((const __m128i *)(src + 2)), mask = _mm_set1_epi8(15);
		__m256i both = _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16(q, 4), mask),
						_mm_and_si128(q, mask));

		store_scaled(dst + i, _mm256_sub_epi8(both, _mm256_set1_epi8(8)),
			     _mm256_set1_ps(scale_f16(src)));
	}
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
			__m256 one = _mm256_set1_ps(1);
			float *out = dst + i + 32 * g;
			int j;

			q = _mm256_sub_epi8(_mm256_or_si256(q, _mm256_slli_epi16(pair, 4)),
					    _mm256_set1_epi8(32));
			store_scaled(out, q, one);
			for (j = 0; j < 32; j += 8) {
				__m256 s = _mm256_set1_ps(d * (float)scales[2 * g + j / 16]);

				_mm256_storeu_ps(out + j,
						 _mm256_mul_ps(s, _mm256_loadu_ps(out + j)));
			}
		}
	}
}

const dequant_fn dequant_avx2[GGUF_TYPES] = {
	[GGUF_F16] = dequant_f16,   [GGUF_BF16] = dequant_bf16, [GGUF_Q8_0] = dequant_q8_0,
	[GGUF_Q4_0] = dequant_q4_0, [GGUF_Q4_K] = dequant_q4_k, [GGUF_Q5_K] = dequant_q5_k,
	[GGUF_Q6_K] = dequant_q6_k,
};
#endif
