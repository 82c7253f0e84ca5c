// SPDX-License-Identifier: MIT
/*
 * Placements gpu and layer: products on the NPU, on the GPU and in slices on both give what one
 * lane gives, however they are cut, waited for and timed. Random models of every architecture whose
 * products are wide and long enough to be cut, and the embedded one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "engine.h"
#include "gpu.h"
#include "cuts.h"
#include "lane.h"
#include "llm_refs.h"
#include "tiny_random.h"

/*
 * Of the largest logit. Lanes round differently, and a number that is quantised near a tie may move
 * by a step: with float weights that is one in some thousands of the output matrix' input, where it
 * makes some 1e-3; with INT8 ones in every product. What is wrong anywhere is wrong by tenths.
 */
#define FLOAT_BOUND 1e-2
#define INT8_BOUND 1e-1
#define MAX_TOKENS 1100
#define DECODED 3

static bool no_platform;

static int setup(void **state)
{
	unsigned int n;

	no_platform = llm_gpu_list(NULL, 0, &n) == -ENODEV || !n;
	return tiny_setup(state);
}

static struct tiny_config wide_config(const char *arch)
{
	struct tiny_config c = tiny_any(arch, MAX_TOKENS + 2 * DECODED, 2, 64, any(5, 10));

	c.n_vocab = 16 * any(20, 60);
	return c;
}

static struct llm_engine *open_engine(const struct llm_options *opts)
{
	struct llm_options o = *opts;
	struct llm_engine *engine;

	o.device.transport = NPU_TRANSPORT_SIM;
	o.device.threads = 2;
	o.threads = 2;
	if (llm_engine_open(&o, &engine))
		fail_msg("%s", llm_error());
	return engine;
}

/* Logits of the last of @n tokens, and of some decoded after them. */
static void logits_of(struct llm_engine *engine, const int32_t *ids, unsigned int n, float *out)
{
	struct llm_session *s;
	size_t n_vocab = llm_engine_info(engine)->n_vocab;

	if (llm_session_create(engine, MAX_TOKENS + 2 * DECODED, &s))
		fail_msg("%s", llm_error());
	for (unsigned int i = 0; i <= DECODED; i++) {
		if (llm_session_eval(s, i ? ids + n + i - 1 : ids, i ? 1 : n))
			fail_msg("%s", llm_error());
		memcpy(out + i * n_vocab, llm_session_logits(s), n_vocab * sizeof(float));
	}
	llm_session_free(s);
}

struct way {
	enum llm_placement placement;
	enum llm_graphs graphs;
	enum llm_partition partition;
	float share;
};

static const struct way ways[] = {
	{ LLM_PLACE_GPU, LLM_GRAPHS_BUCKETED, LLM_PARTITION_NONE, 0 },
	{ LLM_PLACE_LAYER, LLM_GRAPHS_PADDED, LLM_PARTITION_NONE, 0 },
	{ LLM_PLACE_LAYER, LLM_GRAPHS_ONLINE, LLM_PARTITION_NONE, 0 },
	{ LLM_PLACE_LAYER, LLM_GRAPHS_PIPE, LLM_PARTITION_NONE, 0 },
	{ LLM_PLACE_LAYER, LLM_GRAPHS_PADDED, LLM_PARTITION_ROW, 0.4f },
	{ LLM_PLACE_LAYER, LLM_GRAPHS_PIPE, LLM_PARTITION_ROW, 0.7f },
	{ LLM_PLACE_LAYER, LLM_GRAPHS_ONLINE, LLM_PARTITION_ROW, 0.5f },
	{ LLM_PLACE_LAYER, LLM_GRAPHS_PIPE, LLM_PARTITION_SEQUENCE, 0.3f },
	{ LLM_PLACE_LAYER, LLM_GRAPHS_PIPE, LLM_PARTITION_MULTI_SEQUENCE, 0.2f },
	{ LLM_PLACE_LAYER, LLM_GRAPHS_PIPE, LLM_PARTITION_HYBRID, 0.5f },
	{ LLM_PLACE_LAYER, LLM_GRAPHS_PADDED, LLM_PARTITION_HYBRID, 0.5f },
	{ LLM_PLACE_LAYER, LLM_GRAPHS_PIPE, LLM_PARTITION_AUTO, 0 },
};
#define NR_WAYS (sizeof(ways) / sizeof(ways[0]))

static double error_of(const float *a, const float *b, size_t n)
{
	double diff = 0, most = 0;

	for (size_t i = 0; i < n; i++) {
		diff = fmax(diff, fabs((double)a[i] - (double)b[i]));
		most = fmax(most, fabs((double)b[i]));
	}
	return diff / most;
}

/* In place of the solver: cuts that give the GPU this share, fast or not. */
static void cut_by_share(void *ud, const struct partition_options *o, uint32_t m, uint64_t k,
			 uint64_t n, struct cut *part)
{
	partition_share(o, (double)*(const float *)ud, m, k, n, part);
}

static void check_way(const char *path, const struct way *w, struct llm_options o,
		      const int32_t *ids, unsigned int n, const float *want, double bound)
{
	struct llm_engine *engine;
	size_t values;
	double error;
	float *got;

	o.model = path;
	o.choices.placement = w->placement;
	o.choices.graphs = w->graphs;
	o.choices.partition = w->partition;
	/* Of a phone, whose lanes are worth cutting for. */
	o.cuts_profile = "sd8gen3";
	engine = open_engine(&o);
	if (w->share > 0) {
		engine->cut = cut_by_share;
		engine->cut_ud = (void *)&w->share;
	}
	values = (DECODED + 1) * (size_t)llm_engine_info(engine)->n_vocab;
	got = malloc(values * sizeof(*got));
	logits_of(engine, ids, n, got);
	error = error_of(got, want, values);
	if (!(error < bound))
		fail_msg("%u tokens, %s %s %s %g %s %s %s %s %s: error %g", n,
			 llm_choice_name(LLM_CHOICE_PLACEMENT, o.choices.placement),
			 llm_choice_name(LLM_CHOICE_GRAPHS, o.choices.graphs),
			 llm_choice_name(LLM_CHOICE_PARTITION, o.choices.partition),
			 (double)w->share, llm_choice_name(LLM_CHOICE_WEIGHTS, o.choices.weights),
			 llm_choice_name(LLM_CHOICE_ACTIVATIONS, o.choices.activations),
			 llm_choice_name(LLM_CHOICE_SYNC, o.choices.sync),
			 llm_choice_name(LLM_CHOICE_OPERANDS, o.choices.operands),
			 o.profile ? "virtual" : "wall", error);
	free(got);
	llm_engine_close(engine);
}

/* @n tokens by @nr_ways ways, taken at random. */
static void check_model(const char *path, unsigned int n, unsigned int nr_ways,
			enum llm_weights weights, unsigned int n_vocab)
{
	struct llm_options o = { .model = path,
				 .choices.placement = LLM_PLACE_NPU,
				 .choices.weights = weights };
	float *want = malloc((DECODED + 1) * (size_t)n_vocab * sizeof(*want));
	int32_t ids[MAX_TOKENS + DECODED];
	struct llm_engine *engine;

	o.choices.kv = any(0, llm_choice_info(LLM_CHOICE_KV)->n_values - 1);
	do
		o.choices.activations =
			any(0, llm_choice_info(LLM_CHOICE_ACTIVATIONS)->n_values - 1);
	while (llm_activations_static(o.choices.activations));
	engine = open_engine(&o);
	for (unsigned int i = 0; i < n + DECODED; i++)
		ids[i] = (int32_t)any(0, n_vocab - 1);
	assert_int_equal(llm_engine_info(engine)->n_vocab, n_vocab);
	logits_of(engine, ids, n, want);
	llm_engine_close(engine);
	for (unsigned int i = 0; i < nr_ways; i++) {
		o.choices.sync = any(0, 1) ? LLM_SYNC_FAST : LLM_SYNC_DRIVER;
		o.choices.operands = any(0, llm_choice_info(LLM_CHOICE_OPERANDS)->n_values - 1);
		o.profile = any(0, 3) ? NULL : "sd8gen3";
		check_way(path, &ways[any(0, NR_WAYS - 1)], o, ids, n, want,
			  weights == LLM_WEIGHTS_W4A16 ? FLOAT_BOUND : INT8_BOUND);
	}
	free(want);
}

static enum llm_weights any_weights(void)
{
	static const enum llm_weights all[] = { LLM_WEIGHTS_W4A16, LLM_WEIGHTS_W4A16,
						LLM_WEIGHTS_W8A8, LLM_WEIGHTS_W4A8 };

	return all[any(0, 3)];
}

static void test_every_cut_gives_what_one_lane_gives(void **state)
{
	static const unsigned int lengths[] = { 1,  2,	 9,   31,  32,	 33,
						64, 135, 300, 525, 1000, MAX_TOKENS };
	static const char *const archs[] = { "llama", "qwen2", "qwen3" };

	if (no_platform)
		skip();
	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct tiny_config c = wide_config(archs[i % 3]);
		unsigned int n = any(0, 2) ? lengths[i] : any(1, MAX_TOKENS);
		struct tiny_model t;

		tiny_create(&t, &c, random_u64(&seed_state));
		/* Long ones are few: on a small host most of their time is attention's. */
		check_model(tiny_write(&t), n, n < 200 ? 6 : 2, any_weights(), c.n_vocab);
		tiny_free(&t);
	}
}

static void test_every_way_on_the_embedded_model(void **state)
{
	struct llm_options o = { .choices.weights = LLM_WEIGHTS_W4A16,
				 .choices.placement = LLM_PLACE_NPU };
	struct llm_engine *engine;
	static float want[(DECODED + 1) * 4096];
	char path[512];
	int32_t ids[100 + DECODED];

	if (no_platform)
		skip();
	o.model = ref_embedded(path, sizeof(path));
	for (unsigned int i = 0; i < 100 + DECODED; i++)
		ids[i] = (int32_t)any(3, 4095);
	engine = open_engine(&o);
	logits_of(engine, ids, 100, want);
	llm_engine_close(engine);
	for (unsigned int i = 0; i < 2 * NR_WAYS; i++) {
		o.choices.sync = i % 2 ? LLM_SYNC_FAST : LLM_SYNC_DRIVER;
		check_way(path, &ways[i / 2], o, ids, 100, want, FLOAT_BOUND);
	}
}

static void gather(void *ud, size_t i, const float *logits)
{
	float *out = ud;

	memcpy(out + i * 4096, logits, 4096 * sizeof(*logits));
}

static void test_logits_of_all_tokens(void **state)
{
	enum { N = 70 };
	struct llm_options o = { .choices.weights = LLM_WEIGHTS_W4A16, .cuts_profile = "sd8gen3" };
	float half = 0.5f;
	float *want = malloc(N * 4096 * sizeof(float)), *got = malloc(N * 4096 * sizeof(float));
	struct llm_engine *engine;
	struct llm_session *s;
	int32_t ids[N];
	char path[512];

	if (no_platform)
		skip();
	o.model = ref_embedded(path, sizeof(path));
	for (unsigned int i = 0; i < N; i++)
		ids[i] = (int32_t)any(3, 4095);
	for (unsigned int w = 0; w < 3; w++) {
		o.choices.placement = w ? LLM_PLACE_LAYER : LLM_PLACE_NPU;
		o.choices.partition = w ? LLM_PARTITION_ROW : LLM_PARTITION_NONE;
		o.choices.graphs = w ? LLM_GRAPHS_PADDED : LLM_GRAPHS_BUCKETED;
		o.choices.sync = w == 1 ? LLM_SYNC_FAST : LLM_SYNC_DRIVER;
		engine = open_engine(&o);
		if (w) {
			engine->cut = cut_by_share;
			engine->cut_ud = &half;
		}
		if (llm_session_create(engine, 128, &s) ||
		    llm_session_eval_all(s, ids, N, gather, w ? got : want))
			fail_msg("%s", llm_error());
		if (w)
			assert_true(error_of(got, want, N * 4096) < FLOAT_BOUND);
		llm_session_free(s);
		llm_engine_close(engine);
	}
	free(want);
	free(got);
}

static void test_slices_are_disjoint_and_make_up_the_matmul(void **state)
{
	struct llm_options o = { .choices.placement = LLM_PLACE_NPU };
	static const enum llm_op ops[] = { LLM_OP_QKV, LLM_OP_ATTN_OUTPUT, LLM_OP_GATE_UP,
					   LLM_OP_DOWN, LLM_OP_HEAD };
	struct llm_session *s;
	struct llm_engine *engine;
	char path[512];

	o.model = ref_embedded(path, sizeof(path));
	engine = open_engine(&o);
	if (llm_session_create(engine, 128, &s))
		fail_msg("%s", llm_error());
	for (unsigned int round = 0; round < 2000; round++) {
		struct cut cut = { .m = any(1, 300) };
		enum llm_op op = ops[any(0, 4)];
		uint64_t cells = 0;

		llm_op_matmul(&engine->shape, op, &cut.k, &cut.n);
		/* Any cut at all, panels or not. */
		cut.gpu_cols = any(0, (unsigned int)cut.n);
		if (cut.gpu_cols == cut.n)
			cut.gpu_tokens = 0;
		else
			cut.gpu_tokens = any(0, 1) ? any(0, cut.m - 1) : 0;
		if (cut.gpu_cols < cut.n)
			cut.exact = cut.m - cut.gpu_tokens;
		for (unsigned int i = 0; i < partition_nr_slices(&cut); i++) {
			const struct lane_chunk chunk = { .n = cut.m, .rows = cut.m, .row = 300 };
			struct partition_slice part;
			struct lane_slice slice;
			struct lane_work work;
			struct lane_call call = { .work = &work, .chunk = &chunk };

			partition_slice(&cut, i, &part);
			work = (struct lane_work){
				.what = LANE_SLICE, .op = op, .row = part.row, .rows = part.rows
			};
			work.graph_rows = part.graph_rows;
			work.col = part.col;
			work.cols = part.cols;
			lane_slice_of(&s->memory, &call, &slice);
			assert_int_equal(slice.x_row, 300 + part.row);
			assert_true(part.row + slice.rows <= cut.m &&
				    slice.rows <= slice.graph_rows);
			for (unsigned int p = 0; p < slice.nr_matrices; p++) {
				const struct lane_columns *part = &slice.columns[p];

				if (!part->cols)
					continue;
				assert_false(slice.empty);
				assert_int_equal(part->first % 64, 0);
				assert_true(part->first + part->cols <= part->n);
				cells += (uint64_t)slice.rows * part->cols;
			}
		}
		if (cells != cut.m * cut.n)
			fail_msg("%s of %u rows: %llu results of %llu", llm_op_name(op), cut.m,
				 (unsigned long long)cells, (unsigned long long)(cut.m * cut.n));
	}
	llm_session_free(s);
	llm_engine_close(engine);
}

static void expect_open(struct llm_options o, int err, const char *word)
{
	struct llm_engine *engine;
	char path[512];

	o.model = ref_embedded(path, sizeof(path));
	assert_int_equal(llm_engine_open(&o, &engine), err);
	if (!strstr(llm_error(), word))
		fail_msg("no '%s' in: %s", word, llm_error());
}

static void test_options_that_do_not_fit_together_are_refused(void **state)
{
	struct llm_options o = { .choices.placement = LLM_PLACE_LAYER,
				 .choices.partition = LLM_PARTITION_ROW };

	o.cuts_profile = "no-such-soc";
	expect_open(o, -EINVAL, "no-such-soc");
	o.cuts_profile = NULL;
	o.choices.weights = LLM_WEIGHTS_F32;
	expect_open(o, -EINVAL, "f32");
	if (no_platform)
		return;
	o.choices.weights = LLM_WEIGHTS_W8A8;
	o.gpu = "no such GPU";
	expect_open(o, -ENOENT, "no such GPU");
	/* Nor does the virtual clock make one up in its place. */
	o.profile = "sd8gen3";
	expect_open(o, -ENOENT, "no such GPU");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slices_are_disjoint_and_make_up_the_matmul),
		cmocka_unit_test(test_every_way_on_the_embedded_model),
		cmocka_unit_test(test_every_cut_gives_what_one_lane_gives),
		cmocka_unit_test(test_logits_of_all_tokens),
		cmocka_unit_test(test_options_that_do_not_fit_together_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
