/* SPDX-License-Identifier: MIT */
/*
 * INT8 matmul with vpdpbusd of 256 bits. Included by one file per encoding of the instruction: that
 * of AVX-VNNI (VEX), which the cores of desktops and laptops have, and that of AVX-512 (EVEX), with
 * which other hosts can run the same kernels.
 *
 * vpdpbusd multiplies unsigned by signed bytes. Activations become unsigned by adding 128
 * (inverting the top bit), and the sums start at -128 times the sum of the weights, which each
 * panel carries. All of this is exact modulo 2^32, and the true sum fits 32 bits.
 *
 * The register tile is 6 rows x 16 channels: 12 of 16 registers. A panel is read in K blocks that
 * stay in L1, each is multiplied with all rows of a block, and the next one is prefetched
 * meanwhile, in order.
 */
#ifndef KERNELS_VNNI_H
#define KERNELS_VNNI_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernels_avx2.h"
#define WK_VEC 32
#include "kernels_wk_vec.h"

#define MM_INLINE static inline __attribute__((always_inline))
#define MM_ROWS 6
/* In units of 4 k: 16 KB of a panel. */
#define MM_K_BLOCK 64
#define MM_K (MM_K_BLOCK * 4)
/* Rows that are multiplied with all panels before the next rows. */
#define MM_MOST 120
#define TOP_BITS ((int32_t)0x80808080)

/* sum += @u, unsigned bytes, x @s, signed ones, by fours; exactly one instruction. */
#define DOT(sum, u, s) __asm__(VNNI_ENCODING "vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(u), "xm"(s))
/* sum += @a x @b, signed, by pairs of 16 bits. */
#define DOT_PAIR(sum, a, b) \
	__asm__(VNNI_ENCODING "vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(a), "xm"(b))

/* c += u x, 4 products per sum, with the weights' numbers u of @bits. */
WK_INLINE __m256i wk_dot(__m256i c, __m256i u, __m256i x, const int bits)
{
	(void)bits;
	DOT(c, u, x);
	return c;
}

#include "kernels_wk_row256.h"

MM_INLINE __m256i mm_four(const void *p)
{
	int32_t four;

	memcpy(&four, p, sizeof(four));
	return _mm256_set1_epi32(four);
}

/* acc[rows][64], 16 channels of it, += u8 a[rows][ld] x w, @kb times four k. Prefetches a line from
 * @ahead on with each four. */
MM_INLINE void mm_rows(const int rows, int32_t *acc, const uint8_t *a, size_t ld, const uint8_t *w,
		       uint32_t kb, const uint8_t *ahead)
{
	__m256i c[MM_ROWS][2], w0, w1, x;
	int r;

#pragma GCC unroll 6
	for (r = 0; r < rows; r++) {
		c[r][0] = _mm256_loadu_si256((__m256i *)(acc + r * VNPU_PANEL_N));
		c[r][1] = _mm256_loadu_si256((__m256i *)(acc + r * VNPU_PANEL_N + 8));
	}
	for (; kb; kb--, w += 256, a += 4, ahead += 64) {
		_mm_prefetch(ahead, _MM_HINT_T1);
		w0 = _mm256_loadu_si256((const __m256i *)w);
		w1 = _mm256_loadu_si256((const __m256i *)(w + 32));
#pragma GCC unroll 6
		for (r = 0; r < rows; r++) {
			x = mm_four(a + r * ld);
			DOT(c[r][0], x, w0);
			DOT(c[r][1], x, w1);
		}
	}
#pragma GCC unroll 6
	for (r = 0; r < rows; r++) {
		_mm256_storeu_si256((__m256i *)(acc + r * VNPU_PANEL_N), c[r][0]);
		_mm256_storeu_si256((__m256i *)(acc + r * VNPU_PANEL_N + 8), c[r][1]);
	}
}

static void mm_tile(uint32_t rows, int32_t *acc, const uint8_t *a, size_t ld, const uint8_t *w,
		    uint32_t kb, const uint8_t *ahead)
{
	switch (rows) {
	case 1:
		mm_rows(1, acc, a, ld, w, kb, ahead);
		break;
	case 2:
		mm_rows(2, acc, a, ld, w, kb, ahead);
		break;
	case 3:
		mm_rows(3, acc, a, ld, w, kb, ahead);
		break;
	case 4:
		mm_rows(4, acc, a, ld, w, kb, ahead);
		break;
	case 5:
		mm_rows(5, acc, a, ld, w, kb, ahead);
		break;
	default:
		mm_rows(6, acc, a, ld, w, kb, ahead);
	}
}

/* acc[rows][64] += u8 a[rows][ld] x w[kb][64][4], with any number of rows. @next: the weights that
 * come after them in order, whose prefetching is spread over the tiles. */
static void mm_block(uint32_t rows, int32_t *acc, const uint8_t *a, size_t ld, const uint8_t *w,
		     uint32_t kb, const uint8_t *next)
{
	const size_t step = 256ul * kb / ((rows + MM_ROWS - 1) / MM_ROWS * 4);
	uint32_t now, n;

	for (; rows; rows -= now, acc += now * VNPU_PANEL_N, a += now * ld) {
		now = rows < MM_ROWS ? rows : MM_ROWS;
		for (n = 0; n < VNPU_PANEL_N; n += 16, next += step)
			mm_tile(now, acc + n, a, ld, w + n * 4, kb, next);
	}
}

/* What sums with activations plus 128 start at, for @rows rows. @sums: those of the panel. */
static void mm_first(int32_t *acc, uint32_t rows, const uint8_t *sums)
{
	__m256i first;

	for (uint32_t n = 0; n < VNPU_PANEL_N; n += 8) {
		first = _mm256_loadu_si256((const __m256i *)(sums + n * 4));
		first = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(first, 7));
		for (uint32_t r = 0; r < rows; r++)
			_mm256_storeu_si256((__m256i *)(acc + r * VNPU_PANEL_N + n), first);
	}
}

/* One row: limited by memory bandwidth, so the weights are read in order. */
static void mm_gemv(const struct fw_matmul_i8 *t)
{
	uint32_t kb = (t->k + 3) / 4, n0, b, i;
	_Alignas(32) int32_t acc[VNPU_PANEL_N];
	const uint8_t *w = t->w;
	__m256i c[8], x;
	int32_t four;

	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N, w += 512) {
		mm_first(acc, 1, w + (size_t)kb * 256);
#pragma GCC unroll 8
		for (i = 0; i < 8; i++)
			c[i] = _mm256_load_si256((const __m256i *)(acc + i * 8));
		for (b = 0; b < kb; b++, w += 256) {
			memcpy(&four, t->a + 4 * b, sizeof(four));
			x = _mm256_set1_epi32(four ^ TOP_BITS);
#pragma GCC unroll 8
			for (i = 0; i < 8; i++)
				DOT(c[i], x, *(const __m256i *)(w + i * 32));
		}
#pragma GCC unroll 8
		for (i = 0; i < 8; i++)
			_mm256_store_si256((__m256i *)(acc + i * 8), c[i]);
		mm_store(t, 0, n0, acc, (const float *)(w + 256));
	}
}

/* Copies @n bytes of @rows rows with inverted top bits. */
static void mm_to_u8(uint8_t *dst, size_t ldd, const int8_t *src, size_t lds, uint32_t rows,
		     uint32_t n)
{
	const __m256i top_bits = _mm256_set1_epi32(TOP_BITS);
	uint32_t i;

	for (; rows; rows--, dst += ldd, src += lds) {
		for (i = 0; i + 32 <= n; i += 32)
			_mm256_storeu_si256(
				(__m256i *)(dst + i),
				_mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(src + i)),
						 top_bits));
		for (; i < n; i++)
			dst[i] = (uint8_t)src[i] ^ 0x80;
	}
}

/* Distance of rows in scratch: an odd number of cache lines, so that a tile's rows are in different
 * cache sets. */
static size_t mm_ld(uint32_t bytes)
{
	return ((bytes + 63) / 64 | 1) * 64ul;
}

/* Rows m0.., @rows of them, which are in @u8, times panel n0 / 64. */
static void mm_panel(const struct fw_matmul_i8 *t, uint32_t m0, uint32_t rows, uint32_t n0,
		     const uint8_t *u8, int32_t *acc, uint8_t *unpacked)
{
	const struct fw_wk_panel *wk = t->wk ? t->wk + n0 / VNPU_PANEL_N : NULL;
	const uint8_t *panel = wk ? NULL : t->w + n0 / VNPU_PANEL_N * VNPU_PANEL_I8_BYTES(t->k), *w,
		      *next;
	uint32_t bytes = (t->k + 3) / 4 * 4, k0, k;
	const uint8_t *sums = wk ? wk_sums(wk, t->k) : panel + bytes * 64ul;
	bool last = n0 + VNPU_PANEL_N >= t->n;

	mm_first(acc, rows, sums);
	for (k0 = 0; k0 < bytes; k0 += k) {
		k = bytes - k0 < MM_K ? bytes - k0 : MM_K;
		w = wk ? unpacked : panel + k0 * 64ul;
		next = k0 + k < bytes || !last ? w + k * 64ul : panel;
		if (wk) {
			next = wk_k_block(wk, k0 + k);
			wk_unpack(unpacked, wk, k0, t->k - k0 < k ? t->k - k0 : k);
		}
		mm_block(rows, acc, u8 + k0, mm_ld(bytes), w, k / 4, next);
	}
	for (uint32_t r = 0; r < rows; r++)
		mm_store(t, m0 + r, n0, acc + r * VNPU_PANEL_N, (const float *)(sums + 256));
}

static void kernel_matmul_i8(const struct fw_matmul_i8 *t, void *scratch)
{
	uint32_t bytes = (t->k + 3) / 4 * 4, m0, n0, rows, most;
	int32_t *acc = (int32_t *)((uint8_t *)scratch + FW_UNPACK_BYTES);
	uint8_t *u8 = (uint8_t *)(acc + MM_MOST * VNPU_PANEL_N);
	size_t room = FW_SCRATCH_BYTES - FW_UNPACK_BYTES - MM_MOST * VNPU_PANEL_N * sizeof(*acc);

	_Static_assert(FW_UNPACK_BYTES + MM_MOST * VNPU_PANEL_N * 4 +
				       MM_ROWS * (VNPU_MAX_K_I8 + 64ul) <=
			       FW_SCRATCH_BYTES,
		       "a tile's rows of the largest K fit");
	if (t->m == 1) {
		if (t->wk)
			wk_row_times_panels(t, scratch);
		else
			mm_gemv(t);
		return;
	}
	most = (uint32_t)(room / mm_ld(bytes)) / MM_ROWS * MM_ROWS;
	most = most < MM_MOST ? most : MM_MOST;
	for (m0 = 0; m0 < t->m; m0 += rows) {
		rows = t->m - m0 < most ? t->m - m0 : most;
		mm_to_u8(u8, mm_ld(bytes), t->a + m0 * t->lda, t->lda, rows, bytes);
		for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N)
			mm_panel(t, m0, rows, n0, u8, acc, scratch);
	}
}

/* ---- scores ---------------------------------------------------------------------------------- */

#define QK_ROWS 192
#define QK_STEP 24
#include "kernels_qk.h"

static void qk_rows(const struct fw_qk_i8 *t, uint32_t m0, uint32_t rows, void *scratch)
{
	_Static_assert(QK_ROWS * (VNPU_MAX_HEAD_DIM + 64) <= FW_SCRATCH_BYTES,
		       "a group's rows fit");
	mm_to_u8(scratch, mm_ld(t->head_dim), t->q + m0 * t->ldq, t->ldq, rows,
		 (t->head_dim + 3) / 4 * 4);
}

/* Panels of keys carry no sums: a row of 128s gives them, as much work as another query. */
static void qk_sums(const struct fw_qk_i8 *t, uint32_t m0, uint32_t m, uint32_t now,
		    const uint8_t *k, void *scratch, int32_t *acc)
{
	const __m256i x = _mm256_set1_epi32(TOP_BITS);
	uint32_t kb = (t->head_dim + 3) / 4, n, b, r;
	__m256i first, sum;

	for (n = 0; n < VNPU_QK_PANEL; n += 8) {
		sum = _mm256_setzero_si256();
		for (b = 0; b < kb; b++)
			DOT(sum, x, *(const __m256i *)(k + b * 256 + n * 4));
		first = _mm256_sub_epi32(_mm256_setzero_si256(), sum);
		for (r = 0; r < now; r++)
			_mm256_storeu_si256((__m256i *)(acc + r * VNPU_QK_PANEL + n), first);
	}
	mm_block(now, acc, (const uint8_t *)scratch + m * mm_ld(t->head_dim), mm_ld(t->head_dim), k,
		 kb, k);
}

#define kernel_qk_i8 qk_i8

#endif /* KERNELS_VNNI_H */
