/* SPDX-License-Identifier: MIT */
/*
 * Sparse attention, for files that include kernels_vec.h, kernels_cache.h and kernels_attn_tile.h
 * first.
 *
 * Positions are taken by blocks of keys, so that what a block's queries read again and again
 * stays in the second cache. Of each block the keys are widened to floats; each query's listed ones
 * become scores, and these weights (online softmax); then the values are widened to the same place,
 * and each query adds those listed, weighted.
 *
 * A score is a sum of LANES sums over a head's elements, which a tree of additions folds for LANES
 * keys at a time. Blocks depend on head_dim only, so a query's bits depend on its own list only.
 */

#include "cpu_sparse.h"

/*
 * A block of widened keys or values. Half as many fit into the first cache, but each query has some
 * instructions for each block.
 */
#define BLOCK_BYTES 65536
#define BLOCK_KEYS 256
#define BLOCK_FLOATS (16 * VNPU_MAX_HEAD_DIM)
#define SPARSE_QUERIES 256
/* Floats of a call's sums. */
#define SPARSE_SUMS 65536

/* Smaller weights would be subnormal numbers, which are slow and contribute nothing. */
#define SPARSE_EXP_MIN (-87.0f)
/* How far a score may be above those that set a query's maximum, before it is raised. */
#define SPARSE_EXP_MAX 10.0f

/* Keys that are multiplied at a time, each in its own register. */
#define ABREAST 4

/* A query's state. */
struct sparse_query {
	const float *q; /* padded to whole vectors */
	const uint32_t *next; /* of its positions */
	uint32_t left, here; /* positions from @next on; of these in the block */
	float *p; /* the weights of those */
	float max; /* what weights are relative to */
	float scale; /* of the sums before the block */
};

struct sparse_work {
	const struct cpu_sparse_attn *t;
	uint32_t wide, keys, nr_q; /* head_dim in whole vectors; keys of a block */
	float *block; /* [keys][wide] */
	float *p; /* a block's weights, of one query after another */
	float *sums; /* [nr_q][wide] */
	float *totals; /* [nr_q][LANES] */
	float *q; /* [nr_q][wide] */
	struct sparse_query *queries; /* [nr_q] */
};

_Static_assert((BLOCK_FLOATS + SPARSE_QUERIES * (BLOCK_KEYS + LANES) + 2 * SPARSE_SUMS) * 4 +
			       SPARSE_QUERIES * sizeof(struct sparse_query) <=
		       CPU_SPARSE_SCRATCH_BYTES,
	       "a call's scratch");

/* a b + c: rounded once where that is an instruction. */
INLINE vf mul_add(vf a, vf b, vf c)
{
#if LANES >= 8 || defined(__FP_FAST_FMAF)
	return fma_v(a, b, c);
#else
	return a * b + c;
#endif
}

/* ---- a block of a cache ---------------------------------------------------------------------- */

INLINE void widen_scaled(float *y, const uint8_t *row, uint32_t dim)
{
	uint16_t scale;

	for (uint32_t d = 0; d < dim; d += VNPU_Q8_0_VALUES, row += VNPU_Q8_0_BYTES) {
		memcpy(&scale, row, sizeof(scale));
		for (uint32_t i = 0; i < VNPU_Q8_0_VALUES; i += LANES)
			store(y + d + i, load_s8((const int8_t *)row + 2 + i) * widen_f16(scale));
	}
}

INLINE void widen_row(float *y, const uint8_t *row, uint32_t dim, uint32_t type)
{
	if (type == VNPU_KV_Q8_0)
		widen_scaled(y, row, dim);
	else
		widen(y, row, dim, type);
}

/* Widens @n rows of a cache. */
static void widen_block(const struct sparse_work *w, const uint8_t *row, size_t row_bytes,
			uint32_t n)
{
	float *y = w->block;

	for (uint32_t j = 0; j < n; j++, y += w->wide, row += row_bytes) {
		widen_row(y, row, w->t->head_dim, w->t->kv_type);
		for (uint32_t d = w->t->head_dim; d < w->wide; d++)
			y[d] = 0;
	}
}

static void sparse_widen(float *y, size_t ldy, const void *rows, size_t row_bytes, uint32_t n,
			 uint32_t dim, uint32_t kv_type)
{
	for (uint32_t j = 0; j < n; j++)
		widen_row(y + j * ldy, (const uint8_t *)rows + j * row_bytes, dim, kv_type);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* x[i] = the LANES sums of q . key i, for keys at @at floats from @k on. */
INLINE void dot_abreast(vf x[ABREAST], const float *q, const float *k, const uint32_t *at,
			const uint32_t wide)
{
	vf part;

#pragma GCC unroll 4
	for (int i = 0; i < ABREAST; i++)
		x[i] = load(q) * load(k + at[i]);
#pragma GCC unroll 16
	for (uint32_t d = LANES; d < wide; d += LANES) {
		part = load(q + d);
#pragma GCC unroll 4
		for (int i = 0; i < ABREAST; i++)
			x[i] = mul_add(part, load(k + at[i] + d), x[i]);
	}
}

#if LANES == 16
/* The sums of 8, then 4, 2 and 1 lanes of @a beside those of @b. */
INLINE vf fold8(vf a, vf b)
{
	return (vf)_mm512_shuffle_f32x4((__m512)a, (__m512)b, 0x4e) +
	       (vf)_mm512_mask_blend_ps(0xff00, (__m512)a, (__m512)b);
}

INLINE vf fold4(vf a, vf b)
{
	const __m512i other =
		_mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);

	return (vf)_mm512_permutex2var_ps((__m512)a, other, (__m512)b) +
	       (vf)_mm512_mask_blend_ps(0xf0f0, (__m512)a, (__m512)b);
}

INLINE vf fold2(vf a, vf b)
{
	return (vf)_mm512_shuffle_ps((__m512)a, (__m512)b, 0x4e) +
	       (vf)_mm512_mask_blend_ps(0xcccc, (__m512)a, (__m512)b);
}

INLINE vf fold1(vf a, vf b)
{
	const __m512i other =
		_mm512_setr_epi32(1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);

	return (vf)_mm512_permutex2var_ps((__m512)a, other, (__m512)b) +
	       (vf)_mm512_mask_blend_ps(0xaaaa, (__m512)a, (__m512)b);
}

INLINE vf score4(const float *q, const float *k, const uint32_t *at, const uint32_t wide)
{
	vf x[ABREAST];

	dot_abreast(x, q, k, at, wide);
	return fold4(fold8(x[0], x[1]), fold8(x[2], x[3]));
}

/* The scores of the first @n keys at @at, and numbers in the other lanes. */
INLINE vf score(const float *q, const float *k, const uint32_t *at, uint32_t n, const uint32_t wide)
{
	const __m512i order =
		_mm512_setr_epi32(0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15);
	vf x0 = score4(q, k, at, wide), x1 = x0, x2 = x0, x3 = x0;

	if (n > 4)
		x1 = score4(q, k, at + 4, wide);
	if (n > 8)
		x2 = score4(q, k, at + 8, wide);
	if (n > 12)
		x3 = score4(q, k, at + 12, wide);
	return (vf)_mm512_permutexvar_ps(order, (__m512)fold1(fold2(x0, x1), fold2(x2, x3)));
}
#else
INLINE vf score(const float *q, const float *k, const uint32_t *at, uint32_t n, const uint32_t wide)
{
	vf x[LANES];

	dot_abreast(x, q, k, at, wide);
#if LANES == 8
	if (n > 4)
		dot_abreast(x + 4, q, k, at + 4, wide);
	else
		x[4] = x[5] = x[6] = x[7] = splat(0);
	transpose(x);
	return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
#else
	transpose(x);
	return (x[0] + x[1]) + (x[2] + x[3]);
#endif
}
#endif

/* A bit for each lane of @mask. */
INLINE uint32_t lane_bits(vi mask)
{
#if LANES == 16
	return _mm512_movepi32_mask((__m512i)mask);
#elif LANES == 8
	return (uint32_t)_mm256_movemask_ps((__m256)mask);
#else
	uint32_t bits = 0;

	for (int i = 0; i < LANES; i++)
		bits |= (uint32_t)(mask[i] & 1) << i;
	return bits;
#endif
}

INLINE bool any_lane(vi mask)
{
	return lane_bits(mask) != 0;
}

/* How many lanes are set before the first that is not. */
INLINE uint32_t first_lanes(vi mask)
{
	return (uint32_t)__builtin_ctz(~lane_bits(mask));
}

/*
 * at[] = where the first LANES of @left listed keys are in the block from @begin on, in floats;
 * returns how many of them are there. All of at[] are in the block.
 */
INLINE uint32_t list_keys(uint32_t at[LANES], const uint32_t *next, uint32_t left, uint32_t begin,
			  uint32_t keys, uint32_t wide)
{
	uint32_t there;
	vu key;
	vi in;

	memcpy(&key, next, sizeof(key));
	key -= begin;
	in = (vi)(key < keys);
	key = ((key & (vu)in) | ((keys - 1) & ~(vu)in)) * wide;
	memcpy(at, &key, sizeof(key));
	there = first_lanes(in);
	return there < left ? there : left;
}

/* exp(x - max) for x up to max + SPARSE_EXP_MAX; 0 below SPARSE_EXP_MIN. */
INLINE vf weight(vf x, vf max)
{
	vf d = x - max, e;
	vi n;

	e = exp_parts(d, &n);
	return (vf)((vi)(e * exp2_v(n)) & ~(d < SPARSE_EXP_MIN));
}

INLINE float greatest(vf v)
{
#if LANES == 16
	return _mm512_reduce_max_ps((__m512)v);
#else
	float x[LANES], max;

	store(x, v);
	max = x[0];
	for (int i = 1; i < LANES; i++)
		max = x[i] > max ? x[i] : max;
	return max;
#endif
}

/*
 * Raises a query's maximum to that of @x; scales its @total, and its weights of the block, which
 * end at @p. Rare, as a query's first scores are seldom far below all others.
 */
static void __attribute__((noinline))
raise_max(struct sparse_query *query, const float *x, const float *p, float *total)
{
	float max = greatest(greater(load(x), splat(query->max))), factor[LANES];

	store(factor, weight(splat(query->max), splat(max)));
	for (float *before = query->p; before < p; before++)
		*before *= factor[0];
	store(total, load(total) * factor[0]);
	query->scale *= factor[0];
	query->max = max;
}

/* The weights @p of query @i for its keys of a block; returns the end of whole vectors of them. */
INLINE float *weigh(const struct sparse_work *w, uint32_t i, float *p, uint32_t begin,
		    uint32_t keys, const uint32_t wide)
{
	struct sparse_query *query = &w->queries[i];
	float *total = w->totals + i * LANES;
	uint32_t at[LANES], n = 0, there = LANES;
	vf x, sum = splat(0);
	const vi iota = IOTA;

	query->p = p;
	query->scale = 1;
	for (; there == LANES && n < query->left; n += there, p += LANES) {
		there = list_keys(at, query->next + n, query->left - n, begin, keys, wide);
		if (!there)
			break;
		x = score(query->q, w->block, at, there, wide) * w->t->scale;
		if (there < LANES)
			x = choose(iota < (int32_t)there, x, splat(-INFINITY));
		if (any_lane(x > query->max + SPARSE_EXP_MAX)) {
			store(p, x);
			store(total, load(total) + sum);
			sum = splat(0);
			raise_max(query, p, p, total);
		}
		x = weight(x, splat(query->max));
		store(p, x);
		sum += x;
	}
	store(total, load(total) + sum);
	query->here = n;
	return p;
}

#define WEIGH_ALL(wide)                        \
	for (uint32_t i = 0; i < w->nr_q; i++) \
		p = weigh(w, i, p, begin, keys, wide);

/* Common head sizes have loops of their own. */
static void weigh_block(const struct sparse_work *w, uint32_t begin, uint32_t keys)
{
	float *p = w->p;

	switch (w->wide) {
	case 64:
		WEIGH_ALL(64)
		break;
	case 128:
		WEIGH_ALL(128)
		break;
	case 160:
		WEIGH_ALL(160)
		break;
	default:
		WEIGH_ALL(w->wide)
	}
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Adds a query's weighted values to its @sums, @vecs vectors of each. */
INLINE void add_values(const struct sparse_query *query, float *sums, const float *block,
		       uint32_t begin, uint32_t wide, const uint32_t vecs)
{
	const float *v;
	vf sum[10], x;
	uint32_t c;

#pragma GCC unroll 10
	for (c = 0; c < vecs; c++)
		sum[c] = load(sums + c * LANES) * query->scale;
	for (uint32_t j = 0; j < query->here; j++) {
		v = block + (size_t)(query->next[j] - begin) * wide;
		x = splat(query->p[j]);
#pragma GCC unroll 10
		for (c = 0; c < vecs; c++)
			sum[c] = mul_add(x, load(v + c * LANES), sum[c]);
	}
#pragma GCC unroll 10
	for (c = 0; c < vecs; c++)
		store(sums + c * LANES, sum[c]);
}

#define ADD_VALUES(vecs)                                    \
	for (; d + vecs * LANES <= wide; d += vecs * LANES) \
		add_values(query, w->sums + i * wide + d, w->block + d, begin, wide, vecs);

static void add_block(const struct sparse_work *w, uint32_t begin)
{
	const uint32_t wide = w->wide;
	struct sparse_query *query = w->queries;

	for (uint32_t i = 0; i < w->nr_q; i++, query++) {
		uint32_t d = 0;

		if (!query->here)
			continue;
#if LANES == 16
		ADD_VALUES(10)
#endif
		ADD_VALUES(8)
		ADD_VALUES(4)
		ADD_VALUES(1)
		query->next += query->here;
		query->left -= query->here;
	}
}

/* ---- a tile ---------------------------------------------------------------------------------- */

/* Query @i of the tile: its place in q or y, whose rows are @ld apart. */
static size_t query_place(const struct cpu_sparse_attn *t, uint32_t i, size_t ld)
{
	uint32_t query = t->first + i;

	return query / t->group * ld + query % t->group * (size_t)t->head_dim;
}

/* Begins the queries from @i0 on; returns the end of their positions. */
static uint32_t begin_queries(const struct sparse_work *w, uint32_t i0)
{
	const struct cpu_sparse_attn *t = w->t;
	uint32_t end = 0, last;

	for (uint32_t i = 0; i < w->nr_q; i++) {
		struct sparse_query *query = &w->queries[i];
		const float *q = t->q + query_place(t, i0 + i, t->ldq);

		query->q = q;
		if (w->wide != t->head_dim) {
			query->q = w->q + i * w->wide;
			memset(w->q + i * w->wide, 0, w->wide * sizeof(float));
			memcpy(w->q + i * w->wide, q, t->head_dim * sizeof(float));
		}
		query->next = t->positions + (i0 + i) * t->ld;
		query->left = t->nr[i0 + i];
		query->max = -INFINITY;
		last = query->next[query->left - 1];
		end = last >= end ? last + 1 : end;
	}
	memset(w->sums, 0, w->nr_q * w->wide * sizeof(float));
	memset(w->totals, 0, w->nr_q * LANES * sizeof(float));
	return end;
}

static void end_queries(const struct sparse_work *w, uint32_t i0)
{
	const struct cpu_sparse_attn *t = w->t;

	for (uint32_t i = 0; i < w->nr_q; i++) {
		const float *sums = w->sums + i * w->wide, *lanes = w->totals + i * LANES;
		float *y = t->y + query_place(t, i0 + i, t->ldy), total = 0;

		for (int l = 0; l < LANES; l++)
			total += lanes[l];
		for (uint32_t d = 0; d < t->head_dim; d++)
			y[d] = sums[d] * (1.0f / total);
	}
}

/* Places the work's arrays in @scratch. */
static void place(struct sparse_work *w, void *scratch)
{
	const uint32_t bytes = w->wide * sizeof(float), keys = BLOCK_BYTES / bytes / 16 * 16;

	w->keys = keys < 16 ? 16 : keys > BLOCK_KEYS ? BLOCK_KEYS : keys;
	w->block = scratch;
	w->p = w->block + BLOCK_FLOATS;
	w->totals = w->p + SPARSE_QUERIES * BLOCK_KEYS;
	w->sums = w->totals + SPARSE_QUERIES * LANES;
	w->q = w->sums + SPARSE_SUMS;
	w->queries = (struct sparse_query *)(w->q + SPARSE_SUMS);
}

static void sparse_attn(const struct cpu_sparse_attn *t, void *scratch)
{
	struct sparse_work w = { .t = t, .wide = (t->head_dim + LANES - 1) / LANES * LANES };
	uint32_t most = SPARSE_SUMS / w.wide, i, end, begin, keys;

	most = most < SPARSE_QUERIES ? most : SPARSE_QUERIES;
	place(&w, scratch);
	for (i = 0; i < t->nr_q; i += most) {
		w.nr_q = t->nr_q - i < most ? t->nr_q - i : most;
		end = begin_queries(&w, i);
		for (begin = 0; begin < end; begin += keys) {
			keys = end - begin < w.keys ? end - begin : w.keys;
			widen_block(&w, (const uint8_t *)t->k + begin * t->k_row_bytes,
				    t->k_row_bytes, keys);
			weigh_block(&w, begin, keys);
			widen_block(&w, (const uint8_t *)t->v + begin * t->v_row_bytes,
				    t->v_row_bytes, keys);
			add_block(&w, begin);
		}
		end_queries(&w, i);
	}
}
