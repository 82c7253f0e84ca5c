/* SPDX-License-Identifier: MIT */
/*
 * Many rows of activations, spread: each four k are in all eight places of a vector, so that
 * vpmaddubsw multiplies them by four k of eight channels without a broadcast, and weights stay in
 * registers for all of the rows.
 */
#ifndef KERNELS_SPREAD_AVX2_H
#define KERNELS_SPREAD_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "kernels.h"

#define SPREAD_ROWS 32
#define SPREAD_K 256
/* Panels that are multiplied by the same part of K. Spreading costs as much as two passes of 8
 * channels. */
#define SPREAD_PANELS 8

/* 32 k of all rows. */
typedef __m256i spread_unit[SPREAD_ROWS][8];

/* How many of @m rows to take at a time: parts are of equal size, none is of a few rows. */
static inline uint32_t spread_rows(uint32_t m)
{
	const uint32_t parts = (m + SPREAD_ROWS - 1) / SPREAD_ROWS;

	return (m + parts - 1) / parts;
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

#endif /* KERNELS_SPREAD_AVX2_H */
