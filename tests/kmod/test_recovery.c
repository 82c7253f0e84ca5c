// SPDX-License-Identifier: MIT
/*
 * The rungs of recovery, one after another, with a firmware that the test plays: job, context, device, wedged.
 */
#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>

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

/* ---- rung 1: jobs ---- */

static void timeouts_are_the_device_s_own(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_query_limits limits = { 0 };
	struct drm_vnpu_dev_query query = { DRM_VNPU_QUERY_LIMITS, sizeof(limits), (uintptr_t)&limits };
	struct drm_vnpu_job job = raw_job(b->q.queue_id);
	struct timed_job t;
	int64_t start;

	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_DEV_QUERY, &query), 0);
	assert_int_equal(limits.default_timeout_ms, T_MS);
	assert_int_equal(limits.max_timeout_ms, MAX_MS);
	job.timeout_ms = MAX_MS + 1;
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), -EINVAL);
	/* And the default is what a job gets that names none. */
	start = raw_now_ns();
	t = timed_submit(b->fd, b->ctx, b->q.queue_id, 0);
	assert_took(start, timed_end(&t, -ETIMEDOUT), T_MS, T_MS + LATE_MS);
}

static void progress_keeps_a_long_job_alive(void **state)
{
	struct bench *b = bench(state);
	struct timed_job t = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);

	fw_started(&b->fw, &sqe);
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

	fw_started(&b->fw, &sqe);
	fw_works_for(&b->fw, &sqe, 2 * T_MS);
	fw_progress(&b->fw, &sqe);
	stop = raw_now_ns();
	assert_took(stop, timed_end(&t, -ETIMEDOUT), T_MS, T_MS + LATE_MS);
	assert_int_equal(raw_ctx_state(b->fd, b->ctx).state, DRM_VNPU_CTX_TIMEDOUT);
	assert_true(raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL).tag == sqe.tag);
	fw_answer(&b->fw, sqe.tag, VNPU_FW_CANCELED);
}

static void progress_for_ever_is_bounded(void **state)
{
	struct bench *b = bench(state);
	struct timed_job t = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	int64_t start = raw_now_ns();

	fw_started(&b->fw, &sqe);
	while (!raw_is_done(b->fd, b->q.queue_id, t.seqno))
		fw_works_for(&b->fw, &sqe, 10);
	assert_took(start, timed_end(&t, -ETIMEDOUT), MAX_MS, MAX_MS + LATE_MS);
	fw_answer(&b->fw, sqe.tag, VNPU_FW_CANCELED);
}

/* As far as the kernel can know, a job that was never said to have started waits for the others. */
static void a_job_that_waits_behind_a_long_one_survives(void **state)
{
	struct bench *b = bench(state);
	struct other o = other_client(b);
	struct timed_job longer = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS), waits;
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB), next;

	fw_started(&b->fw, &sqe);
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

static void waiting_is_bounded_too(void **state)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();
	struct bench *b = bench(state);
	struct timed_job t;
	struct vnpu_fw_sqe sqe;
	struct other o;
	int64_t start;

	add.timeout_ms = add.max_timeout_ms = 200;
	close(b->fd);
	raw_fw_remove(&b->fw);
	raw_fw_add(&b->fw, &add);
	b->fd = raw_client(b->fw.minor);
	b->ctx = raw_ctx(b->fd);
	b->q = raw_queue_full(b->fd, b->ctx, 4);
	o = other_client(b);
	start = raw_now_ns();
	t = timed_submit(o.fd, o.ctx, o.queue, 200);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	/* The others' jobs come and go, this one is forgotten. */
	while (!raw_is_done(o.fd, o.queue, t.seqno)) {
		raw_submit(b->fd, b->ctx, b->q.queue_id);
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
		usleep(20000);
	}
	assert_took(start, timed_end(&t, -ETIMEDOUT), 10 * 200, 10 * 200 + LATE_MS);
	close(o.fd);
}

/* A firmware that never answers the watchdog's question still has its ring looked at. */
static void an_answer_that_was_only_posted_counts(void **state)
{
	struct bench *b = bench(state);
	struct timed_job t = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);

	fw_started(&b->fw, &sqe);
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = sqe.tag });
	timed_end(&t, 0);
	assert_int_equal(device_state(b->fd).nr_resets, 0);
}

/* Each of a queue's jobs has its own clock, which runs while the job is the first. */
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
		fw_started(&b->fw, &sqe[i]);
		usleep(500000);
		raw_fw_done(&b->fw, &sqe[i], VNPU_FW_OK);
		timed_end(&t[i], 0);
	}
	start = raw_now_ns();
	assert_took(start, timed_end(&t[3], -ETIMEDOUT), 150, 200 + LATE_MS);
}

/* ---- rung 2: contexts ---- */

static void a_ban_ends_the_context_s_jobs_and_nobody_else_s(void **state)
{
	struct bench *b = bench(state);
	uint32_t q2 = raw_queue(b->fd, b->ctx), bystander = raw_ctx(b->fd), q3 = raw_queue(b->fd, bystander);
	struct timed_job hangs = timed_submit(b->fd, b->ctx, b->q.queue_id, T_MS), same[3], innocent;
	struct drm_vnpu_job job = raw_job(q2);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB), mine;
	struct drm_vnpu_ctx_get_state s;

	fw_started(&b->fw, &sqe);
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
	/* Of the two that had heard nothing for as long, the one that ran was to blame. */
	assert_false(raw_is_done(b->fd, q3, innocent.seqno));
	for (int i = 0; i < 4; i++)
		fw_answer(&b->fw, raw_fw_expect(&b->fw, VNPU_FW_SQE_CANCEL).tag, VNPU_FW_CANCELED);
	fw_started(&b->fw, &mine);
	fw_works_for(&b->fw, &mine, T_MS);
	raw_fw_done(&b->fw, &mine, VNPU_FW_OK);
	timed_end(&innocent, 0);
	assert_int_equal(raw_ctx_state(b->fd, bystander).state, 0);
	/* All was answered: no reset comes. */
	usleep(3 * RESET_MS * 1000);
	assert_int_equal(device_state(b->fd).epoch, 1);
}

/* ---- rung 3: the device ---- */

/* Everything that a reset of the bench's device must have done; @guilty is the state of its context. */
static void assert_was_reset(struct bench *b, const struct drm_vnpu_queue_status *page, uint32_t cause, uint32_t guilty,
			     const char *reason)
{
	struct drm_vnpu_query_state s = device_state(b->fd);
	struct drm_vnpu_ctx_create create = { 0 };
	struct pollfd p = { .fd = b->fw.fd, .events = POLLIN };
	static char dump[1 << 16];

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
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_WAIT | VNPU_FW_ENTER_COMPLETE, -1, NULL),
			 cause == DRM_VNPU_LOSS_PROTOCOL ? -EPROTO : -EIO);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_true(p.revents & POLLHUP);
	if (access("/sys/class/devcoredump", F_OK)) {
		print_message("this kernel has no device coredumps\n");
	} else {
		assert_true(take_coredump(b->fw.dev_id, dump, sizeof(dump)));
		print_message("%s", dump);
		assert_non_null(strstr(dump, reason));
		assert_non_null(strstr(dump, "context 1: epoch 1"));
	}
	fw_comes_again(b);
	assert_int_equal(device_state(b->fd).state, DRM_VNPU_STATE_READY);
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

	fw_started(&b->fw, &sqe);
	innocent = timed_submit(o.fd, o.ctx, o.queue, MAX_MS);
	ended = timed_end(&hangs, -ETIMEDOUT);
	assert_took(ended, timed_end(&innocent, -EIO), RESET_MS, RESET_MS + LATE_MS);
	assert_int_equal(raw_ctx_state(o.fd, o.ctx).state, DRM_VNPU_CTX_FW_LOST);
	close(o.fd);
	assert_was_reset(b, page, DRM_VNPU_LOSS_HANG, DRM_VNPU_CTX_TIMEDOUT, "reason: owes an answer for too long");
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
	assert_was_reset(b, page, DRM_VNPU_LOSS_HANG, 0, "closed");
	munmap((void *)page, PAGE);
}

static void answers_that_were_only_posted_avert_the_reset(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe sqe;

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_CTX_CLOSE);
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = sqe.tag });
	raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED, .tag = sqe.ctx });
	usleep(4 * RESET_MS * 1000);
	assert_int_equal(device_state(b->fd).epoch, 1);
	device_works(b);
}

/* The time counts from the last thing that is owed, not from the first that ever was. */
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
		raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED, .tag = sqe.ctx });
		assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	}
	assert_int_equal(device_state(b->fd).nr_resets, 0);
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

/* ---- rung 4: wedged ---- */

static int uevent_socket(void)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static bool has_line(const char *msg, ssize_t len, const char *line)
{
	for (const char *p = msg; p < msg + len; p += strlen(p) + 1)
		if (!strcmp(p, line))
			return true;
	return false;
}

/* Did the node say that it is wedged? Waits up to @ms for it. */
static bool uevent_wedged(int fd, int minor, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char msg[4096], node[32];
	ssize_t len;

	snprintf(node, sizeof(node), "DEVNAME=accel/accel%d", minor);
	while (poll(&p, 1, ms) == 1) {
		len = recv(fd, msg, sizeof(msg) - 1, 0);
		if (len <= 0)
			continue;
		msg[len] = 0;
		if (has_line(msg, len, node) && has_line(msg, len, "WEDGED=vendor-specific"))
			return has_line(msg, len, "ACTION=change");
	}
	return false;
}

/* The firmware does not answer a closed context: one reset. */
static void hang_once(struct bench *b)
{
	uint32_t epoch = device_state(b->fd).epoch;

	assert_int_equal(raw_ctx_destroy(b->fd, raw_ctx(b->fd)), 0);
	wait_epoch(b->fd, epoch + 1, RAW_LONG_MS);
}

static void resets_in_a_row_wedge_the_device(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_ctx_create create = { 0 };
	int uevents = uevent_socket();
	char path[64];

	for (int i = 1; i <= 3; i++) {
		assert_int_equal(device_state(b->fd).state, DRM_VNPU_STATE_READY);
		hang_once(b);
		assert_int_equal(device_state(b->fd).nr_resets, i);
		if (i < 3) {
			assert_false(uevent_wedged(uevents, b->fw.minor, 0));
			fw_comes_again(b);
		}
	}
	assert_int_equal(device_state(b->fd).state, DRM_VNPU_STATE_WEDGED);
	assert_int_equal(control_state(b->fw.dev_id), VNPU_CTL_DEV_WEDGED);
	assert_true(uevent_wedged(uevents, b->fw.minor, RAW_LONG_MS));
	close(uevents);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), -EIO);
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_WAIT, -1, NULL), -EIO);
	raw_fw_die(&b->fw);
	assert_int_equal(raw_fw_attach(&b->fw), -EIO);
	/* Old contexts can be let go, and what is left is to remove the device. */
	assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
	assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
	snprintf(path, sizeof(path), "/dev/accel/accel%d", b->fw.minor);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create), -ENODEV);
	close(b->fd);
	raw_fw_add(&b->fw, NULL);
	b->fd = -1;
}

static void a_job_that_succeeds_in_between_forgives_the_resets(void **state)
{
	struct bench *b = bench(state);

	for (int i = 0; i < 5; i++) {
		hang_once(b);
		fw_comes_again(b);
		if (i % 2)
			device_works(b);
	}
	assert_int_equal(device_state(b->fd).nr_resets, 5);
	assert_int_equal(device_state(b->fd).state, DRM_VNPU_STATE_READY);
	/* A job that fails forgives nothing. */
	hang_once(b);
	fw_comes_again(b);
	b->ctx = raw_ctx(b->fd);
	raw_submit(b->fd, b->ctx, raw_queue(b->fd, b->ctx));
	raw_fw_serve(&b->fw, VNPU_FW_FAILED);
	hang_once(b);
	assert_int_equal(device_state(b->fd).state, DRM_VNPU_STATE_WEDGED);
}

static void the_number_of_resets_can_be_set(void **state)
{
	struct bench *b = bench(state);

	module_set("max_resets", 0);
	for (int i = 0; i < 5; i++) {
		hang_once(b);
		fw_comes_again(b);
	}
	module_set("max_resets", 1);
	hang_once(b);
	assert_int_equal(device_state(b->fd).state, DRM_VNPU_STATE_WEDGED);
}

static void a_firmware_may_come_and_go_as_often_as_it_likes(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_query_state s;

	for (int i = 0; i < 10; i++)
		fw_comes_again(b);
	s = device_state(b->fd);
	assert_int_equal(s.state, DRM_VNPU_STATE_READY);
	assert_int_equal(s.epoch, 11);
	assert_int_equal(s.nr_resets, 0);
	assert_int_equal(s.last_loss, DRM_VNPU_LOSS_EXIT);
	device_works(b);
	assert_int_equal(device_state(b->fd).nr_jobs, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECOVERY_TEST(timeouts_are_the_device_s_own),
		RECOVERY_TEST(progress_keeps_a_long_job_alive),
		RECOVERY_TEST(a_job_whose_progress_stops_fails_in_time),
		RECOVERY_TEST(progress_for_ever_is_bounded),
		RECOVERY_TEST(a_job_that_waits_behind_a_long_one_survives),
		RECOVERY_TEST(waiting_is_bounded_too),
		RECOVERY_TEST(an_answer_that_was_only_posted_counts),
		RECOVERY_TEST(each_job_of_a_queue_has_its_own_clock),
		RECOVERY_TEST(a_ban_ends_the_context_s_jobs_and_nobody_else_s),
		RECOVERY_TEST(a_cancel_that_is_not_answered_resets_the_device),
		RECOVERY_TEST(a_closed_context_that_is_not_answered_resets_the_device),
		RECOVERY_TEST(answers_that_were_only_posted_avert_the_reset),
		RECOVERY_TEST(a_device_that_is_slow_but_answers_is_not_reset),
		RECOVERY_TEST(broken_indices_reset_the_device),
		RECOVERY_TEST(broken_indices_are_found_without_the_firmware_s_help),
		RECOVERY_TEST(resets_in_a_row_wedge_the_device),
		RECOVERY_TEST(a_job_that_succeeds_in_between_forgives_the_resets),
		RECOVERY_TEST(the_number_of_resets_can_be_set),
		RECOVERY_TEST(a_firmware_may_come_and_go_as_often_as_it_likes),
	};

	return cmocka_run_group_tests_name("recovery", tests, NULL, NULL);
}
