// SPDX-License-Identifier: MIT
/*
 * Attention of a token tree on the CPU lane, by the device's kernel: a node sees the cache and its
 * ancestors (CoordGen 3.1), whose rows are among those of other nodes.
 *
 * The kernel sums up segments of FW_ATTN_SEGMENT keys. Those that end before the tree are the same
 * keys for all nodes. The keys from the last of their bounds on are copied once, and for each node
 * in turn its ancestors behind them: so keys are where they would be without the tree, and results
 * have the bits of plain decoding.
 *
 *	cache	| segment | segment | the rest of the cache | nodes of the tree |
 *	copy	                    | the rest of the cache | ancestors |
 */
#include <math.h>
#include <string.h>

#include "lane_attention.h"

/* Sums that a tile keeps for each query: of the segments before the copy, and of those in it. */
enum part {
	PART_BEFORE,
	PART_COPY,
	PART_BEHIND,
	NR_PARTS,
};
#define COPY_ROWS (FW_ATTN_SEGMENT + LLM_MAX_TREE)

struct tree_pass {
	struct lane_memory *m;
	const struct lane_call *call;
	unsigned int group; /* query heads of a KV head */
	unsigned int tile, tiles; /* queries of a tile at most; tiles of a KV head */
	unsigned int shared; /* segments that all nodes see */
};

/* Some queries of a KV head, counted through its heads of node after node. */
struct tile {
	const struct tree_pass *p;
	unsigned int kv_head, first, n;
	float *part; /* [NR_PARTS][n][fw_attn_part_floats()] */
	char *k, *v; /* [COPY_ROWS][head_bytes] */
	void *scratch; /* the kernel's */
};

static size_t head_bytes(const struct lane_memory *m)
{
	return VNPU_KV_BYTES(llm_kv_type(m->loaded->kv), m->loaded->model.head_dim);
}

static unsigned int tile_queries(const struct lane_memory *m)
{
	return fw_attn_tile(m->loaded->model.head_dim, 0);
}

static size_t part_floats(const struct tile *t)
{
	return t->n * fw_attn_part_floats(t->p->m->loaded->model.head_dim);
}

size_t lane_tree_scratch(const struct lane_memory *m)
{
	size_t query = fw_attn_part_floats(m->loaded->model.head_dim) * sizeof(float);

	return NR_PARTS * tile_queries(m) * query + 2 * COPY_ROWS * head_bytes(m);
}

/* The tile's operands for the keys of the cache from position 0 on. */
static struct fw_attn operands(const struct tile *t)
{
	const struct lane_memory *m = t->p->m;
	const struct llm_model *model = &m->loaded->model;
	unsigned int layer = t->p->call->work->layer;
	size_t heads = (size_t)t->kv_head * t->p->group * model->head_dim,
	       first = (size_t)t->p->call->chunk->row * model->q_dim + heads,
	       skip = t->kv_head * head_bytes(m);

	return (struct fw_attn){
		.q = m->q.data + first,
		.y = m->att.data + first,
		.ldq = model->q_dim,
		.ldy = model->q_dim,
		.heads = 1,
		.group = t->p->group,
		.first = t->first,
		.nr_q = t->n,
		.pos = t->p->call->pos,
		.k = (char *)lane_kv(m, lane_k_off(m, layer), 0) + skip,
		.v = (char *)lane_kv(m, lane_v_off(m, layer), 0) + skip,
		.k_row_bytes = m->kv_row_bytes,
		.v_row_bytes = m->kv_row_bytes,
		.kv_type = llm_kv_type(m->loaded->kv),
		.head_dim = model->head_dim,
		.scale = 1.0f / sqrtf((float)model->head_dim),
	};
}

/* Folds @nr parts from @first on into that one, and writes the results so far. */
static void fold(const struct tile *t, unsigned int first, unsigned int nr)
{
	struct fw_attn of = operands(t);

	/* As many segments as parts, whatever the query's row is. */
	of.pos = (uint64_t)(nr - 1) * FW_ATTN_SEGMENT;
	of.part = t->part + first * part_floats(t);
	t->p->m->loaded->floats->attn_fold(&of);
}

/* The segments that all nodes see. */
static void sum_shared(const struct tile *t)
{
	struct fw_attn of = operands(t);

	for (unsigned int s = 0; s < t->p->shared; s++) {
		of.segment = s;
		of.part = t->part + (s ? PART_COPY : PART_BEFORE) * part_floats(t);
		t->p->m->loaded->floats->attn(&of, t->scratch);
		if (s)
			fold(t, PART_BEFORE, 2);
	}
}

/* ---- the copy ---- */

static unsigned int copy_pos(const struct tree_pass *p)
{
	return p->shared * FW_ATTN_SEGMENT;
}

/* Copies rows @from.. of the cache to rows @to.. of the copy. */
static void copy_rows(const struct tile *t, unsigned int from, unsigned int to, unsigned int n)
{
	const struct fw_attn of = operands(t);
	size_t bytes = head_bytes(t->p->m);

	for (unsigned int i = 0; i < n; i++) {
		size_t off = (size_t)(from + i) * of.k_row_bytes;

		memcpy(t->k + (to + i) * bytes, (const char *)of.k + off, bytes);
		memcpy(t->v + (to + i) * bytes, (const char *)of.v + off, bytes);
	}
}

static void copy_ancestors(const struct tile *t, unsigned int node)
{
	unsigned int pos = t->p->call->pos, to = pos - copy_pos(t->p);

	for (uint64_t left = t->p->call->tree->ancestors[node]; left; left &= left - 1)
		copy_rows(t, pos + (unsigned int)__builtin_ctzll(left), to++, 1);
}

/* Sums of the segment @s of the copy; of a node that has no keys there, those of none. */
static void sum_segment(const struct tile *t, const struct fw_attn *node, unsigned int i,
			unsigned int s)
{
	size_t each = fw_attn_part_floats(node->head_dim);
	struct fw_attn of = *node;

	of.segment = s;
	of.part = t->part + (PART_COPY + s) * part_floats(t) + i * each;
	if (node->pos >= s * FW_ATTN_SEGMENT) {
		t->p->m->loaded->floats->attn(&of, t->scratch);
		return;
	}
	memset(of.part, 0, of.nr_q * each * sizeof(float));
	for (unsigned int q = 0; q < of.nr_q; q++)
		of.part[q * each + each - 16] = -INFINITY;
}

/* The tile's queries of @node, which begin with its query @i. Returns how many there are. */
static unsigned int sum_node(const struct tile *t, unsigned int node, unsigned int i,
			     unsigned int segments)
{
	unsigned int head = (t->first + i) % t->p->group, left = t->p->group - head;
	struct fw_attn of = operands(t);

	of.q += node * of.ldq;
	of.y += node * of.ldy;
	of.first = head;
	of.nr_q = left < t->n - i ? left : t->n - i;
	of.pos = t->p->call->pos - copy_pos(t->p) + t->p->call->tree->depths[node];
	of.k = t->k;
	of.v = t->v;
	of.k_row_bytes = of.v_row_bytes = head_bytes(t->p->m);
	copy_ancestors(t, node);
	for (unsigned int s = 0; s < segments; s++)
		sum_segment(t, &of, i, s);
	return of.nr_q;
}

/* ---- the layer ---- */

/* Segments of the copy that any node has keys in. */
static unsigned int copy_segments(const struct tree_pass *p)
{
	const struct lane_tree *tree = p->call->tree;
	unsigned int deepest = 0;

	for (uint32_t i = 0; i < tree->n; i++)
		deepest = tree->depths[i] > deepest ? tree->depths[i] : deepest;
	return (p->call->pos + deepest - copy_pos(p)) / FW_ATTN_SEGMENT + 1;
}

static void task_tile(void *arg, unsigned int task, unsigned int worker)
{
	const struct tree_pass *p = arg;
	struct lane_memory *m = p->m;
	struct tile t = {
		.p = p,
		.kv_head = task / p->tiles,
		.first = task % p->tiles * p->tile,
		.scratch = m->scratch + worker * m->scratch_floats,
	};
	unsigned int left = p->call->tree->n * p->group - t.first, segments = copy_segments(p);

	t.n = left < p->tile ? left : p->tile;
	t.part = (float *)(m->tree_scratch + worker * m->tree_bytes);
	t.k = (char *)(t.part + NR_PARTS * part_floats(&t));
	t.v = t.k + COPY_ROWS * head_bytes(m);
	sum_shared(&t);
	copy_rows(&t, copy_pos(p), 0, p->call->pos - copy_pos(p));
	for (unsigned int i = 0; i < t.n;)
		i += sum_node(&t, (t.first + i) / p->group, i, segments);
	if (p->shared)
		fold(&t, PART_BEFORE, 1 + segments);
	else
		fold(&t, PART_COPY, segments);
}

void lane_cpu_tree(struct lane_memory *m, const struct lane_call *call)
{
	const struct llm_model *model = &m->loaded->model;
	struct tree_pass p = {
		.m = m,
		.call = call,
		.group = model->n_head / model->n_head_kv,
		.tile = tile_queries(m),
		.shared = call->pos / FW_ATTN_SEGMENT,
	};

	p.tiles = (call->tree->n * p.group + p.tile - 1) / p.tile;
	llm_pool_run(m->loaded->pool, task_tile, &p, p.tiles * model->n_head_kv);
}
