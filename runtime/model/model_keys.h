/* SPDX-License-Identifier: MIT */
/* The hyperparameters of a model: keys "<arch>.*" of its GGUF file. */
#ifndef MODEL_KEYS_H
#define MODEL_KEYS_H

#include "model.h"

/* What the keys "rope.*" say, until the tensors with factors are there (model_rope.c). */
struct llm_rope {
	double base, factor; /* factor: of positions */
	double magnitude; /* of rotated queries and keys */
	bool yarn;
	double beta_fast, beta_slow; /* of yarn */
	unsigned int n_ctx_orig; /* that the model was trained for before it was extended */
};

/* Fills in everything except tensors, n_vocab and inv_freq. */
int llm_model_read_keys(struct llm_model *model, const struct llm_arch *arch,
			const struct gguf_file *file, const char *path, struct llm_rope *rope);
/*
 * Makes inv_freq. @factors, [rot_dim / 2], divide the frequencies; @far: those of long contexts;
 * NULL: none. 0 or -ENOMEM with the error line.
 */
int llm_model_make_freqs(struct llm_model *model, const struct llm_rope *rope, const float *factors,
			 const float *far, const char *path);

#endif /* MODEL_KEYS_H */
