/* SPDX-License-Identifier: MIT */
/*
 * The float kernels, in GCC's portable vectors. Each file that includes this one, one per
 * instruction set, defines first: FW_KERNELS_NAME (the table's symbol), FW_KERNELS_LABEL,
 * kernel_matmul_i8(), kernel_matmul_w4(), kernel_matmul_w4f() and kernel_qk_i8(), and
 * FW_KERNELS_I8_ROWS and FW_KERNELS_I8_STEP if i8_rows is not 0.
 *
 * The order of operations, and so every result, is fixed here and depends neither on the
 * instruction set nor on how a job is divided into tiles: sums run in 16 lanes by index modulo 16
 * and are reduced by halves (8, 4, 2, 1), whether 16 lanes are one register or four; a multiply-add
 * is fused only if it is written as fma_v() (-ffp-contract=off). The last vector of a row is padded
 * with zeros.
 */
#include "kernels_vec.h"

/* ---- element by element ---------------------------------------------------------------------- */

/* Defines a kernel: y = f(x) over a row. */
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

#define ELEMENTWISE2(name, op)                                                                \
	static void kernel_##name(float *y, const float *a, const float *b, size_t n)         \
	{                                                                                     \
		size_t i;                                                                     \
		for (i = 0; i + LANES <= n; i += LANES)                                       \
			store(y + i, load(a + i) op load(b + i));                             \
		if (i < n)                                                                    \
			store_part(y + i, load_part(a + i, n - i) op load_part(b + i, n - i), \
				   n - i);                                                    \
	}

ELEMENTWISE2(add, +)
ELEMENTWISE2(mul, *)
ELEMENTWISE1(exp, exp_v(x))

#include "kernels_act.h"

/* Converts numbers in range to bytes. */
INLINE vb narrow(vi x)
{
#if defined(__AVX2__) && !defined(__AVX512F__)
	/* GCC would convert lane by lane. */
	__m128i q = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)x),
				    _mm256_extracti128_si256((__m256i)x, 1));
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
#elif defined(__ARM_FEATURE_DOTPROD)
	int16x4_t q = vmovn_s32((int32x4_t)x);
	int8x8_t bytes = vmovn_s16(vcombine_s16(q, q));
	vb b;

	memcpy(&b, &bytes, sizeof(b));
	return b;
#else
	return __builtin_convertvector(x, vb);
#endif
}

/* Rounds a quotient to nearest, ties to even, and clamps it to -127..127. The clamp matters for
 * subnormal scales, and for a row that changes while it is read. */
INLINE vb quant_v(vf t)
{
	t = greater(splat(-127.0f), lesser(splat(127.0f), t));
	return narrow((vi)(t + ROUND_MAGIC) - ROUND_MAGIC_BITS);
}

#if LANES >= 8
/*
 * x / s, rounded as a division rounds it, from inv = 1 / s, several times as fast (Markstein): each
 * step adds the exact remainder of the quotient, divided by s. After the first step the quotient is
 * off by less than a unit in the last place, after the second it is correctly rounded. If s is far
 * from both ends of the floats' range, nothing that matters to quant_v() underflows.
 */
INLINE vf divide_v(vf x, vf s, vf inv)
{
	vf q = x * inv;

	q = fma_v(fma_v(-q, s, x), inv, q);
	return fma_v(fma_v(-q, s, x), inv, q);
}

#define DIVIDE_MIN 0x1p-100f
#define DIVIDE_MAX 0x1p100f
#endif

INLINE vi greater_i(vi a, vi b)
{
#if LANES == 16
	return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif LANES == 8
	return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
	return (a & (a > b)) | (b & ~(a > b));
#endif
}

/* The bits of the largest |x|: without sign, floats compare as integers, infinities, NaNs last. */
static int32_t greatest_bits(const float *x, size_t n)
{
	int32_t t[LANES], m = 0;
	vi bits, max = { 0 };
	size_t i;

	for (i = 0; i < n; i += LANES) {
		bits = (vi)(i + LANES <= n ? load(x + i) : load_part(x + i, n - i)) & 0x7fffffff;
		max = greater_i(bits, max);
	}
	memcpy(t, &max, sizeof(t));
	for (i = 0; i < LANES; i++)
		m = t[i] > m ? t[i] : m;
	return m;
}

/* q = x / @s, which is above 0; padded. @beyond: x may exceed 127 s by any factor. */
INLINE void quant_by(int8_t *q, const float *x, size_t n, float s, const bool beyond)
{
	size_t i = 0, padded = (n + 3) / 4 * 4;
	vb b;

#if LANES >= 8
	if (s >= DIVIDE_MIN && s <= DIVIDE_MAX)
		for (; i + LANES <= n; i += LANES) {
			vf v = load(x + i);

			/* A quotient of infinity would have no remainder. */
			if (beyond)
				v = greater(splat(-128 * s), lesser(splat(128 * s), v));
			b = quant_v(divide_v(v, splat(s), splat(1.0f / s)));
			memcpy(q + i, &b, sizeof(b));
		}
#endif
	for (; i + LANES <= n; i += LANES) {
		b = quant_v(load(x + i) / s);
		memcpy(q + i, &b, sizeof(b));
	}
	if (i < n) {
		b = quant_v(load_part(x + i, n - i) / s);
		memcpy(q + i, &b, padded - i);
	}
}

static void kernel_quant(int8_t *q, float *scale, const float *x, size_t n)
{
	int32_t m = greatest_bits(x, n);
	float fmax, s;

	memcpy(&fmax, &m, sizeof(fmax));
	s = fmax / 127.0f;
	if (m >= 0x7f800000)
		s = NAN;
	*scale = s;
	if (s > 0)
		quant_by(q, x, n, s, false);
	else
		memset(q, 0, (n + 3) / 4 * 4);
}

static void kernel_quant_static(int8_t *q, float *scale, const float *x, size_t n, float s)
{
	bool good = s > 0 && s < INFINITY && greatest_bits(x, n) < 0x7f800000;

	*scale = good ? s : NAN;
	if (good)
		quant_by(q, x, n, s, true);
	else
		memset(q, 0, (n + 3) / 4 * 4);
}

static void kernel_dequant(float *y, const int8_t *q, float scale, size_t n)
{
	int8_t last[LANES] = { 0 };
	size_t i;

	for (i = 0; i + LANES <= n; i += LANES)
		store(y + i, load_s8(q + i) * scale);
	if (i < n) {
		memcpy(last, q + i, n - i);
		store_part(y + i, load_s8(last) * scale, n - i);
	}
}

static void kernel_rest(float *y, const float *x, const int8_t *q, float scale, size_t n)
{
	int8_t last[LANES] = { 0 };
	size_t i;

	for (i = 0; i + LANES <= n; i += LANES)
		store(y + i, fma_v(-load_s8(q + i), splat(scale), load(x + i)));
	if (i < n) {
		memcpy(last, q + i, n - i);
		store_part(y + i, fma_v(-load_s8(last), splat(scale), load_part(x + i, n - i)),
			   n - i);
	}
}

/* ---- over a row ------------------------------------------------------------------------------ */

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

/* a - b */
INLINE struct v16 sub16(struct v16 a, struct v16 b)
{
#define SUB(i) a.p##i = a.p##i - b.p##i;
	EACH(SUB)
	return a;
}

/* sum + a * b, rounded twice */
INLINE struct v16 add_mul16(struct v16 sum, struct v16 a, struct v16 b)
{
#define ADD_MUL(i) sum.p##i = sum.p##i + a.p##i * b.p##i;
	EACH(ADD_MUL)
	return sum;
}

/* a b + c, rounded once */
INLINE struct v16 fma16(struct v16 a, struct v16 b, struct v16 c)
{
#define FMA(i) a.p##i = fma_v(a.p##i, b.p##i, c.p##i);
	EACH(FMA)
	return a;
}

INLINE struct v16 mul16(struct v16 a, struct v16 b)
{
#define MUL(i) a.p##i = a.p##i * b.p##i;
	EACH(MUL)
	return a;
}

INLINE struct v16 cap16(struct v16 x, float cap)
{
#define CAP(i) x.p##i = cap_v(x.p##i, splat(cap));
	EACH(CAP)
	return x;
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

/* The others are @fill. */
INLINE struct v16 after16(struct v16 v, unsigned int n, float fill)
{
	const vi iota = IOTA;

#define AFTER(i) v.p##i = choose(iota + i * LANES < (int32_t)n, splat(fill), v.p##i);
	EACH(AFTER)
	return v;
}

INLINE float reduce_sum(struct v16 v)
{
	float t[16];
	int half, i;

	store16(t, v);
	for (half = 8; half; half /= 2)
		for (i = 0; i < half; i++)
			t[i] += t[i + half];
	return t[0];
}

INLINE float reduce_max(struct v16 v)
{
#if LANES == 16
	return _mm512_reduce_max_ps((__m512)v.p0);
#else
	float t[16];
	int half, i;

	store16(t, v);
	for (half = 8; half; half /= 2)
		for (i = 0; i < half; i++)
			t[i] = t[i] > t[i + half] ? t[i] : t[i + half];
	return t[0];
#endif
}

INLINE float row_sum(const float *x, size_t n)
{
	struct v16 s0 = splat16(0), s1 = s0, s2 = s0, s3 = s0;
	size_t i;

	for (i = 0; i + 64 <= n; i += 64) {
		s0 = add16(s0, load16(x + i));
		s1 = add16(s1, load16(x + i + 16));
		s2 = add16(s2, load16(x + i + 32));
		s3 = add16(s3, load16(x + i + 48));
	}
	for (; i + 16 <= n; i += 16)
		s0 = add16(s0, load16(x + i));
	s1 = add16(s1, load16_part(x + i, n - i, 0));
	return reduce_sum(add16(add16(s0, s1), add16(s2, s3)));
}

/* The sum of (x - @mean)^2. */
INLINE float row_squares(const float *x, size_t n, const float mean)
{
	struct v16 s0 = splat16(0), s1 = s0, s2 = s0, s3 = s0, m = splat16(mean), t;
	size_t i;

	for (i = 0; i + 64 <= n; i += 64) {
		t = sub16(load16(x + i), m);
		s0 = add_mul16(s0, t, t);
		t = sub16(load16(x + i + 16), m);
		s1 = add_mul16(s1, t, t);
		t = sub16(load16(x + i + 32), m);
		s2 = add_mul16(s2, t, t);
		t = sub16(load16(x + i + 48), m);
		s3 = add_mul16(s3, t, t);
	}
	for (; i + 16 <= n; i += 16) {
		t = sub16(load16(x + i), m);
		s0 = add_mul16(s0, t, t);
	}
	t = sub16(load16_part(x + i, n - i, mean), m);
	s1 = add_mul16(s1, t, t);
	return reduce_sum(add16(add16(s0, s1), add16(s2, s3)));
}

static void kernel_rmsnorm(float *y, const float *x, const float *w, size_t n, float eps)
{
	float inv = 1.0f / sqrtf(row_squares(x, n, 0) / (float)n + eps);
	size_t i;

	for (i = 0; i + LANES <= n; i += LANES)
		store(y + i, load(x + i) * inv * load(w + i));
	if (i < n)
		store_part(y + i, load_part(x + i, n - i) * inv * load_part(w + i, n - i), n - i);
}

static void kernel_layernorm(float *y, const float *x, const float *w, const float *bias, size_t n,
			     float eps)
{
	float mean = row_sum(x, n) / (float)n;
	float inv = 1.0f / sqrtf(row_squares(x, n, mean) / (float)n + eps);
	size_t i;

	for (i = 0; i + LANES <= n; i += LANES)
		store(y + i, (load(x + i) - mean) * inv * load(w + i));
	if (i < n)
		store_part(y + i, (load_part(x + i, n - i) - mean) * inv * load_part(w + i, n - i),
			   n - i);
	if (bias)
		kernel_add(y, y, bias, n);
}

static void kernel_softmax(float *y, const float *x, size_t n, size_t cols, float scale)
{
	struct v16 s = splat16(scale), m = splat16(-INFINITY), sum = splat16(0), t;
	float max, inv;
	size_t i;

	for (i = 0; i + 16 <= n; i += 16)
		m = greater16(mul16(load16(x + i), s), m);
	t = first16(mul16(load16_part(x + i, n - i, 0), s), n - i, -INFINITY);
	max = reduce_max(greater16(t, m));
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
	inv = 1.0f / reduce_sum(sum);
	for (i = 0; i + LANES <= n; i += LANES)
		store(y + i, load(y + i) * inv);
	if (i < n)
		store_part(y + i, load_part(y + i, n - i) * inv, n - i);
	memset(y + n, 0, (cols - n) * sizeof(float));
}

#include "kernels_rope.h"
#include "kernels_cache.h"
#include "kernels_store.h"
#include "kernels_attn_keys.h"
#include "kernels_attn_tile.h"
#include "kernels_attn_block.h"
#include "kernels_attn.h"
#include "kernels_keys.h"
#include "kernels_attn_i8.h"
#include "kernels_outliers.h"

#ifndef FW_KERNELS_I8_ROWS
#define FW_KERNELS_I8_ROWS 0
#define FW_KERNELS_I8_STEP 0
#endif

const struct fw_kernels FW_KERNELS_NAME = {
	.name = FW_KERNELS_LABEL,
	.i8_rows = FW_KERNELS_I8_ROWS,
	.i8_step = FW_KERNELS_I8_STEP,
	.matmul_i8 = kernel_matmul_i8,
	.matmul_w4 = kernel_matmul_w4,
	.matmul_w4f = kernel_matmul_w4f,
	.matmul_kq = kernel_matmul_kq,
	.add = kernel_add,
	.mul = kernel_mul,
	.act = kernel_act,
	.glu = kernel_glu,
	.rmsnorm = kernel_rmsnorm,
	.layernorm = kernel_layernorm,
	.softmax = kernel_softmax,
	.quant = kernel_quant,
	.quant_static = kernel_quant_static,
	.dequant = kernel_dequant,
	.rest = kernel_rest,
	.quant_outliers = kernel_quant_outliers,
	.add_outliers = kernel_add_outliers,
	.rope = kernel_rope,
	.attn = kernel_attn,
	.attn_fold = kernel_attn_fold,
	.qk_i8 = kernel_qk_i8,
	.pack_keys = kernel_pack_keys,
	.attn_i8 = kernel_attn_i8,
	.pack_values = kernel_pack_values,
	.store = kernel_store,
	.exp = kernel_exp,
};
