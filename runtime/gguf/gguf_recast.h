/* SPDX-License-Identifier: MIT */
/*
 * Blocks rewritten in another type that holds the same values, with evenly spaced numbers of at
 * most 6 bits, which the NPU multiplies as they are:
 *
 *	TQ1_0, TQ2_0	Q2_K	scales and minima of 1
 *	IQ1_S, IQ3_S	Q5_K	minima that make the numbers signed
 *	IQ1_M, IQ3_XXS	Q6_K
 *	MXFP4		Q5_0
 *
 * The F16 scale of the new block is that of the old one or a part of it, rounded: exact for TQ and
 * IQ3_S, for IQ1 from 2^-11 on, for IQ3_XXS from 2^-13 on, and for MXFP4 from exponent 104 on. One
 * that is too large becomes infinite.
 */
#ifndef GGUF_RECAST_H
#define GGUF_RECAST_H

#include "gguf.h"

/* The other type, whose blocks have as many values; @type itself if there is none. */
enum gguf_type gguf_recast_type(enum gguf_type type);
/* Rewrites @n values, a multiple of the block, of a type that has another one. */
void gguf_recast(enum gguf_type type, const void *src, void *dst, size_t n);

#endif /* GGUF_RECAST_H */
