// SPDX-License-Identifier: MIT
/* Token trees against brute force: what is merged, which nodes are picked and in which order, what
 * is accepted and moved. SEED=N repeats a run. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "npu_random.h"
#include "tree.h"
#include "tree_drafts.h"

static void drafts_share_their_beginnings(void **state)
{
	static const int32_t a[] = { 1, 2, 3 }, b[] = { 1, 2, 4, 5 }, c[] = { 2, 1 };
	struct tree_growth g;
	struct token_tree t;

	tree_begin(&g, 9);
	assert_int_equal(add_draft(&g, a, 3, 0.5), 3);
	assert_int_equal(add_draft(&g, b, 4, 0.8), 4);
	assert_int_equal(add_draft(&g, c, 2, 0.6), 2);
	assert_int_equal(g.n, 8);
	tree_pick(&g, TREE_MAX, &t);
	assert_int_equal(t.n, 8);
	/* 1 and 2 have the second draft's probabilities; its tokens come first. */
	assert_memory_equal(t.tokens, ((int32_t[]){ 9, 1, 2, 4, 5, 3, 2, 1 }), 8 * 4);
	assert_memory_equal(t.parents, ((uint8_t[]){ 0, 0, 1, 2, 3, 2, 0, 6 }), 8);
	assert_memory_equal(t.depths, ((uint8_t[]){ 0, 1, 2, 3, 4, 3, 1, 2 }), 8);
	assert_int_equal(t.ancestors[4], 0x1f);
	assert_int_equal(t.ancestors[5], 0x27);
	assert_int_equal(t.ancestors[7], 0xc1);
	assert_float_equal(t.p[2], 0.64, 1e-12);
	assert_float_equal(t.p[5], 0.125, 1e-12);
}

static void a_tree_of_one_node_is_plain_decoding(void **state)
{
	struct tree_growth g;
	struct token_tree t;
	uint8_t path[TREE_MAX];

	tree_begin(&g, 9);
	tree_add(&g, 0, 1, 1);
	tree_pick(&g, 1, &t);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.tokens[0], 9);
	assert_int_equal(t.ancestors[0], 1);
	assert_int_equal(accept_path(&t, (int32_t[]){ 1 }, path), 1);
	assert_float_equal(t.p[0], 1, 1e-12);
}

static void probabilities_out_of_range_are_clamped(void **state)
{
	struct tree_growth g;

	tree_begin(&g, 0);
	assert_float_equal(g.nodes[tree_add(&g, 0, 1, 1.5)].p, 1, 0);
	assert_float_equal(g.nodes[tree_add(&g, 0, 2, -1)].p, 0, 0);
	assert_float_equal(g.nodes[tree_add(&g, 0, 3, NAN)].p, 0, 0);
}

static void a_full_growth_takes_no_more(void **state)
{
	struct tree_growth g;
	int32_t ids[TREE_GROWTH];
	struct token_tree t;

	for (int32_t i = 0; i < TREE_GROWTH; i++)
		ids[i] = i;
	tree_begin(&g, 7);
	assert_int_equal(add_draft(&g, ids, TREE_GROWTH, 1), TREE_GROWTH - 1);
	assert_int_equal(tree_add(&g, 0, 99, 1), TREE_NONE);
	assert_int_equal(tree_add(&g, 0, 0, 1), 1);
	tree_pick(&g, TREE_MAX, &t);
	assert_int_equal(t.n, TREE_MAX);
	assert_int_equal(t.depths[TREE_MAX - 1], TREE_MAX - 1);
	assert_true(t.ancestors[TREE_MAX - 1] == UINT64_MAX);
}

/* A growth of at most @max nodes, with probabilities of which some are equal. */
static void grow(struct tree_growth *g, uint32_t max)
{
	uint32_t ids = random_in(1, 6);

	tree_begin(g, (int32_t)random_in(0, 9));
	while (g->n < max)
		tree_add(g, random_in(0, g->n - 1), (int32_t)random_in(0, ids * (g->n / ids + 1)),
			 random_in(0, 4) / 4.0);
}

static void check_tree(const struct tree_growth *g, uint32_t n, const struct token_tree *t)
{
	assert_int_equal(t->n, n < g->n ? n : g->n);
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t parent = t->parents[i];
		uint64_t seen = 0;

		for (uint32_t j = i; j; j = t->parents[j])
			seen |= 1ull << j;
		assert_true(t->ancestors[i] == (seen | 1));
		assert_int_equal(t->depths[i], __builtin_popcountll(seen));
		if (!i)
			continue;
		assert_true(parent < i && t->p[i] <= t->p[parent]);
		/* Depth first: the parent is the node before, or sees it from above. */
		assert_true(t->ancestors[i - 1] >> parent & 1);
		for (uint32_t j = 1; j < i; j++)
			assert_true(t->parents[j] != parent ||
				    (t->tokens[j] != t->tokens[i] && t->p[j] >= t->p[i]));
	}
}

static void picked_trees_are_in_depth_first_order(void **state)
{
	random_begin("order");
	for (int round = 0; round < 2000; round++) {
		uint32_t n = random_in(1, TREE_MAX);
		struct tree_growth g;
		struct token_tree t;

		grow(&g, random_in(1, random_in(0, 1) ? 20 : TREE_GROWTH));
		tree_pick(&g, n, &t);
		check_tree(&g, n, &t);
	}
}

static double sum_of(const struct token_tree *t)
{
	double sum = 0;

	for (uint32_t i = 0; i < t->n; i++)
		sum += t->p[i];
	return sum;
}

/* The highest sum of probabilities of @n nodes that contain their parents. */
static double best_sum(const struct tree_growth *g, uint32_t n)
{
	double best = 0;

	for (uint32_t set = 1; set < 1u << g->n; set += 2) {
		double sum = 0;
		bool closed = (uint32_t)__builtin_popcount(set) <= n;

		for (uint32_t i = 0; closed && i < g->n; i++)
			if (set >> i & 1) {
				closed = set >> g->nodes[i].parent & 1;
				sum += g->nodes[i].p;
			}
		if (closed && sum > best)
			best = sum;
	}
	return best;
}

static void no_tree_of_the_size_is_expected_to_give_more(void **state)
{
	random_begin("best");
	for (int round = 0; round < 200; round++) {
		struct tree_growth g;
		struct token_tree t;

		grow(&g, random_in(1, 12));
		for (uint32_t n = 1; n <= g.n; n++) {
			tree_pick(&g, n, &t);
			assert_float_equal(sum_of(&t), best_sum(&g, n), 1e-9);
		}
	}
}

static void the_size_is_that_of_most_tokens_a_time(void **state)
{
	static const uint32_t sizes[] = { 1, 8, 16, 32, 64 };
	static const double flat[] = { 1, 1, 1, 1, 1 }, rising[] = { 1, 8, 16, 32, 64 };
	static const double stepped[] = { 1, 1.2, 3, 5, 9 };
	int32_t draft[40] = { 0 };
	struct tree_growth g;
	struct token_tree t, same;

	tree_begin(&g, 0);
	/* Nothing is drafted: one token costs least. */
	assert_int_equal(tree_pick_best(&g, sizes, flat, 5, &t), 0);
	add_draft(&g, draft, 40, 0.99);
	assert_int_equal(tree_pick_best(&g, sizes, flat, 5, &t), 4);
	assert_int_equal(tree_pick_best(&g, sizes, rising, 5, &t), 0);
	assert_int_equal(tree_pick_best(&g, sizes, stepped, 5, &t), 1);
	tree_pick(&g, 8, &same);
	assert_int_equal(t.n, 8);
	assert_memory_equal(t.tokens, same.tokens, 8 * sizeof(*t.tokens));
	assert_memory_equal(t.ancestors, same.ancestors, 8 * sizeof(*t.ancestors));
}

/* Guesses of one source are one piece of evidence, those of several are as many. */
static void sources_that_agree_are_believed_more(void **state)
{
	struct tree_growth g;
	uint32_t node, child;

	tree_begin(&g, 0);
	tree_source(&g);
	node = tree_add(&g, 0, 7, 0.5);
	assert_int_equal(tree_add(&g, 0, 7, 0.4), node);
	assert_float_equal(g.nodes[node].q, 0.5, 1e-12);
	child = tree_add(&g, node, 8, 0.8);
	tree_source(&g);
	g.kind = 1;
	tree_add(&g, 0, 7, 0.4);
	assert_float_equal(g.nodes[node].q, 0.7, 1e-12);
	assert_int_equal(g.nodes[node].kind, 0);
	tree_add(&g, 0, 7, 0.6);
	assert_float_equal(g.nodes[node].q, 0.8, 1e-12);
	assert_int_equal(g.nodes[node].kind, 1);
	/* What follows the node was added before it had become as likely. */
	assert_float_equal(g.nodes[child].p, 0.4, 1e-12);
	tree_settle(&g);
	assert_float_equal(g.nodes[node].p, 0.8, 1e-12);
	assert_float_equal(g.nodes[child].p, 0.64, 1e-12);
}

static void only_one_token_follows_a_node(void **state)
{
	struct tree_growth g;
	uint32_t a, b, c, d;

	tree_begin(&g, 0);
	a = tree_add(&g, 0, 1, 0.2);
	b = tree_add(&g, 0, 2, 0.6);
	c = tree_add(&g, 0, 3, 0.5);
	d = tree_add(&g, c, 4, 0.5);
	tree_settle(&g);
	assert_float_equal(g.nodes[b].q, 0.6, 1e-12);
	assert_float_equal(g.nodes[c].q, 0.2, 1e-12);
	assert_float_equal(g.nodes[a].q, 0.04, 1e-12);
	assert_float_equal(g.nodes[d].p, 0.1, 1e-12);
}

static void what_follows_a_node_is_at_most_certain(void **state)
{
	random_begin("settled");
	for (int round = 0; round < 500; round++) {
		struct tree_growth g;
		uint32_t n = random_in(2, TREE_GROWTH);

		tree_begin(&g, 0);
		while (g.n < n) {
			if (!random_in(0, 9))
				tree_source(&g);
			tree_add(&g, random_in(0, g.n - 1), (int32_t)random_in(0, g.n + 3),
				 random_in(0, 100) / 100.0);
		}
		tree_settle(&g);
		for (uint32_t i = 0; i < g.n; i++) {
			double sum = 0;

			for (uint32_t c = g.nodes[i].child; c; c = g.nodes[c].sibling) {
				sum += g.nodes[c].q;
				assert_float_equal(g.nodes[c].p, g.nodes[i].p * g.nodes[c].q,
						   1e-12);
			}
			assert_true(sum < 1 + 1e-9);
		}
	}
}

/* Both kinds guess the same token; a factor decides which of them counts. */
static void factors_correct_the_probabilities_of_their_kind(void **state)
{
	struct tree_growth g;
	uint32_t node;

	tree_begin(&g, 0);
	g.factors[1] = 0.5;
	g.factors[2] = 3;
	g.kind = 1;
	node = tree_add(&g, 0, 7, 0.8);
	assert_float_equal(g.nodes[node].p, 0.4, 1e-12);
	g.kind = 2;
	assert_int_equal(tree_add(&g, 0, 7, 0.1), node);
	assert_int_equal(g.nodes[node].kind, 1);
	assert_int_equal(tree_add(&g, 0, 7, 0.2), node);
	assert_int_equal(g.nodes[node].kind, 2);
	assert_float_equal(g.nodes[node].p, 0.6, 1e-12);
	/* A child is never more probable than its parent. */
	node = tree_add(&g, node, 8, 0.9);
	assert_float_equal(g.nodes[node].p, 0.6, 1e-12);
}

/* What the model puts behind a node depends on its path alone. */
static int32_t model_next(const struct token_tree *t, uint32_t node, uint32_t salt)
{
	uint32_t h = salt;

	for (uint32_t i = node;; i = t->parents[i]) {
		h = h * 31 + (uint32_t)t->tokens[i] * 7 + 1;
		if (!i)
			return (int32_t)(h >> 3) % 3;
	}
}

static void accepted_paths_are_those_of_plain_decoding(void **state)
{
	uint32_t longest = 0;

	random_begin("accept");
	for (int round = 0; round < 3000; round++) {
		uint32_t n = random_in(1, TREE_MAX), salt = random_u32(), length;
		int32_t next[TREE_MAX];
		uint8_t path[TREE_MAX], rows[TREE_MAX];
		struct tree_move moves[TREE_MAX];
		struct tree_growth g;
		struct token_tree t;

		tree_begin(&g, 1);
		for (uint32_t i = random_in(0, 200); i; i--)
			tree_add(&g, random_in(0, g.n - 1), (int32_t)random_in(0, 2), 0.9);
		tree_pick(&g, n, &t);
		for (uint32_t i = 0; i < t.n; i++) {
			next[i] = model_next(&t, i, salt);
			rows[i] = (uint8_t)i;
		}
		n = accept_path(&t, next, path);
		assert_int_equal(path[0], 0);
		/* Along the path each token is the model's, and behind it there is none. */
		for (uint32_t i = 1; i < n; i++) {
			assert_int_equal(t.parents[path[i]], path[i - 1]);
			assert_int_equal(t.tokens[path[i]], next[path[i - 1]]);
			assert_int_equal(t.depths[path[i]], i);
		}
		for (uint32_t i = 1; i < t.n; i++)
			assert_false(t.parents[i] == path[n - 1] &&
				     t.tokens[i] == next[path[n - 1]]);
		length = token_tree_moves(path, n, moves);
		for (uint32_t i = 0; i < length; i++)
			memmove(rows + moves[i].to, rows + moves[i].from, moves[i].rows);
		assert_memory_equal(rows, path, n);
		longest = n > longest ? n : longest;
	}
	assert_true(longest > 4);
}

static void rows_in_a_sequence_are_moved_together(void **state)
{
	struct tree_move moves[8];

	assert_int_equal(token_tree_moves((uint8_t[]){ 0, 1, 2 }, 3, moves), 0);
	assert_int_equal(token_tree_moves((uint8_t[]){ 0, 3, 4, 5, 9 }, 5, moves), 2);
	assert_memory_equal(moves, ((struct tree_move[]){ { 3, 1, 3 }, { 9, 4, 1 } }),
			    2 * sizeof(*moves));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drafts_share_their_beginnings),
		cmocka_unit_test(a_tree_of_one_node_is_plain_decoding),
		cmocka_unit_test(probabilities_out_of_range_are_clamped),
		cmocka_unit_test(a_full_growth_takes_no_more),
		cmocka_unit_test(picked_trees_are_in_depth_first_order),
		cmocka_unit_test(no_tree_of_the_size_is_expected_to_give_more),
		cmocka_unit_test(the_size_is_that_of_most_tokens_a_time),
		cmocka_unit_test(sources_that_agree_are_believed_more),
		cmocka_unit_test(only_one_token_follows_a_node),
		cmocka_unit_test(what_follows_a_node_is_at_most_certain),
		cmocka_unit_test(factors_correct_the_probabilities_of_their_kind),
		cmocka_unit_test(accepted_paths_are_those_of_plain_decoding),
		cmocka_unit_test(rows_in_a_sequence_are_moved_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
