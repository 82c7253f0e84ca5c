// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jobs on their way into the ring, straight or through the scheduler, and their end.
 */
#include <linux/slab.h>

#include "vnpu_compat.h"
#include "vnpu_ctx.h"
#include "vnpu_drv.h"
#include "vnpu_fence.h"
#include "vnpu_fw.h"
#include "vnpu_job.h"
#include "vnpu_queue.h"
#include "vnpu_reset.h"
#include "vnpu_stats.h"
#include "vnpu_trace.h"

/* The end of a job, whoever decided it. Under vdev->lock; signals the fence, and does nothing if that has happened. */
void vnpu_job_finish(struct vnpu_fence *fence, int error, bool by_firmware)
{
	if (dma_fence_is_signaled(&fence->base))
		return;
	if (!by_firmware)
		vnpu_stats_job_so_far(fence);
	vnpu_queue_job_done(fence->queue, fence->base.seqno, error, by_firmware);
	if (error)
		dma_fence_set_error(&fence->base, error);
	trace_vnpu_job_complete(fence, error, by_firmware);
	dma_fence_signal(&fence->base);
}

/* Put the job into the ring, with the caller's reference to its fence, or say why not. */
static int vnpu_job_try_send(struct vnpu_queue *queue, struct vnpu_fence *fence, struct vnpu_fw_sqe *sqe, u64 now_ns)
{
	struct vnpu_ctx *ctx = queue->ctx;
	struct vnpu_device *vdev = ctx->vdev;
	struct vnpu_hwq *hwq = &vdev->hwqs[queue->hwq];
	bool first = !vnpu_hwq_live(hwq);

	if (queue->killed)
		return -ECANCELED;
	if (ctx->state)
		return ctx->state & DRM_VNPU_CTX_FW_LOST ? -EIO : -ECANCELED;
	sqe->tag = vnpu_tag(queue->hwq, hwq->tail);
	if (hwq->tail - hwq->head > hwq->mask || !vnpu_fw_send(vdev, sqe)) {
		/* The ring is larger than all that the firmware can have to do: its indices are nonsense. */
		vnpu_ctx_ban(ctx, DRM_VNPU_CTX_FW_LOST, NULL, 0);
		vnpu_reset_request(vdev, DRM_VNPU_LOSS_PROTOCOL);
		return -EIO;
	}
	fence->started_ns = now_ns;
	vnpu_hwq_add(hwq, fence);
	trace_vnpu_job_start(fence);
	if (first)
		vnpu_queue_new_head(queue);
	return 0;
}

/* As many live jobs as the queue is deep? */
static bool vnpu_job_ring_full(const struct vnpu_queue *queue)
{
	const struct vnpu_hwq *hwq = &queue->ctx->vdev->hwqs[queue->hwq];

	return hwq->tail - hwq->head >= queue->depth;
}

/* Put the job into the ring, or finish it if that is not to be. Takes over a reference to the fence. Under vdev->lock. */
void vnpu_job_send(struct vnpu_queue *queue, struct vnpu_fence *fence, struct vnpu_fw_sqe *sqe, u64 now_ns)
{
	int ret;

	lockdep_assert_held(&queue->ctx->vdev->lock);
	ret = vnpu_job_try_send(queue, fence, sqe, now_ns);
	if (!ret)
		return;
	vnpu_job_finish(fence, ret, false);
	dma_fence_put(&fence->base);
}

/* What the scheduler needs of a job. Or -errno. */
struct vnpu_job *vnpu_job_create(struct vnpu_queue *queue, u64 client_id)
{
	struct vnpu_job *job = kzalloc(sizeof(*job), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!job)
		return ERR_PTR(-ENOMEM);
	ret = vnpu_compat_job_init(&job->base, &queue->entity, client_id);
	if (ret) {
		kfree(job);
		return ERR_PTR(ret);
	}
	job->queue = queue;
	return job;
}

/* One that was not pushed. */
void vnpu_job_destroy(struct vnpu_job *job)
{
	drm_sched_job_cleanup(&job->base);
	kfree(job);
}

/* Give the job to the scheduler. Takes over the job and a reference to its fence; queue->in_sched has counted it. */
void vnpu_job_push(struct vnpu_job *job, struct vnpu_fence *fence, const struct vnpu_fw_sqe *sqe)
{
	kref_get(&job->queue->ref);
	job->fence = fence;
	job->sqe = *sqe;
	drm_sched_job_arm(&job->base);
	drm_sched_entity_push_job(&job->base);
}

/* Jobs that went round the scheduler have not paid it credits: the next one waits until there is room in the ring. */
static struct dma_fence *vnpu_job_prepare(struct drm_sched_job *base, struct drm_sched_entity *entity)
{
	struct vnpu_queue *queue = container_of(base, struct vnpu_job, base)->queue;
	struct vnpu_device *vdev = queue->ctx->vdev;
	struct dma_fence *fence = NULL;

	spin_lock(&vdev->lock);
	if (vnpu_job_ring_full(queue))
		fence = dma_fence_get(&vnpu_hwq_first(&vdev->hwqs[queue->hwq])->base);
	spin_unlock(&vdev->lock);
	return fence;
}

static struct dma_fence *vnpu_job_run(struct drm_sched_job *base)
{
	struct vnpu_job *job = container_of(base, struct vnpu_job, base);
	struct vnpu_device *vdev = job->queue->ctx->vdev;
	bool cookie = dma_fence_begin_signalling();

	dma_fence_get(&job->fence->base);
	spin_lock(&vdev->lock);
	vnpu_job_send(job->queue, job->fence, &job->sqe, ktime_get_ns());
	WRITE_ONCE(job->queue->in_sched, job->queue->in_sched - 1);
	spin_unlock(&vdev->lock);
	dma_fence_end_signalling(cookie);
	return dma_fence_get(&job->fence->base);
}

static void vnpu_job_free(struct drm_sched_job *base)
{
	struct vnpu_job *job = container_of(base, struct vnpu_job, base);
	struct vnpu_device *vdev = job->queue->ctx->vdev;
	bool cookie = dma_fence_begin_signalling();

	/* A job whose queue was killed before its turn has not run, and ends here. */
	spin_lock(&vdev->lock);
	vnpu_job_finish(job->fence, -ECANCELED, false);
	spin_unlock(&vdev->lock);
	dma_fence_end_signalling(cookie);

	drm_sched_job_cleanup(base);
	dma_fence_put(&job->fence->base);
	vnpu_queue_put(job->queue);
	kfree(job);
}

/* No timedout_job: the schedulers have no timeout, see vnpu_queue_watchdog(). */
const struct drm_sched_backend_ops vnpu_job_sched_ops = {
	.prepare_job = vnpu_job_prepare,
	.run_job = vnpu_job_run,
	.free_job = vnpu_job_free,
};
