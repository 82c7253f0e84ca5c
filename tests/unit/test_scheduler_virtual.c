// SPDX-License-Identifier: MIT
/*
 * The virtual clock: small plans whose durations follow from the soc's numbers, and energy.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "scheduler.h"

static struct soc *soc;

static int setup(void **state)
{
	char why[512];

	soc = soc_load("sd8gen3", why, sizeof(why));
	if (!soc)
		puts(why);
	return !soc;
}

static int teardown(void **state)
{
	soc_free(soc);
	return 0;
}

static struct sched_task task_on(enum soc_lane lane, double ns, double bytes)
{
	struct sched_task t = { .home = (uint8_t)lane };

	t.cost[lane] = (struct soc_cost){ ns, bytes };
	return t;
}

static struct sched_run simulate(struct sched_tasks *plan, enum soc_sync sync)
{
	struct sched_options opts = { .clock = SCHED_VIRTUAL, .soc = soc, .sync = sync };
	struct sched_run run;

	assert_int_equal(sched_run(plan, &opts, &run), 0);
	sched_tasks_free(plan);
	return run;
}

static void assert_ns(uint64_t got, double wanted)
{
	if ((double)got > wanted + 1 || (double)got < wanted - 1)
		fail_msg("%llu ns, %.1f wanted", (unsigned long long)got, wanted);
}

static void test_lanes_together_share_the_memory(void **state)
{
	const double bytes = 1e9;
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_run run;
	double shared = soc->memory.dram_shared_gbps, sum = soc->gpu.dram_gbps + soc->cpu.dram_gbps,
	       slow;

	/* One alone is as fast as its lane. */
	sched_add(plan, &(struct sched_task){ .home = SOC_CPU, .cost[SOC_CPU] = { 0, bytes } });
	run = simulate(plan, SOC_SYNC_FAST);
	assert_ns(run.makespan_ns, soc->cpu.dispatch_us * 1e3 + bytes / soc->cpu.dram_gbps);
	sched_run_free(&run);

	/* Two that want more than there is get it in proportion. */
	plan = sched_tasks_create(NULL);
	sched_add(plan, &(struct sched_task){ .home = SOC_GPU, .cost[SOC_GPU] = { 0, bytes } });
	sched_add(plan, &(struct sched_task){ .home = SOC_CPU, .cost[SOC_CPU] = { 0, bytes } });
	run = simulate(plan, SOC_SYNC_FAST);
	slow = bytes / (shared * soc->cpu.dram_gbps / sum);
	assert_true(run.peak_gbps > shared * (1 - 1e-9) && run.peak_gbps <= shared * (1 + 1e-9));
	assert_true((double)run.spans[1].end_ns < slow + soc->cpu.dispatch_us * 1e3);
	assert_true((double)run.makespan_ns > 2 * bytes / shared);
	sched_run_free(&run);

	/* One that computes takes no longer for it. */
	plan = sched_tasks_create(NULL);
	sched_add(plan, &(struct sched_task){ .home = SOC_GPU, .cost[SOC_GPU] = { 1e9, 1e6 } });
	sched_add(plan, &(struct sched_task){ .home = SOC_CPU, .cost[SOC_CPU] = { 0, bytes } });
	run = simulate(plan, SOC_SYNC_FAST);
	assert_ns(run.spans[0].end_ns, soc->gpu.submit_drained_us * 1e3 + 1e9);
	assert_ns(run.spans[1].end_ns, soc->cpu.dispatch_us * 1e3 + bytes / soc->cpu.dram_gbps);
	sched_run_free(&run);
}

static void test_an_empty_gpu_queue_costs_more_than_a_full_one(void **state)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_task t = task_on(SOC_GPU, 1000, 0);
	struct sched_run run;

	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(sched_after(plan, sched_add(plan, &t), i ? i - 1 : SCHED_NONE), 0);
	run = simulate(plan, SOC_SYNC_DRIVER);
	/* Kernels that are shorter than a submission: the CPU is the slower one. */
	assert_ns(run.makespan_ns,
		  (soc->gpu.submit_drained_us + 2 * soc->gpu.submit_us) * 1e3 + 1000);
	sched_run_free(&run);
	/* Longer ones hide it. */
	plan = sched_tasks_create(NULL);
	t = task_on(SOC_GPU, 50000, 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(sched_after(plan, sched_add(plan, &t), i ? i - 1 : SCHED_NONE), 0);
	run = simulate(plan, SOC_SYNC_DRIVER);
	assert_ns(run.makespan_ns, soc->gpu.submit_drained_us * 1e3 + 150000);
	sched_run_free(&run);
}

/* A kernel that needs another lane's result is submitted when that is known. */
static void test_a_submission_waits_for_the_other_lanes_result(void **state)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_task npu = task_on(SOC_NPU, 90000, 0), gpu = task_on(SOC_GPU, 100000, 0);
	uint32_t a = sched_add(plan, &npu), b = sched_add(plan, &gpu), c = sched_add(plan, &gpu);
	struct sched_run run;
	double known = (soc->npu.launch_awake_us + 90 + soc->cpu.poll_us) * 1e3;
	double submitted = fmax(known, soc->gpu.submit_drained_us * 1e3) + soc->gpu.submit_us * 1e3;
	double ends = soc->gpu.submit_drained_us * 1e3 + 100000;

	assert_int_equal(sched_after(plan, c, a), 0);
	assert_int_equal(sched_after(plan, c, b), 0);
	run = simulate(plan, SOC_SYNC_FAST);
	assert_true(known < ends);
	assert_ns(run.makespan_ns, fmax(submitted, ends) + 100000);
	sched_run_free(&run);
}

/* Each lane's watts while it works and while it does not, and the rest's. */
static void test_energy_is_power_over_time(void **state)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	static const double ms[SOC_NR_LANES] = { 30, 20, 10 };
	double all_ns, joules;
	struct sched_run run;

	for (int lane = 0; lane < SOC_NR_LANES; lane++) {
		struct sched_task t = task_on((enum soc_lane)lane, ms[lane] * 1e6, 0);

		sched_add(plan, &t);
	}
	run = simulate(plan, SOC_SYNC_FAST);
	all_ns = (double)run.makespan_ns;
	joules = all_ns * soc->memory.base_w;
	joules += (double)run.busy_ns[SOC_NPU] * soc->npu.active_w +
		  (all_ns - (double)run.busy_ns[SOC_NPU]) * soc->npu.idle_w;
	joules += (double)run.busy_ns[SOC_GPU] * soc->gpu.active_w +
		  (all_ns - (double)run.busy_ns[SOC_GPU]) * soc->gpu.idle_w;
	/* The four fastest cores. */
	joules += (double)run.busy_ns[SOC_CPU] * (soc->cpu.big_w + 3 * soc->cpu.middle_w) +
		  (all_ns - (double)run.busy_ns[SOC_CPU]) * soc->cpu.idle_w;
	assert_true(all_ns >= 30e6 && joules > 0);
	assert_true(fabs(run.energy_j - joules / 1e9) < 1e-6 * run.energy_j);
	sched_run_free(&run);
}

static void test_a_graph_is_launched_once(void **state)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_run run;

	for (uint32_t i = 0; i < 4; i++) {
		struct sched_task t = task_on(SOC_NPU, 1000, 0);

		t.graph = 1 + i / 3;
		assert_int_equal(sched_after(plan, sched_add(plan, &t), i ? i - 1 : SCHED_NONE), 0);
	}
	run = simulate(plan, SOC_SYNC_DRIVER);
	assert_ns(run.makespan_ns, 2 * soc->npu.launch_us * 1e3 + 4000);
	sched_run_free(&run);
}

static void test_a_result_for_another_lane_is_known_later(void **state)
{
	static const enum soc_lane lanes[] = { SOC_CPU, SOC_GPU, SOC_CPU };
	struct sched_tasks *plan;
	struct sched_run run;

	for (int sync = 0; sync < 2; sync++) {
		double there = soc_handover_ns(soc, SOC_CPU, SOC_GPU, sync),
		       back = soc_handover_ns(soc, SOC_GPU, SOC_CPU, sync);

		plan = sched_tasks_create(NULL);
		for (uint32_t i = 0; i < 3; i++) {
			struct sched_task t = task_on(lanes[i], 1000, 0);

			assert_int_equal(
				sched_after(plan, sched_add(plan, &t), i ? i - 1 : SCHED_NONE), 0);
		}
		run = simulate(plan, sync);
		assert_ns(run.spans[1].start_ns - run.spans[0].end_ns, there);
		assert_ns(run.spans[2].start_ns - run.spans[1].end_ns, back);
		assert_int_equal(run.handovers, 2);
		if (sync == SOC_SYNC_DRIVER)
			assert_true(there + back >= 2 * soc->gpu.copy_us * 1e3);
		sched_run_free(&run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lanes_together_share_the_memory),
		cmocka_unit_test(test_an_empty_gpu_queue_costs_more_than_a_full_one),
		cmocka_unit_test(test_a_submission_waits_for_the_other_lanes_result),
		cmocka_unit_test(test_energy_is_power_over_time),
		cmocka_unit_test(test_a_graph_is_launched_once),
		cmocka_unit_test(test_a_result_for_another_lane_is_known_later),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
