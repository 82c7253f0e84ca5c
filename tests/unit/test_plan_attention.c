// SPDX-License-Identifier: MIT
/*
 * Plans of attention that is not full: which chunks have it, every head once and after its
 * estimate, no slot of scores taken before it is free, and what the pipeline gains on a SoC.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan.h"

#define TOKENS 2048
#define FROM 512

static struct soc *soc;
static struct shape qwen;

static int setup(void **state)
{
	char why[512];

	soc = soc_load("sd8gen3", why, sizeof(why));
	return !soc || shape_load("qwen2.5-1.5b", &qwen);
}

static int teardown(void **state)
{
	soc_free(soc);
	return 0;
}

static struct llm_choices choices_of(enum llm_attention attention, enum llm_pipeline pipeline)
{
	return (struct llm_choices){
		.placement = LLM_PLACE_FINE,
		.weights = LLM_WEIGHTS_W8A8,
		.operands = LLM_OPERANDS_NATURAL,
		.attention = attention,
		.pipeline = pipeline,
	};
}

static struct attention *attention_of(const struct llm_choices *choices, double ratio)
{
	const struct attention_options o = {
		.shape = &qwen,
		.choices = choices,
		.ratio = ratio,
		.from = FROM,
		.buckets = SCALE_BUCKETS_DEFAULT,
		.step = SCALE_BUCKETS_SIGMA,
	};
	struct attention *a;

	assert_int_equal(attention_create(&o, &a), 0);
	/* Heads that differ in what they need, and in their buckets. */
	for (unsigned int i = 0; a && i < qwen.layers * qwen.heads; i++) {
		a->ratios[i] *= 0.5 + i * 7 % 11 / 10.0;
		a->expected[i] = (uint8_t)(i * 5 % 3);
	}
	return a;
}

static struct plan_options options_of(const struct llm_choices *choices, const struct attention *a,
				      bool planned)
{
	return (struct plan_options){
		.soc = planned ? soc : NULL,
		.shape = &qwen,
		.cuts = soc,
		.choices = *choices,
		.attention = a,
	};
}

static struct plan *plan_of(const struct plan_options *o, uint32_t past, uint32_t tokens)
{
	const struct plan_pass pass = {
		.n_past = past,
		.n_tokens = tokens,
		.logits = PLAN_LOGITS_LAST,
	};
	struct plan *plan = plan_forward(o, &pass);

	assert_non_null(plan);
	return plan;
}

static struct sched_run run_of(const struct plan *plan)
{
	struct sched_options so = {
		.clock = SCHED_VIRTUAL, .soc = soc, .policy = plan->policy, .param = plan->times
	};
	struct sched_run run;

	assert_int_equal(sched_run(plan->tasks, &so, &run), 0);
	return run;
}

static uint64_t time_of(enum llm_attention attention, enum llm_pipeline pipeline, double ratio,
			uint32_t tokens)
{
	const struct llm_choices choices = choices_of(attention, pipeline);
	struct attention *a = attention_of(&choices, ratio);
	const struct plan_options o = options_of(&choices, a, true);
	struct plan *plan = plan_of(&o, 0, tokens);
	struct sched_run run = run_of(plan);
	uint64_t ns = run.makespan_ns;

	sched_run_free(&run);
	plan_free(plan);
	attention_free(a);
	return ns;
}

/* ---- which chunks ---- */

/* The chunks with works of @op in layer 0: bits. */
static uint32_t chunks_with(const struct plan *plan, enum llm_op op, enum lane_what what)
{
	uint32_t chunks = 0;

	for (uint32_t i = 0; i < sched_nr_tasks(plan->tasks); i++)
		if (plan->works[i].op == op && plan->works[i].what == what && !plan->works[i].layer)
			chunks |= 1u << plan->works[i].chunk;
	return chunks;
}

static void only_chunks_beyond_the_limit_are_sparse(void **state)
{
	static const enum llm_attention kinds[] = { LLM_ATTENTION_SPARSE, LLM_ATTENTION_BLOCK,
						    LLM_ATTENTION_SHADOW };

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		const struct llm_choices choices = choices_of(kinds[k], LLM_PIPELINE_GREEDY);
		struct attention *a = attention_of(&choices, 0.2);

		for (int planned = 0; planned < 2; planned++) {
			const struct plan_options o = options_of(&choices, a, planned);
			/* Chunks of 256: those that end at 256 and 512 have full attention. */
			struct plan *plan = plan_of(&o, 0, 1024);

			assert_int_equal(chunks_with(plan, LLM_OP_ATTN, LANE_OP), 0x3);
			assert_int_equal(chunks_with(plan, LLM_OP_ESTIMATE, LANE_HEADS), 0xc);
			plan_free(plan);
			plan = plan_of(&o, 1024, 256);
			assert_int_equal(chunks_with(plan, LLM_OP_ESTIMATE, LANE_HEADS), 1);
			plan_free(plan);
			/* Single tokens have full attention. */
			plan = plan_of(&o, 1024, 1);
			assert_int_equal(chunks_with(plan, LLM_OP_ESTIMATE, LANE_HEADS), 0);
			plan_free(plan);
		}
		attention_free(a);
	}
}

/* ---- heads ---- */

/* Whether @task comes after @before, by any way. */
static bool comes_after(const struct sched_tasks *tasks, uint32_t task, uint32_t before)
{
	size_t n;
	const uint32_t *list = sched_predecessors(tasks, task, &n);

	for (size_t i = 0; i < n; i++)
		if (list[i] == before || (list[i] > before && comes_after(tasks, list[i], before)))
			return true;
	return false;
}

/* Follows the works of a chunk's layer through the plan. */
static void check_layer(const struct plan *plan, const struct attention *a, uint32_t chunk,
			uint32_t layer)
{
	uint32_t estimate_of[64], freed[LANE_SCORE_SLOTS], seen[64] = { 0 };

	memset(freed, 0xff, sizeof(freed));
	for (uint32_t i = 0; i < sched_nr_tasks(plan->tasks); i++) {
		const struct lane_work *w = &plan->works[i];

		if (w->chunk != chunk || w->layer != layer || w->what != LANE_HEADS)
			continue;
		for (uint32_t h = 0; w->op == LLM_OP_ESTIMATE && h < w->nr_heads; h++) {
			estimate_of[w->head[h]] = i;
			if (freed[w->slot[h]] != UINT32_MAX)
				assert_true(comes_after(plan->tasks, i, freed[w->slot[h]]));
		}
		for (uint32_t h = 0; w->op == LLM_OP_SELECT && !w->nr_heads && h < qwen.heads; h++)
			seen[h] += attention_whole(a, layer, h);
		for (uint32_t h = 0; w->op == LLM_OP_SELECT && h < w->nr_heads; h++) {
			assert_false(attention_whole(a, layer, w->head[h]));
			assert_true(comes_after(plan->tasks, i, estimate_of[w->head[h]]));
			seen[w->head[h]]++;
			freed[w->slot[h]] = i;
		}
	}
	for (uint32_t h = 0; h < qwen.heads; h++)
		assert_int_equal(seen[h], 1);
}

/* With ratios up to 0.45; from 0.2 to 0.6, where some heads have full attention; from 0.5 on, where
 * all have. */
static void every_head_is_computed_once_and_chosen_after_its_estimate(void **state)
{
	static const double ratios[] = { 0.3, 0.4, 1 };

	for (int i = 0; i < 3 * LLM_PIPELINE_GREEDY + 3; i++) {
		const enum llm_pipeline p = (enum llm_pipeline)(i / 3);
		const struct llm_choices choices = choices_of(LLM_ATTENTION_SHADOW, p);
		struct attention *a = attention_of(&choices, ratios[i % 3]);

		for (int planned = 0; planned < 2; planned++) {
			const struct plan_options o = options_of(&choices, a, planned);
			struct plan *plan = plan_of(&o, FROM, 256);

			struct sched_run run = run_of(plan);

			sched_run_free(&run);
			check_layer(plan, a, 0, 0);
			check_layer(plan, a, 0, qwen.layers - 1);
			plan_free(plan);
		}
		attention_free(a);
	}
}

/* ---- numbers of keys ---- */

static void a_share_of_keys_that_is_whole_is_computed_as_it_is(void **state)
{
	const struct llm_choices choices = choices_of(LLM_ATTENTION_SHADOW, 0);
	struct attention *a = attention_of(&choices, 1);

	for (unsigned int thousandths = 1; thousandths < 1000; thousandths++) {
		a->ratios[0] = thousandths / 1000.0;
		for (unsigned int n = 1; n <= 4096; n++) {
			/* Rounded up; at least 16, at most all. */
			unsigned int want = (thousandths * n + 999) / 1000;

			want = want < 16 ? 16 : want;
			if (attention_keep(a, 0, 0, n) != (want < n ? want : n))
				fail_msg("%u thousandths of %u keys", thousandths, n);
		}
	}
	attention_free(a);
}

/* ---- times ---- */

static void fewer_keys_take_less_time_and_pipelines_gain(void **state)
{
	uint64_t full = time_of(LLM_ATTENTION_FULL, 0, 1, TOKENS),
		 sequential = time_of(LLM_ATTENTION_SHADOW, LLM_PIPELINE_SEQUENTIAL, 0.2, TOKENS),
		 overlap = time_of(LLM_ATTENTION_SHADOW, LLM_PIPELINE_OVERLAP, 0.2, TOKENS),
		 fused = time_of(LLM_ATTENTION_SHADOW, LLM_PIPELINE_FUSED, 0.2, TOKENS),
		 greedy = time_of(LLM_ATTENTION_SHADOW, LLM_PIPELINE_GREEDY, 0.2, TOKENS),
		 best = time_of(LLM_ATTENTION_SHADOW, LLM_PIPELINE_INSERTION, 0.2, TOKENS),
		 more = time_of(LLM_ATTENTION_SHADOW, LLM_PIPELINE_INSERTION, 0.4, TOKENS),
		 sparse = time_of(LLM_ATTENTION_SPARSE, LLM_PIPELINE_GREEDY, 0.2, TOKENS);

	print_message("ms: full %.1f sparse %.1f shadow sequential %.1f overlap %.1f fused %.1f "
		      "greedy %.1f insertion %.1f, with 40 %% %.1f\n",
		      (double)full / 1e6, (double)sparse / 1e6, (double)sequential / 1e6,
		      (double)overlap / 1e6, (double)fused / 1e6, (double)greedy / 1e6,
		      (double)best / 1e6, (double)more / 1e6);
	assert_true(overlap < sequential);
	assert_true(fused < overlap);
	/* The CPU lane has two of the paper's stages, which algorithm 1 does not count on. */
	assert_true(greedy < overlap);
	assert_true(best <= fused && best <= greedy);
	assert_true(best < more);
	assert_true(best < sparse);
	assert_true(best < full);
}

/* A shape stands for a file whose heads are balanced. */
static void balanced_keys_take_time(void **state)
{
	const struct llm_choices choices = choices_of(LLM_ATTENTION_SHADOW, LLM_PIPELINE_INSERTION);
	struct attention *a = attention_of(&choices, 0.2);
	const struct plan_options o = options_of(&choices, a, true);
	uint64_t ns[2];

	assert_true(a->balanced);
	for (int balanced = 0; balanced < 2; balanced++) {
		struct sched_run run;
		struct plan *plan;

		a->balanced = balanced;
		plan = plan_of(&o, 0, 1024);
		run = run_of(plan);
		ns[balanced] = run.makespan_ns;
		sched_run_free(&run);
		plan_free(plan);
	}
	assert_true(ns[1] > ns[0] && (double)ns[1] < 1.02 * (double)ns[0]);
	attention_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_chunks_beyond_the_limit_are_sparse),
		cmocka_unit_test(every_head_is_computed_once_and_chosen_after_its_estimate),
		cmocka_unit_test(a_share_of_keys_that_is_whole_is_computed_as_it_is),
		cmocka_unit_test(fewer_keys_take_less_time_and_pipelines_gain),
		cmocka_unit_test(balanced_keys_take_time),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
