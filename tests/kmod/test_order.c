// SPDX-License-Identifier: MIT
/*
 * What a client learns of its jobs' ends never goes back: on the status page, by WAIT and by
 * fences, while a queue with many waiting jobs is destroyed in several ways and other threads
 * watch. The test plays the firmware.
 */
#include <sched.h>
#include <signal.h>

#include "vnpu_raw.h"

#define JOBS 200

/* ---- watchers ---- */

static __thread sigjmp_buf fault_jump;

static void on_fault(int sig)
{
	siglongjmp(fault_jump, 1);
}

struct watch {
	int fd;
	uint32_t queue;
	const struct drm_vnpu_queue_status *page; /* NULL: calls WAIT */
	bool stop;
	uint64_t seen, backwards, lies, looks;
	pthread_t thread;
};

static void watch_page(struct watch *w)
{
	uint64_t now = __atomic_load_n(&w->page->completed_seqno, __ATOMIC_ACQUIRE);

	w->backwards += now < w->seen;
	if (now > w->seen)
		w->seen = now;
}

/* The next job may be done now; earlier ones still are, and none of them has succeeded. */
static void watch_wait(struct watch *w)
{
	int status = 0;

	while (w->seen < JOBS && !raw_wait(w->fd, w->queue, w->seen + 1, 0, &status)) {
		w->seen++;
		w->lies += !status;
	}
	for (uint64_t s = w->seen; s && s + 3 > w->seen; s--) {
		int ret = raw_wait(w->fd, w->queue, s, 0, &status);

		w->backwards += ret == -ETIMEDOUT;
		w->lies += !ret && !status;
	}
}

static void *watch_run(void *arg)
{
	struct watch *w = arg;

	/* The page goes away with its queue. */
	if (sigsetjmp(fault_jump, 1))
		return NULL;
	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		if (w->page)
			watch_page(w);
		else
			watch_wait(w);
		w->looks++;
	}
	return NULL;
}

static void watch_start(struct watch *w, int fd, const struct drm_vnpu_queue_create *q, bool page)
{
	struct sigaction sa = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	sigaction(SIGBUS, &sa, NULL);
	*w = (struct watch){ .fd = fd, .queue = q->queue_id };
	if (page)
		w->page = raw_queue_status(fd, q);
	assert_int_equal(pthread_create(&w->thread, NULL, watch_run, w), 0);
	while (!__atomic_load_n(&w->looks, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void watch_end(struct watch *w)
{
	__atomic_store_n(&w->stop, true, __ATOMIC_RELEASE);
	pthread_join(w->thread, NULL);
	if (w->page)
		munmap((void *)w->page, PAGE);
	assert_int_equal(w->backwards, 0);
	assert_int_equal(w->lies, 0);
}

/* ---- queues full of jobs ---- */

struct full {
	uint32_t ctx, line;
	struct drm_vnpu_queue_create q;
	struct vnpu_fw_sqe first;
};

/* A context with a queue whose first job is in the firmware; all others wait for it. */
static struct full fill(struct bench *b, uint32_t waits_for)
{
	struct full f = { .ctx = raw_ctx(b->fd), .line = raw_syncobj(b->fd) };

	f.q = raw_queue_full(b->fd, f.ctx, 1);
	raw_submit(b->fd, f.ctx, f.q.queue_id);
	f.first = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	for (uint64_t i = 2; i <= JOBS; i++) {
		struct drm_vnpu_sync_op syncs[] = { { DRM_VNPU_SYNC_SIGNAL, f.line, i },
						    { .handle = waits_for } };
		struct drm_vnpu_job job = raw_job(f.q.queue_id);

		/* Some have a fence, and some wait for one. */
		raw_job_syncs(&job, syncs, waits_for && i % 3 ? 2 : 1);
		if (i % 5 == 0)
			job.syncs = (struct drm_vnpu_obj_array){ 0 };
		assert_int_equal(raw_submit_jobs(b->fd, f.ctx, &job, 1), 0);
	}
	return f;
}

/* Lets the firmware answer closed contexts and cancelled jobs. */
static void settle(struct bench *b)
{
	struct vnpu_fw_sqe sqe;

	while (raw_fw_pop(&b->fw, &sqe, 5)) {
		if (sqe.type == VNPU_FW_SQE_CTX_CLOSE)
			raw_fw_closed(&b->fw, sqe.ctx);
		else
			raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE,
								  .status = VNPU_FW_CANCELED,
								  .tag = sqe.tag });
		assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	}
}

static void fault(struct bench *b, const struct vnpu_fw_sqe *sqe)
{
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE,
						  .status = VNPU_FW_FAULT,
						  .tag = sqe->tag });
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
}

static void a_banned_context_s_jobs_end_in_order_for_all_watchers(void **state)
{
	struct bench *b = bench(state);

	for (int round = 0; round < 20; round++) {
		struct full f = fill(b, 0);
		struct watch w[2];

		watch_start(&w[0], b->fd, &f.q, true);
		watch_start(&w[1], b->fd, &f.q, false);
		fault(b, &f.first);
		assert_int_not_equal(raw_result(b->fd, f.q.queue_id, JOBS), 0);
		for (int i = 0; i < 2; i++)
			watch_end(&w[i]);
		for (uint64_t s = 1; s <= JOBS; s++)
			assert_int_equal(raw_result(b->fd, f.q.queue_id, s),
					 s == 1 ? -EFAULT : -ECANCELED);
		assert_int_equal(raw_ctx_destroy(b->fd, f.ctx), 0);
		raw_syncobj_destroy(b->fd, f.line);
		settle(b);
	}
}

/* ---- waiters inside WAIT while the queue is destroyed ---- */

struct waiter {
	int fd;
	uint32_t queue;
	uint64_t seqno;
	int ret, status;
	pthread_t thread;
};

static void *waiter_run(void *arg)
{
	struct waiter *w = arg;

	w->ret = raw_wait(w->fd, w->queue, w->seqno, RAW_LONG_MS, &w->status);
	return NULL;
}

/* The fence that the jobs wait for signals shortly before, at the same time or after. */
static void waiters_in_a_queue_that_is_destroyed_get_the_right_result(void **state)
{
	enum { WAITERS = 8 };
	struct bench *b = bench(state);
	unsigned int seed = (unsigned int)raw_now_ns();

	print_message("seed %u\n", seed);
	for (int round = 0; round < 60; round++) {
		uint32_t ctx = raw_ctx(b->fd), q = raw_queue(b->fd, ctx),
			 blocker = raw_syncobj(b->fd);
		struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, blocker, 0 },
					in = { 0, blocker, 0 };
		struct drm_vnpu_job job = raw_job(b->q.queue_id);
		struct waiter w[WAITERS];
		struct vnpu_fw_sqe sqe;
		bool first = rand_r(&seed) % 2;

		raw_job_syncs(&job, &out, 1);
		assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		for (int i = 0; i < WAITERS; i++) {
			job = raw_job(q);
			raw_job_syncs(&job, &in, 1);
			assert_int_equal(raw_submit_jobs(b->fd, ctx, &job, 1), 0);
			w[i] = (struct waiter){ .fd = b->fd, .queue = q, .seqno = job.seqno };
			assert_int_equal(pthread_create(&w[i].thread, NULL, waiter_run, &w[i]), 0);
		}
		usleep(rand_r(&seed) % 3000);
		if (first)
			raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
		assert_int_equal(raw_queue_destroy(b->fd, q), 0);
		if (!first)
			raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
		for (int i = 0; i < WAITERS; i++) {
			pthread_join(w[i].thread, NULL);
			/* A late waiter finds no queue. */
			if (w[i].ret != -ENOENT) {
				assert_int_equal(w[i].ret, 0);
				assert_int_equal(w[i].status, -ECANCELED);
			}
		}
		assert_int_equal(raw_ctx_destroy(b->fd, ctx), 0);
		raw_syncobj_destroy(b->fd, blocker);
		settle(b);
	}
}

static void a_status_page_never_goes_back_while_its_queue_is_destroyed(void **state)
{
	struct bench *b = bench(state);

	for (int round = 0; round < 20; round++) {
		uint32_t blocker = raw_syncobj(b->fd);
		struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, blocker, 0 };
		struct drm_vnpu_job job = raw_job(b->q.queue_id);
		struct vnpu_fw_sqe sqe;
		struct watch w;
		struct full f;

		raw_job_syncs(&job, &out, 1);
		assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		f = fill(b, blocker);
		watch_start(&w, b->fd, &f.q, true);
		assert_int_equal(raw_queue_destroy(b->fd, f.q.queue_id), 0);
		/* In order: if the last one's fence has signalled, all have. */
		assert_int_equal(raw_syncobj_wait(b->fd, f.line, JOBS - 1, 0), 0);
		raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
		watch_end(&w);
		assert_int_equal(raw_ctx_destroy(b->fd, f.ctx), 0);
		raw_syncobj_destroy(b->fd, f.line);
		raw_syncobj_destroy(b->fd, blocker);
		settle(b);
	}
}

/* ---- a page that both sides write ---- */

struct raiser {
	struct drm_vnpu_queue_status *page;
	uint64_t last, raised, backwards;
	unsigned int seed;
	bool stop;
	pthread_t thread;
};

/*
 * A firmware slightly faster than the kernel, which ends the same jobs one after another: whenever
 * the kernel has raised completed_seqno, this raises it further before the kernel does. The kernel
 * must not lower it.
 */
static void *raiser_run(void *arg)
{
	struct raiser *r = arg;
	uint64_t mine = 0;

	while (mine < r->last && !__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		uint64_t now = __atomic_load_n(&r->page->completed_seqno, __ATOMIC_RELAXED);

		r->backwards += now < mine;
		if (now <= mine)
			continue;
		for (unsigned int spin = rand_r(&r->seed) % 64; spin; spin--)
			__atomic_signal_fence(__ATOMIC_SEQ_CST);
		mine = now + 2 < r->last ? now + 2 : r->last;
		raw_fw_raise(r->page, mine);
		r->raised++;
	}
	return NULL;
}

static void the_kernel_never_lowers_what_the_firmware_has_raised(void **state)
{
	struct bench *b = bench(state);
	unsigned int seed = (unsigned int)raw_now_ns();
	uint64_t raised = 0;

	print_message("seed %u\n", seed);
	for (int round = 0; round < 60; round++) {
		struct full f = fill(b, 0);
		struct raiser r = { .last = JOBS, .seed = seed + round };

		r.page = raw_fw_status(&b->fw, f.first.queue);
		assert_int_equal(pthread_create(&r.thread, NULL, raiser_run, &r), 0);
		raw_fw_raise(r.page, 1);
		while (__atomic_load_n(&r.page->completed_seqno, __ATOMIC_RELAXED) < 3)
			sched_yield();
		/* The kernel ends all other jobs. */
		fault(b, &f.first);
		assert_int_equal(raw_result(b->fd, f.q.queue_id, JOBS), -ECANCELED);
		__atomic_store_n(&r.stop, true, __ATOMIC_RELEASE);
		pthread_join(r.thread, NULL);
		assert_int_equal(r.backwards, 0);
		assert_int_equal(r.page->completed_seqno, JOBS);
		raised += r.raised;
		assert_int_equal(raw_ctx_destroy(b->fd, f.ctx), 0);
		raw_syncobj_destroy(b->fd, f.line);
		settle(b);
	}
	print_message("raised %llu times\n", (unsigned long long)raised);
	assert_true(raised > 0);
}

static void a_page_that_is_ahead_stays_ahead_when_the_kernel_ends_a_job(void **state)
{
	struct bench *b = bench(state);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	struct drm_vnpu_job job = raw_job(b->q.queue_id);
	struct vnpu_fw_sqe sqe[3];

	job.timeout_ms = 200;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
		sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		job.timeout_ms = 0;
	}
	raw_fw_raise(raw_fw_status(&b->fw, sqe[0].queue), 3);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), -EBUSY);
	assert_int_equal(page->completed_seqno, 3);
	assert_int_equal(page->error, EBUSY);
	assert_false(raw_is_done(b->fd, b->q.queue_id, 2));
	raw_fw_done(&b->fw, &sqe[1], VNPU_FW_OK);
	assert_int_equal(page->completed_seqno, 3);
	munmap((void *)page, PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(a_banned_context_s_jobs_end_in_order_for_all_watchers),
		BENCH_TEST(waiters_in_a_queue_that_is_destroyed_get_the_right_result),
		BENCH_TEST(a_status_page_never_goes_back_while_its_queue_is_destroyed),
		BENCH_TEST(the_kernel_never_lowers_what_the_firmware_has_raised),
		BENCH_TEST(a_page_that_is_ahead_stays_ahead_when_the_kernel_ends_a_job),
	};

	return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
