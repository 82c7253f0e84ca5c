/* SPDX-License-Identifier: MIT */
/*
 * Many rows of activations, spread: each four k are in all eight places of a vector, so that
 * vpmaddubsw multiplies them by four k of eight channels without a broadcast, and weights stay in
 * registers for all of the rows.
 */
#ifndef KERNELS_SPREAD_AVX2_H
#define KERNELS_SPREAD_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "kernels.h"

#define SPREAD_ROWS 32
#define SPREAD_K 256
/* Panels that are multiplied by the same part of K. Spreading costs as much as two passes of 8
 * channels. */
#define SPREAD_PANELS 8

/* 32 k of all rows. */
typedef __m256i spread_unit[SPREAD_ROWS][8];

/* Rows and panels that are multiplied at a time. */
struct spread_part {
	uint32_t m, rows, panel, panels;
};

/* Moves on from {} through all rows of some panels, then of the next ones. False: that was all. */
static inline bool spread_next(struct spread_part *p, uint32_t m, uint32_t n)
{
	/* Equal parts, so that none is of a few rows. */
	const uint32_t parts = (m + SPREAD_ROWS - 1) / SPREAD_ROWS, rows = (m + parts - 1) / parts,
		       panels = (n + VNPU_PANEL_N - 1) / VNPU_PANEL_N;

	p->m += p->rows;
	if (!p->rows || p->m == m) {
		p->m = 0;
		p->panel += p->panels;
	}
	if (p->panel == panels)
		return false;
	p->rows = m - p->m < rows ? m - p->m : rows;
	p->panels = panels - p->panel < SPREAD_PANELS ? panels - p->panel : SPREAD_PANELS;
	return true;
}

/* @k: a multiple of 32. */
static inline void spread(spread_unit *to, const int8_t *a, size_t lda, uint32_t rows, uint32_t k)
{
	int32_t four;

	for (uint32_t unit = 0; unit < k / 32; unit++, a += 32) {
		for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 8
			for (uint32_t i = 0; i < 8; i++) {
				memcpy(&four, a + r * lda + i * 4, 4);
				to[unit][r][i] = _mm256_set1_epi32(four);
			}
		}
	}
}

/*
 * 32 k of a row, spread, times the unsigned factors of 8 channels: of the first four quads times
 * @scale0, of the others times @scale1. Sums of the pairs of @most quads fit 16 bits.
 */
static inline __attribute__((always_inline)) __m256i spread_products(const __m256i factors[8],
								     const __m256i *x,
								     const uint32_t most,
								     __m256i scale0, __m256i scale1)
{
	__m256i s, acc, product;

#pragma GCC unroll 8
	for (uint32_t quad = 0; quad < 8; quad++) {
		product = _mm256_maddubs_epi16(factors[quad], x[quad]);
		s = quad % most ? _mm256_add_epi16(s, product) : product;
		if (quad % most < most - 1)
			continue;
		product = _mm256_madd_epi16(s, quad < 4 ? scale0 : scale1);
		acc = quad < most ? product : _mm256_add_epi32(acc, product);
	}
	return acc;
}

#endif /* KERNELS_SPREAD_AVX2_H */
