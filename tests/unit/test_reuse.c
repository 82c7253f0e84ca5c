// SPDX-License-Identifier: MIT
/* What is kept of rejected drafts, for how long, and where it comes back. SEED=N repeats a run. */
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
#include "reuse.h"
#include "tree_drafts.h"

/* One step of a session: a draft, of which the first @accepted tokens are right. */
static uint32_t reject(struct reuse *r, int32_t last, const int32_t *draft,
		       const double *confidence, uint32_t n, uint32_t accepted)
{
	double c[TREE_MAX] = { 1 };
	struct tree_growth g;
	struct token_tree t;
	uint8_t path[TREE_MAX];

	tree_begin(&g, last);
	add_draft(&g, draft, n, 1);
	tree_pick(&g, TREE_MAX, &t);
	for (uint32_t i = 0; i <= accepted; i++)
		path[i] = (uint8_t)i;
	memcpy(c + 1, confidence, n * sizeof(*c));
	return reuse_keep(r, &t, path, accepted + 1, c);
}

/* The tokens that the segments put behind @last, as one chain. */
static uint32_t drafts(const struct reuse *r, int32_t last, int32_t *tokens)
{
	struct tree_growth g;
	struct token_tree t;

	tree_begin(&g, last);
	reuse_grow(r, &g);
	tree_pick(&g, TREE_MAX, &t);
	for (uint32_t i = 1; i < t.n; i++)
		tokens[i - 1] = t.tokens[i];
	return t.n - 1;
}

/* The draft lacks a token: what it had behind that place comes next. */
static void missing_tokens_leave_the_rest(void **state)
{
	struct reuse r;
	int32_t out[TREE_MAX];

	reuse_begin(&r, 64, 0.2);
	assert_int_equal(reject(&r, 1, (int32_t[]){ 2, 3, 4, 5, 6 },
				(double[]){ 0.9, 0.9, 0.3, 0.8, 0.7 }, 5, 2),
			 3);
	assert_int_equal(drafts(&r, 99, out), 3);
	assert_memory_equal(out, ((int32_t[]){ 4, 5, 6 }), 12);
}

/* The draft has other words for the same: they are left out. */
static void synonyms_leave_what_is_behind_them(void **state)
{
	struct reuse r;
	int32_t out[TREE_MAX];

	reuse_begin(&r, 64, 0.2);
	assert_int_equal(reject(&r, 1, (int32_t[]){ 2, 30, 31, 4, 5 },
				(double[]){ 0.9, 0.01, 0.1, 0.8, 0.7 }, 5, 1),
			 2);
	assert_int_equal(drafts(&r, 99, out), 2);
	assert_memory_equal(out, ((int32_t[]){ 4, 5 }), 8);
}

static void redundant_drafts_leave_nothing(void **state)
{
	struct reuse r;

	reuse_begin(&r, 64, 0.2);
	assert_int_equal(reject(&r, 1, (int32_t[]){ 2, 3 }, (double[]){ 0.1, 0.1 }, 2, 0), 0);
	/* Nor do accepted ones, however plausible. */
	assert_int_equal(reject(&r, 1, (int32_t[]){ 2, 3 }, (double[]){ 0.9, 0.9 }, 2, 2), 0);
	assert_int_equal(r.n, 0);
}

static void a_segment_goes_on_behind_the_last_token(void **state)
{
	struct reuse r;
	struct tree_growth g;
	struct token_tree t;

	reuse_begin(&r, 64, 0.2);
	reject(&r, 1, (int32_t[]){ 2, 3, 4 }, (double[]){ 0.5, 0.5, 0.5 }, 3, 0);
	tree_begin(&g, 3);
	assert_int_equal(reuse_grow(&r, &g), 4);
	tree_pick(&g, TREE_MAX, &t);
	assert_memory_equal(t.tokens, ((int32_t[]){ 3, 2, 3, 4, 4 }), 20);
	assert_memory_equal(t.parents, ((uint8_t[]){ 0, 0, 1, 2, 0 }), 5);
	/* 4 is accepted, so nothing of it remains. */
	reuse_keep(&r, &t, (uint8_t[]){ 0, 4 }, 2, (double[]){ 1, 0, 0, 0, 1 });
	assert_int_equal(r.n, 0);
}

static void accepted_tokens_leave_their_segment(void **state)
{
	struct reuse r;
	int32_t out[TREE_MAX];

	reuse_begin(&r, 64, 0.2);
	reject(&r, 1, (int32_t[]){ 2, 3, 4, 5 }, (double[]){ 0.5, 0.5, 0.5, 0.5 }, 4, 0);
	/* 2 and 3 are accepted; 4 and 5 are still in the segment, and not kept twice. */
	assert_int_equal(
		reject(&r, 9, (int32_t[]){ 2, 3, 4, 5 }, (double[]){ 0.5, 0.5, 0.5, 0.5 }, 4, 2),
		0);
	assert_int_equal(r.n, 1);
	assert_int_equal(drafts(&r, 99, out), 2);
	assert_memory_equal(out, ((int32_t[]){ 4, 5 }), 8);
}

/* Ends a step whose tree has so many other guesses, and one of a segment. */
static void end_step(struct reuse *r, uint32_t others)
{
	struct tree_growth g;
	struct token_tree t;

	tree_begin(&g, 1);
	for (uint32_t i = 0; i < others; i++)
		tree_add(&g, random_in(0, g.n - 1), (int32_t)(100 + i), 1);
	reuse_grow(r, &g);
	tree_pick(&g, others + 2, &t);
	reuse_step(r, &t);
}

static void segments_live_for_a_step_and_while_drafts_are_short(void **state)
{
	struct reuse r;
	int32_t out[TREE_MAX];

	random_begin(__func__);
	reuse_begin(&r, 10, 0.2);
	reject(&r, 1, (int32_t[]){ 2, 3, 4 }, (double[]){ 0.5, 0.5, 0.5 }, 3, 0);
	end_step(&r, 7);
	assert_int_equal(r.n, 1);
	reject(&r, 1, (int32_t[]){ 20, 30, 40, 50 }, (double[]){ 0.5, 0.5, 0.5, 0.5 }, 4, 0);
	/* The newer one counts first. */
	end_step(&r, 4);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.segments[0].tokens[0], 20);
	end_step(&r, 6);
	assert_int_equal(r.n, 1);
	end_step(&r, 7);
	assert_int_equal(r.n, 0);
	/* A first step whatever else is drafted. */
	reject(&r, 1, (int32_t[]){ 2, 3, 4 }, (double[]){ 0.5, 0.5, 0.5 }, 3, 0);
	assert_int_equal(drafts(&r, 99, out), 3);
	end_step(&r, 50);
	assert_int_equal(r.n, 0);
}

static void of_many_segments_the_oldest_go(void **state)
{
	struct reuse r;

	reuse_begin(&r, 1000, 0.2);
	for (int32_t i = 0; i < REUSE_SEGMENTS + 3; i++) {
		assert_int_equal(reject(&r, 1, &i, (double[]){ 0.5 }, 1, 0), 1);
	}
	assert_int_equal(r.n, REUSE_SEGMENTS);
	for (int32_t i = 0; i < REUSE_SEGMENTS; i++)
		assert_int_equal(r.segments[i].tokens[0], REUSE_SEGMENTS + 2 - i);
}

static void the_longest_plausible_segment_is_found(void **state)
{
	random_begin("segment");
	for (int round = 0; round < 5000; round++) {
		uint32_t n = random_in(0, 20), start = 77, want = 0, best = 0;
		double c[20];

		for (uint32_t i = 0; i < n; i++)
			c[i] = random_in(0, 4) / 4.0;
		for (uint32_t s = 0; s < n; s++)
			for (uint32_t e = s; e < n && c[e] >= 0.5; e++)
				if (e - s + 1 > best) {
					best = e - s + 1;
					want = s;
				}
		assert_int_equal(reuse_segment(c, n, 0.5, &start), best);
		assert_int_equal(start, best ? want : 77);
	}
}

/* The longest run of confidences on a way down from the accepted path, by brute force. */
static uint32_t longest_run(const struct token_tree *t, uint64_t path, const double *c)
{
	uint32_t best = 0;

	for (uint32_t from = 1; from < t->n; from++)
		for (uint32_t to = from; to < t->n; to++) {
			uint32_t n = 1, i = to;
			bool all = t->ancestors[to] >> from & 1;

			for (; all && i != from; i = t->parents[i], n++)
				all = c[i] >= 0.5 && !(path >> i & 1);
			all = all && c[from] >= 0.5 && !(path >> from & 1);
			best = all && n > best ? n : best;
		}
	return best;
}

static void rejected_paths_of_random_trees_are_kept(void **state)
{
	random_begin("trees");
	for (int round = 0; round < 2000; round++) {
		double c[TREE_MAX];
		struct tree_growth g;
		struct token_tree t;
		struct reuse r;
		uint8_t path[TREE_MAX];
		uint32_t n = 1, node = 0, best;

		tree_begin(&g, 0);
		for (uint32_t i = random_in(0, 100); i; i--)
			tree_add(&g, random_in(0, g.n - 1), (int32_t)random_in(0, 9), 1);
		tree_pick(&g, random_in(1, TREE_MAX), &t);
		for (uint32_t i = 0; i < t.n; i++)
			c[i] = random_in(0, 4) / 4.0;
		path[0] = 0;
		for (uint32_t i = 1; i < t.n; i++)
			if (t.parents[i] == node && random_in(0, 1))
				path[n++] = (uint8_t)(node = i);
		reuse_begin(&r, 64, 0.5);
		best = longest_run(&t, t.ancestors[node], c);
		assert_int_equal(reuse_keep(&r, &t, path, n, c), best);
		assert_int_equal(r.n, best > 0);
		for (uint32_t i = 0; r.n && i < best; i++)
			assert_true(r.segments[0].p[i] >= 0.5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(missing_tokens_leave_the_rest),
		cmocka_unit_test(synonyms_leave_what_is_behind_them),
		cmocka_unit_test(redundant_drafts_leave_nothing),
		cmocka_unit_test(a_segment_goes_on_behind_the_last_token),
		cmocka_unit_test(accepted_tokens_leave_their_segment),
		cmocka_unit_test(segments_live_for_a_step_and_while_drafts_are_short),
		cmocka_unit_test(of_many_segments_the_oldest_go),
		cmocka_unit_test(the_longest_plausible_segment_is_found),
		cmocka_unit_test(rejected_paths_of_random_trees_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
