// SPDX-License-Identifier: MIT
/*
 * 4-bit weights with AVX2. The numbers 0..15 are the unsigned operand of vpmaddubsw: 32 k of one
 * channel make two sums of 16 products below 2^11 each, which fit 16 bits, so that one widening per
 * 32 k is enough. Weights are unpacked in registers, for up to four rows at a time; a panel is read
 * in order.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels_w4_avx2.h"

#define W4_ROWS 4

#define EACH_ROW(f) f(0) f(1) f(2) f(3)

/* -8 times the sum of a group's activations. */
static int32_t w4_first(const int8_t *a, uint32_t group)
{
	const __m256i ones = _mm256_set1_epi8(1), words = _mm256_set1_epi16(1);
	__m256i sum = _mm256_setzero_si256();
	__m128i t;
	uint32_t i;

	for (i = 0; i < group; i += 32)
		sum = _mm256_add_epi32(
			sum, _mm256_madd_epi16(
				     words,
				     _mm256_maddubs_epi16(
					     ones, _mm256_loadu_si256((const __m256i *)(a + i)))));
	t = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
	t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
	t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1));
	return _mm_cvtsi128_si32(t) * -W4_ZERO;
}

/* ---- INT8 activations ------------------------------------------------------------------------ */

#define DECLARE(r) __m256i i##r, s##r;
#define FIRST(r)        \
	if ((r) < rows) \
		i##r = _mm256_set1_epi32(first[r]);
#define CLEAR(r)        \
	if ((r) < rows) \
		s##r = _mm256_setzero_si256();
#define STEP(r)                                                                                    \
	if ((r) < rows) {                                                                          \
		int32_t four;                                                                      \
		__builtin_memcpy(&four, a + (r)*lda + k, 4);                                       \
		s##r = _mm256_add_epi16(s##r, _mm256_maddubs_epi16(low, _mm256_set1_epi32(four))); \
		__builtin_memcpy(&four, a + (r)*lda + k + 4, 4);                                   \
		s##r = _mm256_add_epi16(s##r,                                                      \
					_mm256_maddubs_epi16(high, _mm256_set1_epi32(four)));      \
	}
#define WIDEN(r)        \
	if ((r) < rows) \
		i##r = _mm256_add_epi32(i##r, _mm256_madd_epi16(s##r, words));
#define SCALE(r)                                                                            \
	if ((r) < rows)                                                                     \
		_mm256_storeu_ps(c[r] + n, _mm256_fmadd_ps(_mm256_cvtepi32_ps(i##r), scale, \
							   _mm256_loadu_ps(c[r] + n)));

/* c[rows][64] += one group of a[rows][lda] x w. */
static inline __attribute__((always_inline)) void w4_rows(const int rows, const int8_t *a,
							  size_t lda, const uint8_t *w,
							  uint32_t group, float (*c)[VNPU_PANEL_N])
{
	const __m256i mask = _mm256_set1_epi8(15), words = _mm256_set1_epi16(1);
	__m256i x, low, high;
	int32_t first[W4_ROWS];
	uint32_t n, k, end;
	__m256 scale;
	int r;

	EACH_ROW(DECLARE)
	for (r = 0; r < rows; r++)
		first[r] = w4_first(a + r * lda, group);
	for (n = 0; n < VNPU_PANEL_N; n += 8) {
		EACH_ROW(FIRST)
		for (k = 0; k < group;) {
			EACH_ROW(CLEAR)
			for (end = k + 32; k < end; k += 8) {
				x = _mm256_loadu_si256((const __m256i *)(w + k * 32 + n * 4));
				low = _mm256_and_si256(x, mask);
				high = _mm256_and_si256(_mm256_srli_epi16(x, 4), mask);
				EACH_ROW(STEP)
			}
			EACH_ROW(WIDEN)
		}
		scale = w4_scale(w, group, n);
		EACH_ROW(SCALE)
	}
}

/* ---- float activations ----------------------------------------------------------------------- */

#define LOADF(r)        \
	if ((r) < rows) \
		f##r = _mm256_loadu_ps(c[r] + n);
#define DECLAREF(r) __m256 f##r;
#define STEPF(r)        \
	if ((r) < rows) \
		f##r = _mm256_fmadd_ps(_mm256_broadcast_ss(a + (r)*lda + k + j), y, f##r);
#define STOREF(r)       \
	if ((r) < rows) \
		_mm256_storeu_ps(c[r] + n, f##r);

/* c[rows][64] += one group of a[rows][lda] x w, in order of k. */
static inline __attribute__((always_inline)) void w4f_rows(const int rows, const float *a,
							   size_t lda, const uint8_t *w,
							   uint32_t group, float (*c)[VNPU_PANEL_N])
{
	const __m256i mask = _mm256_set1_epi32(15), zero = _mm256_set1_epi32(W4_ZERO);
	uint32_t n, k, j;
	__m256 scale, y;
	__m256i x, number;

	EACH_ROW(DECLAREF)
	for (n = 0; n < VNPU_PANEL_N; n += 8) {
		scale = w4_scale(w, group, n);
		EACH_ROW(LOADF)
		for (k = 0; k < group; k += 8) {
			x = _mm256_loadu_si256((const __m256i *)(w + k * 32 + n * 4));
#pragma GCC unroll 8
			for (j = 0; j < 8; j++) {
				number = _mm256_and_si256(
					_mm256_srli_epi32(x, j % 4 * 8 + j / 4 * 4), mask);
				y = _mm256_mul_ps(
					_mm256_cvtepi32_ps(_mm256_sub_epi32(number, zero)), scale);
				EACH_ROW(STEPF)
			}
		}
		EACH_ROW(STOREF)
	}
}

/* ---- both ------------------------------------------------------------------------------------ */

#define CASE(n)                                                         \
	case n:                                                         \
		if (t->a_scale)                                         \
			w4_rows(n, i8 + k, t->lda, w, t->group, acc);   \
		else                                                    \
			w4f_rows(n, f32 + k, t->lda, w, t->group, acc); \
		break;

static void w4_matmul(const struct fw_matmul_w4 *t)
{
	uint32_t m, n0, k, rows;
	float acc[W4_ROWS][VNPU_PANEL_N];
	const int8_t *i8;
	const float *f32;
	const uint8_t *w;

	for (m = 0; m < t->m; m += rows) {
		rows = t->m - m < W4_ROWS ? t->m - m : W4_ROWS;
		i8 = (const int8_t *)t->a + m * t->lda;
		f32 = (const float *)t->a + m * t->lda;
		w = t->w;
		for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
			memset(acc, 0, sizeof(acc));
			for (k = 0; k < t->k; k += t->group, w += w4_group_bytes(t->group)) {
				switch (rows) {
					CASE(1)
					CASE(2)
					CASE(3)
					CASE(4)
				}
			}
			w4_store(t, m, rows, n0, acc);
		}
	}
}

void fw_matmul_w4_avx2(const struct fw_matmul_w4 *t, void *scratch)
{
	w4_matmul(t);
}

void fw_matmul_w4f_avx2(const struct fw_matmul_w4 *t, void *scratch)
{
	w4_matmul(t);
}
#endif
