// SPDX-License-Identifier: MIT
/*
 * The wall clock. A lane is a permission, not a thread: it has at most one task at a time, and
 * whichever thread is free works on that. Who ends a task hands the lanes their next ones, keeps
 * one for itself, and wakes or starts another thread only for what is left over. So a plan whose
 * tasks follow one another runs in its caller from end to end, at the price of a lock nobody else
 * wants, and one that keeps two lanes at work has two threads.
 *
 * Work that goes on by itself (sched_async) needs no thread, with the fast way of synchronisation:
 * whoever has begun it goes on to the next task, and who has nothing else to do watches what is
 * under way: by prediction (waits.h), until only the driver's wait is left. Meanwhile its lane may
 * get more behind it, since it keeps the order in which work is given to it.
 *
 * All threads share one lock, and none holds it while it works or watches. A plan that is a chain
 * of tasks which run to their ends needs neither lock nor threads: its caller runs it.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "scheduler_private.h"

/* Looks at what is under way for one at the clock. */
#define LOOKS 64

struct under_way {
	uint32_t task;
	uint64_t begun_ns; /* or when the one before it ended, if that was later */
	uint64_t slept_ns;
	bool overslept;
};

struct wall {
	struct sched_state *s;
	pthread_mutex_t lock;
	pthread_cond_t handed; /* a task, or the end */
	struct wall_lane {
		bool used;
		bool busy; /* has a task that a thread works on, or is to */
		bool begun; /* and a thread that works on it */
		uint32_t task;
		struct under_way way[SCHED_UNDER_WAY]; /* in the order in which they began */
		uint32_t nr_way;
		uint64_t free_ns; /* when work under way last ended */
	} lanes[SOC_NR_LANES];
	uint32_t nr_busy;
	uint32_t nr_way; /* of all lanes */
	bool watched; /* by a thread */
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

/* Whether @task goes on by itself once it has begun. */
static bool flies(const struct wall *w, const struct sched_task *task)
{
	return task->async && w->s->opts->sync == SOC_SYNC_FAST;
}

/* The rest is under the lock. */

static void *serve(void *arg);

/* Nothing more is to begin; what is under way is still waited for. */
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

/* A task that comes after one under way on the same lane may be given to the lane behind it. */
static bool queues_behind(const struct wall *w, uint32_t task, enum soc_lane lane)
{
	const struct sched_task *t = sched_get(w->s->plan, task);

	return flies(w, t) && t->home == lane && !t->lanes;
}

/*
 * Asks the policy for every lane that is free, until it has no more to say: what one takes
 * another may have waited for.
 */
static void hand_out(struct wall *w, uint64_t now_ns)
{
	bool again = true;

	while (again) {
		again = false;
		for (int i = 0; i < SOC_NR_LANES; i++) {
			struct wall_lane *l = &w->lanes[i];

			if (!l->used || l->busy || l->nr_way == SCHED_UNDER_WAY)
				continue;
			l->task = sched_state_pick(w->s, i, now_ns);
			if (l->task == SCHED_NONE)
				continue;
			l->busy = again = true;
			l->begun = false;
			w->nr_busy++;
		}
	}
	if (!w->nr_busy && !w->nr_way && !over(w))
		stop(w, -EDEADLK);
}

/* Threads for what was handed out, but for one task that the calling thread takes. A thread that
 * cannot be had is no error: its task waits for one that is there. */
static void find_hands(struct wall *w)
{
	uint32_t want = 0;

	for (int i = 0; i < SOC_NR_LANES; i++)
		want += w->lanes[i].busy && !w->lanes[i].begun &&
			!flies(w, sched_get(w->s->plan, w->lanes[i].task));
	/* One of them is the caller's, unless there is something to watch. */
	want -= want && !w->nr_way;
	for (uint32_t i = 0; i < want && i < w->nr_idle; i++)
		pthread_cond_signal(&w->handed);
	for (uint32_t i = w->nr_idle; i < want && w->nr_threads < SOC_NR_LANES - 1; i++) {
		if (pthread_create(&w->threads[w->nr_threads], NULL, serve, w))
			break;
		w->nr_threads++;
	}
}

/* @task has ended on @lane, or only begun there (@begun): announces what comes after it. */
static int release(struct wall *w, uint32_t task, enum soc_lane lane, bool begun, uint64_t now_ns)
{
	bool flew = flies(w, sched_get(w->s->plan, task));
	const uint32_t *after;
	int err = 0;
	size_t n;

	after = sched_successors(w->s->plan, task, &n);
	for (size_t i = 0; i < n && !err; i++)
		if ((flew && queues_behind(w, after[i], lane)) == begun && !--w->s->left[after[i]])
			err = announce(w, after[i], now_ns);
	return err;
}

static void ended(struct wall *w, uint32_t task, enum soc_lane lane, int err, uint64_t now_ns)
{
	struct sched_span *span = &w->s->run->spans[task];

	span->end_ns = now_ns;
	w->s->run->busy_ns[lane] += span->end_ns - span->start_ns;
	sched_state_ended(w->s, task);
	if (err && !w->err) {
		w->s->run->error = err;
		w->s->run->failed = task;
	}
	err = err ? err : release(w, task, lane, false, now_ns);
	if (err)
		stop(w, err);
}

/* The lanes' next tasks, and hands for them. */
static void go_on(struct wall *w, uint64_t now_ns)
{
	if (!w->err)
		hand_out(w, now_ns);
	if (over(w))
		pthread_cond_broadcast(&w->handed);
	else
		find_hands(w);
}

/* A lane whose task nobody works on yet: @last, where the thread was, before the others. Work on
 * the lane's behalf begins when nothing is under way there. */
static struct wall_lane *take(struct wall *w, struct wall_lane *last)
{
	struct wall_lane *l = NULL;

	for (int i = -1; i < SOC_NR_LANES && !l; i++) {
		l = i < 0 ? last : &w->lanes[i];
		if (l && (!l->busy || l->begun ||
			  (l->nr_way && !flies(w, sched_get(w->s->plan, l->task)))))
			l = NULL;
	}
	if (!l)
		return NULL;
	l->begun = true;
	return l;
}

/* ---- work under way ---- */

static void begin(struct wall *w, struct wall_lane *l, const struct sched_task *t)
{
	enum soc_lane lane = (enum soc_lane)(l - w->lanes);
	uint64_t now_ns = wall_now(w);
	uint32_t task = l->task;
	int err;

	pthread_mutex_unlock(&w->lock);
	err = t->async->begin(t->ud, t, lane);
	pthread_mutex_lock(&w->lock);
	w->s->run->spans[task].lane = (uint8_t)lane;
	w->s->run->spans[task].start_ns = now_ns;
	l->busy = false;
	w->nr_busy--;
	if (err) {
		ended(w, task, lane, err, wall_now(w));
	} else {
		/* What was before it may have ended meanwhile. */
		if (now_ns < l->free_ns)
			now_ns = l->free_ns;
		l->way[l->nr_way++] = (struct under_way){ .task = task, .begun_ns = now_ns };
		w->nr_way++;
		err = release(w, task, lane, true, now_ns);
		if (err)
			stop(w, err);
	}
	go_on(w, wall_now(w));
}

/* NULL: nothing is predicted of it. */
static const struct expect *expected(const struct wall *w, int lane, uint32_t task)
{
	const struct sched_task *t = sched_get(w->s->plan, task);
	const struct waits *waits = w->s->opts->waits;
	const struct expect *e =
		waits ? waits_of(waits, (enum soc_lane)lane, t->op, t->slice) : NULL;

	return e && expect_ns(e) ? e : NULL;
}

/*
 * The first @n of a lane's work have ended. Of those before the last nobody could see it: the time
 * of all of them counts as the last one's, whose end is what is waited for, and predicted.
 */
static void retire(struct wall *w, int lane, uint32_t n, int err)
{
	struct wall_lane *l = &w->lanes[lane];
	const struct under_way *last = &l->way[n - 1];
	const struct sched_task *t = sched_get(w->s->plan, last->task);
	uint64_t now_ns = wall_now(w), begun_ns = l->way[0].begun_ns;
	const struct expect *e = expected(w, lane, last->task);
	struct wait_sample sample = {
		.predicted_ns = e ? (uint32_t)expect_ns(e) : 0,
		.took_ns = (uint32_t)(now_ns - begun_ns),
		.slept_ns = (uint32_t)last->slept_ns,
		.overslept = last->overslept,
	};

	if (w->s->opts->waits && !err)
		waits_learn(w->s->opts->waits, (enum soc_lane)lane, t->op, t->slice, &sample);
	l->nr_way -= n;
	l->free_ns = now_ns;
	w->nr_way -= n;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t task = l->way[i].task;

		w->s->run->spans[task].start_ns = begun_ns;
		ended(w, task, (enum soc_lane)lane, i + 1 < n ? 0 : err,
		      i + 1 < n ? begun_ns : now_ns);
	}
	for (uint32_t i = 0; i < l->nr_way; i++) {
		l->way[i] = l->way[i + n];
		if (l->way[i].begun_ns < now_ns)
			l->way[i].begun_ns = now_ns;
	}
}

/*
 * How many of a lane's work have ended, by the last that says so: lanes keep the
 * order. *err: that one's.
 */
static uint32_t look(struct wall *w, int lane, int *err)
{
	struct wall_lane *l = &w->lanes[lane];

	for (uint32_t i = l->nr_way; i-- > 0;) {
		const struct sched_task *t = sched_get(w->s->plan, l->way[i].task);
		int ret = t->async->poll(t->ud, t, (enum soc_lane)lane);

		if (ret) {
			*err = ret < 0 ? ret : 0;
			return i + 1;
		}
	}
	return 0;
}

/* What to do about the work under way that has not ended yet. */
struct outlook {
	int64_t sleep_ns; /* until just before the first predicted end; 0: poll */
	int late; /* every lane is later than polling is worth: one of them. -1: not so */
};

static struct outlook foresee(const struct wall *w, int64_t now_ns)
{
	struct outlook o = { .sleep_ns = INT64_MAX, .late = -1 };
	bool patient = false;

	for (int i = 0; i < SOC_NR_LANES; i++) {
		const struct wall_lane *l = &w->lanes[i];
		int64_t begun_ns = (int64_t)l->way[0].begun_ns, want_ns, sleep_ns = 0;
		const struct expect *e = NULL;

		if (!l->nr_way)
			continue;
		/* The first whose end has ever been seen. */
		for (uint32_t k = 0; k < l->nr_way && !e; k++)
			e = expected(w, i, l->way[k].task);
		want_ns = e ? expect_ns(e) : 0;
		if (e)
			sleep_ns =
				expect_sleep_ns(e, &w->s->opts->waits->sleeps, now_ns - begun_ns);
		o.sleep_ns = sleep_ns < o.sleep_ns ? sleep_ns : o.sleep_ns;
		o.late = i;
		patient |= now_ns < begun_ns + want_ns + expect_patience_ns(want_ns);
	}
	if (patient)
		o.late = -1;
	return o;
}

/* Retires what has ended on the first lane where anything has. */
static bool look_around(struct wall *w)
{
	for (int i = 0; i < SOC_NR_LANES; i++) {
		int err = 0;
		uint32_t n = w->lanes[i].nr_way ? look(w, i, &err) : 0;

		if (!n)
			continue;
		retire(w, i, n, err);
		return true;
	}
	return false;
}

static void wait_in_driver(struct wall *w, int lane)
{
	struct wall_lane *l = &w->lanes[lane];
	uint32_t n = l->nr_way;
	const struct sched_task *t = sched_get(w->s->plan, l->way[n - 1].task);
	int err;

	if (w->s->opts->waits)
		w->s->opts->waits->nr_given_up++;
	pthread_mutex_unlock(&w->lock);
	err = t->async->wait(t->ud, t, (enum soc_lane)lane);
	pthread_mutex_lock(&w->lock);
	retire(w, lane, n, err);
}

/* Gives up the lock for so long, or for a moment. */
static void sleep_or_yield(struct wall *w, int64_t sleep_ns)
{
	struct timespec ts = { sleep_ns / 1000000000, sleep_ns % 1000000000 };
	uint64_t from_ns = wall_now(w), slept_ns;
	int err;

	pthread_mutex_unlock(&w->lock);
	/* Who is watched may need this very CPU. */
	if (sleep_ns)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	else
		sched_yield();
	pthread_mutex_lock(&w->lock);
	if (!sleep_ns)
		return;
	slept_ns = wall_now(w) - from_ns;
	waits_slept(w->s->opts->waits, (uint64_t)sleep_ns, slept_ns);
	for (int i = 0; i < SOC_NR_LANES; i++) {
		struct wall_lane *l = &w->lanes[i];

		for (uint32_t k = 0; k < l->nr_way; k++)
			l->way[k].slept_ns += slept_ns;
		if (l->nr_way && look(w, i, &err))
			l->way[look(w, i, &err) - 1].overslept = true;
	}
}

/* Until any work under way has ended. */
static void watch(struct wall *w)
{
	struct waits *waits = w->s->opts->waits;
	uint64_t from_ns = wall_now(w), slept_ns = waits ? waits->slept_ns : 0;

	w->watched = true;
	for (unsigned int looks = 0; !look_around(w); looks++) {
		struct outlook o;

		if (looks % LOOKS)
			continue;
		o = foresee(w, (int64_t)wall_now(w));
		if (o.late >= 0) {
			wait_in_driver(w, o.late);
			break;
		}
		sleep_or_yield(w, o.sleep_ns);
	}
	if (waits)
		waits->polled_ns += wall_now(w) - from_ns - (waits->slept_ns - slept_ns);
	w->watched = false;
}

static void *serve(void *arg)
{
	struct wall *w = arg;
	struct wall_lane *l = NULL;
	const struct sched_task *t;
	struct sched_span *span;
	int err;

	pthread_mutex_lock(&w->lock);
	while (!over(w) || (w->nr_way && !w->watched)) {
		l = over(w) ? NULL : take(w, l);
		if (!l && w->nr_way && !w->watched) {
			watch(w);
			go_on(w, wall_now(w));
			continue;
		}
		if (!l) {
			w->nr_idle++;
			pthread_cond_wait(&w->handed, &w->lock);
			w->nr_idle--;
			continue;
		}
		t = sched_get(w->s->plan, l->task);
		if (flies(w, t)) {
			begin(w, l, t);
			continue;
		}
		span = &w->s->run->spans[l->task];
		span->lane = (uint8_t)(l - w->lanes);
		span->start_ns = wall_now(w);
		pthread_mutex_unlock(&w->lock);
		err = sched_task_run(t, (enum soc_lane)(l - w->lanes));
		pthread_mutex_lock(&w->lock);
		l->busy = false;
		w->nr_busy--;
		ended(w, l->task, (enum soc_lane)span->lane, err, wall_now(w));
		go_on(w, span->end_ns);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}
/* Whether the tasks can only run one after another, whatever the policies of this library say. */
static bool is_serial(const struct wall *w)
{
	const struct sched_policy *policy = w->s->opts->policy;

	if (!w->s->plan->chain ||
	    (policy && policy != &sched_policy_fifo && policy != &sched_policy_layer &&
	     policy != &sched_policy_ooe && policy != &sched_policy_steal))
		return false;
	for (uint32_t i = 0; i < sched_nr_tasks(w->s->plan); i++)
		if (flies(w, sched_get(w->s->plan, i)))
			return false;
	return true;
}

static int run_serially(struct wall *w)
{
	struct sched_run *run = w->s->run;
	uint64_t now_ns = 0;
	int err = 0;

	for (uint32_t i = 0; i < sched_nr_tasks(w->s->plan) && !err; i++) {
		const struct sched_task *t = sched_get(w->s->plan, i);
		struct sched_span *span = &run->spans[i];

		span->lane = t->home;
		span->ready_ns = span->start_ns = now_ns;
		err = sched_task_run(t, (enum soc_lane)t->home);
		now_ns = span->end_ns = wall_now(w);
		run->busy_ns[t->home] += span->end_ns - span->start_ns;
		sched_state_ended(w->s, i);
		if (err) {
			run->error = err;
			run->failed = i;
		}
	}
	run->makespan_ns = now_ns;
	return err;
}

int sched_run_wall(struct sched_state *s)
{
	struct wall w = { .s = s };
	uint32_t n = sched_nr_tasks(s->plan);
	int err = 0;

	w.began_ns = clock_ns();
	if (is_serial(&w))
		return run_serially(&w);
	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.handed, NULL);
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
