/* SPDX-License-Identifier: MIT */
/*
 * The scheduler: tasks with dependencies on lanes, under either clock.
 *
 *	plan = sched_tasks_create();
 *	a = sched_add(plan, &(struct sched_task){ .home = SOC_NPU, .cost = ..., .run = ... });
 *	b = sched_add(plan, &(struct sched_task){ .home = SOC_CPU, ... });
 *	sched_after(plan, b, a);
 *	sched_run(plan, &opts, &run);
 *
 * A task is one operator, or a slice of it, of one layer and one chunk of tokens. It becomes ready
 * when all that it comes after has ended, and then waits in the ready list of every lane that may
 * run it. Whenever a lane is free, the policy picks one of its ready tasks, or leaves the lane
 * idle. What runs, where and when depends on the plan and the policy only; the clock is one of two:
 *
 *	wall	the tasks' functions are called, on the caller's thread and on as many more as there
 *		are lanes at work at once; time passes by itself
 *	virtual	a discrete-event simulation over a profile: a task takes what its cost says
 *		(soc/soc_cost.h), lanes that are at work together share the memory, and starting and
 *		learning of an end take their time. The functions are called in the order of the
 *		simulated starts, or not at all (execute = false)
 *
 * A policy sees the plan, the time and the ready list, and cannot tell which clock it
 * runs under. The virtual clock is deterministic: the same plan, policy and seed give the
 * same run to the last bit.
 */
#ifndef SCHEDULER_H
#define SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "soc_cost.h"
#include "waits.h"

#define SCHED_NONE UINT32_MAX

struct sched_tasks;
struct sched_task;

/*
 * Work that goes on by itself once it has begun: that of a device with a queue, which keeps the
 * order in which it is given work. 0 or -errno each, which ends the run.
 *
 * On the wall's clock, by the fast way of synchronisation, one thread begins it and goes on to
 * other lanes, and looks at it by @poll when it has nothing else to do. A task that comes after it
 * on the same lane only, and is of this kind too, is given to the lane at once. The end of what was
 * given to a lane before is implied by what @poll says of a later task, so @poll need not tell it
 * of a task that is followed on its own lane only, if it does of one of any SCHED_UNDER_WAY that
 * begin in a row; and a lane that failed with one fails with all that it is given after. Else, and
 * on the virtual clock, @begin is followed by @wait.
 */
#define SCHED_UNDER_WAY 16 /* a lane has at most so many */
struct sched_async {
	int (*begin)(void *ud, const struct sched_task *task, enum soc_lane lane);
	/* 1: it has ended; 0: not yet. */
	int (*poll)(void *ud, const struct sched_task *task, enum soc_lane lane);
	/* Until it has ended. */
	int (*wait)(void *ud, const struct sched_task *task, enum soc_lane lane);
};

struct sched_task {
	uint32_t chunk, layer; /* of the prompt, of the model */
	/* Meaning is the plan maker's; op names the task in traces, see sched_tasks_create(). */
	uint16_t op, slice;
	uint8_t home; /* enum soc_lane: where the plan puts it */
	uint8_t lanes; /* bits of other lanes that may run it instead; 0: none */
	/* The NPU's graph that it is part of: tasks of one that follow one another are one
	 * launch, and the virtual clock lets nothing come between them. On the GPU: kernels that
	 * are enqueued together, which no other client's come between. 0: its own. */
	uint32_t graph;
	struct soc_cost cost[SOC_NR_LANES]; /* by lane, of those that may run it */
	/*
	 * Does the work, for the clocks that execute. 0, or -errno, which ends the
	 * run. NULL: nothing to do.
	 */
	int (*run)(void *ud, const struct sched_task *task, enum soc_lane lane);
	const struct sched_async *async; /* in place of run; NULL: none */
	void *ud;
};

/* @op_name: the name of a task's op for traces and errors. NULL: no memory. */
struct sched_tasks *sched_tasks_create(const char *(*op_name)(uint16_t op));
void sched_tasks_free(struct sched_tasks *plan);
/* Number of the new task, or SCHED_NONE without memory. Tasks count up from 0. */
uint32_t sched_add(struct sched_tasks *plan, const struct sched_task *task);
/*
 * @task begins after @before, an earlier task, has ended. SCHED_NONE as either is
 * nothing. -ENOMEM, -EINVAL.
 */
int sched_after(struct sched_tasks *plan, uint32_t task, uint32_t before);

uint32_t sched_nr_tasks(const struct sched_tasks *plan);
const struct sched_task *sched_get(const struct sched_tasks *plan, uint32_t task);
/* Of one that sched_get() gave. */
uint32_t sched_number(const struct sched_tasks *plan, const struct sched_task *task);
const char *sched_op_name(const struct sched_tasks *plan, const struct sched_task *task);
/*
 * What comes directly after @task, in ascending order; *@n of them. Valid once the plan
 * has run or is being run.
 */
const uint32_t *sched_successors(const struct sched_tasks *plan, uint32_t task, size_t *n);
const uint32_t *sched_predecessors(const struct sched_tasks *plan, uint32_t task, size_t *n);

/* ---- policies -------------------------------------------------------------------------------- */

/*
 * What a policy decides on: @lane is free, and these tasks could run on it now, in ascending order.
 */
struct sched_view {
	const struct sched_tasks *plan;
	enum soc_lane lane;
	uint64_t now_ns;
	const uint32_t *ready;
	size_t nr_ready;
	size_t waiting[SOC_NR_LANES]; /* ready tasks by the lane that is their home */
	const uint32_t *left; /* by task: predecessors that have not ended */
};

struct sched_policy {
	const char *name;
	/* Index into view->ready, or SCHED_NONE: the lane stays idle until something has ended. */
	uint32_t (*pick)(const struct sched_view *view, const void *param);
};

/* The order choices of the runtime. Each keeps to a task's home unless its name says otherwise. */
/*
 * The lowest layer first, in it the earliest chunk, and of a chunk the plan's order: chunks go
 * through the layers side by side (EdgeFlow 4.3, position-guided priority within a layer).
 */
extern const struct sched_policy sched_policy_layer;
/* The lowest number first: the plan's own order. */
extern const struct sched_policy sched_policy_fifo;
/*
 * Out of order (llm.npu 3.4): the greatest C first, and among equals the plan's own order. C says
 * what a task contributes to keeping the NPU at work (equation 6). Of an NPU task it is the
 * negative of its time, of a task of another lane the time of all NPU tasks that become ready when
 * its subgraph ends: the task, and those that follow it on the lane and wait for nothing else.
 *
 * @param: const double *, by task: its time in ns, together with that of the tasks after it in the
 * same graph. NULL: no times are known, and all C are 0.
 */
extern const struct sched_policy sched_policy_ooe;
double sched_c_value(const struct sched_view *view, const double *ns, uint32_t task);

/*
 * As layer; and a CPU that has no ready task of its own takes the NPU's next one, if it may run
 * that (sched_task.lanes) and the NPU's ready tasks that it may run take the NPU longer together
 * than this one takes the CPU (EdgeFlow 4.3, task stealing; the paper's threshold is a number of
 * tasks).
 *
 * @param: const double *, by task its time in ns on its home, then by task that on the CPU, which
 * is INFINITY where it is not known. NULL: nothing is taken.
 */
extern const struct sched_policy sched_policy_steal;

/* ---- running --------------------------------------------------------------------------------- */

enum sched_clock {
	SCHED_WALL,
	SCHED_VIRTUAL,
};

/*
 * Another client of a lane, on the virtual clock: it has work of its own for a device that the
 * plan's tasks run on, piece by piece. The driver serves the two clients' queues in turn, and
 * nothing is preempted: a piece waits for the task that runs and for those that are enqueued with
 * it (sched_task.graph), and no task begins on that lane before the piece has ended. Its memory
 * traffic and power are not counted. The wall clock needs none: there whoever else uses a device
 * does so without being asked.
 *
 * Times are the client's own, in ns from its beginning. A run goes on where the one before has left
 * it, so a client may outlast many runs.
 */
struct sched_client_ops {
	/* A piece could begin; asked when the lane is free. */
	bool (*waits)(void *ud, double now_ns);
	/* One begins: when it will have ended, later than now. */
	double (*begin)(void *ud, double now_ns);
	void (*end)(void *ud, double now_ns); /* it has */
	/* When one will wait that does not yet. INFINITY: one waits now, or none is expected. */
	double (*next)(void *ud, double now_ns);
};
/* Times that are no further apart are the same: a client's are sums of those of many runs. */
#define SCHED_SAME_NS 0.1

struct sched_client {
	const struct sched_client_ops *ops;
	void *ud;
	enum soc_lane lane;
	/* The rest is the scheduler's, and 0 before the first run. */
	double now_ns; /* the end of the last run */
	double end_ns; /* of the piece on the lane; 0: there is none */
	bool was_last; /* the client was served last */
};

struct sched_options {
	enum sched_clock clock;
	const struct soc *soc; /* virtual; NULL with the wall clock */
	enum soc_sync sync;
	/* Wall: what work under way took before, to be learned from; NULL: nothing is predicted. */
	struct waits *waits;
	const struct sched_policy *policy; /* NULL: fifo */
	const void *param; /* the policy's */
	bool execute; /* virtual: call the tasks' functions */
	uint64_t seed; /* virtual: of the jitter */
	double jitter; /* virtual: durations vary evenly by up to this fraction, 0: not at all */
	struct sched_client *client; /* virtual; NULL: none */
};

/* One task's way through the run; times from the run's beginning. */
struct sched_span {
	uint64_t ready_ns, start_ns, end_ns;
	uint64_t overhead_ns; /* of it, starting the work: from start_ns on */
	uint8_t lane;
};

struct sched_run {
	struct sched_span *spans; /* by task */
	uint32_t nr_spans;
	uint64_t makespan_ns;
	uint64_t busy_ns[SOC_NR_LANES];
	uint64_t handovers; /* dependencies that crossed lanes */
	uint64_t launches; /* virtual: of NPU graphs */
	/* How often the policy was asked, and how long it took on the host, whatever the clock. */
	uint64_t picks, pick_ns;
	/* Virtual only, else 0: */
	double dram_bytes;
	double peak_gbps; /* greatest bandwidth of all lanes together */
	double energy_j;
	int error; /* a task's failure; spans are then of those that ran */
	uint32_t failed; /* that task */
};

/* Runs the plan once; it can be run again. 0, a task's error, -EINVAL a task whose home is no lane,
 * or no profile for the virtual clock, -EDEADLK the policy left every lane idle with work at hand,
 * -ENOMEM. @run is to be freed in any case. */
int sched_run(struct sched_tasks *plan, const struct sched_options *opts, struct sched_run *run);
void sched_run_free(struct sched_run *run);

#endif /* SCHEDULER_H */
