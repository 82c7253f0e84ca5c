/* SPDX-License-Identifier: MIT */
/* What the choice of activations rounds the input of each matmul to. */
#ifndef ACTIVATIONS_H
#define ACTIVATIONS_H

#include <stdbool.h>

#include "llm.h"

enum llm_input {
	LLM_INPUT_FLOATS, /* not rounded */
	LLM_INPUT_INT8, /* a scale per row */
	/* INT8, and a row's outliers separately as floats (VNPU_OP_QUANT_OUTLIERS) */
	LLM_INPUT_OUTLIERS,
	LLM_INPUT_INT16, /* two planes of INT8, a scale per row of each (VNPU_OP_QUANT16) */
	LLM_INPUT_STATIC, /* INT8, one scale for all rows (VNPU_OP_QUANT_STATIC) */
};

/* The choice for a part of a @prompt, or for a single token: only prompts have static scales. */
static inline enum llm_activations llm_activations_of(enum llm_activations a, bool prompt)
{
	return llm_activations_static(a) && !prompt ? LLM_ACTIVATIONS_ROW_OUTLIERS : a;
}

/* The input of an integer matmul: the output matrix (@head), a @down projection, or another one. */
static inline enum llm_input llm_integer_input(enum llm_activations a, bool head, bool down)
{
	if (a == LLM_ACTIVATIONS_INT16 || (head && a != LLM_ACTIVATIONS_INT8))
		return LLM_INPUT_INT16;
	if (llm_activations_static(a))
		return LLM_INPUT_STATIC;
	if (a == LLM_ACTIVATIONS_ROW_OUTLIERS_ALL)
		return LLM_INPUT_OUTLIERS;
	if (!down || a == LLM_ACTIVATIONS_INT8)
		return LLM_INPUT_INT8;
	return a == LLM_ACTIVATIONS_MIXED ? LLM_INPUT_INT16 : LLM_INPUT_OUTLIERS;
}

/* Planes per row, each of which the matmul multiplies. */
static inline unsigned int llm_input_planes(enum llm_input input)
{
	return input == LLM_INPUT_INT16 ? 2 : 1;
}

#endif /* ACTIVATIONS_H */
