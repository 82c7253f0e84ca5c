/* SPDX-License-Identifier: MIT */
/*
 * The widening kernels of gguf_dequantize(): a table per instruction set, for its dispatch and the
 * tests.
 */
#ifndef DEQUANT_H
#define DEQUANT_H

#include "gguf.h"

#define GGUF_TYPES (GGUF_MXFP4 + 1)

/* Widens @n values, a multiple of the type's block, from @src (any alignment). */
typedef void (*dequant_fn)(const uint8_t *src, float *dst, size_t n);

extern const dequant_fn dequant_generic[GGUF_TYPES];
/* NULL where the generic kernel is as fast. Needs AVX2 and F16C; only defined on x86-64. */
dequant_fn dequant_avx2(enum gguf_type type);
/* The two halves of dequant_avx2()'s table: types of gguf_levels.h, and the others. */
extern const dequant_fn dequant_levels_avx2[GGUF_TYPES], dequant_plain_avx2[GGUF_TYPES];

/* One F16 to F32, exactly. */
float dequant_one_f16(const uint8_t *p);
/* Scales and offsets of the 8 groups of a Q4_K or Q5_K block. */
void dequant_k_scales(const uint8_t *src, float scale[8], float offset[8]);

#endif /* DEQUANT_H */
