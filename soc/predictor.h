/* SPDX-License-Identifier: MIT */
/*
 * The predictor: what a matmul takes on a lane, learned from samples. This is the prediction mode
 * of HeteroLLM's performance profiler (4.3), which predicts NPUs by a regression tree and GPUs by a
 * rate (a tree of one leaf): partition solvers ask it for thousands of shapes that nobody has
 * measured. `npu-profile fit` learns it and writes its file, which predictor_tree.h describes.
 *
 *	predictor_load("npu.model", &p, why, sizeof(why));
 *	ns = predictor_ns(p, &op);
 *
 * A regression tree (CART, Breiman et al. 1984) asks a feature of the shape at each node: is it at
 * most so much? A leaf's answer is a constant, or a sum of terms of the shape (a model tree, M5,
 * Quinlan 1992). Features and terms are those that HeteroLLM 3.2 names: dimensions as multiples of
 * a tile (stage), which operand is stationary (order), how many rows are streamed past how many
 * tiles (shape); products and bytes besides.
 */
#ifndef PREDICTOR_H
#define PREDICTOR_H

#include <stddef.h>
#include <stdint.h>

#include "soc_cost.h"

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
	/* Rows, depth and columns that the lane's engine takes at a time: a profile's row granule
	 * and array. 1..PREDICTOR_MAX_TILE. */
	uint32_t tile_m, tile_k, tile_n;
};
#define PREDICTOR_MAX_DEPTH 12
#define PREDICTOR_MAX_TILE 65536

/* Reads a model file. 0, or -errno with one line in @why that names the file and what is wrong with
 * it; then *@p is NULL. */
int predictor_load(const char *path, struct predictor **p, char *why, size_t why_bytes);
void predictor_free(struct predictor *p);

/* Time in the lane, memory included, without launch. @op: SOC_MATMUL; kv_heads, ops, widened and
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

#endif /* PREDICTOR_H */
