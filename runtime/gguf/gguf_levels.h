/* SPDX-License-Identifier: MIT */
/*
 * Block types whose values are products of a float for the block and two integers of 8 bits, one
 * for each value and one for each 16: the ternary types, those of 16 uneven levels, and those of
 * code books. Whatever a block's layout, it is taken apart into these.
 */
#ifndef GGUF_LEVELS_H
#define GGUF_LEVELS_H

#include "dequant.h"

#define GGUF_LEVELS_GROUP 16

/* Value i is unit * scale[i / 16] * numbers[i]: exact, but for products that overflow. */
struct gguf_levels {
	int8_t numbers[256];
	int8_t scale[256 / GGUF_LEVELS_GROUP];
	float unit;
};

/* Takes a block apart, of 256 values or of 32. */
typedef void (*gguf_levels_fn)(const uint8_t *block, struct gguf_levels *to);
/* NULL: the type is none of these. */
extern const gguf_levels_fn gguf_levels_of[GGUF_TYPES];

/* IQ4_NL's and IQ4_XS's levels, and twice those of MXFP4 (E2M1). */
extern const int8_t gguf_levels_iq4[16], gguf_levels_e2m1[16];
/* IQ4_XS's integer scales of 8 groups of 32; half of MXFP4's scale with exponent @e, 255 is NaN. */
void gguf_levels_iq4_xs_scales(const uint8_t *block, int8_t scale[8]);
float gguf_levels_e8m0_half(uint8_t e);

/* Of code books: gguf_levels_iq.c. */
void gguf_levels_iq1_s(const uint8_t *block, struct gguf_levels *to);
void gguf_levels_iq1_m(const uint8_t *block, struct gguf_levels *to);
void gguf_levels_iq2_xxs(const uint8_t *block, struct gguf_levels *to);
void gguf_levels_iq2_xs(const uint8_t *block, struct gguf_levels *to);
void gguf_levels_iq2_s(const uint8_t *block, struct gguf_levels *to);
void gguf_levels_iq3_xxs(const uint8_t *block, struct gguf_levels *to);
void gguf_levels_iq3_s(const uint8_t *block, struct gguf_levels *to);

#endif /* GGUF_LEVELS_H */
