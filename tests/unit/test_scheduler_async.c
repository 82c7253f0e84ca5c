// SPDX-License-Identifier: MIT
/*
 * The scheduler with lanes that go on by themselves: devices with a queue each, played by threads.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "scheduler.h"

#define MAX_TASKS 300
#define SHORT_NS 5000
#define LONG_NS 400000

static int setup(void **state)
{
	const char *seed = getenv("TEST_SEED");
	unsigned int s = seed ? (unsigned int)strtoul(seed, NULL, 0) : (unsigned int)time(NULL);

	printf("TEST_SEED=%u\n", s);
	srand(s);
	return 0;
}

static uint32_t any(uint32_t min, uint32_t max)
{
	return min + (uint32_t)rand() % (max - min + 1);
}

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){ 0, ns }, NULL);
}

/* ---- devices ---- */

/* Does what is in its queue, one after the other. */
struct device {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t queue[MAX_TASKS], head, tail;
	bool quit;
	atomic_bool broken; /* it failed, and goes on failing */
};

struct world {
	struct sched_tasks *plan;
	enum soc_sync sync;
	struct device devices[SOC_NR_LANES];
	atomic_int begun[MAX_TASKS], ended[MAX_TASKS];
	uint8_t lane[MAX_TASKS]; /* on which it began */
	atomic_bool early, twice;
	atomic_uint nr_polls, nr_waits;
	uint32_t fail_begin, fail_end;
	long ns;
};

static struct world world;

static uint32_t number_of(const struct sched_task *t)
{
	return t->chunk;
}

static bool followed_elsewhere(const struct sched_task *t)
{
	size_t n;
	const uint32_t *after = sched_successors(world.plan, number_of(t), &n);

	for (size_t i = 0; i < n; i++) {
		const struct sched_task *s = sched_get(world.plan, after[i]);

		if (!s->async || s->home != t->home || s->lanes)
			return true;
	}
	return !n;
}

/* Devices that are handed work keep its order; everything else has ended before. */
static void check_early(const struct sched_task *t, enum soc_lane lane)
{
	size_t n;
	const uint32_t *before = sched_predecessors(world.plan, number_of(t), &n);

	for (size_t i = 0; i < n; i++) {
		const struct sched_task *b = sched_get(world.plan, before[i]);
		bool queued = world.sync == SOC_SYNC_FAST && t->async && b->async && !t->lanes &&
			      t->home == lane && atomic_load(&world.begun[before[i]]) &&
			      world.lane[before[i]] == lane;

		if (!queued && !atomic_load(&world.ended[before[i]]))
			world.early = true;
	}
}

static void *play_device(void *arg)
{
	struct device *d = arg;

	pthread_mutex_lock(&d->lock);
	for (;;) {
		while (d->head == d->tail && !d->quit)
			pthread_cond_wait(&d->changed, &d->lock);
		if (d->head == d->tail)
			break;
		pthread_mutex_unlock(&d->lock);
		pause_ns(world.ns);
		if (d->queue[d->head] == world.fail_end)
			d->broken = true;
		atomic_fetch_add(&world.ended[d->queue[d->head]], 1);
		pthread_mutex_lock(&d->lock);
		d->head++;
		pthread_cond_broadcast(&d->changed);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

static int begin(void *ud, const struct sched_task *t, enum soc_lane lane)
{
	struct device *d = &world.devices[lane];
	uint32_t id = number_of(t);

	check_early(t, lane);
	if (id == world.fail_begin)
		return -ENOSPC;
	world.lane[id] = (uint8_t)lane;
	if (atomic_fetch_add(&world.begun[id], 1))
		world.twice = true;
	pthread_mutex_lock(&d->lock);
	d->queue[d->tail++] = id;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	return 0;
}

/* Says only what it has to. */
static int poll_end(void *ud, const struct sched_task *t, enum soc_lane lane)
{
	uint32_t id = number_of(t);

	atomic_fetch_add(&world.nr_polls, 1);
	if (!(followed_elsewhere(t) || id % SCHED_UNDER_WAY == 0) || !atomic_load(&world.ended[id]))
		return 0;
	return world.devices[lane].broken ? -ENXIO : 1;
}

static int wait_end(void *ud, const struct sched_task *t, enum soc_lane lane)
{
	struct device *d = &world.devices[lane];

	atomic_fetch_add(&world.nr_waits, 1);
	pthread_mutex_lock(&d->lock);
	while (!atomic_load(&world.ended[number_of(t)]))
		pthread_cond_wait(&d->changed, &d->lock);
	pthread_mutex_unlock(&d->lock);
	return d->broken ? -ENXIO : 0;
}

static int run(void *ud, const struct sched_task *t, enum soc_lane lane)
{
	check_early(t, lane);
	if (atomic_fetch_add(&world.begun[number_of(t)], 1))
		world.twice = true;
	if (!any(0, 3))
		pause_ns(SHORT_NS);
	atomic_fetch_add(&world.ended[number_of(t)], 1);
	return number_of(t) == world.fail_end ? -ENXIO : 0;
}

static const struct sched_async async = { .begin = begin, .poll = poll_end, .wait = wait_end };

static void world_start(struct sched_tasks *plan, enum soc_sync sync, long ns)
{
	memset(&world, 0, sizeof(world));
	world.plan = plan;
	world.sync = sync;
	world.ns = ns;
	world.fail_begin = world.fail_end = SCHED_NONE;
	for (int i = 0; i < SOC_NR_LANES; i++) {
		pthread_mutex_init(&world.devices[i].lock, NULL);
		pthread_cond_init(&world.devices[i].changed, NULL);
		assert_int_equal(pthread_create(&world.devices[i].thread, NULL, play_device,
						&world.devices[i]),
				 0);
	}
}

static void world_stop(void)
{
	for (int i = 0; i < SOC_NR_LANES; i++) {
		struct device *d = &world.devices[i];

		pthread_mutex_lock(&d->lock);
		d->quit = true;
		pthread_cond_broadcast(&d->changed);
		pthread_mutex_unlock(&d->lock);
		pthread_join(d->thread, NULL);
		pthread_mutex_destroy(&d->lock);
		pthread_cond_destroy(&d->changed);
	}
}

static struct sched_tasks *random_plan(void)
{
	uint32_t n = any(1, MAX_TASKS), width = any(1, 12);
	struct sched_tasks *plan = sched_tasks_create(NULL);

	for (uint32_t i = 0; i < n; i++) {
		bool goes_on = any(0, 9);
		struct sched_task t = {
			.chunk = i,
			.op = (uint16_t)any(0, 5),
			.slice = (uint16_t)any(0, 2),
			.home = (uint8_t)any(0, SOC_NR_LANES - 1),
			.lanes = (uint8_t)(any(0, 7) ? 0 : any(0, 7)),
			.run = goes_on ? NULL : run,
			.async = goes_on ? &async : NULL,
		};

		assert_int_equal(sched_add(plan, &t), i);
		for (uint32_t k = any(0, 3); k && i; k--)
			assert_int_equal(
				sched_after(plan, i, i - 1 - any(0, i < width ? i - 1 : width - 1)),
				0);
	}
	return plan;
}

/* What every run shows, ended or failed. */
static void check_run(const struct sched_run *r)
{
	assert_false(world.early || world.twice);
	for (uint32_t i = 0; i < r->nr_spans; i++)
		assert_int_equal(world.begun[i], world.ended[i]);
}

static void test_random_plans_run_once_in_order(void **state)
{
	static struct waits waits;

	for (int round = 0; round < 120; round++) {
		struct sched_tasks *plan = random_plan();
		struct sched_options o = {
			.clock = SCHED_WALL,
			.sync = any(0, 2) ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
			.waits = any(0, 1) ? &waits : NULL,
		};
		uint64_t busy[SOC_NR_LANES] = { 0 };
		struct sched_run r;

		world_start(plan, o.sync, any(0, 1) ? SHORT_NS : 0);
		assert_int_equal(sched_run(plan, &o, &r), 0);
		world_stop();
		check_run(&r);
		assert_true(o.sync == SOC_SYNC_FAST || !world.nr_polls);
		for (uint32_t i = 0; i < r.nr_spans; i++) {
			const struct sched_span *s = &r.spans[i];

			assert_int_equal(world.ended[i], 1);
			assert_true(s->start_ns <= s->end_ns && s->end_ns <= r.makespan_ns);
			busy[s->lane] += s->end_ns - s->start_ns;
		}
		for (int i = 0; i < SOC_NR_LANES; i++) {
			assert_int_equal(busy[i], r.busy_ns[i]);
			/* A lane does one thing at a time. */
			assert_true(busy[i] <= r.makespan_ns);
		}
		sched_run_free(&r);
		sched_tasks_free(plan);
	}
}

static void test_a_failure_ends_the_run_when_all_that_had_begun_is_over(void **state)
{
	for (int round = 0; round < 60; round++) {
		struct sched_tasks *plan = random_plan();
		struct sched_options o = { .sync = any(0, 2) ? SOC_SYNC_FAST : SOC_SYNC_DRIVER };
		uint32_t n = sched_nr_tasks(plan), victim = any(0, n - 1);
		bool at_once = any(0, 1) && sched_get(plan, victim)->async;
		struct sched_run r;
		int err;

		world_start(plan, o.sync, 0);
		*(at_once ? &world.fail_begin : &world.fail_end) = victim;
		err = sched_run(plan, &o, &r);
		world_stop();
		check_run(&r);
		assert_int_equal(err, at_once ? -ENOSPC : -ENXIO);
		assert_int_equal(r.error, err);
		/* Or one behind it, by which it was seen. */
		assert_true(r.failed == victim ||
			    (!at_once && world.devices[world.lane[victim]].broken &&
			     world.lane[r.failed] == world.lane[victim]));
		sched_run_free(&r);
		sched_tasks_free(plan);
	}
}

static struct sched_tasks *chain(uint32_t n, uint32_t every)
{
	struct sched_tasks *plan = sched_tasks_create(NULL);

	for (uint32_t i = 0; i < n; i++) {
		struct sched_task t = { .chunk = i,
					.home = i % every ? SOC_GPU : SOC_NPU,
					.async = &async };

		assert_int_equal(sched_add(plan, &t), i);
		if (i)
			assert_int_equal(sched_after(plan, i, i - 1), 0);
	}
	return plan;
}

static void test_what_follows_on_one_lane_is_given_to_it_at_once(void **state)
{
	struct sched_tasks *plan = chain(10, 10);
	struct sched_options o = { .sync = SOC_SYNC_FAST };
	struct sched_run r;

	world_start(plan, o.sync, LONG_NS);
	assert_int_equal(sched_run(plan, &o, &r), 0);
	world_stop();
	check_run(&r);
	/*
	 * Nine of them went to the GPU while the first was at work: their time is the last one's.
	 */
	for (uint32_t i = 2; i < 9; i++)
		assert_int_equal(r.spans[i].end_ns, r.spans[1].end_ns);
	assert_true(r.spans[9].end_ns - r.spans[9].start_ns >= 9 * LONG_NS);
	sched_run_free(&r);
	sched_tasks_free(plan);
}

static void test_waits_are_predicted_from_those_before(void **state)
{
	static struct waits waits;
	struct sched_tasks *plan = chain(40, 2);
	struct sched_options o = { .sync = SOC_SYNC_FAST, .waits = &waits };
	struct sched_run r;

	memset(&waits, 0, sizeof(waits));
	world_start(plan, o.sync, LONG_NS);
	assert_int_equal(sched_run(plan, &o, &r), 0);
	world_stop();
	/* Each lane's first is learned from, the others are samples. */
	assert_int_equal(waits.nr_samples, 38);
	assert_true(expect_ns(waits_of(&waits, SOC_NPU, 0, 0)) >= LONG_NS);
	assert_true(expect_ns(waits_of(&waits, SOC_GPU, 0, 0)) >= LONG_NS);
	assert_int_equal(expect_ns(waits_of(&waits, SOC_GPU, 0, 1)), 0);
	for (uint32_t i = 0; i < 38; i++) {
		assert_true(waits.samples[i].predicted_ns >= LONG_NS &&
			    waits.samples[i].took_ns >= LONG_NS);
		assert_true(waits.samples[i].slept_ns <= waits.samples[i].took_ns);
	}
	assert_true(waits.slept_ns > 0);
	sched_run_free(&r);
	sched_tasks_free(plan);
}

static void test_what_is_late_is_waited_for_in_the_driver(void **state)
{
	static struct waits waits;
	struct sched_tasks *plan = chain(1, 1);
	struct sched_options o = { .sync = SOC_SYNC_FAST, .waits = &waits };
	struct sched_run r;

	memset(&waits, 0, sizeof(waits));
	waits_learn(&waits, SOC_NPU, 0, 0, &(struct wait_sample){ .took_ns = 1000 });
	world_start(plan, o.sync, 100000000);
	assert_int_equal(sched_run(plan, &o, &r), 0);
	world_stop();
	assert_int_equal(world.nr_waits, 1);
	assert_int_equal(waits.nr_given_up, 1);
	sched_run_free(&r);
	sched_tasks_free(plan);
}

static void test_waits_are_kept_and_summed_up(void **state)
{
	static struct waits w;
	struct wait_sample s = { .took_ns = 1000000 };

	memset(&w, 0, sizeof(w));
	waits_learn(&w, SOC_GPU, 3, 1, &s);
	assert_int_equal(expect_ns(waits_of(&w, SOC_GPU, 3, 1)), 1000000);
	assert_int_equal(
		expect_ns(waits_of(&w, SOC_GPU, 3, 0)) + expect_ns(waits_of(&w, SOC_NPU, 3, 1)), 0);
	/* Of what there is no room for nothing is known. */
	waits_learn(&w, SOC_GPU, WAITS_OPS, 0, &s);
	waits_learn(&w, SOC_GPU, 0, WAITS_SLICES, &s);
	assert_null(waits_of(&w, SOC_GPU, WAITS_OPS, 0));
	assert_null(waits_of(&w, SOC_GPU, 0, WAITS_SLICES));
	/* What nobody predicted is no sample. Of 1 to 1000 us where 2000 were predicted: */
	assert_int_equal(w.nr_samples, 0);
	assert_true(waits_percentile(&w, WAITS_TOOK, 50) == 0);
	for (uint32_t i = 1000; i > 0; i--)
		waits_learn(&w, SOC_NPU, 0, 0,
			    &(struct wait_sample){ .predicted_ns = 2000000,
						   .took_ns = i * 1000,
						   .overslept = i % 2 });
	assert_int_equal(w.nr_overslept, 500);
	assert_true(waits_percentile(&w, WAITS_TOOK, 0) == 1000 &&
		    waits_percentile(&w, WAITS_TOOK, 100) == 1000000);
	assert_true(waits_percentile(&w, WAITS_PREDICTED, 10) == 2000000);
	assert_true(fabs(waits_percentile(&w, WAITS_LATE, 50) + 1500000) <= 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_plans_run_once_in_order),
		cmocka_unit_test(test_a_failure_ends_the_run_when_all_that_had_begun_is_over),
		cmocka_unit_test(test_what_follows_on_one_lane_is_given_to_it_at_once),
		cmocka_unit_test(test_waits_are_predicted_from_those_before),
		cmocka_unit_test(test_what_is_late_is_waited_for_in_the_driver),
		cmocka_unit_test(test_waits_are_kept_and_summed_up),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
