// SPDX-License-Identifier: MIT
/*
 * GGUF's block types with AVX2. The numbers u are the unsigned operand of vpmaddubsw, whose sums of
 * two products are added up in 16 bits as far as they fit. vpmaddwd, which widens them, multiplies
 * them by the group's integer scale at the same time. A block is unpacked in registers, for up to
 * four rows at a time, from the cache for all rows but the first four.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>

#include "kernels_avx2.h"
#include "kernels_kq_avx2.h"

#define KQ_ROWS 4 /* at a time */
#define KQ_MAX_ROWS 128 /* whose sums are kept for a panel */

struct kq_scratch {
	_Alignas(64) float c[KQ_MAX_ROWS][VNPU_PANEL_N];
	int16_t sum[]; /* of the rows' groups of activations, [rows][k / group] */
};

/* Rows of which that fits; of the largest k half of them. */
static uint32_t kq_most(uint32_t groups)
{
	size_t room = (FW_SCRATCH_BYTES - sizeof(struct kq_scratch)) / (groups * sizeof(int16_t));

	return room < KQ_MAX_ROWS ? (uint32_t)room : KQ_MAX_ROWS;
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

/* One of the groups' in both halves of the pairs. */
KQ_INLINE __m256i kq_both(__m256i pairs, uint32_t g)
{
	const __m256i low = _mm256_set1_epi32(0xffff);

	return g % 2 ? _mm256_or_si256(_mm256_andnot_si256(low, pairs),
				       _mm256_srli_epi32(pairs, 16))
		     : _mm256_or_si256(_mm256_and_si256(pairs, low), _mm256_slli_epi32(pairs, 16));
}

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
 * c[rows][64] += a block of a[rows][lda] x w. With @fetch, what comes behind it is prefetched
 * meanwhile, a line after the other.
 */
KQ_INLINE void kq_rows(const uint32_t rows, const struct vnpu_kq_form f, const struct kq_block *b,
		       const int8_t *a, size_t lda, const int16_t *sum, uint32_t lds,
		       const bool fetch, float (*c)[VNPU_PANEL_N])
{
	/* Bytes of a block for 32 k of 8 channels. */
	const uint32_t part = vnpu_kq_block_bytes(f) / (f.block / 4u), most = kq_fitting(f);
	__m256i acc[KQ_ROWS], s[KQ_ROWS], u, pairs, scale = _mm256_set1_epi16(1);
	const uint8_t *numbers, *at = b->d;
	struct kq_planes planes;
	uint32_t n, unit, quad, r, i;

	for (n = 0; n < VNPU_PANEL_N; n += 8) {
		numbers = b->numbers + n * 4;
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			acc[r] = s[r] = _mm256_setzero_si256();
		for (unit = 0; unit < f.block / 32u;
		     unit++, a += 32, numbers += 256 * f.bits, at += part) {
			for (i = 0; fetch && i < part; i += 64)
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
#pragma GCC unroll 4
		for (r = 0; r < rows; r++)
			kq_end(f, b, acc[r], !kq_signed(f), sum + r * lds, n, c[r]);
	}
}

/* The same for any number of rows. */
KQ_INLINE void kq_all(const struct vnpu_kq_form f, const uint8_t *w, uint32_t m, const int8_t *a,
		      size_t lda, const int16_t *sum, uint32_t lds, struct kq_scratch *s)
{
	const struct kq_block b = kq_block(w, f);
	uint32_t r = 0;

	for (; r + 4 <= m; r += 4)
		kq_rows(4, f, &b, a + r * lda, lda, sum + r * lds, lds, !r, s->c + r);
	for (; r + 2 <= m; r += 2)
		kq_rows(2, f, &b, a + r * lda, lda, sum + r * lds, lds, !r, s->c + r);
	if (r < m)
		kq_rows(1, f, &b, a + r * lda, lda, sum + r * lds, lds, !r, s->c + r);
}

#define KQ_TYPE(NAME, name, ...)                                                            \
	static void name##_block(const uint8_t *w, uint32_t m, const int8_t *a, size_t lda, \
				 const int16_t *sum, uint32_t lds, struct kq_scratch *s)    \
	{                                                                                   \
		const struct vnpu_kq_form f = vnpu_kq_form(VNPU_KQ_##NAME);                 \
		kq_all(f, w, m, a, lda, sum, lds, s);                                       \
	}
VNPU_KQ_TYPES(KQ_TYPE)
#define KQ_ROW(NAME, name, ...) name##_block,
static void (*const kq_blocks[VNPU_NR_KQ_TYPES])(const uint8_t *, uint32_t, const int8_t *, size_t,
						 const int16_t *, uint32_t,
						 struct kq_scratch *) = { VNPU_KQ_TYPES(KQ_ROW) };

void fw_matmul_kq_avx2(const struct fw_matmul_kq *t, void *scratch)
{
	const struct vnpu_kq_form f = vnpu_kq_form(t->type);
	const uint32_t groups = t->k / f.group, most = kq_most(groups);
	struct kq_scratch *s = scratch;
	const int8_t *a = t->a;
	const uint8_t *w;
	uint32_t rows, r;

	for (uint32_t m = 0; m < t->m; m += rows, a += rows * t->lda) {
		rows = t->m - m < most ? t->m - m : most;
		for (r = 0; r < rows; r++)
			kq_sums(s->sum + r * groups, a + r * t->lda, t->k, f.group);
		w = t->w;
		for (uint32_t n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
			memset(s->c, 0, rows * sizeof(s->c[0]));
			for (uint32_t k = 0; k < t->k; k += f.block) {
				kq_blocks[t->type](w, rows, a + k, t->lda, s->sum + k / f.group,
						   groups, s);
				w += vnpu_kq_block_bytes(f);
			}
			kq_store(t, m, rows, n0, s->c);
		}
	}
}
#endif
