// SPDX-License-Identifier: MIT
/*
 * Matmuls: MATMUL_I8, MATMUL_W4, MATMUL_W4F, MATMUL_WK, MATMUL_KQ, and the choice of their tiles.
 */
#include <errno.h>
#include <math.h>

#include "op.h"

/* ---- tiles ---- */

/*
 * Limits of a tile. The engine converts a tile's rows of A, a cost shared by the tile's panels, and
 * unpacks or fetches its panels of W, a cost shared by its rows. But a few large tiles divide badly
 * among workers.
 */
#define TILE_ROWS 128u
#define TILE_PANELS 16u
/* The device cuts larger tiles itself, but not at multiples of its register tile. */
#define TILE_MACS_I8 (5ull << 27)
#define TILE_MACS (3ull << 27) /* for engines that multiply more slowly */
/* Smallest number of rows per tile: fewer are limited by the memory bandwidth of the weights. */
#define TILE_MIN_ROWS 64u
/* For few rows: with fewer tiles than this, workers idle at the end. */
#define TILE_MIN_COUNT 8u
/* Rows of the register tile of the fastest engine; the others lose nothing by it. */
#define TILE_M_STEP 32u

/* Fixed cost of a tile per row and per panel; unit: one row times one panel. With AVX-512. */
struct tile_work {
	double row, panel;
};

static const struct tile_work work_i8 = { 0.15, 2 }, work_packed = { 0.15, 3 };

static uint32_t div_up(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

/*
 * Estimated time of a matmul with tiles of this shape: the mean for two and four workers, plus a
 * quarter of a tile for a late start.
 */
static double tiles_time(uint32_t m, uint32_t panels, const struct tile_work *work, uint32_t rows,
			 uint32_t per_tile)
{
	double tile = (double)rows * per_tile + rows * work->row + per_tile * work->panel;
	uint32_t count = div_up(m, rows) * div_up(panels, per_tile);

	return tile * (div_up(count, 2) * 2 + div_up(count, 4) * 4 + 0.5) / 2;
}

static void lower_tiles(uint32_t m, uint32_t n, uint32_t k, bool i8, uint32_t *tile_m,
			uint32_t *tile_n)
{
	const uint32_t panels = div_up(n, VNPU_PANEL_N),
		       most = panels < TILE_PANELS ? panels : TILE_PANELS;
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
	/* Tiles of equal size, so that the last one is not late. */
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

/* ---- operations ---- */

static bool graph_bias(struct npu_graph *g, const char *name, const struct npu_tensor *bias,
		       const struct npu_tensor *w)
{
	return !bias ||
	       (graph_operand(g, name, bias, NPU_F32) && graph_shape(g, name, bias, 1, w->rows));
}

/* A matmul of quantised rows with weights of @type. */
static struct npu_tensor *graph_matmul(struct npu_graph *g, const char *name, enum vnpu_op op,
				       enum npu_dtype type, struct npu_tensor *q,
				       struct npu_tensor *scale, struct npu_tensor *w,
				       struct npu_tensor *bias)
{
	if (!graph_operand(g, name, q, NPU_S8) || !graph_operand(g, name, scale, NPU_F32) ||
	    !graph_operand(g, name, w, type) || !graph_shape(g, name, scale, q->rows, 1) ||
	    !graph_shape(g, name, w, w->rows, q->cols) || !graph_bias(g, name, bias, w))
		return NULL;
	return graph_simple(g,
			    (struct graph_op){
				    .op = op,
				    .in = { q, scale, w, bias },
				    .param = NPU_NO_PARAM,
			    },
			    q->rows, w->rows);
}

struct npu_tensor *npu_matmul_i8(struct npu_graph *g, struct npu_tensor *q,
				 struct npu_tensor *scale, struct npu_tensor *w,
				 struct npu_tensor *bias)
{
	return graph_matmul(g, "matmul", VNPU_OP_MATMUL_I8, NPU_W8_PANEL, q, scale, w, bias);
}

struct npu_tensor *npu_matmul_w4(struct npu_graph *g, struct npu_tensor *q,
				 struct npu_tensor *scale, struct npu_tensor *w,
				 struct npu_tensor *bias)
{
	return graph_matmul(g, "matmul_w4", VNPU_OP_MATMUL_W4, NPU_W4_PANEL, q, scale, w, bias);
}

struct npu_tensor *npu_matmul_wk(struct npu_graph *g, struct npu_tensor *q,
				 struct npu_tensor *scale, struct npu_tensor *w,
				 struct npu_tensor *bias)
{
	return graph_matmul(g, "matmul_wk", VNPU_OP_MATMUL_WK, NPU_WK_PANEL, q, scale, w, bias);
}

struct npu_tensor *npu_matmul_kq(struct npu_graph *g, struct npu_tensor *q,
				 struct npu_tensor *scale, struct npu_tensor *w,
				 struct npu_tensor *bias)
{
	return graph_matmul(g, "matmul_kq", VNPU_OP_MATMUL_KQ, NPU_KQ_PANEL, q, scale, w, bias);
}

struct npu_tensor *npu_matmul_w4f(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *w,
				  struct npu_tensor *bias)
{
	if (!graph_operand(g, "matmul_w4f", x, NPU_F32) ||
	    !graph_operand(g, "matmul_w4f", w, NPU_W4_PANEL) ||
	    !graph_shape(g, "matmul_w4f", w, w->rows, x->cols) ||
	    !graph_bias(g, "matmul_w4f", bias, w))
		return NULL;
	return graph_simple(g,
			    (struct graph_op){
				    .op = VNPU_OP_MATMUL_W4F,
				    .in = { x, NULL, w, bias },
				    .param = NPU_NO_PARAM,
			    },
			    x->rows, w->rows);
}

/* The matmul whose result is @y. */
static struct graph_op *matmul_of(struct npu_graph *g, const char *what, const struct npu_tensor *y)
{
	struct graph_op *op;

	if (!graph_member(g, what, y))
		return NULL;
	op = y->producer == NO_OP ? NULL : &g->ops[y->producer];
	if (op && isa_op(op->op)->flags & VNPU_CMD_PERMUTED)
		return op;
	graph_fail(g, -EINVAL, "%s: '%s' is no result of a matmul", what, tensor_name(y));
	return NULL;
}

struct npu_tensor *npu_matmul_permute(struct npu_graph *g, struct npu_tensor *y)
{
	struct graph_op *op = matmul_of(g, "permute", y);

	if (!op)
		return NULL;
	op->flags |= VNPU_CMD_PERMUTED;
	return y;
}

struct npu_tensor *npu_matmul_shape(struct npu_graph *g, struct npu_tensor *y, uint32_t width)
{
	struct graph_op *op = matmul_of(g, "shape", y);

	if (!op)
		return NULL;
	if (width && y->rows % width) {
		graph_fail(g, -EINVAL, "shape: '%s' has %u rows, which are no lines of %u",
			   tensor_name(y), y->rows, width);
		return NULL;
	}
	op->width = width;
	op->search = !width;
	return y;
}

_Static_assert(offsetof(struct vnpu_cmd_matmul_w4, tile_n) ==
			       offsetof(struct vnpu_cmd_matmul_i8, tile_n) &&
		       offsetof(struct vnpu_cmd_matmul_wk, tile_n) ==
			       offsetof(struct vnpu_cmd_matmul_i8, tile_n) &&
		       offsetof(struct vnpu_cmd_matmul_kq, tile_n) ==
			       offsetof(struct vnpu_cmd_matmul_i8, tile_n),
	       "matmuls differ in what follows tile_n");

/* Lowers the fields that all matmuls have in common; the command is written as a MATMUL_I8. */
static void lower_matmul(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	const struct npu_tensor *x = op->in[0], *w = op->in[2];
	struct vnpu_cmd_matmul_i8 *c = cmd;

	c->m = x->rows;
	c->n = w->rows;
	c->k = x->cols;
	c->lda = x->ld;
	c->ldc = op->out[0]->ld;
	lower_tiles(c->m, c->n, c->k, op->op == VNPU_OP_MATMUL_I8, &c->tile_m, &c->tile_n);
	lower_operands(o, c, op);
	o->macs += (uint64_t)c->m * c->n * c->k;
}

static void text_matmul_i8(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_matmul_i8(text_graph(t), text_tensor(t, 0), text_tensor(t, 1),
			       text_tensor(t, 2), text_optional(t, 3));
}

const struct npu_op npu_op_matmul_i8 = {
	.lower = lower_matmul,
	.dense_in = 1 << 1,
	.texts = { { "Y = matmul Q SCALE W [BIAS]", "INT8 rows, INT8 weights (w8)",
		     text_matmul_i8 } },
};

static void lower_matmul_w4(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_matmul_w4 *c = cmd;

	lower_matmul(o, cmd, op);
	c->group = op->in[2]->group;
}

static void text_matmul_w4(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_matmul_w4(text_graph(t), text_tensor(t, 0), text_tensor(t, 1),
			       text_tensor(t, 2), text_optional(t, 3));
}

const struct npu_op npu_op_matmul_w4 = {
	.lower = lower_matmul_w4,
	.dense_in = 1 << 1,
	.texts = { { "Y = matmul_w4 Q SCALE W [BIAS]", "INT8 rows, 4-bit weights (w4)",
		     text_matmul_w4 } },
};

static void text_matmul_w4f(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_matmul_w4f(text_graph(t), text_tensor(t, 0), text_tensor(t, 1),
				text_optional(t, 2));
}

const struct npu_op npu_op_matmul_w4f = {
	.lower = lower_matmul_w4,
	.texts = { { "Y = matmul_w4f X W [BIAS]", "f32 rows, 4-bit weights (w4)",
		     text_matmul_w4f } },
};

static void lower_matmul_wk(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_matmul_wk *c = cmd;

	lower_matmul(o, cmd, op);
	c->w_bytes = op->in[2]->bytes;
}

static void text_matmul_wk(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_matmul_wk(text_graph(t), text_tensor(t, 0), text_tensor(t, 1),
			       text_tensor(t, 2), text_optional(t, 3));
}

const struct npu_op npu_op_matmul_wk = {
	.lower = lower_matmul_wk,
	.dense_in = 1 << 1,
	.texts = { { "Y = matmul_wk Q SCALE W [BIAS]", "INT8 rows, weights of 1 to 8 bits (wk)",
		     text_matmul_wk } },
};

static void lower_matmul_kq(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	struct vnpu_cmd_matmul_kq *c = cmd;

	lower_matmul(o, cmd, op);
	c->type = op->in[2]->group;
	lower_needs(o, vnpu_kq_minor(c->type));
}

static void text_matmul_kq(struct graph_text *t, struct npu_tensor *out[])
{
	out[0] = npu_matmul_kq(text_graph(t), text_tensor(t, 0), text_tensor(t, 1),
			       text_tensor(t, 2), text_optional(t, 3));
}

const struct npu_op npu_op_matmul_kq = {
	.lower = lower_matmul_kq,
	.dense_in = 1 << 1,
	.texts = { { "Y = matmul_kq Q SCALE W [BIAS]", "INT8 rows, weights in GGUF's block types",
		     text_matmul_kq } },
};
