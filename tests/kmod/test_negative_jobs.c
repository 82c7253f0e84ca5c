// SPDX-License-Identifier: MIT
/*
 * SUBMIT and WAIT, field by field: every wrong argument is refused with the documented error, and
 * uses up no number.
 */
#include "negative.h"

/* ---- SUBMIT ---- */

CALL(SUBMIT)

static struct drm_vnpu_sync_op good_sync;

static struct drm_vnpu_job good_job(void)
{
	struct drm_vnpu_job job = raw_job(n.queue);

	good_sync = (struct drm_vnpu_sync_op){ .handle = n.syncobj, .timeline_value = 5 };
	raw_job_syncs(&job, &good_sync, 1);
	return job;
}

static void fill_job(void *element, uint32_t i)
{
	*(struct drm_vnpu_job *)element = good_job();
}

static const struct field_array jobs_array = { 64, sizeof(struct drm_vnpu_job), true, fill_job };

static void good_submit(void *arg)
{
	static struct drm_vnpu_job job;

	job = good_job();
	*(struct drm_vnpu_submit *)arg =
		(struct drm_vnpu_submit){ n.ctx, 0, { sizeof(job), 1, (uintptr_t)&job } };
}

static void undo_submit(void *arg)
{
	jobs_ran(((struct drm_vnpu_submit *)arg)->jobs.count);
}

static void nothing_submitted(void)
{
	jobs_ran(0);
	nothing_changed();
}

static const struct field submit_fields[] = {
	FIELD(struct drm_vnpu_submit, ctx_id, VALUE, .bad = bad_ctx),
	FIELD(struct drm_vnpu_submit, flags, ZERO),
	FIELD(struct drm_vnpu_submit, jobs, ARRAY, .array = &jobs_array),
};

static const struct target submit_target =
	TARGET(struct drm_vnpu_submit, submit_fields, .good = good_submit, .call = call_SUBMIT,
	       .undo = undo_submit, .check = nothing_submitted, .fd = the_file,
	       .cmd = DRM_IOCTL_VNPU_SUBMIT);

/* One job after a good one. */
static int call_job(void *arg)
{
	struct drm_vnpu_job jobs[2] = { good_job() };

	memcpy(&jobs[1], arg, sizeof(jobs[1]));
	return raw_submit_jobs(n.fd, n.ctx, jobs, 2);
}

static void job_good(void *arg)
{
	*(struct drm_vnpu_job *)arg = good_job();
}

static void job_undo(void *arg)
{
	jobs_ran(2);
}

static const struct field_bad bad_job_va[] = {
	{ VA + 1, EINVAL },	     { VA + 2, EINVAL },
	{ VA + 4, EINVAL },	     { VA + 7, EINVAL },
	{ VA_END, EINVAL },	     { VA_END - 56, EINVAL },
	{ 1ull << 63, EINVAL },	     { UINT64_MAX - 7, EINVAL },
	{ UINT64_MAX - 63, EINVAL }, { 0, 0 },
};
static const struct field_bad bad_job_size[] = {
	{ 0, EINVAL },
	{ 1, EINVAL },
	{ 4, EINVAL },
	{ 12, EINVAL },
	{ (16u << 20) + 8, EINVAL },
	{ 1u << 31, EINVAL },
	{ UINT32_MAX - 7, EINVAL },
	{ UINT32_MAX, EINVAL },
	{ 0, 0 },
};
static const struct field_bad bad_timeout[] = {
	{ 60001, EINVAL },
	{ 1u << 31, EINVAL },
	{ UINT32_MAX, EINVAL },
	{ 0, 0 },
};

static void fill_sync(void *element, uint32_t i)
{
	*(struct drm_vnpu_sync_op *)element = good_sync;
}

static const struct field_array syncs_array = { 64, sizeof(struct drm_vnpu_sync_op), false,
						fill_sync };

static const struct field job_fields[] = {
	FIELD(struct drm_vnpu_job, queue_id, VALUE, .bad = bad_job_queue),
	FIELD(struct drm_vnpu_job, flags, ZERO),
	FIELD(struct drm_vnpu_job, cmd_va, VALUE, .bad = bad_job_va),
	FIELD(struct drm_vnpu_job, table_va, VALUE, .bad = bad_job_va),
	FIELD(struct drm_vnpu_job, cmd_size, VALUE, .bad = bad_job_size),
	FIELD(struct drm_vnpu_job, table_size, VALUE, .bad = bad_job_size),
	FIELD(struct drm_vnpu_job, timeout_ms, VALUE, .bad = bad_timeout),
	FIELD(struct drm_vnpu_job, pad, ZERO),
	FIELD(struct drm_vnpu_job, syncs, ARRAY, .array = &syncs_array),
	FIELD(struct drm_vnpu_job, seqno, ANY),
};

static const struct target job_target = PART("job", struct drm_vnpu_job, job_fields, job_good,
					     call_job, job_undo, nothing_submitted);

static void jobs(void **state)
{
	client(state);
	fields_test(&submit_target);
	fields_test(&job_target);
}

static int call_sync(void *arg)
{
	struct drm_vnpu_job job = good_job();

	raw_job_syncs(&job, arg, 1);
	return call_job(&job);
}

static void wait_good(void *arg)
{
	*(struct drm_vnpu_sync_op *)arg =
		(struct drm_vnpu_sync_op){ .handle = n.syncobj, .timeline_value = 5 };
}

/* Not the syncobj that the good job waits for: a job's fence would replace its points. */
static void signal_good(void *arg)
{
	*(struct drm_vnpu_sync_op *)arg =
		(struct drm_vnpu_sync_op){ .flags = DRM_VNPU_SYNC_SIGNAL,
					   .handle = n.signalled_syncobj };
}

/* A point that no job will signal. */
static const struct field_bad bad_point[] = {
	{ 6, EINVAL }, { 1ull << 63, EINVAL }, { UINT64_MAX, EINVAL }, { 0, 0 }
};

static const struct field wait_fields[] = {
	FIELD(struct drm_vnpu_sync_op, flags, FLAGS, .known = DRM_VNPU_SYNC_SIGNAL),
	FIELD(struct drm_vnpu_sync_op, handle, VALUE, .bad = bad_syncobj),
	FIELD(struct drm_vnpu_sync_op, timeline_value, VALUE, .bad = bad_point),
};

static const struct field signal_fields[] = {
	FIELD(struct drm_vnpu_sync_op, flags, FLAGS, .known = DRM_VNPU_SYNC_SIGNAL),
	FIELD(struct drm_vnpu_sync_op, handle, VALUE, .bad = bad_syncobj),
	FIELD(struct drm_vnpu_sync_op, timeline_value, ANY),
};

static void jobs_syncs(void **state)
{
	static const struct target wait_part =
		PART("wait", struct drm_vnpu_sync_op, wait_fields, wait_good, call_sync, job_undo,
		     nothing_submitted);
	static const struct target signal_part =
		PART("signal", struct drm_vnpu_sync_op, signal_fields, signal_good, call_sync,
		     job_undo, nothing_submitted);
	struct drm_vnpu_sync_op empty;

	client(state);
	fields_test(&wait_part);
	empty = (struct drm_vnpu_sync_op){ .handle = n.empty_syncobj };
	field_expect(&wait_part, "handle", "without a fence", 0, call_sync(&empty), EINVAL);
	empty.timeline_value = 1;
	field_expect(&wait_part, "handle", "without a fence", 1, call_sync(&empty), EINVAL);
	fields_test(&signal_part);
}

/* ---- WAIT ---- */

CALL(WAIT)

static struct field_bad bad_seqno[] = {
	{ 0, EINVAL }, { 0, EINVAL }, { 1ull << 63, EINVAL }, { UINT64_MAX, EINVAL }, { 0, 0 }
};

static void good_wait(void *arg)
{
	*(struct drm_vnpu_wait *)arg =
		(struct drm_vnpu_wait){ .queue_id = n.queue, .seqno = n.seqno };
}

static const struct field queue_wait_fields[] = {
	FIELD(struct drm_vnpu_wait, queue_id, VALUE, .bad = bad_queue),
	FIELD(struct drm_vnpu_wait, flags, ZERO),
	FIELD(struct drm_vnpu_wait, seqno, VALUE, .bad = bad_seqno),
	FIELD(struct drm_vnpu_wait, timeout_ns, ANY),
	FIELD(struct drm_vnpu_wait, status, ANY),
	FIELD(struct drm_vnpu_wait, epoch, ANY),
};

static const struct target wait_target =
	TARGET(struct drm_vnpu_wait, queue_wait_fields, IOCTL(WAIT), .good = good_wait);

static void waits(void **state)
{
	client(state);
	raw_submit(n.fd, n.ctx, n.queue);
	jobs_ran(1);
	bad_seqno[1].value = n.seqno + 1;
	fields_test(&wait_target);
}

/* ---- the size in the ioctl's number ---- */

static const struct target *const ioctls[] = {
	&submit_target,
	&wait_target,
};

#define NR_IOCTLS (sizeof(ioctls) / sizeof(*ioctls))

static void an_argument_of_an_older_program_is_extended_with_zeros(void **state)
{
	client(state);
	cut_arguments(ioctls, NR_IOCTLS);
}

static void the_tail_of_a_newer_program_s_argument_is_not_written(void **state)
{
	client(state);
	longer_arguments(ioctls, NR_IOCTLS);
}

static void a_call_whose_results_cannot_be_copied_back_leaves_nothing_after_its_file(void **state)
{
	client(state);
	read_only_arguments(ioctls, NR_IOCTLS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NEGATIVE_TEST(jobs),
		NEGATIVE_TEST(jobs_syncs),
		NEGATIVE_TEST(waits),
		NEGATIVE_TEST(an_argument_of_an_older_program_is_extended_with_zeros),
		NEGATIVE_TEST(the_tail_of_a_newer_program_s_argument_is_not_written),
		NEGATIVE_TEST(
			a_call_whose_results_cannot_be_copied_back_leaves_nothing_after_its_file),
	};
	int ret = cmocka_run_group_tests_name("negative_jobs", tests, server_start, server_stop);

	printf("%u cases\n", field_cases);
	return ret;
}
