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

/* Bytes between a read of packed weights and the prefetch for a later one. Lines are read and
 * written at different steps, of 64 @bits bytes and of 512, which some CPUs' prefetchers do not
 * follow. */
#define WK_AHEAD 1536

/* Shifts are of 16 bits; bits that move to another byte are masked. */
typedef uint8_t wk_vec __attribute__((vector_size(WK_VEC), may_alias));
typedef uint16_t wk_words __attribute__((vector_size(WK_VEC), may_alias));

WK_INLINE wk_vec wk_load(const uint8_t *p)
{
	wk_vec x;

	memcpy(&x, p, sizeof(x));
	return x;
}

/* Moves the bit at @from of each byte to position @to; other bits of the byte become undefined. */
WK_INLINE wk_vec wk_shift(wk_vec x, const int from, const int to)
{
#if defined(__aarch64__)
	/* The only instruction set that shifts bytes. */
	return from > to ? x >> (from - to) : x << (to - from);
#else
	if (from == to)
		return x;
	return from > to ? (wk_vec)((wk_words)x >> (from - to))
			 : (wk_vec)((wk_words)x << (to - from));
#endif
}

/* Moves bits from..from + bits - 1 of each byte to position @to. */
WK_INLINE wk_vec wk_move(wk_vec x, const int from, const int to, const int bits)
{
	return wk_shift(x, from, to) & (uint8_t)(((1 << bits) - 1) << to);
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

/*
 * The numbers of line 0..7, s8. In odd widths the highest bit has a plane of its own. Where it is
 * 0, 2^(bits - 1) is subtracted, so merging it and subtracting zero are one instruction.
 */
WK_INLINE wk_vec wk_numbers(const wk_vec *planes, const int bits, const int line)
{
	const int top = bits == 1 ? 2 : 1 << (bits - 1);
	wk_vec low = { 0 }, high;

	if (bits == 8)
		return planes[line];
	if (!(bits & 1))
		return wk_line(planes, bits, line) - (uint8_t)top;
	if (bits == 1)
		low += 1;
	else
		low = wk_line(planes, bits - 1, line);
	high = wk_shift(planes[bits - 1], line, bits == 1 ? 1 : bits - 1);
	return low - (~high & (uint8_t)top);
}

/* Stores 64-byte aligned bytes of a panel; with @past, not into the caches, if there are
 * instructions for it. */
WK_INLINE void wk_store(uint8_t *dst, wk_vec x, const bool past)
{
#if defined(__AVX512F__) && WK_VEC == 64
	if (past) {
		_mm512_stream_si512((__m512i *)dst, (__m512i)x);
		return;
	}
#elif defined(__AVX2__) && WK_VEC == 32
	if (past) {
		_mm256_stream_si256((__m256i *)dst, (__m256i)x);
		return;
	}
#endif
	memcpy(dst, &x, sizeof(x));
}

/* Unpacks @groups times 8 k. */
WK_INLINE void wk_unpack_bits(uint8_t *dst, const uint8_t *w, uint32_t groups, const int bits,
			      const bool past)
{
	wk_vec planes[8];
	int at, line;

	for (; groups; groups--, w += bits * 64, dst += 512) {
#pragma GCC unroll 8
		for (line = 0; line < bits; line++)
			__builtin_prefetch(w + WK_AHEAD + line * 64);
#pragma GCC unroll 4
		for (at = 0; at < 64; at += WK_VEC) {
			wk_planes(planes, w, bits, at);
#pragma GCC unroll 8
			for (line = 0; line < 8; line++)
				wk_store(dst + line * 64 + at, wk_numbers(planes, bits, line),
					 past);
		}
	}
}

/* As wk_unpack_bits(), with a width that is 1 to 8. */
WK_INLINE void wk_unpack_groups(uint8_t *dst, const uint8_t *w, uint32_t groups, uint32_t bits,
				const bool past)
{
	switch (bits) {
	case 1:
		wk_unpack_bits(dst, w, groups, 1, past);
		break;
	case 2:
		wk_unpack_bits(dst, w, groups, 2, past);
		break;
	case 3:
		wk_unpack_bits(dst, w, groups, 3, past);
		break;
	case 4:
		wk_unpack_bits(dst, w, groups, 4, past);
		break;
	case 5:
		wk_unpack_bits(dst, w, groups, 5, past);
		break;
	case 6:
		wk_unpack_bits(dst, w, groups, 6, past);
		break;
	case 7:
		wk_unpack_bits(dst, w, groups, 7, past);
		break;
	default:
		wk_unpack_bits(dst, w, groups, 8, past);
	}
}

/* As fw_wk_unpack_avx512(). */
WK_INLINE void wk_unpack(uint8_t *dst, const struct fw_wk_panel *p, uint32_t k0, uint32_t n)
{
	wk_unpack_groups(dst, wk_k_block(p, k0), (n + 7) / 8, p->bits, false);
	wk_end(dst, n);
}

#endif /* KERNELS_WK_VEC_H */
