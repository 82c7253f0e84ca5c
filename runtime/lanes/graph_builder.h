/* SPDX-License-Identifier: MIT */
/*
 * What graphs are built from, inside lanes/. After a failure libnpu's functions return NULL, and
 * the compiler reports the first failure.
 */
#ifndef GRAPH_BUILDER_H
#define GRAPH_BUILDER_H

#include "graphs.h"

struct graph_builder {
	const struct llm_model *m;
	const struct llm_packed *packed;
	struct npu_graph *g;
	unsigned int rows, n_ctx, kv_rows;
	bool permuted; /* LLM_OPERANDS_PERMUTED */
	bool prompt; /* the activations are a prompt's (lane_call) */
	unsigned int layer; /* whose matrices are multiplied */
	enum npu_dtype kv; /* of the caches */
	int pos;
	struct npu_tensor *inv_freq[2]; /* as in llm_model.inv_freq; NULL: not needed so far */
	struct npu_tensor *depths, *ancestors; /* of a token tree; NULL: rows are a sequence */
	struct npu_tensor *positions; /* of chosen rows, below span; NULL: likewise */
	unsigned int span;
	char prefix[32]; /* of the weights' symbols */
	char name[48];
};

/* The input of matrices: floats, and their INT8 form once a matrix needs it. */
struct graph_input {
	struct npu_tensor *x, *q, *scale, *outliers;
};

/* Begins the graph @what of @rows rows; 0, or -ENOMEM with the error line. */
int builder_init(struct graph_builder *b, const struct llm_loaded *loaded, const char *what,
		 unsigned int rows);
/* Compiles and frees the graph. 0 or -errno with the error line. */
int builder_compile(struct graph_builder *b, void **image, size_t *image_bytes);

/* A vector of the layer: @part is an enum llm_layer_tensor. */
struct npu_tensor *builder_vector(struct graph_builder *b, unsigned int part, unsigned int n);
/* A matmul with a whole matrix of the layer. */
struct npu_tensor *builder_matmul(struct graph_builder *b, struct graph_input *in,
				  enum llm_matrix which);
/* The layer's cache "k" or "v". */
struct npu_tensor *builder_cache(struct graph_builder *b, const char *which);
/* A norm of the rows of x by the layer's vectors, or x where the model has no such norm. @part:
 * LLM_LAYER_ATTN_NORM, _FFN_NORM, _ATTN_POST_NORM or _FFN_POST_NORM. */
struct npu_tensor *builder_norm(struct graph_builder *b, struct npu_tensor *x, unsigned int part);
/* Norms of the heads, if the model has them, and RoPE. @norm: LLM_LAYER_Q_NORM or _K_NORM. */
struct npu_tensor *builder_heads(struct graph_builder *b, struct npu_tensor *x, unsigned int heads,
				 unsigned int norm);
/* Attention in the layer with the rows of its caches. */
struct npu_tensor *builder_attention(struct graph_builder *b, struct npu_tensor *q,
				     struct npu_tensor *k_cache, struct npu_tensor *v_cache);
/* The FFN's activation; @gate: NULL if the model has none. */
struct npu_tensor *builder_act(struct graph_builder *b, struct npu_tensor *gate,
			       struct npu_tensor *up);
/* The param "pos", which RoPE and caches need, and what the caches are. */
void builder_positions(struct graph_builder *b, const struct lane_memory *memory);

#endif /* GRAPH_BUILDER_H */
