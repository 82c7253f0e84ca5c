// SPDX-License-Identifier: MIT
/*
 * Models of every architecture compared with a forward pass in double precision, and files that are
 * no models.
 *
 * Random shapes and weights; TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <time.h>
#include <cmocka.h>

#include "llm.h"
#include "tiny_model.h"

static uint64_t seed;

/* Error of float32 relative to double, over up to three layers of random weights. */
#define BOUND 1e-5
/*
 * The bound also holds for INT8 if both round every activation to the same step. If the exact value
 * is nearer to a tie than float32's error (in steps: a few units of 2^-24 of up to 127), both
 * neighbours are right; the test then draws another case.
 */
#define TIE 1e-4
/*
 * With 16 bits a step is 2^-15 of the row's greatest value, and float32's error some
 * thousandths of a step, so some values of every row are rounded differently. With 8 bits
 * instead, errors would be above 1e-3.
 */
#define BOUND_16 5e-4

static unsigned int random_in(uint64_t *state, unsigned int min, unsigned int max)
{
	return min + (unsigned int)(random_u64(state) % (max - min + 1));
}

static struct tiny_config random_config(const char *arch, uint64_t *state)
{
	struct tiny_config c = { .arch = arch, .n_ctx = 128, .eps = 1e-5, .rope_scale = 1 };

	c.n_layer = random_in(state, 1, 3);
	c.n_head_kv = random_in(state, 1, 3);
	c.n_head = c.n_head_kv * random_in(state, 1, 4);
	c.head_dim = 2 * random_in(state, 2, 20);
	c.n_embd = strcmp(arch, "qwen3") ? 0 : 16 * random_in(state, 1, 8);
	if (!c.n_embd) {
		/* The NPU needs a multiple of 16. */
		c.head_dim = 16 * random_in(state, 1, 2);
		c.n_embd = c.n_head * c.head_dim;
	}
	c.rot_dim = c.head_dim;
	c.n_ff = random_in(state, 5, 200);
	c.n_vocab = random_in(state, 259, 400);
	c.freq_base = random_in(state, 0, 1) ? 10000 : 1000000;
	c.bias = !strcmp(arch, "qwen2");
	c.head_norms = !strcmp(arch, "qwen3") || !strcmp(arch, "gemma3");
	c.untied = random_in(state, 0, 1);
	c.n_session = 64;
	if (!strcmp(arch, "qwen2") && random_in(state, 0, 1)) {
		c.yarn = 4;
		c.n_ctx_orig = 32;
	}
	if (!strcmp(arch, "phi3") && random_in(state, 0, 1)) {
		c.longrope = 1.25;
		c.n_ctx_orig = 32 * random_in(state, 1, 2);
	}
	if (tiny_arch_of(arch)->layer_norm) {
		c.bias = random_in(state, 0, 1);
		c.all_biases = random_in(state, 0, 1);
		c.rot_dim = c.head_dim / 2;
	}
	if (tiny_arch_of(arch)->window_step)
		c.window = random_in(state, 1, 20);
	if (tiny_arch_of(arch)->no_rope_step)
		c.n_layer = random_in(state, 3, 5);
	if (!strcmp(arch, "llama")) {
		c.bias = random_in(state, 0, 1);
		c.rope_factors = random_in(state, 0, 1);
		c.rope_scale = random_in(state, 0, 1) ? 1 : 2.5;
		c.rot_dim = random_in(state, 0, 1) ? c.head_dim : c.head_dim / 2;
	}
	return c;
}

struct gathered {
	float *logits;
	size_t n_vocab, seen;
};

static void gather(void *ud, size_t i, const float *logits)
{
	struct gathered *g = ud;

	assert_int_equal(i, g->seen);
	memcpy(g->logits + g->seen++ * g->n_vocab, logits, g->n_vocab * sizeof(*logits));
}

static struct llm_engine *open_model(const char *path, enum llm_placement placement,
				     enum llm_weights weights, enum llm_activations activations,
				     unsigned int threads, unsigned int chunk)
{
	struct llm_options opts = { .model = path,
				    .choices.placement = placement,
				    .choices.weights = weights,
				    .choices.activations = activations,
				    .choices.kv = LLM_KV_F32,
				    .threads = threads,
				    .chunk = chunk };
	struct llm_engine *engine;

	opts.device.transport = NPU_TRANSPORT_SIM;
	opts.device.threads = 2;
	if (llm_engine_open(&opts, &engine))
		fail_msg("%s", llm_error());
	return engine;
}

/* Compares the engine's logits of all @n tokens with @want. */
static void check_engine(struct tiny_model *t, enum llm_placement placement,
			 enum llm_weights weights, enum llm_activations activations,
			 const int32_t *ids, unsigned int n, unsigned int threads,
			 unsigned int chunk, const double *want)
{
	const struct tiny_config *c = &t->c;
	struct gathered g = { .n_vocab = c->n_vocab };
	struct llm_engine *engine =
		open_model(tiny_write(t), placement, weights, activations, threads, chunk);
	struct llm_session *s;
	double error;

	g.logits = malloc((size_t)n * c->n_vocab * sizeof(float));
	if (llm_session_create(engine, c->n_session, &s) ||
	    llm_session_eval_all(s, ids, n, gather, &g))
		fail_msg("%s", llm_error());
	assert_int_equal(g.seen, n);
	error = tiny_error(g.logits, want, (size_t)n * c->n_vocab);
	print_message(
		"%s %s %s %s: %u blocks, %u/%u heads of %u, %u -> %u, %u tokens in chunks of %u: "
		"error %.2g\n",
		c->arch, llm_choice_name(LLM_CHOICE_PLACEMENT, placement),
		llm_choice_name(LLM_CHOICE_WEIGHTS, weights),
		llm_choice_name(LLM_CHOICE_ACTIVATIONS, activations), c->n_layer, c->n_head,
		c->n_head_kv, c->head_dim, c->n_embd, c->n_ff, n, chunk, error);
	assert_true(error < (weights == LLM_WEIGHTS_F32 || activations == LLM_ACTIVATIONS_INT8
				     ? BOUND
				     : BOUND_16));
	/* The last token's logits are also those of plain evaluation. */
	assert_memory_equal(llm_session_logits(s), g.logits + (size_t)(n - 1) * c->n_vocab,
			    c->n_vocab * sizeof(float));
	llm_session_free(s);
	llm_engine_close(engine);
	free(g.logits);
}

/*
 * False: the case is ambiguous. 16 bits leave errors that are larger than TIE, so 8 bits in a layer
 * after them would nearly always be ambiguous.
 */
static bool check_model(struct tiny_config *c, enum llm_placement placement,
			enum llm_weights weights, uint64_t *state)
{
	unsigned int n = random_in(state, 2, 40), chunk = random_in(state, 2, 24),
		     threads = random_in(state, 1, 3);
	enum llm_activations activations;
	double *want = malloc((size_t)n * c->n_vocab * sizeof(*want));
	bool clear;
	struct tiny_model t;
	int32_t ids[64];

	/* Static ones need a calibrated file. */
	do
		activations =
			random_in(state, 0, llm_choice_info(LLM_CHOICE_ACTIVATIONS)->n_values - 1);
	while (llm_activations_static(activations));
	if (activations == LLM_ACTIVATIONS_MIXED && weights != LLM_WEIGHTS_F32)
		c->n_layer = 1;
	tiny_create(&t, c, random_u64(state));
	for (unsigned int i = 0; i < n; i++)
		ids[i] = (int32_t)random_in(state, 0, c->n_vocab - 1);
	clear = tiny_forward(&t, ids, n, weights, activations, want) > TIE ||
		weights == LLM_WEIGHTS_F32;
	if (clear)
		check_engine(&t, placement, weights, activations, ids, n, threads, chunk, want);
	tiny_free(&t);
	free(want);
	return clear;
}

static void check_arch(const char *arch, enum llm_placement placement, enum llm_weights weights,
		       int models)
{
	uint64_t state = seed ^ (uint64_t)placement << 32 ^ (uint64_t)weights << 40 ^
			 (uint64_t)arch[strlen(arch) - 1];

	for (int i = 0, drawn = 0; i < models; drawn++) {
		struct tiny_config c = random_config(arch, &state);

		/* Rows that are a multiple of a group of 4 bits, and some that are not. */
		if (llm_weights_4bit(weights) && drawn % 4) {
			c.n_ff = (c.n_ff + 31) / 32 * 32;
			c.n_embd = strcmp(arch, "qwen3") ? (c.n_embd + 31) / 32 * 32 : c.n_embd;
		}
		assert_true(drawn < 100 * models);
		i += check_model(&c, placement, weights, &state);
	}
}

static void test_llama_on_the_cpu_equals_double_precision(void **s)
{
	check_arch("llama", LLM_PLACE_CPU, LLM_WEIGHTS_F32, 8);
}

static void test_qwen2_on_the_cpu_equals_double_precision(void **s)
{
	check_arch("qwen2", LLM_PLACE_CPU, LLM_WEIGHTS_F32, 6);
}

static void test_qwen3_on_the_cpu_equals_double_precision(void **s)
{
	check_arch("qwen3", LLM_PLACE_CPU, LLM_WEIGHTS_F32, 6);
}

/* Architectures whose features the three above do not have. */
static const char *const others[] = { "internlm2", "granite",  "smollm3",    "olmo2",
				      "gemma",	   "gemma2",   "gemma3",     "phi3",
				      "phi2",	   "stablelm", "starcoder2", "phonelm" };
#define NR_OTHERS (sizeof(others) / sizeof(others[0]))

static void test_other_architectures_on_the_cpu_equal_double_precision(void **s)
{
	for (size_t i = 0; i < NR_OTHERS; i++)
		check_arch(others[i], LLM_PLACE_CPU, LLM_WEIGHTS_F32, 4);
}

static void test_other_architectures_in_w8a8_equal_integer_arithmetic(void **s)
{
	for (size_t i = 0; i < NR_OTHERS; i++) {
		check_arch(others[i], LLM_PLACE_FINE, LLM_WEIGHTS_W8A8, 2);
		check_arch(others[i], LLM_PLACE_NPU, LLM_WEIGHTS_W8A8, 2);
	}
}

static void test_llama_in_w8a8_equals_integer_arithmetic(void **s)
{
	check_arch("llama", LLM_PLACE_FINE, LLM_WEIGHTS_W8A8, 4);
	check_arch("llama", LLM_PLACE_NPU, LLM_WEIGHTS_W8A8, 4);
}

static void test_qwen2_in_w8a8_equals_integer_arithmetic(void **s)
{
	check_arch("qwen2", LLM_PLACE_FINE, LLM_WEIGHTS_W8A8, 3);
	check_arch("qwen2", LLM_PLACE_NPU, LLM_WEIGHTS_W8A8, 3);
}

static void test_qwen3_in_w8a8_equals_integer_arithmetic(void **s)
{
	check_arch("qwen3", LLM_PLACE_FINE, LLM_WEIGHTS_W8A8, 3);
	check_arch("qwen3", LLM_PLACE_NPU, LLM_WEIGHTS_W8A8, 3);
}

static void test_w4a8_equals_integer_arithmetic_in_groups(void **s)
{
	check_arch("llama", LLM_PLACE_FINE, LLM_WEIGHTS_W4A8, 3);
	check_arch("qwen2", LLM_PLACE_NPU, LLM_WEIGHTS_W4A8, 3);
	check_arch("qwen3", LLM_PLACE_NPU, LLM_WEIGHTS_W4A8, 2);
}

static void test_w4a16_equals_float_arithmetic(void **s)
{
	check_arch("llama", LLM_PLACE_NPU, LLM_WEIGHTS_W4A16, 3);
	check_arch("qwen2", LLM_PLACE_FINE, LLM_WEIGHTS_W4A16, 3);
	check_arch("qwen3", LLM_PLACE_FINE, LLM_WEIGHTS_W4A16, 2);
}

static void ignore(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
		   unsigned int rows, unsigned int cols, const float *data)
{
}

/* The logits of a prompt of @n tokens, evaluated operator by operator if it is observed. */
static void observed_logits(const struct llm_options *o, bool observed, float *logits, size_t n)
{
	static const int32_t ids[] = { 5, 9, 200, 17, 33, 64, 5, 9 };
	struct llm_engine *engine;
	struct llm_session *s;

	if (llm_engine_open(o, &engine) || llm_session_create(engine, 32, &s))
		fail_msg("%s", llm_error());
	if (observed)
		llm_session_observe(s, ignore, NULL);
	if (llm_session_eval(s, ids, sizeof(ids) / sizeof(ids[0])))
		fail_msg("%s", llm_error());
	memcpy(logits, llm_session_logits(s), n * sizeof(*logits));
	llm_session_free(s);
	llm_engine_close(engine);
}

/* Of layers without RoPE and of norms behind operators, single operators are nothing. */
static void test_observed_models_compute_the_same(void **state)
{
	static const char *const archs[] = { "smollm3", "olmo2", "gemma3", "phi2" };
	static const struct {
		enum llm_placement placement;
		enum llm_start start;
	} ways[] = { { LLM_PLACE_LINEAR, 0 }, { LLM_PLACE_NPU, LLM_START_COLD } };
	float plain_ones[300], seen[300];

	for (size_t i = 0; i < 8; i++) {
		struct tiny_config c = {
			.arch = archs[i / 2],
			.n_layer = 4,
			.n_embd = 64,
			.n_head = 4,
			.n_head_kv = 2,
			.head_dim = 16,
			.n_ff = 96,
			.n_vocab = 300,
			.n_ctx = 64,
			.rot_dim = 16,
			.head_norms = !strcmp(archs[i / 2], "gemma3"),
			.eps = 1e-5,
			.freq_base = 10000,
			.rope_scale = 1,
		};
		struct tiny_model t;
		struct llm_options o = { .choices = { .placement = ways[i % 2].placement,
						      .start = ways[i % 2].start,
						      .weights = LLM_WEIGHTS_W8A8 },
					 .threads = 2,
					 .device = { .transport = NPU_TRANSPORT_SIM } };

		tiny_create(&t, &c, seed);
		o.model = tiny_write(&t);
		observed_logits(&o, false, plain_ones, c.n_vocab);
		observed_logits(&o, true, seen, c.n_vocab);
		assert_memory_equal(plain_ones, seen, sizeof(seen));
		tiny_free(&t);
	}
}

/* ---- files that are no models ---------------------------------------------------------------- */

static const struct tiny_config plain = {
	.arch = "llama",
	.n_layer = 2,
	.n_embd = 32,
	.n_head = 4,
	.n_head_kv = 2,
	.head_dim = 8,
	.n_ff = 48,
	.n_vocab = 259,
	.n_ctx = 64,
	.rot_dim = 8,
	.eps = 1e-5,
	.freq_base = 10000,
	.rope_scale = 1,
};

/* Opening fails with @err and a line with both words. */
static void expect_refusal(struct tiny_model *t, int err, const char *word, const char *word2)
{
	struct llm_options opts = { .model = tiny_write(t),
				    .choices.placement = LLM_PLACE_CPU,
				    .choices.kv = LLM_KV_F32,
				    .threads = 1 };
	struct llm_engine *engine = (struct llm_engine *)1;
	int got = llm_engine_open(&opts, &engine);

	if (got != err || !strstr(llm_error(), word) || !strstr(llm_error(), word2))
		fail_msg("expected %d with '%s' and '%s', got %d: %s", err, word, word2, got,
			 got ? llm_error() : "");
	assert_null(engine);
	assert_null(strchr(llm_error(), '\n'));
	tiny_free(t);
}

static void test_absurd_hyperparameters_are_refused_by_name(void **s)
{
	static const struct {
		const char *key;
		char kind;
		double value;
		const char *word;
	} bad[] = {
		{ ".block_count", 'u', 0, "block_count" },
		{ ".block_count", 'u', 2147483648.0, "block_count" },
		{ ".block_count", 's', 0, "block_count" },
		{ ".embedding_length", 'u', 0, "embedding_length" },
		{ ".embedding_length", 'u', 4294967295.0, "embedding_length" },
		{ ".embedding_length", 'u', 64, "token_embd.weight" },
		{ ".feed_forward_length", 'u', 0, "feed_forward_length" },
		{ ".feed_forward_length", 'u', 47, "ffn_gate" },
		{ ".context_length", 'u', 0, "context_length" },
		{ ".attention.head_count", 'u', 0, "head_count" },
		{ ".attention.head_count", 'u', 3, "heads" },
		{ ".attention.head_count", 'u', 4000000000.0, "head_count" },
		{ ".attention.head_count_kv", 'u', 0, "head_count_kv" },
		{ ".attention.head_count_kv", 'u', 3, "heads" },
		{ ".attention.head_count_kv", 'u', 4, "attn_k" },
		{ ".attention.key_length", 'u', 0, "key_length" },
		{ ".attention.key_length", 'u', 16, "attn_q" },
		{ ".attention.key_length", 'u', 4000000000.0, "key_length" },
		{ ".attention.layer_norm_rms_epsilon", 'f', NAN, "epsilon" },
		{ ".attention.layer_norm_rms_epsilon", 'f', -1, "epsilon" },
		{ ".attention.layer_norm_rms_epsilon", 'f', INFINITY, "epsilon" },
		{ ".rope.freq_base", 'f', 0, "freq_base" },
		{ ".rope.freq_base", 'f', NAN, "freq_base" },
		{ ".rope.dimension_count", 'u', 0, "dimension_count" },
		{ ".rope.dimension_count", 'u', 7, "dimension_count" },
		{ ".rope.dimension_count", 'u', 10, "dimension_count" },
		{ ".rope.scale_linear", 'f', 0, "scale_linear" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tiny_model t;

		tiny_create(&t, &plain, seed);
		tiny_key(&t, bad[i].key, bad[i].kind, bad[i].value, "text");
		expect_refusal(&t, -EINVAL, bad[i].word, t.path);
	}
}

static void test_missing_keys_are_named(void **s)
{
	static const char *const keys[] = {
		".block_count",	   ".embedding_length",	    ".feed_forward_length",
		".context_length", ".attention.head_count", ".attention.layer_norm_rms_epsilon"
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct tiny_model t;

		tiny_create(&t, &plain, seed);
		tiny_drop_key(&t, keys[i]);
		expect_refusal(&t, -EINVAL, "no key", keys[i]);
	}
}

static void test_features_that_would_change_results_are_refused(void **s)
{
	static const struct {
		const char *key;
		char kind;
		double value;
		const char *string;
	} unknown[] = {
		{ ".expert_group_count", 'u', 8, NULL },
		{ ".attention.value_length", 'u', 4, NULL },
		{ ".attn_logit_softcapping", 'f', 50, NULL },
		{ ".final_logit_softcapping", 'f', 30, NULL },
		{ ".logit_scale", 'f', 0.5, NULL },
		{ ".rope.scaling.type", 's', 0, "dynamic" },
	};
	struct tiny_model t;

	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		tiny_create(&t, &plain, seed);
		tiny_key(&t, unknown[i].key, unknown[i].kind, unknown[i].value, unknown[i].string);
		expect_refusal(&t, -ENOTSUP, i == 1 ? "values of 4" : unknown[i].key, "");
	}
	tiny_create(&t, &plain, seed);
	tiny_key(&t, "general.architecture", 's', 0, "mamba");
	expect_refusal(&t, -ENOTSUP, "mamba", "llama, qwen2, qwen3, ");
	tiny_create(&t, &plain, seed);
	tiny_add(&t, "blk.1.ffn_gate_exps.weight", 4, 32, 0, 1);
	expect_refusal(&t, -ENOTSUP, "blk.1.ffn_gate_exps.weight", "llama");
	tiny_create(&t, &plain, seed);
	tiny_add(&t, "blk.2.attn_q.weight", 32, 32, 0, 1);
	expect_refusal(&t, -ENOTSUP, "blk.2.attn_q.weight", "2 layers");
	tiny_create(&t, &plain, seed);
	tiny_add(&t, "blk.0.attn_q_norm.weight", 0, 8, 0, 1);
	expect_refusal(&t, -ENOTSUP, "attn_q_norm", "llama");
}

static void test_every_missing_tensor_is_named_with_its_shape(void **s)
{
	struct tiny_model t;

	tiny_create(&t, &plain, seed);
	for (unsigned int i = 0, n = t.n_tensors; i < n; i++) {
		char name[64];

		snprintf(name, sizeof(name), "%s", t.tensors[i].name);
		tiny_free(&t);
		tiny_create(&t, &plain, seed);
		tiny_drop_tensor(&t, name);
		expect_refusal(&t, -EINVAL, name, "[");
		tiny_create(&t, &plain, seed);
	}
	tiny_free(&t);
}

/* The files of all other architectures, small. */
static struct tiny_config config_of(const char *arch)
{
	struct tiny_config c = plain;

	c.arch = arch;
	c.head_norms = !strcmp(arch, "qwen3") || !strcmp(arch, "gemma3");
	c.bias = !strcmp(arch, "qwen2");
	c.untied = true;
	return c;
}

/* Biases of the output, and an FFN's norm where it may be beside attention. */
static bool may_be_absent(const char *arch, const char *name)
{
	return !strcmp(name, "output.weight") || !strcmp(name, "output.bias") ||
	       (!strcmp(arch, "stablelm") && strstr(name, "ffn_norm"));
}

static void test_missing_tensors_of_other_architectures_are_named(void **s)
{
	for (size_t a = 0; a < NR_OTHERS; a++) {
		struct tiny_config c = config_of(others[a]);
		struct tiny_model t;
		unsigned int n;

		tiny_create(&t, &c, seed);
		n = t.n_tensors;
		tiny_free(&t);
		for (unsigned int i = 0; i < n; i++) {
			char name[64];

			tiny_create(&t, &c, seed);
			snprintf(name, sizeof(name), "%s", t.tensors[i].name);
			if (may_be_absent(others[a], name)) {
				tiny_free(&t);
				continue;
			}
			tiny_drop_tensor(&t, name);
			expect_refusal(&t, -EINVAL, name, "[");
		}
	}
}

static void test_tensors_of_another_architecture_are_refused(void **s)
{
	static const struct {
		const char *arch, *tensor;
		unsigned int n;
	} more[] = {
		{ "llama", "blk.0.attn_norm.bias", 32 },
		{ "llama", "blk.1.post_attention_norm.weight", 32 },
		{ "olmo2", "blk.0.attn_norm.weight", 32 },
		{ "granite", "blk.0.attn_q_norm.weight", 8 },
		{ "phi2", "blk.0.ffn_norm.weight", 32 },
		{ "starcoder2", "output.bias", 259 },
	};

	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		struct tiny_config c = config_of(more[i].arch);
		struct tiny_model t;

		tiny_create(&t, &c, seed);
		tiny_add(&t, more[i].tensor, 0, more[i].n, 0, 1);
		expect_refusal(&t, -ENOTSUP, more[i].tensor, more[i].arch);
	}
}

static void test_one_layer_beside_attention_and_one_behind_are_refused(void **s)
{
	struct tiny_config c = config_of("stablelm");
	struct tiny_model t;

	tiny_create(&t, &c, seed);
	tiny_drop_tensor(&t, "blk.1.ffn_norm.weight");
	tiny_drop_tensor(&t, "blk.1.ffn_norm.bias");
	expect_refusal(&t, -EINVAL, "blk.1.ffn_norm", "only one of them");
}

static void test_constants_out_of_range_are_refused(void **s)
{
	static const struct {
		const char *arch, *key;
		double value;
	} bad[] = {
		{ "granite", ".embedding_scale", 0 },
		{ "granite", ".residual_scale", -1 },
		{ "granite", ".attention.scale", NAN },
		{ "granite", ".logit_scale", INFINITY },
		{ "gemma2", ".attn_logit_softcapping", -50 },
		{ "gemma2", ".final_logit_softcapping", NAN },
		{ "phi3", ".rope.scaling.attn_factor", 0 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tiny_config c = config_of(bad[i].arch);
		struct tiny_model t;

		tiny_create(&t, &c, seed);
		tiny_key(&t, bad[i].key, 'f', bad[i].value, NULL);
		expect_refusal(&t, -EINVAL, bad[i].key, "not in");
	}
}

static void test_extensions_of_contexts_that_say_too_little_are_refused(void **s)
{
	struct tiny_config c = config_of("qwen3");
	struct tiny_model t;

	tiny_create(&t, &c, seed);
	tiny_key(&t, ".rope.scaling.type", 's', 0, "yarn");
	expect_refusal(&t, -EINVAL, ".rope.scaling.factor", "no key");
	/* What RoPE leaves as it is would have to be scaled apart. */
	c.rot_dim = c.head_dim / 2;
	tiny_create(&t, &c, seed);
	tiny_key(&t, ".rope.scaling.attn_factor", 'f', 1.2, NULL);
	expect_refusal(&t, -ENOTSUP, "RoPE scales 4 of a head's 8 values by 1.2", "");
}

static uint64_t covered_by(const struct tiny_config *c)
{
	struct llm_options opts = { .choices.placement = LLM_PLACE_CPU, .threads = 1 };
	struct llm_engine *engine;
	struct tiny_model t;
	uint64_t covered;

	tiny_create(&t, c, seed);
	opts.model = tiny_write(&t);
	if (llm_engine_open(&opts, &engine))
		fail_msg("%s", llm_error());
	covered = llm_engine_info(engine)->n_ctx_covered;
	llm_engine_close(engine);
	tiny_free(&t);
	return covered;
}

static void test_extensions_of_rope_cover_more_than_training(void **s)
{
	struct tiny_config c = config_of("qwen2");

	c.n_ctx = 64;
	assert_int_equal(covered_by(&c), 64);
	c.rope_scale = 3;
	assert_int_equal(covered_by(&c), 192);
	c.rope_scale = 1;
	c.yarn = 4;
	c.n_ctx_orig = 32;
	assert_int_equal(covered_by(&c), 128);
	/* The file's context may be the extended one. */
	c.n_ctx = 200;
	assert_int_equal(covered_by(&c), 200);
}

static void test_every_tensor_of_a_wrong_shape_is_named_with_both_shapes(void **s)
{
	struct tiny_model t;

	tiny_create(&t, &plain, seed);
	for (unsigned int i = 0; i < t.n_tensors; i++) {
		for (int d = 0; d < 2; d++) {
			char name[64];

			snprintf(name, sizeof(name), "%s", t.tensors[i].name);
			/* More rows of token_embd are no error, but a larger vocabulary. */
			if (d == 1 && !strcmp(name, "token_embd.weight"))
				continue;
			tiny_drop_tensor(&t, name);
			tiny_add(&t, name, plain.n_embd + 17 * (d == 1),
				 plain.n_embd + 15 * (d == 0), 0, 1);
			expect_refusal(&t, -EINVAL, name, "expected [");
			tiny_create(&t, &plain, seed);
		}
	}
	tiny_free(&t);
}

static void test_a_bias_in_one_block_only_is_refused(void **s)
{
	struct tiny_model t;

	tiny_create(&t, &plain, seed);
	tiny_add(&t, "blk.1.attn_v.bias", 0, 16, 0, 1);
	expect_refusal(&t, -EINVAL, "blk.1.attn_v", "bias");
}

static void test_a_vocabulary_larger_than_the_embedding_is_refused(void **s)
{
	struct tiny_model t;

	tiny_create(&t, &plain, seed);
	t.c.n_vocab++;
	expect_refusal(&t, -EINVAL, "260", "token_embd.weight");
}

/* A block of Q8_0 must not contain values of two heads. */
static void test_heads_that_do_not_fill_blocks_have_no_q8_0_cache(void **s)
{
	struct llm_options opts = { .choices.placement = LLM_PLACE_CPU,
				    .choices.kv = LLM_KV_Q8_0,
				    .threads = 1 };
	struct llm_engine *engine;
	struct tiny_model t;

	tiny_create(&t, &plain, 7);
	opts.model = tiny_write(&t);
	assert_int_equal(llm_engine_open(&opts, &engine), -EINVAL);
	assert_non_null(strstr(llm_error(),
			       "heads of 8 values; a KV cache of q8_0 needs a multiple of 32"));
	tiny_free(&t);
}

static void test_weights_that_are_not_finite_are_refused_where_they_are_read(void **s)
{
	struct llm_options opts = { .choices.placement = LLM_PLACE_NPU, .threads = 2 };
	struct llm_engine *engine;
	struct tiny_model t;

	tiny_create(&t, &plain, seed);
	tiny_find(&t, "blk.1.ffn_norm.weight")->data[3] = INFINITY;
	expect_refusal(&t, -EINVAL, "blk.1.ffn_norm.weight", "finite");
	tiny_create(&t, &plain, seed);
	tiny_find(&t, "blk.0.ffn_down.weight")->data[48 * 5 + 7] = NAN;
	opts.model = tiny_write(&t);
	opts.device.transport = NPU_TRANSPORT_SIM;
	assert_int_equal(llm_engine_open(&opts, &engine), -EINVAL);
	assert_non_null(strstr(llm_error(), "row 5 of tensor blk.0.ffn_down.weight"));
	tiny_free(&t);
}

static bool memory_is_promised_without_limit(void)
{
	FILE *f = fopen("/proc/sys/vm/overcommit_memory", "r");
	int mode = f ? fgetc(f) : '0';

	if (f)
		fclose(f);
	return mode == '1';
}

static void test_a_cache_too_large_for_memory_is_refused_with_its_bytes(void **s)
{
	/* 4 layers of K and V, 8192 floats per token each: 4 TB in all. */
	struct tiny_config c = plain;
	struct llm_engine *engine;
	struct llm_session *session = (struct llm_session *)1;
	struct tiny_model t;

	if (memory_is_promised_without_limit()) {
		print_message("vm.overcommit_memory is 1\n");
		skip();
	}
	c.arch = "qwen3";
	c.n_layer = 4;
	c.n_head = c.n_head_kv = 8;
	c.head_dim = c.rot_dim = 1024;
	c.head_norms = true;
	tiny_create(&t, &c, seed);
	engine = open_model(tiny_write(&t), LLM_PLACE_CPU, LLM_WEIGHTS_F32,
			    LLM_ACTIVATIONS_ROW_OUTLIERS, 1, 64);
	assert_int_equal(llm_session_create(engine, (1u << 24) - 64, &session), -ENOMEM);
	assert_null(session);
	assert_non_null(strstr(llm_error(), "4398029733888 bytes"));
	llm_engine_close(engine);
	tiny_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_llama_on_the_cpu_equals_double_precision),
		cmocka_unit_test(test_qwen2_on_the_cpu_equals_double_precision),
		cmocka_unit_test(test_qwen3_on_the_cpu_equals_double_precision),
		cmocka_unit_test(test_other_architectures_on_the_cpu_equal_double_precision),
		cmocka_unit_test(test_other_architectures_in_w8a8_equal_integer_arithmetic),
		cmocka_unit_test(test_llama_in_w8a8_equals_integer_arithmetic),
		cmocka_unit_test(test_qwen2_in_w8a8_equals_integer_arithmetic),
		cmocka_unit_test(test_qwen3_in_w8a8_equals_integer_arithmetic),
		cmocka_unit_test(test_observed_models_compute_the_same),
		cmocka_unit_test(test_w4a8_equals_integer_arithmetic_in_groups),
		cmocka_unit_test(test_w4a16_equals_float_arithmetic),
		cmocka_unit_test(test_absurd_hyperparameters_are_refused_by_name),
		cmocka_unit_test(test_missing_keys_are_named),
		cmocka_unit_test(test_features_that_would_change_results_are_refused),
		cmocka_unit_test(test_every_missing_tensor_is_named_with_its_shape),
		cmocka_unit_test(test_missing_tensors_of_other_architectures_are_named),
		cmocka_unit_test(test_tensors_of_another_architecture_are_refused),
		cmocka_unit_test(test_one_layer_beside_attention_and_one_behind_are_refused),
		cmocka_unit_test(test_constants_out_of_range_are_refused),
		cmocka_unit_test(test_extensions_of_contexts_that_say_too_little_are_refused),
		cmocka_unit_test(test_every_tensor_of_a_wrong_shape_is_named_with_both_shapes),
		cmocka_unit_test(test_a_bias_in_one_block_only_is_refused),
		cmocka_unit_test(test_extensions_of_rope_cover_more_than_training),
		cmocka_unit_test(test_a_vocabulary_larger_than_the_embedding_is_refused),
		cmocka_unit_test(test_a_cache_too_large_for_memory_is_refused_with_its_bytes),
		cmocka_unit_test(test_heads_that_do_not_fill_blocks_have_no_q8_0_cache),
		cmocka_unit_test(test_weights_that_are_not_finite_are_refused_where_they_are_read),
	};
	const char *given = getenv("TEST_SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u | 1;
	print_message("TEST_SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
