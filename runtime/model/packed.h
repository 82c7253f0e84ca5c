/* SPDX-License-Identifier: MIT */
/* A model's weights, packed into the NPU's buffers. */
#ifndef PACKED_H
#define PACKED_H

#include <stddef.h>
#include <stdint.h>

#include "activations.h"
#include "llm.h"
#include "model.h"
#include "npu.h"
#include "pack.h"

/* The tensors in a layer's buffer: matrices, their biases, norms. */
enum llm_layer_tensor {
	LLM_LAYER_MATRIX = 0, /* + enum llm_matrix */
	LLM_LAYER_BIAS = LLM_NR_MATRICES, /* + enum llm_matrix */
	LLM_LAYER_ATTN_NORM = 2 * LLM_NR_MATRICES,
	LLM_LAYER_FFN_NORM,
	LLM_LAYER_Q_NORM,
	LLM_LAYER_K_NORM,
	LLM_NR_LAYER_TENSORS,
};

/* The name of a part as in the graphs' symbols: "attn_q", "attn_q.bias", "attn_norm". */
void llm_layer_tensor_name(unsigned int part, char *name, size_t bytes);

/* @weights: W8A8, W4A8 or W4A16. A packed model keeps its formats. */
void llm_formats_choose(struct llm_formats *f, const struct llm_model *m, enum llm_weights weights);

struct llm_packed_layer {
	struct npu_buffer *buf;
	struct {
		size_t off, bytes; /* bytes 0: the model does not have this part */
	} part[LLM_NR_LAYER_TENSORS];
};

struct llm_packed {
	struct llm_formats formats;
	bool float_input; /* 4-bit matrices multiply F32 activations instead of INT8 ones */
	enum llm_activations activations; /* for the other matrices */
	unsigned int n_layer;
	struct llm_packed_layer *layers;
	struct npu_buffer *head; /* the output norm, then the output matrix */
	size_t output_off, output_bytes;
	uint64_t weight_bytes; /* all matrices */
};

struct llm_packed_source {
	const struct llm_model *model;
	const struct gguf_file *file;
	const char *path;
	enum llm_weights weights; /* W8A8, W4A8 or W4A16 */
	enum llm_activations activations;
	struct npu_context *ctx;
	bool keep_mapped; /* the host reads the panels too */
	struct llm_pool *pool;
	const struct cpu_kernels *kernels;
	int (*progress)(void *ud, double fraction, const char *what);
	void *ud;
};

/* Reads, quantises and packs all matrices, and releases a tensor's pages of the file once it is
 * packed. Returns 0, or -errno with the error line. */
int llm_packed_load(struct llm_packed *packed, const struct llm_packed_source *src);
void llm_packed_free(struct llm_packed *packed);

/* What a matmul's input is rounded to. @matrix: enum llm_matrix, or -1 for the output matrix. */
enum llm_input llm_packed_input(const struct llm_packed *packed, int matrix);

#endif /* PACKED_H */
