// SPDX-License-Identifier: MIT
/*
 * Trained models compared with float64 references: logits, greedy tokens, perplexity.
 * The F32 files are in VNPU_DATA. The embedded Q8_0 file is in the tree; its references
 * are those of the F32 file.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "llm_refs.h"

static const char *data_dir(void)
{
	const char *dir = getenv("VNPU_DATA");

	if (!dir) {
		print_message("VNPU_DATA is not set\n");
		skip();
	}
	return dir;
}

static void check_f32(const char *path, const char *refs, const char *prefix, unsigned int chunk)
{
	struct llm_engine *engine = ref_open(path, LLM_PLACE_CPU, 2, chunk);

	for (int p = 1; p <= 4; p++) {
		struct llm_session *s = ref_session(engine, 0);
		struct reference ref;
		int32_t greedy[64];
		char name[16];
		double error;

		snprintf(name, sizeof(name), "%s%d", prefix, p);
		ref_load(&ref, refs, name);
		assert_int_equal(ref.n_vocab, llm_engine_info(engine)->n_vocab);
		ref_eval(s, ref.ids, ref.n_ids);
		error = ref_error(llm_session_logits(s), ref.last, ref.n_vocab);
		print_message("%s, chunks of %u: error %.2g\n", name, chunk, error);
		assert_true(error < 1e-5);
		ref_greedy(engine, s, greedy, ref.n_greedy);
		assert_memory_equal(greedy, ref.greedy, ref.n_greedy * sizeof(greedy[0]));
		llm_session_free(s);
	}
	llm_engine_close(engine);
}

static void test_docs6m_in_f32_equals_the_reference(void **state)
{
	char path[512], refs[512];

	snprintf(path, sizeof(path), "%s/models/docs6m/docs6m-f32.gguf", data_dir());
	snprintf(refs, sizeof(refs), "%s/tests/data/docs6m", ref_src());
	check_f32(path, refs, "p", 0);
	check_f32(path, refs, "p", 7);
}

static void test_stories260k_in_f32_equals_the_reference(void **state)
{
	char path[512], refs[512];

	snprintf(path, sizeof(path), "%s/models/stories260K/stories260K-f32.gguf", data_dir());
	snprintf(refs, sizeof(refs), "%s/models/stories260K/refs", data_dir());
	check_f32(path, refs, "s", 0);
}

/* Q8_0 rounds weights to about 0.4 % of a block's greatest value; logits differ by about 1 % of the
 * greatest logit. */
static void test_the_embedded_model_is_near_the_f32_reference(void **state)
{
	char path[512];
	struct llm_engine *engine = ref_open(ref_embedded(path, sizeof(path)), LLM_PLACE_CPU, 2, 0);

	for (int p = 1; p <= 4; p++) {
		struct llm_session *s = ref_session(engine, 0);
		struct reference ref;

		ref_load_docs6m(&ref, p);
		ref_eval(s, ref.ids, ref.n_ids);
		assert_true(ref_error(llm_session_logits(s), ref.last, ref.n_vocab) < 0.02);
		llm_session_free(s);
	}
	llm_engine_close(engine);
}

/*
 * W8A8 of the embedded file: logits within 8 % of the greatest float64 logit, and mostly the same
 * next token.
 */
static void check_w8a8(enum llm_placement placement)
{
	char path[512];
	struct llm_engine *engine = ref_open(ref_embedded(path, sizeof(path)), placement, 2, 0);
	size_t same = 0, all = 0;

	for (int p = 1; p <= 4; p++) {
		struct llm_session *s = ref_session(engine, 0);
		struct reference ref;
		double error;

		ref_load_docs6m(&ref, p);
		ref_eval(s, ref.ids, ref.n_ids);
		error = ref_error(llm_session_logits(s), ref.last, ref.n_vocab);
		print_message("%s p%d: error %.3g\n",
			      llm_choice_name(LLM_CHOICE_PLACEMENT, placement), p, error);
		assert_true(error < 0.08);
		for (size_t i = 0; i < ref.n_greedy; i++, all++) {
			same += llm_argmax(llm_session_logits(s), (unsigned int)ref.n_vocab) ==
				ref.greedy[i];
			ref_eval(s, &ref.greedy[i], 1);
		}
		llm_session_free(s);
	}
	print_message("%s: %zu of %zu next tokens are the reference's\n",
		      llm_choice_name(LLM_CHOICE_PLACEMENT, placement), same, all);
	assert_true(same * 100 >= all * 95);
	llm_engine_close(engine);
}

static void test_w8a8_on_the_npu_is_near_the_f32_reference(void **state)
{
	check_w8a8(LLM_PLACE_FINE);
	check_w8a8(LLM_PLACE_NPU);
}

/* ---- perplexity ------------------------------------------------------------------------------ */

#define WINDOW 512

struct scorer {
	const int32_t *ids;
	unsigned int n_vocab;
	double nll;
	size_t scored;
};

/* Scores the second half of a window: position i predicts token i + 1. */
static void score(void *ud, size_t i, const float *logits)
{
	struct scorer *sc = ud;
	double max, sum = 0;

	if (i < WINDOW / 2 || i + 1 >= WINDOW)
		return;
	max = (double)logits[llm_argmax(logits, sc->n_vocab)];
	for (unsigned int v = 0; v < sc->n_vocab; v++)
		sum += exp((double)logits[v] - max);
	sc->nll += log(sum) + max - (double)logits[sc->ids[i + 1]];
	sc->scored++;
}

/* The perplexity of the first @windows windows of docs6m's test.txt. */
static double perplexity(const char *file, enum llm_placement placement, size_t windows)
{
	char path[512];
	struct llm_engine *engine;
	struct llm_session *s;
	struct scorer sc = { 0 };
	static char text[400000];
	static int32_t ids[120000];
	size_t bytes, n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/models/docs6m/%s", data_dir(), file);
	engine = ref_open(path, placement, 2, 0);
	s = ref_session(engine, WINDOW);
	snprintf(path, sizeof(path), "%s/models/docs6m/test.txt", data_dir());
	f = fopen(path, "rb");
	assert_non_null(f);
	bytes = fread(text, 1, sizeof(text), f);
	fclose(f);
	n = (size_t)llm_tokenize(engine, text, bytes, LLM_TOKENIZE_BOS, ids,
				 sizeof(ids) / sizeof(ids[0]));
	assert_int_equal(n, 84149);
	sc.n_vocab = llm_engine_info(engine)->n_vocab;
	for (size_t w = 0; w + WINDOW <= n && w < windows * WINDOW; w += WINDOW) {
		ids[w] = llm_engine_info(engine)->bos;
		sc.ids = ids + w;
		llm_session_truncate(s, 0);
		if (llm_session_eval_all(s, ids + w, WINDOW, score, &sc))
			fail_msg("%s", llm_error());
	}
	llm_session_free(s);
	llm_engine_close(engine);
	return exp(sc.nll / (double)sc.scored);
}

/* Uses a few windows; tests/cli/perplexity.sh uses the whole text. */
static void test_w8a8_costs_less_than_one_percent_of_perplexity(void **state)
{
	static const char *const files[] = { "docs6m-f32.gguf", "docs6m-q8_0.gguf" };

	for (int i = 0; i < 2; i++) {
		double cpu = perplexity(files[i], LLM_PLACE_CPU, 8),
		       fine = perplexity(files[i], LLM_PLACE_FINE, 8);
		double npu = perplexity(files[i], LLM_PLACE_NPU, 8);

		print_message("%s, 8 windows: cpu f32 %.4f, fine w8a8 %.4f, npu w8a8 %.4f\n",
			      files[i], cpu, fine, npu);
		assert_true(fabs(fine / cpu - 1) < 0.01);
		assert_true(fabs(npu / cpu - 1) < 0.01);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_docs6m_in_f32_equals_the_reference),
		cmocka_unit_test(test_stories260k_in_f32_equals_the_reference),
		cmocka_unit_test(test_the_embedded_model_is_near_the_f32_reference),
		cmocka_unit_test(test_w8a8_on_the_npu_is_near_the_f32_reference),
		cmocka_unit_test(test_w8a8_costs_less_than_one_percent_of_perplexity),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
