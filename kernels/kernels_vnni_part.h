/* SPDX-License-Identifier: MIT */
/*
 * Matmuls of weights whose groups have scales of their own, for two rows or more: a part of K of a
 * panel is unpacked to unsigned bytes in L1 and multiplied with all rows. As vpdpbusd's unsigned
 * operand they need no other form of the activations, and the sums of a group start at -zero times
 * the sum of its activations.
 *
 * The register tile is 6 rows x 16 channels, 12 registers of a group's sums: enough for the latency
 * of vpdpbusd. Sums of a block, and results, are in L1.
 */
#ifndef KERNELS_VNNI_PART_H
#define KERNELS_VNNI_PART_H

#include "kernels_kq_avx2.h"
#include "kernels_vnni.h"

#define PART_K 256 /* at a time */
#define PART_ROWS 6
#define PART_MOST 126 /* rows at a time */
#define PART_PANELS 8 /* whose results are kept, so that activations are summed once for them */

/* A panel's part of K. */
struct part_weights {
	_Alignas(64) uint8_t w[PART_K / 4][VNPU_PANEL_N][4]; /* unsigned numbers */
	union {
		int32_t scale[KQ_MAX_GROUPS][VNPU_PANEL_N]; /* wide: of groups */
		struct {
			float scale_f[PART_K / 32][VNPU_PANEL_N]; /* others */
			float min_f[PART_K / 32][VNPU_PANEL_N];
		};
	};
	int16_t min[KQ_MAX_GROUPS / 2][VNPU_PANEL_N][2]; /* wide, of pairs of groups */
	float d[VNPU_PANEL_N], dmin[VNPU_PANEL_N]; /* wide */
};

struct part_scratch {
	struct part_weights w;
	float c[PART_PANELS][PART_MOST][VNPU_PANEL_N];
	int32_t first[PART_MOST][KQ_MAX_GROUPS]; /* what a group's sums start at */
	int16_t sum[PART_MOST][KQ_MAX_GROUPS]; /* of a group's activations */
};

_Static_assert(sizeof(struct part_scratch) <= FW_SCRATCH_BYTES, "the rows' sums fit");

/* What kind of groups a part has. */
struct part_form {
	bool wide; /* one block of PART_K: integer scales of groups, and d */
	bool mins;
	uint32_t groups, quads; /* of four k in a group, a multiple of 4 */
};

/* A row's two registers of sums, by name: GCC 12 stores those of an array again and again. */
#define PART_EACH(f) f(0) f(1) f(2) f(3) f(4) f(5)
#define PART_DECLARE(r) __m256i i##r##0, i##r##1;
#define PART_FIRST(r)   \
	if ((r) < rows) \
		i##r##0 = i##r##1 = mins ? _mm256_setzero_si256() : _mm256_set1_epi32(first[r][g]);
#define PART_STEP(r)                              \
	if ((r) < rows) {                         \
		__m256i x = mm_four(a + (r)*lda); \
		DOT(i##r##0, w0, x);              \
		DOT(i##r##1, w1, x);              \
	}
#define PART_SCALE(r)                                                                        \
	if ((r) < rows) {                                                                    \
		part_scale(wide, mins, s, b[r], c[r], sum[r][g], g, n, i##r##0);             \
		part_scale(wide, mins, s, b[r] + 8, c[r] + 8, sum[r][g], g, n + 8, i##r##1); \
	}

#define PART_ZERO(r)                                                \
	if ((r) < rows) {                                           \
		i##r##0 = i##r##1 = _mm256_setzero_si256();         \
		_mm256_store_si256((__m256i *)b[r], i##r##0);       \
		_mm256_store_si256((__m256i *)(b[r] + 8), i##r##1); \
	}
#define PART_LOW(r)                              \
	if ((r) < rows) {                        \
		__m256i x = mm_four(sum[r] + g); \
		DOT_PAIR(i##r##0, w0, x);        \
		DOT_PAIR(i##r##1, w1, x);        \
	}
#define PART_CLEAR(r)   \
	if ((r) < rows) \
		i##r##0 = i##r##1 = _mm256_setzero_si256();
#define PART_END(r)                                                        \
	if ((r) < rows) {                                                  \
		part_end(mins, &s->w, b[r], c[r], n, i##r##0);             \
		part_end(mins, &s->w, b[r] + 8, c[r] + 8, n + 8, i##r##1); \
	}

/* Adds a group's sums of 8 channels, times their scales, to b of a wide part, else to c. */
MM_INLINE void part_scale(const bool wide, const bool mins, const struct part_scratch *s,
			  int32_t *b, float *c, int16_t sum, uint32_t g, uint32_t n, __m256i i)
{
	__m256i *at = (__m256i *)b;
	__m256 y;

	if (wide) {
		i = _mm256_mullo_epi32(i, *(const __m256i *)&s->w.scale[g][n]);
		*at = _mm256_add_epi32(*at, i);
		return;
	}
	y = _mm256_fmadd_ps(_mm256_cvtepi32_ps(i), _mm256_load_ps(s->w.scale_f[g] + n),
			    _mm256_load_ps(c));
	if (mins)
		y = _mm256_fnmadd_ps(_mm256_set1_ps((float)sum), _mm256_load_ps(s->w.min_f[g] + n),
				     y);
	_mm256_store_ps(c, y);
}

/* c[8] += a wide part's sums b of channels n..n + 7; @low: the minima's. */
MM_INLINE void part_end(const bool mins, const struct part_weights *w, const int32_t *b, float *c,
			uint32_t n, __m256i low)
{
	__m256 y = _mm256_fmadd_ps(_mm256_cvtepi32_ps(*(const __m256i *)b),
				   _mm256_load_ps(w->d + n), _mm256_load_ps(c));

	if (mins)
		y = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(low), _mm256_load_ps(w->dmin + n), y);
	_mm256_store_ps(c, y);
}

/* y[rows][64], 16 channels from @n on, += rows m.. of a[][lda] x the part in s->w. */
MM_INLINE void part_rows(const int rows, const bool wide, const bool mins, struct part_scratch *s,
			 float (*y)[VNPU_PANEL_N], uint32_t m, const int8_t *a, size_t lda,
			 const struct part_form *f, uint32_t n)
{
	const int32_t(*first)[KQ_MAX_GROUPS] = s->first + m;
	const int16_t(*sum)[KQ_MAX_GROUPS] = s->sum + m;
	_Alignas(32) int32_t b[PART_ROWS][16];
	const uint8_t *w = s->w.w[0][n];
	float *c[PART_ROWS];
	uint32_t g, q;
	__m256i w0, w1;

	for (int r = 0; r < rows; r++)
		c[r] = y[m + r] + n;
	PART_EACH(PART_DECLARE)
	if (wide) {
		PART_EACH(PART_ZERO)
	}
	for (g = 0; g < f->groups; g++) {
		PART_EACH(PART_FIRST)
		for (q = f->quads; q; q -= 4) {
#pragma GCC unroll 4
			for (int j = 0; j < 4; j++, a += 4, w += 256) {
				w0 = _mm256_loadu_si256((const __m256i *)w);
				w1 = _mm256_loadu_si256((const __m256i *)(w + 32));
				PART_EACH(PART_STEP)
			}
		}
		PART_EACH(PART_SCALE)
	}
	if (!wide)
		return;
	PART_EACH(PART_CLEAR)
	for (g = 0; mins && g < f->groups; g += 2) {
		w0 = *(const __m256i *)s->w.min[g / 2][n];
		w1 = *(const __m256i *)s->w.min[g / 2][n + 8];
		PART_EACH(PART_LOW)
	}
	PART_EACH(PART_END)
}

#define PART_KIND(rows)                                              \
	if (f->wide && f->mins)                                      \
		part_rows(rows, true, true, s, c, m, a, lda, f, n);  \
	else if (f->wide)                                            \
		part_rows(rows, true, false, s, c, m, a, lda, f, n); \
	else if (f->mins)                                            \
		part_rows(rows, false, true, s, c, m, a, lda, f, n); \
	else                                                         \
		part_rows(rows, false, false, s, c, m, a, lda, f, n);

static void part_tile(struct part_scratch *s, float (*c)[VNPU_PANEL_N], uint32_t m, uint32_t rows,
		      const int8_t *a, size_t lda, const struct part_form *f, uint32_t n)
{
	switch (rows) {
	case 1:
		PART_KIND(1)
		break;
	case 2:
		PART_KIND(2)
		break;
	case 3:
		PART_KIND(3)
		break;
	case 4:
		PART_KIND(4)
		break;
	case 5:
		PART_KIND(5)
		break;
	default:
		PART_KIND(6)
	}
}

/* c[rows][64] += a[rows][lda] x the part in s->w; prefetches @bytes from @next on. */
static void part_multiply(struct part_scratch *s, float (*c)[VNPU_PANEL_N], uint32_t rows,
			  const int8_t *a, size_t lda, const struct part_form *f,
			  const uint8_t *next, size_t bytes)
{
	const size_t portion = bytes / ((rows + PART_ROWS - 1) / PART_ROWS * 4) / 64 * 64 + 64;
	uint32_t m, n, now;
	size_t i;

	for (m = 0; m < rows; m += now, a += now * lda) {
		now = rows - m < PART_ROWS ? rows - m : PART_ROWS;
		for (n = 0; n < VNPU_PANEL_N; n += 16, next += portion) {
			for (i = 0; i < portion; i += 64)
				_mm_prefetch(next + i, _MM_HINT_T1);
			part_tile(s, c, m, now, a, lda, f, n);
		}
	}
}

#endif /* KERNELS_VNNI_PART_H */
