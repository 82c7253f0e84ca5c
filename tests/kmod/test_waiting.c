// SPDX-License-Identifier: MIT
/*
 * Jobs that wait in the kernel: how many a queue accepts, that a batch beyond that is refused as a
 * whole, and that they end at once and in order with their queue or context. The test plays the
 * firmware.
 */
#include "vnpu_raw.h"

/* The job that others wait for: the firmware has it and does not answer. */
struct blocker {
	uint32_t queue, syncobj;
	struct vnpu_fw_sqe sqe;
};

static struct blocker block(struct bench *b)
{
	struct blocker bl = { .queue = raw_queue(b->fd, b->ctx), .syncobj = raw_syncobj(b->fd) };
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, bl.syncobj, 0 };
	struct drm_vnpu_job job = raw_job(bl.queue);

	raw_job_syncs(&job, &out, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	bl.sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	return bl;
}

static void unblock(struct bench *b, struct blocker *bl)
{
	raw_fw_done(&b->fw, &bl->sqe, VNPU_FW_OK);
	assert_int_equal(raw_syncobj_wait(b->fd, bl->syncobj, 0, RAW_LONG_MS), 0);
}

/* Again, with as much time as a fence has. */
static void reblock(struct bench *b, struct blocker *bl)
{
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, bl->syncobj, 0 };
	struct drm_vnpu_job job = raw_job(bl->queue);

	unblock(b, bl);
	raw_job_syncs(&job, &out, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	bl->sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
}

static bool blocks(struct bench *b, struct blocker *bl)
{
	return raw_syncobj_wait(b->fd, bl->syncobj, 0, 0) == -ETIME;
}

/* Largest number of unfinished jobs in a queue. */
static uint64_t room(struct bench *b, const struct drm_vnpu_queue_create *q)
{
	return q->depth + raw_limits(b->fd).max_waiting_jobs;
}

/* Submits a job that waits for the blocker, and signals @point of @line if that is not 0. */
static int submit_waiting(struct bench *b, uint32_t queue, struct blocker *bl, uint32_t line,
			  uint64_t point)
{
	struct drm_vnpu_sync_op syncs[] = { { 0, bl->syncobj, 0 },
					    { DRM_VNPU_SYNC_SIGNAL, line, point } };
	struct drm_vnpu_job job = raw_job(queue);

	raw_job_syncs(&job, syncs, line ? 2 : 1);
	return raw_submit_jobs(b->fd, b->ctx, &job, 1);
}

/* ---- the limit ---- */

static void serve_all(struct bench *b, uint32_t queue, uint64_t first, uint64_t last)
{
	for (uint64_t seqno = first; seqno <= last; seqno++)
		assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).seqno, seqno);
	assert_int_equal(raw_result(b->fd, queue, last), 0);
}

static void a_queue_accepts_its_depth_plus_the_limit_of_waiting_jobs(void **state)
{
	struct bench *b = bench(state);
	uint64_t most = room(b, &b->q), refused = 0;
	int64_t until = raw_in_ms(5000);
	struct blocker bl = block(b);
	struct vnpu_fw_sqe sqe;

	assert_int_equal(most, b->q.depth + 256);
	for (uint64_t i = 0; i < most; i++)
		assert_int_equal(submit_waiting(b, b->q.queue_id, &bl, 0, 0), 0);
	/* As many attempts as possible, which may take long on an emulated machine. */
	for (; refused < 100000 && raw_now_ns() < until; refused++)
		assert_int_equal(submit_waiting(b, b->q.queue_id, &bl, 0, 0), -ENOSPC);
	print_message("refused %llu times\n", (unsigned long long)refused);
	assert_true(refused > 0);
	assert_true(blocks(b, &bl));
	assert_false(raw_fw_pop(&b->fw, &sqe, 0));
	unblock(b, &bl);
	/* One job is done, so there is room for one, and it takes the next number. */
	assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).seqno, 1);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
	assert_int_equal(raw_submit(b->fd, b->ctx, b->q.queue_id), most + 1);
	assert_int_equal(submit_waiting(b, b->q.queue_id, &bl, 0, 0), -ENOSPC);
	serve_all(b, b->q.queue_id, 2, most + 1);
	assert_int_equal(raw_submit(b->fd, b->ctx, b->q.queue_id), most + 2);
	serve_all(b, b->q.queue_id, most + 2, most + 2);
}

static void jobs_that_wait_for_no_fence_are_bounded_in_the_same_way(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_job job = raw_job(b->q.queue_id);
	uint64_t most = room(b, &b->q);
	struct vnpu_fw_sqe sqe[4];

	for (uint64_t i = 1; i <= most; i++)
		assert_int_equal(raw_submit(b->fd, b->ctx, b->q.queue_id), i);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), -ENOSPC);
	/* Jobs in the device count until it has ended them. */
	for (int i = 0; i < 4; i++)
		sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), -ENOSPC);
	for (int i = 0; i < 4; i++)
		raw_fw_done(&b->fw, &sqe[i], VNPU_FW_OK);
	for (int i = 0; i < 4; i++)
		assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	assert_int_equal(job.seqno, most + 4);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), -ENOSPC);
	serve_all(b, b->q.queue_id, 5, most + 4);
}

static void a_batch_beyond_the_limit_is_refused_and_leaves_no_fence(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_queue_create q2 = raw_queue_full(b->fd, b->ctx, 16);
	uint64_t most = room(b, &b->q);
	struct drm_vnpu_sync_op out[] = { { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 },
					  { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 7 } };
	struct drm_vnpu_job jobs[] = { raw_job(q2.queue_id), raw_job(b->q.queue_id),
				       raw_job(b->q.queue_id) };
	struct blocker bl = block(b);
	struct vnpu_fw_sqe sqe;

	for (uint64_t i = 1; i < most; i++)
		assert_int_equal(submit_waiting(b, b->q.queue_id, &bl, 0, 0), 0);
	/* Room for one of the two, and enough in the other queue. */
	raw_job_syncs(&jobs[0], out, 2);
	raw_job_syncs(&jobs[2], out, 2);
	for (int i = 0; i < 3; i++)
		assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 3), -ENOSPC);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &jobs[1], 2), -ENOSPC);
	assert_int_equal(raw_syncobj_wait(b->fd, out[0].handle, 0, 0), -EINVAL);
	assert_int_equal(raw_syncobj_wait(b->fd, out[1].handle, 7, 0), -EINVAL);
	assert_false(raw_fw_pop(&b->fw, &sqe, 0));
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), 0);
	assert_int_equal(jobs[0].seqno, 1);
	assert_int_equal(jobs[1].seqno, most);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &jobs[1], 1), -ENOSPC);
	/* Other queues are not affected. */
	assert_int_equal(raw_submit(b->fd, b->ctx, q2.queue_id), 2);
	for (int i = 1; i <= 2; i++)
		assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).seqno, i);
	assert_int_equal(raw_syncobj_wait(b->fd, out[1].handle, 7, RAW_LONG_MS), 0);
	unblock(b, &bl);
	serve_all(b, b->q.queue_id, 1, most);
}

static void a_queue_of_the_largest_depth_accepts_as_many_waiting_jobs(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_queue_create q = raw_queue_full(b->fd, b->ctx, 16);
	struct blocker bl = block(b);
	struct drm_vnpu_job jobs[64];
	uint64_t most = room(b, &q);

	for (int i = 0; i < 64; i++)
		jobs[i] = raw_job(q.queue_id);
	assert_int_equal(submit_waiting(b, q.queue_id, &bl, 0, 0), 0);
	for (uint64_t left = most - 1; left; left -= left < 64 ? left : 64)
		assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, left < 64 ? left : 64), 0);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 1), -ENOSPC);
	unblock(b, &bl);
	serve_all(b, q.queue_id, 1, most);
}

/* ---- the end ---- */

static void a_queue_that_is_destroyed_gives_everything_back_at_once(void **state)
{
	struct bench *b = bench(state);
	struct blocker bl = block(b);
	uint32_t line = raw_syncobj(b->fd);
	struct vnpu_fw_sqe sqe;
	uint64_t point = 0;

	/*
	 * More often than there are slots; the firmware has seen none of the jobs and is not asked
	 * for anything.
	 */
	for (int i = 0; i < 24; i++) {
		struct drm_vnpu_queue_create q = raw_queue_full(b->fd, b->ctx, 16);
		uint64_t most = room(b, &q);

		reblock(b, &bl);
		for (uint64_t k = 0; k < most; k++)
			assert_int_equal(submit_waiting(b, q.queue_id, &bl, line, ++point), 0);
		assert_int_equal(submit_waiting(b, q.queue_id, &bl, 0, 0), -ENOSPC);
		assert_int_equal(raw_syncobj_wait(b->fd, line, point, 0), -ETIME);
		assert_int_equal(raw_queue_destroy(b->fd, q.queue_id), 0);
		assert_int_equal(raw_syncobj_wait(b->fd, line, point, 0), 0);
		assert_true(blocks(b, &bl));
		assert_false(raw_fw_pop(&b->fw, &sqe, 0));
	}
	unblock(b, &bl);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	serve_all(b, b->q.queue_id, 1, 1);
}

static void a_context_that_is_destroyed_gives_its_number_back_though_its_jobs_wait(void **state)
{
	struct bench *b = bench(state);
	struct blocker bl = block(b);
	struct drm_vnpu_sync_op in = { 0, bl.syncobj, 0 };

	for (int i = 0; i < 24; i++) {
		uint32_t ctx = raw_ctx(b->fd), queue = raw_queue(b->fd, ctx);
		struct drm_vnpu_job job = raw_job(queue);
		struct vnpu_fw_sqe sqe = { 0 };

		reblock(b, &bl);
		raw_job_syncs(&job, &in, 1);
		for (int k = 0; k < 100; k++)
			assert_int_equal(raw_submit_jobs(b->fd, ctx, &job, 1), 0);
		assert_int_equal(raw_ctx_destroy(b->fd, ctx), 0);
		/* There is nothing to cancel; only the context is to be closed. */
		assert_true(raw_fw_pop(&b->fw, &sqe, RAW_LONG_MS));
		assert_int_equal(sqe.type, VNPU_FW_SQE_CTX_CLOSE);
		raw_fw_closed(&b->fw, sqe.ctx);
		assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	}
	unblock(b, &bl);
}

static void a_banned_context_s_waiting_jobs_end_before_their_fences_signal(void **state)
{
	struct bench *b = bench(state);
	struct blocker bl;
	int other = raw_client(b->fw.minor);
	uint32_t ctx = raw_ctx(other), q = raw_queue(other, ctx), line = raw_syncobj(other);
	struct vnpu_fw_sqe sqe;
	int file;

	/* They wait for a job of another context. */
	bl = block(b);
	file = raw_sync_file(b->fd, bl.syncobj);
	raw_submit(other, ctx, q);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	for (uint64_t i = 2; i <= 200; i++) {
		struct drm_vnpu_sync_op syncs[] = { { .handle = raw_syncobj_of(other, file) },
						    { DRM_VNPU_SYNC_SIGNAL, line, i } };
		struct drm_vnpu_job job = raw_job(q);

		raw_job_syncs(&job, syncs, 2);
		assert_int_equal(raw_submit_jobs(other, ctx, &job, 1), 0);
		raw_syncobj_destroy(other, syncs[0].handle);
	}
	close(file);
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE,
						  .status = VNPU_FW_FAULT,
						  .tag = sqe.tag });
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	/* The state changes at once; the jobs end very soon. */
	assert_int_equal(raw_ctx_state(other, ctx).state, DRM_VNPU_CTX_FAULT);
	assert_int_equal(raw_syncobj_wait(other, line, 200, RAW_LONG_MS), 0);
	assert_int_equal(raw_result(other, q, 1), -EFAULT);
	for (uint64_t i = 2; i <= 200; i++)
		assert_int_equal(raw_result(other, q, i), -ECANCELED);
	assert_true(blocks(b, &bl));
	unblock(b, &bl);
	close(other);
}

static void a_lost_firmware_ends_waiting_jobs_too(void **state)
{
	struct bench *b = bench(state);
	struct blocker bl = block(b);
	uint32_t line = raw_syncobj(b->fd);
	uint64_t most = room(b, &b->q);

	for (uint64_t i = 1; i <= most; i++)
		assert_int_equal(submit_waiting(b, b->q.queue_id, &bl, line, i), 0);
	raw_fw_die(&b->fw);
	assert_int_equal(raw_syncobj_wait(b->fd, line, most, RAW_LONG_MS), 0);
	for (uint64_t i = 1; i <= most; i++)
		assert_int_equal(raw_result(b->fd, b->q.queue_id, i), -EIO);
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state, DRM_VNPU_CTX_FW_LOST);
}

/* ---- one client's large batches ---- */

struct hog {
	int fd;
	uint32_t ctx, queue;
	struct drm_vnpu_sync_op *syncs;
	uint32_t running, done, stop;
	pthread_t thread;
};

/*
 * SUBMITs of the largest allowed size, one after another: 64 jobs, each of which waits for 63
 * fences and signals one.
 */
static void *hog_run(void *arg)
{
	struct drm_vnpu_job jobs[64];
	struct hog *h = arg;

	while (!__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE)) {
		for (int i = 0; i < 64; i++) {
			jobs[i] = raw_job(h->queue);
			raw_job_syncs(&jobs[i], h->syncs, 64);
		}
		__atomic_store_n(&h->running, 1, __ATOMIC_SEQ_CST);
		if (!raw_submit_jobs(h->fd, h->ctx, jobs, 64))
			h->done++;
		__atomic_store_n(&h->running, 0, __ATOMIC_SEQ_CST);
		if (h->done % 4 == 0) { /* the queue is full */
			raw_queue_destroy(h->fd, h->queue);
			h->queue = raw_queue(h->fd, h->ctx);
		}
	}
	return NULL;
}

static void the_largest_batches_of_one_client_do_not_block_another(void **state)
{
	enum { ENOUGH = 5 };
	struct bench *b = bench(state);
	struct hog h = { .fd = raw_client(b->fw.minor) };
	struct drm_vnpu_sync_op syncs[64];
	struct blocker bl[4];
	int64_t until = raw_in_ms(RAW_LONG_MS);
	uint32_t meanwhile = 0;
	struct vnpu_fw_sqe sqe;

	h.ctx = raw_ctx(h.fd);
	h.queue = raw_queue(h.fd, h.ctx);
	h.syncs = syncs;
	for (int i = 0; i < 4; i++)
		bl[i] = block(b);
	for (int i = 0; i < 63; i++) {
		int file = raw_sync_file(b->fd, bl[i % 4].syncobj);

		syncs[i] = (struct drm_vnpu_sync_op){ .handle = raw_syncobj_of(h.fd, file) };
		close(file);
	}
	syncs[63] = (struct drm_vnpu_sync_op){ DRM_VNPU_SYNC_SIGNAL, raw_syncobj(h.fd), 0 };
	assert_int_equal(pthread_create(&h.thread, NULL, hog_run, &h), 0);
	/* A job of this client counts if the other's SUBMIT was in progress before and after it. */
	while (meanwhile < ENOUGH && raw_now_ns() < until) {
		uint32_t before = __atomic_load_n(&h.running, __ATOMIC_SEQ_CST);

		raw_submit(b->fd, b->ctx, b->q.queue_id);
		meanwhile += before && __atomic_load_n(&h.running, __ATOMIC_SEQ_CST);
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	}
	__atomic_store_n(&h.stop, 1, __ATOMIC_RELEASE);
	pthread_join(h.thread, NULL);
	print_message("%u large batches, %u submissions meanwhile\n", h.done, meanwhile);
	assert_true(h.done > 0);
	assert_int_equal(meanwhile, ENOUGH);
	close(h.fd);
}

/* ---- while the fence signals ---- */

/* Destroys a queue, or a context, from another thread. */
struct destroyer {
	int fd;
	uint32_t ctx, queue; /* queue 0: the context */
	uint32_t *go;
	pthread_t thread;
};

static void *destroyer_run(void *arg)
{
	struct destroyer *d = arg;

	while (!__atomic_load_n(d->go, __ATOMIC_ACQUIRE))
		;
	if (d->queue)
		raw_ioctl(d->fd, DRM_IOCTL_VNPU_QUEUE_DESTROY,
			  &(struct drm_vnpu_queue_destroy){ .queue_id = d->queue });
	else
		raw_ctx_destroy(d->fd, d->ctx);
	return NULL;
}

static void destroyer_start(struct destroyer *d)
{
	assert_int_equal(pthread_create(&d->thread, NULL, destroyer_run, d), 0);
}

/* A point of a timeline signals its waiters from another context than the firmware's call. */
static void a_queue_is_destroyed_while_the_fence_it_waits_for_signals(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op sync = { .handle = raw_syncobj(b->fd) };
	unsigned int seed = (unsigned int)raw_now_ns();
	struct vnpu_fw_sqe sqe = { 0 };
	struct drm_vnpu_job job;
	int64_t until;

	print_message("seed %u\n", seed);
	srand(seed);
	for (uint64_t i = 1; i <= 300; i++) {
		uint32_t go = 0;
		struct destroyer d = { .fd = b->fd, .queue = raw_queue(b->fd, b->ctx), .go = &go };

		sync.timeline_value = i;
		sync.flags = DRM_VNPU_SYNC_SIGNAL;
		job = raw_job(b->q.queue_id);
		raw_job_syncs(&job, &sync, 1);
		assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		sync.flags = 0;
		job = raw_job(d.queue);
		raw_job_syncs(&job, &sync, 1);
		assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
		destroyer_start(&d);
		until = raw_now_ns() + rand() % 1000000;
		__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
		while (raw_now_ns() < until)
			;
		raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
		pthread_join(d.thread, NULL);
		assert_int_equal(raw_syncobj_wait(b->fd, sync.handle, i, RAW_LONG_MS), 0);
		/* The waiting job may have come into the ring. */
		while (raw_fw_pop(&b->fw, &sqe, 0))
			if (sqe.type == VNPU_FW_SQE_JOB)
				raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	}
	raw_syncobj_destroy(b->fd, sync.handle);
}

/*
 * The firmware answers when CTX_CLOSE has come. A job that came after that would open the context
 * again, and its number would be lost: the device has eight.
 */
static void a_context_and_its_queue_are_destroyed_at_the_same_time(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe jobs[2], sqe = { 0 };

	for (int i = 0; i < 100; i++) {
		uint32_t go = 0, nr = 0, ctx = raw_ctx(b->fd);
		struct drm_vnpu_queue_create q = raw_queue_full(b->fd, ctx, 2);
		struct destroyer d[] = { { .fd = b->fd, .queue = q.queue_id, .go = &go },
					 { .fd = b->fd, .ctx = ctx, .go = &go } };

		for (int k = 0; k < 6; k++)
			raw_submit(b->fd, ctx, q.queue_id);
		for (int k = 0; k < 2; k++)
			destroyer_start(&d[k]);
		__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
		for (;;) {
			assert_true(raw_fw_pop(&b->fw, &sqe, RAW_LONG_MS));
			if (sqe.type == VNPU_FW_SQE_CTX_CLOSE)
				break;
			assert_true(sqe.type != VNPU_FW_SQE_JOB || nr < 2);
			if (sqe.type == VNPU_FW_SQE_JOB)
				jobs[nr++] = sqe;
		}
		for (uint32_t k = 0; k < nr; k++)
			raw_fw_done(&b->fw, &jobs[k], VNPU_FW_OK);
		raw_fw_closed(&b->fw, sqe.ctx);
		assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
		for (int k = 0; k < 2; k++)
			pthread_join(d[k].thread, NULL);
		while (raw_fw_pop(&b->fw, &sqe, 0))
			assert_int_not_equal(sqe.type, VNPU_FW_SQE_JOB);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(a_queue_accepts_its_depth_plus_the_limit_of_waiting_jobs),
		BENCH_TEST(jobs_that_wait_for_no_fence_are_bounded_in_the_same_way),
		BENCH_TEST(a_batch_beyond_the_limit_is_refused_and_leaves_no_fence),
		BENCH_TEST(a_queue_of_the_largest_depth_accepts_as_many_waiting_jobs),
		BENCH_TEST(a_queue_that_is_destroyed_gives_everything_back_at_once),
		BENCH_TEST(a_context_that_is_destroyed_gives_its_number_back_though_its_jobs_wait),
		BENCH_TEST(a_banned_context_s_waiting_jobs_end_before_their_fences_signal),
		BENCH_TEST(a_lost_firmware_ends_waiting_jobs_too),
		BENCH_TEST(the_largest_batches_of_one_client_do_not_block_another),
		BENCH_TEST(a_queue_is_destroyed_while_the_fence_it_waits_for_signals),
		BENCH_TEST(a_context_and_its_queue_are_destroyed_at_the_same_time),
	};

	return cmocka_run_group_tests_name("waiting", tests, NULL, NULL);
}
