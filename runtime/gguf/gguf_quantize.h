/* SPDX-License-Identifier: MIT */
/*
 * Narrowing of F32 to GGUF's tensor types: the inverse of gguf_dequantize().
 *
 * Each block is rounded on its own. Those of 32 values, but for IQ4_NL, have no search for better
 * scales, as in llama.cpp:
 *
 *	F16	round to nearest, ties to even
 *	Q8_0	d = max|x| / 127;			q = x / d rounded to
 *							nearest, ties away from zero
 *	Q4_0	d = (the x of greatest magnitude) / -8,	q = min(15, floor(x / d + 8.5))
 *		the first of several
 *	Q5_0	the same with -16,			q = min(31, floor(x / d + 16.5))
 *	Q4_1	m = min x, d = (max x - m) / 15;	q = min(15, floor((x - m) / d + 0.5))
 *	Q5_1	the same with 31
 *
 * d and m are stored as F16, but q is computed with the unrounded ones. x / d is x times the
 * rounded reciprocal of d. If d rounds to zero as F16, the block widens to zeros, or to m, and its
 * q are those of zeros, or 0.
 *
 * Q2_K to Q6_K and IQ4_NL have scales and minima that are searched for the least error. A value's
 * squared error weighs importance * sqrt(x^2 + mean x^2 of its block), so that large weights, which
 * are few, are met well; importance is what the value's input channel has, or 1. In a group with a
 * scale of its own whose channels all have 0, it is 1.
 */
#ifndef GGUF_QUANTIZE_H
#define GGUF_QUANTIZE_H

#include "dequant.h"

/* Values of general.file_type, for the types that gguf_quantize() makes. */
enum gguf_file_type {
	GGUF_FILE_F32 = 0,
	GGUF_FILE_F16 = 1,
	GGUF_FILE_Q4_0 = 2,
	GGUF_FILE_Q4_1 = 3,
	GGUF_FILE_Q8_0 = 7,
	GGUF_FILE_Q5_0 = 8,
	GGUF_FILE_Q5_1 = 9,
	GGUF_FILE_Q2_K = 10,
	GGUF_FILE_Q3_K_S = 11,
	GGUF_FILE_Q3_K_M = 12,
	GGUF_FILE_Q3_K_L = 13,
	GGUF_FILE_Q4_K_S = 14,
	GGUF_FILE_Q4_K_M = 15,
	GGUF_FILE_Q5_K_S = 16,
	GGUF_FILE_Q5_K_M = 17,
	GGUF_FILE_Q6_K = 18,
	GGUF_FILE_Q2_K_S = 21,
	GGUF_FILE_IQ4_NL = 25,
};

/*
 * Whether gguf_quantize() makes @type: F32, F16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0, IQ4_NL and Q2_K to
 * Q6_K. gguf_searches(): those whose scales are searched.
 */
bool gguf_quantizes(enum gguf_type type);
bool gguf_searches(enum gguf_type type);

/*
 * Narrows @n values, a multiple of the block of @type, into @dst (any alignment). False, and @dst
 * is undefined, if a value is not finite or too great: the limit is 65504 for F16 and for what Q4_1
 * and Q5_1 store, 127 times that for Q8_0, 16 times for Q5_0, and 8 times for Q4_0.
 */
bool gguf_quantize(enum gguf_type type, const float *src, void *dst, size_t n);

/* The same for a type that gguf_searches(); @importance [n], none negative, or NULL. */
bool gguf_quantize_searched(enum gguf_type type, const float *src, const float *importance,
			    void *dst, size_t n);

/* The kernels of gguf_quantize(), for tests. NULL: no kernel, as for types that gguf_searches(), or
 * not faster than generic. */
typedef bool (*quantize_fn)(const float *src, uint8_t *dst, size_t n);
extern const quantize_fn quantize_generic[GGUF_TYPES];
/* Needs AVX2 and F16C; only defined on x86-64. */
extern const quantize_fn quantize_avx2[GGUF_TYPES];

#endif /* GGUF_QUANTIZE_H */
