// SPDX-License-Identifier: MIT
/* Calibrated trees beside a plain recursion. SEED=N repeats a run. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "calibrated.h"
#include "npu_random.h"

#define MAX_CONTEXT 40
#define MAX_K 4

/* The same as struct calibrated keeps, in the plainest form. */
struct plain {
	int32_t context[MAX_CONTEXT];
	size_t n;
	uint32_t nr[MAX_CONTEXT];
	int32_t ids[MAX_CONTEXT][MAX_K];
	float p[MAX_CONTEXT][MAX_K];
};

static struct calibrated *create(const int32_t *context, size_t n, uint32_t k)
{
	struct calibrated *c;

	/* In two parts, which makes no difference. */
	assert_int_equal(calibrated_create(context, (n + 1) / 2, k, &c), 0);
	assert_int_equal(calibrated_extend(c, context + (n + 1) / 2, n / 2), 0);
	assert_int_equal(calibrated_tokens(c), n);
	return c;
}

static size_t plain_find(const struct plain *l, int32_t token, size_t position)
{
	size_t last = CALIBRATED_NONE;

	for (size_t at = 1; position < l->n && at < l->n; at++)
		if (l->context[at] == token && l->nr[at] &&
		    l->context[at - 1] == l->context[position])
			return at;
	for (size_t at = 0; at < l->n; at++)
		if (l->context[at] == token && l->nr[at]) {
			if (position < l->n && at > position)
				return at;
			last = at;
		}
	return last;
}

static void plain_grow(const struct plain *l, size_t position, struct tree_growth *g, uint32_t node,
		       const struct calibrated_limits *limits, uint32_t depth)
{
	if (position == CALIBRATED_NONE || depth == limits->depth)
		return;
	for (uint32_t i = 0; i < l->nr[position]; i++) {
		int32_t id = l->ids[position][i];
		uint32_t child;

		if (g->nodes[node].p * (double)l->p[position][i] < limits->least)
			continue;
		child = tree_add(g, node, id, (double)l->p[position][i]);
		assert_int_not_equal(child, TREE_NONE);
		plain_grow(l, plain_find(l, id, position), g, child, limits, depth + 1);
	}
}

/* The paper's example: the context says "Clinton 's security", the model "Clinton arrived at". */
static void the_model_speaks_in_its_own_words(void **state)
{
	enum { CLINTON, S, SECURITY, HAS, ARRIVED, AT, MOINES, IN };
	static const int32_t context[] = { CLINTON, S, SECURITY, HAS, ARRIVED, AT, MOINES };
	struct calibrated *c = create(context, 7, 3);
	struct tree_growth g;
	struct token_tree t;

	assert_int_equal(calibrated_add(c, 0, (int32_t[]){ S, HAS, ARRIVED },
					(float[]){ 0.25f, 0.125f, 0.5f }, 3),
			 0);
	assert_int_equal(calibrated_add(c, 4, (int32_t[]){ AT, IN }, (float[]){ 0.5f, 0.25f }, 2),
			 0);
	tree_begin(&g, CLINTON);
	assert_int_equal(calibrated_grow(c, 0, &g, 0, &(struct calibrated_limits){ 4, 0.05 }), 5);
	tree_pick(&g, TREE_MAX, &t);
	assert_int_equal(t.n, 6);
	assert_memory_equal(t.tokens, ((int32_t[]){ CLINTON, ARRIVED, AT, IN, S, HAS }), 24);
	assert_float_equal(t.p[2], 0.25, 1e-9);
	/* A third of the tree by less depth, another by a higher probability. */
	tree_begin(&g, CLINTON);
	assert_int_equal(calibrated_grow(c, 0, &g, 0, &(struct calibrated_limits){ 1, 0.05 }), 3);
	tree_begin(&g, CLINTON);
	assert_int_equal(calibrated_grow(c, 0, &g, 0, &(struct calibrated_limits){ 4, 0.25 }), 3);
	/* No candidates here. */
	assert_int_equal(calibrated_grow(c, 1, &g, 0, &(struct calibrated_limits){ 4, 0.05 }), 0);
	calibrated_free(c);
}

static void bad_arguments_are_refused(void **state)
{
	static const int32_t context[] = { 1, 2 };
	struct calibrated *c;

	assert_int_equal(calibrated_create(context, 0, 1, &c), -EINVAL);
	assert_int_equal(calibrated_create(context, 2, 0, &c), -EINVAL);
	assert_int_equal(calibrated_create(context, 2, CALIBRATED_MAX + 1, &c), -EINVAL);
	c = create(context, 2, 1);
	assert_int_equal(calibrated_extend(c, context, UINT32_MAX), -EINVAL);
	assert_int_equal(calibrated_add(c, 2, context, (float[]){ 1, 1 }, 2), -EINVAL);
	calibrated_free(c);
	calibrated_free(NULL);
}

static void the_most_probable_candidates_remain(void **state)
{
	static const int32_t context[] = { 7 };
	struct calibrated *c = create(context, 1, 2);
	struct tree_growth g;
	const struct calibrated_limits limits = { 1, 1e-6 };

	assert_int_equal(calibrated_add(c, 0, (int32_t[]){ 1, 2, 3, 4 },
					(float[]){ 0.1f, 0.3f, 0.2f, 0.25f }, 4),
			 0);
	tree_begin(&g, 7);
	assert_int_equal(calibrated_grow(c, 0, &g, 0, &limits), 2);
	assert_int_equal(g.nodes[1].token, 2);
	assert_int_equal(g.nodes[2].token, 4);
	/* Others replace them. */
	assert_int_equal(calibrated_add(c, 0, (int32_t[]){ 9 }, (float[]){ 0.1f }, 1), 0);
	tree_begin(&g, 7);
	assert_int_equal(calibrated_grow(c, 0, &g, 0, &limits), 1);
	assert_int_equal(g.nodes[1].token, 9);
	calibrated_free(c);
}

/* Deep loops of one token, whose probability does not fall. */
static void loops_end_at_the_depth_or_with_the_growth(void **state)
{
	static const int32_t context[] = { 1, 1 };
	struct calibrated *c = create(context, 2, 2);
	struct tree_growth g;

	for (size_t i = 0; i < 2; i++)
		assert_int_equal(calibrated_add(c, i, (int32_t[]){ 1, 2 }, (float[]){ 1, 1 }, 2),
				 0);
	tree_begin(&g, 1);
	assert_int_equal(calibrated_grow(c, 0, &g, 0, &(struct calibrated_limits){ 1000, 0.5 }),
			 2 * TREE_MAX);
	for (uint32_t i = 0; i < 4; i++)
		calibrated_grow(c, 0, &g, g.n - 1, &(struct calibrated_limits){ 1000, 0.5 });
	assert_int_equal(g.n, TREE_GROWTH);
	calibrated_free(c);
}

/* Any context, of which most positions have candidates. */
static struct calibrated *any_context(struct plain *l)
{
	uint32_t ids = random_in(1, 12), k = random_in(1, MAX_K);
	struct calibrated *c;

	*l = (struct plain){ .n = random_in(1, MAX_CONTEXT) };
	for (size_t i = 0; i < l->n; i++)
		l->context[i] = (int32_t)random_in(0, ids);
	c = create(l->context, l->n, k);
	for (size_t i = 0; i < l->n; i++) {
		if (!random_in(0, 3))
			continue;
		l->nr[i] = random_in(1, k);
		for (uint32_t j = 0; j < l->nr[i]; j++) {
			/* Falling, so that they are in the order in which they are kept. */
			l->p[i][j] = (j ? l->p[i][j - 1] : 1) * (float)random_in(50, 99) / 100;
			l->ids[i][j] = (int32_t)(random_in(0, ids) / k * k + j);
		}
		assert_int_equal(calibrated_add(c, i, l->ids[i], l->p[i], l->nr[i]), 0);
	}
	return c;
}

static void random_trees_are_those_of_a_recursion(void **state)
{
	random_begin("trees");
	for (int round = 0; round < 2000; round++) {
		const struct calibrated_limits limits = { random_in(1, 4),
							  random_in(5, 50) / 100.0 };
		static struct tree_growth g, want;
		struct plain l;
		struct calibrated *c = any_context(&l);
		size_t position = random_in(0, (uint32_t)l.n - 1);

		for (int i = 0; i < 20; i++) {
			int32_t token = (int32_t)random_in(0, 13);
			size_t from =
				random_in(0, 4) ? random_in(0, (uint32_t)l.n - 1) : CALIBRATED_NONE;

			assert_int_equal(calibrated_find(c, token, from),
					 plain_find(&l, token, from));
		}
		tree_begin(&g, l.context[position]);
		tree_begin(&want, l.context[position]);
		calibrated_grow(c, position, &g, 0, &limits);
		plain_grow(&l, position, &want, 0, &limits, 0);
		assert_int_equal(g.n, want.n);
		assert_memory_equal(g.nodes, want.nodes, g.n * sizeof(*g.nodes));
		calibrated_free(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_model_speaks_in_its_own_words),
		cmocka_unit_test(bad_arguments_are_refused),
		cmocka_unit_test(the_most_probable_candidates_remain),
		cmocka_unit_test(loops_end_at_the_depth_or_with_the_growth),
		cmocka_unit_test(random_trees_are_those_of_a_recursion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
