/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_UAPI_H
#define VNPU_UAPI_H

#include <linux/uaccess.h>
#include <drm/drm_file.h>
#include <drm/vnpu_accel.h>

int vnpu_uapi_new_array(const struct drm_vnpu_obj_array *in, u32 max, u32 min_stride, u32 size, void **out);

/* Inline: nothing is called for an empty array, and no bounds are checked of a size that the compiler knows. */
static __always_inline int vnpu_uapi_get_array(const struct drm_vnpu_obj_array *in, u32 max, u32 min_stride, u32 size,
					       void *one, void **out)
{
	*out = NULL;
	if (!in->count)
		return in->array ? -EINVAL : 0;
	if (!one || in->count != 1 || in->stride != size)
		return vnpu_uapi_new_array(in, max, min_stride, size, out);
	*out = one;
	return copy_from_user(one, u64_to_user_ptr(in->array), size) ? -EFAULT : 0;
}

/*
 * Copy a user's array to *out (NULL if empty). @last: last field of version 1. An array of one may come to @one, if that is
 * given; any other is new. What is neither NULL nor @one is the caller's to kvfree(), and on failure there is none.
 */
#define VNPU_UAPI_GET_ARRAY(in, max, type, last, one, out) \
	vnpu_uapi_get_array(in, max, offsetofend(type, last), sizeof(type), one, (void **)(out))

bool vnpu_uapi_may_use_high(struct drm_file *file);
signed long vnpu_uapi_timeout(s64 timeout_ns);

int vnpu_ioctl_dev_query(struct drm_device *drm, void *data, struct drm_file *file);

#endif /* VNPU_UAPI_H */
