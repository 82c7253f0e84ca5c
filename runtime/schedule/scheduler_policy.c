// SPDX-License-Identifier: MIT
/* The order choices that need no knowledge of costs. */
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
