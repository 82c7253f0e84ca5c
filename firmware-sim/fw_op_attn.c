// SPDX-License-Identifier: MIT
/*
 * Attention: ATTN, ATTN_MASK, ATTN_AT. A tile is t->rows queries, from query t->row on, of each of
 * t->cols KV heads, from head t->col on.
 *
 * If a tile has room for all queries of a head, as in decoding, the tiles of a command also divide
 * the keys, by segments (kernels.h). So each worker reads its own part of the cache, whole rows of
 * it where there are enough segments, however few heads there are. A tile leaves its sums in the
 * engine's memory for parts, and the last one to end folds them.
 */
#include "fw_op.h"

#include <stdatomic.h>

/* Tiles for which a command divides its KV heads: enough for the workers of a large host. */
#define ENOUGH_TILES 16
/* The number of tiles to come, before a command's parts. */
#define PARTS_HDR 64

static bool is_mask(const struct fw_cmd *c)
{
	return c->u.hdr.op == VNPU_OP_ATTN_MASK;
}

static bool is_at(const struct fw_cmd *c)
{
	return c->u.hdr.op == VNPU_OP_ATTN_AT;
}

/* ATTN_MASK and ATTN_AT have window and cap at the same place, behind an operand of each row. */
static bool has_options(const struct fw_cmd *c)
{
	return is_mask(c) || is_at(c);
}

static bool has_mask(const struct fw_cmd *c)
{
	return is_mask(c) && c->u.attn_mask.mask.slot != VNPU_SLOT_NONE;
}

/* The number of operand y. */
static unsigned int attn_y(const struct fw_cmd *c)
{
	return has_options(c) ? 4 : 3;
}

/* Rows of the cache from pos on that its rows may attend to. */
static uint64_t span_of(const struct fw_cmd *c)
{
	return is_at(c) ? c->u.attn_at.span : c->u.attn.rows;
}

/* The first key that tiles read for row @row and those after it: by its window, even if a mask
 * leaves no other row of the command, and wherever its position is. */
static uint64_t oldest_key(const struct fw_cmd *c, uint64_t row)
{
	uint64_t keys = c->pos + (has_mask(c) || is_at(c) ? 0 : row) + 1,
		 window = has_options(c) ? c->u.attn_mask.window : 0;

	return window && keys > window ? (keys - window) / FW_ATTN_BLOCK * FW_ATTN_BLOCK : 0;
}

/* @q_cols: columns of all heads together. */
static int check_heads(struct decoder *d, struct fw_cmd *c, uint64_t q_cols)
{
	const struct vnpu_cmd_attn *m = &c->u.attn;

	CHECK(fw_check_bounded(d, "rows", m->rows, has_mask(c) ? VNPU_MASK_ROWS : VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "heads", m->heads, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "kv_heads", m->kv_heads, m->heads));
	CHECK(fw_check_bounded(d, "head_dim", m->head_dim,
			       has_mask(c) ? VNPU_MASK_HEAD_DIM : VNPU_MAX_HEAD_DIM));
	CHECK(fw_check_bounded(d, "ctx_rows", m->ctx_rows, VNPU_MAX_DIM));
	if (m->heads % m->kv_heads)
		return fw_refuse(d, "%u heads are not a multiple of %u kv_heads", m->heads,
				 m->kv_heads);
	if (m->kv_type == VNPU_KV_Q8_0 && m->head_dim % VNPU_Q8_0_VALUES)
		return fw_refuse(d, "head_dim %u is not a multiple of %u", m->head_dim,
				 VNPU_Q8_0_VALUES);
	return fw_check_bounded(d, "heads x head_dim", q_cols, VNPU_MAX_DIM);
}

/* Bytes of the sums that the tiles of all segments leave. */
static uint64_t parts_bytes(const struct vnpu_cmd_attn *m, uint64_t segments)
{
	return PARTS_HDR +
	       segments * m->rows * m->heads * fw_attn_part_floats(m->head_dim) * sizeof(float);
}

static uint64_t workers_of(const struct fw_prog *prog)
{
	return prog->workers ? prog->workers : 1;
}

static uint64_t whole_tiles(const struct fw_cmd *c)
{
	return c->whole_segments * div_up(c->u.attn.kv_heads, c->tile_cols);
}

static uint64_t part_tiles(const struct fw_cmd *c)
{
	return (c->nr_segments - c->whole_segments) * div_up(c->u.attn.kv_heads, c->part_cols);
}

/* Divides the KV heads among the tiles of each segment. A tile has room for @most heads; @full
 * segments have all their keys. */
static void cut_heads(struct fw_cmd *c, uint64_t most, uint64_t full, uint64_t workers)
{
	uint64_t heads = c->u.attn.kv_heads, left;

	c->whole_segments = c->nr_segments > 1 ? full / workers * workers : 0;
	c->tile_cols = div_up(heads, div_up(heads, most));
	left = c->nr_segments - c->whole_segments;
	if (left)
		c->part_cols = min_u64(div_up(heads * left, ENOUGH_TILES * workers), c->tile_cols);
}

/* Divides the command over @keys keys into tiles. */
static void cut_attn(struct decoder *d, struct fw_cmd *c, uint64_t keys)
{
	const struct vnpu_cmd_attn *m = &c->u.attn;
	struct fw_region *r = &d->prog->regions[d->prog->nr_regions - 1];
	uint64_t queries = (uint64_t)m->rows * (m->heads / m->kv_heads),
		 most = fw_attn_queries(m->head_dim);
	uint64_t first = oldest_key(c, 0) / FW_ATTN_SEGMENT,
		 segments = div_up(keys, FW_ATTN_SEGMENT) - first, fit;

	fit = FW_TILE_MACS / (2 * m->head_dim * (keys - first * FW_ATTN_SEGMENT));
	c->tile_rows = fw_attn_tile(m->head_dim, queries * m->kv_heads);
	c->nr_segments = 1;
	c->whole_segments = 0;
	c->tile_cols = 1;
	c->part_cols = 1;
	if (queries <= most) {
		c->tile_rows = queries;
		if (segments > 1 && segments <= (FW_PARTS_BYTES - r->parts_bytes) /
							(parts_bytes(m, 1) + PARTS_HDR)) {
			c->nr_segments = segments;
			c->parts = r->parts_bytes;
			r->parts_bytes += div_up(parts_bytes(m, segments), PARTS_HDR) * PARTS_HDR;
		}
		cut_heads(c, most / queries, keys / FW_ATTN_SEGMENT - first, workers_of(d->prog));
	}
	if (c->nr_segments == 1 && c->tile_rows * (uint64_t)c->part_cols > fit) {
		c->part_cols = 1;
		c->tile_rows = min_u64(c->tile_rows, fit ? fit : 1);
	}
	c->nr_tiles = (whole_tiles(c) + part_tiles(c)) * div_up(queries, c->tile_rows);
}

/* Any window is valid. */
static int check_cap(struct decoder *d, float cap)
{
	CHECK(fw_check_finite(d, "cap", cap));
	return cap < 0 ? fw_refuse(d, "cap is negative") : 0;
}

static int check_positions(struct decoder *d, struct fw_cmd *c)
{
	const struct vnpu_cmd_attn_at *m = &c->u.attn_at;

	CHECK(fw_check_reserved(d, m->reserved));
	CHECK(fw_check_bounded(d, "span", m->span, VNPU_MAX_DIM));
	return fw_check_operand(d, c, 3, m->attn.rows * 4ull, 4);
}

static int check_mask(struct decoder *d, struct fw_cmd *c)
{
	const struct vnpu_cmd_attn_mask *m = &c->u.attn_mask;

	if (has_mask(c))
		return fw_check_operand(d, c, 3, m->attn.rows * 8ull, 8);
	if (m->mask.reserved || m->mask.offset)
		return fw_refuse(d, "mask: absent, but not all 0");
	return 0;
}

static int check_attn(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_attn *m = &c->u.attn;
	uint64_t q_cols = (uint64_t)m->heads * m->head_dim,
		 kv_cols = (uint64_t)m->kv_heads * m->head_dim;
	uint64_t keys;

	if (m->kv_type > VNPU_KV_Q8_0)
		return fw_refuse(d, "unknown kv_type %u", m->kv_type);
	CHECK(check_heads(d, c, q_cols));
	CHECK(fw_check_finite(d, "scale", m->scale));
	if (has_options(c)) {
		CHECK(check_cap(d, c->u.attn_mask.cap));
		CHECK(is_at(c) ? check_positions(d, c) : check_mask(d, c));
	}
	CHECK(fw_check_param(d, "pos", m->pos_param, VNPU_MAX_DIM, &c->pos));
	keys = c->pos + span_of(c);
	if (keys > m->ctx_rows)
		return fw_refuse(d, "rows %llu..%llu of a cache of %u", (unsigned long long)c->pos,
				 (unsigned long long)keys - 1, m->ctx_rows);
	CHECK(fw_check_matrix(d, c, 0, m->rows, q_cols, m->ldq));
	CHECK(fw_check_cache(d, c, 1, m->ctx_rows, kv_cols, m->ldk, m->kv_type));
	CHECK(fw_check_cache(d, c, 2, m->ctx_rows, kv_cols, m->ldv, m->kv_type));
	CHECK(fw_check_matrix(d, c, attn_y(c), m->rows, q_cols, m->ldy));
	cut_attn(d, c, keys);
	keys -= oldest_key(c, 0);
	/* Less than 2^24 x 2^24 x 2^5. The second term: each tile widens each block of 64 keys. */
	*cost = m->rows * q_cols / 8 * (keys / 4 + 1) +
		c->nr_tiles / c->nr_segments * (keys / 64 + 1) * m->head_dim * 512;
	return 0;
}

/*
 * Sets the segment and KV heads of tile @index. A worker's share of consecutive tiles has as many
 * of whole rows as others', which follow each other in the cache, and then some of the rest.
 */
static void place_tile(struct fw_tile *t, uint64_t index)
{
	const struct fw_cmd *c = t->cmd;
	uint64_t workers = workers_of(t->job->prog), whole = whole_tiles(c) / workers;
	uint64_t parts = part_tiles(c) / workers,
		 share = index / (whole + parts ? whole + parts : 1);
	uint64_t of_share = index - share * (whole + parts), across, cols;
	bool is_whole = share < workers && of_share < whole;

	if (is_whole)
		index = share * whole + of_share;
	else if (share < workers)
		index = share * parts + of_share - whole;
	else
		index -= workers * whole;
	cols = is_whole ? c->tile_cols : c->part_cols;
	across = div_up(c->u.attn.kv_heads, cols);
	t->segment = index / across + (is_whole ? 0 : c->whole_segments);
	t->col = index % across * cols;
	t->cols = min_u64(cols, c->u.attn.kv_heads - t->col);
}

static int prepare_attn(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_attn *m = &t->cmd->u.attn;
	uint64_t group = m->heads / m->kv_heads, queries = m->rows * group,
		 per_tile = t->cmd->tile_rows, bytes = m->head_dim * 4ull;
	uint64_t tiles = div_up(queries, per_tile);
	uint64_t first, rows, begin, keys, head_bytes = VNPU_KV_BYTES(m->kv_type, m->head_dim);
	uint64_t k_row_bytes = VNPU_KV_BYTES(m->kv_type, m->ldk),
		 v_row_bytes = VNPU_KV_BYTES(m->kv_type, m->ldv);

	/* A head's last queries, the longest tiles, come first: a region ends with short ones. */
	place_tile(t, index / tiles);
	t->row = (tiles - 1 - index % tiles) * per_tile;
	t->rows = min_u64(per_tile, queries - t->row);
	first = t->row / group;
	rows = (t->row + t->rows - 1) / group - first + 1;
	keys = t->cmd->pos + (is_at(t->cmd) ? span_of(t->cmd) : first + rows);
	begin = oldest_key(t->cmd, first);
	if (t->cmd->nr_segments > 1) {
		t->segment += oldest_key(t->cmd, 0) / FW_ATTN_SEGMENT;
		/* A mask counts keys without the rows between them. */
		if (!has_mask(t->cmd) || (t->segment + 1) * FW_ATTN_SEGMENT <= t->cmd->pos)
			keys = min_u64(keys, (t->segment + 1) * FW_ATTN_SEGMENT);
		begin = begin > t->segment * FW_ATTN_SEGMENT ? begin : t->segment * FW_ATTN_SEGMENT;
	}
	tile_touch(t, 0, first * m->ldq * 4ull + t->col * group * bytes,
		   (rows - 1) * m->ldq * 4ull + t->cols * group * bytes);
	tile_touch(t, 1, begin * k_row_bytes + t->col * head_bytes,
		   (keys - begin - 1) * k_row_bytes + t->cols * head_bytes);
	tile_touch(t, 2, begin * v_row_bytes + t->col * head_bytes,
		   (keys - begin - 1) * v_row_bytes + t->cols * head_bytes);
	if (has_mask(t->cmd))
		tile_touch(t, 3, first * 8, rows * 8);
	if (is_at(t->cmd))
		tile_touch(t, 3, first * 4, rows * 4);
	/* The tile that ends last writes the results of all of them. */
	if (t->cmd->nr_segments > 1)
		tile_touch(t, attn_y(t->cmd), 0, (m->rows - 1) * m->ldy * 4ull + m->heads * bytes);
	else
		tile_touch(t, attn_y(t->cmd), first * m->ldy * 4ull + t->col * group * bytes,
			   (rows - 1) * m->ldy * 4ull + t->cols * group * bytes);
	return 0;
}

/* The kernel's arguments for KV heads from @col on. */
static struct fw_attn attn_of(const struct fw_tile *t, uint64_t col, uint64_t heads)
{
	const struct vnpu_cmd_attn *m = &t->cmd->u.attn;
	uint64_t group = m->heads / m->kv_heads,
		 head_bytes = VNPU_KV_BYTES(m->kv_type, m->head_dim);

	return (struct fw_attn){
		.q = tile_f32(t, 0, 0, 0, col * group * m->head_dim),
		.y = tile_f32(t, attn_y(t->cmd), 0, 0, col * group * m->head_dim),
		.ldq = m->ldq,
		.ldy = m->ldy,
		.heads = heads,
		.group = group,
		.first = t->row,
		.nr_q = t->rows,
		.pos = t->cmd->pos,
		.at = is_at(t->cmd) ? tile_at(t, 3) : NULL,
		.span = (uint32_t)span_of(t->cmd),
		.mask = has_mask(t->cmd) ? tile_at(t, 3) : NULL,
		.window = has_options(t->cmd) ? t->cmd->u.attn_mask.window : 0,
		.cap = has_options(t->cmd) ? t->cmd->u.attn_mask.cap : 0,
		.k = (uint8_t *)tile_at(t, 1) + col * head_bytes,
		.v = (uint8_t *)tile_at(t, 2) + col * head_bytes,
		.k_row_bytes = VNPU_KV_BYTES(m->kv_type, m->ldk),
		.v_row_bytes = VNPU_KV_BYTES(m->kv_type, m->ldv),
		.kv_type = m->kv_type,
		.head_dim = m->head_dim,
		.scale = m->scale,
		.segment = t->segment,
	};
}

static void run_attn(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_attn *m = &t->cmd->u.attn;
	struct fw_attn a = attn_of(t, t->col, t->cols);
	_Atomic uint64_t *left;
	uint64_t first;
	float *parts;

	if (t->cmd->nr_segments == 1) {
		t->k->attn(&a, t->scratch);
		return;
	}
	left = (_Atomic uint64_t *)(t->job->parts + t->cmd->parts);
	parts = (float *)(t->job->parts + t->cmd->parts + PARTS_HDR);
	first = oldest_key(t->cmd, 0) / FW_ATTN_SEGMENT;
	a.part = parts + ((t->segment - first) * m->kv_heads + t->col) * t->rows *
				 fw_attn_part_floats(m->head_dim);
	t->k->attn(&a, t->scratch);
	if (atomic_fetch_sub_explicit(left, 1, memory_order_acq_rel) > 1)
		return;
	a = attn_of(t, 0, m->kv_heads);
	a.part = parts;
	a.segment = first;
	t->k->attn_fold(&a);
}

static void begin_attn(const struct fw_cmd *c, uint8_t *parts)
{
	if (c->nr_segments > 1)
		atomic_store_explicit((_Atomic uint64_t *)(parts + c->parts), c->nr_tiles,
				      memory_order_relaxed);
}

/* Of the keys that rows attend to, on average; a mask hides none from the modelled NPU, and
 * positions are taken as if they were spread evenly over the span. */
static double seen_keys(const struct fw_cmd *c)
{
	uint64_t window = has_options(c) ? c->u.attn_mask.window : 0, span = span_of(c), below;

	if (!window || window >= c->pos + span)
		return (double)c->pos + ((double)span + 1) / 2;
	/* As many positions attend to fewer: by 1, 2, ... */
	below = window > c->pos + 1 ? window - c->pos - 1 : 0;
	return (double)window - (double)below * ((double)below + 1) / 2 / (double)span;
}

static struct npu_cost time_attn(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_attn *m = &c->u.attn;
	struct npu_time_attention op = {
		.rows = m->rows,
		.heads = m->heads,
		.head_dim = m->head_dim,
		.ctx = seen_keys(c),
		.type = NPU_TIME_F16,
		.kv_bits = fw_kv_bits(m->kv_type),
	};
	struct npu_cost cost = npu_time_attention(npu, &op), cap;

	if (has_mask(c))
		cost.dram_bytes += m->rows * 8.0;
	if (is_at(c))
		cost.dram_bytes += m->rows * 4.0;
	if (has_options(c) && c->u.attn_mask.cap > 0) {
		cap = fw_vector_time(npu, op.ctx * m->rows * m->heads, FLOAT_OPS_CAP, 0, 0);
		cost.ns += cap.ns;
	}
	return cost;
}

const struct fw_op fw_op_attn = {
	.check = check_attn,
	.prepare = prepare_attn,
	.run = run_attn,
	.begin = begin_attn,
	.time = time_attn,
};

const struct fw_op fw_op_attn_mask = {
	.check = check_attn,
	.prepare = prepare_attn,
	.run = run_attn,
	.begin = begin_attn,
	.time = time_attn,
};

const struct fw_op fw_op_attn_at = {
	.check = check_attn,
	.prepare = prepare_attn,
	.run = run_attn,
	.begin = begin_attn,
	.time = time_attn,
};
