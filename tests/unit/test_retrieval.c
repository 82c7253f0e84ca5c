// SPDX-License-Identifier: MIT
/* Drafts from the context and from past answers, beside a search by brute force. SEED=N repeats a
 * run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "npu_random.h"
#include "retrieval.h"

#define MAX_DRAFT 12

static struct automaton *answers(const int32_t *ids, size_t n)
{
	struct automaton *a;

	assert_int_equal(automaton_create(n, &a), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(automaton_append(a, ids[i]), 0);
	return a;
}

static struct retrieval *create(struct retrieval_options o)
{
	struct retrieval *r;

	assert_int_equal(retrieval_create(&o, &r), 0);
	return r;
}

static void read_ids(struct retrieval *r, const int32_t *ids, size_t n)
{
	assert_int_equal(retrieval_read(r, ids, n), 0);
}
#define READ(r, ...)                                  \
	read_ids(r, (const int32_t[]){ __VA_ARGS__ }, \
		 sizeof((const int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t))

static void short_matches_grow_nothing(void **state)
{
	struct retrieval *r = create((struct retrieval_options){
		.min_match = 2,
		.max_draft = MAX_DRAFT,
		.min_confidence = 0.5,
	});
	struct tree_growth g;

	READ(r, 1, 2, 3, 4, 5, 6, 7, 8, 9, 4);
	tree_begin(&g, 4);
	retrieval_grow(r, &g, TREE_MAX);
	assert_int_equal(g.n, 1);
	/* A match of two tokens: three more have probabilities of 3/4, 3/5 and 3/6. */
	READ(r, 5);
	tree_begin(&g, 5);
	retrieval_grow(r, &g, TREE_MAX);
	assert_int_equal(g.n, 4);
	for (uint32_t i = 1; i < g.n; i++) {
		assert_int_equal(g.nodes[i].token, 5 + i);
		assert_float_equal(g.nodes[i].p, 3.0 / (3 + i), 1e-9);
	}
	retrieval_free(r);
	retrieval_free(NULL);
}

/* ---- trees ---- */

#define MAX_PATHS 40000

/* All paths behind a text's repeat, by brute force. */
struct paths {
	int32_t text[AUTOMATON_REACH], path[MAX_DRAFT];
	size_t n, match; /* of the text; of its repeat */
	uint32_t ids, depth;
	double p[MAX_PATHS];
	size_t nr;
};

/* How often the repeat, and the path's tokens from @since to @depth, were followed by @id. */
static uint32_t count_next(const struct paths *t, uint32_t since, uint32_t depth, int32_t id)
{
	size_t length = depth - since;
	uint32_t count = 0;

	for (size_t at = 0; at + t->match + length < t->n; at++)
		count += !memcmp(t->text + at, t->text + t->n - t->match, t->match * 4) &&
			 !memcmp(t->text + at + t->match, t->path + since, length * 4) &&
			 t->text[at + t->match + length] == id;
	return count;
}

static uint32_t count_all(const struct paths *t, uint32_t since, uint32_t depth, uint32_t *counts)
{
	uint32_t total = 0;

	for (uint32_t id = 0; id <= t->ids; id++)
		total += counts[id] = count_next(t, since, depth, (int32_t)id);
	return total;
}

static void add_paths(struct paths *t, uint32_t since, uint32_t depth, double p)
{
	uint32_t counts[8], total = count_all(t, since, depth, counts);

	if (depth == t->depth)
		return;
	/* The path has reached the end of the text: it goes on as the repeat does. */
	if (!total) {
		since = depth;
		total = count_all(t, since, depth, counts);
	}
	for (uint32_t id = 0; id <= t->ids; id++) {
		double q = p * (double)counts[id] / total * (double)(t->match + depth + 1) /
			   (double)(t->match + depth + 2);

		if (!counts[id])
			continue;
		assert_true(t->nr < MAX_PATHS);
		t->p[t->nr++] = q;
		t->path[depth] = (int32_t)id;
		add_paths(t, since, depth + 1, q);
	}
}

static int falling(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x > y ? -1 : x < y;
}

static void grown_trees_have_the_most_probable_paths(void **state)
{
	static struct paths t;

	random_begin("grow");
	for (int round = 0; round < 300; round++) {
		struct retrieval *r = create((struct retrieval_options){ .max_draft = 4 });
		uint32_t max = random_in(1, 30);
		double p[TREE_GROWTH];
		struct tree_growth g;

		t = (struct paths){ .n = AUTOMATON_REACH, .ids = random_in(1, 5), .depth = 4 };
		for (size_t i = 0; i < t.n; i++)
			t.text[i] = (int32_t)random_in(0, t.ids);
		read_ids(r, t.text, t.n);
		t.match = automaton_repeat(retrieval_context(r)).length;
		tree_begin(&g, t.text[t.n - 1]);
		retrieval_grow(r, &g, max);
		if (t.match)
			add_paths(&t, 0, 0, 1);
		qsort(t.p, t.nr, sizeof(double), falling);
		assert_int_equal(g.n - 1, t.nr < max ? t.nr : max);
		for (uint32_t i = 1; i < g.n; i++)
			p[i - 1] = g.nodes[i].p;
		qsort(p, g.n - 1, sizeof(double), falling);
		for (uint32_t i = 0; i + 1 < g.n; i++)
			assert_float_equal(p[i], t.p[i], 1e-9);
		retrieval_free(r);
	}
}

static void a_periodic_context_grows_beyond_its_end(void **state)
{
	struct retrieval *r = create((struct retrieval_options){ .max_draft = 9 });
	struct tree_growth g;
	struct token_tree t;

	READ(r, 1, 2, 3, 1, 2, 3);
	tree_begin(&g, 3);
	retrieval_grow(r, &g, TREE_MAX);
	tree_pick(&g, TREE_MAX, &t);
	assert_int_equal(t.n, 10);
	for (uint32_t i = 0; i < t.n; i++) {
		assert_int_equal(t.tokens[i], i ? (i - 1) % 3 + 1 : 3);
		assert_float_equal(t.p[i], 4.0 / (4 + i), 1e-9);
	}
	retrieval_free(r);
}

static void both_sources_grow_one_tree(void **state)
{
	static const int32_t past[] = { 1, 2, 50, 51, AUTOMATON_BREAK, 1, 2, AUTOMATON_BREAK };
	struct automaton *history = answers(past, 8);
	struct retrieval *r = create((struct retrieval_options){
		.history = history,
		.max_draft = 2,
		.min_confidence = 0.2,
	});
	struct tree_growth g;
	struct token_tree t;

	READ(r, 2, 40, 41, 3, 1, 2);
	tree_begin(&g, 2);
	retrieval_grow(r, &g, TREE_MAX);
	tree_pick(&g, TREE_MAX, &t);
	/* 2/3 behind one token of the context, half of 3/4 behind two of the history. */
	assert_int_equal(t.n, 5);
	assert_memory_equal(t.tokens, ((int32_t[]){ 2, 40, 41, 50, 51 }), 20);
	assert_memory_equal(t.parents, ((uint8_t[]){ 0, 0, 1, 0, 3 }), 5);
	assert_float_equal(t.p[1], 2.0 / 3, 1e-9);
	assert_float_equal(t.p[3], 3.0 / 8, 1e-9);
	assert_float_equal(t.p[4], 3.0 / 8 * 4 / 5, 1e-9);
	retrieval_free(r);
	automaton_free(history);
}

/* The context's "1 2" goes on with 3; the model would rather say 4 there, and 5 behind it. */
static void calibrated_candidates_grow_too(void **state)
{
	static const int32_t prompt[] = { 1, 2, 3, 4, 9, 2, 8 };
	struct retrieval *r = create((struct retrieval_options){ .max_draft = 3 });
	struct calibrated *c;
	struct tree_growth g;
	struct token_tree t;

	assert_int_equal(calibrated_create(prompt, 7, 2, &c), 0);
	calibrated_add(c, 1, (int32_t[]){ 4, 3 }, (float[]){ 0.75f, 0.25f }, 2);
	calibrated_add(c, 3, (int32_t[]){ 5, 6 }, (float[]){ 0.5f, 0.01f }, 2);
	calibrated_add(c, 5, (int32_t[]){ 60 }, (float[]){ 1 }, 1);
	read_ids(r, prompt, 7);
	READ(r, 1, 2);
	retrieval_calibrate(r, c);
	tree_begin(&g, 2);
	retrieval_grow(r, &g, 1);
	tree_pick(&g, TREE_MAX, &t);
	assert_int_equal(t.n, 4);
	assert_memory_equal(t.tokens, ((int32_t[]){ 2, 3, 4, 5 }), 16);
	assert_memory_equal(t.parents, ((uint8_t[]){ 0, 0, 0, 2 }), 4);
	/* The model agrees with a match of two tokens. */
	assert_float_equal(t.p[1], 1 - 0.25 * 0.75, 1e-9);
	assert_float_equal(t.p[2], 0.75, 1e-9);
	assert_float_equal(t.p[3], 0.375, 1e-9);
	/* Without a position of the match the token's last one counts; without any, nothing. */
	assert_int_equal(calibrated_begin(c, 2, CALIBRATED_NONE), 5);
	assert_int_equal(calibrated_begin(c, 2, 0), 5);
	assert_int_equal(calibrated_begin(c, 2, 1), 1);
	assert_true(calibrated_begin(c, 8, 6) == CALIBRATED_NONE);
	retrieval_calibrate(r, NULL);
	tree_begin(&g, 2);
	retrieval_grow(r, &g, 1);
	assert_int_equal(g.n, 2);
	retrieval_free(r);
	calibrated_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_matches_grow_nothing),
		cmocka_unit_test(grown_trees_have_the_most_probable_paths),
		cmocka_unit_test(a_periodic_context_grows_beyond_its_end),
		cmocka_unit_test(both_sources_grow_one_tree),
		cmocka_unit_test(calibrated_candidates_grow_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
