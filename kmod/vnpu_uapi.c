// SPDX-License-Identifier: GPL-2.0-only
/* Common parts of the client ioctls: arrays with strides, timeouts, DEV_QUERY. */
#include <drm/drm_utils.h>

#include "vnpu_gem.h"
#include "vnpu_queue.h"

/* Copies an array that is not empty. */
int vnpu_uapi_new_array(const struct drm_vnpu_obj_array *in, u32 max, u32 min_stride, u32 size,
			void **out)
{
	const void __user *from = u64_to_user_ptr(in->array);
	void *array;
	int ret = 0;

	if (in->count > max || in->stride < min_stride)
		return -EINVAL;
	/*
	 * No structure will ever be as large; nobody can make the kernel check gigabytes for zeros.
	 */
	if (in->stride > PAGE_SIZE)
		return -E2BIG;
	array = kvcalloc(in->count, size, GFP_KERNEL_ACCOUNT);
	if (!array)
		return -ENOMEM;
	if (in->stride == size) {
		if (copy_from_user(array, from, array_size(in->count, size)))
			ret = -EFAULT;
	} else {
		for (u32 i = 0; i < in->count && !ret; i++)
			ret = copy_struct_from_user(array + (size_t)i * size, size,
						    from + (size_t)i * in->stride, in->stride);
	}
	if (ret) {
		kvfree(array);
		return ret;
	}
	*out = array;
	return 0;
}

bool vnpu_uapi_may_use_high(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_SYS_NICE);
}

/* Jiffies until an absolute time of CLOCK_MONOTONIC. */
signed long vnpu_uapi_timeout(s64 timeout_ns)
{
	return timeout_ns <= 0 ? 0 : drm_timeout_abs_to_jiffies(timeout_ns);
}

static void vnpu_query_device(struct vnpu_device *vdev, struct drm_vnpu_query_device *q)
{
	memcpy(q->name, vdev->name, sizeof(q->name));
	q->isa_version = vdev->isa_version;
	q->fw_abi = VNPU_FW_ABI;
	q->fw_features = vdev->features;
	q->va_bits = vdev->va_bits;
}

static void vnpu_query_limits(struct vnpu_device *vdev, struct drm_vnpu_query_limits *q)
{
	q->max_ctx_per_file = min_t(u32, VNPU_MAX_CTX_PER_FILE, vdev->nr_ctx);
	q->max_queues_per_file = min_t(u32, VNPU_MAX_QUEUES_PER_FILE, vdev->nr_queues);
	q->max_queue_depth = vdev->queue_depth;
	q->max_jobs_per_submit = VNPU_MAX_JOBS_PER_SUBMIT;
	q->max_syncs_per_job = VNPU_MAX_SYNCS_PER_JOB;
	q->max_waiting_jobs = VNPU_MAX_WAITING_JOBS;
	q->max_binds_per_call = VNPU_MAX_BINDS_PER_CALL;
	q->priorities = BIT(DRM_VNPU_PRIORITY_LOW) | BIT(DRM_VNPU_PRIORITY_NORMAL);
	if (vnpu_uapi_may_use_high())
		q->priorities |= BIT(DRM_VNPU_PRIORITY_HIGH);
	q->max_bo_bytes = vnpu_gem_max_size(vdev);
	q->mem_limit_bytes = vdev->mem_limit;
	q->max_cmd_bytes = VNPU_MAX_CMD_BYTES;
	q->default_timeout_ms = vnpu_device_timeout_ms(vdev);
	q->max_timeout_ms = vnpu_device_max_timeout_ms(vdev);
	q->max_fence_ms = VNPU_FENCE_MS;
	q->max_ctx_per_user = vdev->user_limits[VNPU_USER_CTX];
	q->max_queues_per_user = vdev->user_limits[VNPU_USER_QUEUES];
	q->max_bytes_per_user = vdev->user_limits[VNPU_USER_MEM];
}

static void vnpu_query_state(struct vnpu_device *vdev, struct drm_vnpu_query_state *q)
{
	q->busy_ns = vnpu_stats_busy_ns(vdev);
	q->mem_bytes = READ_ONCE(vdev->mem_bytes);
	guard(spinlock)(&vdev->lock);
	if (vdev->wedged)
		q->state = DRM_VNPU_STATE_WEDGED;
	else
		q->state = vdev->ready ? DRM_VNPU_STATE_READY : DRM_VNPU_STATE_LOST;
	q->epoch = vdev->epoch;
	q->nr_jobs = vdev->nr_jobs;
	q->nr_resets = vdev->nr_resets;
	q->last_loss = vdev->last_loss;
}

int vnpu_ioctl_dev_query(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct vnpu_device *vdev = to_vnpu_device(drm);
	struct drm_vnpu_dev_query *args = data;
	void __user *to = u64_to_user_ptr(args->pointer);
	u32 room = args->size;
	struct drm_vnpu_query_device device = {};
	struct drm_vnpu_query_limits limits = {};
	struct drm_vnpu_query_state state = {};
	const void *from;

	switch (args->type) {
	case DRM_VNPU_QUERY_DEVICE:
		vnpu_query_device(vdev, &device);
		from = &device;
		args->size = sizeof(device);
		break;
	case DRM_VNPU_QUERY_LIMITS:
		vnpu_query_limits(vdev, &limits);
		from = &limits;
		args->size = sizeof(limits);
		break;
	case DRM_VNPU_QUERY_STATE:
		vnpu_query_state(vdev, &state);
		from = &state;
		args->size = sizeof(state);
		break;
	default:
		return -EINVAL;
	}
	if (!args->pointer)
		return 0;
	/* No structure will ever be as large; nobody can make the kernel clear gigabytes. */
	if (room > DRM_VNPU_PAGE_SIZE)
		return -EINVAL;
	if (copy_to_user(to, from, min(room, args->size)))
		return -EFAULT;
	if (room > args->size && clear_user(to + args->size, room - args->size))
		return -EFAULT;
	return 0;
}
