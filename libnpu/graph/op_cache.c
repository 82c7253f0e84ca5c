// SPDX-License-Identifier: MIT
/* A context's cache: COPY and STORE write it, ATTN reads it. */
#include <errno.h>

#include "op.h"

static enum vnpu_kv_type lower_kv_type(const struct npu_tensor *cache)
{
	return cache->dtype == NPU_F16	  ? VNPU_KV_F16
	       : cache->dtype == NPU_Q8_0 ? VNPU_KV_Q8_0
					  : VNPU_KV_F32;
}

/* ---- COPY, STORE ---- */

int npu_store_rows(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *state, int row)
{
	struct graph_op op = { .op = VNPU_OP_COPY, .in = { x }, .state = state, .param = row };

	if (!graph_operand(g, "store", x, NPU_F32) || !graph_cache(g, "store", state) ||
	    !graph_param_ok(g, "store", row, true))
		return -EINVAL;
	if (state->kind != TENSOR_STATE || x == state)
		return graph_fail(g, -EINVAL, "store: '%s' is %s", tensor_name(state),
				  x == state ? "both what is stored and where" : "no state");
	if (x->cols != state->cols || x->rows > state->rows)
		return graph_fail(g, -EINVAL, "store: %u x %u does not fit into '%s' of %u x %u",
				  x->rows, x->cols, tensor_name(state), state->rows, state->cols);
	if (state->dtype != NPU_F32)
		op.op = VNPU_OP_STORE;
	return graph_append(g, &op) ? 0 : -ENOMEM;
}

static void lower_copy(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_copy *c = cmd;
	const struct npu_tensor *x = op->in[0];

	c->rows = x->rows;
	c->row_bytes = x->cols * 4;
	c->src_stride_bytes = x->ld * 4ull;
	c->dst_stride_bytes = op->state->ld * 4ull;
	c->dst_row_param = lower_param(op->param);
	lower_refs(o, c, op);
	o->bytes_moved += 2 * x->bytes;
}

static void text_store(struct graph_text *t, struct npu_tensor *out[])
{
	npu_store_rows(text_graph(t), text_tensor(t, 0), text_tensor(t, 1), text_param(t, 2));
}

const struct npu_op npu_op_copy = {
	.lower = lower_copy,
	.texts = { { "store X S P", "rows of X to rows P.. of state S, converted to its type",
		     text_store } },
};

static void lower_store(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_store *c = cmd;
	const struct npu_tensor *x = op->in[0];

	c->rows = x->rows;
	c->cols = x->cols;
	c->ldx = x->ld;
	c->ld_dst = op->state->ld;
	c->row_param = lower_param(op->param);
	c->type = lower_kv_type(op->state);
	lower_refs(o, c, op);
	o->bytes_moved += x->bytes + op->state->bytes / op->state->rows * x->rows;
}

const struct npu_op npu_op_store = {
	.lower = lower_store,
};

/* ---- ATTN ---- */

struct npu_tensor *npu_attn(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k,
			    struct npu_tensor *v, uint32_t heads, uint32_t kv_heads, float scale,
			    int pos)
{
	if (!graph_operand(g, "attn", q, NPU_F32) || !graph_cache(g, "attn", k) ||
	    !graph_operand(g, "attn", v, k->dtype) || !graph_param_ok(g, "attn", pos, true) ||
	    !graph_finite(g, "attn", scale))
		return NULL;
	if (!heads || !kv_heads || heads % kv_heads || q->cols % heads ||
	    q->cols / heads > VNPU_MAX_HEAD_DIM || q->rows > k->rows) {
		graph_fail(g, -EINVAL, "attn: q %u x %u in %u heads, %u KV heads, cache of %u rows",
			   q->rows, q->cols, heads, kv_heads, k->rows);
		return NULL;
	}
	if (k->dtype == NPU_Q8_0 && q->cols / heads % VNPU_Q8_0_VALUES) {
		graph_fail(g, -EINVAL,
			   "attn: heads of %u values, with a cache of q8_0 a multiple of %d",
			   q->cols / heads, VNPU_Q8_0_VALUES);
		return NULL;
	}
	if (!graph_shape(g, "attn", k, k->rows, q->cols / heads * kv_heads) ||
	    !graph_shape(g, "attn", v, k->rows, q->cols / heads * kv_heads))
		return NULL;
	return graph_simple(g,
			    (struct graph_op){
				    .op = VNPU_OP_ATTN,
				    .in = { q, k, v },
				    .heads = heads,
				    .kv_heads = kv_heads,
				    .value = scale,
				    .param = pos,
			    },
			    q->rows, q->cols);
}

/* Counted for the last rows of the cache: each attends to all but those after it. */
static void lower_attn(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_attn *c = cmd;
	const struct npu_tensor *q = op->in[0], *k = op->in[1], *v = op->in[2], *y = op->out[0];
	uint64_t seen;

	c->rows = q->rows;
	c->heads = op->heads;
	c->kv_heads = op->kv_heads;
	c->head_dim = q->cols / op->heads;
	c->ctx_rows = k->rows;
	c->ldq = q->ld;
	c->ldk = k->ld;
	c->ldv = v->ld;
	c->ldy = y->ld;
	c->pos_param = lower_param(op->param);
	c->scale = op->value;
	c->kv_type = lower_kv_type(k);
	if (c->kv_type != VNPU_KV_F32)
		lower_needs(o, 2);
	lower_operands(o, c, op);
	seen = (uint64_t)q->rows * (k->rows - q->rows) + (uint64_t)q->rows * (q->rows + 1) / 2;
	o->macs += 2 * seen * q->cols;
}

static void text_attn(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_attn(text_graph(t), text_tensor(t, 0), text_tensor(t, 1), text_tensor(t, 2),
			  text_integer(t, 3, UINT32_MAX), text_integer(t, 4, UINT32_MAX),
			  text_number(t, 5), text_param(t, 6));
}

const struct npu_op npu_op_attn = {
	.lower = lower_attn,
	.texts = { { "Y = attn Q K V HEADS KV_HEADS SCALE P",
		     "over states K and V; row r is at P + r", text_attn } },
};
