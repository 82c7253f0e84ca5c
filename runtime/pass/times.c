// SPDX-License-Identifier: MIT
#include "times.h"

/* Of a new time in what is known: one that other programs disturbed is soon forgotten. */
#define TIMES_NEW 0.25

/* What tells the task from those of another kind, without a time. */
static struct task_time kind_of(const struct plan *plan, uint32_t number)
{
	const struct sched_task *task = sched_get(plan->tasks, number);
	const struct lane_work *w = &plan->works[number];

	return (struct task_time){
		.op = task->op,
		.slice = task->slice,
		.other = w->what == LANE_SUBGRAPH			   ? (uint16_t)w->last
			 : w->op == LLM_OP_SHADOW || w->op == LLM_OP_MERGE ? (uint16_t)w->matmul
									   : 0,
		.lane = task->home,
		.rows = w->what == LANE_SLICE ? w->graph_rows : plan->chunks[w->chunk].rows,
	};
}

static bool same_kind(const struct task_time *a, const struct task_time *b)
{
	return a->op == b->op && a->slice == b->slice && a->other == b->other && a->lane == b->lane;
}

/* Its index, or t->n. */
static unsigned int find(const struct times *t, const struct task_time *kind)
{
	unsigned int i = 0;

	while (i < t->n && !(same_kind(&t->by[i], kind) && t->by[i].rows == kind->rows))
		i++;
	return i;
}

void times_learn(struct times *t, const struct plan *plan, const struct sched_run *run)
{
	for (uint32_t i = 0; i < run->nr_spans; i++) {
		const struct sched_span *span = &run->spans[i];
		struct task_time kind = kind_of(plan, i);
		unsigned int at = find(t, &kind);

		kind.ns = (double)(span->end_ns - span->start_ns);
		if (at < t->n)
			t->by[at].ns += TIMES_NEW * (kind.ns - t->by[at].ns);
		else if (at < TIMES_MAX)
			t->by[t->n++] = kind;
	}
}

static double known_ns(const struct times *t, const struct task_time *kind)
{
	unsigned int at = find(t, kind);

	if (at < t->n)
		return t->by[at].ns;
	for (at = 0; at < t->n; at++)
		if (same_kind(&t->by[at], kind))
			return t->by[at].ns * kind->rows / t->by[at].rows;
	return 0;
}

void times_fill(const struct times *t, struct plan *plan)
{
	for (uint32_t i = 0; i < sched_nr_tasks(plan->tasks); i++) {
		struct task_time kind = kind_of(plan, i);

		plan->times[i] = known_ns(t, &kind);
	}
	plan_add_up_graphs(plan, plan->times);
}
