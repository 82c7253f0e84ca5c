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
#include "ops.h"
#include "pack.h"

/* A layer's tensors: matrices, in a buffer of the layer's, and vectors: their biases, norms. */
enum llm_layer_tensor {
	LLM_LAYER_MATRIX = 0, /* + enum llm_matrix */
	LLM_LAYER_BIAS = LLM_NR_MATRICES, /* + enum llm_matrix */
	LLM_LAYER_ATTN_NORM = 2 * LLM_NR_MATRICES,
	LLM_LAYER_FFN_NORM,
	LLM_LAYER_ATTN_NORM_BIAS,
	LLM_LAYER_FFN_NORM_BIAS,
	LLM_LAYER_ATTN_POST_NORM,
	LLM_LAYER_FFN_POST_NORM,
	LLM_LAYER_Q_NORM,
	LLM_LAYER_K_NORM,
	LLM_NR_LAYER_TENSORS,
};

/* Vectors of the output, by the name of their symbols. */
enum llm_output_vector {
	LLM_OUTPUT_NORM,
	LLM_OUTPUT_NORM_BIAS,
	LLM_OUTPUT_BIAS,
	LLM_NR_OUTPUT_VECTORS,
};
extern const char *const llm_output_vector_names[LLM_NR_OUTPUT_VECTORS];

/* The name of a part as in the graphs' symbols: "attn_q", "attn_q.bias", "attn_norm". */
void llm_layer_tensor_name(unsigned int part, char *name, size_t bytes);

/*
 * The format that a matrix gets; @weights: NATIVE, ADAPTIVE, W8A8, W4A8 or W4A16. @layer: of a
 * matrix @which; @which -1: the output matrix. A packed model keeps its formats, but adaptive
 * weights become W8 with W8A8. With 4-bit weights the output matrix, whose error goes directly into
 * the logits, has 8 bits unless the file's is Q4_0, with ADAPTIVE always; so have matrices whose
 * rows are no multiple of a group.
 */
enum llm_format llm_format_choose(const struct llm_model *m, enum llm_weights weights,
				  unsigned int layer, int which);

/* Rows of activations are bound in places of 64 bytes: an embedding is a multiple of so many. */
#define LLM_EMBD_VALUES 16

/* Experts are ranges of a stack's panels, so an expert's columns must be whole panels. */
static inline bool llm_experts_fill_panels(unsigned int n_ff, unsigned int n_embd)
{
	return !(n_ff % VNPU_PANEL_N || n_embd % VNPU_PANEL_N);
}

/* The operator that multiplies with a matrix, in layers with @experts or without. */
enum llm_op llm_matrix_op(enum llm_matrix which, bool experts);

/*
 * The mean width of each matmul's weights over all layers, for plans; @weights: NATIVE, or ADAPTIVE
 * of a file that is packed so. Returns the bytes of all panels.
 */
uint64_t llm_matmul_widths(const struct llm_model *m, enum llm_weights weights,
			   struct llm_width widths[LLM_NR_OPS]);

struct llm_packed_layer {
	struct npu_buffer *buf; /* the matrices */
	bool in_place; /* it is part of the file */
	enum llm_format format[LLM_NR_MATRICES];
	struct {
		size_t off, bytes; /* in llm_packed_buffer(); bytes 0: the model has no such part */
	} part[LLM_NR_LAYER_TENSORS];
};

struct llm_packed {
	bool float_input; /* 4-bit matrices multiply F32 activations instead of INT8 ones */
	enum llm_activations activations; /* for the other matrices */
	unsigned int n_layer;
	struct llm_packed_layer *layers;
	struct npu_buffer *vectors; /* of all layers, then the output's */
	/* Bytes 0: the model has no such vector. */
	struct llm_packed_vector {
		size_t off, bytes;
	} output_vectors[LLM_NR_OUTPUT_VECTORS];
	struct npu_buffer *head; /* the output matrix */
	bool head_in_place;
	size_t output_off, output_bytes;
	enum llm_format output_format;
	uint64_t weight_bytes; /* all matrices */
};

struct llm_packed_source {
	const struct llm_model *model;
	const struct gguf_file *file; /* which has the matrices */
	const char *path;
	bool cache; /* that is a cache of panels, which is removed if it is damaged */
	enum llm_weights weights; /* NATIVE, W8A8, W4A8 or W4A16; ADAPTIVE of a packed file */
	enum llm_activations activations;
	struct npu_context *ctx;
	bool keep_mapped; /* the host reads the panels too */
	/* Matrices of a packed file become the file's own pages, if the device reads files. */
	bool in_place;
	struct llm_pool *pool;
	const struct cpu_kernels *kernels;
	int (*progress)(void *ud, double fraction, const char *what);
	void *ud;
};

/*
 * Chooses the formats, and makes the buffers, with the vectors in theirs. The panels of matrices
 * are the caller's to fill in (start.h), or to check if they are in place. Returns 0, or -errno
 * with the error line.
 */
int llm_packed_create(struct llm_packed *packed, const struct llm_packed_source *src);
/* The panels of a layer's matrix, or of the output matrix (@matrix -1), to be filled in. */
void *llm_packed_panels(const struct llm_packed *packed, unsigned int layer, int matrix);
/* Whether a layer's panels, or the output matrix's (layer n_layer), are the file's own. */
bool llm_packed_in_place(const struct llm_packed *packed, unsigned int layer);
/* The buffer that has a layer's tensor. */
struct npu_buffer *llm_packed_buffer(const struct llm_packed *packed, unsigned int layer,
				     unsigned int part);
/* The host no longer needs a layer's matrices; layer n_layer is the output's. */
void llm_packed_unmap(struct llm_packed *packed, unsigned int layer);
void llm_packed_free(struct llm_packed *packed);

/* The format of a layer's matrix, and what its matmul's input is rounded to, in a @prompt or for a
 * single token, which is the same for all matrices with the same input. @matrix: enum llm_matrix,
 * or -1 for the output matrix. */
enum llm_format llm_packed_format(const struct llm_packed *packed, unsigned int layer, int matrix);
enum llm_input llm_packed_input(const struct llm_packed *packed, int matrix, bool prompt);

#endif /* PACKED_H */
