// SPDX-License-Identifier: MIT
/*
 * The interface of llm_quantize(): options, counts, progress, stopping. test_gguf_quantize.c and
 * tests/cli/quantize.sh test the types.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "llm_quantize.h"
#include "llm_refs.h"

/* The embedded model: layers of 7 matrices and 2 vectors, tied embeddings, a norm. */
#define TENSORS (6 * 9 + 2)
#define VALUES 5770496u

static char model[512], dir[64], out[128];

static int make_dir(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/test_llm_quantize-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(out, sizeof(out), "%s/out.gguf", dir);
	return 0;
}

/* Fails if the folder has other files than @out. */
static int remove_dir(void **state)
{
	unlink(out);
	return rmdir(dir);
}

static void quantize(const struct llm_quantize_options *opts, struct llm_quantize_result *r)
{
	if (llm_quantize(opts, r))
		fail_msg("%s", llm_error());
}

static void expect_refused(const struct llm_quantize_options *opts, int err, const char *word)
{
	assert_int_equal(llm_quantize(opts, NULL), err);
	if (!strstr(llm_error(), word))
		fail_msg("no '%s' in: %s", word, llm_error());
	assert_int_equal(access(out, F_OK), -1);
}

static void test_options_that_exclude_each_other_are_refused(void **state)
{
	struct llm_quantize_options o = { .in = model, .out = out, .shape = "llama3.2-1b" };

	expect_refused(&o, -EINVAL, "a model or a shape");
	o.in = o.shape = NULL;
	expect_refused(&o, -EINVAL, "a model or a shape");
	o.shape = "llama3.2-1b";
	o.type = LLM_QUANTIZE_W4A8;
	expect_refused(&o, -EINVAL, "pack that as w4a8");
	o.type = LLM_QUANTIZE_F16;
	o.n_vocab = 10;
	expect_refused(&o, -EINVAL, "vocabulary of 10");
	o = (struct llm_quantize_options){ .in = model };
	expect_refused(&o, -EINVAL, "no file to write");
	o = (struct llm_quantize_options){ .in = model,
					   .out = out,
					   .type = LLM_QUANTIZE_ADAPTIVE + 1 };
	expect_refused(&o, -EINVAL, "is no type of weights");
	o = (struct llm_quantize_options){ .in = model, .out = out, .bits = 5 };
	expect_refused(&o, -EINVAL, "of adaptive, not of f32");
	o.type = LLM_QUANTIZE_ADAPTIVE;
	o.bits = 8.5;
	expect_refused(&o, -EINVAL, "average of 8.5 bits: choose 1 to 8");
	o = (struct llm_quantize_options){ .in = "/nowhere/m.gguf", .out = out };
	expect_refused(&o, -ENOENT, "/nowhere/m.gguf");
	o = (struct llm_quantize_options){ .in = model, .out = "/nowhere/q.gguf" };
	expect_refused(&o, -ENOENT, "/nowhere/q.gguf");
	o = (struct llm_quantize_options){ .shape = "no-such-shape", .out = out };
	expect_refused(&o, -ENOENT, "no-such-shape");
}

static void test_names_of_types_parse_to_themselves(void **state)
{
	enum llm_quantize_type type;

	for (int i = LLM_QUANTIZE_F32; i <= LLM_QUANTIZE_ADAPTIVE; i++) {
		assert_int_equal(llm_quantize_type_parse(llm_quantize_type_name(i), &type), 0);
		assert_int_equal(type, i);
		assert_int_equal(llm_quantize_type_is_packed(i), i >= LLM_QUANTIZE_W8A8);
	}
	assert_int_equal(llm_quantize_type_parse("Q8_0", &type), 0);
	assert_int_equal(type, LLM_QUANTIZE_Q8_0);
	assert_int_equal(llm_quantize_type_parse("Q4_K", &type), 0);
	assert_int_equal(type, LLM_QUANTIZE_Q4_K_M);
	assert_int_equal(llm_quantize_type_parse("q8_k", &type), -EINVAL);
	assert_non_null(strstr(llm_error(), "none of f32, f16, q8_0, q4_0, q4_1, q5_0, q5_1, "
					    "iq4_nl, q2_k, q2_k_s, q3_k_s"));
	assert_non_null(strstr(llm_error(), "q6_k, w8a8, w4a8, w4a16, native, adaptive"));
}

/* The calls of warn() and progress(). */
struct told {
	double fraction;
	unsigned int calls, stop_at, warnings;
	char warning[256];
};

static int on_progress(void *ud, double fraction, const char *what)
{
	struct told *told = ud;

	assert_true(fraction > told->fraction && fraction <= 1 && what[0]);
	told->fraction = fraction;
	return ++told->calls == told->stop_at;
}

static void on_warning(void *ud, const char *line)
{
	struct told *told = ud;

	assert_int_equal(told->calls, 0);
	told->warnings++;
	snprintf(told->warning, sizeof(told->warning), "%s", line);
}

static void test_the_result_counts_tensors_values_and_bytes(void **state)
{
	struct llm_quantize_options o = { .in = model, .out = out, .type = LLM_QUANTIZE_F32 };
	struct llm_quantize_result r;
	struct stat st;

	quantize(&o, &r);
	assert_int_equal(r.n_tensors, TENSORS);
	assert_int_equal(r.n_values, VALUES);
	assert_int_equal(r.bytes_before, 6140928);
	assert_int_equal(r.bytes_after, 4 * VALUES);
	assert_int_equal(stat(out, &st), 0);
	assert_true((uint64_t)st.st_size > r.bytes_after);
	o.type = LLM_QUANTIZE_W8A8;
	quantize(&o, &r);
	/* Tied embeddings are stored twice: unchanged, and as the packed output matrix. */
	assert_int_equal(r.n_tensors, TENSORS + 1);
	assert_int_equal(r.n_values, VALUES + 4096 * 256);
	o = (struct llm_quantize_options){
		.shape = "qwen2.5-0.5b", .out = out, .n_vocab = 300, .type = LLM_QUANTIZE_Q4_0
	};
	quantize(&o, &r);
	assert_int_equal(r.bytes_before, 0);
	assert_true(r.bytes_after > 0 && r.bytes_after * 8 < r.n_values * 5);
}

static void test_progress_goes_up_to_one_and_warnings_come_before(void **state)
{
	struct told told = { 0 };
	struct llm_quantize_options o = {
		.in = model,
		.out = out,
		.type = LLM_QUANTIZE_Q4_0,
		.warn = on_warning,
		.progress = on_progress,
		.ud = &told,
	};

	quantize(&o, NULL);
	assert_true(told.fraction == 1 && told.calls >= TENSORS);
	assert_int_equal(told.warnings, 1);
	assert_non_null(strstr(told.warning, "docs6m-q8_0.gguf: 42 tensors are quantised already"));
	told = (struct told){ 0 };
	o.type = LLM_QUANTIZE_W8A8;
	quantize(&o, NULL);
	assert_true(told.fraction == 1 && told.calls >= TENSORS);
	assert_int_equal(told.warnings, 0);
}

static void test_a_callback_can_stop_it_and_nothing_is_left(void **state)
{
	static const enum llm_quantize_type types[] = { LLM_QUANTIZE_F16, LLM_QUANTIZE_W8A8 };

	for (unsigned int i = 0; i < 2; i++) {
		struct told told = { .stop_at = 10 };
		struct llm_quantize_options o = {
			.in = model,
			.out = out,
			.type = types[i],
			.progress = on_progress,
			.ud = &told,
		};

		expect_refused(&o, -ECANCELED, "interrupted");
		assert_int_equal(told.calls, 10);
	}
}

int main(void)
{
#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
	const struct CMUnitTest tests[] = {
		IN_DIR(test_options_that_exclude_each_other_are_refused),
		cmocka_unit_test(test_names_of_types_parse_to_themselves),
		IN_DIR(test_the_result_counts_tensors_values_and_bytes),
		IN_DIR(test_progress_goes_up_to_one_and_warnings_come_before),
		IN_DIR(test_a_callback_can_stop_it_and_nothing_is_left),
	};

	ref_embedded(model, sizeof(model));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
