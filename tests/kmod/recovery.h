/* SPDX-License-Identifier: MIT */
/*
 * Common parts of the tests of recovery: short timeouts, the time at which a fence signalled, the
 * module's parameters, core dumps, and a device whose firmware is the test or its child.
 */
#ifndef RECOVERY_H
#define RECOVERY_H

#include <glob.h>
#include <poll.h>
#include <linux/sync_file.h>

#include "vnpu_raw.h"

#define MS 1000000ll
/*
 * The promise: a job whose device stops fails at most this long after its timeout. Exact only if
 * the clock can be trusted.
 */
#define LATE_MS (1000 * raw_slow())

/* ---- the module ---- */

static inline void module_set(const char *name, unsigned int value)
{
	char path[96];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/vnpu/parameters/%s", name);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%u\n", value);
	assert_int_equal(fclose(f), 0);
}

static inline unsigned int module_get(const char *name)
{
	unsigned int value;
	char path[96];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/vnpu/parameters/%s", name);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%u", &value), 1);
	fclose(f);
	return value;
}

/* ---- the device ---- */

/* Waits until the device's epoch is @epoch. */
static inline void wait_epoch(int fd, uint32_t epoch, int64_t ms)
{
	int64_t until = raw_in_ms(ms);

	while (raw_state(fd).epoch < epoch) {
		if (raw_now_ns() > until)
			fail_msg("epoch %u after %d ms, not %u", raw_state(fd).epoch, (int)ms,
				 epoch);
		usleep(2000);
	}
	assert_int_equal(raw_state(fd).epoch, epoch);
}

static inline uint32_t control_state(uint32_t dev_id)
{
	struct vnpu_ctl_info info = { .dev_id = dev_id };
	int ctl = raw_control();
	int ret = raw_ioctl(ctl, VNPU_CTL_INFO, &info);

	close(ctl);
	return ret || info.dev_id != dev_id ? UINT32_MAX : info.state;
}

/* ---- jobs with a fence that reports when and how they ended ---- */

struct timed_job {
	int fd;
	uint32_t queue;
	uint64_t seqno;
	int sync_file;
};

static inline struct timed_job timed_submit(int fd, uint32_t ctx, uint32_t queue,
					    uint32_t timeout_ms)
{
	struct drm_vnpu_sync_op out = { .flags = DRM_VNPU_SYNC_SIGNAL, .handle = raw_syncobj(fd) };
	struct drm_vnpu_job job = raw_job(queue);
	struct timed_job t = { .fd = fd, .queue = queue };

	job.timeout_ms = timeout_ms;
	raw_job_syncs(&job, &out, 1);
	assert_int_equal(raw_submit_jobs(fd, ctx, &job, 1), 0);
	t.seqno = job.seqno;
	t.sync_file = raw_sync_file(fd, out.handle);
	raw_syncobj_destroy(fd, out.handle);
	return t;
}

/*
 * Waits for the fence, which may signal before its job ends. Returns the time of the signal, in
 * CLOCK_MONOTONIC.
 */
static inline int64_t timed_fence(struct timed_job *t, int status)
{
	struct sync_fence_info fence = { 0 };
	struct sync_file_info info = { .sync_fence_info = (uintptr_t)&fence };
	struct pollfd p = { .fd = t->sync_file, .events = POLLIN };

	assert_int_equal(poll(&p, 1, RAW_LONG_MS), 1);
	do {
		info.num_fences = 1;
		assert_int_equal(raw_ioctl(t->sync_file, SYNC_IOC_FILE_INFO, &info), 0);
	} while (!info.status);
	assert_int_equal(info.status, status ? status : 1);
	assert_int_equal(fence.status, info.status);
	close(t->sync_file);
	return fence.timestamp_ns;
}

/* Waits for the job; WAIT and the fence must agree. */
static inline int64_t timed_end(struct timed_job *t, int result)
{
	assert_int_equal(raw_result(t->fd, t->queue, t->seqno), result);
	return timed_fence(t, result);
}

/* @end is between @min_ms and @max_ms after @start; it may be a jiffy early. */
static inline void assert_took(int64_t start, int64_t end, int64_t min_ms, int64_t max_ms)
{
	print_message("took %d ms, of %d to %d\n", (int)((end - start) / MS), (int)min_ms,
		      (int)max_ms);
	assert_true(end - start >= (min_ms - 10) * MS);
	assert_true(end - start <= max_ms * MS);
}

/* ---- core dumps ---- */

/* Reads the device's dump into @text and drops it. False if there is none. */
static inline bool take_coredump(uint32_t dev_id, char *text, size_t size)
{
	char mark[32];
	bool found = false;
	glob_t g = { 0 };

	snprintf(mark, sizeof(mark), "device: %u \"", dev_id);
	glob("/sys/class/devcoredump/devcd*/data", 0, NULL, &g);
	for (size_t i = 0; i < g.gl_pathc && !found; i++) {
		int fd = open(g.gl_pathv[i], O_RDWR);
		size_t n = 0;
		ssize_t r;

		if (fd < 0)
			continue;
		while (n < size - 1 && (r = pread(fd, text + n, size - 1 - n, n)) > 0)
			n += r;
		text[n] = 0;
		found = strstr(text, mark);
		if (found)
			assert_int_equal(write(fd, "1", 1), 1);
		close(fd);
	}
	globfree(&g);
	return found;
}

/* Parameters of the loaded module, restored after each test. */
static struct {
	unsigned int reset_ms, max_resets, reset_window_s;
} module_was __attribute__((unused));

static inline void module_save(void)
{
	module_was.reset_ms = module_get("reset_ms");
	module_was.max_resets = module_get("max_resets");
	module_was.reset_window_s = module_get("reset_window_s");
}

static inline void module_restore(void)
{
	module_set("reset_ms", module_was.reset_ms);
	module_set("max_resets", module_was.max_resets);
	module_set("reset_window_s", module_was.reset_window_s);
}

/* ---- a bench for recovery: short timeouts, quick resets ---- */

/* On a slow machine the test, which is the firmware, may be late by as much itself. */
#define SCALE (raw_slow() > 1 ? 4 : 1)
#define T_MS (400 * SCALE)
#define MAX_MS (2000 * SCALE)
#define RESET_MS (300 * SCALE)

static inline int recovery_setup(void **state)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();
	struct bench *b = calloc(1, sizeof(*b));

	*state = b;
	b->fw.fd = b->fd = -1;
	if (access(RAW_CONTROL, R_OK | W_OK))
		return 0;
	module_save();
	module_set("reset_ms", RESET_MS);
	add.timeout_ms = T_MS;
	add.max_timeout_ms = MAX_MS;
	raw_fw_add(&b->fw, &add);
	b->fd = raw_client(b->fw.minor);
	b->ctx = raw_ctx(b->fd);
	b->q = raw_queue_full(b->fd, b->ctx, 4);
	return 0;
}

static inline int recovery_teardown(void **state)
{
	static char text[1 << 16];
	struct bench *b = *state;
	uint32_t dev_id = b->fw.dev_id;
	bool there = b->fw.info;

	bench_teardown(state);
	if (there) {
		take_coredump(dev_id, text, sizeof(text));
		module_restore();
	}
	return 0;
}

#define RECOVERY_TEST(f) cmocka_unit_test_setup_teardown(f, recovery_setup, recovery_teardown)

/* Answers as vnpu-fw does. */
static inline void fw_answer(struct raw_fw *fw, uint64_t tag, uint32_t status)
{
	raw_fw_post(fw,
		    (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .status = status, .tag = tag });
	assert_int_equal(raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
}

static inline void fw_progress(struct raw_fw *fw, const struct vnpu_fw_sqe *sqe)
{
	__atomic_fetch_add(&raw_fw_status(fw, sqe->queue)->progress, 1, __ATOMIC_RELAXED);
}

/* Works on the job, with progress, for @ms. */
static inline void fw_works_for(struct raw_fw *fw, const struct vnpu_fw_sqe *sqe, int64_t ms)
{
	int64_t until = raw_in_ms(ms);

	do {
		fw_progress(fw, sqe);
		usleep(10000);
	} while (raw_now_ns() < until);
}

/* Replaces the bench's device by one with these properties. */
static inline void bench_renew(struct bench *b, const struct vnpu_ctl_add_dev *add)
{
	close(b->fd);
	raw_fw_remove(&b->fw);
	raw_fw_add(&b->fw, add);
	b->fd = raw_client(b->fw.minor);
	b->ctx = raw_ctx(b->fd);
	b->q = raw_queue_full(b->fd, b->ctx, 4);
}

/* The firmware does not answer a closed context, which causes one reset. */
static inline void hang_once(struct bench *b)
{
	uint32_t epoch = raw_state(b->fd).epoch;

	assert_int_equal(raw_ctx_destroy(b->fd, raw_ctx(b->fd)), 0);
	wait_epoch(b->fd, epoch + 1, RAW_LONG_MS);
}

/* Attaches another firmware and checks that the device works: a job in a new context succeeds. */
static inline void fw_comes_again(struct bench *b)
{
	if (b->fw.fd >= 0)
		raw_fw_die(&b->fw);
	assert_int_equal(raw_fw_attach(&b->fw), 0);
	raw_fw_start(&b->fw);
}

static inline void device_works(struct bench *b)
{
	uint32_t ctx = raw_ctx(b->fd), queue = raw_queue(b->fd, ctx);
	struct vnpu_fw_sqe sqe;
	uint64_t seqno = raw_submit(b->fd, ctx, queue);

	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, queue, seqno), 0);
	assert_int_equal(raw_ctx_state(b->fd, ctx).state, 0);
	assert_int_equal(raw_ctx_destroy(b->fd, ctx), 0);
	do {
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_CTX_CLOSE);
		raw_fw_closed(&b->fw, sqe.ctx);
		assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	} while (b->fw.sq_head != b->fw.info->sq_tail);
}

#endif /* RECOVERY_H */
