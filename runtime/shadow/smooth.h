/* SPDX-License-Identifier: MIT */
/*
 * Smoothing (SmoothQuant, 4; EdgeFlow 4.1): a channel of an input is divided by a factor, and its
 * weights are multiplied with it, so that large activations become smaller at the cost of larger
 * weights.
 *
 * The division is folded into what makes the channel:
 *
 *	attn_qkv	the weights of attn_norm
 *	attn_output	the row of v, and its bias. The query heads of a KV head read the same row,
 *			so their channels have one factor.
 *	ffn_gate_up	the weights of ffn_norm
 *	ffn_down	the row of up, and its bias: act = silu(gate) * up
 *
 * Rows of q and k have no factors: they meet only each other, behind RoPE, which mixes pairs of
 * them, and no matmul with weights reads them. Rows of gate have none since silu is not linear.
 */
#ifndef SMOOTH_H
#define SMOOTH_H

#include <stdbool.h>

#include "model.h"
#include "shadow_stats.h"

struct shadow_smooth {
	unsigned int n_layer;
	float **factors; /* [n_layer][SHADOW_INPUTS], each [k]; NULL: no smoothing */
	float **v_rows; /* [n_layer], each [kv_dim]: those of attn_output by v's rows */
	double *alphas; /* [n_layer][SHADOW_INPUTS]: the exponents that were used */
};

/*
 * Sets the factors max|x|^alpha / max|w|^(1 - alpha), where x is all that @stats has seen of a
 * channel and w all weights that read it; 1 where either is 0 or the factor would be no normal
 * number. 0, or -errno with the error line and nothing to free.
 */
int shadow_smooth_create(struct shadow_smooth *sm, const struct llm_model *model,
			 const struct shadow_stats *stats, double alpha);
/* What factors are searched for. */
struct shadow_search {
	double bits; /* average width of the weights (adaptive.h), 1..8 */
	bool floats; /* activations are floats; else INT8, one scale for their largest value */
};
/*
 * Sets the factors max|x|^alpha, divided by their geometric mean, with the alpha of 0, 0.05, ... 1
 * for each input that loses least (EdgeFlow 4.1), by 128 rows of each matrix. 0, or -errno with the
 * error line and nothing to free: -EINVAL for bits out of range.
 */
int shadow_smooth_search(struct shadow_smooth *sm, const struct llm_model *model,
			 const struct shadow_stats *stats, const struct shadow_search *aim);
/* Factors that are all 0, for the caller to set. 0 or -ENOMEM with the error line. */
int shadow_smooth_alloc(struct shadow_smooth *sm, const struct llm_model *model);
void shadow_smooth_free(struct shadow_smooth *sm);

/* What a tensor's values are multiplied with by column, and divided by by row; NULL: nothing. */
struct shadow_fold {
	const float *in; /* [cols] */
	const float *out; /* [rows]; of a vector: [n] */
};
struct shadow_fold shadow_fold_matrix(const struct shadow_smooth *sm, unsigned int layer,
				      enum llm_matrix which);
/* By a tensor's name in a file that is not packed. */
struct shadow_fold shadow_fold_tensor(const struct shadow_smooth *sm, const char *name);
/* Applies it to @n values of a tensor, from value @first on; @cols: of its rows, 1: a vector. */
void shadow_fold_values(const struct shadow_fold *fold, uint64_t cols, uint64_t first, float *v,
			size_t n);

#endif /* SMOOTH_H */
