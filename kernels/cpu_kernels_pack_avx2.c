// SPDX-License-Identifier: MIT
/* Packing in AVX2's registers of eight words. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));
typedef uint32_t vu __attribute__((vector_size(32)));
typedef int16_t v16 __attribute__((vector_size(32)));

#define ZIP_LOW ((vi){ 0, 8, 1, 9, 4, 12, 5, 13 })
#define ZIP_HIGH ((vi){ 2, 10, 3, 11, 6, 14, 7, 15 })
#define PAIRS_LOW ((vi){ 0, 1, 8, 9, 4, 5, 12, 13 })
#define PAIRS_HIGH ((vi){ 2, 3, 10, 11, 6, 7, 14, 15 })

/* 16 bytes at @at of every fourth row. */
INLINE vu load_rows(const uint8_t *const *row, size_t at)
{
	return (vu)_mm256_inserti128_si256(
		_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(row[0] + at))),
		_mm_loadu_si128((const __m128i *)(row[4] + at)), 1);
}

/* The lower halves of the words. */
INLINE void store_halves(uint8_t *to, vu v)
{
	__m256i h = _mm256_packus_epi32((__m256i)(v & 0xffff), _mm256_setzero_si256());

	_mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(_mm256_permute4x64_epi64(h, 8)));
}

INLINE vf load_f32(const uint8_t *p)
{
	return (vf)_mm256_loadu_ps((const float *)p);
}

INLINE vf load_f16(const uint8_t *p)
{
	return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

INLINE vf load_bf16(const uint8_t *p)
{
	return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)),
				     16);
}

/* Signed bytes. */
INLINE vf load_i8(const uint8_t *p)
{
	return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

/* x by + plus */
INLINE vf scale_values(vf x, float by, float plus)
{
	return (vf)_mm256_fmadd_ps((__m256)x, _mm256_set1_ps(by), _mm256_set1_ps(plus));
}

/* Some word of the four registers has no bit of @mask. */
INLINE bool near_half(const vu w[4], uint32_t mask)
{
	__m256i a = _mm256_min_epu32((__m256i)(w[0] & mask), (__m256i)(w[1] & mask)),
		b = _mm256_min_epu32((__m256i)(w[2] & mask), (__m256i)(w[3] & mask));

	a = _mm256_cmpeq_epi32(_mm256_min_epu32(a, b), _mm256_setzero_si256());
	return _mm256_movemask_epi8(a);
}

/* Bits @shift to @shift + 7 of the words of four registers, in order. */
INLINE void store_bytes(int8_t *q, const vu w[4], const int shift)
{
	const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
	__m256i a = _mm256_packus_epi32((__m256i)(w[0] >> shift & 255),
					(__m256i)(w[1] >> shift & 255)),
		b = _mm256_packus_epi32((__m256i)(w[2] >> shift & 255),
					(__m256i)(w[3] >> shift & 255));

	a = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), order);
	_mm256_storeu_si256((__m256i *)q, a);
}

INLINE v16 greater_16(v16 a, v16 b)
{
	return (v16)_mm256_max_epi16((__m256i)a, (__m256i)b);
}

INLINE vi greater_32(vi a, vi b)
{
	return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

/* Adds the four signed bytes of each word. */
INLINE vi add_bytes(vi sums, vu bytes)
{
	__m256i two = _mm256_maddubs_epi16(_mm256_set1_epi8(1), (__m256i)bytes);

	return sums + (vi)_mm256_madd_epi16(two, _mm256_set1_epi16(1));
}

#include "cpu_kernels_pack_simd.h"

const struct cpu_pack cpu_pack_avx2 = {
	.w8 = pack_w8,
	.bytes = pack_bytes,
	.w4 = pack_w4,
	.kq = pack_kq,
};
#endif
