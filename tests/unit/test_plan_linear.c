// SPDX-License-Identifier: MIT
/* Plans of placement linear: subgraphs, shadow matmuls, costs; and times for their order. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan.h"
#include "times.h"

static struct soc *soc;
static struct shape qwen;
static struct shadow all, none, few; /* inputs that are kept */

static int setup(void **state)
{
	char why[512];

	soc = soc_load("sd8gen3", why, sizeof(why));
	return !soc || shape_load("qwen1.5-1.8b", &qwen) || shadow_guess(&all, &qwen, 0) ||
	       shadow_guess(&none, &qwen, 1) || shadow_guess(&few, &qwen, 0.85);
}

static int teardown(void **state)
{
	shadow_free(&all);
	shadow_free(&none);
	shadow_free(&few);
	soc_free(soc);
	return 0;
}

static struct plan_options options_of(enum llm_floats floats, const struct shadow *shadow)
{
	return (struct plan_options){
		.soc = soc,
		.shape = &qwen,
		.cuts = soc,
		.shadow = shadow,
		.choices = { .placement = LLM_PLACE_LINEAR,
			     .weights = LLM_WEIGHTS_W8A8,
			     .activations = LLM_ACTIVATIONS_STATIC,
			     .operands = LLM_OPERANDS_NATURAL,
			     .graphs = LLM_GRAPHS_SHARED,
			     .floats = floats },
	};
}

static struct plan *plan_of(const struct plan_options *o, uint32_t tokens)
{
	const struct plan_pass pass = { .n_tokens = tokens, .logits = PLAN_LOGITS_LAST };
	struct plan *plan = plan_forward(o, &pass);

	assert_non_null(plan);
	return plan;
}

static struct sched_run run_of(const struct plan *plan)
{
	struct sched_options so = {
		.clock = SCHED_VIRTUAL, .soc = soc, .policy = plan->policy, .param = plan->times
	};
	struct sched_run run;

	assert_int_equal(sched_run(plan->tasks, &so, &run), 0);
	return run;
}

static uint64_t time_of(const struct plan_options *o, uint32_t tokens)
{
	struct plan *plan = plan_of(o, tokens);
	struct sched_run run = run_of(plan);
	uint64_t ns = run.makespan_ns;

	sched_run_free(&run);
	plan_free(plan);
	return ns;
}

/* The first task of the operator in a layer of a chunk. */
static uint32_t find(const struct plan *plan, uint32_t chunk, uint32_t layer, enum llm_op op)
{
	for (uint32_t i = 0; i < sched_nr_tasks(plan->tasks); i++) {
		const struct lane_work *w = &plan->works[i];

		if (w->chunk == chunk && w->layer == layer && w->op == op)
			return i;
	}
	fail_msg("chunk %u, layer %u: no %s", chunk, layer, llm_op_name(op));
	return SCHED_NONE;
}

static enum soc_lane lane_of(const struct plan *plan, enum llm_op op)
{
	return sched_get(plan->tasks, find(plan, 0, 3, op))->home;
}

/* ---- where ---- */

static void operators_are_where_floats_says(void **state)
{
	static const enum llm_op norms[] = { LLM_OP_ATTN_NORM, LLM_OP_ROPE, LLM_OP_FFN_NORM,
					     LLM_OP_ADD };
	static const enum llm_op matmuls[] = { LLM_OP_QKV, LLM_OP_ATTN_OUTPUT, LLM_OP_GATE_UP,
					       LLM_OP_DOWN };

	for (enum llm_floats f = LLM_FLOATS_CPU; f <= LLM_FLOATS_NPU; f++) {
		struct plan_options o = options_of(f, NULL);
		struct plan *plan = plan_of(&o, 300);

		for (int i = 0; i < 4; i++) {
			assert_int_equal(lane_of(plan, norms[i]),
					 f == LLM_FLOATS_NPU ? SOC_NPU : SOC_CPU);
			assert_int_equal(lane_of(plan, matmuls[i]), SOC_NPU);
		}
		assert_int_equal(lane_of(plan, LLM_OP_ATTN), SOC_CPU);
		assert_int_equal(lane_of(plan, LLM_OP_ACT),
				 f == LLM_FLOATS_CPU ? SOC_CPU : SOC_NPU);
		plan_free(plan);
	}
}

/* Room for gate_up, and for down of two layers. */
static void check_lanes(const struct plan_options *o, uint32_t tokens)
{
	struct plan *plan = plan_of(o, tokens);

	assert_int_equal(lane_of(plan, LLM_OP_GATE_UP), SOC_NPU);
	assert_int_equal(lane_of(plan, LLM_OP_DOWN), SOC_CPU);
	assert_int_equal(lane_of(plan, LLM_OP_QKV), SOC_CPU);
	assert_int_equal(sched_get(plan->tasks, find(plan, 0, 1, LLM_OP_DOWN))->home, SOC_NPU);
	assert_int_equal(sched_get(plan->tasks, find(plan, 0, 2, LLM_OP_DOWN))->home, SOC_CPU);
	plan_free(plan);
}

/* The FFN's matrices first, then attention's; of a kind the first layers. Tokens have the same. */
static void the_cpu_has_what_the_npu_has_no_room_for(void **state)
{
	for (enum llm_floats f = LLM_FLOATS_CPU; f <= LLM_FLOATS_ALL; f++) {
		struct plan_options o = options_of(f, NULL);
		const struct shape *s = o.shape;
		double gate_up = 2.0 * s->dim * s->ffn, down = (double)s->dim * s->ffn;
		struct soc small = *soc;
		uint32_t fit[LLM_NR_OPS];

		small.npu.space_gib = (gate_up * s->layers + down * 2.01) / 1073741824;
		o.soc = &small;
		o.choices.space = LLM_SPACE_LIMITED;
		plan_fit(&o, fit);
		assert_int_equal(fit[LLM_OP_GATE_UP], s->layers);
		assert_int_equal(fit[LLM_OP_DOWN], 2);
		assert_int_equal(fit[LLM_OP_QKV], 0);
		assert_int_equal(fit[LLM_OP_ATTN_OUTPUT], 0);
		assert_int_equal(fit[LLM_OP_HEAD], 0);
		check_lanes(&o, 300);
		check_lanes(&o, 1);
		small.npu.space_gib = 4;
		plan_fit(&o, fit);
		assert_true(fit[LLM_OP_DOWN] == s->layers && fit[LLM_OP_HEAD] == 1);
	}
}

/* One of each matmul; qkv, attn_output and the FFN; before and after attention. */
static const unsigned int subgraphs[] = {
	[LLM_FLOATS_CPU] = 4, [LLM_FLOATS_NORMS] = 3, [LLM_FLOATS_NPU] = 2
};

static void each_subgraph_is_launched_once(void **state)
{
	for (enum llm_floats f = LLM_FLOATS_CPU; f <= LLM_FLOATS_NPU; f++)
		for (enum llm_order order = LLM_ORDER_FIFO; order <= LLM_ORDER_OOE; order++) {
			struct plan_options o = options_of(f, NULL);
			struct sched_run run;
			struct plan *plan;

			o.choices.order = order;
			plan = plan_of(&o, 700);
			run = run_of(plan);
			assert_int_equal(plan->nr_chunks, 3);
			assert_int_equal(run.launches, 3 * subgraphs[f] * qwen.layers + 1);
			sched_run_free(&run);
			plan_free(plan);
		}
}

/* Operators op .. last of a layer, each of which has been computed once. */
static void count(unsigned int *done, const struct lane_work *w)
{
	if (w->op < LLM_OP_ATTN_NORM || w->op > LLM_OP_ADD || w->what == LANE_NOTHING)
		return;
	for (int op = w->op; op <= (int)(w->what == LANE_SUBGRAPH ? w->last : w->op); op++)
		done[w->layer * LLM_NR_OPS + (unsigned int)op]++;
}

static void works_compute_each_operator_once_on_both_clocks(void **state)
{
	const struct shadow *const shadows[] = { NULL, &none, &few, &all };

	for (int i = 0; i < 3 * 4 * 2 * 2; i++) {
		struct plan_options o = options_of((enum llm_floats)(i % 3), shadows[i / 3 % 4]);
		unsigned int *done = calloc(qwen.layers, LLM_NR_OPS * sizeof(*done));
		struct plan *plan;

		assert_non_null(done);
		o.soc = i / 12 % 2 ? soc : NULL;
		o.observe = i / 24;
		plan = plan_of(&o, 100);
		for (uint32_t t = 0; t < sched_nr_tasks(plan->tasks); t++)
			count(done, &plan->works[t]);
		for (uint32_t l = 0; l < qwen.layers; l++)
			for (int op = LLM_OP_ATTN_NORM; op <= LLM_OP_ADD; op++)
				assert_int_equal(done[l * LLM_NR_OPS + (unsigned int)op], 1);
		plan_free(plan);
		free(done);
	}
}

static void on_the_wall_clock_a_subgraph_is_one_task(void **state)
{
	for (enum llm_floats f = LLM_FLOATS_CPU; f <= LLM_FLOATS_NPU; f++) {
		struct plan_options o = options_of(f, NULL);
		unsigned int on_npu = 0;
		struct plan *plan;

		o.soc = NULL;
		plan = plan_of(&o, 100);
		for (uint32_t t = 0; t < sched_nr_tasks(plan->tasks); t++)
			on_npu += sched_get(plan->tasks, t)->home == SOC_NPU;
		assert_int_equal(on_npu, subgraphs[f] * qwen.layers + 1);
		plan_free(plan);
	}
}

/* ---- prompts and tokens ---- */

static void a_token_is_planned_as_placement_fine_plans_it(void **state)
{
	struct plan_options fine = options_of(LLM_FLOATS_CPU, NULL);
	uint64_t ns;

	fine.choices.placement = LLM_PLACE_FINE;
	fine.choices.activations = LLM_ACTIVATIONS_ROW_OUTLIERS;
	fine.choices.graphs = LLM_GRAPHS_FIXED;
	ns = time_of(&fine, 1);
	for (enum llm_floats f = LLM_FLOATS_CPU; f <= LLM_FLOATS_NPU; f++) {
		struct plan_options o = options_of(f, &all);
		struct plan *plan;

		assert_int_equal(time_of(&o, 1), ns);
		/* On the wall clock it is one graph, after the embedding. */
		o.soc = NULL;
		plan = plan_of(&o, 1);
		assert_int_equal(sched_nr_tasks(plan->tasks), 2);
		plan_free(plan);
	}
}

static void a_prompts_last_token_alone_is_still_a_prompts_chunk(void **state)
{
	static const struct {
		enum llm_graphs graphs;
		uint32_t rows;
	} cases[] = { { LLM_GRAPHS_SHARED, 256 }, { LLM_GRAPHS_BUCKETED, 32 } };

	for (int i = 0; i < 4; i++) {
		struct plan_options o = options_of(LLM_FLOATS_NPU, &few);
		struct plan *plan;
		uint32_t t;

		o.soc = i / 2 ? soc : NULL;
		o.choices.graphs = cases[i % 2].graphs;
		plan = plan_of(&o, 257);
		assert_int_equal(plan->nr_chunks, 2);
		assert_int_equal(plan->chunks[1].n, 1);
		assert_int_equal(plan->chunks[1].rows, cases[i % 2].rows);
		t = find(plan, 1, qwen.layers / 2, LLM_OP_ATTN_NORM);
		assert_int_equal(plan->works[t].what, LANE_SUBGRAPH);
		assert_int_equal(plan->works[t].last, LLM_OP_ROPE);
		plan_free(plan);
	}
}

static void attention_waits_for_the_rope_of_all_earlier_chunks(void **state)
{
	for (enum llm_floats f = LLM_FLOATS_CPU; f <= LLM_FLOATS_NPU; f++) {
		struct plan_options o = options_of(f, &few);
		struct plan *plan = plan_of(&o, 1000);
		struct sched_run run = run_of(plan);

		assert_string_equal(plan->policy->name, "ooe");
		for (uint32_t c = 0; c < 4; c++) {
			uint32_t attn = find(plan, c, 5, LLM_OP_ATTN);
			size_t n;
			const uint32_t *before = sched_predecessors(plan->tasks, attn, &n);

			assert_int_equal(n, c + 1);
			for (uint32_t k = 0; k <= c; k++)
				assert_int_equal(before[k], find(plan, k, 5, LLM_OP_ROPE));
		}
		sched_run_free(&run);
		plan_free(plan);
	}
}

/* ---- shadow matmuls ---- */

static bool comes_after(const struct plan *plan, uint32_t task, uint32_t before)
{
	size_t n;
	const uint32_t *all_before = sched_predecessors(plan->tasks, task, &n);

	for (size_t i = 0; i < n; i++)
		if (all_before[i] == before)
			return true;
	return false;
}

static void check_shadow(const struct plan *plan, uint32_t shadow)
{
	const struct lane_work *w = &plan->works[shadow];
	uint32_t matmul = find(plan, w->chunk, w->layer, w->matmul), merge = shadow + 1;
	size_t n, n_matmul;
	const uint32_t *before = sched_predecessors(plan->tasks, shadow, &n),
		       *before_matmul = sched_predecessors(plan->tasks, matmul, &n_matmul);
	const uint32_t *after = sched_successors(plan->tasks, matmul, &n_matmul);

	assert_int_equal(n, 1);
	assert_int_equal(before[0], before_matmul[0]);
	assert_int_equal(plan->works[matmul].what, LANE_SLICE);
	assert_int_equal(plan->works[merge].op, LLM_OP_MERGE);
	assert_int_equal(plan->works[merge].matmul, w->matmul);
	assert_true(comes_after(plan, merge, matmul) && comes_after(plan, merge, shadow));
	assert_true(comes_after(plan, merge + 1, merge));
	/* Nothing takes a result that is not merged. */
	assert_int_equal(n_matmul, 1);
	assert_int_equal(after[0], merge);
	assert_int_equal(sched_get(plan->tasks, shadow)->home, SOC_CPU);
	assert_int_equal(sched_get(plan->tasks, merge)->home, SOC_CPU);
}

static void a_shadow_runs_beside_its_matmul_and_both_are_merged(void **state)
{
	const struct shadow *const shadows[] = { &none, &few, &all };

	for (int i = 0; i < 9; i++) {
		const struct shadow *s = shadows[i / 3];
		struct plan_options o = options_of((enum llm_floats)(i % 3), s);
		struct plan *plan = plan_of(&o, 600);
		struct sched_run run = run_of(plan);
		unsigned int found = 0, kept = 0;

		for (uint32_t k = 0; k < qwen.layers * SHADOW_INPUTS; k++)
			kept += s->inputs[k].kept;
		for (uint32_t t = 0; t < sched_nr_tasks(plan->tasks); t++) {
			if (plan->works[t].op != LLM_OP_SHADOW)
				continue;
			check_shadow(plan, t);
			found++;
		}
		assert_int_equal(found, 3 * kept);
		sched_run_free(&run);
		plan_free(plan);
	}
}

static void check_shadows(enum llm_placement placement)
{
	for (enum llm_activations a = LLM_ACTIVATIONS_ROW_OUTLIERS; a <= LLM_ACTIVATIONS_STATIC_MAX;
	     a++) {
		struct plan_options o = options_of(LLM_FLOATS_CPU, &all);
		struct plan *plan;
		unsigned int shadows = 0;

		o.choices.activations = a;
		o.choices.placement = placement;
		plan = plan_of(&o, 100);
		for (uint32_t t = 0; t < sched_nr_tasks(plan->tasks); t++)
			shadows += plan->works[t].op == LLM_OP_SHADOW;
		assert_int_equal(shadows, a == LLM_ACTIVATIONS_STATIC ? 4 * qwen.layers : 0);
		plan_free(plan);
	}
}

static void only_static_activations_have_shadows(void **state)
{
	check_shadows(LLM_PLACE_LINEAR);
	check_shadows(LLM_PLACE_FINE);
}

/* ---- costs ---- */

static struct soc_cost cost_of(const struct plan_options *o, enum llm_op op)
{
	struct plan *plan = plan_of(o, 256);
	const struct sched_task *t = sched_get(plan->tasks, find(plan, 0, 0, op));
	struct soc_cost cost = t->cost[t->home];

	plan_free(plan);
	return cost;
}

/* 256 rows of 10 channels, two of which are not hot, times 2 * 5504 columns. */
static void a_shadow_costs_its_scan_its_channels_and_cold_weights(void **state)
{
	const double scan = 256.0 * 2048 / soc->cpu.vector_gelems;
	const double macs = 2.0 * 256 * 10 * 2 * 5504 / soc->cpu.f16_gflops;
	const double cold = 2.0 * 2 * 5504 * 2 / soc->storage.read_gbps;
	struct plan_options o = options_of(LLM_FLOATS_CPU, &all);
	struct plan *plan = plan_of(&o, 256);

	for (uint32_t t = 0; t < sched_nr_tasks(plan->tasks); t++) {
		const struct sched_task *task = sched_get(plan->tasks, t);
		double ns = task->cost[SOC_CPU].ns;

		if (plan->works[t].matmul != LLM_OP_GATE_UP)
			continue;
		if (task->op == LLM_OP_SHADOW && fabs(ns - scan - macs - cold) > 1)
			fail_msg("%f ns, not %f + %f + %f", ns, scan, macs, cold);
		if (task->op == LLM_OP_MERGE)
			assert_true(fabs(ns - 256.0 * 2 * 5504 / soc->cpu.vector_gelems) < 1);
	}
	plan_free(plan);
}

/* The quantisation of [256][2048]: with the norm on the CPU, or with the matmul on the NPU. */
static void who_quantises_pays_for_it(void **state)
{
	struct plan_options cpu = options_of(LLM_FLOATS_CPU, NULL),
			    norms = options_of(LLM_FLOATS_NORMS, NULL);
	const double elements = 256.0 * 2048;
	double on_cpu = cost_of(&cpu, LLM_OP_ATTN_NORM).ns - cost_of(&norms, LLM_OP_ATTN_NORM).ns,
	       on_npu = cost_of(&norms, LLM_OP_QKV).ns - cost_of(&cpu, LLM_OP_QKV).ns;

	assert_true(fabs(on_cpu - elements * FLOAT_OPS_QUANT_STATIC / soc->cpu.vector_gelems) < 1);
	assert_true(fabs(on_npu - elements * FLOAT_OPS_QUANT_STATIC / soc->npu.vector_gelems) < 1);
	cpu.choices.activations = norms.choices.activations = LLM_ACTIVATIONS_INT8;
	on_npu = cost_of(&norms, LLM_OP_QKV).ns - cost_of(&cpu, LLM_OP_QKV).ns;
	assert_true(fabs(on_npu - elements * FLOAT_OPS_QUANT / soc->npu.vector_gelems) < 1);
}

static void groups_cost_their_float_sums(void **state)
{
	struct plan_options o = options_of(LLM_FLOATS_CPU, NULL);
	double one, groups;

	o.choices.activations = LLM_ACTIVATIONS_INT8;
	one = cost_of(&o, LLM_OP_QKV).ns;
	o.choices.weights = LLM_WEIGHTS_W8A8_GROUPS;
	groups = cost_of(&o, LLM_OP_QKV).ns;
	assert_true(fabs(groups - one - 256.0 * 6144 * (2048 / 32.0) / soc->npu.group_gsums) < 1);
}

/* llm.npu 2.3: the graphs of a prompt's length have all layers in them. */
static void graphs_of_a_prompts_length_are_built_before_it(void **state)
{
	struct plan_options o = options_of(LLM_FLOATS_CPU, NULL);
	const struct sched_task *build;
	struct plan *plan;
	double ns = npu_time_build_ns(&soc->npu, 4 * (uint64_t)qwen.layers);

	o.choices.graphs = LLM_GRAPHS_ONLINE;
	plan = plan_of(&o, 777);
	assert_int_equal(plan->nr_chunks, 1);
	assert_int_equal(plan->chunks[0].rows, 777);
	for (int op = 0; op < LLM_OP_HEAD; op++) {
		uint64_t k, n;

		if (llm_op_matmul(&qwen, op, &k, &n))
			ns += npu_time_optimize_ns(&soc->npu,
						   qwen.layers * npu_time_elements(777, k, n));
	}
	build = sched_get(plan->tasks, 0);
	assert_int_equal(build->op, LLM_OP_BUILD);
	assert_true(fabs(build->cost[SOC_CPU].ns - ns) < 1);
	plan_free(plan);
	plan = plan_of(&o, 1);
	assert_int_equal(sched_get(plan->tasks, 0)->op, LLM_OP_EMBED);
	plan_free(plan);
}

/* ---- orders ---- */

static void each_order_has_its_policy_and_chunks_overlap_but_with_fifo(void **state)
{
	static const struct {
		enum llm_order order;
		const char *policy;
	} cases[] = { { LLM_ORDER_AUTO, "ooe" },
		      { LLM_ORDER_FIFO, "fifo" },
		      { LLM_ORDER_LAYER, "layer" },
		      { LLM_ORDER_CHUNK, "fifo" },
		      { LLM_ORDER_OOE, "ooe" } };

	for (int i = 0; i < 5; i++) {
		struct plan_options o = options_of(LLM_FLOATS_CPU, NULL);
		struct plan *plan;

		o.choices.order = cases[i].order;
		plan = plan_of(&o, 1024);
		assert_string_equal(plan->policy->name, cases[i].policy);
		assert_int_equal(plan->overlap, cases[i].order != LLM_ORDER_FIFO);
		assert_int_equal(plan->times != NULL, !strcmp(cases[i].policy, "ooe"));
		plan_free(plan);
	}
}

static void a_graphs_first_task_has_the_time_of_all(void **state)
{
	struct plan_options o = options_of(LLM_FLOATS_NPU, NULL);
	struct plan *plan = plan_of(&o, 1024);
	uint32_t first = find(plan, 2, 4, LLM_OP_ATTN_OUTPUT), last = find(plan, 2, 4, LLM_OP_ADD);
	double sum = soc->npu.launch_awake_us * 1e3;

	for (uint32_t t = first; t <= last; t++)
		sum += soc_alone_ns(soc, SOC_NPU, sched_get(plan->tasks, t)->cost[SOC_NPU]);
	assert_true(fabs(plan->times[first] - sum) < 1);
	assert_true(fabs(plan->times[last] -
			 soc_alone_ns(soc, SOC_NPU, sched_get(plan->tasks, last)->cost[SOC_NPU])) <
		    1);
	plan_free(plan);
}

static void times_are_learned_by_operator_lane_and_rows(void **state)
{
	struct plan_options o = options_of(LLM_FLOATS_NPU, NULL);
	struct times times = { .n = 0 };
	struct sched_run run = { 0 };
	struct plan *plan;
	uint32_t first, short_first;

	o.soc = NULL;
	o.choices.order = LLM_ORDER_OOE;
	o.choices.graphs = LLM_GRAPHS_BUCKETED;
	plan = plan_of(&o, 512 + 64);
	first = find(plan, 0, 0, LLM_OP_ATTN_OUTPUT);
	short_first = find(plan, 2, 9, LLM_OP_ATTN_OUTPUT);
	times_fill(&times, plan);
	assert_true(plan->times[first] == 0);
	run.nr_spans = sched_nr_tasks(plan->tasks);
	run.spans = calloc(run.nr_spans, sizeof(*run.spans));
	assert_non_null(run.spans);
	for (uint32_t t = 0; t < run.nr_spans; t++)
		run.spans[t] = (struct sched_span){
			.start_ns = 1000,
			.end_ns = 1000 + 100 * plan->chunks[plan->works[t].chunk].rows,
		};
	times_learn(&times, plan, &run);
	times_fill(&times, plan);
	assert_true(fabs(plan->times[first] - 25600) < 1e-6);
	assert_true(fabs(plan->times[short_first] - 6400) < 1e-6);
	sched_run_free(&run);
	plan_free(plan);
	/* A chunk of rows that were not seen, in proportion. */
	plan = plan_of(&o, 512 + 128);
	times_fill(&times, plan);
	assert_true(fabs(plan->times[find(plan, 2, 9, LLM_OP_ATTN_OUTPUT)] - 12800) < 1e-6);
	plan_free(plan);
}

/* Subgraphs that begin with the same operator take other times if they end with another one. */
static void times_are_of_whole_subgraphs(void **state)
{
	struct plan_options o = options_of(LLM_FLOATS_NPU, &few);
	struct times times = { .n = 0 };
	struct sched_run run = { 0 };
	uint32_t alone, subgraph;
	struct plan *plan;

	o.soc = NULL;
	o.choices.order = LLM_ORDER_OOE;
	plan = plan_of(&o, 512);
	alone = find(plan, 0, 0, LLM_OP_ATTN_OUTPUT);
	subgraph = find(plan, 0, 12, LLM_OP_ATTN_OUTPUT);
	assert_int_equal(plan->works[alone].what, LANE_SLICE);
	assert_int_equal(plan->works[subgraph].what, LANE_SUBGRAPH);
	run.nr_spans = sched_nr_tasks(plan->tasks);
	run.spans = calloc(run.nr_spans, sizeof(*run.spans));
	assert_non_null(run.spans);
	for (uint32_t t = 0; t < run.nr_spans; t++)
		run.spans[t].end_ns = plan->works[t].what == LANE_SUBGRAPH ? 7000 : 1000;
	times_learn(&times, plan, &run);
	times_fill(&times, plan);
	assert_true(fabs(plan->times[alone] - 1000) < 1e-6);
	assert_true(fabs(plan->times[subgraph] - 7000) < 1e-6);
	sched_run_free(&run);
	plan_free(plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operators_are_where_floats_says),
		cmocka_unit_test(the_cpu_has_what_the_npu_has_no_room_for),
		cmocka_unit_test(each_subgraph_is_launched_once),
		cmocka_unit_test(works_compute_each_operator_once_on_both_clocks),
		cmocka_unit_test(on_the_wall_clock_a_subgraph_is_one_task),
		cmocka_unit_test(a_token_is_planned_as_placement_fine_plans_it),
		cmocka_unit_test(a_prompts_last_token_alone_is_still_a_prompts_chunk),
		cmocka_unit_test(attention_waits_for_the_rope_of_all_earlier_chunks),
		cmocka_unit_test(a_shadow_runs_beside_its_matmul_and_both_are_merged),
		cmocka_unit_test(only_static_activations_have_shadows),
		cmocka_unit_test(a_shadow_costs_its_scan_its_channels_and_cold_weights),
		cmocka_unit_test(who_quantises_pays_for_it),
		cmocka_unit_test(groups_cost_their_float_sums),
		cmocka_unit_test(graphs_of_a_prompts_length_are_built_before_it),
		cmocka_unit_test(each_order_has_its_policy_and_chunks_overlap_but_with_fifo),
		cmocka_unit_test(a_graphs_first_task_has_the_time_of_all),
		cmocka_unit_test(times_are_learned_by_operator_lane_and_rows),
		cmocka_unit_test(times_are_of_whole_subgraphs),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
