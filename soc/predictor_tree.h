/* SPDX-License-Identifier: MIT */
/*
 * A predictor's tree, for who learns one and writes it (npu-profile).
 *
 * A model file is an INI file:
 *
 *	[predictor]	version, lane, source, samples, leaves, max_depth, min_samples,
 *			tile_m, tile_k, tile_n, nodes
 *	[node.0]	the root. A split: feature, at_most, then (node if it
 *			is), else (node if not);
 *	[node.1]	or a leaf: a key per term, its coefficient in nanoseconds
 *	...
 *	[end]		complete = yes
 *
 * Nodes are numbered so that what follows a node has a higher number. Numbers have as many digits
 * as bring them back exactly: what is loaded predicts to the last bit what was saved.
 */
#ifndef PREDICTOR_TREE_H
#define PREDICTOR_TREE_H

#include <stdbool.h>

#include "predictor.h"

#define PREDICTOR_VERSION 1

/* What a split can ask. Dimensions are padded to tiles, but for the first three. */
enum predictor_feature {
	FEATURE_M,
	FEATURE_K,
	FEATURE_N,
	FEATURE_STREAMED, /* rows that are streamed past the tiles */
	FEATURE_TILES, /* of the stationary operand */
	FEATURE_PRODUCTS,
	FEATURE_WEIGHT_BYTES,
	FEATURE_ACT_BYTES, /* activations and results */
	FEATURE_ACT_BITS,
	FEATURE_WEIGHT_BITS,
	FEATURE_ORDER,
	FEATURE_COLUMN_BYTES, /* a column of the stationary operand, which stays on the chip... */
	FEATURE_STATIONARY_BYTES, /* ...or does not, as the whole */
	NR_FEATURES,
};

/* What a leaf can add up. */
enum predictor_term {
	TERM_ONE,
	TERM_TILES, /* loading them */
	TERM_PASSES, /* rows past a tile */
	TERM_PRODUCTS, /* without padding */
	TERM_WEIGHT_BYTES,
	TERM_INPUT_BYTES,
	TERM_OUTPUTS,
	NR_TERMS,
};

extern const char *const predictor_feature_names[NR_FEATURES];
extern const char *const predictor_term_names[NR_TERMS];

struct predictor_node {
	bool leaf;
	uint8_t feature;
	uint32_t below, above; /* a split: feature <= at, or not */
	double at;
	double coefficients[NR_TERMS]; /* a leaf: ns */
};

/* A tree of full depth. */
#define PREDICTOR_MAX_NODES ((2u << PREDICTOR_MAX_DEPTH) - 1)

struct predictor {
	struct predictor_info info;
	uint32_t nr_nodes;
	struct predictor_node *nodes; /* children come after their parents */
};

struct predictor_shape {
	double features[NR_FEATURES];
	double terms[NR_TERMS];
};
/* What a split asks and a leaf adds up, of @op. */
void predictor_shape(const struct predictor_options *o, const struct soc_op *op,
		     struct predictor_shape *s);
double predictor_leaf_ns(const double coefficients[NR_TERMS], const double terms[NR_TERMS]);
void predictor_count(struct predictor *p); /* fills in info.leaves and info.depth */

#endif /* PREDICTOR_TREE_H */
