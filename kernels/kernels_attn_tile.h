/* SPDX-License-Identifier: MIT */
/*
 * Attention's register tiles: transposed keys, scores, and weighted sums of values. For files that
 * include kernels_vec.h and kernels_cache.h first.
 *
 * A block has 64 keys. There are two ways to its scores, with the same operations for each of them:
 *
 *	few queries	LANES keys x LANES elements are widened and transposed in registers, and
 *			multiplied at once: what decoding does, where reading memory is the limit
 *	many queries	the block's keys are widened and transposed into scratch first, where a
 *			larger tile of queries x keys finds them
 *
 * Meanwhile the tile asks for the block's successor (struct attn_ahead), line by line: the parts of
 * a row that its heads have are read far apart, which no hardware prefetcher follows.
 */

#define ATTN_KEYS 64
/* Most queries of a head that take keys and values straight from the cache. */
#define ATTN_FEW 8

/* The register tile of many queries: queries x vectors of keys, or of a head's elements. */
#define ATTN_ROWS 6
#if LANES == 16
#define ATTN_VECS 4
#else
#define ATTN_VECS 2
#endif

/* ---- the cache ahead ------------------------------------------------------------------------- */

/* Rows of a cache that will be read next. A tile's loop has a copy, which stays in registers. */
struct attn_ahead {
	const uint8_t *at, *end; /* in the tile's part of a row */
	size_t bytes, gap; /* of such a part, and from its end to the next */
	uint64_t rows; /* left, with this one */
};

/* Asks for the next @lines. */
INLINE void attn_ahead(struct attn_ahead *a, const uint32_t lines)
{
	if ((size_t)(a->end - a->at) > lines * 64) {
#pragma GCC unroll 16
		for (uint32_t i = 0; i < lines; i++)
			__builtin_prefetch(a->at + i * 64, 0, 2);
		a->at += lines * 64;
		return;
	}
	for (uint32_t i = 0; i < lines && a->rows; i++) {
		__builtin_prefetch(a->at, 0, 2);
		a->at += 64;
		if (a->at < a->end)
			continue;
		a->at = a->end;
		if (--a->rows) {
			a->at += a->gap;
			a->end = a->at + a->bytes;
		}
	}
}

/* Lines of a cache of @type that LANES x @vecs values take, rounded up. */
#define ATTN_LINES(type, vecs) ((uint32_t)(VNPU_KV_BYTES(type, 32) * LANES * (vecs) + 2047) / 2048)

/* ---- keys ------------------------------------------------------------------------------------ */

/* y[j][i] = x[i][j] */
INLINE void transpose(vf x[LANES])
{
	int i;

#if LANES == 16
	__m512 a[16], b[16], lo[8], hi[8];

#pragma GCC unroll 8
	for (i = 0; i < 16; i += 2) {
		a[i] = _mm512_unpacklo_ps((__m512)x[i], (__m512)x[i + 1]);
		a[i + 1] = _mm512_unpackhi_ps((__m512)x[i], (__m512)x[i + 1]);
	}
	/* b[4g + c]: in its 128 bits number L, element 4L + c of the rows 4g .. 4g + 3. */
#pragma GCC unroll 16
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
#pragma GCC unroll 4
	for (i = 0; i < 4; i++) {
		x[i] = (vf)_mm512_shuffle_f32x4(lo[i], lo[i + 4], 0x88);
		x[i + 4] = (vf)_mm512_shuffle_f32x4(hi[i], hi[i + 4], 0x88);
		x[i + 8] = (vf)_mm512_shuffle_f32x4(lo[i], lo[i + 4], 0xdd);
		x[i + 12] = (vf)_mm512_shuffle_f32x4(hi[i], hi[i + 4], 0xdd);
	}
#elif LANES == 8
	vf a[8], b[8];

#pragma GCC unroll 4
	for (i = 0; i < 8; i += 2) {
		a[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
		a[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
	}
	/* b[4g + c]: elements c and 4 + c of the rows 4g .. 4g + 3. */
#pragma GCC unroll 4
	for (i = 0; i < 8; i += 4) {
		b[i] = __builtin_shufflevector(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
		b[i + 1] = __builtin_shufflevector(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
		b[i + 2] = __builtin_shufflevector(a[i + 1], a[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
		b[i + 3] = __builtin_shufflevector(a[i + 1], a[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
	}
#pragma GCC unroll 4
	for (i = 0; i < 4; i++) {
		x[i] = __builtin_shufflevector(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
		x[i + 4] = __builtin_shufflevector(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
	}
#else
	vf a[4];

#pragma GCC unroll 2
	for (i = 0; i < 4; i += 2) {
		a[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 4, 1, 5);
		a[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 2, 6, 3, 7);
	}
	x[0] = __builtin_shufflevector(a[0], a[2], 0, 1, 4, 5);
	x[1] = __builtin_shufflevector(a[0], a[2], 2, 3, 6, 7);
	x[2] = __builtin_shufflevector(a[1], a[3], 0, 1, 4, 5);
	x[3] = __builtin_shufflevector(a[1], a[3], 2, 3, 6, 7);
#endif
}

#if LANES == 16
/* 16 bytes of rows 4 L + i, @row_bytes apart, side by side in lane L. */
INLINE __m512i load_bytes(const uint8_t *rows, size_t row_bytes, uint32_t i)
{
#define ROW_16(r) _mm_loadu_si128((const __m128i *)(rows + (r)*row_bytes))
	__m512i x = _mm512_castsi128_si512(ROW_16(i));

	x = _mm512_mask_broadcast_i32x4(x, 0xf0, ROW_16(i + 4));
	x = _mm512_mask_broadcast_i32x4(x, 0xf00, ROW_16(i + 8));
	return _mm512_mask_broadcast_i32x4(x, 0xf000, ROW_16(i + 12));
}

/* load_keys() of Q8_0: transposes four integers at a time, before they become floats. */
INLINE void load_bytes_keys(vf x[16], const uint8_t *rows, size_t row_bytes)
{
	__m512i in[4], a[4], q[4];
	int i;

#pragma GCC unroll 4
	for (i = 0; i < 4; i++)
		in[i] = load_bytes(rows, row_bytes, (uint32_t)i);
	a[0] = _mm512_unpacklo_epi32(in[0], in[1]);
	a[1] = _mm512_unpackhi_epi32(in[0], in[1]);
	a[2] = _mm512_unpacklo_epi32(in[2], in[3]);
	a[3] = _mm512_unpackhi_epi32(in[2], in[3]);
	q[0] = _mm512_unpacklo_epi64(a[0], a[2]);
	q[1] = _mm512_unpackhi_epi64(a[0], a[2]);
	q[2] = _mm512_unpacklo_epi64(a[1], a[3]);
	q[3] = _mm512_unpackhi_epi64(a[1], a[3]);
#pragma GCC unroll 16
	for (i = 0; i < 16; i++) {
		__m512i top = i % 4 < 3 ? _mm512_slli_epi32(q[i / 4], 24 - i % 4 * 8) : q[i / 4];

		x[i] = (vf)_mm512_cvtepi32_ps(_mm512_srai_epi32(top, 24));
	}
}
#endif

/* x[c][i] = number @d + c of key i of LANES keys. */
INLINE void load_keys(vf x[LANES], const uint8_t *k, size_t row_bytes, uint32_t d,
		      const uint32_t type)
{
#if LANES == 16
	if (type == VNPU_KV_Q8_0) {
		load_bytes_keys(x, k + d / 32 * VNPU_Q8_0_BYTES + 2 + d % 32, row_bytes);
		return;
	}
#endif
#pragma GCC unroll 16
	for (uint32_t i = 0; i < LANES; i++)
		x[i] = load_kv(k + i * row_bytes, d, type);
	transpose(x);
}

/* LANES keys: in the cache, or the last @n < LANES of a block, copied to @rows with others 0. */
struct attn_rows {
	const uint8_t *k;
	size_t row_bytes;
};

INLINE struct attn_rows attn_rows(const uint8_t *k, size_t row_bytes, uint32_t n, uint8_t *rows,
				  uint32_t dim, const uint32_t type)
{
	size_t bytes = VNPU_KV_BYTES(type, dim);

	if (n >= LANES)
		return (struct attn_rows){ k, row_bytes };
	for (uint32_t i = 0; i < n; i++)
		memcpy(rows + i * bytes, k + i * row_bytes, bytes);
	memset(rows + n * bytes, 0, (LANES - n) * bytes);
	return (struct attn_rows){ rows, bytes };
}

/* Elements of a head that share a key's scale. */
INLINE uint32_t attn_scaled(uint32_t dim, const uint32_t type)
{
	return type == VNPU_KV_Q8_0 ? VNPU_Q8_0_VALUES : dim;
}

/* s[i][j] = q[i] . k[j], for @rows queries, at most ATTN_FEW, and @n keys from @k on. @last: room
 * for LANES rows of the cache's type. */
INLINE void attn_score(const uint32_t rows, float *s, const float *const *q, const uint8_t *k,
		       size_t row_bytes, uint32_t n, uint32_t dim, uint8_t *last,
		       struct attn_ahead *ahead, const uint32_t type)
{
	const uint32_t scaled = attn_scaled(dim, type), lines = ATTN_LINES(type, LANES);
	/* Lines are asked for one by one between the products, which hide that better than a burst;
	 * in a burst if they do not divide the columns, as those of Q8_0, where that is faster. */
	const bool apart = LANES % lines == 0;
	vf acc[ATTN_FEW], sum[ATTN_FEW], x[LANES], scale;
	struct attn_ahead next = *ahead;
	struct attn_rows keys;
	uint32_t j, d0, d, c, i;

	for (j = 0; j < n; j += LANES, k += LANES * row_bytes) {
		keys = attn_rows(k, row_bytes, n - j, last, dim, type);
#pragma GCC unroll 8
		for (i = 0; i < rows; i++)
			acc[i] = splat(0);
		for (d0 = 0; d0 < dim; d0 += scaled) {
#pragma GCC unroll 8
			for (i = 0; i < rows; i++)
				sum[i] = splat(0);
			for (d = d0; d < d0 + scaled; d += LANES) {
				if (!apart)
					attn_ahead(&next, lines);
				load_keys(x, keys.k, keys.row_bytes, d, type);
#pragma GCC unroll 16
				for (c = 0; c < LANES; c++) {
					if (apart && c % (LANES / lines) == 0)
						attn_ahead(&next, 1);
#pragma GCC unroll 8
					for (i = 0; i < rows; i++)
						sum[i] = fma_v(splat(q[i][d + c]), x[c], sum[i]);
				}
			}
			if (type == VNPU_KV_Q8_0)
				scale = load_scales(keys.k + d0 / 32 * VNPU_Q8_0_BYTES,
						    keys.row_bytes);
#pragma GCC unroll 8
			for (i = 0; i < rows; i++)
				acc[i] = type == VNPU_KV_Q8_0 ? fma_v(sum[i], scale, acc[i])
							      : sum[i];
		}
#pragma GCC unroll 8
		for (i = 0; i < rows; i++)
			store(s + i * ATTN_KEYS + j, acc[i]);
	}
	*ahead = next;
}

/*
 * kt[d][j] = number d of key j, for @n keys from @k on, and of Q8_0 scales[d / 32][j]. @rows: room
 * for LANES widened rows of @wide, for heads that are no multiple of LANES, or for those of the
 * cache's type.
 */
INLINE void attn_transpose(float *kt, float *scales, float *rows, uint32_t wide, const uint8_t *k,
			   size_t row_bytes, uint32_t n, uint32_t dim, struct attn_ahead *ahead,
			   const uint32_t type)
{
	struct attn_ahead next = *ahead;
	struct attn_rows keys;
	uint32_t j, d, c, i;
	vf x[LANES];

	for (j = 0; j < n; j += LANES, k += LANES * row_bytes) {
		if (dim % LANES) {
			for (i = 0; i < LANES; i++)
				widen(rows + i * wide, k + (j + i < n ? i : 0) * row_bytes, dim,
				      type);
			keys = (struct attn_rows){ (const uint8_t *)rows, wide * sizeof(float) };
		} else {
			keys = attn_rows(k, row_bytes, n - j, (uint8_t *)rows, dim, type);
		}
		for (d = 0; d < dim && type == VNPU_KV_Q8_0; d += VNPU_Q8_0_VALUES)
			store(scales + d / 32 * ATTN_KEYS + j,
			      load_scales(keys.k + d / 32 * VNPU_Q8_0_BYTES, keys.row_bytes));
		for (d = 0; d < dim; d += LANES) {
			attn_ahead(&next, ATTN_LINES(type, LANES));
			if (dim % LANES)
				load_keys(x, keys.k, keys.row_bytes, d, VNPU_KV_F32);
			else
				load_keys(x, keys.k, keys.row_bytes, d, type);
#pragma GCC unroll 16
			for (c = 0; c < LANES; c++)
				if (d + c < dim)
					store(kt + (d + c) * ATTN_KEYS + j, x[c]);
		}
	}
	*ahead = next;
}

/* s[i][j] = q[i] . k[j], for @rows queries and the whole block. @scales: NULL, or as above. */
INLINE void attn_dot(const uint32_t rows, float *s, const float *const *q, const float *kt,
		     uint32_t dim, const float *scales)
{
	const uint32_t scaled = scales ? VNPU_Q8_0_VALUES : dim;
	vf acc[ATTN_ROWS][ATTN_VECS], k[ATTN_VECS], x;
	uint32_t j, d0, d, i, v;

	for (j = 0; j < ATTN_KEYS; j += ATTN_VECS * LANES)
		for (d0 = 0; d0 < dim; d0 += scaled) {
#pragma GCC unroll 6
			for (i = 0; i < rows; i++)
#pragma GCC unroll 4
				for (v = 0; v < ATTN_VECS; v++)
					acc[i][v] = splat(0);
			for (d = d0; d < d0 + scaled; d++) {
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
				for (v = 0; v < ATTN_VECS; v++) {
					float *to = s + i * ATTN_KEYS + j + v * LANES;

					store(to,
					      !scales ? acc[i][v]
						      : fma_v(acc[i][v],
							      load(scales + d0 / 32 * ATTN_KEYS +
								   j + v * LANES),
							      d0 ? load(to) : splat(0)));
				}
		}
}

/* ---- values ---------------------------------------------------------------------------------- */

/* What a weighted sum adds: rows of numbers of @type in the cache, or widened in scratch. */
struct attn_values {
	const uint8_t *rows;
	size_t row_bytes;
	uint32_t type;
	struct attn_ahead *ahead;
};

/*
 * acc[i] = acc[i] scale[i] + sum over j of p[i][j] v[j], for @rows queries, and @vecs vectors from
 * element @d on.
 */
INLINE void attn_sum(const uint32_t rows, const uint32_t vecs, float *sums, size_t wide,
		     const float *scale, const float *p, uint32_t n, const struct attn_values *v,
		     uint32_t d, const uint32_t type)
{
	vf acc[ATTN_FEW][8], val[8], x;
	struct attn_ahead next = *v->ahead;
	const uint8_t *row = v->rows;
	uint32_t j, i, k;

#pragma GCC unroll 8
	for (i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (k = 0; k < vecs; k++)
			acc[i][k] = load(sums + i * wide + d + k * LANES) * scale[i];
	for (j = 0; j < n; j++, row += v->row_bytes) {
		attn_ahead(&next, ATTN_LINES(type, vecs));
#pragma GCC unroll 8
		for (k = 0; k < vecs; k++)
			val[k] = load_kv(row, d + k * LANES, type);
#pragma GCC unroll 8
		for (i = 0; i < rows; i++) {
			x = splat(p[i * ATTN_KEYS + j]);
#pragma GCC unroll 8
			for (k = 0; k < vecs; k++)
				acc[i][k] = fma_v(x, val[k], acc[i][k]);
		}
	}
#pragma GCC unroll 8
	for (i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (k = 0; k < vecs; k++)
			store(sums + i * wide + d + k * LANES, acc[i][k]);
	*v->ahead = next;
}

/* Vectors of the register tile of @rows queries: sums and values are to fit in the registers. */
INLINE uint32_t attn_vecs(uint32_t rows)
{
#if defined(__AVX2__) && LANES == 8
	return rows <= 2 ? 4 : rows <= 6 ? 2 : 1;
#else
	return rows <= 2 ? 8 : rows <= 6 ? 4 : 2;
#endif
}

/* Elements @d to @end: with the widest register tile, then one vector at a time. */
INLINE void attn_sums(const uint32_t rows, float *sums, size_t wide, const float *scale,
		      const float *p, uint32_t n, const struct attn_values *v, uint32_t d,
		      uint32_t end, const uint32_t type)
{
	const uint32_t block = VNPU_Q8_0_VALUES / LANES;
	const uint32_t vecs =
		type == VNPU_KV_Q8_0 && attn_vecs(rows) > block ? block : attn_vecs(rows);

	for (; d + vecs * LANES <= end; d += vecs * LANES)
		attn_sum(rows, vecs, sums, wide, scale, p, n, v, d, type);
	for (; d < end; d += LANES)
		attn_sum(rows, 1, sums, wide, scale, p, n, v, d, type);
}

/* ---- cases of constants ---------------------------------------------------------------------- */

/* Cases of a switch over rows: f(rows, ...) with a constant for rows. */
#define ATTN_CASE(f, rows, ...)       \
	case rows:                    \
		f(rows, __VA_ARGS__); \
		break;
#define ATTN_CASES6(f, ...)          \
	ATTN_CASE(f, 1, __VA_ARGS__) \
	ATTN_CASE(f, 2, __VA_ARGS__) \
	ATTN_CASE(f, 3, __VA_ARGS__) \
	ATTN_CASE(f, 4, __VA_ARGS__) \
	ATTN_CASE(f, 5, __VA_ARGS__) \
	ATTN_CASE(f, 6, __VA_ARGS__)
#define ATTN_CASES8(f, ...)          \
	ATTN_CASES6(f, __VA_ARGS__)  \
	ATTN_CASE(f, 7, __VA_ARGS__) \
	ATTN_CASE(f, 8, __VA_ARGS__)
_Static_assert(ATTN_ROWS == 6 && ATTN_FEW == 8, "the cases");

/* f(..., type) with a constant for type. */
#define ATTN_TYPED(kv_type, f, ...)           \
	switch (kv_type) {                    \
	case VNPU_KV_F16:                     \
		f(__VA_ARGS__, VNPU_KV_F16);  \
		break;                        \
	case VNPU_KV_Q8_0:                    \
		f(__VA_ARGS__, VNPU_KV_Q8_0); \
		break;                        \
	default:                              \
		f(__VA_ARGS__, VNPU_KV_F32);  \
	}

/* The two forms of attn_dot(). */
#define ATTN_DOT(rows, s, q, kt, dim, scales)                  \
	do {                                                   \
		if (scales)                                    \
			attn_dot(rows, s, q, kt, dim, scales); \
		else                                           \
			attn_dot(rows, s, q, kt, dim, NULL);   \
	} while (0)
