/* SPDX-License-Identifier: MIT */
/*
 * What a calibration text tells for balancing (balance.h), in two evaluations: the first shows the
 * values of each channel; then balance_stats_settle() fixes offsets and balances, and the second
 * shows how large queries and keys are with them.
 */
#ifndef BALANCE_STATS_H
#define BALANCE_STATS_H

#include "balance.h"
#include "scale_buckets.h"

struct balance_channel {
	double sum; /* of the keys */
	float least, most; /* of them */
	float most_q; /* the greatest |q| */
};

struct balance_stats {
	unsigned int layers, heads, kv_heads, head_dim;
	struct balance_channel *channels; /* [layers][kv_heads][head_dim] */
	uint64_t *rows; /* [layers][kv_heads]: keys that were added */
	/* Once they are settled: */
	struct balance *settled; /* by these two, with s_q and s_k of 1 */
	float *offsets, *balances; /* [layers][kv_heads][head_dim] */
	struct scale_mean *q_scales, *k_scales; /* [layers][heads], [layers][kv_heads] */
	float *k_scale; /* [layers][kv_heads]: of the window, so far */
	float *row; /* [head_dim] */
};

/* 0 or -ENOMEM with the error line; call balance_stats_fini() in any case. */
int balance_stats_init(struct balance_stats *s, unsigned int layers, unsigned int heads,
		       unsigned int kv_heads, unsigned int head_dim);
void balance_stats_fini(struct balance_stats *s);

/* A chunk's @rows queries [rows][heads][head_dim], or keys from position @pos on. Heads whose
 * values are not all finite are left out. The greatest key is that since position 0, as in a KV
 * cache whose keys all have one scale. */
void balance_stats_queries(struct balance_stats *s, unsigned int layer, unsigned int rows,
			   const float *q);
void balance_stats_keys(struct balance_stats *s, unsigned int layer, unsigned int pos,
			unsigned int rows, const float *k);

/* After the first evaluation. 0 or -ENOMEM with the error line. */
int balance_stats_settle(struct balance_stats *s);

#endif /* BALANCE_STATS_H */
