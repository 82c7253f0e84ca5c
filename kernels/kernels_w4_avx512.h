/* SPDX-License-Identifier: MIT */
/* Common parts of the 4-bit kernels for AVX-512 and AMX: scratch, and storing results. */
#ifndef KERNELS_W4_AVX512_H
#define KERNELS_W4_AVX512_H

#include <immintrin.h>

#include "kernels_w4.h"

#define W4_K_BLOCK 512
#define W4F_K_BLOCK 128
/* Rows multiplied with a K block; their sums are 32 KB. */
#define W4_MAX_ROWS 128

/* Scratch: an unpacked K block of a panel, and the sums of the rows. */
struct w4_scratch {
	union {
		uint8_t u[W4_K_BLOCK / 4][VNPU_PANEL_N][4];
		float f[W4F_K_BLOCK][VNPU_PANEL_N];
	} w;
	float scale[W4_K_BLOCK / 32][VNPU_PANEL_N];
	float sum[W4_MAX_ROWS][VNPU_PANEL_N];
};

static inline __attribute__((always_inline)) __m512 w4_scale(const uint8_t *w, uint32_t group,
							     uint32_t i)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(w4_scales(w, group) + i * 2)));
}

/* @acc: sums before the rows' scales. */
static inline void w4_store(const struct fw_matmul_w4 *t, uint32_t m, uint32_t rows, uint32_t n0,
			    const float *acc)
{
	uint32_t i, r, cols = w4_channels(t, n0);
	__mmask16 live;
	__m512 y;

	for (i = 0; i < cols; i += 16) {
		live = cols - i < 16 ? (1u << (cols - i)) - 1 : 0xffff;
		for (r = 0; r < rows; r++) {
			y = _mm512_loadu_ps(acc + r * VNPU_PANEL_N + i);
			if (t->a_scale)
				y = _mm512_mul_ps(y, _mm512_set1_ps(t->a_scale[m + r]));
			if (t->bias)
				y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(live, t->bias + n0 + i));
			_mm512_mask_storeu_ps(t->c + (m + r) * t->ldc + n0 + i, live, y);
		}
	}
}

#endif /* KERNELS_W4_AVX512_H */
