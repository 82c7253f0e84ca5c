// SPDX-License-Identifier: MIT
#include "head_plan.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "head_plan_private.h"
#include "llm_fail.h"

const char *head_plan_policy_name(enum head_plan_policy policy)
{
	static const char *const names[] = { "sequential", "overlap",	"fused",
					     "greedy",	   "insertion", "exhaustive" };

	return names[policy];
}

/* ---- the stages' ends ---- */

/* A stage begins when the one before it has ended, the NPU's when the last attention has. */
static void run_sequential(struct head_plan *plan, const struct head_plan_work *work)
{
	for (unsigned int i = 0; i < plan->n_launches; i++) {
		plan->ends.npu_ns = plan->ends.qkv_ns;
		head_plan_run(work, &plan->launches[i], &plan->ends);
	}
}

static void run(struct head_plan *plan, const struct head_plan_work *work)
{
	for (unsigned int i = 0; i < plan->n_launches; i++)
		head_plan_run(work, &plan->launches[i], &plan->ends);
}

/* ---- launches ---- */

/* The greatest graph of no more than so many heads. */
static unsigned int graph_for(const struct head_plan_work *work, unsigned int n)
{
	n = n < HEAD_PLAN_MAX_FUSED ? n : HEAD_PLAN_MAX_FUSED;
	while (!(work->npu_ns[n - 1] > 0))
		n--;
	return n;
}

static struct head_launch *add_launch(struct head_plan *plan, unsigned int bucket)
{
	struct head_launch *launch = &plan->launches[plan->n_launches++];

	*launch = (struct head_launch){ .bucket = bucket };
	return launch;
}

static void add_single(struct head_plan *plan, const struct head_plan_work *work)
{
	for (unsigned int i = 0; i < work->n_heads; i++) {
		struct head_launch *launch = add_launch(plan, work->heads[i].bucket);

		launch->heads[launch->n_heads++] = (uint16_t)i;
	}
}

/* Whether no head before it has its bucket. */
static bool is_first(const struct head_plan_work *work, unsigned int head)
{
	for (unsigned int i = 0; i < head; i++)
		if (work->heads[i].bucket == work->heads[head].bucket)
			return false;
	return true;
}

static unsigned int count_bucket(const struct head_plan_work *work, unsigned int first)
{
	unsigned int n = 0;

	for (unsigned int i = first; i < work->n_heads; i++)
		n += work->heads[i].bucket == work->heads[first].bucket;
	return n;
}

/* The launches of all heads of the bucket whose first head this is. */
static void add_bucket(struct head_plan *plan, const struct head_plan_work *work,
		       unsigned int first)
{
	unsigned int bucket = work->heads[first].bucket, left = count_bucket(work, first), room = 0;
	struct head_launch *launch = NULL;

	for (unsigned int i = first; left; i++) {
		if (work->heads[i].bucket != bucket)
			continue;
		if (!room) {
			room = graph_for(work, left);
			launch = add_launch(plan, bucket);
		}
		launch->heads[launch->n_heads++] = (uint16_t)i;
		room--;
		left--;
	}
}

static void add_fused(struct head_plan *plan, const struct head_plan_work *work)
{
	for (unsigned int i = 0; i < work->n_heads; i++)
		if (is_first(work, i))
			add_bucket(plan, work, i);
}

/* ---- plans ---- */

static bool is_time(double ns)
{
	return ns >= 0 && isfinite(ns);
}

static int check(const struct head_plan_work *work, enum head_plan_policy policy)
{
	unsigned int most =
		policy == HEAD_PLAN_POLICY_EXHAUSTIVE ? HEAD_PLAN_EXHAUSTIVE : HEAD_PLAN_MAX_HEADS;

	if (!work->n_heads || work->n_heads > most)
		return llm_fail(-EINVAL, "%u heads: policy %s plans 1 to %u", work->n_heads,
				head_plan_policy_name(policy), most);
	if (!(work->npu_ns[0] > 0))
		return llm_fail(-EINVAL, "no graph estimates one head alone");
	for (unsigned int i = 0; i < HEAD_PLAN_MAX_FUSED; i++)
		if (!is_time(work->npu_ns[i]))
			return llm_fail(-EINVAL, "an estimate of %u heads takes %g ns", i + 1,
					work->npu_ns[i]);
	for (unsigned int i = 0; i < work->n_heads; i++)
		if (!is_time(work->heads[i].topk_ns) || !is_time(work->heads[i].qkv_ns))
			return llm_fail(-EINVAL, "head %u takes %g and %g ns", i,
					work->heads[i].topk_ns, work->heads[i].qkv_ns);
	return 0;
}

static void order(struct head_plan *plan, const struct head_plan_work *work,
		  enum head_plan_policy policy)
{
	switch (policy) {
	case HEAD_PLAN_POLICY_SEQUENTIAL:
		return run_sequential(plan, work);
	case HEAD_PLAN_POLICY_GREEDY:
		return head_plan_greedy(plan, work);
	case HEAD_PLAN_POLICY_INSERTION:
		return head_plan_insertion(plan, work);
	case HEAD_PLAN_POLICY_EXHAUSTIVE:
		return head_plan_exhaustive(plan, work);
	default:
		return run(plan, work);
	}
}

int head_plan_make(struct head_plan *plan, const struct head_plan_work *work,
		   enum head_plan_policy policy)
{
	int err = check(work, policy);

	if (err)
		return err;
	plan->n_launches = 0;
	plan->ends = (struct head_plan_ends){ 0 };
	if (policy == HEAD_PLAN_POLICY_SEQUENTIAL || policy == HEAD_PLAN_POLICY_OVERLAP)
		add_single(plan, work);
	else
		add_fused(plan, work);
	order(plan, work, policy);
	return 0;
}
