// SPDX-License-Identifier: MIT
#include "recall_heads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"

#define BLOCK VNPU_QK_PANEL

/* 64 queries of a head. */
struct tile {
	struct recall_heads *r;
	unsigned int layer, head;
	const float *q; /* [rows][heads][head_dim] */
	const float *k; /* the head's, [n_ctx][kv_heads][head_dim] */
	const float *balanced_q; /* [rows][head_dim] */
	float q_scale;
	unsigned int pos, rows;
};

/* ---- life ---- */

static void *alloc(size_t n, size_t size)
{
	size_t bytes = (n * size + 63) / 64 * 64;
	void *p = aligned_alloc(64, bytes);

	if (p)
		memset(p, 0, bytes);
	return p;
}

int recall_heads_init(struct recall_heads *r)
{
	const struct attention *a = r->attention[0];
	size_t dim = a->head_dim, scratch = CPU_SPARSE_SCRATCH_BYTES;

	r->layers = a->layers;
	r->heads = a->heads;
	r->kv_heads = a->kv_heads;
	r->head_dim = a->head_dim;
	r->group = a->heads / a->kv_heads;
	r->kernels = fw_kernels_get(FW_ISA_AUTO);
	r->sparse = cpu_sparse_get(NULL);
	r->ld = ((size_t)r->n_ctx + BLOCK - 1) / BLOCK * BLOCK;
	scratch = scratch > FW_SCRATCH_BYTES ? scratch : FW_SCRATCH_BYTES;
	r->keys = alloc((size_t)r->layers * r->n_ctx * r->kv_heads * dim, sizeof(float));
	r->q = alloc((size_t)r->chunk * r->heads * dim, sizeof(float));
	r->balanced_k = alloc(r->n_ctx * dim, sizeof(float));
	r->balanced_q = alloc(r->chunk * dim, sizeof(float));
	r->panels = alloc(r->ld / BLOCK, VNPU_QK_PANEL_BYTES(dim));
	r->q8 = alloc(BLOCK * (dim + 3), 1);
	r->scores_s16 = alloc(BLOCK * r->ld, sizeof(int16_t));
	r->scores_f32 = alloc(BLOCK * r->ld, sizeof(float));
	r->scores_blocks = alloc(r->ld / BLOCK + 1, sizeof(float));
	r->found = alloc(r->ld + CPU_SPARSE_SLACK, sizeof(uint32_t));
	r->marks = alloc(r->ld, 1);
	r->blocks = alloc(r->ld / BLOCK + 1, 1);
	r->scratch = alloc(scratch, 1);
	r->counts = alloc((size_t)r->n_ratios * r->layers * r->heads, sizeof(*r->counts));
	return r->keys && r->q && r->balanced_k && r->balanced_q && r->panels && r->q8 &&
			       r->scores_s16 && r->scores_f32 && r->scores_blocks && r->found &&
			       r->marks && r->blocks && r->scratch && r->counts
		       ? 0
		       : llm_fail(-ENOMEM, "no memory for the keys of %u tokens", r->n_ctx);
}

void recall_heads_fini(struct recall_heads *r)
{
	free(r->keys);
	free(r->q);
	free(r->balanced_k);
	free(r->balanced_q);
	free(r->panels);
	free(r->q8);
	free(r->scores_s16);
	free(r->scores_f32);
	free(r->scores_blocks);
	free(r->found);
	free(r->marks);
	free(r->blocks);
	free(r->scratch);
	free(r->counts);
}

/* ---- scores ---- */

static void score_floats(const struct tile *t)
{
	const struct recall_heads *r = t->r;
	const struct cpu_sparse_scores scores = {
		.q = t->q,
		.ldq = (size_t)r->heads * r->head_dim,
		.group = 1,
		.nr_q = t->rows,
		.pos = t->pos,
		.k = t->k,
		.k_row_bytes = (size_t)r->kv_heads * r->head_dim * sizeof(float),
		.kv_type = VNPU_KV_F32,
		.head_dim = r->head_dim,
		.scores = r->scores_f32,
		.ld = r->ld,
	};

	r->sparse->scores(&scores, r->scratch);
}

static void score_estimate(const struct tile *t)
{
	const struct recall_heads *r = t->r;
	size_t ldq = ((size_t)r->head_dim + 3) / 4 * 4;
	const struct fw_qk_i8 scores = {
		.q = r->q8,
		.k = r->panels,
		.scores = r->scores_s16,
		.pos = t->pos,
		.rows = t->rows,
		.head_dim = r->head_dim,
		.panels = (t->pos + t->rows + BLOCK - 1) / BLOCK,
		.shift = vnpu_qk_shift(r->head_dim),
		.ldq = ldq,
		.lds = r->ld,
	};
	float scale;

	for (unsigned int i = 0; i < t->rows; i++)
		r->kernels->quant_static(r->q8 + i * ldq, &scale,
					 t->balanced_q + (size_t)i * r->head_dim, r->head_dim,
					 t->q_scale);
	r->kernels->qk_i8(&scores, r->scratch);
}

/* ---- blocks ---- */

/* The products of the sums, which compare as those of the means do. */
static float importance(const struct tile *t, const float *sum, unsigned int block)
{
	const struct recall_heads *r = t->r;
	size_t ld = (size_t)r->kv_heads * r->head_dim;
	const float *k = t->k + block * BLOCK * ld;
	float dot = 0, keys;

	for (unsigned int d = 0; d < r->head_dim; d++) {
		keys = 0;
		for (unsigned int i = 0; i < BLOCK; i++)
			keys += k[i * ld + d];
		dot += sum[d] * keys;
	}
	return dot;
}

/* Of the blocks that all queries see, and the queries' own. */
static void score_blocks(const struct tile *t)
{
	const struct recall_heads *r = t->r;
	float sum[VNPU_MAX_HEAD_DIM] = { 0 };

	for (unsigned int i = 0; i < t->rows; i++)
		for (unsigned int d = 0; d < r->head_dim; d++)
			sum[d] += t->q[(size_t)i * r->heads * r->head_dim + d];
	for (unsigned int i = 0; i < t->pos / BLOCK; i++)
		r->scores_blocks[i] = importance(t, sum, i);
	r->scores_blocks[t->pos / BLOCK] = 0;
}

/* Marks the chosen blocks; returns how many come before the queries' own. */
static unsigned int choose_blocks(const struct tile *t, const struct attention *a)
{
	const struct recall_heads *r = t->r;
	unsigned int all = t->pos / BLOCK + 1,
		     keep = attention_keep(a, t->layer, t->head, all * BLOCK);
	size_t n =
		r->sparse->select_f32(r->found, r->scores_blocks, all, (keep + BLOCK - 1) / BLOCK);

	/* Queries that do not begin at a multiple of 64 end in the next block. */
	memset(r->blocks, 0, r->ld / BLOCK + 1);
	r->blocks[all] = 1;
	for (size_t i = 0; i < n; i++)
		r->blocks[r->found[i]] = 1;
	return (unsigned int)n - 1;
}

/* ---- counts ---- */

/* Of a head with full attention nothing is estimated, and nothing missed. */
static uint64_t found_by_estimate(const struct tile *t, const struct attention *a, unsigned int i,
				  unsigned int keep)
{
	const struct recall_heads *r = t->r;
	uint64_t found = 0;

	if (attention_whole(a, t->layer, t->head))
		return keep;
	r->sparse->select_s16(r->found, r->scores_s16 + i * r->ld, t->pos + i + 1, keep);
	for (unsigned int j = 0; j < keep; j++)
		found += r->marks[r->found[j]];
	return found;
}

/* Compares the lists of query @i. */
static void count_query(const struct tile *t, const struct attention *a, unsigned int i,
			unsigned int before, struct recall_count *c)
{
	const struct recall_heads *r = t->r;
	unsigned int n = t->pos + i + 1, keep = attention_keep(a, t->layer, t->head, n);

	if (keep == n)
		return;
	memset(r->marks, 0, n);
	r->sparse->select_f32(r->found, r->scores_f32 + i * r->ld, n, keep);
	for (unsigned int j = 0; j < keep; j++) {
		r->marks[r->found[j]] = 1;
		c->blocks += r->blocks[r->found[j] / BLOCK];
	}
	c->estimate += found_by_estimate(t, a, i, keep);
	c->wanted += keep;
	c->computed += before * BLOCK + n - t->pos / BLOCK * BLOCK;
}

static void count_tile(const struct tile *t)
{
	struct recall_heads *r = t->r;

	score_floats(t);
	score_estimate(t);
	score_blocks(t);
	for (unsigned int j = 0; j < r->n_ratios; j++) {
		const struct attention *a = r->attention[j];
		unsigned int before = choose_blocks(t, a);

		for (unsigned int i = 0; i < t->rows; i++)
			count_query(t, a, i, before, recall_count(r, j, t->layer, t->head));
	}
}

/* ---- a chunk ---- */

void recall_heads_queries(struct recall_heads *r, const float *q, unsigned int rows)
{
	memcpy(r->q, q, (size_t)rows * r->heads * r->head_dim * sizeof(*q));
}

/* The head's keys, with the scale that suits the greatest until now. */
static void pack(const struct recall_heads *r, unsigned int layer, unsigned int kv_head,
		 unsigned int n)
{
	const struct attention *a = r->attention[0];
	const struct scale_buckets *b = &a->buckets;
	size_t ld = (size_t)r->kv_heads * r->head_dim, dim = r->head_dim;
	const float *k = r->keys + layer * r->n_ctx * ld + kv_head * dim;
	float scale;

	for (unsigned int i = 0; i < n; i++)
		memcpy(r->balanced_k + i * dim, k + i * ld, dim * sizeof(*k));
	attention_keys(a, layer, kv_head, r->balanced_k, n);
	scale = scale_buckets_scale(r->balanced_k, n, dim, dim);
	r->kernels->pack_keys(r->panels, r->balanced_k, dim, n, dim, 0,
			      b->k[scale_buckets_nearest_k(b, scale)]);
}

/* The scale of the head's queries, balanced. */
static float balance_queries(const struct recall_heads *r, unsigned int layer, unsigned int head,
			     unsigned int rows)
{
	const struct attention *a = r->attention[0];
	size_t dim = r->head_dim;

	for (unsigned int i = 0; i < rows; i++)
		attention_query(a, layer, head, r->balanced_q + i * dim,
				r->q + ((size_t)i * r->heads + head) * dim);
	return a->buckets.q[scale_buckets_nearest_q(
		&a->buckets, scale_buckets_scale(r->balanced_q, rows, dim, dim))];
}

static void count_head(struct recall_heads *r, unsigned int layer, unsigned int head,
		       unsigned int pos, unsigned int rows)
{
	size_t ldq = (size_t)r->heads * r->head_dim, ldk = (size_t)r->kv_heads * r->head_dim;
	struct tile t = {
		.r = r,
		.layer = layer,
		.head = head,
		.k = r->keys + layer * r->n_ctx * ldk + head / r->group * (size_t)r->head_dim,
		.q_scale = balance_queries(r, layer, head, rows),
	};

	for (unsigned int first = 0; first < rows; first += BLOCK) {
		t.q = r->q + first * ldq + (size_t)head * r->head_dim;
		t.balanced_q = r->balanced_q + (size_t)first * r->head_dim;
		t.pos = pos + first;
		t.rows = rows - first < BLOCK ? rows - first : BLOCK;
		count_tile(&t);
	}
}

void recall_heads_keys(struct recall_heads *r, const float *k, unsigned int layer, unsigned int pos,
		       unsigned int rows)
{
	size_t ld = (size_t)r->kv_heads * r->head_dim;

	memcpy(r->keys + (layer * (size_t)r->n_ctx + pos) * ld, k, rows * ld * sizeof(*k));
	for (unsigned int h = 0; h < r->kv_heads; h++) {
		pack(r, layer, h, pos + rows);
		for (unsigned int i = 0; i < r->group; i++)
			count_head(r, layer, h * r->group + i, pos, rows);
	}
}
