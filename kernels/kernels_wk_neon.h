/* SPDX-License-Identifier: MIT */
/*
 * Weights of 1 to 8 bits for aarch64. For a single row, the packed weights are read once and in
 * order and unpacked to the numbers u in registers, which up to 7 bits are used as signed bytes;
 * the sums start at -wk_zero() times the sum of the row. For more rows, panels are unpacked for
 * kernels_neon.h.
 */
#ifndef KERNELS_WK_NEON_H
#define KERNELS_WK_NEON_H

#include <arm_neon.h>

#define WK_VEC 16
#include "kernels_wk_vec.h"

/* @bytes: a multiple of 8. */
static int32_t wk_sum(const int8_t *a, size_t bytes)
{
	const int8x8_t ones = vdup_n_s8(1);
	int32x2_t sum = vdup_n_s32(0);
	size_t i;

	for (i = 0; i < bytes; i += 8)
		sum = vdot_s32(sum, ones, vld1_s8(a + i));
	return vaddv_s32(sum);
}

/* Multiplies line @line with the four k at index @i, into 16 registers of sums. */
#define WK_DOT(line, i)                               \
	sum[line % 4 * 4 + v] =                       \
		vdotq_lane_s32(sum[line % 4 * 4 + v], \
			       vreinterpretq_s8_u8((uint8x16_t)wk_line(planes, bits, line)), x, i)

/* acc[64] = first + a x w, with @groups times 8 k. */
WK_INLINE void wk_gemv(const int bits, const int8_t *a, const uint8_t *w, size_t groups,
		       int32_t first, int32_t *acc)
{
	int32x4_t sum[16];
	wk_vec planes[8];
	int8x8_t x;
	int v;

#pragma GCC unroll 16
	for (v = 0; v < 16; v++)
		sum[v] = vdupq_n_s32(first);
	for (; groups; groups--, a += 8, w += bits * 64) {
		x = vld1_s8(a);
#pragma GCC unroll 4
		for (v = 0; v < 4; v++) {
			wk_planes(planes, w, bits, v * 16);
			WK_DOT(0, 0);
			WK_DOT(1, 0);
			WK_DOT(2, 0);
			WK_DOT(3, 0);
			WK_DOT(4, 1);
			WK_DOT(5, 1);
			WK_DOT(6, 1);
			WK_DOT(7, 1);
		}
	}
#pragma GCC unroll 16
	for (v = 0; v < 16; v++)
		vst1q_s32(acc + v * 4, sum[v]);
}

#define WK_BITS(bits)                                          \
	case bits:                                             \
		wk_gemv(bits, a, p->w, bytes / 8, first, acc); \
		break;

/* acc[64] = a[bytes] x panel @p. @sum: the sum of a. */
static void wk_panel(const struct fw_wk_panel *p, const int8_t *a, size_t bytes, int32_t sum,
		     int32_t *acc)
{
	int32_t first = p->bits == 8 ? 0 : (int32_t)((uint32_t)sum * -(uint32_t)wk_zero(p->bits));

	switch (p->bits) {
		WK_BITS(1)
		WK_BITS(2)
		WK_BITS(3)
		WK_BITS(4)
		WK_BITS(5)
		WK_BITS(6)
		WK_BITS(7)
		WK_BITS(8)
	}
}

#endif /* KERNELS_WK_NEON_H */
