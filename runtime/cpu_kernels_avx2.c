/* SPDX-License-Identifier: MIT */
/*
 * Float kernels of the CPU lane for AVX2 and FMA.
 *
 * matmul keeps a 3x4 block of dot products in twelve registers of eight lanes; each dot product has one register, so
 * the block's size does not change its value. exp is 2^n times the Taylor polynomial of degree 7 on |r| <= ln(2)/2,
 * whose remainder (5e-9) is below an F32 rounding.
 */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "cpu_kernels.h"

#define LANES 8
#define BLOCK_M 3
#define BLOCK_N 4
#define INLINE static inline __attribute__((always_inline))

static const int32_t mask_words[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };

INLINE __m256i tail_mask(size_t n)
{
	return _mm256_loadu_si256((const __m256i *)(mask_words + LANES - n));
}

INLINE __m128 fold(__m256 v)
{
	return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}

/* Sums of four registers, each in the order of sum1(). */
INLINE __m128 sum4(__m256 a, __m256 b, __m256 c, __m256 d)
{
	return _mm_hadd_ps(_mm_hadd_ps(fold(a), fold(b)), _mm_hadd_ps(fold(c), fold(d)));
}

INLINE float sum1(__m256 a)
{
	__m128 h = _mm_hadd_ps(fold(a), fold(a));

	return _mm_cvtss_f32(_mm_hadd_ps(h, h));
}

INLINE __m256 exp8(__m256 x)
{
	const __m256 ln2_hi = _mm256_set1_ps(0.693359375f), ln2_lo = _mm256_set1_ps(-2.12194440e-4f);
	__m256 n, r, p;

	/* The order of the operands keeps a NaN. */
	x = _mm256_min_ps(_mm256_set1_ps(88.0f), _mm256_max_ps(_mm256_set1_ps(-87.3f), x));
	n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
			    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	r = _mm256_fnmadd_ps(n, ln2_lo, _mm256_fnmadd_ps(n, ln2_hi, x));
	p = _mm256_set1_ps(1.0f / 5040.0f);
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 720.0f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120.0f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24.0f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6.0f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
	/* n is -126..127: p 2^n by adding to the exponent. */
	return _mm256_castsi256_ps(
		_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
}

INLINE void block_fma(__m256 acc[BLOCK_M][BLOCK_N], const __m256 *a, const __m256 *b, unsigned int m, unsigned int n)
{
#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			acc[i][j] = _mm256_fmadd_ps(a[i], b[j], acc[i][j]);
	}
}

INLINE void matmul_block(float *y, size_t ldy, const float *x, size_t ldx, const float *w, size_t ldw, unsigned int k,
			 unsigned int m, unsigned int n)
{
	__m256 acc[BLOCK_M][BLOCK_N], a[BLOCK_M], b[BLOCK_N];
	unsigned int c = 0;

#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			acc[i][j] = _mm256_setzero_ps();
	}
	for (; c + LANES <= k; c += LANES) {
#pragma GCC unroll 4
		for (unsigned int i = 0; i < m; i++)
			a[i] = _mm256_loadu_ps(x + i * ldx + c);
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			b[j] = _mm256_loadu_ps(w + j * ldw + c);
		block_fma(acc, a, b, m, n);
	}
	if (c < k) {
		__m256i mask = tail_mask(k - c);

#pragma GCC unroll 4
		for (unsigned int i = 0; i < m; i++)
			a[i] = _mm256_maskload_ps(x + i * ldx + c, mask);
#pragma GCC unroll 4
		for (unsigned int j = 0; j < n; j++)
			b[j] = _mm256_maskload_ps(w + j * ldw + c, mask);
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

static void matmul_avx2(float *y, size_t ldy, const float *x, size_t ldx, unsigned int m, const float *w, size_t ldw,
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

/* One to three rows of p times @regs registers of columns of v. */
INLINE void weigh_block(float *y, size_t ldy, const float *p, size_t ldp, const float *v, size_t ldv, unsigned int n,
			unsigned int m, unsigned int regs)
{
	__m256 acc[BLOCK_M][BLOCK_N], a[BLOCK_M], b[BLOCK_N];

#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
#pragma GCC unroll 4
		for (unsigned int j = 0; j < regs; j++)
			acc[i][j] = _mm256_setzero_ps();
	}
	for (unsigned int t = 0; t < n; t++) {
#pragma GCC unroll 4
		for (unsigned int i = 0; i < m; i++)
			a[i] = _mm256_set1_ps(p[i * ldp + t]);
#pragma GCC unroll 4
		for (unsigned int j = 0; j < regs; j++)
			b[j] = _mm256_loadu_ps(v + t * ldv + j * LANES);
		block_fma(acc, a, b, m, regs);
	}
#pragma GCC unroll 4
	for (unsigned int i = 0; i < m; i++) {
#pragma GCC unroll 4
		for (unsigned int j = 0; j < regs; j++)
			_mm256_storeu_ps(y + i * ldy + j * LANES, acc[i][j]);
	}
}

static void weigh_tail(float *y, const float *p, const float *v, size_t ldv, unsigned int n, unsigned int d)
{
	__m256i mask = tail_mask(d);
	__m256 acc = _mm256_setzero_ps();

	for (unsigned int t = 0; t < n; t++)
		acc = _mm256_fmadd_ps(_mm256_set1_ps(p[t]), _mm256_maskload_ps(v + t * ldv, mask), acc);
	_mm256_maskstore_ps(y, mask, acc);
}

static void weigh_avx2(float *y, size_t ldy, const float *p, size_t ldp, unsigned int m, const float *v, size_t ldv,
		       unsigned int n, unsigned int d)
{
	unsigned int i = 0;

	for (; i < m;) {
		unsigned int mb = m - i >= BLOCK_M ? BLOCK_M : 1;
		unsigned int c = 0;

		if (mb == BLOCK_M) {
			for (; c + 4 * LANES <= d; c += 4 * LANES)
				weigh_block(y + i * ldy + c, ldy, p + i * ldp, ldp, v + c, ldv, n, BLOCK_M, 4);
		} else {
			for (; c + 4 * LANES <= d; c += 4 * LANES)
				weigh_block(y + i * ldy + c, ldy, p + i * ldp, ldp, v + c, ldv, n, 1, 4);
		}
		for (; c < d; c += LANES) {
			for (unsigned int r = 0; r < mb; r++)
				weigh_tail(y + (i + r) * ldy + c, p + (i + r) * ldp, v + c, ldv, n,
					   d - c < LANES ? d - c : LANES);
		}
		i += mb;
	}
}

static void rmsnorm_avx2(float *y, const float *x, const float *w, unsigned int n, float eps)
{
	__m256 acc = _mm256_setzero_ps(), scale;
	unsigned int c = 0;

	for (; c + LANES <= n; c += LANES) {
		__m256 v = _mm256_loadu_ps(x + c);

		acc = _mm256_fmadd_ps(v, v, acc);
	}
	if (c < n) {
		__m256 v = _mm256_maskload_ps(x + c, tail_mask(n - c));

		acc = _mm256_fmadd_ps(v, v, acc);
	}
	scale = _mm256_set1_ps(1.0f / sqrtf(sum1(acc) / (float)n + eps));
	for (c = 0; c + LANES <= n; c += LANES)
		_mm256_storeu_ps(y + c,
				 _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + c), scale), _mm256_loadu_ps(w + c)));
	for (; c < n; c++)
		y[c] = x[c] * _mm256_cvtss_f32(scale) * w[c];
}

static void softmax_avx2(float *x, unsigned int n, float scale)
{
	__m256 sum = _mm256_setzero_ps(), inv, vscale = _mm256_set1_ps(scale), vmax;
	__m256i tail = tail_mask(n % LANES);
	float max = x[0];
	unsigned int c;

	for (unsigned int i = 1; i < n; i++)
		max = x[i] > max ? x[i] : max;
	vmax = _mm256_set1_ps(max);
	for (c = 0; c + LANES <= n; c += LANES) {
		__m256 e = exp8(_mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x + c), vmax), vscale));

		sum = _mm256_add_ps(sum, e);
		_mm256_storeu_ps(x + c, e);
	}
	if (c < n) {
		__m256 e = exp8(_mm256_mul_ps(_mm256_sub_ps(_mm256_maskload_ps(x + c, tail), vmax), vscale));

		sum = _mm256_add_ps(sum, _mm256_and_ps(e, _mm256_castsi256_ps(tail)));
		_mm256_maskstore_ps(x + c, tail, e);
	}
	inv = _mm256_set1_ps(1.0f / sum1(sum));
	for (c = 0; c + LANES <= n; c += LANES)
		_mm256_storeu_ps(x + c, _mm256_mul_ps(_mm256_loadu_ps(x + c), inv));
	for (; c < n; c++)
		x[c] *= _mm256_cvtss_f32(inv);
}

INLINE __m256 silu8(__m256 g, __m256 u)
{
	__m256 one = _mm256_set1_ps(1.0f);
	__m256 e = exp8(_mm256_sub_ps(_mm256_setzero_ps(), g));

	return _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(one, e)), u);
}

static void silu_mul_avx2(float *y, const float *gate, const float *up, size_t n)
{
	size_t c = 0;

	for (; c + LANES <= n; c += LANES)
		_mm256_storeu_ps(y + c, silu8(_mm256_loadu_ps(gate + c), _mm256_loadu_ps(up + c)));
	if (c < n) {
		__m256i mask = tail_mask(n - c);

		_mm256_maskstore_ps(y + c, mask,
				    silu8(_mm256_maskload_ps(gate + c, mask), _mm256_maskload_ps(up + c, mask)));
	}
}

static void add_avx2(float *y, const float *x, size_t n)
{
	size_t c = 0;

	for (; c + LANES <= n; c += LANES)
		_mm256_storeu_ps(y + c, _mm256_add_ps(_mm256_loadu_ps(y + c), _mm256_loadu_ps(x + c)));
	for (; c < n; c++)
		y[c] += x[c];
}

INLINE __m128i quant8(__m256 v, __m256 scale)
{
	__m256 r = _mm256_round_ps(_mm256_div_ps(v, scale), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	__m256i i;
	__m128i h;

	r = _mm256_min_ps(_mm256_max_ps(r, _mm256_set1_ps(-127.0f)), _mm256_set1_ps(127.0f));
	i = _mm256_cvtps_epi32(r);
	h = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
	return _mm_packs_epi16(h, h);
}

static int quant_avx2(int8_t *q, float *scale, const float *x, size_t n)
{
	const __m256 abs_mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
	/* Magnitudes compared as integers: infinities and NaNs are the greatest. */
	__m256i max = _mm256_setzero_si256();
	int32_t lanes[LANES], top = 0;
	size_t c = 0;
	float amax;

	for (; c < n; c += LANES) {
		__m256 v = n - c >= LANES ? _mm256_loadu_ps(x + c) : _mm256_maskload_ps(x + c, tail_mask(n - c));

		max = _mm256_max_epi32(max, _mm256_castps_si256(_mm256_and_ps(v, abs_mask)));
	}
	_mm256_storeu_si256((__m256i *)lanes, max);
	for (int l = 0; l < LANES; l++)
		top = lanes[l] > top ? lanes[l] : top;
	if (top >= 0x7f800000)
		return -1;
	memcpy(&amax, &top, sizeof(amax));
	*scale = amax / 127.0f;
	if (!(*scale > 0.0f)) {
		memset(q, 0, n);
		return 0;
	}
	for (c = 0; c + LANES <= n; c += LANES)
		_mm_storel_epi64((__m128i *)(q + c), quant8(_mm256_loadu_ps(x + c), _mm256_set1_ps(*scale)));
	if (c < n) {
		int8_t tail[16];

		_mm_storeu_si128((__m128i *)tail,
				 quant8(_mm256_maskload_ps(x + c, tail_mask(n - c)), _mm256_set1_ps(*scale)));
		memcpy(q + c, tail, n - c);
	}
	return 0;
}

const struct cpu_kernels cpu_kernels_avx2 = {
	.name = "avx2",
	.matmul = matmul_avx2,
	.weigh = weigh_avx2,
	.rmsnorm = rmsnorm_avx2,
	.softmax = softmax_avx2,
	.silu_mul = silu_mul_avx2,
	.add = add_avx2,
	.quant = quant_avx2,
};
