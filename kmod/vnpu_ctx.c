// SPDX-License-Identifier: GPL-2.0-only
/* Contexts: numbers, states and destruction. */

#include "vnpu_fw.h"
#include "vnpu_queue.h"

static void vnpu_ctx_release(struct kref *ref)
{
	struct vnpu_ctx *ctx = container_of(ref, struct vnpu_ctx, ref);
	struct vnpu_device *vdev = ctx->vdev;

	scoped_guard(spinlock, &vdev->lock)
		vdev->ctxs[ctx->num] = NULL;
	vnpu_user_uncharge(ctx->user, VNPU_USER_CTX, 1);
	vnpu_space_fini(&ctx->space);
	kfree(ctx);
	drm_dev_put(&vdev->drm);
}

void vnpu_ctx_put(struct vnpu_ctx *ctx)
{
	kref_put(&ctx->ref, vnpu_ctx_release);
}

struct vnpu_ctx *vnpu_ctx_get(struct vnpu_file *vfile, u32 id)
{
	struct vnpu_ctx *ctx;

	xa_lock(&vfile->ctxs);
	ctx = xa_load(&vfile->ctxs, id);
	if (ctx)
		kref_get(&ctx->ref);
	xa_unlock(&vfile->ctxs);
	return ctx;
}

/* For the firmware, which must not see contexts of an earlier epoch. */
struct vnpu_ctx *vnpu_ctx_get_by_num(struct vnpu_device *vdev, u32 num)
{
	struct vnpu_ctx *ctx;

	guard(spinlock)(&vdev->lock);
	ctx = vdev->ctxs[num];
	if (!ctx || ctx->epoch != vdev->epoch || !kref_get_unless_zero(&ctx->ref))
		return NULL;
	return ctx;
}

static int vnpu_ctx_take_number(struct vnpu_device *vdev, struct vnpu_ctx *ctx)
{
	guard(spinlock)(&vdev->lock);
	/* Without a firmware no job can run, and the context would be banned from the start. */
	for (u32 num = 1; vdev->ready && num <= vdev->nr_ctx; num++) {
		if (vdev->ctxs[num])
			continue;
		vdev->ctxs[num] = ctx;
		ctx->num = num;
		ctx->epoch = vdev->epoch;
		return 0;
	}
	return vdev->wedged ? -EIO : -EBUSY;
}

static void vnpu_ctx_fail_work(struct work_struct *work);

int vnpu_ioctl_ctx_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct vnpu_device *vdev = to_vnpu_device(drm);
	struct vnpu_file *vfile = to_vnpu_file(file);
	struct drm_vnpu_ctx_create *args = data;
	struct vnpu_ctx *ctx;
	int ret;

	if (args->flags)
		return -EINVAL;
	ret = vnpu_user_charge(vfile->user, VNPU_USER_CTX, 1);
	if (ret)
		return ret;
	ret = -ENOMEM;
	ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);
	if (!ctx)
		goto err_user;
	kref_init(&ctx->ref);
	ctx->vdev = vdev;
	ctx->user = vfile->user;
	ctx->client_id = file->client_id;
	ctx->pid = task_tgid_nr(current);
	get_task_comm(ctx->comm, current);
	mutex_init(&ctx->submit_lock);
	INIT_LIST_HEAD(&ctx->queues);
	INIT_LIST_HEAD(&ctx->put_node);
	INIT_WORK(&ctx->fail_work, vnpu_ctx_fail_work);
	mutex_init(&ctx->bind_lock);
	init_rwsem(&ctx->vm_lock);
	vnpu_space_init(&ctx->space, vdev->va_bits);
	drm_dev_get(drm);
	ret = vnpu_ctx_take_number(vdev, ctx);
	if (ret)
		goto err_ctx;
	/* From here on another thread may use the context and close it. */
	kref_get(&ctx->ref);
	ret = xa_alloc(&vfile->ctxs, &ctx->id, ctx, XA_LIMIT(1, VNPU_MAX_CTX_PER_FILE),
		       GFP_KERNEL_ACCOUNT);
	args->ctx_id = ctx->id;
	vnpu_ctx_put(ctx);
	if (ret) {
		vnpu_ctx_put(ctx);
		return ret == -EBUSY ? -EMFILE : ret;
	}
	args->va_start = VNPU_VA_START;
	args->va_range = (1ull << vdev->va_bits) - VNPU_VA_START;
	return 0;

err_ctx:
	drm_dev_put(drm);
	vnpu_space_fini(&ctx->space);
	kfree(ctx);
err_user:
	vnpu_user_uncharge(vfile->user, VNPU_USER_CTX, 1);
	return ret;
}

/* Ask the firmware to close the context. The number stays in use until it has answered. */
static void vnpu_ctx_tell_firmware(struct vnpu_ctx *ctx)
{
	struct vnpu_fw_sqe sqe = { .type = VNPU_FW_SQE_CTX_CLOSE, .ctx = ctx->num };
	struct vnpu_device *vdev = ctx->vdev;

	guard(spinlock)(&vdev->lock);
	if (ctx->epoch != vdev->epoch || !vnpu_fw_send(vdev, &sqe))
		return;
	kref_get(&ctx->ref);
	ctx->fw_owes = true;
	ctx->owed_since = jiffies;
	vnpu_reset_watch(vdev);
}

/*
 * Take over the file's reference to a context that is no longer in its table, and destroy what
 * belongs to the context.
 */
void vnpu_ctx_close(struct vnpu_file *vfile, struct vnpu_ctx *ctx)
{
	struct vnpu_queue *queue;
	unsigned long id;

	scoped_guard(mutex, &ctx->submit_lock)
		WRITE_ONCE(ctx->closing, true);

	/* No queue can be added now, but others may destroy some: look under the table's lock. */
	do {
		xa_lock(&vfile->queues);
		xa_for_each(&vfile->queues, id, queue)
			if (queue->ctx == ctx)
				break;
		if (queue)
			__xa_erase(&vfile->queues, id);
		xa_unlock(&vfile->queues);
		if (queue)
			vnpu_queue_kill(queue);
	} while (queue);
	vnpu_vm_clear(ctx);
	vnpu_ctx_tell_firmware(ctx);
	vnpu_ctx_put(ctx);
}

int vnpu_ioctl_ctx_destroy(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct vnpu_file *vfile = to_vnpu_file(file);
	struct drm_vnpu_ctx_destroy *args = data;
	struct vnpu_ctx *ctx;

	if (args->pad)
		return -EINVAL;
	ctx = xa_erase(&vfile->ctxs, args->ctx_id);
	if (!ctx)
		return -ENOENT;
	vnpu_ctx_close(vfile, ctx);
	return 0;
}

int vnpu_ioctl_ctx_get_state(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct vnpu_device *vdev = to_vnpu_device(drm);
	struct drm_vnpu_ctx_get_state *args = data;
	struct vnpu_ctx *ctx;

	if (args->pad)
		return -EINVAL;
	ctx = vnpu_ctx_get(to_vnpu_file(file), args->ctx_id);
	if (!ctx)
		return -ENOENT;
	scoped_guard(spinlock, &vdev->lock) {
		args->state = ctx->state;
		args->fault_va = ctx->fault_va;
		args->fault_flags = ctx->fault_flags;
		args->queue_id = ctx->ban_queue_id;
		args->seqno = ctx->ban_seqno;
		args->epoch = vdev->epoch;
	}
	vnpu_ctx_put(ctx);
	return 0;
}

/* ---- bans ---- */

/* End a bounded number of jobs of the context. True if some are left. */
static bool vnpu_ctx_fail_some(struct vnpu_ctx *ctx)
{
	struct vnpu_queue *queue;

	guard(vnpu_signalling)(ctx->vdev);
	list_for_each_entry(queue, &ctx->queues, node)
		if (vnpu_job_fail(queue, ctx->state & DRM_VNPU_CTX_FW_LOST ? -EIO : -ECANCELED))
			return true;
	return false;
}

/* End all jobs of a banned context. Called with no locks held. */
void vnpu_ctx_fail(struct vnpu_ctx *ctx)
{
	while (vnpu_ctx_fail_some(ctx))
		cond_resched();
}

static void vnpu_ctx_fail_work(struct work_struct *work)
{
	struct vnpu_ctx *ctx = container_of(work, struct vnpu_ctx, fail_work);

	vnpu_ctx_fail(ctx);
	vnpu_ctx_put(ctx);
}

/* The same, from a work item. */
void vnpu_ctx_fail_later(struct vnpu_ctx *ctx)
{
	kref_get(&ctx->ref);
	/* Callers hold a reference of their own, so the one dropped here is never the last. */
	if (!queue_work(vnpu_wq, &ctx->fail_work))
		kref_put(&ctx->ref, vnpu_ctx_release);
}

/*
 * Ban the context because of the oldest job of @culprit, which the caller ends. The work item ends
 * all other jobs of the context with -ECANCELED, or with -EIO if the firmware is lost meanwhile.
 */
void vnpu_ctx_ban(struct vnpu_ctx *ctx, u32 state, struct vnpu_queue *culprit)
{
	lockdep_assert_held(&ctx->vdev->lock);
	if (!ctx->state) {
		ctx->ban_queue_id = culprit->id;
		ctx->ban_seqno = culprit->done_seqno + 1;
	}
	WRITE_ONCE(ctx->state, ctx->state | state);
	vnpu_ctx_fail_later(ctx);
}
