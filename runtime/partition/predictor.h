/* SPDX-License-Identifier: MIT */
/*
 * The predictor: what a matrix product takes on a lane, learned from samples (op_samples.h). This is the prediction mode
 * of HeteroLLM's performance profiler (4.3), which predicts NPUs by a regression tree and GPUs by a rate (a tree of one
 * leaf): partition solvers ask it for thousands of shapes that nobody has measured.
 *
 *	predictor_fit(&samples, SOC_NPU, &opts, &p);
 *	predictor_save(p, "npu.model");
 *	...
 *	predictor_load("npu.model", &p);
 *	ns = predictor_ns(p, &op);
 *
 * A regression tree (CART, Breiman et al. 1984) asks a feature of the shape at each node: is it at most so much? A leaf's
 * answer is a constant, or a sum of terms of the shape (a model tree, M5, Quinlan 1992). Features and terms are those
 * that HeteroLLM 3.2 names: dimensions as multiples of a tile (stage), which operand is stationary (order), how many rows
 * are streamed past how many tiles (shape); products and bytes besides.
 *
 * Relative errors are what is made small: constants are fitted to the logarithms of the times, sums to the times with
 * weights 1 / time^2. No term has a negative coefficient: a leaf's time does not fall when the work grows, and is never
 * negative, however far a shape is from the samples. Splits and coefficients that cost more than they bring are left out,
 * by M5's estimate: error * (n + v) / (n - v) for n samples and v coefficients; a split that brings nothing by itself is
 * kept if those below it are worth both. What a leaf's own samples leave open is decided by all of the samples.
 */
#ifndef PREDICTOR_H
#define PREDICTOR_H

#include <stddef.h>
#include <stdint.h>

#include "op_samples.h"

struct predictor;

enum predictor_leaves {
	PREDICTOR_CONSTANT, /* a regression tree */
	PREDICTOR_LINEAR, /* a model tree */
};
const char *predictor_leaves_name(enum predictor_leaves leaves); /* "constant", "linear" */

struct predictor_options {
	enum predictor_leaves leaves;
	uint32_t max_depth; /* splits above a leaf; 0: one leaf. At most PREDICTOR_MAX_DEPTH */
	uint32_t min_samples; /* of a leaf; at least 1 */
	/* Rows, depth and columns that the lane's engine takes at a time: a profile's row granule and array. 1..65536. */
	uint32_t tile_m, tile_k, tile_n;
};
#define PREDICTOR_MAX_DEPTH 12
#define PREDICTOR_MAX_TILE 65536
/* Sums of terms, ten samples to a leaf, all depth there is, and the tiles of 32 of HeteroLLM 3.2. */
struct predictor_options predictor_defaults(void);

/* Learns from the samples of @lane, whose order does not matter but for the rounding. 0; -EINVAL none is there; -ENOMEM;
 * llm_error() says it in a line. */
int predictor_fit(const struct op_samples *samples, enum soc_lane lane, const struct predictor_options *opts,
		  struct predictor **p);
void predictor_free(struct predictor *p);

/* Time in the lane, memory included, without launch: what an op_sample has. @op: SOC_MATMUL; kv_heads, ops, widened and
 * the like are not looked at. No allocation, no lock: any number of threads. */
double predictor_ns(const struct predictor *p, const struct soc_op *op);

struct predictor_info {
	enum soc_lane lane;
	char source[64]; /* of the samples: virtual:PROFILE, wall:TRANSPORT */
	struct predictor_options options;
	uint32_t samples; /* learned from */
	uint32_t leaves, depth;
};
void predictor_info(const struct predictor *p, struct predictor_info *info);

/* ---- how good it is ----------------------------------------------------------------------------------------------- */

struct predictor_error {
	size_t n;
	double mean, worst; /* |predicted / measured - 1| */
	double r2; /* of the logarithms of the times; 1 where all are alike and met */
};
/* Of the samples of its lane. */
struct predictor_error predictor_test(const struct predictor *p, const struct op_samples *samples);
/*
 * K-fold cross-validation: each of @folds parts is predicted by what is learned from the others. Samples of one
 * shape stay in one part, whatever their types; else parts are drawn at random, the same for the same @seed. 0; -EINVAL
 * if there are fewer different shapes than parts, or less than 2 parts; -ENOMEM.
 */
int predictor_cross_validate(const struct op_samples *samples, enum soc_lane lane, const struct predictor_options *opts,
			     uint32_t folds, uint64_t seed, struct predictor_error *error);

/* ---- files -------------------------------------------------------------------------------------------------------- */

/*
 * A model file is an INI file:
 *
 *	[predictor]		version, lane, source, samples, leaves, max_depth, min_samples, tile_m, tile_k, tile_n, nodes
 *	[node.0]		the root. A split: feature, at_most, then (node if it is) and else (node if not),
 *	[node.1]		or a leaf: a key per term, its coefficient in nanoseconds
 *	...
 *	[end]			complete = yes
 *
 * Nodes are numbered so that what follows a node has a higher number. Numbers have as many digits as bring them back
 * exactly: what is loaded predicts to the last bit what was saved. 0, or -errno with one line from llm_error() that
 * names the file and what is wrong with it.
 */
int predictor_save(const struct predictor *p, const char *path);
int predictor_load(const char *path, struct predictor **p);

#endif /* PREDICTOR_H */
