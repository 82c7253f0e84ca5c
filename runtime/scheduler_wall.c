// SPDX-License-Identifier: MIT
/*
 * The wall clock. A lane is a permission, not a thread: it has at most one task at a time, and whichever thread is free
 * works on that. Who ends a task hands the lanes their next ones, keeps one for itself, and wakes or starts another
 * thread only for what is left over. So a plan whose tasks follow one another runs in its caller from end to end, at the
 * price of a lock nobody else wants, and one that keeps two lanes at work has two threads.
 *
 * All threads share one lock, and none holds it while it works.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "scheduler_private.h"

struct wall {
	struct sched_state *s;
	pthread_mutex_t lock;
	pthread_cond_t handed; /* a task, or the end */
	struct wall_lane {
		bool used;
		bool busy; /* has a task */
		bool begun; /* and a thread that works on it */
		uint32_t task;
	} lanes[SOC_NR_LANES];
	uint32_t nr_handed; /* lanes that are busy and not begun */
	uint32_t nr_busy;
	pthread_t threads[SOC_NR_LANES - 1];
	uint32_t nr_threads, nr_idle; /* beside the caller's; of all, those that wait */
	int err;
	uint64_t began_ns;
};

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t wall_now(const struct wall *w)
{
	return clock_ns() - w->began_ns;
}

/* The rest is under the lock. */

static void *serve(void *arg);

static bool over(const struct wall *w)
{
	return w->err || w->s->nr_ended == sched_nr_tasks(w->s->plan);
}

static void stop(struct wall *w, int err)
{
	if (!w->err)
		w->err = err;
}

static int announce(struct wall *w, uint32_t task, uint64_t now_ns)
{
	const struct sched_task *t = sched_get(w->s->plan, task);
	int err = 0;

	w->s->run->spans[task].ready_ns = now_ns;
	for (int lane = 0; lane < SOC_NR_LANES && !err; lane++)
		if (sched_may_run(t, lane))
			err = sched_state_ready(w->s, task, lane);
	return err;
}

/* Asks the policy for every lane that is free, until it has no more to say: what one takes another may have waited for. */
static void hand_out(struct wall *w, uint64_t now_ns)
{
	bool again = true;

	while (again) {
		again = false;
		for (int i = 0; i < SOC_NR_LANES; i++) {
			struct wall_lane *l = &w->lanes[i];

			if (!l->used || l->busy)
				continue;
			l->task = sched_state_pick(w->s, i, now_ns);
			if (l->task == SCHED_NONE)
				continue;
			l->busy = again = true;
			l->begun = false;
			w->nr_busy++;
			w->nr_handed++;
		}
	}
	if (!w->nr_busy && !over(w))
		stop(w, -EDEADLK);
}

/* Threads for what was handed out, but for one task that the calling thread takes. A thread that cannot be had is no
 * error: its task waits for one that is there. */
static void find_hands(struct wall *w)
{
	uint32_t want = w->nr_handed ? w->nr_handed - 1 : 0;

	for (uint32_t i = 0; i < want && i < w->nr_idle; i++)
		pthread_cond_signal(&w->handed);
	for (uint32_t i = w->nr_idle; i < want && w->nr_threads < SOC_NR_LANES - 1; i++) {
		if (pthread_create(&w->threads[w->nr_threads], NULL, serve, w))
			break;
		w->nr_threads++;
	}
}

static void ended(struct wall *w, struct wall_lane *l, int err)
{
	struct sched_span *span = &w->s->run->spans[l->task];
	uint64_t now_ns = wall_now(w);
	const uint32_t *after;
	size_t n;

	span->end_ns = now_ns;
	w->s->run->busy_ns[span->lane] += span->end_ns - span->start_ns;
	sched_state_ended(w->s, l->task);
	l->busy = false;
	w->nr_busy--;
	if (err && !w->err) {
		w->s->run->error = err;
		w->s->run->failed = l->task;
	}
	after = sched_successors(w->s->plan, l->task, &n);
	for (size_t i = 0; i < n && !err; i++)
		if (!--w->s->left[after[i]])
			err = announce(w, after[i], now_ns);
	if (err)
		stop(w, err);
	if (!w->err)
		hand_out(w, now_ns);
	if (over(w))
		pthread_cond_broadcast(&w->handed);
	else
		find_hands(w);
}

/* A lane whose task nobody works on yet: @last, where the thread was, before the others. */
static struct wall_lane *take(struct wall *w, struct wall_lane *last)
{
	struct wall_lane *l = last && last->busy && !last->begun ? last : NULL;

	for (int i = 0; i < SOC_NR_LANES && !l; i++)
		if (w->lanes[i].busy && !w->lanes[i].begun)
			l = &w->lanes[i];
	if (!l)
		return NULL;
	l->begun = true;
	w->nr_handed--;
	return l;
}

static void *serve(void *arg)
{
	struct wall *w = arg;
	struct wall_lane *l = NULL;
	const struct sched_task *t;
	struct sched_span *span;
	int err;

	pthread_mutex_lock(&w->lock);
	while (!over(w)) {
		l = take(w, l);
		if (!l) {
			w->nr_idle++;
			pthread_cond_wait(&w->handed, &w->lock);
			w->nr_idle--;
			continue;
		}
		t = sched_get(w->s->plan, l->task);
		span = &w->s->run->spans[l->task];
		span->lane = (uint8_t)(l - w->lanes);
		span->start_ns = wall_now(w);
		pthread_mutex_unlock(&w->lock);
		err = t->run ? t->run(t->ud, t, (enum soc_lane)(l - w->lanes)) : 0;
		pthread_mutex_lock(&w->lock);
		ended(w, l, err);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int sched_run_wall(struct sched_state *s)
{
	struct wall w = { .s = s };
	uint32_t n = sched_nr_tasks(s->plan);
	int err = 0;

	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.handed, NULL);
	w.began_ns = clock_ns();
	for (uint32_t i = 0; i < n && !err; i++) {
		for (int lane = 0; lane < SOC_NR_LANES; lane++)
			w.lanes[lane].used |= sched_may_run(sched_get(s->plan, i), lane);
		if (!s->left[i])
			err = announce(&w, i, 0);
	}
	pthread_mutex_lock(&w.lock);
	if (err)
		stop(&w, err);
	else
		hand_out(&w, 0);
	find_hands(&w);
	pthread_mutex_unlock(&w.lock);
	serve(&w);
	for (uint32_t i = 0; i < w.nr_threads; i++)
		pthread_join(w.threads[i], NULL);
	s->run->makespan_ns = wall_now(&w);
	pthread_mutex_destroy(&w.lock);
	pthread_cond_destroy(&w.handed);
	return w.err;
}
