// SPDX-License-Identifier: MIT
/*
 * Token trees: each node has the logits of its path, evaluated token by token, and a path that was
 * kept leaves the session as if it had been. Random models, trees and prompts on all placements,
 * KV types and clocks. TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
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

#include "engine.h"
#include "gpu.h"
#include "llm_pair.h"
#include "llm_refs.h"

struct guess {
	int32_t tokens[LLM_MAX_TREE];
	uint8_t parents[LLM_MAX_TREE];
	struct llm_tree tree;
};

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
static void walk(const struct pair *p, const struct guess *g, unsigned int node)
{
	uint8_t path[LLM_MAX_TREE];
	unsigned int n = path_to(g, node, path);

	for (unsigned int i = 0; i < n; i++)
		eval(p->plain, &g->tokens[path[i]], 1);
}

static void verify(const struct pair *p, const struct guess *g)
{
	if (llm_verify_tree(p->s, &g->tree))
		fail_msg("%s", llm_error());
	assert_null(llm_session_logits(p->s));
	assert_null(llm_tree_logits(p->s, g->tree.n));
}

static void check_nodes(const struct pair *p, const struct guess *g)
{
	unsigned int past = llm_session_n_past(p->s);
	char what[32];

	verify(p, g);
	assert_int_equal(llm_session_n_past(p->s), past);
	for (unsigned int i = 0; i < g->tree.n; i++) {
		walk(p, g, i);
		snprintf(what, sizeof(what), "node %u of %u", i, g->tree.n);
		expect_same(p, llm_tree_logits(p->s, i), llm_session_logits(p->plain), what);
		assert_int_equal(llm_session_truncate(p->plain, past), 0);
	}
}

/* Keeps a random path, and goes on in both sessions. */
static void check_kept(const struct pair *p, const struct guess *g)
{
	unsigned int past = llm_session_n_past(p->s), node = any(0, g->tree.n - 1), n;
	uint8_t path[LLM_MAX_TREE];

	n = path_to(g, node, path);
	if (llm_tree_keep(p->s, path, n))
		fail_msg("%s", llm_error());
	walk(p, g, node);
	assert_int_equal(llm_session_n_past(p->s), past + n);
	expect_same(p, llm_session_logits(p->s), llm_session_logits(p->plain), "kept");
	assert_null(llm_tree_logits(p->s, 0));
	for (unsigned int i = 0; i < 3; i++) {
		n = any(1, 5);
		eval(p->s, p->ids + i, n);
		eval(p->plain, p->ids + i, n);
		expect_same(p, llm_session_logits(p->s), llm_session_logits(p->plain), "later");
	}
}

static void check_trees(struct pair *p)
{
	unsigned int n = any(0, 2) ? any(1, 60) : 512 - any(0, 70);
	struct guess g;

	eval(p->s, p->ids, n);
	eval(p->plain, p->ids, n);
	for (int step = 0; step < 2; step++) {
		guess_any(&g, any(1, any(0, 1) ? LLM_MAX_TREE : 12), any(1, 10), p->n_vocab);
		check_nodes(p, &g);
		check_kept(p, &g);
	}
}

static void check_arch(const char *arch, enum llm_placement placement, const char *profile)
{
	struct pair p;

	for (enum llm_kv kv = 0; kv < llm_choice_info(LLM_CHOICE_KV)->n_values; kv++) {
		struct llm_options o = options_of(placement, kv);

		o.profile = profile;
		pair_create(&p, arch, &o);
		check_trees(&p);
		pair_free(&p);
	}
}

static void check_placement(enum llm_placement placement, const char *profile)
{
	check_arch(NULL, placement, profile);
}

static void test_nodes_are_plain_with_experts(void **state)
{
	check_arch("qwen2moe", LLM_PLACE_CPU, NULL);
	check_arch("qwen3moe", LLM_PLACE_FINE, NULL);
	check_arch("qwen2moe", LLM_PLACE_FINE, "sd8gen3");
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

/* ---- the same by other ways ------------------------------------------------------------------ */

static void test_a_chain_is_a_draft(void **state)
{
	struct llm_options o = options_of(LLM_PLACE_NPU, LLM_KV_Q8_0);
	float *logits;
	struct guess g;
	struct pair p;

	pair_create(&p, NULL, &o);
	guess_any(&g, any(2, LLM_MAX_TREE), 1, p.n_vocab);
	logits = malloc(g.tree.n * p.n_vocab * sizeof(*logits));
	eval(p.s, p.ids, 40);
	eval(p.plain, p.ids, 40);
	verify(&p, &g);
	assert_int_equal(llm_verify(p.plain, g.tokens, g.tree.n, logits), 0);
	for (unsigned int i = 0; i < g.tree.n; i++)
		expect_same(&p, llm_tree_logits(p.s, i), logits + i * p.n_vocab, "a draft");
	free(logits);
	pair_free(&p);
}

/* A device with an ISA that has no masks: the host computes attention. */
static void test_nodes_are_plain_without_masks(void **state)
{
	static const enum llm_placement npu[] = { LLM_PLACE_NPU, LLM_PLACE_FINE, LLM_PLACE_LINEAR };
	struct pair p;

	for (unsigned int i = 0; i < 3; i++) {
		struct llm_options o = options_of(npu[i], any(0, 2));

		pair_create(&p, NULL, &o);
		p.s->runner.opts.masks = false;
		check_trees(&p);
		pair_free(&p);
	}
}

static void count_attention(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
			    unsigned int rows, unsigned int cols, const float *data)
{
	unsigned int *n = ud;

	*n += !strcmp(tensor, "attn") ? rows : 0;
}

static void test_nodes_are_plain_when_observed(void **state)
{
	struct llm_options o = options_of(LLM_PLACE_NPU, LLM_KV_F16);
	unsigned int rows = 0;
	struct guess g;
	struct pair p;

	pair_create(&p, NULL, &o);
	eval(p.s, p.ids, 40);
	eval(p.plain, p.ids, 40);
	llm_session_observe(p.s, count_attention, &rows);
	guess_any(&g, any(2, LLM_MAX_TREE), 4, p.n_vocab);
	check_nodes(&p, &g);
	assert_int_equal(rows, p.t.c.n_layer * g.tree.n);
	pair_free(&p);
}

/* The tree's pass loads the weights. */
static void test_nodes_are_plain_in_a_cold_start(void **state)
{
	static const enum llm_placement all[] = { LLM_PLACE_NPU, LLM_PLACE_FINE, LLM_PLACE_LINEAR };
	struct guess g;
	struct pair p;

	for (unsigned int i = 0; i < 3; i++) {
		struct llm_options o = options_of(all[i], LLM_KV_F16);

		o.choices.start = LLM_START_COLD;
		pair_create(&p, NULL, &o);
		guess_any(&g, any(2, LLM_MAX_TREE), 4, p.n_vocab);
		check_nodes(&p, &g);
		check_kept(&p, &g);
		pair_free(&p);
	}
}

#define GENERATED 60
#define DOCS6M_VOCAB 4096

/* Random tokens, but for some that are right if their parents are: @want [n] are to come. */
static void guess_some(struct guess *g, const int32_t *want, size_t n)
{
	uint8_t path[LLM_MAX_TREE];

	guess_any(g, any(1, 40), 4, DOCS6M_VOCAB);
	g->tokens[0] = want[0];
	for (unsigned int i = 1; i < g->tree.n; i++)
		if (any(0, 1) && path_to(g, i, path) <= n)
			g->tokens[i] = want[path_to(g, i, path) - 1];
}

/* Follows the model from the root. Returns the nodes of the path; @next: the token behind it. */
static unsigned int accept(struct llm_session *s, const struct guess *g, uint8_t *path,
			   int32_t *next)
{
	unsigned int n = 1;

	path[0] = 0;
	*next = llm_argmax(llm_tree_logits(s, 0), DOCS6M_VOCAB);
	for (unsigned int i = 1; i < g->tree.n; i++) {
		if (g->parents[i] != path[n - 1] || g->tokens[i] != *next)
			continue;
		path[n++] = (uint8_t)i;
		*next = llm_argmax(llm_tree_logits(s, i), DOCS6M_VOCAB);
	}
	return n;
}

/* The embedded model's greedy tokens. Returns how many trees they took. */
static unsigned int check_greedy(enum llm_placement placement, int prompt)
{
	static char path[512];
	struct llm_engine *engine = ref_open(ref_embedded(path, sizeof(path)), placement, 2, 16);
	struct llm_session *s = ref_session(engine, 0);
	int32_t want[GENERATED + LLM_MAX_TREE], next;
	struct reference ref;
	unsigned int trees = 0;
	uint8_t kept[LLM_MAX_TREE];
	struct guess g;

	ref_load_docs6m(&ref, prompt);
	ref_eval(s, ref.ids, ref.n_ids);
	ref_greedy(engine, s, want, GENERATED);
	assert_int_equal(llm_session_truncate(s, (unsigned int)ref.n_ids), 0);
	for (size_t done = 0; done + 1 < GENERATED; trees++) {
		guess_some(&g, want + done, GENERATED - done);
		if (llm_verify_tree(s, &g.tree))
			fail_msg("%s", llm_error());
		done += accept(s, &g, kept, &next);
		assert_true(done >= GENERATED || next == want[done]);
		assert_int_equal(
			llm_tree_keep(s, kept,
				      (unsigned int)(ref.n_ids + done) - llm_session_n_past(s)),
			0);
	}
	llm_session_free(s);
	llm_engine_close(engine);
	return trees;
}

static void test_trees_generate_the_tokens_of_plain_decoding(void **state)
{
	unsigned int trees = 0;

	for (int prompt = 1; prompt <= 4; prompt++) {
		trees += check_greedy(LLM_PLACE_CPU, prompt);
		trees += check_greedy(LLM_PLACE_NPU, prompt);
	}
	print_message("%d tokens by %u trees\n", 8 * (GENERATED - 1), trees);
	assert_true(trees < 8 * (GENERATED - 1) / 2);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refuse_tree(const struct pair *p, const struct llm_tree *tree, int err,
			const char *part)
{
	assert_int_equal(llm_verify_tree(p->s, tree), err);
	if (!strstr(llm_error(), part))
		fail_msg("no '%s' in: %s", part, llm_error());
}

/* It sums up in another order than the host's, so a tree's tokens might be others. */
static void test_a_gpus_attention_has_no_trees(void **state)
{
	static const enum llm_placement places[] = { LLM_PLACE_GPU, LLM_PLACE_LAYER };
	const struct llm_drafter_options drafts = { .draft = LLM_DRAFT_PLD };
	struct llm_drafter *d;
	unsigned int n;
	struct guess g;
	struct pair p;

	if (llm_gpu_list(NULL, 0, &n) == -ENODEV || !n)
		skip();
	for (int i = 0; i < 2; i++) {
		struct llm_options o = options_of(places[i], any(0, 2));

		o.gpu = NULL;
		o.choices.weights = LLM_WEIGHTS_W4A16;
		o.cuts_profile = "sd8gen3";
		pair_create(&p, NULL, &o);
		guess_any(&g, any(1, 8), 2, p.n_vocab);
		eval(p.s, p.ids, 3);
		refuse_tree(&p, &g.tree, -ENOTSUP, "choose gpu host, or draft none");
		assert_int_equal(llm_session_n_past(p.s), 3);
		assert_non_null(llm_session_logits(p.s));
		assert_int_equal(llm_session_prepare_tree(p.s, 4), -ENOTSUP);
		assert_int_equal(llm_drafter_create(p.engine, &drafts, &d), -ENOTSUP);
		assert_null(d);
		pair_free(&p);
	}
}

static void refuse_path(const struct pair *p, const uint8_t *path, unsigned int n)
{
	unsigned int past = llm_session_n_past(p->s);

	assert_int_equal(llm_tree_keep(p->s, path, n), -EINVAL);
	assert_int_equal(llm_session_n_past(p->s), past);
}

static void test_what_is_no_tree_is_refused(void **state)
{
	struct llm_options o = options_of(LLM_PLACE_CPU, LLM_KV_F16);
	struct guess g;
	struct pair p;

	pair_create(&p, "llama", &o);
	eval(p.s, p.ids, 3);
	guess_any(&g, 5, 3, p.n_vocab);
	g.tree.n = 0;
	refuse_tree(&p, &g.tree, -EINVAL, "0 nodes");
	g.tree.n = LLM_MAX_TREE + 1;
	refuse_tree(&p, &g.tree, -EINVAL, "65 nodes");
	g.tree.n = 5;
	g.parents[3] = 3;
	refuse_tree(&p, &g.tree, -EINVAL, "node 3");
	g.parents[3] = 0;
	g.parents[0] = 1;
	refuse_tree(&p, &g.tree, -EINVAL, "root");
	g.parents[0] = 0;
	g.tokens[4] = (int32_t)p.n_vocab;
	refuse_tree(&p, &g.tree, -EINVAL, "token 4");
	g.tokens[4] = 0;
	eval(p.s, p.ids, MAX_TOKENS - 7);
	refuse_tree(&p, &g.tree, -ENOSPC, "context");
	assert_int_equal(llm_session_n_past(p.s), MAX_TOKENS - 4);
	assert_non_null(llm_session_logits(p.s));
	assert_int_equal(llm_session_prepare_tree(p.s, 0), -EINVAL);
	assert_int_equal(llm_session_prepare_tree(p.s, LLM_MAX_TREE + 1), -EINVAL);
	pair_free(&p);
}

static void test_what_is_no_path_is_refused(void **state)
{
	static const int32_t tokens[] = { 1, 2, 3, 4 };
	static const uint8_t parents[] = { 0, 0, 1, 0 }, good[] = { 0, 1, 2 }, gap[] = { 0, 2 },
			     side[] = { 0, 1, 3 }, headless[] = { 1, 2 }, beyond[] = { 0, 4 },
			     twice[] = { 0, 0 };
	const struct llm_tree tree = { 4, tokens, parents };
	struct llm_options o = options_of(LLM_PLACE_CPU, LLM_KV_F16);
	struct pair p;

	pair_create(&p, "llama", &o);
	refuse_path(&p, good, 3);
	assert_int_equal(llm_verify_tree(p.s, &tree), 0);
	refuse_path(&p, good, 0);
	refuse_path(&p, gap, 2);
	refuse_path(&p, side, 3);
	refuse_path(&p, headless, 2);
	refuse_path(&p, beyond, 2);
	refuse_path(&p, twice, 2);
	assert_int_equal(llm_tree_keep(p.s, good, 3), 0);
	refuse_path(&p, good, 3);
	assert_int_equal(llm_verify_tree(p.s, &tree), 0);
	eval(p.s, tokens, 1);
	refuse_path(&p, good, 3);
	assert_int_equal(llm_verify_tree(p.s, &tree), 0);
	assert_int_equal(llm_session_truncate(p.s, 4), 0);
	assert_null(llm_tree_logits(p.s, 0));
	refuse_path(&p, good, 3);
	pair_free(&p);
}

/* ---- what it costs --------------------------------------------------------------------------- */

static void test_prepared_trees_wait_for_no_graphs(void **state)
{
	struct llm_options o = options_of(LLM_PLACE_NPU, LLM_KV_F16);
	struct llm_session_stats stats;
	uint64_t graph_ns, jobs;
	struct guess g;
	struct pair p;

	pair_create(&p, "llama", &o);
	llm_session_stats(p.s, &stats);
	assert_int_equal(stats.tree.bytes, 0);
	assert_int_equal(llm_session_prepare_tree(p.s, 20), 0);
	llm_session_stats(p.s, &stats);
	assert_true(stats.tree.bytes >= 64ull * p.n_vocab * sizeof(float));
	graph_ns = p.s->runner.lanes[SOC_NPU]->graph_ns;
	for (unsigned int n = 1; n <= 20; n++) {
		guess_any(&g, n, 4, p.n_vocab);
		verify(&p, &g);
	}
	/* One job for all layers, and one for the logits, which a single token has in it. */
	jobs = stats.npu_jobs;
	llm_session_stats(p.s, &stats);
	assert_int_equal(stats.npu_jobs - jobs, 1 + 19 * 2);
	assert_int_equal(p.s->runner.lanes[SOC_NPU]->graph_ns, graph_ns);
	llm_session_stats(p.s, &stats);
	assert_true(stats.tree.trees == 20 && stats.tree.nodes == 210 && stats.tree.ns);
	assert_int_equal(stats.tree.rows, 1 + 2 + 2 * 4 + 4 * 8 + 8 * 16 + 4 * 32);
	guess_any(&g, 33, 4, p.n_vocab);
	verify(&p, &g);
	assert_true(p.s->runner.lanes[SOC_NPU]->graph_ns > graph_ns);
	pair_free(&p);
}

/* A dry run of a phone: a tree of 32 nodes costs an NPU much less than 32 tokens. */
static void test_a_dry_run_has_the_cost_of_trees(void **state)
{
	static const uint8_t path[] = { 0, 31 };
	struct llm_options o = { .shape = "qwen2.5-1.5b",
				 .dry_run = true,
				 .profile = "sd8gen3",
				 .choices = { .placement = LLM_PLACE_NPU } };
	struct llm_engine *engine = open_engine(&o);
	struct llm_session *s = new_session(engine, 1024);
	struct llm_session_stats stats;
	uint64_t from_ns;
	struct guess g;

	guess_any(&g, 32, 1, 1);
	g.parents[31] = 0;
	assert_int_equal(llm_session_eval(s, NULL, 500), 0);
	assert_int_equal(llm_session_eval(s, NULL, 1), 0);
	g.tree.tokens = NULL;
	assert_int_equal(llm_verify_tree(s, &g.tree), 0);
	assert_null(llm_tree_logits(s, 0));
	from_ns = llm_session_now_ns(s);
	assert_int_equal(llm_tree_keep(s, path, 2), 0);
	assert_int_equal(llm_session_n_past(s), 503);
	llm_session_stats(s, &stats);
	assert_int_equal(stats.tree.keep_ns, llm_session_now_ns(s) - from_ns);
	assert_true(stats.tree.keep_ns > 0 && stats.tree.keep_ns < stats.tree.ns / 100);
	print_message("a token: %.1f ms, a tree of 32 nodes: %.1f, keeping a path: %.3f\n",
		      stats.decode_ns / 1e6, stats.tree.ns / 1e6, stats.tree.keep_ns / 1e6);
	assert_true(stats.tree.ns > stats.decode_ns && stats.tree.ns < 8 * stats.decode_ns);
	llm_session_free(s);
	llm_engine_close(engine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nodes_are_plain_on_the_cpu),
		cmocka_unit_test(test_nodes_are_plain_on_the_npu),
		cmocka_unit_test(test_nodes_are_plain_with_experts),
		cmocka_unit_test(test_nodes_are_plain_with_the_host_as_gpu),
		cmocka_unit_test(test_nodes_are_plain_on_the_virtual_clock),
		cmocka_unit_test(test_a_chain_is_a_draft),
		cmocka_unit_test(test_nodes_are_plain_without_masks),
		cmocka_unit_test(test_nodes_are_plain_when_observed),
		cmocka_unit_test(test_nodes_are_plain_in_a_cold_start),
		cmocka_unit_test(test_trees_generate_the_tokens_of_plain_decoding),
		cmocka_unit_test(test_what_is_no_tree_is_refused),
		cmocka_unit_test(test_what_is_no_path_is_refused),
		cmocka_unit_test(test_a_gpus_attention_has_no_trees),
		cmocka_unit_test(test_prepared_trees_wait_for_no_graphs),
		cmocka_unit_test(test_a_dry_run_has_the_cost_of_trees),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
