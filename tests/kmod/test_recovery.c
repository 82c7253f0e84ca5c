// SPDX-License-Identifier: MIT
/*
 * The steps of recovery one after another: fence, job, context, device. The test plays the
 * firmware. The last step, a wedged device, is in test_wedged.c.
 */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "foreign.h"
#include "recovery.h"

/* A second context, with a queue, in a file of its own. */
struct other {
	int fd;
	uint32_t ctx, queue;
};

static struct other other_client(struct bench *b)
{
	struct other o = { .fd = raw_client(b->fw.minor) };

	o.ctx = raw_ctx(o.fd);
	o.queue = raw_queue(o.fd, o.ctx);
	return o;
}

/* ---- step 0: fences, which signal in time wherever their jobs are ---- */

#define FENCE_MS 10000

/* Makes all time limits long except that of fences. */
static void be_patient(struct bench *b)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();

	add.timeout_ms = add.max_timeout_ms = 60000;
	bench_renew(b, &add);
	assert_int_equal(raw_limits(b->fd).max_fence_ms, FENCE_MS);
}

static void assert_fence_bounded(struct timed_job *t, int64_t start)
{
	assert_took(start, timed_fence(t, -ETIMEDOUT), FENCE_MS, FENCE_MS + LATE_MS);
}

static void assert_queue_works(struct bench *b)
{
	uint64_t seqno;

	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state, 0);
	seqno = raw_submit(b->fd, b->ctx, b->q.queue_id);
	assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).seqno, seqno);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, seqno), 0);
	assert_int_equal(raw_state(b->fd).epoch, 1);
}

static void a_fence_ends_in_time_if_the_firmware_never_answers(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe sqe;
	struct timed_job t;
	int64_t start;

	be_patient(b);
	/* With the default timeout, which is longer, and with one of exactly that length. */
	for (int i = 0; i < 2; i++) {
		start = raw_now_ns();
		t = timed_submit(b->fd, b->ctx, b->q.queue_id, i * FENCE_MS);
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		assert_fence_bounded(&t, start);
		assert_int_equal(raw_result(b->fd, b->q.queue_id, t.seqno), -EBUSY);
		assert_true(raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL).tag == sqe.tag);
		fw_answer(&b->fw, sqe.tag, VNPU_FW_CANCELED);
		assert_queue_works(b);
	}
}

static void a_fence_ends_in_time_if_its_job_claims_progress_for_ever(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe sqe;
	struct timed_job t;
	int64_t start;
	int status = 0;

	be_patient(b);
	start = raw_now_ns();
	t = timed_submit(b->fd, b->ctx, b->q.queue_id, FENCE_MS);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_fw_started(&b->fw, &sqe);
	while (raw_wait(b->fd, b->q.queue_id, t.seqno, 0, &status))
		fw_works_for(&b->fw, &sqe, 10);
	assert_fence_bounded(&t, start);
	/* The fence's time from SUBMIT and the job's from its start end almost together. */
	assert_true(status == -ETIMEDOUT || status == -EBUSY);
	fw_answer(&b->fw, sqe.tag, VNPU_FW_CANCELED);
}

/* A good firmware in a process of its own. */
static pid_t firmware_process(struct bench *b)
{
	struct vnpu_fw_sqe sqe;
	int pipes[2];
	pid_t pid;
	char byte;

	raw_fw_die(&b->fw);
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (pid) {
		close(pipes[1]);
		assert_int_equal(read(pipes[0], &byte, 1), 1);
		close(pipes[0]);
		assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
		b->ctx = raw_ctx(b->fd);
		b->q = raw_queue_full(b->fd, b->ctx, 4);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGBUS, SIG_DFL);
	assert_int_equal(raw_fw_attach(&b->fw), 0);
	raw_fw_start(&b->fw);
	assert_int_equal(write(pipes[1], "!", 1), 1);
	for (;;)
		if (raw_fw_pop(&b->fw, &sqe, RAW_LONG_MS) && sqe.type == VNPU_FW_SQE_JOB)
			raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
}

static void more_jobs_than_one_section_ends_expire_and_end(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op out = { .flags = DRM_VNPU_SYNC_SIGNAL };
	struct drm_vnpu_job head, job;
	struct vnpu_fw_sqe sqe;
	int64_t until;

	be_patient(b);
	out.handle = raw_syncobj(b->fd);
	head = job = raw_job(b->q.queue_id);
	head.timeout_ms = 60000;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &head, 1), 0);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_fw_started(&b->fw, &sqe);
	raw_job_syncs(&job, &out, 1);
	for (int i = 0; i < 200; i++)
		assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	until = raw_in_ms(FENCE_MS + LATE_MS);
	while (raw_now_ns() < until)
		fw_works_for(&b->fw, &sqe, 10);
	/* All fences have signalled, but the jobs end in their turn. */
	assert_int_equal(raw_syncobj_wait(b->fd, out.handle, 0, 0), 0);
	assert_false(raw_is_done(b->fd, b->q.queue_id, head.seqno));
	fw_answer(&b->fw, sqe.tag, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, job.seqno), -EBUSY);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, head.seqno), 0);
	/* Those three that the firmware had. */
	for (int i = 0; i < 6;) {
		assert_true(raw_fw_pop(&b->fw, &sqe, RAW_LONG_MS));
		i += sqe.type == VNPU_FW_SQE_JOB || sqe.type == VNPU_FW_SQE_CANCEL;
		if (sqe.type == VNPU_FW_SQE_CANCEL)
			fw_answer(&b->fw, sqe.tag, VNPU_FW_CANCELED);
	}
	assert_queue_works(b);
	raw_syncobj_destroy(b->fd, out.handle);
}

static void a_fence_ends_in_time_if_the_firmware_is_stopped_or_killed(void **state)
{
	struct bench *b = bench(state);
	struct timed_job t;
	int64_t start;
	pid_t pid;

	be_patient(b);
	/* A stopped firmware owes an answer, which is not what this test is about. */
	module_set("reset_ms", 60000);
	pid = firmware_process(b);
	t = timed_submit(b->fd, b->ctx, b->q.queue_id, 0);
	timed_end(&t, 0);
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	start = raw_now_ns();
	t = timed_submit(b->fd, b->ctx, b->q.queue_id, 0);
	assert_fence_bounded(&t, start);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, t.seqno), -EBUSY);
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state & DRM_VNPU_CTX_TIMEDOUT, 0);
	start = raw_now_ns();
	t = timed_submit(b->fd, b->ctx, b->q.queue_id, 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_took(start, timed_end(&t, -EIO), 0, LATE_MS);
}

static void a_fence_ends_in_time_if_its_job_waits_for_another_driver(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op syncs[2] = { { 0 }, { .flags = DRM_VNPU_SYNC_SIGNAL } };
	struct drm_vnpu_job job;
	struct vnpu_fw_sqe sqe;
	struct timed_job t;
	struct foreign f;
	int64_t start;

	be_patient(b);
	if (!foreign_make(&f))
		skip();
	syncs[0].handle = raw_syncobj_of(b->fd, f.sync_file);
	syncs[1].handle = raw_syncobj(b->fd);
	job = raw_job(b->q.queue_id);
	raw_job_syncs(&job, syncs, 2);
	start = raw_now_ns();
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	t = (struct timed_job){ b->fd, b->q.queue_id, job.seqno,
				raw_sync_file(b->fd, syncs[1].handle) };
	assert_fence_bounded(&t, start);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, job.seqno), -EBUSY);
	/* The firmware was never asked to cancel a job that it had not seen. */
	if (f.for_ever)
		assert_false(raw_fw_pop(&b->fw, &sqe, 0));
	while (raw_fw_pop(&b->fw, &sqe, 0))
		fw_answer(&b->fw, sqe.tag, VNPU_FW_CANCELED);
	foreign_end(&f);
	assert_queue_works(b);
}

/* The time that a job has waited for another job's fence is not added to its own fence's. */
static void a_fence_ends_in_time_if_its_job_waits_for_a_job_that_is_not_answered(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op syncs[2] = { { DRM_VNPU_SYNC_SIGNAL, 0, 0 },
					     { DRM_VNPU_SYNC_SIGNAL, 0, 0 } };
	struct drm_vnpu_job job;
	struct timed_job t;
	struct vnpu_fw_sqe sqe[2];
	int64_t start;
	uint32_t q2;

	be_patient(b);
	q2 = raw_queue(b->fd, b->ctx);
	syncs[0].handle = raw_syncobj(b->fd);
	syncs[1].handle = raw_syncobj(b->fd);
	job = raw_job(q2);
	raw_job_syncs(&job, syncs, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	sqe[0] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	usleep(FENCE_MS / 2 * 1000);
	syncs[0].flags = 0;
	job = raw_job(b->q.queue_id);
	raw_job_syncs(&job, syncs, 2);
	start = raw_now_ns();
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	t = (struct timed_job){ b->fd, b->q.queue_id, job.seqno,
				raw_sync_file(b->fd, syncs[1].handle) };
	assert_int_equal(raw_result(b->fd, q2, 1), -EBUSY);
	fw_answer(&b->fw, sqe[0].tag, VNPU_FW_CANCELED);
	sqe[1] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_fence_bounded(&t, start);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, job.seqno), -EBUSY);
	fw_answer(&b->fw, sqe[1].tag, VNPU_FW_CANCELED);
	assert_queue_works(b);
}

/*
 * Behind a job without a fence, which may run for longer. The job with the fence ends after it, in
 * the queue's order; a firmware that still works on the first job owes no answer for the second.
 */
static void a_fence_ends_in_time_behind_a_long_job_and_its_job_ends_in_order(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe first, second;
	struct timed_job t;
	struct drm_vnpu_job job;
	int64_t start;

	be_patient(b);
	job = raw_job(b->q.queue_id);
	job.timeout_ms = 60000;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	first = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_fw_started(&b->fw, &first);
	start = raw_now_ns();
	t = timed_submit(b->fd, b->ctx, b->q.queue_id, 0);
	second = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	fw_works_for(&b->fw, &first, FENCE_MS + 3 * RESET_MS);
	assert_fence_bounded(&t, start);
	assert_false(raw_is_done(b->fd, b->q.queue_id, job.seqno));
	assert_false(raw_is_done(b->fd, b->q.queue_id, t.seqno));
	raw_fw_done(&b->fw, &first, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, job.seqno), 0);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, t.seqno), -EBUSY);
	fw_answer(&b->fw, second.tag, VNPU_FW_CANCELED);
	assert_queue_works(b);
}

static void a_fence_ends_in_time_if_its_job_waits_in_the_kernel_and_the_job_never_runs(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe first, third;
	struct timed_job t;
	uint64_t behind;
	int64_t start;
	uint32_t q;

	be_patient(b);
	q = raw_queue_full(b->fd, b->ctx, 1).queue_id;
	raw_submit(b->fd, b->ctx, q);
	first = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_fw_started(&b->fw, &first);
	start = raw_now_ns();
	t = timed_submit(b->fd, b->ctx, q, 0);
	behind = raw_submit(b->fd, b->ctx, q);
	fw_works_for(&b->fw, &first, FENCE_MS + 500);
	assert_fence_bounded(&t, start);
	assert_false(raw_is_done(b->fd, q, t.seqno));
	raw_fw_done(&b->fw, &first, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, q, first.seqno), 0);
	assert_int_equal(raw_result(b->fd, q, t.seqno), -EBUSY);
	third = raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(third.seqno, behind);
	assert_int_equal(raw_result(b->fd, q, behind), 0);
	assert_queue_works(b);
}

/* ---- step 1: jobs ---- */

static void timeouts_are_the_device_s_own(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_query_limits limits = raw_limits(b->fd);
	struct drm_vnpu_job job = raw_job(b->q.queue_id);
	struct vnpu_fw_sqe sqe;
	struct timed_job t;
	int64_t start;

	assert_int_equal(limits.default_timeout_ms, T_MS);
	assert_int_equal(limits.max_timeout_ms, MAX_MS);
	job.timeout_ms = MAX_MS + 1;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), -EINVAL);
	/* A job without a timeout gets the default. */
	start = raw_now_ns();
	t = timed_submit(b->fd, b->ctx, b->q.queue_id, 0);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_fw_started(&b->fw, &sqe);
	assert_took(start, timed_end(&t, -ETIMEDOUT), T_MS, T_MS + LATE_MS);
}

static void progress_keeps_a_long_job_alive(void **state)
{
	struct bench *b = bench(state);
	struct timed_job t = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);

	raw_fw_started(&b->fw, &sqe);
	fw_works_for(&b->fw, &sqe, 4 * T_MS);
	raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	timed_end(&t, 0);
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state, 0);
}

static void a_job_whose_progress_stops_fails_in_time(void **state)
{
	struct bench *b = bench(state);
	struct timed_job t = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	int64_t stop;

	raw_fw_started(&b->fw, &sqe);
	fw_works_for(&b->fw, &sqe, 2 * T_MS);
	fw_progress(&b->fw, &sqe);
	stop = raw_now_ns();
	assert_took(stop, timed_end(&t, -ETIMEDOUT), T_MS, T_MS + LATE_MS);
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state, DRM_VNPU_CTX_TIMEDOUT);
	assert_true(raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL).tag == sqe.tag);
	fw_answer(&b->fw, sqe.tag, VNPU_FW_CANCELED);
}

static void endless_progress_is_bounded(void **state)
{
	struct bench *b = bench(state);
	struct timed_job t = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	int64_t start = raw_now_ns();

	raw_fw_started(&b->fw, &sqe);
	while (!raw_is_done(b->fd, b->q.queue_id, t.seqno))
		fw_works_for(&b->fw, &sqe, 10);
	assert_took(start, timed_end(&t, -ETIMEDOUT), MAX_MS, MAX_MS + LATE_MS);
	fw_answer(&b->fw, sqe.tag, VNPU_FW_CANCELED);
}

/* For the kernel, a job that was not reported as started waits for others. */
static void a_job_that_waits_behind_a_long_one_survives(void **state)
{
	struct bench *b = bench(state);
	struct other o = other_client(b);
	struct timed_job longer = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS), waits;
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB), next;

	raw_fw_started(&b->fw, &sqe);
	waits = timed_submit(o.fd, o.ctx, o.queue, T_MS);
	next = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	fw_works_for(&b->fw, &sqe, 4 * T_MS);
	raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	timed_end(&longer, 0);
	assert_false(raw_is_done(o.fd, o.queue, waits.seqno));
	raw_fw_done(&b->fw, &next, VNPU_FW_OK);
	timed_end(&waits, 0);
	assert_int_equal(raw_ctx_state(o.fd, o.ctx).state, 0);
	close(o.fd);
}

/* A device whose jobs may run for 200 ms and wait for ten times as long. */
static struct vnpu_ctl_add_dev impatient(void)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();

	add.timeout_ms = add.max_timeout_ms = 200 * SCALE;
	return add;
}

static void assert_lives(struct bench *b, struct other *o)
{
	uint64_t seqno;

	assert_int_equal(raw_ctx_state(o->fd, o->ctx).state, 0);
	assert_int_equal(raw_ctx_state(o->fd, o->ctx).seqno, 0);
	seqno = raw_submit(o->fd, o->ctx, o->queue);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(o->fd, o->queue, seqno), 0);
}

static void a_job_that_never_starts_on_a_silent_device_ends_and_its_context_lives(void **state)
{
	struct bench *b = bench(state);
	struct other o = other_client(b);
	int64_t start = raw_now_ns();
	struct timed_job t = timed_submit(o.fd, o.ctx, o.queue, T_MS);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);

	assert_took(start, timed_end(&t, -EBUSY), T_MS, T_MS + 250 + LATE_MS);
	assert_true(raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL).tag == sqe.tag);
	fw_answer(&b->fw, sqe.tag, VNPU_FW_CANCELED);
	assert_lives(b, &o);
	close(o.fd);
}

static void a_job_that_never_gets_to_run_ends_and_its_context_lives(void **state)
{
	struct vnpu_ctl_add_dev add = impatient();
	struct bench *b = bench(state);
	int64_t wait_ms = 10 * add.max_timeout_ms;
	struct timed_job t;
	struct vnpu_fw_sqe sqe, passed;
	struct other o;
	int64_t start;

	bench_renew(b, &add);
	o = other_client(b);
	start = raw_now_ns();
	t = timed_submit(o.fd, o.ctx, o.queue, add.timeout_ms);
	passed = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	/* Other clients' jobs run, this one never does. */
	while (!raw_is_done(o.fd, o.queue, t.seqno)) {
		raw_submit(b->fd, b->ctx, b->q.queue_id);
		if (!raw_fw_pop(&b->fw, &sqe, RAW_LONG_MS) || sqe.type != VNPU_FW_SQE_JOB)
			break;
		raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
		usleep(20000);
	}
	assert_took(start, timed_end(&t, -EBUSY), wait_ms, wait_ms + LATE_MS);
	fw_answer(&b->fw, passed.tag, VNPU_FW_CANCELED);
	while (raw_fw_pop(&b->fw, &sqe, 0))
		if (sqe.type == VNPU_FW_SQE_JOB)
			raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	assert_lives(b, &o);
	close(o.fd);
}

/*
 * Each of the others works for as long as it may, one after another, and the last job has waited
 * for all of them.
 */
static void a_job_behind_64_busy_contexts_is_not_to_blame(void **state)
{
	enum { BUSY = 64 };
	struct vnpu_ctl_add_dev add = impatient();
	struct bench *b = bench(state);
	uint32_t ctx[BUSY], queue[BUSY];
	struct vnpu_fw_sqe sqe[BUSY], last;
	struct timed_job t;
	struct other o;
	int i, busy;

	add.nr_ctx = add.nr_queues = BUSY + 2;
	bench_renew(b, &add);
	/* Many jobs are given up at once, and answered only after the test has seen that. */
	module_set("reset_ms", 10 * RESET_MS);
	busy = raw_client(b->fw.minor);
	for (i = 0; i < BUSY; i++) {
		ctx[i] = raw_ctx(busy);
		queue[i] = raw_queue(busy, ctx[i]);
		raw_submit(busy, ctx[i], queue[i]);
		sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	}
	o = other_client(b);
	t = timed_submit(o.fd, o.ctx, o.queue, add.timeout_ms);
	last = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	for (i = 0; i < BUSY && !raw_is_done(o.fd, o.queue, t.seqno); i++) {
		raw_fw_started(&b->fw, &sqe[i]);
		fw_works_for(&b->fw, &sqe[i], add.max_timeout_ms * 3 / 4);
		raw_fw_done(&b->fw, &sqe[i], VNPU_FW_OK);
	}
	assert_true(i < BUSY);
	timed_end(&t, -EBUSY);
	assert_int_equal(raw_ctx_state(o.fd, o.ctx).state, 0);
	for (; i < BUSY; i++)
		fw_answer(&b->fw, sqe[i].tag, VNPU_FW_CANCELED);
	for (i = 0; i < BUSY; i++)
		assert_int_equal(raw_ctx_state(busy, ctx[i]).state, 0);
	fw_answer(&b->fw, last.tag, VNPU_FW_CANCELED);
	close(o.fd);
	close(busy);
}

/* The ring is read even if the firmware never calls ENTER. */
static void an_answer_posted_without_enter_counts(void **state)
{
	struct bench *b = bench(state);
	struct timed_job t = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);

	raw_fw_started(&b->fw, &sqe);
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = sqe.tag });
	timed_end(&t, 0);
	assert_int_equal(raw_state(b->fd).nr_resets, 0);
}

/* Each job's time limit starts when the job is the first of its queue. */
static void each_job_of_a_queue_has_its_own_clock(void **state)
{
	struct bench *b = bench(state);
	struct timed_job t[4];
	struct vnpu_fw_sqe sqe[4];
	int64_t start;

	for (int i = 0; i < 4; i++)
		t[i] = timed_submit(b->fd, b->ctx, b->q.queue_id, i == 3 ? 200 : MAX_MS);
	for (int i = 0; i < 4; i++)
		sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	for (int i = 0; i < 3; i++) {
		raw_fw_started(&b->fw, &sqe[i]);
		fw_works_for(&b->fw, &sqe[i], 500);
		raw_fw_done(&b->fw, &sqe[i], VNPU_FW_OK);
		timed_end(&t[i], 0);
	}
	start = raw_now_ns();
	raw_fw_started(&b->fw, &sqe[3]);
	assert_took(start, timed_end(&t[3], -ETIMEDOUT), 150, 200 + LATE_MS);
}

/* ---- step 2: contexts ---- */

static void a_ban_ends_the_context_s_jobs_and_nobody_else_s(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), bystander = raw_ctx(b->fd),
		 q3 = raw_queue(b->fd, bystander);
	struct timed_job hangs = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS), same[3],
			 innocent;
	struct drm_vnpu_job job = raw_job(q2);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB), mine;
	struct drm_vnpu_ctx_get_state s;

	raw_fw_started(&b->fw, &sqe);
	same[0] = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS);
	same[1] = timed_submit(b->fd, b->ctx, q2, MAX_MS);
	same[2] = timed_submit(b->fd, b->ctx, q2, MAX_MS);
	for (int i = 0; i < 3; i++)
		raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	innocent = timed_submit(b->fd, bystander, q3, T_MS);
	mine = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	timed_end(&hangs, -ETIMEDOUT);
	for (int i = 0; i < 3; i++)
		timed_end(&same[i], -ECANCELED);
	s = raw_ctx_state(b->fd, b->ctx);
	assert_int_equal(s.state, DRM_VNPU_CTX_TIMEDOUT);
	assert_int_equal(s.queue_id, b->q.queue_id);
	assert_int_equal(s.seqno, hangs.seqno);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), -ECANCELED);
	/* Of the two jobs without progress for as long, only the one that ran was to blame. */
	assert_false(raw_is_done(b->fd, q3, innocent.seqno));
	for (int i = 0; i < 4; i++)
		fw_answer(&b->fw, raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL).tag, VNPU_FW_CANCELED);
	raw_fw_started(&b->fw, &mine);
	fw_works_for(&b->fw, &mine, T_MS);
	raw_fw_done(&b->fw, &mine, VNPU_FW_OK);
	timed_end(&innocent, 0);
	assert_int_equal(raw_ctx_state(b->fd, bystander).state, 0);
	/* All jobs were answered, so there is no reset. */
	usleep(3 * RESET_MS * 1000);
	assert_int_equal(raw_state(b->fd).epoch, 1);
}

/* ---- step 3: the device ---- */

/* Checks everything that a reset of the device must do; @guilty: the context's state. */
static void assert_was_reset(struct bench *b, const struct drm_vnpu_queue_status *page,
			     uint32_t cause, uint32_t guilty, const char *reason)
{
	struct drm_vnpu_query_state s = raw_state(b->fd);
	struct drm_vnpu_ctx_create create = { 0 };
	struct pollfd p = { .fd = b->fw.fd, .events = POLLIN };
	int64_t until = raw_in_ms(RAW_LONG_MS);
	static char dump[1 << 16];

	/* The device's epoch changes first, and queues' pages last. */
	while (__atomic_load_n(&page->epoch, __ATOMIC_RELAXED) < 2 && raw_now_ns() < until)
		usleep(2000);
	assert_int_equal(s.state, DRM_VNPU_STATE_LOST);
	assert_int_equal(s.epoch, 2);
	assert_int_equal(s.nr_resets, 1);
	assert_int_equal(s.last_loss, cause);
	assert_int_equal(control_state(b->fw.dev_id), VNPU_CTL_DEV_LOST);
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state, guilty | DRM_VNPU_CTX_FW_LOST);
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).epoch, 2);
	assert_int_equal(page->epoch, 2);
	assert_int_not_equal(page->error, 0);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), -EBUSY);
	assert_int_equal(
		raw_fw_enter(&b->fw, VNPU_FW_ENTER_WAIT | VNPU_FW_ENTER_COMPLETE, -1, NULL),
		cause == DRM_VNPU_LOSS_PROTOCOL ? -EPROTO : -EIO);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_true(p.revents & POLLHUP);
	if (access("/sys/class/devcoredump", F_OK)) {
		print_message("this kernel has no device coredumps\n");
	} else {
		assert_true(take_coredump(b->fw.dev_id, dump, sizeof(dump)));
		print_message("%s", dump);
		assert_non_null(strstr(dump, reason));
		/* The client's context is in its table; rings and queues are in the dump too. */
		assert_non_null(strstr(dump, " test_recovery "));
		assert_non_null(strstr(dump, "submission "));
		assert_non_null(strstr(dump, " submitted "));
	}
	fw_comes_again(b);
	assert_int_equal(raw_state(b->fd).state, DRM_VNPU_STATE_READY);
	assert_int_equal(b->fw.info->epoch, 2);
	assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
	device_works(b);
}

static void a_cancel_that_is_not_answered_resets_the_device(void **state)
{
	struct bench *b = bench(state);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	struct other o = other_client(b);
	struct timed_job hangs = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS), innocent;
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	int64_t ended;

	raw_fw_started(&b->fw, &sqe);
	innocent = timed_submit(o.fd, o.ctx, o.queue, MAX_MS);
	ended = timed_end(&hangs, -ETIMEDOUT);
	assert_took(ended, timed_end(&innocent, -EIO), RESET_MS, RESET_MS + LATE_MS);
	assert_int_equal(raw_ctx_state(o.fd, o.ctx).state, DRM_VNPU_CTX_FW_LOST);
	close(o.fd);
	assert_was_reset(b, page, DRM_VNPU_LOSS_HANG, DRM_VNPU_CTX_TIMEDOUT,
			 "reason: owes an answer for too long");
	munmap((void *)page, PAGE);
}

static void a_closed_context_that_is_not_answered_resets_the_device(void **state)
{
	struct bench *b = bench(state);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	uint32_t ctx = raw_ctx(b->fd);
	int64_t start = raw_now_ns();

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_ctx_destroy(b->fd, ctx), 0);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_CTX_CLOSE);
	wait_epoch(b->fd, 2, RAW_LONG_MS);
	assert_took(start, raw_now_ns(), RESET_MS, RESET_MS + LATE_MS);
	assert_was_reset(b, page, DRM_VNPU_LOSS_HANG, 0, "reason: owes an answer for too long");
	munmap((void *)page, PAGE);
}

static void answers_posted_without_enter_avert_the_reset(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe sqe;

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_CTX_CLOSE);
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = sqe.tag });
	raw_fw_closed(&b->fw, sqe.ctx);
	usleep(4 * RESET_MS * 1000);
	assert_int_equal(raw_state(b->fd).epoch, 1);
	device_works(b);
}

/* The time limit counts from the last owed answer, not from the first one. */
static void a_device_that_is_slow_but_answers_is_not_reset(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe sqe;

	for (int i = 0; i < 8; i++) {
		uint32_t ctx = raw_ctx(b->fd), queue = raw_queue(b->fd, ctx);

		raw_submit(b->fd, ctx, queue);
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		assert_int_equal(raw_ctx_destroy(b->fd, ctx), 0);
		usleep(RESET_MS * 1000 / 3);
		fw_answer(&b->fw, sqe.tag, VNPU_FW_CANCELED);
		raw_fw_closed(&b->fw, sqe.ctx);
		assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	}
	assert_int_equal(raw_state(b->fd).nr_resets, 0);
}

static void broken_indices_reset_the_device(void **state)
{
	struct bench *b = bench(state);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	struct timed_job t = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS);

	b->fw.ctl->cq_tail = b->fw.cq_entries + 1;
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), -EPROTO);
	timed_end(&t, -EIO);
	assert_was_reset(b, page, DRM_VNPU_LOSS_PROTOCOL, 0, "reason: ring indices out of bounds");
	munmap((void *)page, PAGE);
}

static void broken_indices_are_found_without_the_firmware_s_help(void **state)
{
	struct bench *b = bench(state);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	struct timed_job t = timed_submit(b->fd, b->ctx, b->q.queue_id, MAX_MS);
	int64_t start = raw_now_ns();

	b->fw.ctl->sq_head = 12345678;
	assert_took(start, timed_end(&t, -EIO), 0, MAX_MS + LATE_MS);
	assert_was_reset(b, page, DRM_VNPU_LOSS_PROTOCOL, 0, "reason: ring indices out of bounds");
	munmap((void *)page, PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECOVERY_TEST(a_fence_ends_in_time_if_the_firmware_never_answers),
		RECOVERY_TEST(a_fence_ends_in_time_if_its_job_claims_progress_for_ever),
		RECOVERY_TEST(more_jobs_than_one_section_ends_expire_and_end),
		RECOVERY_TEST(a_fence_ends_in_time_if_the_firmware_is_stopped_or_killed),
		RECOVERY_TEST(a_fence_ends_in_time_if_its_job_waits_for_another_driver),
		RECOVERY_TEST(a_fence_ends_in_time_if_its_job_waits_for_a_job_that_is_not_answered),
		RECOVERY_TEST(a_fence_ends_in_time_behind_a_long_job_and_its_job_ends_in_order),
		RECOVERY_TEST(
			a_fence_ends_in_time_if_its_job_waits_in_the_kernel_and_the_job_never_runs),
		RECOVERY_TEST(timeouts_are_the_device_s_own),
		RECOVERY_TEST(progress_keeps_a_long_job_alive),
		RECOVERY_TEST(a_job_whose_progress_stops_fails_in_time),
		RECOVERY_TEST(endless_progress_is_bounded),
		RECOVERY_TEST(a_job_that_waits_behind_a_long_one_survives),
		RECOVERY_TEST(
			a_job_that_never_starts_on_a_silent_device_ends_and_its_context_lives),
		RECOVERY_TEST(a_job_that_never_gets_to_run_ends_and_its_context_lives),
		RECOVERY_TEST(a_job_behind_64_busy_contexts_is_not_to_blame),
		RECOVERY_TEST(an_answer_posted_without_enter_counts),
		RECOVERY_TEST(each_job_of_a_queue_has_its_own_clock),
		RECOVERY_TEST(a_ban_ends_the_context_s_jobs_and_nobody_else_s),
		RECOVERY_TEST(a_cancel_that_is_not_answered_resets_the_device),
		RECOVERY_TEST(a_closed_context_that_is_not_answered_resets_the_device),
		RECOVERY_TEST(answers_posted_without_enter_avert_the_reset),
		RECOVERY_TEST(a_device_that_is_slow_but_answers_is_not_reset),
		RECOVERY_TEST(broken_indices_reset_the_device),
		RECOVERY_TEST(broken_indices_are_found_without_the_firmware_s_help),
	};

	return cmocka_run_group_tests_name("recovery", tests, NULL, NULL);
}
