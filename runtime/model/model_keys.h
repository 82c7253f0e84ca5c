/* SPDX-License-Identifier: MIT */
/* The hyperparameters of a model: keys "<arch>.*" of its GGUF file. */
#ifndef MODEL_KEYS_H
#define MODEL_KEYS_H

#include "model.h"

struct llm_arch {
	const char *name;
	bool rope_halves;
	bool head_norms; /* attn_q_norm, attn_k_norm */
	bool needs_qkv_bias;
};

/* NULL, with -errno in *@err and the error line: the architecture is unknown. */
const struct llm_arch *llm_arch_find(const struct gguf_file *file, const char *path, int *err);

/* Fills in everything except tensors, n_vocab, and what rope_freqs.weight does to inv_freq. */
int llm_model_read_keys(struct llm_model *model, const struct llm_arch *arch,
			const struct gguf_file *file, const char *path);

#endif /* MODEL_KEYS_H */
