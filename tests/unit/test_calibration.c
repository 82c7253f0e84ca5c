// SPDX-License-Identifier: MIT
/*
 * The model beside what is published: which rows there are, how near they are, what they say of
 * the profile, and the bound that HeteroLLM's introduction sets to layer-level execution.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "calibration.h"
#include "calibration_private.h"

static struct soc *soc, *elite;

static int setup(void **state)
{
	char why[512];

	soc = soc_load("sd8gen3", why, sizeof(why));
	elite = soc_load("sd8elite", why, sizeof(why));
	return !soc || !elite;
}

static int teardown(void **state)
{
	soc_free(soc);
	soc_free(elite);
	return 0;
}

static struct calibration make(const struct soc *p)
{
	struct calibration c;

	assert_int_equal(calibration_make(p, &c), 0);
	for (size_t i = 0; i < c.n; i++) {
		assert_true(c.rows[i].low > 0 && c.rows[i].high >= c.rows[i].low);
		assert_true(c.rows[i].modelled > 0);
		assert_true(strlen(c.rows[i].name) > 0 && strlen(c.rows[i].source) > 0);
	}
	return c;
}

static void test_predictions_are_near_what_is_published(void **state)
{
	struct calibration c = make(soc), e = make(elite);
	const struct calibration_sum *a = &c.sums[CALIBRATION_PREDICTED],
				     *b = &e.sums[CALIBRATION_PREDICTED];

	assert_true(a->n >= 14);
	assert_true(a->mean < 0.20);
	assert_true(b->n >= 4);
	/* Both SoCs together. */
	assert_true(((double)a->n * a->mean + (double)b->n * b->mean) / (double)(a->n + b->n) <
		    0.20);
	calibration_free(&c);
	calibration_free(&e);
}

static void none_is_off_by_more_than_twice(const struct soc *p)
{
	struct calibration c = make(p);

	for (size_t i = 0; i < c.n; i++) {
		const struct calibration_row *row = &c.rows[i];

		if (row->modelled > 2 * row->high || row->modelled < row->low / 2)
			fail_msg("%s, %u rows: %g", row->name, row->rows, row->modelled);
	}
	calibration_free(&c);
}

static void test_no_row_is_off_by_more_than_twice(void **state)
{
	none_is_off_by_more_than_twice(soc);
	none_is_off_by_more_than_twice(elite);
}

/* Whether @note names "section.key". */
static bool names(const char *note, const struct soc_key *key)
{
	char text[96];
	const char *at;

	snprintf(text, sizeof(text), "%s.%s", key->section, key->key);
	at = strstr(note, text);
	return at && !strchr("abcdefghijklmnopqrstuvwxyz_", at[strlen(text)] ?: ',');
}

/* A number that is fitted has a row that fixed it, and such a row's number says so. */
static void check_fitted(const struct soc *p)
{
	struct calibration c = make(p);
	struct soc_key key;

	for (size_t i = 0; i < c.n; i++) {
		const struct calibration_row *row = &c.rows[i];
		bool found = row->kind != CALIBRATION_FITTED;

		for (size_t k = 0; row->kind == CALIBRATION_FITTED && !soc_key(k, &key); k++) {
			if (!names(row->note, &key))
				continue;
			found = true;
			if (p->notes[k].source != SOC_FITTED)
				fail_msg("%s fixes %s.%s, which does not say so", row->name,
					 key.section, key.key);
		}
		if (!found)
			fail_msg("%s fixes '%s', which is no number", row->name, row->note);
	}
	for (size_t k = 0; !soc_key(k, &key); k++) {
		bool found = p->notes[k].source != SOC_FITTED;

		for (size_t i = 0; i < c.n && !found; i++)
			found = c.rows[i].kind == CALIBRATION_FITTED && names(c.rows[i].note, &key);
		if (!found)
			fail_msg("%s.%s is fitted, and no row has fixed it", key.section, key.key);
	}
	calibration_free(&c);
}

static void test_fitted_rows_are_those_of_fitted_numbers(void **state)
{
	check_fitted(soc);
	check_fitted(elite);
}

static const struct calibration_row *find(const struct calibration *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->rows[i].name, name))
			return &c->rows[i];
	fail_msg("no row %s", name);
	return NULL;
}

/* What the paper's figure depends on shows in it. */
static void expect_changed(const char *name, double *number, double times)
{
	struct calibration before = make(soc), after;
	double old = *number, error;

	*number *= times;
	after = make(soc);
	*number = old;
	error = fabs(find(&after, name)->modelled / find(&before, name)->modelled - 1);
	if (error < 0.05)
		fail_msg("%s changes by %.3f only", name, error);
	calibration_free(&before);
	calibration_free(&after);
}

static void test_a_changed_number_shows_where_it_counts(void **state)
{
	expect_changed("prefill, layer level over GPU, Llama-3-8B, 256", &soc->npu.load_gbps, 2);
	expect_changed("prefill, layer level over GPU, up to", &soc->npu.widen_gelems, 2);
	expect_changed("NPU, stationary operand far too large", &soc->npu.hold_rows, 0.5);
	expect_changed("Qwen1.5-1.8B, 256 tokens, NPU", &soc->npu.hold_rows, 2);
	expect_changed("Qwen1.5-1.8B, 256 tokens, CPU", &soc->cpu.f16_gflops, 0.8);
	expect_changed("1024 x 1 rows over 32 x 32, by 2048 x 2048", &soc->npu.line_ns, 2);
	expect_changed("power, layer-level prefill, Llama-3-8B, 256", &soc->npu.active_w, 0.5);
	expect_changed("bandwidth in decode, NPU and GPU", &soc->memory.dram_shared_gbps, 0.75);
}

/*
 * HeteroLLM 1: layer-level execution is up to 3.18 times as fast as an engine on the GPU, which
 * does 1 TFLOPS at most.
 */
static void test_layer_level_is_at_most_as_fast_as_published(void **state)
{
	static const char *const shapes[] = { "llama3-8b",	"llama2-7b",  "llama3.2-3b",
					      "internlm2-1.8b", "mistral-7b", "llama3.2-1b",
					      "qwen2.5-1.5b" };
	struct calibration c = { 0 };
	struct maker m = { .p = soc, .c = &c };

	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
		for (unsigned int tokens = 16; tokens <= 1024; tokens *= 2) {
			struct forward f = {
				.shape = shapes[s],
				.choices = { .placement = LLM_PLACE_GPU,
					     .weights = LLM_WEIGHTS_W4A16,
					     .graphs = LLM_GRAPHS_PADDED,
					     .operands = LLM_OPERANDS_PERMUTED },
				.tokens = tokens,
			};
			double gpu = calibration_forward(&m, &f).ms, layer;

			f.choices.placement = LLM_PLACE_LAYER;
			layer = calibration_forward(&m, &f).ms;
			assert_int_equal(m.err, 0);
			if (gpu / layer > 3.18)
				fail_msg("%s, %u tokens: %.3f times", shapes[s], tokens,
					 gpu / layer);
		}
}

/* And cuts alone give a prompt about the 1.4 times that are left to win by them. */
static void test_cuts_pay(void **state)
{
	struct calibration c = { 0 };
	struct maker m = { .p = soc, .c = &c };
	struct forward f = {
		.shape = "llama3-8b",
		.choices = { .placement = LLM_PLACE_LAYER,
			     .weights = LLM_WEIGHTS_W4A16,
			     .graphs = LLM_GRAPHS_PADDED,
			     .operands = LLM_OPERANDS_PERMUTED },
		.tokens = 256,
	};
	double layer = calibration_forward(&m, &f).ms, tensor;

	f.choices.graphs = LLM_GRAPHS_PIPE;
	f.choices.partition = LLM_PARTITION_AUTO;
	tensor = calibration_forward(&m, &f).ms;
	assert_int_equal(m.err, 0);
	assert_true(layer > 1.2 * tensor && layer < 1.7 * tensor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_predictions_are_near_what_is_published),
		cmocka_unit_test(test_no_row_is_off_by_more_than_twice),
		cmocka_unit_test(test_fitted_rows_are_those_of_fitted_numbers),
		cmocka_unit_test(test_a_changed_number_shows_where_it_counts),
		cmocka_unit_test(test_layer_level_is_at_most_as_fast_as_published),
		cmocka_unit_test(test_cuts_pay),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
