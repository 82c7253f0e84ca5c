// SPDX-License-Identifier: MIT
/*
 * GGUF's block types with AVX2, for many rows. 32 k of 8 channels are unpacked into registers and
 * multiplied by all of the rows, whose activations are spread.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>

#include "kernels_avx2.h"
#include "kernels_kq_avx2.h"
#include "kernels_spread_avx2.h"

struct kq_many {
	_Alignas(64) float c[SPREAD_PANELS][SPREAD_ROWS][VNPU_PANEL_N];
	spread_unit a[SPREAD_K / 32];
	spread_unit absolute[SPREAD_K / 32]; /* |a|, if kq_signed() */
	__m256i low[SPREAD_K / 32][SPREAD_ROWS]; /* of blocks of 32: kq_low() */
	__m256i acc[VNPU_PANEL_N / 8][SPREAD_ROWS]; /* of a block of 256 */
	int16_t sum[SPREAD_ROWS][KQ_MAX_GROUPS]; /* of groups of activations */
};

/* 32 k of 8 channels. */
struct kq_weights {
	__m256i factors[8], scale[2]; /* of the one or two groups */
};

KQ_INLINE struct kq_weights kq_weights(const struct vnpu_kq_form f, const struct kq_block *b,
				       uint32_t unit, uint32_t n)
{
	const uint8_t *numbers = b->numbers + n * 4 + unit * 256 * f.bits;
	struct kq_planes planes;
	struct kq_weights w;
	__m256i pairs;

	w.scale[0] = w.scale[1] = _mm256_set1_epi16(1);
	if (f.block > 32) {
		pairs = kq_pairs(b->scale, f.group == 16 ? unit : unit / 2, n);
		w.scale[0] = kq_both(pairs, f.group == 16 ? 0 : unit);
		w.scale[1] = kq_both(pairs, 1);
	}
#pragma GCC unroll 8
	for (uint32_t quad = 0; quad < 8; quad++)
		w.factors[quad] = kq_factors(f, kq_quad(&planes, numbers, f.bits, quad));
	return w;
}

/* 32 k of a row times those of 8 channels. @absolute: as kq_many.absolute. */
KQ_INLINE __m256i kq_products(const struct vnpu_kq_form f, const struct kq_weights *w,
			      const __m256i *x, const __m256i *absolute)
{
	__m256i acc, product;

	if (!kq_signed(f))
		return spread_products(w->factors, x, kq_fitting(f), w->scale[0],
				       w->scale[f.group == 16]);
#pragma GCC unroll 8
	for (uint32_t quad = 0; quad < 8; quad++) {
		product = _mm256_maddubs_epi16(absolute[quad],
					       _mm256_sign_epi8(w->factors[quad], x[quad]));
		product = _mm256_madd_epi16(product, w->scale[f.group == 16 && quad > 3]);
		acc = quad ? _mm256_add_epi32(acc, product) : product;
	}
	return acc;
}

/*
 * s->c[@panel][rows][64] += a block, whose k are spread from unit @at on. @next: the block
 * that comes after this one, which is prefetched into L2.
 */
KQ_INLINE void kq_many_block(const struct vnpu_kq_form f, uint32_t rows, const uint8_t *block,
			     uint32_t at, const uint8_t *next, uint32_t panel, struct kq_many *s)
{
	const uint32_t part = vnpu_kq_block_bytes(f) / (f.block / 4u), units = f.block / 32u;
	const struct kq_block b = kq_block(block, f);
	const bool above = !kq_signed(f);
	float(*c)[VNPU_PANEL_N] = s->c[panel];
	uint32_t unit, n, r, i;
	struct kq_scales scales;
	struct kq_weights w;
	__m256i acc, *sums;

	for (unit = 0; unit < units; unit++, at++) {
		for (n = 0; n < VNPU_PANEL_N; n += 8, block += part, next += part) {
			for (i = 0; i < part; i += 64) {
				_mm_prefetch(next + i, _MM_HINT_T1);
				_mm_prefetch(block + i + FETCH_NEAR, _MM_HINT_T0);
			}
			w = kq_weights(f, &b, unit, n);
			scales = kq_scales(f, &b, n);
			sums = s->acc[n / 8];
#pragma GCC unroll 2
			for (r = 0; r < rows; r++) {
				acc = kq_products(f, &w, s->a[at][r], s->absolute[at][r]);
				if (units > 1)
					sums[r] = _mm256_add_epi32(sums[r], acc);
				else
					kq_end(f, &scales, acc, above, s->low[at][r], c[r] + n);
			}
		}
	}
	for (n = 0; n < VNPU_PANEL_N && units > 1; n += 8) {
		scales = kq_scales(f, &b, n);
		sums = s->acc[n / 8];
		for (r = 0; r < rows; r++) {
			kq_end(f, &scales, sums[r], above, kq_low(f, &scales, s->sum[r]), c[r] + n);
			sums[r] = _mm256_setzero_si256();
		}
	}
}

#define KQ_TYPE(NAME, name, ...)                                                              \
	static void name##_many(uint32_t rows, const uint8_t *block, uint32_t at,             \
				const uint8_t *next, uint32_t panel, struct kq_many *s)       \
	{                                                                                     \
		kq_many_block(vnpu_kq_form(VNPU_KQ_##NAME), rows, block, at, next, panel, s); \
	}
VNPU_KQ_TYPES(KQ_TYPE)
#define KQ_MANY(NAME, name, ...) name##_many,
static void (*const kq_many_blocks[VNPU_NR_KQ_TYPES])(
	uint32_t, const uint8_t *, uint32_t, const uint8_t *, uint32_t,
	struct kq_many *) = { VNPU_KQ_TYPES(KQ_MANY) };

/* The rows' @k from a on, and what their sums need. */
static void kq_spread(const struct vnpu_kq_form f, struct kq_many *s, const int8_t *a, size_t lda,
		      uint32_t rows, uint32_t k)
{
	spread(s->a, a, lda, rows, k);
	for (uint32_t r = 0; r < rows; r++)
		kq_sums(s->sum[r], a + r * lda, k, f.group);
	for (uint32_t unit = 0; unit < k / 32; unit++) {
		for (uint32_t r = 0; r < rows && f.block == 32; r++)
			s->low[unit][r] = _mm256_set1_epi32(s->sum[r][unit]);
		for (uint32_t r = 0; r < rows && kq_signed(f); r++)
			for (uint32_t i = 0; i < 8; i++)
				s->absolute[unit][r][i] = _mm256_abs_epi8(s->a[unit][r][i]);
	}
}

/* Rows m.., of panels n0.., @panels of them. */
static void kq_many_panels(const struct fw_matmul_kq *t, uint32_t m, uint32_t rows, uint32_t n0,
			   uint32_t panels, struct kq_many *s)
{
	const struct vnpu_kq_form f = vnpu_kq_form(t->type);
	const size_t block = vnpu_kq_block_bytes(f), panel = t->k / f.block * block;
	const uint8_t *first = t->w + n0 / VNPU_PANEL_N * panel, *w, *next;
	uint32_t k, part, i, p;

	for (p = 0; p < panels; p++)
		memset(s->c[p], 0, rows * sizeof(s->c[p][0]));
	memset(s->acc, 0, sizeof(s->acc));
	for (k = 0; k < t->k; k += part, first += part / f.block * block) {
		part = t->k - k < SPREAD_K ? t->k - k : SPREAD_K;
		kq_spread(f, s, t->a + m * t->lda + k, t->lda, rows, part);
		for (p = 0; p < panels; p++) {
			w = first + p * panel;
			next = p + 1 < panels ? w + panel : first + part / f.block * block;
			for (i = 0; i < part; i += f.block, w += block, next += block)
				kq_many_blocks[t->type](rows, w, i / 32, next, p, s);
		}
	}
	for (p = 0; p < panels; p++)
		kq_store(t, m, rows, n0 + p * VNPU_PANEL_N, s->c[p]);
}

void fw_matmul_kq_many_avx2(const struct fw_matmul_kq *t, void *scratch)
{
	_Static_assert(sizeof(struct kq_many) <= FW_SCRATCH_BYTES, "a part of the rows fits");
	struct spread_part p = { 0 };

	while (spread_next(&p, t->m, t->n))
		kq_many_panels(t, p.m, p.rows, p.panel * VNPU_PANEL_N, p.panels, scratch);
}
#endif
