// SPDX-License-Identifier: MIT
/* Attention in INT8: ATTN_I8. A tile is some rows of one query head. */
#include "fw_op.h"

#define TILE_ROWS 24

static int check_sizes(struct decoder *d, const struct vnpu_cmd_attn_i8 *m)
{
	CHECK(fw_check_bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "heads", m->heads, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "head_dim", m->head_dim, VNPU_MAX_HEAD_DIM));
	CHECK(fw_check_bounded(d, "ctx_rows", m->ctx_rows, VNPU_MAX_K_I8));
	CHECK(fw_check_bounded(d, "heads x head_dim", (uint64_t)m->heads * m->head_dim,
			       VNPU_MAX_DIM));
	CHECK(fw_check_finite(d, "scale", m->scale));
	if (m->ctx_rows % VNPU_QK_PANEL)
		return fw_refuse(d, "ctx_rows %u is not a multiple of %u", m->ctx_rows,
				 VNPU_QK_PANEL);
	return m->scale > 0 ? 0 : fw_refuse(d, "scale is not above 0");
}

static int check_attn_i8(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_attn_i8 *m = &c->u.attn_i8;
	uint64_t cols = (uint64_t)m->heads * m->head_dim, keys, fit;

	CHECK(check_sizes(d, m));
	CHECK(fw_check_param(d, "pos", m->pos_param, VNPU_MAX_DIM, &c->pos));
	keys = c->pos + m->rows;
	if (keys > m->ctx_rows)
		return fw_refuse(d, "rows %llu..%llu of %u positions", (unsigned long long)c->pos,
				 (unsigned long long)keys - 1, m->ctx_rows);
	CHECK(fw_check_matrix(d, c, 0, m->rows, cols, m->ldq));
	CHECK(fw_check_operand(d, c, 1,
			       m->ctx_rows / VNPU_QK_PANEL * VNPU_QK_PANEL_BYTES(m->head_dim), 64));
	CHECK(fw_check_operand(d, c, 2, VNPU_PV_BYTES(m->ctx_rows, m->head_dim), 64));
	CHECK(fw_check_vector(d, c, 3, 3));
	CHECK(fw_check_matrix(d, c, 4, m->rows, cols, m->ldy));
	fit = FW_TILE_MACS / (2 * m->head_dim * keys);
	c->fused = fw_follows(d, VNPU_OP_ATTN_I8);
	c->tile_rows = min_u64(min_u64(m->rows, TILE_ROWS), fit);
	c->tile_cols = 1;
	c->nr_tiles = div_up(m->rows, c->tile_rows) * m->heads;
	/* Less than 2^24 x 2^24 x 2^16. */
	*cost = m->rows * cols / 16 * (keys / 4 + 1);
	return 0;
}

static int prepare_attn_i8(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_attn_i8 *m = &t->cmd->u.attn_i8;
	uint64_t tiles = div_up(m->rows, t->cmd->tile_rows), keys, bytes = m->head_dim * 4ull;

	/* The last rows of all heads, the longest tiles, come first. */
	t->col = index % m->heads;
	t->cols = 1;
	t->row = (tiles - 1 - index / m->heads) * t->cmd->tile_rows;
	t->rows = min_u64(t->cmd->tile_rows, m->rows - t->row);
	keys = t->cmd->pos + t->row + t->rows;
	tile_touch(t, 0, t->row * m->ldq * 4ull + t->col * bytes,
		   (t->rows - 1) * m->ldq * 4ull + bytes);
	tile_touch(t, 1, 0, div_up(keys, VNPU_QK_PANEL) * VNPU_QK_PANEL_BYTES(m->head_dim));
	tile_touch(t, 2, 0, VNPU_PV_BYTES(div_up(keys, 4) * 4, m->head_dim));
	tile_touch(t, 3, 0, 12);
	tile_touch(t, 4, t->row * m->ldy * 4ull + t->col * bytes,
		   (t->rows - 1) * m->ldy * 4ull + bytes);
	return 0;
}

static void run_attn_i8(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_attn_i8 *m = &t->cmd->u.attn_i8;
	const float *scales = tile_at(t, 3);
	struct fw_attn_i8 a = {
		.q = tile_f32(t, 0, t->row, m->ldq, t->col * m->head_dim),
		.y = tile_f32(t, 4, t->row, m->ldy, t->col * m->head_dim),
		.ldq = m->ldq,
		.ldy = m->ldy,
		.pos = t->cmd->pos + t->row,
		.rows = t->rows,
		.head_dim = m->head_dim,
		.k = tile_at(t, 1),
		.v = tile_at(t, 2),
		.q_scale = scales[0],
		.k_scale = scales[1],
		.v_scale = scales[2],
		.scale = m->scale,
	};

	t->k->attn_i8(&a, t->scratch);
}

static struct npu_cost time_attn_i8(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_attn_i8 *m = &c->u.attn_i8;
	struct npu_time_attention op = {
		.rows = m->rows,
		.heads = m->heads,
		.head_dim = m->head_dim,
		.ctx = (double)c->pos + (m->rows + 1.0) / 2,
		.type = NPU_TIME_I8,
	};
	struct npu_cost cost = npu_time_attention(npu, &op);

	if (c->fused)
		cost.ns -= 2 * npu->dynamic_setup_us * 1000;
	return cost;
}

const struct fw_op fw_op_attn_i8 = {
	.check = check_attn_i8,
	.prepare = prepare_attn_i8,
	.run = run_attn_i8,
	.time = time_attn_i8,
};
