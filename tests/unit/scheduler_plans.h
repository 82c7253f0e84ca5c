/* SPDX-License-Identifier: MIT */
/*
 * Random plans and policies for a test of the scheduler, whose tasks note that they ran, and checks
 * of what every run of a plan has: a lane does one thing at a time, nothing begins before what it
 * waits for, and all tasks run once. For one test program: what the tasks note is in `work`.
 */
#ifndef SCHEDULER_PLANS_H
#define SCHEDULER_PLANS_H

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "scheduler.h"

static uint32_t any(uint32_t min, uint32_t max)
{
	return min + (uint32_t)rand() % (max - min + 1);
}

#define MAX_TASKS 400

struct work {
	struct sched_tasks *plan;
	atomic_int ran[MAX_TASKS];
	atomic_int lane_busy[SOC_NR_LANES];
	atomic_bool overlap, early, away;
	uint32_t order[MAX_TASKS];
	atomic_uint nr_ran;
	uint32_t fail_at; /* the task with this number fails */
};

static struct work work;

/* By the task's slice and op together: its number. */
static uint32_t number_of(const struct sched_task *t)
{
	return (uint32_t)t->op << 8 | t->slice;
}

static int run_task(void *ud, const struct sched_task *task, enum soc_lane lane)
{
	struct work *w = ud;
	uint32_t id = number_of(task);
	size_t n;
	const uint32_t *before = sched_predecessors(w->plan, id, &n);

	if (atomic_fetch_add(&w->lane_busy[lane], 1))
		w->overlap = true;
	for (size_t i = 0; i < n; i++)
		if (!atomic_load(&w->ran[before[i]]))
			w->early = true;
	if (task->home != lane && !(task->lanes >> lane & 1))
		w->away = true;
	if (id % 7 == 0)
		nanosleep(&(struct timespec){ 0, 20000 }, NULL);
	w->order[atomic_fetch_add(&w->nr_ran, 1)] = id;
	atomic_fetch_add(&w->ran[id], 1);
	atomic_fetch_sub(&w->lane_busy[lane], 1);
	return id == w->fail_at ? -ENXIO : 0;
}

static void forget(struct work *w)
{
	struct sched_tasks *plan = w->plan;

	memset(w, 0, sizeof(*w));
	w->plan = plan;
	w->fail_at = SCHED_NONE;
}

static struct sched_tasks *random_plan(void)
{
	uint32_t n = any(1, MAX_TASKS), width = any(1, 30);
	struct sched_tasks *plan = sched_tasks_create(NULL);

	for (uint32_t i = 0; i < n; i++) {
		struct sched_task t = {
			.chunk = any(0, 7),
			.op = (uint16_t)(i >> 8),
			.slice = (uint16_t)(i & 255),
			.home = (uint8_t)any(0, SOC_NR_LANES - 1),
			.lanes = (uint8_t)(any(0, 3) ? 0 : any(0, 7)),
			.graph = any(0, 4),
			.run = run_task,
			.ud = &work,
		};

		for (int lane = 0; lane < SOC_NR_LANES; lane++)
			t.cost[lane] = (struct soc_cost){ any(0, 5) ? any(0, 3000000) : 0,
							  any(0, 5) ? any(0, 90000000) : 0 };
		assert_int_equal(sched_add(plan, &t), i);
		for (uint32_t k = any(0, 3); k && i; k--)
			assert_int_equal(
				sched_after(plan, i, i - 1 - any(0, i < width ? i - 1 : width - 1)),
				0);
	}
	work.plan = plan;
	forget(&work);
	return plan;
}

static int span_cmp(const void *a, const void *b)
{
	const struct sched_span *x = *(struct sched_span *const *)a,
				*y = *(struct sched_span *const *)b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

static void check_lanes(const struct sched_run *run)
{
	for (int lane = 0; lane < SOC_NR_LANES; lane++) {
		const struct sched_span *on[MAX_TASKS];
		uint64_t busy = 0;
		size_t n = 0;

		for (uint32_t i = 0; i < run->nr_spans; i++)
			if (run->spans[i].lane == lane)
				on[n++] = &run->spans[i];
		qsort(on, n, sizeof(on[0]), span_cmp);
		for (size_t i = 0; i < n; i++) {
			assert_true(on[i]->end_ns >= on[i]->start_ns);
			assert_true(!i || on[i]->start_ns >= on[i - 1]->end_ns);
			assert_true(on[i]->end_ns <= run->makespan_ns);
			busy += on[i]->end_ns - on[i]->start_ns;
		}
		/* Each of them is rounded to a ns. */
		assert_true(busy <= run->busy_ns[lane] + n + 1 &&
			    run->busy_ns[lane] <= busy + n + 1);
		assert_true(run->busy_ns[lane] <= run->makespan_ns + 1);
	}
}

static void check_order(const struct sched_tasks *plan, const struct sched_run *run)
{
	uint64_t handovers = 0;

	assert_int_equal(run->nr_spans, sched_nr_tasks(plan));
	for (uint32_t i = 0; i < run->nr_spans; i++) {
		const struct sched_task *t = sched_get(plan, i);
		const struct sched_span *s = &run->spans[i];
		size_t n;
		const uint32_t *before = sched_predecessors(plan, i, &n);

		assert_true(t->home == s->lane || (t->lanes >> s->lane & 1));
		assert_true(s->start_ns >= s->ready_ns);
		for (size_t k = 0; k < n; k++) {
			assert_true(run->spans[before[k]].end_ns <= s->start_ns);
			handovers += run->spans[before[k]].lane != s->lane;
		}
	}
	assert_int_equal(run->handovers, handovers);
}

static void check_work(const struct sched_tasks *plan)
{
	for (uint32_t i = 0; i < sched_nr_tasks(plan); i++)
		assert_int_equal(work.ran[i], 1);
	assert_false(work.overlap);
	assert_false(work.early);
	assert_false(work.away);
}

/*
 * The longest way through the plan if every task ran alone on its home,
 * without starts and handovers.
 */
static inline double longest_way_ns(const struct sched_tasks *plan, const struct soc *soc)
{
	double *end = calloc(sched_nr_tasks(plan) + 1u, sizeof(*end)), longest = 0;

	assert_non_null(end);
	/* A task comes after earlier ones only. */
	for (uint32_t i = 0; i < sched_nr_tasks(plan); i++) {
		const struct sched_task *t = sched_get(plan, i);
		size_t n;
		const uint32_t *before = sched_predecessors(plan, i, &n);

		for (size_t k = 0; k < n; k++)
			end[i] = fmax(end[i], end[before[k]]);
		end[i] += soc_alone_ns(soc, t->home, t->cost[t->home]);
		longest = fmax(longest, end[i]);
	}
	free(end);
	return longest;
}

/* Takes whatever it may: tasks of other homes too. */
static uint32_t pick_last(const struct sched_view *view, const void *param)
{
	return (uint32_t)view->nr_ready - 1;
}

static const struct sched_policy greedy = { "greedy", pick_last };

static inline const struct sched_policy *any_policy(void)
{
	static const struct sched_policy *const all[] = { &sched_policy_fifo, &sched_policy_layer,
							  &sched_policy_ooe, &sched_policy_steal,
							  &greedy };

	return all[any(0, 4)];
}

#endif
