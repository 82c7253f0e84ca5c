/* SPDX-License-Identifier: MIT */
/*
 * The kernels of the CPU lane in the registers of one instruction set. Each file that includes this
 * one defines first: INLINE; LANES, the floats in a register; BLOCK_M, at most 4, the rows of a
 * block; the types vf (a register of floats), vi (of int32s) and vmask (a mask of lanes); and the
 * operations used here, with their comments. first(n) is the mask of the first n <= LANES lanes;
 * load_part() and load_f16_part() set the others to 0. +, -, * and / are GCC's, lane by lane.
 *
 * matmul keeps a BLOCK_M x BLOCK_N block of dot products in registers. Each dot product has a
 * register of its own, so the block's size does not change its value.
 */
#include <string.h>

#include "cpu_kernels.h"

#define BLOCK_N 4

/* Sums of four registers, each added in the order of sum1(). */
INLINE __m128 sum4(vf a, vf b, vf c, vf d)
{
	return _mm_hadd_ps(_mm_hadd_ps(sum_mod4(a), sum_mod4(b)),
			   _mm_hadd_ps(sum_mod4(c), sum_mod4(d)));
}

INLINE float sum1(vf a)
{
	__m128 h = _mm_hadd_ps(sum_mod4(a), sum_mod4(a));

	return _mm_cvtss_f32(_mm_hadd_ps(h, h));
}

INLINE void block_zero(vf acc[BLOCK_M][BLOCK_N], unsigned int m, unsigned int n)
{
#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			acc[i][j] = splat(0.0f);
	}
}

INLINE void block_fma(vf acc[BLOCK_M][BLOCK_N], const vf *a, const vf *b, unsigned int m,
		      unsigned int n)
{
#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			acc[i][j] = fma_v(a[i], b[j], acc[i][j]);
	}
}

INLINE void matmul_block(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
			 size_t ldw, unsigned int k, unsigned int m, unsigned int n)
{
	vf acc[BLOCK_M][BLOCK_N], a[BLOCK_M], b[BLOCK_N];
	unsigned int c = 0;

	block_zero(acc, m, n);
	for (; c + LANES <= k; c += LANES) {
#pragma GCC unroll 4
		for (unsigned int i = 0; i < m; i++)
			a[i] = load(x + i * ldx + c);
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			b[j] = load(w + j * ldw + c);
		block_fma(acc, a, b, m, n);
	}
	if (c < k) {
		vmask mask = first(k - c);

#pragma GCC unroll 4
		for (unsigned int i = 0; i < m; i++)
			a[i] = load_part(x + i * ldx + c, mask);
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			b[j] = load_part(w + j * ldw + c, mask);
		block_fma(acc, a, b, m, n);
	}
#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
		if (n == BLOCK_N)
			_mm_storeu_ps(y + i * ldy,
				      sum4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]));
		else
			y[i * ldy] = sum1(acc[i][0]);
	}
}

static void matmul(float *y, size_t ldy, const float *x, size_t ldx, unsigned int m, const float *w,
		   size_t ldw, unsigned int n, unsigned int k)
{
	for (unsigned int j = 0; j < n;) {
		unsigned int nb = n - j >= BLOCK_N ? BLOCK_N : 1;
		unsigned int i = 0;

		if (nb == BLOCK_N) {
			for (; i + BLOCK_M <= m; i += BLOCK_M)
				matmul_block(y + i * ldy + j, ldy, x + i * ldx, ldx, w + j * ldw,
					     ldw, k, BLOCK_M, BLOCK_N);
			for (; i < m; i++)
				matmul_block(y + i * ldy + j, ldy, x + i * ldx, ldx, w + j * ldw,
					     ldw, k, 1, BLOCK_N);
		} else {
			for (; i < m; i++)
				matmul_block(y + i * ldy + j, ldy, x + i * ldx, ldx, w + j * ldw,
					     ldw, k, 1, 1);
		}
		j += nb;
	}
}

INLINE vf quant_v(vf v, vf scale)
{
	return lesser(greater(round_v(v / scale), splat(-127.0f)), splat(127.0f));
}

static int quant(int8_t *q, float *scale, const float *x, size_t n)
{
	/* Magnitudes compare as integers; infinities and NaNs are the largest. */
	vi max = { 0 };
	vmask tail = first(n % LANES);
	vf vscale;
	int32_t top;
	size_t c = 0;
	float amax;

	for (; c + LANES <= n; c += LANES)
		max = max_bits(max, load(x + c));
	if (c < n)
		max = max_bits(max, load_part(x + c, tail));
	top = top_bits(max);
	if (top >= 0x7f800000)
		return -1;
	memcpy(&amax, &top, sizeof(amax));
	*scale = amax / 127.0f;
	if (!(*scale > 0.0f)) {
		memset(q, 0, n);
		return 0;
	}
	vscale = splat(*scale);
	for (c = 0; c + LANES <= n; c += LANES)
		store_i8(q + c, quant_v(load(x + c), vscale), LANES);
	if (c < n)
		store_i8(q + c, quant_v(load_part(x + c, tail), vscale), n - c);
	return 0;
}

/* ---- shadow outliers ---- */

/* Most blocks have none, which the greatest magnitude tells. */
static size_t beyond(uint32_t *found, const float *x, size_t n, float limit)
{
	size_t nr = 0;

	for (size_t c = 0; c < n; c += CPU_KERNELS_BLOCK) {
		size_t end = n - c < CPU_KERNELS_BLOCK ? n : c + CPU_KERNELS_BLOCK, i = c;
		vi max = { 0 };
		int32_t top;
		float most;

		for (; i + LANES <= end; i += LANES)
			max = max_bits(max, load(x + i));
		if (i < end)
			max = max_bits(max, load_part(x + i, first(end - i)));
		top = top_bits(max);
		memcpy(&most, &top, sizeof(most));
		if (most <= limit)
			continue;
		for (i = c; i < end; i++)
			if (__builtin_fabsf(x[i]) > limit)
				found[nr++] = (uint32_t)i;
	}
	return nr;
}

#define SUM_VECTORS 4

static void sum_rows(float *y, const uint16_t *const *w, const float *a, size_t rows, size_t n)
{
	size_t j = 0;

	for (; j + SUM_VECTORS * LANES <= n; j += SUM_VECTORS * LANES) {
		vf acc[SUM_VECTORS];

#pragma GCC unroll 4
		for (int v = 0; v < SUM_VECTORS; v++)
			acc[v] = splat(0.0f);
		for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 4
			for (int v = 0; v < SUM_VECTORS; v++)
				acc[v] = fma_v(splat(a[i]), load_f16(w[i] + j + v * LANES), acc[v]);
#pragma GCC unroll 4
		for (int v = 0; v < SUM_VECTORS; v++)
			store_part(y + j + v * LANES, acc[v], first(LANES));
	}
	for (; j < n; j += LANES) {
		size_t part = n - j < LANES ? n - j : LANES;
		vf acc = splat(0.0f);

		for (size_t i = 0; i < rows; i++)
			acc = fma_v(splat(a[i]), load_f16_part(w[i] + j, part), acc);
		store_part(y + j, acc, first(part));
	}
}
