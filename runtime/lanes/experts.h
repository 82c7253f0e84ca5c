/* SPDX-License-Identifier: MIT */
/*
 * Mixture of experts, on the CPU lane (LLM_OP_EXPERTS). A router, of F32, gives each expert a logit
 * for a token; with p = softmax of all of them, the token's experts are those of the greatest p:
 *
 *	y = sum of w_e FFN_e(xn)	w_e = p_e, or p_e / sum of the p of the token's experts
 *	  + s FFN_shared(xn)		s = 1 / (1 + exp(-g . xn)), in models with a shared expert
 *
 * (Shazeer et al. 2017, "Outrageously large neural networks", section 2; the forms of Mixtral,
 * Qwen1.5-MoE and Qwen3-MoE.)
 *
 * The rows of each expert are gathered, so its matrices are read once for a chunk, and not at all
 * where no token chose it. A token's experts are added in the order of its ranking: its result has
 * the same bits whatever other tokens are in the pass.
 */
#ifndef EXPERTS_H
#define EXPERTS_H

#include "lane.h"

/*
 * Ranks a token's experts: @experts [@used], the greatest of @logits [@n] first, of equal ones the
 * lower, NaNs last; and their weights [@used], which add up to @scale if @norm.
 */
void lane_route(const float *logits, unsigned int n, unsigned int used, bool norm, float scale,
		uint32_t *experts, float *weights);

/* Sets memory.experts, if the model has experts. 0, or -ENOMEM with the error line. */
int lane_experts_init(struct lane_memory *m);
void lane_experts_fini(struct lane_memory *m);
/* Bytes of it for @rows rows of activations; 0: the shape has no experts. */
uint64_t lane_experts_bytes(const struct shape *shape, unsigned int rows);

/* Computes a layer's for a chunk: xn -> y. 0, or -ENOMEM with the error line. */
int lane_cpu_experts(struct lane_memory *m, const struct lane_call *call);

#endif /* EXPERTS_H */
