// SPDX-License-Identifier: MIT
/*
 * vnpu.ko as a firmware sees it: the test plays a small firmware step by step, correct and faulty,
 * and a client.
 */
#include <poll.h>

#include "vnpu_raw.h"

static void a_job_travels_to_the_firmware_and_back(void **state)
{
	struct bench *b = bench(state);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	struct drm_vnpu_job job = raw_job(b->q.queue_id);
	struct vnpu_fw_sqe sqe;

	assert_int_equal(page->completed_seqno, 0);
	assert_int_equal(page->epoch, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	assert_int_equal(job.seqno, 1);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(sqe.seqno, 1);
	assert_int_equal(sqe.priority, DRM_VNPU_PRIORITY_NORMAL);
	assert_int_equal(sqe.cmd_va, job.cmd_va);
	assert_int_equal(sqe.table_va, job.table_va);
	assert_int_equal(sqe.cmd_size, job.cmd_size);
	assert_int_equal(sqe.table_size, job.table_size);
	assert_false(raw_is_done(b->fd, b->q.queue_id, 1));
	assert_int_equal(raw_fw_done(&b->fw, &sqe, VNPU_FW_OK), 1);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
	assert_int_equal(page->completed_seqno, 1);
	assert_int_equal(page->error, 0);
	munmap((void *)page, PAGE);
}

/* ---- results --------------------------------------------------------------------------------- */

static void the_firmware_s_verdict_is_the_job_s_result(void **state)
{
	struct bench *b = bench(state);
	const struct {
		uint32_t status;
		int result;
	} cases[] = {
		{ VNPU_FW_OK, 0 },
		{ VNPU_FW_INVALID, -EINVAL },
		{ VNPU_FW_CANCELED, -ECANCELED },
		{ VNPU_FW_FAILED, -EIO },
		{ 5, -EIO },
		{ UINT32_MAX, -EIO },
	};
	uint32_t q = raw_queue_full(b->fd, b->ctx, 8).queue_id;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(raw_submit(b->fd, b->ctx, q), i + 1);
		raw_fw_serve(&b->fw, cases[i].status);
		assert_int_equal(raw_result(b->fd, q, i + 1), cases[i].result);
	}
	/* These results do not ban the context, and can be read again. */
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(raw_result(b->fd, q, i + 1), cases[i].result);
}

static uint64_t roundup_pow_of_two(uint64_t n)
{
	uint64_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* Every second job fails, until the oldest are forgotten. */
static void results_are_remembered_as_far_as_jobs_can_wait_and_failures_for_ever(void **state)
{
	struct bench *b = bench(state);
	uint64_t known = roundup_pow_of_two(b->q.depth + raw_limits(b->fd).max_waiting_jobs),
		 seqno = 0;

	for (uint64_t i = 0; i < known + 3; i++) {
		seqno = raw_submit(b->fd, b->ctx, b->q.queue_id);
		raw_fw_serve(&b->fw, seqno % 2 ? VNPU_FW_INVALID : VNPU_FW_OK);
	}
	for (uint64_t s = seqno - known + 1; s <= seqno; s++)
		assert_int_equal(raw_result(b->fd, b->q.queue_id, s), s % 2 ? -EINVAL : 0);
	for (uint64_t s = 1; s <= seqno - known; s++)
		assert_int_not_equal(raw_result(b->fd, b->q.queue_id, s), 0);
}

static void a_failure_is_forgotten_only_with_all_before_it(void **state)
{
	struct bench *b = bench(state);
	uint64_t known = roundup_pow_of_two(b->q.depth + raw_limits(b->fd).max_waiting_jobs);

	/* The second fails; then the first two are forgotten, and no others. */
	for (uint64_t i = 1; i <= known + 2; i++) {
		raw_submit(b->fd, b->ctx, b->q.queue_id);
		raw_fw_serve(&b->fw, i == 2 ? VNPU_FW_INVALID : VNPU_FW_OK);
	}
	assert_int_not_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
	assert_int_not_equal(raw_result(b->fd, b->q.queue_id, 2), 0);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 3), 0);
	/* Forgotten jobs that nobody waited for cause no error for others. */
	for (uint64_t i = 0; i < known; i++) {
		raw_submit(b->fd, b->ctx, b->q.queue_id);
		raw_fw_serve(&b->fw, VNPU_FW_OK);
	}
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 3), 0);
}

static void a_fault_bans_the_context_and_cancels_its_other_jobs(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), ctx2 = raw_ctx(b->fd), q3 = raw_queue(b->fd, ctx2);
	struct drm_vnpu_job job = raw_job(b->q.queue_id);
	struct drm_vnpu_ctx_get_state s;
	struct vnpu_fw_sqe sqe;

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_submit(b->fd, b->ctx, q2);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE,
						  .status = VNPU_FW_FAULT,
						  .tag = sqe.tag,
						  .fault_va = 0xdead000,
						  .flags = VNPU_FW_CQE_FAULT_WRITE });
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), -EFAULT);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 2), -ECANCELED);
	assert_int_equal(raw_result(b->fd, q2, 1), -ECANCELED);
	s = raw_ctx_state(b->fd, b->ctx);
	assert_int_equal(s.state, DRM_VNPU_CTX_FAULT);
	assert_int_equal(s.fault_va, 0xdead000);
	assert_int_equal(s.fault_flags, DRM_VNPU_FAULT_WRITE);
	assert_int_equal(s.queue_id, b->q.queue_id);
	assert_int_equal(s.seqno, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), -ECANCELED);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL);
	/* Other queues are not affected. */
	raw_submit(b->fd, ctx2, q3);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, q3, 1), 0);
}

static void a_silent_firmware_s_jobs_are_given_up_one_by_one_and_its_client_goes_on(void **state)
{
	struct bench *b = bench(state);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	struct drm_vnpu_job jobs[] = { raw_job(b->q.queue_id), raw_job(b->q.queue_id) };
	struct vnpu_fw_sqe sqe[2], cancel;

	jobs[0].timeout_ms = jobs[1].timeout_ms = 300;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), 0);
	for (int i = 0; i < 2; i++)
		sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), -EBUSY);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 2), -EBUSY);
	assert_int_equal(page->error, EBUSY);
	assert_int_equal(page->completed_seqno, 2);
	for (int i = 0; i < 2; i++) {
		cancel = raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL);
		assert_true(cancel.tag == sqe[i].tag);
		assert_int_equal(cancel.ctx, sqe[i].ctx);
		assert_int_equal(cancel.queue, sqe[i].queue);
	}
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state, 0);
	raw_fw_done(&b->fw, &sqe[1], VNPU_FW_CANCELED);
	assert_int_equal(raw_submit(b->fd, b->ctx, b->q.queue_id), 3);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 3), 0);
	/* The firmware's answers to the cancelled jobs change nothing. */
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 2), -EBUSY);
	munmap((void *)page, PAGE);
}

static void a_job_that_started_and_hangs_bans_its_context(void **state)
{
	struct bench *b = bench(state);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	struct drm_vnpu_job jobs[] = { raw_job(b->q.queue_id), raw_job(b->q.queue_id) };
	struct drm_vnpu_ctx_get_state s;
	struct vnpu_fw_sqe sqe, cancel;

	jobs[0].timeout_ms = 300;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), 0);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_fw_started(&b->fw, &sqe);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), -ETIMEDOUT);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 2), -ECANCELED);
	s = raw_ctx_state(b->fd, b->ctx);
	assert_int_equal(s.state, DRM_VNPU_CTX_TIMEDOUT);
	assert_int_equal(s.seqno, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 1), -ECANCELED);
	assert_int_equal(page->error, ETIMEDOUT);
	assert_int_equal(page->completed_seqno, 2);
	cancel = raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL);
	assert_true(cancel.tag == sqe.tag);
	munmap((void *)page, PAGE);
}

static void the_clock_of_a_job_starts_when_it_is_first_in_its_queue(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_job jobs[] = { raw_job(b->q.queue_id), raw_job(b->q.queue_id) };
	struct vnpu_fw_sqe first, second;

	jobs[0].timeout_ms = 50000;
	jobs[1].timeout_ms = 400;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), 0);
	first = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	second = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	/* Longer than the second job's timeout, which must not have started. */
	usleep(900000);
	assert_false(raw_is_done(b->fd, b->q.queue_id, 1));
	raw_fw_done(&b->fw, &first, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 2), -EBUSY);
	assert_true(raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL).tag == second.tag);
}

static void an_answer_in_the_ring_is_found_before_the_job_times_out(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_job job = raw_job(b->q.queue_id);
	struct vnpu_fw_sqe sqe;

	job.timeout_ms = 300;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	/* Posted, but the firmware never calls ENTER again. */
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = sqe.tag });
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state, 0);
}

/* ---- a firmware that misbehaves ---- */

static void unknown_stale_and_double_completions_are_dropped(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe one, two;
	uint32_t taken;

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	one = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	two = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	const uint64_t tags[] = { 0x1234567,
				  UINT64_MAX,
				  one.tag + (1ull << 32),
				  one.tag ^ (1ull << 63),
				  one.tag + 16,
				  one.tag - 1,
				  one.tag + (1u << 31),
				  two.tag /* out of order */ };

	for (size_t i = 0; i < sizeof(tags) / sizeof(*tags); i++)
		raw_fw_post(&b->fw,
			    (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = tags[i] });
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = 0, .tag = one.tag });
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = 77, .tag = one.tag });
	raw_fw_closed(&b->fw, one.ctx);
	raw_fw_closed(&b->fw, 0);
	raw_fw_post(&b->fw,
		    (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED, .tag = UINT64_MAX });
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, &taken), 0);
	assert_int_equal(taken, sizeof(tags) / sizeof(*tags) + 5);
	assert_false(raw_is_done(b->fd, b->q.queue_id, 1));
	assert_false(raw_is_done(b->fd, b->q.queue_id, 2));
	raw_fw_done(&b->fw, &one, VNPU_FW_OK);
	raw_fw_done(&b->fw, &one, VNPU_FW_INVALID);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
	assert_false(raw_is_done(b->fd, b->q.queue_id, 2));
	raw_fw_done(&b->fw, &two, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 2), 0);
}

static void indices_out_of_bounds_lose_the_device(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_enter enter = { .flags = VNPU_FW_ENTER_COMPLETE };

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	b->fw.ctl->cq_tail = b->fw.cq_entries + 1;
	assert_int_equal(raw_ioctl(b->fw.fd, VNPU_FW_ENTER, &enter), -EPROTO);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), -EIO);
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state, DRM_VNPU_CTX_FW_LOST);
	assert_int_equal(raw_ioctl(b->fw.fd, VNPU_FW_ENTER, &enter), -EPROTO);
	/* Another may attach while the first still holds its fd. */
	struct raw_fw other = b->fw;

	assert_int_equal(raw_fw_attach(&other), 0);
	raw_fw_start(&other);
	raw_fw_die(&other);
}

static void a_submission_index_out_of_bounds_loses_the_device_too(void **state)
{
	struct bench *b = bench(state);

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	b->fw.ctl->sq_head = 1000000;
	/* The next job finds no room in such a ring, and fails. */
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 2), -EIO);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), -EPROTO);
}

static void random_completions_do_no_harm(void **state)
{
	struct bench *b = bench(state);
	unsigned int seed = (unsigned int)raw_now_ns();
	struct drm_vnpu_job job = raw_job(b->q.queue_id);
	struct vnpu_fw_sqe sqe;
	int ret;

	print_message("seed %u\n", seed);
	srand(seed);
	for (int i = 0; i < 3000; i++) {
		/* Few jobs are answered, so the queue becomes full. */
		ret = rand() % 4 ? 0 : raw_submit_jobs(b->fd, b->ctx, &job, 1);
		assert_true(!ret || (ret == -ENOSPC && i > 256));
		raw_fw_post(&b->fw, (struct vnpu_fw_cqe){
					    .type = rand() % 3,
					    .status = rand() % 6 == 2 ? 0 : rand() % 6,
					    .tag = (uint64_t)(rand() % 9) << 32 | (rand() % 1000),
					    .busy_ns = (uint64_t)rand() << 33,
					    .flags = rand() % 8 ? rand() % 2 : rand(),
					    .pad = rand() % 8 == 0 });
		assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
		if (raw_ctx_state(b->fd, b->ctx).state)
			break;
	}
	while (raw_fw_pop(&b->fw, &sqe, 0))
		;
}

/* ---- queues in the ring ---------------------------------------------------------------------- */

static void no_more_jobs_than_the_depth_are_in_the_ring(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe sqe[12];

	for (int i = 0; i < 12; i++)
		raw_submit(b->fd, b->ctx, b->q.queue_id);
	for (int i = 0; i < 4; i++)
		sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_false(raw_fw_pop(&b->fw, &sqe[4], 300));
	for (int i = 0; i < 12; i++) {
		if (i >= 4)
			sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		assert_int_equal(sqe[i].seqno, i + 1);
		if (i >= 3)
			raw_fw_done(&b->fw, &sqe[i - 3], VNPU_FW_OK);
	}
	for (int i = 9; i < 12; i++)
		raw_fw_done(&b->fw, &sqe[i], VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 12), 0);
}

static void a_destroyed_queue_cancels_its_jobs_and_keeps_its_slot_until_all_answered(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_queue_create q;
	struct drm_vnpu_sync_op out = { .flags = DRM_VNPU_SYNC_SIGNAL,
					.handle = raw_syncobj(b->fd) };
	struct drm_vnpu_job jobs[6];
	struct vnpu_fw_sqe sqe, next;

	for (int i = 0; i < 6; i++)
		jobs[i] = raw_job(b->q.queue_id);
	raw_job_syncs(&jobs[5], &out, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 6), 0);
	for (int i = 0; i < 4; i++)
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(raw_queue_destroy(b->fd, b->q.queue_id), 0);
	assert_int_equal(raw_syncobj_wait(b->fd, out.handle, 0, RAW_LONG_MS), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL).queue, sqe.queue);
	/* No other queue gets the slot while the firmware may still write its status page. */
	q = raw_queue_full(b->fd, b->ctx, 4);
	raw_submit(b->fd, b->ctx, q.queue_id);
	next = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_not_equal(next.queue, sqe.queue);
	raw_fw_done(&b->fw, &next, VNPU_FW_OK);
	assert_int_equal(raw_queue_destroy(b->fd, q.queue_id), 0);
	raw_fw_done(&b->fw, &sqe, VNPU_FW_CANCELED);
	q = raw_queue_full(b->fd, b->ctx, 4);
	raw_submit(b->fd, b->ctx, q.queue_id);
	assert_int_equal(raw_fw_serve(&b->fw, VNPU_FW_OK).queue, sqe.queue);
	assert_int_equal(raw_result(b->fd, q.queue_id, 1), 0);
	b->q = q;
}

/* ---- the end of clients ---------------------------------------------------------------------- */

static void a_client_that_closes_leaves_nothing_behind(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe sqe, close_sqe;
	struct drm_vnpu_ctx_create create = { 0 };
	int other = raw_client(b->fw.minor);

	for (int i = 0; i < 10; i++)
		raw_submit(b->fd, b->ctx, b->q.queue_id);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	close(b->fd);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL);
	close_sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_CTX_CLOSE);
	assert_int_equal(close_sqe.ctx, sqe.ctx);
	/* The number stays in use until the firmware has answered: seven of eight are left. */
	for (int i = 0; i < 7; i++)
		assert_int_equal(raw_ioctl(other, DRM_IOCTL_VNPU_CTX_CREATE, &create), 0);
	assert_int_equal(raw_ioctl(other, DRM_IOCTL_VNPU_CTX_CREATE, &create), -EBUSY);
	raw_fw_closed(&b->fw, sqe.ctx);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	for (int64_t until = raw_in_ms(RAW_LONG_MS);;) {
		if (!raw_ioctl(other, DRM_IOCTL_VNPU_CTX_CREATE, &create))
			break;
		assert_true(raw_now_ns() < until);
		usleep(1000);
	}
	/* Late answers are dropped. */
	raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
	b->fd = other;
}

static void a_number_is_not_reused_while_the_firmware_maps_its_aperture(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_ctx_create create = { 0 };
	struct vnpu_fw_sqe sqe;
	uint8_t *aperture;
	uint32_t num;

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	num = raw_fw_serve(&b->fw, VNPU_FW_OK).ctx;
	aperture = raw_fw_map(b->fw.fd, (uint64_t)num << 32, 1ull << 32, PROT_READ | PROT_WRITE);
	assert_non_null(aperture);
	assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_CTX_CLOSE);
	raw_fw_closed(&b->fw, sqe.ctx);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	for (int i = 0; i < 7; i++)
		assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), 0);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), -EBUSY);
	munmap(aperture, 1ull << 32);
	for (int64_t until = raw_in_ms(RAW_LONG_MS);
	     raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create) == -EBUSY;)
		assert_true(raw_now_ns() < until);
}

/* ---- the end of firmware --------------------------------------------------------------------- */

static void a_dead_firmware_fails_its_jobs_and_another_takes_over(void **state)
{
	struct bench *b = bench(state);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	struct drm_vnpu_sync_op out = { .flags = DRM_VNPU_SYNC_SIGNAL,
					.handle = raw_syncobj(b->fd) };
	struct drm_vnpu_job job = raw_job(b->q.queue_id);
	struct drm_vnpu_query_state dstate;
	struct drm_vnpu_dev_query query = { DRM_VNPU_QUERY_STATE, sizeof(dstate),
					    (uintptr_t)&dstate };
	struct drm_vnpu_ctx_create create = { 0 };
	struct vnpu_ctl_info info = { .dev_id = b->fw.dev_id };
	int ctl = raw_control();

	raw_job_syncs(&job, &out, 1);
	for (int i = 0; i < 8; i++)
		assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(raw_fw_attach(&b->fw), -EBUSY);
	raw_fw_die(&b->fw);

	assert_int_equal(raw_syncobj_wait(b->fd, out.handle, 0, RAW_LONG_MS), 0);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), -EIO);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 8), -EIO);
	assert_int_equal(page->epoch, 2);
	assert_int_equal(page->error, EIO);
	assert_int_equal(page->completed_seqno, 8);
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state, DRM_VNPU_CTX_FW_LOST);
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).epoch, 2);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), -ECANCELED);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_DEV_QUERY, &query), 0);
	assert_int_equal(dstate.state, DRM_VNPU_STATE_LOST);
	assert_int_equal(dstate.epoch, 2);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), -EBUSY);
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_INFO, &info), 0);
	assert_int_equal(info.state, VNPU_CTL_DEV_LOST);
	assert_int_equal(info.fw_pid, 0);

	assert_int_equal(raw_fw_attach(&b->fw), 0);
	assert_int_equal(b->fw.info->epoch, 2);
	raw_fw_start(&b->fw);
	query.size = sizeof(dstate);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_DEV_QUERY, &query), 0);
	assert_int_equal(dstate.state, DRM_VNPU_STATE_READY);
	/* The old context stays banned and is unknown to the new firmware; a new one works. */
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), -ECANCELED);
	assert_null(raw_fw_map(b->fw.fd, 1ull << 32, PAGE, PROT_READ));
	assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
	b->ctx = raw_ctx(b->fd);
	b->q = raw_queue_full(b->fd, b->ctx, 4);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
	munmap((void *)page, PAGE);
	close(ctl);
}

static void a_deleted_device_ends_its_clients_and_its_firmware(void **state)
{
	struct bench *b = bench(state);
	const struct drm_vnpu_queue_status *page = raw_queue_status(b->fd, &b->q);
	struct drm_vnpu_ctx_create create = { 0 };
	struct raw_fw next;
	char path[64];

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	assert_int_equal(page->completed_seqno, 0);
	assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
	assert_int_equal(raw_del_dev(b->fw.dev_id), -ENOENT);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), -ENODEV);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_WAIT, -1, NULL), -ENODEV);
	/* poll() reports the end, without a signal. */
	for (int64_t until = raw_in_ms(RAW_LONG_MS);
	     !__atomic_load_n(&page->completed_seqno, __ATOMIC_ACQUIRE);)
		assert_true(raw_now_ns() < until);
	assert_int_equal(page->epoch, 2);
	assert_int_equal(page->error, EIO);
	munmap((void *)page, PAGE);
	snprintf(path, sizeof(path), "/dev/accel/accel%d", b->fw.minor);
	assert_int_equal(access(path, F_OK), -1);
	close(b->fd);
	close(b->fw.fd);
	raw_fw_add(&next, NULL);
	b->fw = next;
	b->fd = -1;
}

static void a_device_that_was_never_started_ends_with_its_fd(void **state)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();
	struct vnpu_ctl_info info = { 0 };
	int ctl = raw_control();

	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ADD_DEV, &add), 0);
	info.dev_id = add.dev_id;
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_INFO, &info), 0);
	assert_int_equal(info.dev_id, add.dev_id);
	assert_int_equal(info.state, VNPU_CTL_DEV_NEW);
	assert_int_equal(info.accel_minor, -1);
	assert_int_equal(info.fw_pid, getpid());
	assert_string_equal(info.name, "test device");
	close(add.fw_fd);
	assert_int_equal(raw_del_dev(add.dev_id), -ENOENT);
	close(ctl);
}

static void add_dev_refuses_every_bad_field(void **state)
{
	const struct {
		size_t offset, size;
		uint64_t value;
		int error;
	} bad[] = {
#define BAD(field, value, error)                                                                   \
	{ offsetof(struct vnpu_ctl_add_dev, field), sizeof(((struct vnpu_ctl_add_dev *)0)->field), \
	  value, error }
		BAD(size, 0, EINVAL),
		BAD(size, sizeof(struct vnpu_ctl_add_dev) - 1, EINVAL),
		BAD(version, 0, EPROTO),
		BAD(version, VNPU_FW_ABI + 1, EPROTO),
		BAD(flags, 1, EINVAL),
		BAD(nr_queues, 0, EINVAL),
		BAD(nr_queues, VNPU_FW_MAX_QUEUES + 1, EINVAL),
		BAD(nr_queues, UINT32_MAX, EINVAL),
		BAD(queue_depth, 0, EINVAL),
		BAD(queue_depth, 3, EINVAL),
		BAD(queue_depth, VNPU_FW_MAX_DEPTH * 2, EINVAL),
		BAD(nr_ctx, 0, EINVAL),
		BAD(nr_ctx, VNPU_FW_MAX_CTX + 1, EINVAL),
		BAD(va_bits, VNPU_FW_MIN_VA_BITS - 1, EINVAL),
		BAD(va_bits, VNPU_FW_MAX_VA_BITS + 1, EINVAL),
		BAD(va_bits, UINT32_MAX, EINVAL),
		BAD(timeout_ms, VNPU_FW_MAX_TIMEOUT_MS + 1, EINVAL),
		BAD(timeout_ms, UINT32_MAX, EINVAL),
		BAD(max_timeout_ms, VNPU_FW_MAX_TIMEOUT_MS + 1, EINVAL),
		BAD(max_timeout_ms, UINT32_MAX, EINVAL),
		BAD(user_ctx, 9, EINVAL),
		BAD(user_queues, UINT32_MAX, EINVAL),
		BAD(name[0], 0, EINVAL),
		BAD(name[1], '\n', EINVAL),
		BAD(name[1], 0xff, EINVAL),
		BAD(name[31], 'x', EINVAL),
	};
	int ctl = raw_control();
	struct vnpu_ctl_add_dev add;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		print_message("case %zu\n", i);
		add = raw_fw_defaults();
		memcpy((char *)&add + bad[i].offset, &bad[i].value, bad[i].size);
		assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ADD_DEV, &add), -bad[i].error);
	}
	add = raw_fw_defaults();
	add.nr_queues = 1024;
	add.queue_depth = 1024;
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ADD_DEV, &add), -EINVAL);
	memset(add.name, 'x', sizeof(add.name));
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ADD_DEV, &add), -EINVAL);
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ADD_DEV, NULL), -EFAULT);
	assert_int_equal(raw_ioctl(ctl, _IO(VNPU_FW_IOC, 0x7f), NULL), -ENOTTY);
	close(ctl);
}

static void control_and_firmware_calls_refuse_flags_and_unknown_ids(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_ctl_attach attach = { .size = sizeof(attach),
					  .version = VNPU_FW_ABI,
					  .dev_id = 99999 };
	struct vnpu_ctl_del_dev del = { .dev_id = b->fw.dev_id, .flags = 1 };
	struct vnpu_ctl_info info = { .dev_id = UINT32_MAX };
	struct vnpu_ctl_version version;
	struct vnpu_fw_start start = { .flags = 1 };
	struct vnpu_fw_enter enter = { .flags = 4 };
	int ctl = raw_control();

	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_VERSION, &version), 0);
	assert_int_equal(version.min, VNPU_FW_ABI_MIN);
	assert_int_equal(version.max, VNPU_FW_ABI);
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ATTACH, &attach), -ENOENT);
	attach.dev_id = b->fw.dev_id;
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ATTACH, &attach), -EBUSY);
	attach.size--;
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ATTACH, &attach), -EINVAL);
	attach.size++;
	attach.version = 77;
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ATTACH, &attach), -EPROTO);
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_DEL_DEV, &del), -EINVAL);
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_INFO, &info), -ENOENT);
	info.pad = 1;
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_INFO, &info), -EINVAL);
	assert_int_equal(raw_ioctl(b->fw.fd, VNPU_FW_START, &start), -EINVAL);
	start.flags = 0;
	assert_int_equal(raw_ioctl(b->fw.fd, VNPU_FW_START, &start), -EBUSY);
	assert_int_equal(raw_ioctl(b->fw.fd, VNPU_FW_ENTER, &enter), -EINVAL);
	enter = (struct vnpu_fw_enter){ .pad = 1 };
	assert_int_equal(raw_ioctl(b->fw.fd, VNPU_FW_ENTER, &enter), -EINVAL);
	assert_int_equal(raw_ioctl(b->fw.fd, VNPU_FW_ENTER, NULL), -EFAULT);
	assert_int_equal(raw_ioctl(b->fw.fd, _IO(VNPU_FW_IOC, 0x7f), NULL), -ENOTTY);
	close(ctl);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static void enter_waits_until_its_time(void **state)
{
	struct bench *b = bench(state);
	int64_t from = raw_now_ns();

	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_WAIT, from + 50000000, NULL), 0);
	assert_true(raw_now_ns() - from >= 50000000);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_WAIT, 0, NULL), 0);
}

static void poll_reports_submissions_and_the_end(void **state)
{
	struct bench *b = bench(state);
	struct pollfd p = { .fd = b->fw.fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, 0), 0);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	assert_int_equal(poll(&p, 1, RAW_LONG_MS), 1);
	assert_int_equal(p.revents, POLLIN);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(poll(&p, 1, 0), 0);
	b->fw.ctl->cq_tail += 1000000;
	raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_true(p.revents & POLLHUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(a_job_travels_to_the_firmware_and_back),
		BENCH_TEST(the_firmware_s_verdict_is_the_job_s_result),
		BENCH_TEST(results_are_remembered_as_far_as_jobs_can_wait_and_failures_for_ever),
		BENCH_TEST(a_failure_is_forgotten_only_with_all_before_it),
		BENCH_TEST(a_fault_bans_the_context_and_cancels_its_other_jobs),
		BENCH_TEST(a_silent_firmware_s_jobs_are_given_up_one_by_one_and_its_client_goes_on),
		BENCH_TEST(a_job_that_started_and_hangs_bans_its_context),
		BENCH_TEST(the_clock_of_a_job_starts_when_it_is_first_in_its_queue),
		BENCH_TEST(an_answer_in_the_ring_is_found_before_the_job_times_out),
		BENCH_TEST(unknown_stale_and_double_completions_are_dropped),
		BENCH_TEST(indices_out_of_bounds_lose_the_device),
		BENCH_TEST(a_submission_index_out_of_bounds_loses_the_device_too),
		BENCH_TEST(random_completions_do_no_harm),
		BENCH_TEST(no_more_jobs_than_the_depth_are_in_the_ring),
		BENCH_TEST(
			a_destroyed_queue_cancels_its_jobs_and_keeps_its_slot_until_all_answered),
		BENCH_TEST(a_client_that_closes_leaves_nothing_behind),
		BENCH_TEST(a_number_is_not_reused_while_the_firmware_maps_its_aperture),
		BENCH_TEST(a_dead_firmware_fails_its_jobs_and_another_takes_over),
		BENCH_TEST(a_deleted_device_ends_its_clients_and_its_firmware),
		BENCH_TEST(a_device_that_was_never_started_ends_with_its_fd),
		BENCH_TEST(add_dev_refuses_every_bad_field),
		BENCH_TEST(control_and_firmware_calls_refuse_flags_and_unknown_ids),
		BENCH_TEST(enter_waits_until_its_time),
		BENCH_TEST(poll_reports_submissions_and_the_end),
	};

	return cmocka_run_group_tests_name("firmware", tests, NULL, NULL);
}
