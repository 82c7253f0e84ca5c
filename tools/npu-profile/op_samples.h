/* SPDX-License-Identifier: MIT */
/*
 * Samples: how long one operator took on one lane, by shape and type. Measured by op_profile.h,
 * learned from by predictor_fit.h, kept in CSV files.
 *
 * Columns of a file, whose first line names them:
 *
 *	source		virtual:PROFILE or wall:TRANSPORT; one file has one source
 *	lane		npu, gpu or cpu
 *	op		matmul: C[m][n] = A[m][k] W[k][n]
 *	m, k, n		rows of activations, depth, columns of weights
 *	act_bits	of an activation: 8, 16 or 32
 *	weight_bits	of a weight as it lies in memory
 *	order		NPU: stationary (the weights are) or streamed
 *	ns		median time in the lane, memory included, without what starting it
 *			and waiting for it takes
 *	mad_ns		median absolute deviation from that
 *	runs		so many were measured
 */
#ifndef OP_SAMPLES_H
#define OP_SAMPLES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "soc_cost.h"

/* Of m, k and n. */
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

/* Whether @out took it all, ferror() says. */
void op_samples_write(const struct op_samples *s, FILE *out);
/*
 * Reads a whole file into the empty *@s. 0, or 1 after a message that names file and
 * line; then *@s is empty.
 */
int op_samples_read(const char *path, struct op_samples *s);

#endif /* OP_SAMPLES_H */
