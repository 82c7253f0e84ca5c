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

int llm_graph_build(const struct llm_model *model, const struct llm_packed *packed, enum llm_graph which, unsigned int rows,
		    unsigned int kv_rows, enum llm_kv kv, void **image, size_t *image_bytes);

#endif /* GRAPHS_H */
