/* SPDX-License-Identifier: MIT */
/*
 * Attention that is not full (shadowAttn 3): what a model's file and the options decide of it, once
 * for all sessions. Each head has a ratio (head_ratios.h) and, for a chunk, a scale bucket
 * (scale_buckets.h); the calibration says in which bucket a head mostly is, and plans count on it.
 *
 * A calibrated file has, all f32 but the first:
 *
 *	vnpu.attention			u32: ATTENTION_VERSION
 *	vnpu.attention.head_importance	[n_layer][n_head] loss without the head, less that with all
 *	vnpu.attention.layer_importance	[n_layer] the same of a layer
 *	vnpu.attention.limit		[1] of their products (head_ratios.h)
 *	vnpu.attention.head_gain	[n_layer][n_head] loss if all heads have few keys, less that
 *					if this one has all; older files lack it
 *	vnpu.attention.gain_limit	[1] of the gains
 *	vnpu.attention.q_scales		[n_layer][n_head] mean scale of a chunk's queries
 *	vnpu.attention.k_scales		[n_layer][n_head_kv] and of its keys
 *	vnpu.attention.v_scales		[n_layer][n_head_kv] and of its values
 *
 * and for attention shadow all or none of these, by which queries and keys are balanced before the
 * estimate rounds them (balance.h). Without them they are rounded as they are.
 *
 *	vnpu.attention.key_offsets	[n_layer][n_head_kv][head_dim] mean of the keys
 *	vnpu.attention.balance		[n_layer][n_head_kv][head_dim]
 *	vnpu.attention.balanced_q_scales [n_layer][n_head] s_q: mean scale of a chunk's queries
 *	vnpu.attention.balanced_k_scales [n_layer][n_head_kv] s_k: and of the keys up to its end
 */
#ifndef ATTENTION_H
#define ATTENTION_H

#include <stdbool.h>

#include "balance.h"
#include "gguf.h"
#include "llm.h"
#include "scale_buckets.h"
#include "shape.h"

#define ATTENTION_KEY "vnpu.attention"
#define ATTENTION_VERSION 1

/* A head that keeps so great a share of the keys has full attention with shadow and sparse: on a
 * host choosing the keys costs more than it saves from two fifths to a half of them on
 * (bench_sparse). What a model computes depends on no clock, so on a SoC's too. Such heads count
 * with all keys in the mean ratio (head_ratios.h). */
#define ATTENTION_WHOLE 0.5

struct attention {
	enum llm_attention kind; /* not FULL */
	unsigned int layers, heads, kv_heads, head_dim;
	unsigned int from; /* chunks that end within so many tokens have full attention */
	double ratio; /* the mean of: */
	double *ratios; /* [layers][heads] */
	bool by_head; /* the ratios follow what the file tells of heads */
	/* Attention shadow and npu: */
	struct scale_buckets buckets;
	uint8_t *expected; /* [layers][heads]: the bucket of the calibration's scales */
	float *v_scales; /* [layers][kv_heads] */
	/* Attention shadow: NULL if the file has none. The buckets' means are 1 with it. */
	struct balance *balance;
	bool balanced; /* it has one, or there is no file: for costs */
};

struct attention_options {
	const struct shape *shape;
	const struct llm_choices *choices; /* settled */
	/* NULL: a shape without a file, whose heads are all alike and in the middle bucket. */
	const struct gguf_file *file;
	const char *path; /* for messages */
	double ratio;
	unsigned int from, buckets;
	double step;
};

/*
 * NULL in *@a if the choice is full. 0, or -errno with the error line: -ENODATA if attention shadow
 * or npu is chosen and the file has no calibration, -EINVAL if that or an option is not valid,
 * -ENOMEM. An error leaves nothing to free.
 */
int attention_create(const struct attention_options *o, struct attention **a);
void attention_free(struct attention *a); /* NULL: nothing */

/* Whether the head has full attention: by its ratio, see ATTENTION_WHOLE. */
bool attention_whole(const struct attention *a, unsigned int layer, unsigned int head);

/* How many of @visible keys a query of the head computes with if it chooses them: its ratio of
 * them, rounded up, at least one, at most all. */
unsigned int attention_keep(const struct attention *a, unsigned int layer, unsigned int head,
			    unsigned int visible);

/* A query as the estimate takes it: @to[head_dim]. */
void attention_query(const struct attention *a, unsigned int layer, unsigned int head, float *to,
		     const float *q);
/* @n keys the same, in place: [n][head_dim]. */
void attention_keys(const struct attention *a, unsigned int layer, unsigned int kv_head, float *k,
		    unsigned int n);

#endif /* ATTENTION_H */
