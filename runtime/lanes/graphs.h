/* SPDX-License-Identifier: MIT */
/*
 * The static graphs of a model.
 *
 * Whole graphs have all layers, or a block of them; their symbols are "blk.0.attn_q",
 * "blk.0.attn_q.bias", ... for weights, "blk.0.k" and "blk.0.v" for caches. The graph of a slice
 * has columns of one operator's matrices, whose symbols lack "blk.0.", and serves every layer. So
 * does a subgraph, which has some operators of a layer; what it reads of other operators is "x.in",
 * "y.in", ... as in memory.h, and what others read of it is "x.out", ...
 */
#ifndef GRAPHS_H
#define GRAPHS_H

#include "lane.h"
#include "npu_graph.h"

enum llm_graph {
	LLM_GRAPH_SLICE, /* x -> columns of an operator's matrices: llm_graph_build_slice() */
	LLM_GRAPH_SUBGRAPH, /* operators of a layer: llm_graph_build_subgraph() */
	LLM_GRAPH_LAYERS, /* x -> y, some layers or all; param pos */
	LLM_GRAPH_TREE, /* the same of a token tree: depths u32, ancestors u64 of each row */
	LLM_GRAPH_TOKEN, /* x -> logits: some layers or all, and what HEAD has; param pos */
	/* x -> y: rows that stand apart, whose keys and values the caches of these layers have:
	 * positions u32 of each row, below @span */
	LLM_GRAPH_CHOSEN,
	LLM_GRAPH_HEAD, /* x -> logits: the output norm and the output matrix */
	LLM_NR_GRAPHS,
};

/* "slice", "layers", ...: for messages and as the graphs' names. */
const char *llm_graph_name(enum llm_graph which);

/* Builds the graph @name: matmuls of x [graph_rows][k] with the columns of each of the slice's
 * matrices, and a result for each matrix. */
int llm_graph_build_slice(const struct llm_loaded *loaded, const char *name,
			  const struct lane_slice *slice, void **image, size_t *image_bytes);

/* Operators first .. last of a layer (LANE_SUBGRAPH), from LLM_OP_ATTN_NORM to LLM_OP_ADD. */
struct lane_subgraph {
	enum llm_op first, last;
	unsigned int layer; /* its formats; other layers' with the same ones share the graph */
	unsigned int rows;
	bool prompt; /* as in lane_call */
	bool keys; /* up to LLM_OP_ROPE, keys and values without queries */
};
/* Its matrices, in the order of enum llm_matrix: a bit each. */
unsigned int lane_subgraph_matrices(const struct llm_model *model, const struct lane_subgraph *sub);
/* Whether it reads or writes the KV cache; it has the param pos then. */
bool lane_subgraph_has_cache(enum llm_op first, enum llm_op last);
/* The areas that it reads and that others read of it: bits of enum lane_area. */
enum lane_area {
	LANE_X,
	LANE_Y,
	LANE_XN,
	LANE_Q,
	LANE_K,
	LANE_V,
	LANE_ATT,
	LANE_GATE,
	LANE_UP,
	LANE_NR_AREAS,
};
struct lane_areas {
	unsigned int in, out;
};
struct lane_areas lane_subgraph_areas(const struct llm_model *model,
				      const struct lane_subgraph *sub);
const char *lane_area_name(enum lane_area area);
unsigned int lane_area_cols(const struct llm_model *model, enum lane_area area);

/* Builds a subgraph for the caches of a session. */
int llm_graph_build_subgraph(const struct lane_memory *memory, const struct lane_subgraph *sub,
			     void **image, size_t *image_bytes);

/* The symbol of the static scale of the input of @matrix: "attn_qkv.scale", ... */
void llm_graph_scale_name(enum llm_matrix matrix, char *name, size_t bytes);
/* That scale in a layer: where it is in llm_loaded.scales, and its value. */
size_t llm_graph_scale_off(unsigned int layer, enum llm_matrix matrix);
float llm_graph_scale(const struct llm_loaded *loaded, unsigned int layer, enum llm_matrix matrix);

/* A graph's time limit: 0 for the device's own, or more for what a slow host may need (1e9
 * multiply-accumulates per second). */
uint32_t llm_graph_timeout_ms(const struct npu_device_info *info, const void *image,
			      size_t image_bytes);

/* A whole graph of layer .. layer + layers - 1 for chunks of @rows; LLM_GRAPH_HEAD has none. */
struct lane_whole {
	enum llm_graph graph;
	unsigned int rows, layer, layers;
	/* LLM_GRAPH_LAYERS: the last of them only puts keys and values into its cache, and y is
	 * what it reads. */
	bool keys;
	unsigned int span; /* LLM_GRAPH_CHOSEN */
};
/* Builds it for the caches of a session. */
int llm_graph_build(const struct lane_memory *memory, const struct lane_whole *whole, void **image,
		    size_t *image_bytes);

#endif /* GRAPHS_H */
