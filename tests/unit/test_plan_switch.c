// SPDX-License-Identifier: MIT
/*
 * Blocks of layers in plans (choice switching): each block is loaded once, when its policy says;
 * no step runs on a graph that is not there; steps on decoding's graphs cover the chunk; and a
 * modelled SoC takes what draft/switching.h says. TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan.h"
#include "switching.h"
#include "tiny_random.h"

#define MAX_BLOCKS 12
#define MAX_CHUNKS 8

static struct soc *soc;

static int setup(void **state)
{
	char why[512];

	soc = soc_load("sd8gen3", why, sizeof(why));
	return !soc || tiny_setup(state);
}

static int teardown(void **state)
{
	soc_free(soc);
	return 0;
}

static const enum llm_switching ways[] = { LLM_SWITCHING_RESIDENT, LLM_SWITCHING_SYNC,
					   LLM_SWITCHING_ASYNC, LLM_SWITCHING_PROGRESSIVE };
#define NR_WAYS 4

/* A model, its blocks, and a prompt. */
struct fixture {
	struct shape shape;
	struct plan_switch s;
	struct plan_options o;
	struct plan_pass pass;
	uint32_t blocks;
};

static void make(struct fixture *f)
{
	static const uint32_t widths[] = { 1, 8, 16, 32, 64 };

	*f = (struct fixture){ 0 };
	f->shape = (struct shape){
		.layers = any(1, MAX_BLOCKS),
		.dim = 64 * any(2, 20),
		.heads = 8,
		.kv_heads = 2,
		.head_dim = 64,
		.ffn = 64 * any(4, 60),
		.vocab = 4096,
		.gated = true,
	};
	f->s = (struct plan_switch){
		.graphs = PLAN_GRAPHS_SWITCHED,
		.block = any(1, 3),
		.width = widths[any(0, 4)],
		.from_first = any(0, 1),
	};
	f->o = (struct plan_options){
		.soc = soc,
		.shape = &f->shape,
		.choices = { .placement = any(0, 1) ? LLM_PLACE_NPU : LLM_PLACE_FINE,
			     .weights = LLM_WEIGHTS_W8A8,
			     .operands = LLM_OPERANDS_NATURAL,
			     .graphs = LLM_GRAPHS_FIXED,
			     .switching = ways[any(0, NR_WAYS - 1)] },
		.chunk = 64 * any(1, 4),
		.switching = &f->s,
	};
	f->pass = (struct plan_pass){ .n_past = any(0, 1) ? any(0, 100) : 0,
				      .n_tokens = any(1, f->o.chunk * MAX_CHUNKS),
				      .logits = any(0, 1) ? PLAN_LOGITS_LAST : PLAN_LOGITS_ALL };
	f->blocks = plan_nr_blocks(&f->s, f->shape.layers);
}

static struct plan *plan_of(const struct fixture *f)
{
	struct plan *plan = plan_forward(&f->o, &f->pass);

	assert_non_null(plan);
	return plan;
}

static void run(const struct plan *plan, double jitter, struct sched_run *run)
{
	const struct sched_options so = { .clock = SCHED_VIRTUAL,
					  .soc = soc,
					  .sync = SOC_SYNC_FAST,
					  .jitter = jitter,
					  .seed = any(0, 1000) };

	assert_int_equal(sched_run(plan->tasks, &so, run), 0);
}

static bool is_load(const struct plan *plan, uint32_t task)
{
	return sched_get(plan->tasks, task)->op == LLM_OP_LOAD;
}

static bool is_layers(const struct plan *plan, uint32_t task)
{
	const struct sched_task *t = sched_get(plan->tasks, task);

	return (t->op >= LLM_OP_ATTN_NORM && t->op <= LLM_OP_ADD) || t->op == LLM_OP_BLOCK;
}

/* ---- loads ---- */

/* The loads' tasks in the plan's order; how many. */
static uint32_t find_loads(const struct fixture *f, const struct plan *plan,
			   uint32_t loads[MAX_BLOCKS])
{
	uint32_t n = 0;

	for (uint32_t t = 0; t < sched_nr_tasks(plan->tasks); t++) {
		if (!is_load(plan, t))
			continue;
		assert_in_range(n, 0, f->blocks - 1);
		assert_int_equal(sched_get(plan->tasks, t)->home, SOC_STORAGE);
		assert_int_equal(plan->works[t].what, LANE_BLOCK);
		assert_int_equal(plan->works[t].graph_rows, f->s.width);
		loads[n++] = t;
	}
	return n;
}

/* The end of the last step of @block (of all: MAX_BLOCKS) that begins before @before_ns. */
static uint64_t computed_ns(const struct fixture *f, const struct plan *plan,
			    const struct sched_run *run, uint32_t block)
{
	uint64_t end_ns = 0;

	for (uint32_t t = 0; t < run->nr_spans; t++)
		if (!is_load(plan, t) &&
		    (block == MAX_BLOCKS ||
		     (is_layers(plan, t) &&
		      sched_get(plan->tasks, t)->layer / f->s.block == block)) &&
		    run->spans[t].end_ns > end_ns)
			end_ns = run->spans[t].end_ns;
	return end_ns;
}

static void check_loads(const struct fixture *f, const struct plan *plan,
			const struct sched_run *run)
{
	bool progressive = f->o.choices.switching == LLM_SWITCHING_PROGRESSIVE;
	uint32_t loads[MAX_BLOCKS], n = find_loads(f, plan, loads);

	assert_int_equal(n, f->o.choices.switching == LLM_SWITCHING_RESIDENT ? 0 : f->blocks);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t block = progressive ? n - 1 - i : i;
		uint64_t from_ns = run->spans[loads[i]].start_ns, bytes;

		assert_int_equal(plan->works[loads[i]].layer, block * f->s.block);
		bytes = plan_block_bytes(&f->o, block);
		assert_true(sched_get(plan->tasks, loads[i])->cost[SOC_STORAGE].ns ==
			    soc_read_graph_cost(soc, (double)bytes).ns);
		if (i)
			assert_true(from_ns >= run->spans[loads[i - 1]].end_ns);
		if (f->o.choices.switching == LLM_SWITCHING_SYNC)
			assert_true(from_ns >= computed_ns(f, plan, run, MAX_BLOCKS));
		if (f->o.choices.switching == LLM_SWITCHING_ASYNC)
			assert_true(from_ns >= computed_ns(f, plan, run, block));
	}
}

/* ---- steps ---- */

/* The rows that a run of graphs is for, told by its first matmul or its whole work. */
static uint32_t graph_rows(const struct plan *plan, uint32_t task)
{
	return plan->works[task].graph_rows;
}

/*
 * A chunk's step on a block is one run of prefill's graph, or as many of decoding's as its tokens
 * need, the latter only when the block's load has ended.
 */
static void check_step(const struct fixture *f, const struct plan *plan,
		       const struct sched_run *run, uint32_t chunk, uint32_t block)
{
	const struct lane_chunk *c = &plan->chunks[chunk];
	uint32_t rows = 0, runs = 0, tokens = 0;
	uint64_t from_ns = UINT64_MAX;

	for (uint32_t t = 0; t < run->nr_spans; t++) {
		const struct lane_work *w = &plan->works[t];

		if (w->chunk != chunk || !is_layers(plan, t) || w->layer != block * f->s.block)
			continue;
		if (w->what != LANE_BLOCK && !(w->what == LANE_SLICE && w->op == LLM_OP_QKV))
			continue;
		runs++;
		rows = graph_rows(plan, t);
		tokens += w->rows;
		from_ns = run->spans[t].start_ns < from_ns ? run->spans[t].start_ns : from_ns;
	}
	assert_int_equal(tokens, c->n);
	assert_int_equal(runs, (c->n + rows - 1) / rows);
	if (rows == c->rows && rows != f->s.width)
		return;
	assert_int_equal(rows, f->s.width);
	for (uint32_t t = 0; t < run->nr_spans; t++)
		if (is_load(plan, t) && plan->works[t].layer == block * f->s.block &&
		    f->s.width != c->rows)
			assert_true(run->spans[t].end_ns <= from_ns);
}

static void plans_load_each_block_once_and_run_on_what_is_there(void **state)
{
	for (int i = 0; i < 60; i++) {
		struct sched_run r;
		struct fixture f;
		struct plan *plan;

		make(&f);
		plan = plan_of(&f);
		run(plan, 0.5, &r);
		check_loads(&f, plan, &r);
		for (uint32_t c = 0; c < plan->nr_chunks; c++)
			for (uint32_t block = 0; block < f.blocks; block++)
				check_step(&f, plan, &r, c, block);
		sched_run_free(&r);
		plan_free(plan);
	}
}

/* Without a SoC a graph of the NPU is one task. */
static void plans_of_the_wall_clock_have_a_task_for_each_run(void **state)
{
	for (int i = 0; i < 60; i++) {
		struct fixture f;
		struct plan *plan;
		uint32_t steps = 0, loads[MAX_BLOCKS];

		make(&f);
		f.o.soc = NULL;
		f.o.choices.placement = LLM_PLACE_NPU;
		f.s.prefill_ns = any(0, 1) ? any(1, 1000) : 0;
		f.s.decode_ns = any(1, 1000);
		f.s.load_ns = any(1, 3000);
		plan = plan_of(&f);
		for (uint32_t t = 0; t < sched_nr_tasks(plan->tasks); t++) {
			const struct lane_work *w = &plan->works[t];
			const struct lane_chunk *c = &plan->chunks[w->chunk];

			if (w->op != LLM_OP_BLOCK)
				continue;
			assert_int_equal(w->what, LANE_BLOCK);
			assert_true(w->graph_rows == c->rows || w->graph_rows == f.s.width);
			assert_true(w->rows >= 1 && w->row + w->rows <= c->n);
			assert_int_equal(w->row % w->graph_rows, 0);
			steps += w->row == 0;
		}
		assert_int_equal(steps, plan->nr_chunks * f.blocks);
		assert_int_equal(find_loads(&f, plan, loads),
				 f.o.choices.switching == LLM_SWITCHING_RESIDENT ? 0 : f.blocks);
		plan_free(plan);
	}
}

/* ---- against the policy ---- */

struct timeline {
	uint64_t prefill[MAX_CHUNKS * MAX_BLOCKS], decode[MAX_CHUNKS * MAX_BLOCKS],
		load[MAX_BLOCKS], bytes[MAX_BLOCKS];
	struct switching_load loads[MAX_BLOCKS];
	struct switching_times times;
};

/* What steps take when all blocks keep graphs of one kind. */
static void measure(const struct fixture *f, enum plan_graphs graphs, uint64_t *ns)
{
	struct fixture one = *f;
	struct sched_run r;
	struct plan *plan;
	uint64_t before_ns = 0;

	one.s.graphs = graphs;
	one.o.switching = &one.s;
	one.o.shape = &one.shape;
	one.pass.logits = PLAN_LOGITS_NONE;
	plan = plan_of(&one);
	run(plan, 0, &r);
	for (uint32_t t = 0; t < r.nr_spans; t++) {
		const struct sched_task *task = sched_get(plan->tasks, t);
		uint32_t chunk = plan->chunks[task->chunk].first / f->o.chunk;

		if (is_layers(plan, t))
			ns[chunk * f->blocks + task->layer / f->s.block] +=
				r.spans[t].end_ns - before_ns;
		before_ns = r.spans[t].end_ns;
	}
	sched_run_free(&r);
	plan_free(plan);
}

static void expect(const struct fixture *f, enum switching_policy policy, struct timeline *t)
{
	const struct switching_profile p = {
		.blocks = f->blocks,
		.chunks = (f->pass.n_tokens + f->o.chunk - 1) / f->o.chunk,
		.prefill_ns = t->prefill,
		.decode_ns = t->decode,
		.load_ns = t->load,
		.prefill_bytes = t->bytes,
		.decode_bytes = t->bytes,
	};
	uint32_t start = 0;

	measure(f, PLAN_GRAPHS_PREFILL, t->prefill);
	measure(f, PLAN_GRAPHS_DECODE, t->decode);
	for (uint32_t b = 0; b < f->blocks; b++) {
		t->bytes[b] = plan_block_bytes(&f->o, b);
		t->load[b] = (uint64_t)soc_read_graph_cost(soc, (double)t->bytes[b]).ns;
	}
	if (policy == SWITCHING_PROGRESSIVE && !f->s.from_first)
		start = switching_best_start(&p, t->loads);
	switching_plan(&p, policy, start, t->loads, &t->times);
}

static void near(uint64_t got, uint64_t want, uint64_t slack_ns)
{
	if (got > want + slack_ns || got + slack_ns < want)
		fail_msg("%llu ns, expected %llu within %llu", (unsigned long long)got,
			 (unsigned long long)want, (unsigned long long)slack_ns);
}

/* But for embeddings, and handovers between lanes, which no policy counts. */
static void a_modelled_soc_takes_what_the_policy_says(void **state)
{
	static const enum switching_policy policies[] = { SWITCHING_RESIDENT, SWITCHING_SYNCHRONOUS,
							  SWITCHING_ASYNCHRONOUS,
							  SWITCHING_PROGRESSIVE };

	for (int i = 0; i < 60; i++) {
		struct timeline *t = calloc(1, sizeof(*t));
		uint32_t way = any(0, NR_WAYS - 1), loads[MAX_BLOCKS], n;
		struct sched_run r;
		struct fixture f;
		struct plan *plan;
		uint64_t slack_ns;

		make(&f);
		f.o.choices.switching = ways[way];
		f.pass.logits = PLAN_LOGITS_NONE;
		expect(&f, policies[way], t);
		plan = plan_of(&f);
		run(plan, 0, &r);
		n = find_loads(&f, plan, loads);
		assert_int_equal(n, t->times.nr_loads);
		slack_ns = 50000ull * (plan->nr_chunks + n) + t->times.total_ns / 1000;
		for (uint32_t k = 0; k < n; k++) {
			assert_int_equal(plan->works[loads[k]].layer,
					 t->loads[k].block * f.s.block);
			near(r.spans[loads[k]].start_ns, t->loads[k].start_ns, slack_ns);
			near(r.spans[loads[k]].end_ns, t->loads[k].end_ns, slack_ns);
		}
		near(r.makespan_ns, t->times.total_ns, slack_ns);
		sched_run_free(&r);
		plan_free(plan);
		free(t);
	}
}

/* Whoever observes sees every operator of every chunk once. */
static void observed_plans_have_no_blocks(void **state)
{
	struct fixture f;
	struct plan *plan;
	uint32_t loads[MAX_BLOCKS];

	make(&f);
	f.o.observe = true;
	plan = plan_of(&f);
	assert_int_equal(find_loads(&f, plan, loads), 0);
	for (uint32_t t = 0; t < sched_nr_tasks(plan->tasks); t++)
		assert_int_not_equal(plan->works[t].what, LANE_BLOCK);
	plan_free(plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plans_load_each_block_once_and_run_on_what_is_there),
		cmocka_unit_test(plans_of_the_wall_clock_have_a_task_for_each_run),
		cmocka_unit_test(a_modelled_soc_takes_what_the_policy_says),
		cmocka_unit_test(observed_plans_have_no_blocks),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
