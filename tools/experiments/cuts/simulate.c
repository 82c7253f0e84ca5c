// SPDX-License-Identifier: MIT
/* A cut product on the virtual clock: what a prediction is held against. */
#include <errno.h>

#include "cuts.h"
#include "scheduler.h"

/* The operators before and after, which hide the submission of what follows them. */
#define NEIGHBOUR_NS 100000

static uint32_t add(struct sched_tasks *plan, enum soc_lane lane, struct soc_cost cost,
		    uint32_t first, uint32_t last)
{
	struct sched_task task = { .home = (uint8_t)lane };
	uint32_t id;

	task.cost[lane] = cost;
	id = sched_add(plan, &task);
	for (uint32_t before = first; before < last && id != SCHED_NONE; before++)
		if (sched_after(plan, id, before))
			id = SCHED_NONE;
	return id;
}

static int simulate(const struct partition_options *o, const struct cut *cut,
		    struct sched_tasks *plan, struct sched_run *run)
{
	struct sched_options so = { .clock = SCHED_VIRTUAL, .soc = o->soc, .sync = o->sync };
	struct soc_cost neighbour = { NEIGHBOUR_NS, 0 };
	uint32_t n = partition_nr_slices(cut), id = add(plan, SOC_GPU, neighbour, 0, 0);

	for (uint32_t i = 0; i < n && id != SCHED_NONE; i++) {
		struct partition_slice s;
		struct soc_op work;

		partition_slice(cut, i, &s);
		work = partition_work(o, s.graph_rows, cut->k, s.cols);
		id = add(plan, s.lane, soc_op_cost(o->soc, s.lane, &work), 0, 1);
	}
	if (id != SCHED_NONE)
		id = add(plan, SOC_GPU, neighbour, 1, n + 1);
	return id == SCHED_NONE ? -ENOMEM : sched_run(plan, &so, run);
}

int partition_simulate(const struct partition_options *o, const struct cut *cut, double *ns)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);
	struct sched_run run = { 0 };
	int err = plan ? simulate(o, cut, plan, &run) : -ENOMEM;

	if (!err) {
		const struct sched_span *first = &run.spans[0],
					*last = &run.spans[run.nr_spans - 1];

		*ns = (double)(last->start_ns + last->overhead_ns - first->end_ns);
	}
	sched_run_free(&run);
	sched_tasks_free(plan);
	return err;
}
