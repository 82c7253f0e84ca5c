// SPDX-License-Identifier: MIT
/*
 * The scores of a head's queries: QK_I8. A tile is some rows by some panels; a row sees the panels
 * up to its own position's, so the tiles above the diagonal are empty.
 */
#include "fw_op.h"

/* Rows of a tile, enough to share the cost of reading a panel; and its scores. */
#define TILE_ROWS 128
#define TILE_SCORES 65536

/* Columns that row @row gets. */
static uint64_t columns(const struct fw_cmd *c, uint64_t row)
{
	return div_up(c->pos + row + 1, VNPU_QK_PANEL) * VNPU_QK_PANEL;
}

static int check_sizes(struct decoder *d, const struct vnpu_cmd_qk_i8 *m)
{
	CHECK(fw_check_reserved(d, m->reserved));
	CHECK(fw_check_bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "head_dim", m->head_dim, VNPU_MAX_HEAD_DIM));
	CHECK(fw_check_bounded(d, "ctx_rows", m->ctx_rows, VNPU_MAX_DIM));
	if (m->ctx_rows % VNPU_QK_PANEL || m->lds % VNPU_QK_PANEL)
		return fw_refuse(d, "ctx_rows %u and lds %u are not multiples of %u", m->ctx_rows,
				 m->lds, VNPU_QK_PANEL);
	if (m->lds < m->ctx_rows)
		return fw_refuse(d, "scores: rows %u elements apart, but %u long", m->lds,
				 m->ctx_rows);
	if (m->shift > VNPU_QK_MAX_SHIFT)
		return fw_refuse(d, "shift is %u, more than %u", m->shift, VNPU_QK_MAX_SHIFT);
	return 0;
}

static int check_qk_i8(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_qk_i8 *m = &c->u.qk_i8;
	uint64_t bytes, cols;

	CHECK(check_sizes(d, m));
	CHECK(fw_check_param(d, "pos", m->pos_param, VNPU_MAX_DIM, &c->pos));
	if (c->pos + m->rows > m->ctx_rows)
		return fw_refuse(d, "rows %llu..%llu of %u positions", (unsigned long long)c->pos,
				 (unsigned long long)c->pos + m->rows - 1, m->ctx_rows);
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->head_dim, m->ldq));
	CHECK(fw_check_operand(d, c, 1,
			       m->ctx_rows / VNPU_QK_PANEL * VNPU_QK_PANEL_BYTES(m->head_dim), 64));
	CHECK(fw_check_extent(d, 2, m->rows, m->lds * 2ull, m->ctx_rows * 2ull, &bytes));
	CHECK(fw_check_operand(d, c, 2, bytes, 64));
	cols = columns(c, m->rows - 1);
	c->fused = fw_follows(d, VNPU_OP_QK_I8);
	c->tile_rows = min_u64(m->rows, TILE_ROWS);
	c->tile_cols = TILE_SCORES / c->tile_rows / VNPU_QK_PANEL * VNPU_QK_PANEL;
	c->nr_tiles = div_up(m->rows, c->tile_rows) * div_up(cols, c->tile_cols);
	/* Less than 2^24 x 2^24 x 2^6. */
	*cost = m->rows * cols * div_up(m->head_dim, 16);
	return 0;
}

static int prepare_qk_i8(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_qk_i8 *m = &t->cmd->u.qk_i8;
	uint64_t panel_bytes = VNPU_QK_PANEL_BYTES(m->head_dim), end;

	tile_place(t, m->rows, columns(t->cmd, m->rows - 1), index);
	end = columns(t->cmd, t->row + t->rows - 1);
	t->cols = end > t->col ? min_u64(t->cols, end - t->col) : 0;
	if (!t->cols)
		return 0;
	tile_touch(t, 0, t->row * m->ldq, (t->rows - 1) * m->ldq + (m->head_dim + 3) / 4 * 4);
	tile_touch(t, 1, t->col / VNPU_QK_PANEL * panel_bytes,
		   t->cols / VNPU_QK_PANEL * panel_bytes);
	tile_touch(t, 2, (t->row * m->lds + t->col) * 2, ((t->rows - 1) * m->lds + t->cols) * 2);
	return 0;
}

static void run_qk_i8(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_qk_i8 *m = &t->cmd->u.qk_i8;
	struct fw_qk_i8 qk = {
		.q = (int8_t *)tile_at(t, 0) + t->row * m->ldq,
		.k = tile_at(t, 1),
		.scores = (int16_t *)tile_at(t, 2) + t->row * m->lds,
		.pos = t->cmd->pos + t->row,
		.rows = t->rows,
		.head_dim = m->head_dim,
		.panel = t->col / VNPU_QK_PANEL,
		.panels = t->cols / VNPU_QK_PANEL,
		.shift = m->shift,
		.ldq = m->ldq,
		.lds = m->lds,
	};

	t->k->qk_i8(&qk, t->scratch);
}

/* The modelled NPU computes all columns for all rows. */
static struct npu_cost time_qk_i8(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_qk_i8 *m = &c->u.qk_i8;
	struct npu_time_attention op = {
		.rows = m->rows,
		.heads = 1,
		.head_dim = m->head_dim,
		.ctx = (double)columns(c, m->rows - 1),
		.type = NPU_TIME_I8,
		.scores_only = true,
	};
	struct npu_cost cost = npu_time_attention(npu, &op);

	if (c->fused)
		cost.ns -= npu->dynamic_setup_us * 1000;
	return cost;
}

const struct fw_op fw_op_qk_i8 = {
	.check = check_qk_i8,
	.prepare = prepare_qk_i8,
	.run = run_qk_i8,
	.time = time_qk_i8,
};
