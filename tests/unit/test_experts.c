// SPDX-License-Identifier: MIT
/*
 * Mixtures of experts: the router beside one in double precision, whole models beside the forward
 * pass of tiny_forward.h, the same bits however a prompt is evaluated, and files that are refused.
 *
 * Random shapes and weights; TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "experts.h"
#include "llm_open.h"
#include "llm_quantize.h"
#include "tiny_random.h"

/* As in test_llm_model.c: float32 beside double, 16 bits of activations, and clear cases. */
#define BOUND 1e-5
#define BOUND_16 5e-4
#define CLEAR 1e-4
#define MAX_EXPERTS 70
#define MAX_IDS 48

static const char *const archs[] = { "llama", "qwen2moe", "qwen3moe" };
#define NR_ARCHS 3

/* ---- the router ---- */

static const float *sorted_by;

static int by_logit(const void *a, const void *b)
{
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	float x = sorted_by[i], y = sorted_by[j];

	if (isnan(x) != isnan(y))
		return isnan(x) ? 1 : -1;
	if (x < y || x > y)
		return x < y ? 1 : -1;
	return i < j ? -1 : 1;
}

static double sum_exp(const float *logits, const uint32_t *experts, unsigned int n)
{
	double sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += exp((double)logits[experts[i]]);
	return sum;
}

static void check_route(const float *logits, unsigned int n, unsigned int used, bool norm,
			float scale)
{
	uint32_t want[MAX_EXPERTS], experts[MAX_EXPERTS];
	float weights[MAX_EXPERTS];
	double sum;

	for (uint32_t e = 0; e < n; e++)
		want[e] = e;
	sorted_by = logits;
	qsort(want, n, sizeof(*want), by_logit);
	lane_route(logits, n, used, norm, scale, experts, weights);
	assert_memory_equal(experts, want, used * sizeof(*want));
	sum = sum_exp(logits, want, norm ? used : n);
	for (unsigned int i = 0; i < used; i++) {
		double w = exp((double)logits[want[i]]) / sum * (double)scale;

		if (isnan(w))
			assert_true(isnan(weights[i]));
		else if (fabs(w - (double)weights[i]) > 1e-6 * w)
			fail_msg("weight %u of %u: %g, not %g", i, used, (double)weights[i], w);
	}
}

static void the_router_ranks_experts_as_a_sort_does(void **state)
{
	float logits[MAX_EXPERTS];

	for (int i = 0; i < 2000; i++) {
		unsigned int n = any(1, MAX_EXPERTS), values = any(1, 200);

		for (unsigned int e = 0; e < n; e++)
			logits[e] = (float)any(0, values) / 16 - 4;
		check_route(logits, n, any(1, n), any(0, 1), any(0, 1) ? 1 : 2.5f);
	}
}

static void nans_of_the_router_come_last_and_spread(void **state)
{
	const float some[] = { 1, NAN, 3, NAN, 2 }, none[] = { NAN, NAN, NAN };
	uint32_t experts[5];
	float weights[5];

	lane_route(some, 5, 4, true, 1, experts, weights);
	assert_memory_equal(experts, ((uint32_t[]){ 2, 4, 0, 1 }), 4 * sizeof(*experts));
	assert_true(isnan(weights[0]));
	lane_route(some, 5, 2, true, 1, experts, weights);
	assert_true(weights[0] > 0.7f && weights[0] < 0.8f);
	lane_route(none, 3, 2, false, 1, experts, weights);
	assert_memory_equal(experts, ((uint32_t[]){ 0, 1 }), 2 * sizeof(*experts));
	assert_true(isnan(weights[1]));
}

/* ---- models ---- */

/* @panels: an expert's columns are whole panels, as placement fine has them. */
static struct tiny_config any_config(const char *arch, bool panels)
{
	struct tiny_config c =
		tiny_any(arch, 64, any(1, 2), panels ? 32 * any(1, 2) : 2 * any(4, 16), any(1, 2));

	if (!c.n_expert) {
		c.n_head = 2 * c.n_head_kv;
		c.n_embd = c.n_head * c.head_dim;
		c.n_expert = any(1, 9);
		c.n_expert_used = any(1, c.n_expert);
	}
	if (panels)
		return c;
	c.n_ff = any(5, 100);
	c.n_ff_shared = c.n_ff_shared ? any(5, 150) : 0;
	return c;
}

static struct llm_options options_of(enum llm_placement placement, enum llm_weights weights,
				     enum llm_activations activations)
{
	return (struct llm_options){
		.choices = { .placement = placement,
			     .weights = weights,
			     .activations = activations,
			     .kv = LLM_KV_F32 },
		.threads = any(1, 3),
		.chunk = any(2, 24),
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = any(1, 2) },
	};
}

struct gathered {
	float *logits;
	size_t n_vocab;
};

static void gather(void *ud, size_t i, const float *logits)
{
	struct gathered *g = ud;

	memcpy(g->logits + i * g->n_vocab, logits, g->n_vocab * sizeof(*logits));
}

/* False: the case is not clear. */
static bool check_model(const struct tiny_config *c, struct llm_options *o, double bound)
{
	unsigned int n = any(2, 30);
	size_t all = (size_t)n * c->n_vocab;
	struct gathered g = { malloc(all * sizeof(*g.logits)), c->n_vocab };
	double *want = malloc(all * sizeof(*want)), error;
	struct llm_engine *engine;
	struct llm_session *s;
	struct tiny_model t;
	int32_t ids[MAX_IDS];
	bool clear;

	tiny_create(&t, c, random_u64(&seed_state));
	for (unsigned int i = 0; i < n; i++)
		ids[i] = (int32_t)any(0, c->n_vocab - 1);
	clear = tiny_forward(&t, ids, n, o->choices.weights, o->choices.activations, want) > CLEAR;
	if (clear) {
		o->model = tiny_write(&t);
		engine = open_engine(o);
		s = new_session(engine, 64);
		if (llm_session_eval_all(s, ids, n, gather, &g))
			fail_msg("%s", llm_error());
		error = tiny_error(g.logits, want, all);
		print_message("%s, %u of %u experts of %u, %u for all, %u tokens: error %.2g\n",
			      c->arch, c->n_expert_used, c->n_expert, c->n_ff, c->n_ff_shared, n,
			      error);
		assert_true(error < bound);
		llm_session_free(s);
		llm_engine_close(engine);
	}
	tiny_free(&t);
	free(want);
	free(g.logits);
	return clear;
}

static void check_models(enum llm_placement placement, enum llm_weights weights,
			 enum llm_activations activations, double bound, int models)
{
	for (int a = 0; a < NR_ARCHS; a++) {
		for (int i = 0, drawn = 0; i < models; drawn++) {
			struct tiny_config c = any_config(archs[a], placement != LLM_PLACE_CPU);
			struct llm_options o = options_of(placement, weights, activations);

			/* Errors of 16 bits would leave few clear cases in a layer behind. */
			if (bound > BOUND)
				c.n_layer = 1;
			assert_true(drawn < 200 * models);
			i += check_model(&c, &o, bound);
		}
	}
}

static void models_on_the_cpu_equal_double_precision(void **state)
{
	check_models(LLM_PLACE_CPU, LLM_WEIGHTS_F32, LLM_ACTIVATIONS_INT8, BOUND, 6);
}

static void models_in_integers_equal_integer_arithmetic(void **state)
{
	check_models(LLM_PLACE_FINE, LLM_WEIGHTS_W8A8, LLM_ACTIVATIONS_INT8, BOUND, 2);
	check_models(LLM_PLACE_FINE, LLM_WEIGHTS_W4A8, LLM_ACTIVATIONS_INT8, BOUND, 2);
}

static void models_with_outliers_and_16_bits_equal_theirs(void **state)
{
	check_models(LLM_PLACE_FINE, LLM_WEIGHTS_W8A8, LLM_ACTIVATIONS_ROW_OUTLIERS, BOUND_16, 1);
	check_models(LLM_PLACE_FINE, LLM_WEIGHTS_W4A8, LLM_ACTIVATIONS_MIXED, BOUND_16, 1);
	check_models(LLM_PLACE_FINE, LLM_WEIGHTS_W8A8, LLM_ACTIVATIONS_INT16, BOUND_16, 1);
	check_models(LLM_PLACE_FINE, LLM_WEIGHTS_W4A16, LLM_ACTIVATIONS_ROW_OUTLIERS, BOUND_16, 1);
}

/* ---- the same bits ---- */

/* The last of the logits of @n tokens, given @step at a time. */
static void eval_steps(const struct llm_options *o, const int32_t *ids, unsigned int n,
		       unsigned int step, float *logits, size_t n_vocab)
{
	struct llm_engine *engine = open_engine(o);
	struct llm_session *s = new_session(engine, 64);

	for (unsigned int i = 0; i < n; i += step)
		if (llm_session_eval(s, ids + i, n - i < step ? n - i : step))
			fail_msg("%s", llm_error());
	memcpy(logits, llm_session_logits(s), n_vocab * sizeof(*logits));
	llm_session_free(s);
	llm_engine_close(engine);
}

static void rows_do_not_depend_on_those_beside_them(void **state)
{
	static const enum llm_placement on[] = { LLM_PLACE_CPU, LLM_PLACE_FINE };
	static const enum llm_weights weights[] = { LLM_WEIGHTS_W8A8, LLM_WEIGHTS_W4A8,
						    LLM_WEIGHTS_NATIVE, LLM_WEIGHTS_W4A16 };
	float one[1024], other[1024];
	int32_t ids[MAX_IDS];

	for (int i = 0; i < 12; i++) {
		struct tiny_config c = any_config(archs[i % NR_ARCHS], true);
		struct llm_options o = options_of(on[i % 2], LLM_WEIGHTS_AUTO, 0);
		struct tiny_model t;

		if (on[i % 2] == LLM_PLACE_FINE)
			o.choices.weights = weights[i / 2 % 4];
		tiny_create(&t, &c, random_u64(&seed_state));
		o.model = tiny_write(&t);
		for (int k = 0; k < MAX_IDS; k++)
			ids[k] = (int32_t)any(0, c.n_vocab - 1);
		o.threads = 1;
		eval_steps(&o, ids, MAX_IDS, 1, one, c.n_vocab);
		o.threads = 2;
		o.chunk = any(2, 24);
		eval_steps(&o, ids, MAX_IDS, any(2, MAX_IDS), other, c.n_vocab);
		assert_memory_equal(one, other, c.n_vocab * sizeof(*one));
		tiny_free(&t);
	}
}

/* ---- what runs where ---- */

static void models_without_a_placement_get_one_that_has_experts(void **state)
{
	for (int i = 0; i < 6; i++) {
		bool panels = i % 2;
		struct tiny_config c = any_config(archs[i / 2], panels);
		struct llm_options o = options_of(LLM_PLACE_AUTO, LLM_WEIGHTS_AUTO, 0);
		struct llm_engine *engine;
		struct tiny_model t;

		c.n_ff += panels ? 0 : c.n_ff % 64 == 0;
		tiny_create(&t, &c, random_u64(&seed_state));
		o.model = tiny_write(&t);
		engine = open_engine(&o);
		assert_int_equal(llm_engine_info(engine)->choices.placement,
				 panels ? LLM_PLACE_FINE : LLM_PLACE_CPU);
		assert_true(llm_engine_info(engine)->n_params_active <=
			    llm_engine_info(engine)->n_params);
		llm_engine_close(engine);
		tiny_free(&t);
	}
}

static void expect_refused(const struct llm_options *o, int err, const char *what)
{
	struct llm_engine *engine;

	assert_int_equal(llm_engine_open(o, &engine), err);
	if (!strstr(llm_error(), what))
		fail_msg("'%s' does not say '%s'", llm_error(), what);
}

static void placements_that_have_no_experts_are_refused(void **state)
{
	static const enum llm_placement others[] = { LLM_PLACE_NPU, LLM_PLACE_GPU, LLM_PLACE_LAYER,
						     LLM_PLACE_LINEAR };
	struct tiny_config c = any_config("qwen3moe", true);
	struct tiny_model t;

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct llm_options o = options_of(others[i], LLM_WEIGHTS_AUTO, 0);

		o.model = t.path;
		o.gpu = LLM_GPU_HOST;
		expect_refused(&o, -ENOTSUP, "choose fine, or cpu");
	}
	tiny_free(&t);
	c.n_ff = 96;
	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	expect_refused(
		&(struct llm_options){ .model = t.path, .choices.placement = LLM_PLACE_FINE },
		-ENOTSUP, "choose placement cpu");
	tiny_free(&t);
}

/* Bytes that a token takes from a phone's memory, and bytes of weights that it reads here. */
static void token_bytes(unsigned int experts, double *dram, uint64_t *weights)
{
	struct tiny_config c = any_config("qwen3moe", true);
	struct llm_session_stats stats;
	struct tiny_model t;

	c.n_layer = 2;
	c.n_head_kv = 2;
	c.n_head = 4;
	c.head_dim = c.rot_dim = 32;
	c.n_embd = 128;
	c.n_ff = 128;
	c.n_vocab = 320;
	c.untied = true;
	c.n_expert = experts;
	c.n_expert_used = 3;
	tiny_create(&t, &c, 1);
	tiny_write(&t);
	for (int dry = 0; dry < 2; dry++) {
		struct llm_engine *engine = open_engine(&(struct llm_options){
			.model = t.path,
			.choices.placement = LLM_PLACE_FINE,
			.choices.weights = LLM_WEIGHTS_W8A8,
			.profile = dry ? "sd8gen3" : NULL,
			.dry_run = dry,
			.threads = 1,
			.device = { .transport = NPU_TRANSPORT_SIM, .threads = 1 } });
		struct llm_session *s = new_session(engine, 32);

		if (dry && llm_session_eval(s, NULL, 1))
			fail_msg("%s", llm_error());
		llm_session_stats(s, &stats);
		*dram = stats.virtual_clock.dram_bytes;
		if (!dry)
			*weights = llm_engine_info(engine)->token_bytes;
		llm_session_free(s);
		llm_engine_close(engine);
	}
	tiny_free(&t);
}

static void a_token_reads_its_own_experts_only(void **state)
{
	/* Gate, up and down of an expert, in two layers. */
	const double expert = 2 * 3 * 128 * 128;
	uint64_t few_weights, many_weights;
	double few, many;

	token_bytes(3, &few, &few_weights);
	token_bytes(60, &many, &many_weights);
	/* More experts are a longer router, of F16 on a phone. */
	assert_true(many > few && many < few + 2 * 57 * (128 * 2 + 16));
	assert_true(few > 3 * expert && few < 7 * expert);
	assert_true(fabs((double)many_weights - (double)few_weights) < expert / 2);
}

static void shapes_have_the_parameters_of_their_cards(void **state)
{
	static const struct {
		struct shape s;
		double all, active; /* in 10^9 */
	} cards[] = {
		/* Mixtral-8x7B-v0.1, Qwen1.5-MoE-A2.7B and Qwen3-30B-A3B */
		{ { .layers = 32,
		    .dim = 4096,
		    .heads = 32,
		    .kv_heads = 8,
		    .head_dim = 128,
		    .ffn = 14336,
		    .vocab = 32000,
		    .experts = 8,
		    .experts_used = 2,
		    .gated = true },
		  46.7,
		  12.9 },
		{ { .layers = 24,
		    .dim = 2048,
		    .heads = 16,
		    .kv_heads = 16,
		    .head_dim = 128,
		    .ffn = 1408,
		    .vocab = 151936,
		    .experts = 60,
		    .experts_used = 4,
		    .shared_ffn = 5632,
		    .gated = true,
		    .qkv_bias = true },
		  14.3,
		  2.7 },
		{ { .layers = 48,
		    .dim = 2048,
		    .heads = 32,
		    .kv_heads = 4,
		    .head_dim = 128,
		    .ffn = 768,
		    .vocab = 151936,
		    .experts = 128,
		    .experts_used = 8,
		    .gated = true },
		  30.5,
		  3.3 },
	};

	for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
		double all = (double)shape_params(&cards[i].s) / 1e9,
		       active = (double)shape_active_params(&cards[i].s) / 1e9;

		print_message("%.2fB.A%.2fB\n", all, active);
		assert_true(fabs(all - cards[i].all) < 0.06);
		assert_true(fabs(active - cards[i].active) < 0.06);
	}
}

/* ---- files ---- */

static const struct tiny_config plain = {
	.arch = "qwen2moe",
	.n_layer = 2,
	.n_embd = 64,
	.n_head = 4,
	.n_head_kv = 2,
	.head_dim = 16,
	.n_ff = 64,
	.n_vocab = 300,
	.n_ctx = 64,
	.rot_dim = 16,
	.bias = true,
	.eps = 1e-5,
	.freq_base = 10000,
	.rope_scale = 1,
	.n_expert = 4,
	.n_expert_used = 2,
	.n_ff_shared = 128,
};

static void expect_bad(struct tiny_model *t, int err, const char *what)
{
	const struct llm_options o = { .model = tiny_write(t), .choices.placement = LLM_PLACE_CPU };

	expect_refused(&o, err, what);
	tiny_free(t);
}

static void keys_that_do_not_fit_are_refused(void **state)
{
	static const struct {
		const char *key;
		double value;
		int err;
		const char *what;
	} bad[] = {
		{ ".expert_used_count", 5, -EINVAL, "is 5, not in 1..4" },
		{ ".expert_used_count", 0, -EINVAL, "is 0, not in 1..4" },
		{ ".expert_count", 0, -EINVAL, "expert_count is 0" },
		{ ".expert_count", 5000, -EINVAL, "expert_count is 5000" },
		{ ".expert_count", 3, -EINVAL, "blk.0.ffn_gate_exps.weight" },
		{ ".expert_feed_forward_length", 32, -EINVAL, "expected [64, 32, 4]" },
		{ ".expert_shared_feed_forward_length", 64, -EINVAL, "ffn_gate_shexp" },
		{ ".expert_gating_func", 2, -ENOTSUP, "expert_gating_func is set" },
		{ ".expert_group_count", 4, -ENOTSUP, "expert_group_count is set" },
		{ ".leading_dense_block_count", 1, -ENOTSUP, "leading_dense_block_count is set" },
		{ ".expert_weights_norm", 1, -EINVAL, "neither true nor false" },
	};
	struct tiny_model t;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		tiny_create(&t, &plain, random_u64(&seed_state));
		tiny_key(&t, bad[i].key, 'u', bad[i].value, NULL);
		expect_bad(&t, bad[i].err, bad[i].what);
	}
	tiny_create(&t, &plain, random_u64(&seed_state));
	tiny_drop_key(&t, ".expert_count");
	expect_bad(&t, -EINVAL, "no key qwen2moe.expert_count");
	tiny_create(&t, &plain, random_u64(&seed_state));
	tiny_key(&t, ".expert_weights_scale", 'f', -1, NULL);
	expect_bad(&t, -EINVAL, "expert_weights_scale is -1");
}

static void tensors_that_do_not_fit_are_refused(void **state)
{
	static const char *const names[] = {
		"ffn_gate_inp",	 "ffn_gate_exps",  "ffn_up_exps",
		"ffn_down_exps", "ffn_gate_shexp", "ffn_gate_inp_shexp"
	};
	struct tiny_model t;
	char name[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(name, sizeof(name), "blk.1.%s.weight", names[i]);
		tiny_create(&t, &plain, random_u64(&seed_state));
		tiny_drop_tensor(&t, name);
		expect_bad(&t, -EINVAL, name);
	}
	tiny_create(&t, &plain, random_u64(&seed_state));
	tiny_find(&t, "blk.0.ffn_up_exps.weight")->stack = 2;
	expect_bad(&t, -EINVAL, "expected [64, 64, 4]");
	tiny_create(&t, &plain, random_u64(&seed_state));
	tiny_find(&t, "blk.1.ffn_gate_inp.weight")->data[70] = NAN;
	expect_bad(&t, -EINVAL, "blk.1.ffn_gate_inp.weight holds a value that is not finite at 70");
	tiny_create(&t, &plain, random_u64(&seed_state));
	tiny_drop_tensor(&t, "blk.0.ffn_gate_exps.weight");
	tiny_add(&t, "blk.0.ffn_gate.0.weight", 64, 64, 0, 1);
	expect_bad(&t, -ENOTSUP, "convert the original model again");
	tiny_create(&t, &plain, random_u64(&seed_state));
	tiny_add(&t, "blk.0.exp_probs_b.bias", 0, 4, 0, 1);
	expect_bad(&t, -ENOTSUP, "blk.0.exp_probs_b.bias");
}

/* ---- other files of the same model ---- */

/* Quantises @in as @type to a file of a new name, @out. */
static void quantize(const char *in, enum llm_quantize_type type, const char *imatrix, char out[32])
{
	const struct llm_quantize_options o = {
		.in = in, .out = out, .type = type, .imatrix = imatrix
	};
	int fd;

	snprintf(out, 32, "/tmp/test_experts-XXXXXX");
	fd = mkstemp(out);
	assert_true(fd >= 0);
	close(fd);
	if (llm_quantize(&o, NULL))
		fail_msg("%s", llm_error());
}

static void packed_files_have_the_bits_of_the_original(void **state)
{
	static const struct {
		enum llm_quantize_type type;
		enum llm_weights weights;
	} types[] = { { LLM_QUANTIZE_W8A8, LLM_WEIGHTS_W8A8 },
		      { LLM_QUANTIZE_W4A8, LLM_WEIGHTS_W4A8 },
		      { LLM_QUANTIZE_NATIVE, LLM_WEIGHTS_NATIVE } };
	float original[1024], packed[1024];
	const int32_t ids[] = { 5, 9, 200, 17, 33, 64, 5, 9 };
	char path[32];

	for (size_t i = 0; i < 6; i++) {
		struct tiny_config c = any_config(archs[i % NR_ARCHS], true);
		struct llm_options o = options_of(LLM_PLACE_FINE, types[i / 2].weights, 0);
		struct tiny_model t;

		tiny_create(&t, &c, random_u64(&seed_state));
		o.model = tiny_write(&t);
		eval_steps(&o, ids, 8, 3, original, c.n_vocab);
		quantize(t.path, types[i / 2].type, NULL, path);
		o.model = path;
		o.choices.start = any(0, 1) ? LLM_START_COLD : LLM_START_WARM;
		eval_steps(&o, ids, 8, 5, packed, c.n_vocab);
		assert_memory_equal(original, packed, c.n_vocab * sizeof(*packed));
		unlink(path);
		tiny_free(&t);
	}
}

static struct gguf_file *open_file(const char *path)
{
	struct gguf_file *file;
	char line[256];

	if (gguf_open(path, &file, line, sizeof(line)))
		fail_msg("%s", line);
	return file;
}

/* A file of llama-imatrix for the stack "blk.0.ffn_up_exps.weight" [cols, .., n]. */
static void write_imatrix(char path[32], const float *sums, unsigned int cols, unsigned int n)
{
	const uint64_t dims[2] = { cols, n }, one[2] = { 1, n };
	struct image m = { 0 };
	float counts[MAX_EXPERTS];
	int fd;

	for (unsigned int e = 0; e < n; e++)
		counts[e] = 1;
	image_header(&m, 2, 1);
	image_key(&m, "general.type", 8);
	image_string(&m, "imatrix");
	image_tensor(&m, "blk.0.ffn_up_exps.weight.in_sum2", 2, dims, GGUF_F32, 0);
	image_tensor(&m, "blk.0.ffn_up_exps.weight.counts", 2, one, GGUF_F32,
		     (cols * n * sizeof(float) + 31) / 32 * 32);
	image_pad(&m, 32);
	image_put(&m, sums, cols * n * sizeof(float));
	image_pad(&m, 32);
	image_put(&m, counts, n * sizeof(float));
	snprintf(path, 32, "/tmp/test_experts-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, m.data, m.bytes) == (ssize_t)m.bytes);
	close(fd);
	free(m.data);
}

/* The stack's blocks are those of each expert alone with its own importance. */
static void each_expert_is_quantised_by_its_own_importance(void **state)
{
	enum { COLS = 256, ROWS = 64, N = 3 };
	struct tiny_config c = plain;
	float importance[N * COLS], spread[ROWS * COLS];
	const size_t bytes = (size_t)ROWS * 144;
	char imatrix[32], path[32];
	const struct gguf_tensor *t;
	struct gguf_file *file;
	struct tiny_model m;
	uint8_t want[ROWS * 144];

	c.n_embd = COLS;
	c.n_head = 16;
	c.n_expert = N;
	tiny_create(&m, &c, random_u64(&seed_state));
	for (size_t i = 0; i < N * COLS; i++)
		importance[i] = (float)any(1, 1000) / (any(0, 3) ? 1000 : 1);
	write_imatrix(imatrix, importance, COLS, N);
	quantize(tiny_write(&m), LLM_QUANTIZE_Q4_K_S, imatrix, path);
	file = open_file(path);
	t = gguf_find_tensor(file, "blk.0.ffn_up_exps.weight");
	assert_true(t && t->type == GGUF_Q4_K && t->n_dims == 3 && t->dims[2] == N);
	for (size_t e = 0; e < N; e++) {
		for (size_t i = 0; i < ROWS * COLS; i++)
			spread[i] = importance[e * COLS + i % COLS];
		assert_true(gguf_quantize_searched(GGUF_Q4_K,
						   tiny_find(&m, "blk.0.ffn_up_exps.weight")->data +
							   e * ROWS * COLS,
						   spread, want, ROWS * COLS));
		assert_memory_equal((const uint8_t *)t->data + e * bytes, want, bytes);
	}
	assert_int_equal(gguf_find_tensor(file, "blk.0.ffn_gate_inp.weight")->type, GGUF_F32);
	gguf_close(file);
	unlink(path);
	unlink(imatrix);
	tiny_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_router_ranks_experts_as_a_sort_does),
		cmocka_unit_test(nans_of_the_router_come_last_and_spread),
		cmocka_unit_test(models_on_the_cpu_equal_double_precision),
		cmocka_unit_test(models_in_integers_equal_integer_arithmetic),
		cmocka_unit_test(models_with_outliers_and_16_bits_equal_theirs),
		cmocka_unit_test(rows_do_not_depend_on_those_beside_them),
		cmocka_unit_test(models_without_a_placement_get_one_that_has_experts),
		cmocka_unit_test(placements_that_have_no_experts_are_refused),
		cmocka_unit_test(a_token_reads_its_own_experts_only),
		cmocka_unit_test(shapes_have_the_parameters_of_their_cards),
		cmocka_unit_test(keys_that_do_not_fit_are_refused),
		cmocka_unit_test(tensors_that_do_not_fit_are_refused),
		cmocka_unit_test(packed_files_have_the_bits_of_the_original),
		cmocka_unit_test(each_expert_is_quantised_by_its_own_importance),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
