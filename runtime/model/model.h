/* SPDX-License-Identifier: MIT */
/*
 * A model: hyperparameters and tensors of a decoder-only transformer, checked against one another.
 *
 * Most layers are
 *
 *	x += p(Wo attn(rope(Wq n(x)), rope(Wk n(x)), Wv n(x)))
 *	x += p(Wdown (silu(Wgate n(x)) * Wup n(x)))
 *
 * with norms n, and norms p that few models have. A layer with experts has an FFN for each of them,
 * and adds w_e FFN_e(n(x)) for those experts e that a router chooses for a token (lanes/experts.h).
 * What else may differ is in struct llm_arch (arch.h). What an architecture multiplies with a
 * constant is part of other numbers here: where residuals are scaled by s, x is x / s, which norms
 * of rows do not notice if their epsilon is divided by the square of s, and embeddings are divided
 * by s; a scale of logits is in the output norm, and RoPE's magnitude in the scale of scores.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "arch.h"
#include "gguf.h"
#include "pack.h"

enum llm_matrix {
	LLM_ATTN_Q,
	LLM_ATTN_K,
	LLM_ATTN_V,
	LLM_ATTN_OUTPUT,
	LLM_FFN_GATE,
	LLM_FFN_UP,
	LLM_FFN_DOWN,
	LLM_SHARED_GATE, /* of the expert that all tokens have */
	LLM_SHARED_UP,
	LLM_SHARED_DOWN,
	LLM_NR_MATRICES,
	LLM_NR_PLAIN_MATRICES = LLM_SHARED_GATE, /* of llm_model_is_plain() */
};

/* "attn_q", ...: parts of the tensors' names, in models without experts. */
extern const char *const llm_matrix_names[LLM_NR_MATRICES];

/*
 * A file that llm-quantize has packed has the metadata "vnpu.panels" (LLM_PANELS_VERSION),
 * "vnpu.weights" (the weights that it is packed for) and "vnpu.tied" (whether the output matrix is
 * a copy of the embeddings). "blk.0.attn_q.panels", an I8 tensor of the panels' bytes (pack.h),
 * replaces "blk.0.attn_q.weight". Since version 2 an I8 tensor LLM_CHECKSUMS has the checksums
 * (checksum.h) of all such tensors, 8 bytes each, little-endian, in the order of the file. Since
 * version 3 the metadata LLM_FORMATS, an array of i32, has what each of them holds
 * (llm_format_number()); before, their sizes tell it.
 */
#define LLM_CHECKSUMS "vnpu.checksums"
#define LLM_FORMATS "vnpu.formats"
#define LLM_PANELS_VERSION 3
/* Metadata of a cache of panels, which is no model: the file that they are of (panels_file.h). */
#define LLM_PANELS_SOURCE "vnpu.source"
/* Of vnpu.weights: the layers' matrices are WK. */
#define LLM_PACKED_ADAPTIVE "adaptive"

/* A layer's weights. Vectors are widened copies, or NULL; matrices are in the mapped file. */
struct llm_layer {
	/* [n_embd]: before attention and FFN, with the biases of layer norms; and after them */
	float *attn_norm, *ffn_norm, *attn_norm_bias, *ffn_norm_bias;
	float *attn_post_norm, *ffn_post_norm;
	float *q_norm, *k_norm; /* [qk_norm_cols()] */
	/* NULL: an FFN without a gate has no gate matrix. Parts of fused tensors are in
	 * llm_model.parts. */
	const struct gguf_tensor *matrix[LLM_NR_MATRICES];
	enum llm_format format[LLM_NR_MATRICES]; /* of the matrices, if they are packed */
	uint8_t *bits[LLM_NR_MATRICES]; /* of WK: [rows], the width of each */
	float *bias[LLM_NR_MATRICES];
	float *router; /* [n_expert][n_embd], or NULL */
	float *shared_gate; /* [n_embd], of the shared expert, or NULL */
	bool local; /* attends to a window only, of llm_model.window */
	bool no_rope;
};

struct llm_model {
	const char *arch;
	unsigned int n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx_train;
	unsigned int q_dim, kv_dim; /* heads * head_dim */
	/*
	 * Experts of a layer, and of a token; 0: there are none. n_ff is that of one expert, and
	 * the FFN's matrices are stacks: expert e has rows e * r .. (e + 1) * r - 1 of each, where
	 * r is n_ff, or n_embd of the down projection.
	 */
	unsigned int n_expert, n_expert_used;
	unsigned int n_ff_shared; /* of the shared expert; 0: there is none */
	bool expert_norm; /* the weights of a token's experts are made to add up to 1 */
	float expert_scale; /* which they are multiplied by */
	const struct llm_arch *features;
	bool parallel; /* the FFN reads what attention reads */
	float eps, qk_eps; /* of norms of rows; of queries and keys */
	float embd_scale; /* of the embeddings; 1: none */
	float attn_scale, attn_cap; /* of scores; cap 0: none */
	float logit_scale, logit_cap; /* the scale is in the output norm; cap 0: none */
	unsigned int window; /* tokens that a local layer sees, its own included; 0: all */
	unsigned int rot_dim;
	/*
	 * [nr_freqs][rot_dim / 2]: those of most layers; of local layers, if they have their own;
	 * or of contexts longer than n_ctx_short: llm_model_freqs().
	 */
	float *inv_freq;
	unsigned int nr_freqs, n_ctx_short;
	const struct gguf_tensor *token_embd;
	const struct gguf_tensor *output; /* token_embd if the file has no output matrix */
	float *output_norm, *output_norm_bias; /* [n_embd] */
	float *output_bias; /* [n_vocab], or NULL */
	struct llm_layer *layers;
	/* Of fused tensors, and stacks as matrices, in the mapped file as they are. */
	struct gguf_tensor *parts;
	char packed[16]; /* vnpu.weights; "": not packed */
	enum llm_format output_format; /* if packed */
	const struct gguf_tensor *checksums; /* NULL: not packed, or by version 1 */
	uint64_t n_ctx_covered; /* at least n_ctx_train: as far as RoPE is extended */
	uint64_t n_params, file_bytes;
	uint64_t n_params_active; /* that a token meets: all but other tokens' experts */
};

/* Rows (outputs) and columns (inputs) of a layer's matrix; rows 0: the model has none. */
unsigned int llm_model_rows(const struct llm_model *model, enum llm_matrix which);
unsigned int llm_model_cols(const struct llm_model *model, enum llm_matrix which);
/* The name of a layer's matrix in files: "ffn_gate", or "ffn_gate_exps" of a stack. */
const char *llm_model_matrix_name(const struct llm_model *model, enum llm_matrix which);
/* Whether the matrix is a stack: of its rows a token meets those of its experts. */
bool llm_model_is_stack(const struct llm_model *model, enum llm_matrix which);

static inline bool llm_model_gated(const struct llm_model *model)
{
	return !model->features->no_gate;
}

/* The kinds of <npu/vnpu_isa.h>. */
uint32_t llm_model_act(const struct llm_model *model);
uint32_t llm_model_rope_mode(const struct llm_model *model);

/* Tokens that attention sees in a layer, its own included; 0: all. */
static inline unsigned int llm_model_window(const struct llm_model *model, unsigned int layer)
{
	return model->layers[layer].local ? model->window : 0;
}

/* Values of a norm of queries, or of the @keys: a head's, or a row's. */
unsigned int llm_model_qk_norm_cols(const struct llm_model *model, bool keys);
/* RoPE's frequencies in a layer of a session of @n_ctx tokens; NULL: the layer has no RoPE. */
const float *llm_model_freqs(const struct llm_model *model, unsigned int layer, unsigned int n_ctx);
/*
 * Whether its layers are llama's but for biases, norms of heads and RoPE, in tensors of their own,
 * and attend to all tokens: calibrations (shadow.h) know no others.
 */
bool llm_model_is_plain(const struct llm_model *model);

/* Reads and checks everything except the matrices' values. Returns 0, or -errno with the error
 * line; @path is for messages. The file must outlive the model. */
int llm_model_read(struct llm_model *model, const struct gguf_file *file, const char *path);
void llm_model_release(struct llm_model *model);
/*
 * Replaces the matrices of a model that is not packed by the panels of another file, which must
 * outlive it too. Everything else stays: vectors, embeddings and hyperparameters. -EINVAL or
 * -ENOTSUP with the error line if the file has not the panels of all of them, with checksums, or
 * -ENOMEM; the model is as it was then.
 */
int llm_model_use_panels(struct llm_model *model, const struct gguf_file *panels, const char *path);

/* The checksum of a packed matrix, of the file's tensor @t. False: the file has none. */
bool llm_model_checksum(const struct llm_model *model, const struct gguf_file *file,
			const struct gguf_tensor *t, uint64_t *sum);

/* Whether the tensor holds weights of other tensors once more: a calibrated file's shadow weights
 * (shadow.h), which count in no number of parameters. */
bool llm_model_is_copy(const struct gguf_file *file, const struct gguf_tensor *t);

/* "llama 5.8M Q8_0"; with experts "qwen2moe 14.3B.A2.7B Q8_0": also what a token meets of them. */
void llm_model_type(const struct llm_model *model, const struct gguf_file *file, char *type,
		    size_t bytes);

#endif /* MODEL_H */
