/* SPDX-License-Identifier: MIT */
/* Common parts of MATMUL_KQ's kernels with vectors of 256 bits: unpacking, sums of activations, and
 * results. */
#ifndef KERNELS_KQ_AVX2_H
#define KERNELS_KQ_AVX2_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernels_kq.h"

#define KQ_INLINE static inline __attribute__((always_inline))

KQ_INLINE __m256 kq_f16(const uint8_t *halves, uint32_t n)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(halves + n * 2)));
}

/* Bits from..from + p - 1 of each byte, at bit @to. */
KQ_INLINE __m256i kq_bits(__m256i x, const int p, const int from, const int to)
{
	const __m256i mask = _mm256_set1_epi8((char)(((1 << p) - 1) << to));

	x = from > to ? _mm256_srli_epi16(x, from - to) : _mm256_slli_epi16(x, to - from);
	return _mm256_and_si256(x, mask);
}

/* The planes of 8 channels and 32 k, as far as they have been read. */
struct kq_planes {
	__m256i p4, p2, p1;
};

/* The numbers u of quad @quad, from 0 on in order; @numbers: the unit's, of these channels. */
KQ_INLINE __m256i kq_quad(struct kq_planes *p, const uint8_t *numbers, const uint32_t bits,
			  const uint32_t quad)
{
	const uint8_t *p2 = numbers + (bits & 4) * 256, *p1 = p2 + (bits & 2) * 256;
	const int to = bits & 4;
	__m256i u = _mm256_setzero_si256();

	if (bits & 4) {
		if (quad % 2 == 0)
			p->p4 = _mm256_loadu_si256((const __m256i *)(numbers + quad / 2 * 256));
		u = kq_bits(p->p4, 4, (int)(quad % 2 * 4), 0);
	}
	if (bits & 2) {
		if (quad % 4 == 0)
			p->p2 = _mm256_loadu_si256((const __m256i *)(p2 + quad / 4 * 256));
		u = _mm256_or_si256(u, kq_bits(p->p2, 2, (int)(quad % 4 * 2), to));
	}
	if (bits & 1) {
		if (quad == 0)
			p->p1 = _mm256_loadu_si256((const __m256i *)p1);
		u = _mm256_or_si256(u, kq_bits(p->p1, 1, (int)quad, to + (int)(bits & 2)));
	}
	return u;
}

/*
 * Levels of 8 bits are multiplied as signed bytes, with the activations' signs, by the activations'
 * absolute values.
 */
KQ_INLINE bool kq_signed(const struct vnpu_kq_form f)
{
	return f.levels && kq_unsigned_bits(f) > 7;
}

/* What to multiply by for the numbers u: themselves or their levels, unsigned if !kq_signed(). */
KQ_INLINE __m256i kq_factors(const struct vnpu_kq_form f, __m256i u)
{
	__m128i levels = _mm_loadu_si128((const __m128i *)vnpu_kq_levels[f.levels]);

	if (!f.levels)
		return u;
	if (!kq_signed(f))
		levels = _mm_add_epi8(levels, _mm_set1_epi8((char)kq_zero(f)));
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(levels), u);
}

/* Quads whose sums of pairs fit 16 bits: 2^bits * 2^7 * 2 each, 127 * 2^7 * 2 of signed levels. */
KQ_INLINE uint32_t kq_fitting(const struct vnpu_kq_form f)
{
	const uint32_t bits = kq_unsigned_bits(f);

	return bits > 6 ? 1 : bits > 5 ? 2 : bits > 4 || f.group == 16 ? 4 : 8;
}

/* Two groups' integer scales or minima of 8 channels, as pairs of 16 bits. */
KQ_INLINE __m256i kq_pairs(const int8_t *table, uint32_t pair, uint32_t n)
{
	return _mm256_cvtepi8_epi16(
		_mm_loadu_si128((const __m128i *)(table + (pair * 64 + n) * 2)));
}

/* One of the groups' in both halves of the pairs. */
KQ_INLINE __m256i kq_both(__m256i pairs, uint32_t g)
{
	const __m256i low = _mm256_set1_epi32(0xffff);

	return g % 2 ? _mm256_or_si256(_mm256_andnot_si256(low, pairs),
				       _mm256_srli_epi32(pairs, 16))
		     : _mm256_or_si256(_mm256_and_si256(pairs, low), _mm256_slli_epi32(pairs, 16));
}

/* What makes results of a block's sums of 8 channels. */
struct kq_scales {
	__m256 d, dmin;
	__m256i low[KQ_MAX_GROUPS / 2]; /* of two groups each: what their activations count */
};

KQ_INLINE struct kq_scales kq_scales(const struct vnpu_kq_form f, const struct kq_block *b,
				     uint32_t n)
{
	const uint32_t pairs = f.block / f.group / 2u;
	struct kq_scales s = { .d = kq_f16(b->d, n) };

	if (f.mins)
		s.dmin = kq_f16(b->dmin, n);
#pragma GCC unroll 8
	for (uint32_t pair = 0; pair < pairs; pair++)
		s.low[pair] = kq_pairs(f.mins ? b->min : b->scale, pair, n);
	return s;
}

/* The sum over a block's groups of integer scales or minima times the activations' sums. */
KQ_INLINE __m256i kq_low(const struct vnpu_kq_form f, const struct kq_scales *s, const int16_t *sum)
{
	const uint32_t pairs = f.block / f.group / 2u;
	__m256i low = _mm256_setzero_si256();
	int32_t two;

	if (!pairs)
		return _mm256_set1_epi32(*sum);
#pragma GCC unroll 8
	for (uint32_t pair = 0; pair < pairs; pair++) {
		memcpy(&two, sum + pair * 2, 4);
		low = _mm256_add_epi32(low,
				       _mm256_madd_epi16(s->low[pair], _mm256_set1_epi32(two)));
	}
	return low;
}

/*
 * Adds a block's sums @acc of 8 channels to c. @low: kq_low(). @above: the sums are of numbers
 * kq_zero() too large.
 */
KQ_INLINE void kq_end(const struct vnpu_kq_form f, const struct kq_scales *s, __m256i acc,
		      const bool above, __m256i low, float *c)
{
	__m256 y = _mm256_load_ps(c);

	if (!f.mins && above)
		acc = _mm256_sub_epi32(acc, _mm256_slli_epi32(low, (int)kq_zero_bits(f)));
	y = _mm256_fmadd_ps(_mm256_cvtepi32_ps(acc), s->d, y);
	if (f.mins)
		y = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(low), s->dmin, y);
	_mm256_store_ps(c, y);
}

/* Sums of the activations of each group of @k of a row. */
static inline void kq_sums(int16_t *sum, const int8_t *a, uint32_t k, uint32_t group)
{
	const __m128i ones = _mm_set1_epi8(1), words = _mm_set1_epi16(1);
	__m128i x;

	for (uint32_t g = 0; g < k; g += group, sum++) {
		x = _mm_setzero_si128();
		for (uint32_t i = 0; i < group; i += 16)
			x = _mm_add_epi16(
				x, _mm_maddubs_epi16(
					   ones, _mm_loadu_si128((const __m128i *)(a + g + i))));
		x = _mm_madd_epi16(x, words);
		x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
		x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));
		*sum = (int16_t)_mm_cvtsi128_si32(x);
	}
}

static inline void kq_store(const struct fw_matmul_kq *t, uint32_t m, uint32_t rows, uint32_t n0,
			    float (*sum)[VNPU_PANEL_N])
{
	uint32_t cols = kq_channels(t, n0);
	float *c;

	for (uint32_t r = 0; r < rows; r++) {
		c = t->c + (m + r) * t->ldc + n0;
		for (uint32_t i = 0; i < VNPU_PANEL_N; i += 8)
			_mm256_store_ps(sum[r] + i,
					_mm256_mul_ps(_mm256_load_ps(sum[r] + i),
						      _mm256_set1_ps(t->a_scale[m + r])));
		for (uint32_t i = 0; i < cols && t->bias; i++)
			sum[r][i] += t->bias[n0 + i];
		memcpy(c, sum[r], cols * sizeof(float));
	}
}

#endif /* KERNELS_KQ_AVX2_H */
