/* SPDX-License-Identifier: MIT */
/*
 * Architectures: what a decoder-only transformer of each name in "general.architecture" computes,
 * as a row of features. The reader of models and all lanes go by the features, never by a name.
 *
 * The names, keys and tensors are those that llama.cpp's converters write; phonelm alone has no
 * form there, and has the one that llama's would give it. docs/models.md has the table.
 */
#ifndef ARCH_H
#define ARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "gguf.h"
#include "shape.h"

/* Where a layer normalises: what attention and FFN read, what they add to the residual, or both. */
enum llm_norms {
	LLM_NORMS_BEFORE,
	LLM_NORMS_AFTER,
	LLM_NORMS_BOTH,
};

/* Norms of queries and keys before RoPE: none, of each head, or of all heads together. */
enum llm_qk_norms {
	LLM_QK_NORMS_NONE,
	LLM_QK_NORMS_HEAD,
	LLM_QK_NORMS_ROW,
};

/*
 * Whether the FFN is a mixture of experts: never; in files that say so; always, with weights of a
 * token's experts that add up to 1; or always, with weights as the router has them, and one more
 * expert for all tokens.
 */
enum llm_experts {
	LLM_EXPERTS_NEVER,
	LLM_EXPERTS_MAYBE,
	LLM_EXPERTS_ALWAYS,
	LLM_EXPERTS_SHARED,
};

struct llm_arch {
	const char *name;
	enum llm_norms norms;
	bool layer_norm; /* norms of rows subtract the mean, and have a bias; else RMS norms */
	/* Without ffn_norm the FFN reads what attention reads, and both add to the same residual:
	 * a file may be such, or has to be. */
	bool may_be_parallel, is_parallel;
	enum llm_qk_norms qk_norms;
	enum llm_experts experts;
	enum shape_activation activation;
	bool no_gate; /* down(act(up x)), else down(act(gate x) * up x) */
	bool rope_halves; /* RoPE rotates pairs (i, i + rot_dim / 2), else (2i, 2i + 1) */
	unsigned int no_rope_step; /* each such layer has no RoPE; 0: all have it */
	bool needs_qkv_bias, output_bias; /* the latter is optional, as all other biases are */
	bool fused_qkv; /* "attn_qkv": the rows of q, k and v */
	bool fused_gate_up; /* "ffn_up": the rows of gate and up */
	bool embd_root; /* embeddings are multiplied by the root of their length */
	bool scales; /* keys embedding_scale, residual_scale, attention.scale, logit_scale */
	/* Of files without keys for the soft caps of scores and logits; 0: the architecture has no
	 * such keys. */
	double attn_cap, logit_cap;
	/* Models of so many layers scale scores by the root of n_embd / n_head, others by that of
	 * head_dim. */
	unsigned int embd_scale_layers;
	unsigned int window; /* of files without a key for it; 0: none */
	/* Of so many layers all but the last attend to a window only; 0: with a window all do. */
	unsigned int window_step;
	double window_rope_base; /* RoPE of layers with a window; 0: as the others' */
};

/* NULL, with -errno in *@err and the error line: the architecture is unknown. */
const struct llm_arch *llm_arch_find(const struct gguf_file *file, const char *path, int *err);
/* The architecture called @name; NULL: there is none. */
const struct llm_arch *llm_arch_named(const char *name, size_t bytes);
/* The names of all, separated by commas, for messages and help. */
const char *llm_arch_names(void);

#endif /* ARCH_H */
