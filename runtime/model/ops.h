/* SPDX-License-Identifier: MIT */
/*
 * The operators of a forward pass, in the order of execution, with the dimensions and types of
 * their matmuls. Cuts, lanes and plans name operators by this list.
 */
#ifndef OPS_H
#define OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "activations.h"
#include "llm.h"
#include "npu_time.h"
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
	LLM_OP_OUTPUT_NORM, /* x -> xn, for the rows whose logits are wanted */
	LLM_OP_HEAD, /* xn -> logits */
	/* xn -> y: in layers with experts, in place of GATE_UP, ACT and DOWN */
	LLM_OP_EXPERTS,
	LLM_NR_OPS,
	/* Tasks of a plan that are no operators: */
	LLM_OP_WHOLE = LLM_NR_OPS, /* everything after LLM_OP_EMBED, as one program of the NPU */
	LLM_OP_BUILD, /* makes the graphs of a prompt's length (LLM_GRAPHS_ONLINE) */
	LLM_OP_KEEP, /* keeps what the last layer reads of chosen tokens (LANE_CHOSEN) */
	LLM_OP_LOGITS, /* passes a block of logits to the caller who wants all of them */
	/* Shadow outliers of a matmul's input (shadow.h): multiplies them on the CPU, beside the
	 * matmul; and adds the result to the matmul's */
	LLM_OP_SHADOW,
	LLM_OP_MERGE,
	/* A piece of the weights in a cold start (start.h): reads it, and packs it for the NPU */
	LLM_OP_READ,
	LLM_OP_PACK,
	/*
	 * Attention that is not full (shadowAttn 3.2), before LLM_OP_ATTN: finds the scales of a
	 * chunk's queries and keys, and quantises the keys; estimates the scores of some heads;
	 * selects their keys.
	 */
	LLM_OP_SCALE,
	LLM_OP_ESTIMATE,
	LLM_OP_SELECT,
	/* Choice switching: a block of layers, as one program of the NPU; and its graph for
	 * decoding, which is loaded */
	LLM_OP_BLOCK,
	LLM_OP_LOAD,
	LLM_NR_TASK_KINDS,
};
const char *llm_op_name(uint16_t op); /* "embed", "attn_norm", ... "load" */

/* The weights [*@k][*@n] of @op, which include the output matrix. False: @op is no matmul, or is of
 * the FFN of a shape with experts, whose matmuls are inside LLM_OP_EXPERTS. */
bool llm_op_matmul(const struct shape *shape, enum llm_op op, uint64_t *k, uint64_t *n);

/* Of a matmul's weights: bits of each, and values along k with one scale; group 0: all. */
struct llm_width {
	double bits;
	unsigned int group;
};
static inline struct llm_width llm_weights_width(enum llm_weights w)
{
	return (struct llm_width){ llm_weight_bits(w), llm_weight_group(w) };
}

/* What the input of the matmul @op is rounded to. */
enum llm_input llm_op_input(enum llm_weights w, enum llm_activations a, enum llm_op op);
/* The order in which the modelled NPU takes a matmul's operands; @operands is settled. */
enum npu_time_order llm_operands_order(enum llm_operands operands);
/* Bits per cached value; the modelled SoC stores F32 as F16, like all floats. */
double llm_kv_bits(enum llm_kv kv);

/* Bytes in the modelled SoC's memory of the packed weights, and of a KV cache of @n_ctx tokens. */
uint64_t llm_shape_weight_bytes(const struct shape *shape, enum llm_weights weights);
/* The same of weights adaptive, of @bits on average but 8 of the output matrix. */
uint64_t llm_shape_adaptive_bytes(const struct shape *shape, double bits);
uint64_t llm_shape_kv_bytes(const struct shape *shape, uint32_t n_ctx, enum llm_kv kv);

#endif /* OPS_H */
