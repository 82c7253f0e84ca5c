// SPDX-License-Identifier: MIT
/* GGUF's tensor types: their names and sizes. */
#include "gguf.h"

static const struct gguf_type_traits type_traits[] = {
	[GGUF_F32] = { "F32", 1, 4 },
	[GGUF_F16] = { "F16", 1, 2 },
	[GGUF_Q4_0] = { "Q4_0", 32, 18 },
	[GGUF_Q4_1] = { "Q4_1", 32, 20 },
	[GGUF_Q5_0] = { "Q5_0", 32, 22 },
	[GGUF_Q5_1] = { "Q5_1", 32, 24 },
	[GGUF_Q8_0] = { "Q8_0", 32, 34 },
	[GGUF_Q2_K] = { "Q2_K", 256, 84 },
	[GGUF_Q3_K] = { "Q3_K", 256, 110 },
	[GGUF_Q4_K] = { "Q4_K", 256, 144 },
	[GGUF_Q5_K] = { "Q5_K", 256, 176 },
	[GGUF_Q6_K] = { "Q6_K", 256, 210 },
	[GGUF_IQ2_XXS] = { "IQ2_XXS", 256, 66 },
	[GGUF_IQ2_XS] = { "IQ2_XS", 256, 74 },
	[GGUF_IQ3_XXS] = { "IQ3_XXS", 256, 98 },
	[GGUF_IQ1_S] = { "IQ1_S", 256, 50 },
	[GGUF_IQ4_NL] = { "IQ4_NL", 32, 18 },
	[GGUF_IQ3_S] = { "IQ3_S", 256, 110 },
	[GGUF_IQ2_S] = { "IQ2_S", 256, 82 },
	[GGUF_IQ4_XS] = { "IQ4_XS", 256, 136 },
	[GGUF_I8] = { "I8", 1, 1 },
	[GGUF_IQ1_M] = { "IQ1_M", 256, 56 },
	[GGUF_BF16] = { "BF16", 1, 2 },
	[GGUF_TQ1_0] = { "TQ1_0", 256, 54 },
	[GGUF_TQ2_0] = { "TQ2_0", 256, 66 },
	[GGUF_MXFP4] = { "MXFP4", 32, 17 },
};

/* The others, of llama.cpp's enum ggml_type. Q8_1 and Q8_K are of activations, never of a file. */
static const struct {
	const char *name;
	bool removed;
} other_types[] = {
	[4] = { "Q4_2", true },	       [5] = { "Q4_3", true },	      [9] = { "Q8_1", false },
	[15] = { "Q8_K", false },      [25] = { "I16", false },	      [26] = { "I32", false },
	[27] = { "I64", false },       [28] = { "F64", false },	      [31] = { "Q4_0_4_4", true },
	[32] = { "Q4_0_4_8", true },   [33] = { "Q4_0_8_8", true },   [36] = { "IQ4_NL_4_4", true },
	[37] = { "IQ4_NL_4_8", true }, [38] = { "IQ4_NL_8_8", true }, [40] = { "NVFP4", false },
	[41] = { "Q1_0", false },      [42] = { "Q2_0", false },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const struct gguf_type_traits *gguf_type_traits(enum gguf_type type)
{
	if ((unsigned int)type >= COUNT(type_traits) || !type_traits[type].name)
		return NULL;
	return &type_traits[type];
}

const char *gguf_type_name(uint32_t number)
{
	const struct gguf_type_traits *traits = gguf_type_traits((enum gguf_type)number);

	if (traits)
		return traits->name;
	return number < COUNT(other_types) ? other_types[number].name : NULL;
}

bool gguf_type_is_removed(uint32_t number)
{
	return number < COUNT(other_types) && other_types[number].removed;
}
