/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_JOB_H
#define VNPU_JOB_H

#include <drm/gpu_scheduler.h>
#include <linux/vnpu_fw.h>

#include "vnpu_queue.h"

struct vnpu_fence;

/*
 * A job in the scheduler, from SUBMIT until the scheduler frees it. One that goes straight into the ring has none of this:
 * there it is its fence.
 */
struct vnpu_job {
	struct drm_sched_job base;
	struct vnpu_queue *queue; /* reference once pushed */
	struct vnpu_fence *fence; /* likewise */
	struct vnpu_fw_sqe sqe; /* but for its tag */
};

extern const struct drm_sched_backend_ops vnpu_job_sched_ops;

/*
 * May the queue's job @seqno, which waits for nothing, go round the scheduler, straight from the ioctl into the ring? It
 * saves the wake-up of a worker, which is most of a short job's time. For that all earlier jobs must be in the ring, or
 * come there in the same way, and there must be room. Under ctx->submit_lock, which keeps the answer true: without another
 * SUBMIT jobs leave the scheduler and the ring, and no others come.
 */
static inline bool vnpu_job_may_go_now(const struct vnpu_queue *queue, u64 seqno)
{
	return !READ_ONCE(queue->in_sched) && seqno - READ_ONCE(queue->done_seqno) <= queue->depth;
}

struct vnpu_job *vnpu_job_create(struct vnpu_queue *queue, u64 client_id);
void vnpu_job_destroy(struct vnpu_job *job);
void vnpu_job_push(struct vnpu_job *job, struct vnpu_fence *fence, const struct vnpu_fw_sqe *sqe);
void vnpu_job_send(struct vnpu_queue *queue, struct vnpu_fence *fence, struct vnpu_fw_sqe *sqe, u64 now_ns);
void vnpu_job_finish(struct vnpu_fence *fence, int error, bool by_firmware);

#endif /* VNPU_JOB_H */
