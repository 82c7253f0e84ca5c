/* SPDX-License-Identifier: MIT */
/*
 * The float kernels, in GCC's portable vectors of 16 lanes. Included by one file per instruction set, which defines
 * FW_KERNELS_NAME (the table's symbol), FW_KERNELS_LABEL and kernel_matmul_i8() before.
 *
 * Order of operations, and so every result, is fixed here and depends neither on the instruction set nor on how a job
 * is cut into tiles: sums run in lanes by index modulo the vector length and are folded in halves (8, 4, 2, 1); no
 * multiply-add is fused (-ffp-contract=off). A row that is no multiple of 16 ends with a vector filled up with zeros.
 *
 * exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2, where ln 2 is subtracted in two parts and exp(r)
 * is Taylor's polynomial of degree 7. 2^n is applied in two factors, so that the whole range works, subnormals included.
 */
#include <math.h>
#include <string.h>

#include "kernels.h"

/* Vectors of 16 passed between inlined functions never reach the ABI. */
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float v16f __attribute__((vector_size(64)));
typedef int32_t v16i __attribute__((vector_size(64)));
typedef uint32_t v16u __attribute__((vector_size(64)));
typedef int8_t v16b __attribute__((vector_size(16)));

#define INLINE static inline __attribute__((always_inline))

INLINE v16f load(const float *p)
{
	v16f v;

	memcpy(&v, p, sizeof(v));
	return v;
}

INLINE void store(float *p, v16f v)
{
	memcpy(p, &v, sizeof(v));
}

/* The first n < 16 lanes, the others 0. */
INLINE v16f load_part(const float *p, size_t n)
{
	v16f v = { 0 };

	memcpy(&v, p, n * sizeof(float));
	return v;
}

INLINE void store_part(float *p, v16f v, size_t n)
{
	memcpy(p, &v, n * sizeof(float));
}

INLINE v16f splat(float x)
{
	return (v16f){ x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x };
}

INLINE v16f select16(v16i mask, v16f a, v16f b)
{
	return (v16f)(((v16i)a & mask) | ((v16i)b & ~mask));
}

INLINE float fold_sum(v16f v)
{
	float t[16];
	int half, i;

	memcpy(t, &v, sizeof(t));
	for (half = 8; half; half /= 2)
		for (i = 0; i < half; i++)
			t[i] += t[i + half];
	return t[0];
}

INLINE float fold_max(v16f v)
{
	float t[16];
	int half, i;

	memcpy(t, &v, sizeof(t));
	for (half = 8; half; half /= 2)
		for (i = 0; i < half; i++)
			t[i] = t[i] > t[i + half] ? t[i] : t[i + half];
	return t[0];
}

/* Adding 1.5 * 2^23 rounds to an integer, nearest even, which then stands in the low bits. */
#define ROUND_MAGIC 12582912.0f
#define ROUND_MAGIC_BITS 0x4b400000

INLINE v16f exp16(v16f x)
{
	v16f hi = splat(89.0f), lo = splat(-104.0f), t, n, r, p;
	v16i ni, e1, e2;

	x = select16(x > hi, hi, x);
	x = select16(x < lo, lo, x);
	t = x * 1.44269504f + ROUND_MAGIC;
	n = t - ROUND_MAGIC;
	ni = (v16i)t - ROUND_MAGIC_BITS;
	r = x - n * 0.693359375f;
	r = r - n * -2.12194440e-4f;
	p = r * (1.0f / 5040) + (1.0f / 720);
	p = p * r + (1.0f / 120);
	p = p * r + (1.0f / 24);
	p = p * r + (1.0f / 6);
	p = p * r + 0.5f;
	p = p * r + 1.0f;
	p = p * r + 1.0f;
	e1 = ni >> 1;
	e2 = ni - e1;
	return p * (v16f)((v16u)(e1 + 127) << 23) * (v16f)((v16u)(e2 + 127) << 23);
}

/* y = f(x) over a row, in vectors; defines a kernel. */
#define ELEMENTWISE1(name, expr)                                       \
	static void kernel_##name(float *y, const float *xs, size_t n) \
	{                                                              \
		size_t i;                                              \
		v16f x;                                                \
		for (i = 0; i + 16 <= n; i += 16) {                    \
			x = load(xs + i);                              \
			store(y + i, expr);                            \
		}                                                      \
		if (i < n) {                                           \
			x = load_part(xs + i, n - i);                  \
			store_part(y + i, expr, n - i);                \
		}                                                      \
	}

#define ELEMENTWISE2(name, op)                                                                        \
	static void kernel_##name(float *y, const float *a, const float *b, size_t n)                 \
	{                                                                                             \
		size_t i;                                                                             \
		for (i = 0; i + 16 <= n; i += 16)                                                     \
			store(y + i, load(a + i) op load(b + i));                                     \
		if (i < n)                                                                            \
			store_part(y + i, load_part(a + i, n - i) op load_part(b + i, n - i), n - i); \
	}

ELEMENTWISE2(add, +)
ELEMENTWISE2(mul, *)
ELEMENTWISE1(exp, exp16(x))
ELEMENTWISE1(silu, x / (1.0f + exp16(-x)))
/* 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3) */
ELEMENTWISE1(gelu, x / (1.0f + exp16(x * (x * x * -0.0713548163f - 1.59576912f))))

static void kernel_rmsnorm(float *y, const float *x, const float *w, size_t n, float eps)
{
	v16f s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 }, t, inv;
	size_t i;

	for (i = 0; i + 64 <= n; i += 64) {
		t = load(x + i);
		s0 += t * t;
		t = load(x + i + 16);
		s1 += t * t;
		t = load(x + i + 32);
		s2 += t * t;
		t = load(x + i + 48);
		s3 += t * t;
	}
	for (; i + 16 <= n; i += 16) {
		t = load(x + i);
		s0 += t * t;
	}
	t = load_part(x + i, n - i);
	s1 += t * t;
	inv = splat(1.0f / sqrtf(fold_sum((s0 + s1) + (s2 + s3)) / (float)n + eps));
	for (i = 0; i + 16 <= n; i += 16)
		store(y + i, load(x + i) * inv * load(w + i));
	if (i < n)
		store_part(y + i, load_part(x + i, n - i) * inv * load_part(w + i, n - i), n - i);
}

static void kernel_softmax(float *y, const float *x, size_t n, size_t cols, float scale)
{
	v16f m = splat(-INFINITY), sum = { 0 }, t;
	const v16i lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	v16i live = lane < (int32_t)(n % 16);
	size_t i;

	for (i = 0; i + 16 <= n; i += 16) {
		t = load(x + i) * scale;
		m = select16(t > m, t, m);
	}
	t = select16(live, load_part(x + i, n - i) * scale, m);
	m = splat(fold_max(select16(t > m, t, m)));
	for (i = 0; i + 16 <= n; i += 16) {
		t = exp16(load(x + i) * scale - m);
		sum += t;
		store(y + i, t);
	}
	if (i < n) {
		t = select16(live, exp16(load_part(x + i, n - i) * scale - m), (v16f){ 0 });
		sum += t;
		store_part(y + i, t, n - i);
	}
	t = splat(1.0f / fold_sum(sum));
	for (i = 0; i + 16 <= n; i += 16)
		store(y + i, load(y + i) * t);
	if (i < n)
		store_part(y + i, load_part(y + i, n - i) * t, n - i);
	memset(y + n, 0, (cols - n) * sizeof(float));
}

/* x / s rounded to nearest even and held to -127..127. The clamp matters for subnormal scales, and for a row that
 * changes while it is read. */
INLINE v16i quant16(v16f x, float s)
{
	v16f hi = splat(127.0f), lo = splat(-127.0f), t = x / s;

	t = select16(t > hi, hi, t);
	t = select16(t < lo, lo, t);
	return (v16i)(t + ROUND_MAGIC) - ROUND_MAGIC_BITS;
}

static void kernel_quant(int8_t *q, float *scale, const float *x, size_t n)
{
	size_t i, padded = (n + 3) / 4 * 4;
	v16i bits, max = { 0 };
	int32_t t[16], m = 0;
	float fmax, s;
	v16b b;

	/* Without their sign, floats order as their bits do, infinities and NaNs last. */
	for (i = 0; i < n; i += 16) {
		bits = (v16i)(i + 16 <= n ? load(x + i) : load_part(x + i, n - i)) & 0x7fffffff;
		max = (bits & (bits > max)) | (max & ~(bits > max));
	}
	memcpy(t, &max, sizeof(t));
	for (i = 0; i < 16; i++)
		m = t[i] > m ? t[i] : m;
	memcpy(&fmax, &m, sizeof(fmax));
	s = fmax / 127.0f;
	if (m >= 0x7f800000)
		s = NAN;
	*scale = s;
	if (!(s > 0)) {
		memset(q, 0, padded);
		return;
	}
	for (i = 0; i + 16 <= n; i += 16) {
		b = __builtin_convertvector(quant16(load(x + i), s), v16b);
		memcpy(q + i, &b, sizeof(b));
	}
	if (i < n) {
		b = __builtin_convertvector(quant16(load_part(x + i, n - i), s), v16b);
		memcpy(q + i, &b, padded - i);
	}
}

static void kernel_dequant(float *y, const int8_t *q, float scale, size_t n)
{
	v16b b = { 0 };
	size_t i;

	for (i = 0; i + 16 <= n; i += 16) {
		memcpy(&b, q + i, sizeof(b));
		store(y + i, __builtin_convertvector(b, v16f) * scale);
	}
	if (i < n) {
		memcpy(&b, q + i, n - i);
		store_part(y + i, __builtin_convertvector(b, v16f) * scale, n - i);
	}
}

static void kernel_rope(float *y, const float *x, const float *inv_freq, uint64_t pos, uint32_t heads,
			uint32_t head_dim, uint32_t rot_dim, uint32_t mode, void *scratch)
{
	uint32_t half = rot_dim / 2, h, i;
	uint32_t step = mode == VNPU_ROPE_ADJACENT ? 2 : 1, other = mode == VNPU_ROPE_ADJACENT ? 1 : half;
	float *s = scratch, *c = s + half, a, b;

	for (i = 0; i < half; i++)
		fw_sincos((double)pos * inv_freq[i], &s[i], &c[i]);
	for (h = 0; h < heads; h++, x += head_dim, y += head_dim) {
		for (i = 0; i < half; i++) {
			a = x[i * step];
			b = x[i * step + other];
			y[i * step] = a * c[i] - b * s[i];
			y[i * step + other] = a * s[i] + b * c[i];
		}
		if (y != x)
			memmove(y + rot_dim, x + rot_dim, (head_dim - rot_dim) * sizeof(float));
	}
}

/* ---- attention ----------------------------------------------------------------------------------------------------- */

#define ATTN_BLOCK 64 /* keys */
#define ATTN_VECS (VNPU_MAX_HEAD_DIM / 16)

/* Lane j becomes the sum of in[j], folded as fold_sum() does. */
INLINE v16f fold_sum16(v16f in[16])
{
	const v16i lo8 = { 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23 };
	const v16i lo4 = { 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27 };
	const v16i lo2 = { 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29 };
	const v16i lo1 = { 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30 };
	int i;

#pragma GCC unroll 8
	for (i = 0; i < 8; i++)
		in[i] = __builtin_shuffle(in[i], in[i + 8], lo8) + __builtin_shuffle(in[i], in[i + 8], lo8 + 8);
#pragma GCC unroll 4
	for (i = 0; i < 4; i++)
		in[i] = __builtin_shuffle(in[i], in[i + 4], lo4) + __builtin_shuffle(in[i], in[i + 4], lo4 + 4);
#pragma GCC unroll 2
	for (i = 0; i < 2; i++)
		in[i] = __builtin_shuffle(in[i], in[i + 2], lo2) + __builtin_shuffle(in[i], in[i + 2], lo2 + 2);
	return __builtin_shuffle(in[0], in[1], lo1) + __builtin_shuffle(in[0], in[1], lo1 + 1);
}

/* Scores of keys j0..j0 + n - 1, n <= 16; -inf in the other lanes. */
INLINE v16f attn_scores(const struct fw_attn *t, const v16f *q, uint32_t vecs, uint32_t tail, uint64_t j0,
			unsigned int n)
{
	const v16i lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	v16f part[16], sum;
	const float *k;
	unsigned int j;
	uint32_t i;

	for (j = 0; j < 16; j++) {
		sum = (v16f){ 0 };
		if (j < n) {
			k = t->k + (j0 + j) * t->ldk;
			for (i = 0; i < vecs; i++)
				sum += q[i] * load(k + 16 * i);
			if (tail)
				sum += q[i] * load_part(k + 16 * i, tail);
		}
		part[j] = sum;
	}
	return select16(lane < (int32_t)n, fold_sum16(part) * t->scale, splat(-INFINITY));
}

/* acc = acc * scale + sum_j p[j] v[j], four vectors of the head at a time. */
INLINE void attn_values(const struct fw_attn *t, v16f *acc, uint32_t vecs, uint32_t tail, const float *p, uint64_t j0,
			unsigned int n, float scale)
{
	const float *v0 = t->v + j0 * t->ldv, *v;
	v16f a0, a1, a2, a3, w;
	unsigned int j;
	uint32_t i;

	for (i = 0; i + 4 <= vecs; i += 4) {
		a0 = acc[i] * scale;
		a1 = acc[i + 1] * scale;
		a2 = acc[i + 2] * scale;
		a3 = acc[i + 3] * scale;
		for (j = 0, v = v0 + 16 * i; j < n; j++, v += t->ldv) {
			w = splat(p[j]);
			a0 += w * load(v);
			a1 += w * load(v + 16);
			a2 += w * load(v + 32);
			a3 += w * load(v + 48);
		}
		acc[i] = a0;
		acc[i + 1] = a1;
		acc[i + 2] = a2;
		acc[i + 3] = a3;
	}
	for (; i < vecs; i++) {
		a0 = acc[i] * scale;
		for (j = 0, v = v0 + 16 * i; j < n; j++, v += t->ldv)
			a0 += splat(p[j]) * load(v);
		acc[i] = a0;
	}
	if (tail) {
		a0 = acc[i] * scale;
		for (j = 0, v = v0 + 16 * i; j < n; j++, v += t->ldv)
			a0 += splat(p[j]) * load_part(v, tail);
		acc[i] = a0;
	}
}

/*
 * One pass over the keys in blocks: scores, the greatest one so far, and sums that are rescaled when it grows. The
 * queries take turns at a block, which stays in the cache.
 */
static void kernel_attn(const struct fw_attn *t)
{
	uint32_t vecs = t->head_dim / 16, tail = t->head_dim % 16, i;
	v16f q[4][ATTN_VECS], acc[4][ATTN_VECS], s[ATTN_BLOCK / 16], mx, sum;
	float max[4], total[4], p[ATTN_BLOCK], m, scale;
	uint64_t j0, most = 0;
	unsigned int r, n, b;

	for (r = 0; r < t->nr_q; r++) {
		for (i = 0; i < vecs; i++)
			q[r][i] = load(t->q[r] + 16 * i);
		if (tail)
			q[r][i] = load_part(t->q[r] + 16 * i, tail);
		memset(acc[r], 0, (vecs + !!tail) * sizeof(v16f));
		max[r] = -INFINITY;
		total[r] = 0;
		most = t->nr_keys[r] > most ? t->nr_keys[r] : most;
	}
	for (j0 = 0; j0 < most; j0 += ATTN_BLOCK) {
		for (r = 0; r < t->nr_q; r++) {
			if (j0 >= t->nr_keys[r])
				continue;
			n = t->nr_keys[r] - j0 < ATTN_BLOCK ? t->nr_keys[r] - j0 : ATTN_BLOCK;
			mx = splat(max[r]);
			for (b = 0; b * 16 < n; b++) {
				s[b] = attn_scores(t, q[r], vecs, tail, j0 + b * 16, n - b * 16 < 16 ? n - b * 16 : 16);
				mx = select16(s[b] > mx, s[b], mx);
			}
			m = fold_max(mx);
			sum = (v16f){ 0 };
			for (b = 0; b * 16 < n; b++) {
				s[b] = exp16(s[b] - m);
				sum += s[b];
				store(p + b * 16, s[b]);
			}
			scale = exp16(splat(max[r] - m))[0];
			total[r] = total[r] * scale + fold_sum(sum);
			max[r] = m;
			attn_values(t, acc[r], vecs, tail, p, j0, n, scale);
		}
	}
	for (r = 0; r < t->nr_q; r++) {
		scale = 1.0f / total[r];
		for (i = 0; i < vecs; i++)
			store(t->y[r] + 16 * i, acc[r][i] * scale);
		if (tail)
			store_part(t->y[r] + 16 * i, acc[r][i] * scale, tail);
	}
}

const struct fw_kernels FW_KERNELS_NAME = {
	.name = FW_KERNELS_LABEL,
	.matmul_i8 = kernel_matmul_i8,
	.add = kernel_add,
	.mul = kernel_mul,
	.silu = kernel_silu,
	.gelu = kernel_gelu,
	.rmsnorm = kernel_rmsnorm,
	.softmax = kernel_softmax,
	.quant = kernel_quant,
	.dequant = kernel_dequant,
	.rope = kernel_rope,
	.attn = kernel_attn,
	.exp = kernel_exp,
};
