// SPDX-License-Identifier: MIT
/*
 * Weights of 1 to 7 bits with AVX2, for many rows. As in kernels_kq_many_avx2.c, the numbers u of
 * 32 k of 8 channels are unpacked into registers and multiplied by all of the rows, whose
 * activations are spread; here sums are over all of K.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels_avx2.h"
#include "kernels_kq_avx2.h"
#include "kernels_spread_avx2.h"
#define WK_VEC 32
#include "kernels_wk_vec.h"

#define MOST_BITS 7

struct wk_many {
	_Alignas(64) __m256i acc[SPREAD_PANELS][VNPU_PANEL_N / 8][SPREAD_ROWS];
	spread_unit a[SPREAD_K / 32];
	int32_t sum[SPREAD_ROWS]; /* of a row's activations */
	int8_t last[SPREAD_ROWS][SPREAD_K]; /* the rows' last k, if they are no multiple of 32 */
	uint8_t planes[4 * 64 * MOST_BITS]; /* and a panel's */
};

/* Quads whose sums of pairs fit 16 bits. */
WK_INLINE uint32_t wk_fitting(const int bits)
{
	return bits > 6 ? 1 : bits > 5 ? 2 : bits > 4 ? 4 : 8;
}

/* acc[64 / 8][rows] += 32 k of a panel. */
WK_INLINE void wk_unit(const int bits, uint32_t rows, const uint8_t *w, const spread_unit *a,
		       __m256i (*acc)[SPREAD_ROWS])
{
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i factors[8], *sums;
	wk_vec planes[MOST_BITS];
	uint32_t n, r;
	int i;

	for (n = 0; n < VNPU_PANEL_N; n += 8) {
#pragma GCC unroll 4
		for (i = 0; i < 4; i++) {
			wk_planes(planes, w + i * bits * 64, bits, (int)(n % 16 * 4));
#define LINES(l)                                                            \
	case l:                                                             \
		factors[2 * i] = (__m256i)wk_line(planes, bits, l);         \
		factors[2 * i + 1] = (__m256i)wk_line(planes, bits, 4 + l); \
		break;
			switch (n / 16) {
				LINES(0)
				LINES(1)
				LINES(2)
				LINES(3)
			}
#undef LINES
		}
		sums = acc[n / 8];
#pragma GCC unroll 2
		for (r = 0; r < rows; r++)
			sums[r] = _mm256_add_epi32(
				sums[r],
				spread_products(factors, (*a)[r], wk_fitting(bits), ones, ones));
	}
}

/* The same of @units times 32 k, and @rest more in a last unit. */
WK_INLINE void wk_units(const int bits, uint32_t rows, const uint8_t *w, uint32_t units,
			uint32_t rest, struct wk_many *s, __m256i (*acc)[SPREAD_ROWS])
{
	uint32_t unit, i;

	for (unit = 0; unit < units; unit++, w += 256 * bits) {
		for (i = 0; i < 256u * (uint32_t)bits; i += 64)
			_mm_prefetch(w + FETCH_NEAR + i, _MM_HINT_T0);
		wk_unit(bits, rows, w, s->a + unit, acc);
	}
	if (rest) {
		memcpy(s->planes, w, (rest + 7) / 8 * 64 * (uint32_t)bits);
		wk_unit(bits, rows, s->planes, s->a + unit, acc);
	}
}

#define WK_WIDTH(bits)                                                                            \
	static void wk_units_##bits(uint32_t rows, const uint8_t *w, uint32_t units,              \
				    uint32_t rest, struct wk_many *s, __m256i(*acc)[SPREAD_ROWS]) \
	{                                                                                         \
		wk_units(bits, rows, w, units, rest, s, acc);                                     \
	}
WK_WIDTH(1)
WK_WIDTH(2)
WK_WIDTH(3)
WK_WIDTH(4)
WK_WIDTH(5)
WK_WIDTH(6)
WK_WIDTH(7)
static void (*const wk_units_of[MOST_BITS])(uint32_t, const uint8_t *, uint32_t, uint32_t,
					    struct wk_many *, __m256i (*)[SPREAD_ROWS]) = {
	wk_units_1, wk_units_2, wk_units_3, wk_units_4, wk_units_5, wk_units_6, wk_units_7,
};

/* Spreads the rows' @k from a on, and adds them to their sums. */
static void wk_spread(struct wk_many *s, const int8_t *a, size_t lda, uint32_t rows, uint32_t k)
{
	const uint32_t all = (k + 31) / 32 * 32;
	int16_t sum[SPREAD_K / 32];
	uint32_t r, i;

	if (k < all) {
		for (r = 0; r < rows; r++) {
			memcpy(s->last[r], a + r * lda, k);
			memset(s->last[r] + k, 0, all - k);
		}
		a = s->last[0];
		lda = SPREAD_K;
	}
	spread(s->a, a, lda, rows, all);
	for (r = 0; r < rows; r++) {
		kq_sums(sum, a + r * lda, all, 32);
		for (i = 0; i < all / 32; i++)
			s->sum[r] += sum[i];
	}
}

static void wk_end_rows(const struct fw_matmul_i8 *t, uint32_t m, uint32_t rows, uint32_t panel,
			const struct wk_many *s, const __m256i (*acc)[SPREAD_ROWS])
{
	const struct fw_wk_panel *p = t->wk + panel;
	__m256i low, row[VNPU_PANEL_N / 8];

	for (uint32_t r = 0; r < rows; r++) {
		low = _mm256_set1_epi32(s->sum[r] * wk_zero(p->bits));
		for (uint32_t n = 0; n < VNPU_PANEL_N / 8; n++)
			row[n] = _mm256_sub_epi32(acc[n][r], low);
		mm_store(t, m + r, panel * VNPU_PANEL_N, (const int32_t *)row,
			 (const float *)(wk_sums(p, t->k) + 256));
	}
}

/* Rows m.., of panels @first.., @panels of them. */
static void wk_many_panels(const struct fw_matmul_i8 *t, uint32_t m, uint32_t rows, uint32_t first,
			   uint32_t panels, struct wk_many *s)
{
	const struct fw_wk_panel *wk = t->wk + first;
	uint32_t k, part, p;

	memset(s->acc, 0, panels * sizeof(s->acc[0]));
	memset(s->sum, 0, sizeof(s->sum));
	for (k = 0; k < t->k; k += part) {
		part = t->k - k < SPREAD_K ? t->k - k : SPREAD_K;
		wk_spread(s, t->a + m * t->lda + k, t->lda, rows, part);
		for (p = 0; p < panels; p++)
			wk_units_of[wk[p].bits - 1](rows, wk_k_block(wk + p, k), part / 32,
						    part % 32, s, s->acc[p]);
	}
	for (p = 0; p < panels; p++)
		wk_end_rows(t, m, rows, first + p, s, (const __m256i(*)[SPREAD_ROWS])s->acc[p]);
}

void fw_wk_many_avx2(const struct fw_matmul_i8 *t, void *scratch)
{
	_Static_assert(sizeof(struct wk_many) <= FW_SCRATCH_BYTES, "a part of the rows fits");
	struct spread_part p = { 0 };

	while (spread_next(&p, t->m, t->n))
		wk_many_panels(t, p.m, p.rows, p.panel, p.panels, scratch);
}
#endif
