/* SPDX-License-Identifier: MIT */
/* Sparse attention for AVX-512. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* In this order: each uses the one before. */
#include "kernels_vec.h"

#include "kernels_cache.h"

#include "kernels_attn_keys.h"
#include "kernels_attn_tile.h"

/* Which of up to 32 scores are at least @least. */
INLINE uint32_t from_s16(const int16_t *x, size_t n, __m512i least)
{
	if (n >= 32)
		return _mm512_cmpge_epi16_mask(_mm512_loadu_si512(x), least);
	return _mm512_mask_cmpge_epi16_mask((1u << n) - 1,
					    _mm512_maskz_loadu_epi16((1u << n) - 1, x), least);
}

/* The same of up to 16. */
INLINE uint32_t from_f32(const float *x, size_t n, __m512 least)
{
	const __mmask16 there = n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);

	return _mm512_mask_cmp_ps_mask(there, _mm512_maskz_loadu_ps(there, x), least, _CMP_GE_OQ);
}

static size_t count_s16(const int16_t *x, size_t n, int16_t least)
{
	const __m512i limit = _mm512_set1_epi16(least);
	size_t count = 0, i = 0;

	for (; i + 128 <= n; i += 128)
#pragma GCC unroll 4
		for (size_t l = 0; l < 128; l += 32)
			count += (size_t)_mm_popcnt_u32(from_s16(x + i + l, 32, limit));
	for (; i < n; i += 32)
		count += (size_t)_mm_popcnt_u32(from_s16(x + i, n - i, limit));
	return count;
}

static size_t count_f32(const float *x, size_t n, float least)
{
	const __m512 limit = _mm512_set1_ps(least);
	size_t count = 0, i = 0;

	for (; i + 64 <= n; i += 64)
#pragma GCC unroll 4
		for (size_t l = 0; l < 64; l += 16)
			count += (size_t)_mm_popcnt_u32(from_f32(x + i + l, 16, limit));
	for (; i < n; i += 16)
		count += (size_t)_mm_popcnt_u32(from_f32(x + i, n - i, limit));
	return count;
}

/* Positions from @at on, of those in @which. Through a register: stores of a few lanes are slow. */
INLINE uint32_t *emit(uint32_t *found, __m512i at, uint32_t which)
{
	_mm512_storeu_si512(found, _mm512_maskz_compress_epi32((__mmask16)which, at));
	return found + _mm_popcnt_u32(which);
}

INLINE __m512i positions(size_t i)
{
	return _mm512_add_epi32(
		_mm512_set1_epi32((int)i),
		_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

static uint32_t *emit_s16(uint32_t *found, const int16_t *x, size_t i, size_t end, int16_t least)
{
	const __m512i limit = _mm512_set1_epi16(least);
	uint32_t which;

	for (; i < end; i += 32) {
		which = from_s16(x + i, end - i, limit);
		found = emit(found, positions(i), which & 0xffff);
		found = emit(found, positions(i + 16), which >> 16);
	}
	return found;
}

static uint32_t *emit_f32(uint32_t *found, const float *x, size_t i, size_t end, float least)
{
	const __m512 limit = _mm512_set1_ps(least);

	for (; i < end; i += 16)
		found = emit(found, positions(i), from_f32(x + i, end - i, limit));
	return found;
}

#include "cpu_sparse_attn.h"
#include "cpu_sparse_scores.h"
#include "cpu_sparse_select.h"

const struct cpu_sparse cpu_sparse_avx512 = {
	.name = "avx512",
	.select_s16 = select_s16,
	.select_f32 = select_f32,
	.attn = sparse_attn,
	.scores = sparse_scores,
	.widen = sparse_widen,
};
#endif
