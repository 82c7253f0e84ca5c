/* SPDX-License-Identifier: MIT */
/* The steps of plans of heads, for the files that make them. */
#ifndef HEAD_PLAN_PRIVATE_H
#define HEAD_PLAN_PRIVATE_H

#include "head_plan.h"

static inline double head_plan_later(double a, double b)
{
	return a > b ? a : b;
}

/* The stages' ends with a launch more on the NPU; with a head more in top-k and attention; with
 * a launch and its heads. */
static inline void head_plan_launch(const struct head_plan_work *work, unsigned int n_heads,
				    struct head_plan_ends *t)
{
	t->npu_ns += work->npu_ns[n_heads - 1];
}

static inline void head_plan_head(const struct head_plan_work *work, unsigned int head,
				  struct head_plan_ends *t)
{
	const struct head_plan_head *h = &work->heads[head];

	t->topk_ns = head_plan_later(t->npu_ns, t->topk_ns) + h->topk_ns;
	t->qkv_ns = head_plan_later(t->qkv_ns, t->topk_ns) + h->qkv_ns;
}

static inline void head_plan_run(const struct head_plan_work *work,
				 const struct head_launch *launch, struct head_plan_ends *t)
{
	head_plan_launch(work, launch->n_heads, t);
	for (unsigned int i = 0; i < launch->n_heads; i++)
		head_plan_head(work, launch->heads[i], t);
}

/* Put launches that are there, and the heads of each, into the policy's order; set the ends. */
void head_plan_greedy(struct head_plan *plan, const struct head_plan_work *work);
void head_plan_insertion(struct head_plan *plan, const struct head_plan_work *work);
/* Up to HEAD_PLAN_EXHAUSTIVE heads */
void head_plan_exhaustive(struct head_plan *plan, const struct head_plan_work *work);

#endif /* HEAD_PLAN_PRIVATE_H */
