/* SPDX-License-Identifier: MIT */
/*
 * The static graphs of a model.
 *
 * Whole graphs have all layers; their symbols are "blk.0.attn_q", "blk.0.attn_q.bias", ... for
 * weights, "blk.0.k" and "blk.0.v" for caches. The graph of a slice has columns of one operator's
 * matrices, whose symbols lack "blk.0.", and serves every layer.
 */
#ifndef GRAPHS_H
#define GRAPHS_H

#include "lane.h"
#include "npu_graph.h"

enum llm_graph {
	LLM_GRAPH_SLICE, /* x -> columns of an operator's matrices: llm_graph_build_slice() */
	LLM_GRAPH_LAYERS, /* x -> y, all layers; param pos */
	LLM_GRAPH_TOKEN, /* x -> logits: all layers, output norm and output matrix; param pos */
	LLM_GRAPH_HEAD, /* x -> logits: the output norm and the output matrix */
	LLM_NR_GRAPHS,
};

/* "slice", "layers", ...: for messages and as the graphs' names. */
const char *llm_graph_name(enum llm_graph which);

/* Builds the graph @name: matmuls of x [graph_rows][k] with the columns of each of the slice's
 * matrices, and a result for each matrix. */
int llm_graph_build_slice(const struct llm_loaded *loaded, const char *name,
			  const struct lane_slice *slice, void **image, size_t *image_bytes);

/* A graph's time limit: 0 for the device's own, or more for what a slow host may need (1e9
 * multiply-accumulates per second). */
uint32_t llm_graph_timeout_ms(const struct npu_device_info *info, const void *image,
			      size_t image_bytes);

/* Builds a whole graph for chunks of @rows and caches of @kv_rows. */
int llm_graph_build(const struct llm_loaded *loaded, enum llm_graph which, unsigned int rows,
		    unsigned int kv_rows, void **image, size_t *image_bytes);

#endif /* GRAPHS_H */
