/* SPDX-License-Identifier: MIT */
/*
 * Model shapes: what a transformer's cost depends on, as a text file (share/shapes/NAME.conf),
 * for plans without weights.
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
	bool gated; /* the feed-forward network has a gate beside its upward projection */
	bool tied; /* embedding and output head are one matrix */
	bool qkv_bias;
};

/* As soc_load() finds profiles: a file, or a name of share/shapes (VNPU_SHAPES). 0, or -errno
 * and one line from llm_error(). */
int shape_load(const char *name, struct shape *shape);

uint64_t shape_layer_weights(const struct shape *s); /* of one layer's matrices */
uint64_t shape_params(const struct shape *s); /* all, embedding and norms included */

#endif /* SHAPE_H */
