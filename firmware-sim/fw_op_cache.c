// SPDX-License-Identifier: MIT
/* The KV cache and copies: COPY, STORE, ATTN. */
#include "fw_op.h"

#include <string.h>

/* A stride larger than every address space; larger ones could only overflow. */
#define MAX_STRIDE_BYTES (1ull << 40)

/* ---- COPY ---- */

static int check_copy(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_copy *m = &c->u.copy;
	uint64_t src_bytes, dst_bytes;

	CHECK(fw_check_reserved(d, m->reserved));
	CHECK(fw_check_bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "row_bytes", m->row_bytes, 4ull * VNPU_MAX_DIM));
	if (m->src_stride_bytes > MAX_STRIDE_BYTES || m->dst_stride_bytes > MAX_STRIDE_BYTES)
		return fw_refuse(d, "stride exceeds every address space");
	if (m->src_stride_bytes < m->row_bytes || m->dst_stride_bytes < m->row_bytes)
		return fw_refuse(d, "stride is less than row_bytes");
	CHECK(fw_check_param(d, "dst_row", m->dst_row_param, VNPU_MAX_DIM, &c->pos));
	CHECK(fw_check_extent(d, 0, m->rows, m->src_stride_bytes, m->row_bytes, &src_bytes));
	CHECK(fw_check_extent(d, 1, c->pos + m->rows, m->dst_stride_bytes, m->row_bytes,
			      &dst_bytes));
	CHECK(fw_check_operand(d, c, 0, src_bytes, 1));
	CHECK(fw_check_operand(d, c, 1, dst_bytes, 1));
	fw_cut_rows(c, m->rows, m->row_bytes, true);
	*cost = (uint64_t)m->rows * m->row_bytes / 16;
	return 0;
}

static int prepare_copy(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_copy *m = &t->cmd->u.copy;

	tile_place(t, m->rows, m->row_bytes, index);
	tile_touch(t, 0, t->row * m->src_stride_bytes + t->col,
		   (t->rows - 1) * m->src_stride_bytes + t->cols);
	tile_touch(t, 1, (t->cmd->pos + t->row) * m->dst_stride_bytes + t->col,
		   (t->rows - 1) * m->dst_stride_bytes + t->cols);
	return 0;
}

static void run_copy(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_copy *m = &t->cmd->u.copy;
	const uint8_t *src = tile_at(t, 0);
	uint8_t *dst = tile_at(t, 1);
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		memmove(dst + (t->cmd->pos + r) * m->dst_stride_bytes + t->col,
			src + r * m->src_stride_bytes + t->col, t->cols);
}

static struct npu_cost time_copy(const struct soc_npu *npu, const struct fw_cmd *c)
{
	return npu_time_vector(npu, 0, 0, 2.0 * c->u.copy.rows * c->u.copy.row_bytes);
}

const struct fw_op fw_op_copy = {
	.check = check_copy,
	.prepare = prepare_copy,
	.run = run_copy,
	.time = time_copy,
};

/* ---- STORE ---- */

static int check_store(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_store *m = &c->u.store;

	if (m->type != VNPU_KV_F16 && m->type != VNPU_KV_Q8_0)
		return fw_refuse(d, "unknown type %u", m->type);
	CHECK(fw_check_shape(d, m->rows, m->cols));
	if (m->type == VNPU_KV_Q8_0 && m->cols % VNPU_Q8_0_VALUES)
		return fw_refuse(d, "cols %u is not a multiple of %u", m->cols, VNPU_Q8_0_VALUES);
	CHECK(fw_check_param(d, "row", m->row_param, VNPU_MAX_DIM, &c->pos));
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->cols, m->ldx));
	CHECK(fw_check_cache(d, c, 1, c->pos + m->rows, m->cols, m->ld_dst, m->type));
	fw_cut_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols / 2;
	return 0;
}

static int prepare_store(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_store *m = &t->cmd->u.store;
	uint64_t row_bytes = VNPU_KV_BYTES(m->type, m->ld_dst);

	tile_place(t, m->rows, m->cols, index);
	tile_touch_f32(t, 0, m->ldx);
	tile_touch(t, 1, (t->cmd->pos + t->row) * row_bytes,
		   (t->rows - 1) * row_bytes + VNPU_KV_BYTES(m->type, m->cols));
	return 0;
}

static void run_store(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_store *m = &t->cmd->u.store;
	uint64_t row_bytes = VNPU_KV_BYTES(m->type, m->ld_dst), r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->store((uint8_t *)tile_at(t, 1) + (t->cmd->pos + r) * row_bytes,
			    tile_f32(t, 0, r, m->ldx, 0), m->cols, m->type);
}

static struct npu_cost time_store(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_store *m = &c->u.store;
	double elements = (double)m->rows * m->cols;

	return fw_vector_time(npu, elements,
			      m->type == VNPU_KV_Q8_0 ? FLOAT_OPS_QUANT : FLOAT_OPS_COPY, elements,
			      elements * fw_kv_bits(m->type) / 8);
}

const struct fw_op fw_op_store = {
	.check = check_store,
	.prepare = prepare_store,
	.run = run_store,
	.time = time_store,
};

/* ---- ATTN: a tile is t->cols queries of KV head t->col, from query t->row on ---- */

/* @q_cols: columns of all heads together. */
static int check_heads(struct decoder *d, struct fw_cmd *c, uint64_t q_cols)
{
	const struct vnpu_cmd_attn *m = &c->u.attn;

	CHECK(fw_check_bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "heads", m->heads, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "kv_heads", m->kv_heads, m->heads));
	CHECK(fw_check_bounded(d, "head_dim", m->head_dim, VNPU_MAX_HEAD_DIM));
	CHECK(fw_check_bounded(d, "ctx_rows", m->ctx_rows, VNPU_MAX_DIM));
	if (m->heads % m->kv_heads)
		return fw_refuse(d, "%u heads are not a multiple of %u kv_heads", m->heads,
				 m->kv_heads);
	if (m->kv_type == VNPU_KV_Q8_0 && m->head_dim % VNPU_Q8_0_VALUES)
		return fw_refuse(d, "head_dim %u is not a multiple of %u", m->head_dim,
				 VNPU_Q8_0_VALUES);
	return fw_check_bounded(d, "heads x head_dim", q_cols, VNPU_MAX_DIM);
}

static int check_attn(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_attn *m = &c->u.attn;
	uint64_t q_cols = (uint64_t)m->heads * m->head_dim,
		 kv_cols = (uint64_t)m->kv_heads * m->head_dim;
	uint64_t keys, fit;

	if (m->kv_type > VNPU_KV_Q8_0)
		return fw_refuse(d, "unknown kv_type %u", m->kv_type);
	CHECK(check_heads(d, c, q_cols));
	CHECK(fw_check_finite(d, "scale", m->scale));
	CHECK(fw_check_param(d, "pos", m->pos_param, VNPU_MAX_DIM, &c->pos));
	keys = c->pos + m->rows;
	if (keys > m->ctx_rows)
		return fw_refuse(d, "rows %llu..%llu of a cache of %u", (unsigned long long)c->pos,
				 (unsigned long long)keys - 1, m->ctx_rows);
	CHECK(fw_check_matrix(d, c, 0, m->rows, q_cols, m->ldq));
	CHECK(fw_check_cache(d, c, 1, m->ctx_rows, kv_cols, m->ldk, m->kv_type));
	CHECK(fw_check_cache(d, c, 2, m->ctx_rows, kv_cols, m->ldv, m->kv_type));
	CHECK(fw_check_matrix(d, c, 3, m->rows, q_cols, m->ldy));
	fit = FW_TILE_MACS / (2 * m->head_dim * keys);
	c->tile_rows = fw_attn_tile(m->head_dim, (uint64_t)m->rows * m->heads);
	if (c->tile_rows > fit)
		c->tile_rows = fit ? fit : 1;
	c->tile_cols = 1;
	c->nr_tiles =
		m->kv_heads * div_up((uint64_t)m->rows * (m->heads / m->kv_heads), c->tile_rows);
	/* Less than 2^24 x 2^24 x 2^5. The second term: each tile widens each block of 64 keys. */
	*cost = m->rows * q_cols / 8 * (keys / 4 + 1) +
		c->nr_tiles * (keys / 64 + 1) * m->head_dim * 512;
	return 0;
}

static int prepare_attn(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_attn *m = &t->cmd->u.attn;
	uint64_t group = m->heads / m->kv_heads, queries = m->rows * group,
		 per_tile = t->cmd->tile_rows;
	uint64_t tiles = div_up(queries, per_tile), first, rows, keys, bytes = m->head_dim * 4ull;
	uint64_t head_bytes = VNPU_KV_BYTES(m->kv_type, m->head_dim);

	/* A head's last queries, the longest tiles, come first: a region ends with short ones. */
	t->col = index / tiles;
	t->row = (tiles - 1 - index % tiles) * per_tile;
	t->cols = min_u64(per_tile, queries - t->row);
	first = t->row / group;
	rows = (t->row + t->cols - 1) / group - first + 1;
	keys = t->cmd->pos + first + rows;
	tile_touch(t, 0, (first * m->ldq + t->col * group * m->head_dim) * 4,
		   (rows - 1) * m->ldq * 4ull + group * bytes);
	tile_touch(t, 1, t->col * head_bytes,
		   (keys - 1) * VNPU_KV_BYTES(m->kv_type, m->ldk) + head_bytes);
	tile_touch(t, 2, t->col * head_bytes,
		   (keys - 1) * VNPU_KV_BYTES(m->kv_type, m->ldv) + head_bytes);
	tile_touch(t, 3, (first * m->ldy + t->col * group * m->head_dim) * 4,
		   (rows - 1) * m->ldy * 4ull + group * bytes);
	return 0;
}

static void run_attn(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_attn *m = &t->cmd->u.attn;
	uint64_t group = m->heads / m->kv_heads,
		 head_bytes = VNPU_KV_BYTES(m->kv_type, m->head_dim);
	struct fw_attn a = {
		.q = tile_f32(t, 0, 0, 0, t->col * group * m->head_dim),
		.y = tile_f32(t, 3, 0, 0, t->col * group * m->head_dim),
		.ldq = m->ldq,
		.ldy = m->ldy,
		.group = group,
		.first = t->row,
		.nr_q = t->cols,
		.pos = t->cmd->pos,
		.k = (uint8_t *)tile_at(t, 1) + t->col * head_bytes,
		.v = (uint8_t *)tile_at(t, 2) + t->col * head_bytes,
		.k_row_bytes = VNPU_KV_BYTES(m->kv_type, m->ldk),
		.v_row_bytes = VNPU_KV_BYTES(m->kv_type, m->ldv),
		.kv_type = m->kv_type,
		.head_dim = m->head_dim,
		.scale = m->scale,
	};

	t->k->attn(&a, t->scratch);
}

static struct npu_cost time_attn(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_attn *m = &c->u.attn;
	struct npu_time_attention op = {
		.rows = m->rows,
		.heads = m->heads,
		.head_dim = m->head_dim,
		.ctx = (double)c->pos + (m->rows + 1.0) / 2,
		.type = NPU_TIME_F16,
		.kv_bits = fw_kv_bits(m->kv_type),
	};

	return npu_time_attention(npu, &op);
}

const struct fw_op fw_op_attn = {
	.check = check_attn,
	.prepare = prepare_attn,
	.run = run_attn,
	.time = time_attn,
};
