/* SPDX-License-Identifier: MIT */
/*
 * The plan of a forward pass: every task of a prompt or of a token, what each waits for, where it
 * runs, and what it costs there. This is the only place where such plans are made: a real pass, one
 * on the virtual clock and a dry run have the same plan of the same options.
 *
 * Tokens go through the layers in chunks. A chunk's tasks follow one another. A matmul that is cut
 * (partition.h) is a task for each of its slices, which come after the same operator and before
 * the same one; sched_task.slice counts them as partition_slice() does. Where chunks overlap, a
 * chunk's attention in a layer also waits until all earlier chunks have put their keys and values
 * into that layer's cache (llm.npu 3.4, equations 2 and 3), and a chunk begins when one that had
 * its memory before is done.
 */
#ifndef PLAN_H
#define PLAN_H

#include "attention.h"
#include "lane.h"
#include "llm.h"
#include "partition.h"
#include "predictor.h"
#include "scheduler.h"
#include "shadow.h"
#include "start.h"

/* Which logits a pass shall give. */
enum plan_logits {
	PLAN_LOGITS_NONE,
	PLAN_LOGITS_LAST, /* the last token's */
	/* Of all tokens, LANE_LOGIT_ROWS at a time, each with a task LLM_OP_LOGITS behind it. */
	PLAN_LOGITS_ALL,
	PLAN_LOGITS_AT, /* of chosen tokens, likewise: plan_pass.at */
};

/* What is one graph on the NPU, and with that one launch; on the GPU: what is enqueued together. */
enum plan_launch {
	PLAN_LAUNCH_AUTO, /* as the placement has it */
	PLAN_LAUNCH_CHUNK, /* all that a chunk does there */
	PLAN_LAUNCH_LAYER,
	PLAN_LAUNCH_OP,
};

/* What the tasks' functions get, and the functions. NULL functions: a plan only. */
struct plan_calls {
	int (*run)(void *ud, const struct sched_task *task, enum soc_lane lane); /* to the end */
	/* Of lanes with a queue, where several are at work at once. */
	const struct sched_async *async;
	void *ud;
};

/* The weights of a cold start: those from piece @first on are loaded in the pass. */
struct plan_start {
	const struct start_piece *pieces;
	uint32_t nr, first;
	/* For experiments. The NPU's graphs are compiled with the weights in them, and loaded by
	 * the vendor's runtime, each layer's before anything of that layer (EdgeFlow 3.1); false:
	 * the graphs are there, and weights come from a file. */
	bool graphs;
	/* For experiments. All is loaded before the first operator. */
	bool ahead;
};

/* Which graphs of blocks are in memory (choice switching). */
enum plan_graphs {
	PLAN_GRAPHS_PREFILL,
	/* The same when the pass begins; it switches all blocks, as the choice says. */
	PLAN_GRAPHS_SWITCHED,
	PLAN_GRAPHS_DECODE,
};

struct plan_switch {
	enum plan_graphs graphs;
	uint32_t block; /* layers of a block; the last one may have fewer */
	uint32_t width; /* tokens of decoding's graphs, a divisor of plan_chunk() */
	/* Wall clock: what a block's graphs take to compute their tokens, and decoding's to be
	 * loaded. On the virtual clock, passes without switches say it. */
	uint64_t prefill_ns, decode_ns, load_ns;
	/* For experiments. Progressive switching begins with the first step, as in the paper. */
	bool from_first;
};

struct plan_options {
	/* The virtual clock's; NULL: tasks have no costs, for the wall clock. */
	const struct soc *soc;
	const struct shape *shape;
	struct llm_choices choices; /* settled */
	/* [LLM_NR_OPS]: of the matmuls' weights, if these are a file's own types; NULL: those of
	 * choices.weights. */
	const struct llm_width *widths;
	const struct shadow *shadow; /* activations static and static-max; NULL: neither */
	/* Attention other than full; NULL: it is full. */
	const struct attention *attention;
	const struct plan_start *start; /* choice start cold; NULL: nothing is to be loaded */
	const struct plan_switch *switching; /* NULL: graphs have all layers */
	uint32_t chunk; /* tokens of a chunk at most; 0: the placement's default */
	/* Of activation memory, for all chunks in flight: plan_rows(). 0: as many as they need. */
	uint32_t rows;
	/* Placement layer: the profile that matmuls are cut for; on the wall clock too. */
	const struct soc *cuts;
	/* What has been learned of matmuls on the NPU, and on the GPU, or NULL: placement layer
	 * cuts by them; with other placements matmuls cost what they say (HeteroLLM 4.3). */
	const struct predictor *predictor, *gpu_predictor;
	/*
	 * Tells how a matmul is cut in place of the solver; NULL: that is it.
	 * For tests and experiments.
	 */
	void (*cut)(void *ud, const struct partition_options *o, uint32_t m, uint64_t k, uint64_t n,
		    struct cut *cut);
	void *cut_ud;
	/* The NPU has attention with masks (ISA 1.10): a token tree is one graph where a token is;
	 * false: its floats are computed one operator at a time, on the host. */
	bool masks;
	/* It has attention at positions (ISA 1.11): of the last layer, chosen rows that stand apart
	 * are computed alone. */
	bool positions;
	enum plan_launch launches; /* AUTO but for experiments */
	bool observe; /* every operator has a task and a result of its own, whatever is one graph */
	struct plan_calls calls;
};

/* One pass. */
struct plan_pass {
	uint32_t n_past; /* tokens in the cache */
	uint32_t n_tokens; /* to evaluate */
	enum plan_logits logits;
	/* PLAN_LOGITS_AT: tokens [nr_at], rising; the last token is the last of them. */
	const uint32_t *at;
	uint32_t nr_at;
	bool tree; /* the tokens are a token tree's, of PLAN_LOGITS_ALL without LLM_OP_LOGITS */
};

struct plan {
	struct sched_tasks *tasks;
	struct lane_work *works; /* by task */
	struct lane_chunk *chunks; /* [nr_chunks], and behind them the last token alone */
	uint32_t nr_chunks;
	uint32_t chunk; /* tokens of all but the last */
	bool overlap; /* chunks are in flight together */
	const struct sched_policy *policy;
	/*
	 * Orders ooe and steal: the policy's param, [2 * tasks]. By task the time at home, then by
	 * task the time on the CPU, which only counts for tasks that the CPU may take. On the
	 * virtual clock from the tasks' costs; without costs 0 until times_fill() (times.h).
	 */
	double *times;
	bool observed; /* plan_options.observe */
	enum plan_graphs graphs; /* plan_options.switching */
	bool divided; /* the chunks are plan_divide()'s */
	struct plan_pass pass;
};

/* NULL: no memory. */
struct plan *plan_forward(const struct plan_options *o, const struct plan_pass *pass);
void plan_free(struct plan *plan);
/*
 * Gives to each task of @times, which has a time of its own in it, that of the tasks after it in
 * the same graph too.
 */
void plan_add_up_graphs(const struct plan *plan, double *times);

/*
 * Rows of activations for a context of @n_ctx tokens: as many as the chunks that are to be in
 * flight have, padding included. The papers do not say how many chunks overlap (llm.npu 3.4,
 * EdgeFlow 4.3); here those in flight have 1024 rows together, or they are four that are longer.
 */
uint32_t plan_rows(const struct plan_options *o, uint32_t n_ctx);
/*
 * Tokens of a chunk in such a context, if nothing else decides: the options' or
 * the placement's default.
 */
uint32_t plan_chunk(const struct plan_options *o, uint32_t n_ctx);
/* Rows of the static graph for a token tree of @n nodes (CoordGen 3.1): 1, 2, 4, .. 64. */
uint32_t plan_tree_rows(uint32_t n);
/*
 * Whether a chunk of a prompt is padded to a static graph of the NPU, of a whole chunk or bucket.
 * Graphs online are of the chunk's own length.
 */
bool plan_pads_chunks(const struct plan_options *o);

/*
 * With the choice of a limited space, an NPU that can only address a part of the weights
 * (soc_npu.space_gib) has those with which placement linear computes most (llm.npu 4): the FFN's,
 * then attention's, then the output matrix; and of the first kind that does not fit as a whole the
 * first layers. @fit: by matmul, the layers that are on the NPU; of the output matrix 0 or 1. The
 * CPU has the others. On the wall clock, all of them fit.
 */
void plan_fit(const struct plan_options *o, uint32_t fit[LLM_NR_OPS]);

/* ---- blocks of layers (plan_switch.c) ---- */

/* Blocks of a model of @layers. */
uint32_t plan_nr_blocks(const struct plan_switch *s, uint32_t layers);
/* The graph of @block, of @graph_rows. */
struct lane_work plan_block_work(const struct plan_options *o, uint32_t block, uint32_t graph_rows);
/* Bytes of either graph of @block on a phone: its weights are in it. */
uint64_t plan_block_bytes(const struct plan_options *o, uint32_t block);

/* ---- chunks of placement layer (tune.c) ---- */

/* How a prompt is divided, and what it leaves of the GPU for a matmul's slices. */
struct plan_division {
	uint32_t chunk; /* tokens of a chunk */
	bool overlap; /* chunks may run at the same time */
	/* Share of the GPU's time that the other chunks' operators take, by matmul. */
	double gpu_busy[LLM_NR_OPS];
};

/*
 * Placement layer, where matmuls are cut and chunks are free to choose: partition.h cuts one matmul
 * as if it had both lanes for itself, but chunks that follow one another through the layers let the
 * GPU do float operators of one during the matmuls of another; the more of the GPU's time those
 * take, the less of a matmul it is to get. What is the fastest a few layers tell, simulated on the
 * solver's profile. 0 or -errno of sched_run().
 */
/*
 * Into how many chunks it may be, and the tokens of one then: a multiple of the smallest graph's.
 */
#define PLAN_NR_COUNTS 6
extern const uint32_t plan_counts[PLAN_NR_COUNTS]; /* 1, 2, 3, 4, 6, 8 */
uint32_t plan_divided(uint32_t tokens, uint32_t count);
int plan_divide(const struct plan_options *o, const struct plan_pass *pass,
		struct plan_division *division);
/* The plan of a prompt so divided. */
struct plan *plan_forward_divided(const struct plan_options *o, const struct plan_pass *pass,
				  const struct plan_division *division);

/* The solver's options for the matmul @op. */
struct partition_options plan_cuts(const struct plan_options *o, enum llm_op op, double gpu_busy);

#endif /* PLAN_H */
