/* SPDX-License-Identifier: MIT */
/*
 * Unpacks panels of MATMUL_WK to bytes; written once for vectors of WK_VEC bytes (16, 32 or 64) and
 * compiled for each instruction set. Width and line are always constants, so that a line takes a
 * shift, an AND and an OR for each of its planes (EdgeFlow 4.2, figure 8).
 */
#ifndef KERNELS_WK_VEC_H
#define KERNELS_WK_VEC_H

#include "kernels_wk.h"

#define WK_INLINE static inline __attribute__((always_inline))

/* Shifts are of 16 bits; bits that move to another byte are masked. */
typedef uint8_t wk_vec __attribute__((vector_size(WK_VEC), may_alias));
typedef uint16_t wk_words __attribute__((vector_size(WK_VEC), may_alias));

WK_INLINE wk_vec wk_load(const uint8_t *p)
{
	wk_vec x;

	memcpy(&x, p, sizeof(x));
	return x;
}

/* Moves bits from..from + bits - 1 of each byte to position @to. */
WK_INLINE wk_vec wk_move(wk_vec x, const int from, const int to, const int bits)
{
	if (from > to)
		x = (wk_vec)((wk_words)x >> (from - to));
	else if (from < to)
		x = (wk_vec)((wk_words)x << (to - from));
	return x & (uint8_t)(((1 << bits) - 1) << to);
}

/* Loads the vectors at byte @at of the @bits vectors of 8 packed k. */
WK_INLINE void wk_planes(wk_vec *planes, const uint8_t *w, const int bits, const int at)
{
	int i;

#pragma GCC unroll 8
	for (i = 0; i < bits; i++)
		planes[i] = wk_load(w + i * 64 + at);
}

/*
 * The numbers u of line 0..7, with 8 bits the s8 themselves. With 1 bit, returns 2 u, so that u -
 * wk_zero() is the number there too.
 */
WK_INLINE wk_vec wk_line(const wk_vec *planes, const int bits, const int line)
{
	wk_vec u = { 0 };
	int to = 0;

	if (bits == 8)
		return planes[line];
	if (bits & 4) {
		u = wk_move(planes[line % 4], line / 4 * 4, 0, 4);
		planes += 4;
		to = 4;
	}
	if (bits & 2) {
		u |= wk_move(planes[line % 2], line / 2 * 2, to, 2);
		planes += 2;
		to += 2;
	}
	if (bits & 1)
		u |= wk_move(planes[0], line, bits == 1 ? 1 : to, 1);
	return u;
}

/* Unpacks @groups times 8 k. */
WK_INLINE void wk_unpack_bits(uint8_t *dst, const uint8_t *w, uint32_t groups, const int bits)
{
	wk_vec planes[8], u;
	int at, line;

	for (; groups; groups--, w += bits * 64, dst += 512) {
#pragma GCC unroll 4
		for (at = 0; at < 64; at += WK_VEC) {
			wk_planes(planes, w, bits, at);
#pragma GCC unroll 8
			for (line = 0; line < 8; line++) {
				u = wk_line(planes, bits, line);
				if (bits < 8)
					u -= (uint8_t)(1 << (bits - 1));
				memcpy(dst + line * 64 + at, &u, sizeof(u));
			}
		}
	}
}

/* As fw_wk_unpack_avx2(). */
static void wk_unpack(uint8_t *dst, const struct fw_wk_panel *p, uint32_t k0, uint32_t n)
{
	const uint8_t *w = wk_k_block(p, k0);
	uint32_t groups = (n + 7) / 8;

	switch (p->bits) {
	case 1:
		wk_unpack_bits(dst, w, groups, 1);
		break;
	case 2:
		wk_unpack_bits(dst, w, groups, 2);
		break;
	case 3:
		wk_unpack_bits(dst, w, groups, 3);
		break;
	case 4:
		wk_unpack_bits(dst, w, groups, 4);
		break;
	case 5:
		wk_unpack_bits(dst, w, groups, 5);
		break;
	case 6:
		wk_unpack_bits(dst, w, groups, 6);
		break;
	case 7:
		wk_unpack_bits(dst, w, groups, 7);
		break;
	default:
		wk_unpack_bits(dst, w, groups, 8);
	}
	wk_end(dst, n);
}

#endif /* KERNELS_WK_VEC_H */
