/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_STATS_H
#define VNPU_STATS_H

#include <linux/types.h>

struct drm_file;
struct drm_printer;
struct vnpu_device;
struct vnpu_fence;

void vnpu_stats_job_done(struct vnpu_fence *fence, u64 busy_ns);
void vnpu_stats_job_so_far(struct vnpu_fence *fence);
u64 vnpu_stats_busy_ns(struct vnpu_device *vdev);

void vnpu_show_fdinfo(struct drm_printer *p, struct drm_file *file);

#endif /* VNPU_STATS_H */
