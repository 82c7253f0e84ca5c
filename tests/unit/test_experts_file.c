// SPDX-License-Identifier: MIT
/*
 * Files of models with experts: keys and tensors that do not fit, packed and quantised ones, and
 * shapes.
 *
 * Random shapes and weights; TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "experts_fixture.h"
#include "llm_quantize.h"
#include "shape.h"

#define MAX_EXPERTS 70

/* ---- what is refused ---- */

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

/* Placement npu, which has such rows, has no experts. */
static void rows_that_chunks_in_flight_cannot_have_are_refused(void **state)
{
	struct llm_options o = options_of(LLM_PLACE_FINE, LLM_WEIGHTS_W8A8, 0);
	struct tiny_config c = plain;
	struct llm_engine *engine;
	struct llm_session *s;
	struct tiny_model t;

	c.head_dim = c.rot_dim = 6;
	tiny_create(&t, &c, random_u64(&seed_state));
	o.model = tiny_write(&t);
	o.choices.order = LLM_ORDER_LAYER;
	engine = open_engine(&o);
	assert_int_equal(llm_session_create(engine, 64, &s), -ENOTSUP);
	assert_non_null(strstr(llm_error(), "24, 12 and 64 values"));
	assert_non_null(strstr(llm_error(), "choose order fifo"));
	llm_engine_close(engine);
	o.choices.order = LLM_ORDER_FIFO;
	engine = open_engine(&o);
	s = new_session(engine, 64);
	llm_session_free(s);
	llm_engine_close(engine);
	tiny_free(&t);
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

/* They have the shape of vectors. */
static void packed_files_have_matrices_of_one_row(void **state)
{
	struct tiny_config configs[] = { plain, plain };
	const int32_t ids[] = { 5, 9, 200, 17 };
	float original[300], packed[300];
	char path[32];

	configs[0].n_ff_shared = 1;
	configs[1].arch = "llama";
	configs[1].n_expert = configs[1].n_expert_used = configs[1].n_ff_shared = 0;
	configs[1].bias = false;
	configs[1].n_ff = 1;
	for (size_t i = 0; i < 2; i++) {
		struct llm_options o = options_of(LLM_PLACE_FINE, LLM_WEIGHTS_W8A8, 0);
		struct tiny_model t;

		tiny_create(&t, &configs[i], random_u64(&seed_state));
		o.model = tiny_write(&t);
		eval_steps(&o, ids, 4, 4, original, 300);
		quantize(t.path, LLM_QUANTIZE_W8A8, NULL, path);
		o.model = path;
		eval_steps(&o, ids, 4, 4, packed, 300);
		assert_memory_equal(original, packed, sizeof(packed));
		unlink(path);
		tiny_free(&t);
	}
}

static void expect_no_panels(const struct tiny_config *c, const char *what)
{
	struct llm_quantize_options o = { .out = "/tmp/test_experts-none",
					  .type = LLM_QUANTIZE_W8A8 };
	struct tiny_model t;

	tiny_create(&t, c, random_u64(&seed_state));
	o.in = tiny_write(&t);
	assert_int_equal(llm_quantize(&o, NULL), -ENOTSUP);
	if (!strstr(llm_error(), what))
		fail_msg("'%s' does not say '%s'", llm_error(), what);
	assert_int_not_equal(access(o.out, F_OK), 0);
	tiny_free(&t);
}

static void models_that_the_npu_cannot_have_are_not_packed(void **state)
{
	struct tiny_config c = plain;

	c.n_ff = 96;
	expect_no_panels(&c, "experts of 96 values in an embedding of 64");
	c = plain;
	c.n_embd = 72;
	expect_no_panels(&c, "an embedding of 72 is not a multiple of 16");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_that_do_not_fit_are_refused),
		cmocka_unit_test(tensors_that_do_not_fit_are_refused),
		cmocka_unit_test(rows_that_chunks_in_flight_cannot_have_are_refused),
		cmocka_unit_test(packed_files_have_the_bits_of_the_original),
		cmocka_unit_test(packed_files_have_matrices_of_one_row),
		cmocka_unit_test(models_that_the_npu_cannot_have_are_not_packed),
		cmocka_unit_test(each_expert_is_quantised_by_its_own_importance),
		cmocka_unit_test(shapes_have_the_parameters_of_their_cards),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
