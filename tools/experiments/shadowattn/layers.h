/* SPDX-License-Identifier: MIT */
/*
 * Layers for the plans of heads: stage times on a modelled SoC, with random ratios and scales.
 *
 * The importance of heads and layers spreads over a decade each; ratios come from it by equation 3.
 * Scales of Q and K have the logarithmic spread that shadowAttn 3.3 tells of Q's: 30 % are above
 * 0.2 and 20 % below 0.1, which is a standard deviation of 0.51 if they are normal. K's are those
 * of KV heads. Each layer of a seed has the same numbers on every SoC.
 */
#ifndef LAYERS_H
#define LAYERS_H

#include "head_plan.h"
#include "shadowattn.h"

/* Of all heads, as in most of the paper's tables. */
#define LAYERS_MEAN_RATIO 0.2

/* A model's heads: [shape->layers][shape->heads] */
struct layers {
	double *ratios;
	unsigned int *buckets;
};

/* 0, or 1 after a message; layers_free() in any case. */
int layers_create(struct layers *layers, const struct shape *shape, uint64_t seed);
void layers_free(struct layers *layers);

/* Where the last chunk of a prompt is computed, and by what. */
struct layers_setting {
	const struct place *place;
	unsigned int tokens; /* of the prompt */
	unsigned int n_heads; /* the first so many of each layer */
	bool shared; /* one core does both top-k and attention */
};

/* The graphs' times, and those of a layer's @heads [n_heads]. */
void layers_set_npu(const struct layers_setting *setting, double npu_ns[HEAD_PLAN_MAX_FUSED]);
void layers_set_heads(const struct layers_setting *setting, const struct layers *layers,
		      unsigned int layer, struct head_plan_head *heads);

#endif /* LAYERS_H */
