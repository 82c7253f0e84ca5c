/* SPDX-License-Identifier: MIT */
/*
 * Attention's register tiles: transposed keys, scores, and weighted sums of values. For files that
 * include kernels_vec.h, kernels_cache.h and kernels_attn_keys.h first.
 *
 * A block has 64 keys. There are two ways to its scores, with the same operations for each of them:
 *
 *	few queries	LANES keys x some elements are widened, transposed in registers and
 *			multiplied at once: what decoding does, where reading memory is the limit
 *	many queries	the block's keys are widened and transposed into scratch first, where a
 *			larger tile of queries x keys finds them
 *
 * Meanwhile the tile asks for rows ahead (struct attn_ahead), line by line: the parts of a row that
 * its heads have are read far apart, which no hardware prefetcher follows.
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
	const uint8_t *at; /* in the tile's part of a row */
	size_t left; /* bytes of this part */
	size_t bytes, gap; /* of a part, and from its end to the next */
	uint64_t parts; /* after this one */
};

/* The next bytes to ask for, @bytes or all that are left of a part; @instead if there are none. */
INLINE const uint8_t *attn_take(struct attn_ahead *a, size_t bytes, const void *instead)
{
	const uint8_t *at;

	if (!a->left) {
		if (!a->parts)
			return instead;
		a->parts--;
		a->at += a->gap;
		a->left = a->bytes;
	}
	at = a->at;
	bytes = bytes < a->left ? bytes : a->left;
	a->at += bytes;
	a->left -= bytes;
	return at;
}

/* Lines of a step that are taken together. */
INLINE uint32_t attn_unit(uint32_t lines)
{
	return lines % 4 ? 1 : lines / 4;
}

/* Sets @next to the places of the next @lines, for each attn_unit() of them. */
INLINE void attn_take_lines(struct attn_ahead *a, const uint32_t lines, const uint8_t **next,
			    const void *instead)
{
	const uint32_t unit = attn_unit(lines), n = lines / unit;
	const bool one = a->left >= lines * 64;
	uint32_t i;

#pragma GCC unroll 8
	for (i = 0; i < n; i++)
		next[i] = one ? a->at + i * unit * 64 : attn_take(a, unit * 64, instead);
	if (one) {
		a->at += lines * 64;
		a->left -= lines * 64;
	}
}

/*
 * Asks for the line at @p once @v is known: so the requests stay between the products. Compilers
 * and CPUs would make a burst of them, behind which the loads that follow wait.
 */
INLINE void ask_between(vf *v, const uint8_t *p)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetcht1 %1" : "+v"(*v) : "m"(*p));
#elif defined(__aarch64__)
	__asm__ volatile("prfm pldl2keep, %1" : "+w"(*v) : "Q"(*p));
#else
	__builtin_prefetch(p, 0, 2);
#endif
}

/* Asks for the next @lines. */
INLINE void attn_ask(struct attn_ahead *a, uint32_t lines)
{
	for (; lines; lines--)
		__builtin_prefetch(attn_take(a, 64, a->at), 0, 2);
}

/* Lines of a cache of @type that LANES x @vecs values take, rounded up. */
#define ATTN_LINES(type, vecs) ((uint32_t)(VNPU_KV_BYTES(type, 32) * LANES * (vecs) + 2047) / 2048)

/* ---- keys ------------------------------------------------------------------------------------ */

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

/*
 * s[i][j] = query i . k[j], for @rows queries, at most ATTN_FEW, and @n keys from @k on. @q: the
 * queries' numbers, [dim][rows]. @last: room for LANES rows of the cache's type.
 */
INLINE void attn_score(const uint32_t rows, float *s, const float *q, const uint8_t *k,
		       size_t row_bytes, uint32_t n, uint32_t dim, uint8_t *last,
		       struct attn_ahead *ahead, const uint32_t type)
{
	const uint32_t scaled = attn_scaled(dim, type), step = keys_step(type);
	const uint32_t lines = ATTN_LINES(type, LANES), apart = LANES / lines;
	const uint32_t unit = attn_unit(lines);
	vf acc[ATTN_FEW], sum[ATTN_FEW], x[LANES], scale;
	uint32_t j, d0, d, e, c, i;
	const uint8_t *next[8];
	struct key_bytes bytes;
	struct attn_rows keys;
	const float *q_d;

	for (j = 0; j < n; j += LANES, k += LANES * row_bytes) {
		keys = attn_rows(k, row_bytes, n - j, last, dim, type);
		q_d = q;
#pragma GCC unroll 8
		for (i = 0; i < rows; i++)
			acc[i] = splat(0);
		for (d0 = 0; d0 < dim; d0 += scaled) {
#pragma GCC unroll 8
			for (i = 0; i < rows; i++)
				sum[i] = splat(0);
			for (d = d0; d < d0 + scaled; d += LANES) {
				attn_take_lines(ahead, lines, next, q_d);
#pragma GCC unroll 4
				for (e = 0; e < LANES; e += step) {
					load_keys(x, &bytes, keys.k, keys.row_bytes, d, e, type);
#pragma GCC unroll 16
					for (c = e; c < e + step; c++, q_d += rows) {
						if (c % apart == 0 && c / apart < lines)
							ask_between(&sum[0],
								    next[c / apart / unit] +
									    c / apart % unit * 64);
#pragma GCC unroll 8
						for (i = 0; i < rows; i++)
							sum[i] = fma_v(splat(q_d[i]), x[c - e],
								       sum[i]);
					}
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
}

/* kt[d + c][i] = number d + c of key i of LANES keys, for LANES numbers before @dim. */
INLINE void attn_store_keys(float *kt, const struct attn_rows *keys, uint32_t d, uint32_t dim,
			    const uint32_t type)
{
	struct key_bytes bytes;
	vf x[LANES];

#pragma GCC unroll 4
	for (uint32_t e = 0; e < LANES; e += keys_step(type)) {
		load_keys(x, &bytes, keys->k, keys->row_bytes, d, e, type);
#pragma GCC unroll 16
		for (uint32_t c = e; c < e + keys_step(type); c++)
			if (d + c < dim)
				store(kt + (d + c) * ATTN_KEYS, x[c - e]);
	}
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
	struct attn_rows keys;
	uint32_t j, d, i;

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
			attn_ask(ahead, ATTN_LINES(type, LANES));
			if (dim % LANES)
				attn_store_keys(kt + j, &keys, d, dim, VNPU_KV_F32);
			else
				attn_store_keys(kt + j, &keys, d, dim, type);
		}
	}
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

/* The type of floats in scratch: while they are read, nothing is asked for. */
#define ATTN_WIDENED (VNPU_KV_Q8_0 + 1)

/* What a weighted sum adds: rows of numbers in the cache, or widened in scratch. */
struct attn_values {
	const uint8_t *rows;
	size_t row_bytes;
	uint32_t type; /* enum vnpu_kv_type, or ATTN_WIDENED */
	struct attn_ahead *ahead;
};

/*
 * acc[i] = acc[i] scale[i] + sum over j of p[i][j] v[j], for @rows queries, and @vecs vectors from
 * element @d on.
 */
INLINE void attn_sum(const uint32_t rows, const uint32_t vecs, float *sums, size_t wide,
		     const float *scale, const float *p, uint32_t n, const struct attn_values *v,
		     uint32_t d, const uint32_t values_type)
{
	const uint32_t type = values_type == ATTN_WIDENED ? VNPU_KV_F32 : values_type;
	const uint8_t *row = v->rows + VNPU_KV_BYTES(type, d / 32 * 32) +
			     VNPU_KV_BYTES(type, 32) / 32 * (d % 32);
	const uint32_t lines = values_type == ATTN_WIDENED ? 0 : ATTN_LINES(type, vecs);
	const uint32_t apart = lines ? rows * vecs / lines : 1;
	const size_t row_bytes = v->row_bytes;
	vf acc[ATTN_FEW][8], val[8], x;
	/* The lines of all rows, or each row's are taken when it is there. */
	const size_t ahead = (size_t)n * lines * 64;
	const bool together = v->ahead->left >= ahead;
	const uint8_t *next = v->ahead->at;
	uint32_t j, i, k;

#pragma GCC unroll 8
	for (i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (k = 0; k < vecs; k++)
			acc[i][k] = load(sums + i * wide + d + k * LANES) * scale[i];
	for (j = 0; j < n; j++, row += row_bytes, next += lines * 64) {
		if (lines && !together)
			next = attn_take(v->ahead, lines * 64, row);
#pragma GCC unroll 8
		for (k = 0; k < vecs; k++)
			val[k] = load_kv(row, k * LANES, type);
#pragma GCC unroll 8
		for (i = 0; i < rows; i++) {
			x = splat(p[i * ATTN_KEYS + j]);
#pragma GCC unroll 8
			for (k = 0; k < vecs; k++) {
				acc[i][k] = fma_v(x, val[k], acc[i][k]);
				if ((i * vecs + k) % apart == 0 && (i * vecs + k) / apart < lines)
					ask_between(&acc[i][k], next + (i * vecs + k) / apart * 64);
			}
		}
	}
#pragma GCC unroll 8
	for (i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (k = 0; k < vecs; k++)
			store(sums + i * wide + d + k * LANES, acc[i][k]);
	if (lines && together) {
		v->ahead->at += ahead;
		v->ahead->left -= ahead;
	}
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
