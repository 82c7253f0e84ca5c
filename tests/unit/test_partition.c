// SPDX-License-Identifier: MIT
/*
 * The partition solver: what its cuts are made of, that none is slower than no cut, and how
 * near it comes to the best.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cuts.h"
#include "partition.h"
#include "npu_random.h"
#include "plan.h"

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

struct product {
	uint32_t m;
	uint64_t k, n;
};

static struct product random_product(void)
{
	return (struct product){ (uint32_t)(random_in(0, 3) ? random_in(1, 1100)
							    : random_in(1, 5000)),
				 64 * random_in(1, 256), 64 * random_in(1, 512) };
}

static struct partition_options random_options(void)
{
	return (struct partition_options){
		.soc = soc,
		.weights = random_in(0, 1) ? LLM_WEIGHTS_W4A16 : LLM_WEIGHTS_W8A8,
		.operands = random_in(0, 3) ? LLM_OPERANDS_PERMUTED : LLM_OPERANDS_NATURAL,
		.sync = random_in(0, 3) ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
		.partition = (enum llm_partition)random_in(LLM_PARTITION_NONE, LLM_PARTITION_AUTO),
		.graphs = (enum llm_graphs)random_in(LLM_GRAPHS_BUCKETED, LLM_GRAPHS_PIPE),
		.gpu_busy = random_in(0, 3) ? 0 : (double)random_in(0, 9) / 10,
	};
}

static struct partition_options best_options(void)
{
	return (struct partition_options){
		.soc = soc,
		.weights = LLM_WEIGHTS_W4A16,
		.operands = LLM_OPERANDS_PERMUTED,
		.sync = SOC_SYNC_FAST,
		.partition = LLM_PARTITION_AUTO,
		.graphs = LLM_GRAPHS_PIPE,
	};
}

#define check(cut, what)                                                                           \
	do {                                                                                       \
		if (!(what))                                                                       \
			fail_msg("%s: %s of %u x %llu x %llu: %u tokens and %llu columns for the " \
				 "GPU, %u graphs",                                                 \
				 #what, cut_kind_name((cut)->kind), (cut)->m,                      \
				 (unsigned long long)(cut)->k, (unsigned long long)(cut)->n,       \
				 (cut)->gpu_tokens, (unsigned long long)(cut)->gpu_cols,           \
				 partition_nr_graphs(cut));                                        \
	} while (0)

/* Slices are rectangles that follow one another: their areas add up, and no two of them meet. */
static void check_slices(const struct cut *cut)
{
	uint32_t n = partition_nr_slices(cut);
	uint64_t area = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct partition_slice a, b;

		partition_slice(cut, i, &a);
		check(cut, a.rows && a.cols && a.rows <= a.graph_rows);
		check(cut, a.row + a.rows <= cut->m && a.col + a.cols <= cut->n);
		check(cut, a.lane == (i < partition_nr_graphs(cut) ? SOC_NPU : SOC_GPU));
		check(cut, a.rows == a.graph_rows || i + 1 == partition_nr_graphs(cut));
		area += a.rows * a.cols;
		for (uint32_t j = 0; j < i; j++) {
			partition_slice(cut, j, &b);
			check(cut, a.row >= b.row + b.rows || b.row >= a.row + a.rows ||
					   a.col >= b.col + b.cols || b.col >= a.col + a.cols);
		}
	}
	check(cut, area == cut->m * cut->n);
}

static void check_alignment(const struct partition_options *o, const struct cut *cut)
{
	bool exact = cut->m <= PARTITION_EXACT_ROWS ||
		     (o->graphs != LLM_GRAPHS_PADDED && o->graphs != LLM_GRAPHS_PIPE);

	check(cut, cut->kind == PARTITION_GPU || cut->gpu_cols % PARTITION_COLS == 0);
	if (cut->kind == PARTITION_GPU)
		return;
	check(cut, exact ? cut->exact == cut->m && partition_nr_graphs(cut) == 1 : !cut->exact);
	for (uint32_t i = 0; i < partition_nr_graphs(cut) && !exact; i++) {
		uint32_t tokens = partition_graph_rows(cut, i);

		check(cut, tokens >= 32 && tokens <= 1024 && !(tokens & (tokens - 1)));
		check(cut, !i || tokens <= partition_graph_rows(cut, i - 1));
	}
	/* What the GPU has of the tokens leaves whole graphs. */
	check(cut, !cut->gpu_tokens || (cut->m - cut->gpu_tokens) % 32 == 0);
	check(cut, !cut->gpu_tokens || !partition_padding(cut));
}

static bool allowed(enum llm_partition choice, const struct cut *cut)
{
	switch (cut->kind) {
	case PARTITION_GPU:
	case PARTITION_NPU:
		return true;
	case PARTITION_ROW:
		return choice == LLM_PARTITION_ROW || choice == LLM_PARTITION_HYBRID ||
		       choice == LLM_PARTITION_AUTO;
	case PARTITION_SEQUENCE:
		return choice == LLM_PARTITION_SEQUENCE || choice == LLM_PARTITION_MULTI_SEQUENCE ||
		       choice == LLM_PARTITION_AUTO;
	case PARTITION_MULTI_SEQUENCE:
		return choice == LLM_PARTITION_MULTI_SEQUENCE || choice == LLM_PARTITION_AUTO;
	default:
		return choice == LLM_PARTITION_HYBRID || choice == LLM_PARTITION_AUTO;
	}
}

static void check_name(const struct cut *cut)
{
	uint32_t graphs = partition_nr_graphs(cut);
	bool padded = partition_padding(cut) >= 32;

	switch (cut->kind) {
	case PARTITION_GPU:
		check(cut, !graphs && cut->gpu_cols == cut->n);
		break;
	case PARTITION_NPU:
		check(cut, !cut->gpu_cols && !cut->gpu_tokens);
		break;
	case PARTITION_ROW:
		check(cut, cut->gpu_cols && !cut->gpu_tokens && !padded);
		break;
	case PARTITION_SEQUENCE:
		check(cut, !cut->gpu_cols && cut->gpu_tokens && graphs == 1);
		break;
	case PARTITION_MULTI_SEQUENCE:
		check(cut, !cut->gpu_cols && cut->gpu_tokens && graphs > 1);
		break;
	default:
		check(cut, cut->gpu_cols && (cut->gpu_tokens || padded));
		break;
	}
}

static void test_parts_add_up_and_are_aligned(void **state)
{
	uint32_t seen[PARTITION_NR_CUTS] = { 0 };

	random_begin(__func__);
	for (int i = 0; i < 3000; i++) {
		struct product p = random_product();
		struct partition_options o = random_options();
		struct cut cut;

		partition_search(&o, p.m, p.k, p.n, &cut);
		assert_true(cut.m == p.m && cut.k == p.k && cut.n == p.n);
		check_slices(&cut);
		check_alignment(&o, &cut);
		check_name(&cut);
		check(&cut, allowed(o.partition, &cut));
		seen[cut.kind]++;
	}
	for (int i = 0; i < PARTITION_NR_CUTS; i++)
		print_message("%s: %u\n", cut_kind_name(i), seen[i]);
	for (int i = 0; i < PARTITION_NR_CUTS; i++)
		assert_true(seen[i] > 0);
}

/* By the solver's own measure; and more freedom is never worse. */
static void test_no_cut_is_slower_than_none(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < 1000; i++) {
		struct product p = random_product();
		struct partition_options o = random_options();
		struct cut cut, gpu = { .m = p.m, .k = p.k, .n = p.n, .gpu_cols = p.n }, none, free;
		double longest;

		partition_search(&o, p.m, p.k, p.n, &cut);
		partition_predict(&o, &gpu);
		longest = cut.gpu_ns > cut.npu_ns ? cut.gpu_ns : cut.npu_ns;
		check(&cut, cut.total_ns > 0 && cut.sync_ns >= -1e-6 && cut.copy_ns >= -1e-6);
		check(&cut, fabs(cut.total_ns - longest - cut.sync_ns - cut.copy_ns) <
				    1e-9 * cut.total_ns);
		check(&cut, cut.total_ns <= gpu.total_ns);
		check(&cut, (cut.gpu_ns > 0) == (cut.kind != PARTITION_NPU));
		check(&cut, (cut.npu_ns > 0) == (cut.kind != PARTITION_GPU));
		o.partition = LLM_PARTITION_NONE;
		partition_search(&o, p.m, p.k, p.n, &none);
		check(&none, none.kind == PARTITION_GPU || none.kind == PARTITION_NPU);
		check(&cut, cut.total_ns <= none.total_ns);
		o.partition = LLM_PARTITION_AUTO;
		partition_search(&o, p.m, p.k, p.n, &free);
		check(&cut, free.total_ns <= cut.total_ns * (1 + 1e-9));
	}
}

static double whole_search_ratio(const struct partition_options *o, struct product p)
{
	struct cut some, all;

	partition_search(o, p.m, p.k, p.n, &some);
	partition_search_all(o, p.m, p.k, p.n, &all);
	check_slices(&all);
	check_alignment(o, &all);
	check_name(&all);
	check(&all, allowed(o->partition, &all));
	check(&all, all.total_ns <= some.total_ns * (1 + 1e-9));
	return some.total_ns / all.total_ns;
}

static void test_the_search_comes_near_the_best_of_all(void **state)
{
	static const char *const shapes[] = { "llama3-8b", "internlm2-1.8b", "qwen2.5-0.5b",
					      "gemma-2b" };
	static const uint32_t rows[] = { 1, 4, 20, 64, 135, 300 };
	struct partition_options o = best_options();
	double worst = 1;

	random_begin(__func__);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct shape shape;

		assert_int_equal(shape_load(shapes[i], &shape), 0);
		for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
			for (int op = 0; op < LLM_NR_OPS; op++) {
				struct product p = { .m = rows[r] };

				if (!llm_op_matmul(&shape, op, &p.k, &p.n) ||
				    (op == LLM_OP_HEAD && p.m > 8))
					continue;
				worst = fmax(worst, whole_search_ratio(&o, p));
			}
	}
	for (int i = 0; i < 40; i++) {
		struct product p = random_product();

		p.m = p.m % 400 + 1;
		o = random_options();
		worst = fmax(worst, whole_search_ratio(&o, p));
	}
	print_message("worst of the search over the best of all: %.4f\n", worst);
	assert_true(worst <= 1.03);
}

/*
 * A cut with tokens to spare is one for fewer of them, but that a GPU which is done
 * early has an empty queue.
 */
static void test_more_tokens_never_take_less(void **state)
{
	struct partition_options o = best_options();
	double drained =
		soc_gpu_submit_ns(soc, true) + soc_handover_ns(soc, SOC_NPU, SOC_GPU, o.sync);

	random_begin(__func__);
	for (int i = 0; i < 20; i++) {
		struct product p = random_product();
		double before = 0;

		for (uint32_t m = (uint32_t)random_in(9, 40); m < 700;
		     m += (uint32_t)random_in(1, 60)) {
			struct cut cut;

			partition_search(&o, m, p.k, p.n, &cut);
			check(&cut, cut.total_ns >= (before - drained) / 1.03);
			before = cut.total_ns;
		}
	}
}

static void test_predictions_are_what_the_simulation_takes(void **state)
{
	double worst = 0;

	random_begin(__func__);
	for (int i = 0; i < 1000; i++) {
		struct product p = random_product();
		struct partition_options o = random_options();
		struct cut cut;
		double ns, error;

		o.gpu_busy = 0;
		partition_search(&o, p.m, p.k, p.n, &cut);
		assert_int_equal(partition_simulate(&o, &cut, &ns), 0);
		error = fabs(cut.total_ns / ns - 1);
		worst = fmax(worst, error);
		/*
		 * Launches of several equal graphs are counted before all of
		 * them, not one before each.
		 */
		check(&cut, error < 0.03);
		check(&cut, partition_nr_graphs(&cut) > 1 || error * ns < 10);
	}
	print_message("worst error of a prediction: %.4f\n", worst);
}

/* HeteroLLM 3.3 and 4.1.2: one lane does not get all of the memory's bandwidth. */
static void test_decoding_is_cut_for_bandwidth(void **state)
{
	struct partition_options o = best_options();
	struct cut cut, none;

	partition_search(&o, 1, 4096, 28672, &cut);
	o.partition = LLM_PARTITION_NONE;
	partition_search(&o, 1, 4096, 28672, &none);
	assert_int_equal(cut.kind, PARTITION_ROW);
	/*
	 * 4 bits a weight: not faster than all of the shared bandwidth, and faster than a lane's.
	 */
	assert_true(cut.total_ns > 4096 * 28672 / 2 / soc->memory.dram_shared_gbps);
	assert_true(cut.total_ns < none.total_ns / 1.2);
	/* Queue order is the synchronisation: the GPU ends last. */
	assert_true(cut.sync_ns == 0 && cut.gpu_ns > cut.npu_ns);
}

/* HeteroLLM 4.1.1: its examples. */
static void test_graphs_without_cuts(void **state)
{
	struct partition_options o = best_options();
	struct cut cut;

	o.partition = LLM_PARTITION_NONE;
	o.graphs = LLM_GRAPHS_PADDED;
	partition_search(&o, 300, 4096, 4096, &cut);
	assert_int_equal(cut.kind, PARTITION_NPU);
	assert_true(partition_nr_graphs(&cut) == 1 && partition_graph_rows(&cut, 0) == 512);
	assert_int_equal(partition_padding(&cut), 212);
	o.graphs = LLM_GRAPHS_PIPE;
	partition_search(&o, 300, 4096, 4096, &cut);
	assert_true(partition_nr_graphs(&cut) == 2 && partition_graph_rows(&cut, 0) == 256 &&
		    partition_graph_rows(&cut, 1) == 64);
	assert_int_equal(partition_padding(&cut), 20);
	partition_search(&o, 3100, 4096, 4096, &cut);
	assert_true(partition_nr_graphs(&cut) == 4 && partition_graph_rows(&cut, 2) == 1024 &&
		    partition_graph_rows(&cut, 3) == 32);
	o.graphs = LLM_GRAPHS_ONLINE;
	partition_search(&o, 300, 4096, 4096, &cut);
	assert_true(cut.exact == 300 && partition_nr_graphs(&cut) == 1 && !partition_padding(&cut));
}

/* The less of the GPU there is, the less it gets; all of it taken by others, nothing. */
static void test_a_busy_gpu_gets_less(void **state)
{
	struct partition_options o = best_options();
	uint64_t before = UINT64_MAX;

	for (int busy = 0; busy < 100; busy += 11) {
		struct cut cut;
		uint64_t area;

		o.gpu_busy = busy / 100.0;
		o.partition = LLM_PARTITION_ROW;
		partition_search(&o, 256, 4096, 28672, &cut);
		area = cut.kind == PARTITION_GPU ? cut.n : cut.gpu_cols;
		assert_true(area <= before);
		before = area;
	}
	assert_int_equal(before, 0);
}

/* ---- predictors ---- */

/* For which every matmul on @lane takes a millisecond. */
static struct predictor *millisecond(const char *lane)
{
	char path[] = "/tmp/test_partition.XXXXXX", why[512];
	int fd = mkstemp(path);
	struct predictor *p;

	assert_true(fd >= 0);
	dprintf(fd,
		"[predictor]\nversion = 1\nlane = %s\nsource = test\nsamples = 1\n"
		"leaves = constant\nmax_depth = 0\nmin_samples = 1\n"
		"tile_m = 1\ntile_k = 1\ntile_n = 1\nnodes = 1\n\n[node.0]\none = 1e6\n\n"
		"[end]\ncomplete = yes\n",
		lane);
	close(fd);
	if (predictor_load(path, &p, why, sizeof(why)))
		fail_msg("%s", why);
	unlink(path);
	return p;
}

static double gpu_ns(const struct partition_options *o, struct product p)
{
	struct cut cut = { .kind = PARTITION_GPU, .m = p.m, .k = p.k, .n = p.n, .gpu_cols = p.n };

	partition_predict(o, &cut);
	return cut.gpu_ns;
}

/* Where it is a fixed rate, and not where the GPU is far from its rate. */
static void test_the_gpu_is_predicted_within_a_tenth(void **state)
{
	struct predictor *npu = millisecond("npu");
	unsigned int fixed = 0;

	for (int i = 0; i < 3000; i++) {
		struct partition_options o = random_options();
		struct product p = random_product();
		double model = gpu_ns(&o, p), predicted;

		o.predictor = npu;
		predicted = gpu_ns(&o, p);
		if (!(predicted <= model * 1.000001 && predicted >= model * 0.899999))
			fail_msg("%u x %llu x %llu: %g ns, not %g", p.m, (unsigned long long)p.k,
				 (unsigned long long)p.n, predicted, model);
		fixed += predicted < model * 0.95;
	}
	assert_true(fixed > 0);
	predictor_free(npu);
}

static void test_each_lane_has_its_predictor(void **state)
{
	struct predictor *npu = millisecond("npu"), *gpu = millisecond("gpu");
	const struct product small = { 1024, 64, 64 };
	struct partition_options o = best_options();
	struct cut cut = { .kind = PARTITION_NPU, .m = 8, .k = 64, .n = 64, .exact = 8 };
	double model = gpu_ns(&o, small);

	o.gpu_predictor = gpu;
	assert_true(fabs(gpu_ns(&o, small) / 1e6 - 1) < 1e-6 && model < 5e5);
	partition_predict(&o, &cut);
	assert_true(cut.npu_ns < 5e5);
	o.predictor = npu;
	partition_predict(&o, &cut);
	assert_true(cut.npu_ns >= 1e6 && cut.npu_ns < 1.5e6);
	predictor_free(npu);
	predictor_free(gpu);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_add_up_and_are_aligned),
		cmocka_unit_test(test_no_cut_is_slower_than_none),
		cmocka_unit_test(test_the_search_comes_near_the_best_of_all),
		cmocka_unit_test(test_more_tokens_never_take_less),
		cmocka_unit_test(test_predictions_are_what_the_simulation_takes),
		cmocka_unit_test(test_decoding_is_cut_for_bandwidth),
		cmocka_unit_test(test_graphs_without_cuts),
		cmocka_unit_test(test_a_busy_gpu_gets_less),
		cmocka_unit_test(test_the_gpu_is_predicted_within_a_tenth),
		cmocka_unit_test(test_each_lane_has_its_predictor),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
