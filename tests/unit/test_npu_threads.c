// SPDX-License-Identifier: MIT
/*
 * A job in one thread, its queue in another: the queue is released, or waits, while the job is
 * bound, asked and freed. A queue in several threads: one submits, others wait. The sanitizers see
 * what any of them touches too late, or without saying so.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "npu_fixture.h"

struct user {
	struct npu_job *job;
	struct npu_buffer *x;
	atomic_bool started, stop;
	int failed; /* what the job's calls returned at last, if that was wrong */
};

/* Binds the job and asks for its times until it is told to stop. */
static void *job_user(void *arg)
{
	struct user *user = arg;
	struct npu_job_times times;
	int ret;

	do {
		ret = npu_job_bind(user->job, "x", user->x, 0, 64);
		if (!ret)
			ret = npu_job_times(user->job, &times);
		atomic_store(&user->started, true);
		if (ret)
			user->failed = ret;
	} while (!atomic_load(&user->stop));
	return NULL;
}

static void a_job_can_be_used_while_its_queue_is_released(void **state)
{
	struct fixture *f = *state;
	struct npu_buffer *y = fixture_floats(f->ctx, 16, 0);
	struct user user = { .job = fixture_increment(f->ctx, 16, 0),
			     .x = fixture_floats(f->ctx, 16, 0) };
	struct npu_queue *queue;
	pthread_t thread;
	uint64_t seqno;

	fixture_bind(user.job, "x", user.x);
	fixture_bind(user.job, "y", y);
	for (int i = 0; i < 200; i++) {
		npu_ok(npu_queue_create(f->ctx, NULL, &queue));
		npu_ok(npu_queue_submit(queue, &user.job, 1, NULL, &seqno));
		npu_ok(npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
		atomic_store(&user.started, false);
		atomic_store(&user.stop, false);
		assert_int_equal(pthread_create(&thread, NULL, job_user, &user), 0);
		while (!atomic_load(&user.started))
			;
		npu_queue_free(queue);
		atomic_store(&user.stop, true);
		pthread_join(thread, NULL);
		assert_int_equal(user.failed, 0);
	}
	npu_job_free(user.job);
	npu_buffer_free(user.x);
	npu_buffer_free(y);
}

struct waiter {
	struct npu_queue *queue;
	uint64_t seqno;
	enum npu_wait_mode mode;
	atomic_bool started;
	int ret;
};

static void *queue_waiter(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->started, true);
	w->ret = npu_queue_wait(w->queue, w->seqno, NPU_FOREVER, w->mode);
	return NULL;
}

/* The program goes with its last job; the wait still wants to know how long it took. */
static void a_job_can_be_freed_while_its_queue_waits_for_it(void **state)
{
	struct fixture *f = *state;
	struct waiter w = { .queue = f->queue };
	struct npu_job *job;
	pthread_t thread;

	for (int i = 0; i < 200; i++) {
		job = fixture_sleep(f->ctx, 200000);
		w.mode = i & 1 ? NPU_WAIT_FAST : NPU_WAIT_DRIVER;
		npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &w.seqno));
		atomic_store(&w.started, false);
		assert_int_equal(pthread_create(&thread, NULL, queue_waiter, &w), 0);
		while (!atomic_load(&w.started))
			;
		npu_job_free(job);
		pthread_join(thread, NULL);
		assert_int_equal(w.ret, 0);
	}
}

/* The release ends the job, for which npu_job_free() waits in another thread. */
static void *job_freer(void *arg)
{
	npu_job_free(arg);
	return NULL;
}

static void a_running_job_can_be_freed_while_its_queue_is_released(void **state)
{
	struct fixture *f = *state;
	struct npu_queue *queue;
	struct npu_job *job;
	pthread_t thread;

	for (int i = 0; i < 20; i++) {
		job = fixture_sleep(f->ctx, 20000 * MS);
		npu_ok(npu_queue_create(f->ctx, NULL, &queue));
		npu_ok(npu_queue_submit(queue, &job, 1, NULL, NULL));
		assert_int_equal(pthread_create(&thread, NULL, job_freer, job), 0);
		npu_queue_free(queue);
		pthread_join(thread, NULL);
	}
}

struct watcher {
	struct npu_queue *queue;
	_Atomic uint64_t *last; /* the last job that was submitted */
	uint64_t end;
	unsigned int seed;
	int failed;
};

/* Waits for jobs at random, until for the last one, and asks how far the queue is. */
static void *queue_watcher(void *arg)
{
	struct watcher *w = arg;
	uint64_t last, seqno;

	while ((last = atomic_load(w->last)) < w->end) {
		seqno = last ? 1 + (uint64_t)rand_r(&w->seed) % last : 0;
		if (seqno && npu_queue_wait(w->queue, seqno, NPU_FOREVER,
					    seqno & 1 ? NPU_WAIT_FAST : NPU_WAIT_DRIVER))
			w->failed = 1;
		if (npu_queue_completed(w->queue) < seqno)
			w->failed = 2;
	}
	if (npu_queue_wait(w->queue, w->end, NPU_FOREVER, NPU_WAIT_FAST))
		w->failed = 3;
	return NULL;
}

static void one_thread_submits_while_others_wait(void **state)
{
	struct fixture *f = *state;
	struct npu_job *jobs[4];
	_Atomic uint64_t last = 0;
	struct watcher w[3];
	pthread_t threads[3];
	uint64_t seqno;

	for (unsigned int i = 0; i < 4; i++)
		jobs[i] = fixture_sleep(f->ctx, 1000 * (i + 1));
	for (unsigned int i = 0; i < 3; i++) {
		w[i] = (struct watcher){ f->queue, &last, 1000, i, 0 };
		assert_int_equal(pthread_create(&threads[i], NULL, queue_watcher, &w[i]), 0);
	}
	for (unsigned int i = 0; i < 1000; i++) {
		if (i >= 4)
			npu_ok(npu_queue_wait(f->queue, i - 3, NPU_FOREVER, NPU_WAIT_FAST));
		npu_ok(npu_queue_submit(f->queue, &jobs[i % 4], 1, NULL, &seqno));
		assert_int_equal(seqno, i + 1);
		atomic_store(&last, seqno);
	}
	for (unsigned int i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(w[i].failed, 0);
	}
	for (unsigned int i = 0; i < 4; i++)
		npu_job_free(jobs[i]);
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_device(a_job_can_be_used_while_its_queue_is_released),
		with_device(a_job_can_be_freed_while_its_queue_waits_for_it),
		with_device(a_running_job_can_be_freed_while_its_queue_is_released),
		with_device(one_thread_submits_while_others_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
