/* SPDX-License-Identifier: MIT */
/*
 * Lanes: what computes. One interface, and an implementation for each kind: the CPU's
 * threads (cpu_lane.h), the NPU by libnpu (npu_lane.h), a GPU by OpenCL (gpu.h), or
 * the CPU in a GPU's place.
 *
 * A plan (pass/plan.h) is made of works: an operator of one layer for one chunk of tokens, a slice
 * of a matmul, or everything that a chunk does. Each goes to one lane:
 *
 *	begin	gives it to the lane. A lane with a queue keeps the order in which it is given
 *		works, and one whose memory the others do not share sees to it that they see its
 *		results after poll or wait
 *	poll	whether it has ended
 *	wait	until it has
 *
 * All of them return 0 (poll: 1 for an end) or -errno with one line from llm_error().
 */
#ifndef LANE_H
#define LANE_H

#include "memory.h"
#include "ops.h"
#include "soc_cost.h"

/* Tokens that go through the layers together. */
struct lane_chunk {
	uint32_t first, n; /* of the pass's tokens */
	uint32_t rows; /* n, and what pads them to a static graph */
	uint32_t row; /* where the chunk's activations begin (memory.h) */
};

enum lane_what {
	LANE_NOTHING, /* an earlier work of the chunk, LANE_CHUNK, does it too */
	LANE_OP, /* one operator */
	LANE_SLICE, /* a rectangle of a matmul's result */
	LANE_CHUNK, /* all operators after the embedding, as one program of the NPU */
};

struct lane_work {
	enum lane_what what;
	enum llm_op op;
	uint32_t chunk, layer;
	/* LANE_SLICE: rows row .. row + rows - 1, in a static graph of graph_rows, by columns col
	 * .. col + cols - 1 of the matmul's result, which is that of all its matrices side by side:
	 * q, k and v; gate and up. */
	uint32_t row, rows, graph_rows;
	uint64_t col, cols;
	/*
	 * Output norm, head, LLM_OP_LOGITS, LANE_CHUNK: the chunk's rows whose logits are wanted,
	 * LANE_LOGIT_ROWS at most.
	 */
	uint32_t logits_row, logits;
};

/* A work with what it is done to. */
struct lane_call {
	const struct lane_work *work;
	const struct lane_chunk *chunk;
	const int32_t *ids; /* the chunk's tokens */
	uint32_t pos; /* of the first of them */
	bool all; /* logits go to memory.all, not to memory.logits */
	bool followed; /* something waits for the end that is not given to this lane behind it */
};

enum lane_wait {
	LANE_WAIT_FAST, /* sleep for most of the predicted time, then poll */
	LANE_WAIT_DRIVER, /* in the driver */
};

struct lane;
struct lane_ops {
	const char *name;
	/* Whether it computes @op with these weights. */
	bool (*supports)(enum llm_op op, enum llm_weights weights);
	/* *@ticket: the work's, for poll and wait. */
	int (*begin)(struct lane *lane, const struct lane_call *call, uint64_t *ticket);
	/* A GPU need not tell the end of a work that nothing follows elsewhere
	 * (lane_call.followed), if it tells that of one of any SCHED_UNDER_WAY in a row. */
	int (*poll)(struct lane *lane, uint64_t ticket);
	int (*wait)(struct lane *lane, uint64_t ticket, enum lane_wait how);
	/*
	 * Makes what @call will need, so that it begins without delay; NULL: nothing is to be made.
	 */
	int (*prepare)(struct lane *lane, const struct lane_call *call);
	void (*free)(struct lane *lane);
};

/* An implementation has this as its first member. */
struct lane {
	const struct lane_ops *ops;
	struct lane_memory *memory;
	uint64_t jobs; /* given to a device so far */
	uint64_t waited_ns; /* in wait */
};

static inline void lane_free(struct lane *lane)
{
	if (lane)
		lane->ops->free(lane);
}

/* ---- matmuls, as lanes see them -------------------------------------------------------------- */

#define LANE_MAX_MATRICES 3

/* One matrix' part of a slice. */
struct lane_columns {
	int matrix; /* enum llm_matrix; -1: the output matrix */
	const char *output; /* name of the result in programs */
	unsigned int n; /* columns of the whole matrix' result */
	unsigned int first, cols; /* of them, at multiples of a panel; cols 0: none */
	const struct llm_area *y; /* [..][n] */
	unsigned int y_row; /* of y, where the slice's first row belongs */
};

/* A work LANE_SLICE with its operands: rows of x [..][k] by columns of some matrices. */
struct lane_slice {
	enum llm_op op;
	unsigned int layer;
	unsigned int rows, graph_rows;
	unsigned int k;
	const struct llm_area *x;
	unsigned int x_row;
	struct lane_columns columns[LANE_MAX_MATRICES];
	unsigned int nr_matrices;
	bool empty; /* its columns were too few for a panel of any matrix */
};
void lane_slice_of(const struct lane_memory *memory, const struct lane_call *call,
		   struct lane_slice *slice);

#endif /* LANE_H */
