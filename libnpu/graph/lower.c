// SPDX-License-Identifier: MIT
/*
 * Lowering: operators to commands, with the tiles of matmuls, and the cost of one run.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

#include "graph.h"
#include "isa_ops.h"

/* ---- emitting ---- */

static void *lower_cmd(struct lower_out *o, enum vnpu_op op)
{
	uint32_t bytes = isa_op(op)->bytes;
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
	if (o->isa_minor < isa_op(op)->minor)
		o->isa_minor = isa_op(op)->minor;
	return cmd;
}

/* Row @row of @t. */
static void lower_ref_row(struct lower_out *o, struct vnpu_ref *ref, const struct npu_tensor *t, uint32_t row)
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
		.addend = t->offset + (uint64_t)row * t->ld * 4,
	};
}

static void lower_ref(struct lower_out *o, struct vnpu_ref *ref, const struct npu_tensor *t)
{
	lower_ref_row(o, ref, t, 0);
}

static uint32_t lower_param(int param)
{
	return param == NPU_NO_PARAM ? VNPU_PARAM_NONE : (uint32_t)param;
}

static void lower_needs(struct lower_out *o, uint16_t isa_minor)
{
	if (o->isa_minor < isa_minor)
		o->isa_minor = isa_minor;
}

static enum vnpu_kv_type lower_kv_type(const struct npu_tensor *cache)
{
	return cache->dtype == NPU_F16 ? VNPU_KV_F16 : cache->dtype == NPU_Q8_0 ? VNPU_KV_Q8_0 : VNPU_KV_F32;
}

/* ---- tiles ---- */

/*
 * What a worker takes at a time. The engine turns a tile's rows of A into its own form, which many panels make cheap, and unpacks or
 * fetches its panels of W, which many rows do; but few large tiles share badly among workers.
 */
#define TILE_ROWS 128u
#define TILE_PANELS 16u
/* The device cuts what is longer, and then to no multiple of its register tile. */
#define TILE_MACS_I8 (5ull << 27)
#define TILE_MACS (3ull << 27) /* of what multiplies more slowly */
/* Rows that are worth cutting off: fewer are only as fast as their weights come from memory. */
#define TILE_MIN_ROWS 64u
/* Of few rows at all: fewer tiles than this leave workers idle at the end. */
#define TILE_MIN_COUNT 8u
/* Rows of the register tile of the fastest engine; others lose nothing by it. */
#define TILE_M_STEP 32u

/* A tile's work beside its products, in products of a row and a panel: for each row, and for each panel. As measured with AVX-512. */
struct tile_work {
	double row, panel;
};

static const struct tile_work work_i8 = { 0.15, 2 }, work_packed = { 0.15, 3 };

static uint32_t div_up(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

/* The time of a product in such tiles: what it is with two workers and with four, and a quarter of a tile that one is late by. */
static double tiles_time(uint32_t m, uint32_t panels, const struct tile_work *work, uint32_t rows, uint32_t per_tile)
{
	double tile = (double)rows * per_tile + rows * work->row + per_tile * work->panel;
	uint32_t count = div_up(m, rows) * div_up(panels, per_tile);

	return tile * (div_up(count, 2) * 2 + div_up(count, 4) * 4 + 0.5) / 2;
}

static void lower_tiles(uint32_t m, uint32_t n, uint32_t k, bool i8, uint32_t *tile_m, uint32_t *tile_n)
{
	const uint32_t panels = div_up(n, VNPU_PANEL_N), most = panels < TILE_PANELS ? panels : TILE_PANELS;
	const uint64_t macs = i8 ? TILE_MACS_I8 : TILE_MACS;
	uint32_t parts, rows, per_tile = most;
	double time, least = INFINITY;

	*tile_m = m;
	if (m <= TILE_M_STEP) {
		while (per_tile > 1 && div_up(panels, per_tile) < TILE_MIN_COUNT)
			per_tile = div_up(per_tile, 2);
		*tile_n = per_tile * VNPU_PANEL_N;
		return;
	}
	/* Of equal size, so that none is the last for long. */
	for (parts = div_up(m, TILE_ROWS); parts <= div_up(m, TILE_MIN_ROWS); parts++) {
		rows = div_up(div_up(m, parts), TILE_M_STEP) * TILE_M_STEP;
		rows = rows < m ? rows : m;
		for (per_tile = 1; per_tile <= most; per_tile++) {
			if (per_tile > 1 && (uint64_t)rows * per_tile * VNPU_PANEL_N * k > macs)
				break;
			time = tiles_time(m, panels, i8 ? &work_i8 : &work_packed, rows, per_tile);
			if (time < least) {
				least = time;
				*tile_m = rows;
				*tile_n = per_tile * VNPU_PANEL_N;
			}
		}
	}
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

static void lower_store(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_store *c = lower_cmd(o, VNPU_OP_STORE);
	const struct npu_tensor *x = op->in[0];

	if (!c)
		return;
	c->rows = x->rows;
	c->cols = x->cols;
	c->ldx = x->ld;
	c->ld_dst = op->state->ld;
	c->row_param = lower_param(op->param);
	c->type = lower_kv_type(op->state);
	lower_ref(o, &c->x, x);
	lower_ref(o, &c->dst, op->state);
	o->bytes_moved += x->bytes + op->state->bytes / op->state->rows * x->rows;
}

/* Without a second operand: the lower half of the first one's rows is. */
static void lower_binary(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_binary *c = lower_cmd(o, op->op);
	const struct npu_tensor *a = op->in[0], *b = op->in[1], *y = op->out[0];

	if (!c)
		return;
	c->rows = y->rows;
	c->cols = y->cols;
	c->lda = a->ld;
	c->ldb = b && b->rows == 1 && a->rows > 1 ? 0 : b ? b->ld : a->ld;
	c->ldy = y->ld;
	lower_ref(o, &c->a, a);
	lower_ref_row(o, &c->b, b ? b : a, b ? 0 : y->rows);
	lower_ref(o, &c->y, y);
	o->bytes_moved += a->bytes + (b ? b->bytes : 0) + y->bytes;
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

static void lower_glu(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_glu *c = lower_cmd(o, VNPU_OP_GLU);
	const struct npu_tensor *a = op->in[0], *b = op->in[1], *y = op->out[0];

	if (!c)
		return;
	c->rows = a->rows;
	c->cols = a->cols;
	c->lda = a->ld;
	c->ldb = b->ld;
	c->ldy = y->ld;
	c->kind = op->kind;
	lower_ref(o, &c->a, a);
	lower_ref(o, &c->b, b);
	lower_ref(o, &c->y, y);
	o->bytes_moved += a->bytes + b->bytes + y->bytes;
}

/* Where a row has several groups rows are dense, and its groups rows of a narrower matrix. */
static void lower_rmsnorm(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_rmsnorm *c = lower_cmd(o, VNPU_OP_RMSNORM);
	const struct npu_tensor *x = op->in[0], *w = op->in[1], *y = op->out[0];

	if (!c)
		return;
	c->rows = x->rows * (x->cols / w->cols);
	c->cols = w->cols;
	c->ldx = w->cols == x->cols ? x->ld : w->cols;
	c->ldy = w->cols == x->cols ? y->ld : w->cols;
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
	struct vnpu_cmd_quant *c = lower_cmd(o, op->op);
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

static void lower_quant_outliers(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_quant_outliers *c = lower_cmd(o, VNPU_OP_QUANT_OUTLIERS);
	const struct npu_tensor *x = op->in[0], *q = op->out[0], *scale = op->out[1], *outliers = op->out[2];

	if (!c)
		return;
	c->rows = x->rows;
	c->cols = x->cols;
	c->ldx = x->ld;
	c->ldq = q->ld;
	lower_ref(o, &c->x, x);
	lower_ref(o, &c->q, q);
	lower_ref(o, &c->scale, scale);
	lower_ref(o, &c->outliers, outliers);
	o->bytes_moved += x->bytes + q->bytes + scale->bytes + outliers->bytes;
}

/* All outliers that there can be are counted, each with a column of weights; but no weight twice. */
static void lower_add_outliers(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_add_outliers *c = lower_cmd(o, VNPU_OP_ADD_OUTLIERS);
	const struct npu_tensor *x = op->in[0], *outliers = op->in[1], *w = op->in[2], *y = op->out[0];
	uint64_t columns;

	if (!c)
		return;
	c->m = x->rows;
	c->n = w->rows;
	c->k = w->cols;
	c->ldx = x->ld;
	c->ldy = y->ld;
	c->group = w->dtype == NPU_W4_PANEL ? w->group : 0;
	lower_ref(o, &c->x, x);
	lower_ref(o, &c->outliers, outliers);
	lower_ref(o, &c->w, w);
	lower_ref(o, &c->y, y);
	columns = (uint64_t)c->m * VNPU_OUTLIERS;
	o->macs += columns * c->n;
	o->bytes_moved += x->bytes + outliers->bytes + w->bytes * (columns < c->k ? columns : c->k) / c->k + y->bytes;
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

_Static_assert(offsetof(struct vnpu_cmd_matmul_w4, tile_n) == offsetof(struct vnpu_cmd_matmul_i8, tile_n) &&
		       offsetof(struct vnpu_cmd_matmul_wk, tile_n) == offsetof(struct vnpu_cmd_matmul_i8, tile_n),
	       "matmuls differ in what follows tile_n");

/* What all matmuls have, written as one of INT8. Rows of floats have no scales. */
static void *lower_product(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_matmul_i8 *c = lower_cmd(o, op->op);
	const struct npu_tensor *x = op->in[0], *scale = op->in[1], *w = op->in[2], *bias = op->in[3], *y = op->out[0];

	if (!c)
		return NULL;
	c->m = x->rows;
	c->n = w->rows;
	c->k = x->cols;
	c->lda = x->ld;
	c->ldc = y->ld;
	lower_tiles(c->m, c->n, c->k, op->op == VNPU_OP_MATMUL_I8, &c->tile_m, &c->tile_n);
	lower_ref(o, &c->a, x);
	lower_ref(o, &c->a_scale, scale);
	lower_ref(o, &c->w, w);
	lower_ref(o, &c->bias, bias);
	lower_ref(o, &c->c, y);
	o->macs += (uint64_t)c->m * c->n * c->k;
	o->bytes_moved += x->bytes + (scale ? scale->bytes : 0) + w->bytes + (bias ? bias->bytes : 0) + y->bytes;
	return c;
}

static void lower_matmul_w4(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_matmul_w4 *c = lower_product(o, op);

	if (c)
		c->group = op->in[2]->group;
}

static void lower_matmul_wk(struct lower_out *o, const struct graph_op *op)
{
	struct vnpu_cmd_matmul_wk *c = lower_product(o, op);

	if (c)
		c->w_bytes = op->in[2]->bytes;
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
	c->kv_type = lower_kv_type(k);
	if (c->kv_type != VNPU_KV_F32)
		lower_needs(o, 2);
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
	case VNPU_OP_STORE:
		lower_store(o, op);
		break;
	case VNPU_OP_ADD:
	case VNPU_OP_MUL:
		lower_binary(o, op);
		break;
	case VNPU_OP_ACT:
		lower_act(o, op);
		break;
	case VNPU_OP_GLU:
		lower_glu(o, op);
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
	case VNPU_OP_QUANT16:
		lower_quant(o, op);
		break;
	case VNPU_OP_QUANT_OUTLIERS:
		lower_quant_outliers(o, op);
		break;
	case VNPU_OP_ADD_OUTLIERS:
		lower_add_outliers(o, op);
		break;
	case VNPU_OP_DEQUANT:
		lower_dequant(o, op);
		break;
	case VNPU_OP_MATMUL_I8:
		lower_product(o, op);
		break;
	case VNPU_OP_MATMUL_W4:
	case VNPU_OP_MATMUL_W4F:
		lower_matmul_w4(o, op);
		break;
	case VNPU_OP_MATMUL_WK:
		lower_matmul_wk(o, op);
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
