/* SPDX-License-Identifier: MIT */
/*
 * The float kernels of the CPU lane over the registers of one instruction set. Included by one file per instruction
 * set, which defines before: INLINE; LANES, the floats in a register; BLOCK_M, at most 4, the rows of a block;
 * WEIGH_REGS, at most 4, the registers of columns in a block of weigh; the types vf (a register of floats), vi (of
 * int32s) and vmask (which lanes are meant); and the operations used here, commented there. first(n) is the mask of the
 * first n <= LANES lanes; a lane that load_part() does not load is 0. +, -, * and / are GCC's, lane by lane.
 *
 * matmul keeps a BLOCK_M x BLOCK_N block of dot products in registers; each dot product has one register, so the
 * block's size does not change its value. weigh does the same with registers of columns. exp is 2^n times the Taylor
 * polynomial of degree 7 on |r| <= ln(2)/2, whose remainder (5e-9) is below an F32 rounding.
 */
#include <math.h>
#include <string.h>

#include "cpu_kernels.h"

#define BLOCK_N 4

/* Sums of four registers, each in the order of sum1(). */
INLINE __m128 sum4(vf a, vf b, vf c, vf d)
{
	return _mm_hadd_ps(_mm_hadd_ps(fold(a), fold(b)), _mm_hadd_ps(fold(c), fold(d)));
}

INLINE float sum1(vf a)
{
	__m128 h = _mm_hadd_ps(fold(a), fold(a));

	return _mm_cvtss_f32(_mm_hadd_ps(h, h));
}

INLINE vf exp_v(vf x)
{
	vf n, r, p;

	/* The order of the operands keeps a NaN. */
	x = lesser(splat(88.0f), greater(splat(-87.3f), x));
	n = round_v(x * splat(1.44269504f));
	/* ln 2 is subtracted in two parts. */
	r = fma_v(n, splat(2.12194440e-4f), fma_v(n, splat(-0.693359375f), x));
	p = splat(1.0f / 5040.0f);
	p = fma_v(p, r, splat(1.0f / 720.0f));
	p = fma_v(p, r, splat(1.0f / 120.0f));
	p = fma_v(p, r, splat(1.0f / 24.0f));
	p = fma_v(p, r, splat(1.0f / 6.0f));
	p = fma_v(p, r, splat(0.5f));
	p = fma_v(p, r, splat(1.0f));
	p = fma_v(p, r, splat(1.0f));
	return scale2(p, n);
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

INLINE void block_fma(vf acc[BLOCK_M][BLOCK_N], const vf *a, const vf *b, unsigned int m, unsigned int n)
{
#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			acc[i][j] = fma_v(a[i], b[j], acc[i][j]);
	}
}

INLINE void matmul_block(float *y, size_t ldy, const float *x, size_t ldx, const float *w, size_t ldw, unsigned int k,
			 unsigned int m, unsigned int n)
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
			_mm_storeu_ps(y + i * ldy, sum4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]));
		else
			y[i * ldy] = sum1(acc[i][0]);
	}
}

static void matmul(float *y, size_t ldy, const float *x, size_t ldx, unsigned int m, const float *w, size_t ldw,
		   unsigned int n, unsigned int k)
{
	for (unsigned int j = 0; j < n;) {
		unsigned int nb = n - j >= BLOCK_N ? BLOCK_N : 1;
		unsigned int i = 0;

		if (nb == BLOCK_N) {
			for (; i + BLOCK_M <= m; i += BLOCK_M)
				matmul_block(y + i * ldy + j, ldy, x + i * ldx, ldx, w + j * ldw, ldw, k, BLOCK_M,
					     BLOCK_N);
			for (; i < m; i++)
				matmul_block(y + i * ldy + j, ldy, x + i * ldx, ldx, w + j * ldw, ldw, k, 1, BLOCK_N);
		} else {
			for (; i < m; i++)
				matmul_block(y + i * ldy + j, ldy, x + i * ldx, ldx, w + j * ldw, ldw, k, 1, 1);
		}
		j += nb;
	}
}

/* @m rows of p times @regs registers of columns of v. */
INLINE void weigh_block(float *y, size_t ldy, const float *p, size_t ldp, const float *v, size_t ldv, unsigned int n,
			unsigned int m, unsigned int regs)
{
	vf acc[BLOCK_M][BLOCK_N], a[BLOCK_M], b[BLOCK_N];

	block_zero(acc, m, regs);
	for (unsigned int t = 0; t < n; t++) {
#pragma GCC unroll 4
		for (unsigned int i = 0; i < m; i++)
			a[i] = splat(p[i * ldp + t]);
#pragma GCC unroll 4
		for (unsigned int j = 0; j < regs; j++)
			b[j] = load(v + t * ldv + j * LANES);
		block_fma(acc, a, b, m, regs);
	}
#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
#pragma GCC unroll 4
		for (unsigned int j = 0; j < regs; j++)
			store(y + i * ldy + j * LANES, acc[i][j]);
	}
}

/* One row of p times up to one register of columns of v. */
static void weigh_tail(float *y, const float *p, const float *v, size_t ldv, unsigned int n, unsigned int d)
{
	vmask mask = first(d < LANES ? d : LANES);
	vf acc = splat(0.0f);

	for (unsigned int t = 0; t < n; t++)
		acc = fma_v(splat(p[t]), load_part(v + t * ldv, mask), acc);
	store_part(y, mask, acc);
}

static void weigh(float *y, size_t ldy, const float *p, size_t ldp, unsigned int m, const float *v, size_t ldv,
		  unsigned int n, unsigned int d)
{
	for (unsigned int i = 0; i < m;) {
		unsigned int mb = m - i >= BLOCK_M ? BLOCK_M : 1;
		unsigned int c = 0;

		if (mb == BLOCK_M) {
			for (; c + WEIGH_REGS * LANES <= d; c += WEIGH_REGS * LANES)
				weigh_block(y + i * ldy + c, ldy, p + i * ldp, ldp, v + c, ldv, n, BLOCK_M, WEIGH_REGS);
		} else {
			for (; c + 4 * LANES <= d; c += 4 * LANES)
				weigh_block(y + i * ldy + c, ldy, p + i * ldp, ldp, v + c, ldv, n, 1, 4);
			for (; c + WEIGH_REGS * LANES <= d; c += WEIGH_REGS * LANES)
				weigh_block(y + i * ldy + c, ldy, p + i * ldp, ldp, v + c, ldv, n, 1, WEIGH_REGS);
		}
		for (; c < d; c += LANES) {
			for (unsigned int r = 0; r < mb; r++)
				weigh_tail(y + (i + r) * ldy + c, p + (i + r) * ldp, v + c, ldv, n, d - c);
		}
		i += mb;
	}
}

static void rmsnorm(float *y, const float *x, const float *w, unsigned int n, float eps)
{
	vmask tail = first(n % LANES);
	vf acc = splat(0.0f), scale, v;
	unsigned int c = 0;

	for (; c + LANES <= n; c += LANES) {
		v = load(x + c);
		acc = fma_v(v, v, acc);
	}
	if (c < n) {
		v = load_part(x + c, tail);
		acc = fma_v(v, v, acc);
	}
	scale = splat(1.0f / sqrtf(sum1(acc) / (float)n + eps));
	for (c = 0; c + LANES <= n; c += LANES)
		store(y + c, load(x + c) * scale * load(w + c));
	if (c < n)
		store_part(y + c, tail, load_part(x + c, tail) * scale * load_part(w + c, tail));
}

static void softmax(float *x, unsigned int n, float scale)
{
	vf sum = splat(0.0f), last = splat(0.0f), max = splat(x[0]), vscale = splat(scale), e, inv;
	vmask tail = first(n % LANES);
	unsigned int c;

	for (c = 0; c + LANES <= n; c += LANES)
		max = greater(max, load(x + c));
	if (c < n)
		max = greater(max, choose(tail, load_part(x + c, tail), max));
	max = splat(max_lane(max));
	for (c = 0; c + LANES <= n; c += LANES) {
		e = exp_v((load(x + c) - max) * vscale);
		sum += e;
		store(x + c, e);
	}
	/* The end of the row waits in a register: reading back what a masked store wrote would stall. */
	if (c < n) {
		last = choose(tail, exp_v((load_part(x + c, tail) - max) * vscale), last);
		sum += last;
	}
	inv = splat(1.0f / sum1(sum));
	for (c = 0; c + LANES <= n; c += LANES)
		store(x + c, load(x + c) * inv);
	if (c < n)
		store_part(x + c, tail, last * inv);
}

INLINE vf silu_mul_v(vf gate, vf up)
{
	return gate / (splat(1.0f) + exp_v(splat(0.0f) - gate)) * up;
}

static void silu_mul(float *y, const float *gate, const float *up, size_t n)
{
	size_t c = 0;

	for (; c + LANES <= n; c += LANES)
		store(y + c, silu_mul_v(load(gate + c), load(up + c)));
	if (c < n) {
		vmask tail = first(n - c);

		store_part(y + c, tail, silu_mul_v(load_part(gate + c, tail), load_part(up + c, tail)));
	}
}

static void add(float *y, const float *x, size_t n)
{
	size_t c = 0;

	for (; c + LANES <= n; c += LANES)
		store(y + c, load(y + c) + load(x + c));
	if (c < n) {
		vmask tail = first(n - c);

		store_part(y + c, tail, load_part(y + c, tail) + load_part(x + c, tail));
	}
}

INLINE vf quant_v(vf v, vf scale)
{
	return lesser(greater(round_v(v / scale), splat(-127.0f)), splat(127.0f));
}

static int quant(int8_t *q, float *scale, const float *x, size_t n)
{
	/* Magnitudes compared as integers: infinities and NaNs are the greatest. */
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
