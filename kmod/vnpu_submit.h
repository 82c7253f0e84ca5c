/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_SUBMIT_H
#define VNPU_SUBMIT_H

struct drm_device;
struct drm_file;

int vnpu_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file);

#endif /* VNPU_SUBMIT_H */
