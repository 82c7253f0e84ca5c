// SPDX-License-Identifier: MIT
/* INT8 rows with float outliers, and adding their contribution: QUANT_OUTLIERS, ADD_OUTLIERS. */
#include "fw_op.h"

#define ROW_BYTES sizeof(struct vnpu_outliers)
/* Size of a row's outliers on the modelled NPU: F16 values and 16-bit columns. */
#define OUTLIER_BYTES (VNPU_OUTLIERS * (FLOAT_BYTES + 2))
/* Size of a tile of ADD_OUTLIERS. */
#define TILE_ROWS 128u
#define TILE_PANELS 4u
/* An outlier's weights in a panel lie in lines that are not in the worker's caches. */
#define GATHER_CYCLES 50u

/* ---- QUANT_OUTLIERS ---- */

static int check_quant_outliers(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_quant_outliers *m = &c->u.quant_outliers;

	CHECK(fw_check_bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "cols", m->cols, VNPU_MAX_K_I8));
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->cols, m->ldx));
	CHECK(fw_check_matrix(d, c, 1, m->rows, m->cols, m->ldq));
	CHECK(fw_check_vector(d, c, 2, m->rows));
	CHECK(fw_check_operand(d, c, 3, m->rows * ROW_BYTES, 4));
	fw_cut_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols;
	return 0;
}

static int prepare_quant_outliers(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_quant_outliers *m = &t->cmd->u.quant_outliers;

	tile_place(t, m->rows, m->cols, index);
	tile_touch_f32(t, 0, m->ldx);
	tile_touch(t, 1, t->row * m->ldq, (t->rows - 1) * m->ldq + (m->cols + 3) / 4 * 4);
	tile_touch(t, 2, t->row * 4, t->rows * 4);
	tile_touch(t, 3, t->row * ROW_BYTES, t->rows * ROW_BYTES);
	return 0;
}

static void run_quant_outliers(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_quant_outliers *m = &t->cmd->u.quant_outliers;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->quant_outliers((int8_t *)tile_at(t, 1) + r * m->ldq, tile_f32(t, 2, r, 1, 0),
				     (struct vnpu_outliers *)tile_at(t, 3) + r,
				     tile_f32(t, 0, r, m->ldx, 0), m->cols);
}

/* As QUANT, plus full lists: a static graph computes all entries. */
static struct npu_cost time_quant_outliers(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_quant_outliers *m = &c->u.quant_outliers;
	double elements = (double)m->rows * m->cols;

	return fw_vector_time(npu, elements, FLOAT_OPS_QUANT_OUTLIERS, elements,
			      elements + m->rows * (SCALE_BYTES + OUTLIER_BYTES));
}

const struct fw_op fw_op_quant_outliers = {
	.check = check_quant_outliers,
	.prepare = prepare_quant_outliers,
	.run = run_quant_outliers,
	.time = time_quant_outliers,
};

/* ---- ADD_OUTLIERS ---- */

static uint64_t panel_bytes(const struct vnpu_cmd_add_outliers *m)
{
	if (m->group >= VNPU_OUTLIERS_KQ)
		return vnpu_kq_panel_bytes(m->group - VNPU_OUTLIERS_KQ, m->k);
	return m->group ? VNPU_PANEL_W4_BYTES(m->k, m->group) : VNPU_PANEL_I8_BYTES(m->k);
}

/* Tiles like a matmul's: rows share the panels that they read. */
static int check_add_outliers(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_add_outliers *m = &c->u.add_outliers;
	uint64_t panels;

	CHECK(fw_check_bounded(d, "m", m->m, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "n", m->n, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "k", m->k, VNPU_MAX_K_I8));
	if (m->group >= VNPU_OUTLIERS_KQ)
		CHECK(fw_check_kq(d, m->group - VNPU_OUTLIERS_KQ, m->k));
	else if (m->group)
		CHECK(fw_check_group(d, m->group, m->k));
	panels = div_up(m->n, VNPU_PANEL_N);
	CHECK(fw_check_matrix(d, c, 0, m->m, m->n, m->ldx));
	CHECK(fw_check_operand(d, c, 1, m->m * ROW_BYTES, 4));
	CHECK(fw_check_operand(d, c, 2, panels * panel_bytes(m), 64));
	CHECK(fw_check_matrix(d, c, 3, m->m, m->n, m->ldy));
	c->tile_rows = m->m < TILE_ROWS ? m->m : TILE_ROWS;
	c->tile_cols = TILE_PANELS * VNPU_PANEL_N;
	c->nr_tiles = div_up(m->m, c->tile_rows) * div_up(m->n, c->tile_cols);
	*cost = (uint64_t)m->m * panels * VNPU_PANEL_N + panels * VNPU_OUTLIERS * GATHER_CYCLES;
	return 0;
}

static int prepare_add_outliers(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_add_outliers *m = &t->cmd->u.add_outliers;

	tile_place(t, m->m, m->n, index);
	tile_touch_f32(t, 0, m->ldx);
	tile_touch(t, 1, t->row * ROW_BYTES, t->rows * ROW_BYTES);
	tile_touch(t, 2, t->col / VNPU_PANEL_N * panel_bytes(m),
		   div_up(t->cols, VNPU_PANEL_N) * panel_bytes(m));
	tile_touch_f32(t, 3, m->ldy);
	return 0;
}

static void run_add_outliers(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_add_outliers *m = &t->cmd->u.add_outliers;
	struct fw_add_outliers ao = {
		.x = tile_f32(t, 0, t->row, m->ldx, t->col),
		.outliers = (struct vnpu_outliers *)tile_at(t, 1) + t->row,
		.w = (uint8_t *)tile_at(t, 2) + t->col / VNPU_PANEL_N * panel_bytes(m),
		.y = tile_f32(t, 3, t->row, m->ldy, t->col),
		.m = t->rows,
		.n = t->cols,
		.k = m->k,
		.group = m->group,
		.ldx = m->ldx,
		.ldy = m->ldy,
	};

	t->k->add_outliers(&ao, t->scratch);
}

/*
 * Each row reads the words of the weights that hold its columns (4 weights of 8 bits, or 8 of 4
 * bits, per word), one word for its column; many rows together read all of them.
 */
static struct npu_cost time_add_outliers(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_add_outliers *m = &c->u.add_outliers;
	double elements = (double)m->m * m->n, words = (double)m->m * VNPU_OUTLIERS;
	double all = m->k / (m->group ? 8.0 : 4.0);

	if (m->group >= VNPU_OUTLIERS_KQ)
		all = m->k * vnpu_kq_form(m->group - VNPU_OUTLIERS_KQ).bits / 32.0;

	return fw_vector_time(npu, elements, FLOAT_OPS_ADD_OUTLIERS, 2 * elements,
			      m->m * OUTLIER_BYTES + 4.0 * m->n * (words < all ? words : all));
}

const struct fw_op fw_op_add_outliers = {
	.check = check_add_outliers,
	.prepare = prepare_add_outliers,
	.run = run_add_outliers,
	.time = time_add_outliers,
};
