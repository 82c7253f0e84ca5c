// SPDX-License-Identifier: GPL-2.0-only
/* Jobs: waiting, running and ending. */

#include "vnpu_fw.h"
#include "vnpu_queue.h"
#include "vnpu_trace.h"

struct vnpu_deps *vnpu_deps_alloc(u32 nr)
{
	struct vnpu_deps *deps;

	return kzalloc(struct_size(deps, fences, nr), GFP_KERNEL_ACCOUNT);
}

void vnpu_deps_free(struct vnpu_deps *deps)
{
	for (u32 i = 0; deps && i < deps->nr; i++)
		dma_fence_put(deps->fences[i]);
	kfree(deps);
}

static struct vnpu_hwq *vnpu_job_hwq(const struct vnpu_queue *queue)
{
	return &queue->ctx->vdev->hwqs[queue->hwq];
}

/* ---- the end ---- */

/* The firmware may be writing to the status page as well, or may have reported the job already. */
static void vnpu_job_tell_status(struct vnpu_queue *queue, u64 seqno, int error)
{
	struct drm_vnpu_queue_status *status = vnpu_status_page(queue->ctx->vdev, queue->hwq);
	u64 old = READ_ONCE(status->completed_seqno);
	int tries = 16;

	if (error && !READ_ONCE(status->error))
		WRITE_ONCE(status->error, -error);
	/*
	 * Release order, and never lower: the firmware raises it in the same way. A firmware that
	 * writes it all the time loses that race to a plain store, and holds up nobody.
	 */
	while (old < seqno && tries--)
		if (try_cmpxchg_release(&status->completed_seqno, &old, seqno))
			return;
	if (old < seqno)
		smp_store_release(&status->completed_seqno, seqno);
}

/* End the queue's oldest job. If it was in the ring, the caller has taken it out. */
void vnpu_job_end(struct vnpu_queue *queue, int error, bool by_firmware)
{
	u64 seqno = queue->done_seqno + 1;
	struct vnpu_job *job = vnpu_queue_job(queue, seqno);

	lockdep_assert_held(&queue->ctx->vdev->lock);
	if (!by_firmware)
		vnpu_stats_job_so_far(queue, job);
	if (job->expired)
		error = -EBUSY;
	vnpu_job_tell_status(queue, seqno, error);
	job->error = error;
	vnpu_deps_free(job->deps);
	job->deps = NULL;
	WRITE_ONCE(queue->done_seqno, seqno);
	wake_up_all(&queue->wait);
	trace_vnpu_job_complete(queue, job, error, by_firmware);
	if (job->fence)
		vnpu_fence_end(job->fence, error);
	job->fence = NULL;
}

static void vnpu_job_cancel(struct vnpu_queue *queue, u32 number)
{
	struct vnpu_fw_sqe cancel = {
		.type = VNPU_FW_SQE_CANCEL,
		.ctx = queue->ctx->num,
		.queue = queue->hwq,
		.tag = vnpu_tag(queue->hwq, number),
	};

	vnpu_fw_send(queue->ctx->vdev, &cancel);
}

/* End the oldest job in the ring and tell the firmware to cancel it; an answer is now owed. */
void vnpu_job_give_up(struct vnpu_queue *queue, int error)
{
	struct vnpu_hwq *hwq = vnpu_job_hwq(queue);

	if (hwq->acked == hwq->head)
		hwq->owed_since = jiffies;
	if (!vnpu_queue_job(queue, queue->done_seqno + 1)->expired)
		vnpu_job_cancel(queue, hwq->head);
	hwq->head++;
	/* A firmware that has closed the context answers none of its jobs. */
	if (queue->ctx->fw_closed)
		vnpu_hwq_forget(hwq);
	vnpu_job_end(queue, error, false);
	vnpu_reset_watch(queue->ctx->vdev);
}

/* End the first waiting job without the device. No job of its queue is in the ring. */
static void vnpu_job_skip(struct vnpu_queue *queue, int error)
{
	queue->sent_seqno++;
	vnpu_job_end(queue, error, false);
}

/* End the queue's jobs, oldest first, as many as the section may. True if some are left. */
bool vnpu_job_fail(struct vnpu_queue *queue, int error)
{
	struct vnpu_device *vdev = queue->ctx->vdev;
	struct vnpu_hwq *hwq = vnpu_job_hwq(queue);

	lockdep_assert_held(&vdev->lock);
	for (; queue->done_seqno < queue->submitted_seqno; vdev->may_end--) {
		if (!vdev->may_end)
			return true;
		if (vnpu_hwq_live(hwq))
			vnpu_job_give_up(queue, error);
		else
			vnpu_job_skip(queue, error);
	}
	return false;
}

/* The job's fence lasted too long. The job itself ends after those before it. */
void vnpu_job_expire(struct vnpu_queue *queue, u64 seqno)
{
	struct vnpu_job *job = vnpu_queue_job(queue, seqno);
	struct vnpu_hwq *hwq = vnpu_job_hwq(queue);

	if (seqno <= queue->sent_seqno)
		vnpu_job_cancel(queue, hwq->head + (seqno - queue->done_seqno - 1));
	job->expired = true;
	vnpu_fence_end(job->fence, -ETIMEDOUT);
	job->fence = NULL;
	vnpu_job_advance(queue);
}

/* ---- into the ring ---- */

/* False if there is no firmware, or soon will not be: the context and its jobs then end soon. */
static bool vnpu_job_send(struct vnpu_queue *queue, struct vnpu_job *job)
{
	struct vnpu_hwq *hwq = vnpu_job_hwq(queue);
	bool first = !vnpu_hwq_live(hwq);

	job->sqe.tag = vnpu_tag(queue->hwq, hwq->tail);
	if (!vnpu_fw_send(queue->ctx->vdev, &job->sqe))
		return false;
	hwq->tail++;
	queue->sent_seqno++;
	job->started_ns = ktime_get_ns();
	trace_vnpu_job_start(queue, job);
	if (first)
		vnpu_watchdog_new_head(queue);
	return true;
}

/*
 * Call when the oldest job has changed or a job was added. Ends expired jobs that have become the
 * oldest, and puts waiting ones into the ring, in order, as far as possible. What is too much for
 * one section is left to the work item.
 */
void vnpu_job_advance(struct vnpu_queue *queue)
{
	struct vnpu_device *vdev = queue->ctx->vdev;
	struct vnpu_hwq *hwq = vnpu_job_hwq(queue);
	struct vnpu_job *job;

	lockdep_assert_held(&vdev->lock);
	if (queue->killed || queue->ctx->state)
		return;
	while (queue->done_seqno < queue->submitted_seqno) {
		if (!vdev->may_end || !vdev->may_send) {
			queue_work(vnpu_wq, &queue->wait_work);
			return;
		}
		if (vnpu_queue_job(queue, queue->done_seqno + 1)->expired) {
			vdev->may_end--;
			if (vnpu_hwq_live(hwq))
				vnpu_job_give_up(queue, -EBUSY);
			else
				vnpu_job_skip(queue, -EBUSY);
			if (vnpu_hwq_live(hwq))
				vnpu_watchdog_new_head(queue);
			continue;
		}
		/* Jobs that were given up but not answered take room in the ring too. */
		if (queue->sent_seqno == queue->submitted_seqno ||
		    hwq->tail - hwq->acked >= queue->depth)
			return;
		job = vnpu_queue_job(queue, queue->sent_seqno + 1);
		/*
		 * A queue that is being destroyed may outlive its context's end for a while: no job
		 * follows CTX_CLOSE, but fences still expire.
		 */
		if (job->expired || READ_ONCE(queue->ctx->closing))
			return;
		if (job->deps) {
			if (queue->looked_seqno != queue->sent_seqno + 1)
				queue_work(vnpu_wq, &queue->wait_work);
			return;
		}
		vdev->may_send--;
		if (!vnpu_job_send(queue, job))
			return;
	}
}

/* ---- waiting for fences ---- */

/* May run in any context, under any lock of any driver. */
static void vnpu_job_dep_signalled(struct dma_fence *fence, struct dma_fence_cb *cb)
{
	queue_work(vnpu_wq, &container_of(cb, struct vnpu_queue, dep_cb)->wait_work);
}

static void vnpu_job_drop_dep(struct vnpu_queue *queue)
{
	if (!queue->dep)
		return;
	dma_fence_remove_callback(queue->dep, &queue->dep_cb);
	dma_fence_put(queue->dep);
	queue->dep = NULL;
}

/* The next fence that the first waiting job waits for, with a reference, and the job's number. */
static struct dma_fence *vnpu_job_next_dep(struct vnpu_queue *queue, u64 *seqno)
{
	struct vnpu_job *job;

	guard(spinlock)(&queue->ctx->vdev->lock);
	if (queue->killed || queue->sent_seqno == queue->submitted_seqno)
		return NULL;
	*seqno = queue->sent_seqno + 1;
	job = vnpu_queue_job(queue, *seqno);
	if (!job->deps || job->expired)
		return NULL;
	queue->looked_seqno = *seqno;
	return dma_fence_get(job->deps->fences[job->deps->nr - 1]);
}

/* The fence of vnpu_job_next_dep() has signalled. The caller has a reference to it too. */
static void vnpu_job_dep_done(struct vnpu_queue *queue, u64 seqno)
{
	struct vnpu_job *job;

	guard(spinlock)(&queue->ctx->vdev->lock);
	job = vnpu_queue_job(queue, seqno);
	if (queue->sent_seqno + 1 != seqno || !job->deps)
		return;
	dma_fence_put(job->deps->fences[--job->deps->nr]);
	if (!job->deps->nr) {
		vnpu_deps_free(job->deps);
		job->deps = NULL;
	}
}

/*
 * Wait for the fences of the first waiting job, one at a time: only they matter. True if there is
 * one that has not signalled; the work item runs again when it does.
 */
static bool vnpu_job_wait(struct vnpu_queue *queue)
{
	struct dma_fence *fence;
	u64 seqno;

	while ((fence = vnpu_job_next_dep(queue, &seqno))) {
		if (fence == queue->dep && !dma_fence_is_signaled(fence)) {
			dma_fence_put(fence);
			return true;
		}
		vnpu_job_drop_dep(queue);
		queue->dep = fence;
		if (!dma_fence_add_callback(fence, &queue->dep_cb, vnpu_job_dep_signalled))
			return true;
		vnpu_job_dep_done(queue, seqno);
		vnpu_job_drop_dep(queue);
	}
	return false;
}

void vnpu_job_wait_work(struct work_struct *work)
{
	struct vnpu_queue *queue = container_of(work, struct vnpu_queue, wait_work);

	if (!vnpu_job_wait(queue))
		vnpu_job_drop_dep(queue);
	scoped_guard(vnpu_signalling, queue->ctx->vdev)
		vnpu_job_advance(queue);
}

/* The queue is killed: on return it waits for no fence any more. */
void vnpu_job_stop_waiting(struct vnpu_queue *queue)
{
	/* For good: the fence, whose reference would be dropped twice, may still signal. */
	disable_work_sync(&queue->wait_work);
	vnpu_job_drop_dep(queue);
}
