// SPDX-License-Identifier: MIT
#include "cold.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static_assert(SOC_NR_LANES <= LLM_MAX_LANES, "the public structure has room for each lane");

static uint16_t op_of(const struct cold_pass *p, uint32_t task)
{
	return sched_get(p->plan->tasks, task)->op;
}

static bool loads(uint16_t op)
{
	return op == LLM_OP_READ || op == LLM_OP_PACK;
}

static uint64_t took_ns(const struct sched_span *span)
{
	return span->end_ns - span->start_ns;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- lanes ---- */

static uint64_t *kind_ns(struct llm_cold_lane *lane, uint16_t op)
{
	switch (op) {
	case LLM_OP_READ:
		return &lane->read_ns;
	case LLM_OP_PACK:
		return &lane->pack_ns;
	case LLM_OP_BUILD:
		return &lane->graph_ns;
	default:
		return &lane->compute_ns;
	}
}

static void add_up_lanes(const struct cold_pass *p, struct llm_cold_stats *cold)
{
	uint64_t made_ns[SOC_NR_LANES] = { 0 };
	bool used[SOC_NR_LANES] = { false };

	for (uint32_t i = 0; i < p->run->nr_spans; i++) {
		const struct sched_span *span = &p->run->spans[i];

		*kind_ns(&cold->lanes[span->lane], op_of(p, i)) += took_ns(span);
		made_ns[span->lane] += p->graph_ns ? p->graph_ns[i] : 0;
		used[span->lane] = true;
	}
	for (int i = 0; i < SOC_NR_LANES; i++) {
		struct llm_cold_lane *lane = &cold->lanes[i];
		uint64_t ns = less(made_ns[i], lane->compute_ns);

		lane->graph_ns += ns;
		lane->compute_ns -= ns;
		ns = lane->read_ns + lane->pack_ns + lane->graph_ns + lane->compute_ns;
		lane->bubble_ns = used[i] ? cold->ns - less(ns, cold->ns) : 0;
	}
}

/* ---- the bound ---- */

struct begun {
	uint64_t start_ns;
	uint32_t task;
};

static int begun_cmp(const void *a, const void *b)
{
	const struct begun *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->task < y->task ? -1 : x->task > y->task;
}

/* The operators in the order in which they began; *@n of them. NULL: no memory. */
static struct begun *operators(const struct cold_pass *p, uint32_t *n)
{
	struct begun *list = malloc((p->run->nr_spans + 1u) * sizeof(*list));

	*n = 0;
	for (uint32_t i = 0; list && i < p->run->nr_spans; i++)
		if (!loads(op_of(p, i)) && op_of(p, i) != LLM_OP_BUILD)
			list[(*n)++] = (struct begun){ p->run->spans[i].start_ns, i };
	if (list)
		qsort(list, *n, sizeof(*list), begun_cmp);
	return list;
}

/* When @task can begin, if what it comes after has ended by @end. */
static uint64_t ready_ns(const struct cold_pass *p, uint32_t task, const uint64_t *end)
{
	size_t n;
	const uint32_t *before = sched_predecessors(p->plan->tasks, task, &n);
	uint64_t ns = 0;

	for (size_t i = 0; i < n; i++)
		ns = end[before[i]] > ns ? end[before[i]] : ns;
	return ns;
}

/*
 * Computes again with all weights and graphs there: each operator begins when those before it have
 * ended, on its lane and in the plan. @end: by task, 0.
 */
static void compute_again(const struct cold_pass *p, const struct begun *list, uint32_t n,
			  uint64_t *end, struct llm_cold_stats *cold)
{
	uint64_t free_ns[SOC_NR_LANES] = { 0 }, before_last_ns = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t task = list[i].task;
		const struct sched_span *span = &p->run->spans[task];
		uint64_t at = ready_ns(p, task, end), ns = took_ns(span);

		at = at > free_ns[span->lane] ? at : free_ns[span->lane];
		ns -= p->graph_ns ? less(p->graph_ns[task], ns) : 0;
		end[task] = free_ns[span->lane] = at + ns;
		if (end[task] > cold->compute_ns)
			cold->compute_ns = end[task];
		if (sched_get(p->plan->tasks, task)->layer + 1 < p->layers &&
		    end[task] > before_last_ns)
			before_last_ns = end[task];
	}
	cold->last_compute_ns = cold->compute_ns - before_last_ns;
}

static int measure_computing(const struct cold_pass *p, struct llm_cold_stats *cold)
{
	uint64_t *end = calloc(p->run->nr_spans + 1u, sizeof(*end));
	uint32_t n;
	struct begun *list = operators(p, &n);

	if (end && list)
		compute_again(p, list, n, end, cold);
	free(end);
	free(list);
	return end && list ? 0 : -ENOMEM;
}

static void measure_loading(const struct cold_pass *p, struct llm_cold_stats *cold)
{
	const struct plan_start *s = p->start;

	cold->read_ns = cold->lanes[SOC_STORAGE].read_ns;
	cold->pack_ns = cold->lanes[SOC_CPU].pack_ns;
	for (uint32_t i = 0; i < p->run->nr_spans; i++)
		if (op_of(p, i) == LLM_OP_READ &&
		    p->plan->works[i].layer == s->pieces[s->first].layer)
			cold->first_read_ns += took_ns(&p->run->spans[i]);
	for (uint32_t i = s->first; i < s->nr; i++)
		cold->read_bytes += s->pieces[i].bytes;
}

static void find_bound(struct llm_cold_stats *cold)
{
	uint64_t ns = cold->read_ns > cold->pack_ns ? cold->read_ns : cold->pack_ns;

	ns = cold->compute_ns > ns ? cold->compute_ns : ns;
	cold->bound_ns = ns + cold->first_read_ns + cold->last_compute_ns;
}

/* ---- the ring ---- */

struct change {
	uint64_t ns;
	int64_t bytes;
};

/* At one time buffers become free before others are taken. */
static int change_cmp(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* A piece has a buffer from the beginning of its read until it is packed. */
static uint32_t list_changes(const struct cold_pass *p, struct change *list)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->run->nr_spans; i++) {
		const struct sched_span *span = &p->run->spans[i];
		bool read = op_of(p, i) == LLM_OP_READ;
		int64_t bytes;

		if (!loads(op_of(p, i)))
			continue;
		bytes = (int64_t)p->start->pieces[p->plan->works[i].piece].bytes;
		list[n++] = (struct change){ read ? span->start_ns : span->end_ns,
					     read ? bytes : -bytes };
	}
	return n;
}

static int measure_ring(const struct cold_pass *p, struct llm_cold_memory *ring)
{
	struct change *list = malloc((p->run->nr_spans + 1u) * sizeof(*list));
	uint32_t n = list ? list_changes(p, list) : 0;
	int64_t now = 0, peak = 0;

	if (!list)
		return -ENOMEM;
	qsort(list, n, sizeof(*list), change_cmp);
	for (uint32_t i = 0; i < n; i++) {
		now += list[i].bytes;
		peak = now > peak ? now : peak;
	}
	ring->peak = (uint64_t)peak;
	for (uint32_t i = p->start->first; i < p->start->nr; i++)
		if (p->start->pieces[i].bytes * START_RING > ring->bound)
			ring->bound = p->start->pieces[i].bytes * START_RING;
	free(list);
	return 0;
}

int cold_measure(const struct cold_pass *pass, struct llm_cold_stats *cold)
{
	int err;

	*cold = (struct llm_cold_stats){ .ns = pass->run->makespan_ns,
					 .energy_j = pass->run->energy_j };
	add_up_lanes(pass, cold);
	measure_loading(pass, cold);
	err = measure_computing(pass, cold);
	err = err ? err : measure_ring(pass, &cold->ring);
	find_bound(cold);
	return err;
}
