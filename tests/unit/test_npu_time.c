// SPDX-License-Identifier: MIT
/* The NPU's timing model: the behaviours of HeteroLLM 3.2, and general properties of a model. */
#include <math.h>
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

/* Of weights as wide as the activations. */
static double ns(uint64_t m, uint64_t k, uint64_t n, enum npu_time_type type,
		 enum npu_time_order order)
{
	struct npu_time_matmul op = { .m = m,
				      .k = k,
				      .n = n,
				      .type = type,
				      .order = order,
				      .weight_bits = type == NPU_TIME_I8 ? 8 : 16 };

	return npu_time_matmul(&soc->npu, &op).ns;
}

static double tflops(uint64_t m, uint64_t k, uint64_t n, enum npu_time_order order)
{
	return 2.0 * (double)m * (double)k * (double)n / ns(m, k, n, NPU_TIME_F16, order) / 1e3;
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

/* HeteroLLM 3.2: a stationary operand that is far too large, whatever the rows of the prompt. */
static void test_large_stationary_weights_bring_it_to_the_gpus_level(void **state)
{
	for (uint64_t rows = 64; rows <= 1024; rows *= 2) {
		double natural = tflops(rows, 4096, 14336, NPU_TIME_WEIGHTS_STATIONARY);

		assert_true(natural > 0.7 * soc->gpu.tflops && natural < 1.3 * soc->gpu.tflops);
	}
}

/* Permuted, gate and up have the published 10 TFLOPS, within a tenth. */
static void test_permuted_operands_stay_on_the_chip(void **state)
{
	for (uint64_t rows = 64; rows <= 1024; rows *= 2) {
		double permuted = tflops(rows, 4096, 14336, NPU_TIME_WEIGHTS_STREAMED);

		assert_true(permuted > 9 && permuted < 11);
	}
	/* Of a square one both orders are the same. */
	assert_true(ns(4096, 4096, 4096, NPU_TIME_F16, NPU_TIME_WEIGHTS_STATIONARY) ==
		    ns(4096, 4096, 4096, NPU_TIME_F16, NPU_TIME_WEIGHTS_STREAMED));
}

/* HeteroLLM 6: FFN-down, whose streamed operand has fewer rows than columns, does not. */
static void test_long_columns_do_not_stay_in_either_order(void **state)
{
	static const uint64_t down[][2] = {
		{ 14336, 4096 }, { 11008, 4096 }, { 8192, 3072 }, { 8192, 2048 }
	};

	for (size_t i = 0; i < sizeof(down) / sizeof(down[0]); i++)
		for (uint64_t rows = 64; rows <= 1024; rows *= 2)
			for (int order = 0; order < 2; order++)
				assert_true(tflops(rows, down[i][0], down[i][1], order) <
					    1.3 * soc->gpu.tflops);
}

static void test_more_rows_of_equal_input_size_are_faster(void **state)
{
	/* [rows][k] with rows * k fixed, times [k][256]: as many multiply-adds. */
	double first = ns(1 << 14, 1 << 10, 256, NPU_TIME_F16, NPU_TIME_WEIGHTS_STATIONARY);
	double last = first;

	for (uint64_t k = 2048; k <= 16384; k *= 2) {
		double t = ns((1u << 24) / k, k, 256, NPU_TIME_F16, NPU_TIME_WEIGHTS_STATIONARY);

		assert_true(t > last * (1 - 1e-9));
		last = t;
	}
	assert_true(last > 2 * first);
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
			.weight_bits = (double)any(1, 6),
			.group = any(0, 1) ? 32 : 0,
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

static void test_what_does_not_stay_is_read_again_for_each_block_of_rows(void **state)
{
	struct npu_time_matmul op = {
		.m = 64, .k = 8192, .n = 8192, .type = NPU_TIME_F16, .weight_bits = 16
	};
	double weights = 8192.0 * 8192 * 2;

	assert_true(npu_time_matmul(&soc->npu, &op).dram_bytes == weights + 2.0 * 64 * 8192 * 2);
	op.m = 8192;
	assert_true(npu_time_matmul(&soc->npu, &op).dram_bytes ==
		    8192 / soc->npu.hold_rows * weights + 2 * weights);
	/* Weights that stay are read once. */
	op.k = op.n = 1024;
	assert_true(npu_time_matmul(&soc->npu, &op).dram_bytes ==
		    1024.0 * 1024 * 2 + 2.0 * 8192 * 1024 * 2);
}

/* One rule for all formats: those narrower than the arrays' values are widened. */
static void test_narrow_weights_are_widened_as_often_as_they_are_loaded(void **state)
{
	for (int i = 0; i < 300; i++) {
		bool f16 = any(0, 1);
		struct npu_time_matmul wide = { .m = any(5, 1024),
						.k = any(1, 4000),
						.n = any(1, 16000),
						.type = f16 ? NPU_TIME_F16 : NPU_TIME_I8,
						.order = any(0, 1),
						.weight_bits = f16 ? 16 : 8 };
		struct npu_time_matmul narrow = wide;
		double once = (double)wide.k * (double)wide.n / soc->npu.widen_gelems, more, times;

		narrow.weight_bits = (double)any(1, f16 ? 15 : 7);
		more = npu_time_matmul(&soc->npu, &narrow).ns -
		       npu_time_matmul(&soc->npu, &wide).ns;
		times = more / once;
		assert_true(times > 0.999 && fabs(times - round(times)) < 1e-3);
		assert_true(wide.order == NPU_TIME_WEIGHTS_STATIONARY || times < 1.001);
	}
}

static void test_groups_cost_a_sum_for_each_result(void **state)
{
	struct npu_time_matmul op = {
		.m = 256, .k = 2048, .n = 512, .type = NPU_TIME_I8, .weight_bits = 8
	};
	double whole = npu_time_matmul(&soc->npu, &op).ns;

	op.group = 64;
	assert_true(fabs(npu_time_matmul(&soc->npu, &op).ns - whole -
			 256.0 * 512 * 32 / soc->npu.group_gsums) < 1);
	/* Floats are scaled where they are widened. */
	op.type = NPU_TIME_F16;
	op.weight_bits = 16;
	whole = npu_time_matmul(&soc->npu, &op).ns;
	op.group = 0;
	assert_true(npu_time_matmul(&soc->npu, &op).ns == whole);
}

/* Attention is its two matmuls and the softmax between them, which the vector engine does. */
/* One line after another, as the model defines what is fetched on its own. */
static uint64_t lines_within_granules(uint64_t m, uint64_t width, uint64_t granule)
{
	uint64_t n = 0;

	for (uint64_t at = width; at < m; at += width)
		n += at % granule != 0;
	return n;
}

static void test_lines_that_begin_within_a_granule_are_fetched_on_their_own(void **state)
{
	static const double granules[] = { 32, 24, 1, 7 };
	struct soc_npu npu = soc->npu;
	unsigned int dear = 0;

	for (int i = 0; i < 1000; i++) {
		uint64_t width = any(1, i % 2 ? 8 : 200);
		struct npu_time_matmul op = { .m = width * any(1, 64),
					      .k = any(1, 5000),
					      .n = any(1, 5000),
					      .type = i % 3 ? NPU_TIME_I8 : NPU_TIME_F16,
					      .weight_bits = 8 },
				       shaped = op;
		double tiles =
			ceil((double)op.k / npu.array_rows) * ceil((double)op.n / npu.array_cols);
		double extra, want;

		npu.row_granule = granules[i % 4];
		shaped.width = width;
		want = tiles * npu.line_ns *
		       (double)lines_within_granules(op.m, width, (uint64_t)npu.row_granule);
		if (op.m <= (uint64_t)npu.gemv_rows)
			want = 0;
		extra = npu_time_matmul(&npu, &shaped).ns - npu_time_matmul(&npu, &op).ns;
		assert_true(fabs(extra - want) <= 1e-9 * npu_time_matmul(&npu, &shaped).ns);
		assert_true(npu_time_matmul(&npu, &shaped).dram_bytes ==
			    npu_time_matmul(&npu, &op).dram_bytes);
		dear += want > 0;
		shaped.order = op.order = NPU_TIME_WEIGHTS_STREAMED;
		assert_true(npu_time_matmul(&npu, &shaped).ns == npu_time_matmul(&npu, &op).ns);
	}
	assert_true(dear > 300 && dear < 900);
}

/* llm.npu 4: the same layer as 1024 x 1 and as 32 x 32 pixels. */
static void test_a_square_of_rows_is_as_fast_as_a_line_and_a_column_is_not(void **state)
{
	struct npu_time_matmul op = {
		.m = 1024, .k = 2048, .n = 2048, .type = NPU_TIME_I8, .weight_bits = 8
	};
	double line = npu_time_matmul(&soc->npu, &op).ns;

	op.width = 1024;
	assert_true(npu_time_matmul(&soc->npu, &op).ns == line);
	op.width = 32;
	assert_true(npu_time_matmul(&soc->npu, &op).ns == line);
	op.width = 1;
	assert_true(npu_time_matmul(&soc->npu, &op).ns > 1.6 * line);
}

static void test_softmax_takes_the_vector_engines_time(void **state)
{
	for (int i = 0; i < 100; i++) {
		struct npu_time_attention a = { .rows = any(1, 300),
						.heads = any(1, 32),
						.head_dim = 64 * any(1, 2),
						.ctx = (double)any(1, 3000),
						.type = any(0, 1) };
		struct npu_time_matmul qk = { .m = a.rows,
					      .k = a.head_dim,
					      .n = (uint64_t)a.ctx,
					      .type = a.type,
					      .weight_bits = a.type == NPU_TIME_I8 ? 8 : 16,
					      .dynamic = true,
					      .heads = (unsigned int)a.heads };
		struct npu_time_matmul pv = qk;
		double softmax = (double)a.rows * (double)a.heads * a.ctx * FLOAT_OPS_SOFTMAX /
				 soc->npu.vector_gelems;

		pv.k = qk.n;
		pv.n = qk.k;
		assert_true(softmax > 0);
		assert_true(fabs(npu_time_attention(&soc->npu, &a).ns -
				 npu_time_matmul(&soc->npu, &qk).ns -
				 npu_time_matmul(&soc->npu, &pv).ns - softmax) <
			    1e-6 * softmax + 1);
	}
}

static void test_graphs_cost_by_their_size(void **state)
{
	assert_true(npu_time_build_ns(&soc->npu, 0) == soc->npu.build_ms * 1e6);
	assert_true(npu_time_build_ns(&soc->npu, 100) > npu_time_build_ns(&soc->npu, 99));
	assert_true(npu_time_optimize_ns(&soc->npu, 0) == 0);
	assert_true(npu_time_optimize_ns(&soc->npu, 2000) ==
		    2 * npu_time_optimize_ns(&soc->npu, 1000));
	/* The sequence counts as well as the weights. */
	assert_true(npu_time_elements(10, 30, 20) == 30 * 20 + 10 * (30 + 20));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stages_are_as_wide_as_the_array),
		cmocka_unit_test(test_large_stationary_weights_bring_it_to_the_gpus_level),
		cmocka_unit_test(test_permuted_operands_stay_on_the_chip),
		cmocka_unit_test(test_long_columns_do_not_stay_in_either_order),
		cmocka_unit_test(test_more_rows_of_equal_input_size_are_faster),
		cmocka_unit_test(test_more_work_never_takes_less),
		cmocka_unit_test(test_nothing_is_faster_than_the_peak_or_the_memory),
		cmocka_unit_test(test_what_does_not_stay_is_read_again_for_each_block_of_rows),
		cmocka_unit_test(test_narrow_weights_are_widened_as_often_as_they_are_loaded),
		cmocka_unit_test(test_groups_cost_a_sum_for_each_result),
		cmocka_unit_test(test_lines_that_begin_within_a_granule_are_fetched_on_their_own),
		cmocka_unit_test(test_a_square_of_rows_is_as_fast_as_a_line_and_a_column_is_not),
		cmocka_unit_test(test_softmax_takes_the_vector_engines_time),
		cmocka_unit_test(test_graphs_cost_by_their_size),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
