/* SPDX-License-Identifier: MIT */
/*
 * Model shapes: the dimensions that a transformer's cost depends on, from a text file
 * (share/shapes/NAME.conf), for plans without weights.
 */
#ifndef SHAPE_H
#define SHAPE_H

#include <stdbool.h>
#include <stdint.h>

enum shape_activation {
	SHAPE_SILU,
	SHAPE_GELU,
	SHAPE_RELU,
};

struct shape {
	char name[32];
	uint32_t layers, dim, heads, kv_heads, head_dim, ffn, vocab;
	enum shape_activation activation;
	bool gated; /* the feed-forward network has a gate projection */
	bool tied; /* embedding and output matrix are the same */
	bool qkv_bias;
};

/* @name: a file, or a name in share/shapes (or the folder VNPU_SHAPES). Returns 0, or -errno with
 * the error line. */
int shape_load(const char *name, struct shape *shape);

uint64_t shape_layer_weights(const struct shape *s); /* values in one layer's matrices */
uint64_t shape_params(const struct shape *s); /* values in the model, with embedding and norms */

#endif /* SHAPE_H */
