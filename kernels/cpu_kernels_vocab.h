/* SPDX-License-Identifier: MIT */
/*
 * Kernels for a vocabulary's logits, in GCC's portable vectors: the same operations in the same
 * order for each instruction set, hence the same bits, so that a sampler's seed gives the same
 * tokens on every host.
 *
 * exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2, where ln 2 is subtracted in
 * two parts and exp(r) is a polynomial of degree 10. Its results are off by a few units in the last
 * place. A sum of many is computed as floats where nothing but its size counts: sum_exp().
 */
#include <math.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "cpu_kernels.h"

/* Vectors passed between inlined functions never reach the ABI. */
#pragma GCC diagnostic ignored "-Wpsabi"

/* A register has WIDTH doubles or 2 WIDTH floats; sums run in LANES_D lanes. */
#if defined(__AVX512F__)
#define WIDTH 8
#elif defined(__AVX2__)
#define WIDTH 4
#else
#define WIDTH 2
#endif
#define LANES_D 8

typedef double vd __attribute__((vector_size(8 * WIDTH)));
typedef int64_t vl __attribute__((vector_size(8 * WIDTH)));
typedef float vhalf __attribute__((vector_size(4 * WIDTH)));
#define VOCAB_LANES (2 * WIDTH)
typedef float vocab_f __attribute__((vector_size(4 * VOCAB_LANES)));
typedef int32_t vocab_i __attribute__((vector_size(4 * VOCAB_LANES)));

/* Rounds to an integer when added to a small number: the last bit is then worth 1. */
#define EXP_ROUND 0x1.8p52
/* Below this exp() is taken for 0: 2^n would be subnormal. */
#define EXP_LEAST -708.0

static inline __attribute__((always_inline)) vd exp_vd(vd x)
{
	/* Interpolates exp() at the 11 Chebyshev nodes of the interval; the last is exp(0). */
	static const double c[] = { 0x1.28a2c0a7209fbp-22,
				    0x1.72faf024b693bp-19,
				    0x1.a019a66a75dd4p-16,
				    0x1.a01978c6baf81p-13,
				    0x1.6c16c17f43a58p-10,
				    0x1.1111112dd67c5p-7,
				    0x1.55555555520afp-5,
				    0x1.555555554b757p-3,
				    0x1.0000000000005p-1,
				    0x1.000000000001ep+0,
				    1.0 };
	vl keep = x >= EXP_LEAST;
	vd n, r, y = (vd){ 0 } + c[0];

	x = (vd)((vl)x & keep);
	n = x * 0x1.71547652b82fep0 + EXP_ROUND;
	r = x - (n - EXP_ROUND) * 0x1.62e42fefa3800p-1;
	r -= (n - EXP_ROUND) * 0x1.ef35793c76730p-45;
#pragma GCC unroll 16
	for (unsigned int i = 1; i < sizeof(c) / sizeof(c[0]); i++)
		y = y * r + c[i];
	/* The integer is in the last bits of n; it goes to the exponent. */
	y *= (vd)(((vl)n << 52) + (vl)((vd){ 0 } + 1.0));
	return (vd)((vl)y & keep);
}

/* LANES_D values from @x to @p, added to @sums. */
static inline __attribute__((always_inline)) void exp_lanes(double *p, const float *x, float max,
							    double inverse, vd *sums)
{
#pragma GCC unroll 4
	for (unsigned int i = 0; i < LANES_D / WIDTH; i++) {
		vhalf h;
		vd y;

		memcpy(&h, x + i * WIDTH, sizeof(h));
		y = exp_vd((__builtin_convertvector(h, vd) - (double)max) * inverse);
		memcpy(p + i * WIDTH, &y, sizeof(y));
		sums[i] += y;
	}
}

static double exp_all(double *p, const float *x, size_t n, float max, float temperature)
{
	double sum[LANES_D], last_p[LANES_D];
	vd sums[LANES_D / WIDTH] = { 0 };
	float last[LANES_D];
	size_t i;

	for (i = 0; i + LANES_D <= n; i += LANES_D)
		exp_lanes(p + i, x + i, max, 1 / (double)temperature, sums);
	if (i < n) {
		for (unsigned int l = 0; l < LANES_D; l++)
			last[l] = i + l < n ? x[i + l] : -INFINITY;
		exp_lanes(last_p, last, max, 1 / (double)temperature, sums);
		memcpy(p + i, last_p, (n - i) * sizeof(*p));
	}
	memcpy(sum, sums, sizeof(sum));
	return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

/* mask ? a : b, lane by lane. */
static inline __attribute__((always_inline)) vocab_f vocab_choose(vocab_i mask, vocab_f a,
								  vocab_f b)
{
	return (vocab_f)(((vocab_i)a & mask) | ((vocab_i)b & ~mask));
}

/* a > b ? a : b */
static inline __attribute__((always_inline)) vocab_f vocab_greater(vocab_f a, vocab_f b)
{
#if defined(__AVX512F__)
	return (vocab_f)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
	return (vocab_f)_mm256_max_ps((__m256)a, (__m256)b);
#else
	return vocab_choose(a > b, a, b);
#endif
}

/* a < b ? a : b */
static inline __attribute__((always_inline)) vocab_f vocab_lesser(vocab_f a, vocab_f b)
{
#if defined(__AVX512F__)
	return (vocab_f)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
	return (vocab_f)_mm256_min_ps((__m256)a, (__m256)b);
#else
	return vocab_choose(a < b, a, b);
#endif
}

static inline __attribute__((always_inline)) vocab_f vocab_load(const float *x)
{
	vocab_f v;

	memcpy(&v, x, sizeof(v));
	return v;
}

/* Rounds to an integer, as EXP_ROUND. */
#define EXP2_ROUND 0x1.8p23f
/* 2^t is normal from here on. */
#define EXP2_LEAST -126.0f

/* 2^t for t <= 0: 2^n 2^f with |f| <= 1/2, whose polynomial of degree 5 is exact at 0 and else off
 * by 2e-7 at most. Below EXP2_LEAST, and for a NaN, it is 2^EXP2_LEAST. */
static inline __attribute__((always_inline)) vocab_f exp2_vf(vocab_f t)
{
	static const float c[] = { 0x1.5f63a4p-10f, 0x1.3d0060p-7f, 0x1.c6ae6ep-5f,
				   0x1.ebf97ep-3f,  0x1.62e432p-1f, 1 };
	vocab_f n, f, y = (vocab_f){ 0 } + c[0];

	t = vocab_greater(t, (vocab_f){ 0 } + EXP2_LEAST);
	n = t + EXP2_ROUND;
	f = t - (n - EXP2_ROUND);
#pragma GCC unroll 8
	for (unsigned int i = 1; i < sizeof(c) / sizeof(c[0]); i++)
		y = y * f + c[i];
	/* The integer is in the last bits of n; it is added to the exponent. */
	return (vocab_f)((vocab_i)y + ((vocab_i)n << 23));
}

#define SUM_LANES 16
/* Values in a row that are added up as floats. */
#define SUM_PART 256

static double sum_exp(const float *x, size_t n, float max)
{
	double sum = 0;

	for (size_t i = 0; i < n;) {
		size_t end = n - i < SUM_PART ? n : i + SUM_PART;
		vocab_f sums[SUM_LANES / VOCAB_LANES] = { 0 };
		float lane[SUM_LANES], last[SUM_LANES];

		for (; i < end; i += SUM_LANES) {
			const float *from = x + i;

			if (end - i < SUM_LANES) {
				for (unsigned int l = 0; l < SUM_LANES; l++)
					last[l] = i + l < end ? x[i + l] : -INFINITY;
				from = last;
			}
#pragma GCC unroll 4
			for (unsigned int v = 0; v < SUM_LANES / VOCAB_LANES; v++)
				sums[v] += exp2_vf((vocab_load(from + v * VOCAB_LANES) - max) *
						   0x1.715476p0f);
		}
		memcpy(lane, sums, sizeof(lane));
		for (unsigned int half = SUM_LANES / 2; half; half /= 2)
			for (unsigned int l = 0; l < half; l++)
				lane[l] += lane[l + half];
		sum += (double)lane[0];
	}
	return sum;
}

/* NaNs are skipped: they are neither above nor below. */
static void range(float *least, float *most, const float *x, size_t n)
{
	vocab_f low = (vocab_f){ 0 } + INFINITY, high = (vocab_f){ 0 } - INFINITY, v;
	size_t i;

	for (i = 0; i + VOCAB_LANES <= n; i += VOCAB_LANES) {
		v = vocab_load(x + i);
		low = vocab_lesser(v, low);
		high = vocab_greater(v, high);
	}
	*least = INFINITY;
	*most = -INFINITY;
	for (unsigned int k = 0; k < VOCAB_LANES; k++) {
		*least = low[k] < *least ? low[k] : *least;
		*most = high[k] > *most ? high[k] : *most;
	}
	for (; i < n; i++) {
		*least = x[i] < *least ? x[i] : *least;
		*most = x[i] > *most ? x[i] : *most;
	}
}

#define MAX_LANES 16

/* Compilers turn a loop over lanes into one instruction or a few. */
static void block_max(float *max, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += CPU_KERNELS_BLOCK) {
		size_t end = n - i < CPU_KERNELS_BLOCK ? n - i : CPU_KERNELS_BLOCK, c = 0;
		float lane[MAX_LANES], m = -INFINITY;

		for (unsigned int l = 0; l < MAX_LANES; l++)
			lane[l] = -INFINITY;
		for (; c + MAX_LANES <= end; c += MAX_LANES)
			for (unsigned int l = 0; l < MAX_LANES; l++)
				lane[l] = x[i + c + l] > lane[l] ? x[i + c + l] : lane[l];
		for (unsigned int l = 0; c < end; c++, l++)
			lane[l] = x[i + c] > lane[l] ? x[i + c] : lane[l];
		for (unsigned int l = 0; l < MAX_LANES; l++)
			m = lane[l] > m ? lane[l] : m;
		max[i / CPU_KERNELS_BLOCK] = m;
	}
}

static size_t count_from(const float *x, size_t n, float least)
{
	vocab_i counts = { 0 };
	size_t i, count = 0;

	for (i = 0; i + VOCAB_LANES <= n; i += VOCAB_LANES)
		counts -= vocab_load(x + i) >= least;
	for (unsigned int k = 0; k < VOCAB_LANES; k++)
		count += (size_t)counts[k];
	for (; i < n; i++)
		count += x[i] >= least;
	return count;
}

static void bucket(int32_t *of, const float *x, size_t n, float most, float range, int32_t last)
{
	float end = (float)last;
	vocab_f at, lasts = (vocab_f){ 0 } + end;
	size_t i;

	for (i = 0; i + VOCAB_LANES <= n; i += VOCAB_LANES) {
		vocab_i b;

		at = (most - vocab_load(x + i)) / range * end;
		at = vocab_lesser(at, lasts);
		b = __builtin_convertvector(at, vocab_i);
		memcpy(of + i, &b, sizeof(b));
	}
	for (; i < n; i++) {
		float f = (most - x[i]) / range * end;

		of[i] = (int32_t)(f < end ? f : end);
	}
}
