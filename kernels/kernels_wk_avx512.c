// SPDX-License-Identifier: MIT
/*
 * Weights of 1 to 8 bits with AVX-512 VNNI. For few rows, the packed weights are read once and in
 * order and unpacked to the numbers u in registers: these are vpdpbusd's unsigned operand, and the
 * sums start at -wk_zero() times the sum of the row. For more rows, panels are unpacked for
 * kernels_avx512.c.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#define WK_VEC 64
#include "kernels_avx512.h"
#include "kernels_wk_vec.h"

/* Exactly one instruction: with an intrinsic, GCC 12 moves sums around and spills them. */
#define DOT(sum, w, x) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x))

void fw_wk_unpack_avx512(uint8_t *dst, const struct fw_wk_panel *p, uint32_t k0, uint32_t n)
{
	wk_unpack(dst, p, k0, n);
}

/* @bytes: a multiple of 8. */
static int32_t wk_sum(const int8_t *a, size_t bytes)
{
	const __m512i ones = _mm512_set1_epi8(1);
	__m512i sum = _mm512_setzero_si512();
	__mmask64 live;
	size_t i;

	for (i = 0; i < bytes; i += 64) {
		live = bytes - i < 64 ? (1ull << (bytes - i)) - 1 : ~0ull;
		sum = _mm512_dpbusd_epi32(sum, ones, _mm512_maskz_loadu_epi8(live, a + i));
	}
	return _mm512_reduce_add_epi32(sum);
}

/* c[row][16 channels] += a[rows][lda] x 8 k. */
WK_INLINE void wk_step(const int rows, const int bits, const int streams, __m512i (*c)[4],
		       const int8_t *a, size_t lda, const uint8_t *w)
{
	__m512i x[WK_FEW], u;
	wk_vec planes[8];
	int r, v, line;
	int32_t four;

#pragma GCC unroll 8
	for (v = 0; v < bits; v++)
		stream_ahead(w + v * 64, streams);
	wk_planes(planes, w, bits, 0);
#pragma GCC unroll 8
	for (line = 0; line < 8; line++) {
		/* Four lines have the same four k. */
#pragma GCC unroll 4
		for (r = 0; r < rows; r++) {
			memcpy(&four, a + r * lda + line / 4 * 4, 4);
			x[r] = _mm512_set1_epi32(four);
		}
		u = (__m512i)wk_line(planes, bits, line);
		if (bits == 8)
			u = _mm512_xor_si512(u, _mm512_set1_epi8((char)0x80));
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			DOT(c[r][line % 4], u, x[r]);
	}
}

/*
 * acc[rows][64] = a[rows][lda] x w, with @groups times 8 k; @sum: sums of the rows. If memory is
 * the limit, K is in as many parts as can be read at the same time, all added to the same sums.
 */
WK_INLINE void wk_rows(const int rows, const int bits, const int streams, const int8_t *a,
		       size_t lda, const uint8_t *w, size_t groups, const int32_t *sum,
		       int32_t *acc)
{
	const int parts = streams == STREAM_DIRECT ? 1 : streams;
	const size_t part = (groups + parts - 1) / parts;
	__m512i c[WK_FEW][4];
	size_t g, at;
	int r, v, i;

#pragma GCC unroll 4
	for (r = 0; r < rows; r++)
#pragma GCC unroll 4
		for (v = 0; v < 4; v++)
			c[r][v] = _mm512_set1_epi32(
				(int32_t)((uint32_t)sum[r] * -(uint32_t)wk_zero(bits)));
	for (g = 0; g < part; g++, a += 8, w += bits * 64)
		for (i = 0, at = 0; i < parts && at + g < groups; i++, at += part)
			wk_step(rows, bits, streams, c, a + at * 8, lda, w + at * bits * 64);
#pragma GCC unroll 4
	for (r = 0; r < rows; r++)
#pragma GCC unroll 4
		for (v = 0; v < 4; v++)
			_mm512_store_si512(acc + r * VNPU_PANEL_N + v * 16, c[r][v]);
}

/* Widths below four bits take longer to unpack than to read. */
#define BITS(rows, bits)                                                                          \
	case bits:                                                                                \
		if (stream_direct())                                                              \
			wk_rows(rows, bits, STREAM_DIRECT, a, lda, w, groups, sum, acc);          \
		else                                                                              \
			wk_rows(rows, bits, bits < 4 ? 1 : STREAMS, a, lda, w, groups, sum, acc); \
		break;
#define ROWS(rows)                                                                              \
	static void wk_rows##rows(uint32_t bits, const int8_t *a, size_t lda, const uint8_t *w, \
				  size_t groups, const int32_t *sum, int32_t *acc)              \
	{                                                                                       \
		switch (bits) {                                                                 \
			BITS(rows, 1)                                                           \
			BITS(rows, 2)                                                           \
			BITS(rows, 3)                                                           \
			BITS(rows, 4)                                                           \
			BITS(rows, 5)                                                           \
			BITS(rows, 6)                                                           \
			BITS(rows, 7)                                                           \
			BITS(rows, 8)                                                           \
		}                                                                               \
	}
ROWS(1)
ROWS(2)
ROWS(3)
ROWS(4)

void fw_wk_few_avx512(const struct fw_matmul_i8 *t, void *scratch)
{
	static void (*const kernels[WK_FEW])(
		uint32_t, const int8_t *, size_t, const uint8_t *, size_t, const int32_t *,
		int32_t *) = { wk_rows1, wk_rows2, wk_rows3, wk_rows4 };
	size_t lda = ((size_t)t->k + 7) / 8 * 8;
	_Alignas(64) int32_t acc[WK_FEW * VNPU_PANEL_N];
	const struct fw_wk_panel *p = t->wk;
	int32_t sum[WK_FEW];
	int8_t *a = scratch;
	uint32_t r, n0;

	_Static_assert(WK_FEW * VNPU_MAX_K_I8 <= FW_SCRATCH_BYTES, "rows of the largest K fit");
	for (r = 0; r < t->m; r++) {
		wk_row(a + r * lda, t, r);
		sum[r] = wk_sum(a + r * lda, lda);
	}
	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N, p++) {
		kernels[t->m - 1](p->bits, a, lda, p->w, lda / 8, sum, acc);
		mm_store(t, 0, t->m, n0, (const float *)(wk_sums(p, t->k) + 256), acc);
	}
}
#endif
