/* SPDX-License-Identifier: MIT */
/*
 * The static graphs of a model.
 *
 * Whole graphs hold all layers; their weights are "blk.0.attn_q", "blk.0.attn_q.bias", ..., their
 * caches "blk.0.k" and "blk.0.v". Those of a slice hold columns of the matrices of one operator,
 * with the symbols' "blk.0." left out, and serve every block.
 */
#ifndef GRAPHS_H
#define GRAPHS_H

#include "lane.h"
#include "npu_graph.h"

enum llm_graph {
	LLM_GRAPH_SLICE, /* x -> columns of an operator's matrices: llm_graph_build_slice() */
	LLM_GRAPH_LAYERS, /* x -> y, all layers; param pos */
	LLM_GRAPH_TOKEN, /* x -> logits: all layers and the output head; param pos */
	LLM_GRAPH_HEAD, /* x -> logits: the output norm and the output matrix */
	LLM_NR_GRAPHS,
};

/* "slice", "layers", ...: for messages and as the graphs' names. */
const char *llm_graph_name(enum llm_graph which);

/*
 * Matmuls of x [graph_rows][k] with the slice's columns of its matrices, each a result of its
 * own. @name is the graph's.
 */
int llm_graph_build_slice(const struct llm_loaded *loaded, const char *name,
			  const struct lane_slice *slice, void **image, size_t *image_bytes);

/*
 * A graph's time limit: the device's own (0), or more where a slow host could need it (1e9
 * multiply-accumulates a second).
 */
uint32_t llm_graph_timeout_ms(const struct npu_device_info *info, const void *image,
			      size_t image_bytes);

/* A whole graph for chunks of @rows, on caches of @kv_rows. */
int llm_graph_build(const struct llm_loaded *loaded, enum llm_graph which, unsigned int rows,
		    unsigned int kv_rows, void **image, size_t *image_bytes);

#endif /* GRAPHS_H */
