// SPDX-License-Identifier: MIT
/* Memory of attention shadow and npu: see lane_attention.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lane_attention.h"
#include "llm_fail.h"

#define ALIGN 64
#define PANEL VNPU_QK_PANEL

static size_t aligned(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static int alloc_arrays(struct lane_attention *t)
{
	size_t layers = t->a->layers, kv = layers * t->a->kv_heads,
	       q = (size_t)t->rows * t->a->heads;

	t->packed = calloc(layers, sizeof(*t->packed));
	t->seen = calloc(layers, sizeof(*t->seen));
	t->most = calloc(kv, sizeof(*t->most));
	t->k_scale = calloc(kv, 1);
	t->most_q = calloc(q, sizeof(*t->most_q));
	t->q_scale = calloc(q, 1);
	return t->packed && t->seen && t->most && t->k_scale && t->most_q && t->q_scale
		       ? 0
		       : llm_fail(-ENOMEM, "no memory for the scales of attention");
}

/* What the NPU reads and writes. */
static int alloc_operands(struct lane_attention *t, const struct lane_memory *m)
{
	const struct attention *a = t->a;
	size_t heads = (size_t)a->layers * a->kv_heads;
	int err = llm_memory_alloc(m->loaded, &t->keys, heads * t->head_keys, "INT8 keys");

	if (!err && t->head_values)
		err = llm_memory_alloc(m->loaded, &t->values, heads * t->head_values,
				       "INT8 values");
	if (!err && t->head_values)
		err = llm_memory_alloc(m->loaded, &t->scales, lane_scales_off(t, 0, t->rows),
				       "scales of attention");
	if (!err)
		err = llm_memory_alloc(m->loaded, &t->q, lane_q_off(t, a->heads, 0),
				       "queries by head");
	if (!err && a->kind == LLM_ATTENTION_SHADOW)
		err = llm_memory_alloc(m->loaded, &t->scores,
				       lane_scores_off(t, LANE_SCORE_SLOTS, 0), "scores");
	return err;
}

static int alloc_scratch(struct lane_attention *t, const struct lane_memory *m)
{
	bool block = t->a->kind == LLM_ATTENTION_BLOCK;

	t->scratch_bytes = aligned(block ? lane_block_scratch(m) : lane_sparse_scratch(m), ALIGN);
	t->scratch = aligned_alloc(ALIGN, t->scratch_bytes * m->loaded->threads);
	if (block)
		t->key_sums = malloc(lane_block_sums(m) * sizeof(*t->key_sums));
	return t->scratch && (t->key_sums || !block)
		       ? 0
		       : llm_fail(-ENOMEM, "no scratch memory for %u threads, %zu bytes each",
				  m->loaded->threads, t->scratch_bytes);
}

int lane_attention_init(struct lane_memory *m)
{
	const struct attention *a = m->loaded->attention;
	struct lane_attention *t;

	int err;

	if (!a)
		return 0;
	t = m->attention = calloc(1, sizeof(*t));
	if (!t)
		return llm_fail(-ENOMEM, "no memory for the scales of attention");
	t->a = a;
	t->rows = m->rows;
	t->ldq = (uint32_t)aligned(a->head_dim, ALIGN / sizeof(float));
	t->lds = (uint32_t)aligned(m->kv_rows, PANEL);
	t->head_keys = t->lds / PANEL * VNPU_QK_PANEL_BYTES(a->head_dim);
	if (a->kind == LLM_ATTENTION_NPU)
		t->head_values = aligned(VNPU_PV_BYTES(t->lds, a->head_dim), ALIGN);
	err = alloc_scratch(t, m);
	if (!err && (a->kind == LLM_ATTENTION_SHADOW || a->kind == LLM_ATTENTION_NPU))
		err = alloc_arrays(t) ? -ENOMEM : alloc_operands(t, m);
	return err;
}

void lane_attention_fini(struct lane_memory *m)
{
	struct lane_attention *t = m->attention;

	if (!t)
		return;
	llm_memory_free(&t->keys);
	llm_memory_free(&t->values);
	llm_memory_free(&t->scales);
	llm_memory_free(&t->q);
	llm_memory_free(&t->scores);
	free(t->scratch);
	free(t->key_sums);
	free(t->packed);
	free(t->seen);
	free(t->most);
	free(t->k_scale);
	free(t->most_q);
	free(t->q_scale);
	free(t);
	m->attention = NULL;
}

void lane_attention_truncate(struct lane_memory *m, unsigned int pos)
{
	struct lane_attention *t = m->attention;

	if (!t || !t->packed)
		return;
	for (uint32_t layer = 0; layer < t->a->layers; layer++) {
		if (t->packed[layer] > pos)
			t->packed[layer] = pos;
		if (t->seen[layer] <= pos)
			continue;
		/* Which of the keys was the greatest is not known: all are looked at again. */
		t->seen[layer] = 0;
		memset(t->most + (size_t)layer * t->a->kv_heads, 0,
		       t->a->kv_heads * sizeof(*t->most));
	}
}

struct llm_attention_stats lane_attention_stats(const struct lane_memory *m)
{
	const struct lane_attention *t = m->attention;

	return (struct llm_attention_stats){
		.key_bytes = t->keys.bytes + t->values.bytes,
		.score_bytes = t->scores.bytes + t->q.bytes,
		.visible = atomic_load(&t->visible),
		.selected = atomic_load(&t->selected),
		.estimate_ns = atomic_load(&t->estimate_ns),
		.select_ns = atomic_load(&t->select_ns),
		.attend_ns = atomic_load(&t->attend_ns),
		.launches = t->launches,
		.jobs = t->jobs,
		.heads = t->estimated,
		.moved = t->moved,
		.repacked = atomic_load(&t->repacked),
		.graphs = t->graphs,
		.graph_bytes = t->graph_bytes,
	};
}
