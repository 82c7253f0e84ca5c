/* SPDX-License-Identifier: MIT */
/* Common parts of MATMUL_KQ's kernels for AVX-512 and AMX: sums of activations, and results. */
#ifndef KERNELS_KQ_AVX512_H
#define KERNELS_KQ_AVX512_H

#include <immintrin.h>

#include "kernels_kq.h"

#define KQ_INLINE static inline __attribute__((always_inline))

KQ_INLINE __m512 kq_f16(const uint8_t *halves, uint32_t n)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(halves + n * 2)));
}

/* Sums of the activations of each group of a row. */
static inline void kq_group_sums(int16_t *sum, const int8_t *a, uint32_t k, uint32_t group)
{
	const __m128i ones = _mm_set1_epi8(1);
	__m128i s;

	for (uint32_t g = 0; g < k; g += group, sum++) {
		s = _mm_setzero_si128();
		for (uint32_t i = 0; i < group; i += 16)
			s = _mm_dpbusd_epi32(s, ones,
					     _mm_loadu_si128((const __m128i *)(a + g + i)));
		s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
		s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
		*sum = (int16_t)_mm_cvtsi128_si32(s);
	}
}

/* Writes the results of 16 channels, some of them @live, from the sums before the row's scale. */
KQ_INLINE void kq_result(const struct fw_matmul_kq *t, uint32_t m, uint32_t n, __mmask16 live,
			 __m512 c)
{
	c = _mm512_mul_ps(c, _mm512_set1_ps(t->a_scale[m]));
	if (t->bias)
		c = _mm512_add_ps(c, _mm512_maskz_loadu_ps(live, t->bias + n));
	_mm512_mask_storeu_ps(t->c + m * t->ldc + n, live, c);
}

/* The same for all channels of panel @n0 that exist and @rows rows from @m on; sums [rows][64]. */
static inline void kq_store(const struct fw_matmul_kq *t, uint32_t m, uint32_t rows, uint32_t n0,
			    const float *sum)
{
	uint32_t cols = kq_channels(t, n0), left;

	for (uint32_t i = 0; i < cols; i += 16) {
		left = cols - i;
		for (uint32_t r = 0; r < rows; r++)
			kq_result(t, m + r, n0 + i, left < 16 ? (1u << left) - 1 : 0xffff,
				  _mm512_loadu_ps(sum + r * VNPU_PANEL_N + i));
	}
}

#endif /* KERNELS_KQ_AVX512_H */
