// SPDX-License-Identifier: MIT
/*
 * Attention block (shadowAttn 2.2): the importance of 64 keys for 64 queries is the product of
 * their means, and the queries compute with the blocks of the greatest importance, their own
 * always among them. Blocks of queries count from the chunk's first, blocks of keys from the
 * session's; a block of keys that only some of the queries see is their own.
 *
 * The rows of the chosen blocks are gathered side by side, so that the device's kernel for full
 * attention computes with them at its speed.
 */
#include <string.h>

#include "cpu_sparse.h"
#include "lane_attention.h"

#define BLOCK LANE_BLOCK_ROWS

struct block_pass {
	struct lane_memory *m;
	const struct lane_call *call;
	unsigned int blocks; /* of the chunk's queries */
	unsigned int whole; /* of keys, before the block of the chunk's last query */
};

/* A block of a head's queries. */
struct block {
	const struct block_pass *p;
	const struct lane_memory *m;
	unsigned int head, kv_head;
	unsigned int first, rows; /* queries of the chunk */
	unsigned int pos; /* of the first */
	unsigned int whole; /* blocks of keys that all queries see; behind them is their own */
	uint32_t *found; /* [whole + 1] */
	float *scores; /* [whole + 1] */
	float *mean; /* [head_dim], of the queries */
	float *wide; /* [BLOCK][head_dim]: of a block whose keys are added up */
	char *k, *v; /* gathered: floats [keys][head_dim] */
	float *scratch; /* of the kernel */
};

static unsigned int kv_blocks(const struct lane_memory *m)
{
	return (m->kv_rows + BLOCK - 1) / BLOCK + 1;
}

size_t lane_block_sums(const struct lane_memory *m)
{
	return (size_t)m->loaded->model.n_head_kv * kv_blocks(m) * m->loaded->model.head_dim;
}

size_t lane_block_scratch(const struct lane_memory *m)
{
	size_t dim = m->loaded->model.head_dim,
	       lists = 2 * ((size_t)kv_blocks(m) + CPU_SPARSE_SLACK + 16) * sizeof(float),
	       rows = ((size_t)BLOCK + 1) * dim * sizeof(float),
	       gathered = 2 * (size_t)kv_blocks(m) * BLOCK * dim * sizeof(float);

	return FW_SCRATCH_BYTES + lists + rows + gathered;
}

static void place(struct block *b, char *scratch)
{
	size_t dim = b->m->loaded->model.head_dim,
	       list = ((size_t)kv_blocks(b->m) + CPU_SPARSE_SLACK + 15) / 16 * 16;

	b->scratch = (float *)scratch;
	b->k = scratch + FW_SCRATCH_BYTES;
	b->v = b->k + (size_t)kv_blocks(b->m) * BLOCK * dim * sizeof(float);
	b->wide = (float *)(b->v + (size_t)kv_blocks(b->m) * BLOCK * dim * sizeof(float));
	b->mean = b->wide + BLOCK * dim;
	b->scores = b->mean + dim;
	b->found = (uint32_t *)(b->scores + list);
}

/* Rows @pos.. of the head's keys, or values, as floats. */
static void widen(const struct block *b, bool values, unsigned int pos, unsigned int n, float *to)
{
	const struct lane_memory *m = b->m;
	unsigned int dim = m->loaded->model.head_dim, layer = b->p->call->work->layer;
	enum vnpu_kv_type type = llm_kv_type(m->loaded->kv);
	size_t off = values ? lane_v_off(m, layer) : lane_k_off(m, layer);

	m->loaded->sparse->widen(to, dim,
				 (char *)lane_kv(m, off, pos) +
					 VNPU_KV_BYTES(type, (size_t)b->kv_head * dim),
				 m->kv_row_bytes, n, dim, type);
}

/* The mean's sums, which compare as the mean does. */
static void add_rows(float *sum, const float *rows, size_t ld, unsigned int n, unsigned int dim)
{
	for (unsigned int r = 0; r < n; r++)
		for (unsigned int d = 0; d < dim; d++)
			sum[d] += rows[r * ld + d];
}

static const float *queries(const struct block *b)
{
	const struct llm_model *model = &b->m->loaded->model;

	return b->m->q.data + (b->p->call->chunk->row + b->first) * (size_t)model->q_dim +
	       (size_t)b->head * model->head_dim;
}

/* Of the keys of a KV head's block, which are the same for all queries of a pass. */
static float *key_sums(const struct lane_memory *m, unsigned int kv_head, unsigned int block)
{
	return m->attention->key_sums +
	       ((size_t)kv_head * kv_blocks(m) + block) * m->loaded->model.head_dim;
}

static float importance(const struct block *b, unsigned int block)
{
	unsigned int dim = b->m->loaded->model.head_dim;
	const float *sum = key_sums(b->m, b->kv_head, block);
	float dot = 0;

	for (unsigned int d = 0; d < dim; d++)
		dot += b->mean[d] * sum[d];
	return dot;
}

/* How many blocks were chosen; the last one is the queries' own. */
static unsigned int choose(struct block *b)
{
	const struct llm_model *model = &b->m->loaded->model;
	const struct attention *a = b->m->attention->a;
	unsigned int layer = b->p->call->work->layer, all = b->whole + 1,
		     keep = attention_keep(a, layer, b->head, all * BLOCK);

	memset(b->mean, 0, model->head_dim * sizeof(float));
	add_rows(b->mean, queries(b), model->q_dim, b->rows, model->head_dim);
	for (unsigned int i = 0; i < b->whole; i++)
		b->scores[i] = importance(b, i);
	b->scores[b->whole] = 0;
	return (unsigned int)b->m->loaded->sparse->select_f32(b->found, b->scores, all,
							      (keep + BLOCK - 1) / BLOCK);
}

/* Brings the chosen blocks' rows together; the queries' own are behind the others. */
static void gather(const struct block *b, unsigned int chosen)
{
	size_t dim = b->m->loaded->model.head_dim, own = b->pos + b->rows - b->whole * BLOCK;

	for (unsigned int i = 0; i < chosen; i++) {
		unsigned int n = i + 1 < chosen ? BLOCK : (unsigned int)own;
		size_t at = (size_t)i * BLOCK * dim;

		widen(b, false, b->found[i] * BLOCK, n, (float *)b->k + at);
		widen(b, true, b->found[i] * BLOCK, n, (float *)b->v + at);
	}
}

static void attend(const struct block *b, unsigned int chosen)
{
	const struct llm_model *model = &b->m->loaded->model;
	size_t row_bytes = model->head_dim * sizeof(float);
	unsigned int most = fw_attn_tile(model->head_dim, b->rows);
	struct fw_attn t = {
		.q = queries(b),
		.y = b->m->att.data + (queries(b) - b->m->q.data),
		.ldq = model->q_dim,
		.ldy = model->q_dim,
		.heads = 1,
		.group = 1,
		.pos = (uint64_t)(chosen - 1) * BLOCK + b->pos - b->whole * BLOCK,
		.k = b->k,
		.v = b->v,
		.k_row_bytes = row_bytes,
		.v_row_bytes = row_bytes,
		.kv_type = VNPU_KV_F32,
		.head_dim = model->head_dim,
		.scale = model->attn_scale,
	};

	for (t.first = 0; t.first < b->rows; t.first += most) {
		t.nr_q = b->rows - t.first < most ? b->rows - (uint32_t)t.first : most;
		b->m->loaded->floats->attn(&t, b->scratch);
	}
}

/* A KV head's keys of one block are added up. */
static void task_sums(void *arg, unsigned int task, unsigned int worker)
{
	const struct block_pass *p = arg;
	struct lane_attention *a = p->m->attention;
	unsigned int dim = p->m->loaded->model.head_dim;
	struct block b = { .p = p, .m = p->m, .kv_head = task / p->whole };
	float *sum = key_sums(p->m, b.kv_head, task % p->whole);

	place(&b, a->scratch + worker * a->scratch_bytes);
	widen(&b, false, task % p->whole * BLOCK, BLOCK, b.wide);
	memset(sum, 0, dim * sizeof(*sum));
	add_rows(sum, b.wide, dim, BLOCK, dim);
}

static void task_block(void *arg, unsigned int task, unsigned int worker)
{
	const struct block_pass *p = arg;
	struct lane_attention *a = p->m->attention;
	const struct llm_model *model = &p->m->loaded->model;
	/* The blocks with the most keys first, for balance. */
	unsigned int i = p->blocks - 1 - task % p->blocks, chosen, before;
	struct block b = { .p = p, .m = p->m, .head = task / p->blocks };

	b.kv_head = b.head / (model->n_head / model->n_head_kv);
	b.first = i * BLOCK;
	b.rows = p->call->chunk->n - b.first < BLOCK ? p->call->chunk->n - b.first : BLOCK;
	b.pos = p->call->pos + b.first;
	b.whole = b.pos / BLOCK;
	place(&b, a->scratch + worker * a->scratch_bytes);
	chosen = choose(&b);
	gather(&b, chosen);
	attend(&b, chosen);
	before = (chosen - 1) * BLOCK;
	atomic_fetch_add(&a->visible, (uint64_t)b.rows * b.pos + b.rows * (b.rows + 1ull) / 2);
	atomic_fetch_add(&a->selected, (uint64_t)b.rows * (before + b.pos - b.whole * BLOCK) +
					       b.rows * (b.rows + 1ull) / 2);
}

void lane_cpu_blocks(struct lane_memory *m, const struct lane_call *call)
{
	struct block_pass p = {
		.m = m,
		.call = call,
		.blocks = (call->chunk->n + BLOCK - 1) / BLOCK,
		.whole = (call->pos + call->chunk->n - 1) / BLOCK,
	};

	llm_pool_run(m->loaded->pool, task_sums, &p, m->loaded->model.n_head_kv * p.whole);
	llm_pool_run(m->loaded->pool, task_block, &p, m->loaded->model.n_head * p.blocks);
}
