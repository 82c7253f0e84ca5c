// SPDX-License-Identifier: MIT
/* Operations on rows of floats: ADD, MUL, ACT, GLU, RMSNORM, LAYERNORM, ROPE, ROPE_AT, SOFTMAX. */
#include <math.h>

#include "fw_op.h"

static double act_ops(uint32_t kind)
{
	static const double ops[] = {
		[VNPU_ACT_SILU] = FLOAT_OPS_SILU,
		[VNPU_ACT_GELU] = FLOAT_OPS_GELU,
		[VNPU_ACT_GELU_ERF] = FLOAT_OPS_GELU_ERF,
		[VNPU_ACT_GELU_QUICK] = FLOAT_OPS_GELU_QUICK,
		[VNPU_ACT_RELU] = FLOAT_OPS_RELU,
		[VNPU_ACT_RELU_SQUARED] = FLOAT_OPS_RELU_SQUARED,
		[VNPU_ACT_CAP] = FLOAT_OPS_CAP,
	};

	return ops[kind];
}

static int check_act_kind(struct decoder *d, uint32_t kind, uint32_t last)
{
	if (kind > last || (kind > VNPU_ACT_GELU && d->isa_minor < ISA_ACTS_MINOR))
		return fw_refuse(d, "kind %u is unknown in ISA %u.%u", kind, VNPU_ISA_MAJOR,
				 d->isa_minor);
	return 0;
}

/* Accesses x, a vector of @vec_bytes if there is one, and y; x and y are [rows][cols]. */
static int prepare_unary(struct fw_tile *t, uint64_t index, uint64_t rows, uint64_t cols,
			 uint64_t ldx, uint64_t ldy, uint64_t vec_bytes)
{
	tile_place(t, rows, cols, index);
	tile_touch_f32(t, 0, ldx);
	if (vec_bytes)
		tile_touch(t, 1, 0, vec_bytes);
	tile_touch_f32(t, vec_bytes ? 2 : 1, ldy);
	return 0;
}

/* ---- ADD, MUL ---- */

static int check_binary(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_binary *m = &c->u.add;

	CHECK(fw_check_reserved(d, m->reserved));
	CHECK(fw_check_shape(d, m->rows, m->cols));
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->cols, m->lda));
	CHECK(fw_check_matrix(d, c, 1, m->ldb ? m->rows : 1, m->cols, m->ldb ? m->ldb : m->cols));
	CHECK(fw_check_matrix(d, c, 2, m->rows, m->cols, m->ldy));
	fw_cut_rows(c, m->rows, m->cols, true);
	*cost = (uint64_t)m->rows * m->cols / 4;
	return 0;
}

static int prepare_binary(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_binary *m = &t->cmd->u.add;

	tile_place(t, m->rows, m->cols, index);
	tile_touch_f32(t, 0, m->lda);
	tile_touch_f32(t, 1, m->ldb);
	tile_touch_f32(t, 2, m->ldy);
	return 0;
}

static void run_binary(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_binary *m = &t->cmd->u.add;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		(m->hdr.op == VNPU_OP_ADD ? t->k->add : t->k->mul)(
			tile_f32(t, 2, r, m->ldy, t->col), tile_f32(t, 0, r, m->lda, t->col),
			tile_f32(t, 1, r, m->ldb, t->col), t->cols);
}

static struct npu_cost time_binary(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_binary *m = &c->u.add;
	double elements = (double)m->rows * m->cols;

	return fw_vector_time(npu, elements, FLOAT_OPS_ADD,
			      2 * elements + (m->ldb ? elements : m->cols), 0);
}

const struct fw_op fw_op_add = {
	.check = check_binary,
	.prepare = prepare_binary,
	.run = run_binary,
	.time = time_binary,
};

const struct fw_op fw_op_mul = {
	.check = check_binary,
	.prepare = prepare_binary,
	.run = run_binary,
	.time = time_binary,
};

/* ---- ACT ---- */

static int check_act(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_act *m = &c->u.act;

	CHECK(check_act_kind(d, m->kind, VNPU_ACT_CAP));
	CHECK(fw_check_finite(d, "cap", m->cap));
	if (m->kind == VNPU_ACT_CAP ? m->cap <= 0 : m->cap != 0 || signbit(m->cap))
		return fw_refuse(d, "cap is %g, with kind %u", (double)m->cap, m->kind);
	CHECK(fw_check_shape(d, m->rows, m->cols));
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->cols, m->ldx));
	CHECK(fw_check_matrix(d, c, 1, m->rows, m->cols, m->ldy));
	fw_cut_rows(c, m->rows, m->cols, true);
	*cost = (uint64_t)m->rows * m->cols * 2;
	return 0;
}

static int prepare_act(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_act *m = &t->cmd->u.act;

	return prepare_unary(t, index, m->rows, m->cols, m->ldx, m->ldy, 0);
}

static void run_act(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_act *m = &t->cmd->u.act;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->act(tile_f32(t, 1, r, m->ldy, t->col), tile_f32(t, 0, r, m->ldx, t->col),
			  t->cols, m->kind, m->cap);
}

static struct npu_cost time_act(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_act *m = &c->u.act;
	double elements = (double)m->rows * m->cols;

	return fw_vector_time(npu, elements, act_ops(m->kind), 2 * elements, 0);
}

const struct fw_op fw_op_act = {
	.check = check_act,
	.prepare = prepare_act,
	.run = run_act,
	.time = time_act,
};

/* ---- GLU ---- */

static int check_glu(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_glu *m = &c->u.glu;

	CHECK(check_act_kind(d, m->kind, VNPU_ACT_RELU_SQUARED));
	CHECK(fw_check_shape(d, m->rows, m->cols));
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->cols, m->lda));
	CHECK(fw_check_matrix(d, c, 1, m->rows, m->cols, m->ldb));
	CHECK(fw_check_matrix(d, c, 2, m->rows, m->cols, m->ldy));
	fw_cut_rows(c, m->rows, m->cols, true);
	*cost = (uint64_t)m->rows * m->cols * 2;
	return 0;
}

static int prepare_glu(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_glu *m = &t->cmd->u.glu;

	tile_place(t, m->rows, m->cols, index);
	tile_touch_f32(t, 0, m->lda);
	tile_touch_f32(t, 1, m->ldb);
	tile_touch_f32(t, 2, m->ldy);
	return 0;
}

static void run_glu(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_glu *m = &t->cmd->u.glu;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->glu(tile_f32(t, 2, r, m->ldy, t->col), tile_f32(t, 0, r, m->lda, t->col),
			  tile_f32(t, 1, r, m->ldb, t->col), t->cols, m->kind);
}

static struct npu_cost time_glu(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_glu *m = &c->u.glu;
	double elements = (double)m->rows * m->cols;

	return fw_vector_time(npu, elements, act_ops(m->kind) + FLOAT_OPS_ADD, 3 * elements, 0);
}

const struct fw_op fw_op_glu = {
	.check = check_glu,
	.prepare = prepare_glu,
	.run = run_glu,
	.time = time_glu,
};

/* ---- RMSNORM ---- */

static int check_rmsnorm(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_rmsnorm *m = &c->u.rmsnorm;

	CHECK(fw_check_reserved(d, m->reserved));
	CHECK(fw_check_shape(d, m->rows, m->cols));
	CHECK(fw_check_finite(d, "eps", m->eps));
	if (m->eps < 0)
		return fw_refuse(d, "eps is negative");
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->cols, m->ldx));
	CHECK(fw_check_vector(d, c, 1, m->cols));
	CHECK(fw_check_matrix(d, c, 2, m->rows, m->cols, m->ldy));
	fw_cut_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols / 2;
	return 0;
}

static int prepare_rmsnorm(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_rmsnorm *m = &t->cmd->u.rmsnorm;

	return prepare_unary(t, index, m->rows, m->cols, m->ldx, m->ldy, m->cols * 4ull);
}

static void run_rmsnorm(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_rmsnorm *m = &t->cmd->u.rmsnorm;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->rmsnorm(tile_f32(t, 2, r, m->ldy, 0), tile_f32(t, 0, r, m->ldx, 0),
			      tile_at(t, 1), m->cols, m->eps);
}

static struct npu_cost time_rmsnorm(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_rmsnorm *m = &c->u.rmsnorm;
	double elements = (double)m->rows * m->cols;

	return fw_vector_time(npu, elements, FLOAT_OPS_NORM, 2 * elements + m->cols, 0);
}

const struct fw_op fw_op_rmsnorm = {
	.check = check_rmsnorm,
	.prepare = prepare_rmsnorm,
	.run = run_rmsnorm,
	.time = time_rmsnorm,
};

/* ---- LAYERNORM ---- */

static bool has_bias(const struct fw_cmd *c)
{
	return c->u.layernorm.bias.slot != VNPU_SLOT_NONE;
}

static int check_layernorm(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_layernorm *m = &c->u.layernorm;

	CHECK(fw_check_reserved(d, m->reserved));
	CHECK(fw_check_shape(d, m->rows, m->cols));
	CHECK(fw_check_finite(d, "eps", m->eps));
	if (m->eps < 0)
		return fw_refuse(d, "eps is negative");
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->cols, m->ldx));
	CHECK(fw_check_vector(d, c, 1, m->cols));
	if (has_bias(c))
		CHECK(fw_check_vector(d, c, 2, m->cols));
	else if (m->bias.reserved || m->bias.offset)
		return fw_refuse(d, "bias: absent, but not all 0");
	CHECK(fw_check_matrix(d, c, 3, m->rows, m->cols, m->ldy));
	fw_cut_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols;
	return 0;
}

static int prepare_layernorm(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_layernorm *m = &t->cmd->u.layernorm;

	tile_place(t, m->rows, m->cols, index);
	tile_touch_f32(t, 0, m->ldx);
	tile_touch(t, 1, 0, m->cols * 4ull);
	if (has_bias(t->cmd))
		tile_touch(t, 2, 0, m->cols * 4ull);
	tile_touch_f32(t, 3, m->ldy);
	return 0;
}

static void run_layernorm(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_layernorm *m = &t->cmd->u.layernorm;
	const float *bias = has_bias(t->cmd) ? tile_at(t, 2) : NULL;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->layernorm(tile_f32(t, 3, r, m->ldy, 0), tile_f32(t, 0, r, m->ldx, 0),
				tile_at(t, 1), bias, m->cols, m->eps);
}

static struct npu_cost time_layernorm(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_layernorm *m = &c->u.layernorm;
	double elements = (double)m->rows * m->cols;

	return fw_vector_time(npu, elements, FLOAT_OPS_LAYERNORM,
			      2 * elements + (has_bias(c) ? 2 : 1) * (double)m->cols, 0);
}

const struct fw_op fw_op_layernorm = {
	.check = check_layernorm,
	.prepare = prepare_layernorm,
	.run = run_layernorm,
	.time = time_layernorm,
};

/* ---- ROPE, ROPE_AT ---- */

static bool has_positions(const struct fw_cmd *c)
{
	return c->u.hdr.op == VNPU_OP_ROPE_AT;
}

/* The number of operand y. */
static unsigned int rope_y(const struct fw_cmd *c)
{
	return has_positions(c) ? 3 : 2;
}

static int check_rope(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_rope *m = &c->u.rope;
	uint64_t cols;

	CHECK(fw_check_bounded(d, "rows", m->rows, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "heads", m->heads, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "head_dim", m->head_dim, VNPU_MAX_HEAD_DIM));
	CHECK(fw_check_bounded(d, "rot_dim", m->rot_dim, m->head_dim));
	if (m->rot_dim % 2)
		return fw_refuse(d, "rot_dim %u is odd", m->rot_dim);
	if (m->mode != VNPU_ROPE_ADJACENT && m->mode != VNPU_ROPE_HALVES)
		return fw_refuse(d, "unknown mode %u", m->mode);
	cols = (uint64_t)m->heads * m->head_dim;
	CHECK(fw_check_bounded(d, "heads x head_dim", cols, VNPU_MAX_DIM));
	CHECK(fw_check_param(d, "pos", m->pos_param, VNPU_MAX_DIM - m->rows, &c->pos));
	CHECK(fw_check_matrix(d, c, 0, m->rows, cols, m->ldx));
	CHECK(fw_check_vector(d, c, 1, m->rot_dim / 2));
	if (has_positions(c))
		CHECK(fw_check_vector(d, c, 2, m->rows));
	CHECK(fw_check_matrix(d, c, rope_y(c), m->rows, cols, m->ldy));
	fw_cut_rows(c, m->rows, cols, false);
	*cost = m->rows * (cols + 32ull * m->rot_dim);
	return 0;
}

static int prepare_rope(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_rope *m = &t->cmd->u.rope;

	tile_place(t, m->rows, m->heads * m->head_dim, index);
	tile_touch_f32(t, 0, m->ldx);
	tile_touch(t, 1, 0, m->rot_dim * 2ull);
	if (has_positions(t->cmd))
		tile_touch(t, 2, t->row * 4, t->rows * 4);
	tile_touch_f32(t, rope_y(t->cmd), m->ldy);
	return 0;
}

static void run_rope(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_rope *m = &t->cmd->u.rope;
	const uint32_t *positions = has_positions(t->cmd) ? tile_at(t, 2) : NULL;
	uint64_t r;

	for (r = t->row; r < t->row + t->rows; r++)
		t->k->rope(tile_f32(t, rope_y(t->cmd), r, m->ldy, 0), tile_f32(t, 0, r, m->ldx, 0),
			   tile_at(t, 1), t->cmd->pos + (positions ? positions[r] : r), m->heads,
			   m->head_dim, m->rot_dim, m->mode, t->scratch);
}

static struct npu_cost time_rope(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_rope *m = &c->u.rope;
	double elements = (double)m->rows * m->heads * m->head_dim;

	return fw_vector_time(npu, elements, FLOAT_OPS_ROPE, 2 * elements + m->rot_dim / 2.0,
			      has_positions(c) ? m->rows * 4.0 : 0);
}

const struct fw_op fw_op_rope = {
	.check = check_rope,
	.prepare = prepare_rope,
	.run = run_rope,
	.time = time_rope,
};

const struct fw_op fw_op_rope_at = {
	.check = check_rope,
	.prepare = prepare_rope,
	.run = run_rope,
	.time = time_rope,
};

/* ---- SOFTMAX ---- */

static int check_softmax(struct decoder *d, struct fw_cmd *c, uint64_t *cost)
{
	const struct vnpu_cmd_softmax *m = &c->u.softmax;

	CHECK(fw_check_shape(d, m->rows, m->cols));
	CHECK(fw_check_finite(d, "scale", m->scale));
	CHECK(fw_check_param(d, "limit", m->limit_param, VNPU_MAX_DIM, &c->pos));
	CHECK(fw_check_matrix(d, c, 0, m->rows, m->cols, m->ldx));
	CHECK(fw_check_matrix(d, c, 1, m->rows, m->cols, m->ldy));
	fw_cut_rows(c, m->rows, m->cols, false);
	*cost = (uint64_t)m->rows * m->cols * 2;
	return 0;
}

static int prepare_softmax(struct fw_tile *t, uint64_t index)
{
	const struct vnpu_cmd_softmax *m = &t->cmd->u.softmax;

	return prepare_unary(t, index, m->rows, m->cols, m->ldx, m->ldy, 0);
}

static void run_softmax(void *arg)
{
	struct fw_tile *t = arg;
	const struct vnpu_cmd_softmax *m = &t->cmd->u.softmax;
	uint64_t r, n;

	for (r = t->row; r < t->row + t->rows; r++) {
		n = m->limit_param == VNPU_PARAM_NONE ? m->cols
						      : min_u64(m->cols, t->cmd->pos + r + 1);
		t->k->softmax(tile_f32(t, 1, r, m->ldy, 0), tile_f32(t, 0, r, m->ldx, 0), n,
			      m->cols, m->scale);
	}
}

/* All columns count, including those that a limit sets to 0: a static graph computes them. */
static struct npu_cost time_softmax(const struct soc_npu *npu, const struct fw_cmd *c)
{
	const struct vnpu_cmd_softmax *m = &c->u.softmax;
	double elements = (double)m->rows * m->cols;

	return fw_vector_time(npu, elements, FLOAT_OPS_SOFTMAX, 2 * elements, 0);
}

const struct fw_op fw_op_softmax = {
	.check = check_softmax,
	.prepare = prepare_softmax,
	.run = run_softmax,
	.time = time_softmax,
};
