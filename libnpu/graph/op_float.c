// SPDX-License-Identifier: MIT
/* Operations on rows of floats: ADD, MUL, ACT, GLU, RMSNORM, LAYERNORM, ROPE, ROPE_AT, SOFTMAX. */
#include <errno.h>

#include "op.h"

/* ---- ADD, MUL ---- */

static struct npu_tensor *graph_binary(struct npu_graph *g, const char *name, enum vnpu_op op,
				       struct npu_tensor *a, struct npu_tensor *b)
{
	if (!graph_operand(g, name, a, NPU_F32) || !graph_operand(g, name, b, NPU_F32))
		return NULL;
	if (!graph_shape(g, name, b, b->rows == 1 ? 1 : a->rows, a->cols))
		return NULL;
	return graph_simple(g, (struct graph_op){ .op = op, .in = { a, b }, .param = NPU_NO_PARAM },
			    a->rows, a->cols);
}

struct npu_tensor *npu_add(struct npu_graph *g, struct npu_tensor *a, struct npu_tensor *b)
{
	return graph_binary(g, "add", VNPU_OP_ADD, a, b);
}

struct npu_tensor *npu_mul(struct npu_graph *g, struct npu_tensor *a, struct npu_tensor *b)
{
	return graph_binary(g, "mul", VNPU_OP_MUL, a, b);
}

struct npu_tensor *npu_fold(struct npu_graph *g, struct npu_tensor *x)
{
	if (!graph_operand(g, "fold", x, NPU_F32))
		return NULL;
	if (x->rows % 2) {
		graph_fail(g, -EINVAL, "fold: %u rows; needs an even number", x->rows);
		return NULL;
	}
	return graph_simple(
		g, (struct graph_op){ .op = VNPU_OP_ADD, .in = { x }, .param = NPU_NO_PARAM },
		x->rows / 2, x->cols);
}

/* Without a second operand (fold) it is the lower half of the first one's rows. */
static void lower_binary(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_binary *c = cmd;
	const struct npu_tensor *a = op->in[0], *b = op->in[1], *y = op->out[0];

	c->rows = y->rows;
	c->cols = y->cols;
	c->lda = a->ld;
	c->ldb = b && b->rows == 1 && a->rows > 1 ? 0 : b ? b->ld : a->ld;
	c->ldy = y->ld;
	if (b) {
		lower_operands(o, c, op);
		return;
	}
	lower_ref(o, &c->a, a, 0);
	lower_ref(o, &c->b, a, y->rows);
	lower_ref(o, &c->y, y, 0);
	o->bytes_moved += a->bytes + y->bytes;
}

static void text_add(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_add(text_graph(t), text_tensor(t, 0), text_tensor(t, 1));
}

static void text_fold(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_fold(text_graph(t), text_tensor(t, 0));
}

const struct npu_op npu_op_add = {
	.lower = lower_binary,
	.in_place = 1 << 0 | 1 << 1,
	.texts = {
		{ "Y = add A B", "A + B; B may be one row", text_add },
		{ "Y = fold X", "the lower half of X's rows plus the upper half", text_fold },
	},
};

static void text_mul(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_mul(text_graph(t), text_tensor(t, 0), text_tensor(t, 1));
}

const struct npu_op npu_op_mul = {
	.lower = lower_binary,
	.in_place = 1 << 0 | 1 << 1,
	.texts = { { "Y = mul A B", "A times B; B may be one row", text_mul } },
};

/* ---- ACT ---- */

static struct npu_tensor *graph_act(struct npu_graph *g, const char *name, enum vnpu_act kind,
				    float cap, struct npu_tensor *x)
{
	struct graph_op op = {
		.op = VNPU_OP_ACT, .in = { x }, .kind = kind, .value = cap, .param = NPU_NO_PARAM
	};

	return graph_operand(g, name, x, NPU_F32) ? graph_simple(g, op, x->rows, x->cols) : NULL;
}

struct npu_tensor *npu_silu(struct npu_graph *g, struct npu_tensor *x)
{
	return graph_act(g, "silu", VNPU_ACT_SILU, 0, x);
}

struct npu_tensor *npu_gelu(struct npu_graph *g, struct npu_tensor *x)
{
	return graph_act(g, "gelu", VNPU_ACT_GELU, 0, x);
}

struct npu_tensor *npu_gelu_erf(struct npu_graph *g, struct npu_tensor *x)
{
	return graph_act(g, "gelu_erf", VNPU_ACT_GELU_ERF, 0, x);
}

struct npu_tensor *npu_gelu_quick(struct npu_graph *g, struct npu_tensor *x)
{
	return graph_act(g, "gelu_quick", VNPU_ACT_GELU_QUICK, 0, x);
}

struct npu_tensor *npu_relu(struct npu_graph *g, struct npu_tensor *x)
{
	return graph_act(g, "relu", VNPU_ACT_RELU, 0, x);
}

struct npu_tensor *npu_relu_squared(struct npu_graph *g, struct npu_tensor *x)
{
	return graph_act(g, "relu_squared", VNPU_ACT_RELU_SQUARED, 0, x);
}

struct npu_tensor *npu_cap(struct npu_graph *g, struct npu_tensor *x, float cap)
{
	if (!graph_finite(g, "cap", cap))
		return NULL;
	if (cap <= 0) {
		graph_fail(g, -EINVAL, "cap: %g is not above 0", (double)cap);
		return NULL;
	}
	return graph_act(g, "cap", VNPU_ACT_CAP, cap, x);
}

/* Kinds of later versions need those. */
static void lower_act_kind(struct lower_out *o, uint32_t kind)
{
	if (kind > VNPU_ACT_GELU)
		lower_needs(o, ISA_ACTS_MINOR);
}

static void lower_act(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_act *c = cmd;
	const struct npu_tensor *x = op->in[0], *y = op->out[0];

	c->rows = x->rows;
	c->cols = x->cols;
	c->ldx = x->ld;
	c->ldy = y->ld;
	c->kind = op->kind;
	c->cap = op->value;
	lower_act_kind(o, op->kind);
	lower_operands(o, c, op);
}

static void text_silu(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_silu(text_graph(t), text_tensor(t, 0));
}

static void text_gelu(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_gelu(text_graph(t), text_tensor(t, 0));
}

static void text_gelu_erf(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_gelu_erf(text_graph(t), text_tensor(t, 0));
}

static void text_gelu_quick(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_gelu_quick(text_graph(t), text_tensor(t, 0));
}

static void text_relu(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_relu(text_graph(t), text_tensor(t, 0));
}

static void text_relu_squared(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_relu_squared(text_graph(t), text_tensor(t, 0));
}

static void text_cap(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_cap(text_graph(t), text_tensor(t, 0), text_number(t, 1));
}

const struct npu_op npu_op_act = {
	.lower = lower_act,
	.in_place = 1 << 0,
	.texts = {
		{ "Y = silu X", "X / (1 + exp(-X))", text_silu },
		{ "Y = gelu X", "GELU of X, approximated with tanh", text_gelu },
		{ "Y = gelu_erf X", "GELU of X, exact", text_gelu_erf },
		{ "Y = gelu_quick X", "X / (1 + exp(-1.702 X))", text_gelu_quick },
		{ "Y = relu X", "X, or 0 where that is below 0", text_relu },
		{ "Y = relu_squared X", "the square of relu X", text_relu_squared },
		{ "Y = cap X CAP", "CAP tanh(X / CAP)", text_cap },
	},
};

/* ---- GLU ---- */

static const enum vnpu_act glu_kinds[] = {
	[NPU_GLU_SILU] = VNPU_ACT_SILU,		[NPU_GLU_GELU] = VNPU_ACT_GELU,
	[NPU_GLU_GELU_ERF] = VNPU_ACT_GELU_ERF, [NPU_GLU_GELU_QUICK] = VNPU_ACT_GELU_QUICK,
	[NPU_GLU_RELU] = VNPU_ACT_RELU,		[NPU_GLU_RELU_SQUARED] = VNPU_ACT_RELU_SQUARED,
};

struct npu_tensor *npu_glu(struct npu_graph *g, struct npu_tensor *a, struct npu_tensor *b,
			   enum npu_glu_kind kind)
{
	if (!graph_operand(g, "glu", a, NPU_F32) || !graph_operand(g, "glu", b, NPU_F32) ||
	    !graph_shape(g, "glu", b, a->rows, a->cols))
		return NULL;
	if (kind > NPU_GLU_RELU_SQUARED) {
		graph_fail(g, -EINVAL, "glu: kind %d is not known", kind);
		return NULL;
	}
	return graph_simple(g,
			    (struct graph_op){
				    .op = VNPU_OP_GLU,
				    .in = { a, b },
				    .kind = glu_kinds[kind],
				    .param = NPU_NO_PARAM,
			    },
			    a->rows, a->cols);
}

static void lower_glu(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_glu *c = cmd;
	const struct npu_tensor *a = op->in[0], *b = op->in[1], *y = op->out[0];

	c->rows = a->rows;
	c->cols = a->cols;
	c->lda = a->ld;
	c->ldb = b->ld;
	c->ldy = y->ld;
	c->kind = op->kind;
	lower_act_kind(o, op->kind);
	lower_operands(o, c, op);
}

#define TEXT_GLU "silu|gelu|gelu_erf|gelu_quick|relu|relu_squared"

static void text_glu(struct graph_text *t, struct npu_tensor *out[])
{
	enum npu_glu_kind kind = text_choice(t, 2, "an activation", TEXT_GLU);

	out[0] = npu_glu(text_graph(t), text_tensor(t, 0), text_tensor(t, 1), kind);
}

const struct npu_op npu_op_glu = {
	.lower = lower_glu,
	.in_place = 1 << 0 | 1 << 1,
	.texts = { { "Y = glu A B " TEXT_GLU, "activation of A times B", text_glu } },
};

/* ---- RMSNORM, LAYERNORM ---- */

/* Appends @op, whose operands and value are to be checked; the operands: x, w. */
static struct npu_tensor *graph_norm(struct npu_graph *g, const char *name, struct graph_op op)
{
	const struct npu_tensor *x = op.in[0], *w = op.in[1];

	if (!graph_operand(g, name, x, NPU_F32) || !graph_operand(g, name, w, NPU_F32))
		return NULL;
	if (!graph_shape(g, name, w, 1, w->cols) || !graph_finite(g, name, op.value))
		return NULL;
	if (op.value < 0 || x->cols % w->cols ||
	    (uint64_t)x->rows * (x->cols / w->cols) > VNPU_MAX_DIM) {
		graph_fail(g, -EINVAL, "%s: groups of %u in rows of %u, eps %g", name, w->cols,
			   x->cols, (double)op.value);
		return NULL;
	}
	if (x->ld != x->cols && w->cols != x->cols) {
		graph_fail(g, -EINVAL, "%s: rows of %u, %u apart: a norm per head needs them dense",
			   name, x->cols, x->ld);
		return NULL;
	}
	return graph_simple(g, op, x->rows, x->cols);
}

struct npu_tensor *npu_rmsnorm(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *w,
			       float eps)
{
	struct graph_op op = {
		.op = VNPU_OP_RMSNORM, .in = { x, w }, .value = eps, .param = NPU_NO_PARAM
	};

	return graph_norm(g, "rmsnorm", op);
}

struct npu_tensor *npu_layernorm(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *w,
				 struct npu_tensor *bias, float eps)
{
	struct graph_op op = {
		.op = VNPU_OP_LAYERNORM, .in = { x, w, bias }, .value = eps, .param = NPU_NO_PARAM
	};

	if (bias &&
	    (!graph_member(g, "layernorm", w) || !graph_operand(g, "layernorm", bias, NPU_F32) ||
	     !graph_shape(g, "layernorm", bias, 1, w->cols)))
		return NULL;
	return graph_norm(g, "layernorm", op);
}

/* If a row has several groups, rows are dense, and its groups become rows of a narrower matrix. */
static void lower_rmsnorm(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_rmsnorm *c = cmd;
	const struct npu_tensor *x = op->in[0], *w = op->in[1], *y = op->out[0];

	c->rows = x->rows * (x->cols / w->cols);
	c->cols = w->cols;
	c->ldx = w->cols == x->cols ? x->ld : w->cols;
	c->ldy = w->cols == x->cols ? y->ld : w->cols;
	c->eps = op->value;
	lower_operands(o, c, op);
}

static void text_rmsnorm(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] =
		npu_rmsnorm(text_graph(t), text_tensor(t, 0), text_tensor(t, 1), text_number(t, 2));
}

const struct npu_op npu_op_rmsnorm = {
	.lower = lower_rmsnorm,
	.in_place = 1 << 0,
	.texts = { { "Y = rmsnorm X W EPS", "groups of W.cols columns of X, normalised, times W",
		     text_rmsnorm } },
};

static void lower_layernorm(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_layernorm *c = cmd;
	const struct npu_tensor *x = op->in[0], *w = op->in[1], *y = op->out[0];

	c->rows = x->rows * (x->cols / w->cols);
	c->cols = w->cols;
	c->ldx = w->cols == x->cols ? x->ld : w->cols;
	c->ldy = w->cols == x->cols ? y->ld : w->cols;
	c->eps = op->value;
	lower_operands(o, c, op);
}

static void text_layernorm(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_layernorm(text_graph(t), text_tensor(t, 0), text_tensor(t, 1),
			       text_optional(t, 3), text_number(t, 2));
}

const struct npu_op npu_op_layernorm = {
	.lower = lower_layernorm,
	.in_place = 1 << 0,
	.texts = { { "Y = layernorm X W EPS [BIAS]", "the same with the mean subtracted, plus BIAS",
		     text_layernorm } },
};

/* ---- ROPE, ROPE_AT ---- */

/* Appends @op, whose operands and param are to be checked; the operands: x, inv_freq. */
static struct npu_tensor *graph_rope(struct npu_graph *g, const char *name, struct graph_op op,
				     enum npu_rope_mode mode)
{
	struct npu_tensor *x = op.in[0], *inv_freq = op.in[1];

	if (!graph_operand(g, name, x, NPU_F32) || !graph_operand(g, name, inv_freq, NPU_F32))
		return NULL;
	if (!graph_shape(g, name, inv_freq, 1, inv_freq->cols) ||
	    !graph_param_ok(g, name, op.param, true))
		return NULL;
	if (!op.heads || x->cols % op.heads || x->cols / op.heads > VNPU_MAX_HEAD_DIM ||
	    inv_freq->cols > x->cols / op.heads / 2 ||
	    (mode != NPU_ROPE_ADJACENT && mode != NPU_ROPE_HALVES)) {
		graph_fail(g, -EINVAL, "%s: %u columns in %u heads with %u frequencies, mode %d",
			   name, x->cols, op.heads, inv_freq->cols, mode);
		return NULL;
	}
	op.kind = mode == NPU_ROPE_HALVES ? VNPU_ROPE_HALVES : VNPU_ROPE_ADJACENT;
	return graph_simple(g, op, x->rows, x->cols);
}

struct npu_tensor *npu_rope(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *inv_freq,
			    uint32_t heads, int pos, enum npu_rope_mode mode)
{
	struct graph_op op = {
		.op = VNPU_OP_ROPE, .in = { x, inv_freq }, .heads = heads, .param = pos
	};

	return graph_rope(g, "rope", op, mode);
}

struct npu_tensor *npu_rope_at(struct npu_graph *g, struct npu_tensor *x,
			       struct npu_tensor *inv_freq, struct npu_tensor *positions,
			       uint32_t heads, int pos, enum npu_rope_mode mode)
{
	struct graph_op op = { .op = VNPU_OP_ROPE_AT,
			       .in = { x, inv_freq, positions },
			       .heads = heads,
			       .param = pos };

	if (!graph_member(g, "rope_at", x) || !graph_operand(g, "rope_at", positions, NPU_U32) ||
	    !graph_shape(g, "rope_at", positions, x->rows, 1))
		return NULL;
	return graph_rope(g, "rope_at", op, mode);
}

static void lower_rope(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_rope *c = cmd;
	const struct npu_tensor *x = op->in[0], *f = op->in[1], *y = op->out[0];

	c->rows = x->rows;
	c->heads = op->heads;
	c->head_dim = x->cols / op->heads;
	c->rot_dim = f->cols * 2;
	c->ldx = x->ld;
	c->ldy = y->ld;
	c->pos_param = lower_param(op->param);
	c->mode = op->kind;
	lower_operands(o, c, op);
}

static void text_rope(struct graph_text *t, struct npu_tensor *out[])
{
	enum npu_rope_mode mode = text_choice(t, 4, "a rope mode", "adjacent|halves");

	out[0] = npu_rope(text_graph(t), text_tensor(t, 0), text_tensor(t, 1),
			  text_integer(t, 2, UINT32_MAX), text_param(t, 3), mode);
}

const struct npu_op npu_op_rope = {
	.lower = lower_rope,
	.in_place = 1 << 0,
	.texts = { { "Y = rope X INV_FREQ HEADS P|- adjacent|halves",
		     "pairs of each head rotated; row r is at position P + r", text_rope } },
};

static void text_rope_at(struct graph_text *t, struct npu_tensor *out[])
{
	enum npu_rope_mode mode = text_choice(t, 5, "a rope mode", "adjacent|halves");

	out[0] = npu_rope_at(text_graph(t), text_tensor(t, 0), text_tensor(t, 1), text_tensor(t, 2),
			     text_integer(t, 3, UINT32_MAX), text_param(t, 4), mode);
}

const struct npu_op npu_op_rope_at = {
	.lower = lower_rope,
	.in_place = 1 << 0,
	.texts = { { "Y = rope_at X INV_FREQ POSITIONS HEADS P|- adjacent|halves",
		     "the same; row r is at position P + POSITIONS[r]", text_rope_at } },
};

/* ---- SOFTMAX ---- */

struct npu_tensor *npu_softmax(struct npu_graph *g, struct npu_tensor *x, float scale, int limit)
{
	if (!graph_operand(g, "softmax", x, NPU_F32) ||
	    !graph_param_ok(g, "softmax", limit, true) || !graph_finite(g, "softmax", scale))
		return NULL;
	return graph_simple(
		g,
		(struct graph_op){
			.op = VNPU_OP_SOFTMAX, .in = { x }, .value = scale, .param = limit },
		x->rows, x->cols);
}

static void lower_softmax(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_softmax *c = cmd;
	const struct npu_tensor *x = op->in[0], *y = op->out[0];

	c->rows = x->rows;
	c->cols = x->cols;
	c->ldx = x->ld;
	c->ldy = y->ld;
	c->scale = op->value;
	c->limit_param = lower_param(op->param);
	lower_operands(o, c, op);
}

static void text_softmax(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_softmax(text_graph(t), text_tensor(t, 0), text_number(t, 1), text_param(t, 2));
}

const struct npu_op npu_op_softmax = {
	.lower = lower_softmax,
	.in_place = 1 << 0,
	.texts = { { "Y = softmax X SCALE [P]",
		     "over rows; with P, over the first P + r + 1 columns of row r",
		     text_softmax } },
};
