/* SPDX-License-Identifier: MIT */
/* Common parts of MATMUL_W4's kernels with vectors of 256 bits: scales and results. */
#ifndef KERNELS_W4_AVX2_H
#define KERNELS_W4_AVX2_H

#include <immintrin.h>

#include "kernels_w4.h"

static inline __attribute__((always_inline)) __m256 w4_scale(const uint8_t *w, uint32_t group,
							     uint32_t i)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(w4_scales(w, group) + i * 2)));
}

static inline void w4_store(const struct fw_matmul_w4 *t, uint32_t m, uint32_t rows, uint32_t n0,
			    float (*acc)[VNPU_PANEL_N])
{
	uint32_t i, r, cols = w4_channels(t, n0);
	__m256 y;
	float *c;

	for (r = 0; r < rows; r++) {
		c = t->c + (m + r) * t->ldc + n0;
		for (i = 0; i < VNPU_PANEL_N && t->a_scale; i += 8) {
			y = _mm256_mul_ps(_mm256_loadu_ps(acc[r] + i),
					  _mm256_set1_ps(t->a_scale[m + r]));
			_mm256_storeu_ps(acc[r] + i, y);
		}
		for (i = 0; i < cols && t->bias; i++)
			acc[r][i] += t->bias[n0 + i];
		memcpy(c, acc[r], cols * sizeof(float));
	}
}

#endif /* KERNELS_W4_AVX2_H */
