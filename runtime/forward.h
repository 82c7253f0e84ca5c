/* SPDX-License-Identifier: MIT */
/* Forward passes: one chunk of at most info.chunk tokens. */
#ifndef FORWARD_H
#define FORWARD_H

#include "engine.h"

/* Tokens' rows of the embedding matrix to session->x. */
void llm_forward_embed(struct llm_session *s, const int32_t *ids, unsigned int n);

/* A block's matrix products over rows 0..n-1, at position @pos. Biases are added. */
struct llm_products {
	int (*qkv)(struct llm_session *s, unsigned int layer, unsigned int pos,
		   unsigned int n); /* xn -> q, k, V cache */
	int (*attn_output)(struct llm_session *s, unsigned int layer, unsigned int n); /* att -> y */
	int (*gate_up)(struct llm_session *s, unsigned int layer, unsigned int n); /* xn -> gate, up */
	int (*down)(struct llm_session *s, unsigned int layer, unsigned int n); /* gate -> y */
};

/* All blocks over session->x, in place; the float operators run on the CPU lane. 0 or a product's error. */
int llm_forward_blocks(struct llm_session *s, const struct llm_products *products, unsigned int pos, unsigned int n);

/* Rows of a matrix that a thread of the CPU lane widens at a time: a few thousand columns still fit its cache. */
#define LLM_PRODUCT_ROWS 16

/* Floats of scratch memory that each thread needs for a session of @n_ctx tokens. */
size_t llm_forward_scratch(const struct llm_engine *engine, unsigned int n_ctx);

/* One chunk, everything on the CPU. */
int llm_forward_cpu(struct llm_session *s, const int32_t *ids, unsigned int pos, unsigned int n, enum llm_want want);

/* One chunk with the NPU. */
int llm_npu_lane_create(struct llm_session *s);
void llm_npu_lane_free(struct llm_session *s);
int llm_forward_npu(struct llm_session *s, const int32_t *ids, unsigned int pos, unsigned int n, enum llm_want want);

#endif /* FORWARD_H */
