/* SPDX-License-Identifier: MIT */
/*
 * Attention, and the rows of its cache. Part of kernels_float.h, which includes it.
 *
 * A tile processes the keys in blocks of 64. It widens the block's keys to F32 and transposes them
 * into the worker's scratch, and computes the scores with a register tile of queries x keys. Then
 * it updates each query's maximum, turns the scores into weights (online softmax), rescales the
 * query's sums, which are also in scratch, to the new maximum, and adds the weighted values, again
 * with a register tile. Decoding uses the same code: the heads of a group share the cost of the
 * transposition.
 *
 * The operations for a query, and so its bits, depend only on its own keys:
 *
 *	score	a sum over the head's elements in order, each step a fused
 *		multiply-add, then times the scale
 *	weight	exp(score - maximum so far); 0 below exp(-87)
 *	total	16 sums by key modulo 16, the four of a block added as (0 + 1) + (2 + 3);
 *		reduced by halves at the end
 *	value	a sum over the keys in order, each step a fused multiply-add;
 *		times 1 / total at the end
 */

#define ATTN_KEYS 64
/* A head's part of a row of the cache up to which the rows to come are asked for. */
#define ATTN_PREFETCH_BYTES 256
/* Smaller weights would be subnormal numbers, which are slow and contribute nothing. */
#define ATTN_EXP_MIN (-87.0f)

/* The register tile: queries x vectors of keys, or of a head's elements. */
#define ATTN_ROWS 6
#if LANES == 16
#define ATTN_VECS 4
#else
#define ATTN_VECS 2
#endif

/* ---- rows of a cache ------------------------------------------------------------------------- */

/* LANES values of F16. */
INLINE vf load_f16(const uint16_t *h)
{
#if LANES == 16
	return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)h));
#elif LANES == 8
	return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)h));
#elif defined(__ARM_FEATURE_DOTPROD)
	return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h)));
#else
	vf v;

	for (int i = 0; i < LANES; i++)
		v[i] = fw_f16_to_f32(h[i]);
	return v;
#endif
}

INLINE void store_f16(uint16_t *h, vf v)
{
#if LANES == 16
	_mm256_storeu_si256((__m256i *)h, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif LANES == 8
	_mm_storeu_si128((__m128i *)h, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__ARM_FEATURE_DOTPROD)
	vst1_u16(h, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v)));
#else
	for (int i = 0; i < LANES; i++)
		h[i] = fw_f32_to_f16(v[i]);
#endif
}

INLINE float widen_f16(uint16_t h)
{
#if LANES >= 8
	return _cvtsh_ss(h);
#else
	return fw_f16_to_f32(h);
#endif
}

/* Converts the first @n values of a row, exactly. */
INLINE void widen(float *y, const void *row, uint32_t n, uint32_t type)
{
	const uint8_t *block = row;
	const uint16_t *h = row;
	uint16_t scale;
	uint32_t i, b;
	float s;

	if (type == VNPU_KV_F32) {
		memcpy(y, row, n * sizeof(float));
	} else if (type == VNPU_KV_F16) {
		for (i = 0; i + LANES <= n; i += LANES)
			store(y + i, load_f16(h + i));
		for (; i < n; i++)
			y[i] = widen_f16(h[i]);
	} else {
		for (b = 0; b < n; b += VNPU_Q8_0_VALUES, block += VNPU_Q8_0_BYTES) {
			memcpy(&scale, block, sizeof(scale));
			s = widen_f16(scale);
			for (i = 0; i < VNPU_Q8_0_VALUES; i += LANES)
				store(y + b + i, load_s8((const int8_t *)block + 2 + i) * s);
		}
	}
}

/* LANES values of a row from @d, a multiple of LANES, on. */
INLINE vf load_kv(const void *row, uint32_t d, const uint32_t type)
{
	const uint8_t *block =
		(const uint8_t *)row + (size_t)d / VNPU_Q8_0_VALUES * VNPU_Q8_0_BYTES;
	uint16_t scale;

	if (type == VNPU_KV_F32)
		return load((const float *)row + d);
	if (type == VNPU_KV_F16)
		return load_f16((const uint16_t *)row + d);
	memcpy(&scale, block, sizeof(scale));
	return load_s8((const int8_t *)block + 2 + d % VNPU_Q8_0_VALUES) * widen_f16(scale);
}

static void store_q8_0(uint8_t *block, const float *x)
{
	float fmax, s;
	uint16_t scale;
	uint32_t i;
	int32_t m;
	vb q;

	m = greatest_bits(x, VNPU_Q8_0_VALUES);
	memcpy(&fmax, &m, sizeof(fmax));
	scale = fw_f32_to_f16(fmax / 127.0f);
	if ((scale & 0x7fff) >= 0x7c00)
		scale = 0x7e00;
	memcpy(block, &scale, sizeof(scale));
	s = fw_f16_to_f32(scale);
	if (!(s > 0)) {
		memset(block + 2, 0, VNPU_Q8_0_VALUES);
		return;
	}
	for (i = 0; i < VNPU_Q8_0_VALUES; i += LANES) {
		q = quant_v(load(x + i) / s);
		memcpy(block + 2 + i, &q, sizeof(q));
	}
}

static void kernel_store(void *row, const float *x, size_t n, uint32_t type)
{
	uint8_t *block = row;
	uint16_t *h = row;
	size_t i;

	if (type == VNPU_KV_F16) {
		for (i = 0; i + LANES <= n; i += LANES)
			store_f16(h + i, load(x + i));
		for (; i < n; i++)
			h[i] = fw_f32_to_f16(x[i]);
	} else {
		for (i = 0; i < n; i += VNPU_Q8_0_VALUES, block += VNPU_Q8_0_BYTES)
			store_q8_0(block, x + i);
	}
}

/* ---- attention ------------------------------------------------------------------------------- */

/* A tile in progress: pointers into the worker's scratch, and the state of each query. */
struct attn_work {
	const struct fw_attn *t;
	uint32_t wide; /* head_dim, rounded up to 16 */
	float *block; /* keys [head_dim][ATTN_KEYS], then values [ATTN_KEYS][wide] */
	float *rows; /* [8][wide] */
	float *acc; /* [nr_q][wide] */
	float *p; /* scores, then weights [nr_q][ATTN_KEYS] */
	float *total; /* [nr_q][16] */
	const float *q[FW_ATTN_MAX_QUERIES];
	uint64_t nr_keys[FW_ATTN_MAX_QUERIES]; /* not decreasing */
	float max[FW_ATTN_MAX_QUERIES + 16], scale[FW_ATTN_MAX_QUERIES + 16];
};

_Static_assert((ATTN_KEYS + 8) * VNPU_MAX_HEAD_DIM * 4 + 16384 * 4 +
			       FW_ATTN_MAX_QUERIES * (ATTN_KEYS + 16) * 4 <=
		       FW_SCRATCH_BYTES,
	       "a tile's scratch");

/* kt[d][0..7] = r[0..7][d] */
INLINE void transpose8(float *kt, const float *const r[8], uint32_t dim)
{
	uint32_t d = 0;
	int i;

#if LANES >= 8
	typedef float v8f __attribute__((vector_size(32)));
	v8f x[4], a, b, c, e;

	for (; d + 4 <= dim; d += 4, kt += 4 * ATTN_KEYS) {
		/* Rows i and i + 4 side by side: transposes two 4 x 4 matrices at a time. */
#pragma GCC unroll 4
		for (i = 0; i < 4; i++)
			x[i] = (v8f)_mm256_insertf128_ps(
				_mm256_castps128_ps256(_mm_loadu_ps(r[i] + d)),
				_mm_loadu_ps(r[i + 4] + d), 1);
		a = __builtin_shufflevector(x[0], x[1], 0, 8, 1, 9, 4, 12, 5, 13);
		b = __builtin_shufflevector(x[0], x[1], 2, 10, 3, 11, 6, 14, 7, 15);
		c = __builtin_shufflevector(x[2], x[3], 0, 8, 1, 9, 4, 12, 5, 13);
		e = __builtin_shufflevector(x[2], x[3], 2, 10, 3, 11, 6, 14, 7, 15);
		x[0] = __builtin_shufflevector(a, c, 0, 1, 8, 9, 4, 5, 12, 13);
		x[1] = __builtin_shufflevector(a, c, 2, 3, 10, 11, 6, 7, 14, 15);
		x[2] = __builtin_shufflevector(b, e, 0, 1, 8, 9, 4, 5, 12, 13);
		x[3] = __builtin_shufflevector(b, e, 2, 3, 10, 11, 6, 7, 14, 15);
#pragma GCC unroll 4
		for (i = 0; i < 4; i++)
			memcpy(kt + i * ATTN_KEYS, &x[i], sizeof(x[i]));
	}
#elif defined(__ARM_FEATURE_DOTPROD)
	vf a, b, c, e;

	for (; d + 4 <= dim; d += 4, kt += 4 * ATTN_KEYS) {
#pragma GCC unroll 2
		for (i = 0; i < 8; i += 4) {
			a = __builtin_shufflevector(load(r[i] + d), load(r[i + 1] + d), 0, 4, 1, 5);
			b = __builtin_shufflevector(load(r[i] + d), load(r[i + 1] + d), 2, 6, 3, 7);
			c = __builtin_shufflevector(load(r[i + 2] + d), load(r[i + 3] + d), 0, 4, 1,
						    5);
			e = __builtin_shufflevector(load(r[i + 2] + d), load(r[i + 3] + d), 2, 6, 3,
						    7);
			store(kt + i, __builtin_shufflevector(a, c, 0, 1, 4, 5));
			store(kt + i + ATTN_KEYS, __builtin_shufflevector(a, c, 2, 3, 6, 7));
			store(kt + i + 2 * ATTN_KEYS, __builtin_shufflevector(b, e, 0, 1, 4, 5));
			store(kt + i + 3 * ATTN_KEYS, __builtin_shufflevector(b, e, 2, 3, 6, 7));
		}
	}
#endif
	for (; d < dim; d++, kt += ATTN_KEYS)
		for (i = 0; i < 8; i++)
			kt[i] = r[i][d];
}

/*
 * Asks for @n rows of the cache from @j on. A head's part of a row is short, and rows are too far
 * apart for the processor to see a pattern, so each would be waited for. Of longer parts it sees
 * one.
 */
INLINE void attn_prefetch(const struct attn_work *w, const void *cache, size_t row_bytes,
			  uint64_t j, uint32_t n)
{
	const uint8_t *row = (const uint8_t *)cache + j * row_bytes;
	size_t bytes = VNPU_KV_BYTES(w->t->kv_type, w->t->head_dim);

	for (uint32_t i = 0; i < n && bytes <= ATTN_PREFETCH_BYTES; i++, row += row_bytes) {
		for (size_t at = 0; at < bytes; at += 64)
			__builtin_prefetch(row + at, 0, 2);
		/* Blocks of Q8_0 begin anywhere in a line. */
		if (bytes % 64)
			__builtin_prefetch(row + bytes - 1, 0, 2);
	}
}

#if LANES == 16
/* kt[d][0..15] = x[0..15][d] for 16 d */
INLINE void transpose16(float *kt, const vf x[16])
{
	__m512 a[16], b[16], lo[8], hi[8];
	int i;

#pragma GCC unroll 8
	for (i = 0; i < 16; i += 2) {
		a[i] = _mm512_unpacklo_ps((__m512)x[i], (__m512)x[i + 1]);
		a[i + 1] = _mm512_unpackhi_ps((__m512)x[i], (__m512)x[i + 1]);
	}
	/* b[4g + c]: in its 128 bits number L, d = 4L + c of the rows 4g .. 4g + 3. */
#pragma GCC unroll 8
	for (i = 0; i < 16; i++) {
		__m512d even = (__m512d)a[i / 4 * 4 + i % 4 / 2];
		__m512d odd = (__m512d)a[i / 4 * 4 + i % 4 / 2 + 2];

		b[i] = (__m512)(i % 2 ? _mm512_unpackhi_pd(even, odd)
				      : _mm512_unpacklo_pd(even, odd));
	}
#pragma GCC unroll 8
	for (i = 0; i < 8; i++) {
		__m512 first = b[i / 4 * 8 + i % 4], second = b[i / 4 * 8 + i % 4 + 4];

		lo[i] = _mm512_shuffle_f32x4(first, second, 0x88);
		hi[i] = _mm512_shuffle_f32x4(first, second, 0xdd);
	}
#pragma GCC unroll 8
	for (i = 0; i < 4; i++) {
		store(kt + i * ATTN_KEYS, (vf)_mm512_shuffle_f32x4(lo[i], lo[i + 4], 0x88));
		store(kt + (i + 4) * ATTN_KEYS, (vf)_mm512_shuffle_f32x4(hi[i], hi[i + 4], 0x88));
		store(kt + (i + 8) * ATTN_KEYS, (vf)_mm512_shuffle_f32x4(lo[i], lo[i + 4], 0xdd));
		store(kt + (i + 12) * ATTN_KEYS, (vf)_mm512_shuffle_f32x4(hi[i], hi[i + 4], 0xdd));
	}
}

/* attn_keys() of heads of a multiple of 16, straight from the cache. */
INLINE void attn_keys16(struct attn_work *w, uint64_t j0, uint32_t n, const uint32_t type)
{
	const struct fw_attn *t = w->t;
	const uint8_t *k = (const uint8_t *)t->k + j0 * t->k_row_bytes;

	for (uint32_t j = 0; j < n; j += 16) {
		attn_prefetch(w, t->v, t->v_row_bytes, j0 + j, n - j < 16 ? n - j : 16);
		for (uint32_t d = 0; d < t->head_dim; d += 16) {
			vf x[16];

#pragma GCC unroll 16
			for (uint32_t i = 0; i < 16; i++)
				x[i] = load_kv(k + (j + i < n ? j + i : j) * t->k_row_bytes, d,
					       type);
			transpose16(w->block + d * ATTN_KEYS + j, x);
		}
	}
}
#endif

/* Transposes keys j0..j0 + n - 1 into @w->block. The scores of the other columns are not used. */
static void attn_keys(struct attn_work *w, uint64_t j0, uint32_t n)
{
	const struct fw_attn *t = w->t;
	const uint8_t *k = (const uint8_t *)t->k + j0 * t->k_row_bytes;
	const float *r[8];
	uint32_t j, i;

#if LANES == 16
	if (w->wide == t->head_dim) {
		if (t->kv_type == VNPU_KV_F16)
			attn_keys16(w, j0, n, VNPU_KV_F16);
		else if (t->kv_type == VNPU_KV_Q8_0)
			attn_keys16(w, j0, n, VNPU_KV_Q8_0);
		else
			attn_keys16(w, j0, n, VNPU_KV_F32);
		return;
	}
#endif
	for (j = 0; j < n; j += 8, k += 8 * t->k_row_bytes) {
		for (i = 0; i < 8; i++) {
			if (j + i >= n) {
				r[i] = r[0];
			} else if (t->kv_type == VNPU_KV_F32) {
				r[i] = (const float *)(k + i * t->k_row_bytes);
			} else {
				r[i] = w->rows + i * w->wide;
				widen(w->rows + i * w->wide, k + i * t->k_row_bytes, t->head_dim,
				      t->kv_type);
			}
		}
		transpose8(w->block + j, r, t->head_dim);
	}
}

/* The values j0..j0 + n - 1 as [n][wide]: in the cache itself, or copied to @w->block. */
static const float *attn_values(struct attn_work *w, uint64_t j0, uint32_t n, size_t *ldv)
{
	const struct fw_attn *t = w->t;
	const uint8_t *v = (const uint8_t *)t->v + j0 * t->v_row_bytes;
	uint64_t next = j0 + ATTN_KEYS, last = w->nr_keys[t->nr_q - 1];
	float *y = w->block;
	uint32_t j;

	if (next < last)
		attn_prefetch(w, t->k, t->k_row_bytes, next,
			      last - next < ATTN_KEYS ? last - next : ATTN_KEYS);
	/* A copy that is read again pays: it uses fewer cache sets than rows far apart. */
	if (t->kv_type == VNPU_KV_F32 && w->wide == t->head_dim && t->nr_q <= ATTN_ROWS) {
		*ldv = t->v_row_bytes / sizeof(float);
		return (const float *)v;
	}
	*ldv = w->wide;
	for (j = 0; j < n; j++, v += t->v_row_bytes, y += w->wide) {
		widen(y, v, t->head_dim, t->kv_type);
		if (w->wide > t->head_dim)
			memset(y + t->head_dim, 0, (w->wide - t->head_dim) * sizeof(float));
	}
	return w->block;
}

/* s[i][j] = q[i] . k[j], for @rows queries and the whole block. */
INLINE void attn_dot(const uint32_t rows, float *s, const float *const *q, const float *kt,
		     uint32_t dim)
{
	vf acc[ATTN_ROWS][ATTN_VECS], k[ATTN_VECS], x;
	uint32_t j, d, i, v;

	for (j = 0; j < ATTN_KEYS; j += ATTN_VECS * LANES) {
#pragma GCC unroll 6
		for (i = 0; i < rows; i++)
#pragma GCC unroll 4
			for (v = 0; v < ATTN_VECS; v++)
				acc[i][v] = splat(0);
		for (d = 0; d < dim; d++) {
#pragma GCC unroll 4
			for (v = 0; v < ATTN_VECS; v++)
				k[v] = load(kt + d * ATTN_KEYS + j + v * LANES);
#pragma GCC unroll 6
			for (i = 0; i < rows; i++) {
				x = splat(q[i][d]);
#pragma GCC unroll 4
				for (v = 0; v < ATTN_VECS; v++)
					acc[i][v] = fma_v(x, k[v], acc[i][v]);
			}
		}
#pragma GCC unroll 6
		for (i = 0; i < rows; i++)
#pragma GCC unroll 4
			for (v = 0; v < ATTN_VECS; v++)
				store(s + i * ATTN_KEYS + j + v * LANES, acc[i][v]);
	}
}

/* acc[i] = acc[i] scale[i] + sum over j of p[i][j] v[j], for @rows queries and @vecs vectors. */
INLINE void attn_sum(const uint32_t rows, const uint32_t vecs, float *sums, size_t wide,
		     const float *scale, const float *p, uint32_t n, const float *values,
		     size_t ldv)
{
	vf acc[ATTN_ROWS][ATTN_VECS], val[ATTN_VECS], x;
	uint32_t j, i, v;

#pragma GCC unroll 6
	for (i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (v = 0; v < vecs; v++)
			acc[i][v] = load(sums + i * wide + v * LANES) * scale[i];
	for (j = 0; j < n; j++, values += ldv) {
#pragma GCC unroll 4
		for (v = 0; v < vecs; v++)
			val[v] = load(values + v * LANES);
#pragma GCC unroll 6
		for (i = 0; i < rows; i++) {
			x = splat(p[i * ATTN_KEYS + j]);
#pragma GCC unroll 4
			for (v = 0; v < vecs; v++)
				acc[i][v] = fma_v(x, val[v], acc[i][v]);
		}
	}
#pragma GCC unroll 6
	for (i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (v = 0; v < vecs; v++)
			store(sums + i * wide + v * LANES, acc[i][v]);
}

/* All elements: with the widest register tile, then one vector at a time. */
INLINE void attn_sums(const uint32_t rows, float *sums, size_t wide, const float *scale,
		      const float *p, uint32_t n, const float *values, size_t ldv)
{
	size_t d = 0;

	for (; d + ATTN_VECS * LANES <= wide; d += ATTN_VECS * LANES)
		attn_sum(rows, ATTN_VECS, sums + d, wide, scale, p, n, values + d, ldv);
	for (; d < wide; d += LANES)
		attn_sum(rows, 1, sums + d, wide, scale, p, n, values + d, ldv);
}

/* f(rows, ...) with a constant for rows. */
#define ATTN_CALL(f, rows, ...)            \
	do {                               \
		switch (rows) {            \
		case 1:                    \
			f(1, __VA_ARGS__); \
			break;             \
		case 2:                    \
			f(2, __VA_ARGS__); \
			break;             \
		case 3:                    \
			f(3, __VA_ARGS__); \
			break;             \
		case 4:                    \
			f(4, __VA_ARGS__); \
			break;             \
		case 5:                    \
			f(5, __VA_ARGS__); \
			break;             \
		default:                   \
			f(6, __VA_ARGS__); \
		}                          \
	} while (0)
_Static_assert(ATTN_ROWS == 6, "ATTN_CALL");

static void attn_dots(uint32_t rows, float *s, const float *const *q, const float *kt, uint32_t dim)
{
	ATTN_CALL(attn_dot, rows, s, q, kt, dim);
}

static void attn_weigh(uint32_t rows, float *sums, size_t wide, const float *scale, const float *p,
		       uint32_t n, const float *values, size_t ldv)
{
	ATTN_CALL(attn_sums, rows, sums, wide, scale, p, n, values, ldv);
}

/* exp(x - m) for x - m <= 0; 0 below ATTN_EXP_MIN. */
INLINE struct v16 attn_exp(struct v16 x, struct v16 m)
{
	vi n;

#define ATTN_EXP(i)                                                       \
	{                                                                 \
		vf d = x.p##i - m.p##i, e = exp_parts(d, &n);             \
		x.p##i = (vf)((vi)(e * exp2_v(n)) & ~(d < ATTN_EXP_MIN)); \
	}
	EACH(ATTN_EXP)
	return x;
}

static uint32_t attn_seen(const struct attn_work *w, uint32_t i, uint64_t j0)
{
	uint64_t n = w->nr_keys[i] - j0;

	return n < ATTN_KEYS ? n : ATTN_KEYS;
}

/* Scales query i's scores of the block, of which it attends to @n, and updates its maximum. */
INLINE void attn_greatest(struct attn_work *w, uint32_t i, uint32_t n)
{
	struct v16 s[4], factor = splat16(w->t->scale);
	float *p = w->p + i * ATTN_KEYS;
	uint32_t b;

	_Static_assert(ATTN_KEYS == 64, "four vectors");
#pragma GCC unroll 4
	for (b = 0; b < 4; b++)
		s[b] = mul16(load16(p + 16 * b), factor);
	if (n < ATTN_KEYS)
		for (b = 0; b < 4; b++)
			s[b] = first16(s[b], n < 16 * b ? 0 : n - 16 * b, -INFINITY);
	w->scale[i] = w->max[i];
	w->max[i] = reduce_max(greater16(greater16(greater16(s[0], s[1]), greater16(s[2], s[3])),
					 splat16(w->max[i])));
#pragma GCC unroll 4
	for (b = 0; b < 4; b++)
		store16(p + 16 * b, s[b]);
}

/* Turns the scores into weights. */
INLINE void attn_weights(struct attn_work *w, uint32_t i)
{
	float *p = w->p + i * ATTN_KEYS, *total = w->total + i * 16;
	struct v16 s[4], m = splat16(w->max[i]);
	uint32_t b;

#pragma GCC unroll 4
	for (b = 0; b < 4; b++) {
		s[b] = attn_exp(load16(p + 16 * b), m);
		store16(p + 16 * b, s[b]);
	}
	s[0] = add16(add16(s[0], s[1]), add16(s[2], s[3]));
	store16(total, fma16(load16(total), splat16(w->scale[i]), s[0]));
}

/* Turns scores into weights, from query @first on, and sets the scales for the earlier sums. */
static void attn_softmax(struct attn_work *w, uint32_t first, uint64_t j0)
{
	uint32_t i;

	for (i = first; i < w->t->nr_q; i++)
		attn_greatest(w, i, attn_seen(w, i, j0));
	/* Sixteen at a time: the arrays have room for as many more. */
	for (i = first; i < w->t->nr_q; i += 16)
		store16(w->scale + i, attn_exp(load16(w->scale + i), load16(w->max + i)));
	for (i = first; i < w->t->nr_q; i++)
		attn_weights(w, i);
}

static void attn_block(struct attn_work *w, uint64_t j0)
{
	uint32_t nr_q = w->t->nr_q, first = 0, n, i, k, rows, seen;
	const float one = 1, *values;
	size_t ldv;

	while (w->nr_keys[first] <= j0)
		first++;
	n = attn_seen(w, nr_q - 1, j0);
	attn_keys(w, j0, n);
	for (i = first; i < nr_q; i += rows) {
		rows = nr_q - i < ATTN_ROWS ? nr_q - i : ATTN_ROWS;
		attn_dots(rows, w->p + i * ATTN_KEYS, w->q + i, w->block, w->t->head_dim);
	}
	attn_softmax(w, first, j0);
	values = attn_values(w, j0, n, &ldv);
	for (i = first; i < nr_q; i += rows) {
		rows = nr_q - i < ATTN_ROWS ? nr_q - i : ATTN_ROWS;
		seen = attn_seen(w, i, j0);
		attn_weigh(rows, w->acc + i * w->wide, w->wide, w->scale + i, w->p + i * ATTN_KEYS,
			   seen, values, ldv);
		/*
		 * Later queries attend to more keys, which are added separately: a value that a
		 * query does not attend to must not be multiplied, not even by weight 0.
		 */
		for (k = i + 1; k < i + rows; k++)
			if (attn_seen(w, k, j0) > seen)
				attn_weigh(1, w->acc + k * w->wide, w->wide, &one,
					   w->p + k * ATTN_KEYS + seen, attn_seen(w, k, j0) - seen,
					   values + seen * ldv, ldv);
	}
}

static void attn_finish(const struct attn_work *w)
{
	const struct fw_attn *t = w->t;
	uint64_t query;
	uint32_t i, d;
	float *y, inv;

	for (i = 0; i < t->nr_q; i++) {
		query = t->first + i;
		y = t->y + query / t->group * t->ldy + query % t->group * t->head_dim;
		inv = 1.0f / reduce_sum(load16(w->total + i * 16));
		for (d = 0; d + LANES <= t->head_dim; d += LANES)
			store(y + d, load(w->acc + i * w->wide + d) * inv);
		for (; d < t->head_dim; d++)
			y[d] = w->acc[i * w->wide + d] * inv;
	}
}

static void kernel_attn(const struct fw_attn *t, void *scratch)
{
	struct attn_work w = { .t = t, .wide = (t->head_dim + 15) / 16 * 16, .block = scratch };
	uint64_t query, j0;
	uint32_t i;

	w.rows = w.block + ATTN_KEYS * w.wide;
	w.acc = w.rows + 8 * w.wide;
	w.p = w.acc + t->nr_q * w.wide;
	w.total = w.p + t->nr_q * ATTN_KEYS;
	for (i = 0; i < t->nr_q; i++) {
		query = t->first + i;
		w.q[i] = t->q + query / t->group * t->ldq + query % t->group * t->head_dim;
		w.nr_keys[i] = t->pos + query / t->group + 1;
		w.max[i] = -INFINITY;
	}
	memset(w.acc, 0, t->nr_q * w.wide * sizeof(float));
	memset(w.total, 0, t->nr_q * 16 * sizeof(float));
	for (j0 = 0; j0 < w.nr_keys[t->nr_q - 1]; j0 += ATTN_KEYS)
		attn_block(&w, j0);
	attn_finish(&w);
}
