// SPDX-License-Identifier: MIT
#include "attention_stats.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "head_ratios.h"
#include "llm_fail.h"

unsigned int attention_stats_heads(const struct attention_stats *s, enum attention_tensor tensor)
{
	return tensor == ATTENTION_Q ? s->heads : s->kv_heads;
}

int attention_stats_create(struct attention_stats *s, unsigned int layers, unsigned int heads,
			   unsigned int kv_heads, unsigned int head_dim)
{
	bool failed;

	*s = (struct attention_stats){
		.layers = layers,
		.heads = heads,
		.kv_heads = kv_heads,
		.head_dim = head_dim,
		.limit = HEAD_RATIOS_LIMIT,
		.gain_limit = HEAD_RATIOS_LIMIT,
	};
	failed = balance_stats_init(&s->balance, layers, heads, kv_heads, head_dim) != 0;
	for (enum attention_tensor t = 0; t < ATTENTION_TENSORS; t++) {
		s->scales[t] =
			calloc((size_t)layers * attention_stats_heads(s, t), sizeof(*s->scales[t]));
		failed |= !s->scales[t];
	}
	s->head_importance = calloc((size_t)layers * heads, sizeof(*s->head_importance));
	s->layer_importance = calloc(layers, sizeof(*s->layer_importance));
	s->head_gain = calloc((size_t)layers * heads, sizeof(*s->head_gain));
	if (!failed && s->head_importance && s->layer_importance && s->head_gain)
		return 0;
	attention_stats_free(s);
	return llm_fail(-ENOMEM, "no memory for the statistics of attention");
}

void attention_stats_free(struct attention_stats *s)
{
	for (enum attention_tensor t = 0; t < ATTENTION_TENSORS; t++)
		free(s->scales[t]);
	balance_stats_fini(&s->balance);
	free(s->head_importance);
	free(s->layer_importance);
	free(s->head_gain);
	memset(s, 0, sizeof(*s));
}

static void add_scales(struct attention_stats *s, enum attention_tensor tensor, unsigned int layer,
		       unsigned int rows, const float *data)
{
	unsigned int heads = attention_stats_heads(s, tensor);

	for (unsigned int h = 0; h < heads; h++)
		scale_mean_add(&s->scales[tensor][(size_t)layer * heads + h],
			       scale_buckets_scale(data + (size_t)h * s->head_dim, rows,
						   s->head_dim, (size_t)heads * s->head_dim));
}

void attention_stats_add(struct attention_stats *s, enum attention_tensor tensor,
			 unsigned int layer, unsigned int pos, unsigned int rows, const float *data)
{
	if (!s->balance.settled)
		add_scales(s, tensor, layer, rows, data);
	if (tensor == ATTENTION_Q)
		balance_stats_queries(&s->balance, layer, rows, data);
	else if (tensor == ATTENTION_K)
		balance_stats_keys(&s->balance, layer, pos, rows, data);
}

int attention_stats_settle(struct attention_stats *s)
{
	return balance_stats_settle(&s->balance);
}
