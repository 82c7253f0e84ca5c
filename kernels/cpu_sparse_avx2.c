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

#include "kernels_attn_tile.h"

/* Which of 16 scores are at least @least: two bits each. */
INLINE uint32_t from_s16(const int16_t *x, __m256i least)
{
	__m256i v = _mm256_loadu_si256((const __m256i *)x);

	return ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi16(least, v));
}

/* Which of 8 scores are at least @least. */
INLINE uint32_t from_f32(const float *x, __m256 least)
{
	return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x), least, _CMP_GE_OQ));
}

static size_t count_s16(const int16_t *x, size_t n, int16_t least)
{
	const __m256i limit = _mm256_set1_epi16(least);
	size_t count = 0, whole = n / 16 * 16, i;

	for (i = 0; i < whole; i += 16)
		count += (size_t)__builtin_popcount(from_s16(x + i, limit));
	for (count /= 2; i < n; i++)
		count += x[i] >= least;
	return count;
}

static size_t count_f32(const float *x, size_t n, float least)
{
	const __m256 limit = _mm256_set1_ps(least);
	size_t count = 0, whole = n / 8 * 8, i;

	for (i = 0; i < whole; i += 8)
		count += (size_t)__builtin_popcount(from_f32(x + i, limit));
	for (; i < n; i++)
		count += x[i] >= least;
	return count;
}

/* The lanes of each mask of four, ascending. */
static const uint8_t lanes_of[16][4] = {
	{ 0 }, { 0 },	 { 1 },	   { 0, 1 },	{ 2 },	  { 0, 2 },    { 1, 2 },    { 0, 1, 2 },
	{ 3 }, { 0, 3 }, { 1, 3 }, { 0, 1, 3 }, { 2, 3 }, { 0, 2, 3 }, { 1, 2, 3 }, { 0, 1, 2, 3 },
};

/* Positions from @at on, of those in @which, four at a time. */
INLINE uint32_t *emit(uint32_t *found, size_t at, uint32_t which)
{
	__m128i lanes;
	int four;

	memcpy(&four, lanes_of[which], sizeof(four));
	lanes = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(four));
	_mm_storeu_si128((__m128i *)found, _mm_add_epi32(_mm_set1_epi32((int)at), lanes));
	return found + __builtin_popcount(which);
}

static uint32_t *emit_s16(uint32_t *found, const int16_t *x, size_t i, size_t end, int16_t least)
{
	const __m128i limit = _mm_set1_epi16(least);
	uint32_t which;
	__m128i less;

	for (; i + 8 <= end; i += 8) {
		less = _mm_cmpgt_epi16(limit, _mm_loadu_si128((const __m128i *)(x + i)));
		which = ~(uint32_t)_mm_movemask_epi8(_mm_packs_epi16(less, less));
		found = emit(found, i, which & 15);
		found = emit(found, i + 4, which >> 4 & 15);
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
	uint32_t which;

	for (; i + 8 <= end; i += 8) {
		which = from_f32(x + i, limit);
		found = emit(found, i, which & 15);
		found = emit(found, i + 4, which >> 4);
	}
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
