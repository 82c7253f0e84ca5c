// SPDX-License-Identifier: MIT
/*
 * Candidates at chosen positions: those of all logits, on all placements, KV types and clocks, for
 * the cost of the rows that were chosen. TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "best.h"
#include "engine.h"
#include "llm_pair.h"

/* ---- one row of logits ----------------------------------------------------------------------- */

static int by_logit(const void *a, const void *b, void *ud)
{
	const float *logits = ud;
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	if (logits[x] != logits[y])
		return logits[x] < logits[y] ? 1 : -1;
	return x - y;
}

/* The definition: all tokens sorted, and softmax in double. */
static void check_best(const float *logits, unsigned int n, const struct llm_candidate *best,
		       unsigned int k)
{
	int32_t *ids = malloc(n * sizeof(*ids));
	double sum = 0;

	for (unsigned int i = 0; i < n; i++)
		ids[i] = (int32_t)i;
	qsort_r(ids, n, sizeof(*ids), by_logit, (void *)logits);
	for (unsigned int i = 0; i < n; i++)
		sum += exp((double)logits[i] - (double)logits[ids[0]]);
	for (unsigned int i = 0; i < k; i++) {
		double p = exp((double)logits[ids[i]] - (double)logits[ids[0]]) / sum;

		assert_int_equal(best[i].id, ids[i]);
		assert_true(fabs((double)best[i].p - p) <= 1e-6 * p + 1e-37);
	}
	free(ids);
}

static void test_the_best_of_a_row_are_those_of_all(void **state)
{
	struct llm_candidate best[LLM_MAX_CANDIDATES];

	for (int round = 0; round < 200; round++) {
		unsigned int k = any(1, LLM_MAX_CANDIDATES), n = k + any(0, 5000),
			     levels = any(0, 1) ? any(1, 20) : 1u << 24;
		float *logits = malloc(n * sizeof(*logits));

		for (unsigned int i = 0; i < n; i++)
			logits[i] = (float)any(0, levels) / (float)levels * 30 - 20;
		best_tokens(cpu_kernels_get(NULL), logits, n, best, k);
		check_best(logits, n, best, k);
		free(logits);
	}
}

static void test_what_is_no_number_is_no_candidate(void **state)
{
	float logits[100];
	struct llm_candidate best[4];

	for (int i = 0; i < 100; i++)
		logits[i] = NAN;
	logits[70] = 1;
	logits[90] = 1;
	logits[3] = -INFINITY;
	best_tokens(cpu_kernels_get(NULL), logits, 100, best, 4);
	assert_true(best[0].id == 70 && best[0].p == 0.5f && best[1].id == 90);
	assert_true(best[2].id == 3 && best[2].p == 0 && best[3].id == -1 && best[3].p == 0);
}

/* ---- sessions -------------------------------------------------------------------------------- */

struct seen {
	const struct pair *p;
	const size_t *at;
	unsigned int k;
	float *all; /* [n][n_vocab]: what llm_session_eval_all() gives */
	size_t nr;
};

static void keep_row(void *ud, size_t i, const float *logits)
{
	struct seen *seen = ud;

	memcpy(seen->all + i * seen->p->n_vocab, logits, seen->p->n_vocab * sizeof(float));
}

static void check_row(void *ud, size_t i, const struct llm_candidate *best)
{
	struct seen *seen = ud;

	assert_int_equal(i, seen->nr++);
	check_best(seen->all + seen->at[i] * seen->p->n_vocab, seen->p->n_vocab, best, seen->k);
}

/* Each token with a probability of @percent. */
static size_t choose(size_t *at, size_t n, unsigned int percent)
{
	size_t nr = 0;

	for (size_t i = 0; i < n; i++)
		if (any(1, 100) <= percent)
			at[nr++] = i;
	return nr;
}

/* A prompt of @n tokens, behind what the sessions have. */
static void check_prompt(struct pair *p, size_t n, unsigned int percent)
{
	size_t past = llm_session_n_past(p->s);
	struct seen seen = { .p = p, .k = any(1, LLM_MAX_CANDIDATES) };
	size_t at[MAX_TOKENS], nr = choose(at, n, percent);
	struct llm_session_stats stats;

	seen.at = at;
	seen.all = malloc(n * p->n_vocab * sizeof(float));
	if (llm_session_eval_all(p->plain, p->ids + past, n, keep_row, &seen) ||
	    llm_session_eval_at(p->s, p->ids + past, n, at, nr, seen.k, check_row, &seen))
		fail_msg("%s", llm_error());
	assert_int_equal(seen.nr, nr);
	assert_int_equal(llm_session_n_past(p->s), past + n);
	expect_same(p, llm_session_logits(p->s), llm_session_logits(p->plain), "the last token");
	llm_session_stats(p->s, &stats);
	assert_true(stats.at.positions >= nr);
	/* A last chunk of one token has its logits by a graph with them. */
	assert_true(nr < 2 || (stats.at.head_ns && stats.at.reduce_ns));
	free(seen.all);
}

static void check_placement(enum llm_placement placement, enum llm_graphs graphs,
			    const char *profile)
{
	static const unsigned int percents[] = { 0, 3, 40, 100 };
	struct pair p;

	for (unsigned int i = 0; i < 4; i++) {
		struct llm_options o = options_of(placement, any(0, 2));

		o.choices.graphs = graphs;
		o.profile = profile;
		pair_create(&p, NULL, &o);
		check_prompt(&p, i && any(0, 3) ? any(2, 200) : any(1, 2) * i + 1, percents[i]);
		pair_free(&p);
	}
}

static const enum llm_placement placements[] = { LLM_PLACE_CPU,	   LLM_PLACE_NPU, LLM_PLACE_FINE,
						 LLM_PLACE_LINEAR, LLM_PLACE_GPU, LLM_PLACE_LAYER };
#define NR_PLACEMENTS (sizeof(placements) / sizeof(placements[0]))

static void test_candidates_are_those_of_all_logits(void **state)
{
	for (unsigned int i = 0; i < NR_PLACEMENTS; i++)
		check_placement(placements[i], LLM_GRAPHS_BUCKETED, NULL);
	check_placement(LLM_PLACE_NPU, LLM_GRAPHS_FIXED, NULL);
	check_placement(LLM_PLACE_LINEAR, LLM_GRAPHS_ONLINE, NULL);
}

static void test_candidates_are_the_same_on_the_virtual_clock(void **state)
{
	for (unsigned int i = 0; i < NR_PLACEMENTS; i++)
		check_placement(placements[i], LLM_GRAPHS_BUCKETED, "sd8gen3");
}

/* Whether the last layer computed chosen rows alone. */
static bool check_chunks(const char *profile, bool positions)
{
	struct llm_options o = options_of(LLM_PLACE_NPU, any(0, 2));
	struct llm_session_stats stats;
	unsigned int chunk = o.chunk;
	struct pair p;

	o.profile = profile;
	o.choices.order = any(LLM_ORDER_AUTO, LLM_ORDER_CHUNK);
	pair_create(&p, NULL, &o);
	p.s->runner.opts.positions = positions;
	eval(p.s, p.ids, 1);
	eval(p.plain, p.ids, 1);
	for (int i = 0; i < 3; i++)
		check_prompt(&p, any(0, 2) * chunk + any(1, 2) + any(0, 1) * any(0, 15),
			     any(10, 100));
	llm_session_stats(p.s, &stats);
	pair_free(&p);
	return stats.at.layer_ns;
}

/* Of several prompts in a session, whose last chunks may have a single token. */
static void test_chosen_rows_of_all_chunks_have_the_last_layer_s_bits(void **state)
{
	unsigned int alone = 0;

	for (int i = 0; i < 12; i++)
		alone += check_chunks(i % 3 ? NULL : "sd8gen3", true);
	assert_true(alone > 3);
}

/* A device with an ISA that has no attention at positions. */
static void test_without_positions_all_rows_go_through_the_last_layer(void **state)
{
	for (int i = 0; i < 3; i++)
		assert_false(check_chunks(NULL, false));
}

static void never_called(void *ud, size_t i, const struct llm_candidate *best)
{
	fail();
}

static void test_bad_positions_are_refused(void **state)
{
	struct llm_options o = options_of(LLM_PLACE_CPU, LLM_KV_F16);
	const size_t falls[] = { 3, 2 }, twice[] = { 1, 1 }, beyond[] = { 1, 8 }, good[] = { 1 };
	struct pair p;

	pair_create(&p, "llama", &o);
	assert_int_equal(llm_session_eval_at(p.s, p.ids, 8, falls, 2, 4, never_called, NULL),
			 -EINVAL);
	assert_int_equal(llm_session_eval_at(p.s, p.ids, 8, twice, 2, 4, never_called, NULL),
			 -EINVAL);
	assert_int_equal(llm_session_eval_at(p.s, p.ids, 8, beyond, 2, 4, never_called, NULL),
			 -EINVAL);
	assert_int_equal(llm_session_eval_at(p.s, p.ids, 8, good, 1, 0, never_called, NULL),
			 -EINVAL);
	assert_int_equal(llm_session_eval_at(p.s, p.ids, 8, good, 1, LLM_MAX_CANDIDATES + 1,
					     never_called, NULL),
			 -EINVAL);
	assert_int_equal(llm_session_eval_at(p.s, p.ids, 0, NULL, 0, 1, never_called, NULL),
			 -EINVAL);
	assert_int_equal(
		llm_session_eval_at(p.s, p.ids, MAX_TOKENS + 1, good, 1, 1, never_called, NULL),
		-ENOSPC);
	assert_int_equal(llm_session_n_past(p.s), 0);
	assert_null(llm_session_logits(p.s));
	pair_free(&p);
}

/* The output matrix's time grows with the rows that are chosen. */
static void test_only_chosen_rows_are_paid_for(void **state)
{
	struct llm_options o = { .shape = "qwen2.5-1.5b",
				 .dry_run = true,
				 .profile = "sd8gen3",
				 .choices = { .placement = LLM_PLACE_NPU } };
	uint64_t ns[3], head_ns[3];
	size_t at[512];

	for (int i = 0; i < 3; i++) {
		struct llm_engine *engine = open_engine(&o);
		struct llm_session *s = new_session(engine, 1024);
		struct llm_session_stats stats;
		size_t nr = 0;

		for (size_t t = 0; t < 512; t += i == 2 ? 1 : 8)
			at[nr++] = t;
		if (i ? llm_session_eval_at(s, NULL, 512, at, nr, 8, never_called, NULL)
		      : llm_session_eval(s, NULL, 512))
			fail_msg("%s", llm_error());
		llm_session_stats(s, &stats);
		ns[i] = stats.prefill_ns;
		head_ns[i] = stats.at.head_ns;
		llm_session_free(s);
		llm_engine_close(engine);
	}
	print_message("512 tokens: %.1f ms, with 64 positions %.1f, with all %.1f\n", ns[0] / 1e6,
		      ns[1] / 1e6, ns[2] / 1e6);
	print_message("output matrix: %.1f and %.1f\n", head_ns[1] / 1e6, head_ns[2] / 1e6);
	assert_true(ns[0] < ns[1] && ns[1] < ns[2]);
	assert_true(!head_ns[0] && 4 * head_ns[1] < head_ns[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_best_of_a_row_are_those_of_all),
		cmocka_unit_test(test_what_is_no_number_is_no_candidate),
		cmocka_unit_test(test_candidates_are_those_of_all_logits),
		cmocka_unit_test(test_candidates_are_the_same_on_the_virtual_clock),
		cmocka_unit_test(test_chosen_rows_of_all_chunks_have_the_last_layer_s_bits),
		cmocka_unit_test(test_without_positions_all_rows_go_through_the_last_layer),
		cmocka_unit_test(test_bad_positions_are_refused),
		cmocka_unit_test(test_only_chosen_rows_are_paid_for),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
