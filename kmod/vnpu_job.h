/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_JOB_H
#define VNPU_JOB_H

#include <drm/gpu_scheduler.h>
#include <linux/vnpu_fw.h>

struct vnpu_device;
struct vnpu_fence;
struct vnpu_queue;

/* A job from SUBMIT until the scheduler frees it. */
struct vnpu_job {
	struct drm_sched_job base;
	struct vnpu_queue *queue; /* reference */
	struct vnpu_fence *fence; /* reference once initialised */
	struct vnpu_fw_sqe sqe; /* but for its tag */
};

extern const struct drm_sched_backend_ops vnpu_job_sched_ops;

bool vnpu_job_send_now(struct vnpu_job *job);
void vnpu_job_finish(struct vnpu_fence *fence, int error, bool by_firmware);

#endif /* VNPU_JOB_H */
