/* SPDX-License-Identifier: MIT */
/*
 * MATMUL_WK with a single row and vectors of 256 bits: the packed weights are read once and in
 * order and unpacked to the numbers u in registers. A file that includes this one has WK_VEC 32 and
 * kernels_wk_vec.h, and defines
 *
 *	wk_dot(c, u, x, bits)	c + u x, unsigned and signed bytes, 4 products per sum
 */
#include <immintrin.h>

#include "kernels_avx2.h"

/*
 * acc[64] += a x w, with @groups times 8 k, few enough to stay in L1: 32 channels at a time, for
 * which there are registers. Meanwhile as many bytes are prefetched, in order.
 */
WK_INLINE void wk_gemv(const int bits, const int8_t *a, const uint8_t *w, size_t groups,
		       int32_t *acc)
{
	const uint8_t *read = w;
	__m256i c[4], x, u;
	wk_vec planes[8];
	int32_t four;
	int half, v, line;
	size_t g;

	for (half = 0; half < 2; half++) {
#pragma GCC unroll 4
		for (v = 0; v < 4; v++)
			c[v] = _mm256_loadu_si256((const __m256i *)(acc + v * 16 + half * 8));
		for (g = 0; g < groups; g++, read += bits * 32) {
#pragma GCC unroll 4
			for (line = 0; line < bits * 32; line += 64)
				fetch_line(read + line);
			wk_planes(planes, w + g * bits * 64, bits, half * 32);
#pragma GCC unroll 8
			for (line = 0; line < 8; line++) {
				memcpy(&four, a + g * 8 + line / 4 * 4, 4);
				x = _mm256_set1_epi32(four);
				u = (__m256i)wk_line(planes, bits, line);
				if (bits == 8)
					u = _mm256_xor_si256(u, _mm256_set1_epi8((char)0x80));
				c[line % 4] = wk_dot(c[line % 4], u, x, bits);
			}
		}
#pragma GCC unroll 4
		for (v = 0; v < 4; v++)
			_mm256_storeu_si256((__m256i *)(acc + v * 16 + half * 8), c[v]);
	}
}

/* @bytes: a multiple of 8. */
static int32_t wk_sum(const int8_t *a, size_t bytes)
{
	const __m128i ones = _mm_set1_epi8(1), words = _mm_set1_epi16(1);
	__m128i sum = _mm_setzero_si128();
	size_t i;

	for (i = 0; i < bytes; i += 8)
		sum = _mm_add_epi32(
			sum,
			_mm_madd_epi16(words,
				       _mm_maddubs_epi16(
					       ones, _mm_loadl_epi64((const __m128i *)(a + i)))));
	return _mm_cvtsi128_si32(sum) + _mm_extract_epi32(sum, 1);
}

#define BITS(bits)                                     \
	case bits:                                     \
		wk_gemv(bits, a + k0, w, groups, acc); \
		break;

/* acc[64] = a[bytes] x panel @p. @sum: the sum of a. */
static void wk_panel(const struct fw_wk_panel *p, const int8_t *a, size_t bytes, int32_t sum,
		     int32_t *acc)
{
	const uint8_t *w = p->w;
	size_t k0, groups;
	int i;

	for (i = 0; i < VNPU_PANEL_N; i++)
		acc[i] = (int32_t)((uint32_t)sum * -(uint32_t)wk_zero(p->bits));
	for (k0 = 0; k0 < bytes; k0 += groups * 8, w += groups * 64 * p->bits) {
		groups = bytes - k0 < 128 ? (bytes - k0) / 8 : 16;
		switch (p->bits) {
			BITS(1)
			BITS(2)
			BITS(3)
			BITS(4)
			BITS(5)
			BITS(6)
			BITS(7)
			BITS(8)
		}
	}
}

/* A block of MATMUL_WK with a single row. */
static void wk_row_times_panels(const struct fw_matmul_i8 *t, void *scratch)
{
	const struct fw_wk_panel *p = t->wk;
	int32_t acc[VNPU_PANEL_N], sum;
	uint32_t n0, n, cols;
	const float *scale;
	int8_t *a = scratch;
	size_t bytes = wk_row(a, t, 0);
	float y;

	sum = wk_sum(a, bytes);
	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N, p++) {
		wk_panel(p, a, bytes, sum, acc);
		cols = t->n - n0 < VNPU_PANEL_N ? t->n - n0 : VNPU_PANEL_N;
		scale = (const float *)(wk_sums(p, t->k) + 256);
		for (n = 0; n < cols; n++) {
			y = (float)acc[n] * (t->a_scale[0] * scale[n]);
			t->c[n0 + n] = t->bias ? y + t->bias[n0 + n] : y;
		}
	}
}
