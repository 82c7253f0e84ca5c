// SPDX-License-Identifier: MIT
/*
 * LLM_OP_SCALE (shadowAttn 3.3): the scale bucket of each head for a chunk, and the chunk's keys,
 * with attention npu its values too, in INT8. Keys are read from the KV cache, whoever has put
 * them there: a chunk of a prompt, or single tokens since the last one, which have full attention.
 * Attention shadow balances both where they are copied (balance.h); attention npu's queries are
 * those of the pass, so its keys stay as they are.
 */
#include <math.h>

#include "cpu_sparse.h"
#include "lane_attention.h"

/* Positions that a thread widens at a time. */
#define WIDE_ROWS VNPU_QK_PANEL

struct scale_pass {
	struct lane_memory *m;
	unsigned int layer, pos, n;
	size_t row;
	bool values; /* V, not K */
	unsigned int from; /* the first position that is looked at, or packed */
};

static float greatest(const float *x, size_t n, float most)
{
	for (size_t i = 0; i < n; i++)
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	return most;
}

/* A query head's rows side by side, balanced, and their greatest number. */
static void task_query(void *arg, unsigned int head, unsigned int worker)
{
	const struct scale_pass *p = arg;
	const struct lane_attention *t = p->m->attention;
	const struct llm_model *model = &p->m->loaded->model;
	float *to = (float *)((char *)t->q.data + lane_q_off(t, head, p->row)), most = 0;

	for (size_t r = p->row; r < p->row + p->n; r++, to += t->ldq) {
		const float *q = p->m->q.data + r * model->q_dim + head * model->head_dim;

		attention_query(t->a, p->layer, head, to, q);
		most = greatest(to, model->head_dim, most);
	}
	t->most_q[p->row * t->a->heads + head] = most;
}

/* Calls @fn with the cached rows @from.. of a KV head, up to the chunk's end, widened, and keys
 * balanced. */
static void for_keys(const struct scale_pass *p, unsigned int head, unsigned int worker,
		     void (*fn)(const struct scale_pass *p, unsigned int head, unsigned int pos,
				const float *rows, unsigned int n))
{
	const struct lane_memory *m = p->m;
	const struct llm_model *model = &m->loaded->model;
	enum vnpu_kv_type type = llm_kv_type(m->loaded->kv);
	size_t off = p->values ? lane_v_off(m, p->layer) : lane_k_off(m, p->layer),
	       skip = VNPU_KV_BYTES(type, (size_t)head * model->head_dim);
	float *wide = m->scratch + worker * m->scratch_floats;

	for (unsigned int pos = p->from; pos < p->pos + p->n; pos += WIDE_ROWS) {
		unsigned int left = p->pos + p->n - pos, n = left < WIDE_ROWS ? left : WIDE_ROWS;

		m->loaded->sparse->widen(wide, model->head_dim, (char *)lane_kv(m, off, pos) + skip,
					 m->kv_row_bytes, n, model->head_dim, type);
		if (!p->values)
			attention_keys(m->attention->a, p->layer, head, wide, n);
		fn(p, head, pos, wide, n);
	}
}

static void note_most(const struct scale_pass *p, unsigned int head, unsigned int pos,
		      const float *rows, unsigned int n)
{
	const struct lane_attention *t = p->m->attention;
	float *most = &t->most[p->layer * t->a->kv_heads + head];

	*most = greatest(rows, (size_t)n * t->a->head_dim, *most);
}

static void task_most(void *arg, unsigned int head, unsigned int worker)
{
	for_keys(arg, head, worker, note_most);
}

static void pack_rows(const struct scale_pass *p, unsigned int head, unsigned int pos,
		      const float *rows, unsigned int n)
{
	const struct lane_attention *t = p->m->attention;
	size_t at = p->layer * t->a->kv_heads + head;
	p->m->loaded->floats->pack_keys((uint8_t *)t->keys.data + lane_keys_off(t, p->layer, head),
					rows, t->a->head_dim, n, t->a->head_dim, pos,
					t->a->buckets.k[t->k_scale[at]]);
}

static void task_pack(void *arg, unsigned int head, unsigned int worker)
{
	struct scale_pass p = *(const struct scale_pass *)arg;
	struct lane_attention *t = p.m->attention;
	size_t at = p.layer * t->a->kv_heads + head;
	unsigned int scale = scale_buckets_nearest_k(&t->a->buckets, t->most[at] / 127);

	/* All of the head's keys have one scale. */
	if (scale != t->k_scale[at]) {
		t->k_scale[at] = (uint8_t)scale;
		atomic_fetch_add(&t->repacked, p.from > 0);
		p.from = 0;
	}
	for_keys(&p, head, worker, pack_rows);
}

static void pack_value_rows(const struct scale_pass *p, unsigned int head, unsigned int pos,
			    const float *rows, unsigned int n)
{
	const struct lane_attention *t = p->m->attention;
	unsigned int dim = t->a->head_dim;

	p->m->loaded->floats->pack_values(
		(uint8_t *)t->values.data + lane_values_off(t, p->layer, head), rows, dim, n, dim,
		pos, t->a->v_scales[p->layer * t->a->kv_heads + head]);
}

/* Values have the calibration's scale, whatever they are. */
static void task_values(void *arg, unsigned int head, unsigned int worker)
{
	struct scale_pass p = *(const struct scale_pass *)arg;

	p.values = true;
	for_keys(&p, head, worker, pack_value_rows);
}

/* The scales of a KV head's queries, the greatest of its heads', keys and values. */
static void put_scales(const struct scale_pass *p, unsigned int kv_head)
{
	const struct lane_attention *t = p->m->attention;
	unsigned int group = t->a->heads / t->a->kv_heads, most = 0;
	const uint8_t *q = t->q_scale + p->row * t->a->heads + kv_head * group;
	size_t at = p->layer * t->a->kv_heads + kv_head;
	float *to = (float *)((char *)t->scales.data + lane_scales_off(t, kv_head, p->row));

	for (unsigned int h = 0; h < group; h++)
		most = q[h] > most ? q[h] : most;
	to[0] = t->a->buckets.q[most];
	to[1] = t->a->buckets.k[t->k_scale[at]];
	to[2] = t->a->v_scales[at];
}

void lane_cpu_scale(struct lane_memory *m, const struct lane_call *call)
{
	struct lane_attention *t = m->attention;
	struct llm_pool *pool = m->loaded->pool;
	struct scale_pass p = {
		.m = m,
		.layer = call->work->layer,
		.pos = call->pos,
		.n = call->chunk->n,
		.row = call->chunk->row,
		.from = t->seen[call->work->layer],
	};

	llm_pool_run(pool, task_query, &p, t->a->heads);
	llm_pool_run(pool, task_most, &p, t->a->kv_heads);
	p.from = t->packed[p.layer];
	llm_pool_run(pool, task_pack, &p, t->a->kv_heads);
	for (unsigned int h = 0; h < t->a->heads; h++) {
		size_t at = p.row * t->a->heads + h;

		t->q_scale[at] =
			(uint8_t)scale_buckets_nearest_q(&t->a->buckets, t->most_q[at] / 127);
	}
	if (t->head_values)
		llm_pool_run(pool, task_values, &p, t->a->kv_heads);
	for (unsigned int h = 0; h < t->a->kv_heads && t->head_values; h++)
		put_scales(&p, h);
	t->packed[p.layer] = t->seen[p.layer] = p.pos + p.n;
}
