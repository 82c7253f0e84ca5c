/* SPDX-License-Identifier: MIT */
/*
 * Narrowing of F32 to GGUF's tensor types: the way back of gguf_dequantize().
 *
 * Each block is rounded by itself, without a search for better scales, as
 * llama.cpp makes these types:
 *
 *	F16	round to nearest, ties to even
 *	Q8_0	d = max|x| / 127;			q = x / d rounded to
 *							nearest, ties away from zero
 *	Q4_0	d = (the x of greatest magnitude) / -8,	q = min(15, floor(x / d + 8.5))
 *		the first of several
 *
 * d is stored as F16, q is taken with the d before that rounding. x / d is x times the rounded
 * reciprocal of d. A block whose d rounds to zero as F16 widens to zeros whatever its q; they
 * are then those of zeros.
 */
#ifndef GGUF_QUANTIZE_H
#define GGUF_QUANTIZE_H

#include "dequant.h"

/* The numbers of general.file_type; there is none for a type that gguf_quantize() does not make. */
enum gguf_file_type {
	GGUF_FILE_F32 = 0,
	GGUF_FILE_F16 = 1,
	GGUF_FILE_Q4_0 = 2,
	GGUF_FILE_Q8_0 = 7,
};

/*
 * Narrows @n values, a multiple of the block of @type (F32, F16, Q8_0 or Q4_0), into @dst (any
 * alignment). False if one of them is not finite or too great: F16's values end at 65504, Q8_0's at
 * 127 times and Q4_0's at 8 times as much. @dst is undefined then.
 */
bool gguf_quantize(enum gguf_type type, const float *src, void *dst, size_t n);

/*
 * For the tests: the kernels behind it. NULL: none of that type, or none that is
 * faster than the portable one.
 */
typedef bool (*quantize_fn)(const float *src, uint8_t *dst, size_t n);
extern const quantize_fn quantize_generic[GGUF_TYPES];
/* Needs AVX2 and F16C; not there on other architectures. */
extern const quantize_fn quantize_avx2[GGUF_TYPES];

#endif /* GGUF_QUANTIZE_H */
