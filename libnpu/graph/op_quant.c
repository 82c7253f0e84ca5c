// SPDX-License-Identifier: MIT
/* Floats to integers and back: QUANT, QUANT16, QUANT_STATIC, DEQUANT. */
#include <errno.h>

#include "op.h"

/* ---- QUANT, QUANT16 ---- */

/* Quantises op->in[0] to @planes of INT8. */
static struct npu_tensor *graph_quant(struct npu_graph *g, struct graph_op op, const char *name,
				      uint32_t planes, struct npu_tensor **scale)
{
	const struct npu_tensor *x = op.in[0];

	if (scale)
		*scale = NULL;
	if (!graph_operand(g, name, x, NPU_F32))
		return NULL;
	if (!scale) {
		graph_fail(g, -EINVAL, "%s: no pointer for the scales", name);
		return NULL;
	}
	op.param = NPU_NO_PARAM;
	op.out[0] = graph_result(g, NPU_S8, x->rows * planes, x->cols);
	op.out[1] = graph_result(g, NPU_F32, x->rows * planes, 1);
	if (!op.out[0] || !op.out[1] || !graph_append(g, &op))
		return NULL;
	*scale = op.out[1];
	return op.out[0];
}

struct npu_tensor *npu_quant(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor **scale)
{
	return graph_quant(g, (struct graph_op){ .op = VNPU_OP_QUANT, .in = { x } }, "quant", 1,
			   scale);
}

struct npu_tensor *npu_quant16(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor **scale)
{
	if (x && (x->rows > VNPU_MAX_DIM / 2 || x->cols > VNPU_MAX_K_I8)) {
		graph_fail(g, -EINVAL, "quant16: %u x %u exceeds %u x %u", x->rows, x->cols,
			   VNPU_MAX_DIM / 2, VNPU_MAX_K_I8);
		return NULL;
	}
	return graph_quant(g, (struct graph_op){ .op = VNPU_OP_QUANT16, .in = { x } }, "quant16", 2,
			   scale);
}

static void lower_quant(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_quant *c = cmd;
	const struct npu_tensor *x = op->in[0];

	c->rows = x->rows;
	c->cols = x->cols;
	c->ldx = x->ld;
	c->ldq = op->out[0]->ld;
	lower_operands(o, c, op);
}

static void text_quant(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_quant(text_graph(t), text_tensor(t, 0), &out[1]);
}

const struct npu_op npu_op_quant = {
	.lower = lower_quant,
	.dense_out = 1 << 1,
	.texts = { { "Q, SCALE = quant X", "INT8 with a scale for each row", text_quant } },
};

static void text_quant16(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_quant16(text_graph(t), text_tensor(t, 0), &out[1]);
}

const struct npu_op npu_op_quant16 = {
	.lower = lower_quant,
	.dense_out = 1 << 1,
	.texts = { { "Q, SCALE = quant16 X",
		     "nearly 16 bits, in two planes of INT8: twice the rows", text_quant16 } },
};

/* ---- QUANT_STATIC ---- */

struct npu_tensor *npu_quant_static(struct npu_graph *g, struct npu_tensor *x,
				    struct npu_tensor *static_scale, struct npu_tensor **scale)
{
	struct graph_op op = { .op = VNPU_OP_QUANT_STATIC, .in = { x, static_scale } };

	if (scale)
		*scale = NULL;
	if (!graph_operand(g, "quant_static", static_scale, NPU_F32) ||
	    !graph_shape(g, "quant_static", static_scale, 1, 1))
		return NULL;
	return graph_quant(g, op, "quant_static", 1, scale);
}

static void lower_quant_static(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_quant_static *c = cmd;
	const struct npu_tensor *x = op->in[0];

	c->rows = x->rows;
	c->cols = x->cols;
	c->ldx = x->ld;
	c->ldq = op->out[0]->ld;
	lower_operands(o, c, op);
}

static void text_quant_static(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_quant_static(text_graph(t), text_tensor(t, 0), text_tensor(t, 1), &out[1]);
}

const struct npu_op npu_op_quant_static = {
	.lower = lower_quant_static,
	.dense_out = 1 << 1,
	.texts = { { "Q, SCALE = quant_static X S",
		     "INT8 with the scale S for all rows; larger values are clamped",
		     text_quant_static } },
};

/* ---- DEQUANT ---- */

struct npu_tensor *npu_dequant(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *scale)
{
	if (!graph_operand(g, "dequant", q, NPU_S8) || !graph_operand(g, "dequant", scale, NPU_F32))
		return NULL;
	if (!graph_shape(g, "dequant", scale, q->rows, 1))
		return NULL;
	return graph_simple(g,
			    (struct graph_op){ .op = VNPU_OP_DEQUANT,
					       .in = { q, scale },
					       .param = NPU_NO_PARAM },
			    q->rows, q->cols);
}

static void lower_dequant(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_dequant *c = cmd;
	const struct npu_tensor *q = op->in[0];

	c->rows = q->rows;
	c->cols = q->cols;
	c->ldq = q->ld;
	c->ldy = op->out[0]->ld;
	lower_operands(o, c, op);
}

static void text_dequant(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_dequant(text_graph(t), text_tensor(t, 0), text_tensor(t, 1));
}

const struct npu_op npu_op_dequant = {
	.lower = lower_dequant,
	.dense_in = 1 << 1,
	.texts = { { "Y = dequant Q SCALE", "Q times SCALE", text_dequant } },
};
