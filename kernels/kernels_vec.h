/* SPDX-License-Identifier: MIT */
/*
 * Vectors of floats in the widest registers of the instruction set that a file is compiled for, and
 * exp() of them.
 *
 * exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2, where ln 2 is subtracted in
 * two parts and exp(r) is Taylor's polynomial of degree 7. 2^n is applied in two factors, so that
 * the whole range works, subnormals included.
 */
#include <math.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

#include "kernels.h"

/* Vectors passed between inlined functions never reach the ABI. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define INLINE static inline __attribute__((always_inline))

/* A register has LANES floats. EACH(f) expands f for each register of 16 lanes. */
#if defined(__AVX512F__)
#define LANES 16
#define EACH(f) f(0)
#define IOTA                                                         \
	{                                                            \
		0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 \
	}
#define SPLAT(x)                                               \
	{                                                      \
		x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x \
	}
#elif defined(__AVX2__)
#define LANES 8
#define EACH(f) f(0) f(1)
#define IOTA                           \
	{                              \
		0, 1, 2, 3, 4, 5, 6, 7 \
	}
#define SPLAT(x)                       \
	{                              \
		x, x, x, x, x, x, x, x \
	}
#else
#define LANES 4
#define EACH(f) f(0) f(1) f(2) f(3)
#define IOTA               \
	{                  \
		0, 1, 2, 3 \
	}
#define SPLAT(x)           \
	{                  \
		x, x, x, x \
	}
#endif

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef int8_t vb __attribute__((vector_size(LANES)));

INLINE vf load(const float *p)
{
	vf v;

	memcpy(&v, p, sizeof(v));
	return v;
}

INLINE void store(float *p, vf v)
{
	memcpy(p, &v, sizeof(v));
}

/* The first n < LANES lanes, the others 0. */
INLINE vf load_part(const float *p, size_t n)
{
	vf v = { 0 };

	memcpy(&v, p, n * sizeof(float));
	return v;
}

INLINE void store_part(float *p, vf v, size_t n)
{
	memcpy(p, &v, n * sizeof(float));
}

INLINE vf splat(float x)
{
	return (vf)SPLAT(x);
}

/* mask ? a : b, lane by lane. */
INLINE vf choose(vi mask, vf a, vf b)
{
	return (vf)(((vi)a & mask) | ((vi)b & ~mask));
}

/* a > b ? a : b */
INLINE vf greater(vf a, vf b)
{
#if LANES == 16
	return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif LANES == 8
	return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
	return choose(a > b, a, b);
#endif
}

/* a < b ? a : b */
INLINE vf lesser(vf a, vf b)
{
#if LANES == 16
	return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif LANES == 8
	return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
	return choose(a < b, a, b);
#endif
}

/*
 * a b + c, rounded once. Where fmaf() is a function call, do not inline this: the calls would be
 * most of each kernel's code.
 */
#if LANES >= 8 || defined(__FP_FAST_FMAF)
INLINE
#else
static __attribute__((noinline))
#endif
vf fma_v(vf a, vf b, vf c)
{
#if LANES == 16
	return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif LANES == 8
	return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
	for (int i = 0; i < LANES; i++)
		a[i] = fmaf(a[i], b[i], c[i]);
	return a;
#endif
}

/* Adding 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the low bits. */
#define ROUND_MAGIC 12582912.0f
#define ROUND_MAGIC_BITS 0x4b400000

/* Returns exp(r); n in *@ni. */
INLINE vf exp_parts(vf x, vi *ni)
{
	vf t = fma_v(x, splat(1.44269504f), splat(ROUND_MAGIC)), n = t - ROUND_MAGIC, r, p;

	/* Unsigned: for a NaN or a value far out of range, n is arbitrary but must not overflow. */
	*ni = (vi)((vu)t - ROUND_MAGIC_BITS);
	r = fma_v(n, splat(-0.693359375f), x);
	r = fma_v(n, splat(2.12194440e-4f), r);
	p = fma_v(r, splat(1.0f / 5040), splat(1.0f / 720));
	p = fma_v(p, r, splat(1.0f / 120));
	p = fma_v(p, r, splat(1.0f / 24));
	p = fma_v(p, r, splat(1.0f / 6));
	p = fma_v(p, r, splat(0.5f));
	p = fma_v(p, r, splat(1.0f));
	return fma_v(p, r, splat(1.0f));
}

/* 2^n; the result must be a normal number. */
INLINE vf exp2_v(vi n)
{
	return (vf)(((vu)n + 127) << 23);
}

INLINE vf exp_v(vf x)
{
	vf p;
	vi n;

	/* In this order a NaN stays a NaN. */
	x = greater(splat(-104.0f), lesser(splat(89.0f), x));
	p = exp_parts(x, &n);
#if LANES == 16
	return (vf)_mm512_scalef_ps((__m512)p, _mm512_cvtepi32_ps((__m512i)n));
#else
	vi half = n >> 1;

	/* The first product is exact, so the result is rounded once, as with scalef(). */
	return p * exp2_v(half) * exp2_v(n - half);
#endif
}

/* Converts LANES bytes to floats. */
INLINE vf load_s8(const int8_t *q)
{
#if LANES == 16
	return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)q)));
#elif LANES == 8
	return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)q)));
#elif defined(__ARM_FEATURE_DOTPROD)
	int32_t four;

	memcpy(&four, q, sizeof(four));
	return (vf)vcvtq_f32_s32(
		vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four))))));
#else
	vb b;

	memcpy(&b, q, sizeof(b));
	return __builtin_convertvector(b, vf);
#endif
}
