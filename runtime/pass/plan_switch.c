// SPDX-License-Identifier: MIT
/*
 * Blocks of layers with two graphs each, of which decoding's is loaded in place of prefill's
 * (CoordGen 3.2). draft/switching.h decides when; here its loads and steps become tasks, with times
 * of passes on graphs of one kind.
 *
 * A step on prefill's graph is one run of it. On decoding's it is as many as the chunk's tokens
 * need, each of the next rows: all that they read of earlier tokens is in the KV cache.
 */
#include <errno.h>
#include <stdlib.h>

#include "plan_private.h"
#include "switching.h"

struct plan_switcher {
	enum switching_policy policy;
	uint32_t blocks;
	/* Without loads, all blocks keep their graphs. */
	struct switching_load *loads;
	uint32_t nr_loads;
	uint32_t added; /* of the loads, those in the plan */
	uint32_t load; /* the task of the last of them, or SCHED_NONE */
};

/* ---- blocks ---- */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t divide_up(uint32_t n, uint32_t by)
{
	return (n + by - 1) / by;
}

uint32_t plan_nr_blocks(const struct plan_switch *s, uint32_t layers)
{
	return divide_up(layers, s->block);
}

struct lane_work plan_block_work(const struct plan_options *o, uint32_t block, uint32_t graph_rows)
{
	uint32_t first = block * o->switching->block;

	return (struct lane_work){
		.what = LANE_BLOCK,
		.op = LLM_OP_BLOCK,
		.layer = first,
		.layers = least(o->switching->block, o->shape->layers - first),
		.rows = graph_rows,
		.graph_rows = graph_rows,
	};
}

uint64_t plan_block_bytes(const struct plan_options *o, uint32_t block)
{
	double bits = 0;
	uint64_t k, n;

	for (int op = 0; op < LLM_OP_HEAD; op++)
		if (llm_op_matmul(o->shape, op, &k, &n))
			bits += (double)(k * n) *
				(o->widths ? o->widths[op] : llm_weights_width(o->choices.weights))
					.bits;
	return (uint64_t)(bits / 8) * plan_block_work(o, block, 1).layers;
}

bool plan_has_blocks(const struct builder *b)
{
	return b->o->switching && !b->o->observe;
}

/* ---- the times that the policy counts with ---- */

/* Of a prompt's steps. */
struct profile {
	struct switching_profile p;
	uint64_t *prefill_ns, *decode_ns, *load_ns, *bytes;
};

static int profile_init(struct profile *f, uint32_t blocks, uint32_t chunks)
{
	size_t steps = (size_t)blocks * chunks;

	*f = (struct profile){
		.prefill_ns = calloc(steps, sizeof(uint64_t)),
		.decode_ns = calloc(steps, sizeof(uint64_t)),
		.load_ns = calloc(blocks, sizeof(uint64_t)),
		.bytes = calloc(blocks, sizeof(uint64_t)),
	};
	f->p = (struct switching_profile){
		.blocks = blocks,
		.chunks = chunks,
		.prefill_ns = f->prefill_ns,
		.decode_ns = f->decode_ns,
		.load_ns = f->load_ns,
		.prefill_bytes = f->bytes,
		.decode_bytes = f->bytes,
	};
	return f->prefill_ns && f->decode_ns && f->load_ns && f->bytes ? 0 : -ENOMEM;
}

static void profile_fini(struct profile *f)
{
	free(f->prefill_ns);
	free(f->decode_ns);
	free(f->load_ns);
	free(f->bytes);
}

/*
 * Adds up what steps took in a run of @plan, whose tasks follow one another, in @ns [chunks of
 * prefill][blocks]; @parts of its chunks are one of prefill.
 */
static void add_steps(const struct builder *b, const struct plan *plan, const struct sched_run *run,
		      uint32_t parts, uint64_t *ns)
{
	uint64_t before_ns = 0;

	for (uint32_t i = 0; i < run->nr_spans; i++) {
		const struct sched_task *t = sched_get(plan->tasks, i);
		uint32_t block = t->layer / b->o->switching->block;

		if (t->op >= LLM_OP_ATTN_NORM && t->op <= LLM_OP_ADD)
			ns[t->chunk / parts * b->switcher->blocks + block] +=
				run->spans[i].end_ns - before_ns;
		before_ns = run->spans[i].end_ns;
	}
}

/* The steps of the builder's pass on graphs of one kind, on the virtual clock. */
static int measure(const struct builder *b, enum plan_graphs graphs, uint32_t parts, uint64_t *ns)
{
	struct plan_switch one = *b->o->switching;
	struct plan_options o = *b->o;
	struct plan_pass pass = b->plan->pass;
	struct sched_options so = {
		.clock = SCHED_VIRTUAL,
		.soc = o.soc,
		.sync = o.choices.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
	};
	struct sched_run run;
	struct plan *plan;
	int err;

	one.graphs = graphs;
	o.switching = &one;
	o.calls = (struct plan_calls){ 0 };
	pass.logits = PLAN_LOGITS_NONE;
	plan = plan_forward(&o, &pass);
	if (!plan)
		return -ENOMEM;
	err = sched_run(plan->tasks, &so, &run);
	if (!err)
		add_steps(b, plan, &run, parts, ns);
	sched_run_free(&run);
	plan_free(plan);
	return err;
}

/* On the wall clock all steps of a kind take as long as the one that was measured; where none was,
 * each takes as long as a load. */
static void take_measured(const struct builder *b, const struct profile *f)
{
	const struct plan_switch *s = b->o->switching;
	bool known = s->prefill_ns && s->decode_ns && s->load_ns;

	for (uint32_t step = 0; step < f->p.blocks * f->p.chunks; step++) {
		uint32_t n = b->plan->chunks[step / f->p.blocks].n;

		f->prefill_ns[step] = known ? s->prefill_ns : 1;
		f->decode_ns[step] = known ? divide_up(n, s->width) * s->decode_ns : 1;
	}
	for (uint32_t block = 0; block < f->p.blocks; block++)
		f->load_ns[block] = known ? s->load_ns : 1;
}

static int find_times(const struct builder *b, const struct profile *f)
{
	uint32_t parts = b->plan->chunk / b->o->switching->width;
	int err;

	if (!b->o->soc) {
		take_measured(b, f);
		return 0;
	}
	for (uint32_t block = 0; block < f->p.blocks; block++) {
		double bytes = (double)plan_block_bytes(b->o, block);

		f->load_ns[block] = (uint64_t)soc_alone_ns(b->o->soc, SOC_STORAGE,
							   soc_read_graph_cost(b->o->soc, bytes));
	}
	err = measure(b, PLAN_GRAPHS_PREFILL, 1, f->prefill_ns);
	return err ? err : measure(b, PLAN_GRAPHS_DECODE, parts, f->decode_ns);
}

/* ---- which blocks are switched when ---- */

static enum switching_policy policy_of(enum llm_switching switching)
{
	switch (switching) {
	case LLM_SWITCHING_SYNC:
		return SWITCHING_SYNCHRONOUS;
	case LLM_SWITCHING_ASYNC:
		return SWITCHING_ASYNCHRONOUS;
	case LLM_SWITCHING_PROGRESSIVE:
		return SWITCHING_PROGRESSIVE;
	default:
		return SWITCHING_RESIDENT;
	}
}

static int decide(const struct builder *b)
{
	struct plan_switcher *s = b->switcher;
	struct switching_times times;
	struct profile f;
	int err = profile_init(&f, s->blocks, b->plan->nr_chunks);
	uint32_t start = 0;

	if (!err && s->policy == SWITCHING_PROGRESSIVE)
		err = find_times(b, &f);
	if (!err) {
		if (s->policy == SWITCHING_PROGRESSIVE && !b->o->switching->from_first)
			start = switching_best_start(&f.p, s->loads);
		switching_plan(&f.p, s->policy, start, s->loads, &times);
		s->nr_loads = times.nr_loads;
	}
	profile_fini(&f);
	return err;
}

int plan_switch_begin(struct builder *b)
{
	struct plan_switcher *s = calloc(1, sizeof(*s));

	b->switcher = s;
	if (!s)
		return -ENOMEM;
	s->blocks = plan_nr_blocks(b->o->switching, b->o->shape->layers);
	s->policy = policy_of(b->o->choices.switching);
	s->load = SCHED_NONE;
	s->loads = calloc(s->blocks, sizeof(*s->loads));
	if (!s->loads)
		return -ENOMEM;
	return b->o->switching->graphs == PLAN_GRAPHS_SWITCHED ? decide(b) : 0;
}

void plan_switch_end(struct builder *b)
{
	if (b->switcher)
		free(b->switcher->loads);
	free(b->switcher);
	b->switcher = NULL;
}

/* ---- loads ---- */

/* Adds the next load, which comes after the one before it and @task. */
static void add_load(struct builder *b, uint32_t task)
{
	struct plan_switcher *s = b->switcher;
	uint32_t block = s->loads[s->added++].block, first = b->first, last = b->last;
	struct lane_work work = plan_block_work(b->o, block, b->o->switching->width);
	struct soc_cost cost = { 0, 0 };

	work.op = LLM_OP_LOAD;
	if (b->o->soc)
		cost = soc_read_graph_cost(b->o->soc, (double)plan_block_bytes(b->o, block));
	b->first = b->last = s->load;
	s->load = plan_add_task(b, &work, 0, SOC_STORAGE, cost);
	if (!b->failed)
		b->failed = sched_after(b->plan->tasks, s->load, task) != 0;
	b->first = first;
	b->last = last;
}

void plan_add_last_loads(struct builder *b)
{
	struct plan_switcher *s = b->switcher;

	while (s->added < s->nr_loads && !b->failed)
		add_load(b, b->last);
}

/* ---- steps ---- */

/* Whether the block of @step has its graph for decoding: the round of its load has ended. */
static bool is_decoding(const struct builder *b, uint32_t step)
{
	const struct plan_switcher *s = b->switcher;
	bool decoding = b->o->switching->graphs == PLAN_GRAPHS_DECODE;

	for (uint32_t i = 0; i < s->added && s->policy == SWITCHING_PROGRESSIVE; i++)
		decoding |= s->loads[i].block == step % s->blocks &&
			    s->loads[i].step + s->loads[i].steps <= step;
	return decoding;
}

/* One run of a block's graph, for rows @row.. of the chunk. */
static void add_run(struct builder *b, uint32_t block, uint32_t row, uint32_t graph_rows,
		    bool whole)
{
	struct lane_work work = plan_block_work(b->o, block, graph_rows);

	work.chunk = b->c;
	work.row = row;
	b->tokens = work.rows = least(graph_rows, b->chunk->n - row);
	b->rows = graph_rows;
	b->pos = b->plan->pass.n_past + b->chunk->first + row;
	b->block = work;
	b->launched++;
	if (whole && !b->o->soc) {
		plan_add(b, &work, NULL);
		return;
	}
	b->leads = whole;
	b->led = false;
	for (uint32_t i = 0; i < work.layers && !b->failed; i++)
		plan_add_layer(b, work.layer + i);
}

static void add_step(struct builder *b, uint32_t step, bool whole)
{
	uint32_t block = step % b->switcher->blocks, width = b->o->switching->width;

	if (!is_decoding(b, step))
		return add_run(b, block, 0, b->chunk->rows, whole);
	for (uint32_t row = 0; row < b->chunk->n && !b->failed; row += width)
		add_run(b, block, row, width, whole);
}

/* Adds the load that begins together with @step, if one does. */
static void add_due_load(struct builder *b, uint32_t step)
{
	const struct plan_switcher *s = b->switcher;

	if (s->policy == SWITCHING_PROGRESSIVE && s->added < s->nr_loads &&
	    s->loads[s->added].step == step)
		add_load(b, b->last);
}

/* The load whose round ends before @step, which waits for it; SCHED_NONE: none does. */
static uint32_t ended_load(const struct plan_switcher *s, uint32_t step)
{
	const struct switching_load *last = s->loads + s->added - 1;

	return s->policy == SWITCHING_PROGRESSIVE && s->added && last->step + last->steps == step
		       ? s->load
		       : SCHED_NONE;
}

void plan_add_blocks(struct builder *b, bool whole)
{
	struct plan_switcher *s = b->switcher;
	bool last_chunk = b->c + 1 == b->plan->nr_chunks;

	for (uint32_t block = 0; block < s->blocks && !b->failed; block++) {
		uint32_t step = b->c * s->blocks + block, load = ended_load(s, step), first;

		add_due_load(b, step);
		first = sched_nr_tasks(b->plan->tasks);
		add_step(b, step, whole);
		if (!b->failed)
			b->failed = sched_after(b->plan->tasks, first, load) != 0;
		if (s->policy == SWITCHING_ASYNCHRONOUS && last_chunk && s->added < s->nr_loads)
			add_load(b, b->last);
	}
	b->launched++;
	b->leads = b->led = false;
	b->rows = b->chunk->rows;
	b->tokens = b->chunk->n;
	b->pos = b->plan->pass.n_past + b->chunk->first;
}
