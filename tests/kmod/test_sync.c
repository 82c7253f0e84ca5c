// SPDX-License-Identifier: MIT
/*
 * Explicit synchronisation of vnpu.ko: syncobjs, sync_files, and the order of jobs. The test plays
 * the firmware.
 */
#include <poll.h>
#include <sys/eventfd.h>
#include <linux/sync_file.h>

#include "foreign.h"

/* Submits one job with these sync operations. Returns its number. */
static uint64_t submit_syncs(struct bench *b, uint32_t queue, struct drm_vnpu_sync_op *syncs,
			     uint32_t nr)
{
	struct drm_vnpu_job job = raw_job(queue);

	raw_job_syncs(&job, syncs, nr);
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

/*
 * Of one batch, some jobs go straight into the ring, some wait in the kernel, and some only follow
 * one that waits.
 */
static void jobs_of_one_batch_keep_the_order_of_their_queue(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), handle = raw_syncobj(b->fd);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, handle, 0 }, in = { 0, handle, 0 };
	struct drm_vnpu_job jobs[] = { raw_job(q2), raw_job(q2), raw_job(b->q.queue_id),
				       raw_job(q2) };
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
	/* No job is waiting: the next one goes straight into the ring. */
	assert_int_equal(raw_submit(b->fd, b->ctx, q2), JOBS + 1);
	assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).seqno, JOBS + 1);
}

static void jobs_of_one_batch_may_wait_for_one_another(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), binary = raw_syncobj(b->fd),
		 line = raw_syncobj(b->fd);
	struct drm_vnpu_sync_op s0[] = { { DRM_VNPU_SYNC_SIGNAL, binary, 0 } };
	struct drm_vnpu_sync_op s1[] = { { 0, binary, 0 }, { DRM_VNPU_SYNC_SIGNAL, line, 9 } };
	struct drm_vnpu_sync_op s2[] = { { 0, line, 8 } };
	struct drm_vnpu_job jobs[] = { raw_job(b->q.queue_id), raw_job(q2),
				       raw_job(b->q.queue_id) };
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
	/* In the other order there is nothing to wait for yet, and the whole batch is refused. */
	struct drm_vnpu_sync_op later[] = { { 0, line, 20 } },
				earlier[] = { { DRM_VNPU_SYNC_SIGNAL, line, 20 } };

	raw_job_syncs(&jobs[0], later, 1);
	raw_job_syncs(&jobs[1], earlier, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), -EINVAL);
	assert_int_equal(raw_submit(b->fd, b->ctx, b->q.queue_id), 3);
}

/* SUBMIT refuses to wait for points that no job signals, and does not wait for passed ones. */
static void points_that_the_cpu_has_signalled_are_not_waited_for(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op in = { .handle = raw_syncobj(b->fd) };
	struct drm_vnpu_job job = raw_job(b->q.queue_id);

	raw_job_syncs(&job, &in, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), -EINVAL);
	raw_syncobj_signal(b->fd, in.handle, 0);
	submit_syncs(b, b->q.queue_id, &in, 1);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
	/* A point signalled by the CPU replaces all before it. */
	raw_syncobj_signal(b->fd, in.handle, 9);
	in.timeline_value = 8;
	submit_syncs(b, b->q.queue_id, &in, 1);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 2), 0);
}

/* Another driver's fence, which this test signals with a call while the job waits. */
static void a_job_waits_for_a_fence_that_the_cpu_signals(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op in = { 0 };
	struct foreign f;

	if (!foreign_make(&f))
		skip();
	in.handle = raw_syncobj_of(b->fd, f.sync_file);
	submit_syncs(b, b->q.queue_id, &in, 1);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	assert_true(nothing_comes(b));
	assert_false(raw_is_done(b->fd, b->q.queue_id, 1));
	foreign_signal(&f);
	for (int i = 1; i <= 2; i++)
		assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).seqno, i);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 2), 0);
	foreign_end(&f);
}

/* Neither the call that destroys the queue nor waiters for the job's fence have to wait. */
static void a_waiting_job_ends_at_once_when_its_queue_goes_and_does_not_run(void **state)
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
	assert_int_equal(raw_syncobj_wait(b->fd, done.handle, 0, 0), -ETIME);
	assert_int_equal(raw_queue_destroy(b->fd, q2), 0);
	assert_int_equal(raw_syncobj_wait(b->fd, done.handle, 0, RAW_LONG_MS), 0);
	assert_int_equal(raw_syncobj_wait(b->fd, handle, 0, 0), -ETIME);
	raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	assert_true(nothing_comes(b));
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
}

/* Only the first waiting job's fences are checked: the second's may signal much earlier. */
static void a_job_whose_fences_are_signalled_waits_behind_one_whose_are_not(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), q3 = raw_queue(b->fd, b->ctx);
	struct drm_vnpu_sync_op out2 = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
	struct drm_vnpu_sync_op out3 = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
	struct drm_vnpu_sync_op in[] = { { 0, out2.handle, 0 }, { 0, out3.handle, 0 } };
	struct vnpu_fw_sqe two, three;

	submit_syncs(b, q2, &out2, 1);
	two = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	submit_syncs(b, q3, &out3, 1);
	three = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	submit_syncs(b, b->q.queue_id, in, 2);
	submit_syncs(b, b->q.queue_id, &in[1], 1);
	raw_fw_done(&b->fw, &three, VNPU_FW_OK);
	assert_true(nothing_comes(b));
	raw_fw_done(&b->fw, &two, VNPU_FW_OK);
	for (int i = 1; i <= 2; i++)
		assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).seqno, i);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 2), 0);
}

static void a_job_runs_after_a_failed_dependency(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), handle = raw_syncobj(b->fd);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, handle, 0 }, in = { 0, handle, 0 };

	submit_syncs(b, b->q.queue_id, &out, 1);
	submit_syncs(b, q2, &in, 1);
	raw_fw_serve(&b->fw, VNPU_FW_FAILED);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), -EIO);
	assert_int_equal(raw_result(b->fd, q2, 1), 0);
}

/* ---- longest lifetime of a fence ---- */

static void a_job_with_a_fence_cannot_have_a_timeout_longer_than_a_fence(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_query_limits limits = raw_limits(b->fd);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
	struct drm_vnpu_job jobs[] = { raw_job(b->q.queue_id), raw_job(b->q.queue_id) };

	assert_int_equal(limits.max_fence_ms, 10000);
	assert_true(limits.max_timeout_ms > limits.max_fence_ms);
	raw_job_syncs(&jobs[1], &out, 1);
	jobs[1].timeout_ms = limits.max_fence_ms + 1;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), -ERANGE);
	jobs[1].timeout_ms = limits.max_timeout_ms;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), -ERANGE);
	assert_true(nothing_comes(b));
	assert_int_equal(raw_syncobj_wait(b->fd, out.handle, 0, 0), -EINVAL);
	/* Timeouts of exactly that length, unset ones, and those of a job that only waits. */
	jobs[1].timeout_ms = limits.max_fence_ms;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), 0);
	assert_int_equal(jobs[0].seqno, 1);
	jobs[1].timeout_ms = 0;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &jobs[1], 1), 0);
	out.flags = 0;
	jobs[1].timeout_ms = limits.max_timeout_ms;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &jobs[1], 1), 0);
	for (int i = 0; i < 4; i++)
		raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 4), 0);
}

/* ---- fences as files ---- */

static void fences_are_exported_and_imported_only_if_the_parameter_allows_it(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
	struct drm_syncobj_handle arg = { .handle = out.handle };
	int file;

	submit_syncs(b, b->q.queue_id, &out, 1);
	raw_fence_export(false);
	assert_int_equal(raw_export_sync_file(b->fd, out.handle), -EOPNOTSUPP);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &arg), -EOPNOTSUPP);
	arg.flags = UINT32_MAX;
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &arg), -EOPNOTSUPP);
	file = raw_sync_file(b->fd, out.handle);
	for (uint32_t flags = 0; flags < 4; flags++) {
		arg = (struct drm_syncobj_handle){ .handle = out.handle,
						   .flags = flags,
						   .fd = file };
		assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &arg),
				 -EOPNOTSUPP);
	}
	assert_int_equal(raw_syncobj_wait(b->fd, raw_syncobj_of(b->fd, file), 0, 0), -ETIME);
	close(file);
	raw_fence_export(true);
	arg = (struct drm_syncobj_handle){ .handle = out.handle };
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &arg), 0);
	arg.handle = 0;
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &arg), 0);
	raw_fence_export(false);
	close(arg.fd);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_syncobj_wait(b->fd, arg.handle, 0, RAW_LONG_MS), 0);
}

static void an_eventfd_reports_a_fence_without_any_module_parameter(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
	struct raw_syncobj_eventfd arg = { .handle = out.handle, .fd = eventfd(0, EFD_CLOEXEC) };
	struct pollfd p = { .fd = arg.fd, .events = POLLIN };

	assert_true(arg.fd >= 0);
	submit_syncs(b, b->q.queue_id, &out, 1);
	assert_int_equal(raw_ioctl(b->fd, RAW_SYNCOBJ_EVENTFD, &arg), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(poll(&p, 1, RAW_LONG_MS), 1);
	close(arg.fd);
}

static void a_sync_file_outlives_queue_client_and_device(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
	struct sync_fence_info fence = { 0 };
	struct sync_file_info info = { .num_fences = 1, .sync_fence_info = (uintptr_t)&fence };
	struct pollfd p = { .events = POLLIN };

	submit_syncs(b, b->q.queue_id, &out, 1);
	p.fd = raw_sync_file(b->fd, out.handle);
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

static void a_sync_file_reports_why_the_job_failed(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
	struct sync_file_info info = { 0 };
	int fd;

	submit_syncs(b, b->q.queue_id, &out, 1);
	fd = raw_sync_file(b->fd, out.handle);
	assert_int_equal(raw_ioctl(fd, SYNC_IOC_FILE_INFO, &info), 0);
	assert_int_equal(info.status, 0);
	info = (struct sync_file_info){ 0 };
	raw_fw_serve(&b->fw, VNPU_FW_FAILED);
	assert_int_equal(raw_ioctl(fd, SYNC_IOC_FILE_INFO, &info), 0);
	assert_int_equal(info.status, -EIO);
	close(fd);
}

static void a_batch_with_a_bad_member_leaves_no_fence_behind(void **state)
{
	struct bench *b = bench(state);
	uint32_t syncobj = raw_syncobj(b->fd);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, syncobj, 3 },
				bad = { 0, raw_syncobj(b->fd), 0 };
	struct drm_vnpu_job jobs[] = { raw_job(b->q.queue_id), raw_job(b->q.queue_id) };

	raw_job_syncs(&jobs[0], &out, 1);
	raw_job_syncs(&jobs[1], &bad, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), -EINVAL);
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
		BENCH_TEST(points_that_the_cpu_has_signalled_are_not_waited_for),
		BENCH_TEST(a_job_waits_for_a_fence_that_the_cpu_signals),
		BENCH_TEST(a_waiting_job_ends_at_once_when_its_queue_goes_and_does_not_run),
		BENCH_TEST(a_job_whose_fences_are_signalled_waits_behind_one_whose_are_not),
		BENCH_TEST(a_job_runs_after_a_failed_dependency),
		BENCH_TEST(a_job_with_a_fence_cannot_have_a_timeout_longer_than_a_fence),
		BENCH_TEST(fences_are_exported_and_imported_only_if_the_parameter_allows_it),
		BENCH_TEST(an_eventfd_reports_a_fence_without_any_module_parameter),
		BENCH_TEST(a_sync_file_outlives_queue_client_and_device),
		BENCH_TEST(a_sync_file_reports_why_the_job_failed),
		BENCH_TEST(a_batch_with_a_bad_member_leaves_no_fence_behind),
	};

	return cmocka_run_group_tests_name("sync", tests, NULL, NULL);
}
