// SPDX-License-Identifier: MIT
/*
 * Token trees: each node has the logits of its path, evaluated token by token, and a path that was
 * kept leaves the session as if it had been. Random models, trees and prompts on all placements,
 * KV types and clocks. TEST_SEED=N repeats a run.
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

#include "llm_open.h"
#include "llm_refs.h"
#include "tiny_random.h"

/* Keys are summed up by segments of 512, so prompts end on either side of a bound. */
#define MAX_TOKENS 640
/* A GPU's attention sums up in another order than the host's, which computes a tree's: of the
 * greatest logit, as in test_hetero.c. */
#define GPU_BOUND 1e-2

/* An engine, two sessions that are to be the same, and a prompt. */
struct world {
	struct tiny_model t;
	struct llm_engine *engine;
	struct llm_session *s, *plain;
	unsigned int n_vocab;
	double bound; /* 0: the same bits */
	int32_t ids[MAX_TOKENS];
};

struct guess {
	int32_t tokens[LLM_MAX_TREE];
	uint8_t parents[LLM_MAX_TREE];
	struct llm_tree tree;
};

static void eval(struct llm_session *s, const int32_t *ids, size_t n)
{
	if (llm_session_eval(s, ids, n))
		fail_msg("%s", llm_error());
}

static struct llm_options options_of(enum llm_placement placement, enum llm_kv kv)
{
	return (struct llm_options){
		.choices = { .placement = placement, .kv = kv },
		.threads = any(1, 3),
		.chunk = 16 * any(1, 6),
		.gpu = LLM_GPU_HOST,
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = any(1, 2) },
	};
}

static void world_open(struct world *w, struct llm_options *o)
{
	o->model = w->t.path;
	w->engine = open_engine(o);
	w->s = new_session(w->engine, MAX_TOKENS);
	w->plain = new_session(w->engine, MAX_TOKENS);
}

static void world_create(struct world *w, const char *arch, struct llm_options *o)
{
	const struct tiny_config config = tiny_any(arch, MAX_TOKENS, 2, 32 * any(1, 2), 4);

	tiny_create(&w->t, &config, random_u64(&seed_state));
	tiny_write(&w->t);
	w->n_vocab = config.n_vocab;
	w->bound = 0;
	for (int i = 0; i < MAX_TOKENS; i++)
		w->ids[i] = (int32_t)any(0, config.n_vocab - 1);
	world_open(w, o);
}

static void world_close(struct world *w)
{
	llm_session_free(w->s);
	llm_session_free(w->plain);
	llm_engine_close(w->engine);
}

static void world_free(struct world *w)
{
	world_close(w);
	tiny_free(&w->t);
}

/* @spread: a parent is one of so many nodes before; 1: a chain. */
static void guess_any(struct guess *g, unsigned int n, unsigned int spread, unsigned int n_vocab)
{
	g->parents[0] = 0;
	for (unsigned int i = 0; i < n; i++) {
		g->tokens[i] = (int32_t)any(0, n_vocab - 1);
		if (i)
			g->parents[i] = (uint8_t)(i - any(1, spread < i ? spread : i));
	}
	g->tree = (struct llm_tree){ .n = n, .tokens = g->tokens, .parents = g->parents };
}

static void expect_same(const struct world *w, const float *got, const float *want,
			const char *what)
{
	double error = 0, most = 0;

	assert_non_null(got);
	if (!w->bound) {
		if (memcmp(got, want, w->n_vocab * sizeof(float)))
			fail_msg("%s: other bits", what);
		return;
	}
	for (unsigned int i = 0; i < w->n_vocab; i++) {
		error = fmax(error, fabs((double)got[i] - (double)want[i]));
		most = fmax(most, fabs((double)want[i]));
	}
	if (!(error <= w->bound * most))
		fail_msg("%s: differs by %g of %g", what, error, most);
}

/* The nodes from the root to @node. Returns how many there are. */
static unsigned int path_to(const struct guess *g, unsigned int node, uint8_t *path)
{
	unsigned int n = 1;

	for (unsigned int i = node; i; i = g->parents[i])
		n++;
	for (unsigned int i = n; i--; node = g->parents[node])
		path[i] = (uint8_t)node;
	return n;
}

/* Evaluates the path to @node in the plain session, token by token. */
static void walk(const struct world *w, const struct guess *g, unsigned int node)
{
	uint8_t path[LLM_MAX_TREE];
	unsigned int n = path_to(g, node, path);

	for (unsigned int i = 0; i < n; i++)
		eval(w->plain, &g->tokens[path[i]], 1);
}

static void verify(const struct world *w, const struct guess *g)
{
	if (llm_verify_tree(w->s, &g->tree))
		fail_msg("%s", llm_error());
	assert_null(llm_session_logits(w->s));
	assert_null(llm_tree_logits(w->s, g->tree.n));
}

static void check_nodes(const struct world *w, const struct guess *g)
{
	unsigned int past = llm_session_n_past(w->s);
	char what[32];

	verify(w, g);
	assert_int_equal(llm_session_n_past(w->s), past);
	for (unsigned int i = 0; i < g->tree.n; i++) {
		walk(w, g, i);
		snprintf(what, sizeof(what), "node %u of %u", i, g->tree.n);
		expect_same(w, llm_tree_logits(w->s, i), llm_session_logits(w->plain), what);
		assert_int_equal(llm_session_truncate(w->plain, past), 0);
	}
}

/* Keeps a random path, and goes on in both sessions. */
static void check_kept(const struct world *w, const struct guess *g)
{
	unsigned int past = llm_session_n_past(w->s), node = any(0, g->tree.n - 1), n;
	uint8_t path[LLM_MAX_TREE];

	n = path_to(g, node, path);
	if (llm_tree_keep(w->s, path, n))
		fail_msg("%s", llm_error());
	walk(w, g, node);
	assert_int_equal(llm_session_n_past(w->s), past + n);
	expect_same(w, llm_session_logits(w->s), llm_session_logits(w->plain), "kept");
	assert_null(llm_tree_logits(w->s, 0));
	for (unsigned int i = 0; i < 3; i++) {
		n = any(1, 5);
		eval(w->s, w->ids + i, n);
		eval(w->plain, w->ids + i, n);
		expect_same(w, llm_session_logits(w->s), llm_session_logits(w->plain), "later");
	}
}

static void check_trees(struct world *w)
{
	unsigned int n = any(0, 2) ? any(1, 60) : 512 - any(0, 70);
	struct guess g;

	eval(w->s, w->ids, n);
	eval(w->plain, w->ids, n);
	for (int step = 0; step < 2; step++) {
		guess_any(&g, any(1, any(0, 1) ? LLM_MAX_TREE : 12), any(1, 10), w->n_vocab);
		check_nodes(w, &g);
		check_kept(w, &g);
	}
}

static const char *any_arch(void)
{
	static const char *const archs[] = { "llama", "qwen2", "qwen3" };

	return archs[any(0, 2)];
}

static void check_placement(enum llm_placement placement, const char *profile)
{
	struct world w;

	for (enum llm_kv kv = 0; kv < llm_choice_info(LLM_CHOICE_KV)->n_values; kv++) {
		struct llm_options o = options_of(placement, kv);

		o.profile = profile;
		world_create(&w, any_arch(), &o);
		check_trees(&w);
		world_free(&w);
	}
}

static void test_nodes_are_plain_on_the_cpu(void **state)
{
	check_placement(LLM_PLACE_CPU, NULL);
}

static void test_nodes_are_plain_on_the_npu(void **state)
{
	check_placement(LLM_PLACE_NPU, NULL);
	check_placement(LLM_PLACE_FINE, NULL);
	check_placement(LLM_PLACE_LINEAR, NULL);
}

static void test_nodes_are_plain_with_the_host_as_gpu(void **state)
{
	check_placement(LLM_PLACE_GPU, NULL);
	check_placement(LLM_PLACE_LAYER, NULL);
}

static void test_nodes_are_plain_on_the_virtual_clock(void **state)
{
	static const enum llm_placement all[] = {
		LLM_PLACE_CPU,	  LLM_PLACE_NPU, LLM_PLACE_FINE,
		LLM_PLACE_LINEAR, LLM_PLACE_GPU, LLM_PLACE_LAYER
	};

	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		check_placement(all[i], "sd8gen3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nodes_are_plain_on_the_cpu),
		cmocka_unit_test(test_nodes_are_plain_on_the_npu),
		cmocka_unit_test(test_nodes_are_plain_with_the_host_as_gpu),
		cmocka_unit_test(test_nodes_are_plain_on_the_virtual_clock),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
