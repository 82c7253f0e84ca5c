/* SPDX-License-Identifier: MIT */
/*
 * What a calibration text tells of a model's attention: the scales of each head's queries, keys
 * and values, and what the loss grows by without a head or a layer (shadowAttn 3.2, 3.3); and how
 * queries and keys are balanced (balance.h).
 */
#ifndef ATTENTION_STATS_H
#define ATTENTION_STATS_H

#include "balance_stats.h"
#include "scale_buckets.h"

enum attention_tensor {
	ATTENTION_Q, /* after RoPE */
	ATTENTION_K,
	ATTENTION_V,
	ATTENTION_TENSORS,
};

struct attention_stats {
	unsigned int layers, heads, kv_heads, head_dim;
	struct scale_mean *scales[ATTENTION_TENSORS]; /* [layers][heads or kv_heads] */
	struct balance_stats balance;
	/* Losses are in nats a token. */
	double *head_importance; /* [layers][heads] */
	double *layer_importance; /* [layers] */
	double limit; /* of their products, with which a ratio of 0.2 loses least */
	double *head_gain; /* [layers][heads]: that the loss falls by with all keys */
	double gain_limit; /* of these */
};

/* 0 or -ENOMEM with the error line, which leaves nothing to free. */
int attention_stats_create(struct attention_stats *s, unsigned int layers, unsigned int heads,
			   unsigned int kv_heads, unsigned int head_dim);
void attention_stats_free(struct attention_stats *s);

/*
 * Adds a chunk: @data [rows][heads of the tensor][head_dim], from position @pos on. Heads whose
 * values are not all finite are left out. The text is evaluated twice: the first time tells the
 * scales and the channels; after attention_stats_settle() the second tells the balanced scales.
 */
void attention_stats_add(struct attention_stats *s, enum attention_tensor tensor,
			 unsigned int layer, unsigned int pos, unsigned int rows,
			 const float *data);
int attention_stats_settle(struct attention_stats *s); /* 0, or -ENOMEM with the error line */
/* Heads of such a tensor. */
unsigned int attention_stats_heads(const struct attention_stats *s, enum attention_tensor tensor);

#endif /* ATTENTION_STATS_H */
