/* SPDX-License-Identifier: MIT */
/*
 * Blocks rewritten in the layout of another type, whose numbers the NPU multiplies:
 *
 *	TQ1_0, TQ2_0		Q2_K	with the same values: scales and minima of 1
 *	IQ3_S, IQ3_XXS		IQ4_XS	numbers are indices of the type's own 16 levels
 *	IQ2_XXS, _XS, _S	Q3_K	of 6 levels
 *	IQ1_S, IQ1_M		Q3_K	of 6 levels
 *	MXFP4			IQ4_NL	of 16 levels
 *
 * A value is d * scale * level, where the level is that of gguf_recast_levels(). The F16 scale d of
 * the new block is that of the old one or a part of it, rounded: exact for TQ and IQ3_S, for IQ1
 * and IQ2 from 2^-11 on, for IQ3_XXS from 2^-12 on, and for MXFP4 from exponent 104 on. One that is
 * too large becomes infinite.
 */
#ifndef GGUF_RECAST_H
#define GGUF_RECAST_H

#include "gguf.h"

/* The other type, whose blocks have as many values; @type itself if there is none. */
enum gguf_type gguf_recast_type(enum gguf_type type);
/* The levels of a number's indices, 16 or 8 of them; NULL: numbers are those of the other type. */
const int8_t *gguf_recast_levels(enum gguf_type type);
/* Rewrites @n values, a multiple of the block, of a type that has another one. */
void gguf_recast(enum gguf_type type, const void *src, void *dst, size_t n);

#endif /* GGUF_RECAST_H */
