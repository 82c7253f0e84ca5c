/* SPDX-License-Identifier: MIT */
/*
 * The compiler's description of an operation: one struct beside its graph functions, in op_*.c.
 * isa_ops.h describes its command.
 *
 * The struct is called npu_op_ and the operation's name, by which lower.c finds it.
 */
#ifndef NPU_OP_H
#define NPU_OP_H

#include "graph.h"
#include "graph_text.h"
#include "isa_ops.h"

struct npu_op {
	/* Fills in the command, which is cleared except for its header, and counts its cost. */
	void (*lower)(struct lower_out *o, void *cmd, const struct graph_op *op);
	/* Bit i: the result may use the memory of in[i] if that is as large. */
	unsigned int in_place;
	/* Bit i: the command has no distance between the rows of in[i], of out[i]. */
	unsigned int dense_in, dense_out;
	/* Its statements in a graph's text; the last entry has no syntax. */
	struct text_op texts[8];
};

#define NPU_OP_ROW(NAME, name, number, minor, cmd) extern const struct npu_op npu_op_##name;
VNPU_TENSOR_OPS(NPU_OP_ROW)
#undef NPU_OP_ROW

/* NULL for SLEEP, which has no tensors. */
extern const struct npu_op *const npu_ops[ISA_NR_OPS];

/* ---- for graph functions: false or NULL after the first error, which is the graph's ---- */

const char *tensor_name(const struct npu_tensor *t);
/* Checks that @t is not NULL and is of this graph. */
bool graph_member(struct npu_graph *g, const char *op, const struct npu_tensor *t);
/* The same, and that @t is of @type. */
bool graph_operand(struct npu_graph *g, const char *op, const struct npu_tensor *t,
		   enum npu_dtype type);
/* The same, and that @t has a type for caches. */
bool graph_cache(struct npu_graph *g, const char *op, const struct npu_tensor *t);
bool graph_shape(struct npu_graph *g, const char *op, const struct npu_tensor *t, uint32_t rows,
		 uint32_t cols);
bool graph_param_ok(struct npu_graph *g, const char *op, int param, bool optional);
bool graph_finite(struct npu_graph *g, const char *op, float value);

/* Creates a result of the operator that is appended next. */
struct npu_tensor *graph_result(struct npu_graph *g, enum npu_dtype type, uint32_t rows,
				uint32_t cols);
bool graph_append(struct npu_graph *g, const struct graph_op *op);
/* Appends an operator with a single f32 result. */
struct npu_tensor *graph_simple(struct npu_graph *g, struct graph_op op, uint32_t rows,
				uint32_t cols);

/* ---- for lower() ---- */

/* Makes @ref refer to row @row of @t; @row is 0 unless @t is f32. @t NULL: operand absent. */
void lower_ref(struct lower_out *o, struct vnpu_ref *ref, const struct npu_tensor *t, uint32_t row);
/*
 * Fills in all operands of @cmd in order: from in[] those that it reads, from out[] or the state
 * those that it writes. Returns the sum of their bytes.
 */
uint64_t lower_refs(struct lower_out *o, void *cmd, const struct graph_op *op);
/* The same, and counts the bytes as moved. */
void lower_operands(struct lower_out *o, void *cmd, const struct graph_op *op);
/* Raises the stream's version to at least @isa_minor. */
void lower_needs(struct lower_out *o, uint16_t isa_minor);

static inline uint32_t lower_param(int param)
{
	return param == NPU_NO_PARAM ? VNPU_PARAM_NONE : (uint32_t)param;
}

#endif /* NPU_OP_H */
