/* SPDX-License-Identifier: MIT */
/*
 * What the compiler knows of an operation: a row beside its graph functions, in op_*.c. isa_ops.h
 * says what its command is made of.
 *
 * An operation's row is called npu_op_ and its name, by which lower.c finds it.
 */
#ifndef NPU_OP_H
#define NPU_OP_H

#include "graph.h"
#include "graph_text.h"
#include "isa_ops.h"

struct npu_op {
	/* Fills in the command, which is cleared but for its header, and counts what it costs. */
	void (*lower)(struct lower_out *o, void *cmd, const struct graph_op *op);
	/* Bit i: the result may take the memory of in[i] over, if it is as large. */
	unsigned int in_place;
	/* How a graph's text says it; the last has no syntax. */
	struct text_op texts[3];
};

#define NPU_OP_ROW(NAME, name, number, minor, cmd) extern const struct npu_op npu_op_##name;
VNPU_TENSOR_OPS(NPU_OP_ROW)
#undef NPU_OP_ROW

/* SLEEP, which has no tensors, has no row either. */
extern const struct npu_op *const npu_ops[ISA_NR_OPS];

/* ---- for graph functions: false or NULL after the first error, which is the graph's ---- */

const char *tensor_name(const struct npu_tensor *t);
/* @t is given, and of this graph. */
bool graph_member(struct npu_graph *g, const char *op, const struct npu_tensor *t);
/* And of type @type. */
bool graph_operand(struct npu_graph *g, const char *op, const struct npu_tensor *t,
		   enum npu_dtype type);
/* And of a type that caches may have. */
bool graph_cache(struct npu_graph *g, const char *op, const struct npu_tensor *t);
bool graph_shape(struct npu_graph *g, const char *op, const struct npu_tensor *t, uint32_t rows,
		 uint32_t cols);
bool graph_param_ok(struct npu_graph *g, const char *op, int param, bool optional);
bool graph_finite(struct npu_graph *g, const char *op, float value);

/* A result of the operator that is appended next. */
struct npu_tensor *graph_result(struct npu_graph *g, enum npu_dtype type, uint32_t rows,
				uint32_t cols);
bool graph_append(struct npu_graph *g, const struct graph_op *op);
/* Appends an operator whose only result is f32. */
struct npu_tensor *graph_simple(struct npu_graph *g, struct graph_op op, uint32_t rows,
				uint32_t cols);

/* ---- for lower() ---- */

/* Points an operand at row @row of @t, which is f32 if that is not 0; NULL: it is absent. */
void lower_ref(struct lower_out *o, struct vnpu_ref *ref, const struct npu_tensor *t, uint32_t row);
/*
 * Points all operands of @cmd, in their order: what is read at in[], what is written at out[], or
 * at the state. Returns the bytes of all of them.
 */
uint64_t lower_refs(struct lower_out *o, void *cmd, const struct graph_op *op);
/* The same, and counts them as moved. */
void lower_operands(struct lower_out *o, void *cmd, const struct graph_op *op);
/* The stream needs this version at least. */
void lower_needs(struct lower_out *o, uint16_t isa_minor);

static inline uint32_t lower_param(int param)
{
	return param == NPU_NO_PARAM ? VNPU_PARAM_NONE : (uint32_t)param;
}

#endif /* NPU_OP_H */
