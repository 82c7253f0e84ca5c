// SPDX-License-Identifier: MIT
/* Algorithm 1 of shadowAttn, without its first step, which makes the launches. */
#include <math.h>
#include <string.h>

#include "head_plan_private.h"

/*
 * C/GPUPlan of the paper, after @launch has run: puts its heads in the order in which each is the
 * one whose attention ends first, and returns when the stages then end.
 */
static struct head_plan_ends order_heads(const struct head_plan_work *work,
					 struct head_launch *launch, struct head_plan_ends t)
{
	head_plan_launch(work, launch->n_heads, &t);
	for (unsigned int i = 0; i < launch->n_heads; i++) {
		struct head_plan_ends best = { .qkv_ns = INFINITY };
		unsigned int best_at = i;
		uint16_t head;

		for (unsigned int j = i; j < launch->n_heads; j++) {
			struct head_plan_ends end = t;

			head_plan_head(work, launch->heads[j], &end);
			if (end.qkv_ns < best.qkv_ns) {
				best = end;
				best_at = j;
			}
		}
		/* The others stay in their order. */
		head = launch->heads[best_at];
		memmove(&launch->heads[i + 1], &launch->heads[i],
			(best_at - i) * sizeof(launch->heads[0]));
		launch->heads[i] = head;
		t = best;
	}
	return t;
}

/* Plan of the paper, whose launches are made: next is the one whose heads end first. */
void head_plan_greedy(struct head_plan *plan, const struct head_plan_work *work)
{
	for (unsigned int i = 0; i < plan->n_launches; i++) {
		struct head_plan_ends best = { .qkv_ns = INFINITY };
		struct head_launch chosen = plan->launches[i];
		unsigned int chosen_at = i;

		for (unsigned int j = i; j < plan->n_launches; j++) {
			struct head_launch launch = plan->launches[j];
			struct head_plan_ends end = order_heads(work, &launch, plan->ends);

			if (end.qkv_ns < best.qkv_ns) {
				best = end;
				chosen = launch;
				chosen_at = j;
			}
		}
		memmove(&plan->launches[i + 1], &plan->launches[i],
			(chosen_at - i) * sizeof(chosen));
		plan->launches[i] = chosen;
		plan->ends = best;
	}
}
