// SPDX-License-Identifier: MIT
/* Queries, packed INT8 keys and values: QK_I8, ATTN_I8. */
#include <errno.h>

#include "op.h"

/* ---- QK_I8 ---- */

struct npu_tensor *npu_qk_i8(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k,
			     uint32_t shift, int pos)
{
	struct graph_op op = { .op = VNPU_OP_QK_I8, .in = { q, k }, .kind = shift, .param = pos };

	if (!graph_operand(g, "qk_i8", q, NPU_S8) || !graph_operand(g, "qk_i8", k, NPU_K8_PANEL) ||
	    !graph_shape(g, "qk_i8", k, k->rows, q->cols) || !graph_param_ok(g, "qk_i8", pos, true))
		return NULL;
	if (q->rows > k->rows || shift > VNPU_QK_MAX_SHIFT) {
		graph_fail(g, -EINVAL, "qk_i8: %u queries, %u positions, shift %u of at most %u",
			   q->rows, k->rows, shift, VNPU_QK_MAX_SHIFT);
		return NULL;
	}
	op.out[0] = graph_result(g, NPU_S16, q->rows, k->rows);
	return op.out[0] && graph_append(g, &op) ? op.out[0] : NULL;
}

/* Counted for the last positions, of which all panels are seen. */
static void lower_qk_i8(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_qk_i8 *c = cmd;
	const struct npu_tensor *q = op->in[0], *k = op->in[1], *scores = op->out[0];

	c->rows = q->rows;
	c->head_dim = q->cols;
	c->ctx_rows = k->rows;
	c->ldq = q->ld;
	c->lds = scores->ld;
	c->pos_param = lower_param(op->param);
	c->shift = op->kind;
	lower_operands(o, c, op);
	o->macs += (uint64_t)q->rows * k->rows * q->cols;
}

static void text_qk_i8(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_qk_i8(text_graph(t), text_tensor(t, 0), text_tensor(t, 1),
			   (uint32_t)text_integer(t, 2, UINT32_MAX), text_param(t, 3));
}

const struct npu_op npu_op_qk_i8 = {
	.lower = lower_qk_i8,
	.texts = { { "Y = qk_i8 Q K SHIFT P",
		     "s16 scores of INT8 queries Q and packed keys K, shifted right; row r is at P "
		     "+ r",
		     text_qk_i8 } },
};

/* ---- ATTN_I8 ---- */

static bool attn_i8_fits(struct npu_graph *g, const struct npu_tensor *q,
			 const struct npu_tensor *k, uint32_t heads, float scale)
{
	if (!heads || q->cols != (uint64_t)heads * k->cols || q->rows > k->rows ||
	    k->rows > VNPU_MAX_K_I8) {
		graph_fail(g, -EINVAL, "attn_i8: q %u x %u in %u heads, keys %u x %u", q->rows,
			   q->cols, heads, k->rows, k->cols);
		return false;
	}
	if (!graph_finite(g, "attn_i8", scale))
		return false;
	if (scale > 0)
		return true;
	graph_fail(g, -EINVAL, "attn_i8: scale %g is not above 0", (double)scale);
	return false;
}

struct npu_tensor *npu_attn_i8(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k,
			       struct npu_tensor *v, struct npu_tensor *scales, uint32_t heads,
			       float scale, int pos)
{
	if (!graph_operand(g, "attn_i8", q, NPU_F32) ||
	    !graph_operand(g, "attn_i8", k, NPU_K8_PANEL) ||
	    !graph_operand(g, "attn_i8", v, NPU_V8_PANEL) ||
	    !graph_operand(g, "attn_i8", scales, NPU_F32) ||
	    !graph_shape(g, "attn_i8", v, k->rows, k->cols) ||
	    !graph_shape(g, "attn_i8", scales, 1, 3) || !graph_param_ok(g, "attn_i8", pos, true) ||
	    !attn_i8_fits(g, q, k, heads, scale))
		return NULL;
	return graph_simple(g,
			    (struct graph_op){
				    .op = VNPU_OP_ATTN_I8,
				    .in = { q, k, v, scales },
				    .heads = heads,
				    .value = scale,
				    .param = pos,
			    },
			    q->rows, q->cols);
}

/* Counted for the last rows, as ATTN. */
static void lower_attn_i8(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_attn_i8 *c = cmd;
	const struct npu_tensor *q = op->in[0], *k = op->in[1];
	uint64_t seen;

	c->rows = q->rows;
	c->heads = op->heads;
	c->head_dim = k->cols;
	c->ctx_rows = k->rows;
	c->ldq = q->ld;
	c->ldy = op->out[0]->ld;
	c->pos_param = lower_param(op->param);
	c->scale = op->value;
	lower_operands(o, c, op);
	seen = (uint64_t)q->rows * (k->rows - q->rows) + (uint64_t)q->rows * (q->rows + 1) / 2;
	o->macs += 2 * seen * q->cols;
}

static void text_attn_i8(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_attn_i8(text_graph(t), text_tensor(t, 0), text_tensor(t, 1), text_tensor(t, 2),
			     text_tensor(t, 3), (uint32_t)text_integer(t, 4, UINT32_MAX),
			     text_number(t, 5), text_param(t, 6));
}

const struct npu_op npu_op_attn_i8 = {
	.lower = lower_attn_i8,
	.texts = { { "Y = attn_i8 Q K V S HEADS SCALE P",
		     "INT8 attention of a KV head's queries Q, with the scales S of Q, K and V",
		     text_attn_i8 } },
};
