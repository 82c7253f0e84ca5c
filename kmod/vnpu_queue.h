/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_QUEUE_H
#define VNPU_QUEUE_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <drm/gpu_scheduler.h>

struct drm_device;
struct drm_file;
struct vm_area_struct;
struct vnpu_ctx;
struct vnpu_device;
struct vnpu_fence;
struct vnpu_file;

/* A job that failed, for WAIT. */
struct vnpu_failure {
	u64 seqno;
	int error;
};

/*
 * A queue: a scheduler of its own, and as many places in the ring as it is deep. A job that has nothing to wait for goes
 * into the ring at once, unless others of its queue still wait in the scheduler.
 *
 * References: the file's table, each job, each mapping of the status page. The last one may be dropped from the
 * scheduler's own work, hence @release_work.
 */
struct vnpu_queue {
	struct kref ref;
	struct vnpu_ctx *ctx; /* reference */
	struct vnpu_file *vfile; /* valid until vnpu_queue_kill() */
	u32 id; /* in the file */
	u32 hwq; /* slot of the device */
	u32 priority;
	u32 depth;
	u64 fence_context;
	struct drm_gpu_scheduler sched;
	struct drm_sched_entity entity;
	struct work_struct release_work;

	/* Under ctx->submit_lock. */
	u64 last_seqno;
	bool dead;

	bool unmapped; /* under ctx->vm_lock: the status page is no longer the queue's */
	wait_queue_head_t wait; /* for done_seqno */

	/* Under vdev->lock. */
	struct list_head node; /* ctx->queues */
	bool killed;
	u32 in_sched; /* jobs pushed to the scheduler that have not reached the ring */
	u64 submitted_seqno;
	u64 done_seqno;
	struct vnpu_failure *failures; /* ring of the last @depth failures */
	u32 nr_failures;
	unsigned long head_since; /* jiffies when the oldest live job became that */
	bool running; /* the device has said that it works on it */
	unsigned long running_since; /* jiffies when that was seen */
	unsigned long alive_at; /* jiffies when its last progress was seen */
	u64 seen_started; /* of the status page, when it was last sampled */
	u64 seen_progress;
	unsigned long watch_at; /* jiffies when @watchdog runs, if watching */
	bool watching;
	struct delayed_work watchdog;
};

struct vnpu_queue *vnpu_queue_get(struct vnpu_file *vfile, u32 id);
void vnpu_queue_put(struct vnpu_queue *queue);
void vnpu_queue_kill(struct vnpu_queue *queue);
void vnpu_queue_fail(struct vnpu_queue *queue, struct vnpu_fence *culprit, int culprit_error, int error);
void vnpu_queue_job_done(struct vnpu_queue *queue, u64 seqno, int error, bool by_firmware);
void vnpu_queue_new_head(struct vnpu_queue *queue);
int vnpu_queue_mmap(struct vnpu_file *vfile, struct vm_area_struct *vma);

int vnpu_ioctl_queue_create(struct drm_device *drm, void *data, struct drm_file *file);
int vnpu_ioctl_queue_destroy(struct drm_device *drm, void *data, struct drm_file *file);
int vnpu_ioctl_wait(struct drm_device *drm, void *data, struct drm_file *file);

#endif /* VNPU_QUEUE_H */
