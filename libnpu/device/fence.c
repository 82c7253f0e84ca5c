// SPDX-License-Identifier: MIT
/* Fences: DRM syncobjs, binary and timeline. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "npu_private.h"
#include "probes.h"
#include "trace.h"

int npu_fence_create(struct npu_device *dev, bool signaled, struct npu_fence **out)
{
	struct drm_syncobj_create create = { .flags = signaled ? DRM_SYNCOBJ_CREATE_SIGNALED : 0 };
	struct npu_fence *fence = calloc(1, sizeof(*fence));
	int ret;

	*out = NULL;
	if (!fence)
		return npu_fail(-ENOMEM, "fence: out of memory");
	ret = transport_ioctl(dev->t, DRM_IOCTL_SYNCOBJ_CREATE, &create);
	if (ret) {
		free(fence);
		return npu_fail(ret, "fence: SYNCOBJ_CREATE: %s", strerror(-ret));
	}
	fence->handle = create.handle;
	fence->dev = npu_device_get(dev);
	*out = fence;
	return 0;
}

void npu_fence_free(struct npu_fence *fence)
{
	struct drm_syncobj_destroy destroy = { 0 };

	if (!fence)
		return;
	destroy.handle = fence->handle;
	transport_ioctl(fence->dev->t, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy);
	npu_device_close(fence->dev);
	free(fence);
}

static int npu_fence_sleep(struct npu_fence *fence, uint64_t point, int64_t timeout_ns)
{
	struct drm_syncobj_timeline_wait wait = {
		.handles = (uintptr_t)&fence->handle,
		.points = (uintptr_t)&point,
		.timeout_nsec = npu_deadline_ns(timeout_ns),
		.count_handles = 1,
		.flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
	};
	int ret;

	atomic_fetch_add_explicit(&fence->dev->waits, 1, memory_order_relaxed);
	npu_probe_fence_wait(fence->handle, point, timeout_ns);
	ret = transport_ioctl(fence->dev->t, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait);
	npu_probe_fence_done(fence->handle, point, ret);
	if (ret == -ETIME)
		return npu_fail(-ETIMEDOUT, "fence: point %llu not reached within %lld us",
				(unsigned long long)point, npu_timeout_us(timeout_ns));
	if (ret)
		return npu_fail(ret, "fence: waiting for point %llu: %s", (unsigned long long)point,
				strerror(-ret));
	return 0;
}

int npu_fence_wait(struct npu_fence *fence, uint64_t point, int64_t timeout_ns)
{
	int64_t start_ns = npu_trace_begin();
	int ret = npu_fence_sleep(fence, point, timeout_ns);

	if (start_ns) {
		/* The wait may have been for a job. */
		npu_trace_look_all();
		npu_trace_call(start_ns, "npu_fence_wait", ret,
			       "\"handle\":%u,\"point\":%llu,\"timeout_ns\":%lld", fence->handle,
			       (unsigned long long)point, (long long)timeout_ns);
	}
	return ret;
}

int npu_fence_signal(struct npu_fence *fence, uint64_t point)
{
	struct drm_syncobj_array binary = { .handles = (uintptr_t)&fence->handle,
					    .count_handles = 1 };
	struct drm_syncobj_timeline_array timeline = {
		.handles = (uintptr_t)&fence->handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
	};
	int ret;

	if (point)
		ret = transport_ioctl(fence->dev->t, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &timeline);
	else
		ret = transport_ioctl(fence->dev->t, DRM_IOCTL_SYNCOBJ_SIGNAL, &binary);
	if (ret)
		return npu_fail(ret, "fence: signaling point %llu: %s", (unsigned long long)point,
				strerror(-ret));
	return 0;
}

int npu_fence_query(struct npu_fence *fence, uint64_t *point)
{
	struct drm_syncobj_timeline_array query = {
		.handles = (uintptr_t)&fence->handle,
		.points = (uintptr_t)point,
		.count_handles = 1,
	};
	int ret = transport_ioctl(fence->dev->t, DRM_IOCTL_SYNCOBJ_QUERY, &query);

	if (ret)
		return npu_fail(ret, "fence: SYNCOBJ_QUERY: %s", strerror(-ret));
	return 0;
}

int npu_fence_export(struct npu_fence *fence, int *fd)
{
	struct drm_syncobj_handle export = {
		.handle = fence->handle,
		.flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE,
		.fd = -1,
	};
	int ret = transport_ioctl(fence->dev->t, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &export);

	*fd = export.fd;
	if (ret == -EOPNOTSUPP && fence->dev->info.transport == NPU_TRANSPORT_SIM)
		return npu_fail(ret, "fence: a sync_file is for other drivers, and the simulated "
				     "device has none; use "
				     "vnpu.ko");
	if (ret == -EOPNOTSUPP)
		return npu_fail(
			ret,
			"fence: fences of this device cannot be exported; as root, allow it: echo "
			"1 > /sys/module/vnpu/parameters/fence_export");
	if (ret == -EINVAL)
		return npu_fail(ret, "fence: nothing was submitted yet that signals it");
	if (ret)
		return npu_fail(ret, "fence: its sync_file: %s", strerror(-ret));
	return 0;
}
