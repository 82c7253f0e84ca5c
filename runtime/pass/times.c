// SPDX-License-Identifier: MIT
#include "times.h"

#include <math.h>

/* Of a new time in what is known: one that other programs disturbed is soon forgotten. */
#define TIMES_NEW 0.25

/* How many times as long as the NPU the CPU takes for a matmul, until it has computed one: the
 * threshold of EdgeFlow 4.3. */
#define TIMES_CPU_RATIO 5

/* What tells the task on a lane from those of another kind, without a time. */
static struct task_time kind_of(const struct plan *plan, uint32_t number, uint8_t lane)
{
	const struct sched_task *task = sched_get(plan->tasks, number);
	const struct lane_work *w = &plan->works[number];

	return (struct task_time){
		.op = task->op,
		.slice = task->slice,
		.other = w->what == LANE_SUBGRAPH			   ? (uint16_t)w->last
			 : w->op == LLM_OP_SHADOW || w->op == LLM_OP_MERGE ? (uint16_t)w->matmul
									   : 0,
		.lane = lane,
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
		struct task_time kind = kind_of(plan, i, span->lane);
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

/* On the CPU, if that takes the task from its home, where it takes @home_ns. */
static double stolen_ns(const struct times *t, const struct plan *plan, uint32_t number,
			double home_ns)
{
	struct task_time kind = kind_of(plan, number, SOC_CPU);
	double ns = known_ns(t, &kind);

	if (ns > 0)
		return ns;
	return home_ns > 0 ? TIMES_CPU_RATIO * home_ns : INFINITY;
}

void times_fill(const struct times *t, struct plan *plan)
{
	uint32_t n = sched_nr_tasks(plan->tasks);

	for (uint32_t i = 0; i < n; i++) {
		struct task_time kind = kind_of(plan, i, sched_get(plan->tasks, i)->home);

		plan->times[i] = known_ns(t, &kind);
		plan->times[n + i] = stolen_ns(t, plan, i, plan->times[i]);
	}
	plan_add_up_graphs(plan, plan->times);
}
