// SPDX-License-Identifier: MIT
/* The order choices. */
#include "scheduler.h"

/* The first ready task whose home is the lane. */
static uint32_t first_at_home(const struct sched_view *view)
{
	for (size_t i = 0; i < view->nr_ready; i++)
		if (sched_get(view->plan, view->ready[i])->home == view->lane)
			return (uint32_t)i;
	return SCHED_NONE;
}

static uint32_t pick_fifo(const struct sched_view *view, const void *param)
{
	(void)param;
	return first_at_home(view);
}

const struct sched_policy sched_policy_fifo = { "fifo", pick_fifo };

/* The lowest layer first, and in it the plan's order. */
static uint32_t pick_layer(const struct sched_view *view, const void *param)
{
	uint32_t best = SCHED_NONE;

	(void)param;
	for (size_t i = 0; i < view->nr_ready; i++) {
		const struct sched_task *t = sched_get(view->plan, view->ready[i]);

		if (t->home != view->lane)
			continue;
		if (best == SCHED_NONE ||
		    t->layer < sched_get(view->plan, view->ready[best])->layer)
			best = (uint32_t)i;
	}
	return best;
}

const struct sched_policy sched_policy_layer = { "layer", pick_layer };

/* Whether @next is the NPU's, and waits for nothing but one task, which is ready. */
static bool is_released(const struct sched_view *view, uint32_t next)
{
	return view->left[next] == 1 && sched_get(view->plan, next)->home == SOC_NPU;
}

double sched_c_value(const struct sched_view *view, const double *ns, uint32_t task)
{
	const uint32_t *after;
	double c = 0;
	size_t n;

	if (!ns)
		return 0;
	if (view->lane == SOC_NPU)
		return -ns[task];
	after = sched_successors(view->plan, task, &n);
	for (size_t i = 0; i < n; i++)
		if (is_released(view, after[i]))
			c += ns[after[i]];
	return c;
}

static uint32_t pick_ooe(const struct sched_view *view, const void *param)
{
	uint32_t best = SCHED_NONE;
	double best_c = 0;

	for (size_t i = 0; i < view->nr_ready; i++) {
		double c;

		if (sched_get(view->plan, view->ready[i])->home != view->lane)
			continue;
		c = sched_c_value(view, param, view->ready[i]);
		if (best != SCHED_NONE && c <= best_c)
			continue;
		best = (uint32_t)i;
		best_c = c;
	}
	return best;
}

const struct sched_policy sched_policy_ooe = { "ooe", pick_ooe };
