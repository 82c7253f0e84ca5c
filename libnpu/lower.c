// SPDX-License-Identifier: MIT
/*
 * Lowering: operators to commands, with the tiles of matmuls, and the cost of one run.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* ---- emitting ---- */

static void *lower_cmd(struct lower_out *o, enum vnpu_op op)
{
	uint32_t bytes = npu_cmd_bytes(op);
	struct vnpu_cmd *cmd;
	uint8_t *grown;

	if (o->err)
		return NULL;
	if (o->bytes + bytes > VNPU_MAX_STREAM_BYTES) {
		o->err = -E2BIG;
		return NULL;
	}
	if (o->bytes + bytes > o->cap) {
		grown = realloc(o->cmd, o->cap * 2 + 4096);
		if (!grown) {
			o->err = -ENOMEM;
			return NULL;
		}
		o->cmd = grown;
		o->cap = o->cap * 2 + 4096;
	}
	cmd = memset(o->cmd + o->bytes, 0, bytes);
	cmd->op = op;
	cmd->size_bytes = bytes;
	o->bytes += bytes;
	o->nr_cmds++;
	return cmd;
}

static void lower_ref(struct lower_out *o, struct vnpu_ref *ref, const struct npu_tensor *t)
{
	struct npu_image_reloc *grown;

	if (!t) {
		ref->slot = VNPU_SLOT_NONE;
		return;
	}
	if (o->nr_relocs == o->cap_relocs) {
		grown = realloc(o->relocs, (o->cap_relocs * 2 + 64) * sizeof(*grown));
		if (!grown) {
			o->err = -ENOMEM;
			return;
		}
		o->relocs = grown;
		o->cap_relocs = o->cap_relocs * 2 + 64;
	}
	o->relocs[o->nr_relocs++] = (struct npu_image_reloc){
		.offset = (uint32_t)((uint8_t *)ref - o->cmd),
		.slot = t->slot,
		.addend = t->offset,
	};
}

static uint32_t lower_param(int param)
{
	return param == NPU_NO_PARAM ? VNPU_PARAM_NONE : (uint32_t)param;
}

/* ---- tiles ---- */

/* What a worker takes at a time should stay in its second-level cache: half for rows of A, half for panels of W. */
#define TILE_BYTES (256u << 10)
/* Fewer tiles than this leave workers idle at the end. */
#define TILE_MIN_COUNT 32u
/* Rows of the register tile of the fastest engine. */
#define TILE_M_STEP 6u

static uint32_t div_up(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

static void lower_tiles(struct vnpu_cmd_matmul_i8 *c)
{
	uint32_t panels = div_up(c->n, VNPU_PANEL_N), rows = TILE_BYTES / c->k / TILE_M_STEP * TILE_M_STEP;
	uint32_t per_tile = TILE_BYTES / (c->k * VNPU_PANEL_N);

	if (rows < TILE_M_STEP)
		rows = TILE_M_STEP;
	c->tile_m = c->m < rows ? c->m : rows;
	if (!per_tile)
		per_tile = 1;
	if (per_tile > panels)
		per_tile = panels;
	/* Columns first: a panel is then read by one worker only. */
	while (per_tile > 1 && div_up(panels, per_tile) * div_up(c->m, c->tile_m) < TILE_MIN_COUNT)
		per_tile = div_up(per_tile, 2);
	while (c->tile_m > 4 * TILE_M_STEP && div_up(panels, per_tile) * div_up(c->m, c->tile_m) < TILE_MIN_COUNT)
		c->tile_m = div_up(c->tile_m, 2 * TILE_M_STEP) * TILE_M_STEP;
	c->tile_n = per_tile * VNPU_PANEL_N;
}

/* ---- operators ---- */

static void lower_copy(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_copy *c = lower_cmd(o, VNPU_OP_COPY);
	const struct npu_tensor *x = op->in[0];

	if (!c)
		return;
	c->rows = x->rows;
	c->row_bytes = x->cols * 4;
	c->src_stride_bytes = x->ld * 4ull;
	c->dst_stride_bytes = op->state->ld * 4ull;
	c->dst_row_param = lower_param(op->param);
	lower_ref(o, &c->src, x);
	lower_ref(o, &c->dst, op->state);
	o->bytes_moved += 2 * x->bytes;
}

static void lower_binary(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_binary *c = lower_cmd(o, op->op);
	const struct npu_tensor *a = op->in[0], *b = op->in[1], *y = op->out[0];

	if (!c)
		return;
	c->rows = a->rows;
	c->cols = a->cols;
	c->lda = a->ld;
	c->ldb = b->rows == 1 && a->rows > 1 ? 0 : b->ld;
	c->ldy = y->ld;
	lower_ref(o, &c->a, a);
	lower_ref(o, &c->b, b);
	lower_ref(o, &c->y, y);
	o->bytes_moved += a->bytes + b->bytes + y->bytes;
}

static void lower_act(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_act *c = lower_cmd(o, VNPU_OP_ACT);
	const struct npu_tensor *x = op->in[0], *y = op->out[0];

	if (!c)
		return;
	c->rows = x->rows;
	c->cols = x->cols;
	c->ldx = x->ld;
	c->ldy = y->ld;
	c->kind = op->kind;
	lower_ref(o, &c->x, x);
	lower_ref(o, &c->y, y);
	o->bytes_moved += x->bytes + y->bytes;
}

/* Rows are dense, so that groups within rows are rows of a narrower matrix. */
static void lower_rmsnorm(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_rmsnorm *c = lower_cmd(o, VNPU_OP_RMSNORM);
	const struct npu_tensor *x = op->in[0], *w = op->in[1], *y = op->out[0];

	if (!c)
		return;
	c->rows = x->rows * (x->cols / w->cols);
	c->cols = w->cols;
	c->ldx = c->ldy = w->cols;
	c->eps = op->value;
	lower_ref(o, &c->x, x);
	lower_ref(o, &c->w, w);
	lower_ref(o, &c->y, y);
	o->bytes_moved += x->bytes + w->bytes + y->bytes;
}

static void lower_rope(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_rope *c = lower_cmd(o, VNPU_OP_ROPE);
	const struct npu_tensor *x = op->in[0], *f = op->in[1], *y = op->out[0];

	if (!c)
		return;
	c->rows = x->rows;
	c->heads = op->heads;
	c->head_dim = x->cols / op->heads;
	c->rot_dim = f->cols * 2;
	c->ldx = x->ld;
	c->ldy = y->ld;
	c->pos_param = lower_param(op->param);
	c->mode = op->kind;
	lower_ref(o, &c->x, x);
	lower_ref(o, &c->inv_freq, f);
	lower_ref(o, &c->y, y);
	o->bytes_moved += x->bytes + f->bytes + y->bytes;
}

static void lower_softmax(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_softmax *c = lower_cmd(o, VNPU_OP_SOFTMAX);
	const struct npu_tensor *x = op->in[0], *y = op->out[0];

	if (!c)
		return;
	c->rows = x->rows;
	c->cols = x->cols;
	c->ldx = x->ld;
	c->ldy = y->ld;
	c->scale = op->value;
	c->limit_param = lower_param(op->param);
	lower_ref(o, &c->x, x);
	lower_ref(o, &c->y, y);
	o->bytes_moved += x->bytes + y->bytes;
}

static void lower_quant(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_quant *c = lower_cmd(o, VNPU_OP_QUANT);
	const struct npu_tensor *x = op->in[0], *q = op->out[0], *scale = op->out[1];

	if (!c)
		return;
	c->rows = x->rows;
	c->cols = x->cols;
	c->ldx = x->ld;
	c->ldq = q->ld;
	lower_ref(o, &c->x, x);
	lower_ref(o, &c->q, q);
	lower_ref(o, &c->scale, scale);
	o->bytes_moved += x->bytes + q->bytes + scale->bytes;
}

static void lower_dequant(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_dequant *c = lower_cmd(o, VNPU_OP_DEQUANT);
	const struct npu_tensor *q = op->in[0], *scale = op->in[1], *y = op->out[0];

	if (!c)
		return;
	c->rows = q->rows;
	c->cols = q->cols;
	c->ldq = q->ld;
	c->ldy = y->ld;
	lower_ref(o, &c->q, q);
	lower_ref(o, &c->scale, scale);
	lower_ref(o, &c->y, y);
	o->bytes_moved += q->bytes + scale->bytes + y->bytes;
}

static void lower_matmul(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_matmul_i8 *c = lower_cmd(o, VNPU_OP_MATMUL_I8);
	const struct npu_tensor *q = op->in[0], *scale = op->in[1], *w = op->in[2], *bias = op->in[3], *y = op->out[0];

	if (!c)
		return;
	c->m = q->rows;
	c->n = w->rows;
	c->k = q->cols;
	c->lda = q->ld;
	c->ldc = y->ld;
	lower_tiles(c);
	lower_ref(o, &c->a, q);
	lower_ref(o, &c->a_scale, scale);
	lower_ref(o, &c->w, w);
	lower_ref(o, &c->bias, bias);
	lower_ref(o, &c->c, y);
	o->macs += (uint64_t)c->m * c->n * c->k;
	o->bytes_moved += q->bytes + scale->bytes + w->bytes + (bias ? bias->bytes : 0) + y->bytes;
}

/* Counted for the last rows of the cache, where most is seen: row r of them sees all but the rows after it. */
static void lower_attn(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_attn *c = lower_cmd(o, VNPU_OP_ATTN);
	const struct npu_tensor *q = op->in[0], *k = op->in[1], *v = op->in[2], *y = op->out[0];
	uint64_t seen;

	if (!c)
		return;
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
	lower_ref(o, &c->q, q);
	lower_ref(o, &c->k, k);
	lower_ref(o, &c->v, v);
	lower_ref(o, &c->y, y);
	seen = (uint64_t)q->rows * (k->rows - q->rows) + (uint64_t)q->rows * (q->rows + 1) / 2;
	o->macs += 2 * seen * q->cols;
	o->bytes_moved += q->bytes + k->bytes + v->bytes + y->bytes;
}

static void lower_op(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_sleep *sleep;

	switch (op->op) {
	case VNPU_OP_SLEEP:
		sleep = lower_cmd(o, VNPU_OP_SLEEP);
		if (sleep)
			sleep->duration_ns = op->duration_ns;
		break;
	case VNPU_OP_COPY:
		lower_copy(o, op);
		break;
	case VNPU_OP_ADD:
	case VNPU_OP_MUL:
		lower_binary(o, op);
		break;
	case VNPU_OP_ACT:
		lower_act(o, op);
		break;
	case VNPU_OP_RMSNORM:
		lower_rmsnorm(o, op);
		break;
	case VNPU_OP_ROPE:
		lower_rope(o, op);
		break;
	case VNPU_OP_SOFTMAX:
		lower_softmax(o, op);
		break;
	case VNPU_OP_QUANT:
		lower_quant(o, op);
		break;
	case VNPU_OP_DEQUANT:
		lower_dequant(o, op);
		break;
	case VNPU_OP_MATMUL_I8:
		lower_matmul(o, op);
		break;
	case VNPU_OP_ATTN:
		lower_attn(o, op);
		break;
	case VNPU_OP_BARRIER:
	case VNPU_OP_END:
		break;
	}
}

int lower_graph(const struct npu_graph *g, struct lower_out *o)
{
	*o = (struct lower_out){ .cmd = calloc(1, 4096), .cap = 4096, .bytes = sizeof(struct vnpu_stream_hdr) };
	if (!o->cmd)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->nr_live; i++) {
		const struct graph_op *op = &g->ops[g->order[i]];

		if (i && g->ops[g->order[i - 1]].region != op->region)
			lower_cmd(o, VNPU_OP_BARRIER);
		lower_op(o, op);
	}
	lower_cmd(o, VNPU_OP_END);
	return o->err;
}
