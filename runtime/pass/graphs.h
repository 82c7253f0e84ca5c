/* SPDX-License-Identifier: MIT */
/*
 * The static graphs of a model.
 *
 * Whole graphs hold all blocks; their weights are "blk.0.attn_q", "blk.0.attn_q.bias", ..., their caches "blk.0.k" and
 * "blk.0.v". The others hold a piece of one block, with the symbols' "blk.0." left out, and serve every block.
 */
#ifndef GRAPHS_H
#define GRAPHS_H

#include "llm.h"
#include "model.h"
#include "npu_graph.h"
#include "packed.h"

enum llm_graph {
	LLM_GRAPH_QKV, /* x -> q, k; V to rows pos.. of the cache v */
	LLM_GRAPH_ATTN_OUTPUT, /* x -> y */
	LLM_GRAPH_GATE_UP, /* x -> gate, up */
	LLM_GRAPH_DOWN, /* x -> y */
	LLM_GRAPH_BLOCKS, /* x -> y, all blocks; param pos */
	LLM_GRAPH_TOKEN, /* x -> logits: all blocks and the output head; param pos */
	LLM_GRAPH_HEAD, /* x -> logits: the output norm and the output matrix */
	LLM_NR_GRAPHS,
};

/* "qkv", ...: for messages and as the graphs' names. */
const char *llm_graph_name(enum llm_graph which);

/* One matrix' part of a graph of products. */
struct llm_graph_part {
	int matrix; /* enum llm_matrix; -1: the output matrix, without its norm */
	const char *output; /* name of the result */
	unsigned int cols; /* of the weights' rows, all with one bias */
	unsigned int ld; /* columns of the result that they are a part of */
};

/* Products of x [rows][k] with parts of one or more matrices, each to columns of a result of its own. @name is the graph's. */
int llm_graph_build_parts(const struct llm_model *model, const struct llm_packed *packed, const char *name, unsigned int rows,
			  unsigned int k, const struct llm_graph_part *parts, unsigned int nr_parts, void **image,
			  size_t *image_bytes);

/* A graph's time limit: the device's own (0), or more where a slow host could need it (1e9 multiply-accumulates a second). */
uint32_t llm_graph_timeout_ms(const struct npu_device_info *info, const void *image, size_t image_bytes);

int llm_graph_build(const struct llm_model *model, const struct llm_packed *packed, enum llm_graph which, unsigned int rows,
		    unsigned int kv_rows, enum llm_kv kv, void **image, size_t *image_bytes);

#endif /* GRAPHS_H */
