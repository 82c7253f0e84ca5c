/* SPDX-License-Identifier: MIT */
/*
 * Float kernels of the CPU lane for AVX-512: the algorithms of cpu_kernels_avx2.c with sixteen lanes, 4x4 blocks and
 * masks for the ends of rows.
 */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "cpu_kernels.h"

#define LANES 16
#define BLOCK 4
#define INLINE static inline __attribute__((always_inline))

INLINE __mmask16 tail_mask(size_t n)
{
	return n >= LANES ? 0xffff : (__mmask16)((1u << n) - 1);
}

INLINE __m128 fold(__m512 v)
{
	__m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));

	return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

/* Sums of four registers, each in the order of sum1(). */
INLINE __m128 sum4(__m512 a, __m512 b, __m512 c, __m512 d)
{
	return _mm_hadd_ps(_mm_hadd_ps(fold(a), fold(b)), _mm_hadd_ps(fold(c), fold(d)));
}

INLINE float sum1(__m512 a)
{
	__m128 h = _mm_hadd_ps(fold(a), fold(a));

	return _mm_cvtss_f32(_mm_hadd_ps(h, h));
}

INLINE __m512 exp16(__m512 x)
{
	const __m512 ln2_hi = _mm512_set1_ps(0.693359375f), ln2_lo = _mm512_set1_ps(-2.12194440e-4f);
	__m512 n, r, p;

	/* The order of the operands keeps a NaN. */
	x = _mm512_min_ps(_mm512_set1_ps(88.0f), _mm512_max_ps(_mm512_set1_ps(-87.3f), x));
	n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)),
				 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	r = _mm512_fnmadd_ps(n, ln2_lo, _mm512_fnmadd_ps(n, ln2_hi, x));
	p = _mm512_set1_ps(1.0f / 5040.0f);
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720.0f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120.0f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24.0f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6.0f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
	return _mm512_scalef_ps(p, n);
}

INLINE void block_fma(__m512 acc[BLOCK][BLOCK], const __m512 *a, const __m512 *b, unsigned int m, unsigned int n)
{
#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			acc[i][j] = _mm512_fmadd_ps(a[i], b[j], acc[i][j]);
	}
}

INLINE void matmul_block(float *y, size_t ldy, const float *x, size_t ldx, const float *w, size_t ldw, unsigned int k,
			 unsigned int m, unsigned int n)
{
	__m512 acc[BLOCK][BLOCK], a[BLOCK], b[BLOCK];
	unsigned int c = 0;

#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			acc[i][j] = _mm512_setzero_ps();
	}
	for (; c + LANES <= k; c += LANES) {
#pragma GCC unroll 4
		for (unsigned int i = 0; i < m; i++)
			a[i] = _mm512_loadu_ps(x + i * ldx + c);
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			b[j] = _mm512_loadu_ps(w + j * ldw + c);
		block_fma(acc, a, b, m, n);
	}
	if (c < k) {
		__mmask16 mask = tail_mask(k - c);

#pragma GCC unroll 4
		for (unsigned int i = 0; i < m; i++)
			a[i] = _mm512_maskz_loadu_ps(mask, x + i * ldx + c);
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			b[j] = _mm512_maskz_loadu_ps(mask, w + j * ldw + c);
		block_fma(acc, a, b, m, n);
	}
#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
		if (n == BLOCK)
			_mm_storeu_ps(y + i * ldy, sum4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]));
		else
			y[i * ldy] = sum1(acc[i][0]);
	}
}

static void matmul_avx512(float *y, size_t ldy, const float *x, size_t ldx, unsigned int m, const float *w, size_t ldw,
			  unsigned int n, unsigned int k)
{
	for (unsigned int j = 0; j < n;) {
		unsigned int nb = n - j >= BLOCK ? BLOCK : 1;
		unsigned int i = 0;

		if (nb == BLOCK) {
			for (; i + BLOCK <= m; i += BLOCK)
				matmul_block(y + i * ldy + j, ldy, x + i * ldx, ldx, w + j * ldw, ldw, k, BLOCK, BLOCK);
			for (; i < m; i++)
				matmul_block(y + i * ldy + j, ldy, x + i * ldx, ldx, w + j * ldw, ldw, k, 1, BLOCK);
		} else {
			for (; i < m; i++)
				matmul_block(y + i * ldy + j, ldy, x + i * ldx, ldx, w + j * ldw, ldw, k, 1, 1);
		}
		j += nb;
	}
}

/* One or four rows of p times @regs registers of columns of v. */
INLINE void weigh_block(float *y, size_t ldy, const float *p, size_t ldp, const float *v, size_t ldv, unsigned int n,
			unsigned int m, unsigned int regs)
{
	__m512 acc[BLOCK][BLOCK], a[BLOCK], b[BLOCK];

#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
#pragma GCC unroll 4
		for (unsigned int j = 0; j < regs; j++)
			acc[i][j] = _mm512_setzero_ps();
	}
	for (unsigned int t = 0; t < n; t++) {
#pragma GCC unroll 4
		for (unsigned int i = 0; i < m; i++)
			a[i] = _mm512_set1_ps(p[i * ldp + t]);
#pragma GCC unroll 4
		for (unsigned int j = 0; j < regs; j++)
			b[j] = _mm512_loadu_ps(v + t * ldv + j * LANES);
		block_fma(acc, a, b, m, regs);
	}
#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
#pragma GCC unroll 4
		for (unsigned int j = 0; j < regs; j++)
			_mm512_storeu_ps(y + i * ldy + j * LANES, acc[i][j]);
	}
}

static void weigh_tail(float *y, const float *p, const float *v, size_t ldv, unsigned int n, unsigned int d)
{
	__mmask16 mask = tail_mask(d);
	__m512 acc = _mm512_setzero_ps();

	for (unsigned int t = 0; t < n; t++)
		acc = _mm512_fmadd_ps(_mm512_set1_ps(p[t]), _mm512_maskz_loadu_ps(mask, v + t * ldv), acc);
	_mm512_mask_storeu_ps(y, mask, acc);
}

static void weigh_avx512(float *y, size_t ldy, const float *p, size_t ldp, unsigned int m, const float *v, size_t ldv,
			 unsigned int n, unsigned int d)
{
	for (unsigned int i = 0; i < m;) {
		unsigned int mb = m - i >= BLOCK ? BLOCK : 1;
		unsigned int c = 0;

		if (mb == BLOCK) {
			for (; c + 2 * LANES <= d; c += 2 * LANES)
				weigh_block(y + i * ldy + c, ldy, p + i * ldp, ldp, v + c, ldv, n, BLOCK, 2);
		} else {
			for (; c + 4 * LANES <= d; c += 4 * LANES)
				weigh_block(y + i * ldy + c, ldy, p + i * ldp, ldp, v + c, ldv, n, 1, 4);
			for (; c + 2 * LANES <= d; c += 2 * LANES)
				weigh_block(y + i * ldy + c, ldy, p + i * ldp, ldp, v + c, ldv, n, 1, 2);
		}
		for (; c < d; c += LANES) {
			for (unsigned int r = 0; r < mb; r++)
				weigh_tail(y + (i + r) * ldy + c, p + (i + r) * ldp, v + c, ldv, n, d - c);
		}
		i += mb;
	}
}

static void rmsnorm_avx512(float *y, const float *x, const float *w, unsigned int n, float eps)
{
	__m512 acc = _mm512_setzero_ps(), scale;

	for (unsigned int c = 0; c < n; c += LANES) {
		__m512 v = _mm512_maskz_loadu_ps(tail_mask(n - c), x + c);

		acc = _mm512_fmadd_ps(v, v, acc);
	}
	scale = _mm512_set1_ps(1.0f / sqrtf(sum1(acc) / (float)n + eps));
	for (unsigned int c = 0; c < n; c += LANES) {
		__mmask16 mask = tail_mask(n - c);
		__m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + c), scale);

		_mm512_mask_storeu_ps(y + c, mask, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, w + c)));
	}
}

static void softmax_avx512(float *x, unsigned int n, float scale)
{
	__m512 vscale = _mm512_set1_ps(scale), sum = _mm512_setzero_ps(), vmax = _mm512_set1_ps(x[0]), inv;

	for (unsigned int c = 0; c < n; c += LANES) {
		__mmask16 mask = tail_mask(n - c);

		vmax = _mm512_mask_max_ps(vmax, mask, vmax, _mm512_maskz_loadu_ps(mask, x + c));
	}
	vmax = _mm512_set1_ps(_mm512_reduce_max_ps(vmax));
	for (unsigned int c = 0; c < n; c += LANES) {
		__mmask16 mask = tail_mask(n - c);
		__m512 e = exp16(_mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + c), vmax), vscale));

		sum = _mm512_mask_add_ps(sum, mask, sum, e);
		_mm512_mask_storeu_ps(x + c, mask, e);
	}
	inv = _mm512_set1_ps(1.0f / sum1(sum));
	for (unsigned int c = 0; c < n; c += LANES) {
		__mmask16 mask = tail_mask(n - c);

		_mm512_mask_storeu_ps(x + c, mask, _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + c), inv));
	}
}

static void silu_mul_avx512(float *y, const float *gate, const float *up, size_t n)
{
	const __m512 one = _mm512_set1_ps(1.0f);

	for (size_t c = 0; c < n; c += LANES) {
		__mmask16 mask = tail_mask(n - c);
		__m512 g = _mm512_maskz_loadu_ps(mask, gate + c), u = _mm512_maskz_loadu_ps(mask, up + c);
		__m512 e = exp16(_mm512_sub_ps(_mm512_setzero_ps(), g));

		_mm512_mask_storeu_ps(y + c, mask, _mm512_mul_ps(_mm512_div_ps(g, _mm512_add_ps(one, e)), u));
	}
}

static void add_avx512(float *y, const float *x, size_t n)
{
	for (size_t c = 0; c < n; c += LANES) {
		__mmask16 mask = tail_mask(n - c);

		_mm512_mask_storeu_ps(
			y + c, mask,
			_mm512_add_ps(_mm512_maskz_loadu_ps(mask, y + c), _mm512_maskz_loadu_ps(mask, x + c)));
	}
}

static int quant_avx512(int8_t *q, float *scale, const float *x, size_t n)
{
	/* Magnitudes compared as integers: infinities and NaNs are the greatest. */
	__m512i max = _mm512_setzero_si512(), abs_mask = _mm512_set1_epi32(0x7fffffff);
	__m512 vscale;
	int32_t top;
	float amax;

	for (size_t c = 0; c < n; c += LANES) {
		__m512i v = _mm512_maskz_loadu_epi32(tail_mask(n - c), x + c);

		max = _mm512_max_epi32(max, _mm512_and_epi32(v, abs_mask));
	}
	top = _mm512_reduce_max_epi32(max);
	if (top >= 0x7f800000)
		return -1;
	memcpy(&amax, &top, sizeof(amax));
	*scale = amax / 127.0f;
	if (!(*scale > 0.0f)) {
		memset(q, 0, n);
		return 0;
	}
	vscale = _mm512_set1_ps(*scale);
	for (size_t c = 0; c < n; c += LANES) {
		__mmask16 mask = tail_mask(n - c);
		__m512 r = _mm512_roundscale_ps(_mm512_div_ps(_mm512_maskz_loadu_ps(mask, x + c), vscale),
						_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);

		r = _mm512_min_ps(_mm512_max_ps(r, _mm512_set1_ps(-127.0f)), _mm512_set1_ps(127.0f));
		_mm_mask_storeu_epi8(q + c, mask, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(r)));
	}
	return 0;
}

const struct cpu_kernels cpu_kernels_avx512 = {
	.name = "avx512",
	.matmul = matmul_avx512,
	.weigh = weigh_avx512,
	.rmsnorm = rmsnorm_avx512,
	.softmax = softmax_avx512,
	.silu_mul = silu_mul_avx512,
	.add = add_avx512,
	.quant = quant_avx512,
};
