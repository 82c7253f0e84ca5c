// SPDX-License-Identifier: MIT
/*
 * Mixtures of experts: the router beside one in double precision, whole models beside the forward
 * pass of tiny_forward.h, the same bits however a prompt is evaluated, and where models run.
 *
 * Random shapes and weights; TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "experts.h"
#include "experts_fixture.h"

/* As in test_llm_model.c: float32 beside double, 16 bits of activations, and clear cases. */
#define BOUND 1e-5
#define BOUND_16 5e-4
#define CLEAR 1e-4
#define MAX_EXPERTS 70

/* ---- the router ---- */

static const float *sorted_by;

static int by_logit(const void *a, const void *b)
{
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	float x = sorted_by[i], y = sorted_by[j];

	if (isnan(x) != isnan(y))
		return isnan(x) ? 1 : -1;
	if (x < y || x > y)
		return x < y ? 1 : -1;
	return i < j ? -1 : 1;
}

static double sum_exp(const float *logits, const uint32_t *experts, unsigned int n)
{
	double sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += exp((double)logits[experts[i]]);
	return sum;
}

static void check_route(const float *logits, unsigned int n, unsigned int used, bool norm,
			float scale)
{
	uint32_t want[MAX_EXPERTS], experts[MAX_EXPERTS];
	float weights[MAX_EXPERTS];
	double sum;

	for (uint32_t e = 0; e < n; e++)
		want[e] = e;
	sorted_by = logits;
	qsort(want, n, sizeof(*want), by_logit);
	lane_route(logits, n, used, norm, scale, experts, weights);
	assert_memory_equal(experts, want, used * sizeof(*want));
	sum = sum_exp(logits, want, norm ? used : n);
	for (unsigned int i = 0; i < used; i++) {
		double w = exp((double)logits[want[i]]) / sum * (double)scale;

		if (isnan(w))
			assert_true(isnan(weights[i]));
		else if (fabs(w - (double)weights[i]) > 1e-6 * w)
			fail_msg("weight %u of %u: %g, not %g", i, used, (double)weights[i], w);
	}
}

static void the_router_ranks_experts_as_a_sort_does(void **state)
{
	float logits[MAX_EXPERTS];

	for (int i = 0; i < 2000; i++) {
		unsigned int n = any(1, MAX_EXPERTS), values = any(1, 200);

		for (unsigned int e = 0; e < n; e++)
			logits[e] = (float)any(0, values) / 16 - 4;
		check_route(logits, n, any(1, n), any(0, 1), any(0, 1) ? 1 : 2.5f);
	}
}

static void nans_of_the_router_come_last_and_spread(void **state)
{
	const float some[] = { 1, NAN, 3, NAN, 2 }, none[] = { NAN, NAN, NAN };
	uint32_t experts[5];
	float weights[5];

	lane_route(some, 5, 4, true, 1, experts, weights);
	assert_memory_equal(experts, ((uint32_t[]){ 2, 4, 0, 1 }), 4 * sizeof(*experts));
	assert_true(isnan(weights[0]));
	lane_route(some, 5, 2, true, 1, experts, weights);
	assert_true(weights[0] > 0.7f && weights[0] < 0.8f);
	lane_route(none, 3, 2, false, 1, experts, weights);
	assert_memory_equal(experts, ((uint32_t[]){ 0, 1 }), 2 * sizeof(*experts));
	assert_true(isnan(weights[1]));
}

/* ---- models ---- */

struct gathered {
	float *logits;
	size_t n_vocab;
};

static void gather(void *ud, size_t i, const float *logits)
{
	struct gathered *g = ud;

	memcpy(g->logits + i * g->n_vocab, logits, g->n_vocab * sizeof(*logits));
}

/* False: the case is not clear. */
static bool check_model(const struct tiny_config *c, struct llm_options *o, double bound)
{
	unsigned int n = any(2, 30);
	size_t all = (size_t)n * c->n_vocab;
	struct gathered g = { malloc(all * sizeof(*g.logits)), c->n_vocab };
	double *want = malloc(all * sizeof(*want)), error;
	struct llm_engine *engine;
	struct llm_session *s;
	struct tiny_model t;
	int32_t ids[MAX_IDS];
	bool clear;

	tiny_create(&t, c, random_u64(&seed_state));
	for (unsigned int i = 0; i < n; i++)
		ids[i] = (int32_t)any(0, c->n_vocab - 1);
	clear = tiny_forward(&t, ids, n, o->choices.weights, o->choices.activations, want) > CLEAR;
	if (clear) {
		o->model = tiny_write(&t);
		engine = open_engine(o);
		s = new_session(engine, 64);
		if (llm_session_eval_all(s, ids, n, gather, &g))
			fail_msg("%s", llm_error());
		error = tiny_error(g.logits, want, all);
		print_message("%s, %u of %u experts of %u, %u for all, %u tokens: error %.2g\n",
			      c->arch, c->n_expert_used, c->n_expert, c->n_ff, c->n_ff_shared, n,
			      error);
		assert_true(error < bound);
		llm_session_free(s);
		llm_engine_close(engine);
	}
	tiny_free(&t);
	free(want);
	free(g.logits);
	return clear;
}

static void check_models(enum llm_placement placement, enum llm_weights weights,
			 enum llm_activations activations, double bound, int models)
{
	for (int a = 0; a < NR_ARCHS; a++) {
		for (int i = 0, drawn = 0; i < models; drawn++) {
			struct tiny_config c = any_config(archs[a], placement != LLM_PLACE_CPU);
			struct llm_options o = options_of(placement, weights, activations);

			/* Errors of 16 bits would leave few clear cases in a layer behind. */
			if (bound > BOUND)
				c.n_layer = 1;
			assert_true(drawn < 200 * models);
			i += check_model(&c, &o, bound);
		}
	}
}

static void models_on_the_cpu_equal_double_precision(void **state)
{
	check_models(LLM_PLACE_CPU, LLM_WEIGHTS_F32, LLM_ACTIVATIONS_INT8, BOUND, 6);
}

static void models_in_integers_equal_integer_arithmetic(void **state)
{
	check_models(LLM_PLACE_FINE, LLM_WEIGHTS_W8A8, LLM_ACTIVATIONS_INT8, BOUND, 2);
	check_models(LLM_PLACE_FINE, LLM_WEIGHTS_W4A8, LLM_ACTIVATIONS_INT8, BOUND, 2);
}

static void models_with_outliers_and_16_bits_equal_theirs(void **state)
{
	check_models(LLM_PLACE_FINE, LLM_WEIGHTS_W8A8, LLM_ACTIVATIONS_ROW_OUTLIERS, BOUND_16, 1);
	check_models(LLM_PLACE_FINE, LLM_WEIGHTS_W4A8, LLM_ACTIVATIONS_MIXED, BOUND_16, 1);
	check_models(LLM_PLACE_FINE, LLM_WEIGHTS_W8A8, LLM_ACTIVATIONS_INT16, BOUND_16, 1);
	check_models(LLM_PLACE_FINE, LLM_WEIGHTS_W4A16, LLM_ACTIVATIONS_ROW_OUTLIERS, BOUND_16, 1);
}

/* ---- the same bits ---- */

static void rows_do_not_depend_on_those_beside_them(void **state)
{
	static const enum llm_placement on[] = { LLM_PLACE_CPU, LLM_PLACE_FINE };
	static const enum llm_weights weights[] = { LLM_WEIGHTS_W8A8, LLM_WEIGHTS_W4A8,
						    LLM_WEIGHTS_NATIVE, LLM_WEIGHTS_W4A16 };
	float one[1024], other[1024];
	int32_t ids[MAX_IDS];

	for (int i = 0; i < 12; i++) {
		struct tiny_config c = any_config(archs[i % NR_ARCHS], true);
		struct llm_options o = options_of(on[i % 2], LLM_WEIGHTS_AUTO, 0);
		struct tiny_model t;

		if (on[i % 2] == LLM_PLACE_FINE)
			o.choices.weights = weights[i / 2 % 4];
		tiny_create(&t, &c, random_u64(&seed_state));
		o.model = tiny_write(&t);
		for (int k = 0; k < MAX_IDS; k++)
			ids[k] = (int32_t)any(0, c.n_vocab - 1);
		o.threads = 1;
		eval_steps(&o, ids, MAX_IDS, 1, one, c.n_vocab);
		o.threads = 2;
		o.chunk = any(2, 24);
		eval_steps(&o, ids, MAX_IDS, any(2, MAX_IDS), other, c.n_vocab);
		assert_memory_equal(one, other, c.n_vocab * sizeof(*one));
		tiny_free(&t);
	}
}

struct seen {
	unsigned int experts, others; /* rows */
};

static void see(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
		unsigned int rows, unsigned int cols, const float *data)
{
	struct seen *seen = ud;

	if (!strcmp(tensor, "experts"))
		seen->experts += rows;
	for (size_t i = 0; i < 4; i++)
		if (!strcmp(tensor, (const char *const[]){ "gate", "up", "act", "down" }[i]))
			seen->others += rows;
}

static void an_observer_sees_the_result_of_the_experts(void **state)
{
	struct tiny_config c = any_config("qwen2moe", true);
	unsigned int n = any(2, MAX_IDS);
	struct tiny_model t;
	int32_t ids[MAX_IDS];

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	for (unsigned int i = 0; i < n; i++)
		ids[i] = (int32_t)any(0, c.n_vocab - 1);
	for (int i = 0; i < 2; i++) {
		struct llm_options o =
			options_of(i ? LLM_PLACE_FINE : LLM_PLACE_CPU, LLM_WEIGHTS_AUTO, 0);
		struct llm_session *s, *plain_one;
		struct llm_engine *engine;
		struct seen seen = { 0 };

		o.model = t.path;
		engine = open_engine(&o);
		s = new_session(engine, 64);
		plain_one = new_session(engine, 64);
		llm_session_observe(s, see, &seen);
		if (llm_session_eval(s, ids, n) || llm_session_eval(plain_one, ids, n))
			fail_msg("%s", llm_error());
		assert_int_equal(seen.experts, n * c.n_layer);
		assert_int_equal(seen.others, 0);
		assert_memory_equal(llm_session_logits(s), llm_session_logits(plain_one),
				    c.n_vocab * sizeof(float));
		llm_session_free(s);
		llm_session_free(plain_one);
		llm_engine_close(engine);
	}
	tiny_free(&t);
}

/* ---- what runs where ---- */

static void models_without_a_placement_get_one_that_has_experts(void **state)
{
	for (int i = 0; i < 6; i++) {
		bool panels = i % 2;
		struct tiny_config c = any_config(archs[i / 2], panels);
		struct llm_options o = options_of(LLM_PLACE_AUTO, LLM_WEIGHTS_AUTO, 0);
		struct llm_engine *engine;
		struct tiny_model t;

		c.n_ff += panels ? 0 : c.n_ff % 64 == 0;
		tiny_create(&t, &c, random_u64(&seed_state));
		o.model = tiny_write(&t);
		engine = open_engine(&o);
		assert_int_equal(llm_engine_info(engine)->choices.placement,
				 panels ? LLM_PLACE_FINE : LLM_PLACE_CPU);
		assert_true(llm_engine_info(engine)->n_params_active <=
			    llm_engine_info(engine)->n_params);
		llm_engine_close(engine);
		tiny_free(&t);
	}
}

static void placements_that_have_no_experts_are_refused(void **state)
{
	static const enum llm_placement others[] = { LLM_PLACE_NPU, LLM_PLACE_GPU, LLM_PLACE_LAYER,
						     LLM_PLACE_LINEAR };
	struct tiny_config c = any_config("qwen3moe", true);
	struct tiny_model t;

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct llm_options o = options_of(others[i], LLM_WEIGHTS_AUTO, 0);

		o.model = t.path;
		o.gpu = LLM_GPU_HOST;
		expect_refused(&o, -ENOTSUP, "choose fine, or cpu");
	}
	tiny_free(&t);
	c.n_ff = 96;
	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	expect_refused(
		&(struct llm_options){ .model = t.path, .choices.placement = LLM_PLACE_FINE },
		-ENOTSUP, "choose placement cpu");
	tiny_free(&t);
}

/* Bytes that a token takes from a phone's memory, and bytes of weights that it reads here. */
static void token_bytes(unsigned int experts, double *dram, uint64_t *weights)
{
	struct tiny_config c = any_config("qwen3moe", true);
	struct llm_session_stats stats;
	struct tiny_model t;

	c.n_layer = 2;
	c.n_head_kv = 2;
	c.n_head = 4;
	c.head_dim = c.rot_dim = 32;
	c.n_embd = 128;
	c.n_ff = 128;
	c.n_vocab = 320;
	c.untied = true;
	c.n_expert = experts;
	c.n_expert_used = 3;
	tiny_create(&t, &c, 1);
	tiny_write(&t);
	for (int dry = 0; dry < 2; dry++) {
		struct llm_engine *engine = open_engine(&(struct llm_options){
			.model = t.path,
			.choices.placement = LLM_PLACE_FINE,
			.choices.weights = LLM_WEIGHTS_W8A8,
			.profile = dry ? "sd8gen3" : NULL,
			.dry_run = dry,
			.threads = 1,
			.device = { .transport = NPU_TRANSPORT_SIM, .threads = 1 } });
		struct llm_session *s = new_session(engine, 32);

		if (dry && llm_session_eval(s, NULL, 1))
			fail_msg("%s", llm_error());
		llm_session_stats(s, &stats);
		*dram = stats.virtual_clock.dram_bytes;
		if (!dry)
			*weights = llm_engine_info(engine)->token_bytes;
		llm_session_free(s);
		llm_engine_close(engine);
	}
	tiny_free(&t);
}

static void a_token_reads_its_own_experts_only(void **state)
{
	/* Gate, up and down of an expert, in two layers. */
	const double expert = 2 * 3 * 128 * 128;
	uint64_t few_weights, many_weights;
	double few, many;

	token_bytes(3, &few, &few_weights);
	token_bytes(60, &many, &many_weights);
	/* More experts are a longer router, of F16 on a phone. */
	assert_true(many > few && many < few + 2 * 57 * (128 * 2 + 16));
	assert_true(few > 3 * expert && few < 7 * expert);
	assert_true(fabs((double)many_weights - (double)few_weights) < expert / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_router_ranks_experts_as_a_sort_does),
		cmocka_unit_test(nans_of_the_router_come_last_and_spread),
		cmocka_unit_test(models_on_the_cpu_equal_double_precision),
		cmocka_unit_test(models_in_integers_equal_integer_arithmetic),
		cmocka_unit_test(models_with_outliers_and_16_bits_equal_theirs),
		cmocka_unit_test(rows_do_not_depend_on_those_beside_them),
		cmocka_unit_test(an_observer_sees_the_result_of_the_experts),
		cmocka_unit_test(models_without_a_placement_get_one_that_has_experts),
		cmocka_unit_test(placements_that_have_no_experts_are_refused),
		cmocka_unit_test(a_token_reads_its_own_experts_only),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
