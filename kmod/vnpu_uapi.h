/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_UAPI_H
#define VNPU_UAPI_H

#include <drm/drm_file.h>
#include <drm/vnpu_accel.h>

int vnpu_uapi_get_array(const struct drm_vnpu_obj_array *in, u32 max, u32 min_stride, u32 size, void **out);

/* Copy a user's array into a new kernel array *out (NULL if empty; kvfree() it). @last: last field of version 1. */
#define VNPU_UAPI_GET_ARRAY(in, max, type, last, out) \
	vnpu_uapi_get_array(in, max, offsetofend(type, last), sizeof(type), (void **)(out))

bool vnpu_uapi_may_use_high(struct drm_file *file);
signed long vnpu_uapi_timeout(s64 timeout_ns);

int vnpu_ioctl_dev_query(struct drm_device *drm, void *data, struct drm_file *file);

#endif /* VNPU_UAPI_H */
