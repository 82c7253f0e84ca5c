// SPDX-License-Identifier: MIT
/*
 * The modelled NPU has one clock: what a plan says of a matmul, whole or a slice, is the device
 * time of its compiled graph, to the nanosecond, whatever the weights, the operands' order and the
 * rows.
 * That a plan takes as long as dry runs and virtual execution is test_dry_run.c's.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "npu.h"
#include "npu_graph.h"
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

/* The graph of a matmul with the weights' type, as the lanes have it (runtime/lanes/graphs.c). */
static struct npu_graph *graph_of(enum llm_weights weights, bool permuted, uint32_t m, uint32_t k,
				  uint32_t n)
{
	struct npu_graph *g = npu_graph_create("matmul");
	bool floats = weights == LLM_WEIGHTS_W4A16;
	struct npu_tensor *x = npu_graph_input(g, "x", floats ? NPU_F32 : NPU_S8, m, k), *w, *y;
	struct npu_tensor *scale = floats ? NULL : npu_graph_input(g, "scale", NPU_F32, m, 1);

	w = llm_weights_4bit(weights) ? npu_graph_weight_w4(g, "w", n, k, 32)
				      : npu_graph_weight(g, "w", NPU_W8_PANEL, n, k);
	if (floats)
		y = npu_matmul_w4f(g, x, w, NULL);
	else if (llm_weights_4bit(weights))
		y = npu_matmul_w4(g, x, scale, w, NULL);
	else
		y = npu_matmul_i8(g, x, scale, w, NULL);
	npu_graph_output(g, "y", permuted ? npu_matmul_permute(g, y) : y);
	return g;
}

static uint64_t device_ns(const struct llm_choices *c, uint32_t m, uint32_t k, uint32_t n)
{
	struct npu_graph *g = graph_of(c->weights, c->operands == LLM_OPERANDS_PERMUTED, m, k, n);
	struct npu_image_info info;
	void *image;
	size_t bytes;

	assert_int_equal(npu_graph_predict(g, "sd8gen3"), 0);
	assert_int_equal(npu_graph_compile(g, &image, &bytes), 0);
	npu_graph_free(g);
	assert_int_equal(npu_image_info(image, bytes, &info), 0);
	free(image);
	return info.device_ns - (uint64_t)(soc->npu.launch_us * 1000);
}

/* The matmuls of the first layer, or their slices. Returns how many the NPU has. */
static unsigned int check_plan(const struct shape *s, const struct llm_choices *c, uint32_t tokens)
{
	const struct plan_options o = {
		.soc = soc, .cuts = soc, .shape = s, .choices = *c, .chunk = tokens
	};
	const struct plan_pass pass = { .n_tokens = tokens, .logits = PLAN_LOGITS_LAST };
	struct plan *p = plan_forward(&o, &pass);
	unsigned int checked = 0;

	assert_non_null(p);
	for (uint32_t i = 0; i < sched_nr_tasks(p->tasks); i++) {
		const struct sched_task *t = sched_get(p->tasks, i);
		const struct lane_work *work = &p->works[i];
		uint64_t k, n, device, rows;
		double planned;

		if (t->layer || t->op == LLM_OP_HEAD || t->home != SOC_NPU ||
		    !llm_op_matmul(s, t->op, &k, &n))
			continue;
		rows = work->what == LANE_SLICE ? work->graph_rows : p->chunks[0].rows;
		n = work->what == LANE_SLICE ? work->cols : n;
		device = device_ns(c, (uint32_t)rows, (uint32_t)k, (uint32_t)n);
		planned = soc_alone_ns(soc, SOC_NPU, t->cost[SOC_NPU]);
		if (fabs(planned - (double)device) > 0.5)
			fail_msg("%s, %u x %u x %u of %u tokens: planned %.1f ns, the device %llu",
				 llm_op_name(t->op), (unsigned int)rows, (unsigned int)k,
				 (unsigned int)n, tokens, planned, (unsigned long long)device);
		checked++;
	}
	plan_free(p);
	return checked;
}

static void test_every_matmul_takes_its_device_time(void **state)
{
	static const char *const shapes[] = { "llama3-8b", "qwen2.5-0.5b" };
	static const enum llm_weights weights[] = { LLM_WEIGHTS_W8A8, LLM_WEIGHTS_W4A8,
						    LLM_WEIGHTS_W4A16 };
	static const uint32_t tokens[] = { 1, 4, 5, 32, 64, 256, 300, 1024 };
	static const enum llm_placement places[] = { LLM_PLACE_NPU, LLM_PLACE_FINE,
						     LLM_PLACE_LAYER };
	unsigned int checked = 0;

	for (size_t i = 0; i < 2 * 3 * 8 * 3 * 2; i++) {
		const struct llm_choices c = {
			.placement = places[i / 2 % 3],
			.weights = weights[i / 6 % 3],
			.activations = LLM_ACTIVATIONS_INT8,
			.operands = i % 2 ? LLM_OPERANDS_PERMUTED : LLM_OPERANDS_NATURAL,
			.graphs = places[i / 2 % 3] == LLM_PLACE_LAYER ? LLM_GRAPHS_PIPE
								       : LLM_GRAPHS_FIXED,
			.partition = places[i / 2 % 3] == LLM_PLACE_LAYER ? LLM_PARTITION_AUTO
									  : LLM_PARTITION_NONE,
		};
		struct shape s;

		assert_int_equal(shape_load(shapes[i / 144], &s), 0);
		checked += check_plan(&s, &c, tokens[i / 18 % 8]);
	}
	/* The NPU has all of them but where the GPU is faster with a whole one. */
	assert_true(checked > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_matmul_takes_its_device_time),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
