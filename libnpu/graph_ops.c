// SPDX-License-Identifier: MIT
/*
 * The operators: each checks its operands' types and shapes, adds a node and returns its result.
 */
#include "graph.h"

#include <errno.h>
#include <math.h>

#define NS_PER_S 1000000000ull

/* All operands are there, of this graph, and f32 (what else an operator takes, it checks itself). */
static bool operands(struct npu_graph *g, const char *op, struct npu_tensor *const *t, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		if (!t[i]) {
			graph_fail(g, g->error ? g->error : -EINVAL, "%s: operand %u is NULL", op, i);
			return false;
		}
		if (t[i]->graph != g) {
			graph_fail(g, -EINVAL, "%s: operand %u belongs to another graph", op, i);
			return false;
		}
	}
	return !g->error || graph_fail(g, g->error, "%s", g->message);
}

static bool is_f32(struct npu_graph *g, const char *op, const struct npu_tensor *t)
{
	if (t->type == NPU_F32)
		return true;
	graph_fail(g, -EINVAL, "%s: an operand is not f32", op);
	return false;
}

static bool param_ok(struct npu_graph *g, const char *op, int param, bool optional)
{
	if ((param >= 0 && (uint32_t)param < g->nr_params) || (optional && param == NPU_NO_PARAM))
		return true;
	graph_fail(g, -EINVAL, "%s: %d is not a param", op, param);
	return false;
}

static struct npu_tensor *binary(struct npu_graph *g, const char *name, enum vnpu_op op, struct npu_tensor *a,
				 struct npu_tensor *b)
{
	struct node *n;

	if (!operands(g, name, (struct npu_tensor *[]){ a, b }, 2) || !is_f32(g, name, a) || !is_f32(g, name, b))
		return NULL;
	if (a->cols != b->cols || (b->rows != a->rows && b->rows != 1))
		return graph_fail(g, -EINVAL, "%s: [%u][%u] and [%u][%u] do not fit", name, a->rows, a->cols, b->rows,
				  b->cols);
	n = graph_node(g, op);
	if (!n)
		return NULL;
	n->in[0] = a;
	n->in[1] = b;
	return graph_result(g, n, 0, NPU_F32, a->rows, a->cols);
}

struct npu_tensor *npu_add(struct npu_graph *g, struct npu_tensor *a, struct npu_tensor *b)
{
	return binary(g, "add", VNPU_OP_ADD, a, b);
}

struct npu_tensor *npu_mul(struct npu_graph *g, struct npu_tensor *a, struct npu_tensor *b)
{
	return binary(g, "mul", VNPU_OP_MUL, a, b);
}

static struct npu_tensor *activation(struct npu_graph *g, const char *name, enum vnpu_act kind, struct npu_tensor *x)
{
	struct node *n;

	if (!operands(g, name, &x, 1) || !is_f32(g, name, x))
		return NULL;
	n = graph_node(g, VNPU_OP_ACT);
	if (!n)
		return NULL;
	n->in[0] = x;
	n->kind = kind;
	return graph_result(g, n, 0, NPU_F32, x->rows, x->cols);
}

struct npu_tensor *npu_silu(struct npu_graph *g, struct npu_tensor *x)
{
	return activation(g, "silu", VNPU_ACT_SILU, x);
}

struct npu_tensor *npu_gelu(struct npu_graph *g, struct npu_tensor *x)
{
	return activation(g, "gelu", VNPU_ACT_GELU, x);
}

struct npu_tensor *npu_rmsnorm(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *w, float eps)
{
	struct node *n;

	if (!operands(g, "rmsnorm", (struct npu_tensor *[]){ x, w }, 2) || !is_f32(g, "rmsnorm", x) ||
	    !is_f32(g, "rmsnorm", w))
		return NULL;
	if (w->rows != 1 || x->cols % w->cols)
		return graph_fail(g, -EINVAL, "rmsnorm: %u columns are not groups of the weight's [%u][%u]", x->cols,
				  w->rows, w->cols);
	if (!(eps >= 0) || isinf(eps))
		return graph_fail(g, -EINVAL, "rmsnorm: eps is %g", (double)eps);
	n = graph_node(g, VNPU_OP_RMSNORM);
	if (!n)
		return NULL;
	n->in[0] = x;
	n->in[1] = w;
	n->scale = eps;
	return graph_result(g, n, 0, NPU_F32, x->rows, x->cols);
}

struct npu_tensor *npu_rope(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *inv_freq, uint32_t heads,
			    int pos, enum npu_rope_mode mode)
{
	struct node *n;

	if (!operands(g, "rope", (struct npu_tensor *[]){ x, inv_freq }, 2) || !is_f32(g, "rope", x) ||
	    !is_f32(g, "rope", inv_freq) || !param_ok(g, "rope", pos, true))
		return NULL;
	if (!heads || x->cols % heads || inv_freq->rows != 1 || inv_freq->cols * 2ull > x->cols / heads)
		return graph_fail(g, -EINVAL, "rope: %u columns, %u heads and %u frequencies do not fit", x->cols,
				  heads, inv_freq->cols);
	n = graph_node(g, VNPU_OP_ROPE);
	if (!n)
		return NULL;
	n->in[0] = x;
	n->in[1] = inv_freq;
	n->heads = heads;
	n->param = pos;
	n->kind = mode == NPU_ROPE_HALVES ? VNPU_ROPE_HALVES : VNPU_ROPE_ADJACENT;
	return graph_result(g, n, 0, NPU_F32, x->rows, x->cols);
}

struct npu_tensor *npu_softmax(struct npu_graph *g, struct npu_tensor *x, float scale, int limit)
{
	struct node *n;

	if (!operands(g, "softmax", &x, 1) || !is_f32(g, "softmax", x) || !param_ok(g, "softmax", limit, true))
		return NULL;
	if (!isfinite(scale))
		return graph_fail(g, -EINVAL, "softmax: scale is %g", (double)scale);
	n = graph_node(g, VNPU_OP_SOFTMAX);
	if (!n)
		return NULL;
	n->in[0] = x;
	n->scale = scale;
	n->param = limit;
	return graph_result(g, n, 0, NPU_F32, x->rows, x->cols);
}

struct npu_tensor *npu_quant(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor **scale)
{
	struct npu_tensor *q;
	struct node *n;

	*scale = NULL;
	if (!operands(g, "quant", &x, 1) || !is_f32(g, "quant", x))
		return NULL;
	n = graph_node(g, VNPU_OP_QUANT);
	if (!n)
		return NULL;
	n->in[0] = x;
	q = graph_result(g, n, 0, NPU_S8, x->rows, x->cols);
	*scale = graph_result(g, n, 1, NPU_F32, x->rows, 1);
	return *scale ? q : NULL;
}

/* s8 [rows][cols] with f32 [rows][1]. */
static bool quantised(struct npu_graph *g, const char *op, const struct npu_tensor *q, const struct npu_tensor *scale)
{
	if (q->type == NPU_S8 && scale->type == NPU_F32 && scale->rows == q->rows && scale->cols == 1)
		return true;
	graph_fail(g, -EINVAL, "%s: wants s8 rows and one f32 scale for each", op);
	return false;
}

struct npu_tensor *npu_dequant(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *scale)
{
	struct node *n;

	if (!operands(g, "dequant", (struct npu_tensor *[]){ q, scale }, 2) || !quantised(g, "dequant", q, scale))
		return NULL;
	n = graph_node(g, VNPU_OP_DEQUANT);
	if (!n)
		return NULL;
	n->in[0] = q;
	n->in[1] = scale;
	return graph_result(g, n, 0, NPU_F32, q->rows, q->cols);
}

struct npu_tensor *npu_matmul_i8(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *scale,
				 struct npu_tensor *w, struct npu_tensor *bias)
{
	struct node *n;

	if (!operands(g, "matmul", (struct npu_tensor *[]){ q, scale, w }, 3) || !quantised(g, "matmul", q, scale))
		return NULL;
	if (bias && (!operands(g, "matmul", &bias, 1) || !is_f32(g, "matmul", bias)))
		return NULL;
	if (w->type != NPU_W8_PANEL || w->cols != q->cols)
		return graph_fail(g, -EINVAL, "matmul: weights [%u][%u] do not fit rows of %u s8 values", w->rows,
				  w->cols, q->cols);
	if (q->ld < (q->cols + 3) / 4 * 4)
		return graph_fail(g, -EINVAL, "matmul: an s8 input must have a multiple of 4 columns, not %u", q->cols);
	if (bias && (bias->rows != 1 || bias->cols != w->rows))
		return graph_fail(g, -EINVAL, "matmul: bias is [%u][%u], want [1][%u]", bias->rows, bias->cols,
				  w->rows);
	n = graph_node(g, VNPU_OP_MATMUL_I8);
	if (!n)
		return NULL;
	n->in[0] = q;
	n->in[1] = scale;
	n->in[2] = w;
	n->in[3] = bias;
	return graph_result(g, n, 0, NPU_F32, q->rows, w->rows);
}

int npu_store_rows(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *state, int row)
{
	struct node *n;

	if (!operands(g, "store", (struct npu_tensor *[]){ x, state }, 2) || !is_f32(g, "store", x) ||
	    !param_ok(g, "store", row, true))
		return g->error;
	if (state->kind != TENSOR_STATE || x->cols != state->cols || x->rows > state->rows) {
		graph_fail(g, -EINVAL, "store: [%u][%u] does not fit a state of [%u][%u]", x->rows, x->cols,
			   state->rows, state->cols);
		return g->error;
	}
	n = graph_node(g, VNPU_OP_COPY);
	if (!n)
		return g->error;
	n->in[0] = x;
	n->state = state;
	n->param = row;
	return 0;
}

struct npu_tensor *npu_attn(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k, struct npu_tensor *v,
			    uint32_t heads, uint32_t kv_heads, float scale, int pos)
{
	struct node *n;

	if (!operands(g, "attn", (struct npu_tensor *[]){ q, k, v }, 3) || !is_f32(g, "attn", q) ||
	    !is_f32(g, "attn", k) || !is_f32(g, "attn", v) || !param_ok(g, "attn", pos, false))
		return NULL;
	if (!heads || !kv_heads || heads % kv_heads || q->cols % heads || q->cols / heads > VNPU_MAX_HEAD_DIM ||
	    k->cols != q->cols / heads * kv_heads || v->cols != k->cols || v->rows != k->rows || q->rows > k->rows)
		return graph_fail(
			g, -EINVAL,
			"attn: q [%u][%u], k [%u][%u], v [%u][%u] do not fit %u heads over %u KV heads of up to %d",
			q->rows, q->cols, k->rows, k->cols, v->rows, v->cols, heads, kv_heads, VNPU_MAX_HEAD_DIM);
	if (!isfinite(scale))
		return graph_fail(g, -EINVAL, "attn: scale is %g", (double)scale);
	n = graph_node(g, VNPU_OP_ATTN);
	if (!n)
		return NULL;
	n->in[0] = q;
	n->in[1] = k;
	n->in[2] = v;
	n->heads = heads;
	n->kv_heads = kv_heads;
	n->scale = scale;
	n->param = pos;
	return graph_result(g, n, 0, NPU_F32, q->rows, q->cols);
}

int npu_sleep(struct npu_graph *g, uint64_t duration_ns)
{
	struct node *n;

	if (g->error)
		return g->error;
	if (duration_ns > 60 * NS_PER_S) {
		graph_fail(g, -EINVAL, "sleep: %llu ns is more than 60 s", (unsigned long long)duration_ns);
		return g->error;
	}
	n = graph_node(g, VNPU_OP_SLEEP);
	if (!n)
		return g->error;
	n->duration_ns = duration_ns;
	return 0;
}
