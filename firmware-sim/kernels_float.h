/* SPDX-License-Identifier: MIT */
/*
 * The float kernels, in GCC's portable vectors. Included by one file per instruction set, which defines FW_KERNELS_NAME
 * (the table's symbol), FW_KERNELS_LABEL and kernel_matmul_i8() before.
 *
 * Order of operations, and so every result, is fixed here and depends neither on the instruction set nor on how a job
 * is cut into tiles: sums run in 16 lanes by index modulo 16 and are folded in halves (8, 4, 2, 1), whether 16 lanes are
 * one register or four; no multiply-add is fused (-ffp-contract=off). A row that is no multiple of the vector ends with
 * one that is filled up with zeros.
 *
 * exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2, where ln 2 is subtracted in two parts and exp(r)
 * is Taylor's polynomial of degree 7. 2^n is applied in two factors, so that the whole range works, subnormals included.
 */
#include <math.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "kernels.h"

/* Vectors that are passed between inlined functions never reach the ABI. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define INLINE static inline __attribute__((always_inline))

/* A register: LANES floats. 16 lanes are PARTS of them; EACH does something for every part. */
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
typedef float v4f __attribute__((vector_size(16)));

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

INLINE vf greater(vf a, vf b)
{
	return choose(a > b, a, b);
}

/* Adding 1.5 * 2^23 rounds to an integer, nearest even, which then stands in the low bits. */
#define ROUND_MAGIC 12582912.0f
#define ROUND_MAGIC_BITS 0x4b400000

INLINE vf exp_v(vf x)
{
	vf hi = splat(89.0f), lo = splat(-104.0f), t, n, r, p;
	vi ni, e1, e2;

	x = choose(x > hi, hi, x);
	x = choose(x < lo, lo, x);
	t = x * 1.44269504f + ROUND_MAGIC;
	n = t - ROUND_MAGIC;
	ni = (vi)t - ROUND_MAGIC_BITS;
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
	return p * (vf)((vu)(e1 + 127) << 23) * (vf)((vu)(e2 + 127) << 23);
}

/* ---- element by element -------------------------------------------------------------------------------------------- */

/* y = f(x) over a row; defines a kernel. */
#define ELEMENTWISE1(name, expr)                                       \
	static void kernel_##name(float *y, const float *xs, size_t n) \
	{                                                              \
		size_t i;                                              \
		vf x;                                                  \
		for (i = 0; i + LANES <= n; i += LANES) {              \
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
		for (i = 0; i + LANES <= n; i += LANES)                                               \
			store(y + i, load(a + i) op load(b + i));                                     \
		if (i < n)                                                                            \
			store_part(y + i, load_part(a + i, n - i) op load_part(b + i, n - i), n - i); \
	}

ELEMENTWISE2(add, +)
ELEMENTWISE2(mul, *)
ELEMENTWISE1(exp, exp_v(x))
ELEMENTWISE1(silu, x / (1.0f + exp_v(-x)))
/* 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3) */
ELEMENTWISE1(gelu, x / (1.0f + exp_v(x * (x * x * -0.0713548163f - 1.59576912f))))

/* To bytes, of numbers that fit. */
INLINE vb narrow(vi x)
{
#if defined(__AVX2__) && !defined(__AVX512F__)
	/* GCC narrows by 4 lane by lane. */
	__m128i q = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
	int64_t bytes = _mm_cvtsi128_si64(_mm_packs_epi16(q, q));
	vb b;

	memcpy(&b, &bytes, sizeof(b));
	return b;
#elif defined(__SSE2__) && !defined(__AVX512F__)
	__m128i q = _mm_packs_epi32((__m128i)x, (__m128i)x);
	int32_t bytes = _mm_cvtsi128_si32(_mm_packs_epi16(q, q));
	vb b;

	memcpy(&b, &bytes, sizeof(b));
	return b;
#else
	return __builtin_convertvector(x, vb);
#endif
}

/* x / s rounded to nearest even and held to -127..127. The clamp matters for subnormal scales, and for a row that
 * changes while it is read. */
INLINE vb quant_v(vf x, float s)
{
	vf hi = splat(127.0f), lo = splat(-127.0f), t = x / s;

	t = choose(t > hi, hi, t);
	t = choose(t < lo, lo, t);
	return narrow((vi)(t + ROUND_MAGIC) - ROUND_MAGIC_BITS);
}

static void kernel_quant(int8_t *q, float *scale, const float *x, size_t n)
{
	size_t i, padded = (n + 3) / 4 * 4;
	vi bits, max = { 0 };
	int32_t t[LANES], m = 0;
	float fmax, s;
	vb b;

	/* Without their sign, floats order as their bits do, infinities and NaNs last. */
	for (i = 0; i < n; i += LANES) {
		bits = (vi)(i + LANES <= n ? load(x + i) : load_part(x + i, n - i)) & 0x7fffffff;
		max = (bits & (bits > max)) | (max & ~(bits > max));
	}
	memcpy(t, &max, sizeof(t));
	for (i = 0; i < LANES; i++)
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
	for (i = 0; i + LANES <= n; i += LANES) {
		b = quant_v(load(x + i), s);
		memcpy(q + i, &b, sizeof(b));
	}
	if (i < n) {
		b = quant_v(load_part(x + i, n - i), s);
		memcpy(q + i, &b, padded - i);
	}
}

static void kernel_dequant(float *y, const int8_t *q, float scale, size_t n)
{
	vb b = { 0 };
	size_t i;

	for (i = 0; i + LANES <= n; i += LANES) {
		memcpy(&b, q + i, sizeof(b));
		store(y + i, __builtin_convertvector(b, vf) * scale);
	}
	if (i < n) {
		memcpy(&b, q + i, n - i);
		store_part(y + i, __builtin_convertvector(b, vf) * scale, n - i);
	}
}

/* ---- over a row ---------------------------------------------------------------------------------------------------- */

/* 16 lanes. */
struct v16 {
#define FIELD(i) vf p##i;
	EACH(FIELD)
};

INLINE struct v16 load16(const float *p)
{
	struct v16 v;

#define LOAD(i) v.p##i = load(p + i * LANES);
	EACH(LOAD)
	return v;
}

INLINE void store16(float *p, struct v16 v)
{
#define STORE(i) store(p + i * LANES, v.p##i);
	EACH(STORE)
}

/* The first n < 16 lanes, the others @fill. */
INLINE struct v16 load16_part(const float *p, size_t n, float fill)
{
	float t[16];
	int i;

	for (i = 0; i < 16; i++)
		t[i] = fill;
	memcpy(t, p, n * sizeof(float));
	return load16(t);
}

INLINE void store16_part(float *p, struct v16 v, size_t n)
{
	float t[16];

	store16(t, v);
	memcpy(p, t, n * sizeof(float));
}

INLINE struct v16 splat16(float x)
{
	struct v16 v;

#define SET(i) v.p##i = splat(x);
	EACH(SET)
	return v;
}

/* a + b */
INLINE struct v16 add16(struct v16 a, struct v16 b)
{
#define ADD(i) a.p##i = a.p##i + b.p##i;
	EACH(ADD)
	return a;
}

/* sum + a * b, rounded twice */
INLINE struct v16 add_mul16(struct v16 sum, struct v16 a, struct v16 b)
{
#define ADD_MUL(i) sum.p##i = sum.p##i + a.p##i * b.p##i;
	EACH(ADD_MUL)
	return sum;
}

INLINE struct v16 mul16(struct v16 a, struct v16 b)
{
#define MUL(i) a.p##i = a.p##i * b.p##i;
	EACH(MUL)
	return a;
}

INLINE struct v16 greater16(struct v16 a, struct v16 b)
{
#define GREATER(i) a.p##i = greater(a.p##i, b.p##i);
	EACH(GREATER)
	return a;
}

/* exp(x - m) */
INLINE struct v16 exp16(struct v16 x, float m)
{
#define EXP(i) x.p##i = exp_v(x.p##i - m);
	EACH(EXP)
	return x;
}

/* The first n lanes of v, the others @fill. */
INLINE struct v16 first16(struct v16 v, unsigned int n, float fill)
{
	const vi iota = IOTA;

#define FIRST(i) v.p##i = choose(iota + i * LANES < (int32_t)n, v.p##i, splat(fill));
	EACH(FIRST)
	return v;
}

INLINE float fold_sum(struct v16 v)
{
	float t[16];
	int half, i;

	store16(t, v);
	for (half = 8; half; half /= 2)
		for (i = 0; i < half; i++)
			t[i] += t[i + half];
	return t[0];
}

INLINE float fold_max(struct v16 v)
{
	float t[16];
	int half, i;

	store16(t, v);
	for (half = 8; half; half /= 2)
		for (i = 0; i < half; i++)
			t[i] = t[i] > t[i + half] ? t[i] : t[i + half];
	return t[0];
}

static void kernel_rmsnorm(float *y, const float *x, const float *w, size_t n, float eps)
{
	struct v16 s0 = splat16(0), s1 = s0, s2 = s0, s3 = s0, t;
	float inv;
	size_t i;

	for (i = 0; i + 64 <= n; i += 64) {
		t = load16(x + i);
		s0 = add_mul16(s0, t, t);
		t = load16(x + i + 16);
		s1 = add_mul16(s1, t, t);
		t = load16(x + i + 32);
		s2 = add_mul16(s2, t, t);
		t = load16(x + i + 48);
		s3 = add_mul16(s3, t, t);
	}
	for (; i + 16 <= n; i += 16) {
		t = load16(x + i);
		s0 = add_mul16(s0, t, t);
	}
	t = load16_part(x + i, n - i, 0);
	s1 = add_mul16(s1, t, t);
	inv = 1.0f / sqrtf(fold_sum(add16(add16(s0, s1), add16(s2, s3))) / (float)n + eps);
	for (i = 0; i + LANES <= n; i += LANES)
		store(y + i, load(x + i) * inv * load(w + i));
	if (i < n)
		store_part(y + i, load_part(x + i, n - i) * inv * load_part(w + i, n - i), n - i);
}

static void kernel_softmax(float *y, const float *x, size_t n, size_t cols, float scale)
{
	struct v16 s = splat16(scale), m = splat16(-INFINITY), sum = splat16(0), t;
	float max, inv;
	size_t i;

	for (i = 0; i + 16 <= n; i += 16)
		m = greater16(mul16(load16(x + i), s), m);
	t = first16(mul16(load16_part(x + i, n - i, 0), s), n - i, -INFINITY);
	max = fold_max(greater16(t, m));
	for (i = 0; i + 16 <= n; i += 16) {
		t = exp16(mul16(load16(x + i), s), max);
		sum = add16(sum, t);
		store16(y + i, t);
	}
	if (i < n) {
		t = first16(exp16(mul16(load16_part(x + i, n - i, 0), s), max), n - i, 0);
		sum = add16(sum, t);
		store16_part(y + i, t, n - i);
	}
	inv = 1.0f / fold_sum(sum);
	for (i = 0; i + LANES <= n; i += LANES)
		store(y + i, load(y + i) * inv);
	if (i < n)
		store_part(y + i, load_part(y + i, n - i) * inv, n - i);
	memset(y + n, 0, (cols - n) * sizeof(float));
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
#if LANES == 16
INLINE struct v16 fold_sum16(const struct v16 in[16])
{
	const vi lo8 = { 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23 };
	const vi lo4 = { 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27 };
	const vi lo2 = { 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29 };
	const vi lo1 = { 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30 };
	struct v16 sum;
	vf t[8];
	int i;

#pragma GCC unroll 8
	for (i = 0; i < 8; i++)
		t[i] = __builtin_shuffle(in[i].p0, in[i + 8].p0, lo8) +
		       __builtin_shuffle(in[i].p0, in[i + 8].p0, lo8 + 8);
#pragma GCC unroll 4
	for (i = 0; i < 4; i++)
		t[i] = __builtin_shuffle(t[i], t[i + 4], lo4) + __builtin_shuffle(t[i], t[i + 4], lo4 + 4);
#pragma GCC unroll 2
	for (i = 0; i < 2; i++)
		t[i] = __builtin_shuffle(t[i], t[i + 2], lo2) + __builtin_shuffle(t[i], t[i + 2], lo2 + 2);
	sum.p0 = __builtin_shuffle(t[0], t[1], lo1) + __builtin_shuffle(t[0], t[1], lo1 + 1);
	return sum;
}
#else
INLINE v4f fold_4(struct v16 v)
{
#if LANES == 8
	vf h = v.p0 + v.p1;

	return __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
#else
	return (v.p0 + v.p2) + (v.p1 + v.p3);
#endif
}

INLINE v4f fold_2(v4f a, v4f b)
{
	return __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
}

INLINE v4f fold_1(v4f a, v4f b)
{
	return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}

INLINE struct v16 fold_sum16(const struct v16 in[16])
{
	float sums[16];
	v4f t;
	int i;

#pragma GCC unroll 4
	for (i = 0; i < 16; i += 4) {
		t = fold_1(fold_2(fold_4(in[i]), fold_4(in[i + 1])), fold_2(fold_4(in[i + 2]), fold_4(in[i + 3])));
		memcpy(sums + i, &t, sizeof(t));
	}
	return load16(sums);
}
#endif

/* Scores of keys j0..j0 + n - 1, n <= 16; -inf in the other lanes. */
INLINE struct v16 attn_scores(const struct fw_attn *t, const struct v16 *q, uint32_t vecs, uint32_t tail, uint64_t j0,
			      unsigned int n)
{
	struct v16 part[16], sum;
	const float *k;
	unsigned int j;
	uint32_t i;

	for (j = 0; j < 16; j++) {
		sum = splat16(0);
		if (j < n) {
			k = t->k + (j0 + j) * t->ldk;
			for (i = 0; i < vecs; i++)
				sum = add_mul16(sum, q[i], load16(k + 16 * i));
			if (tail)
				sum = add_mul16(sum, q[i], load16_part(k + 16 * i, tail, 0));
		}
		part[j] = sum;
	}
	return first16(mul16(fold_sum16(part), splat16(t->scale)), n, -INFINITY);
}

/* acc = acc * scale + sum_j p[j] v[j]; as many sums side by side as there are registers for. */
INLINE void attn_values(const struct fw_attn *t, struct v16 *acc, uint32_t vecs, uint32_t tail, const float *p,
			uint64_t j0, unsigned int n, float scale)
{
	const float *v0 = t->v + j0 * t->ldv, *v;
	struct v16 a0, a1, s = splat16(scale), w;
	unsigned int j;
	uint32_t i = 0;
#if LANES == 16
	struct v16 a2, a3;

	for (; i + 4 <= vecs; i += 4) {
		a0 = mul16(acc[i], s);
		a1 = mul16(acc[i + 1], s);
		a2 = mul16(acc[i + 2], s);
		a3 = mul16(acc[i + 3], s);
		for (j = 0, v = v0 + 16 * i; j < n; j++, v += t->ldv) {
			w = splat16(p[j]);
			a0 = add_mul16(a0, w, load16(v));
			a1 = add_mul16(a1, w, load16(v + 16));
			a2 = add_mul16(a2, w, load16(v + 32));
			a3 = add_mul16(a3, w, load16(v + 48));
		}
		acc[i] = a0;
		acc[i + 1] = a1;
		acc[i + 2] = a2;
		acc[i + 3] = a3;
	}
#endif
	for (; i + 2 <= vecs; i += 2) {
		a0 = mul16(acc[i], s);
		a1 = mul16(acc[i + 1], s);
		for (j = 0, v = v0 + 16 * i; j < n; j++, v += t->ldv) {
			w = splat16(p[j]);
			a0 = add_mul16(a0, w, load16(v));
			a1 = add_mul16(a1, w, load16(v + 16));
		}
		acc[i] = a0;
		acc[i + 1] = a1;
	}
	if (i < vecs) {
		a0 = mul16(acc[i], s);
		for (j = 0, v = v0 + 16 * i; j < n; j++, v += t->ldv)
			a0 = add_mul16(a0, splat16(p[j]), load16(v));
		acc[i++] = a0;
	}
	if (tail) {
		a0 = mul16(acc[i], s);
		for (j = 0, v = v0 + 16 * i; j < n; j++, v += t->ldv)
			a0 = add_mul16(a0, splat16(p[j]), load16_part(v, tail, 0));
		acc[i] = a0;
	}
}

/* What a query carries from block to block. */
struct attn_query {
	struct v16 q[ATTN_VECS], acc[ATTN_VECS];
	float max, total;
};

INLINE void attn_block(const struct fw_attn *t, struct attn_query *q, uint32_t vecs, uint32_t tail, uint64_t j0,
		       unsigned int n)
{
	struct v16 s[ATTN_BLOCK / 16], mx = splat16(q->max), sum = splat16(0);
	float p[ATTN_BLOCK], m, scale;
	unsigned int b;

	for (b = 0; b * 16 < n; b++) {
		s[b] = attn_scores(t, q->q, vecs, tail, j0 + b * 16, n - b * 16 < 16 ? n - b * 16 : 16);
		mx = greater16(s[b], mx);
	}
	m = fold_max(mx);
	for (b = 0; b * 16 < n; b++) {
		s[b] = exp16(s[b], m);
		sum = add16(sum, s[b]);
		store16(p + b * 16, s[b]);
	}
	scale = exp_v(splat(q->max - m))[0];
	q->total = q->total * scale + fold_sum(sum);
	q->max = m;
	attn_values(t, q->acc, vecs, tail, p, j0, n, scale);
}

/*
 * One pass over the keys in blocks: scores, the greatest one so far, and sums that are rescaled when it grows. The
 * queries take turns at a block, which stays in the cache.
 */
static void kernel_attn(const struct fw_attn *t)
{
	uint32_t vecs = t->head_dim / 16, tail = t->head_dim % 16, i;
	struct attn_query query[4], *q;
	uint64_t j0, most = 0, left;
	struct v16 inv;
	unsigned int r;

	for (r = 0, q = query; r < t->nr_q; r++, q++) {
		for (i = 0; i < vecs; i++)
			q->q[i] = load16(t->q[r] + 16 * i);
		if (tail)
			q->q[i] = load16_part(t->q[r] + 16 * i, tail, 0);
		for (i = 0; i < vecs + !!tail; i++)
			q->acc[i] = splat16(0);
		q->max = -INFINITY;
		q->total = 0;
		most = t->nr_keys[r] > most ? t->nr_keys[r] : most;
	}
	for (j0 = 0; j0 < most; j0 += ATTN_BLOCK) {
		for (r = 0; r < t->nr_q; r++) {
			if (j0 >= t->nr_keys[r])
				continue;
			left = t->nr_keys[r] - j0;
			attn_block(t, &query[r], vecs, tail, j0, left < ATTN_BLOCK ? left : ATTN_BLOCK);
		}
	}
	for (r = 0, q = query; r < t->nr_q; r++, q++) {
		inv = splat16(1.0f / q->total);
		for (i = 0; i < vecs; i++)
			store16(t->y[r] + 16 * i, mul16(q->acc[i], inv));
		if (tail)
			store16_part(t->y[r] + 16 * i, mul16(q->acc[i], inv), tail);
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
