// SPDX-License-Identifier: MIT
#include "blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "llm_fail.h"

enum { PREFILL, DECODE, KINDS };

struct block {
	uint64_t bytes[KINDS]; /* of its graphs in memory; 0: it is not there */
};

/* ---- one graph ---- */

static struct lane_work work_of(const struct blocks *b, uint32_t block, int kind)
{
	struct plan_options o = *b->o;

	o.switching = &b->plan;
	return plan_block_work(&o, block, kind == PREFILL ? b->chunk : b->plan.width);
}

static int load(struct blocks *b, uint32_t block, int kind)
{
	const struct lane_work work = work_of(b, block, kind);
	const struct lane_call call = { .work = &work };
	struct plan_options o = *b->o;
	uint64_t *bytes = &b->list[block].bytes[kind];
	int err = b->npu ? b->npu->ops->load(b->npu, &call, bytes) : 0;

	if (err)
		return err;
	o.switching = &b->plan;
	if (o.soc)
		*bytes = plan_block_bytes(&o, block);
	b->bytes += *bytes;
	if (b->bytes > b->peak_bytes)
		b->peak_bytes = b->bytes;
	return 0;
}

static void drop(struct blocks *b, uint32_t block, int kind)
{
	const struct lane_work work = work_of(b, block, kind);
	const struct lane_call call = { .work = &work };
	uint64_t *bytes = &b->list[block].bytes[kind];

	if (b->npu && *bytes)
		b->npu->ops->drop(b->npu, &call);
	b->bytes -= *bytes;
	*bytes = 0;
}

/* ---- the times of a step and a load ---- */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The first block with rows of zeros, in an empty cache. */
static int time_step(const struct blocks *b, int kind, uint64_t *ns)
{
	const struct lane_work work = work_of(b, 0, kind);
	const struct lane_chunk chunk = { .n = work.rows, .rows = work.rows };
	const struct lane_call call = { .work = &work, .chunk = &chunk };
	uint64_t from_ns = now_ns(), ticket;
	int err = b->npu->ops->begin(b->npu, &call, &ticket);

	if (!err)
		err = b->npu->ops->wait(b->npu, ticket, LANE_WAIT_DRIVER);
	*ns = now_ns() - from_ns;
	return err;
}

static int measure(struct blocks *b)
{
	int err = time_step(b, PREFILL, &b->plan.prefill_ns);
	uint64_t from_ns = now_ns();

	if (!err)
		err = load(b, 0, DECODE);
	b->plan.load_ns = now_ns() - from_ns;
	if (!err)
		err = time_step(b, DECODE, &b->plan.decode_ns);
	drop(b, 0, DECODE);
	return err;
}

/* ---- the session's ---- */

int blocks_settle(uint32_t chunk, uint32_t layers, uint32_t *width, uint32_t *block)
{
	uint32_t quarter = chunk > 4 ? chunk / 4 : 1;

	while (chunk % quarter)
		quarter--;
	if (chunk == 1)
		return llm_fail(-EINVAL, "chunks of 1 token have no smaller graph to switch to: "
					 "choose longer chunks or switching none");
	if (*width && (chunk % *width || *width == chunk))
		return llm_fail(-EINVAL,
				"graphs of %u tokens for decoding, which are not a part of a chunk "
				"of %u: choose %u or another divisor below it",
				*width, chunk, quarter);
	if (*block > layers)
		return llm_fail(-EINVAL, "blocks of %u layers; the model has %u", *block, layers);
	*width = *width ? *width : quarter;
	*block = *block ? *block : LLM_BLOCK_LAYERS;
	return 0;
}

int blocks_init(struct blocks *b, const struct plan_options *o, struct lane *npu, uint32_t block,
		uint32_t width)
{
	enum llm_switching switching = o->choices.switching;
	int err = 0;

	*b = (struct blocks){
		.plan = { .block = block, .width = width },
		.o = o,
		.npu = npu,
		.chunk = plan_chunk(o, width),
	};
	b->nr = plan_nr_blocks(&b->plan, o->shape->layers);
	b->list = calloc(b->nr, sizeof(*b->list));
	if (!b->list)
		return llm_fail(-ENOMEM, "no memory for %u blocks of layers", b->nr);
	for (uint32_t i = 0; i < b->nr && !err; i++) {
		err = load(b, i, PREFILL);
		b->prefill_bytes += b->list[i].bytes[PREFILL];
		if (!err && switching == LLM_SWITCHING_RESIDENT)
			err = load(b, i, DECODE);
	}
	if (!err && npu && !o->soc && switching == LLM_SWITCHING_PROGRESSIVE)
		err = measure(b);
	b->peak_bytes = b->bytes;
	return err;
}

void blocks_fini(struct blocks *b)
{
	free(b->list);
}

int blocks_reset(struct blocks *b)
{
	int err = 0;

	if (b->o && b->o->choices.switching == LLM_SWITCHING_RESIDENT)
		return 0;
	for (uint32_t i = 0; i < b->nr && !err; i++) {
		drop(b, i, DECODE);
		if (!b->list[i].bytes[PREFILL])
			err = load(b, i, PREFILL);
	}
	return err;
}

static uint32_t nr_switched(const struct blocks *b)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < b->nr; i++)
		n += b->list[i].bytes[DECODE] > 0;
	return n;
}

/* Prefill's graphs in whose place others are. */
static void drop_replaced(struct blocks *b)
{
	for (uint32_t i = 0; i < b->nr; i++)
		if (b->list[i].bytes[DECODE])
			drop(b, i, PREFILL);
}

int blocks_begin(struct blocks *b, uint32_t tokens)
{
	uint32_t switched = nr_switched(b);
	int err = 0;

	if (!b->nr)
		return 0;
	if (b->o->choices.switching == LLM_SWITCHING_RESIDENT) {
		b->plan.graphs = tokens > b->plan.width ? PLAN_GRAPHS_PREFILL : PLAN_GRAPHS_DECODE;
		return 0;
	}
	/* A pass has failed on the way. */
	if (switched && switched < b->nr)
		err = blocks_reset(b);
	drop_replaced(b);
	b->plan.graphs = switched == b->nr ? PLAN_GRAPHS_DECODE : PLAN_GRAPHS_SWITCHED;
	return err;
}

/*
 * During progressive switching a step may still run on the graph that is replaced, until the round
 * ends: then comes the next load. The other ways load a graph when the one before it has done its
 * work.
 */
int blocks_load(struct blocks *b, const struct lane_work *work)
{
	uint32_t block = work->layer / b->plan.block;

	drop_replaced(b);
	if (b->o->choices.switching != LLM_SWITCHING_PROGRESSIVE)
		drop(b, block, PREFILL);
	return load(b, block, DECODE);
}

/* What @task, and with SCHED_NONE the end of the run, waited for loads beyond all else. */
static uint64_t waited_ns(const struct plan *plan, const struct sched_run *run, uint32_t task)
{
	uint64_t loaded_ns = 0, else_ns = 0;
	const uint32_t *before = NULL;
	size_t n = run->nr_spans;

	if (task != SCHED_NONE)
		before = sched_predecessors(plan->tasks, task, &n);
	for (size_t i = 0; i < n; i++) {
		uint32_t t = before ? before[i] : (uint32_t)i;
		uint64_t *latest_ns =
			sched_get(plan->tasks, t)->op == LLM_OP_LOAD ? &loaded_ns : &else_ns;

		if (run->spans[t].end_ns > *latest_ns)
			*latest_ns = run->spans[t].end_ns;
	}
	return loaded_ns > else_ns ? loaded_ns - else_ns : 0;
}

void blocks_end(struct blocks *b, const struct plan *plan, const struct sched_run *run)
{
	if (!b->nr || b->plan.graphs != PLAN_GRAPHS_SWITCHED)
		return;
	for (uint32_t i = 0; i < run->nr_spans; i++) {
		if (sched_get(plan->tasks, i)->op != LLM_OP_LOAD) {
			b->wait_ns += waited_ns(plan, run, i);
			continue;
		}
		b->loads++;
		b->load_ns += run->spans[i].end_ns - run->spans[i].start_ns;
		/* Nobody has executed it: its size is known all the same. */
		if (!b->npu)
			blocks_load(b, &plan->works[i]);
	}
	b->wait_ns += waited_ns(plan, run, SCHED_NONE);
	if (b->o->choices.switching != LLM_SWITCHING_RESIDENT)
		drop_replaced(b);
}
