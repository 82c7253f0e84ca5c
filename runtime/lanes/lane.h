/* SPDX-License-Identifier: MIT */
/*
 * Lanes compute: one interface for the CPU's threads (cpu_lane.h), the NPU through libnpu
 * (npu_lane.h), a GPU through OpenCL (gpu_lane.h), and the CPU in a GPU's place; and for storage,
 * which reads the weights of a cold start (storage_lane.h).
 *
 * The tasks of a plan (pass/plan.h) give lanes works to do: an operator of one layer for one chunk
 * of tokens, a slice of a matmul, or all operators of a chunk.
 *
 *	begin	gives a work to the lane. A lane with a queue executes works in this order; a lane
 *		with memory of its own makes results visible to the others by the end of the work
 *	poll	asks whether the work has ended
 *	wait	waits for its end
 *
 * They return 0 (poll: 1 if it has ended), or -errno with one line from llm_error().
 */
#ifndef LANE_H
#define LANE_H

#include "breakdown.h"
#include "memory.h"
#include "ops.h"
#include "soc_cost.h"

/* Heads in one launch of an estimate at most (shadowAttn 3.4). */
#define LANE_FUSED_HEADS 8
/* Queries, and keys, of a block of attention block. */
#define LANE_BLOCK_ROWS 64
/* Heads whose scores are in memory at a time. */
#define LANE_SCORE_SLOTS (2 * LANE_FUSED_HEADS)

/* Tokens that go through the layers together. */
struct lane_chunk {
	uint32_t first, n; /* of the pass's tokens */
	uint32_t rows; /* n plus the padding to a static graph */
	uint32_t row; /* the first row of the chunk's activations (memory.h) */
};

enum lane_what {
	LANE_NOTHING, /* the chunk's earlier LANE_CHUNK includes it */
	LANE_OP, /* one operator */
	LANE_SLICE, /* a rectangle of a matmul's result */
	LANE_CHUNK, /* all operators after the embedding, as one program of the NPU */
	LANE_BLOCK, /* those of some layers, for some rows of the chunk, as one program too */
	/* The last layer as one program, of chosen tokens whose rows LLM_OP_KEEP has kept: those
	 * numbered from logits_row on in lane_call.at, as many as logits says */
	LANE_CHOSEN,
	/* Operators op .. last of a layer as one program of the NPU: a subgraph that all layers and
	 * chunks share (llm.npu 3.2) */
	LANE_SUBGRAPH,
	LANE_HEADS, /* a stage of sparse attention for some heads of a layer, or all of them */
};

struct lane_work {
	enum lane_what what;
	enum llm_op op;
	enum llm_op last; /* LANE_SUBGRAPH */
	enum llm_op matmul; /* LLM_OP_SHADOW, LLM_OP_MERGE: whose input and result */
	uint32_t chunk, layer;
	uint32_t layers; /* LANE_BLOCK: from layer on */
	uint32_t piece; /* LLM_OP_READ, LLM_OP_PACK (start.h) */
	/* LANE_SLICE: rows row .. row + rows - 1, in a static graph of graph_rows, and columns col
	 * .. col + cols - 1 of the result. The columns of a matmul's matrices are concatenated: q,
	 * k and v; gate and up. LANE_BLOCK: the same rows, of the chunk. */
	uint32_t row, rows, graph_rows;
	uint64_t col, cols;
	/* Output norm, head, LLM_OP_LOGITS, LANE_CHUNK: the chunk's rows whose logits are wanted,
	 * at most LANE_LOGIT_ROWS; of chosen positions (lane_call.at) those from logits_row on. */
	uint32_t logits_row, logits;
	/* Of a prompt's last layer nobody reads more than keys and values, and the rows whose
	 * logits are wanted. LANE_CHUNK, LANE_SUBGRAPH: rows of that layer get keys and values
	 * only; of a LANE_CHUNK with logits, the row logits_row all else too. */
	bool keys;
	/* A LANE_CHOSEN, or the time of a part of it; the head: of its result. */
	bool chosen;
	/* LLM_OP_ESTIMATE, LLM_OP_SELECT: some of the layer's heads, and the slot of the scores of
	 * each. nr_heads 0: all of them, without slots; of LLM_OP_SELECT those that have full
	 * attention, beside others whose scores are estimated. */
	uint8_t nr_heads;
	uint8_t slot[LANE_FUSED_HEADS];
	uint16_t head[LANE_FUSED_HEADS];
};

/* A token tree whose nodes are a chunk's tokens. Their keys and values are rows of the cache in the
 * order of the nodes, from the root's position on. */
struct lane_tree {
	uint32_t n;
	uint32_t depths[LLM_MAX_TREE]; /* positions behind the root's */
	/* Bit j: the node sees node j. Its bits say the depth: itself and the root are included. */
	uint64_t ancestors[LLM_MAX_TREE];
};

/* A work and its data. */
struct lane_call {
	const struct lane_work *work;
	const struct lane_chunk *chunk;
	const int32_t *ids; /* the chunk's tokens */
	uint32_t pos; /* of the first of them */
	const struct lane_tree *tree; /* NULL: each token follows the one before */
	bool all; /* logits go to memory.all, not to memory.logits */
	/* Chosen positions, whose logits are wanted: tokens of the pass, rising. NULL: rows of the
	 * chunk that follow one another. */
	const uint32_t *at;
	bool prompt; /* a part of a prompt, not a token: activations may be static */
	/* Something waits for the end other than later works of this lane: results must be visible
	 * to others by then. */
	bool followed;
};

/* The chunk's row of the work's logits @i. */
static inline uint32_t lane_logits_row(const struct lane_call *call, uint32_t i)
{
	uint32_t row = call->work->logits_row + i;

	return call->at ? call->at[row] - call->chunk->first : row;
}

enum lane_wait {
	LANE_WAIT_FAST, /* sleep for most of the predicted time, then poll */
	LANE_WAIT_DRIVER, /* wait in the driver */
};

struct lane;
struct lane_ops {
	const char *name;
	/* Whether the lane can compute @op with these weights. */
	bool (*supports)(enum llm_op op, enum llm_weights weights);
	/* Sets *@ticket for poll and wait. */
	int (*begin)(struct lane *lane, const struct lane_call *call, uint64_t *ticket);
	/* A GPU need not report the end of works that are not followed (lane_call), except for one
	 * of any SCHED_UNDER_WAY in a row. */
	int (*poll)(struct lane *lane, uint64_t ticket);
	int (*wait)(struct lane *lane, uint64_t ticket, enum lane_wait how);
	/* Makes in advance what @call needs, such as programs; NULL: nothing. */
	int (*prepare)(struct lane *lane, const struct lane_call *call);
	/*
	 * NPU: makes the program of a LANE_BLOCK, of *@bytes, and frees it. Any thread may call
	 * these while the lane computes with other programs.
	 */
	int (*load)(struct lane *lane, const struct lane_call *call, uint64_t *bytes);
	void (*drop)(struct lane *lane, const struct lane_call *call);
	void (*free)(struct lane *lane);
};

/* The first member of each implementation. */
struct lane {
	const struct lane_ops *ops;
	struct lane_memory *memory;
	uint64_t jobs; /* submitted to a device so far */
	_Atomic uint64_t waited_ns; /* time in wait, of all threads */
	uint64_t graph_ns; /* NPU: time in begin for making and loading programs */
	bool timed; /* NPU: the jobs of later works are broken down */
	uint64_t item_ns[BREAKDOWN_ITEMS]; /* of jobs that ended; only a device's items */
};

static inline void lane_free(struct lane *lane)
{
	if (lane)
		lane->ops->free(lane);
}

/* ---- slices of matmuls ----------------------------------------------------------------------- */

#define LANE_MAX_MATRICES 3

/* The columns of one matrix in a slice. */
struct lane_columns {
	int matrix; /* enum llm_matrix; -1: the output matrix */
	const char *output; /* name of the result in programs */
	unsigned int n; /* columns of the matrix's whole result */
	unsigned int first, cols; /* those in the slice, at multiples of a panel; cols 0: none */
	/* Of a stack: where the expert's columns begin, which are those of the result. */
	unsigned int base;
	const struct llm_area *y; /* [..][n] */
	unsigned int y_row; /* the row of y for the slice's first row */
};

/* The operands of a LANE_SLICE: rows of x [..][k] times columns of some matrices. */
struct lane_slice {
	enum llm_op op;
	unsigned int layer;
	unsigned int rows, graph_rows;
	unsigned int k;
	const struct llm_area *x;
	unsigned int x_row;
	struct lane_columns columns[LANE_MAX_MATRICES];
	unsigned int nr_matrices;
	bool prompt; /* as in lane_call */
	bool empty; /* the slice has less than a panel of each matrix */
};
void lane_slice_of(const struct lane_memory *memory, const struct lane_call *call,
		   struct lane_slice *slice);

#endif /* LANE_H */
