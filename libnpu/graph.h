/* SPDX-License-Identifier: MIT */
/*
 * What the graph builder (graph.c, graph_ops.c) hands to the compiler (compile.c): tensors and nodes in the order of their
 * making. Every tensor but a state is written once, by the node that made it.
 */
#ifndef NPU_PRIVATE_GRAPH_H
#define NPU_PRIVATE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "npu_graph.h"
#include "vnpu_isa.h"

enum tensor_kind {
	TENSOR_INPUT,
	TENSOR_WEIGHT,
	TENSOR_STATE,
	TENSOR_CONST,
	TENSOR_TEMP, /* result of a node; with a name, an output */
};

struct npu_tensor {
	struct npu_graph *graph;
	struct npu_tensor *next;
	enum tensor_kind kind;
	enum npu_dtype type;
	uint32_t rows, cols;
	uint32_t ld; /* elements between rows */
	char *name; /* of the binding; NULL for a temp that is no output */
	float *data; /* TENSOR_CONST */
	struct node *producer; /* TENSOR_TEMP */
	/* The compiler's. */
	uint32_t symbol; /* index of its symbol: of its own, of __const or of __scratch */
	uint64_t offset; /* in that symbol */
	uint32_t first_level, last_level;
	struct node *last_writer; /* TENSOR_STATE: while levels are computed */
};

#define NODE_MAX_IN 5
#define NODE_MAX_OUT 2

struct node {
	struct node *next;
	enum vnpu_op op;
	struct npu_tensor *in[NODE_MAX_IN]; /* NULL: optional and absent */
	struct npu_tensor *out[NODE_MAX_OUT];
	struct npu_tensor *state; /* COPY: the state written */
	int param; /* or NPU_NO_PARAM */
	uint32_t heads, kv_heads;
	uint32_t kind; /* activation or rope mode */
	float scale; /* scale or eps */
	uint64_t duration_ns;
	uint32_t level; /* the compiler's: nodes of one level run between the same barriers */
};

struct npu_graph {
	char *name;
	struct npu_tensor *tensors, **tensors_end;
	struct node *nodes, **nodes_end;
	char **params;
	uint32_t nr_params;
	int error; /* the first one, sticky */
	char message[256];
};

/* Records the first error of the graph, sets npu_error(); returns NULL for the convenience of its callers. */
void *graph_fail(struct npu_graph *g, int error, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
struct npu_tensor *graph_tensor(struct npu_graph *g, enum tensor_kind kind, enum npu_dtype type, const char *name,
				uint32_t rows, uint32_t cols);
struct node *graph_node(struct npu_graph *g, enum vnpu_op op);
/* The result @i of @n. */
struct npu_tensor *graph_result(struct npu_graph *g, struct node *n, unsigned int i, enum npu_dtype type, uint32_t rows,
				uint32_t cols);

#endif /* NPU_PRIVATE_GRAPH_H */
