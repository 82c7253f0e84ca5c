// SPDX-License-Identifier: MIT
/*
 * Sparse attention on the CPU lane (shadowAttn 3.2): for a tile of a head's queries, the scores, by
 * the NPU or here, then the keys with the greatest, then attention over those. What comes between
 * is in the thread's scratch only. Heads whose ratio says so have full attention (attention.h), by
 * the kernel that computes a whole layer's.
 *
 * A query's keys and result depend on its own scores alone, so neither tiles nor threads matter.
 */
#include <assert.h>
#include <time.h>

#include "cpu_sparse.h"
#include "lane_attention.h"

/* Queries of a tile, and bytes of their lists with all keys, which limit the queries. */
#define MOST_ROWS 128
#define LEAST_ROWS 16
#define LIST_BYTES (4u << 20)

static_assert(FW_SCRATCH_BYTES <= CPU_SPARSE_SCRATCH_BYTES, "one scratch for both kernels");

struct heads_pass {
	struct lane_memory *m;
	const struct lane_call *call;
	unsigned int tile_rows, tiles; /* of a head */
	bool estimate; /* the scores are to be computed here */
	bool rest; /* only heads that have full attention; the others' scores are the NPU's */
};

/* A tile, and where its stages leave what they make. */
struct tile {
	const struct heads_pass *p;
	const struct lane_memory *m;
	unsigned int layer, head, slot; /* slot: of the NPU's scores */
	unsigned int first, rows; /* queries of the chunk */
	size_t ld; /* of lists and of scores that are estimated here */
	float *scores; /* [rows][ld] */
	uint32_t *found; /* [rows][ld] */
	uint32_t *nr; /* [rows]: keys found */
	void *scratch; /* of a kernel */
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- memory ---- */

static size_t list_room(unsigned int keys)
{
	return ((size_t)keys + CPU_SPARSE_SLACK + 15) / 16 * 16;
}

static unsigned int tile_rows(const struct lane_memory *m)
{
	size_t rows =
		LIST_BYTES / sizeof(uint32_t) / list_room(m->kv_rows) / LEAST_ROWS * LEAST_ROWS;

	return rows < LEAST_ROWS ? LEAST_ROWS : rows < MOST_ROWS ? (unsigned int)rows : MOST_ROWS;
}

size_t lane_sparse_scratch(const struct lane_memory *m)
{
	size_t list = tile_rows(m) * list_room(m->kv_rows) * sizeof(uint32_t);

	return CPU_SPARSE_SCRATCH_BYTES + MOST_ROWS * sizeof(uint32_t) + 2 * list;
}

static void place(struct tile *t, char *scratch)
{
	unsigned int keys = t->p->call->pos + t->first + t->rows;

	t->ld = list_room(keys);
	t->scratch = scratch;
	scratch += CPU_SPARSE_SCRATCH_BYTES;
	t->nr = (uint32_t *)scratch;
	t->found = t->nr + MOST_ROWS;
	t->scores = (float *)(t->found + t->rows * t->ld);
}

/* ---- stages ---- */

/* Of the tile's first query, in the areas of queries and results. */
static size_t first_value(const struct tile *t)
{
	const struct llm_model *model = &t->m->loaded->model;

	return (t->p->call->chunk->row + t->first) * (size_t)model->q_dim +
	       (size_t)t->head * model->head_dim;
}

static struct cpu_sparse_attn operands(const struct tile *t)
{
	const struct llm_model *model = &t->m->loaded->model;
	enum vnpu_kv_type type = llm_kv_type(t->m->loaded->kv);
	unsigned int kv_head = t->head / (model->n_head / model->n_head_kv);
	size_t skip = VNPU_KV_BYTES(type, (size_t)kv_head * model->head_dim),
	       first = first_value(t);

	return (struct cpu_sparse_attn){
		.q = t->m->q.data + first,
		.y = t->m->att.data + first,
		.ldq = model->q_dim,
		.ldy = model->q_dim,
		.group = 1,
		.nr_q = t->rows,
		.k = (char *)lane_kv(t->m, lane_k_off(t->m, t->layer), 0) + skip,
		.v = (char *)lane_kv(t->m, lane_v_off(t->m, t->layer), 0) + skip,
		.k_row_bytes = t->m->kv_row_bytes,
		.v_row_bytes = t->m->kv_row_bytes,
		.kv_type = type,
		.head_dim = model->head_dim,
		.scale = model->attn_scale,
		.positions = t->found,
		.ld = t->ld,
		.nr = t->nr,
	};
}

static unsigned int visible(const struct tile *t, unsigned int row)
{
	return t->p->call->pos + t->first + row + 1;
}

static void estimate(const struct tile *t, const struct cpu_sparse_attn *of)
{
	const struct cpu_sparse_scores scores = {
		.q = of->q,
		.ldq = of->ldq,
		.group = of->group,
		.nr_q = of->nr_q,
		.pos = t->p->call->pos + t->first,
		.k = of->k,
		.k_row_bytes = of->k_row_bytes,
		.kv_type = of->kv_type,
		.head_dim = of->head_dim,
		.scores = t->scores,
		.ld = t->ld,
	};

	t->m->loaded->sparse->scores(&scores, t->scratch);
}

static void select_keys(struct tile *t)
{
	const struct cpu_sparse *kernels = t->m->loaded->sparse;
	const struct lane_attention *a = t->m->attention;
	size_t row = t->p->call->chunk->row + t->first;
	const char *scores = (const char *)a->scores.data;

	for (unsigned int r = 0; r < t->rows; r++) {
		unsigned int n = visible(t, r), keep = attention_keep(a->a, t->layer, t->head, n);
		uint32_t *found = t->found + r * t->ld;
		size_t off = lane_scores_off(a, t->slot, row + r);

		t->nr[r] = (uint32_t)(t->p->estimate
					      ? kernels->select_f32(found, t->scores + r * t->ld, n,
								    keep)
					      : kernels->select_s16(found,
								    (const int16_t *)(scores + off),
								    n, keep));
	}
}

static void count(const struct tile *t, const uint64_t at_ns[4])
{
	struct lane_attention *a = t->m->attention;
	uint64_t keys = 0, seen = 0;

	for (unsigned int r = 0; r < t->rows; r++) {
		keys += t->nr[r];
		seen += visible(t, r);
	}
	atomic_fetch_add(&a->estimate_ns, at_ns[1] - at_ns[0]);
	atomic_fetch_add(&a->select_ns, at_ns[2] - at_ns[1]);
	atomic_fetch_add(&a->attend_ns, at_ns[3] - at_ns[2]);
	atomic_fetch_add(&a->selected, keys);
	atomic_fetch_add(&a->visible, seen);
}

/* Chooses the keys of the tile's queries, and computes with them. */
static void attend_chosen(struct tile *t)
{
	const struct cpu_sparse_attn of = operands(t);
	uint64_t at_ns[4] = { now_ns() };

	if (t->p->estimate)
		estimate(t, &of);
	at_ns[1] = now_ns();
	select_keys(t);
	at_ns[2] = now_ns();
	t->m->loaded->sparse->attn(&of, t->scratch);
	at_ns[3] = now_ns();
	count(t, at_ns);
}

/* The same bits as those of lane_cpu_attention(), whose tiles have all heads of a KV head. */
static void attend_all(struct tile *t)
{
	const struct cpu_sparse_attn of = operands(t);
	uint32_t most = fw_attn_queries(of.head_dim);
	uint64_t begin_ns = now_ns();
	struct fw_attn all = {
		.q = of.q,
		.y = of.y,
		.ldq = of.ldq,
		.ldy = of.ldy,
		.heads = 1,
		.group = 1,
		.pos = t->p->call->pos + t->first,
		.k = of.k,
		.v = of.v,
		.k_row_bytes = of.k_row_bytes,
		.v_row_bytes = of.v_row_bytes,
		.kv_type = of.kv_type,
		.head_dim = of.head_dim,
		.scale = of.scale,
	};

	for (; all.first < t->rows; all.first += most) {
		all.nr_q = t->rows - all.first < most ? t->rows - (uint32_t)all.first : most;
		t->m->loaded->floats->attn(&all, t->scratch);
	}
	for (unsigned int r = 0; r < t->rows; r++)
		t->nr[r] = visible(t, r);
	count(t, (uint64_t[]){ begin_ns, begin_ns, begin_ns, now_ns() });
}

static void task_tile(void *arg, unsigned int task, unsigned int worker)
{
	const struct heads_pass *p = arg;
	const struct lane_attention *a = p->m->attention;
	const struct lane_work *w = p->call->work;
	unsigned int i = task / p->tiles, left;
	bool whole;
	struct tile t = {
		.p = p,
		.m = p->m,
		.layer = w->layer,
		.head = w->nr_heads ? w->head[i] : i,
		.slot = w->nr_heads ? w->slot[i] : 0,
		/* The tiles with the most keys first, for balance. */
		.first = (p->tiles - 1 - task % p->tiles) * p->tile_rows,
	};

	whole = attention_whole(a->a, t.layer, t.head);
	if (p->rest && !whole)
		return;
	left = p->call->chunk->n - t.first;
	t.rows = left < p->tile_rows ? left : p->tile_rows;
	place(&t, a->scratch + worker * a->scratch_bytes);
	if (whole)
		attend_all(&t);
	else
		attend_chosen(&t);
}

void lane_cpu_heads(struct lane_memory *m, const struct lane_call *call)
{
	const struct lane_work *w = call->work;
	struct heads_pass p = {
		.m = m,
		.call = call,
		.tile_rows = tile_rows(m),
		.estimate = w->op == LLM_OP_ESTIMATE,
		.rest = w->op == LLM_OP_SELECT && !w->nr_heads,
	};
	unsigned int heads = w->nr_heads ? w->nr_heads : m->loaded->model.n_head;

	if (w->op == LLM_OP_SCALE)
		return lane_cpu_scale(m, call);
	if (m->attention->a->kind == LLM_ATTENTION_BLOCK)
		return lane_cpu_blocks(m, call);
	p.tiles = (call->chunk->n + p.tile_rows - 1) / p.tile_rows;
	llm_pool_run(m->loaded->pool, task_tile, &p, heads * p.tiles);
}
