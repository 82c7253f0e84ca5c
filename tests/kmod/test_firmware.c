// SPDX-License-Identifier: MIT
/*
 * vnpu.ko as a firmware sees it: the test plays a tiny firmware by hand, good and bad, beside a client.
 */
#include "vnpu_raw.h"

/* A device with a client that has one context with one queue. */
struct bench {
	struct raw_fw fw;
	int fd;
	uint32_t ctx;
	struct drm_vnpu_queue_create q;
};

static int setup(void **state)
{
	struct bench *b = calloc(1, sizeof(*b));

	*state = b;
	b->fw.fd = b->fd = -1;
	if (access(RAW_CONTROL, R_OK | W_OK))
		return 0;
	raw_fw_add(&b->fw, NULL);
	b->fd = raw_client(b->fw.minor);
	b->ctx = raw_ctx(b->fd);
	b->q = raw_queue_full(b->fd, b->ctx, 4);
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;

	if (b->fw.info) {
		if (b->fd >= 0)
			close(b->fd);
		raw_fw_remove(&b->fw);
	}
	free(b);
	return 0;
}

static struct bench *bench(void **state)
{
	struct bench *b = *state;

	if (!b->fw.info)
		skip();
	return b;
}

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_job_travels_to_the_firmware_and_back, setup, teardown),
	};

	return cmocka_run_group_tests_name("firmware", tests, NULL, NULL);
}
