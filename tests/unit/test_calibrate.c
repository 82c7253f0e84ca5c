// SPDX-License-Identifier: MIT
/*
 * Calibrating: the statistics of known activations, the files that llm_quantize() writes, and what
 * smoothing leaves as it was.
 *
 * Random weights; TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <cmocka.h>

#include "llm.h"
#include "llm_quantize.h"
#include "shadow_stats.h"
#include "tiny_shadow.h"

static uint64_t seed;

/* ---- statistics ---- */

#define K 8
static const unsigned int few[SHADOW_INPUTS] = { K, K, K, K };

/* Adds a chunk of two rows to input 1 of layer 0: @x, and half of it with the other sign. */
static void add(struct shadow_stats *st, const float x[K])
{
	float rows[2][K];

	for (unsigned int c = 0; c < K; c++) {
		rows[0][c] = x[c];
		rows[1][c] = -x[c] / 2;
	}
	shadow_stats_add(st, 0, 1, 2, rows[0]);
}

static void test_the_scale_is_the_median_chunks(void **state)
{
	/* The third largest of each: 6, 60, 16. Two channels exceed it. */
	static const float chunks[][K] = { { 1, -2, 3, 4, 5, 6, -7, 8 },
					   { 80, 70, -60, 50, 40, 30, 20, 10 },
					   { 1, 2, -100, 3, 16, 4, 5, 32 } };
	struct shadow_stats st;
	struct shadow s;

	assert_int_equal(shadow_stats_create(&st, 1, few, 3, 0.25), 0);
	for (unsigned int i = 0; i < 3; i++)
		add(&st, chunks[i]);
	shadow_stats_count(&st);
	for (unsigned int i = 0; i < 3; i++)
		add(&st, chunks[i]);
	assert_int_equal(shadow_stats_finish(&st, 0.5, &s), 0);
	assert_float_equal(s.inputs[1].scale, 16.0 / 127, 1e-6);
	assert_true(s.inputs[1].limit == 100);
	assert_float_equal(s.inputs[1].importance, 100 * 127 / 16.0, 1e-3);
	/*
	 * Beyond 16 are none of the first chunk, seven channels of the second, two of the third.
	 * Outliers by channel: 2 2 3 2 2 1 1 1, of which those of channels 0, 1 and 2 are half.
	 */
	assert_float_equal(s.inputs[1].channels, 9 / 3.0, 1e-9);
	assert_int_equal(s.inputs[1].nr_hot, 3);
	assert_true(s.inputs[1].hot[0] == 0 && s.inputs[1].hot[1] == 1 && s.inputs[1].hot[2] == 2);
	assert_float_equal(s.inputs[1].cold, (9 - 4) / 3.0, 1e-9);
	shadow_free(&s);
	shadow_stats_free(&st);
}

static void test_of_an_even_number_the_median_is_between(void **state)
{
	static const float chunks[][K] = { { 1, 2 }, { 8, 10 }, { 1, 4 }, { 100, 100 } };
	struct shadow_stats st;
	struct shadow s;

	/* At least one channel exceeds the value, whatever the share. */
	assert_int_equal(shadow_stats_create(&st, 1, few, 4, 1e-6), 0);
	for (unsigned int i = 0; i < 4; i++)
		add(&st, chunks[i]);
	shadow_stats_count(&st);
	assert_int_equal(shadow_stats_finish(&st, 0.8, &s), 0);
	assert_float_equal(s.inputs[1].scale, 4.5 / 127, 1e-6);
	assert_int_equal(s.inputs[1].nr_hot, 0);
	shadow_free(&s);
	shadow_stats_free(&st);
}

static void test_inputs_that_are_always_zero_get_a_valid_scale(void **state)
{
	static const float zero[K] = { 0 }, one[K] = { 3 }, tiny[K] = { 1e-44f, 1e-44f };
	const float *const values[] = { zero, one, tiny };

	for (unsigned int i = 0; i < 3; i++) {
		struct shadow_stats st;
		struct shadow s;

		assert_int_equal(shadow_stats_create(&st, 1, few, 1, 0.2), 0);
		add(&st, values[i]);
		shadow_stats_count(&st);
		add(&st, values[i]);
		assert_int_equal(shadow_stats_finish(&st, 0.8, &s), 0);
		assert_true(isnormal(s.inputs[1].scale) && isnormal(s.inputs[1].limit));
		assert_true(s.inputs[1].importance > 126.9 && s.inputs[1].importance < 127.1);
		assert_true(s.inputs[1].channels == 0);
		shadow_free(&s);
		shadow_stats_free(&st);
	}
}

static void test_activations_that_are_not_finite_are_noticed(void **state)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };

	for (unsigned int i = 0; i < 3; i++) {
		float x[2 * K] = { [3] = bad[i] };
		struct shadow_stats st;

		assert_int_equal(shadow_stats_create(&st, 2, few, 1, 0.2), 0);
		shadow_stats_add(&st, 1, 2, 2, x);
		assert_true(st.failed && st.failed_layer == 1 && st.failed_input == 2);
		shadow_stats_free(&st);
	}
}

/* ---- files ---- */

#define WINDOW 64
static char text[8 * WINDOW];

static void make_text(uint64_t *random)
{
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + random_u64(random) % 26);
}

static struct tiny_config config(const char *arch)
{
	return (struct tiny_config){
		.arch = arch,
		.n_layer = 2,
		.n_embd = 64,
		.n_head = 6,
		.n_head_kv = 2,
		.head_dim = 16,
		.n_ff = 300,
		.n_vocab = 300,
		.n_ctx = WINDOW,
		.rot_dim = 16,
		.bias = strcmp(arch, "qwen3") != 0,
		.head_norms = !strcmp(arch, "qwen3"),
		.eps = 1e-5,
		.freq_base = 10000,
		.rope_scale = 1,
	};
}

static struct llm_calibration *calibrated(const char *model, double pruning, double smooth)
{
	struct llm_calibrate_options o = {
		LLM_CALIBRATE_DEFAULTS, .model = model, .text = text,
		.bytes = sizeof(text),	.threads = 2,
	};
	struct llm_calibration *c;

	o.pruning = pruning;
	o.smooth = smooth;
	if (llm_calibrate(&o, &c))
		fail_msg("%s", llm_error());
	return c;
}

/* A file that llm_quantize() has written. */
struct written {
	struct gguf_file *file;
	struct llm_model model;
	struct shadow shadow;
};

static void write_file(struct written *w, const char *model, const struct llm_calibration *c)
{
	struct llm_quantize_options o = { .in = model, .calibration = c };
	char err[256], dir[] = "/tmp/test_calibrate-XXXXXX", path[64];

	if (!mkdtemp(dir))
		abort();
	snprintf(path, sizeof(path), "%s/out.gguf", dir);
	o.out = path;
	if (llm_quantize(&o, NULL))
		fail_msg("%s", llm_error());
	assert_int_equal(gguf_open(path, &w->file, err, sizeof(err)), 0);
	unlink(path);
	rmdir(dir);
	if (llm_model_read(&w->model, w->file, "out.gguf") ||
	    shadow_read(&w->shadow, &w->model, w->file, "out.gguf", SHADOW_AS_WRITTEN))
		fail_msg("%s", llm_error());
}

static void drop(struct written *w)
{
	shadow_free(&w->shadow);
	llm_model_release(&w->model);
	gguf_close(w->file);
}

static void test_the_file_has_the_calibration(void **state)
{
	struct tiny_config tc = config("llama");
	struct llm_calibration_input in;
	struct llm_calibration_info info;
	struct llm_calibration *c;
	struct tiny_model t;
	struct written w;
	unsigned int i;

	tiny_create(&t, &tc, seed);
	c = calibrated(tiny_write(&t), 0.5, -1);
	llm_calibration_info(c, &info);
	assert_int_equal(info.n_inputs, 8);
	assert_int_equal(info.n_kept, 4);
	assert_int_equal(info.n_tokens, sizeof(text));
	assert_int_equal(info.n_chunks, sizeof(text) / WINDOW);
	write_file(&w, t.path, c);
	for (i = 0; llm_calibration_input(c, i, &in); i++) {
		const struct shadow_input *s = &w.shadow.inputs[i];

		assert_int_equal(in.layer, i / SHADOW_INPUTS);
		assert_string_equal(in.name, shadow_input_names[i % SHADOW_INPUTS]);
		assert_int_equal(in.n_channels, shadow_channels(&w.model, i % SHADOW_INPUTS));
		assert_true(in.scale == s->scale && in.limit == s->limit);
		assert_true(in.kept == s->kept && in.n_hot == s->nr_hot);
		assert_float_equal(in.with_outliers, s->channels, 1e-5);
		assert_float_equal(in.cold, s->cold, 1e-5);
		/* Half of the chunks have fewer outliers than wanted, the others more. */
		assert_true(s->nr_hot && s->channels > 0 && s->importance > 127);
	}
	assert_int_equal(i, 8);
	drop(&w);
	llm_calibration_free(c);
	tiny_free(&t);
}

static void test_shadow_weights_are_the_matrices_columns(void **state)
{
	struct tiny_config tc = config("llama");
	struct llm_calibration *c;
	struct tiny_shadow want;
	struct tiny_model t;
	struct written w;

	tiny_create(&t, &tc, seed);
	c = calibrated(tiny_write(&t), 0, -1);
	write_file(&w, t.path, c);
	tiny_shadow(&t, &want, 8);
	for (unsigned int i = 0; i < 8; i++) {
		const struct gguf_tensor *tensor = w.shadow.inputs[i].weights;
		const struct tiny_tensor *expected = tiny_find(&t, tensor->name);
		size_t n = tensor->dims[0] * tensor->dims[1];

		assert_int_equal(tensor->dims[0], expected->dims[0]);
		for (size_t j = 0; j < n; j++) {
			uint16_t half, got;

			gguf_quantize(GGUF_F16, &expected->data[j], &half, 1);
			memcpy(&got, (const uint16_t *)tensor->data + j, sizeof(got));
			assert_int_equal(got, half);
		}
	}
	drop(&w);
	llm_calibration_free(c);
	tiny_free(&t);
}

/* The greatest difference between two files' logits, by the greatest logit. */
static double difference(const char *a, const char *b)
{
	const char *const paths[] = { a, b };
	float logits[2][300];
	int32_t ids[20];
	double diff = 0, max = 0;

	for (int i = 0; i < 20; i++)
		ids[i] = 40 + 11 * i;
	for (int i = 0; i < 2; i++) {
		struct llm_options o = { .model = paths[i],
					 .choices = { .placement = LLM_PLACE_CPU,
						      .weights = LLM_WEIGHTS_F32,
						      .kv = LLM_KV_F32 } };
		struct llm_engine *engine;
		struct llm_session *s;

		if (llm_engine_open(&o, &engine) || llm_session_create(engine, 0, &s) ||
		    llm_session_eval(s, ids, 20))
			fail_msg("%s", llm_error());
		memcpy(logits[i], llm_session_logits(s), sizeof(logits[i]));
		llm_session_free(s);
		llm_engine_close(engine);
	}
	for (int i = 0; i < 300; i++) {
		diff = fmax(diff, fabs((double)logits[0][i] - (double)logits[1][i]));
		max = fmax(max, fabs((double)logits[0][i]));
	}
	return diff / max;
}

/* Of one exponent, and searched for. */
static const double smooths[] = { 0.6, LLM_SMOOTH_AUTO, LLM_SMOOTH_WEIGHTS };

/* Matrices have other factors on both sides, so a wrong fold changes the logits. */
static void test_smoothing_keeps_the_function(void **state)
{
	static const char *const archs[] = { "llama", "qwen2", "qwen3" };

	for (unsigned int i = 0; i < 9; i++) {
		struct tiny_config tc = config(archs[i % 3]);
		char dir[] = "/tmp/test_calibrate-XXXXXX", path[64];
		struct llm_quantize_options o = { .out = path };
		struct llm_calibration *c;
		struct tiny_model t;
		double d;

		if (!mkdtemp(dir))
			abort();
		snprintf(path, sizeof(path), "%s/out.gguf", dir);
		tiny_create(&t, &tc, seed + i);
		o.in = tiny_write(&t);
		o.calibration = c = calibrated(t.path, 0.5, smooths[i / 3]);
		if (llm_quantize(&o, NULL))
			fail_msg("%s", llm_error());
		d = difference(t.path, path);
		printf("%s: smoothed logits differ by %.2g\n", archs[i % 3], d);
		assert_true(d > 0 && d < 1e-5);
		unlink(path);
		rmdir(dir);
		llm_calibration_free(c);
		tiny_free(&t);
	}
}

/* ---- the interface ---- */

static void refused(const struct llm_calibrate_options *o, int err, const char *word)
{
	struct llm_calibration *c;

	assert_int_equal(llm_calibrate(o, &c), err);
	assert_null(c);
	if (!strstr(llm_error(), word))
		fail_msg("no '%s' in: %s", word, llm_error());
}

static void test_options_out_of_range_are_refused(void **state)
{
	struct llm_calibrate_options good = {
		LLM_CALIBRATE_DEFAULTS,
		.model = "x.gguf",
		.text = text,
		.bytes = sizeof(text),
	};
	struct llm_calibrate_options o;

	for (int i = 0; i < 5; i++) {
		double bad = (const double[]){ -0.1, 1.1, NAN, INFINITY, -INFINITY }[i];

		o = good;
		o.outlier_channels = bad;
		refused(&o, -EINVAL, "share of channels");
		o = good;
		o.hot = bad;
		refused(&o, -EINVAL, "share of outliers");
		o = good;
		o.pruning = bad;
		refused(&o, -EINVAL, "share of inputs");
		o = good;
		o.smooth = bad > 0 || isnan(bad) ? bad : 1.1;
		refused(&o, -EINVAL, "exponent");
		o = good;
		o.smooth = LLM_SMOOTH_AUTO;
		o.smooth_bits = bad < 1 || bad > 8 || isnan(bad) ? bad : 8.1;
		refused(&o, -EINVAL, "choose 1 to 8");
	}
	o = good;
	o.outlier_channels = 0;
	refused(&o, -EINVAL, "share of channels");
	o = good;
	o.bytes = 0;
	refused(&o, -EINVAL, "the text: is empty");
	o = good;
	o.model = NULL;
	refused(&o, -EINVAL, "no model");
	refused(&good, -ENOENT, "x.gguf");
}

static void test_texts_and_tokens_must_fill_a_window(void **state)
{
	struct tiny_config tc = config("llama");
	struct llm_calibrate_options o = { LLM_CALIBRATE_DEFAULTS, .text = text };
	struct tiny_model t;

	tiny_create(&t, &tc, seed);
	o.model = tiny_write(&t);
	o.bytes = WINDOW / 2;
	o.text_name = "short.txt";
	refused(&o, -EINVAL, "short.txt: has");
	o.bytes = sizeof(text);
	o.max_tokens = WINDOW - 1;
	refused(&o, -EINVAL, "63 tokens to calibrate with are less than a window: allow 64");
	tiny_find(&t, "blk.1.ffn_norm.weight")->data[3] = 3e38f;
	tiny_find(&t, "blk.1.ffn_norm.weight")->data[4] = 3e38f;
	o.model = tiny_write(&t);
	o.max_tokens = WINDOW;
	refused(&o, -ERANGE, "layer 1: the input of ffn_");
	tiny_free(&t);
}

struct told {
	double fraction;
	unsigned int calls, stop_at;
};

static int on_progress(void *ud, double fraction, const char *what)
{
	struct told *told = ud;

	assert_true(fraction > told->fraction && fraction <= 1 && what[0]);
	told->fraction = fraction;
	return ++told->calls == told->stop_at;
}

static void test_progress_reaches_the_end_or_stops(void **state)
{
	struct tiny_config tc = config("llama");
	struct told told = { 0 };
	struct llm_calibrate_options o = {
		LLM_CALIBRATE_DEFAULTS,	 .text = text, .bytes = sizeof(text),
		.progress = on_progress, .ud = &told,
	};
	struct llm_calibration *c;
	struct tiny_model t;

	tiny_create(&t, &tc, seed);
	o.model = tiny_write(&t);
	o.smooth = 0.5;
	if (llm_calibrate(&o, &c))
		fail_msg("%s", llm_error());
	assert_true(told.fraction == 1);
	/* Each window thrice; then the text as it is, without each head and layer, with few keys,
	 * with all for one head, and twice with limits of 1e-4, 3e-4, ... 1e-1 and 1. */
	assert_int_equal(told.calls, 3 * sizeof(text) / WINDOW + 1 + tc.n_layer * (tc.n_head + 1) +
					     1 + tc.n_layer * tc.n_head + 16);
	llm_calibration_free(c);
	told = (struct told){ .stop_at = 11 };
	refused(&o, -ECANCELED, "interrupted");
	assert_int_equal(told.calls, 11);
	tiny_free(&t);
}

static void test_a_calibration_of_another_model_is_refused(void **state)
{
	struct tiny_config tc = config("llama"), other = config("llama");
	struct llm_quantize_options o = { .out = "/dev/null" };
	struct llm_calibration *c;
	struct tiny_model t, u;

	other.n_ff = 299;
	tiny_create(&t, &tc, seed);
	tiny_create(&u, &other, seed);
	c = calibrated(tiny_write(&t), 0.5, 0.5);
	o.in = tiny_write(&u);
	o.calibration = c;
	assert_int_equal(llm_quantize(&o, NULL), -EINVAL);
	assert_non_null(strstr(llm_error(), "300 channels in ffn_down; this one has 2 and 299"));
	o.in = NULL;
	o.shape = "llama3.2-1b";
	assert_int_equal(llm_quantize(&o, NULL), -EINVAL);
	assert_non_null(strstr(llm_error(), "not of a shape"));
	llm_calibration_free(c);
	tiny_free(&t);
	tiny_free(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_scale_is_the_median_chunks),
		cmocka_unit_test(test_of_an_even_number_the_median_is_between),
		cmocka_unit_test(test_inputs_that_are_always_zero_get_a_valid_scale),
		cmocka_unit_test(test_activations_that_are_not_finite_are_noticed),
		cmocka_unit_test(test_the_file_has_the_calibration),
		cmocka_unit_test(test_shadow_weights_are_the_matrices_columns),
		cmocka_unit_test(test_smoothing_keeps_the_function),
		cmocka_unit_test(test_options_out_of_range_are_refused),
		cmocka_unit_test(test_texts_and_tokens_must_fill_a_window),
		cmocka_unit_test(test_progress_reaches_the_end_or_stops),
		cmocka_unit_test(test_a_calibration_of_another_model_is_refused),
	};
	const char *s = getenv("TEST_SEED");

	seed = s ? strtoull(s, NULL, 10) : (uint64_t)time(NULL) * 2654435761u + 1;
	printf("TEST_SEED=%llu\n", (unsigned long long)seed);
	make_text(&(uint64_t){ seed });
	return cmocka_run_group_tests(tests, NULL, NULL);
}
