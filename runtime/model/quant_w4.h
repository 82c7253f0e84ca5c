/* SPDX-License-Identifier: MIT */
/*
 * Groups of 32 weights in 4 bits: (0..15 - 8) * scale, the scale an F16. The values of GGUF's Q4_0.
 */
#ifndef QUANT_W4_H
#define QUANT_W4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUANT_W4_GROUP 32

/*
 * @n values, a multiple of 32, as one number 0..15 a byte and a scale per group. Of several scales
 * about max|x| / 8 of either sign, each with its values rounded to nearest and then the scale that
 * fits those best, the one of the least squared error is taken. False: a value is not finite or
 * too great for an F16 scale.
 */
bool quant_w4(const float *x, size_t n, uint8_t *q, uint16_t *scale);
/* The same from Q4_0's blocks, nothing rounded. False: a scale is not finite. */
bool quant_w4_from_q4_0(const uint8_t *blocks, size_t n, uint8_t *q, uint16_t *scale);

#endif /* QUANT_W4_H */
