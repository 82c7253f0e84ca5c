/* SPDX-License-Identifier: MIT */
/*
 * Common parts of the kernels for weights of 1 to 8 bits: the layout of a panel of MATMUL_WK, and
 * the kernels. For many rows, K blocks of a panel are unpacked to bytes as in a panel of MATMUL_I8,
 * once for all rows of a block, or with AVX2 in registers, for 32 rows at a time. For few rows,
 * which are limited by memory bandwidth, weights are unpacked in registers.
 */
#ifndef KERNELS_WK_H
#define KERNELS_WK_H

#include <string.h>

#include "kernels.h"

/* The data after a panel's weights: 64 sums, and scales. */
static inline const uint8_t *wk_sums(const struct fw_wk_panel *p, uint32_t k)
{
	return p->w + VNPU_PANEL_WK_BYTES(k, p->bits) - 512;
}

/* k per K block. */
#define WK_K_BLOCK (FW_UNPACK_BYTES / VNPU_PANEL_N)

/* The K block at @k0. */
static inline const uint8_t *wk_k_block(const struct fw_wk_panel *p, uint32_t k0)
{
	return p->w + (size_t)k0 * 8 * p->bits;
}

/* Subtracted from the numbers u of a panel. */
static inline int32_t wk_zero(uint32_t bits)
{
	return 1 << (bits - 1);
}

/* Copies a row of a block, padded with zeros to a multiple of 8. */
static inline size_t wk_row(int8_t *dst, const struct fw_matmul_i8 *t, uint32_t m)
{
	size_t bytes = ((size_t)t->k + 7) / 8 * 8;

	memset(dst + bytes - 8, 0, 8);
	memcpy(dst, t->a + m * t->lda, t->k);
	return bytes;
}

/* Zeroes the padding of the last 4 k of a K block of @n. */
static inline void wk_end(uint8_t *dst, uint32_t n)
{
	uint32_t i, j;

	for (i = 0; i < VNPU_PANEL_N; i++)
		for (j = n % 4; j && j < 4; j++)
			dst[n / 4 * 256 + i * 4 + j] = 0;
}

/*
 * Unpacks K block k0..k0 + n - 1 of panel @p to s8 [ceil(n/4)][64][4], as in a panel of MATMUL_I8.
 * k0 is a multiple of 8, and so is n except in the last K block. The padding to a multiple of 4 k
 * becomes 0; that to a multiple of 8 is undefined. @dst: FW_UNPACK_BYTES hold 512 k.
 */
void fw_wk_unpack_avx512(uint8_t *dst, const struct fw_wk_panel *p, uint32_t k0, uint32_t n);
/* A block of MATMUL_WK of panels of 1 to 7 bits. */
void fw_wk_many_avx2(const struct fw_matmul_i8 *t, void *scratch);
/* A block of MATMUL_WK with a single row; with AVX-512, with up to WK_FEW rows. */
#define WK_FEW 4
void fw_wk_row_avx2(const struct fw_matmul_i8 *t, void *scratch);
void fw_wk_few_avx512(const struct fw_matmul_i8 *t, void *scratch);

#endif /* KERNELS_WK_H */
