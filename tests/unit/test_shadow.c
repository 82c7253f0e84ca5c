// SPDX-License-Identifier: MIT
/* Calibrations of files: reading, every way in which one can be wrong, pruning, and guesses. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>

#include "tiny_shadow.h"

#define LAYERS 2
#define INPUTS (LAYERS * SHADOW_INPUTS)

static const struct tiny_config config = {
	.arch = "llama",
	.n_layer = LAYERS,
	.n_embd = 32,
	.n_head = 4,
	.n_head_kv = 2,
	.head_dim = 8,
	.n_ff = 48,
	.n_vocab = 300,
	.n_ctx = 64,
	.rot_dim = 8,
	.eps = 1e-5,
	.freq_base = 10000,
	.rope_scale = 1,
};
static const unsigned int channels[] = { 32, 32, 32, 48 }, widths[] = { 64, 32, 96, 32 };

/* A model with a calibration, both as memory and as an open file. */
struct fixture {
	struct tiny_model t;
	struct tiny_shadow sh;
	struct gguf_file *file;
	struct llm_model model;
	struct shadow s;
};

static void make(struct fixture *f, unsigned int with)
{
	memset(f, 0, sizeof(*f));
	tiny_create(&f->t, &config, 1);
	tiny_shadow(&f->t, &f->sh, with);
}

/* Writes and opens the file, and reads the calibration. */
static int read_again(struct fixture *f, double pruning)
{
	char err[256];

	llm_model_release(&f->model);
	gguf_close(f->file);
	assert_int_equal(gguf_open(tiny_write(&f->t), &f->file, err, sizeof(err)), 0);
	if (llm_model_read(&f->model, f->file, "x.gguf"))
		fail_msg("%s", llm_error());
	return shadow_read(&f->s, &f->model, f->file, "x.gguf", pruning);
}

static void drop(struct fixture *f)
{
	llm_model_release(&f->model);
	gguf_close(f->file);
	tiny_free(&f->t);
}

static void refused(struct fixture *f, const char *why, const char *next)
{
	int err = read_again(f, 0.5);

	if (err != -EINVAL || !strstr(llm_error(), why) || !strstr(llm_error(), next))
		fail_msg("%d: '%s' has no '%s' with '%s'", err, llm_error(), why, next);
}

static void test_a_calibration_is_read_as_written(void **state)
{
	struct fixture f;
	float v;

	make(&f, 4);
	if (read_again(&f, 0.5))
		fail_msg("%s", llm_error());
	assert_int_equal(f.s.n_layer, LAYERS);
	for (unsigned int i = 0; i < INPUTS; i++) {
		const struct shadow_input *in = &f.s.inputs[i];

		assert_true(in->scale == f.sh.scales[i] && in->limit == f.sh.limits[i]);
		assert_true(in->importance == in->limit / in->scale);
		assert_true(in->channels == 4 && in->cold == 1.5);
		assert_int_equal(in->nr_hot, TINY_HOT);
		assert_true(in->hot[0] == 0 && in->hot[1] == 2 && in->hot[2] == 3);
		assert_int_equal(in->kept, i < 4);
		assert_int_equal(in->weights != NULL, i < 4);
		assert_int_equal(shadow_channels(&f.model, i % SHADOW_INPUTS),
				 channels[i % SHADOW_INPUTS]);
		assert_int_equal(shadow_rows(&f.model, i % SHADOW_INPUTS),
				 widths[i % SHADOW_INPUTS]);
	}
	/* Row 5 of qkv's weights: column 5 of q, k and v; here the value of v's row 3. */
	gguf_dequantize(GGUF_F16, (const uint16_t *)f.s.inputs[0].weights->data + 5 * 64 + 48 + 3,
			&v, 1);
	assert_float_equal(v, tiny_find(&f.t, "blk.0.attn_v.weight")->data[3 * 32 + 5], 1e-3);
	shadow_free(&f.s);
	drop(&f);
}

static void test_operators_have_inputs(void **state)
{
	struct fixture f;

	make(&f, 0);
	assert_int_equal(read_again(&f, 1), 0);
	assert_ptr_equal(shadow_input(&f.s, 0, LLM_OP_QKV), &f.s.inputs[0]);
	assert_ptr_equal(shadow_input(&f.s, 1, LLM_OP_ATTN_OUTPUT), &f.s.inputs[5]);
	assert_ptr_equal(shadow_input(&f.s, 1, LLM_OP_GATE_UP), &f.s.inputs[6]);
	assert_ptr_equal(shadow_input(&f.s, 1, LLM_OP_DOWN), &f.s.inputs[7]);
	for (enum llm_op op = 0; op < LLM_NR_TASK_KINDS; op++)
		assert_int_equal(shadow_input_of(op) >= 0,
				 op == LLM_OP_QKV || op == LLM_OP_ATTN_OUTPUT ||
					 op == LLM_OP_GATE_UP || op == LLM_OP_DOWN);
	shadow_free(&f.s);
	drop(&f);
}

static void test_a_calibrated_file_is_the_same_model(void **state)
{
	struct fixture f;
	char with[32], without[32];
	uint64_t n;

	make(&f, INPUTS);
	assert_int_equal(read_again(&f, 0), 0);
	shadow_free(&f.s);
	n = f.model.n_params;
	llm_model_type(&f.model, f.file, with, sizeof(with));
	drop(&f);
	make(&f, 0);
	assert_int_equal(read_again(&f, 1), 0);
	shadow_free(&f.s);
	llm_model_type(&f.model, f.file, without, sizeof(without));
	assert_int_equal(f.model.n_params, n);
	assert_string_equal(with, without);
	drop(&f);
}

static void test_files_without_calibration_say_what_to_do(void **state)
{
	struct fixture f;

	make(&f, 0);
	tiny_drop_key(&f.t, SHADOW_KEY);
	assert_int_equal(read_again(&f, 0.5), -ENODATA);
	assert_non_null(strstr(llm_error(), "x.gguf"));
	assert_non_null(strstr(llm_error(), "llm-quantize --calibrate"));
	drop(&f);
}

static void test_tensors_need_the_key(void **state)
{
	struct fixture f;
	char err[256];

	make(&f, 1);
	tiny_drop_key(&f.t, SHADOW_KEY);
	assert_int_equal(gguf_open(tiny_write(&f.t), &f.file, err, sizeof(err)), 0);
	assert_int_equal(llm_model_read(&f.model, f.file, "x.gguf"), -ENOTSUP);
	assert_non_null(strstr(llm_error(), "blk.0.attn_qkv.shadow"));
	drop(&f);
}

static void test_each_key_is_checked(void **state)
{
	static const char *const keys[] = { ".scales", ".limits",     ".channels",
					    ".cold",   ".hot_counts", ".hot" };
	static const char again[] = "llm-quantize --calibrate";
	struct fixture f;
	char key[64];

	make(&f, INPUTS);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		bool ints = i >= 4;
		const void *values = i == 5 ? (void *)f.sh.hot
				     : ints ? (void *)f.sh.hot_counts
					    : (void *)f.sh.cold;
		size_t n = i == 5 ? INPUTS * TINY_HOT : INPUTS;

		snprintf(key, sizeof(key), "%s%s", SHADOW_KEY, keys[i]);
		tiny_drop_key(&f.t, key);
		refused(&f, key, again);
		tiny_array(&f.t, key, ints ? 'F' : 'I', values, n);
		refused(&f, key, again);
		tiny_array(&f.t, key, ints ? 'I' : 'F', values, n - 1);
		refused(&f, key, again);
		tiny_array(&f.t, key, ints ? 'I' : 'F', values, 0);
		refused(&f, key, again);
		tiny_key(&f.t, key, 'u', 1, NULL);
		refused(&f, key, again);
		drop(&f);
		make(&f, INPUTS);
	}
	tiny_key(&f.t, SHADOW_KEY, 'u', SHADOW_VERSION + 1, NULL);
	refused(&f, "another version", again);
	tiny_key(&f.t, SHADOW_KEY, 's', 0, "1");
	refused(&f, "another version", again);
	drop(&f);
}

static void test_numbers_out_of_range_are_refused(void **state)
{
	static const float scales[] = { 0, -1, 1e-45f, NAN, INFINITY, -INFINITY };
	static const float limits[] = { 0, -1, 1e-37f, NAN, INFINITY };
	static const float counts[] = { -1, 33, NAN, INFINITY };
	static const char again[] = "llm-quantize --calibrate";
	struct fixture f;

	make(&f, INPUTS);
	for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
		f.sh.scales[5] = scales[i];
		refused(&f, "vnpu.shadow.scales holds", again);
	}
	f.sh.scales[5] = 1;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		f.sh.limits[5] = limits[i];
		refused(&f, "vnpu.shadow.limits holds", again);
	}
	/* A ratio that no float holds. */
	f.sh.scales[5] = 2e-38f;
	f.sh.limits[5] = 1e30f;
	refused(&f, "vnpu.shadow.limits holds 1e+30 at 5", again);
	f.sh.scales[5] = f.sh.limits[5] = 1;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		f.sh.channels[5] = counts[i];
		refused(&f, "vnpu.shadow.channels holds", again);
	}
	f.sh.channels[5] = 2;
	f.sh.cold[5] = 2.5f;
	refused(&f, "vnpu.shadow.cold holds 2.5 at 5, not 0 to 2", again);
	f.sh.cold[5] = NAN;
	refused(&f, "vnpu.shadow.cold holds", again);
	f.sh.cold[5] = 2;
	assert_int_equal(read_again(&f, 0), 0);
	shadow_free(&f.s);
	drop(&f);
}

static void test_hot_channels_are_ascending_and_exist(void **state)
{
	static const int32_t wrong[][TINY_HOT] = { { 0, 2, 2 },		{ 0, 3, 2 },
						   { -1, 2, 3 },	{ 0, 2, 32 },
						   { 0, 2, INT32_MAX }, { INT32_MIN, 2, 3 } };
	static const char again[] = "llm-quantize --calibrate";
	struct fixture f;

	make(&f, INPUTS);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(f.sh.hot + 5 * TINY_HOT, wrong[i], sizeof(wrong[i]));
		refused(&f, "of input 5", again);
	}
	/* Input 7 has 48 channels, more than others. */
	f.sh.hot[5 * TINY_HOT] = 0;
	f.sh.hot[7 * TINY_HOT + 2] = 47;
	assert_int_equal(read_again(&f, 0), 0);
	shadow_free(&f.s);
	f.sh.hot_counts[5] = 2;
	refused(&f, "vnpu.shadow.hot has 24 values, not 23", again);
	f.sh.hot_counts[5] = -1;
	refused(&f, "vnpu.shadow.hot_counts holds -1 at 5", again);
	f.sh.hot_counts[5] = 33;
	refused(&f, "vnpu.shadow.hot_counts holds 33 at 5, not 0 to 32", again);
	/* Counts whose sum is right. */
	f.sh.hot_counts[5] = 0;
	f.sh.hot_counts[4] = 2 * TINY_HOT;
	refused(&f, "of input 4", again);
	f.sh.hot_counts[5] = f.sh.hot_counts[4] = TINY_HOT;
	tiny_key(&f.t, SHADOW_KEY ".chunk", 'u', 0, NULL);
	refused(&f, "vnpu.shadow.chunk is no number of 1 to 8192 tokens", again);
	tiny_key(&f.t, SHADOW_KEY ".chunk", 'u', 8193, NULL);
	refused(&f, "vnpu.shadow.chunk is no number of 1 to 8192 tokens", again);
	tiny_key(&f.t, SHADOW_KEY ".chunk", 's', 0, "long");
	refused(&f, "vnpu.shadow.chunk is no number of 1 to 8192 tokens", again);
	drop(&f);
}

static void test_tensors_are_checked(void **state)
{
	static const char again[] = "llm-quantize --calibrate";
	struct tiny_tensor *tensor;
	struct fixture f;

	make(&f, INPUTS);
	tensor = tiny_find(&f.t, "blk.1.ffn_gate_up.shadow");
	tensor->half = false;
	refused(&f, "tensor blk.1.ffn_gate_up.shadow is F32, not F16", again);
	tensor->half = true;
	tensor->dims[0] = 48;
	refused(&f, "blk.1.ffn_gate_up.shadow is [48, 32, 1, 1], not [96, 32]", again);
	tensor->dims[0] = 96;
	tensor->dims[1] = 16;
	refused(&f, "blk.1.ffn_gate_up.shadow is [96, 16, 1, 1], not [96, 32]", again);
	tensor->dims[1] = 32;
	assert_int_equal(read_again(&f, 0), 0);
	shadow_free(&f.s);
	drop(&f);
}

static void test_inputs_that_are_kept_need_weights(void **state)
{
	struct fixture f;

	make(&f, 4);
	assert_int_equal(read_again(&f, 0.5), 0);
	shadow_free(&f.s);
	/* One fewer has them than is kept. */
	assert_int_equal(read_again(&f, 0.375), -EINVAL);
	assert_non_null(strstr(llm_error(), "no tensor blk.1.attn_qkv.shadow: pruning 0.375 keeps "
					    "5 inputs, the file has the weights of 4"));
	assert_non_null(strstr(llm_error(), "--pruning 0.375"));
	assert_int_equal(read_again(&f, SHADOW_AS_WRITTEN), 0);
	assert_true(f.s.pruning == 0.5 && f.s.inputs[3].kept && !f.s.inputs[4].kept);
	shadow_free(&f.s);
	assert_int_equal(read_again(&f, 1.5), -EINVAL);
	assert_int_equal(read_again(&f, NAN), -EINVAL);
	drop(&f);
}

static void test_pruning_drops_the_least_important(void **state)
{
	static const float importances[] = { 130, 500, 130, 127, 300, 130, 900, 127 };
	/* The number that is kept in inputs[], by their order of importance. */
	static const unsigned int order[] = { 6, 1, 4, 0, 2, 5, 3, 7 };
	struct shadow_input inputs[INPUTS];
	struct shadow s = { .n_layer = LAYERS, .inputs = inputs };

	for (unsigned int i = 0; i < INPUTS; i++)
		inputs[i] = (struct shadow_input){ .importance = importances[i] };
	for (unsigned int pruned = 0; pruned <= INPUTS; pruned++) {
		assert_int_equal(shadow_prune(&s, (double)pruned / INPUTS), 0);
		for (unsigned int i = 0; i < INPUTS; i++)
			assert_int_equal(inputs[order[i]].kept, i < INPUTS - pruned);
	}
	/* 6.8 of 8 are 7, 6.48 are 6. */
	assert_int_equal(shadow_prune(&s, 0.85), 0);
	assert_true(inputs[6].kept && !inputs[1].kept);
	assert_int_equal(shadow_prune(&s, 0.81), 0);
	assert_true(inputs[1].kept && !inputs[4].kept);
	assert_int_equal(shadow_prune(&s, -0.1), -EINVAL);
	assert_int_equal(shadow_prune(&s, 1.01), -EINVAL);
	assert_int_equal(shadow_prune(&s, NAN), -EINVAL);
}

static void test_a_guess_keeps_the_ends(void **state)
{
	struct shape shape = { .layers = 20,
			       .dim = 2048,
			       .heads = 16,
			       .kv_heads = 4,
			       .head_dim = 64,
			       .ffn = 5504,
			       .gated = true };
	struct shadow s;

	assert_int_equal(shadow_guess(&s, &shape, SHADOW_PRUNING), 0);
	/* 12 of 80 are kept: of layers 0, 19 and 1. */
	for (unsigned int i = 0; i < 80; i++) {
		const struct shadow_input *in = &s.inputs[i];

		assert_int_equal(in->kept, i < 8 || i >= 76);
		assert_true(in->channels == 10 && in->cold > 1.99 && in->cold < 2.01);
		assert_true(in->importance == in->limit / in->scale && in->importance > 127);
		assert_null(in->weights);
	}
	assert_int_equal(s.inputs[1].nr_hot, 31);
	assert_int_equal(s.inputs[3].nr_hot, 166);
	shadow_free(&s);
	assert_int_equal(shadow_guess(&s, &shape, 2), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_calibration_is_read_as_written),
		cmocka_unit_test(test_operators_have_inputs),
		cmocka_unit_test(test_a_calibrated_file_is_the_same_model),
		cmocka_unit_test(test_files_without_calibration_say_what_to_do),
		cmocka_unit_test(test_tensors_need_the_key),
		cmocka_unit_test(test_each_key_is_checked),
		cmocka_unit_test(test_numbers_out_of_range_are_refused),
		cmocka_unit_test(test_hot_channels_are_ascending_and_exist),
		cmocka_unit_test(test_tensors_are_checked),
		cmocka_unit_test(test_inputs_that_are_kept_need_weights),
		cmocka_unit_test(test_pruning_drops_the_least_important),
		cmocka_unit_test(test_a_guess_keeps_the_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
