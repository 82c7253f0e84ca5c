// SPDX-License-Identifier: MIT
/*
 * INT8 rows with float outliers, and adding their contribution: QUANT_OUTLIERS, ADD_OUTLIERS,
 * ADD_OUTLIERS_WK.
 */
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

/* With @w_bytes of weights. Tiles like a matmul's: rows share the panels that they read. */
static int check_adding(struct decoder *d, struct fw_cmd *c, uint64_t w_bytes, uint64_t *cost)
{
	const struct vnpu_cmd_add_outliers *m = &c->u.add_outliers;
	uint64_t panels = div_up(m->n, VNPU_PANEL_N);

	CHECK(fw_check_matrix(d, c, 0, m->m, m->n, m->ldx));
	CHECK(fw_check_operand(d, c, 1, m->m * ROW_BYTES, 4));
	CHECK(fw_check_operand(d, c, 2, w_bytes, 64));
	CHECK(fw_check_matrix(d, c, 3, m->m, m->n, m->ldy));
	c->tile_rows = m->m < TILE_ROWS ? m->m : TILE_ROWS;
	c->tile_cols = TILE_PANELS * VNPU_PANEL_N;
	c->nr_tiles = div_up(m->m, c->tile_rows) * div_up(m->n, c->tile_cols);
	*cost = (uint64_t)m->m * panels * VNPU_PANEL_N + panels * VNPU_OUTLIERS * GATHER_CYCLES;
	return 0;
}

static int check_add_outliers(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_add_outliers *m = &c->u.add_outliers;

	CHECK(fw_check_bounded(d, "m", m->m, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "n", m->n, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "k", m->k, VNPU_MAX_K_I8));
	if (m->group >= VNPU_OUTLIERS_KQ)
		CHECK(fw_check_kq(d, m->group - VNPU_OUTLIERS_KQ, m->k));
	else if (m->group)
		CHECK(fw_check_group(d, m->group, m->k));
	return check_adding(d, c, div_up(m->n, VNPU_PANEL_N) * panel_bytes(m), cost);
}

/* The tile reads @w_bytes of weights at @w. */
static void touch_adding(struct fw_tile *t, uint64_t w, uint64_t w_bytes)
{
	const struct vnpu_cmd_add_outliers *m = &t->cmd->u.add_outliers;

	tile_touch_f32(t, 0, m->ldx);
	tile_touch(t, 1, t->row * ROW_BYTES, t->rows * ROW_BYTES);
	tile_touch(t, 2, w, w_bytes);
	tile_touch_f32(t, 3, m->ldy);
}

static int prepare_add_outliers(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_add_outliers *m = &t->cmd->u.add_outliers;

	tile_place(t, m->m, m->n, index);
	touch_adding(t, t->col / VNPU_PANEL_N * panel_bytes(m),
		     div_up(t->cols, VNPU_PANEL_N) * panel_bytes(m));
	return 0;
}

/* The kernel's arguments but for the weights. */
static struct fw_add_outliers adding(const struct fw_tile *t)
{
	const struct vnpu_cmd_add_outliers *m = &t->cmd->u.add_outliers;

	return (struct fw_add_outliers){
		.x = tile_f32(t, 0, t->row, m->ldx, t->col),
		.outliers = (struct vnpu_outliers *)tile_at(t, 1) + t->row,
		.y = tile_f32(t, 3, t->row, m->ldy, t->col),
		.m = t->rows,
		.n = t->cols,
		.k = m->k,
		.ldx = m->ldx,
		.ldy = m->ldy,
	};
}

static void run_add_outliers(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_add_outliers *m = &t->cmd->u.add_outliers;
	struct fw_add_outliers ao = adding(t);

	ao.w = (uint8_t *)tile_at(t, 2) + t->col / VNPU_PANEL_N * panel_bytes(m);
	ao.group = m->group;
	t->k->add_outliers(&ao, t->scratch);
}

/*
 * Weights of @bits. Each row reads the words of the weights that hold its columns (4 weights of 8
 * bits, or 8 of 4 bits, per word), one word for its column; many rows together read all of them.
 */
static struct npu_cost time_adding(const struct soc_npu *npu, const struct fw_cmd *c, double bits)
{
	const struct vnpu_cmd_add_outliers *m = &c->u.add_outliers;
	double elements = (double)m->m * m->n, words = (double)m->m * VNPU_OUTLIERS;
	double all = m->k * bits / 32;

	return fw_vector_time(npu, elements, FLOAT_OPS_ADD_OUTLIERS, 2 * elements,
			      m->m * OUTLIER_BYTES + 4.0 * m->n * (words < all ? words : all));
}

static struct npu_cost time_add_outliers(const struct soc_npu *npu, const struct fw_cmd *c)
{
	uint32_t group = c->u.add_outliers.group;

	return time_adding(npu, c,
			   group >= VNPU_OUTLIERS_KQ ? vnpu_kq_form(group - VNPU_OUTLIERS_KQ).bits
			   : group		     ? 4
						     : 8);
}

const struct fw_op fw_op_add_outliers = {
	.check = check_add_outliers,
	.prepare = prepare_add_outliers,
	.run = run_add_outliers,
	.time = time_add_outliers,
};

/* ---- ADD_OUTLIERS_WK ---- */

#define SAME_PLACE(field)                                    \
	(offsetof(struct vnpu_cmd_add_outliers_wk, field) == \
	 offsetof(struct vnpu_cmd_add_outliers, field))
_Static_assert(SAME_PLACE(x) && SAME_PLACE(y) && SAME_PLACE(m) && SAME_PLACE(ldy),
	       "also accessed as an ADD_OUTLIERS");
_Static_assert(TILE_PANELS <= FW_WK_PANELS, "a tile has room for its part of the table");

/* The table may change until the tile runs, so only its size is checked here. */
static int check_add_outliers_wk(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_add_outliers_wk *m = &c->u.add_outliers_wk;

	CHECK(fw_check_reserved(d, m->reserved));
	CHECK(fw_check_bounded(d, "m", m->m, VNPU_MAX_DIM));
	CHECK(fw_check_wk(d, m->w_bytes, m->n, m->k));
	return check_adding(d, c, m->w_bytes, cost);
}

static int prepare_add_outliers_wk(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_add_outliers_wk *m = &t->cmd->u.add_outliers_wk;
	uint64_t begin, bytes;

	tile_place(t, m->m, m->n, index);
	CHECK(tile_wk_table(t, m->w_bytes, m->k, &begin, &bytes));
	touch_adding(t, begin, bytes);
	return 0;
}

static void run_add_outliers_wk(void *arg)
{
	struct fw_tile *t = arg;
	struct fw_wk_panel panels[FW_WK_PANELS];
	struct fw_add_outliers ao = adding(t);

	tile_wk_panels(t, panels);
	ao.wk = panels;
	t->k->add_outliers(&ao, t->scratch);
}

static struct npu_cost time_add_outliers_wk(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_add_outliers_wk *m = &c->u.add_outliers_wk;

	return time_adding(npu, c, fw_wk_bits(m->w_bytes, m->n, m->k));
}

const struct fw_op fw_op_add_outliers_wk = {
	.check = check_add_outliers_wk,
	.prepare = prepare_add_outliers_wk,
	.run = run_add_outliers_wk,
	.time = time_add_outliers_wk,
};
