/* SPDX-License-Identifier: MIT */
/* Kernels of the CPU lane for AVX-512: sixteen lanes, 4x4 blocks. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>

#define LANES 16
#define BLOCK_M 4
#define WK_VEC 64
#define INLINE static inline __attribute__((always_inline))

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vmask;

INLINE vmask first(size_t n)
{
	return (vmask)((1u << n) - 1);
}

INLINE vf load(const float *p)
{
	return _mm512_loadu_ps(p);
}

INLINE vf load_part(const float *p, vmask mask)
{
	return _mm512_maskz_loadu_ps(mask, p);
}

/* F16, widened. */
INLINE vf load_f16(const uint16_t *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

INLINE vf load_f16_part(const uint16_t *p, size_t n)
{
	return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p));
}

INLINE void store_part(float *p, vf v, vmask mask)
{
	_mm512_mask_storeu_ps(p, mask, v);
}

INLINE vf splat(float x)
{
	return _mm512_set1_ps(x);
}

/* a b + c. */
INLINE vf fma_v(vf a, vf b, vf c)
{
	return _mm512_fmadd_ps(a, b, c);
}

/* With a NaN, returns the second operand, here and in lesser(). */
INLINE vf greater(vf a, vf b)
{
	return _mm512_max_ps(a, b);
}

INLINE vf lesser(vf a, vf b)
{
	return _mm512_min_ps(a, b);
}

/* To the nearest integer, ties to even. */
INLINE vf round_v(vf x)
{
	return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Four sums: lanes with the same index modulo 4 are added. */
INLINE __m128 sum_mod4(vf v)
{
	__m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));

	return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

/* The maximum of max and |v|, as integers. */
INLINE vi max_bits(vi max, vf v)
{
	return _mm512_max_epi32(
		max, _mm512_and_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff)));
}

INLINE int32_t top_bits(vi max)
{
	return _mm512_reduce_max_epi32(max);
}

/* Stores the first n lanes, integers in -127..127, as bytes. */
INLINE void store_i8(int8_t *q, vf v, size_t n)
{
	_mm_mask_storeu_epi8(q, first(n), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
}

#include "cpu_kernels_simd.h"
#include "cpu_kernels_unpack.h"
#include "cpu_kernels_vocab.h"

const struct cpu_kernels cpu_kernels_avx512 = {
	.name = "avx512",
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
	.pack = &cpu_pack_avx512,
	.unpack_wk = unpack_wk,
};
#endif
