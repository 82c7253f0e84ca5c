// SPDX-License-Identifier: MIT
/*
 * The stages are a flow shop, whose jobs are launches and their heads, and what is good for a flow
 * shop is good here: the heads of a launch begin in the order that is best for two stages (S. M.
 * Johnson, 1954), and launches are inserted one after another, the longest first (M. Nawaz, E. E.
 * Enscore, I. Ham, 1983).
 */
#include <stdbool.h>
#include <string.h>

#include "head_plan_private.h"

static struct head_plan_ends ends_of(const struct head_plan *plan,
				     const struct head_plan_work *work, unsigned int n_launches)
{
	struct head_plan_ends t = { 0 };

	for (unsigned int i = 0; i < n_launches; i++)
		head_plan_run(work, &plan->launches[i], &t);
	return t;
}

/* Johnson's rule: heads with a shorter top-k than attention come first, the shortest top-k of them
 * first; of the others the shortest attention comes last. */
static bool is_before(const struct head_plan_head *a, const struct head_plan_head *b)
{
	bool a_first = a->topk_ns < a->qkv_ns, b_first = b->topk_ns < b->qkv_ns;

	if (a_first != b_first)
		return a_first;
	return a_first ? a->topk_ns < b->topk_ns : a->qkv_ns > b->qkv_ns;
}

/* Those between make room. */
static void move_head(struct head_launch *launch, unsigned int from, unsigned int to)
{
	uint16_t head = launch->heads[from];

	memmove(&launch->heads[to + 1], &launch->heads[to], (from - to) * sizeof(head));
	launch->heads[to] = head;
}

static void move_launch(struct head_plan *plan, unsigned int from, unsigned int to)
{
	struct head_launch launch = plan->launches[from];

	memmove(&plan->launches[to + 1], &plan->launches[to], (from - to) * sizeof(launch));
	plan->launches[to] = launch;
}

static void sort_heads(const struct head_plan_work *work, struct head_launch *launch)
{
	const struct head_plan_head *all = work->heads;

	for (unsigned int i = 1; i < launch->n_heads; i++) {
		unsigned int to = i;

		while (to > 0 && is_before(&all[launch->heads[i]], &all[launch->heads[to - 1]]))
			to--;
		move_head(launch, i, to);
	}
}

static double work_of(const struct head_plan_work *work, const struct head_launch *launch)
{
	double ns = work->npu_ns[launch->n_heads - 1];

	for (unsigned int i = 0; i < launch->n_heads; i++)
		ns += work->heads[launch->heads[i]].topk_ns + work->heads[launch->heads[i]].qkv_ns;
	return ns;
}

/* The longest first. */
static void sort_launches(struct head_plan *plan, const struct head_plan_work *work)
{
	for (unsigned int i = 1; i < plan->n_launches; i++) {
		double ns = work_of(work, &plan->launches[i]);
		unsigned int to = i;

		while (to > 0 && ns > work_of(work, &plan->launches[to - 1]))
			to--;
		move_launch(plan, i, to);
	}
}

/* Exchanges a launch and the next one. */
static void exchange(struct head_plan *plan, unsigned int at)
{
	move_launch(plan, at + 1, at);
}

/* Moves launch @from to the place among the first @n with which they end first; to none if its own
 * is as good. */
static void place_launch(struct head_plan *plan, const struct head_plan_work *work, unsigned int n,
			 unsigned int from)
{
	double best = ends_of(plan, work, n).qkv_ns, end;
	unsigned int best_at = from;

	for (unsigned int at = from; at < n - 1; at++)
		exchange(plan, at);
	for (unsigned int at = n; at-- > 0;) {
		if (at < n - 1)
			exchange(plan, at);
		end = ends_of(plan, work, n).qkv_ns;
		if (end < best) {
			best = end;
			best_at = at;
		}
	}
	for (unsigned int at = 0; at < best_at; at++)
		exchange(plan, at);
}

void head_plan_insertion(struct head_plan *plan, const struct head_plan_work *work)
{
	unsigned int n = plan->n_launches;

	for (unsigned int i = 0; i < n; i++)
		sort_heads(work, &plan->launches[i]);
	sort_launches(plan, work);
	for (unsigned int i = 0; i < n; i++)
		place_launch(plan, work, i + 1, i);
	/* The first ones were placed among few. */
	for (unsigned int i = 0; i < n; i++)
		place_launch(plan, work, n, i);
	plan->ends = ends_of(plan, work, n);
}
