/* SPDX-License-Identifier: MIT */
/*
 * How many of the greatest float scores of each head the estimate finds (shadowAttn 3.2, 3.3), and
 * how many of them block-sparse attention computes with (2.2). All three are as in the engine:
 *
 *	float		select_f32() of scores() of the queries and keys in floats
 *	estimate	select_s16() of qk_i8(), with the scale bucket of each head for a chunk. All
 *			keys of a head have one scale, which does not fall within a window
 *	blocks		of 64 queries from a chunk's first on, and 64 keys from the window's
 *
 * Recall counts positions: those of the float list that the other list has, over those of the float
 * list. Lists are of positions that the query sees, so masked ones are in neither. Of equal scores
 * the earliest win in both, so a tie that only the rounded scores have may cost recall. A query's
 * own position is in both. Queries that keep all keys that they see are left out. Heads that have
 * full attention for their ratio (attention_whole()) find all of their float lists.
 */
#ifndef RECALL_HEADS_H
#define RECALL_HEADS_H

#include "attention.h"
#include "cpu_sparse.h"
#include "kernels.h"

/* Of a head, sums over queries. */
struct recall_count {
	uint64_t wanted; /* positions of the float list */
	uint64_t estimate, blocks; /* those of them in the other list */
	uint64_t computed; /* positions that blocks have */
};

struct recall_heads {
	unsigned int layers, heads, kv_heads, head_dim, group; /* heads of a KV head */
	unsigned int n_ctx, chunk; /* tokens, at most */
	const struct attention *const *attention; /* [n_ratios] */
	unsigned int n_ratios;
	const struct fw_kernels *kernels;
	const struct cpu_sparse *sparse;
	float *keys; /* [layers][n_ctx][kv_heads][head_dim] */
	float *q; /* [chunk][heads][head_dim] */
	/* Of a head, as the estimate takes them: */
	float *balanced_k, *balanced_q; /* [n_ctx][head_dim], [chunk][head_dim] */
	uint8_t *panels;
	/* Of 64 queries: */
	int8_t *q8;
	int16_t *scores_s16; /* [64][ld] */
	float *scores_f32; /* [64][ld] */
	size_t ld;
	float *scores_blocks; /* [n_ctx / 64 + 1] */
	uint32_t *found; /* positions */
	uint8_t *marks; /* [n_ctx]: whether the float list of a query has the position */
	uint8_t *blocks; /* [n_ctx / 64 + 1]: whether the block was chosen */
	void *scratch;
	struct recall_count *counts; /* [n_ratios][layers][heads] */
};

/* Takes dimensions from @r->attention[0], and @r->n_ctx, chunk and n_ratios. 0 or -ENOMEM with the
 * error line; call recall_heads_fini() in any case. */
int recall_heads_init(struct recall_heads *r);
void recall_heads_fini(struct recall_heads *r);

/* A chunk's @rows queries or keys of @layer after RoPE, from position @pos on. Queries come first;
 * with the keys the chunk is counted. */
void recall_heads_queries(struct recall_heads *r, const float *q, unsigned int rows);
void recall_heads_keys(struct recall_heads *r, const float *k, unsigned int layer, unsigned int pos,
		       unsigned int rows);

static inline struct recall_count *recall_count(const struct recall_heads *r, unsigned int ratio,
						unsigned int layer, unsigned int head)
{
	return &r->counts[((size_t)ratio * r->layers + layer) * r->heads + head];
}

#endif /* RECALL_HEADS_H */
