// SPDX-License-Identifier: MIT
/* Queries and packed INT8 keys: QK_I8. */
#include <errno.h>

#include "op.h"

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
