// SPDX-License-Identifier: MIT
/* Plans of order steal: which tasks the CPU may take, at what cost; and their times, on the virtual
 * clock and from earlier passes on the wall clock. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan.h"
#include "times.h"

static struct soc *soc;
static struct shape llama;

static int setup(void **state)
{
	char why[512];

	soc = soc_load("sd8elite", why, sizeof(why));
	return !soc || shape_load("llama3-8b", &llama);
}

static int teardown(void **state)
{
	soc_free(soc);
	return 0;
}

static struct plan_options options_of(enum llm_order order)
{
	return (struct plan_options){
		.soc = soc,
		.shape = &llama,
		.chunk = 64,
		.choices = { .placement = LLM_PLACE_FINE,
			     .weights = LLM_WEIGHTS_W8A8,
			     .operands = LLM_OPERANDS_NATURAL,
			     .graphs = LLM_GRAPHS_FIXED,
			     .order = order },
	};
}

static struct plan *plan_of(const struct plan_options *o, uint32_t tokens)
{
	const struct plan_pass pass = { .n_tokens = tokens, .logits = PLAN_LOGITS_LAST };
	struct plan *plan = plan_forward(o, &pass);

	assert_non_null(plan);
	return plan;
}

static bool is_layers_matmul(const struct sched_task *t)
{
	uint64_t k, n;

	return t->op != LLM_OP_HEAD && llm_op_matmul(&llama, t->op, &k, &n);
}

static uint32_t find(const struct plan *plan, uint32_t chunk, enum llm_op op)
{
	for (uint32_t i = 0; i < sched_nr_tasks(plan->tasks); i++) {
		const struct sched_task *t = sched_get(plan->tasks, i);

		if (t->chunk == chunk && t->op == op)
			return i;
	}
	fail_msg("no such task");
	return 0;
}

static void the_cpu_may_take_the_layers_matmuls_of_chunks_that_overlap(void **state)
{
	static const struct {
		enum llm_order order;
		uint32_t tokens;
		bool taken;
	} cases[] = { { LLM_ORDER_STEAL, 200, true },
		      { LLM_ORDER_STEAL, 64, false },
		      { LLM_ORDER_STEAL, 1, false },
		      { LLM_ORDER_LAYER, 200, false },
		      { LLM_ORDER_OOE, 200, false } };

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		const struct plan_options o = options_of(cases[c].order);
		struct plan *plan = plan_of(&o, cases[c].tokens);

		for (uint32_t i = 0; i < sched_nr_tasks(plan->tasks); i++) {
			const struct sched_task *t = sched_get(plan->tasks, i);
			bool taken = cases[c].taken && is_layers_matmul(t);

			assert_int_equal(t->lanes, taken ? 1u << SOC_CPU : 0);
			if (taken)
				assert_true(t->home == SOC_NPU &&
					    t->cost[SOC_CPU].ns > t->cost[SOC_NPU].ns);
		}
		plan_free(plan);
	}
}

/* The last chunk has 8 tokens and a graph of 64. */
static void the_cpu_computes_no_padding(void **state)
{
	const struct plan_options o = options_of(LLM_ORDER_STEAL);
	struct plan *plan = plan_of(&o, 200);
	const struct sched_task *full = sched_get(plan->tasks, find(plan, 0, LLM_OP_DOWN)),
				*last = sched_get(plan->tasks, find(plan, 3, LLM_OP_DOWN));

	assert_true(fabs(last->cost[SOC_CPU].ns * 8 - full->cost[SOC_CPU].ns) < 1);
	assert_true(last->cost[SOC_NPU].ns == full->cost[SOC_NPU].ns);
	plan_free(plan);
}

static void times_are_those_of_both_lanes(void **state)
{
	const struct plan_options o = options_of(LLM_ORDER_STEAL);
	struct plan *plan = plan_of(&o, 200);
	uint32_t n = sched_nr_tasks(plan->tasks), down = find(plan, 1, LLM_OP_DOWN);
	const struct sched_task *t = sched_get(plan->tasks, down);

	assert_string_equal(plan->policy->name, "steal");
	assert_true(fabs(plan->times[down] - soc_alone_ns(soc, SOC_NPU, t->cost[SOC_NPU]) -
			 soc_npu_start_ns(soc, SOC_SYNC_FAST, false)) < 1);
	assert_true(fabs(plan->times[n + down] - soc_alone_ns(soc, SOC_CPU, t->cost[SOC_CPU]) -
			 soc_cpu_start_ns(soc)) < 1);
	plan_free(plan);
}

static void on_the_wall_clock_times_are_learned_of_each_lane(void **state)
{
	struct plan_options o = options_of(LLM_ORDER_STEAL);
	struct times times = { .n = 0 };
	struct sched_run run = { 0 };
	uint32_t n, first, second;
	struct plan *plan;

	o.soc = NULL;
	plan = plan_of(&o, 200);
	n = sched_nr_tasks(plan->tasks);
	first = find(plan, 0, LLM_OP_DOWN);
	second = find(plan, 1, LLM_OP_DOWN);
	times_fill(&times, plan);
	assert_true(plan->times[first] == 0 && isinf(plan->times[n + first]));
	run.nr_spans = n;
	run.spans = calloc(n, sizeof(*run.spans));
	assert_non_null(run.spans);
	for (uint32_t i = 0; i < n; i++)
		run.spans[i] = (struct sched_span){ .end_ns = 1000,
						    .lane = sched_get(plan->tasks, i)->home };
	times_learn(&times, plan, &run);
	times_fill(&times, plan);
	/* The paper's threshold, until the CPU has computed one. */
	assert_true(fabs(plan->times[first] - 1000) < 1e-6);
	assert_true(fabs(plan->times[n + first] - 5000) < 1e-6);
	run.spans[second].end_ns = 3000;
	run.spans[second].lane = SOC_CPU;
	times_learn(&times, plan, &run);
	times_fill(&times, plan);
	assert_true(fabs(plan->times[first] - 1000) < 1e-6);
	assert_true(fabs(plan->times[n + first] - 3000) < 1e-6);
	sched_run_free(&run);
	plan_free(plan);
}

/* As many short chunks as have the memory of four long ones, whatever makes them overlap. */
static void short_chunks_have_the_memory_of_long_ones(void **state)
{
	static const enum llm_order orders[] = { LLM_ORDER_LAYER, LLM_ORDER_CHUNK, LLM_ORDER_OOE,
						 LLM_ORDER_STEAL };

	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		struct plan_options o = options_of(orders[i]);

		assert_int_equal(plan_rows(&o, 4096), 1024);
		assert_int_equal(plan_rows(&o, 640), 640);
		o.chunk = 512;
		assert_int_equal(plan_rows(&o, 4096), 2048);
		o.chunk = 96;
		assert_int_equal(plan_rows(&o, 4096), 960);
	}
}

/* Chunks of a long prompt come back to the rows of earlier ones, and wait for them. */
static void chunks_share_the_memory_of_those_before(void **state)
{
	struct plan_options o = options_of(LLM_ORDER_LAYER);
	const struct plan_pass pass = { .n_tokens = 2048, .logits = PLAN_LOGITS_LAST };
	uint32_t chunk = o.chunk, places = 1024 / chunk, most = 0;
	struct plan *plan;

	o.rows = plan_rows(&o, pass.n_tokens);
	plan = plan_forward(&o, &pass);
	assert_non_null(plan);
	assert_int_equal(plan->nr_chunks, pass.n_tokens / chunk);
	for (uint32_t c = 0; c < plan->nr_chunks; c++) {
		assert_int_equal(plan->chunks[c].row, c % places * chunk);
		most = plan->chunks[c].row + chunk > most ? plan->chunks[c].row + chunk : most;
	}
	assert_int_equal(most, o.rows);
	plan_free(plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_cpu_may_take_the_layers_matmuls_of_chunks_that_overlap),
		cmocka_unit_test(the_cpu_computes_no_padding),
		cmocka_unit_test(times_are_those_of_both_lanes),
		cmocka_unit_test(on_the_wall_clock_times_are_learned_of_each_lane),
		cmocka_unit_test(short_chunks_have_the_memory_of_long_ones),
		cmocka_unit_test(chunks_share_the_memory_of_those_before),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
