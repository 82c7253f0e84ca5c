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

/* Of the ready tasks whose home is @home: one of the lowest layer, there the first in the plan. */
static uint32_t lowest_layer(const struct sched_view *view, enum soc_lane home)
{
	uint32_t best = SCHED_NONE;

	for (size_t i = 0; i < view->nr_ready; i++) {
		const struct sched_task *t = sched_get(view->plan, view->ready[i]);

		if (t->home != home)
			continue;
		if (best == SCHED_NONE ||
		    t->layer < sched_get(view->plan, view->ready[best])->layer)
			best = (uint32_t)i;
	}
	return best;
}

static uint32_t pick_layer(const struct sched_view *view, const void *param)
{
	(void)param;
	return lowest_layer(view, view->lane);
}

const struct sched_policy sched_policy_layer = { "layer", pick_layer };

/* Tasks of a subgraph of another lane: attention has RoPE before it, a norm a residual. */
#define STRETCH 4

/* The NPU tasks that become ready when @task ends, and when those do that follow it in its
 * subgraph, of which there are @more. */
static double released_ns(const struct sched_view *view, const double *ns, uint32_t task,
			  unsigned int more)
{
	double sum = 0;
	size_t n;
	const uint32_t *after = sched_successors(view->plan, task, &n);

	for (size_t i = 0; i < n; i++) {
		uint8_t home = sched_get(view->plan, after[i])->home;

		if (view->left[after[i]] > 1)
			continue;
		if (home == SOC_NPU)
			sum += ns[after[i]];
		else if (home == view->lane && more)
			sum += released_ns(view, ns, after[i], more - 1);
	}
	return sum;
}

double sched_c_value(const struct sched_view *view, const double *ns, uint32_t task)
{
	if (!ns)
		return 0;
	return view->lane == SOC_NPU ? -ns[task] : released_ns(view, ns, task, STRETCH - 1);
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

static uint32_t pick_steal(const struct sched_view *view, const void *param)
{
	const double *npu_ns = param, *cpu_ns;
	uint32_t own = lowest_layer(view, view->lane), top;
	double queue_ns = 0;

	if (own != SCHED_NONE || view->lane != SOC_CPU || !npu_ns)
		return own;
	cpu_ns = npu_ns + sched_nr_tasks(view->plan);
	top = lowest_layer(view, SOC_NPU);
	for (size_t i = 0; i < view->nr_ready; i++)
		if (sched_get(view->plan, view->ready[i])->home == SOC_NPU)
			queue_ns += npu_ns[view->ready[i]];
	return top != SCHED_NONE && queue_ns > cpu_ns[view->ready[top]] ? top : SCHED_NONE;
}

const struct sched_policy sched_policy_steal = { "steal", pick_steal };
