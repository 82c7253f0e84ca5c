// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contexts: their numbers, their states, their end.
 */
#include <linux/slab.h>
#include <drm/drm_drv.h>
#include <drm/drm_print.h>

#include "vnpu_ctx.h"
#include "vnpu_drv.h"
#include "vnpu_fence.h"
#include "vnpu_fw.h"
#include "vnpu_job.h"
#include "vnpu_queue.h"
#include "vnpu_reset.h"
#include "vnpu_user.h"
#include "vnpu_vm.h"

static void vnpu_ctx_release(struct kref *ref)
{
	struct vnpu_ctx *ctx = container_of(ref, struct vnpu_ctx, ref);
	struct vnpu_device *vdev = ctx->vdev;

	spin_lock(&vdev->lock);
	vdev->ctxs[ctx->num] = NULL;
	spin_unlock(&vdev->lock);
	vnpu_user_uncharge(ctx->user, VNPU_USER_CTX, 1);
	vnpu_vm_fini(ctx);
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

/* For the firmware: contexts from before its time do not exist. */
struct vnpu_ctx *vnpu_ctx_get_by_num(struct vnpu_device *vdev, u32 num)
{
	struct vnpu_ctx *ctx;

	spin_lock(&vdev->lock);
	ctx = vdev->ctxs[num];
	if (ctx && (ctx->epoch != vdev->epoch || !kref_get_unless_zero(&ctx->ref)))
		ctx = NULL;
	spin_unlock(&vdev->lock);
	return ctx;
}

static int vnpu_ctx_take_number(struct vnpu_device *vdev, struct vnpu_ctx *ctx)
{
	int ret;

	spin_lock(&vdev->lock);
	ret = vdev->wedged ? -EIO : -EBUSY;
	/* Without a firmware nothing can run, and the context would be born banned. */
	for (u32 num = 1; vdev->ready && num <= vdev->nr_ctx; num++) {
		if (vdev->ctxs[num])
			continue;
		vdev->ctxs[num] = ctx;
		ctx->num = num;
		ctx->epoch = vdev->epoch;
		ret = 0;
		break;
	}
	spin_unlock(&vdev->lock);
	return ret;
}

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
	ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);
	if (!ctx) {
		vnpu_user_uncharge(vfile->user, VNPU_USER_CTX, 1);
		return -ENOMEM;
	}
	kref_init(&ctx->ref);
	ctx->vdev = vdev;
	ctx->user = vfile->user;
	ctx->client_id = file->client_id;
	ctx->pid = task_tgid_nr(current);
	get_task_comm(ctx->comm, current);
	mutex_init(&ctx->submit_lock);
	INIT_LIST_HEAD(&ctx->queues);
	INIT_LIST_HEAD(&ctx->put_node);
	vnpu_vm_init(ctx);
	ret = vnpu_ctx_take_number(vdev, ctx);
	if (ret) {
		vnpu_user_uncharge(ctx->user, VNPU_USER_CTX, 1);
		vnpu_vm_fini(ctx);
		kfree(ctx);
		return ret;
	}
	drm_dev_get(drm);

	/* From here on another thread may use the context, and close it. */
	kref_get(&ctx->ref);
	ret = xa_alloc(&vfile->ctxs, &ctx->id, ctx, XA_LIMIT(1, VNPU_MAX_CTX_PER_FILE), GFP_KERNEL_ACCOUNT);
	args->ctx_id = ctx->id;
	vnpu_ctx_put(ctx);
	if (ret) {
		vnpu_ctx_put(ctx);
		return ret == -EBUSY ? -EMFILE : ret;
	}
	args->va_start = VNPU_VA_START;
	args->va_range = (1ull << vdev->va_bits) - VNPU_VA_START;
	return 0;
}

/* Ask the firmware to forget the context; its number stays taken until it has. */
static void vnpu_ctx_tell_firmware(struct vnpu_ctx *ctx)
{
	struct vnpu_device *vdev = ctx->vdev;

	spin_lock(&vdev->lock);
	if (vdev->ready && ctx->epoch == vdev->epoch) {
		kref_get(&ctx->ref);
		ctx->fw_owes = true;
		ctx->owed_since = jiffies;
		ctx->close_pending = true;
		vdev->closes_pending = true;
		vnpu_fw_send_closes(vdev);
		vnpu_reset_watch(vdev);
	}
	spin_unlock(&vdev->lock);
}

/* Take over the file's reference to a context that is no longer in its table, and end all that belongs to it. */
void vnpu_ctx_close(struct vnpu_file *vfile, struct vnpu_ctx *ctx)
{
	struct vnpu_queue *queue;
	unsigned long id;

	mutex_lock(&ctx->submit_lock);
	WRITE_ONCE(ctx->closing, true);
	mutex_unlock(&ctx->submit_lock);

	/* No queue joins any more, but another thread may destroy some: look at them under the table's lock only. */
	do {
		xa_lock(&vfile->queues);
		xa_for_each (&vfile->queues, id, queue)
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
	spin_lock(&vdev->lock);
	args->state = ctx->state;
	args->fault_va = ctx->fault_va;
	args->fault_flags = ctx->fault_flags;
	args->queue_id = ctx->ban_queue_id;
	args->seqno = ctx->ban_seqno;
	args->epoch = vdev->epoch;
	spin_unlock(&vdev->lock);
	vnpu_ctx_put(ctx);
	return 0;
}

/*
 * Nothing of the context runs any more: the culprit's job, if there is one, ends with @error, all others of its queues
 * with -ECANCELED, or -EIO if it was the firmware that went.
 */
void vnpu_ctx_ban(struct vnpu_ctx *ctx, u32 state, struct vnpu_fence *culprit, int error)
{
	struct vnpu_device *vdev = ctx->vdev;
	struct vnpu_queue *queue;

	lockdep_assert_held(&vdev->lock);
	if (culprit && !ctx->state) {
		ctx->ban_queue_id = culprit->queue->id;
		ctx->ban_seqno = culprit->base.seqno;
	}
	WRITE_ONCE(ctx->state, ctx->state | state);
	list_for_each_entry (queue, &ctx->queues, node)
		vnpu_queue_fail(queue, culprit, error, state == DRM_VNPU_CTX_FW_LOST ? -EIO : -ECANCELED);
}
