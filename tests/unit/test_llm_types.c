// SPDX-License-Identifier: MIT
/*
 * Models whose matrices are of any type that a file may have: the CPU's logits are those of the
 * widened values, and the NPU's those of the panels that the types become.
 *
 * Random weights; TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "gguf_recast.h"
#include "llm_quantize.h"
#include "tiny_blocks.h"

#define PROMPT 11
#define TOKENS 14 /* the last ones are decoded */
#define N_VOCAB 320

static uint64_t seed;

static const enum gguf_type types[] = {
	GGUF_Q4_0,    GGUF_Q4_1,   GGUF_Q5_0,  GGUF_Q5_1,    GGUF_Q8_0,	 GGUF_Q2_K,
	GGUF_Q3_K,    GGUF_Q4_K,   GGUF_Q5_K,  GGUF_Q6_K,    GGUF_IQ1_S, GGUF_IQ1_M,
	GGUF_IQ2_XXS, GGUF_IQ2_XS, GGUF_IQ2_S, GGUF_IQ3_XXS, GGUF_IQ3_S, GGUF_IQ4_NL,
	GGUF_IQ4_XS,  GGUF_TQ1_0,  GGUF_TQ2_0, GGUF_MXFP4,
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static void create(struct tiny_model *t, unsigned int n_embd, uint64_t model_seed)
{
	const struct tiny_config c = {
		.arch = "llama",
		.n_layer = 1,
		.n_embd = n_embd,
		.n_head = 4,
		.n_head_kv = 2,
		.head_dim = n_embd / 4,
		.n_ff = 512,
		.n_vocab = N_VOCAB,
		.n_ctx = 64,
		.rot_dim = n_embd / 4,
		.eps = 1e-5,
		.freq_base = 10000,
		.rope_scale = 1,
	};

	tiny_create(t, &c, model_seed);
}

/* Blocks of @type for all matrices; their values keep the size that tiny_create() gave them. */
static void set_all(struct tiny_model *t, enum gguf_type type)
{
	for (unsigned int i = 0; i < t->n_tensors; i++) {
		struct tiny_tensor *tensor = &t->tensors[i];

		if (tensor->dims[1] > 1)
			tiny_set_type(t, tensor, type, sqrt(1.0 / (double)tensor->dims[0]));
	}
}

/* The blocks rewritten as the type that has the same values and that the NPU has, or as F32. */
static void rewrite(struct tiny_model *t, bool recast)
{
	for (unsigned int i = 0; i < t->n_tensors; i++) {
		struct tiny_tensor *tensor = &t->tensors[i];
		enum gguf_type to = gguf_recast_type(tensor->type);
		size_t n = tensor->dims[0] * tensor->dims[1];
		void *blocks = NULL;

		if (!tensor->blocks ||
		    (recast && (to == tensor->type || gguf_recast_levels(tensor->type))))
			continue;
		if (recast) {
			blocks = malloc(n / gguf_type_traits(to)->block_values *
					gguf_type_traits(to)->block_bytes);
			gguf_recast(tensor->type, tensor->blocks, blocks, n);
		}
		free(tensor->blocks);
		tensor->blocks = blocks;
		tensor->type = to;
	}
}

/* The logits of a prompt's last token and of those decoded after it. */
static void run_file(const char *path, enum llm_placement placement, enum llm_weights weights,
		     float (*logits)[N_VOCAB])
{
	struct llm_options opts = { .model = path,
				    .choices.placement = placement,
				    .choices.weights = weights,
				    .threads = 2 };
	struct llm_engine *engine;
	struct llm_session *s;
	int32_t ids[TOKENS];

	opts.device.transport = NPU_TRANSPORT_SIM;
	opts.device.threads = 2;
	for (int i = 0; i < TOKENS; i++)
		ids[i] = 3 + i * 29 % (N_VOCAB - 3);
	if (llm_engine_open(&opts, &engine) || llm_session_create(engine, 32, &s))
		fail_msg("%s", llm_error());
	for (int i = 0, n = PROMPT; i < TOKENS; i += n, n = 1, logits++) {
		if (llm_session_eval(s, ids + i, (size_t)n))
			fail_msg("%s", llm_error());
		memcpy(*logits, llm_session_logits(s), sizeof(*logits));
	}
	llm_session_free(s);
	llm_engine_close(engine);
}

static void run(struct tiny_model *t, enum llm_placement placement, enum llm_weights weights,
		float (*logits)[N_VOCAB])
{
	run_file(tiny_write(t), placement, weights, logits);
}

/* The same of the file packed for weights native. */
static void run_packed(struct tiny_model *t, float (*logits)[N_VOCAB])
{
	char path[] = "/tmp/test_llm_types.XXXXXX";
	const struct llm_quantize_options opts = { .in = tiny_write(t),
						   .out = path,
						   .type = LLM_QUANTIZE_NATIVE };
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	if (llm_quantize(&opts, NULL))
		fail_msg("%s", llm_error());
	run_file(path, LLM_PLACE_NPU, LLM_WEIGHTS_AUTO, logits);
	unlink(path);
}

#define RUNS (TOKENS - PROMPT + 1)

static double distance(float (*a)[N_VOCAB], float (*b)[N_VOCAB])
{
	double error = 0, size = 0;

	for (int i = 0; i < RUNS; i++) {
		for (int j = 0; j < N_VOCAB; j++) {
			error += pow((double)a[i][j] - (double)b[i][j], 2);
			size += pow((double)b[i][j], 2);
		}
	}
	return sqrt(error / size);
}

/* INT8 activations and, where the NPU has no such type, INT8 weights. */
#define BOUND 0.1

/* @t's matrices have blocks, which become F32. */
static void check(struct tiny_model *t, const char *name)
{
	static float cpu[RUNS][N_VOCAB], w8[RUNS][N_VOCAB], own[RUNS][N_VOCAB],
		other[RUNS][N_VOCAB];
	double error;

	run(t, LLM_PLACE_CPU, LLM_WEIGHTS_F32, cpu);
	run(t, LLM_PLACE_NPU, LLM_WEIGHTS_W8A8, w8);
	run(t, LLM_PLACE_NPU, LLM_WEIGHTS_NATIVE, own);
	error = distance(own, cpu);
	print_message("%s: native differs by %.4f, w8a8 by %.4f\n", name, error, distance(w8, cpu));
	assert_true(error < BOUND && distance(w8, cpu) < BOUND);
	run_packed(t, other);
	assert_memory_equal(own, other, sizeof(own));
	rewrite(t, true);
	run(t, LLM_PLACE_NPU, LLM_WEIGHTS_NATIVE, other);
	assert_memory_equal(own, other, sizeof(own));
	run(t, LLM_PLACE_CPU, LLM_WEIGHTS_F32, other);
	assert_memory_equal(cpu, other, sizeof(cpu));
	rewrite(t, false);
	run(t, LLM_PLACE_CPU, LLM_WEIGHTS_F32, other);
	assert_memory_equal(cpu, other, sizeof(cpu));
	run(t, LLM_PLACE_NPU, LLM_WEIGHTS_W8A8, other);
	assert_memory_equal(w8, other, sizeof(w8));
}

static void models_of_every_type_run_as_their_widened_values(void **state)
{
	for (size_t i = 0; i < N_TYPES; i++) {
		struct tiny_model t;

		create(&t, 256, seed + i);
		set_all(&t, types[i]);
		check(&t, gguf_type_traits(types[i])->name);
		tiny_free(&t);
	}
}

/* As llama-quantize makes them: where rows are no multiple of 256, blocks of 32 take the place of
 * Q2_K and IQ3 (IQ4_NL), Q4_K (Q5_0), Q5_K (Q5_1) and Q6_K (Q8_0). */
static void rows_of_no_multiple_of_256_are_of_other_types(void **state)
{
	static const struct {
		const char *tensor;
		enum gguf_type type;
	} mix[] = {
		{ "token_embd.weight", GGUF_Q8_0 },	   { "blk.0.attn_q.weight", GGUF_Q5_0 },
		{ "blk.0.attn_k.weight", GGUF_Q5_1 },	   { "blk.0.attn_v.weight", GGUF_Q8_0 },
		{ "blk.0.attn_output.weight", GGUF_Q4_1 }, { "blk.0.ffn_gate.weight", GGUF_IQ4_NL },
		{ "blk.0.ffn_up.weight", GGUF_MXFP4 },	   { "blk.0.ffn_down.weight", GGUF_Q4_K },
	};
	struct tiny_model t;

	create(&t, 288, seed);
	for (size_t i = 0; i < sizeof(mix) / sizeof(mix[0]); i++) {
		struct tiny_tensor *tensor = tiny_find(&t, mix[i].tensor);

		assert_non_null(tensor);
		tiny_set_type(&t, tensor, mix[i].type, sqrt(1.0 / (double)tensor->dims[0]));
	}
	check(&t, "mixed");
	tiny_free(&t);
}

static void a_row_of_no_whole_blocks_is_refused_by_the_types_name(void **state)
{
	struct tiny_model t;
	struct llm_options opts = { 0 };
	struct llm_engine *engine;

	create(&t, 288, seed);
	tiny_set_type(&t, tiny_find(&t, "blk.0.ffn_down.weight"), GGUF_IQ4_XS, 0.1);
	tiny_find(&t, "blk.0.ffn_down.weight")->dims[0] = 288;
	opts.model = tiny_write(&t);
	assert_int_not_equal(llm_engine_open(&opts, &engine), 0);
	assert_non_null(strstr(llm_error(), "blk.0.ffn_down.weight"));
	assert_non_null(strstr(llm_error(), "not a multiple of IQ4_XS's 256"));
	tiny_free(&t);
}

int main(void)
{
	const char *given = getenv("TEST_SEED");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(models_of_every_type_run_as_their_widened_values),
		cmocka_unit_test(rows_of_no_multiple_of_256_are_of_other_types),
		cmocka_unit_test(a_row_of_no_whole_blocks_is_refused_by_the_types_name),
	};

	seed = given ? strtoull(given, NULL, 0) : 0x7e5701;
	print_message("TEST_SEED=0x%llx\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
