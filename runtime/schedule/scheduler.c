// SPDX-License-Identifier: MIT
/* The scheduler: plans, what is ready, and the choice of the clock. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler_private.h"

struct sched_tasks *sched_tasks_create(const char *(*op_name)(uint16_t op))
{
	struct sched_tasks *plan = calloc(1, sizeof(*plan));

	if (plan)
		plan->op_name = op_name;
	return plan;
}

static void links_free(struct sched_links *links)
{
	free(links->start);
	free(links->list);
	*links = (struct sched_links){ 0 };
}

void sched_tasks_free(struct sched_tasks *plan)
{
	if (!plan)
		return;
	links_free(&plan->next);
	links_free(&plan->prev);
	free(plan->edges);
	free(plan->tasks);
	free(plan);
}

/* Room for one more of @size bytes behind @n; the memory, or NULL. */
static void *grow(void *mem, uint32_t n, uint32_t *max, size_t size)
{
	uint32_t more = *max ? *max * 2 : 64;

	if (n < *max)
		return mem;
	if (more <= *max)
		return NULL;
	mem = realloc(mem, more * size);
	if (mem)
		*max = more;
	return mem;
}

uint32_t sched_add(struct sched_tasks *plan, const struct sched_task *task)
{
	struct sched_task *tasks =
		grow(plan->tasks, plan->nr_tasks, &plan->max_tasks, sizeof(*tasks));

	if (!tasks)
		return SCHED_NONE;
	plan->tasks = tasks;
	plan->linked = false;
	tasks[plan->nr_tasks] = *task;
	return plan->nr_tasks++;
}

int sched_after(struct sched_tasks *plan, uint32_t task, uint32_t before)
{
	struct sched_edge *edges;

	if (task == SCHED_NONE || before == SCHED_NONE)
		return 0;
	if (task >= plan->nr_tasks || before >= task)
		return -EINVAL;
	edges = grow(plan->edges, plan->nr_edges, &plan->max_edges, sizeof(*edges));
	if (!edges)
		return -ENOMEM;
	plan->edges = edges;
	plan->linked = false;
	edges[plan->nr_edges++] = (struct sched_edge){ before, task };
	return 0;
}

uint32_t sched_nr_tasks(const struct sched_tasks *plan)
{
	return plan->nr_tasks;
}

const struct sched_task *sched_get(const struct sched_tasks *plan, uint32_t task)
{
	return &plan->tasks[task];
}

uint32_t sched_number(const struct sched_tasks *plan, const struct sched_task *task)
{
	return (uint32_t)(task - plan->tasks);
}

const char *sched_op_name(const struct sched_tasks *plan, const struct sched_task *task)
{
	return plan->op_name ? plan->op_name(task->op) : "task";
}

static int edge_cmp(const void *a, const void *b)
{
	const struct sched_edge *x = a, *y = b;

	if (x->before != y->before)
		return x->before < y->before ? -1 : 1;
	return x->task < y->task ? -1 : x->task > y->task;
}

static int links_alloc(struct sched_links *links, uint32_t nr_tasks, uint32_t nr_edges)
{
	links_free(links);
	links->start = calloc((size_t)nr_tasks + 2, sizeof(*links->start));
	links->list = malloc(((size_t)nr_edges + 1) * sizeof(*links->list));
	return links->start && links->list ? 0 : -ENOMEM;
}

static bool is_chain(const struct sched_tasks *plan)
{
	for (uint32_t i = 0; i < plan->nr_tasks; i++) {
		uint32_t first = plan->prev.start[i], n = plan->prev.start[i + 1] - first;

		if (plan->tasks[i].lanes || n != (i > 0) || (n && plan->prev.list[first] != i - 1))
			return false;
	}
	return true;
}

int sched_tasks_link(struct sched_tasks *plan)
{
	uint32_t n = 0;

	if (plan->linked)
		return 0;
	if (plan->nr_edges)
		qsort(plan->edges, plan->nr_edges, sizeof(*plan->edges), edge_cmp);
	for (uint32_t i = 0; i < plan->nr_edges; i++)
		if (!n || edge_cmp(&plan->edges[n - 1], &plan->edges[i]))
			plan->edges[n++] = plan->edges[i];
	plan->nr_edges = n;
	if (links_alloc(&plan->next, plan->nr_tasks, n) ||
	    links_alloc(&plan->prev, plan->nr_tasks, n))
		return -ENOMEM;
	/*
	 * Counted one place further on, so that filling in moves start[i + 1] to where it belongs.
	 */
	for (uint32_t i = 0; i < n; i++) {
		plan->next.start[plan->edges[i].before + 2]++;
		plan->prev.start[plan->edges[i].task + 2]++;
	}
	for (uint32_t i = 1; i <= plan->nr_tasks + 1; i++) {
		plan->next.start[i] += plan->next.start[i - 1];
		plan->prev.start[i] += plan->prev.start[i - 1];
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct sched_edge *e = &plan->edges[i];

		plan->next.list[plan->next.start[e->before + 1]++] = e->task;
		plan->prev.list[plan->prev.start[e->task + 1]++] = e->before;
	}
	plan->chain = is_chain(plan);
	plan->linked = true;
	return 0;
}

static const uint32_t *links_of(const struct sched_links *links, uint32_t task, size_t *n)
{
	*n = links->start[task + 1] - links->start[task];
	return links->list + links->start[task];
}

const uint32_t *sched_successors(const struct sched_tasks *plan, uint32_t task, size_t *n)
{
	return links_of(&plan->next, task, n);
}

const uint32_t *sched_predecessors(const struct sched_tasks *plan, uint32_t task, size_t *n)
{
	return links_of(&plan->prev, task, n);
}

/* ---- a run's state ---- */

int sched_state_init(struct sched_state *s, struct sched_tasks *plan,
		     const struct sched_options *opts, struct sched_run *run)
{
	uint32_t n = plan->nr_tasks;

	*s = (struct sched_state){ .plan = plan, .opts = opts, .run = run };
	*run = (struct sched_run){ .failed = SCHED_NONE };
	for (uint32_t i = 0; i < n; i++)
		if (plan->tasks[i].home >= SOC_NR_LANES)
			return -EINVAL;
	if (sched_tasks_link(plan))
		return -ENOMEM;
	run->spans = calloc((size_t)n + 1, sizeof(*run->spans));
	run->nr_spans = run->spans ? n : 0;
	s->left = malloc(((size_t)n + 1) * sizeof(*s->left));
	s->taken = calloc((size_t)n + 1, sizeof(*s->taken));
	if (!run->spans || !s->left || !s->taken)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		s->left[i] = plan->prev.start[i + 1] - plan->prev.start[i];
	return 0;
}

void sched_state_fini(struct sched_state *s)
{
	for (int i = 0; i < SOC_NR_LANES; i++)
		free(s->ready[i].tasks);
	free(s->left);
	free(s->taken);
}

/* Where @task is in the list, or belongs. */
static size_t ready_place(const struct sched_ready *r, uint32_t task)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (r->tasks[mid] < task)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int sched_state_ready(struct sched_state *s, uint32_t task, enum soc_lane lane)
{
	struct sched_ready *r = &s->ready[lane];
	size_t at = ready_place(r, task);

	if (r->n == r->max) {
		size_t max = r->max ? 2 * r->max : 64;
		uint32_t *tasks = realloc(r->tasks, max * sizeof(*tasks));

		if (!tasks)
			return -ENOMEM;
		r->tasks = tasks;
		r->max = max;
	}
	memmove(r->tasks + at + 1, r->tasks + at, (r->n - at) * sizeof(*r->tasks));
	r->tasks[at] = task;
	r->n++;
	if (s->plan->tasks[task].home == lane)
		s->waiting[lane]++;
	return 0;
}

static void unready(struct sched_state *s, uint32_t task)
{
	for (int lane = 0; lane < SOC_NR_LANES; lane++) {
		struct sched_ready *r = &s->ready[lane];
		size_t at = ready_place(r, task);

		if (at == r->n || r->tasks[at] != task)
			continue;
		r->n--;
		memmove(r->tasks + at, r->tasks + at + 1, (r->n - at) * sizeof(*r->tasks));
		if (s->plan->tasks[task].home == lane)
			s->waiting[lane]--;
	}
}

uint32_t sched_state_take(struct sched_state *s, uint32_t task)
{
	unready(s, task);
	s->taken[task] = true;
	return task;
}

static uint64_t host_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint32_t sched_state_pick(struct sched_state *s, enum soc_lane lane, uint64_t now_ns)
{
	const struct sched_policy *policy = s->opts->policy ? s->opts->policy : &sched_policy_fifo;
	const struct sched_ready *r = &s->ready[lane];
	struct sched_view view = {
		.plan = s->plan,
		.lane = lane,
		.now_ns = now_ns,
		.ready = r->tasks,
		.nr_ready = r->n,
		.left = s->left,
	};
	uint64_t from_ns;
	uint32_t i;

	if (!r->n)
		return SCHED_NONE;
	memcpy(view.waiting, s->waiting, sizeof(view.waiting));
	from_ns = host_ns();
	i = policy->pick(&view, s->opts->param);
	s->run->pick_ns += host_ns() - from_ns;
	s->run->picks++;
	return i < r->n ? sched_state_take(s, r->tasks[i]) : SCHED_NONE;
}

void sched_state_ended(struct sched_state *s, uint32_t task)
{
	const struct sched_span *spans = s->run->spans;
	size_t n;
	const uint32_t *before = sched_predecessors(s->plan, task, &n);

	s->nr_ended++;
	for (size_t i = 0; i < n; i++)
		s->run->handovers += spans[before[i]].lane != spans[task].lane;
}

/* ---- running ---- */

int sched_run(struct sched_tasks *plan, const struct sched_options *opts, struct sched_run *run)
{
	struct sched_state s;
	int err = sched_state_init(&s, plan, opts, run);

	if (!err)
		err = opts->clock == SCHED_VIRTUAL ? sched_run_virtual(&s) : sched_run_wall(&s);
	sched_state_fini(&s);
	return err;
}

void sched_run_free(struct sched_run *run)
{
	free(run->spans);
	*run = (struct sched_run){ 0 };
}
