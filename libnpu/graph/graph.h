/* SPDX-License-Identifier: MIT */
/* A graph under construction, and what the compiler computes for it. */
#ifndef NPU_PRIVATE_GRAPH_H
#define NPU_PRIVATE_GRAPH_H

#include "image.h"
#include "npu_graph.h"
#include "soc.h"

enum tensor_kind {
	TENSOR_INPUT,
	TENSOR_WEIGHT,
	TENSOR_STATE,
	TENSOR_CONST,
	TENSOR_RESULT, /* of an operator: in scratch memory, or a binding if it is an output */
};

#define NO_OP UINT32_MAX

struct npu_tensor {
	struct npu_tensor *next; /* list of the graph, in order of creation */
	struct npu_graph *graph;
	enum tensor_kind kind;
	bool output;
	enum npu_dtype dtype;
	uint32_t rows, cols;
	uint32_t ld; /* elements from row to row: cols, but for s8 rounded up to a multiple of 4 */
	uint32_t group; /* of NPU_W4_PANEL; the enum vnpu_kq_type of NPU_KQ_PANEL */
	uint64_t bytes;
	char name[NPU_NAME_BYTES]; /* "" for an unnamed result */
	float *data; /* constants */
	uint32_t producer; /* results: index of the operator */

	/* Set by the compiler. */
	uint32_t slot;
	uint64_t offset; /* within the slot */
	/* Results in scratch memory: first and last region in which it is needed. */
	uint32_t first, last;
	uint32_t readers, readers_op; /* operators of region @last that read it, and one of them */
	struct npu_tensor *home; /* tensor whose memory it uses, or itself */
};

#define GRAPH_OP_INPUTS 4
#define GRAPH_OP_OUTPUTS 3

struct graph_op {
	enum vnpu_op op;
	uint16_t flags; /* VNPU_CMD_* */
	struct npu_tensor *in[GRAPH_OP_INPUTS]; /* in the order of the command; NULL if absent */
	struct npu_tensor *out[GRAPH_OP_OUTPUTS];
	struct npu_tensor *state; /* the state that it writes */
	uint32_t heads, kv_heads, kind;
	float value; /* eps or scale */
	uint32_t window;
	float cap;
	uint32_t span;
	int param;
	uint64_t duration_ns;
	/* Of a line of a matmul's rows; 0: one line. @search: the compiler chooses it. */
	uint32_t width;
	bool search;

	/* Set by the compiler. */
	bool live;
	uint32_t region;
	uint32_t found; /* the width to lower: stated or chosen */
};

struct npu_graph {
	char name[NPU_NAME_BYTES];
	struct npu_tensor *tensors, **tensors_tail;
	struct graph_op *ops;
	uint32_t nr_ops, cap_ops;
	char params[VNPU_MAX_PARAMS][NPU_NAME_BYTES];
	uint32_t nr_params;
	struct soc *soc; /* for predicted times; NULL: none */
	int err; /* the first error */
	char why[256];

	/* Set by the compiler. */
	uint32_t *order; /* live operators by region */
	uint32_t nr_live, nr_regions;
	uint64_t scratch_bytes;
};

/* Remembers the first error; @g NULL: it is npu_error()'s alone. Returns @err. */
int graph_fail(struct npu_graph *g, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* @group: of NPU_W4_PANEL, the type of NPU_KQ_PANEL, else 0. @bits: of NPU_WK_PANEL, else NULL. */
struct npu_tensor *graph_tensor(struct npu_graph *g, enum tensor_kind kind, const char *name,
				enum npu_dtype type, uint32_t rows, uint32_t cols, uint32_t group,
				const uint8_t *bits);
bool graph_name_ok(struct npu_graph *g, const char *name, const char *what);
/* @op reads or writes @t, and its command has no distance between @t's rows. */
bool graph_op_dense(const struct graph_op *op, const struct npu_tensor *t);

/* Determines which operators are needed, and in which region each runs. */
int schedule_plan(struct npu_graph *g);
/* Places the results that live in scratch memory. */
int scratch_plan(struct npu_graph *g);
/* The stream with its relocations, and the cost of one run. */
struct lower_out {
	uint8_t *cmd;
	uint32_t bytes, cap;
	uint32_t nr_cmds;
	struct npu_image_reloc *relocs;
	uint32_t nr_relocs, cap_relocs;
	uint64_t macs, bytes_moved;
	/* The lowest version with all operations used, so that older devices can run it. */
	uint16_t isa_minor;
	int err;
};
int lower_graph(const struct npu_graph *g, struct lower_out *out);
/* Sets the widths of matmuls to those stated; without one, to one line of all rows. */
void shape_stated(struct npu_graph *g);
/*
 * Then the widths that the compiler chooses, for @img's stream with the stated ones. *@found: there
 * are some, so that the stream has to be lowered again.
 */
int shape_search(struct npu_graph *g, const struct npu_image *img, bool *found);

#endif /* NPU_PRIVATE_GRAPH_H */
