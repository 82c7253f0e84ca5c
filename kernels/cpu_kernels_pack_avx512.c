// SPDX-License-Identifier: MIT
/* Packing in AVX-512's registers of sixteen words. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef int16_t v16 __attribute__((vector_size(64)));

#define ZIP_LOW ((vi){ 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29 })
#define ZIP_HIGH ((vi){ 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31 })
#define PAIRS_LOW ((vi){ 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29 })
#define PAIRS_HIGH ((vi){ 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31 })

/* 16 bytes at @at of every fourth row. */
INLINE vu load_rows(const uint8_t *const *row, size_t at)
{
	__m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(row[0] + at)));

	v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row[4] + at)), 1);
	v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row[8] + at)), 2);
	return (vu)_mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(row[12] + at)), 3);
}

/* The lower halves of the words. */
INLINE void store_halves(uint8_t *to, vu v)
{
	_mm256_storeu_si256((__m256i *)to, _mm512_cvtepi32_epi16((__m512i)v));
}

INLINE vf load_f32(const uint8_t *p)
{
	return (vf)_mm512_loadu_ps(p);
}

INLINE vf load_f16(const uint8_t *p)
{
	return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

INLINE vf load_bf16(const uint8_t *p)
{
	return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)),
				     16);
}

/* Signed bytes. */
INLINE vf load_i8(const uint8_t *p)
{
	return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* x by + plus */
INLINE vf scale_values(vf x, float by, float plus)
{
	return (vf)_mm512_fmadd_ps((__m512)x, _mm512_set1_ps(by), _mm512_set1_ps(plus));
}

/* Some word of the four registers has no bit of @mask. */
INLINE bool near_half(const vu w[4], uint32_t mask)
{
	const __m512i m = _mm512_set1_epi32((int)mask);

	return (_mm512_testn_epi32_mask((__m512i)w[0], m) |
		_mm512_testn_epi32_mask((__m512i)w[1], m) |
		_mm512_testn_epi32_mask((__m512i)w[2], m) |
		_mm512_testn_epi32_mask((__m512i)w[3], m)) != 0;
}

/* Bits @shift to @shift + 7 of the words of four registers, in order. */
INLINE void store_bytes(int8_t *q, const vu w[4], const int shift)
{
#pragma GCC unroll 4
	for (int v = 0; v < 4; v++)
		_mm_storeu_si128((__m128i *)(q + v * LANES),
				 _mm512_cvtepi32_epi8((__m512i)(w[v] >> shift)));
}

INLINE v16 greater_16(v16 a, v16 b)
{
	return (v16)_mm512_max_epi16((__m512i)a, (__m512i)b);
}

INLINE vi greater_32(vi a, vi b)
{
	return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

/* Adds the four signed bytes of each word. */
INLINE vi add_bytes(vi sums, vu bytes)
{
	return (vi)_mm512_dpbusd_epi32((__m512i)sums, _mm512_set1_epi8(1), (__m512i)bytes);
}

#include "cpu_kernels_pack_simd.h"

const struct cpu_pack cpu_pack_avx512 = {
	.w8 = pack_w8,
	.bytes = pack_bytes,
	.w4 = pack_w4,
	.kq = pack_kq,
};
#endif
