// SPDX-License-Identifier: MIT
/* The NPU's timing model: the behaviours of HeteroLLM 3.2, and general properties of a model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "npu_time.h"

static struct soc *soc;
static unsigned int seed;

static int setup(void **state)
{
	char why[512];

	soc = soc_load("sd8gen3", why, sizeof(why));
	if (!soc)
		puts(why);
	seed = getenv("TEST_SEED") ? (unsigned int)strtoul(getenv("TEST_SEED"), NULL, 0)
				   : (unsigned int)time(NULL);
	printf("TEST_SEED=%u\n", seed);
	srand(seed);
	return !soc;
}

static int teardown(void **state)
{
	soc_free(soc);
	return 0;
}

static uint64_t any(uint64_t min, uint64_t max)
{
	return min + (uint64_t)rand() % (max - min + 1);
}

static double ns(uint64_t m, uint64_t k, uint64_t n, enum npu_time_type type,
		 enum npu_time_order order)
{
	struct npu_time_matmul op = {
		.m = m, .k = k, .n = n, .type = type, .order = order, .weight_bits = 4
	};

	return npu_time_matmul(&soc->npu, &op).ns;
}

static void test_stages_are_as_wide_as_the_array(void **state)
{
	for (int i = 0; i < 200; i++) {
		uint64_t m = any(5, 1000), k = any(1, 5000), n = any(1, 5000);
		uint64_t up_m = (m + 31) / 32 * 32, up_k = (k + 31) / 32 * 32,
			 up_n = (n + 31) / 32 * 32;
		enum npu_time_type type = any(0, 1);
		double t = ns(m, k, n, type, NPU_TIME_WEIGHTS_STATIONARY);

		assert_true(t == ns(up_m, up_k, up_n, type, NPU_TIME_WEIGHTS_STATIONARY));
		assert_true(t < ns(up_m + 1, k, n, type, NPU_TIME_WEIGHTS_STATIONARY));
		assert_true(t < ns(m, up_k + 1, n, type, NPU_TIME_WEIGHTS_STATIONARY));
		assert_true(t < ns(m, k, up_n + 1, type, NPU_TIME_WEIGHTS_STATIONARY));
	}
}

static void test_few_stationary_weights_with_many_rows_are_the_faster_order(void **state)
{
	double last = 0;

	/* Fewer rows take longer per row. */
	for (uint64_t rows = 512; rows >= 32; rows /= 2) {
		double ratio = ns(rows, 4096, 14336, NPU_TIME_F16, NPU_TIME_WEIGHTS_STATIONARY) /
			       ns(rows, 4096, 14336, NPU_TIME_F16, NPU_TIME_WEIGHTS_STREAMED);

		assert_true(ratio > last);
		last = ratio;
	}
	assert_true(last > 4);
	/* For a square matmul both orders are the same. */
	assert_true(ns(4096, 4096, 4096, NPU_TIME_F16, NPU_TIME_WEIGHTS_STATIONARY) ==
		    ns(4096, 4096, 4096, NPU_TIME_F16, NPU_TIME_WEIGHTS_STREAMED));
}

static void test_more_rows_of_equal_input_size_are_faster(void **state)
{
	/* [rows][k] with rows * k fixed, times [k][256]: the same multiply-accumulates. */
	double last = 0;

	for (uint64_t k = 1024; k <= 16384; k *= 2) {
		double t = ns((1u << 24) / k, k, 256, NPU_TIME_F16, NPU_TIME_WEIGHTS_STATIONARY);

		assert_true(t > last);
		last = t;
	}
}

static void test_more_work_never_takes_less(void **state)
{
	for (int i = 0; i < 500; i++) {
		struct npu_time_matmul a = {
			.m = any(1, 600),
			.k = any(1, 9000),
			.n = any(1, 9000),
			.type = any(0, 2),
			.order = any(0, 1),
			.weight_bits = (double)any(1, 16),
			.widened = any(0, 1),
			.dynamic = any(0, 1),
			.heads = (unsigned int)any(1, 32),
		};
		struct npu_time_matmul b = a;
		struct npu_cost x, y;

		/* Decoding uses another engine, with a step up or down from the arrays' minimum. */
		if (a.m <= (uint64_t)soc->npu.gemv_rows)
			a.m = b.m = (uint64_t)soc->npu.gemv_rows + 1;
		switch (any(0, 4)) {
		case 0:
			b.m += any(1, 100);
			break;
		case 1:
			b.k += any(1, 100);
			break;
		case 2:
			b.n += any(1, 100);
			break;
		case 3:
			b.heads++;
			break;
		default:
			b.weight_bits++;
			break;
		}
		x = npu_time_matmul(&soc->npu, &a);
		y = npu_time_matmul(&soc->npu, &b);
		assert_true(x.ns > 0 && x.dram_bytes > 0);
		assert_true(y.ns >= x.ns);
		assert_true(y.dram_bytes >= x.dram_bytes);
	}
}

static void test_nothing_is_faster_than_the_peak_or_the_memory(void **state)
{
	for (int i = 0; i < 500; i++) {
		struct npu_time_matmul op = { .m = any(1, 4096),
					      .k = any(1, 16384),
					      .n = any(1, 16384),
					      .type = any(0, 1),
					      .order = any(0, 1),
					      .weight_bits = 4 };
		struct npu_cost cost = npu_time_matmul(&soc->npu, &op);
		double macs = (double)op.m * (double)op.k * (double)op.n;
		double alone = npu_time_alone_ns(&soc->npu, cost);

		if (op.m > (uint64_t)soc->npu.gemv_rows)
			assert_true(2 * macs / cost.ns / 1e3 <=
				    npu_time_peak_tops(&soc->npu, op.type) * (1 + 1e-9));
		assert_true(cost.dram_bytes / alone <= soc->npu.dram_gbps * (1 + 1e-9));
		/* Each weight is read at least once. */
		assert_true(cost.dram_bytes >= (double)op.k * (double)op.n / 2);
	}
}

static void test_operands_that_do_not_fit_the_chip_are_read_again(void **state)
{
	struct npu_time_matmul op = {
		.m = 8192, .k = 8192, .n = 8192, .type = NPU_TIME_F16, .weight_bits = 16
	};
	double once = 3.0 * 8192 * 8192 * 2;

	assert_true(npu_time_matmul(&soc->npu, &op).dram_bytes > 2 * once);
	op.m = 64;
	assert_true(npu_time_matmul(&soc->npu, &op).dram_bytes ==
		    8192.0 * 8192 * 2 + 2.0 * 64 * 8192 * 2);
}

static void test_graphs_cost_by_their_size(void **state)
{
	assert_true(npu_time_build_ns(&soc->npu, 0) == soc->npu.build_ms * 1e6);
	assert_true(npu_time_build_ns(&soc->npu, 100) > npu_time_build_ns(&soc->npu, 99));
	assert_true(npu_time_optimize_ns(&soc->npu, 0) == 0);
	assert_true(npu_time_optimize_ns(&soc->npu, 2000) ==
		    2 * npu_time_optimize_ns(&soc->npu, 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stages_are_as_wide_as_the_array),
		cmocka_unit_test(test_few_stationary_weights_with_many_rows_are_the_faster_order),
		cmocka_unit_test(test_more_rows_of_equal_input_size_are_faster),
		cmocka_unit_test(test_more_work_never_takes_less),
		cmocka_unit_test(test_nothing_is_faster_than_the_peak_or_the_memory),
		cmocka_unit_test(test_operands_that_do_not_fit_the_chip_are_read_again),
		cmocka_unit_test(test_graphs_cost_by_their_size),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
