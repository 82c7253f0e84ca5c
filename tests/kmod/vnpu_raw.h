/* SPDX-License-Identifier: MIT */
/*
 * Raw access to vnpu.ko for its tests: ioctls without libnpu, and a firmware played by the test.
 * Helpers fail the running test (cmocka) if they do not succeed.
 */
#ifndef VNPU_RAW_H
#define VNPU_RAW_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "drm/vnpu_accel.h"
#include "linux/vnpu_fw.h"

#define PAGE 4096ul
#define RAW_CONTROL "/dev/" VNPU_FW_CONTROL_NODE

/* 0 or -errno. */
static inline int raw_ioctl(int fd, unsigned long cmd, void *arg)
{
	int ret;

	do {
		ret = ioctl(fd, cmd, arg);
	} while (ret < 0 && errno == EINTR);
	return ret < 0 ? -errno : ret;
}

static inline int64_t raw_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static inline int64_t raw_in_ms(int64_t ms)
{
	return raw_now_ns() + ms * 1000000;
}

/*
 * How many times slower than a fast machine this one may be. VNPU_SLOW=1 says that it is a debug
 * kernel, or that the host stalls: then no time limit can be trusted, except in the test with a
 * clock of its own (tests/vm/deadlines.sh).
 */
static inline int64_t raw_slow(void)
{
	const char *slow = getenv("VNPU_SLOW");

	return slow && *slow && strcmp(slow, "0") ? 20 : 1;
}

/* For events that must happen, however late. */
#define RAW_LONG_MS (60000 * raw_slow())

/* ---- a firmware played by the test ---- */

struct raw_fw {
	int fd;
	uint32_t dev_id;
	int minor;
	const struct vnpu_fw_info *info;
	struct vnpu_fw_ctl *ctl;
	const struct vnpu_fw_sqe *sq;
	struct vnpu_fw_cqe *cq;
	uint8_t *status;
	size_t sq_size; /* not read from info, which is gone after the session */
	size_t cq_size;
	size_t status_size;
	uint32_t cq_entries;
	uint32_t sq_head;
	uint32_t cq_tail;
};

static inline void *raw_fw_map(int fd, uint64_t offset, size_t size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, fd, offset);

	return p == MAP_FAILED ? NULL : p;
}

static inline size_t raw_round(size_t size)
{
	return (size + PAGE - 1) & ~(PAGE - 1);
}

static inline void raw_fw_map_rings(struct raw_fw *fw)
{
	fw->info = raw_fw_map(fw->fd, 0, PAGE, PROT_READ);
	assert_non_null(fw->info);
	fw->sq_size = raw_round(fw->info->sq_entries * sizeof(*fw->sq));
	fw->cq_entries = fw->info->cq_entries;
	fw->cq_size = raw_round(fw->cq_entries * sizeof(*fw->cq));
	fw->status_size = fw->info->nr_queues * PAGE;
	fw->ctl = raw_fw_map(fw->fd, fw->info->ctl_offset, PAGE, PROT_READ | PROT_WRITE);
	fw->sq = raw_fw_map(fw->fd, fw->info->sq_offset, fw->sq_size, PROT_READ);
	fw->cq = raw_fw_map(fw->fd, fw->info->cq_offset, fw->cq_size, PROT_READ | PROT_WRITE);
	fw->status = raw_fw_map(fw->fd, fw->info->status_offset, fw->status_size,
				PROT_READ | PROT_WRITE);
	assert_non_null(fw->ctl);
	assert_non_null(fw->sq);
	assert_non_null(fw->cq);
	assert_non_null(fw->status);
	fw->sq_head = fw->cq_tail = 0;
}

static inline struct vnpu_ctl_add_dev raw_fw_defaults(void)
{
	return (struct vnpu_ctl_add_dev){
		.size = sizeof(struct vnpu_ctl_add_dev),
		.version = VNPU_FW_ABI,
		.name = "test device",
		.isa_version = 1 << 16,
		.nr_queues = 8,
		.queue_depth = 16,
		.nr_ctx = 8,
		.va_bits = 32,
	};
}

static inline int raw_control(void)
{
	int fd;

	if (access(RAW_CONTROL, R_OK | W_OK))
		skip();
	fd = open(RAW_CONTROL, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static inline void raw_fw_start(struct raw_fw *fw)
{
	struct vnpu_fw_start start = { 0 };

	assert_int_equal(raw_ioctl(fw->fd, VNPU_FW_START, &start), 0);
	fw->minor = start.accel_minor;
}

static inline void raw_fw_add(struct raw_fw *fw, const struct vnpu_ctl_add_dev *with)
{
	struct vnpu_ctl_add_dev add = with ? *with : raw_fw_defaults();
	int ctl = raw_control();

	memset(fw, 0, sizeof(*fw));
	assert_int_equal(raw_ioctl(ctl, VNPU_CTL_ADD_DEV, &add), 0);
	close(ctl);
	fw->fd = add.fw_fd;
	fw->dev_id = add.dev_id;
	raw_fw_map_rings(fw);
	raw_fw_start(fw);
}

static inline void raw_fw_unmap(struct raw_fw *fw)
{
	munmap((void *)fw->sq, fw->sq_size);
	munmap(fw->cq, fw->cq_size);
	munmap(fw->status, fw->status_size);
	munmap(fw->ctl, PAGE);
	munmap((void *)fw->info, PAGE);
}

/* The firmware dies. */
static inline void raw_fw_die(struct raw_fw *fw)
{
	raw_fw_unmap(fw);
	close(fw->fd);
	fw->fd = -1;
}

static inline int raw_fw_attach(struct raw_fw *fw)
{
	struct vnpu_ctl_attach attach = { .size = sizeof(attach),
					  .version = VNPU_FW_ABI,
					  .dev_id = fw->dev_id };
	int ctl = raw_control();
	int ret = raw_ioctl(ctl, VNPU_CTL_ATTACH, &attach);

	close(ctl);
	if (!ret) {
		fw->fd = attach.fw_fd;
		raw_fw_map_rings(fw);
	}
	return ret;
}

static inline int raw_del_dev(uint32_t dev_id)
{
	struct vnpu_ctl_del_dev del = { .dev_id = dev_id };
	int ctl = raw_control();
	int ret = raw_ioctl(ctl, VNPU_CTL_DEL_DEV, &del);

	close(ctl);
	return ret;
}

static inline void raw_fw_remove(struct raw_fw *fw)
{
	if (fw->fd >= 0)
		raw_fw_die(fw);
	assert_int_equal(raw_del_dev(fw->dev_id), 0);
}

static inline int raw_fw_enter(struct raw_fw *fw, uint32_t flags, int64_t timeout_ns,
			       uint32_t *completed)
{
	struct vnpu_fw_enter enter = { .flags = flags,
				       .sq_seen = fw->sq_head,
				       .timeout_ns = timeout_ns };
	int ret = raw_ioctl(fw->fd, VNPU_FW_ENTER, &enter);

	if (completed)
		*completed = enter.nr_completed;
	return ret;
}

/* The next submission, waiting up to @ms for it. False if none came. */
static inline bool raw_fw_pop(struct raw_fw *fw, struct vnpu_fw_sqe *sqe, int64_t ms)
{
	int64_t until = raw_in_ms(ms);

	while (__atomic_load_n(&fw->info->sq_tail, __ATOMIC_ACQUIRE) == fw->sq_head) {
		if (raw_now_ns() >= until)
			return false;
		if (raw_fw_enter(fw, VNPU_FW_ENTER_WAIT, until, NULL))
			return false;
	}
	*sqe = fw->sq[fw->sq_head & (fw->info->sq_entries - 1)];
	__atomic_store_n(&fw->ctl->sq_head, ++fw->sq_head, __ATOMIC_RELEASE);
	return true;
}

/* The next submission of @type; drops others before it. */
static inline struct vnpu_fw_sqe raw_fw_expect(struct raw_fw *fw, uint32_t type)
{
	struct vnpu_fw_sqe sqe = { 0 };

	do {
		if (!raw_fw_pop(fw, &sqe, RAW_LONG_MS))
			fail_msg("no submission of type %u came", type);
	} while (sqe.type != type);
	return sqe;
}

static inline void raw_fw_post(struct raw_fw *fw, struct vnpu_fw_cqe cqe)
{
	fw->cq[fw->cq_tail & (fw->cq_entries - 1)] = cqe;
	__atomic_store_n(&fw->ctl->cq_tail, ++fw->cq_tail, __ATOMIC_RELEASE);
}

static inline struct drm_vnpu_queue_status *raw_fw_status(struct raw_fw *fw, uint32_t queue)
{
	return (struct drm_vnpu_queue_status *)(fw->status + queue * PAGE);
}

/* The kernel raises it too, for jobs that it ends itself: never lower it. */
static inline void raw_fw_raise(struct drm_vnpu_queue_status *page, uint64_t seqno)
{
	uint64_t was = __atomic_load_n(&page->completed_seqno, __ATOMIC_RELAXED);

	while (was < seqno &&
	       !__atomic_compare_exchange_n(&page->completed_seqno, &was, seqno, true,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* Reports that it works on the job: from now on the job can be to blame for a timeout. */
static inline void raw_fw_started(struct raw_fw *fw, const struct vnpu_fw_sqe *sqe)
{
	__atomic_store_n(&raw_fw_status(fw, sqe->queue)->started_seqno, sqe->seqno,
			 __ATOMIC_RELEASE);
}

static inline void raw_fw_closed(struct raw_fw *fw, uint32_t ctx)
{
	raw_fw_post(fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED, .tag = ctx });
}

/* Completes one job as a good firmware does. Returns the number of entries that the kernel took. */
static inline uint32_t raw_fw_done(struct raw_fw *fw, const struct vnpu_fw_sqe *sqe,
				   uint32_t status)
{
	struct drm_vnpu_queue_status *page = raw_fw_status(fw, sqe->queue);
	uint32_t completed;

	if (status != VNPU_FW_OK && !page->error)
		page->error = EINVAL;
	raw_fw_raise(page, sqe->seqno);
	raw_fw_post(fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE,
					      .status = status,
					      .tag = sqe->tag,
					      .busy_ns = 1000 });
	assert_int_equal(raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, &completed), 0);
	return completed;
}

/* Takes the next job and completes it. */
static inline struct vnpu_fw_sqe raw_fw_serve(struct raw_fw *fw, uint32_t status)
{
	struct vnpu_fw_sqe sqe = raw_fw_expect(fw, VNPU_FW_SQE_JOB);

	raw_fw_done(fw, &sqe, status);
	return sqe;
}

/* ---- a client ---- */

static inline int raw_client(int minor)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/accel/accel%d", minor);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static inline struct drm_vnpu_query_limits raw_limits(int fd)
{
	struct drm_vnpu_query_limits limits = { 0 };
	struct drm_vnpu_dev_query query = { DRM_VNPU_QUERY_LIMITS, sizeof(limits),
					    (uintptr_t)&limits };

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &query), 0);
	return limits;
}

static inline struct drm_vnpu_query_state raw_state(int fd)
{
	struct drm_vnpu_query_state state = { 0 };
	struct drm_vnpu_dev_query query = { DRM_VNPU_QUERY_STATE, sizeof(state),
					    (uintptr_t)&state };

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &query), 0);
	return state;
}

static inline uint32_t raw_bo(int fd, uint64_t size)
{
	struct drm_vnpu_bo_create create = { .size = size };

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_BO_CREATE, &create), 0);
	assert_int_not_equal(create.handle, 0);
	return create.handle;
}

static inline uint8_t *raw_bo_map(int fd, uint32_t handle)
{
	struct drm_vnpu_bo_info info = { .handle = handle };
	uint8_t *p;

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_BO_INFO, &info), 0);
	p = mmap(NULL, info.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, info.mmap_offset);
	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static inline void raw_bo_close(int fd, uint32_t handle)
{
	struct drm_gem_close close = { .handle = handle };

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_GEM_CLOSE, &close), 0);
}

/* The number of a destroyed context becomes free a moment later, so try again. */
static inline uint32_t raw_ctx(int fd)
{
	struct drm_vnpu_ctx_create create = { 0 };
	int64_t until = raw_in_ms(RAW_LONG_MS);
	int ret;

	while ((ret = raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_CREATE, &create)) == -EBUSY &&
	       raw_now_ns() < until)
		usleep(200);
	assert_int_equal(ret, 0);
	assert_int_not_equal(create.ctx_id, 0);
	return create.ctx_id;
}

static inline int raw_ctx_destroy(int fd, uint32_t ctx)
{
	struct drm_vnpu_ctx_destroy destroy = { .ctx_id = ctx };

	return raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_DESTROY, &destroy);
}

static inline struct drm_vnpu_ctx_get_state raw_ctx_state(int fd, uint32_t ctx)
{
	struct drm_vnpu_ctx_get_state state = { .ctx_id = ctx };

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_GET_STATE, &state), 0);
	return state;
}

static inline int raw_bind_ops(int fd, uint32_t ctx, struct drm_vnpu_bind_op *ops, uint32_t nr)
{
	struct drm_vnpu_vm_bind bind = { .ctx_id = ctx,
					 .ops = { sizeof(*ops), nr, (uintptr_t)ops } };

	return raw_ioctl(fd, DRM_IOCTL_VNPU_VM_BIND, &bind);
}

static inline int raw_bind(int fd, uint32_t ctx, uint32_t handle, uint64_t va, uint64_t size,
			   uint32_t flags)
{
	struct drm_vnpu_bind_op op = {
		.op = DRM_VNPU_BIND_MAP, .flags = flags, .handle = handle, .va = va, .size = size
	};

	return raw_bind_ops(fd, ctx, &op, 1);
}

static inline int raw_unbind(int fd, uint32_t ctx, uint64_t va, uint64_t size)
{
	struct drm_vnpu_bind_op op = { .op = DRM_VNPU_BIND_UNMAP, .va = va, .size = size };

	return raw_bind_ops(fd, ctx, &op, 1);
}

static inline struct drm_vnpu_queue_create raw_queue_full(int fd, uint32_t ctx, uint32_t depth)
{
	struct drm_vnpu_queue_create create = { .ctx_id = ctx,
						.priority = DRM_VNPU_PRIORITY_NORMAL,
						.depth = depth };

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &create), 0);
	assert_int_not_equal(create.queue_id, 0);
	return create;
}

static inline uint32_t raw_queue(int fd, uint32_t ctx)
{
	return raw_queue_full(fd, ctx, 4).queue_id;
}

static inline int raw_queue_destroy(int fd, uint32_t queue)
{
	struct drm_vnpu_queue_destroy destroy = { .queue_id = queue };

	return raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_DESTROY, &destroy);
}

static inline const struct drm_vnpu_queue_status *
raw_queue_status(int fd, const struct drm_vnpu_queue_create *queue)
{
	void *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, queue->status_offset);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* A job that the kernel accepts; its stream does not exist, but only a firmware would notice. */
static inline struct drm_vnpu_job raw_job(uint32_t queue)
{
	return (struct drm_vnpu_job){
		.queue_id = queue,
		.cmd_va = 0x10000,
		.table_va = 0x20000,
		.cmd_size = 64,
		.table_size = 64,
	};
}

static inline void raw_job_syncs(struct drm_vnpu_job *job, struct drm_vnpu_sync_op *syncs,
				 uint32_t nr)
{
	job->syncs = (struct drm_vnpu_obj_array){ sizeof(*syncs), nr, (uintptr_t)syncs };
}

static inline int raw_submit_jobs(int fd, uint32_t ctx, struct drm_vnpu_job *jobs, uint32_t nr)
{
	struct drm_vnpu_submit submit = { .ctx_id = ctx,
					  .jobs = { sizeof(*jobs), nr, (uintptr_t)jobs } };

	return raw_ioctl(fd, DRM_IOCTL_VNPU_SUBMIT, &submit);
}

/* Submits one plain job. Returns its number. */
static inline uint64_t raw_submit(int fd, uint32_t ctx, uint32_t queue)
{
	struct drm_vnpu_job job = raw_job(queue);

	assert_int_equal(raw_submit_jobs(fd, ctx, &job, 1), 0);
	return job.seqno;
}

static inline int raw_wait(int fd, uint32_t queue, uint64_t seqno, int64_t ms, int *status)
{
	struct drm_vnpu_wait wait = { .queue_id = queue,
				      .seqno = seqno,
				      .timeout_ns = raw_in_ms(ms) };
	int ret = raw_ioctl(fd, DRM_IOCTL_VNPU_WAIT, &wait);

	if (status)
		*status = wait.status;
	return ret;
}

/* Waits for a job that must end. Returns its result. */
static inline int raw_result(int fd, uint32_t queue, uint64_t seqno)
{
	int status = 0;

	assert_int_equal(raw_wait(fd, queue, seqno, RAW_LONG_MS, &status), 0);
	return status;
}

static inline bool raw_is_done(int fd, uint32_t queue, uint64_t seqno)
{
	return raw_wait(fd, queue, seqno, 0, NULL) == 0;
}

/* ---- the module's parameters ---- */

/* 0 or -errno. */
static inline int raw_param_set(const char *name, const char *value)
{
	char path[96];
	int fd, error = 0;

	snprintf(path, sizeof(path), "/sys/module/vnpu/parameters/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) != (ssize_t)strlen(value))
		error = -errno;
	close(fd);
	return error;
}

/* Without its newline. */
static inline void raw_param_get(const char *name, char *value, size_t size)
{
	char path[96];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/sys/module/vnpu/parameters/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	n = read(fd, value, size - 1);
	close(fd);
	assert_true(n > 0);
	value[n - 1] = 0;
}

/* ---- syncobjs ---- */

static inline uint32_t raw_syncobj(int fd)
{
	struct drm_syncobj_create create = { 0 };

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &create), 0);
	return create.handle;
}

static inline void raw_syncobj_destroy(int fd, uint32_t handle)
{
	struct drm_syncobj_destroy destroy = { .handle = handle };

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), 0);
}

static inline int raw_syncobj_wait(int fd, uint32_t handle, uint64_t point, int64_t ms)
{
	struct drm_syncobj_timeline_wait wait = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.timeout_nsec = ms ? raw_in_ms(ms) : 0,
		.count_handles = 1,
	};

	return raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait);
}

/* Signals from the CPU: a binary syncobj, or a point. */
static inline void raw_syncobj_signal(int fd, uint32_t handle, uint64_t point)
{
	struct drm_syncobj_timeline_array array = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
	};

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &array), 0);
}

/* Newer than the headers of some libdrm versions. */
struct raw_syncobj_eventfd {
	uint32_t handle, flags;
	uint64_t point;
	int32_t fd;
	uint32_t pad;
};

#define RAW_SYNCOBJ_EVENTFD DRM_IOWR(0xCF, struct raw_syncobj_eventfd)

/*
 * Exports the fence of a syncobj as a file, with the parameter fence_export set for the moment. A
 * file or -errno.
 */
static inline int raw_export_sync_file(int fd, uint32_t handle)
{
	struct drm_syncobj_handle arg = { .handle = handle,
					  .flags =
						  DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE };
	int ret = raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &arg);

	return ret ?: arg.fd;
}

static inline void raw_fence_export(bool on)
{
	assert_int_equal(raw_param_set("fence_export", on ? "Y" : "N"), 0);
}

static inline int raw_sync_file(int fd, uint32_t handle)
{
	int file;

	raw_fence_export(true);
	file = raw_export_sync_file(fd, handle);
	raw_fence_export(false);
	assert_true(file >= 0);
	return file;
}

/* Imports another driver's sync_file as a syncobj of this file. */
static inline uint32_t raw_syncobj_of(int fd, int sync_file)
{
	struct drm_syncobj_handle arg = { .handle = raw_syncobj(fd),
					  .flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE,
					  .fd = sync_file };

	raw_fence_export(true);
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &arg), 0);
	raw_fence_export(false);
	return arg.handle;
}

/* ---- fixtures ---- */

/* A device whose firmware is the test itself, and a client with one context and one queue. */
struct bench {
	struct raw_fw fw;
	int fd;
	uint32_t ctx;
	struct drm_vnpu_queue_create q;
};

static inline int bench_setup(void **state)
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

static inline int bench_teardown(void **state)
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

static inline struct bench *bench(void **state)
{
	struct bench *b = *state;

	if (!b->fw.info)
		skip();
	return b;
}

#define BENCH_TEST(f) cmocka_unit_test_setup_teardown(f, bench_setup, bench_teardown)

/* A device for a group of tests, with a thread that completes all jobs; one client per test. */
struct raw_server {
	struct raw_fw fw;
	pthread_t thread;
	bool stop;
};

static struct raw_server server __attribute__((unused));

static inline void *server_run(void *unused)
{
	struct vnpu_fw_sqe sqe;

	while (!__atomic_load_n(&server.stop, __ATOMIC_ACQUIRE)) {
		if (!raw_fw_pop(&server.fw, &sqe, 20))
			continue;
		if (sqe.type == VNPU_FW_SQE_JOB)
			raw_fw_done(&server.fw, &sqe, VNPU_FW_OK);
		if (sqe.type == VNPU_FW_SQE_CTX_CLOSE) {
			raw_fw_closed(&server.fw, sqe.ctx);
			raw_fw_enter(&server.fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
		}
	}
	return NULL;
}

static inline int server_start(void **state)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();

	if (access(RAW_CONTROL, R_OK | W_OK))
		return 0;
	add.nr_queues = 300;
	add.nr_ctx = 70;
	add.mem_limit = 64 << 20;
	raw_fw_add(&server.fw, &add);
	return pthread_create(&server.thread, NULL, server_run, NULL);
}

static inline int server_stop(void **state)
{
	if (!server.fw.info)
		return 0;
	__atomic_store_n(&server.stop, true, __ATOMIC_RELEASE);
	pthread_join(server.thread, NULL);
	raw_fw_remove(&server.fw);
	return 0;
}

static inline int server_open(void **state)
{
	int *fd = malloc(sizeof(*fd));

	*fd = server.fw.info ? raw_client(server.fw.minor) : -1;
	*state = fd;
	return 0;
}

static inline int server_close(void **state)
{
	int *fd = *state;

	if (*fd >= 0)
		close(*fd);
	free(fd);
	return 0;
}

static inline int client(void **state)
{
	int *fd = *state;

	if (*fd < 0)
		skip();
	return *fd;
}

#define SERVER_TEST(f) cmocka_unit_test_setup_teardown(f, server_open, server_close)

#define refuse(fd, cmd, arg, error) \
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_##cmd, arg), -(error))

/* An address that is never mapped. */
#define NOWHERE 0x10ull

#endif /* VNPU_RAW_H */
