// SPDX-License-Identifier: MIT
/*
 * Fences of vnpu.ko: syncobjs, sync_files, buffers' reservations, and their order. The test plays the firmware.
 */
#include <poll.h>
#include <linux/sync_file.h>

#include "vnpu_raw.h"

/* Submit one job with these sync operations; its number. */
static uint64_t submit_syncs(struct bench *b, uint32_t queue, struct drm_vnpu_sync_op *syncs, uint32_t nr)
{
	struct drm_vnpu_job job = raw_job(queue);

	raw_job_syncs(&job, syncs, nr);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	return job.seqno;
}

static uint64_t submit_bo(struct bench *b, uint32_t queue, uint32_t handle, uint32_t flags)
{
	struct drm_vnpu_bo_use use = { handle, flags };
	struct drm_vnpu_job job = raw_job(queue);

	raw_job_bos(&job, &use, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	return job.seqno;
}

static bool nothing_comes(struct bench *b)
{
	struct vnpu_fw_sqe sqe;

	return !raw_fw_pop(&b->fw, &sqe, 200);
}

static void a_binary_syncobj_signals_when_the_job_is_done(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };

	submit_syncs(b, b->q.queue_id, &out, 1);
	assert_int_equal(raw_syncobj_wait(b->fd, out.handle, 0, 0), -ETIME);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_syncobj_wait(b->fd, out.handle, 0, RAW_LONG_MS), 0);
}

static void timeline_points_signal_one_by_one(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };

	for (int i = 1; i <= 3; i++) {
		out.timeline_value = i * 10;
		submit_syncs(b, b->q.queue_id, &out, 1);
	}
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(raw_syncobj_wait(b->fd, out.handle, i * 10, 0), -ETIME);
		raw_fw_serve(&b->fw, VNPU_FW_OK);
		assert_int_equal(raw_syncobj_wait(b->fd, out.handle, i * 10, RAW_LONG_MS), 0);
		assert_int_equal(raw_syncobj_wait(b->fd, out.handle, i * 10 - 5, 0), 0);
	}
}

static void a_job_waits_for_a_job_of_another_queue(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), handle = raw_syncobj(b->fd);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, handle, 4 }, in = { 0, handle, 4 };
	struct vnpu_fw_sqe sqe;

	submit_syncs(b, b->q.queue_id, &out, 1);
	submit_syncs(b, q2, &in, 1);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_true(nothing_comes(b));
	raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	assert_int_not_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).queue, sqe.queue);
	assert_int_equal(raw_result(b->fd, q2, 1), 0);
}

static void a_job_does_not_overtake_one_of_its_queue_that_waits(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), handle = raw_syncobj(b->fd);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, handle, 0 }, in = { 0, handle, 0 };
	struct vnpu_fw_sqe sqe;

	submit_syncs(b, b->q.queue_id, &out, 1);
	raw_submit(b->fd, b->ctx, q2);
	submit_syncs(b, q2, &in, 1);
	for (int i = 0; i < 8; i++)
		raw_submit(b->fd, b->ctx, q2);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).seqno, 1);
	assert_true(nothing_comes(b));
	raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	for (int i = 2; i <= 10; i++)
		assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).seqno, i);
	assert_int_equal(raw_submit(b->fd, b->ctx, q2), 11);
	assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).seqno, 11);
	assert_int_equal(raw_result(b->fd, q2, 11), 0);
}

/* Of one batch some go straight into the ring, some wait in the scheduler, and some only come after one that waits. */
static void jobs_of_one_batch_keep_the_order_of_their_queue(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), handle = raw_syncobj(b->fd);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, handle, 0 }, in = { 0, handle, 0 };
	struct drm_vnpu_job jobs[] = { raw_job(q2), raw_job(q2), raw_job(b->q.queue_id), raw_job(q2) };
	struct vnpu_fw_sqe first, sqe;

	submit_syncs(b, b->q.queue_id, &out, 1);
	raw_job_syncs(&jobs[1], &in, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 4), 0);
	first = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	sqe = raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_not_equal(sqe.queue, first.queue);
	assert_int_equal(sqe.seqno, 1);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(sqe.queue, first.queue);
	assert_int_equal(sqe.seqno, 2);
	assert_true(nothing_comes(b));
	raw_fw_done(&b->fw, &first, VNPU_FW_OK);
	raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	for (int i = 2; i <= 3; i++) {
		sqe = raw_fw_serve(&b->fw, VNPU_FW_OK);
		assert_int_not_equal(sqe.queue, first.queue);
		assert_int_equal(sqe.seqno, i);
	}
	assert_int_equal(raw_result(b->fd, q2, 3), 0);
}

static void a_batch_beyond_the_depth_of_its_queue_waits_for_room(void **state)
{
	enum { DEPTH = 4, JOBS = 11 };
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue_full(b->fd, b->ctx, DEPTH).queue_id;
	struct vnpu_fw_sqe sqe[JOBS];
	struct drm_vnpu_job jobs[JOBS];

	for (int i = 0; i < JOBS; i++)
		jobs[i] = raw_job(q2);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, JOBS), 0);
	for (int i = 0; i < JOBS; i++) {
		if (i < DEPTH)
			sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		if (i == DEPTH - 1)
			assert_true(nothing_comes(b));
		if (i < DEPTH)
			continue;
		raw_fw_done(&b->fw, &sqe[i - DEPTH], VNPU_FW_OK);
		sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		assert_int_equal(sqe[i].seqno, i + 1);
	}
	for (int i = JOBS - DEPTH; i < JOBS; i++)
		raw_fw_done(&b->fw, &sqe[i], VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, q2, JOBS), 0);
	/* Nothing is left in the scheduler: the next one need not wait for it. */
	assert_int_equal(raw_submit(b->fd, b->ctx, q2), JOBS + 1);
	assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).seqno, JOBS + 1);
}

static void jobs_of_one_batch_may_wait_for_one_another(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), binary = raw_syncobj(b->fd), line = raw_syncobj(b->fd);
	struct drm_vnpu_sync_op s0[] = { { DRM_VNPU_SYNC_SIGNAL, binary, 0 } };
	struct drm_vnpu_sync_op s1[] = { { 0, binary, 0 }, { DRM_VNPU_SYNC_SIGNAL, line, 9 } };
	struct drm_vnpu_sync_op s2[] = { { 0, line, 8 } };
	struct drm_vnpu_job jobs[] = { raw_job(b->q.queue_id), raw_job(q2), raw_job(b->q.queue_id) };
	struct vnpu_fw_sqe sqe;

	raw_job_syncs(&jobs[0], s0, 1);
	raw_job_syncs(&jobs[1], s1, 2);
	raw_job_syncs(&jobs[2], s2, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 3), 0);
	for (int i = 0; i < 3; i++) {
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		assert_int_equal(sqe.seqno, i == 2 ? 2 : 1);
		assert_true(nothing_comes(b));
		raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	}
	/* The other way round there is nothing to wait for yet, and none of the batch is taken. */
	struct drm_vnpu_sync_op later[] = { { 0, line, 20 } }, earlier[] = { { DRM_VNPU_SYNC_SIGNAL, line, 20 } };

	raw_job_syncs(&jobs[0], later, 1);
	raw_job_syncs(&jobs[1], earlier, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), -EINVAL);
	assert_int_equal(raw_submit(b->fd, b->ctx, b->q.queue_id), 3);
}

static void a_job_waits_for_a_signal_from_the_cpu(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_syncobj(b->fd), q2 = raw_queue(b->fd, b->ctx);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, handle, 0 }, in = { 0, handle, 0 };

	submit_syncs(b, b->q.queue_id, &out, 1);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	submit_syncs(b, q2, &in, 1);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, q2, 1), 0);
}

static void a_job_that_waits_when_its_client_goes_does_not_run(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_syncobj(b->fd);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, handle, 0 }, in = { 0, handle, 0 };
	struct drm_vnpu_sync_op done = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
	struct drm_vnpu_sync_op both[] = { in, done };
	uint32_t q2 = raw_queue(b->fd, b->ctx);
	struct vnpu_fw_sqe sqe;

	submit_syncs(b, b->q.queue_id, &out, 1);
	submit_syncs(b, q2, both, 2);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(raw_queue_destroy(b->fd, q2), 0);
	/* Its fence waits for what it would have waited for, so that nobody sees memory too early. */
	assert_int_equal(raw_syncobj_wait(b->fd, done.handle, 0, 0), -ETIME);
	raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	assert_int_equal(raw_syncobj_wait(b->fd, done.handle, 0, RAW_LONG_MS), 0);
	assert_true(nothing_comes(b));
}

static int export_sync_file(int fd, uint32_t syncobj)
{
	struct drm_syncobj_handle handle = { .handle = syncobj,
					     .flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE };

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &handle), 0);
	return handle.fd;
}

static void a_sync_file_outlives_queue_client_and_device(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
	struct sync_fence_info fence = { 0 };
	struct sync_file_info info = { .num_fences = 1, .sync_fence_info = (uintptr_t)&fence };
	struct pollfd p = { .events = POLLIN };

	submit_syncs(b, b->q.queue_id, &out, 1);
	p.fd = export_sync_file(b->fd, out.handle);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(raw_ioctl(p.fd, SYNC_IOC_FILE_INFO, &info), 0);
	assert_string_equal(fence.driver_name, "vnpu");
	close(b->fd);
	assert_int_equal(poll(&p, 1, RAW_LONG_MS), 1);
	raw_fw_remove(&b->fw);
	/* Newer kernels no longer ask a signalled fence for its names. */
	info.num_fences = 1;
	assert_int_equal(raw_ioctl(p.fd, SYNC_IOC_FILE_INFO, &info), 0);
	assert_int_equal(info.status, -ECANCELED);
	assert_int_equal(fence.status, -ECANCELED);
	close(p.fd);
	raw_fw_add(&b->fw, NULL);
	b->fd = -1;
}

static void a_sync_file_tells_why_the_job_failed(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
	struct sync_file_info info = { 0 };
	int fd;

	submit_syncs(b, b->q.queue_id, &out, 1);
	fd = export_sync_file(b->fd, out.handle);
	assert_int_equal(raw_ioctl(fd, SYNC_IOC_FILE_INFO, &info), 0);
	assert_int_equal(info.status, 0);
	info = (struct sync_file_info){ 0 };
	raw_fw_serve(&b->fw, VNPU_FW_FAILED);
	assert_int_equal(raw_ioctl(fd, SYNC_IOC_FILE_INFO, &info), 0);
	assert_int_equal(info.status, -EIO);
	close(fd);
}

/* ---- buffers ---- */

static int bo_wait(struct bench *b, uint32_t handle, uint32_t flags, int64_t ms)
{
	struct drm_vnpu_bo_wait wait = { handle, flags, ms ? raw_in_ms(ms) : 0 };

	return raw_ioctl(b->fd, DRM_IOCTL_VNPU_BO_WAIT, &wait);
}

static void bo_wait_tells_readers_from_writers(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, PAGE);

	submit_bo(b, b->q.queue_id, handle, 0);
	assert_int_equal(bo_wait(b, handle, 0, 0), 0);
	assert_int_equal(bo_wait(b, handle, DRM_VNPU_BO_WAIT_WRITE, 0), -ETIMEDOUT);
	assert_int_equal(bo_wait(b, handle, DRM_VNPU_BO_WAIT_WRITE, 50), -ETIMEDOUT);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(bo_wait(b, handle, DRM_VNPU_BO_WAIT_WRITE, RAW_LONG_MS), 0);
	submit_bo(b, b->q.queue_id, handle, DRM_VNPU_BO_USE_WRITE);
	assert_int_equal(bo_wait(b, handle, 0, 0), -ETIMEDOUT);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(bo_wait(b, handle, 0, RAW_LONG_MS), 0);
}

static void readers_share_a_buffer_and_a_writer_waits_for_them(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), q3 = raw_queue(b->fd, b->ctx), handle = raw_bo(b->fd, PAGE);
	struct vnpu_fw_sqe r1, r2, w;

	submit_bo(b, b->q.queue_id, handle, 0);
	submit_bo(b, q2, handle, 0);
	submit_bo(b, q3, handle, DRM_VNPU_BO_USE_WRITE);
	submit_bo(b, b->q.queue_id, handle, 0);
	r1 = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	r2 = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_true(nothing_comes(b));
	raw_fw_done(&b->fw, &r2, VNPU_FW_OK);
	assert_true(nothing_comes(b));
	raw_fw_done(&b->fw, &r1, VNPU_FW_OK);
	w = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_true(w.queue != r1.queue && w.queue != r2.queue);
	assert_true(nothing_comes(b));
	raw_fw_done(&b->fw, &w, VNPU_FW_OK);
	assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).seqno, 2);
}

static void jobs_of_one_queue_do_not_wait_for_one_another_s_buffers(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, PAGE);
	struct vnpu_fw_sqe sqe[3];

	for (int i = 0; i < 3; i++)
		submit_bo(b, b->q.queue_id, handle, DRM_VNPU_BO_USE_WRITE);
	for (int i = 0; i < 3; i++)
		sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	for (int i = 0; i < 3; i++)
		raw_fw_done(&b->fw, &sqe[i], VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 3), 0);
}

static void a_batch_orders_its_jobs_by_their_buffers(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), x = raw_bo(b->fd, PAGE), y = raw_bo(b->fd, PAGE);
	struct drm_vnpu_bo_use first[] = { { y, 0 }, { x, 0 }, { x, DRM_VNPU_BO_USE_WRITE } };
	struct drm_vnpu_bo_use second[] = { { x, 0 }, { x, 0 }, { y, 0 } };
	struct drm_vnpu_job jobs[] = { raw_job(b->q.queue_id), raw_job(q2) };
	struct vnpu_fw_sqe sqe;

	raw_job_bos(&jobs[0], first, 3);
	raw_job_bos(&jobs[1], second, 3);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), 0);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_true(nothing_comes(b));
	raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, q2, 1), 0);
}

static void a_batch_with_a_bad_member_leaves_no_fence_behind(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, PAGE), syncobj = raw_syncobj(b->fd);
	struct drm_vnpu_bo_use use = { handle, DRM_VNPU_BO_USE_WRITE };
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, syncobj, 3 }, bad = { 0, raw_syncobj(b->fd), 0 };
	struct drm_vnpu_job jobs[] = { raw_job(b->q.queue_id), raw_job(b->q.queue_id) };

	raw_job_bos(&jobs[0], &use, 1);
	raw_job_syncs(&jobs[0], &out, 1);
	raw_job_syncs(&jobs[1], &bad, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), -EINVAL);
	assert_int_equal(bo_wait(b, handle, DRM_VNPU_BO_WAIT_WRITE, 0), 0);
	assert_int_equal(raw_syncobj_wait(b->fd, syncobj, 3, 0), -EINVAL);
	assert_true(nothing_comes(b));
	assert_int_equal(raw_submit(b->fd, b->ctx, b->q.queue_id), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(a_binary_syncobj_signals_when_the_job_is_done),
		BENCH_TEST(timeline_points_signal_one_by_one),
		BENCH_TEST(a_job_waits_for_a_job_of_another_queue),
		BENCH_TEST(a_job_does_not_overtake_one_of_its_queue_that_waits),
		BENCH_TEST(jobs_of_one_batch_keep_the_order_of_their_queue),
		BENCH_TEST(a_batch_beyond_the_depth_of_its_queue_waits_for_room),
		BENCH_TEST(jobs_of_one_batch_may_wait_for_one_another),
		BENCH_TEST(a_job_waits_for_a_signal_from_the_cpu),
		BENCH_TEST(a_job_that_waits_when_its_client_goes_does_not_run),
		BENCH_TEST(a_sync_file_outlives_queue_client_and_device),
		BENCH_TEST(a_sync_file_tells_why_the_job_failed),
		BENCH_TEST(bo_wait_tells_readers_from_writers),
		BENCH_TEST(readers_share_a_buffer_and_a_writer_waits_for_them),
		BENCH_TEST(jobs_of_one_queue_do_not_wait_for_one_another_s_buffers),
		BENCH_TEST(a_batch_orders_its_jobs_by_their_buffers),
		BENCH_TEST(a_batch_with_a_bad_member_leaves_no_fence_behind),
	};

	return cmocka_run_group_tests_name("sync", tests, NULL, NULL);
}
