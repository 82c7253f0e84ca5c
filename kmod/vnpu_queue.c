// SPDX-License-Identifier: GPL-2.0-only
/* Queues: creation, WAIT, the client's mapping of the status page, and destruction. */

#include "vnpu_fw.h"
#include "vnpu_queue.h"

/* Offset in the client's file. Page 0 stays free; GEM's offsets begin at 4 GiB. */
static u64 vnpu_queue_status_offset(u32 hwq)
{
	return ((u64)hwq + 1) << PAGE_SHIFT;
}

/* ---- life ---- */

/* vnpu_queue_kill() has ended all jobs and stopped the queue's work items. */
static void vnpu_queue_release(struct kref *ref)
{
	struct vnpu_queue *queue = container_of(ref, struct vnpu_queue, ref);

	/* The memory below counts as long as a mapping of the status page keeps it. */
	vnpu_user_uncharge(queue->ctx->user, VNPU_USER_QUEUES, 1);
	vnpu_ctx_put(queue->ctx);
	kvfree(queue->jobs);
	kfree(queue);
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

/* Give the queue a free slot of the device with a clean status page. */
static int vnpu_queue_take_slot(struct vnpu_queue *queue)
{
	struct vnpu_device *vdev = queue->ctx->vdev;

	guard(spinlock)(&vdev->lock);
	for (u32 i = 0; i < vdev->nr_queues; i++) {
		struct vnpu_hwq *hwq = &vdev->hwqs[i];

		if (hwq->queue || !vnpu_hwq_answered(hwq))
			continue;
		hwq->queue = queue;
		hwq->ctx = queue->ctx->num;
		queue->hwq = i;
		*vnpu_status_page(vdev, i) = (struct drm_vnpu_queue_status){ .epoch = vdev->epoch };
		list_add_tail(&queue->node, &queue->ctx->queues);
		return 0;
	}
	return -EBUSY;
}

static void vnpu_queue_give_slot(struct vnpu_queue *queue)
{
	struct vnpu_device *vdev = queue->ctx->vdev;

	guard(spinlock)(&vdev->lock);
	list_del_init(&queue->node);
	vdev->hwqs[queue->hwq].queue = NULL;
}

static struct vnpu_queue *vnpu_queue_create(struct vnpu_ctx *ctx, u32 priority, u32 depth)
{
	u32 places = roundup_pow_of_two(depth + VNPU_MAX_WAITING_JOBS);
	struct vnpu_queue *queue;
	int ret;

	ret = vnpu_user_charge(ctx->user, VNPU_USER_QUEUES, 1);
	if (ret)
		return ERR_PTR(ret);
	ret = -ENOMEM;
	queue = kzalloc(sizeof(*queue), GFP_KERNEL_ACCOUNT);
	if (!queue)
		goto err_user;
	kref_init(&queue->ref);
	queue->ctx = ctx;
	queue->priority = priority;
	queue->depth = depth;
	queue->mask = places - 1;
	queue->fence_context = dma_fence_context_alloc(1);
	INIT_LIST_HEAD(&queue->node);
	INIT_LIST_HEAD(&queue->fences);
	init_waitqueue_head(&queue->wait);
	INIT_WORK(&queue->wait_work, vnpu_job_wait_work);
	INIT_DELAYED_WORK(&queue->watchdog, vnpu_watchdog_work);
	queue->jobs = kvcalloc(places, sizeof(*queue->jobs), GFP_KERNEL_ACCOUNT);
	if (queue->jobs)
		ret = vnpu_queue_take_slot(queue);
	if (ret)
		goto err_free;
	kref_get(&ctx->ref);
	return queue;

err_free:
	kvfree(queue->jobs);
	kfree(queue);
err_user:
	vnpu_user_uncharge(ctx->user, VNPU_USER_QUEUES, 1);
	return ERR_PTR(ret);
}

static int vnpu_queue_publish(struct vnpu_file *vfile, struct vnpu_ctx *ctx,
			      struct drm_vnpu_queue_create *args)
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
	offset = vnpu_queue_status_offset(queue->hwq);
	/* QUEUE_DESTROY may come from here on, but waits for submit_lock. */
	ret = xa_alloc(&vfile->queues, &queue->id, queue, XA_LIMIT(1, VNPU_MAX_QUEUES_PER_FILE),
		       GFP_KERNEL_ACCOUNT);
	if (ret) {
		vnpu_queue_give_slot(queue);
		vnpu_queue_put(queue);
		return ret == -EBUSY ? -EMFILE : ret;
	}
	/* Not before: whoever maps the status page relies on vnpu_queue_kill() to revoke it. */
	scoped_guard(spinlock, &ctx->vdev->lock)
		queue->vfile = vfile;
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
	if (args->priority == DRM_VNPU_PRIORITY_HIGH && !vnpu_uapi_may_use_high())
		return -EACCES;
	ctx = vnpu_ctx_get(vfile, args->ctx_id);
	if (!ctx)
		return -ENOENT;
	scoped_guard(mutex, &ctx->submit_lock)
		ret = vnpu_queue_publish(vfile, ctx, args);
	vnpu_ctx_put(ctx);
	return ret;
}

/*
 * Take over the file's reference to a queue that is no longer in its table, and end its jobs,
 * oldest first, whatever they wait for.
 */
void vnpu_queue_kill(struct vnpu_queue *queue)
{
	struct vnpu_ctx *ctx = queue->ctx;
	struct vnpu_device *vdev = ctx->vdev;
	bool more;

	scoped_guard(mutex, &ctx->submit_lock)
		queue->dead = true;
	do {
		scoped_guard(vnpu_signalling, vdev) {
			queue->killed = true;
			more = vnpu_job_fail(queue, -ECANCELED);
		}
		cond_resched();
	} while (more);
	vnpu_job_stop_waiting(queue);
	cancel_delayed_work_sync(&queue->watchdog);

	scoped_guard(rwsem_write, &ctx->vm_lock)
		queue->unmapped = true;
	unmap_mapping_range(vdev->drm.anon_inode->i_mapping, vnpu_queue_status_offset(queue->hwq),
			    PAGE_SIZE, 1);
	/* From here on the page may belong to another queue. */
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

/* ---- WAIT ---- */

static int vnpu_queue_result(struct vnpu_queue *queue, u64 seqno)
{
	struct vnpu_job *job = vnpu_queue_job(queue, seqno);

	if (job->sqe.seqno == seqno)
		return job->error;
	return seqno <= queue->forgotten_seqno ? queue->forgotten_error : 0;
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
	/* Process completions that the firmware has posted without ENTER: cheaper than sleeping. */
	if (READ_ONCE(queue->done_seqno) < args->seqno)
		vnpu_fw_drain_batch(vdev, NULL);
	ret = wait_event_interruptible_timeout(queue->wait,
					       READ_ONCE(queue->done_seqno) >= args->seqno,
					       vnpu_uapi_timeout(args->timeout_ns));
	if (ret <= 0) {
		ret = ret ?: -ETIMEDOUT;
		goto out;
	}
	scoped_guard(spinlock, &vdev->lock) {
		args->status = vnpu_queue_result(queue, args->seqno);
		args->epoch = vdev->epoch;
	}
	ret = 0;
out:
	vnpu_queue_put(queue);
	return ret;
}

/* ---- the status page in the client ---- */

static vm_fault_t vnpu_status_fault(struct vm_fault *vmf)
{
	struct vnpu_queue *queue = vmf->vma->vm_private_data;
	void *page = vnpu_status_page(queue->ctx->vdev, queue->hwq);

	guard(rwsem_read)(&queue->ctx->vm_lock);
	if (queue->unmapped)
		return VM_FAULT_SIGBUS;
	return vmf_insert_pfn(vmf->vma, vmf->address, vmalloc_to_pfn(page));
}

static void vnpu_status_open(struct vm_area_struct *vma)
{
	kref_get(&((struct vnpu_queue *)vma->vm_private_data)->ref);
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
	struct vnpu_queue *queue;

	if (slot >= vdev->nr_queues || vma_pages(vma) != 1)
		return -EINVAL;
	slot = array_index_nospec(slot, vdev->nr_queues);
	if ((vma->vm_flags & (VM_WRITE | VM_EXEC)) || !(vma->vm_flags & VM_SHARED))
		return -EACCES;
	scoped_guard(spinlock, &vdev->lock) {
		queue = vdev->hwqs[slot].queue;
		if (!queue || queue->vfile != vfile || !kref_get_unless_zero(&queue->ref))
			return -EACCES;
	}
	/* Without VM_MAYWRITE the page stays read-only even after mprotect(). */
	vm_flags_mod(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP, VM_MAYWRITE | VM_MAYEXEC);
	vma->vm_private_data = queue;
	vma->vm_ops = &vnpu_status_vm_ops;
	return 0;
}
