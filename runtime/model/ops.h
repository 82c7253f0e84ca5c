/* SPDX-License-Identifier: MIT */
/*
 * The operators of a forward pass, in the order in which a chunk of tokens goes through
 * them: what they multiply, and in what types. Everything above (cuts, lanes, plans) names
 * an operator by this list.
 */
#ifndef OPS_H
#define OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "activations.h"
#include "llm.h"
#include "shape.h"

enum llm_op {
	LLM_OP_EMBED, /* token ids -> x */
	LLM_OP_ATTN_NORM, /* x -> xn */
	LLM_OP_QKV, /* xn -> q, k, v */
	LLM_OP_ROPE, /* q, k in place; K and V to the cache */
	LLM_OP_ATTN, /* q, cache -> att */
	LLM_OP_ATTN_OUTPUT, /* att -> y */
	LLM_OP_FFN_NORM, /* x += y; x -> xn */
	LLM_OP_GATE_UP, /* xn -> gate, up */
	LLM_OP_ACT, /* silu(gate) * up -> gate */
	LLM_OP_DOWN, /* gate -> y */
	LLM_OP_ADD, /* x += y */
	LLM_OP_OUTPUT_NORM, /* x -> xn, of the rows whose logits are wanted */
	LLM_OP_HEAD, /* xn -> logits */
	LLM_NR_OPS,
	/* Tasks of a plan that are no operators: */
	LLM_OP_WHOLE = LLM_NR_OPS, /* everything after LLM_OP_EMBED, as one program of the NPU */
	LLM_OP_BUILD, /* the graphs of a prompt's length are made (LLM_GRAPHS_ONLINE) */
	LLM_OP_LOGITS, /* a block of logits is handed to who wants all of them */
	LLM_NR_TASK_KINDS,
};
const char *llm_op_name(uint16_t op); /* "embed", "attn_norm", ... "logits" */

/*
 * The weights [*@k][*@n] of a layer's matmuls, and of the head's; false: @op
 * multiplies with no weights.
 */
bool llm_op_matmul(const struct shape *shape, enum llm_op op, uint64_t *k, uint64_t *n);

/* What the activations of the matmul @op are rounded to. */
enum llm_input llm_op_input(enum llm_weights w, enum llm_activations a, enum llm_op op);
/* Of a cached value; the modelled SoC keeps F32 as F16, as all floats. */
double llm_kv_bits(enum llm_kv kv);

/*
 * Bytes that the model takes in the SoC's memory: packed weights, and the cache of @n_ctx tokens.
 */
uint64_t llm_shape_weight_bytes(const struct shape *shape, enum llm_weights weights);
uint64_t llm_shape_kv_bytes(const struct shape *shape, uint32_t n_ctx, enum llm_kv kv);

#endif /* OPS_H */
