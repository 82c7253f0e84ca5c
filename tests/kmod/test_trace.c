// SPDX-License-Identifier: MIT
/* The tracepoints of vnpu.ko. The test plays the firmware and so knows the right values. */
#define _GNU_SOURCE
#include <sys/mount.h>

#include "observe.h"

#define VA 0x100000ull
#define MS 1000000ull
#define TRACING "/sys/kernel/tracing"

static int trace_start(void **state)
{
	int ret = bench_setup(state);

	if (ret || !((struct bench *)*state)->fw.info)
		return ret;
	if (access(TRACING "/trace", R_OK))
		mount("tracefs", TRACING, "tracefs", 0, NULL);
	if (access(TRACING "/events/vnpu/enable", W_OK))
		return -1;
	write_file(TRACING "/trace", "\n");
	write_file(TRACING "/events/vnpu/enable", "1");
	return 0;
}

static int trace_stop(void **state)
{
	if (((struct bench *)*state)->fw.info)
		write_file(TRACING "/events/vnpu/enable", "0");
	return bench_teardown(state);
}

/* The fields of the latest event of that name in the trace. */
static const char *event(const char *name)
{
	static char text[1 << 16];
	char pattern[64], *at, *last = NULL;

	assert_true(read_at(AT_FDCWD, TRACING "/trace", text, sizeof(text)) > 0);
	snprintf(pattern, sizeof(pattern), ": %s: ", name);
	for (at = text; (at = strstr(at, pattern)); at++)
		last = at + strlen(pattern);
	if (!last)
		fail_msg("no %s in the trace", name);
	strtok(last, "\n");
	return last;
}

static void has(const char *fields, const char *key, const char *value)
{
	char want[128];

	snprintf(want, sizeof(want), "%s=%s", key, value);
	for (const char *at = fields; (at = strstr(at, want)); at++)
		if ((at == fields || at[-1] == ' ') &&
		    (!at[strlen(want)] || at[strlen(want)] == ' '))
			return;
	fail_msg("no %s in: %s", want, fields);
}

static uint64_t number(const char *fields, const char *key)
{
	char want[64];
	const char *at;

	snprintf(want, sizeof(want), " %s=", key);
	at = strstr(fields, want);
	if (!at)
		fail_msg("no %s in: %s", key, fields);
	return strtoull(at + strlen(want), NULL, 0);
}

/* Checks the fields that all events of jobs have in common. */
static const char *job_event(struct bench *b, const char *name, uint64_t seqno)
{
	const char *e = event(name);

	assert_non_null(strstr(e, "dev="));
	assert_int_equal(strtoul(strstr(e, "dev=") + 4, NULL, 10), b->fw.minor);
	assert_int_equal(number(e, "client"), fdinfo_number(b->fd, "drm-client-id"));
	assert_int_equal(number(e, "pid"), getpid());
	has(e, "comm", "test_trace");
	assert_int_equal(number(e, "ctx"), b->ctx);
	assert_int_equal(number(e, "queue"), b->q.queue_id);
	assert_int_equal(number(e, "seqno"), seqno);
	return e;
}

static void a_jobs_way_is_traced(void **state)
{
	struct bench *b = bench(state);
	uint64_t seqno = raw_submit(b->fd, b->ctx, b->q.queue_id);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	int64_t t = raw_now_ns();
	const char *e;

	e = job_event(b, "vnpu_job_submit", seqno);
	has(e, "cmd_va", "0x10000");
	has(e, "cmd_bytes", "64");
	has(e, "table_bytes", "64");
	has(e, "priority", "normal");
	assert_int_equal(number(job_event(b, "vnpu_job_start", seqno), "hwq"), sqe.queue);
	usleep(20000);
	t = raw_now_ns() - t;
	answer(&b->fw, &sqe, (struct vnpu_fw_cqe){ .busy_ns = 12345678 });
	e = job_event(b, "vnpu_job_complete", seqno);
	has(e, "error", "0");
	has(e, "by", "firmware");
	has(e, "busy_ns", "12345678");
	assert_true(number(e, "duration_ns") >= (uint64_t)t);
	assert_true(number(e, "duration_ns") < 10000 * MS);
}

static void a_job_that_waits_starts_later_than_it_was_submitted(void **state)
{
	struct bench *b = bench(state);
	uint32_t syncobj = raw_syncobj(b->fd);
	struct drm_vnpu_sync_op wait = { .handle = syncobj, .timeline_value = 1 };
	struct drm_vnpu_sync_op signal = { .flags = DRM_VNPU_SYNC_SIGNAL,
					   .handle = syncobj,
					   .timeline_value = 1 };
	struct drm_vnpu_job jobs[2] = { raw_job(b->q.queue_id), raw_job(raw_queue(b->fd, b->ctx)) };
	struct vnpu_fw_sqe sqe;

	raw_job_syncs(&jobs[0], &signal, 1);
	raw_job_syncs(&jobs[1], &wait, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), 0);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(number(event("vnpu_job_start"), "queue"), jobs[0].queue_id);
	usleep(20000);
	answer(&b->fw, &sqe, (struct vnpu_fw_cqe){ 0 });
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(number(event("vnpu_job_start"), "queue"), jobs[1].queue_id);
	assert_true(number(event("vnpu_job_start"), "queued_ns") >= 20 * MS);
}

static void failures_and_faults_are_traced(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe sqe;
	const char *e;

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_serve(&b->fw, VNPU_FW_INVALID);
	has(job_event(b, "vnpu_job_complete", 1), "error", "-22");
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	answer(&b->fw, &sqe,
	       (struct vnpu_fw_cqe){ .status = VNPU_FW_FAULT,
				     .fault_va = 0xabc000,
				     .flags = VNPU_FW_CQE_FAULT_WRITE });
	e = job_event(b, "vnpu_fault", 2);
	has(e, "va", "0xabc000");
	has(e, "access", "write");
	/* The job behind it ends with its context, a moment later. */
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 3), -ECANCELED);
	e = job_event(b, "vnpu_job_complete", 3);
	has(e, "error", "-125");
	has(e, "by", "kernel");
}

static void bindings_are_traced_when_they_are_made(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, 4 * PAGE);
	char text[32];
	const char *e;

	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, 4 * PAGE, DRM_VNPU_BIND_READ_ONLY), 0);
	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, PAGE, 0), -ENOSPC);
	e = event("vnpu_bind");
	snprintf(text, sizeof(text), "%u", handle);
	has(e, "handle", text);
	has(e, "op", "map");
	has(e, "va", "0x100000");
	has(e, "bytes", "16384");
	has(e, "flags", "read_only");
	assert_int_equal(raw_unbind(b->fd, b->ctx, VA, 4 * PAGE), 0);
	has(event("vnpu_bind"), "op", "unmap");
	assert_int_equal(number(event("vnpu_bind"), "client"),
			 fdinfo_number(b->fd, "drm-client-id"));
}

static void a_reset_by_hand_is_counted_and_traced(void **state)
{
	struct bench *b = bench(state);
	int dir = debugfs_dir(b->fw.minor), fd;
	const char *e;

	if (dir < 0)
		skip();
	fd = openat(dir, "force_reset", O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "1", 1), 1);
	e = event("vnpu_reset");
	has(e, "cause", "forced");
	has(e, "epoch", "2");
	has(e, "nr_resets", "1");
	has(e, "state", "lost");
	assert_int_equal(raw_state(b->fd).nr_resets, 1);
	assert_int_equal(raw_state(b->fd).epoch, 2);
	assert_int_equal(raw_state(b->fd).state, DRM_VNPU_STATE_LOST);
	assert_int_equal(raw_state(b->fd).last_loss, DRM_VNPU_LOSS_FORCED);
	/* Now there is no firmware to reset. */
	assert_int_equal(write(fd, "1", 1), -1);
	assert_int_equal(errno, ENODEV);
	close(fd);
	close(dir);
}

static void the_loss_of_a_firmware_is_traced(void **state)
{
	struct bench *b = bench(state);
	const char *e;

	raw_fw_die(&b->fw);
	e = event("vnpu_reset");
	has(e, "cause", "exit");
	has(e, "epoch", "2");
	has(e, "nr_resets", "0");
	has(e, "state", "lost");
	assert_int_equal(number(e, "fw_pid"), getpid());
}

#define TRACE_TEST(f) cmocka_unit_test_setup_teardown(f, trace_start, trace_stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TRACE_TEST(a_jobs_way_is_traced),
		TRACE_TEST(a_job_that_waits_starts_later_than_it_was_submitted),
		TRACE_TEST(failures_and_faults_are_traced),
		TRACE_TEST(bindings_are_traced_when_they_are_made),
		TRACE_TEST(a_reset_by_hand_is_counted_and_traced),
		TRACE_TEST(the_loss_of_a_firmware_is_traced),
	};

	return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
