/* SPDX-License-Identifier: MIT */
/*
 * Kernels of the CPU lane for AVX2 and FMA: eight lanes, and 3x4 blocks, whose twelve sums and
 * operands fill the sixteen registers.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define BLOCK_M 3
#define WK_VEC 32
#define INLINE static inline __attribute__((always_inline))

typedef __m256 vf;
typedef __m256i vi;
typedef __m256i vmask;

static const int32_t mask_words[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };

INLINE vmask first(size_t n)
{
	return _mm256_loadu_si256((const __m256i *)(mask_words + LANES - n));
}

INLINE vf load(const float *p)
{
	return _mm256_loadu_ps(p);
}

INLINE vf load_part(const float *p, vmask mask)
{
	return _mm256_maskload_ps(p, mask);
}

/* F16, widened. */
INLINE vf load_f16(const uint16_t *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

INLINE vf load_f16_part(const uint16_t *p, size_t n)
{
	uint16_t h[LANES] = { 0 };

	memcpy(h, p, n * sizeof(*p));
	return load_f16(h);
}

INLINE void store_part(float *p, vf v, vmask mask)
{
	_mm256_maskstore_ps(p, mask, v);
}

INLINE vf splat(float x)
{
	return _mm256_set1_ps(x);
}

/* a b + c. */
INLINE vf fma_v(vf a, vf b, vf c)
{
	return _mm256_fmadd_ps(a, b, c);
}

/* With a NaN, returns the second operand, here and in lesser(). */
INLINE vf greater(vf a, vf b)
{
	return _mm256_max_ps(a, b);
}

INLINE vf lesser(vf a, vf b)
{
	return _mm256_min_ps(a, b);
}

/* To the nearest integer, ties to even. */
INLINE vf round_v(vf x)
{
	return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Four sums: lanes with the same index modulo 4 are added. */
INLINE __m128 sum_mod4(vf v)
{
	return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}

/* The maximum of max and |v|, as integers. */
INLINE vi max_bits(vi max, vf v)
{
	return _mm256_max_epi32(
		max, _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff)));
}

INLINE int32_t top_bits(vi max)
{
	int32_t lanes[LANES], top = 0;

	_mm256_storeu_si256((__m256i *)lanes, max);
	for (int l = 0; l < LANES; l++)
		top = lanes[l] > top ? lanes[l] : top;
	return top;
}

/* Stores the first n lanes, integers in -127..127, as bytes. */
INLINE void store_i8(int8_t *q, vf v, size_t n)
{
	__m256i i = _mm256_cvtps_epi32(v);
	__m128i h = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));

	h = _mm_packs_epi16(h, h);
	memcpy(q, &h, n);
}

#include "cpu_kernels_simd.h"
#include "cpu_kernels_unpack.h"
#include "cpu_kernels_vocab.h"

const struct cpu_kernels cpu_kernels_avx2 = {
	.name = "avx2",
	.matmul = matmul,
	.quant = quant,
	.exp = exp_all,
	.sum_exp = sum_exp,
	.range = range,
	.block_max = block_max,
	.count_from = count_from,
	.bucket = bucket,
	.beyond = beyond,
	.sum_rows = sum_rows,
	.pack = &cpu_pack_avx2,
	.unpack_wk = unpack_wk,
};
#endif
