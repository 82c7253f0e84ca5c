// SPDX-License-Identifier: MIT
/*
 * Calls of vnpu.ko when memory runs out. A kernel with fault injection fails the n-th allocation (or copy from or to the
 * user) of the calling thread: each call is repeated for n = 1, 2, 3, ... until it meets no failure, and must either succeed or change nothing. What
 * it leaks, or does with locks held, is for kmemleak and lockdep to see.
 */
#include <poll.h>

#include "vnpu_raw.h"

#define VA 0x100000ull
#define SIZE (4 * PAGE)
#define FAIL_NTH "/proc/thread-self/fail-nth"

/* No call allocates so often. */
#define MAX_NTH 2000

static int fail_fd = -1;

/* Writing 0 may be what fails, but not a second time. */
static void fail_write(int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", n);

	if (pwrite(fail_fd, text, len, 0) != len)
		assert_int_equal(pwrite(fail_fd, text, len, 0), len);
}

/* Ends the injection; did it strike? Reading is a copy to the user that may itself be the n-th to fail. */
static bool fail_struck(void)
{
	char text[16] = { 0 };
	bool struck = pread(fail_fd, text, sizeof(text) - 1, 0) > 0 && atoi(text) == 0;

	fail_write(0);
	return struck;
}

/* Allocations that may sleep fail too; a failure is not worth a stack trace in the log. */
static void fail_set(const char *name, const char *value)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	assert_int_equal(write(fd, value, strlen(value)), (ssize_t)strlen(value));
	close(fd);
}

static int nomem_setup(void **state)
{
	if (bench_setup(state))
		return 1;
	fail_fd = open(FAIL_NTH, O_RDWR | O_CLOEXEC);
	if (fail_fd < 0)
		return 0;
	fail_set("failslab/ignore-gfp-wait", "N");
	fail_set("failslab/verbose", "0");
	fail_set("fail_page_alloc/ignore-gfp-wait", "N");
	fail_set("fail_page_alloc/min-order", "0");
	fail_set("fail_page_alloc/verbose", "0");
	fail_set("fail_usercopy/verbose", "0");
	return 0;
}

static int nomem_teardown(void **state)
{
	if (fail_fd >= 0) {
		fail_write(0);
		close(fail_fd);
		fail_fd = -1;
	}
	return bench_teardown(state);
}

static struct bench *nomem(void **state)
{
	struct bench *b = bench(state);

	if (fail_fd < 0)
		skip();
	return b;
}

#define NOMEM_TEST(f) cmocka_unit_test_setup_teardown(f, nomem_setup, nomem_teardown)

/* The firmware answers what closed contexts are owed. */
static void answer_closes(struct bench *b)
{
	struct vnpu_fw_sqe sqe;

	while (raw_fw_pop(&b->fw, &sqe, 0))
		if (sqe.type == VNPU_FW_SQE_CTX_CLOSE)
			raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED, .tag = sqe.ctx });
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
}

/* A new client, for the old one has something whose name could not be copied to the user. */
static void fresh_client(struct bench *b)
{
	close(b->fd);
	answer_closes(b);
	b->fd = raw_client(b->fw.minor);
	b->ctx = raw_ctx(b->fd);
	b->q = raw_queue_full(b->fd, b->ctx, 4);
}

struct call {
	const char *name;
	int (*call)(struct bench *b); /* 0 or -errno */
	void (*undo)(struct bench *b); /* takes back what a success did */
	bool names; /* the result is the name of something new */
	int instead; /* what the kernel's own part of the call says where -ENOMEM is meant, or 0 */
};

/*
 * Repeats a call until it meets no failure. It may also succeed although an allocation failed, where the kernel tries
 * another way.
 */
static void until_no_failure(struct bench *b, const struct call *c)
{
	int failures = 0;

	for (int n = 1; n < MAX_NTH; n++) {
		bool struck;
		int ret;

		fail_write(n);
		ret = c->call(b);
		struck = fail_struck();
		if (!ret)
			c->undo(b);
		else if (!struck || (ret != -ENOMEM && ret != -EFAULT && ret != (c->instead ?: -ENOMEM)))
			fail_msg("%s with failure %d: %d", c->name, n, ret);
		if (!struck) {
			print_message("%s: %d steps may fail, the call with %d\n", c->name, n - 1, failures);
			return;
		}
		if (ret == -EFAULT && c->names)
			fresh_client(b);
		failures += !!ret;
	}
	fail_msg("%s allocates without end", c->name);
}

/* ---- buffers ---- */

static struct drm_vnpu_bo_create bo;

static int bo_create(struct bench *b)
{
	bo = (struct drm_vnpu_bo_create){ .size = SIZE };
	return raw_ioctl(b->fd, DRM_IOCTL_VNPU_BO_CREATE, &bo);
}

static void bo_undo(struct bench *b)
{
	raw_bo_close(b->fd, bo.handle);
}

static uint64_t mem_bytes(struct bench *b)
{
	struct drm_vnpu_query_state q = { 0 };
	struct drm_vnpu_dev_query query = { DRM_VNPU_QUERY_STATE, sizeof(q), (uintptr_t)&q };

	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_DEV_QUERY, &query), 0);
	return q.mem_bytes;
}

static void a_buffer_is_made_or_not(void **state)
{
	struct bench *b = nomem(state);

	until_no_failure(b, &(struct call){ "BO_CREATE", bo_create, bo_undo, true, 0 });
	assert_int_equal(mem_bytes(b), 0);
}

/* ---- contexts and queues ---- */

static uint32_t ctx_id;

static int ctx_create(struct bench *b)
{
	struct drm_vnpu_ctx_create create = { 0 };
	int ret = raw_ioctl(b->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create);

	ctx_id = create.ctx_id;
	return ret;
}

/* The number of a context is free only when the firmware has answered. */
static void ctx_undo(struct bench *b)
{
	assert_int_equal(raw_ctx_destroy(b->fd, ctx_id), 0);
	answer_closes(b);
}

static void a_context_is_made_or_not(void **state)
{
	struct bench *b = nomem(state);

	until_no_failure(b, &(struct call){ "CTX_CREATE", ctx_create, ctx_undo, true, 0 });
	/* All numbers but the bench's own are free. */
	for (int i = 0; i < 7; i++)
		raw_ctx(b->fd);
	assert_int_equal(ctx_create(b), -EBUSY);
}

static uint32_t queue_id;

static int queue_create(struct bench *b)
{
	struct drm_vnpu_queue_create create = { .ctx_id = b->ctx, .depth = 4 };
	int ret = raw_ioctl(b->fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &create);

	queue_id = create.queue_id;
	return ret;
}

static void queue_undo(struct bench *b)
{
	assert_int_equal(raw_queue_destroy(b->fd, queue_id), 0);
}

static void a_queue_is_made_or_not(void **state)
{
	struct bench *b = nomem(state);

	until_no_failure(b, &(struct call){ "QUEUE_CREATE", queue_create, queue_undo, true, 0 });
	for (int i = 0; i < 7; i++)
		assert_int_equal(queue_create(b), 0);
	assert_int_equal(queue_create(b), -EBUSY);
}

/* ---- VM_BIND ---- */

static uint32_t bind_handle;

/* Two bindings of a buffer whose pages do not exist yet. */
static int bind(struct bench *b)
{
	struct drm_vnpu_bind_op ops[] = {
		{ .handle = bind_handle, .va = VA, .size = SIZE },
		{ .handle = bind_handle, .va = VA + SIZE, .bo_offset = PAGE, .size = PAGE },
	};

	return raw_bind_ops(b->fd, b->ctx, ops, 2);
}

static void bind_undo(struct bench *b)
{
	assert_int_equal(raw_unbind(b->fd, b->ctx, VA, SIZE), 0);
	assert_int_equal(raw_unbind(b->fd, b->ctx, VA + SIZE, PAGE), 0);
}

static void a_batch_of_bindings_is_taken_whole_or_not_at_all(void **state)
{
	struct bench *b = nomem(state);

	bind_handle = raw_bo(b->fd, SIZE);
	until_no_failure(b, &(struct call){ "VM_BIND", bind, bind_undo, false, 0 });
	assert_int_equal(bind(b), 0);
	raw_bo_close(b->fd, bind_handle);
	bind_undo(b);
	assert_int_equal(mem_bytes(b), 0);
}

/* ---- SUBMIT ---- */

static uint32_t submit_bo, submit_in, submit_out, submit_point;
static uint64_t submit_last, submit_value;

/* A job with everything: a dependency, a binary signal, a point of a timeline, a buffer; and a second one behind it. */
static int submit(struct bench *b)
{
	struct drm_vnpu_sync_op syncs[] = {
		{ 0, submit_in, 0 },
		{ DRM_VNPU_SYNC_SIGNAL, submit_out, 0 },
		{ DRM_VNPU_SYNC_SIGNAL, submit_point, submit_value + 1 },
	};
	struct drm_vnpu_bo_use use = { submit_bo, DRM_VNPU_BO_USE_WRITE };
	struct drm_vnpu_job jobs[] = { raw_job(b->q.queue_id), raw_job(b->q.queue_id) };
	int ret;

	raw_job_syncs(&jobs[0], syncs, 3);
	raw_job_bos(&jobs[0], &use, 1);
	raw_job_bos(&jobs[1], &use, 1);
	ret = raw_submit_jobs(b->fd, b->ctx, jobs, 2);
	if (ret)
		return ret;
	assert_int_equal(jobs[0].seqno, submit_last + 1);
	assert_int_equal(jobs[1].seqno, submit_last + 2);
	submit_last += 2;
	submit_value++;
	return 0;
}

static void submit_undo(struct bench *b)
{
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, submit_last), 0);
	assert_int_equal(raw_syncobj_wait(b->fd, submit_point, submit_value, RAW_LONG_MS), 0);
}

static void a_batch_of_jobs_is_taken_whole_or_not_at_all(void **state)
{
	struct bench *b = nomem(state);

	submit_last = submit_value = 0;
	submit_bo = raw_bo(b->fd, SIZE);
	submit_in = raw_syncobj(b->fd);
	submit_out = raw_syncobj(b->fd);
	submit_point = raw_syncobj(b->fd);
	raw_syncobj_signal(b->fd, submit_in, 0);
	until_no_failure(b, &(struct call){ "SUBMIT", submit, submit_undo, false, 0 });
	assert_int_equal(raw_submit(b->fd, b->ctx, b->q.queue_id), submit_last + 1);
}

/* ---- devices and files ---- */

static struct raw_fw other;

static int add_dev(struct bench *b)
{
	struct vnpu_ctl_add_dev add = raw_fw_defaults();
	int ctl = open(RAW_CONTROL, O_RDWR | O_CLOEXEC), ret;

	if (ctl < 0)
		return -errno;
	ret = raw_ioctl(ctl, VNPU_CTL_ADD_DEV, &add);
	close(ctl);
	other.fd = add.fw_fd;
	other.dev_id = add.dev_id;
	return ret;
}

static int start_dev(struct bench *b)
{
	struct vnpu_fw_start start = { 0 };

	return raw_ioctl(other.fd, VNPU_FW_START, &start);
}

/*
 * The driver core does not add a device twice, so one that could not be registered is gone. ADD_DEV is not tried: in DRM
 * of kernel 6.12 a minor whose allocation fails ends in an oops.
 */
static void a_device_is_started_or_gone(void **state)
{
	struct bench *b = nomem(state);
	bool struck = true;

	for (int n = 1; struck; n++) {
		int ret;

		assert_true(n < MAX_NTH);
		assert_int_equal(add_dev(b), 0);
		fail_write(n);
		ret = start_dev(b);
		struck = fail_struck();
		if (ret && ret != -EFAULT) {
			assert_true(struck);
			assert_int_equal(start_dev(b), -ENODEV);
			assert_int_equal(raw_del_dev(other.dev_id), -ENOENT);
		} else {
			/* The arguments could not be read, or the device's number not be written. */
			assert_true(!ret || struck);
			raw_del_dev(other.dev_id);
		}
		close(other.fd);
	}
}

static int client_fd;

static int client_open(struct bench *b)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/accel/accel%d", b->fw.minor);
	client_fd = open(path, O_RDWR | O_CLOEXEC);
	return client_fd < 0 ? -errno : 0;
}

static void client_undo(struct bench *b)
{
	close(client_fd);
}

static void a_file_is_opened_or_not(void **state)
{
	struct bench *b = nomem(state);

	until_no_failure(b, &(struct call){ "open", client_open, client_undo, false, 0 });
}

/* Once the arguments are copied, destroying needs no memory: a second try finds all or nothing. */
static void what_is_destroyed_is_gone_or_still_there(void **state)
{
	struct bench *b = nomem(state);
	bool struck = true;

	bind_handle = raw_bo(b->fd, SIZE);
	for (int n = 1; struck; n++) {
		int queue, range;

		assert_true(n < MAX_NTH);
		assert_int_equal(queue_create(b), 0);
		assert_int_equal(raw_bind(b->fd, b->ctx, bind_handle, VA, SIZE, 0), 0);
		fail_write(n);
		queue = raw_queue_destroy(b->fd, queue_id);
		range = raw_unbind(b->fd, b->ctx, VA, SIZE);
		struck = fail_struck();
		assert_true(!queue || !range);
		assert_true(!queue || queue == -EFAULT);
		assert_true(!range || range == -EFAULT || range == -ENOMEM);
		assert_int_equal(raw_queue_destroy(b->fd, queue_id), queue ? 0 : -ENOENT);
		assert_int_equal(raw_unbind(b->fd, b->ctx, VA, SIZE), range ? 0 : -ENOENT);
	}
}

/* ---- taking over, entering, mapping, exporting ---- */

static struct vnpu_ctl_attach attached;

/* The bench's firmware has died for it. */
static int attach(struct bench *b)
{
	int ctl = raw_control(), ret;

	attached = (struct vnpu_ctl_attach){ .version = VNPU_FW_ABI, .dev_id = b->fw.dev_id };
	ret = raw_ioctl(ctl, VNPU_CTL_ATTACH, &attached);
	close(ctl);
	return ret;
}

static void attach_undo(struct bench *b)
{
	close(attached.fw_fd);
}

static void a_device_is_taken_over_or_not(void **state)
{
	struct bench *b = nomem(state);

	raw_fw_die(&b->fw);
	until_no_failure(b, &(struct call){ "ATTACH", attach, attach_undo, false, 0 });
	assert_int_equal(raw_fw_attach(&b->fw), 0);
	raw_fw_start(&b->fw);
}

/* Takes the answer for a job, and one for a closed context, whose number is free again then. */
static int enter(struct bench *b)
{
	struct vnpu_fw_enter enter = { .flags = VNPU_FW_ENTER_COMPLETE };

	return raw_ioctl(b->fw.fd, VNPU_FW_ENTER, &enter);
}

static void completions_are_taken_whatever_fails(void **state)
{
	struct bench *b = nomem(state);
	bool struck = true;

	for (int n = 1; struck; n++) {
		uint32_t ctx = raw_ctx(b->fd);
		struct vnpu_fw_sqe sqe;
		uint64_t seqno;
		int ret;

		assert_true(n < MAX_NTH);
		seqno = raw_submit(b->fd, b->ctx, b->q.queue_id);
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
		raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = sqe.tag });
		assert_int_equal(raw_ctx_destroy(b->fd, ctx), 0);
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_CTX_CLOSE);
		raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED, .tag = sqe.ctx });
		fail_write(n);
		ret = enter(b);
		struck = fail_struck();
		assert_true(!ret || (struck && ret == -EFAULT));
		assert_int_equal(enter(b), 0);
		assert_int_equal(raw_result(b->fd, b->q.queue_id, seqno), 0);
	}
}

/* A mapping, of which the first byte is touched: page tables are allocated then, and a fault without them is repeated. */
struct mapping {
	int fd;
	uint64_t offset;
	void *at;
};

static struct mapping mapping;

static int map(struct bench *b)
{
	mapping.at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, mapping.fd, mapping.offset);
	if (mapping.at == MAP_FAILED)
		return -errno;
	(void)*(volatile uint8_t *)mapping.at;
	return 0;
}

static void map_undo(struct bench *b)
{
	munmap(mapping.at, PAGE);
}

static void everything_is_mapped_or_not(void **state)
{
	struct bench *b = nomem(state);
	struct drm_vnpu_bo_info info = { .handle = raw_bo(b->fd, SIZE) };

	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_BO_INFO, &info), 0);
	mapping = (struct mapping){ .fd = b->fd, .offset = info.mmap_offset };
	until_no_failure(b, &(struct call){ "mmap of a buffer", map, map_undo, false, 0 });
	mapping = (struct mapping){ .fd = b->fd, .offset = b->q.status_offset };
	until_no_failure(b, &(struct call){ "mmap of a status page", map, map_undo, false, 0 });
	mapping = (struct mapping){ .fd = b->fw.fd, .offset = b->fw.info->cq_offset };
	until_no_failure(b, &(struct call){ "mmap of a ring", map, map_undo, false, 0 });
	assert_int_equal(raw_bind(b->fd, b->ctx, info.handle, VA, SIZE, 0), 0);
	mapping = (struct mapping){ .fd = b->fw.fd, .offset = (1ull << b->fw.info->va_bits) + VA };
	until_no_failure(b, &(struct call){ "mmap of an aperture", map, map_undo, false, 0 });
	assert_int_equal(raw_unbind(b->fd, b->ctx, VA, SIZE), 0);
	raw_bo_close(b->fd, info.handle);
	assert_int_equal(mem_bytes(b), 0);
}

static struct drm_syncobj_handle exported;

static int export(struct bench *b)
{
	exported = (struct drm_syncobj_handle){ .handle = submit_out,
						.flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE };
	return raw_ioctl(b->fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &exported);
}

static void export_undo(struct bench *b)
{
	close(exported.fd);
}

/* A call whose number of the new fd cannot be copied leaves it open: DRM's affair, and the process's end closes it. */
static void a_fence_is_exported_or_not_and_polled(void **state)
{
	struct bench *b = nomem(state);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
	struct drm_vnpu_job job = raw_job(b->q.queue_id);
	struct pollfd p[2] = { { .events = POLLIN }, { .fd = b->fw.fd, .events = POLLIN } };
	bool struck = true;

	submit_out = out.handle;
	raw_job_syncs(&job, &out, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	/* drm_syncobj_export_sync_file() of 6.12 to 7.3 takes a sync_file that cannot be had for a bad handle. */
	until_no_failure(b, &(struct call){ "sync_file", export, export_undo, false, -EINVAL });
	assert_int_equal(export(b), 0);
	p[0].fd = exported.fd;
	for (int n = 1; struck; n++) {
		int ret, error;

		assert_true(n < MAX_NTH);
		fail_write(n);
		ret = poll(p, 2, 0);
		error = errno;
		struck = fail_struck();
		assert_true(ret == 1 || (struck && ret < 0 && (error == ENOMEM || error == EFAULT)));
	}
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(poll(p, 1, RAW_LONG_MS), 1);
	close(exported.fd);
}

/* ---- the end of a file ---- */

static void a_file_that_closes_leaves_nothing_whatever_fails(void **state)
{
	struct bench *b = nomem(state);
	bool struck = true;

	for (int n = 1; struck; n++) {
		struct bench other = { .fw = b->fw };
		int64_t until = raw_in_ms(RAW_LONG_MS);
		uint32_t bo;

		assert_true(n < MAX_NTH);
		assert_int_equal(client_open(b), 0);
		other.fd = client_fd;
		other.ctx = raw_ctx(other.fd);
		other.q = raw_queue_full(other.fd, other.ctx, 4);
		bo = raw_bo(other.fd, SIZE);
		assert_int_equal(raw_bind(other.fd, other.ctx, bo, VA, SIZE, 0), 0);
		for (int i = 0; i < 6; i++)
			raw_submit(other.fd, other.ctx, other.q.queue_id);
		fail_write(n);
		close(other.fd);
		struck = fail_struck();
		answer_closes(b);
		while (mem_bytes(b)) {
			assert_true(raw_now_ns() < until);
			usleep(1000);
		}
	}
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
}

/* ---- every thread, the kernel's own too ---- */

/* Only what is allocated from the module's code fails. */
static void fail_in_the_module(void)
{
	unsigned long start = 0, size = 0;
	char line[128];
	FILE *f = fopen("/sys/module/vnpu/sections/.text", "re");

	assert_true(f && fgets(line, sizeof(line), f));
	start = strtoul(line, NULL, 16);
	fclose(f);
	f = fopen("/proc/modules", "re");
	while (!size && f && fgets(line, sizeof(line), f))
		sscanf(line, "vnpu %lu", &size);
	assert_true(start && size);
	fclose(f);
	snprintf(line, sizeof(line), "%#lx", start);
	fail_set("failslab/require-start", line);
	snprintf(line, sizeof(line), "%#lx", start + size);
	fail_set("failslab/require-end", line);
}

struct churn {
	struct bench *b;
	bool stop;
	uint64_t rounds, failed;
};

/* A client's life, each step of which may fail for lack of memory and for no other reason. */
static void *churn_run(void *arg)
{
	struct churn *c = arg;
	char path[64];

	snprintf(path, sizeof(path), "/dev/accel/accel%d", c->b->fw.minor);
	for (; !__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE); c->rounds++) {
		struct drm_vnpu_ctx_create ctx = { 0 };
		struct drm_vnpu_queue_create queue = { .depth = 2 };
		struct drm_vnpu_bo_create create = { .size = SIZE };
		int fd = open(path, O_RDWR | O_CLOEXEC), ret = 0;

		if (fd < 0) {
			c->failed++;
			continue;
		}
		ret = raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_CREATE, &ctx);
		queue.ctx_id = ctx.ctx_id;
		if (!ret)
			ret = raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &queue);
		if (!ret)
			ret = raw_ioctl(fd, DRM_IOCTL_VNPU_BO_CREATE, &create);
		if (!ret)
			ret = raw_bind(fd, ctx.ctx_id, create.handle, VA, SIZE, 0);
		for (int i = 0; i < 6 && !ret; i++) {
			struct drm_vnpu_job job = raw_job(queue.queue_id);

			ret = raw_submit_jobs(fd, ctx.ctx_id, &job, 1);
			if (!ret && i == 5)
				ret = raw_wait(fd, queue.queue_id, job.seqno, RAW_LONG_MS, NULL);
		}
		if (ret && ret != -ENOMEM && ret != -EBUSY)
			fail_msg("a step failed with %d", ret);
		c->failed += !!ret;
		close(fd);
	}
	return NULL;
}

static void any_allocation_of_the_module_may_fail_in_any_thread(void **state)
{
	struct bench *b = nomem(state);
	struct churn c = { .b = b };
	int64_t until = raw_in_ms(3000);
	struct vnpu_fw_sqe sqe;
	pthread_t thread;

	if (access("/sys/kernel/debug/failslab/require-start", W_OK))
		skip();
	fail_in_the_module();
	fail_set("failslab/task-filter", "N");
	fail_set("failslab/interval", "1");
	fail_set("failslab/times", "-1");
	fail_set("failslab/probability", "10");
	assert_int_equal(pthread_create(&thread, NULL, churn_run, &c), 0);
	while (raw_now_ns() < until || !c.stop) {
		if (raw_now_ns() >= until) {
			fail_set("failslab/probability", "0");
			/* One more second, for what the client still waits for. */
			__atomic_store_n(&c.stop, true, __ATOMIC_RELEASE);
			until = raw_in_ms(1000);
		}
		if (!raw_fw_pop(&b->fw, &sqe, 5))
			continue;
		if (sqe.type == VNPU_FW_SQE_JOB)
			raw_fw_done(&b->fw, &sqe, VNPU_FW_OK);
		if (sqe.type == VNPU_FW_SQE_CTX_CLOSE)
			raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED, .tag = sqe.ctx });
		raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
	}
	pthread_join(thread, NULL);
	fail_set("failslab/require-start", "0");
	fail_set("failslab/require-end", "0xffffffffffffffff");
	print_message("%llu lives, %llu cut short\n", (unsigned long long)c.rounds, (unsigned long long)c.failed);
	assert_true(c.failed > 0);
	for (until = raw_in_ms(RAW_LONG_MS); mem_bytes(b); usleep(1000))
		assert_true(raw_now_ns() < until);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NOMEM_TEST(a_buffer_is_made_or_not),
		NOMEM_TEST(a_context_is_made_or_not),
		NOMEM_TEST(a_queue_is_made_or_not),
		NOMEM_TEST(a_batch_of_bindings_is_taken_whole_or_not_at_all),
		NOMEM_TEST(a_batch_of_jobs_is_taken_whole_or_not_at_all),
		NOMEM_TEST(a_device_is_started_or_gone),
		NOMEM_TEST(a_file_is_opened_or_not),
		NOMEM_TEST(what_is_destroyed_is_gone_or_still_there),
		NOMEM_TEST(a_device_is_taken_over_or_not),
		NOMEM_TEST(completions_are_taken_whatever_fails),
		NOMEM_TEST(everything_is_mapped_or_not),
		NOMEM_TEST(a_fence_is_exported_or_not_and_polled),
		NOMEM_TEST(a_file_that_closes_leaves_nothing_whatever_fails),
		NOMEM_TEST(any_allocation_of_the_module_may_fail_in_any_thread),
	};

	return cmocka_run_group_tests_name("nomem", tests, NULL, NULL);
}
