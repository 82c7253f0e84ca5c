/* SPDX-License-Identifier: MIT */
/*
 * Block types whose values are a scale times an integer of 8 bits, with a scale for each 16: the
 * ternary types, those of 16 uneven levels, and those of code books. Whatever a block's layout, it
 * is taken apart into these two.
 */
#ifndef GGUF_LEVELS_H
#define GGUF_LEVELS_H

#include "dequant.h"

#define GGUF_LEVELS_GROUP 16

/* The integers [block] and scales [block / 16] of a block. */
typedef void (*gguf_levels_fn)(const uint8_t *block, int8_t *numbers, float *scale);
/* NULL: the type is none of these. Their products are exact, but for those that overflow. */
extern const gguf_levels_fn gguf_levels[GGUF_TYPES];

/* IQ4_NL's and IQ4_XS's levels, and twice those of MXFP4 (E2M1). */
extern const int8_t gguf_levels_iq4[16], gguf_levels_e2m1[16];
/* The scales of IQ4_XS's 8 groups of 32, and MXFP4's with exponent @e, halved; 255 is NaN. */
void gguf_levels_iq4_xs_scales(const uint8_t *block, float scale[8]);
float gguf_levels_e8m0_half(uint8_t e);

/* Of code books: gguf_levels_iq.c. */
void gguf_levels_iq1_s(const uint8_t *block, int8_t *numbers, float *scale);
void gguf_levels_iq1_m(const uint8_t *block, int8_t *numbers, float *scale);
void gguf_levels_iq2_xxs(const uint8_t *block, int8_t *numbers, float *scale);
void gguf_levels_iq2_xs(const uint8_t *block, int8_t *numbers, float *scale);
void gguf_levels_iq2_s(const uint8_t *block, int8_t *numbers, float *scale);
void gguf_levels_iq3_xxs(const uint8_t *block, int8_t *numbers, float *scale);
void gguf_levels_iq3_s(const uint8_t *block, int8_t *numbers, float *scale);

#endif /* GGUF_LEVELS_H */
