// SPDX-License-Identifier: MIT
/*
 * Device calls as in uapi/drm/vnpu_accel.h, without libnpu's objects: refusal of every bad field,
 * batches, and the limits and memory of a queue. Runs on sim, and with NPU_TRANSPORT=drm on
 * vnpu.ko.
 */
#include <errno.h>
#include <sys/mman.h>

#include "npu_fixture.h"
#include "npu_private.h"

struct calls {
	struct fixture *f;
	struct transport *t;
	uint32_t ctx, queue;
	struct npu_job *job;
};

static int calls_setup(void **state)
{
	struct calls *c = calloc(1, sizeof(*c));
	void *f;

	fixture_setup(&f);
	c->f = f;
	c->t = c->f->dev->t;
	c->ctx = c->f->ctx->id;
	c->queue = c->f->queue->id;
	c->job = fixture_sleep(c->f->ctx, 0);
	*state = c;
	return 0;
}

static int calls_teardown(void **state)
{
	struct calls *c = *state;
	void *f = c->f;

	npu_job_free(c->job);
	free(c);
	return fixture_teardown(&f);
}

/* With one field changed, the call must fail with @err. */
#define REFUSED(request, type, good, field, value, err)                                   \
	do {                                                                              \
		type refused_arg = good;                                                  \
		int refused_ret;                                                          \
		refused_arg.field = (value);                                              \
		refused_ret = transport_ioctl(c->t, request, &refused_arg);               \
		if (refused_ret != (err))                                                 \
			fail_msg("%s with %s = %s: %d, not %d", #request, #field, #value, \
				 refused_ret, err);                                       \
	} while (0)

static struct drm_vnpu_job raw_job(struct calls *c)
{
	return (struct drm_vnpu_job){
		.queue_id = c->queue,
		.cmd_va = c->job->prog->code->va,
		.table_va = c->job->table->va,
		.cmd_size = c->job->prog->image.cmd_bytes,
		.table_size = c->job->table_bytes,
	};
}

static struct drm_vnpu_obj_array array_of(void *p, uint32_t count, uint32_t stride)
{
	return (struct drm_vnpu_obj_array){ .stride = stride,
					    .count = count,
					    .array = (uintptr_t)p };
}

static int submit(struct calls *c, struct drm_vnpu_job *jobs, uint32_t count)
{
	struct drm_vnpu_submit args = { .ctx_id = c->ctx,
					.jobs = array_of(jobs, count, sizeof(*jobs)) };

	return transport_ioctl(c->t, DRM_IOCTL_VNPU_SUBMIT, &args);
}

static int wait_seqno(struct calls *c, uint64_t seqno, int64_t timeout_ns)
{
	struct drm_vnpu_wait args = { .queue_id = c->queue,
				      .seqno = seqno,
				      .timeout_ns = timeout_ns };
	int ret = transport_ioctl(c->t, DRM_IOCTL_VNPU_WAIT, &args);

	return ret ? ret : args.status;
}

static uint32_t bo_new(struct calls *c, uint64_t size, uint32_t flags)
{
	struct drm_vnpu_bo_create args = { .size = size, .flags = flags };

	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_BO_CREATE, &args), 0);
	assert_int_not_equal(args.handle, 0);
	assert_int_equal(args.size % DRM_VNPU_PAGE_SIZE, 0);
	return args.handle;
}

static void bo_close(struct calls *c, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_GEM_CLOSE, &args), 0);
}

/* ---- queries --------------------------------------------------------------------------------- */

static void queries_copy_what_fits_and_clear_the_rest(void **state)
{
	struct calls *c = *state;
	struct drm_vnpu_dev_query q = { .type = DRM_VNPU_QUERY_DEVICE };
	uint8_t buf[256];

	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
	assert_int_equal(q.size, sizeof(struct drm_vnpu_query_device));
	memset(buf, 0xee, sizeof(buf));
	q = (struct drm_vnpu_dev_query){ DRM_VNPU_QUERY_DEVICE, 8, (uintptr_t)buf };
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
	assert_int_equal(buf[8], 0xee);
	assert_int_equal(q.size, sizeof(struct drm_vnpu_query_device));
	q = (struct drm_vnpu_dev_query){ DRM_VNPU_QUERY_STATE, sizeof(buf), (uintptr_t)buf };
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
	assert_int_equal(q.size, sizeof(struct drm_vnpu_query_state));
	for (size_t i = q.size; i < sizeof(buf); i++)
		assert_int_equal(buf[i], 0);
	q = (struct drm_vnpu_dev_query){ .type = 3 };
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_DEV_QUERY, &q), -EINVAL);
}

static void a_query_of_more_than_a_page_is_refused_unless_it_asks_for_the_size(void **state)
{
	struct calls *c = *state;
	struct drm_vnpu_dev_query q = { .type = DRM_VNPU_QUERY_LIMITS,
					.size = DRM_VNPU_PAGE_SIZE + 1 };
	static uint8_t buf[DRM_VNPU_PAGE_SIZE + 1];

	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
	assert_int_equal(q.size, sizeof(struct drm_vnpu_query_limits));
	q.pointer = (uintptr_t)buf;
	q.size = sizeof(buf);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_DEV_QUERY, &q), -EINVAL);
	q.size = DRM_VNPU_PAGE_SIZE;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_DEV_QUERY, &q), 0);
}

static void every_limit_can_be_reached(void **state)
{
	struct calls *c = *state;
	const struct drm_vnpu_query_limits *l = &c->f->dev->limits;

	assert_int_equal(l->max_waiting_jobs, 256);
	assert_int_equal(l->max_fence_ms, 10000);
	assert_true(l->mem_limit_bytes && l->max_bytes_per_user && l->max_bo_bytes &&
		    l->max_cmd_bytes);
	assert_true(l->max_bytes_per_user <= l->mem_limit_bytes);
	assert_true(l->default_timeout_ms && l->default_timeout_ms <= l->max_timeout_ms);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static void buffer_calls_refuse_each_wrong_field(void **state)
{
	struct calls *c = *state;
	struct drm_vnpu_bo_create create = { .size = 100 };
	struct drm_vnpu_bo_info info = { .handle = 0xffff };
	struct drm_gem_close gem_close = { .handle = 0xffff };
	uint32_t ro = bo_new(c, 5000, DRM_VNPU_BO_DEVICE_READ_ONLY);

	REFUSED(DRM_IOCTL_VNPU_BO_CREATE, struct drm_vnpu_bo_create, create, size, 0, -EINVAL);
	REFUSED(DRM_IOCTL_VNPU_BO_CREATE, struct drm_vnpu_bo_create, create, size, UINT64_MAX,
		-EINVAL);
	REFUSED(DRM_IOCTL_VNPU_BO_CREATE, struct drm_vnpu_bo_create, create, flags, 2, -EINVAL);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_BO_INFO, &info), -ENOENT);
	info.handle = ro;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_BO_INFO, &info), 0);
	assert_int_equal(info.flags, DRM_VNPU_BO_DEVICE_READ_ONLY);
	assert_int_equal(info.size, 8192);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_GEM_CLOSE, &gem_close), -EINVAL);
	bo_close(c, ro);
}

static void a_status_page_can_only_be_mapped_for_reading(void **state)
{
	struct calls *c = *state;
	struct drm_vnpu_queue_create create = { .ctx_id = c->ctx,
						.priority = DRM_VNPU_PRIORITY_NORMAL,
						.depth = 4 };
	struct drm_vnpu_queue_destroy destroy = { 0 };
	void *p;

	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_QUEUE_CREATE, &create), 0);
	assert_true(c->t->ops->map(c->t, create.status_offset, 4096, PROT_READ | PROT_WRITE, &p) <
		    0);
	assert_true(c->t->ops->map(c->t, create.status_offset, 8192, PROT_READ, &p) < 0);
	assert_true(c->t->ops->map(c->t, UINT64_MAX & ~4095ull, 4096, PROT_READ, &p) < 0);
	assert_int_equal(c->t->ops->map(c->t, create.status_offset, 4096, PROT_READ, &p), 0);
	assert_int_equal(((struct drm_vnpu_queue_status *)p)->completed_seqno, 0);
	assert_int_equal(c->t->ops->unmap(c->t, p, 4096), 0);
	destroy.queue_id = create.queue_id;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_QUEUE_DESTROY, &destroy), 0);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_QUEUE_DESTROY, &destroy), -ENOENT);
}

/* ---- contexts and bindings ------------------------------------------------------------------- */

static void context_calls_refuse_each_wrong_field(void **state)
{
	struct calls *c = *state;
	struct drm_vnpu_ctx_create create = { .flags = 1 };
	struct drm_vnpu_ctx_destroy destroy = { .ctx_id = 0xffff };
	struct drm_vnpu_ctx_get_state get = { .ctx_id = c->ctx };

	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_CTX_CREATE, &create), -EINVAL);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_CTX_DESTROY, &destroy), -ENOENT);
	destroy.pad = 1;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_CTX_DESTROY, &destroy), -EINVAL);
	REFUSED(DRM_IOCTL_VNPU_CTX_GET_STATE, struct drm_vnpu_ctx_get_state, get, ctx_id, 0,
		-ENOENT);
	REFUSED(DRM_IOCTL_VNPU_CTX_GET_STATE, struct drm_vnpu_ctx_get_state, get, pad, 1, -EINVAL);
}

/* The device may still be closing contexts of earlier tests. */
static struct npu_context *context_when_free(struct calls *c)
{
	struct npu_context *ctx;
	int ret = -EBUSY;

	for (int i = 0; i < 5000 && ret == -EBUSY; i++) {
		ret = npu_context_create(c->f->dev, &ctx);
		if (ret == -EBUSY)
			nanosleep(&(struct timespec){ .tv_nsec = MS }, NULL);
	}
	npu_ok(ret);
	return ctx;
}

static void a_device_has_as_many_contexts_as_its_limit(void **state)
{
	struct calls *c = *state;
	uint32_t max = c->f->dev->limits.max_ctx_per_file;
	struct npu_context **ctxs = calloc(max, sizeof(struct npu_context *));
	int ret;

	/* The fixture has one. */
	for (uint32_t n = 0; n < max - 1; n++)
		ctxs[n] = context_when_free(c);
	ret = npu_context_create(c->f->dev, &ctxs[max - 1]);
	/* Whichever is reached first: the limit of this file or of the device. */
	assert_true(ret == -EMFILE || ret == -EBUSY);
	for (uint32_t n = 0; n < max - 1; n++)
		npu_context_free(ctxs[n]);
	npu_context_free(context_when_free(c));
	free(ctxs);
}

#define BIND(c, op) bind_ops(c, op, 1)
static int bind_ops(struct calls *c, struct drm_vnpu_bind_op *ops, uint32_t count)
{
	struct drm_vnpu_vm_bind args = { .ctx_id = c->ctx,
					 .ops = array_of(ops, count, sizeof(*ops)) };

	return transport_ioctl(c->t, DRM_IOCTL_VNPU_VM_BIND, &args);
}

/* Far above libnpu's allocations. */
#define FREE_VA (1ull << 29)

static void bind_refused(struct calls *c, struct drm_vnpu_bind_op op, int err, const char *what)
{
	int ret = BIND(c, &op);

	if (ret != err)
		fail_msg("VM_BIND with %s: %d, not %d", what, ret, err);
}

static void bindings_refuse_each_wrong_field(void **state)
{
	struct calls *c = *state;
	uint32_t bo = bo_new(c, 16384, 0), ro = bo_new(c, 4096, DRM_VNPU_BO_DEVICE_READ_ONLY);
	const struct drm_vnpu_bind_op good = { .handle = bo, .va = FREE_VA, .size = 8192 };
	struct drm_vnpu_bind_op op;

#define BIND_REFUSED(field, value, err)                      \
	do {                                                 \
		op = good;                                   \
		op.field = (value);                          \
		bind_refused(c, op, err, #field " " #value); \
	} while (0)
	BIND_REFUSED(op, 2, -EINVAL);
	BIND_REFUSED(flags, 2, -EINVAL);
	BIND_REFUSED(pad, 1, -EINVAL);
	BIND_REFUSED(handle, 0, -ENOENT);
	BIND_REFUSED(handle, 0xffff, -ENOENT);
	BIND_REFUSED(handle, ro, -EINVAL);
	BIND_REFUSED(bo_offset, 512, -EINVAL);
	BIND_REFUSED(bo_offset, 12288, -EINVAL);
	BIND_REFUSED(bo_offset, UINT64_MAX & ~4095ull, -EINVAL);
	BIND_REFUSED(va, FREE_VA + 8, -EINVAL);
	BIND_REFUSED(va, 0, -EINVAL);
	BIND_REFUSED(va, UINT64_MAX & ~4095ull, -EINVAL);
	BIND_REFUSED(va, 1ull << c->f->dev->info.va_bits, -EINVAL);
	BIND_REFUSED(size, 0, -EINVAL);
	BIND_REFUSED(size, 100, -EINVAL);
	BIND_REFUSED(size, 1ull << 40, -EINVAL);
	BIND_REFUSED(op, DRM_VNPU_BIND_UNMAP, -EINVAL);

	op = good;
	assert_int_equal(BIND(c, &op), 0);
	/* Any overlap. */
	for (int64_t d = -4096; d <= 4096; d += 4096) {
		op = good;
		op.va += (uint64_t)d;
		bind_refused(c, op, -ENOSPC, "an address that is taken");
	}
	op = (struct drm_vnpu_bind_op){ .op = DRM_VNPU_BIND_UNMAP, .va = FREE_VA, .size = 4096 };
	bind_refused(c, op, -ENOENT, "part of a binding");
	op.size = 8192;
	op.flags = DRM_VNPU_BIND_READ_ONLY;
	bind_refused(c, op, -EINVAL, "flags in UNMAP");
	op.flags = 0;
	assert_int_equal(BIND(c, &op), 0);
	bind_refused(c, op, -ENOENT, "a binding that is gone");
	bo_close(c, bo);
	bo_close(c, ro);
}

static void a_batch_of_bindings_is_applied_as_a_whole_or_not_at_all(void **state)
{
	struct calls *c = *state;
	uint32_t bo = bo_new(c, 16384, 0);
	struct drm_vnpu_bind_op keep = { .handle = bo, .va = FREE_VA, .size = 4096 };
	struct drm_vnpu_bind_op ops[] = {
		{ .op = DRM_VNPU_BIND_UNMAP, .va = FREE_VA, .size = 4096 },
		{ .handle = bo, .va = FREE_VA, .size = 8192 },
		{ .handle = bo, .va = FREE_VA + 65536, .size = 4096 },
		{ .handle = bo, .va = FREE_VA + 65536, .size = 4096 },
	};
	struct drm_vnpu_vm_bind args = { .ctx_id = c->ctx };

	assert_int_equal(BIND(c, &keep), 0);
	assert_int_equal(bind_ops(c, ops, 4), -ENOSPC);
	/* The first is bound again, the others are not. */
	assert_int_equal(BIND(c, &keep), -ENOSPC);
	assert_int_equal(BIND(c, &ops[2]), 0);
	ops[3].op = DRM_VNPU_BIND_UNMAP;
	ops[3].handle = 0;
	assert_int_equal(BIND(c, &ops[3]), 0);
	/* The same without the collision, in one call. */
	assert_int_equal(bind_ops(c, ops, 3), 0);
	ops[1].op = ops[2].op = DRM_VNPU_BIND_UNMAP;
	ops[1].handle = ops[2].handle = 0;
	assert_int_equal(bind_ops(c, &ops[1], 2), 0);

	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_VM_BIND, &args), 0);
	args.flags = 1;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_VM_BIND, &args), -EINVAL);
	args = (struct drm_vnpu_vm_bind){ .ctx_id = 0xffff };
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_VM_BIND, &args), -ENOENT);
	bo_close(c, bo);
}

static void memory_stays_while_it_is_bound_even_if_its_handle_is_closed(void **state)
{
	struct calls *c = *state;
	struct fixture *f = c->f;
	struct npu_job *job = fixture_increment(f->ctx, 16, 0);
	struct npu_buffer *x = fixture_floats(f->ctx, 16, 6), *y = fixture_floats(f->ctx, 16, 0);
	struct drm_gem_close gem_close = { .handle = x->handle };

	fixture_bind(job, "x", x);
	fixture_bind(job, "y", y);
	x->handle = 0;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_GEM_CLOSE, &gem_close), 0);
	npu_ok(fixture_run(f, job));
	assert_true(fixture_float(y, 15) == 7);
	npu_job_free(job);
	npu_buffer_free(x);
	npu_buffer_free(y);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

struct wide_job {
	struct drm_vnpu_job job;
	uint64_t tail[2];
};

static void arrays_of_other_strides_are_read_as_the_header_says(void **state)
{
	struct calls *c = *state;
	struct wide_job wide[2] = { { .job = raw_job(c) }, { .job = raw_job(c) } };
	struct drm_vnpu_submit args = { .ctx_id = c->ctx,
					.jobs = array_of(wide, 2, sizeof(wide[0])) };

	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_SUBMIT, &args), 0);
	assert_int_equal(wide[1].job.seqno, 2);
	wide[1].tail[1] = 1;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_SUBMIT, &args), -E2BIG);
	args.jobs.stride = sizeof(struct drm_vnpu_job) - 8;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_SUBMIT, &args), -EINVAL);
	args.jobs.stride = 1 << 20;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_SUBMIT, &args), -E2BIG);
	args.jobs = array_of(wide, c->f->dev->limits.max_jobs_per_submit + 1, sizeof(wide[0]));
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_SUBMIT, &args), -EINVAL);
	args.jobs = array_of(NULL, 1, sizeof(wide[0]));
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_SUBMIT, &args), -EFAULT);
	args.jobs = array_of(wide, 0, sizeof(wide[0]));
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_SUBMIT, &args), -EINVAL);
	assert_int_equal(wait_seqno(c, 2, INT64_MAX), 0);
}

/* ---- SUBMIT and WAIT ------------------------------------------------------------------------- */

static void submit_refuses_each_wrong_field_and_accepts_nothing(void **state)
{
	struct calls *c = *state;
	uint64_t limit = 1ull << c->f->dev->info.va_bits;
	struct drm_vnpu_job good = raw_job(c), jobs[2];
	struct drm_vnpu_submit args = { .ctx_id = 0xffff };

	/* The first job of the batch is good. */
#define JOB_REFUSED(field, value, err)                                                             \
	do {                                                                                       \
		int job_ret;                                                                       \
		jobs[0] = jobs[1] = good;                                                          \
		jobs[1].field = (value);                                                           \
		job_ret = submit(c, jobs, 2);                                                      \
		if (job_ret != (err))                                                              \
			fail_msg("SUBMIT with %s = %s: %d, not %d", #field, #value, job_ret, err); \
	} while (0)
	JOB_REFUSED(queue_id, 0, -ENOENT);
	JOB_REFUSED(queue_id, 0xffff, -ENOENT);
	JOB_REFUSED(flags, 1, -EINVAL);
	JOB_REFUSED(pad, 1, -EINVAL);
	JOB_REFUSED(cmd_va, good.cmd_va + 4, -EINVAL);
	JOB_REFUSED(cmd_va, limit - 8, -EINVAL);
	JOB_REFUSED(cmd_va, UINT64_MAX & ~7ull, -EINVAL);
	JOB_REFUSED(table_va, good.table_va + 1, -EINVAL);
	JOB_REFUSED(table_va, limit, -EINVAL);
	JOB_REFUSED(cmd_size, 0, -EINVAL);
	JOB_REFUSED(cmd_size, 12, -EINVAL);
	JOB_REFUSED(cmd_size, c->f->dev->limits.max_cmd_bytes + 8, -EINVAL);
	JOB_REFUSED(table_size, 0, -EINVAL);
	JOB_REFUSED(table_size, UINT32_MAX & ~7u, -EINVAL);
	JOB_REFUSED(timeout_ms, c->f->dev->limits.max_timeout_ms + 1, -EINVAL);
	JOB_REFUSED(syncs, array_of(NULL, 1, sizeof(struct drm_vnpu_sync_op)), -EFAULT);
	JOB_REFUSED(syncs, array_of(jobs, 100000, sizeof(struct drm_vnpu_sync_op)), -EINVAL);
	JOB_REFUSED(syncs, array_of(jobs, 1, 1), -EINVAL);
	JOB_REFUSED(syncs, array_of((&(struct drm_vnpu_sync_op){ .handle = 0xffff }), 1, 16),
		    -ENOENT);
	JOB_REFUSED(syncs, array_of((&(struct drm_vnpu_sync_op){ .flags = 2 }), 1, 16), -EINVAL);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_SUBMIT, &args), -ENOENT);
	args = (struct drm_vnpu_submit){ .ctx_id = c->ctx, .flags = 1 };
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_SUBMIT, &args), -EINVAL);

	/* None of them was submitted. */
	assert_int_equal(wait_seqno(c, 1, 0), -EINVAL);
	jobs[0] = good;
	assert_int_equal(submit(c, jobs, 1), 0);
	assert_int_equal(jobs[0].seqno, 1);
	assert_int_equal(wait_seqno(c, 1, INT64_MAX), 0);
}

static void a_job_for_the_queue_of_another_context_is_refused(void **state)
{
	struct calls *c = *state;
	struct drm_vnpu_job job = raw_job(c);
	struct npu_context *other;
	struct npu_queue *queue;

	npu_ok(npu_context_create(c->f->dev, &other));
	npu_ok(npu_queue_create(other, NULL, &queue));
	job.queue_id = queue->id;
	assert_int_equal(submit(c, &job, 1), -EINVAL);
	npu_queue_free(queue);
	npu_context_free(other);
}

static void wait_refuses_each_wrong_field(void **state)
{
	struct calls *c = *state;
	struct drm_vnpu_job job = raw_job(c);
	struct drm_vnpu_wait good = { .queue_id = c->queue, .seqno = 1, .timeout_ns = INT64_MAX };

	assert_int_equal(submit(c, &job, 1), 0);
	REFUSED(DRM_IOCTL_VNPU_WAIT, struct drm_vnpu_wait, good, queue_id, 0, -ENOENT);
	REFUSED(DRM_IOCTL_VNPU_WAIT, struct drm_vnpu_wait, good, flags, 1, -EINVAL);
	REFUSED(DRM_IOCTL_VNPU_WAIT, struct drm_vnpu_wait, good, seqno, 0, -EINVAL);
	REFUSED(DRM_IOCTL_VNPU_WAIT, struct drm_vnpu_wait, good, seqno, 2, -EINVAL);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_WAIT, &good), 0);
	/* A job that has ended needs no time: even a time in the past will do. */
	good.timeout_ns = -5;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_WAIT, &good), 0);
}

static void jobs_of_a_batch_wait_for_one_another_through_a_syncobj(void **state)
{
	struct calls *c = *state;
	struct npu_context *ctx = c->f->ctx;
	struct npu_queue *second;
	struct npu_job *slow = fixture_increment(ctx, 8, 30 * MS),
		       *fast = fixture_increment(ctx, 8, 0);
	struct npu_buffer *a = fixture_floats(ctx, 8, 1), *b = fixture_floats(ctx, 8, 0),
			  *d = fixture_floats(ctx, 8, 0);
	struct drm_syncobj_create create = { 0 };
	struct drm_syncobj_destroy destroy = { 0 };
	struct drm_vnpu_sync_op ops[2];
	struct drm_vnpu_job jobs[2];
	struct drm_vnpu_wait wait;

	npu_ok(npu_queue_create(ctx, NULL, &second));
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_CREATE, &create), 0);
	fixture_bind(slow, "x", a);
	fixture_bind(slow, "y", b);
	fixture_bind(fast, "x", b);
	fixture_bind(fast, "y", d);
	for (int i = 0; i < 2; i++) {
		struct npu_job *j = i ? fast : slow;

		ops[i] = (struct drm_vnpu_sync_op){
			.flags = i ? 0 : DRM_VNPU_SYNC_SIGNAL,
			.handle = create.handle,
			.timeline_value = 3,
		};
		jobs[i] = (struct drm_vnpu_job){
			.queue_id = i ? second->id : c->queue,
			.cmd_va = j->prog->code->va,
			.table_va = j->table->va,
			.cmd_size = j->prog->image.cmd_bytes,
			.table_size = j->table_bytes,
			.syncs = array_of(&ops[i], 1, sizeof(ops[i])),
		};
	}
	/* In the other order, no job will signal the point yet. */
	ops[0].flags = 0;
	ops[1].flags = DRM_VNPU_SYNC_SIGNAL;
	assert_int_equal(submit(c, jobs, 2), -EINVAL);
	ops[0].flags = DRM_VNPU_SYNC_SIGNAL;
	ops[1].flags = 0;
	assert_int_equal(submit(c, jobs, 2), 0);
	wait = (struct drm_vnpu_wait){ .queue_id = second->id,
				       .seqno = jobs[1].seqno,
				       .timeout_ns = INT64_MAX };
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_VNPU_WAIT, &wait), 0);
	assert_int_equal(wait.status, 0);
	assert_true(fixture_float(d, 7) == 3);
	destroy.handle = create.handle;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), 0);
	npu_queue_free(second);
	npu_job_free(slow);
	npu_job_free(fast);
	npu_buffer_free(a);
	npu_buffer_free(b);
	npu_buffer_free(d);
}

static void a_job_that_signals_cannot_set_a_timeout_longer_than_a_fence(void **state)
{
	struct calls *c = *state;
	uint32_t longest = c->f->dev->limits.max_fence_ms;
	struct drm_syncobj_create create = { .flags = DRM_SYNCOBJ_CREATE_SIGNALED };
	struct drm_vnpu_job jobs[2] = { raw_job(c), raw_job(c) };
	struct drm_vnpu_sync_op op = { .flags = DRM_VNPU_SYNC_SIGNAL };
	struct drm_syncobj_destroy destroy = { 0 };

	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_CREATE, &create), 0);
	destroy.handle = op.handle = create.handle;
	jobs[1].syncs = array_of(&op, 1, sizeof(op));
	jobs[1].timeout_ms = longest + 1;
	assert_int_equal(submit(c, jobs, 2), -ERANGE);
	assert_int_equal(wait_seqno(c, 1, 0), -EINVAL);
	/* A job that only waits has no fence. */
	op.flags = 0;
	assert_int_equal(submit(c, jobs, 2), 0);
	op.flags = DRM_VNPU_SYNC_SIGNAL;
	jobs[1].timeout_ms = longest;
	assert_int_equal(submit(c, jobs, 2), 0);
	assert_int_equal(wait_seqno(c, jobs[1].seqno, INT64_MAX), 0);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), 0);
}

/* Submits the job @nr times, in as many calls as needed. Returns the last call's result. */
static int submit_many(struct calls *c, const struct drm_vnpu_job *job, uint32_t nr)
{
	struct drm_vnpu_job jobs[32];
	int ret = 0;

	for (uint32_t i = 0; i < 32; i++)
		jobs[i] = *job;
	for (; nr && !ret; nr -= nr < 32 ? nr : 32)
		ret = submit(c, jobs, nr < 32 ? nr : 32);
	return ret;
}

static void a_queue_accepts_its_depth_plus_the_limit_of_waiting_jobs(void **state)
{
	struct calls *c = *state;
	struct npu_job *slow = fixture_sleep(c->f->ctx, 1000 * MS);
	struct drm_vnpu_job job = raw_job(c), first = job, two[2];
	uint32_t room = 4 + c->f->dev->limits.max_waiting_jobs;
	struct npu_queue *queue;

	npu_ok(npu_queue_create(c->f->ctx, &(struct npu_queue_options){ .depth = 4 }, &queue));
	c->queue = job.queue_id = first.queue_id = queue->id;
	first.cmd_va = slow->prog->code->va;
	first.table_va = slow->table->va;
	assert_int_equal(submit(c, &first, 1), 0);
	assert_int_equal(submit_many(c, &job, room - 2), 0);
	two[0] = two[1] = job;
	assert_int_equal(submit(c, two, 2), -ENOSPC);
	assert_int_equal(submit(c, two, 1), 0);
	/* The refused batch left nothing behind. */
	assert_int_equal(two[0].seqno, room);
	assert_int_equal(submit(c, &job, 1), -ENOSPC);
	/* Another queue has a limit of its own. */
	job.queue_id = c->f->queue->id;
	assert_int_equal(submit(c, &job, 1), 0);
	job.queue_id = queue->id;
	assert_int_equal(wait_seqno(c, 1, INT64_MAX), 0);
	assert_int_equal(submit(c, &job, 1), 0);
	assert_int_equal(wait_seqno(c, room + 1, INT64_MAX), 0);
	npu_queue_free(queue);
	npu_job_free(slow);
}

static void results_are_kept_for_as_many_jobs_as_a_queue_accepts(void **state)
{
	struct calls *c = *state;
	struct drm_vnpu_job job = raw_job(c), bad = job;
	struct npu_queue *queue;
	uint32_t kept = 1;

	npu_ok(npu_queue_create(c->f->ctx, &(struct npu_queue_options){ .depth = 4 }, &queue));
	while (kept < 4 + c->f->dev->limits.max_waiting_jobs)
		kept *= 2;
	c->queue = job.queue_id = bad.queue_id = queue->id;
	/* A table too small for its own header. */
	bad.table_size = 8;
	assert_int_equal(submit(c, &job, 1), 0);
	assert_int_equal(submit(c, &bad, 1), 0);
	for (uint32_t n = 2; n < kept; n += 32) {
		assert_int_equal(submit_many(c, &job, kept - n < 32 ? kept - n : 32), 0);
		assert_int_equal(wait_seqno(c, kept - n < 32 ? kept : n + 32, INT64_MAX), 0);
	}
	assert_int_equal(wait_seqno(c, 1, 0), 0);
	assert_int_equal(wait_seqno(c, 2, 0), -EINVAL);
	assert_int_equal(wait_seqno(c, 3, 0), 0);
	/* Now one of the first two is known to have failed, but not which. */
	assert_int_equal(submit_many(c, &job, 2), 0);
	assert_int_equal(wait_seqno(c, kept + 2, INT64_MAX), 0);
	assert_int_equal(wait_seqno(c, 1, 0), -EINVAL);
	assert_int_equal(wait_seqno(c, 2, 0), -EINVAL);
	assert_int_equal(wait_seqno(c, 3, 0), 0);
	/* Later results change nothing about it. */
	assert_int_equal(submit_many(c, &job, 1), 0);
	assert_int_equal(wait_seqno(c, kept + 3, INT64_MAX), 0);
	assert_int_equal(wait_seqno(c, 3, 0), 0);
	assert_int_equal(wait_seqno(c, 2, 0), -EINVAL);
	npu_queue_free(queue);
}

static void syncobj_calls_refuse_each_wrong_field(void **state)
{
	struct calls *c = *state;
	struct drm_syncobj_create create = { .flags = 2 };
	struct drm_syncobj_destroy destroy = { .handle = 0xffff };
	uint32_t bad = 0xffff;
	uint64_t point = 1;
	struct drm_syncobj_array array = { .handles = (uintptr_t)&bad, .count_handles = 1 };
	struct drm_syncobj_timeline_array timeline = { .handles = (uintptr_t)&bad,
						       .points = (uintptr_t)&point,
						       .count_handles = 1 };
	struct drm_syncobj_timeline_wait wait = { .handles = (uintptr_t)&bad,
						  .points = (uintptr_t)&point,
						  .count_handles = 1 };

	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_CREATE, &create), -EINVAL);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), -EINVAL);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_SIGNAL, &array), -ENOENT);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_RESET, &array), -ENOENT);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &timeline),
			 -ENOENT);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_QUERY, &timeline), -ENOENT);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait), -ENOENT);
	create.flags = 0;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_CREATE, &create), 0);
	bad = create.handle;
	/* The syncobj is empty, and the call does not ask to wait for a fence. */
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait), -EINVAL);
	wait.flags = 1u << 30;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait), -EINVAL);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_SIGNAL, &array), 0);
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_RESET, &array), 0);
	wait.flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait), -ETIME);
	destroy.handle = create.handle;
	assert_int_equal(transport_ioctl(c->t, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy), 0);
}

#define with_calls(name) cmocka_unit_test_setup_teardown(name, calls_setup, calls_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_calls(queries_copy_what_fits_and_clear_the_rest),
		with_calls(a_query_of_more_than_a_page_is_refused_unless_it_asks_for_the_size),
		with_calls(every_limit_can_be_reached),
		with_calls(buffer_calls_refuse_each_wrong_field),
		with_calls(a_status_page_can_only_be_mapped_for_reading),
		with_calls(context_calls_refuse_each_wrong_field),
		with_calls(a_device_has_as_many_contexts_as_its_limit),
		with_calls(bindings_refuse_each_wrong_field),
		with_calls(a_batch_of_bindings_is_applied_as_a_whole_or_not_at_all),
		with_calls(memory_stays_while_it_is_bound_even_if_its_handle_is_closed),
		with_calls(arrays_of_other_strides_are_read_as_the_header_says),
		with_calls(submit_refuses_each_wrong_field_and_accepts_nothing),
		with_calls(a_job_for_the_queue_of_another_context_is_refused),
		with_calls(wait_refuses_each_wrong_field),
		with_calls(jobs_of_a_batch_wait_for_one_another_through_a_syncobj),
		with_calls(a_job_that_signals_cannot_set_a_timeout_longer_than_a_fence),
		with_calls(a_queue_accepts_its_depth_plus_the_limit_of_waiting_jobs),
		with_calls(results_are_kept_for_as_many_jobs_as_a_queue_accepts),
		with_calls(syncobj_calls_refuse_each_wrong_field),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
