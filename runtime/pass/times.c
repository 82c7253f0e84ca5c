// SPDX-License-Identifier: MIT
#include "times.h"

/* Of a new time in what is known: one that other programs disturbed is soon forgotten. */
#define TIMES_NEW 0.25

static uint32_t rows_of(const struct plan *plan, uint32_t task)
{
	const struct lane_work *w = &plan->works[task];

	return w->what == LANE_SLICE ? w->graph_rows : plan->chunks[w->chunk].rows;
}

static bool same_kind(const struct task_time *t, const struct sched_task *task)
{
	return t->op == task->op && t->slice == task->slice && t->lane == task->home;
}

/* Its index, or t->n. */
static unsigned int find(const struct times *t, const struct sched_task *task, uint32_t rows)
{
	unsigned int i = 0;

	while (i < t->n && !(same_kind(&t->by[i], task) && t->by[i].rows == rows))
		i++;
	return i;
}

void times_learn(struct times *t, const struct plan *plan, const struct sched_run *run)
{
	for (uint32_t i = 0; i < run->nr_spans; i++) {
		const struct sched_task *task = sched_get(plan->tasks, i);
		const struct sched_span *span = &run->spans[i];
		double ns = (double)(span->end_ns - span->start_ns);
		uint32_t rows = rows_of(plan, i);
		unsigned int at = find(t, task, rows);

		if (at < t->n)
			t->by[at].ns += TIMES_NEW * (ns - t->by[at].ns);
		else if (at < TIMES_MAX)
			t->by[t->n++] = (struct task_time){
				.op = task->op,
				.slice = task->slice,
				.lane = task->home,
				.rows = rows,
				.ns = ns,
			};
	}
}

static double known_ns(const struct times *t, const struct sched_task *task, uint32_t rows)
{
	unsigned int at = find(t, task, rows);

	if (at < t->n)
		return t->by[at].ns;
	for (at = 0; at < t->n; at++)
		if (same_kind(&t->by[at], task))
			return t->by[at].ns * rows / t->by[at].rows;
	return 0;
}

void times_fill(const struct times *t, struct plan *plan)
{
	for (uint32_t i = 0; i < sched_nr_tasks(plan->tasks); i++)
		plan->times[i] = known_ns(t, sched_get(plan->tasks, i), rows_of(plan, i));
	plan_add_up_graphs(plan, plan->times);
}
