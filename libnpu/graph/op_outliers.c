// SPDX-License-Identifier: MIT
/*
 * INT8 rows with float outliers, and adding their contribution: QUANT_OUTLIERS, ADD_OUTLIERS,
 * ADD_OUTLIERS_WK.
 */
#include <errno.h>

#include "op.h"

/* Columns of the tensor with a struct vnpu_outliers in each row. */
#define OUTLIERS_COLS ((uint32_t)(sizeof(struct vnpu_outliers) / sizeof(float)))

/* ---- QUANT_OUTLIERS ---- */

struct npu_tensor *npu_quant_outliers(struct npu_graph *g, struct npu_tensor *x,
				      struct npu_tensor **scale, struct npu_tensor **outliers)
{
	struct graph_op op = { .op = VNPU_OP_QUANT_OUTLIERS, .in = { x }, .param = NPU_NO_PARAM };

	if (scale)
		*scale = NULL;
	if (outliers)
		*outliers = NULL;
	if (!graph_operand(g, "quant_outliers", x, NPU_F32))
		return NULL;
	if (!scale || !outliers) {
		graph_fail(g, -EINVAL, "quant_outliers: no pointer for the %s",
			   scale ? "outliers" : "scales");
		return NULL;
	}
	if (x->cols > VNPU_MAX_K_I8) {
		graph_fail(g, -EINVAL, "quant_outliers: rows of %u exceed %u", x->cols,
			   VNPU_MAX_K_I8);
		return NULL;
	}
	op.out[0] = graph_result(g, NPU_S8, x->rows, x->cols);
	op.out[1] = graph_result(g, NPU_F32, x->rows, 1);
	op.out[2] = graph_result(g, NPU_F32, x->rows, OUTLIERS_COLS);
	if (!op.out[0] || !op.out[1] || !op.out[2] || !graph_append(g, &op))
		return NULL;
	*scale = op.out[1];
	*outliers = op.out[2];
	return op.out[0];
}

static void lower_quant_outliers(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_quant_outliers *c = cmd;
	const struct npu_tensor *x = op->in[0];

	c->rows = x->rows;
	c->cols = x->cols;
	c->ldx = x->ld;
	c->ldq = op->out[0]->ld;
	lower_operands(o, c, op);
}

static void text_quant_outliers(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_quant_outliers(text_graph(t), text_tensor(t, 0), &out[1], &out[2]);
}

const struct npu_op npu_op_quant_outliers = {
	.lower = lower_quant_outliers,
	.dense_out = 1 << 1 | 1 << 2,
	.texts = { { "Q, SCALE, OUTLIERS = quant_outliers X",
		     "INT8 rows, and a list of what they leave", text_quant_outliers } },
};

/* ---- ADD_OUTLIERS, ADD_OUTLIERS_WK ---- */

struct npu_tensor *npu_add_outliers(struct npu_graph *g, struct npu_tensor *x,
				    struct npu_tensor *outliers, struct npu_tensor *w)
{
	if (!graph_operand(g, "add_outliers", x, NPU_F32) ||
	    !graph_operand(g, "add_outliers", outliers, NPU_F32) ||
	    !graph_member(g, "add_outliers", w))
		return NULL;
	if (w->dtype != NPU_W4_PANEL && w->dtype != NPU_KQ_PANEL && w->dtype != NPU_WK_PANEL &&
	    !graph_operand(g, "add_outliers", w, NPU_W8_PANEL))
		return NULL;
	if (!graph_shape(g, "add_outliers", outliers, x->rows, OUTLIERS_COLS) ||
	    !graph_shape(g, "add_outliers", w, x->cols, w->cols))
		return NULL;
	return graph_simple(g,
			    (struct graph_op){ .op = w->dtype == NPU_WK_PANEL
							     ? VNPU_OP_ADD_OUTLIERS_WK
							     : VNPU_OP_ADD_OUTLIERS,
					       .in = { x, outliers, w },
					       .param = NPU_NO_PARAM },
			    x->rows, x->cols);
}

/*
 * Lowers the fields that both have in common; the command is written as an ADD_OUTLIERS. Counts the
 * most outliers possible, each with a column of weights, but each weight once.
 */
static void lower_adding(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_add_outliers *c = cmd;
	const struct npu_tensor *x = op->in[0], *outliers = op->in[1], *w = op->in[2],
				*y = op->out[0];
	uint64_t columns;

	c->m = x->rows;
	c->n = w->rows;
	c->k = w->cols;
	c->ldx = x->ld;
	c->ldy = y->ld;
	lower_refs(o, c, op);
	columns = (uint64_t)c->m * VNPU_OUTLIERS;
	o->macs += columns * c->n;
	o->bytes_moved += x->bytes + outliers->bytes +
			  w->bytes * (columns < c->k ? columns : c->k) / c->k + y->bytes;
}

static void lower_add_outliers(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	const struct npu_tensor *w = op->in[2];
	struct vnpu_cmd_add_outliers *c = cmd;

	lower_adding(o, cmd, op);
	c->group = w->group;
	if (w->dtype == NPU_KQ_PANEL) {
		c->group += VNPU_OUTLIERS_KQ;
		lower_needs(o, vnpu_kq_minor(w->group));
	}
}

static void lower_add_outliers_wk(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_add_outliers_wk *c = cmd;

	lower_adding(o, cmd, op);
	c->w_bytes = op->in[2]->bytes;
}

static void text_add_outliers(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_add_outliers(text_graph(t), text_tensor(t, 0), text_tensor(t, 1),
				  text_tensor(t, 2));
}

const struct npu_op npu_op_add_outliers = {
	.lower = lower_add_outliers,
	.in_place = 1 << 0,
	.dense_in = 1 << 1,
	.texts = { { "Y = add_outliers X OUTLIERS W", "X, a matmul with W, plus the outliers' part",
		     text_add_outliers } },
};

_Static_assert(offsetof(struct vnpu_cmd_add_outliers_wk, ldy) ==
		       offsetof(struct vnpu_cmd_add_outliers, ldy),
	       "they differ in what follows ldy");

const struct npu_op npu_op_add_outliers_wk = {
	.lower = lower_add_outliers_wk,
	.in_place = 1 << 0,
	.dense_in = 1 << 1,
};
