/* SPDX-License-Identifier: MIT */
/*
 * The numbers and scales inside GGUF's block types, as they are in the file and in one order.
 *
 * A block of 32 or 256 values has a scale d, F16; in types with minima also dmin. In blocks of 256
 * each group of 16 or 32 values has an integer scale, and with minima an integer minimum. A value
 * is d * scale * (number - zero) - dmin * minimum, where blocks of 32 have the scale and minimum 1.
 * Of IQ4_NL and IQ4_XS numbers are indices of levels, and a value is d * scale * level.
 */
#ifndef GGUF_BLOCKS_H
#define GGUF_BLOCKS_H

#include "gguf.h"

/* The form of a type; block 0: this type has none. */
struct gguf_form {
	uint16_t block;
	uint8_t group, bits, mins;
};

/* Q2_K to Q6_K, Q4_1, Q5_0, Q5_1, IQ4_NL, IQ4_XS. */
struct gguf_form gguf_form(enum gguf_type type);

/* The parts of @n values. */
struct gguf_parts {
	uint8_t *numbers; /* [n] */
	uint16_t *d, *dmin; /* [n / block]; dmin: with minima */
	int8_t *scale, *min; /* [n / group], in blocks of 256; min: with minima */
};

/* Takes @n values apart, a multiple of the block. @type has a form. */
void gguf_split(enum gguf_type type, const void *src, size_t n, const struct gguf_parts *parts);

/* Puts a block of 256 values, Q2_K to Q6_K, together: the inverse of gguf_split(). */
void gguf_join(enum gguf_type type, const struct gguf_parts *parts, void *dst);

#endif /* GGUF_BLOCKS_H */
