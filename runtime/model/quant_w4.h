/* SPDX-License-Identifier: MIT */
/* Groups of 32 weights in 4 bits, (0..15 - 8) * scale, with an F16 scale, as in GGUF's Q4_0. */
#ifndef QUANT_W4_H
#define QUANT_W4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUANT_W4_GROUP 32

/*
 * Quantises @n values, a multiple of 32, to bytes 0..15 and a scale per group. It tries several
 * scales near max|x| / 8 of either sign: rounds the values to nearest, fits the scale to the
 * rounded values, and keeps the scale of least squared error. False: a value is not finite, or
 * too great for an F16 scale.
 */
bool quant_w4(const float *x, size_t n, uint8_t *q, uint16_t *scale);

#endif /* QUANT_W4_H */
