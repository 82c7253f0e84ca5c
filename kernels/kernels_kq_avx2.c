// SPDX-License-Identifier: MIT
/*
 * GGUF's block types with AVX2, for a few rows. The numbers u are the unsigned operand of
 * vpmaddubsw, whose sums of two products are added up in 16 bits as far as they fit. vpmaddwd,
 * which widens them, multiplies them by the group's integer scale at the same time. Blocks are
 * unpacked in registers.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>

#include "kernels_avx2.h"
#include "kernels_kq_avx2.h"

#define KQ_ROWS 4 /* at most; more: kernels_kq_many_avx2.c */

struct kq_few {
	_Alignas(64) float c[KQ_ROWS][VNPU_PANEL_N];
	int16_t sum[]; /* of the rows' groups of activations, [rows][k / group] */
};

/* s += a quad of the rows times kq_factors(); with @full, acc += s times the scale, and s = 0. */
KQ_INLINE void kq_products(const uint32_t rows, const struct vnpu_kq_form f, const bool full,
			   __m256i factors, const int8_t *a, size_t lda, __m256i scale,
			   __m256i s[KQ_ROWS], __m256i acc[KQ_ROWS])
{
	__m256i x;
	int32_t four;

#pragma GCC unroll 4
	for (uint32_t r = 0; r < rows; r++) {
		memcpy(&four, a + r * lda, 4);
		x = _mm256_set1_epi32(four);
		x = kq_signed(f)
			    ? _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(factors, x))
			    : _mm256_maddubs_epi16(factors, x);
		s[r] = _mm256_add_epi16(s[r], x);
		if (rows > 1 && kq_fitting(f) > 2)
			ADDED(s[r]);
		if (!full)
			continue;
		acc[r] = _mm256_add_epi32(acc[r], _mm256_madd_epi16(s[r], scale));
		s[r] = _mm256_setzero_si256();
	}
}

/*
 * c[rows][64] += a block of a[rows][lda] x w. What comes behind it is prefetched meanwhile, a line
 * after the other.
 */
KQ_INLINE void kq_rows(const uint32_t rows, const struct vnpu_kq_form f, const struct kq_block *b,
		       const int8_t *a, size_t lda, const int16_t *sum, uint32_t lds,
		       float (*c)[VNPU_PANEL_N])
{
	/* Bytes of a block for 32 k of 8 channels. */
	const uint32_t part = vnpu_kq_block_bytes(f) / (f.block / 4u), most = kq_fitting(f);
	__m256i acc[KQ_ROWS], s[KQ_ROWS], u, pairs, scale = _mm256_set1_epi16(1);
	const uint8_t *numbers, *at = b->d;
	struct kq_scales scales;
	struct kq_planes planes;
	uint32_t n, unit, quad, r, i;

	for (n = 0; n < VNPU_PANEL_N; n += 8) {
		numbers = b->numbers + n * 4;
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			acc[r] = s[r] = _mm256_setzero_si256();
		for (unit = 0; unit < f.block / 32u;
		     unit++, a += 32, numbers += 256 * f.bits, at += part) {
			for (i = 0; i < part; i += 64)
				fetch_line(at + i);
			if (f.block > 32)
				pairs = kq_pairs(b->scale, f.group == 16 ? unit : unit / 2, n);
#pragma GCC unroll 8
			for (quad = 0; quad < 8; quad++) {
				if (f.block > 32 && quad * 4 % f.group == 0)
					scale = kq_both(pairs, f.group == 16 ? quad / 4 : unit);
				u = kq_quad(&planes, numbers, f.bits, quad);
				kq_products(rows, f, quad % most == most - 1, kq_factors(f, u),
					    a + quad * 4, lda, scale, s, acc);
			}
		}
		a -= f.block;
		scales = kq_scales(f, b, n);
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			kq_end(f, &scales, acc[r], !kq_signed(f), kq_low(f, &scales, sum + r * lds),
			       c[r] + n);
	}
}

/* The same for any number of rows. */
KQ_INLINE void kq_all(const struct vnpu_kq_form f, const uint8_t *w, uint32_t m, const int8_t *a,
		      size_t lda, const int16_t *sum, uint32_t lds, struct kq_few *s)
{
	const struct kq_block b = kq_block(w, f);
	const uint32_t last = m & ~1u;

	if (m == 4)
		kq_rows(4, f, &b, a, lda, sum, lds, s->c);
	else if (m > 1)
		kq_rows(2, f, &b, a, lda, sum, lds, s->c);
	if (m & 1)
		kq_rows(1, f, &b, a + last * lda, lda, sum + last * lds, lds, s->c + last);
}

#define KQ_TYPE(NAME, name, ...)                                                            \
	static void name##_block(const uint8_t *w, uint32_t m, const int8_t *a, size_t lda, \
				 const int16_t *sum, uint32_t lds, struct kq_few *s)        \
	{                                                                                   \
		const struct vnpu_kq_form f = vnpu_kq_form(VNPU_KQ_##NAME);                 \
		kq_all(f, w, m, a, lda, sum, lds, s);                                       \
	}
VNPU_KQ_TYPES(KQ_TYPE)
#define KQ_FEW(NAME, name, ...) name##_block,
static void (*const kq_blocks[VNPU_NR_KQ_TYPES])(const uint8_t *, uint32_t, const int8_t *, size_t,
						 const int16_t *, uint32_t,
						 struct kq_few *) = { VNPU_KQ_TYPES(KQ_FEW) };

static void kq_few(const struct fw_matmul_kq *t, struct kq_few *s)
{
	const struct vnpu_kq_form f = vnpu_kq_form(t->type);
	const uint32_t groups = t->k / f.group;
	const uint8_t *w = t->w;

	for (uint32_t r = 0; r < t->m; r++)
		kq_sums(s->sum + r * groups, t->a + r * t->lda, t->k, f.group);
	for (uint32_t n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		memset(s->c, 0, sizeof(s->c));
		for (uint32_t k = 0; k < t->k; k += f.block, w += vnpu_kq_block_bytes(f))
			kq_blocks[t->type](w, t->m, t->a + k, t->lda, s->sum + k / f.group, groups,
					   s);
		kq_store(t, 0, t->m, n0, s->c);
	}
}

void fw_matmul_kq_avx2(const struct fw_matmul_kq *t, void *scratch)
{
	_Static_assert(sizeof(struct kq_few) + KQ_ROWS * VNPU_MAX_K_I8 / 16 * sizeof(int16_t) <=
			       FW_SCRATCH_BYTES,
		       "a few rows' sums fit");

	if (t->m <= KQ_ROWS)
		kq_few(t, scratch);
	else
		fw_matmul_kq_many_avx2(t, scratch);
}
#endif
