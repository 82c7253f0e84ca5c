// SPDX-License-Identifier: MIT
/*
 * 4-bit weights with AVX2. The numbers 0..15 are the unsigned operand of vpmaddubsw: 32 k of one
 * channel make two sums of 16 products below 2^11 each, which fit 16 bits, so that one widening per
 * 32 k is enough. Weights are unpacked in registers, for up to four rows at a time; more rows
 * of bytes: kernels_w4_many_avx2.c. With the first four rows, what follows is prefetched.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>

#include "kernels_avx2.h"
#include "kernels_kq_avx2.h"
#include "kernels_w4_avx2.h"

#define W4_INLINE static inline __attribute__((always_inline))

#define W4_ROWS 4 /* at a time */

/* Bytes of a group for 32 k of 8 channels. */
W4_INLINE size_t w4_part(uint32_t group)
{
	return w4_group_bytes(group) / (group / 4);
}

/* Prefetches what comes behind a part, of 132 to 144 bytes. */
W4_INLINE void w4_fetch(const uint8_t *part)
{
	fetch_line(part);
	fetch_line(part + 64);
	fetch_line(part + 128);
}

/* s += 8 k of the rows times the numbers of 8 channels. */
W4_INLINE void w4_products(const uint32_t rows, __m256i numbers, const int8_t *a, size_t lda,
			   __m256i s[W4_ROWS])
{
	const __m256i mask = _mm256_set1_epi8(15), low = _mm256_and_si256(numbers, mask),
		      high = _mm256_and_si256(_mm256_srli_epi16(numbers, 4), mask);
	int32_t four;

#pragma GCC unroll 4
	for (uint32_t r = 0; r < rows; r++) {
		memcpy(&four, a + r * lda, 4);
		s[r] = _mm256_add_epi16(s[r], _mm256_maddubs_epi16(low, _mm256_set1_epi32(four)));
		if (rows > 1)
			ADDED(s[r]);
		memcpy(&four, a + r * lda + 4, 4);
		s[r] = _mm256_add_epi16(s[r], _mm256_maddubs_epi16(high, _mm256_set1_epi32(four)));
		if (rows > 1)
			ADDED(s[r]);
	}
}

/* c[rows][64] += one group of a[rows][lda] x w. @sum: of the rows' activations, @lds apart. */
W4_INLINE void w4_rows(const uint32_t rows, const int8_t *a, size_t lda, const int16_t *sum,
		       uint32_t lds, const uint8_t *w, uint32_t group, bool fetch,
		       float (*c)[VNPU_PANEL_N])
{
	const __m256i words = _mm256_set1_epi16(1);
	const uint8_t *read = w, *at;
	const size_t part = w4_part(group);
	const int8_t *x, *end = a + group;
	__m256i i[W4_ROWS], s[W4_ROWS];
	uint32_t n, j, r;

	for (n = 0; n < VNPU_PANEL_N; n += 8) {
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			i[r] = _mm256_set1_epi32(sum[r * lds] * -W4_ZERO);
		for (x = a, at = w + n * 4; x < end; x += 32, at += 1024, read += part) {
			if (fetch)
				w4_fetch(read);
#pragma GCC unroll 4
			for (r = 0; r < rows; r++)
				s[r] = _mm256_setzero_si256();
#pragma GCC unroll 4
			for (j = 0; j < 4; j++)
				w4_products(rows, *(const __m256i_u *)(at + j * 256), x + j * 8,
					    lda, s);
#pragma GCC unroll 4
			for (r = 0; r < rows; r++)
				i[r] = _mm256_add_epi32(i[r], _mm256_madd_epi16(s[r], words));
		}
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			_mm256_storeu_ps(c[r] + n, _mm256_fmadd_ps(_mm256_cvtepi32_ps(i[r]),
								   w4_scale(w, group, n),
								   _mm256_loadu_ps(c[r] + n)));
	}
}

/* The same of floats, in order of k. */
W4_INLINE void w4f_rows(const uint32_t rows, const float *a, size_t lda, const uint8_t *w,
			uint32_t group, bool fetch, float (*c)[VNPU_PANEL_N])
{
	const __m256i mask = _mm256_set1_epi32(15), zero = _mm256_set1_epi32(W4_ZERO);
	const uint8_t *read = w, *at;
	const size_t part = w4_part(group);
	__m256 f[W4_ROWS], scale, y;
	__m256i x, number;
	uint32_t n, k, j, r;

	for (n = 0; n < VNPU_PANEL_N; n += 8) {
		scale = w4_scale(w, group, n);
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			f[r] = _mm256_loadu_ps(c[r] + n);
		for (k = 0, at = w + n * 4; k < group; k += 8, at += 256) {
			if (fetch && k % 32 == 0) {
				w4_fetch(read);
				read += part;
			}
			x = *(const __m256i_u *)at;
#pragma GCC unroll 8
			for (j = 0; j < 8; j++) {
				number = _mm256_and_si256(
					_mm256_srli_epi32(x, (int)(j % 4 * 8 + j / 4 * 4)), mask);
				y = _mm256_mul_ps(
					_mm256_cvtepi32_ps(_mm256_sub_epi32(number, zero)), scale);
#pragma GCC unroll 4
				for (r = 0; r < rows; r++)
					f[r] = _mm256_fmadd_ps(
						_mm256_broadcast_ss(a + r * lda + k + j), y, f[r]);
			}
		}
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			_mm256_storeu_ps(c[r] + n, f[r]);
	}
}

/* c[rows][64] = rows @m on times a panel. @sum: of the groups of row @m on, NULL for floats. */
W4_INLINE void w4_panel(const uint32_t rows, const struct fw_matmul_w4 *t, uint32_t m,
			const int16_t *sum, const uint8_t *w, bool fetch, float (*c)[VNPU_PANEL_N])
{
	const uint32_t groups = t->k / t->group;

	memset(c, 0, rows * sizeof(*c));
	for (uint32_t k = 0; k < t->k; k += t->group, w += w4_group_bytes(t->group)) {
		if (sum)
			w4_rows(rows, (const int8_t *)t->a + m * t->lda + k, t->lda, sum++, groups,
				w, t->group, fetch, c);
		else
			w4f_rows(rows, (const float *)t->a + m * t->lda + k, t->lda, w, t->group,
				 fetch, c);
	}
}

/* Rows m0.., @rows of them. @sum: of their groups of activations, or NULL. */
static void w4_block(const struct fw_matmul_w4 *t, uint32_t m0, uint32_t rows, const int16_t *sum)
{
	const size_t panel = t->k / t->group * w4_group_bytes(t->group);
	float c[W4_ROWS][VNPU_PANEL_N];
	const uint8_t *w = t->w;
	const int16_t *first;
	uint32_t n0, r, now;

#define CASE(n)                                              \
	case n:                                              \
		w4_panel(n, t, m0 + r, first, w, r == 0, c); \
		break;
	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N, w += panel) {
		for (r = 0; r < rows; r += now) {
			now = rows - r < W4_ROWS ? rows - r : W4_ROWS;
			first = sum ? sum + (size_t)r * (t->k / t->group) : NULL;
			switch (now) {
				CASE(1)
				CASE(2)
				CASE(3)
				CASE(4)
			}
			w4_store(t, m0 + r, now, n0, c);
		}
	}
#undef CASE
}

void fw_matmul_w4_avx2(const struct fw_matmul_w4 *t, void *scratch)
{
	_Static_assert(W4_ROWS * VNPU_MAX_K_I8 / 32 * sizeof(int16_t) <= FW_SCRATCH_BYTES,
		       "a few rows' sums fit");
	const uint32_t groups = t->k / t->group;
	int16_t *sum = scratch;

	if (t->m > W4_ROWS) {
		fw_matmul_w4_many_avx2(t, scratch);
		return;
	}
	for (uint32_t r = 0; r < t->m; r++)
		kq_sums(sum + r * groups, (const int8_t *)t->a + r * t->lda, t->k, t->group);
	w4_block(t, 0, t->m, sum);
}

void fw_matmul_w4f_avx2(const struct fw_matmul_w4 *t, void *scratch)
{
	w4_block(t, 0, t->m, NULL);
}
#endif
