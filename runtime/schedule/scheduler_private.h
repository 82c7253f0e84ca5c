/* SPDX-License-Identifier: MIT */
/* The scheduler's inside: plans, ready lists, and the two clocks. */
#ifndef SCHEDULER_PRIVATE_H
#define SCHEDULER_PRIVATE_H

#include "scheduler.h"

struct sched_edge {
	uint32_t before, task;
};

/* Edges of one direction: those of task i are list[start[i]] .. list[start[i + 1] - 1]. */
struct sched_links {
	uint32_t *start;
	uint32_t *list;
};

struct sched_tasks {
	const char *(*op_name)(uint16_t op);
	struct sched_task *tasks;
	uint32_t nr_tasks, max_tasks;
	struct sched_edge *edges;
	uint32_t nr_edges, max_edges;
	bool linked; /* the rest is of these edges */
	struct sched_links next, prev;
	bool chain; /* each task comes after the one before it, and has one lane to run on */
};

/* Sorts the edges, drops double ones, and fills in next and prev. 0 or -ENOMEM. */
int sched_tasks_link(struct sched_tasks *plan);

/* A run's bookkeeping, the same under both clocks. */
struct sched_state {
	struct sched_tasks *plan;
	const struct sched_options *opts;
	struct sched_run *run;
	uint32_t *left; /* by task: predecessors that have not ended */
	uint32_t nr_ended;
	struct sched_ready {
		uint32_t *tasks; /* ascending */
		size_t n, max;
	} ready[SOC_NR_LANES];
	size_t waiting[SOC_NR_LANES];
	bool *taken; /* by task: it has started */
};

/* 0, -ENOMEM, or -EINVAL: a task has no lane. */
int sched_state_init(struct sched_state *s, struct sched_tasks *plan,
		     const struct sched_options *opts, struct sched_run *run);
void sched_state_fini(struct sched_state *s);

static inline bool sched_may_run(const struct sched_task *task, int lane)
{
	return task->home == lane || (task->lanes >> lane & 1);
}

/* Does a task's work, to its end. */
static inline int sched_task_run(const struct sched_task *task, enum soc_lane lane)
{
	int err;

	if (!task->async)
		return task->run ? task->run(task->ud, task, lane) : 0;
	err = task->async->begin(task->ud, task, lane);
	return err ? err : task->async->wait(task->ud, task, lane);
}

/* @task may start on @lane from now on. 0 or -ENOMEM. */
int sched_state_ready(struct sched_state *s, uint32_t task, enum soc_lane lane);
/* Takes @task, which is ready, out of all ready lists, and returns it. */
uint32_t sched_state_take(struct sched_state *s, uint32_t task);
/* Asks the policy; the task it took, out of all ready lists, or SCHED_NONE. */
uint32_t sched_state_pick(struct sched_state *s, enum soc_lane lane, uint64_t now_ns);
/* Counts @task as ended, and its crossings of lanes. */
void sched_state_ended(struct sched_state *s, uint32_t task);

int sched_run_virtual(struct sched_state *s);
int sched_run_wall(struct sched_state *s);

#endif /* SCHEDULER_PRIVATE_H */
