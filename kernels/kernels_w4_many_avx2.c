// SPDX-License-Identifier: MIT
/*
 * 4-bit weights with AVX2, for many rows. 32 k of 8 channels are unpacked into registers and
 * multiplied by all of the rows, whose activations are spread. Sums of pairs of 32 k fit 16 bits.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels_avx2.h"
#include "kernels_kq_avx2.h"
#include "kernels_spread_avx2.h"
#include "kernels_w4_avx2.h"

struct w4_many {
	_Alignas(64) float c[SPREAD_PANELS][SPREAD_ROWS][VNPU_PANEL_N];
	spread_unit a[SPREAD_K / 32];
	__m256i low[SPREAD_K / 32][SPREAD_ROWS]; /* of groups: what W4_ZERO adds, negative */
	__m256i acc[VNPU_PANEL_N / 8][SPREAD_ROWS]; /* of a group of more than 32 */
};

/* The numbers of 32 k of 8 channels. */
KQ_INLINE void w4_numbers(const uint8_t *at, __m256i numbers[8])
{
	struct kq_planes planes;

#pragma GCC unroll 8
	for (uint32_t quad = 0; quad < 8; quad++)
		numbers[quad] = kq_quad(&planes, at, 4, quad);
}

KQ_INLINE void w4_end(__m256i acc, __m256i low, __m256 scale, float *c)
{
	_mm256_store_ps(c, _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(acc, low)), scale,
					   _mm256_load_ps(c)));
}

/*
 * c[rows][64] += a group of @units times 32 k. @a, @low: of the group. @next: the group that comes
 * after this one, which is prefetched into L2.
 */
KQ_INLINE void w4_many_group(const uint32_t rows, const uint32_t units, const uint8_t *group,
			     const spread_unit *a, const __m256i *low, const uint8_t *next,
			     __m256i (*acc)[SPREAD_ROWS], float (*c)[VNPU_PANEL_N])
{
	const size_t part = w4_group_bytes(units * 32) / (units * 8);
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i numbers[8], s;
	uint32_t unit, n, r, i;
	__m256 scale;

	for (unit = 0; unit < units; unit++) {
		for (n = 0; n < VNPU_PANEL_N; n += 8) {
			for (i = 0; i < part; i += 64) {
				const size_t at = (unit * 8 + n / 8) * part + i;

				_mm_prefetch(next + at, _MM_HINT_T1);
				_mm_prefetch(group + at + FETCH_NEAR, _MM_HINT_T0);
			}
			w4_numbers(group + unit * 1024 + n * 4, numbers);
			scale = w4_scale(group, units * 32, n);
#pragma GCC unroll 2
			for (r = 0; r < rows; r++) {
				s = spread_products(numbers, a[unit][r], 8, ones, ones);
				if (units > 1)
					acc[n / 8][r] = _mm256_add_epi32(acc[n / 8][r], s);
				else
					w4_end(s, low[r], scale, c[r] + n);
			}
		}
	}
	for (n = 0; n < VNPU_PANEL_N && units > 1; n += 8) {
		scale = w4_scale(group, units * 32, n);
		for (r = 0; r < rows; r++) {
			w4_end(acc[n / 8][r], low[r], scale, c[r] + n);
			acc[n / 8][r] = _mm256_setzero_si256();
		}
	}
}

/* The rows' @k from a on, and what the groups' sums need. */
static void w4_spread(struct w4_many *s, const int8_t *a, size_t lda, uint32_t rows, uint32_t k,
		      uint32_t group)
{
	int16_t sum[SPREAD_K / 32];

	spread(s->a, a, lda, rows, k);
	for (uint32_t r = 0; r < rows; r++) {
		kq_sums(sum, a + r * lda, k, group);
		for (uint32_t g = 0; g < k / group; g++)
			s->low[g][r] = _mm256_set1_epi32(sum[g] * -W4_ZERO);
	}
}

/* Rows m.., of panels n0.., @panels of them. */
static void w4_many_panels(const struct fw_matmul_w4 *t, uint32_t m, uint32_t rows, uint32_t n0,
			   uint32_t panels, struct w4_many *s)
{
	const uint32_t units = t->group / 32;
	const size_t group = w4_group_bytes(t->group), panel = t->k / t->group * group;
	const uint8_t *first = t->w + n0 / VNPU_PANEL_N * panel, *w, *next;
	const int8_t *a = (const int8_t *)t->a + m * t->lda;
	uint32_t k, part, g, p;

	for (p = 0; p < panels; p++)
		memset(s->c[p], 0, rows * sizeof(s->c[p][0]));
	memset(s->acc, 0, sizeof(s->acc));
	for (k = 0; k < t->k; k += part, first += part / t->group * group) {
		part = t->k - k < SPREAD_K ? t->k - k : SPREAD_K;
		w4_spread(s, a + k, t->lda, rows, part, t->group);
		for (p = 0; p < panels; p++) {
			w = first + p * panel;
			next = p + 1 < panels ? w + panel : first + part / t->group * group;
			for (g = 0; g < part / t->group; g++, w += group, next += group) {
				if (units == 1)
					w4_many_group(rows, 1, w, s->a + g, s->low[g], next, s->acc,
						      s->c[p]);
				else
					w4_many_group(rows, units, w, s->a + g * units, s->low[g],
						      next, s->acc, s->c[p]);
			}
		}
	}
	for (p = 0; p < panels; p++)
		w4_store(t, m, rows, n0 + p * VNPU_PANEL_N, s->c[p]);
}

void fw_matmul_w4_many_avx2(const struct fw_matmul_w4 *t, void *scratch)
{
	_Static_assert(sizeof(struct w4_many) <= FW_SCRATCH_BYTES, "a part of the rows fits");
	struct spread_part p = { 0 };

	while (spread_next(&p, t->m, t->n))
		w4_many_panels(t, p.m, p.rows, p.panel * VNPU_PANEL_N, p.panels, scratch);
}
#endif
