/* SPDX-License-Identifier: MIT */
/*
 * Rounds the matrices of a model's layers to an average width and writes them as F32, so that any
 * engine can measure what a way of quantising costs.
 *
 *	uniform		each output channel has the same width
 *	adaptive	EdgeFlow 4.1: output channels have widths by their relative errors
 *	cmpq		like CMPQ as EdgeFlow 3.2 and table 2 describe it: input channels have
 *			widths by their activations, and levels that are not uniform
 *	cmpq-shared	the same, with levels that the channels of a width share
 */
#ifndef BITS_H
#define BITS_H

#include <stddef.h>

#include "gguf.h"
#include "model.h"
#include "shadow.h"

enum bits_method {
	BITS_UNIFORM,
	BITS_ADAPTIVE,
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

/* Mean squares of an input's channels in a text, by layer and input. */
struct bits_activations {
	unsigned int n_layer;
	double *squares[SHADOW_INPUTS]; /* [n_layer][channels] */
	unsigned int channels[SHADOW_INPUTS];
};
/* Evaluates a text on the CPU. 0 or -errno with the error line. */
int bits_observe(const char *model, const char *text, size_t bytes, struct bits_activations *a);
void bits_activations_free(struct bits_activations *a);

/* ---- rounding: in place, 0 or -errno with the error line ---- */

int bits_by_rows(const struct bits_matrix *m, enum bits_method method, double average,
		 struct bits_size *size);
/* @squares [cols]: of the activations that meet the columns. */
int bits_by_columns(const struct bits_matrix *m, bool shared, double average, const double *squares,
		    struct bits_size *size);

#endif /* BITS_H */
