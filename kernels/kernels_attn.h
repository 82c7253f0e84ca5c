/* SPDX-License-Identifier: MIT */
/*
 * Attention. Part of kernels_float.h, which includes it.
 *
 * The keys are divided into segments of FW_ATTN_SEGMENT, and these into blocks of 64. For each
 * block a tile computes the scores of its queries, updates each query's maximum, turns the scores
 * into weights (online softmax), rescales the query's sums to the new maximum, and adds the
 * weighted values. At the end of a segment its sums are folded into those of the segments before
 * it, or left to attn_fold() if other tiles compute the other segments. A tile of several heads
 * takes them one after another, block by block, or few queries a block's rows in turns: so it reads
 * the cache nearly in the order of memory (attn_pace()).
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

/* About so much of a cache makes a turn of few queries. */
#define ATTN_TURN_BYTES (40u << 10)

/* Scratch of a tile with keys and values of @dim elements, and @scores of each query and key. */
#define ATTN_SCRATCH(dim, scores)                                      \
	((ATTN_KEYS + 16 + ATTN_KEYS / 32) * (dim)*4 + 2 * 16384 * 4 + \
	 FW_ATTN_MAX_QUERIES * ((scores)*ATTN_KEYS + 2 * 16) * 4)
#define ATTN_FEW_SCRATCH                                                 \
	((16 + ATTN_KEYS / 32) * VNPU_MAX_HEAD_DIM * 4 + 3 * 16384 * 4 + \
	 (FW_ATTN_MAX_QUERIES + 2 * ATTN_FEW) * ATTN_KEYS * 4 + FW_ATTN_MAX_QUERIES * 2 * 16 * 4)
_Static_assert(ATTN_SCRATCH(VNPU_MAX_HEAD_DIM, 2) <= FW_SCRATCH_BYTES, "a tile's scratch");
_Static_assert(ATTN_SCRATCH(VNPU_MASK_HEAD_DIM, 3) <= FW_SCRATCH_BYTES, "with a mask");
_Static_assert(ATTN_FEW_SCRATCH <= FW_SCRATCH_BYTES, "of few queries");

/* ---- positions and masks -------------------------------------------------------------------- */

/* What the mask lets row @row attend to: rows behind t->pos, its own included. The mask may change
 * while it is read. */
static uint64_t attn_mask(const struct fw_attn *t, uint64_t row)
{
	uint64_t mask = __atomic_load_n(&t->mask[row], __ATOMIC_RELAXED);

	return (mask & attn_below(row)) | 1ull << row;
}

/* The keys that row @row attends to, without a mask. Positions may change while they are read. */
static uint64_t attn_keys_of(const struct fw_attn *t, uint64_t row)
{
	uint32_t at;

	if (!t->at)
		return t->pos + row + 1;
	at = __atomic_load_n(&t->at[row], __ATOMIC_RELAXED);
	return t->pos + (at < t->span ? at + 1 : t->span);
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
		w->nr_keys[i] = row == last ? w->nr_keys[i - 1] : attn_keys_of(t, row);
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
	a.parts = (end - begin < ATTN_KEYS ? end - begin : ATTN_KEYS) - 1;
	a.gap = row_bytes - bytes;
	if (!a.gap) {
		bytes *= a.parts + 1;
		a.parts = 0;
	}
	a.bytes = bytes;
	a.left = bytes;
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
		w->k_ahead = attn_next(t, t->k, t->k_row_bytes, j0 + w->ahead, end);
		w->v_ahead = attn_next(t, t->v, t->v_row_bytes, j0 + w->ahead, end);
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

	return t->mask ? t->pos + (uint64_t)__builtin_popcountll(attn_mask(t, row))
		       : attn_keys_of(t, row);
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

/*
 * Sets the rows of a turn and those ahead. A turn's heads read it column by column, so all of it is
 * to have arrived when they begin; the less that is, the closer together are the lines that memory
 * is asked for at a time. Measured with rows of 256 bytes to 8 KB.
 */
static void attn_pace(struct attn_work *w)
{
	const struct fw_attn *t = w->t;
	size_t fit = ATTN_TURN_BYTES / (t->heads * VNPU_KV_BYTES(t->kv_type, t->head_dim));

	w->turn = ATTN_KEYS;
	w->ahead = ATTN_KEYS;
	if (!w->few)
		return;
	while (w->turn > 16 && w->turn > fit)
		w->turn /= 2;
	w->ahead = w->turn < fit || !fit ? w->turn : (uint32_t)fit;
}

static void attn_copy_queries(struct attn_work *w)
{
	uint32_t dim = w->t->head_dim, nr_q = w->t->nr_q, h, i, d;
	float *to = w->few_q;

	for (h = 0; h < w->t->heads; h++, to += (size_t)dim * nr_q)
		for (i = 0; i < nr_q; i++)
			for (d = 0; d < dim; d++)
				to[d * nr_q + i] = w->q[h * nr_q + i][d];
}

static void attn_begin(struct attn_work *w, const struct fw_attn *t, float *scratch)
{
	uint32_t queries = t->heads * t->nr_q, h, i;

	w->t = t;
	w->no_ahead = (struct attn_ahead){ 0 };
	w->wide = (t->head_dim + 15) / 16 * 16;
	w->few = t->nr_q <= ATTN_FEW && w->wide == t->head_dim;
	w->block = scratch;
	w->few_q = scratch;
	w->rows = scratch + (size_t)(w->few ? queries : ATTN_KEYS) * w->wide;
	w->all_p = w->rows + 16 * w->wide;
	w->scaled = w->all_p + (w->few ? queries : t->nr_q) * ATTN_KEYS;
	w->scales = w->scaled + t->nr_q * ATTN_KEYS;
	w->now.acc = w->scales + w->wide / 32 * ATTN_KEYS;
	w->now.total = w->now.acc + (size_t)queries * w->wide;
	w->before.acc = w->now.total + queries * 16;
	w->before.total = w->before.acc + (size_t)queries * w->wide;
	w->now.max = w->max[0];
	w->before.max = w->max[1];
	w->tail = w->before.total + queries * 16;
	attn_pace(w);
	attn_see(w);
	for (h = 0; h < t->heads; h++)
		for (i = 0; i < t->nr_q; i++)
			w->q[h * t->nr_q + i] = t->q + attn_place(t, h, i, t->ldq);
	if (w->few)
		attn_copy_queries(w);
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
			/* Masks and positions may change at any moment: they are read once. */
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
