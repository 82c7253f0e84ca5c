// SPDX-License-Identifier: GPL-2.0-only
/*
 * Queues: creation, waiting, the watchdog, and the end.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <drm/drm_print.h>

#include "vnpu_compat.h"
#include "vnpu_ctx.h"
#include "vnpu_drv.h"
#include "vnpu_fence.h"
#include "vnpu_fw.h"
#include "vnpu_job.h"
#include "vnpu_queue.h"
#include "vnpu_reset.h"
#include "vnpu_uapi.h"
#include "vnpu_user.h"

/* Offset of a status page in the client's file. Page 0 stays free; GEM's offsets begin at 4 GiB. */
static u64 vnpu_queue_status_offset(u32 hwq)
{
	return ((u64)hwq + 1) << PAGE_SHIFT;
}

/* ---- life ---- */

static void vnpu_queue_release_work(struct work_struct *work)
{
	struct vnpu_queue *queue = container_of(work, struct vnpu_queue, release_work);

	/* No job is left, so nothing starts the watchdog again. */
	cancel_delayed_work_sync(&queue->watchdog);
	drm_sched_fini(&queue->sched);
	vnpu_ctx_put(queue->ctx);
	kvfree(queue->failures);
	kfree(queue);
}

static void vnpu_queue_release(struct kref *ref)
{
	struct vnpu_queue *queue = container_of(ref, struct vnpu_queue, ref);

	queue_work(vnpu_release_wq, &queue->release_work);
}

void vnpu_queue_put(struct vnpu_queue *queue)
{
	kref_put(&queue->ref, vnpu_queue_release);
}

struct vnpu_queue *vnpu_queue_get(struct vnpu_file *vfile, u32 id)
{
	struct vnpu_queue *queue;

	xa_lock(&vfile->queues);
	queue = xa_load(&vfile->queues, id);
	if (queue)
		kref_get(&queue->ref);
	xa_unlock(&vfile->queues);
	return queue;
}

/* A free slot of the device for the queue, with a clean status page. */
static int vnpu_queue_take_slot(struct vnpu_queue *queue)
{
	struct vnpu_device *vdev = queue->ctx->vdev;
	int ret = vnpu_user_charge(queue->ctx->user, VNPU_USER_QUEUES, 1);

	if (ret)
		return ret;
	ret = -EBUSY;
	spin_lock(&vdev->lock);
	for (u32 i = 0; i < vdev->nr_queues; i++) {
		struct vnpu_hwq *hwq = &vdev->hwqs[i];

		if (hwq->queue || !vnpu_hwq_answered(hwq))
			continue;
		hwq->queue = queue;
		hwq->ctx = queue->ctx->num;
		queue->hwq = i;
		*vnpu_status_page(vdev, i) = (struct drm_vnpu_queue_status){ .epoch = vdev->epoch };
		list_add_tail(&queue->node, &queue->ctx->queues);
		ret = 0;
		break;
	}
	spin_unlock(&vdev->lock);
	if (ret)
		vnpu_user_uncharge(queue->ctx->user, VNPU_USER_QUEUES, 1);
	return ret;
}

static void vnpu_queue_give_slot(struct vnpu_queue *queue)
{
	struct vnpu_device *vdev = queue->ctx->vdev;

	spin_lock(&vdev->lock);
	list_del_init(&queue->node);
	vdev->hwqs[queue->hwq].queue = NULL;
	spin_unlock(&vdev->lock);
	vnpu_user_uncharge(queue->ctx->user, VNPU_USER_QUEUES, 1);
}

static enum drm_sched_priority vnpu_queue_sched_priority(u32 priority)
{
	switch (priority) {
	case DRM_VNPU_PRIORITY_LOW:
		return DRM_SCHED_PRIORITY_LOW;
	case DRM_VNPU_PRIORITY_HIGH:
		return DRM_SCHED_PRIORITY_HIGH;
	default:
		return DRM_SCHED_PRIORITY_NORMAL;
	}
}

static void vnpu_queue_watchdog(struct work_struct *work);

static struct vnpu_queue *vnpu_queue_create(struct vnpu_ctx *ctx, u32 priority, u32 depth)
{
	struct vnpu_device *vdev = ctx->vdev;
	struct vnpu_queue *queue = kzalloc(sizeof(*queue), GFP_KERNEL_ACCOUNT);
	struct drm_gpu_scheduler *sched;
	int ret = -ENOMEM;

	if (!queue)
		return ERR_PTR(ret);
	kref_init(&queue->ref);
	queue->ctx = ctx;
	queue->priority = priority;
	queue->depth = depth;
	queue->fence_context = dma_fence_context_alloc(1);
	INIT_LIST_HEAD(&queue->node);
	init_waitqueue_head(&queue->wait);
	INIT_WORK(&queue->release_work, vnpu_queue_release_work);
	INIT_DELAYED_WORK(&queue->watchdog, vnpu_queue_watchdog);
	queue->failures = kvcalloc(depth, sizeof(*queue->failures), GFP_KERNEL_ACCOUNT);
	if (!queue->failures)
		goto err_free;
	ret = vnpu_compat_sched_init(&queue->sched, &vnpu_job_sched_ops, vdev->submit_wq, depth, vdev->parent);
	if (ret)
		goto err_free;
	sched = &queue->sched;
	ret = drm_sched_entity_init(&queue->entity, vnpu_queue_sched_priority(priority), &sched, 1, NULL);
	if (ret)
		goto err_sched;
	ret = vnpu_queue_take_slot(queue);
	if (ret)
		goto err_entity;
	kref_get(&ctx->ref);
	return queue;

err_entity:
	drm_sched_entity_fini(&queue->entity);
err_sched:
	drm_sched_fini(&queue->sched);
err_free:
	kvfree(queue->failures);
	kfree(queue);
	return ERR_PTR(ret);
}

static int vnpu_queue_publish(struct vnpu_file *vfile, struct vnpu_ctx *ctx, struct drm_vnpu_queue_create *args)
{
	struct vnpu_queue *queue;
	u64 offset;
	int ret;

	if (ctx->closing)
		return -ENOENT;
	if (vnpu_ctx_banned(ctx))
		return -ECANCELED;
	queue = vnpu_queue_create(ctx, args->priority, args->depth);
	if (IS_ERR(queue))
		return PTR_ERR(queue);
	queue->vfile = vfile;
	offset = vnpu_queue_status_offset(queue->hwq);
	/* QUEUE_DESTROY may come from here on, but waits for submit_lock. */
	ret = xa_alloc(&vfile->queues, &queue->id, queue, XA_LIMIT(1, VNPU_MAX_QUEUES_PER_FILE), GFP_KERNEL_ACCOUNT);
	if (ret) {
		drm_sched_entity_fini(&queue->entity);
		vnpu_queue_give_slot(queue);
		vnpu_queue_put(queue);
		return ret == -EBUSY ? -EMFILE : ret;
	}
	args->queue_id = queue->id;
	args->status_offset = offset;
	return 0;
}

int vnpu_ioctl_queue_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct vnpu_device *vdev = to_vnpu_device(drm);
	struct vnpu_file *vfile = to_vnpu_file(file);
	struct drm_vnpu_queue_create *args = data;
	struct vnpu_ctx *ctx;
	int ret;

	if (args->flags || args->pad || args->priority > DRM_VNPU_PRIORITY_HIGH)
		return -EINVAL;
	if (!is_power_of_2(args->depth) || args->depth > vdev->queue_depth)
		return -EINVAL;
	if (args->priority == DRM_VNPU_PRIORITY_HIGH && !vnpu_uapi_may_use_high(file))
		return -EACCES;
	ctx = vnpu_ctx_get(vfile, args->ctx_id);
	if (!ctx)
		return -ENOENT;
	mutex_lock(&ctx->submit_lock);
	ret = vnpu_queue_publish(vfile, ctx, args);
	mutex_unlock(&ctx->submit_lock);
	vnpu_ctx_put(ctx);
	return ret;
}

/*
 * Take over the file's reference to a queue that is no longer in its table. Jobs in the ring are finished here; the
 * scheduler finishes those that wait for fences when these have signalled, so that nobody writes to memory too early.
 */
void vnpu_queue_kill(struct vnpu_queue *queue)
{
	struct vnpu_ctx *ctx = queue->ctx;
	struct vnpu_device *vdev = ctx->vdev;
	bool cookie;

	mutex_lock(&ctx->submit_lock);
	queue->dead = true;
	mutex_unlock(&ctx->submit_lock);

	cookie = dma_fence_begin_signalling();
	spin_lock(&vdev->lock);
	queue->killed = true;
	vnpu_queue_fail(queue, NULL, 0, -ECANCELED);
	spin_unlock(&vdev->lock);
	dma_fence_end_signalling(cookie);
	/*
	 * The scheduler's worker puts an entity back into its tree when it takes a job and another follows, even one that
	 * is being killed; then both would take jobs out of the queue. So the worker stands still meanwhile.
	 */
	drm_sched_wqueue_stop(&queue->sched);
	drm_sched_entity_fini(&queue->entity);
	drm_sched_wqueue_start(&queue->sched);

	down_write(&ctx->vm_lock);
	queue->unmapped = true;
	up_write(&ctx->vm_lock);
	unmap_mapping_range(vdev->drm.anon_inode->i_mapping, vnpu_queue_status_offset(queue->hwq), PAGE_SIZE, 1);
	/* Only now may the page be another's. */
	vnpu_queue_give_slot(queue);
	vnpu_queue_put(queue);
}

int vnpu_ioctl_queue_destroy(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_vnpu_queue_destroy *args = data;
	struct vnpu_queue *queue;

	if (args->pad)
		return -EINVAL;
	queue = xa_erase(&to_vnpu_file(file)->queues, args->queue_id);
	if (!queue)
		return -ENOENT;
	vnpu_queue_kill(queue);
	return 0;
}

/* ---- the end of jobs; all under vdev->lock ---- */

/* Book a job's end, just before its fence signals. Jobs of a queue end in order. */
void vnpu_queue_job_done(struct vnpu_queue *queue, u64 seqno, int error, bool by_firmware)
{
	struct vnpu_device *vdev = queue->ctx->vdev;
	struct drm_vnpu_queue_status *status = vnpu_status_page(vdev, queue->hwq);

	lockdep_assert_held(&vdev->lock);
	if (error)
		queue->failures[queue->nr_failures++ & (queue->depth - 1)] =
			(struct vnpu_failure){ .seqno = seqno, .error = error };
	/* The firmware has written the page for a job that it has answered; what it says there is its affair. */
	if (!by_firmware && vdev->hwqs[queue->hwq].queue == queue) {
		if (!READ_ONCE(status->error))
			WRITE_ONCE(status->error, -error);
		if (READ_ONCE(status->completed_seqno) < seqno)
			smp_store_release(&status->completed_seqno, seqno);
	}
	WRITE_ONCE(queue->done_seqno, seqno);
	wake_up_all(&queue->wait);
}

/* Finish all that the queue has in the ring, and tell the firmware to stop it. */
void vnpu_queue_fail(struct vnpu_queue *queue, struct vnpu_fence *culprit, int culprit_error, int error)
{
	struct vnpu_device *vdev = queue->ctx->vdev;
	struct vnpu_hwq *hwq = &vdev->hwqs[queue->hwq];
	struct vnpu_fence *fence;
	u32 number;

	lockdep_assert_held(&vdev->lock);
	if (vnpu_hwq_live(hwq)) {
		hwq->owed_since = jiffies;
		vnpu_reset_watch(vdev);
	}
	while (number = hwq->head, (fence = vnpu_hwq_drop_first(hwq))) {
		struct vnpu_fw_sqe cancel = {
			.type = VNPU_FW_SQE_CANCEL,
			.ctx = queue->ctx->num,
			.queue = queue->hwq,
			.tag = vnpu_tag(queue->hwq, number),
		};

		/* No room: the firmware is stuck anyway, and the answer would be ignored. */
		vnpu_fw_send(vdev, &cancel);
		vnpu_job_finish(fence, fence == culprit ? culprit_error : error, false);
		dma_fence_put(&fence->base);
	}
}

/* ---- the watchdog ---- */

/*
 * Each queue's oldest job in the ring is watched for signs of life: what the firmware writes to started_seqno and progress
 * of the status page is sampled. Jobs have timeouts of their own.
 *
 * A job that has started must make progress itself. One that has not is not to blame for the jobs before it: any progress
 * of the device will do. That may be a lie, so neither goes on for ever. A job that waits has some time more, so that of
 * two jobs the one that hangs is found first, and the device has time to say that it went on.
 *
 * The timer is only moved to be earlier; it runs, finds how things stand, and is set again. So a job that ends in time
 * costs no timer.
 */
#define VNPU_SAMPLE (HZ / 2)
#define VNPU_WAIT_MORE (HZ / 4)
#define VNPU_WAIT_FACTOR 10

static void vnpu_queue_watch(struct vnpu_queue *queue, unsigned long delay)
{
	unsigned long at = jiffies + delay;

	lockdep_assert_held(&queue->ctx->vdev->lock);
	if (queue->watching && time_before_eq(queue->watch_at, at))
		return;
	queue->watching = true;
	queue->watch_at = at;
	mod_delayed_work(queue->ctx->vdev->watchdog_wq, &queue->watchdog, delay);
}

static unsigned long vnpu_queue_period(const struct vnpu_fence *fence)
{
	return clamp(fence->timeout / 4, 1ul, (unsigned long)VNPU_SAMPLE);
}

/* The oldest live job has changed: its clock starts. */
void vnpu_queue_new_head(struct vnpu_queue *queue)
{
	struct vnpu_fence *fence = vnpu_hwq_first(&queue->ctx->vdev->hwqs[queue->hwq]);

	queue->head_since = jiffies;
	queue->alive_at = jiffies;
	queue->running = false;
	if (fence)
		vnpu_queue_watch(queue, vnpu_queue_period(fence));
}

static void vnpu_queue_sample(struct vnpu_queue *queue)
{
	struct vnpu_device *vdev = queue->ctx->vdev;
	const struct drm_vnpu_queue_status *status = vnpu_status_page(vdev, queue->hwq);
	u64 started = READ_ONCE(status->started_seqno), progress = READ_ONCE(status->progress);
	struct vnpu_fence *fence = vnpu_hwq_first(&vdev->hwqs[queue->hwq]);

	if (started != queue->seen_started || progress != queue->seen_progress) {
		queue->seen_started = started;
		queue->seen_progress = progress;
		queue->alive_at = jiffies;
		vdev->alive_at = jiffies;
	}
	if (fence && !queue->running && started >= fence->base.seqno) {
		queue->running = true;
		queue->running_since = jiffies;
		queue->alive_at = jiffies;
	}
}

/* Does anything move in the device? However many ask, it is looked at once in a jiffy. */
static void vnpu_queue_sample_all(struct vnpu_device *vdev)
{
	if (vdev->sampled_at == jiffies)
		return;
	vdev->sampled_at = jiffies;
	for (u32 i = 0; i < vdev->nr_queues; i++)
		if (vdev->hwqs[i].queue && vnpu_hwq_live(&vdev->hwqs[i]))
			vnpu_queue_sample(vdev->hwqs[i].queue);
}

/* When the time of the oldest job is up if nothing more is heard. */
static unsigned long vnpu_queue_deadline(const struct vnpu_queue *queue, const struct vnpu_fence *fence)
{
	struct vnpu_device *vdev = queue->ctx->vdev;
	unsigned long max = msecs_to_jiffies(vnpu_device_max_timeout_ms(vdev));
	unsigned long heard, quiet, end;

	if (queue->running) {
		quiet = queue->alive_at + fence->timeout;
		end = queue->running_since + max;
	} else {
		heard = time_after(vdev->alive_at, queue->head_since) ? vdev->alive_at : queue->head_since;
		quiet = heard + fence->timeout + VNPU_WAIT_MORE;
		end = queue->head_since + VNPU_WAIT_FACTOR * max;
	}
	return time_before(end, quiet) ? end : quiet;
}

static void vnpu_queue_watchdog(struct work_struct *work)
{
	struct vnpu_queue *queue = container_of(to_delayed_work(work), struct vnpu_queue, watchdog);
	struct vnpu_ctx *ctx = queue->ctx;
	struct vnpu_device *vdev = ctx->vdev;
	struct vnpu_fence *fence;
	unsigned long deadline;
	bool cookie;

	/* The answer may lie in the ring, posted by a firmware that was stopped before it said so. */
	vnpu_fw_drain(vdev, NULL);

	cookie = dma_fence_begin_signalling();
	spin_lock(&vdev->lock);
	queue->watching = false;
	fence = queue->killed ? NULL : vnpu_hwq_first(&vdev->hwqs[queue->hwq]);
	if (fence) {
		vnpu_queue_sample(queue);
		if (!queue->running)
			vnpu_queue_sample_all(vdev);
		deadline = vnpu_queue_deadline(queue, fence);
		if (time_before(jiffies, deadline))
			vnpu_queue_watch(queue, min(deadline - jiffies, vnpu_queue_period(fence)));
		else
			vnpu_ctx_ban(ctx, DRM_VNPU_CTX_TIMEDOUT, fence, -ETIMEDOUT);
	}
	spin_unlock(&vdev->lock);
	dma_fence_end_signalling(cookie);
}

/* ---- WAIT ---- */

static int vnpu_queue_result(struct vnpu_queue *queue, u64 seqno)
{
	u32 kept = min(queue->nr_failures, queue->depth);

	for (u32 i = 1; i <= kept; i++) {
		struct vnpu_failure *f = &queue->failures[(queue->nr_failures - i) & (queue->depth - 1)];

		if (f->seqno == seqno)
			return f->error;
		/* Older than all that is remembered: some job back there failed, and nobody knows any more which. */
		if (i == kept && kept < queue->nr_failures && seqno < f->seqno)
			return f->error;
	}
	return 0;
}

int vnpu_ioctl_wait(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct vnpu_device *vdev = to_vnpu_device(drm);
	struct drm_vnpu_wait *args = data;
	struct vnpu_queue *queue;
	long ret;

	if (args->flags)
		return -EINVAL;
	queue = vnpu_queue_get(to_vnpu_file(file), args->queue_id);
	if (!queue)
		return -ENOENT;
	if (!args->seqno || args->seqno > READ_ONCE(queue->submitted_seqno)) {
		ret = -EINVAL;
		goto out;
	}
	/* What the firmware has posted but not yet come to tell of is taken here: cheaper than to sleep until it comes. */
	if (READ_ONCE(queue->done_seqno) < args->seqno)
		vnpu_fw_drain(vdev, NULL);
	ret = wait_event_interruptible_timeout(queue->wait, READ_ONCE(queue->done_seqno) >= args->seqno,
					       vnpu_uapi_timeout(args->timeout_ns));
	if (ret <= 0) {
		ret = ret ?: -ETIMEDOUT;
		goto out;
	}
	spin_lock(&vdev->lock);
	args->status = vnpu_queue_result(queue, args->seqno);
	args->epoch = vdev->epoch;
	spin_unlock(&vdev->lock);
	ret = 0;
out:
	vnpu_queue_put(queue);
	return ret;
}

/* ---- the status page in the client ---- */

static vm_fault_t vnpu_status_fault(struct vm_fault *vmf)
{
	struct vnpu_queue *queue = vmf->vma->vm_private_data;
	struct vnpu_ctx *ctx = queue->ctx;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	down_read(&ctx->vm_lock);
	if (!queue->unmapped)
		ret = vmf_insert_pfn(vmf->vma, vmf->address, vmalloc_to_pfn(vnpu_status_page(ctx->vdev, queue->hwq)));
	up_read(&ctx->vm_lock);
	return ret;
}

static void vnpu_status_open(struct vm_area_struct *vma)
{
	struct vnpu_queue *queue = vma->vm_private_data;

	kref_get(&queue->ref);
}

static void vnpu_status_close(struct vm_area_struct *vma)
{
	vnpu_queue_put(vma->vm_private_data);
}

static const struct vm_operations_struct vnpu_status_vm_ops = {
	.open = vnpu_status_open,
	.close = vnpu_status_close,
	.fault = vnpu_status_fault,
};

int vnpu_queue_mmap(struct vnpu_file *vfile, struct vm_area_struct *vma)
{
	struct vnpu_device *vdev = vfile->vdev;
	u64 slot = (u64)vma->vm_pgoff - 1;
	struct vnpu_queue *queue = NULL;

	if (slot >= vdev->nr_queues || vma_pages(vma) != 1)
		return -EINVAL;
	if ((vma->vm_flags & (VM_WRITE | VM_EXEC)) || !(vma->vm_flags & VM_SHARED))
		return -EACCES;
	spin_lock(&vdev->lock);
	queue = vdev->hwqs[slot].queue;
	if (queue && (queue->vfile != vfile || !kref_get_unless_zero(&queue->ref)))
		queue = NULL;
	spin_unlock(&vdev->lock);
	if (!queue)
		return -EACCES;
	/* VM_MAYWRITE: the page stays read-only whatever mprotect() wants. */
	vm_flags_mod(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE | VM_MAYEXEC);
	vma->vm_private_data = queue;
	vma->vm_ops = &vnpu_status_vm_ops;
	return 0;
}
