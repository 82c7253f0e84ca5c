/* SPDX-License-Identifier: MIT */
/* What the activations of a product are rounded to, as the user's choice has it. */
#ifndef ACTIVATIONS_H
#define ACTIVATIONS_H

#include <stdbool.h>

#include "llm.h"

enum llm_input {
	LLM_INPUT_FLOATS, /* not at all */
	LLM_INPUT_INT8, /* a scale for each row */
	/* The same, with a row's outliers apart, as floats (VNPU_OP_QUANT_OUTLIERS). */
	LLM_INPUT_OUTLIERS,
	LLM_INPUT_INT16, /* two planes of INT8, a scale for each row of both (VNPU_OP_QUANT16) */
};

/* Where products are of integers: of the @head, of a @down projection, or of others. */
static inline enum llm_input llm_integer_input(enum llm_activations a, bool head, bool down)
{
	if (a == LLM_ACTIVATIONS_INT16 || (head && a != LLM_ACTIVATIONS_INT8))
		return LLM_INPUT_INT16;
	if (!down || a == LLM_ACTIVATIONS_INT8)
		return LLM_INPUT_INT8;
	return a == LLM_ACTIVATIONS_MIXED ? LLM_INPUT_INT16 : LLM_INPUT_OUTLIERS;
}

/* Planes that a row is in, and that are multiplied. */
static inline unsigned int llm_input_planes(enum llm_input input)
{
	return input == LLM_INPUT_INT16 ? 2 : 1;
}

#endif /* ACTIVATIONS_H */
