// SPDX-License-Identifier: MIT
/*
 * Calls of vnpu.ko when memory runs out. A kernel with fault injection fails the n-th allocation
 * (or copy from or to the user) of the calling thread: each call is repeated for n = 1, 2, 3, ...
 * until no failure is injected, and must either succeed or change nothing. kmemleak and lockdep
 * report leaks, and sleeping with locks held.
 */
#include <poll.h>

#include "nomem.h"

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

static void creating_a_buffer_succeeds_or_changes_nothing(void **state)
{
	struct bench *b = nomem(state);

	until_no_failure(b, &(struct call){ "BO_CREATE", bo_create, bo_undo, NULL, true, 0 });
	assert_int_equal(raw_state(b->fd).mem_bytes, 0);
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

/* The number of a context becomes free only when the firmware has answered. */
static void ctx_undo(struct bench *b)
{
	assert_int_equal(raw_ctx_destroy(b->fd, ctx_id), 0);
	answer_closes(b);
}

static void creating_a_context_succeeds_or_changes_nothing(void **state)
{
	struct bench *b = nomem(state);

	until_no_failure(b, &(struct call){ "CTX_CREATE", ctx_create, ctx_undo, NULL, true, 0 });
	/* All numbers except the bench's own are free. */
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

static void creating_a_queue_succeeds_or_changes_nothing(void **state)
{
	struct bench *b = nomem(state);

	until_no_failure(b,
			 &(struct call){ "QUEUE_CREATE", queue_create, queue_undo, NULL, true, 0 });
	for (int i = 0; i < 7; i++)
		assert_int_equal(queue_create(b), 0);
	assert_int_equal(queue_create(b), -EBUSY);
}

/* ---- VM_BIND ---- */

static uint32_t bind_handle;

/* Two bindings of a buffer whose pages are not allocated yet. */
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
	until_no_failure(b, &(struct call){ "VM_BIND", bind, bind_undo, NULL, false, 0 });
	assert_int_equal(bind(b), 0);
	raw_bo_close(b->fd, bind_handle);
	bind_undo(b);
	assert_int_equal(raw_state(b->fd).mem_bytes, 0);
}

/* ---- SUBMIT ---- */

/* Posts answers for a job and for a closed context, whose number becomes free by that. */
static int enter(struct bench *b)
{
	struct vnpu_fw_enter enter = { .flags = VNPU_FW_ENTER_COMPLETE };

	return raw_ioctl(b->fw.fd, VNPU_FW_ENTER, &enter);
}

static uint32_t submit_in, submit_out, submit_point, submit_queue;
static uint64_t submit_last, submit_value;
static struct vnpu_fw_sqe submit_blocker;
static bool submit_blocked;

/* The jobs' fences are signalled only after SUBMIT, so that the jobs wait in the kernel. */
static void submit_unblock(struct bench *b)
{
	if (submit_blocked)
		raw_fw_done(&b->fw, &submit_blocker, VNPU_FW_OK);
	submit_blocked = false;
}

static void submit_prepare(struct bench *b)
{
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, submit_in, 0 };
	struct drm_vnpu_job job = raw_job(submit_queue);

	submit_unblock(b);
	raw_job_syncs(&job, &out, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	submit_blocker = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	submit_blocked = true;
}

/*
 * Jobs with everything: one that waits, and signals a binary syncobj and a timeline point; one that
 * waits for that point of the same batch; and one without syncs behind them.
 */
static int submit(struct bench *b)
{
	struct drm_vnpu_sync_op syncs[] = {
		{ 0, submit_in, 0 },
		{ DRM_VNPU_SYNC_SIGNAL, submit_out, 0 },
		{ DRM_VNPU_SYNC_SIGNAL, submit_point, submit_value + 1 },
	};
	struct drm_vnpu_sync_op second[] = {
		{ 0, submit_in, 0 }, { DRM_VNPU_SYNC_SIGNAL, submit_point, submit_value + 2 }
	};
	struct drm_vnpu_job jobs[] = { raw_job(b->q.queue_id), raw_job(b->q.queue_id),
				       raw_job(b->q.queue_id) };
	int ret;

	raw_job_syncs(&jobs[0], syncs, 3);
	raw_job_syncs(&jobs[1], second, 2);
	ret = raw_submit_jobs(b->fd, b->ctx, jobs, 3);
	if (ret)
		return ret;
	for (int i = 0; i < 3; i++)
		assert_int_equal(jobs[i].seqno, submit_last + 1 + i);
	submit_last += 3;
	submit_value += 2;
	return 0;
}

static void submit_undo(struct bench *b)
{
	struct vnpu_fw_sqe sqe;

	/* They must wait: an unnoticed failed allocation would have sent them to the device. */
	assert_false(raw_fw_pop(&b->fw, &sqe, 0));
	submit_unblock(b);
	for (int i = 0; i < 3; i++)
		raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, submit_last), 0);
	assert_int_equal(raw_syncobj_wait(b->fd, submit_point, submit_value, RAW_LONG_MS), 0);
	assert_int_equal(raw_syncobj_wait(b->fd, submit_out, 0, 0), 0);
}

static void a_batch_of_waiting_jobs_is_taken_whole_or_not_at_all(void **state)
{
	struct bench *b = nomem(state);

	submit_last = submit_value = 0;
	submit_blocked = false;
	submit_queue = raw_queue(b->fd, b->ctx);
	submit_in = raw_syncobj(b->fd);
	submit_out = raw_syncobj(b->fd);
	submit_point = raw_syncobj(b->fd);
	until_no_failure(b,
			 &(struct call){ "SUBMIT", submit, submit_undo, submit_prepare, false, 0 });
	submit_unblock(b);
	assert_int_equal(raw_submit(b->fd, b->ctx, b->q.queue_id), submit_last + 1);
}

/* Without a fence only the copy of the arguments is allocated. */
static int submit_plain(struct bench *b)
{
	struct drm_vnpu_job jobs[] = { raw_job(b->q.queue_id), raw_job(b->q.queue_id) };

	return raw_submit_jobs(b->fd, b->ctx, jobs, 2);
}

static void submit_plain_undo(struct bench *b)
{
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
}

static void a_batch_without_fences_is_taken_whole_or_not_at_all(void **state)
{
	struct bench *b = nomem(state);

	until_no_failure(b, &(struct call){ "SUBMIT of plain jobs", submit_plain, submit_plain_undo,
					    NULL, false, 0 });
}

/*
 * The other half of SUBMIT: what happens when the fence signals that was waited for. It must not
 * need memory, because the signaller may be the one who frees some.
 */
static void dependencies_signal_whatever_allocation_fails(void **state)
{
	struct bench *b = nomem(state);
	bool struck = true;

	submit_last = submit_value = 0;
	submit_blocked = false;
	submit_queue = raw_queue(b->fd, b->ctx);
	submit_in = raw_syncobj(b->fd);
	submit_out = raw_syncobj(b->fd);
	submit_point = raw_syncobj(b->fd);
	for (int n = 1; struck; n++) {
		int ret;

		assert_true(n < MAX_NTH);
		submit_prepare(b);
		assert_int_equal(submit(b), 0);
		raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE,
							  .tag = submit_blocker.tag });
		fail_write(n);
		ret = enter(b);
		struck = fail_struck();
		assert_true(!ret || (struck && ret == -EFAULT));
		assert_int_equal(enter(b), 0);
		submit_blocked = false;
		for (int i = 0; i < 3; i++)
			raw_fw_serve(&b->fw, VNPU_FW_OK);
		assert_int_equal(raw_result(b->fd, b->q.queue_id, submit_last), 0);
	}
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
 * The driver core does not add a device twice, so a device that could not be registered is gone.
 * ADD_DEV is not tested: in DRM of kernel 6.12 a minor whose allocation fails causes an oops.
 */
static void starting_a_device_succeeds_or_removes_it(void **state)
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
			/* The arguments could not be read, or the number could not be written. */
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

static void opening_a_file_succeeds_or_changes_nothing(void **state)
{
	struct bench *b = nomem(state);

	until_no_failure(b, &(struct call){ "open", client_open, client_undo, NULL, false, 0 });
}

/* After the arguments are copied, destroying needs no memory: it does all or nothing. */
static void destroying_succeeds_or_changes_nothing(void **state)
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

/* ---- attaching, entering, mapping, exporting ---- */

static struct vnpu_ctl_attach attached;

/* After the bench's firmware has died. */
static int attach(struct bench *b)
{
	int ctl = open(RAW_CONTROL, O_RDWR | O_CLOEXEC), ret;

	if (ctl < 0)
		return -errno;
	attached = (struct vnpu_ctl_attach){ .size = sizeof(attached),
					     .version = VNPU_FW_ABI,
					     .dev_id = b->fw.dev_id };
	ret = raw_ioctl(ctl, VNPU_CTL_ATTACH, &attached);
	close(ctl);
	return ret;
}

static void attach_undo(struct bench *b)
{
	close(attached.fw_fd);
}

static void attaching_to_a_device_succeeds_or_changes_nothing(void **state)
{
	struct bench *b = nomem(state);

	raw_fw_die(&b->fw);
	until_no_failure(b, &(struct call){ "ATTACH", attach, attach_undo, NULL, false, 0 });
	assert_int_equal(raw_fw_attach(&b->fw), 0);
	raw_fw_start(&b->fw);
}

static void completions_are_processed_whatever_allocation_fails(void **state)
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
		raw_fw_post(&b->fw,
			    (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = sqe.tag });
		assert_int_equal(raw_ctx_destroy(b->fd, ctx), 0);
		sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_CTX_CLOSE);
		raw_fw_closed(&b->fw, sqe.ctx);
		fail_write(n);
		ret = enter(b);
		struck = fail_struck();
		assert_true(!ret || (struck && ret == -EFAULT));
		assert_int_equal(enter(b), 0);
		assert_int_equal(raw_result(b->fd, b->q.queue_id, seqno), 0);
	}
}

/* A mapping whose first byte is accessed, which allocates page tables; a fault may repeat. */
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

static void mapping_succeeds_or_changes_nothing(void **state)
{
	struct bench *b = nomem(state);
	struct drm_vnpu_bo_info info = { .handle = raw_bo(b->fd, SIZE) };

	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_VNPU_BO_INFO, &info), 0);
	mapping = (struct mapping){ .fd = b->fd, .offset = info.mmap_offset };
	until_no_failure(b, &(struct call){ "mmap of a buffer", map, map_undo, NULL, false, 0 });
	mapping = (struct mapping){ .fd = b->fd, .offset = b->q.status_offset };
	until_no_failure(b,
			 &(struct call){ "mmap of a status page", map, map_undo, NULL, false, 0 });
	mapping = (struct mapping){ .fd = b->fw.fd, .offset = b->fw.info->cq_offset };
	until_no_failure(b, &(struct call){ "mmap of a ring", map, map_undo, NULL, false, 0 });
	assert_int_equal(raw_bind(b->fd, b->ctx, info.handle, VA, SIZE, 0), 0);
	mapping = (struct mapping){ .fd = b->fw.fd, .offset = (1ull << b->fw.info->va_bits) + VA };
	until_no_failure(b, &(struct call){ "mmap of an aperture", map, map_undo, NULL, false, 0 });
	assert_int_equal(raw_unbind(b->fd, b->ctx, VA, SIZE), 0);
	raw_bo_close(b->fd, info.handle);
	assert_int_equal(raw_state(b->fd).mem_bytes, 0);
}

static struct drm_syncobj_handle exported;

static int export(struct bench *b)
{
	exported = (struct drm_syncobj_handle){
		.handle = submit_out, .flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE
	};
	return raw_ioctl(b->fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &exported);
}

static void export_undo(struct bench *b)
{
	close(exported.fd);
}

/* If the number of the new fd cannot be copied, DRM leaves it open until the process ends. */
static void exporting_and_polling_a_fence_succeeds_or_changes_nothing(void **state)
{
	struct bench *b = nomem(state);
	struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, raw_syncobj(b->fd), 0 };
	struct drm_vnpu_job job = raw_job(b->q.queue_id);
	struct pollfd p[2] = { { .events = POLLIN }, { .fd = b->fw.fd, .events = POLLIN } };
	bool struck = true;

	submit_out = out.handle;
	raw_fence_export(true);
	raw_job_syncs(&job, &out, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	/*
	 * In 6.12 to 7.3, drm_syncobj_export_sync_file() returns the error for a bad handle if it
	 * cannot make a sync_file.
	 */
	until_no_failure(b,
			 &(struct call){ "sync_file", export, export_undo, NULL, false, -EINVAL });
	assert_int_equal(export(b), 0);
	raw_fence_export(false);
	p[0].fd = exported.fd;
	for (int n = 1; struck; n++) {
		int ret, error;

		assert_true(n < MAX_NTH);
		fail_write(n);
		ret = poll(p, 2, 0);
		error = errno;
		struck = fail_struck();
		assert_true(ret == 1 ||
			    (struck && ret < 0 && (error == ENOMEM || error == EFAULT)));
	}
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(poll(p, 1, RAW_LONG_MS), 1);
	close(exported.fd);
}

/* ---- the end of a file ---- */

static void a_file_that_closes_leaves_nothing_whatever_allocation_fails(void **state)
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
		while (raw_state(b->fd).mem_bytes) {
			assert_true(raw_now_ns() < until);
			usleep(1000);
		}
	}
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NOMEM_TEST(creating_a_buffer_succeeds_or_changes_nothing),
		NOMEM_TEST(creating_a_context_succeeds_or_changes_nothing),
		NOMEM_TEST(creating_a_queue_succeeds_or_changes_nothing),
		NOMEM_TEST(a_batch_of_bindings_is_taken_whole_or_not_at_all),
		NOMEM_TEST(a_batch_of_waiting_jobs_is_taken_whole_or_not_at_all),
		NOMEM_TEST(a_batch_without_fences_is_taken_whole_or_not_at_all),
		NOMEM_TEST(dependencies_signal_whatever_allocation_fails),
		NOMEM_TEST(starting_a_device_succeeds_or_removes_it),
		NOMEM_TEST(opening_a_file_succeeds_or_changes_nothing),
		NOMEM_TEST(destroying_succeeds_or_changes_nothing),
		NOMEM_TEST(attaching_to_a_device_succeeds_or_changes_nothing),
		NOMEM_TEST(completions_are_processed_whatever_allocation_fails),
		NOMEM_TEST(mapping_succeeds_or_changes_nothing),
		NOMEM_TEST(exporting_and_polling_a_fence_succeeds_or_changes_nothing),
		NOMEM_TEST(a_file_that_closes_leaves_nothing_whatever_allocation_fails),
	};

	return cmocka_run_group_tests_name("nomem", tests, NULL, NULL);
}
