/* SPDX-License-Identifier: MIT */
/* Common parts of the matmul kernels with vectors of 256 bits. */
#ifndef KERNELS_AVX2_H
#define KERNELS_AVX2_H

#include <immintrin.h>

#include "kernels.h"

/*
 * How far ahead weights that few rows take are prefetched. They are read 8 or 32 channels at a
 * time, parts of lines that are apart: Zen 3 does not prefetch that by itself. It drops prefetches
 * while as many lines as it can ask for are on their way, so each line is asked for twice: from
 * memory into L2, and later into L1.
 */
#define FETCH_FAR 12288
#define FETCH_NEAR 4096

/* Asks for the lines that are that far behind @at's. */
static inline __attribute__((always_inline)) void fetch_line(const uint8_t *at)
{
	_mm_prefetch(at + FETCH_FAR, _MM_HINT_T1);
	_mm_prefetch(at + FETCH_NEAR, _MM_HINT_T0);
}

/* For use after x += a product, where several rows have sums of more than two: gcc would keep the
 * products and add them up at the end, and has not enough registers for them. */
#define ADDED(x) __asm__("" : "+x"(x))

/* Writes the results of row @m from its sums; @scale and @n0 are the panel's. */
static inline void mm_store(const struct fw_matmul_i8 *t, uint32_t m, uint32_t n0,
			    const int32_t *acc, const float *scale)
{
	uint32_t cols = t->n - n0 < VNPU_PANEL_N ? t->n - n0 : VNPU_PANEL_N, n;
	__m256 as = _mm256_set1_ps(t->a_scale[m]), y;
	float *c = t->c + m * t->ldc + n0;

	for (n = 0; n + 8 <= cols; n += 8) {
		y = _mm256_mul_ps(
			_mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)(acc + n))),
			_mm256_mul_ps(as, _mm256_loadu_ps(scale + n)));
		if (t->bias)
			y = _mm256_add_ps(y, _mm256_loadu_ps(t->bias + n0 + n));
		_mm256_storeu_ps(c + n, y);
	}
	for (; n < cols; n++) {
		c[n] = (float)acc[n] * (t->a_scale[m] * scale[n]);
		if (t->bias)
			c[n] += t->bias[n0 + n];
	}
}

#endif /* KERNELS_AVX2_H */
