/* SPDX-License-Identifier: MIT */
/*
 * Samples: the time of one operator on one lane, with its shape and types. op_profile.h measures
 * them, predictor_fit.h learns from them, CSV files store them.
 *
 * Columns of a file, whose first line has their names:
 *
 *	source		virtual:PROFILE or wall:TRANSPORT; one file has one source
 *	lane		npu, gpu or cpu
 *	op		matmul: C[m][n] = A[m][k] W[k][n]
 *	m, k, n		rows of activations, depth, columns of weights
 *	act_bits	bits of an activation: 8, 16 or 32
 *	weight_bits	bits of a weight in memory
 *	order		of the weights on the NPU: stationary or streamed
 *	ns		median time in the lane, with memory, without launch and wait
 *	mad_ns		median absolute deviation from ns
 *	runs		number of measured runs
 */
#ifndef OP_SAMPLES_H
#define OP_SAMPLES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "soc_cost.h"

/* Limit of m, k and n */
#define OP_MAX_DIM (1u << 24)

struct op_sample {
	enum soc_lane lane;
	struct soc_op op; /* SOC_MATMUL */
	double ns, mad_ns;
	uint32_t runs;
};

struct op_samples {
	char source[64]; /* without a comma */
	struct op_sample *v;
	size_t n;
};

/* Appends a copy. 0, or 1 after a message: no memory. */
int op_samples_add(struct op_samples *s, const struct op_sample *sample);
void op_samples_free(struct op_samples *s);

/* Check ferror(@out) afterwards. */
void op_samples_write(const struct op_samples *s, FILE *out);
/* Reads a file into *@s. 0, or 1 after a message with file and line; *@s is empty then. */
int op_samples_read(const char *path, struct op_samples *s);

#endif /* OP_SAMPLES_H */
