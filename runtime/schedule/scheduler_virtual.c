// SPDX-License-Identifier: MIT
/*
 * The virtual clock: a discrete-event simulation.
 *
 * A lane is idle, starting a task (overhead), or working on it. Work progresses at a rate
 * that depends on who else uses the memory: soc_rates(). Rates hold from one event to the
 * next: a start, an end of an overhead, an end of a task, or the time at which the result of
 * one lane is known on another.
 *
 * A piece of another client's work (struct sched_client) has its lane for itself while it lasts.
 *
 * Times are doubles in ns; equal times are taken in the order of task numbers, so a
 * run has one outcome only.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "scheduler_private.h"

struct arrival {
	double at;
	uint32_t task;
	uint8_t lane;
};

struct lane {
	uint32_t task; /* SCHED_NONE: idle */
	double overhead; /* ns that are left of it */
	double left; /* fraction of the work */
	struct soc_cost cost; /* of the whole task */
	/* Fractions a ns; 0 during the overhead, and until set_rates() comes after it. */
	double rate;
	double ended; /* when its last task did; -1: none yet */
	uint32_t graph; /* of its last task */
	double submitted; /* when the CPU had submitted its last task (GPU) */
};

struct simulation {
	struct sched_state *s;
	const struct soc *p;
	struct sched_client *client; /* NULL: none */
	double client_ns; /* its time when the run began */
	double now;
	struct lane lanes[SOC_NR_LANES];
	double *end; /* by task */
	double *known; /* by task: when the other lanes' results that it needs are known; 0: none */
	struct arrival *heap;
	size_t nr_arrivals, max_arrivals;
	double busy[SOC_NR_LANES];
};

/* ---- arrivals, by time ---- */

static int arrival_before(const struct arrival *a, const struct arrival *b)
{
	if (a->at != b->at)
		return a->at < b->at;
	return a->task != b->task ? a->task < b->task : a->lane < b->lane;
}

static int arrival_push(struct simulation *sim, struct arrival a)
{
	size_t i = sim->nr_arrivals;

	if (i == sim->max_arrivals) {
		size_t max = i ? 2 * i : 256;
		struct arrival *heap = realloc(sim->heap, max * sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		sim->heap = heap;
		sim->max_arrivals = max;
	}
	sim->nr_arrivals++;
	for (; i && arrival_before(&a, &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
		sim->heap[i] = sim->heap[(i - 1) / 2];
	sim->heap[i] = a;
	return 0;
}

static struct arrival arrival_pop(struct simulation *sim)
{
	struct arrival top = sim->heap[0], last = sim->heap[--sim->nr_arrivals];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < sim->nr_arrivals) {
		if (child + 1 < sim->nr_arrivals &&
		    arrival_before(&sim->heap[child + 1], &sim->heap[child]))
			child++;
		if (!arrival_before(&sim->heap[child], &last))
			break;
		sim->heap[i] = sim->heap[child];
		i = child;
	}
	sim->heap[i] = last;
	return top;
}

/* ---- jitter ---- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static double jitter(const struct sched_options *opts, uint32_t task)
{
	double even = (double)(mix(opts->seed ^ mix(task)) >> 11) / 9007199254740992.0; /* 0 .. 1 */

	return 1 + opts->jitter * (2 * even - 1);
}

/* ---- lanes ---- */

static uint64_t whole(double ns)
{
	return (uint64_t)llround(ns);
}

/* All that @task needs is there; when it is known on each lane depends on where it was made. */
static int announce(struct simulation *sim, uint32_t task)
{
	const struct sched_task *t = sched_get(sim->s->plan, task);
	size_t n;
	const uint32_t *before = sched_predecessors(sim->s->plan, task, &n);
	int err = 0;

	for (int lane = 0; lane < SOC_NR_LANES && !err; lane++) {
		double at = sim->now;

		if (!sched_may_run(t, lane))
			continue;
		for (size_t i = 0; i < n; i++) {
			int from = sim->s->run->spans[before[i]].lane;
			double known = sim->end[before[i]] +
				       soc_handover_ns(sim->p, from, lane, sim->s->opts->sync);

			at = known > at ? known : at;
			if (from != lane && known > sim->known[task])
				sim->known[task] = known;
		}
		err = arrival_push(sim, (struct arrival){ at, task, (uint8_t)lane });
	}
	return err;
}

static bool is_clients(const struct simulation *sim, int lane)
{
	return sim->client && (int)sim->client->lane == lane;
}

static bool client_runs(const struct simulation *sim)
{
	return sim->client && sim->client->end_ns > 0;
}

/* Whether a result of the GPU's is among what @task needs. */
static bool comes_after_gpu(const struct simulation *sim, uint32_t task)
{
	size_t n;
	const uint32_t *before = sched_predecessors(sim->s->plan, task, &n);

	for (size_t i = 0; i < n; i++)
		if (sim->s->run->spans[before[i]].lane == SOC_GPU)
			return true;
	return false;
}

/*
 * The CPU submits a kernel behind another one while that runs, as soon as it has submitted that
 * one and knows what the kernel needs of other lanes; one that comes late finds the queue empty.
 */
static double gpu_start_ns(struct simulation *sim, uint32_t task, double factor)
{
	struct lane *l = &sim->lanes[SOC_GPU];
	double from = l->submitted > sim->known[task] ? l->submitted : sim->known[task];
	bool drained = l->ended < 0 || sim->now > l->ended;

	if (drained)
		from = sim->now;
	l->submitted = from + soc_gpu_submit_ns(sim->p, drained) * factor;
	return l->submitted > sim->now ? l->submitted - sim->now : 0;
}

static double start_ns(struct simulation *sim, int lane, uint32_t task, double factor)
{
	switch (lane) {
	case SOC_NPU:
		return soc_npu_start_ns(sim->p, sim->s->opts->sync, comes_after_gpu(sim, task)) *
		       factor;
	case SOC_GPU:
		return gpu_start_ns(sim, task, factor);
	case SOC_STORAGE:
		return 0;
	default:
		return soc_cpu_start_ns(sim->p) * factor;
	}
}

static int start(struct simulation *sim, int lane, uint32_t task)
{
	const struct sched_options *opts = sim->s->opts;
	const struct sched_task *t = sched_get(sim->s->plan, task);
	struct lane *l = &sim->lanes[lane];
	double factor = jitter(opts, task);
	bool launch = lane != SOC_NPU || !t->graph || t->graph != l->graph;
	double overhead = launch ? start_ns(sim, lane, task, factor) : 0;

	*l = (struct lane){
		.task = task,
		.graph = t->graph,
		.submitted = l->submitted,
		.overhead = overhead,
		.left = 1,
		.cost = { t->cost[lane].ns * factor, t->cost[lane].dram_bytes * factor },
	};
	if (is_clients(sim, lane))
		sim->client->was_last = false;
	sim->s->run->spans[task].start_ns = whole(sim->now);
	sim->s->run->spans[task].overhead_ns = whole(l->overhead);
	sim->s->run->spans[task].lane = (uint8_t)lane;
	sim->s->run->dram_bytes += l->cost.dram_bytes;
	sim->s->run->launches += launch && lane == SOC_NPU;
	return opts->execute ? sched_task_run(t, lane) : 0;
}

/* Of the client's lane, which is free: whether it is the client's turn. Tasks that are enqueued
 * with the last one come before it. */
static bool client_takes(struct simulation *sim)
{
	const struct sched_client *c = sim->client;
	const struct sched_ready *ready = &sim->s->ready[c->lane];
	const struct sched_task *t = ready->n ? sched_get(sim->s->plan, ready->tasks[0]) : NULL;

	if (!c->ops->waits(c->ud, sim->client_ns + sim->now))
		return false;
	return !t || (!c->was_last && (!t->graph || t->graph != sim->lanes[c->lane].graph));
}

/* Whether @lane may take a task; if it is the client's turn, a piece of its work begins instead. */
static bool lane_free(struct simulation *sim, int lane)
{
	struct sched_client *c = sim->client;

	if (sim->lanes[lane].task != SCHED_NONE)
		return false;
	if (!is_clients(sim, lane))
		return true;
	if (!client_runs(sim) && client_takes(sim)) {
		c->end_ns = c->ops->begin(c->ud, sim->client_ns + sim->now);
		c->was_last = true;
	}
	return !client_runs(sim);
}

/* The next task of the graph that @lane is at, or SCHED_NONE: a graph is not interrupted. */
static uint32_t next_of_graph(const struct simulation *sim, int lane)
{
	const struct sched_ready *ready = &sim->s->ready[lane];
	uint32_t graph = sim->lanes[lane].graph;

	for (size_t i = 0; graph && i < ready->n; i++) {
		const struct sched_task *t = sched_get(sim->s->plan, ready->tasks[i]);

		if (t->graph == graph && t->home == lane)
			return ready->tasks[i];
	}
	return SCHED_NONE;
}

/* Gives ready tasks to idle lanes until none takes any more. */
static int fill_lanes(struct simulation *sim)
{
	bool again;
	int err;

	do {
		again = false;
		for (int lane = 0; lane < SOC_NR_LANES; lane++) {
			uint32_t task;

			if (!lane_free(sim, lane))
				continue;
			task = next_of_graph(sim, lane);
			if (task != SCHED_NONE)
				sched_state_take(sim->s, task);
			else
				task = sched_state_pick(sim->s, lane, whole(sim->now));
			if (task == SCHED_NONE)
				continue;
			again = true;
			err = start(sim, lane, task);
			if (err) {
				sim->s->run->error = err;
				sim->s->run->failed = task;
				return err;
			}
		}
	} while (again);
	return 0;
}

/* Of the lanes at work, and what they take of the memory together. */
static void set_rates(struct simulation *sim)
{
	const struct soc_cost *work[SOC_NR_LANES] = { NULL };
	double rate[SOC_NR_LANES], sum = 0;

	for (int i = 0; i < SOC_NR_LANES; i++)
		if (sim->lanes[i].task != SCHED_NONE && sim->lanes[i].overhead <= 0)
			work[i] = &sim->lanes[i].cost;
	soc_rates(sim->p, work, rate);
	for (int i = 0; i < SOC_NR_LANES; i++) {
		sim->lanes[i].rate = rate[i];
		if (work[i] && work[i]->dram_bytes > 0 && isfinite(rate[i]))
			sum += rate[i] * work[i]->dram_bytes;
	}
	if (sum > sim->s->run->peak_gbps)
		sim->s->run->peak_gbps = sum;
}

/* Time that is left is rounding, where adding it would not move the clock. */
static bool is_rounding(const struct simulation *sim, double ns)
{
	return ns <= sim->now * 1e-15;
}

/* The rate is that of the time that has just passed. */
static bool work_done(const struct simulation *sim, const struct lane *l)
{
	return l->left <= 0 || !isfinite(l->rate) || is_rounding(sim, l->left / l->rate);
}

static double lane_next(const struct simulation *sim, const struct lane *l)
{
	if (l->task == SCHED_NONE)
		return INFINITY;
	if (l->overhead > 0)
		return sim->now + l->overhead;
	return isfinite(l->rate) ? sim->now + l->left / l->rate : sim->now;
}

static void advance(struct simulation *sim, double to)
{
	double ns = to - sim->now;

	for (int i = 0; i < SOC_NR_LANES; i++) {
		struct lane *l = &sim->lanes[i];

		if (l->task == SCHED_NONE)
			continue;
		sim->busy[i] += ns;
		if (l->overhead > 0) {
			l->overhead -= ns;
			if (l->overhead <= to * 1e-15)
				l->overhead = 0;
		} else {
			l->left -= isfinite(l->rate) ? ns * l->rate : l->left;
		}
	}
	sim->now = to;
}

/* Ends what is done; its successors are announced. */
static int end_tasks(struct simulation *sim)
{
	struct sched_run *run = sim->s->run;

	for (int i = 0; i < SOC_NR_LANES; i++) {
		struct lane *l = &sim->lanes[i];
		uint32_t task = l->task;
		const uint32_t *after;
		size_t n;
		int err;

		if (task == SCHED_NONE || l->overhead > 0 || !work_done(sim, l))
			continue;
		run->spans[task].end_ns = whole(sim->now);
		sim->end[task] = sim->now;
		l->task = SCHED_NONE;
		l->ended = sim->now;
		sched_state_ended(sim->s, task);
		after = sched_successors(sim->s->plan, task, &n);
		for (size_t k = 0; k < n; k++) {
			if (--sim->s->left[after[k]])
				continue;
			err = announce(sim, after[k]);
			if (err)
				return err;
		}
	}
	return 0;
}

static int take_arrivals(struct simulation *sim)
{
	while (sim->nr_arrivals && sim->heap[0].at <= sim->now) {
		struct arrival a = arrival_pop(sim);
		struct sched_span *span = &sim->s->run->spans[a.task];
		int err;

		/* Another lane that it was known on earlier has taken it. */
		if (sim->s->taken[a.task])
			continue;
		if (!span->ready_ns)
			span->ready_ns = whole(a.at);
		err = sched_state_ready(sim->s, a.task, a.lane);
		if (err)
			return err;
	}
	return 0;
}

/* When something of the client's will begin or end. */
static double client_next(const struct simulation *sim)
{
	const struct sched_client *c = sim->client;

	if (!c)
		return INFINITY;
	if (client_runs(sim))
		return c->end_ns - sim->client_ns;
	return c->ops->next(c->ud, sim->client_ns + sim->now) - sim->client_ns;
}

/* A task that became ready meanwhile stands in the queue behind the client's work. */
static void end_client(struct simulation *sim)
{
	struct sched_client *c = sim->client;

	if (!client_runs(sim) || c->end_ns > sim->client_ns + sim->now + SCHED_SAME_NS)
		return;
	c->ops->end(c->ud, c->end_ns);
	c->end_ns = 0;
	if (sim->s->ready[c->lane].n && sim->lanes[c->lane].ended >= 0)
		sim->lanes[c->lane].ended = sim->now;
}

static int step(struct simulation *sim)
{
	double next = sim->nr_arrivals ? sim->heap[0].at : INFINITY;
	int err;

	set_rates(sim);
	for (int i = 0; i < SOC_NR_LANES; i++) {
		double at = lane_next(sim, &sim->lanes[i]);

		next = at < next ? at : next;
	}
	if (!isfinite(next) && !client_runs(sim))
		return -EDEADLK;
	next = fmin(next, client_next(sim));
	advance(sim, next > sim->now ? next : sim->now);
	end_client(sim);
	err = end_tasks(sim);
	err = err ? err : take_arrivals(sim);
	return err ? err : fill_lanes(sim);
}

static int simulate(struct simulation *sim)
{
	uint32_t n = sched_nr_tasks(sim->s->plan);
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++)
		if (!sim->s->left[i])
			err = announce(sim, i);
	err = err ? err : take_arrivals(sim);
	err = err ? err : fill_lanes(sim);
	while (!err && sim->s->nr_ended < n)
		err = step(sim);
	return err;
}

static void sum_up(struct simulation *sim)
{
	struct sched_run *run = sim->s->run;
	double joules = sim->now * sim->p->memory.base_w;

	run->makespan_ns = whole(sim->now);
	for (int i = 0; i < SOC_NR_LANES; i++) {
		run->busy_ns[i] = whole(sim->busy[i]);
		joules += sim->busy[i] * soc_active_w(sim->p, i) +
			  (sim->now - sim->busy[i]) * soc_idle_w(sim->p, i);
	}
	run->energy_j = joules / 1e9;
}

int sched_run_virtual(struct sched_state *s)
{
	struct simulation sim = { .s = s, .p = s->opts->soc, .client = s->opts->client };
	int err;

	if (!sim.p)
		return -EINVAL;
	if (sim.client)
		sim.client_ns = sim.client->now_ns;
	for (int i = 0; i < SOC_NR_LANES; i++)
		sim.lanes[i] = (struct lane){ .task = SCHED_NONE, .ended = -1 };
	sim.end = calloc((size_t)sched_nr_tasks(s->plan) + 1, sizeof(*sim.end));
	sim.known = calloc((size_t)sched_nr_tasks(s->plan) + 1, sizeof(*sim.known));
	err = sim.end && sim.known ? simulate(&sim) : -ENOMEM;
	sum_up(&sim);
	if (sim.client)
		sim.client->now_ns += sim.now;
	free(sim.end);
	free(sim.known);
	free(sim.heap);
	return err;
}
