// SPDX-License-Identifier: MIT
#include "ops.h"

#include <npu/vnpu_isa.h>

const char *llm_op_name(uint16_t op)
{
	static const char *const names[LLM_NR_TASK_KINDS] = {
		[LLM_OP_EMBED] = "embed",	[LLM_OP_ATTN_NORM] = "attn_norm",
		[LLM_OP_QKV] = "qkv",		[LLM_OP_ROPE] = "rope",
		[LLM_OP_ATTN] = "attn",		[LLM_OP_ATTN_OUTPUT] = "attn_output",
		[LLM_OP_FFN_NORM] = "ffn_norm", [LLM_OP_GATE_UP] = "gate_up",
		[LLM_OP_ACT] = "act",		[LLM_OP_DOWN] = "down",
		[LLM_OP_ADD] = "add",		[LLM_OP_OUTPUT_NORM] = "output_norm",
		[LLM_OP_HEAD] = "head",		[LLM_OP_EXPERTS] = "experts",
		[LLM_OP_WHOLE] = "whole",	[LLM_OP_BUILD] = "build",
		[LLM_OP_KEEP] = "keep",		[LLM_OP_LOGITS] = "logits",
		[LLM_OP_SHADOW] = "shadow",	[LLM_OP_MERGE] = "merge",
		[LLM_OP_READ] = "read",		[LLM_OP_PACK] = "pack",
		[LLM_OP_SCALE] = "scale",	[LLM_OP_ESTIMATE] = "estimate",
		[LLM_OP_SELECT] = "select",	[LLM_OP_BLOCK] = "block",
		[LLM_OP_LOAD] = "load",
	};

	return op < LLM_NR_TASK_KINDS ? names[op] : "?";
}

bool llm_op_matmul(const struct shape *s, enum llm_op op, uint64_t *k, uint64_t *n)
{
	uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;

	*k = op == LLM_OP_ATTN_OUTPUT ? q : op == LLM_OP_DOWN ? s->ffn : s->dim;
	switch (op) {
	case LLM_OP_QKV:
		*n = q + 2 * kv;
		return true;
	case LLM_OP_GATE_UP:
		*n = (uint64_t)s->ffn * (s->gated ? 2 : 1);
		return !s->experts;
	case LLM_OP_DOWN:
		*n = s->dim;
		return !s->experts;
	case LLM_OP_ATTN_OUTPUT:
		*n = s->dim;
		return true;
	case LLM_OP_HEAD:
		*n = s->vocab;
		return true;
	default:
		return false;
	}
}

double llm_weight_bits(enum llm_weights w)
{
	switch (w) {
	case LLM_WEIGHTS_F32:
		return 32;
	case LLM_WEIGHTS_F16:
		return 16;
	case LLM_WEIGHTS_W4A16:
	case LLM_WEIGHTS_W4A8:
		return 4;
	default:
		return 8;
	}
}

unsigned int llm_weight_group(enum llm_weights w)
{
	return llm_weights_4bit(w) || w == LLM_WEIGHTS_W8A8_GROUPS ? 32 : 0;
}

unsigned int llm_act_bits(enum llm_weights w)
{
	return w == LLM_WEIGHTS_F32 ? 32 : w == LLM_WEIGHTS_F16 || w == LLM_WEIGHTS_W4A16 ? 16 : 8;
}

enum llm_input llm_op_input(enum llm_weights w, enum llm_activations a, enum llm_op op)
{
	if (!llm_weights_integers(w))
		return LLM_INPUT_FLOATS;
	return llm_integer_input(a, op == LLM_OP_HEAD, op == LLM_OP_DOWN);
}

enum npu_time_order llm_operands_order(enum llm_operands operands)
{
	return operands == LLM_OPERANDS_PERMUTED ? NPU_TIME_WEIGHTS_STREAMED
						 : NPU_TIME_WEIGHTS_STATIONARY;
}

double llm_kv_bits(enum llm_kv kv)
{
	return kv == LLM_KV_Q8_0 ? VNPU_Q8_0_BYTES * 8.0 / VNPU_Q8_0_VALUES : FLOAT_BITS;
}

uint64_t llm_shape_weight_bytes(const struct shape *s, enum llm_weights weights)
{
	uint64_t matrices = shape_layer_weights(s) * s->layers + (uint64_t)s->dim * s->vocab;

	return (uint64_t)((double)matrices * llm_weight_bits(weights) / 8);
}

uint64_t llm_shape_adaptive_bytes(const struct shape *s, double bits)
{
	double layers = (double)shape_layer_weights(s) * s->layers;

	return (uint64_t)((layers * bits + (double)s->dim * s->vocab * 8) / 8);
}

uint64_t llm_shape_kv_bytes(const struct shape *s, uint32_t n_ctx, enum llm_kv kv)
{
	uint64_t values = (uint64_t)s->layers * n_ctx * 2 * s->kv_heads * s->head_dim;

	return (uint64_t)((double)values * llm_kv_bits(kv) / 8);
}
