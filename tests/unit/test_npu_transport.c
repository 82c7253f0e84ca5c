// SPDX-License-Identifier: MIT
/*
 * libnpu with transports of the test between it and the simulated device: one whose n-th call
 * fails, and one that checks submissions and replaces results.
 */
#include <errno.h>

#include "npu_fixture.h"
#include "npu_private.h"

/* ---- a transport whose n-th call fails ------------------------------------------------------- */

struct faulty {
	struct transport base;
	struct transport *inner;
	int calls, fail_at;
};

static bool faulty_now(struct transport *t)
{
	struct faulty *x = (struct faulty *)t;

	return x->calls++ == x->fail_at;
}

static int faulty_ioctl(struct transport *t, unsigned long request, void *arg)
{
	struct faulty *x = (struct faulty *)t;

	/* Calls that only release do not fail. */
	if (request == DRM_IOCTL_GEM_CLOSE || request == DRM_IOCTL_SYNCOBJ_DESTROY ||
	    request == DRM_IOCTL_VNPU_CTX_DESTROY || request == DRM_IOCTL_VNPU_QUEUE_DESTROY)
		return x->inner->ops->ioctl(x->inner, request, arg);
	return faulty_now(t) ? -EIO : x->inner->ops->ioctl(x->inner, request, arg);
}

static int faulty_map(struct transport *t, uint64_t offset, size_t size, int prot, void **addr)
{
	struct faulty *x = (struct faulty *)t;

	return faulty_now(t) ? -ENOMEM : x->inner->ops->map(x->inner, offset, size, prot, addr);
}

static int faulty_unmap(struct transport *t, void *addr, size_t size)
{
	struct faulty *x = (struct faulty *)t;

	return x->inner->ops->unmap(x->inner, addr, size);
}

static void faulty_close(struct transport *t)
{
	struct faulty *x = (struct faulty *)t;

	x->inner->ops->close(x->inner);
	free(x);
}

static const struct transport_ops faulty_ops = {
	.ioctl = faulty_ioctl,
	.map = faulty_map,
	.unmap = faulty_unmap,
	.close = faulty_close,
};

/* Everything once. True if all calls succeeded. */
static bool faulty_scenario(struct faulty *x, const void *image, size_t bytes)
{
	struct npu_device *dev;
	struct npu_context *ctx = NULL;
	struct npu_queue *queue = NULL;
	struct npu_program *prog = NULL;
	struct npu_job *job = NULL;
	struct npu_buffer *buf = NULL;
	struct npu_fence *fence = NULL;
	uint64_t seqno = 0;
	bool ok = false;
	int ret;

	if (npu_device_open_on(&x->base, NPU_TRANSPORT_SIM, "", "test", &dev))
		return false;
	ret = npu_context_create(dev, &ctx);
	if (!ret)
		ret = npu_queue_create(ctx, NULL, &queue);
	if (!ret)
		ret = npu_program_load(ctx, image, bytes, &prog);
	if (!ret)
		ret = npu_job_create(prog, &job);
	if (!ret)
		ret = npu_buffer_create(ctx, 4096, 0, &buf);
	if (!ret)
		ret = npu_job_bind(job, "x", buf, 0, 1024);
	if (!ret)
		ret = npu_job_bind(job, "y", buf, 1024, 1024);
	if (!ret)
		ret = npu_job_time_commands(job, true);
	if (!ret)
		ret = npu_fence_create(dev, true, &fence);
	if (!ret)
		ret = npu_fence_wait(fence, 0, NPU_FOREVER);
	if (!ret)
		ret = npu_queue_submit(queue, &job, 1, NULL, &seqno);
	if (!ret) {
		ret = npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER);
		ok = !ret;
		if (ret)
			assert_int_equal(ret, -EIO);
	}
	if (ret)
		assert_true(strlen(npu_error()) > 10);
	npu_fence_free(fence);
	npu_buffer_free(buf);
	npu_job_free(job);
	npu_program_free(prog);
	npu_queue_free(queue);
	npu_context_free(ctx);
	npu_device_close(dev);
	return ok;
}

static void a_device_call_that_fails_anywhere_is_reported_and_leaks_nothing(void **state)
{
	struct npu_graph *g = npu_graph_create("twice");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 1, 256);
	bool done = false;
	size_t bytes;
	void *image;

	npu_graph_output(g, "y", npu_silu(g, npu_add(g, x, x)));
	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_graph_free(g);
	for (int n = 0; n < 200 && !done; n++) {
		struct faulty *f = calloc(1, sizeof(*f));

		f->base.ops = &faulty_ops;
		f->fail_at = n;
		npu_ok(transport_sim_open(&(struct sim_options){ .threads = 1 }, &f->inner));
		done = faulty_scenario(f, image, bytes);
		assert_true(n > 12 || !done);
	}
	assert_true(done);
	free(image);
}

/* ---- a transport that checks calls and replaces results -------------------------------------- */

struct spy {
	struct transport base;
	struct transport *inner;
	unsigned int signals, submits; /* syncs to be signaled, and the number of calls */
	int export_error; /* result of HANDLE_TO_FD */
};

static void spy_look(struct spy *spy, const struct drm_vnpu_submit *args)
{
	const struct drm_vnpu_job *jobs = (const void *)(uintptr_t)args->jobs.array;

	spy->submits++;
	for (uint32_t i = 0; i < args->jobs.count; i++) {
		const struct drm_vnpu_sync_op *ops = (const void *)(uintptr_t)jobs[i].syncs.array;

		for (uint32_t k = 0; k < jobs[i].syncs.count; k++)
			spy->signals += (ops[k].flags & DRM_VNPU_SYNC_SIGNAL) != 0;
	}
}

static int spy_ioctl(struct transport *t, unsigned long request, void *arg)
{
	struct spy *spy = (struct spy *)t;
	struct drm_syncobj_handle *handle = arg;

	if (request == DRM_IOCTL_VNPU_SUBMIT)
		spy_look(spy, arg);
	if (request == DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD) {
		assert_int_equal(handle->flags, DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE);
		handle->fd = spy->export_error ? -1 : 77;
		return spy->export_error;
	}
	return spy->inner->ops->ioctl(spy->inner, request, arg);
}

static int spy_map(struct transport *t, uint64_t offset, size_t size, int prot, void **addr)
{
	struct spy *spy = (struct spy *)t;

	return spy->inner->ops->map(spy->inner, offset, size, prot, addr);
}

static int spy_unmap(struct transport *t, void *addr, size_t size)
{
	struct spy *spy = (struct spy *)t;

	return spy->inner->ops->unmap(spy->inner, addr, size);
}

static void spy_close(struct transport *t)
{
	struct spy *spy = (struct spy *)t;

	spy->inner->ops->close(spy->inner);
	free(spy);
}

static const struct transport_ops spy_ops = {
	.ioctl = spy_ioctl,
	.map = spy_map,
	.unmap = spy_unmap,
	.close = spy_close,
};

/* A device behind a spy that lives as long as the device. */
static struct spy *spy_open(enum npu_transport kind, struct npu_device **dev)
{
	struct spy *spy = calloc(1, sizeof(*spy));

	spy->base.ops = &spy_ops;
	npu_ok(transport_sim_open(&(struct sim_options){ .threads = 1 }, &spy->inner));
	npu_ok(npu_device_open_on(&spy->base, kind, "", "test", dev));
	return spy;
}

static void a_job_has_a_fence_only_if_the_program_asks_for_one(void **state)
{
	struct npu_device *dev;
	struct spy *spy = spy_open(NPU_TRANSPORT_SIM, &dev);
	struct npu_context *ctx;
	struct npu_queue *queue;
	struct npu_fence *fence;
	struct npu_job *jobs[3];
	struct npu_sync sync;
	uint64_t seqno;

	npu_ok(npu_context_create(dev, &ctx));
	npu_ok(npu_queue_create(ctx, NULL, &queue));
	npu_ok(npu_fence_create(dev, true, &fence));
	sync = (struct npu_sync){ fence, 0 };
	for (int i = 0; i < 3; i++)
		jobs[i] = fixture_sleep(ctx, 0);
	for (int i = 0; i < 20; i++) {
		npu_ok(npu_queue_submit(queue, jobs, 3, NULL, &seqno));
		npu_ok(npu_queue_wait(queue, seqno, NPU_FOREVER,
				      i & 1 ? NPU_WAIT_FAST : NPU_WAIT_DRIVER));
	}
	npu_ok(npu_queue_submit(queue, jobs, 3,
				&(struct npu_submit_syncs){ .wait = &sync, .nr_wait = 1 }, &seqno));
	npu_ok(npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	assert_int_equal(spy->submits, 21);
	assert_int_equal(spy->signals, 0);
	npu_ok(npu_queue_submit(queue, jobs, 3,
				&(struct npu_submit_syncs){ .signal = &sync, .nr_signal = 1 },
				&seqno));
	npu_ok(npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	assert_int_equal(spy->signals, 1);
	for (int i = 0; i < 3; i++)
		npu_job_free(jobs[i]);
	npu_fence_free(fence);
	npu_queue_free(queue);
	npu_context_free(ctx);
	npu_device_close(dev);
}

static void the_error_for_a_fence_that_cannot_be_exported_says_how_to_allow_it(void **state)
{
	struct npu_device *dev;
	struct spy *spy = spy_open(NPU_TRANSPORT_DRM, &dev);
	struct npu_fence *fence;
	int fd = 5;

	npu_ok(npu_fence_create(dev, true, &fence));
	spy->export_error = -EOPNOTSUPP;
	npu_fails(npu_fence_export(fence, &fd), -EOPNOTSUPP,
		  "/sys/module/vnpu/parameters/fence_export");
	assert_int_equal(fd, -1);
	spy->export_error = -EINVAL;
	npu_fails(npu_fence_export(fence, &fd), -EINVAL, "nothing was submitted");
	spy->export_error = 0;
	npu_ok(npu_fence_export(fence, &fd));
	assert_int_equal(fd, 77);
	npu_fence_free(fence);
	npu_device_close(dev);
	/* The simulated device cannot export a fence. */
	npu_ok(npu_device_open(&(struct npu_device_options){ .transport = NPU_TRANSPORT_SIM },
			       &dev));
	npu_ok(npu_fence_create(dev, true, &fence));
	npu_fails(npu_fence_export(fence, &fd), -EOPNOTSUPP, "simulated");
	npu_fence_free(fence);
	npu_device_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_call_that_fails_anywhere_is_reported_and_leaks_nothing),
		cmocka_unit_test(a_job_has_a_fence_only_if_the_program_asks_for_one),
		cmocka_unit_test(
			the_error_for_a_fence_that_cannot_be_exported_says_how_to_allow_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
