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
	/* Experts of a layer, each of which has an FFN of @ffn, and of a token; 0: there are none.
	 * And the length of the FFN of one that all tokens have, or 0. */
	uint32_t experts, experts_used, shared_ffn;
	enum shape_activation activation;
	bool gated; /* the feed-forward network has a gate projection */
	bool tied; /* embedding and output matrix are the same */
	bool qkv_bias;
	/* Of a model's file; text files have no such keys. Attention and FFN have norms behind
	 * them, or no norms before them; the FFN reads what attention reads. */
	bool norms_behind, no_norms_before, parallel;
	/* Tokens that attention sees, 0: all; in all layers but each window_step-th. */
	uint32_t window, window_step;
};

/* @name: a file, or a name in share/shapes (or the folder VNPU_SHAPES). Returns 0, or -errno with
 * the error line. */
int shape_load(const char *name, struct shape *shape);

/* Tokens that attention sees in a layer; UINT32_MAX: all. */
static inline uint32_t shape_window(const struct shape *s, uint32_t layer)
{
	bool all = !s->window || (s->window_step && !((layer + 1) % s->window_step));

	return all ? UINT32_MAX : s->window;
}

uint64_t shape_layer_weights(const struct shape *s); /* values in one layer's matrices */
uint64_t shape_params(const struct shape *s); /* values in the model, with embedding and norms */
uint64_t shape_active_params(const struct shape *s); /* of them, those that a token meets */

#endif /* SHAPE_H */
