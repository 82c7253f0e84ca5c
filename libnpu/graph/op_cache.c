// SPDX-License-Identifier: MIT
/* A context's cache: COPY and STORE write it, ATTN, ATTN_MASK and ATTN_AT read it. */
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

/* ---- ATTN, ATTN_MASK, ATTN_AT ---- */

static bool attn_fits(struct npu_graph *g, const char *name, const struct graph_op *op)
{
	const struct npu_tensor *q = op->in[0], *k = op->in[1];

	if (!op->heads || !op->kv_heads || op->heads % op->kv_heads || q->cols % op->heads ||
	    q->cols / op->heads > VNPU_MAX_HEAD_DIM || q->rows > k->rows) {
		graph_fail(g, -EINVAL, "%s: q %u x %u in %u heads, %u KV heads, cache of %u rows",
			   name, q->rows, q->cols, op->heads, op->kv_heads, k->rows);
		return false;
	}
	if (k->dtype == NPU_Q8_0 && q->cols / op->heads % VNPU_Q8_0_VALUES) {
		graph_fail(g, -EINVAL,
			   "%s: heads of %u values, with a cache of q8_0 a multiple of %d", name,
			   q->cols / op->heads, VNPU_Q8_0_VALUES);
		return false;
	}
	return true;
}

/* Appends @op, whose operands, param and value are to be checked; the operands: q, k, v. */
static struct npu_tensor *graph_attn(struct npu_graph *g, const char *name, struct graph_op op)
{
	struct npu_tensor *q = op.in[0], *k = op.in[1], *v = op.in[2];
	uint32_t kv_cols;

	if (!graph_operand(g, name, q, NPU_F32) || !graph_cache(g, name, k) ||
	    !graph_operand(g, name, v, k->dtype) || !graph_param_ok(g, name, op.param, true) ||
	    !graph_finite(g, name, op.value) || !attn_fits(g, name, &op))
		return NULL;
	kv_cols = q->cols / op.heads * op.kv_heads;
	if (!graph_shape(g, name, k, k->rows, kv_cols) ||
	    !graph_shape(g, name, v, k->rows, kv_cols))
		return NULL;
	return graph_simple(g, op, q->rows, q->cols);
}

struct npu_tensor *npu_attn(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k,
			    struct npu_tensor *v, uint32_t heads, uint32_t kv_heads, float scale,
			    int pos)
{
	struct graph_op op = {
		.op = VNPU_OP_ATTN,
		.in = { q, k, v },
		.heads = heads,
		.kv_heads = kv_heads,
		.value = scale,
		.param = pos,
	};

	return graph_attn(g, "attn", op);
}

static bool attn_cap_ok(struct npu_graph *g, const char *name, float cap)
{
	if (!graph_finite(g, name, cap))
		return false;
	if (cap < 0) {
		graph_fail(g, -EINVAL, "%s: cap %g is negative", name, (double)cap);
		return false;
	}
	return true;
}

static bool attn_options_ok(struct npu_graph *g, const struct npu_attn_options *o, uint32_t rows)
{
	if (!attn_cap_ok(g, "attn_mask", o->cap))
		return false;
	if (o->mask && (!graph_operand(g, "attn_mask", o->mask, NPU_U64) ||
			!graph_shape(g, "attn_mask", o->mask, rows, 1)))
		return false;
	if (o->mask && rows > VNPU_MASK_ROWS) {
		graph_fail(g, -EINVAL, "attn_mask: %u rows, with a mask at most %d", rows,
			   VNPU_MASK_ROWS);
		return false;
	}
	return true;
}

struct npu_tensor *npu_attn_mask(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k,
				 struct npu_tensor *v, uint32_t heads, uint32_t kv_heads,
				 float scale, int pos, const struct npu_attn_options *options)
{
	const struct npu_attn_options *o = options ? options : &(struct npu_attn_options){ 0 };
	struct graph_op op = {
		.op = VNPU_OP_ATTN_MASK,
		.in = { q, k, v, o->mask },
		.heads = heads,
		.kv_heads = kv_heads,
		.value = scale,
		.param = pos,
		.window = o->window,
		.cap = o->cap,
	};

	if (!graph_member(g, "attn_mask", q) || !attn_options_ok(g, o, q->rows))
		return NULL;
	if (o->mask && heads && q->cols / heads > VNPU_MASK_HEAD_DIM) {
		graph_fail(g, -EINVAL, "attn_mask: heads of %u values, with a mask at most %d",
			   q->cols / heads, VNPU_MASK_HEAD_DIM);
		return NULL;
	}
	if (!o->mask && !o->window && o->cap == 0)
		op.op = VNPU_OP_ATTN;
	return graph_attn(g, "attn_mask", op);
}

static bool attn_positions_ok(struct npu_graph *g, const struct npu_attn_positions *at,
			      const struct npu_tensor *q, const struct npu_tensor *k)
{
	if (!attn_cap_ok(g, "attn_at", at->cap) ||
	    !graph_operand(g, "attn_at", at->positions, NPU_U32) ||
	    !graph_shape(g, "attn_at", at->positions, q->rows, 1) || !graph_cache(g, "attn_at", k))
		return false;
	if (!at->span || at->span > k->rows) {
		graph_fail(g, -EINVAL, "attn_at: a span of %u in a cache of %u rows", at->span,
			   k->rows);
		return false;
	}
	return true;
}

struct npu_tensor *npu_attn_at(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k,
			       struct npu_tensor *v, uint32_t heads, uint32_t kv_heads, float scale,
			       int pos, const struct npu_attn_positions *at)
{
	struct graph_op op = {
		.op = VNPU_OP_ATTN_AT,
		.in = { q, k, v, at->positions },
		.heads = heads,
		.kv_heads = kv_heads,
		.value = scale,
		.param = pos,
		.window = at->window,
		.cap = at->cap,
		.span = at->span,
	};

	if (!graph_member(g, "attn_at", q) || !attn_positions_ok(g, at, q, k))
		return NULL;
	return graph_attn(g, "attn_at", op);
}

/* Of the cache's last rows: each attends to all but those after it, or to a window of them. */
static uint64_t seen_rows(uint64_t rows, uint64_t ctx_rows, uint32_t window)
{
	uint64_t first = ctx_rows - rows + 1, seen = rows * (first + ctx_rows) / 2, r;

	for (r = 0; window && r < rows; r++)
		seen -= first + r > window ? first + r - window : 0;
	return seen;
}

static void lower_attn(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_attn *c = cmd;
	const struct npu_tensor *q = op->in[0], *k = op->in[1], *v = op->in[2], *y = op->out[0];
	uint32_t span = op->span ? op->span : q->rows;

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
	o->macs += 2 * seen_rows(span, k->rows, op->window) * q->rows / span * q->cols;
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

static void lower_attn_mask(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_attn_mask *c = cmd;

	c->window = op->window;
	c->cap = op->cap;
	lower_attn(o, &c->attn, op);
}

/* "-" stands for no mask. */
static void text_attn_mask(struct graph_text *t, struct npu_tensor *out[])
{
	struct npu_attn_options options = { .mask = text_dash(t, 3) ? NULL : text_tensor(t, 3),
					    .window = text_integer(t, 8, UINT32_MAX),
					    .cap = text_number(t, 9) };

	out[0] = npu_attn_mask(text_graph(t), text_tensor(t, 0), text_tensor(t, 1),
			       text_tensor(t, 2), text_integer(t, 4, UINT32_MAX),
			       text_integer(t, 5, UINT32_MAX), text_number(t, 6), text_param(t, 7),
			       &options);
}

const struct npu_op npu_op_attn_mask = {
	.lower = lower_attn_mask,
	.texts = { { "Y = attn_mask Q K V MASK|- HEADS KV_HEADS SCALE P WINDOW CAP",
		     "of rows P + j row r sees those of bits j of MASK[r]; 0: no window, no cap",
		     text_attn_mask } },
};

static void lower_attn_at(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_attn_at *c = cmd;

	c->window = op->window;
	c->cap = op->cap;
	c->span = op->span;
	lower_attn(o, &c->attn, op);
}

static void text_attn_at(struct graph_text *t, struct npu_tensor *out[])
{
	struct npu_attn_positions at = { .positions = text_tensor(t, 3),
					 .span = text_integer(t, 8, UINT32_MAX),
					 .window = text_integer(t, 9, UINT32_MAX),
					 .cap = text_number(t, 10) };

	out[0] = npu_attn_at(text_graph(t), text_tensor(t, 0), text_tensor(t, 1), text_tensor(t, 2),
			     text_integer(t, 4, UINT32_MAX), text_integer(t, 5, UINT32_MAX),
			     text_number(t, 6), text_param(t, 7), &at);
}

const struct npu_op npu_op_attn_at = {
	.lower = lower_attn_at,
	.texts = { { "Y = attn_at Q K V POSITIONS HEADS KV_HEADS SCALE P SPAN WINDOW CAP",
		     "row r is at P + POSITIONS[r], below P + SPAN; 0: no window, no cap",
		     text_attn_at } },
};
