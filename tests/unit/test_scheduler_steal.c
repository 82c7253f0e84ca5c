// SPDX-License-Identifier: MIT
/* The order steal: what an idle CPU takes from the NPU's queue, and what it leaves there. */
#include "scheduler_plans.h"

#include <stdio.h>

static struct soc *soc;

static int setup(void **state)
{
	const char *given = getenv("TEST_SEED");
	unsigned int seed =
		given ? (unsigned int)strtoul(given, NULL, 0) : (unsigned int)time(NULL);
	char why[512];

	printf("TEST_SEED=%u\n", seed);
	srand(seed);
	soc = soc_load("sd8gen3", why, sizeof(why));
	return !soc;
}

static int teardown(void **state)
{
	soc_free(soc);
	return 0;
}

/* @npu_ms there, @cpu_ms on the CPU; cpu_ms 0: the CPU may not take it. */
static uint32_t add_npu(struct sched_tasks *plan, uint32_t layer, double npu_ms, double cpu_ms)
{
	struct sched_task t = { .home = SOC_NPU, .layer = layer };

	t.lanes = cpu_ms > 0 ? 1u << SOC_CPU : 0;
	t.cost[SOC_NPU].ns = npu_ms * 1e6;
	t.cost[SOC_CPU].ns = cpu_ms * 1e6;
	return sched_add(plan, &t);
}

static uint32_t add_cpu(struct sched_tasks *plan, double ms)
{
	struct sched_task t = { .home = SOC_CPU };

	t.cost[SOC_CPU].ns = ms * 1e6;
	return sched_add(plan, &t);
}

/* The policy's param; @known: of the CPU's times. */
static double *times_of(const struct sched_tasks *plan, bool known)
{
	uint32_t n = sched_nr_tasks(plan);
	double *ns = calloc(2 * (size_t)n + 1, sizeof(*ns));

	assert_non_null(ns);
	for (uint32_t i = 0; i < n; i++) {
		const struct sched_task *t = sched_get(plan, i);

		ns[i] = t->cost[t->home].ns;
		ns[n + i] = known ? t->cost[SOC_CPU].ns : INFINITY;
	}
	return ns;
}

static struct sched_run run_steal(struct sched_tasks *plan, const double *ns)
{
	struct sched_options so = { .clock = SCHED_VIRTUAL,
				    .soc = soc,
				    .sync = SOC_SYNC_FAST,
				    .policy = &sched_policy_steal,
				    .param = ns };
	struct sched_run run;

	assert_int_equal(sched_run(plan, &so, &run), 0);
	return run;
}

static unsigned int nr_taken(const struct sched_tasks *plan, const struct sched_run *run)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < run->nr_spans; i++)
		n += run->spans[i].lane != sched_get(plan, i)->home;
	return n;
}

/* Tasks of 1 ms at once, of which the NPU has one and the queue the others. */
static unsigned int taken_of(unsigned int queue, double cpu_ms)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_run run;
	unsigned int n;
	double *ns;

	for (unsigned int i = 0; i <= queue; i++)
		add_npu(plan, 0, 1, cpu_ms);
	ns = times_of(plan, true);
	run = run_steal(plan, ns);
	n = nr_taken(plan, &run);
	sched_run_free(&run);
	sched_tasks_free(plan);
	free(ns);
	return n;
}

static void the_cpu_takes_a_task_if_the_queue_takes_longer(void **state)
{
	/* Equal lanes share the work; a CPU of a fifth of the speed does a sixth of it. */
	assert_int_equal(taken_of(4, 4.1), 0);
	assert_int_equal(taken_of(4, 3.9), 1);
	assert_int_equal(taken_of(5, 5.1), 0);
	assert_int_equal(taken_of(6, 5.1), 1);
	assert_int_equal(taken_of(1, 0.9), 1);
	assert_int_equal(taken_of(1, 1.1), 0);
	for (unsigned int ratio = 2; ratio < 8; ratio++) {
		unsigned int queue = any(100, 300), n = taken_of(queue, ratio - 0.1);

		assert_true(n >= (queue + 1) / (ratio + 1) - 1 && n <= (queue + 1) / ratio + 1);
	}
}

static void of_the_queue_it_takes_the_next_one_of_the_npu(void **state)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	uint32_t first = add_npu(plan, 1, 1, 2), later = add_npu(plan, 2, 1, 2), more[4];
	uint32_t next = add_npu(plan, 1, 1, 2);
	struct sched_run run;
	double *ns;

	for (int i = 0; i < 4; i++)
		more[i] = add_npu(plan, 3, 1, 2);
	ns = times_of(plan, true);
	run = run_steal(plan, ns);
	assert_int_equal(run.spans[first].lane, SOC_NPU);
	assert_int_equal(run.spans[next].lane, SOC_CPU);
	assert_true(run.spans[next].start_ns == run.spans[first].start_ns);
	assert_true(run.spans[later].start_ns < run.spans[more[0]].start_ns);
	sched_run_free(&run);
	sched_tasks_free(plan);
	free(ns);
}

static void a_cpu_with_work_of_its_own_takes_none(void **state)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_run run;
	uint32_t own[3];
	double *ns;

	for (int i = 0; i < 20; i++)
		add_npu(plan, 0, 1, 2);
	for (int i = 0; i < 3; i++)
		own[i] = add_cpu(plan, 1);
	ns = times_of(plan, true);
	run = run_steal(plan, ns);
	for (uint32_t i = 0; i < 20; i++)
		if (run.spans[i].lane == SOC_CPU)
			assert_true(run.spans[i].start_ns >= run.spans[own[2]].end_ns);
	assert_true(nr_taken(plan, &run) > 0);
	sched_run_free(&run);
	sched_tasks_free(plan);
	free(ns);
}

static void tasks_of_one_lane_and_unknown_times_stay_at_home(void **state)
{
	for (int i = 0; i < 3; i++) {
		struct sched_tasks *plan = sched_tasks_create(NULL);
		struct sched_run run;
		double *ns;

		for (int t = 0; t < 50; t++)
			add_npu(plan, 0, 1, i ? 0.5 : 0);
		ns = times_of(plan, i != 1);
		run = run_steal(plan, i == 2 ? NULL : ns);
		assert_int_equal(nr_taken(plan, &run), 0);
		sched_run_free(&run);
		sched_tasks_free(plan);
		free(ns);
	}
}

static void all_tasks_run_once_and_in_order_on_both_clocks(void **state)
{
	unsigned int taken = 0;

	for (int i = 0; i < 60; i++) {
		struct sched_tasks *plan = random_plan();
		struct sched_options so = { .clock = i % 2 ? SCHED_WALL : SCHED_VIRTUAL,
					    .soc = i % 2 ? NULL : soc,
					    .policy = &sched_policy_steal,
					    .execute = true };
		double *ns = times_of(plan, true);
		struct sched_run run;

		so.param = ns;
		assert_int_equal(sched_run(plan, &so, &run), 0);
		check_order(plan, &run);
		check_work(plan);
		if (so.clock == SCHED_VIRTUAL)
			check_lanes(&run);
		taken += nr_taken(plan, &run);
		sched_run_free(&run);
		sched_tasks_free(plan);
		free(ns);
	}
	assert_true(taken > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_cpu_takes_a_task_if_the_queue_takes_longer),
		cmocka_unit_test(of_the_queue_it_takes_the_next_one_of_the_npu),
		cmocka_unit_test(a_cpu_with_work_of_its_own_takes_none),
		cmocka_unit_test(tasks_of_one_lane_and_unknown_times_stay_at_home),
		cmocka_unit_test(all_tasks_run_once_and_in_order_on_both_clocks),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
