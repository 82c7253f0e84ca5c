// SPDX-License-Identifier: MIT
/* Full attention on the CPU lane, by the device's kernel. */
#include "cpu_lane.h"
#include "lane_attention.h"

/* Of a layer, for a chunk whose areas begin at row. */
struct attention_pass {
	struct lane_memory *m;
	unsigned int index, pos, n;
	size_t row;
	const struct lane_tree *tree; /* as in lane_call */
};

/* Tiles of a KV head's queries, which are all rows of the heads that share it. */
static unsigned int attention_tiles(const struct attention_pass *p)
{
	const struct llm_model *model = &p->m->loaded->model;
	unsigned int most = fw_attn_tile(model->head_dim, (uint64_t)p->n * model->n_head);

	return (p->n * (model->n_head / model->n_head_kv) + most - 1) / most;
}

/* att = softmax(q k^T) v for a tile of queries of one KV head. */
static void task_attention(void *arg, unsigned int task, unsigned int worker)
{
	const struct attention_pass *p = arg;
	const struct lane_memory *m = p->m;
	const struct llm_model *model = &m->loaded->model;
	unsigned int tiles = attention_tiles(p),
		     most = fw_attn_tile(model->head_dim, (uint64_t)p->n * model->n_head);
	unsigned int group = model->n_head / model->n_head_kv;
	enum vnpu_kv_type type = llm_kv_type(m->loaded->kv);
	size_t kv_head = task / tiles, d = model->head_dim, head_bytes = VNPU_KV_BYTES(type, d);
	size_t first = p->row * model->q_dim + kv_head * group * d;
	struct fw_attn t = {
		.q = m->q.data + first,
		.y = m->att.data + first,
		.ldq = model->q_dim,
		.ldy = model->q_dim,
		.heads = 1,
		.group = group,
		/* The tiles with the most keys first, for balance. */
		.first = (uint64_t)(tiles - 1 - task % tiles) * most,
		.pos = p->pos,
		.mask = p->tree ? p->tree->ancestors : NULL,
		.k = (char *)lane_kv(m, lane_k_off(m, p->index), 0) + kv_head * head_bytes,
		.v = (char *)lane_kv(m, lane_v_off(m, p->index), 0) + kv_head * head_bytes,
		.k_row_bytes = m->kv_row_bytes,
		.v_row_bytes = m->kv_row_bytes,
		.kv_type = type,
		.head_dim = model->head_dim,
		.scale = model->attn_scale,
		.window = llm_model_window(model, p->index),
		.cap = model->attn_cap,
	};

	t.nr_q = p->n * group - t.first < most ? (uint32_t)(p->n * group - t.first) : most;
	m->loaded->floats->attn(&t, m->scratch + worker * m->scratch_floats);
}

void lane_cpu_attention(struct lane_memory *m, const struct lane_call *call)
{
	struct attention_pass p = {
		.m = m,
		.index = call->work->layer,
		.pos = call->pos,
		.n = call->chunk->n,
		.row = call->chunk->row,
		.tree = call->tree,
	};

	llm_pool_run(m->loaded->pool, task_attention, &p,
		     attention_tiles(&p) * m->loaded->model.n_head_kv);
}
