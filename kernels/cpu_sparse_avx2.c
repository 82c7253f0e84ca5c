/* SPDX-License-Identifier: MIT */
/* Sparse attention for AVX2. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In this order: each uses the one before. */
#include "kernels_vec.h"

#include "kernels_cache.h"

#include "kernels_attn_keys.h"
#include "kernels_attn_tile.h"

/* Which of 8 scores are at least @least. */
INLINE uint32_t from_f32(const float *x, __m256 least)
{
	return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x), least, _CMP_GE_OQ));
}

/* The sum of 8 numbers of 32 bits. */
INLINE size_t sum_s32(__m256i v)
{
	__m128i x = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

	x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
	x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));
	return (uint32_t)_mm_cvtsi128_si32(x);
}

/* Lanes count those below the limit, which 16 bits hold of so many scores. */
#define COUNT_MAX (16 * 32767)

INLINE size_t count_less_s16(const int16_t *x, size_t whole, __m256i limit)
{
	__m256i less[2] = { _mm256_setzero_si256(), _mm256_setzero_si256() };
	size_t i = 0;

	for (; i + 32 <= whole; i += 32)
#pragma GCC unroll 2
		for (int l = 0; l < 2; l++)
			less[l] = _mm256_sub_epi16(
				less[l],
				_mm256_cmpgt_epi16(
					limit,
					_mm256_loadu_si256((const __m256i *)(x + i + l * 16))));
	if (i < whole)
		less[0] = _mm256_sub_epi16(
			less[0],
			_mm256_cmpgt_epi16(limit, _mm256_loadu_si256((const __m256i *)(x + i))));
	return sum_s32(_mm256_add_epi32(_mm256_madd_epi16(less[0], _mm256_set1_epi16(1)),
					_mm256_madd_epi16(less[1], _mm256_set1_epi16(1))));
}

static size_t count_s16(const int16_t *x, size_t n, int16_t least)
{
	const __m256i limit = _mm256_set1_epi16(least);
	size_t count = 0, whole = n / 16 * 16, i, part;

	for (i = 0; i < whole; i += part) {
		part = whole - i < COUNT_MAX ? whole - i : COUNT_MAX;
		count += part - count_less_s16(x + i, part, limit);
	}
	for (; i < n; i++)
		count += x[i] >= least;
	return count;
}

static size_t count_f32(const float *x, size_t n, float least)
{
	const __m256 limit = _mm256_set1_ps(least);
	__m256i from = _mm256_setzero_si256();
	size_t count, whole = n / 8 * 8, i;

	for (i = 0; i < whole; i += 8)
		from = _mm256_sub_epi32(from, _mm256_castps_si256(_mm256_cmp_ps(
						      _mm256_loadu_ps(x + i), limit, _CMP_GE_OQ)));
	for (count = sum_s32(from); i < n; i++)
		count += x[i] >= least;
	return count;
}

/* The set lanes of each mask of eight, ascending, a byte each. */
#define LANE(mask, lane)                         \
	((uint64_t)((mask) >> (lane)&1) * (lane) \
	 << __builtin_popcount((mask) & ((1 << (lane)) - 1)) * 8)
#define LANES_OF(mask)                                                                   \
	(LANE(mask, 1) | LANE(mask, 2) | LANE(mask, 3) | LANE(mask, 4) | LANE(mask, 5) | \
	 LANE(mask, 6) | LANE(mask, 7))
#define LANES_4(mask) LANES_OF(mask), LANES_OF(mask + 1), LANES_OF(mask + 2), LANES_OF(mask + 3)
#define LANES_16(mask) LANES_4(mask), LANES_4(mask + 4), LANES_4(mask + 8), LANES_4(mask + 12)
#define LANES_64(mask) LANES_16(mask), LANES_16(mask + 16), LANES_16(mask + 32), LANES_16(mask + 48)
static const uint64_t lanes_of[256] = { LANES_64(0), LANES_64(64), LANES_64(128), LANES_64(192) };

/* The positions of eight lanes from @at on that are in @which. */
INLINE uint32_t *emit(uint32_t *found, __m256i at, uint32_t which)
{
	__m128i lanes = _mm_loadl_epi64((const __m128i *)&lanes_of[which]);

	_mm256_storeu_si256((__m256i *)found, _mm256_add_epi32(at, _mm256_cvtepu8_epi32(lanes)));
	return found + __builtin_popcount(which);
}

static uint32_t *emit_s16(uint32_t *found, const int16_t *x, size_t i, size_t end, int16_t least)
{
	const __m128i limit = _mm_set1_epi16(least);
	__m256i at = _mm256_set1_epi32((int)i);
	uint32_t which;
	__m128i less;

	for (; i + 8 <= end; i += 8, at = _mm256_add_epi32(at, _mm256_set1_epi32(8))) {
		less = _mm_cmpgt_epi16(limit, _mm_loadu_si128((const __m128i *)(x + i)));
		which = ~(uint32_t)_mm_movemask_epi8(_mm_packs_epi16(less, less)) & 255;
		found = emit(found, at, which);
	}
	for (; i < end; i++) {
		*found = (uint32_t)i;
		found += x[i] >= least;
	}
	return found;
}

static uint32_t *emit_f32(uint32_t *found, const float *x, size_t i, size_t end, float least)
{
	const __m256 limit = _mm256_set1_ps(least);
	__m256i at = _mm256_set1_epi32((int)i);

	for (; i + 8 <= end; i += 8, at = _mm256_add_epi32(at, _mm256_set1_epi32(8)))
		found = emit(found, at, from_f32(x + i, limit));
	for (; i < end; i++) {
		*found = (uint32_t)i;
		found += x[i] >= least;
	}
	return found;
}

#include "cpu_sparse_attn.h"
#include "cpu_sparse_scores.h"
#include "cpu_sparse_select.h"

const struct cpu_sparse cpu_sparse_avx2 = {
	.name = "avx2",
	.select_s16 = select_s16,
	.select_f32 = select_f32,
	.attn = sparse_attn,
	.scores = sparse_scores,
	.widen = sparse_widen,
};
#endif
