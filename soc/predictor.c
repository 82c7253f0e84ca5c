// SPDX-License-Identifier: MIT
/* Predictions: features of a shape, and the way from the root to a leaf. */
#include <stdlib.h>

#include "predictor_tree.h"

const char *const predictor_feature_names[NR_FEATURES] = {
	"m",
	"k",
	"n",
	"streamed_rows",
	"tiles",
	"products",
	"weight_bytes",
	"activation_bytes",
	"act_bits",
	"weight_bits",
	"order",
	"column_bytes",
	"stationary_bytes",
};
const char *const predictor_term_names[NR_TERMS] = {
	"one", "tiles", "passes", "products", "weight_bytes", "input_bytes", "outputs",
};

const char *predictor_leaves_name(enum predictor_leaves leaves)
{
	return leaves == PREDICTOR_LINEAR ? "linear" : "constant";
}

static double tiles_of(uint64_t size, uint32_t tile)
{
	return (double)((size + tile - 1) / tile);
}

void predictor_shape(const struct predictor_options *o, const struct soc_op *op,
		     struct predictor_shape *s)
{
	double m = (double)op->m, k = (double)op->k, n = (double)op->n;
	bool streamed = op->order == NPU_TIME_WEIGHTS_STREAMED;
	/*
	 * Of the two operands the stationary one is cut into tiles, and the
	 * other one's rows pass them.
	 */
	uint64_t passing = streamed ? op->n : op->m, standing = streamed ? op->m : op->n;
	double rows = tiles_of(passing, o->tile_m) * o->tile_m;
	double tiles = tiles_of(op->k, o->tile_k) * tiles_of(standing, o->tile_n);
	double weight_bytes = k * n * op->weight_bits / 8;

	s->features[FEATURE_M] = m;
	s->features[FEATURE_K] = k;
	s->features[FEATURE_N] = n;
	s->features[FEATURE_STREAMED] = rows;
	s->features[FEATURE_TILES] = tiles;
	s->features[FEATURE_PRODUCTS] = rows * tiles * o->tile_k * o->tile_n;
	s->features[FEATURE_WEIGHT_BYTES] = weight_bytes;
	s->features[FEATURE_ACT_BYTES] = m * (k + n) * op->act_bits / 8;
	s->features[FEATURE_ACT_BITS] = op->act_bits;
	s->features[FEATURE_WEIGHT_BITS] = op->weight_bits;
	s->features[FEATURE_ORDER] = streamed;
	s->features[FEATURE_COLUMN_BYTES] = k * op->act_bits / 8;
	s->features[FEATURE_STATIONARY_BYTES] = tiles * o->tile_k * o->tile_n * op->act_bits / 8;
	s->terms[TERM_ONE] = 1;
	s->terms[TERM_TILES] = tiles;
	s->terms[TERM_PASSES] = tiles * rows;
	s->terms[TERM_PRODUCTS] = m * k * n;
	s->terms[TERM_WEIGHT_BYTES] = weight_bytes;
	s->terms[TERM_INPUT_BYTES] = m * k * op->act_bits / 8;
	s->terms[TERM_OUTPUTS] = m * n;
}

double predictor_leaf_ns(const double coefficients[NR_TERMS], const double terms[NR_TERMS])
{
	double ns = 0;

	for (int i = 0; i < NR_TERMS; i++)
		ns += coefficients[i] * terms[i];
	return ns;
}

double predictor_ns(const struct predictor *p, const struct soc_op *op)
{
	const struct predictor_node *node = p->nodes;
	struct predictor_shape s;

	predictor_shape(&p->info.options, op, &s);
	while (!node->leaf)
		node = &p->nodes[s.features[node->feature] <= node->at ? node->below : node->above];
	return predictor_leaf_ns(node->coefficients, s.terms);
}

static uint32_t depth_below(const struct predictor *p, uint32_t node)
{
	const struct predictor_node *n = &p->nodes[node];
	uint32_t below, above;

	if (n->leaf)
		return 0;
	below = depth_below(p, n->below);
	above = depth_below(p, n->above);
	return 1 + (below > above ? below : above);
}

void predictor_count(struct predictor *p)
{
	p->info.leaves = 0;
	for (uint32_t i = 0; i < p->nr_nodes; i++)
		p->info.leaves += p->nodes[i].leaf;
	p->info.depth = depth_below(p, 0);
}

void predictor_info(const struct predictor *p, struct predictor_info *info)
{
	*info = p->info;
}

void predictor_free(struct predictor *p)
{
	if (!p)
		return;
	free(p->nodes);
	free(p);
}
