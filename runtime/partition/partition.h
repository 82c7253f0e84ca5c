/* SPDX-License-Identifier: MIT */
/*
 * The partition solver: how one matrix product [m][k] x [k][n] with constant weights is cut between
 * the GPU and the NPU (HeteroLLM 4.1 and 4.3).
 *
 *	struct partition_options o = {
 *		.soc = soc, .weights = LLM_WEIGHTS_W4A16, .partition = LLM_PARTITION_AUTO,
 *		.graphs = LLM_GRAPHS_PIPE,
 *	};
 *	struct cut cut;
 *	partition_search(&o, 300, 4096, 14336, &cut);
 *
 * A partition is a rectangle for the NPU and the rest of the result for the GPU:
 *
 *	            n - gpu_cols        gpu_cols
 *	          +-------------------+----------+
 *	          | NPU: one static   | GPU      |  m - gpu_tokens, padded to what the graphs have
 *	          | graph after the   |          |
 *	          | other             |          |
 *	          +-------------------+----------+
 *	          | GPU                          |  gpu_tokens
 *	          +------------------------------+
 *
 * The NPU's graphs have 32, 64, ... 1024 tokens; only the last may be padded. For at most
 * PARTITION_EXACT_ROWS tokens, which decoding has, there is a graph of exactly so many.
 * Columns (the paper's rows: of the weights) are cut at multiples of 256, tokens at multiples
 * of 32, and the GPU's kernels take any number. Every slice is part of one buffer, so nothing
 * is copied to merge them.
 *
 * What the solver makes small is the paper's (4.3):
 *
 *	T = min(max(T_gpu(part 1), T_npu(part 2)) + T_sync + T_copy, T_gpu(all),
 *	T_npu(all) + T_sync + T_copy)
 *
 * Time begins where the GPU has ended the operator before, and ends where it may submit the one
 * after: float operators are the GPU's. T_npu contains the launches; the GPU's slice is submitted
 * while the operator before it runs. While
 * both are at work they share the memory as soc_share_gbps() says, so the times of one depend on
 * what the other is given. T_sync is what learning of the NPU's end takes; an NPU that ends last
 * (prefill: NPU-dominant) leaves the GPU's queue empty, which makes the next submission dearer,
 * while a kernel behind one that still runs is ordered by the queue (decoding: GPU-dominant, 4.2).
 */
#ifndef PARTITION_H
#define PARTITION_H

#include "llm.h"
#include "predictor.h"
#include "soc_cost.h"

#define PARTITION_NR_GRAPHS 6
#define PARTITION_MIN_GRAPH 32 /* tokens of the smallest; the next one has twice as many */
#define PARTITION_MAX_GRAPH 1024
#define PARTITION_COLS 256 /* the GPU's columns are a multiple */
#define PARTITION_EXACT_ROWS 8
/* In multiples of gpu.half_rows: of m rows the model's rate is m / (m + half_rows) of the sustained
 * one, which takes 10 % less time here and 50 % less at half_rows. */
#define PARTITION_FIXED_RATE 9

enum cut_kind {
	PARTITION_GPU, /* not cut */
	PARTITION_NPU,
	PARTITION_ROW, /* the GPU has columns */
	PARTITION_SEQUENCE, /* the GPU has tokens, the NPU one graph */
	PARTITION_MULTI_SEQUENCE, /* likewise, several graphs */
	PARTITION_HYBRID, /* columns, and padded graphs or tokens */
	PARTITION_NR_CUTS,
};
const char *cut_kind_name(enum cut_kind kind); /* "gpu", "npu", "row", ... */

struct partition_options {
	const struct soc *soc;
	/*
	 * What the profiler knows of a matmul (4.3). Both NULL: the lanes take what the profile's
	 * model says. Else it predicts: the NPU by a predictor of lane npu, the GPU by one of lane
	 * gpu. Without that one the GPU has the profile's sustained rate from
	 * PARTITION_FIXED_RATE gpu.half_rows rows on, or its memory's, whichever takes longer.
	 * The rest, and traffic, is the model's.
	 */
	const struct predictor *predictor, *gpu_predictor;
	enum llm_weights weights; /* not AUTO */
	const struct llm_width *width; /* of the weights, if it is not that of their choice */
	/*
	 * Of activations (llm_input_planes()): so many times as many rows are multiplied; 0 is 1.
	 */
	unsigned int planes;
	enum llm_operands operands; /* not AUTO */
	enum soc_sync sync;
	enum llm_partition partition; /* which cuts are allowed, beside none */
	/* PADDED and PIPE: the NPU's graphs are of the sizes above. PIPE without a cut takes them
	 * by falling size and pads the last to the smallest; with one it takes the set that is the
	 * fastest. Others: there is one of exactly @m tokens. */
	enum llm_graphs graphs;
	double gpu_busy; /* share of the GPU's time that other work takes: 0 to below 1 */
};

struct cut {
	enum cut_kind kind;
	uint32_t m;
	uint64_t k, n;
	/* How many graphs of PARTITION_MIN_GRAPH << i tokens the NPU runs. */
	uint32_t graphs[PARTITION_NR_GRAPHS];
	uint32_t exact; /* or one graph of so many tokens; 0: none */
	uint32_t gpu_tokens; /* from the end */
	uint64_t gpu_cols; /* from the end, of the other tokens; n: all is the GPU's */
	/* Predicted, ns: total = max(gpu, npu) + sync + copy. */
	double gpu_ns, npu_ns, sync_ns, copy_ns, total_ns;
};

/*
 * The fastest partition that @o allows. The search takes for each number of columns the fastest
 * graphs for each number of tokens by dynamic programming, each lane as if it were alone, and
 * leaves out what could not be faster if both were. Below 2048 tokens nothing else is left out; of
 * more, the first graphs have 1024 tokens.
 */
void partition_search(const struct partition_options *o, uint32_t m, uint64_t k, uint64_t n,
		      struct cut *cut);

/* Predicted times of @cut, into it; its other fields are set. */
void partition_predict(const struct partition_options *o, struct cut *cut);

/* Graphs that the NPU runs, one after another. */
uint32_t partition_nr_graphs(const struct cut *cut);
/* Tokens of graph @i, the largest first. */
uint32_t partition_graph_rows(const struct cut *cut, uint32_t i);
uint32_t partition_padding(const struct cut *cut); /* tokens that they have too many */

/* What one lane does of the product at a time: the rectangle of the result, tokens by columns. */
struct partition_slice {
	enum soc_lane lane;
	uint32_t row, rows; /* tokens, without padding */
	uint32_t graph_rows; /* of the NPU's graph; else rows */
	uint64_t col, cols;
};
/* Slices are disjoint and make up the whole: first the NPU's, in the order in which it runs them,
 * then the GPU's columns, then its tokens. */
uint32_t partition_nr_slices(const struct cut *cut);
void partition_slice(const struct cut *cut, uint32_t i, struct partition_slice *slice);

/* A matmul of that size; only the NPU looks at its order of operands. */
struct soc_op partition_work(const struct partition_options *o, uint64_t rows, uint64_t k,
			     uint64_t n);

#endif /* PARTITION_H */
