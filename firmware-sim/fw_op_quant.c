// SPDX-License-Identifier: MIT
/* Floats to integers and back: QUANT, QUANT16, QUANT_STATIC, DEQUANT. */
#include "fw_op.h"

/* Cost for rows of integers in @planes. */
static struct npu_cost time_planes(const struct soc_npu *npu, uint32_t rows, uint32_t cols,
				   double ops, int planes)
{
	double elements = (double)rows * cols;

	return fw_vector_time(npu, elements, ops, elements,
			      planes * (elements + rows * SCALE_BYTES));
}

/* ---- QUANT, QUANT16 ---- */

static int check_planes(struct decoder *d, struct fw_cmd *c, uint32_t planes, uint32_t max_cols,
			uint64_t *cost)
{
	const struct vnpu_cmd_quant *m = &c->u.quant;

	CHECK(fw_check_bounded(d, "rows", m->rows, VNPU_MAX_DIM / planes));
	CHECK(fw_check_bounded(d, "cols", m->cols, max_cols));
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->cols, m->ldx));
	CHECK(fw_check_matrix(d, c, 1, m->rows * planes, m->cols, m->ldq));
	CHECK(fw_check_vector(d, c, 2, m->rows * planes));
	fw_cut_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols * planes;
	return 0;
}

static int prepare_planes(struct fw_tile *t, uint64_t index, uint32_t planes)
{
	const struct vnpu_cmd_quant *m = &t->cmd->u.quant;
	uint64_t row, p;

	tile_place(t, m->rows, m->cols, index);
	tile_touch_f32(t, 0, m->ldx);
	for (p = 0; p < planes; p++) {
		row = p * m->rows + t->row;
		tile_touch(t, 1, row * m->ldq, (t->rows - 1) * m->ldq + (m->cols + 3) / 4 * 4);
		tile_touch(t, 2, row * 4, t->rows * 4);
	}
	return 0;
}

static int check_quant(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	return check_planes(d, c, 1, VNPU_MAX_DIM, cost);
}

static int prepare_quant(struct fw_tile *t, uint64_t index)
{
	return prepare_planes(t, index, 1);
}

static void run_quant(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_quant *m = &t->cmd->u.quant;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->quant((int8_t *)tile_at(t, 1) + r * m->ldq, tile_f32(t, 2, r, 1, 0),
			    tile_f32(t, 0, r, m->ldx, 0), m->cols);
}

static struct npu_cost time_quant(const struct soc_npu *npu, const struct fw_cmd *c)
{
	return time_planes(npu, c->u.quant.rows, c->u.quant.cols, FLOAT_OPS_QUANT, 1);
}

const struct fw_op fw_op_quant = {
	.check = check_quant,
	.prepare = prepare_quant,
	.run = run_quant,
	.time = time_quant,
};

/* A worker's scratch holds the remainder of a row after the first plane. */
_Static_assert(VNPU_MAX_K_I8 * sizeof(float) <= FW_SCRATCH_BYTES,
	       "QUANT16: a row fits the scratch");

static int check_quant16(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	return check_planes(d, c, 2, VNPU_MAX_K_I8, cost);
}

static int prepare_quant16(struct fw_tile *t, uint64_t index)
{
	return prepare_planes(t, index, 2);
}

static void run_quant16(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_quant *m = &t->cmd->u.quant16;
	uint64_t r, plane = (uint64_t)m->rows * m->ldq;
	float *scale, *x;
	int8_t *q;

	for (r = t->row; r < t->row + t->rows; r++) {
		q = (int8_t *)tile_at(t, 1) + r * m->ldq;
		scale = tile_f32(t, 2, r, 1, 0);
		x = tile_f32(t, 0, r, m->ldx, 0);
		t->k->quant(q, scale, x, m->cols);
		t->k->rest(t->scratch, x, q, *scale, m->cols);
		t->k->quant(q + plane, scale + m->rows, t->scratch, m->cols);
	}
}

static struct npu_cost time_quant16(const struct soc_npu *npu, const struct fw_cmd *c)
{
	return time_planes(npu, c->u.quant16.rows, c->u.quant16.cols, FLOAT_OPS_QUANT16, 2);
}

const struct fw_op fw_op_quant16 = {
	.check = check_quant16,
	.prepare = prepare_quant16,
	.run = run_quant16,
	.time = time_quant16,
};

/* ---- QUANT_STATIC ---- */

static int check_quant_static(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_quant_static *m = &c->u.quant_static;

	CHECK(fw_check_shape(d, m->rows, m->cols));
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->cols, m->ldx));
	CHECK(fw_check_vector(d, c, 1, 1));
	CHECK(fw_check_matrix(d, c, 2, m->rows, m->cols, m->ldq));
	CHECK(fw_check_vector(d, c, 3, m->rows));
	fw_cut_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols;
	return 0;
}

static int prepare_quant_static(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_quant_static *m = &t->cmd->u.quant_static;

	tile_place(t, m->rows, m->cols, index);
	tile_touch_f32(t, 0, m->ldx);
	tile_touch(t, 1, 0, 4);
	tile_touch(t, 2, t->row * m->ldq, (t->rows - 1) * m->ldq + (m->cols + 3) / 4 * 4);
	tile_touch(t, 3, t->row * 4, t->rows * 4);
	return 0;
}

static void run_quant_static(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_quant_static *m = &t->cmd->u.quant_static;
	float s = *tile_f32(t, 1, 0, 0, 0);
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->quant_static((int8_t *)tile_at(t, 2) + r * m->ldq, tile_f32(t, 3, r, 1, 0),
				   tile_f32(t, 0, r, m->ldx, 0), m->cols, s);
}

static struct npu_cost time_quant_static(const struct soc_npu *npu, const struct fw_cmd *c)
{
	return time_planes(npu, c->u.quant_static.rows, c->u.quant_static.cols,
			   FLOAT_OPS_QUANT_STATIC, 1);
}

const struct fw_op fw_op_quant_static = {
	.check = check_quant_static,
	.prepare = prepare_quant_static,
	.run = run_quant_static,
	.time = time_quant_static,
};

/* ---- DEQUANT ---- */

static int check_dequant(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_dequant *m = &c->u.dequant;

	CHECK(fw_check_shape(d, m->rows, m->cols));
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->cols, m->ldq));
	CHECK(fw_check_vector(d, c, 1, m->rows));
	CHECK(fw_check_matrix(d, c, 2, m->rows, m->cols, m->ldy));
	fw_cut_rows(c, m->rows, m->cols, true);
	*cost = (uint64_t)m->rows * m->cols / 2;
	return 0;
}

static int prepare_dequant(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_dequant *m = &t->cmd->u.dequant;

	tile_place(t, m->rows, m->cols, index);
	tile_touch(t, 0, t->row * m->ldq + t->col, (t->rows - 1) * m->ldq + t->cols);
	tile_touch(t, 1, t->row * 4, t->rows * 4);
	tile_touch_f32(t, 2, m->ldy);
	return 0;
}

static void run_dequant(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_dequant *m = &t->cmd->u.dequant;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->dequant(tile_f32(t, 2, r, m->ldy, t->col),
			      (int8_t *)tile_at(t, 0) + r * m->ldq + t->col,
			      *tile_f32(t, 1, r, 1, 0), t->cols);
}

static struct npu_cost time_dequant(const struct soc_npu *npu, const struct fw_cmd *c)
{
	return time_planes(npu, c->u.dequant.rows, c->u.dequant.cols, FLOAT_OPS_DEQUANT, 1);
}

const struct fw_op fw_op_dequant = {
	.check = check_dequant,
	.prepare = prepare_dequant,
	.run = run_dequant,
	.time = time_dequant,
};
