/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queues, their jobs and the fences of jobs.
 */
#ifndef VNPU_QUEUE_H
#define VNPU_QUEUE_H

#include <linux/dma-fence.h>

#include "vnpu_ctx.h"

/* The longest lifetime of a fence. dma-buf's users expect fences to signal within this time. */
#define VNPU_FENCE_MS 10000

/* The fence of a job that signals. base.seqno is the job's number in its queue. */
struct vnpu_fence {
	struct dma_fence base; /* first: dma_fence_free() frees this address */
	spinlock_t lock;
	struct list_head node; /* queue->fences, under vdev->lock */
	unsigned long deadline; /* jiffies */
};

/* Fences that a job waits for. */
struct vnpu_deps {
	u32 nr; /* fences left; the last one is waited for first */
	struct dma_fence *fences[]; /* with references */
};

/*
 * Jobs of a queue, in an array that is allocated with the queue, indexed by number:
 *
 *   done_seqno <= sent_seqno <= submitted_seqno
 *     (done, sent]        in the ring: the device has them
 *     (sent, submitted]   waiting in the kernel, for fences, for room or for those before them
 *
 * Only the oldest job of a queue can end, so the numbers only rise. All under vdev->lock.
 */
struct vnpu_job {
	struct vnpu_fw_sqe sqe;
	struct vnpu_fence *fence; /* reference; NULL: not wanted, or signalled */
	struct vnpu_deps *deps; /* NULL: none left */
	u64 submitted_ns;
	u64 started_ns; /* when the job entered the ring; 0: not yet */
	u64 busy_ns; /* device time charged to the job so far */
	u32 timeout; /* jiffies */
	int error; /* the result, kept until the array entry is reused */
	bool expired; /* its fence lasted too long: it ends with -EBUSY once it is the oldest */
};

/* Jobs per queue that may wait in addition to those that the device holds. */
#define VNPU_MAX_WAITING_JOBS 256

/*
 * A queue: a slot of the device, and an array of the jobs that device and kernel hold.
 *
 * References: the file's table, each mapping of the status page, running calls.
 */
struct vnpu_queue {
	struct kref ref;
	struct vnpu_ctx *ctx; /* reference */
	/* From the queue's place in the file until vnpu_queue_kill(); set under vdev->lock. */
	struct vnpu_file *vfile;
	u32 id; /* in the file */
	u32 hwq; /* slot of the device */
	u32 priority;
	u32 depth;
	u64 fence_context;
	wait_queue_head_t wait; /* for done_seqno */

	/* Under ctx->submit_lock. */
	u64 last_seqno;
	bool dead;

	bool unmapped; /* under ctx->vm_lock: the status page no longer belongs to the queue */

	/* Under vdev->lock. */
	struct list_head node; /* ctx->queues */
	bool killed;
	struct vnpu_job *jobs; /* [mask + 1], by number */
	u32 mask;
	u64 submitted_seqno;
	u64 sent_seqno;
	u64 done_seqno;
	u64 forgotten_seqno; /* the newest failed job whose array entry was reused */
	int forgotten_error;
	struct list_head fences; /* vnpu_fence.node, by number */

	u64 looked_seqno; /* the waiting job whose fences wait_work looks after */

	/* For vnpu_job_wait_work(). */
	struct work_struct wait_work;
	struct dma_fence *dep; /* reference; @dep_cb is in its list */
	struct dma_fence_cb dep_cb;

	/* For vnpu_watchdog.c, under vdev->lock; times are jiffies. */
	struct delayed_work watchdog;
	bool watching;
	bool running; /* the device has reported that it runs the oldest job */
	unsigned long watch_at; /* when @watchdog runs, if @watching */
	unsigned long head_since; /* when the oldest live job became the oldest */
	unsigned long running_since; /* when it was first seen to run */
	unsigned long alive_at; /* when progress was last seen */
	u64 seen_started; /* last sample of the status page */
	u64 seen_progress;
};

static inline struct vnpu_job *vnpu_queue_job(const struct vnpu_queue *queue, u64 seqno)
{
	return &queue->jobs[seqno & queue->mask];
}

/* True if there is room for job @seqno. Called under submit_lock, which keeps the answer valid. */
static inline bool vnpu_queue_has_room(const struct vnpu_queue *queue, u64 seqno)
{
	return seqno - READ_ONCE(queue->done_seqno) <= queue->depth + VNPU_MAX_WAITING_JOBS;
}

struct vnpu_queue *vnpu_queue_get(struct vnpu_file *vfile, u32 id);
void vnpu_queue_put(struct vnpu_queue *queue);
void vnpu_queue_kill(struct vnpu_queue *queue);
int vnpu_queue_mmap(struct vnpu_file *vfile, struct vm_area_struct *vma);

int vnpu_ioctl_queue_create(struct drm_device *drm, void *data, struct drm_file *file);
int vnpu_ioctl_queue_destroy(struct drm_device *drm, void *data, struct drm_file *file);
int vnpu_ioctl_wait(struct drm_device *drm, void *data, struct drm_file *file);

/* ---- vnpu_fence.c ---- */

struct vnpu_fence *vnpu_fence_alloc(void);
void vnpu_fence_init(struct vnpu_fence *fence, u64 context, u64 seqno);
void vnpu_fence_end(struct vnpu_fence *fence, int error);

/* ---- vnpu_job.c ---- */

struct vnpu_deps *vnpu_deps_alloc(u32 nr);
void vnpu_deps_free(struct vnpu_deps *deps);

void vnpu_job_advance(struct vnpu_queue *queue);
void vnpu_job_end(struct vnpu_queue *queue, int error, bool by_firmware);
void vnpu_job_give_up(struct vnpu_queue *queue, int error);
void vnpu_job_expire(struct vnpu_queue *queue, u64 seqno);
bool vnpu_job_fail(struct vnpu_queue *queue, int error);

/* Called with no locks held. */
void vnpu_job_wait_work(struct work_struct *work);
void vnpu_job_stop_waiting(struct vnpu_queue *queue);

/* ---- vnpu_watchdog.c ---- */

void vnpu_watchdog_work(struct work_struct *work);

/* Called with vdev->lock held. */
void vnpu_watchdog_new_head(struct vnpu_queue *queue);
void vnpu_watchdog_fence(struct vnpu_queue *queue, struct vnpu_fence *fence);

/* True while tasks are frozen, when the firmware cannot make progress. */
bool vnpu_watchdog_frozen(void);
extern struct notifier_block vnpu_watchdog_nb;

/* ---- vnpu_stats.c ---- */

void vnpu_stats_job_done(struct vnpu_queue *queue, struct vnpu_job *job, u64 busy_ns);
void vnpu_stats_job_so_far(struct vnpu_queue *queue, struct vnpu_job *job);

#endif /* VNPU_QUEUE_H */
