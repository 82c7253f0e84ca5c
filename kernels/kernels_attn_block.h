/* SPDX-License-Identifier: MIT */
/*
 * A block of attention's keys and values: their scores, weights and sums for a tile's queries. Part
 * of kernels_attn.h, which says what is computed, and in what order.
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
	float *p; /* of one head, in @all_p: scores, then weights [nr_q][ATTN_KEYS] */
	float *all_p;
	float *scaled; /* of one head and block of Q8_0: weights times scales [nr_q][ATTN_KEYS] */
	float *scales; /* of Q8_0's keys [head_dim / 32][ATTN_KEYS] */
	struct attn_sums now, before; /* of this segment, and of all before it */
	float *tail; /* with a mask: scores of the rows from t->pos on, as p */
	struct attn_ahead k_ahead, v_ahead, no_ahead;
	uint64_t j0; /* the block's first key */
	uint32_t first, end; /* the block's queries of a head: others attend to none of its keys */
	uint32_t shared; /* the block's keys before its tail */
	uint32_t most; /* of these, those that some query attends to come before it */
	bool alike; /* all the block's queries attend to the same of these, from the first one on */
	/* A query's keys in the block are unseen .. seen - 1. */
	uint32_t unseen[FW_ATTN_MAX_QUERIES], seen[FW_ATTN_MAX_QUERIES];
	/* A query's keys are from .. nr_keys - 1. */
	uint64_t nr_keys[FW_ATTN_MAX_QUERIES], from[FW_ATTN_MAX_QUERIES];
	uint64_t oldest; /* the least of from */
	uint64_t masks[FW_ATTN_MAX_QUERIES]; /* with a mask: copied, and the query's own bit set */
	const float *q[FW_ATTN_MAX_QUERIES]; /* [heads * nr_q] */
	float *few_q; /* of few queries, in the place of @block: [heads][head_dim][nr_q] */
	float *scale; /* of one head, in @all_scale */
	float all_scale[FW_ATTN_MAX_QUERIES + 16];
	uint32_t turn; /* of few queries: rows that all heads take, before the block's next ones */
	uint32_t ahead; /* rows between one that is read and the one that is asked for meanwhile */
	float max[2][FW_ATTN_MAX_QUERIES + 16];
};

/* ---- a block of keys ------------------------------------------------------------------------- */

INLINE void attn_few_scores(uint32_t rows, float *p, const float *q, struct attn_source k,
			    uint32_t n, struct attn_work *w, const uint32_t type)
{
	switch (rows) {
		ATTN_CASES8(attn_score, p, q, k.at, k.bytes, n, w->t->head_dim, (uint8_t *)w->rows,
			    &w->k_ahead, type)
	}
}

/* The scores @p of the block's queries, of head @h, and of @n keys. Few queries: of all of them. */
static void attn_scores(struct attn_work *w, float *p, uint32_t h, struct attn_source k, uint32_t n)
{
	const struct fw_attn *t = w->t;
	const float *const *q = w->q + h * t->nr_q;
	uint32_t i, rows, dim = t->head_dim;

	if (w->few) {
		ATTN_TYPED(t->kv_type, attn_few_scores, t->nr_q, p,
			   w->few_q + (size_t)h * dim * t->nr_q, k, n, w)
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
		attn_ask(&w->v_ahead, ATTN_LINES(t->kv_type, w->wide / LANES));
		widen(y, v.at, t->head_dim, t->kv_type);
		if (w->wide > t->head_dim)
			memset(y + t->head_dim, 0, (w->wide - t->head_dim) * sizeof(float));
	}
	return (struct attn_values){ (const uint8_t *)w->block, w->wide * sizeof(float),
				     ATTN_WIDENED, &w->no_ahead };
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
	if (v->type == ATTN_WIDENED)
		attn_weigh_rows(rows, sums, wide, scale, p, n, v, d, end, ATTN_WIDENED);
	else
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
static void attn_scale(struct attn_work *w, struct attn_source v, uint32_t j, uint32_t n)
{
	uint32_t i;
	vf scale;

	for (n += j; j < n; j += LANES, v.at += LANES * v.bytes) {
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
	if (w->most)
		attn_scores(w, w->p, h, attn_row(t, t->k, t->k_row_bytes, h, w->j0), w->most);
	if (w->shared < ATTN_KEYS) {
		attn_scores(w, w->tail, h, attn_row(t, t->k, t->k_row_bytes, h, t->pos),
			    attn_tail_rows(w));
		attn_take_tail(w);
	}
	attn_softmax(w, h);
}

/* Adds the values before the tail. */
static void attn_add_shared(struct attn_work *w, float *acc, struct attn_source v)
{
	const bool scaled = w->t->kv_type == VNPU_KV_Q8_0;
	uint32_t part = scaled ? VNPU_Q8_0_VALUES : w->wide, d;
	struct attn_values values = attn_values(w, v, w->most);

	for (d = 0; d < w->wide; d += part, v.at += VNPU_Q8_0_BYTES) {
		if (scaled)
			attn_scale(w, v, 0, w->most);
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
	w->most = 0;
	for (uint32_t i = w->first; i < w->end; i++) {
		uint32_t stop = attn_stop(w, i);

		w->most = stop > w->most ? stop : w->most;
		w->alike &= !w->unseen[i] && stop == attn_stop(w, w->first);
	}
}

/* Makes head @h's weights and scales those at hand. */
static void attn_take_head(struct attn_work *w, uint32_t h)
{
	w->p = w->all_p + (size_t)h * w->t->nr_q * ATTN_KEYS;
	w->scale = w->all_scale + h * w->t->nr_q;
}

/* Adds @n values from the block's row @j on, weighted, of head @h. */
static void attn_turn_values(struct attn_work *w, uint32_t h, uint32_t j, uint32_t n)
{
	static const float ones[ATTN_FEW] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	const struct fw_attn *t = w->t;
	const bool scaled = t->kv_type == VNPU_KV_Q8_0;
	struct attn_source v = attn_row(t, t->v, t->v_row_bytes, h, w->j0 + j);
	struct attn_values values = { v.at, v.bytes, t->kv_type, &w->v_ahead };
	float *acc = w->now.acc + (size_t)h * t->nr_q * w->wide;
	uint32_t part = scaled ? VNPU_Q8_0_VALUES : w->wide, d;

	for (d = 0; d < w->wide; d += part, v.at += VNPU_Q8_0_BYTES) {
		if (scaled)
			attn_scale(w, v, j, n);
		attn_weigh(t->nr_q, acc, w->wide, j ? ones : w->scale,
			   (scaled ? w->scaled : w->p) + j, n, &values, d, d + part);
	}
}

/* The block of few queries that all see the same keys: of all heads, some rows at a time. */
static void attn_block_turns(struct attn_work *w)
{
	uint32_t end = w->seen[0], j, h, n;
	const struct fw_attn *t = w->t;

	for (j = 0; j < end; j += n) {
		n = end - j < w->turn ? end - j : w->turn;
		for (h = 0; h < t->heads; h++) {
			attn_take_head(w, h);
			attn_scores(w, w->p + j, h, attn_row(t, t->k, t->k_row_bytes, h, w->j0 + j),
				    n);
		}
	}
	for (h = 0; h < t->heads; h++) {
		attn_take_head(w, h);
		attn_softmax(w, h);
	}
	for (j = 0; j < end; j += n) {
		n = end - j < w->turn ? end - j : w->turn;
		for (h = 0; h < t->heads; h++) {
			attn_take_head(w, h);
			attn_turn_values(w, h, j, n);
		}
	}
}

static void attn_block(struct attn_work *w, uint64_t j0)
{
	attn_see_block(w, j0);
	if (w->few && w->alike && w->shared == ATTN_KEYS && w->end - w->first == w->t->nr_q) {
		attn_block_turns(w);
		return;
	}
	attn_take_head(w, 0); /* of one after another */
	for (uint32_t h = 0; h < w->t->heads && w->first < w->end; h++) {
		attn_block_keys(w, h);
		attn_block_values(w, h);
	}
}
