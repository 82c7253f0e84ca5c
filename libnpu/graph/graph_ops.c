// SPDX-License-Identifier: MIT
/* Common parts of the graph functions (op_*.c), which check operands and append an operator. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "npu_fail.h"
#include "op.h"

const char *tensor_name(const struct npu_tensor *t)
{
	return t->name[0] ? t->name : "result";
}

bool graph_member(struct npu_graph *g, const char *op, const struct npu_tensor *t)
{
	if (!t) {
		/* The function that returned NULL has reported the first error. */
		graph_fail(g, -EINVAL, "%s: an operand is missing", op);
		return false;
	}
	if (t->graph != g) {
		graph_fail(g, -EINVAL, "%s: '%s' is of another graph", op, tensor_name(t));
		return false;
	}
	return true;
}

bool graph_operand(struct npu_graph *g, const char *op, const struct npu_tensor *t,
		   enum npu_dtype type)
{
	if (!graph_member(g, op, t))
		return false;
	if (t->dtype != type) {
		graph_fail(g, -EINVAL, "%s: '%s' is %s, not %s", op, tensor_name(t),
			   npu_dtype_names[t->dtype], npu_dtype_names[type]);
		return false;
	}
	return true;
}

bool graph_cache(struct npu_graph *g, const char *op, const struct npu_tensor *t)
{
	if (!graph_member(g, op, t))
		return false;
	if (t->dtype == NPU_F16 || t->dtype == NPU_Q8_0)
		return true;
	return graph_operand(g, op, t, NPU_F32);
}

bool graph_shape(struct npu_graph *g, const char *op, const struct npu_tensor *t, uint32_t rows,
		 uint32_t cols)
{
	if (t->rows == rows && t->cols == cols)
		return true;
	graph_fail(g, -EINVAL, "%s: '%s' is %u x %u, not %u x %u", op, tensor_name(t), t->rows,
		   t->cols, rows, cols);
	return false;
}

bool graph_param_ok(struct npu_graph *g, const char *op, int param, bool optional)
{
	if ((param >= 0 && (uint32_t)param < g->nr_params) || (optional && param == NPU_NO_PARAM))
		return true;
	graph_fail(g, -EINVAL, "%s: param %d does not exist", op, param);
	return false;
}

bool graph_finite(struct npu_graph *g, const char *op, float value)
{
	if (isfinite(value))
		return true;
	graph_fail(g, -EINVAL, "%s: %f is not a finite number", op, (double)value);
	return false;
}

struct npu_tensor *graph_result(struct npu_graph *g, enum npu_dtype type, uint32_t rows,
				uint32_t cols)
{
	struct npu_tensor *t = graph_tensor(g, TENSOR_RESULT, NULL, type, rows, cols, 0, NULL);

	if (t)
		t->producer = g->nr_ops;
	return t;
}

bool graph_op_dense(const struct graph_op *op, const struct npu_tensor *t)
{
	const struct npu_op *desc = npu_ops[op->op];

	if (!desc)
		return false;
	for (unsigned int i = 0; i < GRAPH_OP_INPUTS; i++)
		if (op->in[i] == t && desc->dense_in >> i & 1)
			return true;
	for (unsigned int i = 0; i < GRAPH_OP_OUTPUTS; i++)
		if (op->out[i] == t && desc->dense_out >> i & 1)
			return true;
	return false;
}

/* Whether @op can read all of its operands that are columns of a wider matrix. */
static bool graph_columns_ok(struct npu_graph *g, const struct graph_op *op)
{
	const struct npu_tensor *t;

	for (unsigned int i = 0; i < GRAPH_OP_INPUTS; i++) {
		t = op->in[i];
		if (!t || t->rows == 1 || t->ld == t->cols || !graph_op_dense(op, t))
			continue;
		graph_fail(g, -EINVAL, "%s: '%s' is columns of a wider matrix; it must be dense",
			   isa_op(op->op)->name, tensor_name(t));
		return false;
	}
	return true;
}

/* Appends @op. Its results must already name it, the next operator, as their producer. */
bool graph_append(struct npu_graph *g, const struct graph_op *op)
{
	struct graph_op *grown;

	if (!graph_columns_ok(g, op))
		return false;
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

struct npu_tensor *graph_simple(struct npu_graph *g, struct graph_op op, uint32_t rows,
				uint32_t cols)
{
	op.out[0] = graph_result(g, NPU_F32, rows, cols);
	return op.out[0] && graph_append(g, &op) ? op.out[0] : NULL;
}

int npu_sleep(struct npu_graph *g, uint64_t duration_ns)
{
	struct graph_op op = { .op = VNPU_OP_SLEEP,
			       .duration_ns = duration_ns,
			       .param = NPU_NO_PARAM };

	if (!g)
		return npu_fail(-EINVAL, "sleep: no graph");
	if (duration_ns > 60000000000ull)
		return graph_fail(g, -EINVAL, "sleep: %llu ns, at most 60 s",
				  (unsigned long long)duration_ns);
	return graph_append(g, &op) ? 0 : -ENOMEM;
}
