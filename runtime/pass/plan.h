/* SPDX-License-Identifier: MIT */
/*
 * Plans of a forward pass: the tasks of a prompt's chunks or of one token, for a model's shape (shape.h) on a SoC's
 * lanes (soc.h), for the scheduler (scheduler.h). No weights and no results: what takes how long, and what waits for what.
 *
 * A chunk's tasks follow one another. A product that is cut (partition.h) is a task for each of its slices, which come
 * after the same operator and before the same one; task.slice counts them as partition_slice() does. Beyond that, a
 * chunk's attention in a layer waits until all earlier chunks have put their keys and values into that layer's cache
 * (llm.npu 3.4, equations 2 and 3).
 */
#ifndef PLAN_H
#define PLAN_H

#include "activations.h"
#include "llm.h"
#include "partition.h"
#include "predictor.h"
#include "scheduler.h"
#include "shape.h"

enum plan_op {
	PLAN_EMBED,
	PLAN_ATTN_NORM,
	PLAN_QKV,
	PLAN_ROPE,
	PLAN_ATTN,
	PLAN_ATTN_OUTPUT,
	PLAN_FFN_NORM, /* and the residual before it */
	PLAN_GATE_UP,
	PLAN_ACT,
	PLAN_DOWN,
	PLAN_ADD, /* the residual after the feed-forward network */
	PLAN_OUTPUT_NORM,
	PLAN_HEAD,
	PLAN_NR_OPS,
	PLAN_WHOLE = PLAN_NR_OPS, /* no operator, but all after PLAN_EMBED as one task */
	PLAN_BUILD, /* the graphs of a prompt's length are made on the CPU (LLM_GRAPHS_ONLINE) */
};
const char *plan_op_name(uint16_t op);

/* What is one graph on the NPU, and with that one launch. */
enum plan_graphs {
	PLAN_GRAPH_CHUNK, /* all that a chunk does there */
	PLAN_GRAPH_LAYER,
	PLAN_GRAPH_OP,
	PLAN_GRAPH_WHOLE, /* as PLAN_GRAPH_CHUNK, and one task of the plan too: PLAN_WHOLE, without costs */
};

struct plan_options {
	const struct profile *profile; /* NULL: tasks have no costs, for the wall's clock */
	const struct shape *shape;
	enum llm_placement placement;
	/* Placement layer: how its products are cut. Its profile is the solver's, and is there on the wall's clock too. Its
	 * gpu_busy is that of the operator. */
	struct partition_options cuts;
	double gpu_busy[PLAN_NR_OPS];
	/* Tells the cut in place of partition_search(); NULL: that is it. Called with @ud. */
	void (*cut)(void *ud, enum plan_op op, uint32_t m, uint64_t k, uint64_t n, struct partition *part);
	enum plan_graphs graphs;
	/* NULL, or of lane npu: what products take there, in place of the profile's model; their traffic stays the model's. */
	const struct predictor *predictor;
	bool best_order; /* NPU: the faster order of a product's operands (HeteroLLM 3.2); else the weights are stationary */
	enum llm_weights weights; /* not AUTO */
	enum llm_activations activations;
	enum llm_kv kv;
	uint32_t n_past; /* tokens in the cache */
	uint32_t n_tokens; /* to evaluate: a prompt, or 1 */
	uint32_t chunk; /* tokens of a chunk, which are padded to it; 0: all in one, without padding */
	uint32_t bucket; /* the last chunk is padded to a multiple of this only; 0: as the others */
	uint32_t logits; /* so many tokens of the last chunk get some, from its end; 0: none */
	bool overlap; /* chunks may run at the same time, each in memory of its own; else one after another */
	int (*run)(void *ud, const struct sched_task *task, enum soc_lane lane); /* of every task; NULL: a plan only */
	const struct sched_async *async; /* in place of it for the tasks of lanes npu and gpu; NULL: none */
	void *ud;
};

/* The weights [*@k][*@n] of a layer's products, and of the head's; false: @op is no product with weights. */
bool plan_product(const struct shape *shape, enum plan_op op, uint64_t *k, uint64_t *n);
/* Of a weight in memory, and of an activation; @w not AUTO. */
double plan_weight_bits(enum llm_weights w);
unsigned int plan_act_bits(enum llm_weights w);
/* What the activations of the product @op are rounded to. */
enum llm_input plan_input(enum llm_weights w, enum llm_activations a, enum plan_op op);

/* NULL: no memory. */
struct sched_plan *plan_forward(const struct plan_options *opts);

uint32_t plan_nr_chunks(const struct plan_options *opts);
/* Rows of chunk @c with its padding. */
uint32_t plan_chunk_rows(const struct plan_options *opts, uint32_t c);

/*
 * Placement layer, where chunks are free to choose (partition.h cuts one product as if it had both lanes for itself): sets
 * chunk, overlap and gpu_busy. Chunks of one prompt that follow each other through the layers let the GPU do float
 * operators of one during the products of another; the more of the GPU's time those take, the less of a product it is to
 * get. What is the fastest a few layers tell, simulated on the solver's
 * profile. Plans with overlap want sched_policy_layer. 0, or -errno of
 * sched_run().
 */
int plan_tune(struct plan_options *opts);

/* Adds a run on the virtual clock to @stats. */
void llm_virtual_count(struct llm_virtual_stats *stats, const struct sched_run *run);

/* Of a cached value; the modelled SoC keeps F32 as F16, as all floats. */
double plan_kv_bits(enum llm_kv kv);

/* Bytes that the model takes in the SoC's memory: packed weights, and the cache of @n_ctx tokens. */
uint64_t plan_weight_bytes(const struct shape *shape, enum llm_weights weights);
uint64_t plan_kv_bytes(const struct shape *shape, uint32_t n_ctx, enum llm_kv kv);

#endif /* PLAN_H */
