/* SPDX-License-Identifier: MIT */
/*
 * Common parts of MATMUL_KQ's kernels for AVX-512 and AMX: unpacking, sums of activations, and
 * results.
 */
#ifndef KERNELS_KQ_AVX512_H
#define KERNELS_KQ_AVX512_H

#include <immintrin.h>

#include "kernels_avx512.h"
#include "kernels_kq.h"

#define KQ_INLINE static inline __attribute__((always_inline))

KQ_INLINE __m512 kq_f16(const uint8_t *halves, uint32_t n)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(halves + n * 2)));
}

/* Exactly one instruction: with an intrinsic, GCC 12 moves sums around and spills them. */
#define DOT(sum, u, s) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(u), "v"(s))
/* The same with the same four bytes in all lanes, from memory. */
#define DOT_FOUR(sum, u, four) \
	__asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(u), "m"(*(four)))
#define DOT_PAIR(sum, w, pair) \
	__asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*(pair)))

#ifdef __GFNI__
/* Of each byte the bits @bits, kq_bit()s joined by |; the others are 0. */
KQ_INLINE __m512i kq_pick(__m512i x, const uint64_t bits)
{
	return _mm512_gf2p8affine_epi64_epi8(x, _mm512_set1_epi64((long long)bits), 0);
}

/* Bit @from becomes bit @to. */
KQ_INLINE uint64_t kq_bit(uint32_t from, uint32_t to)
{
	return (uint64_t)1 << from << (8 * (7 - to));
}
#endif

/* Bits @from.. of each byte, @p of them, from bit 0 on; with GFNI by one instruction. */
KQ_INLINE __m512i kq_low_bits(__m512i x, const uint32_t p, const uint32_t from)
{
#ifdef __GFNI__
	uint64_t picked = 0;

#pragma GCC unroll 4
	for (uint32_t i = 0; i < p; i++)
		picked |= kq_bit(from + i, i);
	if (from)
		return kq_pick(x, picked);
#endif
	return _mm512_and_si512(_mm512_srli_epi16(x, from), _mm512_set1_epi8((char)((1 << p) - 1)));
}

/* Bits from..from + p - 1 of each byte, at bit @to, where @u has none. @to 0: @u is empty. */
#define KQ_BITS(u, x, p, from, to)                                                       \
	do {                                                                             \
		const __m512i mask = _mm512_set1_epi8((char)(((1 << (p)) - 1) << (to))); \
		__m512i moved = (from) > (to) ? _mm512_srli_epi16(x, (from) - (to))      \
					      : _mm512_slli_epi16(x, (to) - (from));     \
		(u) = (to) ? _mm512_ternarylogic_epi32(moved, mask, u,                   \
						       0xea) /* moved & mask | u */      \
			   : kq_low_bits(x, p, from);                                    \
	} while (0)

/*
 * Asks for what follows part @part of @parts of a block. In short bursts and in order, whatever the
 * order of use, which is that of planes: with the requests spread evenly among the uses, a core of
 * Zen 4 read Q6_K for two rows at 12 GB/s; like this at 25.
 */
KQ_INLINE void kq_ahead(const struct kq_block *b, const struct vnpu_kq_form f, uint32_t part,
			const uint32_t parts)
{
	const uint32_t lines = (uint32_t)vnpu_kq_block_bytes(f) / 64;

	for (uint32_t i = part * lines / parts; i < (part + 1) * lines / parts; i++)
		panel_ahead(b->d + i * 64);
}

/* The planes of 16 channels and 32 k, as far as they have been read. */
struct kq_planes {
	__m512i p4, p2, p1;
};

/* Levels as unsigned bytes: kq_zero() has been added. */
KQ_INLINE __m512i kq_levels(const struct vnpu_kq_form f)
{
	__m128i levels = _mm_loadu_si128((const __m128i *)vnpu_kq_levels[f.levels]);

	return _mm512_broadcast_i32x4(_mm_add_epi8(levels, _mm_set1_epi8((char)kq_zero(f))));
}

/* The numbers u of quad @quad, from 0 on in order, or their levels; @numbers: the unit's, of these
 * channels. */
KQ_INLINE __m512i kq_quad(struct kq_planes *p, const uint8_t *numbers, const struct vnpu_kq_form f,
			  const uint32_t quad)
{
	const uint32_t bits = f.bits;
	const uint8_t *p2 = numbers + (bits & 4) * 256, *p1 = p2 + (bits & 2) * 256;
	const int to = bits & 4;
	__m512i u = _mm512_setzero_si512();

	if (bits & 4) {
		if (quad % 2 == 0)
			p->p4 = _mm512_loadu_si512(numbers + quad / 2 * 256);
		KQ_BITS(u, p->p4, 4, (int)(quad % 2 * 4), 0);
	}
	if (bits & 2) {
		if (quad % 4 == 0)
			p->p2 = _mm512_loadu_si512(p2 + quad / 4 * 256);
		KQ_BITS(u, p->p2, 2, (int)(quad % 4 * 2), to);
	}
	if (bits & 1) {
		if (quad == 0)
			p->p1 = _mm512_loadu_si512(p1);
		KQ_BITS(u, p->p1, 1, (int)quad, to + (int)(bits & 2));
	}
	return f.levels ? _mm512_shuffle_epi8(kq_levels(f), u) : u;
}

/* Two groups' integer scales or minima of 16 channels, as pairs of 16 bits. */
KQ_INLINE __m512i kq_pairs(const int8_t *table, uint32_t pair, uint32_t n)
{
	return _mm512_cvtepi8_epi16(
		_mm256_loadu_si256((const __m256i *)(table + (pair * 64 + n) * 2)));
}

/* Those of one of the groups. */
KQ_INLINE __m512i kq_one(__m512i pairs, uint32_t g)
{
	return _mm512_srai_epi32(g % 2 ? pairs : _mm512_slli_epi32(pairs, 16), 16);
}

/* The sum over a block's groups of integer scales or minima times the activations' sums. */
KQ_INLINE __m512i kq_low(const int8_t *table, const uint32_t groups, const int16_t *sum, uint32_t n)
{
	__m512i low = _mm512_setzero_si512();

#pragma GCC unroll 8
	for (uint32_t pair = 0; pair < groups / 2; pair++)
		DOT_PAIR(low, kq_pairs(table, pair, n), (const int32_t *)(sum + pair * 2));
	return low;
}

/*
 * Sums of the activations of 256 k, of groups of 16 or 32. vpsadbw adds up eight bytes, which are
 * biased to be unsigned. Of four times 64 k a lane of 64 bits has four such sums; two lanes make a
 * group of 16, and four one of 32.
 */
KQ_INLINE void kq_group_sums_256(int16_t *sum, const int8_t *a, const uint32_t group)
{
	const __m512i zero = _mm512_setzero_si512(), bias = _mm512_set1_epi8((char)0x80);
	/* A word of each lane, in the order of k: of every second lane, or of every fourth. */
	const __m256i by_16 =
		_mm256_set_epi16(27, 19, 11, 3, 26, 18, 10, 2, 25, 17, 9, 1, 24, 16, 8, 0);
	const __m128i by_32 = _mm_set_epi16(19, 3, 18, 2, 17, 1, 16, 0);
	__m512i all = zero, x;

#pragma GCC unroll 4
	for (uint32_t i = 4; i--;) {
		x = _mm512_xor_si512(_mm512_loadu_si512(a + i * 64), bias);
		all = _mm512_or_si512(_mm512_slli_epi64(all, 16), _mm512_sad_epu8(x, zero));
	}
	all = _mm512_add_epi16(all, _mm512_shuffle_epi32(all, _MM_PERM_BADC));
	if (group == 32)
		all = _mm512_add_epi16(all, _mm512_permutex_epi64(all, 0x4e));
	all = _mm512_sub_epi16(all, _mm512_set1_epi16((short)(group * 128)));
	if (group == 16)
		_mm256_storeu_si256((__m256i *)sum, _mm512_castsi512_si256(_mm512_permutexvar_epi16(
							    _mm512_castsi256_si512(by_16), all)));
	else
		_mm_storeu_si128((__m128i *)sum, _mm512_castsi512_si128(_mm512_permutexvar_epi16(
							 _mm512_castsi128_si512(by_32), all)));
}

/* Sums of the activations of each group of a row. */
static inline void kq_group_sums(int16_t *sum, const int8_t *a, uint32_t k, uint32_t group)
{
	const __m128i ones = _mm_set1_epi8(1);
	__m128i s;
	uint32_t g;

	for (g = 0; g + 256 <= k; g += 256, sum += 256 / group) {
		if (group == 16)
			kq_group_sums_256(sum, a + g, 16);
		else
			kq_group_sums_256(sum, a + g, 32);
	}
	for (; g < k; g += group, sum++) {
		s = _mm_setzero_si128();
		for (uint32_t i = 0; i < group; i += 16)
			s = _mm_dpbusd_epi32(s, ones,
					     _mm_loadu_si128((const __m128i *)(a + g + i)));
		s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
		s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
		*sum = (int16_t)_mm_cvtsi128_si32(s);
	}
}

/* Writes the results of 16 channels, some of them @live, from the sums before the row's scale. */
KQ_INLINE void kq_result(const struct fw_matmul_kq *t, uint32_t m, uint32_t n, __mmask16 live,
			 __m512 c)
{
	c = _mm512_mul_ps(c, _mm512_set1_ps(t->a_scale[m]));
	if (t->bias)
		c = _mm512_add_ps(c, _mm512_maskz_loadu_ps(live, t->bias + n));
	_mm512_mask_storeu_ps(t->c + m * t->ldc + n, live, c);
}

/* The same for all channels of panel @n0 that exist and @rows rows from @m on; sums [rows][64]. */
static inline void kq_store(const struct fw_matmul_kq *t, uint32_t m, uint32_t rows, uint32_t n0,
			    const float *sum)
{
	uint32_t cols = kq_channels(t, n0), left;

	for (uint32_t i = 0; i < cols; i += 16) {
		left = cols - i;
		for (uint32_t r = 0; r < rows; r++)
			kq_result(t, m + r, n0 + i, left < 16 ? (1u << left) - 1 : 0xffff,
				  _mm512_loadu_ps(sum + r * VNPU_PANEL_N + i));
	}
}

/* One row, or two if not stream_direct(); needs VBMI and GFNI. @scratch: FW_SCRATCH_BYTES. */
void fw_matmul_kq_row(const struct fw_matmul_kq *t, void *scratch);

#endif /* KERNELS_KQ_AVX512_H */
