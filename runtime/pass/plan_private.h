/* SPDX-License-Identifier: MIT */
/* How plans are made: tasks one after another, chunk by chunk and layer by layer. */
#ifndef PLAN_PRIVATE_H
#define PLAN_PRIVATE_H

#include "plan.h"

/* What of a chunk the operators that are added compute. */
enum plan_part {
	PLAN_ALL,
	PLAN_KEYS, /* up to keys and values */
	PLAN_LAST_ROW,
	PLAN_CHOSEN, /* the last layer of chosen rows */
};

struct builder {
	const struct plan_options *o;
	const struct plan_division *d;
	struct plan *plan;
	uint32_t max_works;
	uint32_t c; /* the chunk's number */
	const struct lane_chunk *chunk;
	uint32_t pos; /* of its first token */
	/* Of the operators now: the chunk's with its padding, or those of some logits. */
	uint32_t rows;
	uint32_t tokens; /* of the chunk's operators now: rows that are no padding */
	/* Tasks that the next one of the chunk comes after; SCHED_NONE: nothing. */
	uint32_t first, last;
	uint32_t built; /* the task that makes the graphs, or SCHED_NONE */
	uint32_t handed; /* the last task that handed out logits, or SCHED_NONE */
	uint32_t *ends; /* by chunk: its last task */
	/* By layer and chunk: the task after which the chunk's keys and values of it are there. */
	uint32_t *cached;
	/* Attention that is not full: by layer, the last estimate of the chunks so far. */
	uint32_t *estimated;
	bool token; /* one token to be generated, or a tree of guesses; else a prompt */
	/* The CPU's cost of the NPU's task that is added, which it may take; NULL: it may not. */
	const struct soc_cost *stolen;
	bool leads, leads_logits; /* the next task does all of the chunk's work, logits included; */
	bool led; /* and those after it are there for their times */
	/* Of the last layer only keys and values are wanted, and of the rest one row, or none. */
	bool keys;
	enum plan_part part;
	/* Chosen tokens so far whose rows are kept before the last layer, and the last task that
	 * keeps some, or SCHED_NONE; whether the logits that are added are theirs. */
	uint32_t nr_kept, keep;
	bool apart;
	/* Placement linear: of the subgraph whose tasks are added; 0: none is. */
	uint32_t subgraph, nr_subgraphs;
	uint32_t fit[LLM_NR_OPS]; /* plan_fit() */
	struct cut cuts[LLM_NR_OPS]; /* of matmuls with cut.m rows; 0: not found yet */
	/* A cold start: the next piece to be added, by piece the task that packs it, and the last
	 * task that reads one. */
	uint32_t piece, *packed, read;
	/* Choice switching: the blocks and their loads; graphs that were launched. The work of the
	 * block, or of the chosen rows, whose tasks are added. */
	struct plan_switcher *switcher;
	struct lane_work block;
	uint32_t launched;
	bool failed;
};

/* ---- where (plan_tasks.c) ---- */

/* The lane of a task that is no slice of placement layer. */
enum soc_lane plan_lane(const struct builder *b, enum llm_op op);
/* The same in a layer: the CPU has the matmuls that the NPU has no room for (plan_fit()). */
enum soc_lane plan_lane_at(const struct builder *b, uint32_t layer, enum llm_op op);
/* Whether the chunk is a part of a prompt of placement linear. */
bool plan_is_linear(const struct builder *b);
/* Whether operators of a layer that follow one another on the NPU are a graph (plan_linear.c). */
bool plan_has_subgraphs(const struct builder *b);
/* Whether all of the chunk is one graph of the NPU. */
bool plan_is_whole(const struct builder *b);

/* ---- tasks ---- */

/* Adds a task that comes after first .. last; its number. */
uint32_t plan_add_task(struct builder *b, const struct lane_work *work, uint16_t slice,
		       enum soc_lane lane, struct soc_cost cost);
/* Adds the chunk's next task. @op: what it costs; NULL: nothing. */
uint32_t plan_add(struct builder *b, const struct lane_work *work, const struct soc_op *op);
/* The work of an operator; the next one leads all others if builder.leads says so. */
struct lane_work plan_work(struct builder *b, uint32_t layer, enum llm_op op);
/* Everything after the embedding as one work, with the last token's logits if @logits, or those of
 * all nodes of a tree. */
struct lane_work plan_whole_work(const struct builder *b, enum llm_op op, bool logits);

/* ---- costs ---- */

struct soc_cost plan_cost(const struct plan_options *o, enum soc_lane lane,
			  const struct soc_op *op);
/* @ops operations on each of [rows][cols] floats. */
struct soc_op plan_vector(uint64_t rows, uint64_t cols, double ops);
/* The chunk's attention: of so many of its rows. */
struct soc_op plan_attention(const struct builder *b, uint32_t rows);
/* The same in a layer, which may have a window. */
struct soc_op plan_full_attention(const struct builder *b, uint32_t layer, uint32_t rows);
/* A matmul of builder.rows, that is not cut. */
struct soc_op plan_matmul(const struct builder *b, enum llm_op op);
/* Operations of a layer's float operator but attention on each element of [..][*cols], without
 * those of the next two. */
double plan_float_ops(const struct builder *b, enum llm_op op, uint64_t *cols);
/* The input of a matmul: the planes that it multiplies, and the operations of quantising an
 * element, and of adding what planes or outliers give to an element of the result. */
struct plan_input {
	unsigned int planes;
	double quant_ops, fold_ops;
};
struct plan_input plan_input_of(const struct builder *b, enum llm_op op);
/* What the input of the matmul @op costs to quantise, an element; 0 if @op is no matmul. */
double plan_quant_ops(const struct builder *b, enum llm_op op);
/* Operations of placement linear's CPU on each value of the result of @op that it has at hand. */
double plan_side_ops(const struct builder *b, enum llm_op op);
/* What it costs to add the results of two planes, or of integers and outliers, of the matmul @op,
 * an element of the next operator's; 0 if @op is no matmul. */
double plan_fold_ops(const struct builder *b, enum llm_op op);

/* ---- matmuls ---- */

/* How the matmul of builder.rows is sliced. */
const struct cut *plan_find_cut(struct builder *b, enum llm_op op);
/* All of a matmul as a slice: @tokens rows that are no padding. */
void plan_set_whole_slice(const struct builder *b, struct lane_work *work, uint32_t tokens);
/* The matmul of @work: a task for each of its slices. */
void plan_add_slices(struct builder *b, const struct lane_work *work, enum llm_op op);
/* All of it on one lane. */
void plan_add_uncut(struct builder *b, struct lane_work *work, uint32_t tokens);
/* The chunk's matmul, all of it on the NPU, or on the CPU if that takes it. */
void plan_add_stealable(struct builder *b, struct lane_work *work);

/* ---- experts (plan_experts.c) ---- */

/* The FFN of a layer with experts, on the CPU. */
void plan_add_experts(struct builder *b, uint32_t layer);

/* ---- layers ---- */

/* One layer of the chunk. */
void plan_add_layer(struct builder *b, uint32_t layer);

/* The chunk's attention waits for the keys and values of the chunks before it. */
void plan_after_cached(struct builder *b, uint32_t layer, uint32_t attention);
void plan_set_cached(struct builder *b, uint32_t layer, uint32_t task);
/* One layer of the chunk, of placement linear (plan_linear.c). */
void plan_add_linear(struct builder *b, uint32_t layer);
/* After the matmul @op, a task that came after @first .. @last: the chunk's shadow outliers, which
 * are multiplied beside it and added to its result; nothing if the input has none. */
void plan_add_shadow(struct builder *b, uint32_t layer, enum llm_op op, uint32_t first,
		     uint32_t last);
/* Operators of a layer that the NPU has in a prompt of placement linear. */
unsigned int plan_nr_npu_ops(const struct builder *b);

/* ---- attention that is not full (plan_attention.c) ---- */

/* Whether the chunk's is such. */
bool plan_is_sparse(const struct builder *b);
/* The chunk's in a layer, after RoPE. */
void plan_add_sparse(struct builder *b, uint32_t layer);

/* ---- cold starts (plan_start.c) ---- */

/* Whether weights are to be loaded in this pass. */
bool plan_is_cold(const struct plan_options *o);
/* Adds the pieces of the layers up to @layer that are not in the plan yet. */
void plan_add_pieces(struct builder *b, uint32_t layer);
/* Adds all of them, and whatever is added next comes after them. */
void plan_add_pieces_ahead(struct builder *b);
/* @task, which does @work, waits for the weights that it needs. */
void plan_after_pieces(struct builder *b, uint32_t task, const struct lane_work *work);

/* ---- blocks of layers (plan_switch.c) ---- */

/* Whether the chunk's layers are blocks. */
bool plan_has_blocks(const struct builder *b);
/* Sets up builder.switcher: which blocks are switched when. 0 or -errno. */
int plan_switch_begin(struct builder *b);
void plan_switch_end(struct builder *b);
/* Adds the chunk's blocks, and the loads that are to begin before one of them ends. */
void plan_add_blocks(struct builder *b, bool whole);
/* Adds the loads that are left when all has been computed. */
void plan_add_last_loads(struct builder *b);

#endif /* PLAN_PRIVATE_H */
