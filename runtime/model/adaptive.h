/* SPDX-License-Identifier: MIT */
/*
 * Adaptive quantisation (EdgeFlow 4.1): each output channel of a matrix gets 1 to 8 bits, so that
 * the channels together lose least for an average width.
 *
 * A channel is a row of @n finite weights as GGUF files have them: all weights of one output. It is
 * quantised in the way that NPUs can compute: static, uniform, symmetric, one scale for the
 * channel. Numbers of b bits are -2^(b-1)..2^(b-1)-1, those of 1 bit are -1 and 1 (docs/isa.md,
 * MATMUL_WK).
 */
#ifndef ADAPTIVE_H
#define ADAPTIVE_H

#include <stddef.h>
#include <stdint.h>

#define ADAPTIVE_MAX_BITS 8

/* All that allocation needs to know of a channel. */
struct adaptive_channel {
	float max; /* the largest magnitude */
	double mean_square;
};
struct adaptive_channel adaptive_measure(const float *w, size_t n);

/*
 * The relative error RE of a channel in @bits (1..8), in closed form: max^2 / mean_square / 2^(2
 * bits). It is proportional to the cosine distance between the channel and its quantised form, for
 * errors that are spread uniformly over a step; 0 for a channel of zeros.
 */
double adaptive_error(const struct adaptive_channel *c, unsigned int bits);

/*
 * Algorithm 1: sets the @bits (1..8) of @n channels so that the sum of their relative errors is the
 * least that an @average width of 1..8 allows; the widths add up to n average, rounded down. Of
 * channels that gain equally from a bit the first one gets it. O(n log n).
 *
 * 0, or with the error line -EINVAL for an average out of range, -ENOMEM.
 */
int adaptive_allocate(const struct adaptive_channel *channels, size_t n, double average,
		      uint8_t *bits);

/*
 * Quantises a channel to numbers @q [n] of @bits (1..8) and returns their scale: w is about scale
 * q. The numbers are those of the step that loses least of several, and the scale is the one with
 * the least squared error for these numbers. 0 for a channel of zeros; otherwise the scale is
 * positive.
 */
float adaptive_quantize(const float *w, size_t n, unsigned int bits, int8_t *q);

/*
 * 1 - cos(w, q): what adaptive_error() estimates. 0 if both are zeros, 1 if one is. Any scale of
 * the numbers gives the same.
 */
double adaptive_distance(const float *w, const int8_t *q, size_t n);

#endif /* ADAPTIVE_H */
