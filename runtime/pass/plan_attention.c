// SPDX-License-Identifier: MIT
/*
 * A layer's attention that is not full (shadowAttn 3.2 and 3.4). With attention shadow the NPU
 * estimates the scores of some heads in one launch, and the CPU selects each head's keys and
 * computes with them:
 *
 *	                +-- estimate (NPU) --+-- select -- attn (CPU)
 *	scale (CPU) ----+                    +-- select -- attn
 *	                +-- estimate --------+-- select -- attn
 *
 * head_plan.h orders launches and heads. With attention sparse the CPU does all of it, for all
 * heads together. What the CPU does for the same heads is one task on the wall clock; on the
 * virtual clock each stage has one, of which the first does all the work.
 *
 * Heads whose ratio is so great that choosing keys does not pay have full attention: one task of
 * the CPU before the others, during which the NPU estimates.
 */
#include <assert.h>
#include <stdlib.h>

#include "head_plan.h"
#include "plan_private.h"

/* Operations on each value of a query, or a key: its maximum, and a copy or the rounding. A query
 * is balanced by a product, which is its copy; a key by a difference and a product. */
#define OPS_SCALE FLOAT_OPS_QUANT
#define OPS_BALANCE_KEY (2 * FLOAT_OPS_ADD)

bool plan_is_sparse(const struct builder *b)
{
	if (b->token && b->o->choices.decode == LLM_DECODE_FULL)
		return false;
	return b->o->attention && b->pos + b->chunk->n > b->o->attention->from;
}

/* ---- costs ---- */

static struct soc_op scores_of(const struct builder *b, uint32_t rows, uint32_t heads,
			       unsigned int bits)
{
	struct soc_op op = plan_attention(b, rows);
	uint32_t group = b->o->shape->heads / b->o->shape->kv_heads;

	op.kind = SOC_QK_ESTIMATE;
	op.n = heads;
	op.kv_heads = (heads + group - 1) / group;
	op.kv_bits = op.act_bits = bits;
	return op;
}

/* Of so many heads with this share of the keys. */
static struct soc_op selection_of(const struct builder *b, uint32_t heads, double density)
{
	struct soc_op op = plan_attention(b, b->chunk->n);

	op.kind = SOC_TOPK;
	op.n = heads;
	op.density = density;
	op.act_bits = 16;
	return op;
}

/* Of some heads with this share of the keys in all. */
static struct soc_op rest_of(const struct builder *b, uint32_t heads, double density)
{
	struct soc_op op = plan_attention(b, b->chunk->n);
	uint32_t group = b->o->shape->heads / b->o->shape->kv_heads;

	op.n = heads;
	op.kv_heads = (heads + group - 1) / group;
	op.density = density;
	return op;
}

/* Heads of the layer that do not keep all keys. */
struct choosing {
	uint32_t n;
	double density; /* the mean of their ratios */
};

static struct choosing choosing_of(const struct builder *b, uint32_t layer)
{
	const struct attention *a = b->o->attention;
	struct choosing c = { 0, 0 };

	for (uint32_t h = 0; h < a->heads; h++) {
		if (attention_whole(a, layer, h))
			continue;
		c.n++;
		c.density += (a->ratios[layer * a->heads + h] - c.density) / c.n;
	}
	return c;
}

static struct soc_cost cost_of(const struct builder *b, enum soc_lane lane, const struct soc_op *op)
{
	return b->o->soc ? plan_cost(b->o, lane, op) : (struct soc_cost){ 0, 0 };
}

/* ---- tasks ---- */

static struct lane_work work_of(const struct builder *b, uint32_t layer, enum llm_op op)
{
	return (struct lane_work){ .what = LANE_HEADS, .op = op, .chunk = b->c, .layer = layer };
}

static uint32_t add(struct builder *b, const struct lane_work *work, enum soc_lane lane,
		    const struct soc_op *op)
{
	b->first = b->last = plan_add_task(b, work, 0, lane, cost_of(b, lane, op));
	return b->last;
}

/* A stage that an earlier one has done. On the wall clock it has no task. */
static void add_done(struct builder *b, uint32_t layer, enum llm_op op, struct soc_cost cost)
{
	struct lane_work work = work_of(b, layer, op);

	work.what = LANE_NOTHING;
	if (b->o->soc)
		b->first = b->last = plan_add_task(b, &work, 0, SOC_CPU, cost);
}

/* Attention over the selected keys, and what the CPU does with the result at hand. */
static struct soc_cost rest_cost(const struct builder *b, uint32_t heads, double density)
{
	const struct soc_op rest = rest_of(b, heads, density),
			    side = plan_vector(b->chunk->n, (uint64_t)heads * b->o->shape->head_dim,
					       plan_side_ops(b, LLM_OP_ATTN));
	struct soc_cost cost = cost_of(b, SOC_CPU, &rest);

	cost.ns += cost_of(b, SOC_CPU, &side).ns;
	return cost;
}

/* Full attention of the heads that have it, if there are any. */
static void add_whole(struct builder *b, uint32_t layer)
{
	uint32_t heads = b->o->shape->heads - choosing_of(b, layer).n;
	struct lane_work work = work_of(b, layer, LLM_OP_SELECT);

	if (!heads)
		return;
	b->first = b->last = plan_add_task(b, &work, 0, SOC_CPU, (struct soc_cost){ 0, 0 });
	plan_after_cached(b, layer, b->last);
	add_done(b, layer, LLM_OP_ATTN, rest_cost(b, heads, 1));
}

/* The chunk before has done with the layer's keys, of which this one may change the scales. */
static void add_scale(struct builder *b, uint32_t layer)
{
	const struct shape *s = b->o->shape;
	uint64_t heads = s->heads + s->kv_heads;
	double ops = OPS_SCALE;
	struct soc_op vector;
	struct lane_work work = work_of(b, layer, LLM_OP_SCALE);
	uint32_t scale;

	if (b->o->attention->balanced)
		ops += (double)OPS_BALANCE_KEY * s->kv_heads / (double)heads;
	vector = plan_vector(b->chunk->n, heads * s->head_dim, ops);
	scale = add(b, &work, SOC_CPU, &vector);
	if (b->c && b->d->overlap && b->estimated[layer] != SCHED_NONE)
		b->failed |= sched_after(b->plan->tasks, scale, b->estimated[layer]) != 0;
	plan_set_cached(b, layer, scale);
}

/* ---- the order of heads ---- */

/* Nanoseconds of a query and a key on a server's core with AVX-512, by bench_sparse (phonelm-0.5b,
 * 2048 tokens, 20 % of the keys): the estimate and a key that is computed with, for each value of a
 * head; the selection. On the wall clock only their ratios matter, for the order of heads. */
#define HOST_ESTIMATE (0.41 / 64)
#define HOST_SELECT 0.47
#define HOST_ATTEND (1.10 / 0.2 / 64)

static double npu_ns(const struct builder *b, uint32_t heads)
{
	enum soc_sync sync = b->o->choices.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER;
	struct soc_op scores = scores_of(b, b->rows, heads, 8);

	if (!b->o->soc)
		return HOST_ESTIMATE * b->o->shape->head_dim * heads;
	return soc_alone_ns(b->o->soc, SOC_NPU, cost_of(b, SOC_NPU, &scores)) +
	       soc_npu_start_ns(b->o->soc, sync, false);
}

/* One lane selects and computes. */
static double cpu_ns(const struct builder *b, double ratio)
{
	struct soc_op select = selection_of(b, 1, ratio), rest = rest_of(b, 1, ratio);

	if (!b->o->soc)
		return HOST_SELECT + HOST_ATTEND * b->o->shape->head_dim * ratio;
	return soc_alone_ns(b->o->soc, SOC_CPU, cost_of(b, SOC_CPU, &select)) +
	       soc_alone_ns(b->o->soc, SOC_CPU, cost_of(b, SOC_CPU, &rest)) +
	       2 * soc_cpu_start_ns(b->o->soc);
}

static enum head_plan_policy policy_of(enum llm_pipeline pipeline)
{
	switch (pipeline) {
	case LLM_PIPELINE_SEQUENTIAL:
		return HEAD_PLAN_POLICY_SEQUENTIAL;
	case LLM_PIPELINE_OVERLAP:
		return HEAD_PLAN_POLICY_OVERLAP;
	case LLM_PIPELINE_FUSED:
		return HEAD_PLAN_POLICY_FUSED;
	case LLM_PIPELINE_GREEDY:
		return HEAD_PLAN_POLICY_GREEDY;
	default:
		return HEAD_PLAN_POLICY_INSERTION;
	}
}

/* Of the heads that choose keys, whose numbers are @of [n_heads] afterwards. In which buckets they
 * will be, the calibration tells. */
static bool plan_heads(struct builder *b, uint32_t layer, struct head_plan *plan, uint16_t *of)
{
	const struct attention *a = b->o->attention;
	struct head_plan_head *heads = malloc(a->heads * sizeof(*heads));
	struct head_plan_work work = { .heads = heads };
	bool made = heads && plan->launches && of;

	for (uint32_t h = 0; made && h < a->heads; h++) {
		if (attention_whole(a, layer, h))
			continue;
		of[work.n_heads] = (uint16_t)h;
		heads[work.n_heads++] = (struct head_plan_head){
			.qkv_ns = cpu_ns(b, a->ratios[layer * a->heads + h]),
			.bucket = a->expected[layer * a->heads + h],
		};
	}
	for (uint32_t fused = 1; fused <= HEAD_PLAN_MAX_FUSED; fused *= 2)
		work.npu_ns[fused - 1] = npu_ns(b, fused);
	made = made && !head_plan_make(plan, &work, policy_of(b->o->choices.pipeline));
	free(heads);
	return made;
}

/* ---- attention shadow ---- */

static_assert(HEAD_PLAN_MAX_FUSED == LANE_FUSED_HEADS, "a launch is one work");

/* The layer's launches under way. */
struct launches {
	struct builder *b;
	uint32_t layer, scale;
	uint16_t *heads; /* the layer's, of those of the plan */
	uint32_t freed[LANE_SCORE_SLOTS]; /* by slot: the task that last read it */
	uint32_t next_slot;
	uint32_t last; /* the last task of the CPU */
};

static void add_head(struct launches *l, uint32_t estimate, const struct lane_work *launch,
		     uint32_t first, uint32_t n)
{
	struct builder *b = l->b;
	struct lane_work work = work_of(b, l->layer, LLM_OP_SELECT);
	const double *ratios = b->o->attention->ratios + l->layer * b->o->shape->heads;
	struct soc_op select;
	double density = 0;
	uint32_t task;

	work.nr_heads = (uint8_t)n;
	for (uint32_t i = 0; i < n; i++) {
		work.head[i] = launch->head[first + i];
		work.slot[i] = launch->slot[first + i];
		density += ratios[work.head[i]] / n;
	}
	select = selection_of(b, n, density);
	b->first = b->last = estimate;
	task = add(b, &work, SOC_CPU, &select);
	add_done(b, l->layer, LLM_OP_ATTN, rest_cost(b, n, density));
	for (uint32_t i = 0; i < n; i++)
		l->freed[work.slot[i]] = task;
	l->last = b->last;
}

static void add_launch(struct launches *l, const struct head_launch *launch)
{
	struct builder *b = l->b;
	uint32_t n = launch->n_heads;
	struct lane_work work = work_of(b, l->layer, LLM_OP_ESTIMATE);
	struct soc_op scores = scores_of(b, b->rows, n, 8);
	uint32_t estimate;

	work.nr_heads = (uint8_t)n;
	for (uint32_t i = 0; i < n; i++) {
		work.head[i] = l->heads[launch->heads[i]];
		work.slot[i] = (uint8_t)(l->next_slot++ % LANE_SCORE_SLOTS);
	}
	b->first = b->last = l->scale;
	estimate = add(b, &work, SOC_NPU, &scores);
	plan_after_cached(b, l->layer, estimate);
	for (uint32_t i = 0; i < n && !b->failed; i++)
		if (l->freed[work.slot[i]] != SCHED_NONE)
			b->failed = sched_after(b->plan->tasks, estimate, l->freed[work.slot[i]]);
	if (b->o->choices.pipeline == LLM_PIPELINE_SEQUENTIAL && l->last != SCHED_NONE)
		b->failed |= sched_after(b->plan->tasks, estimate, l->last) != 0;
	b->estimated[l->layer] = estimate;
	/* On the wall clock a launch's heads are one task of the CPU's threads. */
	for (uint32_t i = 0; i < n && b->o->soc; i++)
		add_head(l, estimate, &work, i, 1);
	if (!b->o->soc)
		add_head(l, estimate, &work, 0, n);
}

/* The estimates of the heads that choose keys, of which there is one at least. */
static void add_launches(struct launches *l)
{
	struct builder *b = l->b;
	uint32_t heads = b->o->shape->heads;
	struct head_plan plan = { .launches = malloc(heads * sizeof(*plan.launches)) };

	l->heads = malloc(heads * sizeof(*l->heads));
	for (uint32_t i = 0; i < LANE_SCORE_SLOTS; i++)
		l->freed[i] = SCHED_NONE;
	b->failed |= !plan_heads(b, l->layer, &plan, l->heads);
	for (uint32_t i = 0; i < plan.n_launches && !b->failed; i++)
		add_launch(l, &plan.launches[i]);
	free(l->heads);
	free(plan.launches);
}

static void add_shadow(struct builder *b, uint32_t layer)
{
	struct launches l = { .b = b, .layer = layer, .last = SCHED_NONE };
	uint32_t heads = choosing_of(b, layer).n, first;

	if (heads)
		add_scale(b, layer);
	l.scale = b->last;
	first = sched_nr_tasks(b->plan->tasks);
	add_whole(b, layer);
	if (heads < b->o->shape->heads)
		l.last = b->last;
	if (heads)
		add_launches(&l);
	b->first = first;
	b->last = sched_nr_tasks(b->plan->tasks) - 1;
}

/* ---- all heads together ---- */

/* One work whatever the ratios, which a calibration tries. */
static void add_all_heads(struct builder *b, uint32_t layer)
{
	const struct choosing heads = choosing_of(b, layer);
	uint32_t blocks = LANE_BLOCK_ROWS;
	bool block = b->o->choices.attention == LLM_ATTENTION_BLOCK;
	struct lane_work work = work_of(b, layer, LLM_OP_ESTIMATE);
	struct soc_op scores = scores_of(b, b->chunk->n, heads.n, FLOAT_BITS),
		      select = selection_of(b, heads.n, heads.density);
	struct soc_cost rest = rest_cost(b, heads.n, heads.density),
			whole = rest_cost(b, b->o->shape->heads - heads.n, 1);

	/* Of the means of blocks on either side. */
	if (block) {
		scores.m = (scores.m + blocks - 1) / blocks;
		scores.ctx /= blocks;
		select.m = (select.m + blocks - 1) / blocks;
		select.ctx /= blocks;
	}
	rest.ns += whole.ns;
	rest.dram_bytes += whole.dram_bytes;
	plan_after_cached(b, layer, add(b, &work, SOC_CPU, &scores));
	add_done(b, layer, LLM_OP_SELECT, cost_of(b, SOC_CPU, &select));
	add_done(b, layer, LLM_OP_ATTN, rest);
}

static void add_npu(struct builder *b, uint32_t layer)
{
	struct lane_work work = work_of(b, layer, LLM_OP_ATTN);
	struct soc_op op = plan_attention(b, b->rows);

	op.act_bits = 8;
	op.kv_bits = 8;
	plan_after_cached(b, layer, add(b, &work, SOC_NPU, &op));
	b->estimated[layer] = b->last;
}

void plan_add_sparse(struct builder *b, uint32_t layer)
{
	switch (b->o->choices.attention) {
	case LLM_ATTENTION_SHADOW:
		return add_shadow(b, layer);
	case LLM_ATTENTION_NPU:
		add_scale(b, layer);
		return add_npu(b, layer);
	default:
		return add_all_heads(b, layer);
	}
}
