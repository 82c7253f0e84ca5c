// SPDX-License-Identifier: MIT
/* Lanes that share the memory: how fast the work of each progresses (soc.h). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "soc_cost.h"

static struct soc *soc;

/* Work whose bytes would take the lane's own bandwidth @times as long as its @ns. */
static struct soc_cost cost_of(enum soc_lane lane, double ns, double times)
{
	return (struct soc_cost){ ns, times * ns * soc_lane_gbps(soc, lane) };
}

static void assert_near(double a, double b)
{
	assert_true(fabs(a - b) <= 1e-12 * fabs(b));
}

static void test_alone_a_lane_takes_the_longer_of_its_work_and_its_bytes(void **state)
{
	static const double times[] = { 0, 0.25, 1, 3 };

	for (int lane = 0; lane < SOC_NR_LANES; lane++)
		for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
			const struct soc_cost *work[SOC_NR_LANES] = { NULL };
			struct soc_cost cost = cost_of(lane, 1000, times[i]);
			double rate[SOC_NR_LANES];

			work[lane] = &cost;
			soc_rates(soc, work, rate);
			assert_near(1 / rate[lane], soc_alone_ns(soc, lane, cost));
			for (int other = 0; other < SOC_NR_LANES; other++)
				assert_true(other == lane || rate[other] == 0);
		}
}

static void test_lanes_that_want_more_than_there_is_are_cut_in_proportion(void **state)
{
	struct soc_cost npu = cost_of(SOC_NPU, 1000, 1), gpu = cost_of(SOC_GPU, 500, 0.5),
			cpu = cost_of(SOC_CPU, 700, 0);
	const struct soc_cost *const work[SOC_NR_LANES] = {
		[SOC_NPU] = &npu, [SOC_GPU] = &gpu, [SOC_CPU] = &cpu
	};
	double want = npu.dram_bytes / npu.ns + gpu.dram_bytes / gpu.ns, rate[SOC_NR_LANES];

	assert_true(want > soc->memory.dram_shared_gbps);
	soc_rates(soc, work, rate);
	assert_near(rate[SOC_NPU] * npu.ns, soc->memory.dram_shared_gbps / want);
	assert_near(rate[SOC_GPU] * gpu.ns, soc->memory.dram_shared_gbps / want);
	assert_near(rate[SOC_CPU] * cpu.ns, 1);
}

static void test_lanes_that_want_less_than_there_is_do_not_slow_one_another(void **state)
{
	struct soc_cost npu = cost_of(SOC_NPU, 1000, 0.3), gpu = cost_of(SOC_GPU, 500, 0.3);
	const struct soc_cost *const work[SOC_NR_LANES] = { [SOC_NPU] = &npu, [SOC_GPU] = &gpu };
	double rate[SOC_NR_LANES];

	soc_rates(soc, work, rate);
	assert_near(rate[SOC_NPU] * npu.ns, 1);
	assert_near(rate[SOC_GPU] * gpu.ns, 1);
}

static void test_work_of_bytes_only_takes_the_lanes_bandwidth_and_of_nothing_no_time(void **state)
{
	struct soc_cost copy = { 0, 1e6 }, nothing = { 0, 0 };
	const struct soc_cost *const work[SOC_NR_LANES] = {
		[SOC_NPU] = &copy, [SOC_GPU] = &nothing
	};
	double rate[SOC_NR_LANES];

	soc_rates(soc, work, rate);
	assert_near(1 / rate[SOC_NPU], copy.dram_bytes / soc_lane_gbps(soc, SOC_NPU));
	assert_true(isinf(rate[SOC_GPU]));
}

/* By one thread: the slower of its arithmetic and its bandwidth. */
static void test_unpacking_takes_what_one_core_takes(void **state)
{
	struct soc other = *soc;
	struct soc_cost cost;

	other.cpu.unpack_planes_gelems = 2;
	other.cpu.core_gbps = 100;
	cost = soc_unpack_cost(&other, 1000, 600);
	assert_near(cost.ns, 500);
	assert_near(cost.dram_bytes, 1600);
	other.cpu.core_gbps = 1;
	assert_near(soc_unpack_cost(&other, 1000, 600).ns, 1600);
	/* A slower core than the four's mean one takes longer. */
	other.cpu.core_gbps = 100;
	assert_int_equal(soc_use_cores(&other, SOC_CORES_MIDDLE), 0);
	assert_near(soc_unpack_cost(&other, 1000, 600).ns, 500 / (4 * soc_cpu_share(&other)));
	assert_near(soc_read_graph_cost(soc, 1000).ns, 1000 / soc->npu.graph_gbps);
}

/* Learning of another lane's end takes time by either way, and the drivers' takes more. */
static void test_no_handover_is_free(void **state)
{
	for (int from = 0; from < SOC_NR_LANES; from++)
		for (int to = 0; to < SOC_NR_LANES; to++) {
			double fast = soc_handover_ns(soc, from, to, SOC_SYNC_FAST);
			double driver = soc_handover_ns(soc, from, to, SOC_SYNC_DRIVER);

			/* Beside reads of milliseconds, storage's interrupts are. */
			if (from == to || from == SOC_STORAGE || to == SOC_STORAGE) {
				assert_true(fast == 0 && driver == 0);
				continue;
			}
			assert_near(fast, soc->cpu.poll_us * 1e3);
			assert_true(fast > 0);
			/* HeteroLLM 3.1 and 4.2: a copy each way, and a sleep behind the GPU. */
			assert_near(driver,
				    ((from == SOC_GPU) * (soc->gpu.copy_us + soc->cpu.sleep_us) +
				     (to == SOC_GPU) * soc->gpu.copy_us) *
					    1e3);
		}
	assert_true(soc_npu_start_ns(soc, SOC_SYNC_FAST, false) > 0);
	assert_near(soc_npu_start_ns(soc, SOC_SYNC_DRIVER, false), soc->npu.launch_us * 1e3);
	/* What the GPU's drivers take is in the handover. */
	assert_near(soc_npu_start_ns(soc, SOC_SYNC_DRIVER, true), soc->npu.launch_awake_us * 1e3);
}

/* Every score is looked at; what is kept costs only its bytes. */
static void test_top_k_is_linear_in_the_scores(void **state)
{
	struct soc_op op = {
		.kind = SOC_TOPK, .m = 128, .n = 2, .ctx = 1000.5, .act_bits = 16, .density = 0.2
	};
	double scores = 128 * 2 * 1000.5;
	struct soc one = *soc;

	assert_int_equal(soc_use_cores(&one, SOC_CORES_MIDDLE), 0);
	assert_near(soc_op_cost(soc, SOC_CPU, &op).ns,
		    scores * FLOAT_OPS_TOPK / soc->cpu.vector_gelems);
	assert_near(soc_op_cost(&one, SOC_CPU, &op).ns,
		    scores * FLOAT_OPS_TOPK / soc->cpu.vector_gelems / soc_cpu_share(&one));
	assert_near(soc_op_cost(soc, SOC_GPU, &op).ns,
		    scores * FLOAT_OPS_TOPK / soc->gpu.vector_gelems);
	assert_near(soc_op_cost(soc, SOC_NPU, &op).ns,
		    scores * FLOAT_OPS_TOPK / soc->npu.vector_gelems);
	for (int lane = 0; lane < SOC_STORAGE; lane++)
		assert_near(soc_op_cost(soc, lane, &op).dram_bytes, scores * (2 + 4 * 0.2));
}

static int open_profile(void **state)
{
	char why[256];

	soc = soc_load("sd8gen3", why, sizeof(why));
	return soc ? 0 : -1;
}

static int close_profile(void **state)
{
	soc_free(soc);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone_a_lane_takes_the_longer_of_its_work_and_its_bytes),
		cmocka_unit_test(test_lanes_that_want_more_than_there_is_are_cut_in_proportion),
		cmocka_unit_test(test_lanes_that_want_less_than_there_is_do_not_slow_one_another),
		cmocka_unit_test(
			test_work_of_bytes_only_takes_the_lanes_bandwidth_and_of_nothing_no_time),
		cmocka_unit_test(test_unpacking_takes_what_one_core_takes),
		cmocka_unit_test(test_top_k_is_linear_in_the_scores),
		cmocka_unit_test(test_no_handover_is_free),
	};

	return cmocka_run_group_tests(tests, open_profile, close_profile);
}
