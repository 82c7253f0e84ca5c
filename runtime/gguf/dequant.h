/* SPDX-License-Identifier: MIT */
/*
 * The widening kernels of gguf_dequantize(): a table per instruction set, for its dispatch and the
 * tests.
 */
#ifndef DEQUANT_H
#define DEQUANT_H

#include "gguf.h"

#define GGUF_TYPES (GGUF_BF16 + 1)

/* Widens @n values, a multiple of the type's block, from @src (any alignment). */
typedef void (*dequant_fn)(const uint8_t *src, float *dst, size_t n);

extern const dequant_fn dequant_generic[GGUF_TYPES];
/* NULL where the generic kernel is as fast. Needs AVX2 and F16C; only defined on x86-64. */
extern const dequant_fn dequant_avx2[GGUF_TYPES];

/* Scales and offsets of the 8 groups of a Q4_K or Q5_K block. */
void dequant_k_scales(const uint8_t *src, float scale[8], float offset[8]);

#endif /* DEQUANT_H */
