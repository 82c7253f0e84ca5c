/* SPDX-License-Identifier: MIT */
/* Forward passes: one chunk of at most info.chunk tokens. */
#ifndef FORWARD_H
#define FORWARD_H

#include "engine.h"
#include "plan.h"

/* Tokens' rows of the embedding matrix to session->x. */
void llm_forward_embed(struct llm_session *s, const int32_t *ids, unsigned int n);

/* A block's matrix products over rows 0..n-1, at position @pos, biases added; and the logits that are wanted. */
struct llm_products {
	int (*qkv)(struct llm_session *s, unsigned int layer, unsigned int pos,
		   unsigned int n); /* xn -> q, k, V cache */
	int (*attn_output)(struct llm_session *s, unsigned int layer, unsigned int n); /* att -> y */
	int (*gate_up)(struct llm_session *s, unsigned int layer, unsigned int n); /* xn -> gate, up */
	int (*down)(struct llm_session *s, unsigned int layer, unsigned int n); /* gate -> y */
	int (*head)(struct llm_session *s, unsigned int n, enum llm_want want); /* x -> logits, with the norm */
	/* In place of all of them: a job that does everything after the embedding. */
	int (*whole)(struct llm_session *s, unsigned int pos, unsigned int n, enum llm_want want);
};

/* One chunk's way through the model. */
struct llm_pass {
	struct llm_session *s;
	const struct llm_products *products;
	const int32_t *ids;
	unsigned int pos, n;
	enum llm_want want;
};

/* One operator of the pass; they come in the order of enum plan_op, those of a layer after those of the one before, and
 * PLAN_WHOLE in place of all after PLAN_EMBED where the products have it. The float ones run on the CPU lane. 0 or a
 * product's error. */
int llm_forward_step(const struct llm_pass *pass, enum plan_op op, unsigned int layer);

struct shape llm_forward_shape(const struct llm_model *m);

/* All of them: a plan of tasks (plan.h), which the scheduler runs under the engine's clock. Tells the session's listener.
 * On the virtual clock, adds what they take on the engine's profile to the session's stats. */
int llm_forward(const struct llm_pass *pass);
void llm_forward_free(struct llm_session *s);

/* A row of K or V to a cache, as the engine's type. */
void llm_forward_store(const struct llm_session *s, void *row, const float *x);

/* Rows of a matrix that a thread of the CPU lane widens at a time: a few thousand columns still fit its cache. */
#define LLM_PRODUCT_ROWS 16

/* Floats of scratch memory that each thread needs. */
size_t llm_forward_scratch(const struct llm_engine *engine);

/* How a chunk of @n tokens is computed: everything on the CPU, or with the NPU. */
extern const struct llm_products llm_forward_cpu_products;
int llm_npu_lane_create(struct llm_session *s);
void llm_npu_lane_free(struct llm_session *s);
/* Chooses the graphs for the pass that comes next, and makes them if they are not yet there. 0 or -errno. */
int llm_forward_npu_products(struct llm_session *s, unsigned int n, const struct llm_products **products);
/* Rows of the graphs chosen last, for @n tokens. */
unsigned int llm_forward_npu_rows(const struct llm_session *s, unsigned int n);

#endif /* FORWARD_H */
