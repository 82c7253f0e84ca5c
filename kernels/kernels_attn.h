/* SPDX-License-Identifier: MIT */
/*
 * Attention. Part of kernels_float.h, which includes it.
 *
 * The keys are divided into segments of FW_ATTN_SEGMENT, and these into blocks of 64. For each
 * block a tile computes the scores of its queries, updates each query's maximum, turns the scores
 * into weights (online softmax), rescales the query's sums to the new maximum, and adds the
 * weighted values. At the end of a segment its sums are folded into those of the segments before
 * it, or left to attn_fold() if other tiles compute the other segments. A tile of several heads
 * takes them in turn, block by block: so it reads the cache in order, whole rows at a time.
 *
 * With a mask, a query's keys are the rows that it leaves, counted without the others. So a block's
 * keys before t->pos are the same rows for all queries, which share them as without a mask; those
 * from there on, its tail, are other rows for each. The scores of all these rows are computed for
 * all queries, of which a query takes those of its keys, in their order; values of the tail are
 * added query by query. A window leaves a query the last of its keys, from w->from on.
 *
 * The operations for a query, and so its bits, depend only on its own keys:
 *
 *	score	a sum over the head's elements in order, each step a fused
 *		multiply-add, then times the scale, then capped as by ACT; of Q8_0 such
 *		a sum over the integers of each block of 32, which fma(sum, block's
 *		scale, score) adds
 *	weight	exp(score - the segment's maximum so far); 0 below exp(-87)
 *	total	16 sums by key modulo 16, the four of a block added as (0 + 1) + (2 + 3);
 *		reduced by halves at the end
 *	value	a sum over the keys in order, each step a fused multiply-add; of Q8_0
 *		it adds weight * scale, rounded, times the integer;
 *		times 1 / total at the end
 *	fold	of segment after segment: with M the greater maximum, sums before times
 *		exp(maximum before - M), then fma(segment's, exp(segment's maximum - M), sums)
 */

/* Smaller weights would be subnormal numbers, which are slow and contribute nothing. */
#define ATTN_EXP_MIN (-87.0f)

_Static_assert(FW_ATTN_SEGMENT % ATTN_KEYS == 0 && FW_ATTN_BLOCK == ATTN_KEYS, "whole blocks");

/* Sums over keys of each query: [heads * nr_q], the queries of a head side by side. */
struct attn_sums {
	float *acc; /* [][wide] */
	float *total; /* [][16] */
	float *max;
};

/* A block's rows of a cache, in it or copied from it. */
struct attn_source {
	const uint8_t *at;
	size_t bytes; /* distance between rows */
};

/* A tile in progress: pointers into the worker's scratch, and the state of each query. */
struct attn_work {
	const struct fw_attn *t;
	uint32_t wide; /* head_dim, rounded up to 16 */
	bool few;
	float *block; /* keys [head_dim][ATTN_KEYS], then values [ATTN_KEYS][wide] */
	float *rows; /* [LANES][wide] */
	float *p; /* of one head: scores, then weights [nr_q][ATTN_KEYS] */
	float *scaled; /* of one head and block of Q8_0: weights times scales [nr_q][ATTN_KEYS] */
	float *scales; /* of Q8_0's keys [head_dim / 32][ATTN_KEYS] */
	struct attn_sums now, before; /* of this segment, and of all before it */
	float *tail; /* with a mask: scores of the rows from t->pos on, as p */
	struct attn_ahead k_ahead, v_ahead, no_ahead;
	uint64_t j0; /* the block's first key */
	uint32_t first, end; /* the block's queries of a head: others attend to none of its keys */
	uint32_t shared; /* the block's keys before its tail */
	bool alike; /* all the block's queries attend to the same of these, from the first one on */
	/* A query's keys in the block are unseen .. seen - 1. */
	uint32_t unseen[FW_ATTN_MAX_QUERIES], seen[FW_ATTN_MAX_QUERIES];
	/* A query's keys are from .. nr_keys - 1. */
	uint64_t nr_keys[FW_ATTN_MAX_QUERIES], from[FW_ATTN_MAX_QUERIES];
	uint64_t oldest; /* the least of from */
	uint64_t masks[FW_ATTN_MAX_QUERIES]; /* with a mask: copied, and the query's own bit set */
	const float *q[FW_ATTN_MAX_QUERIES]; /* [heads * nr_q] */
	float scale[FW_ATTN_MAX_QUERIES + 16]; /* of one head */
	float max[2][FW_ATTN_MAX_QUERIES + 16];
};

/* Scratch of a tile with keys and values of @dim elements, and @scores of each query and key. */
#define ATTN_SCRATCH(dim, scores)                                      \
	((ATTN_KEYS + 16 + ATTN_KEYS / 32) * (dim)*4 + 2 * 16384 * 4 + \
	 FW_ATTN_MAX_QUERIES * ((scores)*ATTN_KEYS + 2 * 16) * 4)
_Static_assert(ATTN_SCRATCH(VNPU_MAX_HEAD_DIM, 2) <= FW_SCRATCH_BYTES, "a tile's scratch");
_Static_assert(ATTN_SCRATCH(VNPU_MASK_HEAD_DIM, 3) <= FW_SCRATCH_BYTES, "with a mask");

/* ---- a block of keys ------------------------------------------------------------------------- */

INLINE void attn_few_scores(uint32_t rows, float *p, const float *const *q, struct attn_source k,
			    uint32_t n, struct attn_work *w, const uint32_t type)
{
	switch (rows) {
		ATTN_CASES8(attn_score, p, q, k.at, k.bytes, n, w->t->head_dim, (uint8_t *)w->rows,
			    &w->k_ahead, type)
	}
}

/* The scores @p of the block's queries, of a head with queries @q, and of @n keys. */
static void attn_scores(struct attn_work *w, float *p, const float *const *q, struct attn_source k,
			uint32_t n)
{
	const struct fw_attn *t = w->t;
	uint32_t i, rows, dim = t->head_dim;

	if (w->few) {
		ATTN_TYPED(t->kv_type, attn_few_scores, w->end - w->first, p + w->first * ATTN_KEYS,
			   q + w->first, k, n, w)
		return;
	}
	ATTN_TYPED(t->kv_type, attn_transpose, w->block, w->scales, w->rows, w->wide, k.at, k.bytes,
		   n, dim, &w->k_ahead)
	for (i = w->first; i < w->end; i += rows) {
		rows = w->end - i < ATTN_ROWS ? w->end - i : ATTN_ROWS;
		switch (rows) {
			ATTN_CASES6(ATTN_DOT, p + i * ATTN_KEYS, q + i, w->block, dim,
				    t->kv_type == VNPU_KV_Q8_0 ? w->scales : NULL)
		}
	}
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

/* Of the block, query @i of a head attends to the keys from w->unseen[i] on, before w->seen[i]; of
 * these the ones before attn_stop() are not in the tail. */
static uint32_t attn_stop(const struct attn_work *w, uint32_t i)
{
	return w->seen[i] < w->shared ? w->seen[i] : w->shared;
}

/* Whether it attends to any. */
static bool attn_sees(const struct attn_work *w, uint32_t i)
{
	return w->seen[i] > w->unseen[i];
}

/* Scales and caps a query's scores @p, of which it attends to those from @begin on, before @n.
 * Returns their maximum, at least @max. */
INLINE float attn_greatest(const struct attn_work *w, float *p, uint32_t begin, uint32_t n,
			   float max)
{
	struct v16 s[4], factor = splat16(w->t->scale);
	uint32_t b;

	_Static_assert(ATTN_KEYS == 64, "four vectors");
#pragma GCC unroll 4
	for (b = 0; b < 4; b++)
		s[b] = mul16(load16(p + 16 * b), factor);
	if (w->t->cap > 0)
		for (b = 0; b < 4; b++)
			s[b] = cap16(s[b], w->t->cap);
	if (n < ATTN_KEYS)
		for (b = 0; b < 4; b++)
			s[b] = first16(s[b], n < 16 * b ? 0 : n - 16 * b, -INFINITY);
	if (begin)
		for (b = 0; b < 4; b++)
			s[b] = after16(s[b], begin < 16 * b ? 0 : begin - 16 * b, -INFINITY);
#pragma GCC unroll 4
	for (b = 0; b < 4; b++)
		store16(p + 16 * b, s[b]);
	return reduce_max(
		greater16(greater16(greater16(s[0], s[1]), greater16(s[2], s[3])), splat16(max)));
}

/* Turns a query's scores into weights, and adds them to @total, times @scale. */
INLINE void attn_weights(float *p, float max, float *total, float scale)
{
	struct v16 s[4], m = splat16(max);
	uint32_t b;

#pragma GCC unroll 4
	for (b = 0; b < 4; b++) {
		s[b] = attn_exp(load16(p + 16 * b), m);
		store16(p + 16 * b, s[b]);
	}
	s[0] = add16(add16(s[0], s[1]), add16(s[2], s[3]));
	store16(total, fma16(load16(total), splat16(scale), s[0]));
}

/* Turns the scores of head @h into weights, and sets the scales for the earlier sums. */
static void attn_softmax(struct attn_work *w, uint32_t h)
{
	float *max = w->now.max + h * w->t->nr_q;
	uint32_t i;

	for (i = w->first; i < w->end; i++) {
		w->scale[i] = max[i];
		if (attn_sees(w, i))
			max[i] = attn_greatest(w, w->p + i * ATTN_KEYS, w->unseen[i], w->seen[i],
					       max[i]);
	}
	/* Sixteen at a time: the arrays have room for as many more. */
	for (i = w->first; i < w->end; i += 16)
		store16(w->scale + i, attn_exp(load16(w->scale + i), load16(max + i)));
	for (i = w->first; i < w->end; i++)
		if (attn_sees(w, i))
			attn_weights(w->p + i * ATTN_KEYS, max[i],
				     w->now.total + (h * w->t->nr_q + i) * 16, w->scale[i]);
}

/* The values of @n rows: where they are, or widened to @w->block. */
static struct attn_values attn_values(struct attn_work *w, struct attn_source v, uint32_t n)
{
	const struct fw_attn *t = w->t;
	float *y = w->block;
	uint32_t j;

	if (w->few)
		return (struct attn_values){ v.at, v.bytes, t->kv_type, &w->v_ahead };
	for (j = 0; j < n; j++, v.at += v.bytes, y += w->wide) {
		attn_ahead(&w->v_ahead, ATTN_LINES(t->kv_type, w->wide / LANES));
		widen(y, v.at, t->head_dim, t->kv_type);
		if (w->wide > t->head_dim)
			memset(y + t->head_dim, 0, (w->wide - t->head_dim) * sizeof(float));
	}
	return (struct attn_values){ (const uint8_t *)w->block, w->wide * sizeof(float),
				     VNPU_KV_F32, &w->no_ahead };
}

INLINE void attn_weigh_rows(uint32_t rows, float *sums, size_t wide, const float *scale,
			    const float *p, uint32_t n, const struct attn_values *v, uint32_t d,
			    uint32_t end, const uint32_t type)
{
	switch (rows) {
		ATTN_CASES8(attn_sums, sums, wide, scale, p, n, v, d, end, type)
	}
}

static void attn_weigh(uint32_t rows, float *sums, size_t wide, const float *scale, const float *p,
		       uint32_t n, const struct attn_values *v, uint32_t d, uint32_t end)
{
	ATTN_TYPED(v->type, attn_weigh_rows, rows, sums, wide, scale, p, n, v, d, end)
}

/* Adds those of keys @begin to @stop of the block to a query's sums, unless there are none. */
static void attn_add_keys(const struct attn_work *w, float *acc, const float *p, uint32_t begin,
			  uint32_t stop, const struct attn_values *v, uint32_t d, uint32_t end)
{
	const float one = 1;
	struct attn_values at = *v;

	if (begin >= stop)
		return;
	at.rows += begin * v->row_bytes;
	attn_weigh(1, acc, w->wide, &one, p + begin, stop - begin, &at, d, end);
}

/*
 * Adds elements @d to @end of the block's values before the tail, weighted by @p, to the sums @acc
 * of @rows queries from @i on: the keys that all of them attend to at once, those before and behind
 * them for each query. A value that a query does not attend to must not be multiplied, not even by
 * weight 0.
 */
static void attn_add_rows(struct attn_work *w, uint32_t rows, uint32_t i, float *acc,
			  const float *p, const struct attn_values *v, uint32_t d, uint32_t end)
{
	static const float ones[ATTN_FEW] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	uint32_t begin = 0, stop = ATTN_KEYS, k, from[ATTN_FEW], to[ATTN_FEW];
	const float *scale = w->scale + i;
	struct attn_values at = *v;

	for (k = 0; k < rows; k++) {
		from[k] = w->unseen[i + k];
		to[k] = attn_stop(w, i + k);
		begin = from[k] > begin ? from[k] : begin;
		stop = to[k] < stop ? to[k] : stop;
	}
	begin = begin < stop ? begin : stop;
	if (begin) {
		attn_weigh(rows, acc, w->wide, scale, p, 0, v, d, end);
		for (k = 0; k < rows; k++)
			attn_add_keys(w, acc + k * w->wide, p + k * ATTN_KEYS, from[k], begin, v, d,
				      end);
		scale = ones;
		at.rows += begin * v->row_bytes;
	}
	if (begin < stop || !begin)
		attn_weigh(rows, acc, w->wide, scale, p + begin, stop - begin, &at, d, end);
	for (k = 0; k < rows; k++)
		attn_add_keys(w, acc + k * w->wide, p + k * ATTN_KEYS,
			      from[k] > stop ? from[k] : stop, to[k], v, d, end);
}

/* How many of the block's queries from @i on, of at most @most, attend to some of its keys. */
static uint32_t attn_run(const struct attn_work *w, uint32_t i, uint32_t most)
{
	uint32_t n = 0;

	while (n < most && i + n < w->end && attn_sees(w, i + n))
		n++;
	return n;
}

/* The same for all queries of a head that the block has. */
static void attn_add(struct attn_work *w, float *acc, const float *p, const struct attn_values *v,
		     uint32_t d, uint32_t end)
{
	uint32_t most = w->few ? ATTN_FEW : ATTN_ROWS, i, rows;

	for (i = w->first; i < w->end; i += rows ? rows : 1) {
		rows = attn_run(w, i, most);
		if (w->alike)
			attn_weigh(rows, acc + i * w->wide, w->wide, w->scale + i,
				   p + i * ATTN_KEYS, attn_stop(w, i), v, d, end);
		else if (rows)
			attn_add_rows(w, rows, i, acc + i * w->wide, p + i * ATTN_KEYS, v, d, end);
	}
}

/* Sets @w->scaled to the weights times the scales of a block of @n rows of values. */
static void attn_scale(struct attn_work *w, struct attn_source v, uint32_t n)
{
	uint32_t i, j;
	vf scale;

	for (j = 0; j < n; j += LANES, v.at += LANES * v.bytes) {
		scale = n - j < LANES ? load_scales_part(v.at, v.bytes, n - j)
				      : load_scales(v.at, v.bytes);
		for (i = w->first * ATTN_KEYS; i < w->end * ATTN_KEYS; i += ATTN_KEYS)
			store(w->scaled + i + j, load(w->p + i + j) * scale);
	}
}

/* The lowest @n bits. */
INLINE uint64_t attn_below(uint64_t n)
{
	return n < 64 ? (1ull << n) - 1 : ~0ull;
}

/* ---- tails ----------------------------------------------------------------------------------- */

/* Rows from t->pos on that the block's queries may attend to. */
static uint32_t attn_tail_rows(const struct attn_work *w)
{
	return (uint32_t)((w->t->first + w->end - 1) / w->t->group + 1);
}

/* The rows from t->pos on that are query @i's keys from number @key of the block's tail on. */
static uint64_t attn_tail_mask(const struct attn_work *w, uint32_t i, uint32_t key)
{
	uint64_t mask = w->masks[i], skip = w->j0 + key - w->t->pos;

	for (; skip && mask; skip--)
		mask &= mask - 1;
	return mask;
}

/* Takes the scores of each query's keys in the tail from those of all its rows. */
static void attn_take_tail(struct attn_work *w)
{
	for (uint32_t i = w->first; i < w->end; i++) {
		uint32_t seen = attn_sees(w, i) ? w->seen[i] : 0, key = w->shared;
		uint64_t mask = attn_tail_mask(w, i, key);

		for (; key < seen; key++, mask &= mask - 1)
			w->p[i * ATTN_KEYS + key] =
				w->tail[i * ATTN_KEYS + (uint32_t)__builtin_ctzll(mask)];
	}
}

/* How many rows follow each other from the first one of @mask on. */
static uint32_t attn_neighbours(uint64_t mask)
{
	uint64_t others = ~(mask >> __builtin_ctzll(mask));

	return others ? (uint32_t)__builtin_ctzll(others) : 64;
}

/* Adds elements @d to @end of query @i's values in the tail, which is rows @v, weighted by @p. */
static void attn_add_tail(struct attn_work *w, uint32_t i, float *acc, const float *p,
			  const struct attn_values *v, uint32_t d, uint32_t end)
{
	uint32_t unseen = w->unseen[i], seen = w->seen[i], row, n;
	uint32_t key = unseen > w->shared ? unseen : w->shared;
	uint64_t mask = attn_tail_mask(w, i, key);
	struct attn_values at = *v;
	const float one = 1;

	for (; key < seen; key += n, mask &= ~(attn_below(n) << row)) {
		row = (uint32_t)__builtin_ctzll(mask);
		n = attn_neighbours(mask);
		n = n < seen - key ? n : seen - key;
		at.rows = v->rows + row * v->row_bytes;
		attn_weigh(1, acc, w->wide, &one, p + key, n, &at, d, end);
	}
}

/* The same of Q8_0: the weights times the @scales of the rows' values in these elements. */
static void attn_add_scaled_tail(struct attn_work *w, uint32_t i, float *acc, const float *scales,
				 const struct attn_values *v, uint32_t d)
{
	uint32_t seen = w->seen[i], key = w->shared;
	uint64_t mask = attn_tail_mask(w, i, key);
	float *p = w->scaled + i * ATTN_KEYS;

	for (; key < seen; key++, mask &= mask - 1)
		p[key] = w->p[i * ATTN_KEYS + key] * scales[__builtin_ctzll(mask)];
	attn_add_tail(w, i, acc, p, v, d, d + VNPU_Q8_0_VALUES);
}

/* Sets @scales to those of a block of @rows rows of values. */
static void attn_tail_scales(float *scales, struct attn_source v, uint32_t rows)
{
	for (uint32_t i = 0; i < rows; i += LANES, v.at += LANES * v.bytes)
		store(scales + i,
		      load_scales_part(v.at, v.bytes, rows - i < LANES ? rows - i : LANES));
}

/* Adds the values of the tail, which are among rows @v. */
static void attn_add_tails(struct attn_work *w, float *acc, struct attn_source v)
{
	const bool scaled = w->t->kv_type == VNPU_KV_Q8_0;
	uint32_t part = scaled ? VNPU_Q8_0_VALUES : w->wide, rows = attn_tail_rows(w), d, i;
	struct attn_values values = attn_values(w, v, rows);
	float scales[ATTN_KEYS];

	values.ahead = &w->no_ahead;
	for (d = 0; d < w->wide; d += part, v.at += VNPU_Q8_0_BYTES) {
		if (scaled)
			attn_tail_scales(scales, v, rows);
		for (i = w->first; i < w->end; i++) {
			if (!attn_sees(w, i))
				continue;
			if (scaled)
				attn_add_scaled_tail(w, i, acc + i * w->wide, scales, &values, d);
			else
				attn_add_tail(w, i, acc + i * w->wide, w->p + i * ATTN_KEYS,
					      &values, d, d + part);
		}
	}
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Row @row of head @h of a cache. */
static struct attn_source attn_row(const struct fw_attn *t, const void *cache, size_t row_bytes,
				   uint32_t h, uint64_t row)
{
	return (struct attn_source){ (const uint8_t *)cache + row * row_bytes +
					     h * VNPU_KV_BYTES(t->kv_type, t->head_dim),
				     row_bytes };
}

/* The weights of the block's keys for its queries of head @h. */
static void attn_block_keys(struct attn_work *w, uint32_t h)
{
	const struct fw_attn *t = w->t;
	const float *const *q = w->q + h * t->nr_q;
	uint32_t n = attn_stop(w, w->end - 1);

	if (n)
		attn_scores(w, w->p, q, attn_row(t, t->k, t->k_row_bytes, h, w->j0), n);
	if (w->shared < ATTN_KEYS) {
		attn_scores(w, w->tail, q, attn_row(t, t->k, t->k_row_bytes, h, t->pos),
			    attn_tail_rows(w));
		attn_take_tail(w);
	}
	attn_softmax(w, h);
}

/* Adds the values before the tail. */
static void attn_add_shared(struct attn_work *w, float *acc, struct attn_source v)
{
	const bool scaled = w->t->kv_type == VNPU_KV_Q8_0;
	uint32_t part = scaled ? VNPU_Q8_0_VALUES : w->wide, n = attn_stop(w, w->end - 1), d;
	struct attn_values values = attn_values(w, v, n);

	for (d = 0; d < w->wide; d += part, v.at += VNPU_Q8_0_BYTES) {
		if (scaled)
			attn_scale(w, v, n);
		attn_add(w, acc, scaled ? w->scaled : w->p, &values, d, d + part);
	}
}

/* The values of head @h, by their keys' weights. */
static void attn_block_values(struct attn_work *w, uint32_t h)
{
	const struct fw_attn *t = w->t;
	float *acc = w->now.acc + (size_t)h * t->nr_q * w->wide;

	attn_add_shared(w, acc, attn_row(t, t->v, t->v_row_bytes, h, w->j0));
	if (w->shared < ATTN_KEYS)
		attn_add_tails(w, acc, attn_row(t, t->v, t->v_row_bytes, h, t->pos));
}

/* What the queries see of the block from @j0 on. */
static void attn_see_block(struct attn_work *w, uint64_t j0)
{
	uint64_t pos = w->t->pos, nr;

	w->j0 = j0;
	w->shared = ATTN_KEYS;
	if (w->t->mask && j0 + ATTN_KEYS > pos)
		w->shared = j0 < pos ? (uint32_t)(pos - j0) : 0;
	for (uint32_t i = 0; i < w->t->nr_q; i++) {
		nr = w->nr_keys[i] > j0 ? w->nr_keys[i] - j0 : 0;
		w->seen[i] = nr < ATTN_KEYS ? (uint32_t)nr : ATTN_KEYS;
		nr = w->from[i] > j0 ? w->from[i] - j0 : 0;
		w->unseen[i] = nr < ATTN_KEYS ? (uint32_t)nr : ATTN_KEYS;
	}
	w->first = 0;
	w->end = w->t->nr_q;
	while (w->first < w->end && !attn_sees(w, w->first))
		w->first++;
	while (w->first < w->end && !attn_sees(w, w->end - 1))
		w->end--;
	w->alike = true;
	for (uint32_t i = w->first; i < w->end; i++)
		w->alike &= !w->unseen[i] && attn_stop(w, i) == attn_stop(w, w->first);
}

static void attn_block(struct attn_work *w, uint64_t j0)
{
	attn_see_block(w, j0);
	for (uint32_t h = 0; h < w->t->heads && w->first < w->end; h++) {
		attn_block_keys(w, h);
		attn_block_values(w, h);
	}
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* What the mask lets row @row attend to: rows behind t->pos, its own included. The mask may change
 * while it is read. */
static uint64_t attn_mask(const struct fw_attn *t, uint64_t row)
{
	uint64_t mask = __atomic_load_n(&t->mask[row], __ATOMIC_RELAXED);

	return (mask & attn_below(row)) | 1ull << row;
}

/* The first of a query's @keys keys. */
static uint64_t attn_from(const struct fw_attn *t, uint64_t keys)
{
	return t->window && keys > t->window ? keys - t->window : 0;
}

/* Sets the keys of the tile's queries. */
static void attn_see(struct attn_work *w)
{
	const struct fw_attn *t = w->t;
	uint64_t row, last = UINT64_MAX;

	w->oldest = UINT64_MAX;
	for (uint32_t i = 0; i < t->nr_q; i++, last = row) {
		row = (t->first + i) / t->group;
		w->nr_keys[i] = t->pos + row + 1;
		if (t->mask) {
			w->masks[i] = row == last ? w->masks[i - 1] : attn_mask(t, row);
			w->nr_keys[i] = t->pos + (uint64_t)__builtin_popcountll(w->masks[i]);
		}
		w->from[i] = attn_from(t, w->nr_keys[i]);
		w->oldest = w->from[i] < w->oldest ? w->from[i] : w->oldest;
	}
}

/* ---- segments -------------------------------------------------------------------------------- */

/* The tile's part of up to a block's rows of a cache from @begin on, of @end. */
static struct attn_ahead attn_next(const struct fw_attn *t, const void *cache, size_t row_bytes,
				   uint64_t begin, uint64_t end)
{
	size_t bytes = t->heads * VNPU_KV_BYTES(t->kv_type, t->head_dim);
	struct attn_ahead a = { .at = (const uint8_t *)cache + begin * row_bytes };

	if (begin >= end)
		return a;
	a.rows = end - begin < ATTN_KEYS ? end - begin : ATTN_KEYS;
	a.gap = row_bytes - bytes;
	if (!a.gap) {
		bytes *= a.rows;
		a.rows = 1;
	}
	a.bytes = bytes;
	a.end = a.at + bytes;
	return a;
}

/* Sets @w->now to the sums over the keys of a segment; @end: of all keys that a query sees. */
static void attn_segment(struct attn_work *w, uint64_t segment, uint64_t end)
{
	uint64_t j0 = segment * FW_ATTN_SEGMENT, stop = j0 + FW_ATTN_SEGMENT;
	const struct fw_attn *t = w->t;
	uint32_t queries = t->heads * t->nr_q, i;

	memset(w->now.acc, 0, (size_t)queries * w->wide * sizeof(float));
	memset(w->now.total, 0, queries * 16 * sizeof(float));
	for (i = 0; i < queries; i++)
		w->now.max[i] = -INFINITY;
	for (; j0 < stop && j0 < end; j0 += ATTN_KEYS) {
		if (j0 + ATTN_KEYS <= w->oldest)
			continue;
		w->k_ahead = attn_next(t, t->k, t->k_row_bytes, j0 + ATTN_KEYS, end);
		w->v_ahead = attn_next(t, t->v, t->v_row_bytes, j0 + ATTN_KEYS, end);
		attn_block(w, j0);
	}
}

/* Folds sums of a query over a segment, @b, into those over all segments before it, @a. */
INLINE void attn_fold(float *acc_a, float *total_a, float *max_a, const float *acc_b,
		      const float *total_b, float max_b, uint32_t wide)
{
	float max = *max_a > max_b ? *max_a : max_b, scale[16];
	struct v16 m = splat16(max);
	vf a, b;

	store16(scale, attn_exp(splat16(*max_a), m));
	a = splat(scale[0]);
	store16(scale, attn_exp(splat16(max_b), m));
	b = splat(scale[0]);
	for (uint32_t d = 0; d < wide; d += LANES)
		store(acc_a + d, fma_v(load(acc_b + d), b, load(acc_a + d) * a));
	for (uint32_t d = 0; d < 16; d += LANES)
		store(total_a + d, fma_v(load(total_b + d), b, load(total_a + d) * a));
	*max_a = max;
}

/* Folds query @i's sums over @segment into those before it; none are if it has key @from. */
INLINE void attn_fold_query(struct attn_work *w, uint32_t i, uint64_t from, uint64_t segment)
{
	float *acc = w->before.acc + (size_t)i * w->wide, *total = w->before.total + i * 16;
	const float *now = w->now.acc + (size_t)i * w->wide;

	if (from / FW_ATTN_SEGMENT < segment) {
		attn_fold(acc, total, &w->before.max[i], now, w->now.total + i * 16, w->now.max[i],
			  w->wide);
		return;
	}
	memcpy(acc, now, w->wide * sizeof(float));
	memcpy(total, w->now.total + i * 16, 16 * sizeof(float));
	w->before.max[i] = w->now.max[i];
}

static void attn_fold_tile(struct attn_work *w, uint64_t segment)
{
	const struct fw_attn *t = w->t;

	for (uint32_t h = 0, i = 0; h < t->heads; h++)
		for (uint32_t q = 0; q < t->nr_q; q++, i++)
			if (w->nr_keys[q] > segment * FW_ATTN_SEGMENT &&
			    w->from[q] / FW_ATTN_SEGMENT <= segment)
				attn_fold_query(w, i, w->from[q], segment);
}

/* Query @i of KV head @h of the tile: its place in q or y, whose rows are @ld apart. */
static size_t attn_place(const struct fw_attn *t, uint32_t h, uint32_t i, size_t ld)
{
	uint64_t query = t->first + i;

	return query / t->group * ld + (h * t->group + query % t->group) * (size_t)t->head_dim;
}

static uint64_t attn_nr_keys(const struct fw_attn *t, uint32_t i)
{
	uint64_t row = (t->first + i) / t->group;

	return t->pos + (t->mask ? (uint64_t)__builtin_popcountll(attn_mask(t, row)) : row + 1);
}

static void attn_result(float *y, const float *acc, const float *total, uint32_t dim)
{
	float inv = 1.0f / reduce_sum(load16(total));
	uint32_t d = 0;

	for (; d + LANES <= dim; d += LANES)
		store(y + d, load(acc + d) * inv);
	for (; d < dim; d++)
		y[d] = acc[d] * inv;
}

/* Leaves the sums of the tile's segment to kernel_attn_fold(). */
static void attn_leave(const struct attn_work *w)
{
	uint32_t queries = w->t->heads * w->t->nr_q, i;
	size_t part = fw_attn_part_floats(w->t->head_dim);
	float *to = w->t->part;

	for (i = 0; i < queries; i++, to += part) {
		memcpy(to, w->now.acc + (size_t)i * w->wide, w->wide * sizeof(float));
		memcpy(to + w->wide, w->now.total + i * 16, 16 * sizeof(float));
		to[w->wide + 16] = w->now.max[i];
	}
}

static void attn_begin(struct attn_work *w, const struct fw_attn *t, float *scratch)
{
	uint32_t queries = t->heads * t->nr_q, h, i;

	w->t = t;
	w->no_ahead = (struct attn_ahead){ 0 };
	w->wide = (t->head_dim + 15) / 16 * 16;
	w->few = t->nr_q <= ATTN_FEW && w->wide == t->head_dim;
	w->block = scratch;
	w->rows = w->block + ATTN_KEYS * w->wide;
	w->p = w->rows + 16 * w->wide;
	w->scaled = w->p + t->nr_q * ATTN_KEYS;
	w->scales = w->scaled + t->nr_q * ATTN_KEYS;
	w->now.acc = w->scales + w->wide / 32 * ATTN_KEYS;
	w->now.total = w->now.acc + (size_t)queries * w->wide;
	w->before.acc = w->now.total + queries * 16;
	w->before.total = w->before.acc + (size_t)queries * w->wide;
	w->now.max = w->max[0];
	w->before.max = w->max[1];
	w->tail = w->before.total + queries * 16;
	attn_see(w);
	for (h = 0; h < t->heads; h++)
		for (i = 0; i < t->nr_q; i++)
			w->q[h * t->nr_q + i] = t->q + attn_place(t, h, i, t->ldq);
}

static uint64_t attn_most_keys(const struct attn_work *w)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < w->t->nr_q; i++)
		most = w->nr_keys[i] > most ? w->nr_keys[i] : most;
	return most;
}

static void kernel_attn(const struct fw_attn *t, void *scratch)
{
	struct attn_work w;
	struct attn_sums first;
	uint64_t end, segment;
	uint32_t h, i, n = 0;

	attn_begin(&w, t, scratch);
	end = attn_most_keys(&w);
	if (t->part) {
		attn_segment(&w, t->segment, end);
		attn_leave(&w);
		return;
	}
	segment = w.oldest / FW_ATTN_SEGMENT;
	attn_segment(&w, segment, end);
	first = w.now;
	w.now = w.before;
	w.before = first;
	for (segment++; segment * FW_ATTN_SEGMENT < end; segment++) {
		attn_segment(&w, segment, end);
		attn_fold_tile(&w, segment);
	}
	for (h = 0; h < t->heads; h++)
		for (i = 0; i < t->nr_q; i++, n++)
			attn_result(t->y + attn_place(t, h, i, t->ldy),
				    w.before.acc + (size_t)n * w.wide, w.before.total + n * 16,
				    t->head_dim);
}

static void kernel_attn_fold(const struct fw_attn *t)
{
	size_t part = fw_attn_part_floats(t->head_dim), wide = part - 32;
	uint32_t h, i, queries = t->heads * t->nr_q;
	float *a, *b, *first = t->part;
	uint64_t segment, keys;

	for (h = 0; h < t->heads; h++)
		for (i = 0; i < t->nr_q; i++, first += part) {
			/* Its owner may change a mask at any moment: it is read once. */
			keys = attn_nr_keys(t, i);
			segment = attn_from(t, keys) / FW_ATTN_SEGMENT;
			segment = segment > t->segment ? segment : t->segment;
			a = b = first + (segment - t->segment) * queries * part;
			for (segment++; segment * FW_ATTN_SEGMENT < keys; segment++) {
				b += queries * part;
				attn_fold(a, a + wide, a + wide + 16, b, b + wide, b[wide + 16],
					  wide);
			}
			attn_result(t->y + attn_place(t, h, i, t->ldy), a, a + wide, t->head_dim);
		}
}
