/* SPDX-License-Identifier: MIT */
/*
 * Attention's register tiles: transposed keys, scores, and weighted sums of values. Part of
 * kernels_float.h, which includes it.
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

/* Rows of a cache that will be read next. */
struct attn_ahead {
	const uint8_t *row;
	size_t at, bytes; /* of the tile's part of a row */
	size_t row_bytes;
	uint64_t rows; /* left */
};

/* Asks for the next @lines. */
INLINE void attn_ahead(struct attn_ahead *a, uint32_t lines)
{
	for (; lines && a->rows; lines--) {
		__builtin_prefetch(a->row + a->at, 0, 2);
		a->at += 64;
		if (a->at >= a->bytes) {
			a->at = 0;
			a->row += a->row_bytes;
			a->rows--;
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

/* x[c][i] = element @d + c of key i of LANES keys; of keys from @n on, those of key 0. */
INLINE void load_keys(vf x[LANES], const uint8_t *k, size_t row_bytes, uint32_t n, uint32_t d,
		      const uint32_t type)
{
#pragma GCC unroll 16
	for (uint32_t i = 0; i < LANES; i++)
		x[i] = load_kv(k + (i < n ? i : 0) * row_bytes, d, type);
	transpose(x);
}

/* s[i][j] = q[i] . k[j], for @rows queries, at most ATTN_FEW, and @n keys from @k on. */
INLINE void attn_score(const uint32_t rows, float *s, const float *const *q, const uint8_t *k,
		       size_t row_bytes, uint32_t n, uint32_t dim, struct attn_ahead *ahead,
		       const uint32_t type)
{
	vf acc[ATTN_FEW], x[LANES];
	uint32_t j, d, c, i;

	for (j = 0; j < n; j += LANES, k += LANES * row_bytes) {
#pragma GCC unroll 8
		for (i = 0; i < rows; i++)
			acc[i] = splat(0);
		for (d = 0; d < dim; d += LANES) {
			attn_ahead(ahead, ATTN_LINES(type, LANES));
			load_keys(x, k, row_bytes, n - j, d, type);
#pragma GCC unroll 16
			for (c = 0; c < LANES; c++) {
#pragma GCC unroll 8
				for (i = 0; i < rows; i++)
					acc[i] = fma_v(splat(q[i][d + c]), x[c], acc[i]);
			}
		}
#pragma GCC unroll 8
		for (i = 0; i < rows; i++)
			store(s + i * ATTN_KEYS + j, acc[i]);
	}
}

/*
 * kt[d][j] = element d of key j, for @n keys from @k on. @rows: room for LANES widened rows of
 * @wide, for heads that are no multiple of LANES.
 */
INLINE void attn_transpose(float *kt, float *rows, uint32_t wide, const uint8_t *k,
			   size_t row_bytes, uint32_t n, uint32_t dim, struct attn_ahead *ahead,
			   const uint32_t type)
{
	uint32_t j, d, c, i;
	vf x[LANES];

	for (j = 0; j < n; j += LANES, k += LANES * row_bytes) {
		for (i = 0; i < LANES && dim % LANES; i++)
			widen(rows + i * wide, k + (j + i < n ? i : 0) * row_bytes, dim, type);
		for (d = 0; d < dim; d += LANES) {
			attn_ahead(ahead, ATTN_LINES(type, LANES));
			if (dim % LANES)
				load_keys(x, (const uint8_t *)rows, wide * sizeof(float), LANES, d,
					  VNPU_KV_F32);
			else
				load_keys(x, k, row_bytes, n - j, d, type);
#pragma GCC unroll 16
			for (c = 0; c < LANES; c++)
				if (d + c < dim)
					store(kt + (d + c) * ATTN_KEYS + j, x[c]);
		}
	}
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

/* ---- values ---------------------------------------------------------------------------------- */

/* What a weighted sum adds: rows of values of @type in the cache, or widened in scratch. */
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
	const uint8_t *row = v->rows;
	uint32_t j, i, k;

#pragma GCC unroll 8
	for (i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (k = 0; k < vecs; k++)
			acc[i][k] = load(sums + i * wide + d + k * LANES) * scale[i];
	for (j = 0; j < n; j++, row += v->row_bytes) {
		attn_ahead(v->ahead, ATTN_LINES(type, vecs));
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

/* All elements: with the widest register tile, then one vector at a time. */
INLINE void attn_sums(const uint32_t rows, float *sums, size_t wide, const float *scale,
		      const float *p, uint32_t n, const struct attn_values *v, const uint32_t type)
{
	const uint32_t vecs = attn_vecs(rows);
	uint32_t d = 0;

	for (; d + vecs * LANES <= wide; d += vecs * LANES)
		attn_sum(rows, vecs, sums, wide, scale, p, n, v, d, type);
	for (; d < wide; d += LANES)
		attn_sum(rows, 1, sums, wide, scale, p, n, v, d, type);
}
