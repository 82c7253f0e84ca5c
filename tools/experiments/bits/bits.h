/* SPDX-License-Identifier: MIT */
/*
 * Rounds the matrices of a model's layers to an average width and writes them as F32, so that any
 * engine can measure what a way of quantising costs.
 *
 *	uniform		each output channel has the same width
 *	adaptive	EdgeFlow 4.1: output channels have widths by their relative errors
 *	adaptive-inputs	the same widths, and of each channel's steps the one with which its
 *			results lose least, for a text's activations
 *	adaptive-model	the same steps, and widths for the output channels of all matrices
 *			together, by what their errors leave on the residual stream
 *	cmpq		like CMPQ as EdgeFlow 3.2 and table 2 describe it: input channels have
 *			widths by their activations, and levels that are not uniform
 *	cmpq-shared	the same, with levels that the channels of a width share
 */
#ifndef BITS_H
#define BITS_H

#include <stddef.h>
#include <stdint.h>

#include "gguf.h"
#include "model.h"
#include "shadow.h"

enum bits_method {
	BITS_UNIFORM,
	BITS_ADAPTIVE,
	BITS_ADAPTIVE_INPUTS,
	BITS_ADAPTIVE_MODEL,
	BITS_CMPQ,
	BITS_CMPQ_SHARED,
};

/* A weight matrix [rows][cols], of which rows are output channels. */
struct bits_matrix {
	float *w;
	size_t rows, cols;
};

/* What rounding a matrix took. */
struct bits_size {
	double weights; /* bits of their numbers */
	double rest; /* bits of scales, widths and levels */
};

/* ---- activations ---- */

/* Squares of activations, summed over a text's tokens. */
struct bits_activations {
	unsigned int n_layer, n_head, head_dim;
	uint64_t tokens;
	double *heads[2]; /* [n_layer][n_head]: of queries and of keys, whose heads may be fewer */
	double *streams
		[2]; /* [n_layer]: of the residual stream after attention, and after the FFN */
	double *squares[SHADOW_INPUTS]; /* [n_layer][channels], of matmuls' inputs */
	unsigned int channels[SHADOW_INPUTS];
};
/* Evaluates a text on the CPU. 0 or -errno with the error line. */
int bits_observe(const char *model, const char *text, size_t bytes, struct bits_activations *a);
void bits_activations_free(struct bits_activations *a);

/* ---- rounding: in place, 0 or -errno with the error line ---- */

/* Rows of one width, or of the widths of EdgeFlow 4.1. @squares [cols]: of the activations that
 * meet the columns, by which steps are chosen; NULL: the weights alone decide. */
int bits_by_rows(const struct bits_matrix *m, enum bits_method method, double average,
		 const double *squares, struct bits_size *size);
/* Rows of given widths [rows]. */
void bits_by_widths(const struct bits_matrix *m, const uint8_t *bits, const double *squares,
		    struct bits_size *size);
int bits_by_columns(const struct bits_matrix *m, bool shared, double average, const double *squares,
		    struct bits_size *size);

/* Widths for adaptive-model: [n_layer][matrix][rows], which the caller frees. NULL: an error. */
uint8_t *bits_by_model(const struct llm_model *model, const struct bits_activations *a,
		       double average);

#endif /* BITS_H */
