// SPDX-License-Identifier: MIT
/*
 * What is planned is what runs: a dry run of a model's file takes as long, to the nanosecond, as
 * the same evaluations with results on the virtual clock, whatever the choices, shapes and lengths
 * are; and what is observed is what is computed.
 */
#define _GNU_SOURCE
#include <errno.h>
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
#include "llm.h"
#include "tiny_random.h"

#define MAX_TOKENS 700

/* The presets, and what else goes together. */
static const struct llm_choices ways[] = {
	{ .placement = LLM_PLACE_CPU, .weights = LLM_WEIGHTS_F32 },
	{ .placement = LLM_PLACE_NPU },
	{ .placement = LLM_PLACE_NPU, .graphs = LLM_GRAPHS_FIXED, .weights = LLM_WEIGHTS_W4A8 },
	{ .placement = LLM_PLACE_NPU, .operands = LLM_OPERANDS_PERMUTED },
	{ .placement = LLM_PLACE_NPU,
	  .graphs = LLM_GRAPHS_FIXED,
	  .switching = LLM_SWITCHING_RESIDENT },
	{ .placement = LLM_PLACE_NPU, .graphs = LLM_GRAPHS_FIXED, .switching = LLM_SWITCHING_SYNC },
	{ .placement = LLM_PLACE_NPU,
	  .graphs = LLM_GRAPHS_FIXED,
	  .switching = LLM_SWITCHING_ASYNC },
	{ .placement = LLM_PLACE_NPU,
	  .graphs = LLM_GRAPHS_FIXED,
	  .switching = LLM_SWITCHING_PROGRESSIVE },
	{ .placement = LLM_PLACE_FINE },
	{ .placement = LLM_PLACE_FINE,
	  .sync = LLM_SYNC_DRIVER,
	  .activations = LLM_ACTIVATIONS_INT8 },
	{ .placement = LLM_PLACE_FINE, .order = LLM_ORDER_LAYER },
	{ .placement = LLM_PLACE_FINE,
	  .order = LLM_ORDER_LAYER,
	  .graphs = LLM_GRAPHS_FIXED,
	  .kv = LLM_KV_F32 },
	{ .placement = LLM_PLACE_FINE, .order = LLM_ORDER_OOE },
	{ .placement = LLM_PLACE_FINE, .order = LLM_ORDER_CHUNK },
	{ .placement = LLM_PLACE_FINE, .order = LLM_ORDER_STEAL },
	{ .placement = LLM_PLACE_FINE,
	  .order = LLM_ORDER_STEAL,
	  .weights = LLM_WEIGHTS_W4A8,
	  .graphs = LLM_GRAPHS_FIXED,
	  .sync = LLM_SYNC_DRIVER },
	{ .placement = LLM_PLACE_LINEAR },
	{ .placement = LLM_PLACE_LINEAR,
	  .graphs = LLM_GRAPHS_SHARED,
	  .order = LLM_ORDER_CHUNK,
	  .sync = LLM_SYNC_DRIVER },
	{ .placement = LLM_PLACE_LINEAR, .graphs = LLM_GRAPHS_ONLINE },
	{ .placement = LLM_PLACE_NPU, .start = LLM_START_COLD },
	{ .placement = LLM_PLACE_FINE, .start = LLM_START_COLD, .weights = LLM_WEIGHTS_W4A8 },
	{ .placement = LLM_PLACE_FINE, .order = LLM_ORDER_STEAL, .start = LLM_START_COLD },
	{ .placement = LLM_PLACE_LINEAR, .start = LLM_START_COLD },
	{ .placement = LLM_PLACE_GPU, .weights = LLM_WEIGHTS_W4A16 },
	{ .placement = LLM_PLACE_LAYER, .weights = LLM_WEIGHTS_W4A16, .graphs = LLM_GRAPHS_PADDED },
	{ .placement = LLM_PLACE_LAYER,
	  .weights = LLM_WEIGHTS_W4A16,
	  .graphs = LLM_GRAPHS_PIPE,
	  .partition = LLM_PARTITION_AUTO },
	{ .placement = LLM_PLACE_LAYER,
	  .graphs = LLM_GRAPHS_PIPE,
	  .partition = LLM_PARTITION_AUTO,
	  .operands = LLM_OPERANDS_NATURAL,
	  .order = LLM_ORDER_FIFO,
	  .sync = LLM_SYNC_DRIVER },
	{ .placement = LLM_PLACE_LAYER,
	  .graphs = LLM_GRAPHS_ONLINE,
	  .partition = LLM_PARTITION_ROW },
	{ .placement = LLM_PLACE_LAYER,
	  .graphs = LLM_GRAPHS_PADDED,
	  .partition = LLM_PARTITION_HYBRID },
	{ .placement = LLM_PLACE_LAYER },
};
#define NR_WAYS (sizeof(ways) / sizeof(ways[0]))

static struct llm_engine *open_engine(const char *path, const struct llm_choices *way,
				      const char *profile, unsigned int chunk, bool dry)
{
	const struct llm_options o = {
		.model = path,
		.choices = *way,
		.profile = profile,
		.chunk = chunk,
		.dry_run = dry,
		.gpu = LLM_GPU_HOST,
		.threads = 2,
		.jitter = 0.1f,
		.seed = 7,
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = 2 },
	};
	struct llm_engine *engine;

	if (llm_engine_open(&o, &engine))
		fail_msg("%s", llm_error());
	return engine;
}

static struct llm_session *new_session(struct llm_engine *engine)
{
	struct llm_session *s;

	if (llm_session_create(engine, MAX_TOKENS, &s))
		fail_msg("%s", llm_error());
	return s;
}

static void check_same(const struct llm_session *real, const struct llm_session *dry,
		       unsigned int n)
{
	struct llm_session_stats a, b;

	llm_session_stats(real, &a);
	llm_session_stats(dry, &b);
	if (a.virtual_clock.ns != b.virtual_clock.ns)
		fail_msg("after %u tokens: %llu ns, planned %llu", n,
			 (unsigned long long)a.virtual_clock.ns,
			 (unsigned long long)b.virtual_clock.ns);
	assert_memory_equal(&a.virtual_clock, &b.virtual_clock, sizeof(a.virtual_clock));
	assert_true(a.virtual_clock.ns > 0 && a.virtual_clock.energy_j > 0);
}

static void no_logits(void *ud, size_t i, const float *logits)
{
}

/*
 * Prompts of some lengths, tokens after them, and a prompt after those, with the
 * logits of all or of the last.
 */
static void check_way(const char *path, unsigned int n_vocab, const struct llm_choices *way,
		      const char *profile)
{
	/* With more chunks than there is memory for at once, where they overlap. */
	bool short_ones = way->order == LLM_ORDER_LAYER || way->order == LLM_ORDER_STEAL;
	unsigned int chunk = short_ones ? any(20, 50) : any(0, 2) ? 0 : any(20, 200);
	struct llm_engine *engines[2];
	struct llm_session *s[2];
	int32_t ids[MAX_TOKENS];

	for (int dry = 0; dry < 2; dry++) {
		engines[dry] = open_engine(path, way, profile, chunk, dry);
		s[dry] = new_session(engines[dry]);
	}
	for (int i = 0; i < MAX_TOKENS; i++)
		ids[i] = (int32_t)any(0, n_vocab - 1);
	for (unsigned int done = 0, step = 0; step < 6; step++) {
		unsigned int n = step % 3 ? 1 : any(2, 90) + (step ? 0 : 200);

		if (n > MAX_TOKENS - done)
			break;
		for (int dry = 0; dry < 2; dry++) {
			const int32_t *in = dry ? NULL : ids + done;

			if (step == 3 ? llm_session_eval_all(s[dry], in, n, no_logits, NULL)
				      : llm_session_eval(s[dry], in, n))
				fail_msg("%s", llm_error());
			assert_int_equal(llm_session_n_past(s[dry]), done + n);
		}
		assert_non_null(llm_session_logits(s[0]));
		assert_null(llm_session_logits(s[1]));
		check_same(s[0], s[1], n);
		done += n;
	}
	for (int dry = 0; dry < 2; dry++) {
		llm_session_free(s[dry]);
		llm_engine_close(engines[dry]);
	}
}

static struct tiny_config config(const char *arch)
{
	struct tiny_config c = tiny_any(arch, MAX_TOKENS, any(1, 3), 64, any(5, 10));

	c.n_vocab = 16 * any(20, 60);
	return c;
}

/* Whether a model may be computed so. */
static bool has(const struct tiny_config *c, const struct llm_choices *way)
{
	return !c->n_expert || way->placement == LLM_PLACE_CPU || way->placement == LLM_PLACE_FINE;
}

static void test_a_dry_run_takes_as_long_as_the_run(void **state)
{
	static const char *const profiles[] = { "sd8gen3", "sd8gen2", "sd8elite" };

	for (size_t a = 0; a < 5; a++) {
		const struct tiny_config c = config(tiny_any_arch(true));
		struct tiny_model t;

		tiny_create(&t, &c, random_u64(&seed_state));
		tiny_write(&t);
		for (size_t w = 0; w < NR_WAYS; w++)
			if (has(&c, &ways[w]))
				check_way(t.path, c.n_vocab, &ways[w], profiles[any(0, 2)]);
		tiny_free(&t);
	}
}

/* ---- results, whatever the order ---- */

/* Logits of the last token of a prompt, after @n tokens, and of all of them. */
static void logits_of(struct llm_engine *engine, const int32_t *ids, unsigned int n, float *last,
		      float *all)
{
	size_t bytes = llm_engine_info(engine)->n_vocab * sizeof(*last);
	struct llm_session *s = new_session(engine);

	if (llm_session_eval(s, ids, n))
		fail_msg("%s", llm_error());
	memcpy(last, llm_session_logits(s), bytes);
	if (llm_session_truncate(s, 0) || llm_verify(s, ids, n, all))
		fail_msg("%s", llm_error());
	assert_memory_equal(last, (char *)all + (n - 1) * bytes, bytes);
	assert_memory_equal(last, llm_session_logits(s), bytes);
	llm_session_free(s);
}

/*
 * Chunks that overlap, and whole prompts' logits, are the bits of chunks one after
 * another, on either clock.
 */
static void check_chunks(const char *arch)
{
	static const struct llm_choices orders[] = {
		{ .placement = LLM_PLACE_NPU },
		{ .placement = LLM_PLACE_FINE },
		{ .placement = LLM_PLACE_FINE, .order = LLM_ORDER_LAYER },
		{ .placement = LLM_PLACE_FINE, .order = LLM_ORDER_LAYER, .sync = LLM_SYNC_DRIVER },
		{ .placement = LLM_PLACE_FINE,
		  .order = LLM_ORDER_LAYER,
		  .graphs = LLM_GRAPHS_FIXED },
		{ .placement = LLM_PLACE_FINE, .order = LLM_ORDER_OOE },
		{ .placement = LLM_PLACE_FINE, .order = LLM_ORDER_CHUNK },
		{ .placement = LLM_PLACE_FINE, .order = LLM_ORDER_STEAL },
		{ .placement = LLM_PLACE_FINE, .order = LLM_ORDER_STEAL, .sync = LLM_SYNC_DRIVER },
		{ .placement = LLM_PLACE_LINEAR },
		{ .placement = LLM_PLACE_LINEAR, .order = LLM_ORDER_FIFO },
		{ .placement = LLM_PLACE_LINEAR,
		  .order = LLM_ORDER_CHUNK,
		  .graphs = LLM_GRAPHS_SHARED,
		  .sync = LLM_SYNC_DRIVER },
	};
	const struct tiny_config c = config(arch);
	/* Two of three times with a last chunk of one token, which may be one task. */
	unsigned int chunk = any(10, 60), n = chunk * any(3, 6) + (any(0, 2) ? 1 : any(1, chunk));
	size_t values = (size_t)n * c.n_vocab;
	float *want = malloc(values * sizeof(*want)), *got = malloc(values * sizeof(*got)),
	      last[16 * 60];
	int32_t ids[MAX_TOKENS];
	struct tiny_model t;
	bool first = true;

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	for (unsigned int i = 0; i < n; i++)
		ids[i] = (int32_t)any(0, c.n_vocab - 1);
	for (size_t w = c.n_expert ? 1 : 0; w < sizeof(orders) / sizeof(orders[0]); w++)
		for (int clock = 0; clock < 2 && has(&c, &orders[w]); clock++) {
			struct llm_engine *e = open_engine(t.path, &orders[w],
							   clock ? "sd8gen3" : NULL, chunk, false);

			logits_of(e, ids, n, last, first ? want : got);
			if (!first)
				assert_memory_equal(got, want, values * sizeof(*got));
			first = false;
			llm_engine_close(e);
		}
	tiny_free(&t);
	free(want);
	free(got);
}

static void test_chunks_in_flight_change_no_result(void **state)
{
	check_chunks("llama");
	check_chunks("qwen2moe");
}

/* In place of the solver, which looks at times: half of the columns for each lane. */
static void cut_in_half(void *ud, const struct partition_options *o, uint32_t m, uint64_t k,
			uint64_t n, struct cut *cut)
{
	*cut = (struct cut){ .kind = PARTITION_ROW, .m = m, .k = k, .n = n, .exact = m };
	cut->gpu_cols = n / 2 / VNPU_PANEL_N * VNPU_PANEL_N;
}

/* Logits of a prompt's last token, and of one after it. */
static void run_way(const char *path, const struct llm_choices *way, const char *profile,
		    const int32_t *ids, unsigned int n, float *logits)
{
	struct llm_engine *e = open_engine(path, way, profile, 0, false);
	size_t n_vocab = llm_engine_info(e)->n_vocab;
	struct llm_session_stats stats;
	struct llm_session *s;

	e->cut = cut_in_half;
	s = new_session(e);
	for (unsigned int i = 0; i < 2; i++) {
		if (llm_session_eval(s, i ? ids + n : ids, i ? 1 : n))
			fail_msg("%s", llm_error());
		memcpy(logits + i * n_vocab, llm_session_logits(s), n_vocab * sizeof(*logits));
	}
	llm_session_stats(s, &stats);
	assert_true(stats.npu_jobs >= 2);
	llm_session_free(s);
	llm_engine_close(e);
}

/* HeteroLLM 3.2: which operand the NPU keeps is a matter of time alone. */
static void test_the_order_of_operands_changes_no_result(void **state)
{
	static const struct llm_choices places[] = {
		{ .placement = LLM_PLACE_NPU },
		{ .placement = LLM_PLACE_FINE },
		{ .placement = LLM_PLACE_LAYER,
		  .graphs = LLM_GRAPHS_PIPE,
		  .partition = LLM_PARTITION_ROW },
	};
	static const enum llm_weights weights[] = { LLM_WEIGHTS_W8A8, LLM_WEIGHTS_W4A8,
						    LLM_WEIGHTS_W4A16 };
	const struct tiny_config c = config("qwen2");
	float want[2 * 16 * 60], got[2 * 16 * 60];
	unsigned int n = any(20, 200);
	int32_t ids[MAX_TOKENS];
	struct tiny_model t;

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	for (unsigned int i = 0; i <= n; i++)
		ids[i] = (int32_t)any(0, c.n_vocab - 1);
	for (size_t i = 0; i < 18; i++) {
		const char *profile = i / 9 ? "sd8gen3" : NULL;
		struct llm_choices way = places[i % 9 / 3];

		way.weights = weights[i % 3];
		way.operands = LLM_OPERANDS_NATURAL;
		run_way(t.path, &way, profile, ids, n, want);
		way.operands = LLM_OPERANDS_PERMUTED;
		run_way(t.path, &way, profile, ids, n, got);
		assert_memory_equal(got, want, 2 * c.n_vocab * sizeof(*got));
	}
	tiny_free(&t);
}

/* What a prompt of a model of that shape takes. */
static uint64_t planned_ns(struct llm_options o, enum llm_operands operands, unsigned int n)
{
	struct llm_session *s;
	struct llm_engine *e;
	uint64_t ns;

	o.dry_run = true;
	o.shape = "llama3.2-1b";
	o.profile = "sd8gen3";
	o.choices.operands = operands;
	assert_int_equal(llm_engine_open(&o, &e), 0);
	assert_int_equal(llm_session_create(e, n, &s), 0);
	assert_int_equal(llm_session_eval(s, NULL, n), 0);
	ns = llm_session_now_ns(s);
	llm_session_free(s);
	llm_engine_close(e);
	return ns;
}

static void test_the_order_of_operands_changes_what_is_planned(void **state)
{
	static const enum llm_placement places[] = { LLM_PLACE_NPU, LLM_PLACE_FINE,
						     LLM_PLACE_LAYER };

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct llm_options o = { .choices = { .placement = places[i],
						      .weights = LLM_WEIGHTS_W4A16 } };
		uint64_t natural = planned_ns(o, LLM_OPERANDS_NATURAL, 32);
		uint64_t permuted = planned_ns(o, LLM_OPERANDS_PERMUTED, 32);

		assert_true(permuted < natural);
		assert_int_equal(planned_ns(o, LLM_OPERANDS_AUTO, 32),
				 places[i] == LLM_PLACE_LAYER ? permuted : natural);
	}
}

static void test_overlapped_chunks_are_sooner_done(void **state)
{
	struct llm_choices way = { .placement = LLM_PLACE_FINE };
	uint64_t ns[2];

	for (int layer = 0; layer < 2; layer++) {
		struct llm_options o = { .dry_run = true,
					 .shape = "llama3.2-1b",
					 .profile = "sd8gen3" };
		struct llm_engine *e;
		struct llm_session *s;

		o.choices = way;
		o.choices.order = layer ? LLM_ORDER_LAYER : LLM_ORDER_FIFO;
		assert_int_equal(llm_engine_open(&o, &e), 0);
		assert_int_equal(llm_session_create(e, 1024, &s), 0);
		assert_int_equal(llm_session_eval(s, NULL, 1024), 0);
		ns[layer] = llm_session_now_ns(s);
		llm_session_free(s);
		llm_engine_close(e);
	}
	assert_true(ns[1] < ns[0]);
}

/* ---- observation ---- */

struct seen {
	unsigned int calls[4][16], rows; /* by layer and tensor */
	unsigned int n_layer, n;
	float embed[64], logits[16 * 60];
	double sum; /* of all values */
};

static const char *const tensors[] = { "attn_norm",	"q",	    "k",	   "v",
				       "q_rope",	"k_rope",   "attn",	   "attn_output",
				       "attn_residual", "ffn_norm", "gate",	   "up",
				       "act",		"down",	    "layer_output" };
#define NR_TENSORS (sizeof(tensors) / sizeof(tensors[0]))

static void see(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
		unsigned int rows, unsigned int cols, const float *data)
{
	struct seen *seen = ud;

	for (size_t i = 0; i < (size_t)rows * cols; i++)
		seen->sum += (double)data[i] * (double)(i % 7 + 1);
	for (size_t i = 0; i < NR_TENSORS; i++)
		if (!strcmp(tensor, tensors[i])) {
			assert_true(layer < seen->n_layer && pos + rows <= seen->n);
			seen->calls[layer][i] += rows;
			return;
		}
	if (!strcmp(tensor, "embed"))
		seen->rows += rows;
	else if (!strcmp(tensor, "logits"))
		memcpy(seen->logits, data, cols * sizeof(float));
	else
		assert_string_equal(tensor, "output_norm");
}

/*
 * Every tensor of every layer and token once, the same on every lane, with the results and
 * times of who does not look, except that then placement npu computes another last layer.
 */
static void test_an_observer_sees_every_tensor_once(void **state)
{
	static const struct llm_choices places[] = {
		{ .placement = LLM_PLACE_NPU },
		{ .placement = LLM_PLACE_FINE },
		{ .placement = LLM_PLACE_FINE, .order = LLM_ORDER_LAYER },
		{ .placement = LLM_PLACE_LAYER,
		  .graphs = LLM_GRAPHS_PIPE,
		  .partition = LLM_PARTITION_AUTO },
	};
	const struct tiny_config c = config("qwen3");
	unsigned int n = any(20, 150);
	struct seen seen[4] = { 0 };
	int32_t ids[MAX_TOKENS];
	struct tiny_model t;

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	for (unsigned int i = 0; i < n; i++)
		ids[i] = (int32_t)any(0, c.n_vocab - 1);
	for (size_t p = 0; p < 4; p++)
		for (int clock = p == 3; clock < 2; clock++) {
			struct llm_engine *e = open_engine(t.path, &places[p],
							   clock ? "sd8gen3" : NULL, 40, false);
			struct llm_session *plain = new_session(e), *s = new_session(e);

			seen[p] = (struct seen){ .n_layer = c.n_layer, .n = n };
			llm_session_observe(s, see, &seen[p]);
			if (llm_session_eval(plain, ids, n) || llm_session_eval(s, ids, n))
				fail_msg("%s", llm_error());
			assert_memory_equal(llm_session_logits(s), llm_session_logits(plain),
					    c.n_vocab * sizeof(float));
			assert_memory_equal(llm_session_logits(s), seen[p].logits,
					    c.n_vocab * sizeof(float));
			/* Placement npu leaves out what nobody reads of the last of several layers.
			 * That row alone may take a tiny model longer than all of them. */
			if (clock && (p || c.n_layer == 1))
				assert_int_equal(llm_session_now_ns(s), llm_session_now_ns(plain));
			assert_int_equal(seen[p].rows, n);
			for (unsigned int l = 0; l < c.n_layer; l++)
				for (size_t i = 0; i < NR_TENSORS; i++)
					if (seen[p].calls[l][i] != n)
						fail_msg("%s of layer %u: %u rows of %u",
							 tensors[i], l, seen[p].calls[l][i], n);
			if (p && p < 3)
				assert_true(seen[p].sum == seen[0].sum ||
					    places[p].order == LLM_ORDER_LAYER);
			llm_session_free(plain);
			llm_session_free(s);
			llm_engine_close(e);
		}
	tiny_free(&t);
}

/* ---- bad input ---- */

static void expect_open(const struct llm_options *o, int err, const char *word)
{
	struct llm_engine *engine;

	assert_int_equal(llm_engine_open(o, &engine), err);
	if (!strstr(llm_error(), word))
		fail_msg("no '%s' in: %s", word, llm_error());
}

static void test_what_a_dry_run_needs(void **state)
{
	struct llm_options o = { .dry_run = true, .profile = "sd8gen3" };
	struct llm_engine *e;
	struct llm_session *s;
	int32_t id;

	expect_open(&o, -EINVAL, "model");
	o.shape = "no-such-shape";
	expect_open(&o, -ENOENT, "no-such-shape");
	o.shape = "llama3.2-1b";
	o.profile = NULL;
	expect_open(&o, -EINVAL, "profile");
	o.profile = "no-such-soc";
	expect_open(&o, -EINVAL, "no-such-soc");
	o.profile = "sd8gen3";
	o.predictor = "/nowhere/npu.model";
	expect_open(&o, -ENOENT, "/nowhere/npu.model");
	o.predictor = NULL;
	assert_int_equal(llm_engine_open(&o, &e), 0);
	assert_int_equal(llm_tokenize(e, "a", 1, 0, &id, 1), -ENOTSUP);
	assert_int_equal(llm_session_create(e, 100, &s), 0);
	assert_int_equal(llm_session_eval(s, NULL, 101), -ENOSPC);
	assert_int_equal(llm_session_eval(s, NULL, 0), -EINVAL);
	assert_int_equal(llm_session_eval(s, NULL, 100), 0);
	llm_session_free(s);
	llm_engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_dry_run_takes_as_long_as_the_run),
		cmocka_unit_test(test_chunks_in_flight_change_no_result),
		cmocka_unit_test(test_the_order_of_operands_changes_no_result),
		cmocka_unit_test(test_the_order_of_operands_changes_what_is_planned),
		cmocka_unit_test(test_overlapped_chunks_are_sooner_done),
		cmocka_unit_test(test_an_observer_sees_every_tensor_once),
		cmocka_unit_test(test_what_a_dry_run_needs),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
