/* SPDX-License-Identifier: MIT */
/* Those formats for vectors of WK_VEC bytes; included by a file per instruction set. */
#ifndef UNPACK_FORMATS_SIMD_H
#define UNPACK_FORMATS_SIMD_H

#include <string.h>

#include "kernels_wk_vec.h"
#include "unpack_formats.h"

/* ---- figure 7 ---- */

typedef uint32_t f7_words __attribute__((vector_size(WK_VEC), may_alias));
#define F7_GROUP (WK_VEC * 8)
/* Channels whose groups are transposed together: as many as a vector has words of 4 numbers. */
#define F7_CHANNELS (WK_VEC / 4)

/* The blocks of a plane of p bits hold 8 / p stripes each, the first one in the highest bits. */
static void f7_pack(uint8_t *packed, const int8_t *q, uint32_t k, uint32_t bits)
{
	memset(packed, 0, unpack_channel_bytes(k, bits));
	for (uint32_t i = 0; i < k; i++) {
		uint8_t *at = packed + i / F7_GROUP * WK_VEC * bits + i % WK_VEC;
		uint32_t stripe = i % F7_GROUP / WK_VEC;
		uint32_t u = bits == 8	 ? (uint8_t)q[i]
			     : bits == 1 ? q[i] > 0
					 : (uint32_t)(q[i] + (1 << (bits - 1)));

		for (uint32_t p = 8; p; p /= 2) {
			uint32_t down = 8 - p - stripe % (8 / p) * p;

			if (!(bits & p))
				continue;
			at[stripe * p / 8 * WK_VEC] |= (uint8_t)((u & ((1u << p) - 1)) << down);
			u >>= p;
			at += p * WK_VEC;
		}
	}
}

/* The bits of a plane that begins at blocks[0]. */
WK_INLINE wk_vec f7_field(const wk_vec *blocks, const int p, const int stripe, const int to)
{
	return wk_move(blocks[stripe * p / 8], 8 - p - stripe % (8 / p) * p, to, p);
}

/* Numbers of a stripe, s8, by the instructions of wk_numbers(). */
WK_INLINE wk_vec f7_stripe(const wk_vec *blocks, const int bits, const int stripe)
{
	const int top = bits == 1 ? 2 : 1 << (bits - 1);
	wk_vec u = { 0 }, high;

	if (bits == 8)
		return blocks[stripe];
	if (bits & 4)
		u = f7_field(blocks, 4, stripe, 0);
	if (bits & 2)
		u |= f7_field(blocks + (bits & 4), 2, stripe, bits & 4);
	if (!(bits & 1))
		return u - (uint8_t)top;
	if (bits == 1)
		u += 1;
	high = wk_shift(blocks[bits - 1], 7 - stripe, bits == 1 ? 1 : bits - 1);
	return u - (~high & (uint8_t)top);
}

/* A group of a channel to F7_GROUP numbers in a row. */
WK_INLINE void f7_group_bits(uint8_t *dst, const uint8_t *packed, const int bits, const bool past)
{
	wk_vec blocks[8];
	int i;

#pragma GCC unroll 8
	for (i = 0; i < bits; i++)
		blocks[i] = wk_load(packed + i * WK_VEC);
#pragma GCC unroll 8
	for (i = 0; i < 8; i++)
		wk_store(dst + i * WK_VEC, f7_stripe(blocks, bits, i), past);
}

#define F7_BITS(bits)                                   \
	case bits:                                      \
		f7_group_bits(dst, packed, bits, past); \
		break;

WK_INLINE void f7_group(uint8_t *dst, const uint8_t *packed, uint32_t bits, const bool past)
{
	switch (bits) {
		F7_BITS(1)
		F7_BITS(2)
		F7_BITS(3)
		F7_BITS(4)
		F7_BITS(5)
		F7_BITS(6)
		F7_BITS(7)
		F7_BITS(8)
	}
}

/* One loop for a channel's groups, as its width is known before: channel by channel. */
#define F7_CHANNEL(bits)                                                            \
	case bits:                                                                  \
		for (uint32_t i = 0; i < k; i += F7_GROUP, packed += WK_VEC * bits) \
			f7_group_bits(row + i, packed, bits, past);                 \
		break;

WK_INLINE void f7_channel(uint8_t *row, const uint8_t *packed, uint32_t bits, uint32_t k,
			  const bool past)
{
	switch (bits) {
		F7_CHANNEL(1)
		F7_CHANNEL(2)
		F7_CHANNEL(3)
		F7_CHANNEL(4)
		F7_CHANNEL(5)
		F7_CHANNEL(6)
		F7_CHANNEL(7)
		F7_CHANNEL(8)
	}
}

static void f7_unpack_rows(uint8_t *rows, const uint8_t *packed, const uint8_t *bits, uint32_t k,
			   bool past)
{
	for (uint32_t c = 0; c < 64; c++) {
		if (past)
			f7_channel(rows + (size_t)c * k, packed, bits[c], k, true);
		else
			f7_channel(rows + (size_t)c * k, packed, bits[c], k, false);
		packed += unpack_channel_bytes(k, bits[c]);
	}
}

#if WK_VEC == 16
#define F7_LOW32 ((f7_words){ 0, 4, 1, 5 })
#define F7_HIGH32 ((f7_words){ 2, 6, 3, 7 })
#define F7_LOW64 ((f7_words){ 0, 1, 4, 5 })
#define F7_HIGH64 ((f7_words){ 2, 3, 6, 7 })
#elif WK_VEC == 32
#define F7_LOW32 ((f7_words){ 0, 8, 1, 9, 4, 12, 5, 13 })
#define F7_HIGH32 ((f7_words){ 2, 10, 3, 11, 6, 14, 7, 15 })
#define F7_LOW64 ((f7_words){ 0, 1, 8, 9, 4, 5, 12, 13 })
#define F7_HIGH64 ((f7_words){ 2, 3, 10, 11, 6, 7, 14, 15 })
#else
#define F7_LOW32 ((f7_words){ 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29 })
#define F7_HIGH32 ((f7_words){ 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31 })
#define F7_LOW64 ((f7_words){ 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29 })
#define F7_HIGH64 ((f7_words){ 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31 })
#endif

#if WK_VEC == 32
/* Words 4 l + j of all channels, l the half of a vector: t[4 g + j] has those of four channels. */
WK_INLINE void f7_lanes(wk_vec *x, const f7_words *t)
{
	const f7_words low = { 0, 1, 2, 3, 8, 9, 10, 11 }, high = { 4, 5, 6, 7, 12, 13, 14, 15 };

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		x[j] = (wk_vec)__builtin_shuffle(t[j], t[4 + j], low);
		x[4 + j] = (wk_vec)__builtin_shuffle(t[j], t[4 + j], high);
	}
}
#elif WK_VEC == 64
/* The same with quarters. */
WK_INLINE void f7_lanes(wk_vec *x, const f7_words *t)
{
	__m512i a, b, c, d;

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		a = _mm512_shuffle_i32x4((__m512i)t[j], (__m512i)t[4 + j], 0x44);
		b = _mm512_shuffle_i32x4((__m512i)t[j], (__m512i)t[4 + j], 0xee);
		c = _mm512_shuffle_i32x4((__m512i)t[8 + j], (__m512i)t[12 + j], 0x44);
		d = _mm512_shuffle_i32x4((__m512i)t[8 + j], (__m512i)t[12 + j], 0xee);
		x[j] = (wk_vec)_mm512_shuffle_i32x4(a, c, 0x88);
		x[4 + j] = (wk_vec)_mm512_shuffle_i32x4(a, c, 0xdd);
		x[8 + j] = (wk_vec)_mm512_shuffle_i32x4(b, d, 0x88);
		x[12 + j] = (wk_vec)_mm512_shuffle_i32x4(b, d, 0xdd);
	}
}
#else
WK_INLINE void f7_lanes(wk_vec *x, const f7_words *t)
{
	memcpy(x, t, F7_CHANNELS * sizeof(*x));
}
#endif

/* A stripe of each of F7_CHANNELS rows, F7_GROUP apart, to steps of the panel. */
WK_INLINE void f7_transpose(uint8_t *panel, const uint8_t *rows, const bool past)
{
	f7_words t[F7_CHANNELS], r[4], low, high;
	wk_vec x[F7_CHANNELS];
	int i, j;

#pragma GCC unroll 4
	for (i = 0; i < F7_CHANNELS; i += 4) {
#pragma GCC unroll 4
		for (j = 0; j < 4; j++)
			r[j] = (f7_words)wk_load(rows + (i + j) * F7_GROUP);
#pragma GCC unroll 2
		for (j = 0; j < 2; j++) {
			low = __builtin_shuffle(r[0], r[1], j ? F7_HIGH32 : F7_LOW32);
			high = __builtin_shuffle(r[2], r[3], j ? F7_HIGH32 : F7_LOW32);
			t[i + 2 * j] = __builtin_shuffle(low, high, F7_LOW64);
			t[i + 2 * j + 1] = __builtin_shuffle(low, high, F7_HIGH64);
		}
	}
	f7_lanes(x, t);
#pragma GCC unroll 16
	for (i = 0; i < F7_CHANNELS; i++)
		wk_store(panel + i * 256, x[i], past);
}

WK_INLINE void f7_panel(uint8_t *panel, const uint8_t *packed, const uint8_t *bits, uint32_t k,
			const bool past)
{
	_Alignas(64) uint8_t rows[F7_CHANNELS * F7_GROUP];
	const uint8_t *at[64];

	for (int c = 0; c < 64; c++) {
		at[c] = packed;
		packed += unpack_channel_bytes(k, bits[c]);
	}
	for (uint32_t k0 = 0; k0 < k; k0 += F7_GROUP, panel += F7_GROUP * 64) {
		for (int c0 = 0; c0 < 64; c0 += F7_CHANNELS) {
			for (int c = 0; c < F7_CHANNELS; c++) {
				f7_group(rows + c * F7_GROUP, at[c0 + c], bits[c0 + c], false);
				at[c0 + c] += WK_VEC * bits[c0 + c];
			}
			for (int s = 0; s < 8; s++)
				f7_transpose(panel + s * WK_VEC * 64 + c0 * 4, rows + s * WK_VEC,
					     past);
		}
	}
}

static void f7_unpack(uint8_t *panel, const uint8_t *packed, const uint8_t *bits, uint32_t k,
		      bool past)
{
	if (past)
		f7_panel(panel, packed, bits, k, true);
	else
		f7_panel(panel, packed, bits, k, false);
}

/* ---- K-quants ---- */

#define KQ_BLOCK 256

/* Where number i of a block has its bits of a plane of p: runs of 32 numbers are beside each other,
 * in 32 p bytes for 8 runs. */
static inline uint32_t kq_at(uint32_t i, uint32_t p)
{
	return i / 32 / (8 / p) * 32 + i % 32;
}

static inline uint32_t kq_down(uint32_t i, uint32_t p)
{
	return i / 32 % (8 / p) * p;
}

static void kq_pack(uint8_t *packed, const int8_t *q, uint32_t k, uint32_t bits)
{
	memset(packed, 0, unpack_channel_bytes(k, bits));
	for (uint32_t i = 0; i < k; i++) {
		uint8_t *at = packed + i / KQ_BLOCK * 32 * bits;
		uint32_t n = i % KQ_BLOCK;
		uint32_t u = bits == 8	 ? (uint8_t)q[i]
			     : bits == 1 ? q[i] > 0
					 : (uint32_t)(q[i] + (1 << (bits - 1)));

		for (uint32_t p = 8; p; p /= 2) {
			if (!(bits & p))
				continue;
			at[kq_at(n, p)] |= (uint8_t)((u & ((1u << p) - 1)) << kq_down(n, p));
			u >>= p;
			at += p * 32;
		}
	}
}

/* A block to numbers in a row: plane by plane, run by run, a number at a time. */
WK_INLINE void kq_block(int8_t *restrict y, const uint8_t *restrict w, const int bits)
{
	const int zero = bits == 8 ? 0 : bits == 1 ? 1 : 1 << (bits - 1);
	const uint8_t *four = w, *two = w + (bits & 4) * 32, *one = two + (bits & 2) * 32;

	if (bits == 8) {
		memcpy(y, w, KQ_BLOCK);
		return;
	}
	for (int run = 0; run < 8; run++) {
		for (int i = 0; i < 32; i++) {
			int u = 0;

			if (bits & 4)
				u = four[run / 2 * 32 + i] >> (run % 2 * 4) & 15;
			if (bits & 2)
				u |= (two[run / 4 * 32 + i] >> (run % 4 * 2) & 3) << (bits & 4);
			if (bits & 1)
				u |= (one[i] >> run & 1) << (bits == 1 ? 1 : bits - 1);
			y[run * 32 + i] = (int8_t)(u - zero);
		}
	}
}

#define KQ_BITS(bits)                 \
	case bits:                    \
		kq_block(y, w, bits); \
		break;
#define KQ_SWITCH          \
	switch (bits) {    \
		KQ_BITS(1) \
		KQ_BITS(2) \
		KQ_BITS(3) \
		KQ_BITS(4) \
		KQ_BITS(5) \
		KQ_BITS(6) \
		KQ_BITS(7) \
		KQ_BITS(8) \
	}

static __attribute__((noinline)) void kq_block_plain(int8_t *y, const uint8_t *w, uint32_t bits)
{
	KQ_SWITCH
}

static __attribute__((noinline, optimize("O3"))) void kq_block_o3(int8_t *y, const uint8_t *w,
								  uint32_t bits){ KQ_SWITCH }

/* Four numbers of a channel are a word of the panel, 256 bytes from the next. A block of all
 * channels at a time, so that both stay in L1. */
WK_INLINE void kq_panel(uint8_t *panel, const uint8_t *packed, const uint8_t *bits, uint32_t k,
			void (*block)(int8_t *y, const uint8_t *w, uint32_t bits))
{
	const uint8_t *at[64];
	int8_t y[KQ_BLOCK];

	for (int c = 0; c < 64; c++) {
		at[c] = packed;
		packed += unpack_channel_bytes(k, bits[c]);
	}
	for (uint32_t k0 = 0; k0 < k; k0 += KQ_BLOCK, panel += KQ_BLOCK * 64) {
		for (int c = 0; c < 64; c++) {
			block(y, at[c], bits[c]);
			at[c] += 32 * bits[c];
			for (int i = 0; i < KQ_BLOCK / 4; i++)
				memcpy(panel + i * 256 + c * 4, y + i * 4, 4);
		}
	}
}

static void kq_unpack(uint8_t *panel, const uint8_t *packed, const uint8_t *bits, uint32_t k,
		      bool past)
{
	kq_panel(panel, packed, bits, k, kq_block_plain);
}

static void kq_unpack_o3(uint8_t *panel, const uint8_t *packed, const uint8_t *bits, uint32_t k,
			 bool past)
{
	kq_panel(panel, packed, bits, k, kq_block_o3);
}

#define UNPACK_FORMATS_INIT                                                          \
	{                                                                            \
		[UNPACK_FIGURE7_ROWS] = { "figure7-rows", f7_pack, f7_unpack_rows }, \
		[UNPACK_FIGURE7] = { "figure7", f7_pack, f7_unpack },                \
		[UNPACK_KQUANT] = { "k-quant", kq_pack, kq_unpack },                 \
		[UNPACK_KQUANT_O3] = { "k-quant-O3", kq_pack, kq_unpack_o3 },        \
	}

#endif /* UNPACK_FORMATS_SIMD_H */
