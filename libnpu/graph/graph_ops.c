// SPDX-License-Identifier: MIT
/*
 * Operators: each checks its operands' shapes and appends itself.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

/* Of the tensor that has a struct vnpu_outliers in each row. */
#define OUTLIERS_COLS ((uint32_t)(sizeof(struct vnpu_outliers) / sizeof(float)))

static const char *tensor_name(const struct npu_tensor *t)
{
	return t->name[0] ? t->name : "result";
}

/* @t given, and of this graph? */
static bool graph_member(struct npu_graph *g, const char *op, const struct npu_tensor *t)
{
	if (!t) {
		/* Whoever returned NULL has said why. */
		graph_fail(g, -EINVAL, "%s: an operand is missing", op);
		return false;
	}
	if (t->graph != g) {
		graph_fail(g, -EINVAL, "%s: '%s' is of another graph", op, tensor_name(t));
		return false;
	}
	return true;
}

/* And of type @type? */
static bool graph_operand(struct npu_graph *g, const char *op, const struct npu_tensor *t, enum npu_dtype type)
{
	if (!graph_member(g, op, t))
		return false;
	if (t->dtype != type) {
		graph_fail(g, -EINVAL, "%s: '%s' is %s, not %s", op, tensor_name(t), npu_dtype_names[t->dtype],
			   npu_dtype_names[type]);
		return false;
	}
	return true;
}

/* And of a type that caches may have? */
static bool graph_cache(struct npu_graph *g, const char *op, const struct npu_tensor *t)
{
	if (!graph_member(g, op, t))
		return false;
	if (t->dtype == NPU_F16 || t->dtype == NPU_Q8_0)
		return true;
	return graph_operand(g, op, t, NPU_F32);
}

static bool graph_shape(struct npu_graph *g, const char *op, const struct npu_tensor *t, uint32_t rows, uint32_t cols)
{
	if (t->rows == rows && t->cols == cols)
		return true;
	graph_fail(g, -EINVAL, "%s: '%s' is %u x %u, not %u x %u", op, tensor_name(t), t->rows, t->cols, rows, cols);
	return false;
}

static bool graph_param_ok(struct npu_graph *g, const char *op, int param, bool optional)
{
	if ((param >= 0 && (uint32_t)param < g->nr_params) || (optional && param == NPU_NO_PARAM))
		return true;
	graph_fail(g, -EINVAL, "%s: param %d does not exist", op, param);
	return false;
}

static bool graph_finite(struct npu_graph *g, const char *op, float value)
{
	if (isfinite(value))
		return true;
	graph_fail(g, -EINVAL, "%s: %f is not a finite number", op, (double)value);
	return false;
}

static struct npu_tensor *graph_result(struct npu_graph *g, enum npu_dtype type, uint32_t rows, uint32_t cols)
{
	struct npu_tensor *t = graph_tensor(g, TENSOR_RESULT, NULL, type, rows, cols, 0, NULL);

	if (t)
		t->producer = g->nr_ops;
	return t;
}

/* Appends @op; its results must know their producer, the next operator, already. */
static bool graph_append(struct npu_graph *g, const struct graph_op *op)
{
	struct graph_op *grown;

	if (g->nr_ops == g->cap_ops) {
		grown = realloc(g->ops, (g->cap_ops * 2 + 16) * sizeof(*grown));
		if (!grown) {
			graph_fail(g, -ENOMEM, "out of memory");
			return false;
		}
		g->ops = grown;
		g->cap_ops = g->cap_ops * 2 + 16;
	}
	g->ops[g->nr_ops++] = *op;
	return true;
}

static struct npu_tensor *graph_simple(struct npu_graph *g, struct graph_op op, uint32_t rows, uint32_t cols)
{
	op.out[0] = graph_result(g, NPU_F32, rows, cols);
	return op.out[0] && graph_append(g, &op) ? op.out[0] : NULL;
}

static struct npu_tensor *graph_binary(struct npu_graph *g, const char *name, enum vnpu_op op, struct npu_tensor *a,
				       struct npu_tensor *b)
{
	if (!graph_operand(g, name, a, NPU_F32) || !graph_operand(g, name, b, NPU_F32))
		return NULL;
	if (!graph_shape(g, name, b, b->rows == 1 ? 1 : a->rows, a->cols))
		return NULL;
	return graph_simple(g, (struct graph_op){ .op = op, .in = { a, b }, .param = NPU_NO_PARAM }, a->rows, a->cols);
}

struct npu_tensor *npu_add(struct npu_graph *g, struct npu_tensor *a, struct npu_tensor *b)
{
	return graph_binary(g, "add", VNPU_OP_ADD, a, b);
}

struct npu_tensor *npu_mul(struct npu_graph *g, struct npu_tensor *a, struct npu_tensor *b)
{
	return graph_binary(g, "mul", VNPU_OP_MUL, a, b);
}

static struct npu_tensor *graph_act(struct npu_graph *g, const char *name, enum vnpu_act kind, struct npu_tensor *x)
{
	if (!graph_operand(g, name, x, NPU_F32))
		return NULL;
	return graph_simple(g, (struct graph_op){ .op = VNPU_OP_ACT, .in = { x }, .kind = kind, .param = NPU_NO_PARAM },
			    x->rows, x->cols);
}

struct npu_tensor *npu_silu(struct npu_graph *g, struct npu_tensor *x)
{
	return graph_act(g, "silu", VNPU_ACT_SILU, x);
}

struct npu_tensor *npu_gelu(struct npu_graph *g, struct npu_tensor *x)
{
	return graph_act(g, "gelu", VNPU_ACT_GELU, x);
}

struct npu_tensor *npu_glu(struct npu_graph *g, struct npu_tensor *a, struct npu_tensor *b, enum npu_glu_kind kind)
{
	if (!graph_operand(g, "glu", a, NPU_F32) || !graph_operand(g, "glu", b, NPU_F32) ||
	    !graph_shape(g, "glu", b, a->rows, a->cols))
		return NULL;
	if (kind != NPU_GLU_SILU && kind != NPU_GLU_GELU) {
		graph_fail(g, -EINVAL, "glu: kind %d is not known", kind);
		return NULL;
	}
	return graph_simple(g,
			    (struct graph_op){
				    .op = VNPU_OP_GLU,
				    .in = { a, b },
				    .kind = kind == NPU_GLU_SILU ? VNPU_ACT_SILU : VNPU_ACT_GELU,
				    .param = NPU_NO_PARAM,
			    },
			    a->rows, a->cols);
}

struct npu_tensor *npu_rmsnorm(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *w, float eps)
{
	if (!graph_operand(g, "rmsnorm", x, NPU_F32) || !graph_operand(g, "rmsnorm", w, NPU_F32))
		return NULL;
	if (!graph_shape(g, "rmsnorm", w, 1, w->cols) || !graph_finite(g, "rmsnorm", eps))
		return NULL;
	if (eps < 0 || x->cols % w->cols || (uint64_t)x->rows * (x->cols / w->cols) > VNPU_MAX_DIM) {
		graph_fail(g, -EINVAL, "rmsnorm: groups of %u in rows of %u, eps %g", w->cols, x->cols, (double)eps);
		return NULL;
	}
	if (x->ld != x->cols && w->cols != x->cols) {
		graph_fail(g, -EINVAL, "rmsnorm: rows of %u, %u apart: a norm per head wants them dense", x->cols,
			   x->ld);
		return NULL;
	}
	return graph_simple(
		g, (struct graph_op){ .op = VNPU_OP_RMSNORM, .in = { x, w }, .value = eps, .param = NPU_NO_PARAM },
		x->rows, x->cols);
}

struct npu_tensor *npu_rope(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *inv_freq, uint32_t heads,
			    int pos, enum npu_rope_mode mode)
{
	if (!graph_operand(g, "rope", x, NPU_F32) || !graph_operand(g, "rope", inv_freq, NPU_F32))
		return NULL;
	if (!graph_shape(g, "rope", inv_freq, 1, inv_freq->cols) || !graph_param_ok(g, "rope", pos, true))
		return NULL;
	if (!heads || x->cols % heads || x->cols / heads > VNPU_MAX_HEAD_DIM || inv_freq->cols > x->cols / heads / 2 ||
	    (mode != NPU_ROPE_ADJACENT && mode != NPU_ROPE_HALVES)) {
		graph_fail(g, -EINVAL, "rope: %u columns in %u heads with %u frequencies, mode %d", x->cols, heads,
			   inv_freq->cols, mode);
		return NULL;
	}
	return graph_simple(g,
			    (struct graph_op){
				    .op = VNPU_OP_ROPE,
				    .in = { x, inv_freq },
				    .heads = heads,
				    .kind = mode == NPU_ROPE_HALVES ? VNPU_ROPE_HALVES : VNPU_ROPE_ADJACENT,
				    .param = pos,
			    },
			    x->rows, x->cols);
}

struct npu_tensor *npu_softmax(struct npu_graph *g, struct npu_tensor *x, float scale, int limit)
{
	if (!graph_operand(g, "softmax", x, NPU_F32) || !graph_param_ok(g, "softmax", limit, true) ||
	    !graph_finite(g, "softmax", scale))
		return NULL;
	return graph_simple(g, (struct graph_op){ .op = VNPU_OP_SOFTMAX, .in = { x }, .value = scale, .param = limit },
			    x->rows, x->cols);
}

/* @x in @planes of INT8. */
static struct npu_tensor *graph_quant(struct npu_graph *g, enum vnpu_op which, const char *name, uint32_t planes,
				      struct npu_tensor *x, struct npu_tensor **scale)
{
	struct graph_op op = { .op = which, .in = { x }, .param = NPU_NO_PARAM };

	if (scale)
		*scale = NULL;
	if (!graph_operand(g, name, x, NPU_F32))
		return NULL;
	if (!scale) {
		graph_fail(g, -EINVAL, "%s: no place for the scales", name);
		return NULL;
	}
	op.out[0] = graph_result(g, NPU_S8, x->rows * planes, x->cols);
	op.out[1] = graph_result(g, NPU_F32, x->rows * planes, 1);
	if (!op.out[0] || !op.out[1] || !graph_append(g, &op))
		return NULL;
	*scale = op.out[1];
	return op.out[0];
}

struct npu_tensor *npu_quant(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor **scale)
{
	return graph_quant(g, VNPU_OP_QUANT, "quant", 1, x, scale);
}

struct npu_tensor *npu_quant16(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor **scale)
{
	if (x && (x->rows > VNPU_MAX_DIM / 2 || x->cols > VNPU_MAX_K_I8)) {
		graph_fail(g, -EINVAL, "quant16: %u x %u exceeds %u x %u", x->rows, x->cols, VNPU_MAX_DIM / 2,
			   VNPU_MAX_K_I8);
		return NULL;
	}
	return graph_quant(g, VNPU_OP_QUANT16, "quant16", 2, x, scale);
}

struct npu_tensor *npu_fold(struct npu_graph *g, struct npu_tensor *x)
{
	if (!graph_operand(g, "fold", x, NPU_F32))
		return NULL;
	if (x->rows % 2) {
		graph_fail(g, -EINVAL, "fold: %u rows have no halves", x->rows);
		return NULL;
	}
	return graph_simple(g, (struct graph_op){ .op = VNPU_OP_ADD, .in = { x }, .param = NPU_NO_PARAM }, x->rows / 2,
			    x->cols);
}

struct npu_tensor *npu_quant_outliers(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor **scale,
				      struct npu_tensor **outliers)
{
	struct graph_op op = { .op = VNPU_OP_QUANT_OUTLIERS, .in = { x }, .param = NPU_NO_PARAM };

	if (scale)
		*scale = NULL;
	if (outliers)
		*outliers = NULL;
	if (!graph_operand(g, "quant_outliers", x, NPU_F32))
		return NULL;
	if (!scale || !outliers) {
		graph_fail(g, -EINVAL, "quant_outliers: no place for the %s", scale ? "outliers" : "scales");
		return NULL;
	}
	if (x->cols > VNPU_MAX_K_I8) {
		graph_fail(g, -EINVAL, "quant_outliers: rows of %u exceed %u", x->cols, VNPU_MAX_K_I8);
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

struct npu_tensor *npu_add_outliers(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *outliers,
				    struct npu_tensor *w)
{
	if (!graph_operand(g, "add_outliers", x, NPU_F32) || !graph_operand(g, "add_outliers", outliers, NPU_F32) ||
	    !graph_member(g, "add_outliers", w))
		return NULL;
	if (w->dtype != NPU_W4_PANEL && !graph_operand(g, "add_outliers", w, NPU_W8_PANEL))
		return NULL;
	if (!graph_shape(g, "add_outliers", outliers, x->rows, OUTLIERS_COLS) ||
	    !graph_shape(g, "add_outliers", w, x->cols, w->cols))
		return NULL;
	return graph_simple(
		g, (struct graph_op){ .op = VNPU_OP_ADD_OUTLIERS, .in = { x, outliers, w }, .param = NPU_NO_PARAM },
		x->rows, x->cols);
}

struct npu_tensor *npu_dequant(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *scale)
{
	if (!graph_operand(g, "dequant", q, NPU_S8) || !graph_operand(g, "dequant", scale, NPU_F32))
		return NULL;
	if (!graph_shape(g, "dequant", scale, q->rows, 1))
		return NULL;
	return graph_simple(g, (struct graph_op){ .op = VNPU_OP_DEQUANT, .in = { q, scale }, .param = NPU_NO_PARAM },
			    q->rows, q->cols);
}

struct npu_tensor *npu_matmul_i8(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *scale,
				 struct npu_tensor *w, struct npu_tensor *bias)
{
	if (!graph_operand(g, "matmul", q, NPU_S8) || !graph_operand(g, "matmul", scale, NPU_F32) ||
	    !graph_operand(g, "matmul", w, NPU_W8_PANEL))
		return NULL;
	if (!graph_shape(g, "matmul", scale, q->rows, 1) || !graph_shape(g, "matmul", w, w->rows, q->cols))
		return NULL;
	if (bias && (!graph_operand(g, "matmul", bias, NPU_F32) || !graph_shape(g, "matmul", bias, 1, w->rows)))
		return NULL;
	return graph_simple(
		g, (struct graph_op){ .op = VNPU_OP_MATMUL_I8, .in = { q, scale, w, bias }, .param = NPU_NO_PARAM },
		q->rows, w->rows);
}

struct npu_tensor *npu_matmul_w4(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *scale,
				 struct npu_tensor *w, struct npu_tensor *bias)
{
	if (!graph_operand(g, "matmul_w4", q, NPU_S8) || !graph_operand(g, "matmul_w4", scale, NPU_F32) ||
	    !graph_operand(g, "matmul_w4", w, NPU_W4_PANEL))
		return NULL;
	if (!graph_shape(g, "matmul_w4", scale, q->rows, 1) || !graph_shape(g, "matmul_w4", w, w->rows, q->cols))
		return NULL;
	if (bias && (!graph_operand(g, "matmul_w4", bias, NPU_F32) || !graph_shape(g, "matmul_w4", bias, 1, w->rows)))
		return NULL;
	return graph_simple(
		g, (struct graph_op){ .op = VNPU_OP_MATMUL_W4, .in = { q, scale, w, bias }, .param = NPU_NO_PARAM },
		q->rows, w->rows);
}

struct npu_tensor *npu_matmul_wk(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *scale,
				 struct npu_tensor *w, struct npu_tensor *bias)
{
	if (!graph_operand(g, "matmul_wk", q, NPU_S8) || !graph_operand(g, "matmul_wk", scale, NPU_F32) ||
	    !graph_operand(g, "matmul_wk", w, NPU_WK_PANEL))
		return NULL;
	if (!graph_shape(g, "matmul_wk", scale, q->rows, 1) || !graph_shape(g, "matmul_wk", w, w->rows, q->cols))
		return NULL;
	if (bias && (!graph_operand(g, "matmul_wk", bias, NPU_F32) || !graph_shape(g, "matmul_wk", bias, 1, w->rows)))
		return NULL;
	return graph_simple(
		g, (struct graph_op){ .op = VNPU_OP_MATMUL_WK, .in = { q, scale, w, bias }, .param = NPU_NO_PARAM },
		q->rows, w->rows);
}

struct npu_tensor *npu_matmul_w4f(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *w,
				  struct npu_tensor *bias)
{
	if (!graph_operand(g, "matmul_w4f", x, NPU_F32) || !graph_operand(g, "matmul_w4f", w, NPU_W4_PANEL) ||
	    !graph_shape(g, "matmul_w4f", w, w->rows, x->cols))
		return NULL;
	if (bias && (!graph_operand(g, "matmul_w4f", bias, NPU_F32) || !graph_shape(g, "matmul_w4f", bias, 1, w->rows)))
		return NULL;
	return graph_simple(
		g, (struct graph_op){ .op = VNPU_OP_MATMUL_W4F, .in = { x, NULL, w, bias }, .param = NPU_NO_PARAM },
		x->rows, w->rows);
}

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
		return graph_fail(g, -EINVAL, "store: %u x %u does not fit into '%s' of %u x %u", x->rows, x->cols,
				  tensor_name(state), state->rows, state->cols);
	if (state->dtype != NPU_F32)
		op.op = VNPU_OP_STORE;
	return graph_append(g, &op) ? 0 : -ENOMEM;
}

struct npu_tensor *npu_attn(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k, struct npu_tensor *v,
			    uint32_t heads, uint32_t kv_heads, float scale, int pos)
{
	if (!graph_operand(g, "attn", q, NPU_F32) || !graph_cache(g, "attn", k) ||
	    !graph_operand(g, "attn", v, k->dtype) || !graph_param_ok(g, "attn", pos, true) ||
	    !graph_finite(g, "attn", scale))
		return NULL;
	if (!heads || !kv_heads || heads % kv_heads || q->cols % heads || q->cols / heads > VNPU_MAX_HEAD_DIM ||
	    q->rows > k->rows) {
		graph_fail(g, -EINVAL, "attn: q %u x %u in %u heads, %u KV heads, cache of %u rows", q->rows, q->cols,
			   heads, kv_heads, k->rows);
		return NULL;
	}
	if (k->dtype == NPU_Q8_0 && q->cols / heads % VNPU_Q8_0_VALUES) {
		graph_fail(g, -EINVAL, "attn: heads of %u values, with a cache of q8_0 a multiple of %d",
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

int npu_sleep(struct npu_graph *g, uint64_t duration_ns)
{
	struct graph_op op = { .op = VNPU_OP_SLEEP, .duration_ns = duration_ns, .param = NPU_NO_PARAM };

	if (duration_ns > 60000000000ull)
		return graph_fail(g, -EINVAL, "sleep: %llu ns, at most 60 s", (unsigned long long)duration_ns);
	return graph_append(g, &op) ? 0 : -ENOMEM;
}
