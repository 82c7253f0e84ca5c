// SPDX-License-Identifier: GPL-2.0-only
/*
 * The firmware's side: its fd with the rings, and what becomes of jobs when it completes them, lies, or dies.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/hrtimer.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <drm/drm_accel.h>
#include <drm/drm_drv.h>
#include <drm/drm_print.h>

#include "vnpu_ctl.h"
#include "vnpu_ctx.h"
#include "vnpu_drv.h"
#include "vnpu_fence.h"
#include "vnpu_fw.h"
#include "vnpu_job.h"
#include "vnpu_queue.h"
#include "vnpu_reset.h"
#include "vnpu_stats.h"
#include "vnpu_trace.h"
#include "vnpu_vm.h"

/* Entries of the completion ring that are taken in one go under the lock. */
#define VNPU_DRAIN_BATCH 64

/* ---- the rings' memory ---- */

int vnpu_fw_alloc_regions(struct vnpu_device *vdev)
{
	/* Every job once, a CANCEL for each, and a CTX_CLOSE for each context. Each entry is answered at most once. */
	u32 entries = roundup_pow_of_two(2 * vdev->nr_queues * vdev->queue_depth + vdev->nr_ctx);
	const u64 sizes[VNPU_NR_REGIONS] = {
		[VNPU_REGION_INFO] = PAGE_SIZE,
		[VNPU_REGION_CTL] = PAGE_SIZE,
		[VNPU_REGION_SQ] = PAGE_ALIGN((u64)entries * sizeof(struct vnpu_fw_sqe)),
		[VNPU_REGION_CQ] = PAGE_ALIGN((u64)entries * sizeof(struct vnpu_fw_cqe)),
		[VNPU_REGION_STATUS] = (u64)vdev->nr_queues * PAGE_SIZE,
	};
	struct vnpu_region *r = vdev->regions;
	struct vnpu_fw_info *info;
	u64 offset = 0;

	for (int i = 0; i < VNPU_NR_REGIONS; i++) {
		r[i].offset = offset;
		r[i].size = sizes[i];
		r[i].writable = i != VNPU_REGION_INFO && i != VNPU_REGION_SQ;
		r[i].mem = vmalloc_user(sizes[i]);
		if (!r[i].mem)
			return -ENOMEM;
		offset += sizes[i];
	}
	info = r[VNPU_REGION_INFO].mem;
	*info = (struct vnpu_fw_info){
		.magic = VNPU_FW_INFO_MAGIC,
		.version = VNPU_FW_ABI,
		.epoch = vdev->epoch,
		.sq_entries = entries,
		.cq_entries = entries,
		.nr_queues = vdev->nr_queues,
		.nr_ctx = vdev->nr_ctx,
		.va_bits = vdev->va_bits,
		.dev_id = vdev->id,
		.ctl_offset = r[VNPU_REGION_CTL].offset,
		.sq_offset = r[VNPU_REGION_SQ].offset,
		.cq_offset = r[VNPU_REGION_CQ].offset,
		.status_offset = r[VNPU_REGION_STATUS].offset,
	};
	vdev->ring = (struct vnpu_ring){
		.info = info,
		.ctl = r[VNPU_REGION_CTL].mem,
		.sq = r[VNPU_REGION_SQ].mem,
		.cq = r[VNPU_REGION_CQ].mem,
		.sq_entries = entries,
		.cq_entries = entries,
	};
	return 0;
}

void vnpu_fw_free_regions(struct vnpu_device *vdev)
{
	for (int i = 0; i < VNPU_NR_REGIONS; i++)
		vfree(vdev->regions[i].mem);
}

/* ---- mappings ---- */

/* Fault handlers insert pages between these two; afterwards vnpu_fw_session_end() may take them away. */
bool vnpu_fw_fault_begin(struct file *file)
{
	struct vnpu_session *session = file->private_data;

	down_read(&session->lock);
	if (!session->dead)
		return true;
	up_read(&session->lock);
	return false;
}

void vnpu_fw_fault_end(struct file *file)
{
	struct vnpu_session *session = file->private_data;

	up_read(&session->lock);
}

/* Take pages of a context away from the firmware; on return no thread of it can reach them. */
void vnpu_fw_zap(struct vnpu_device *vdev, u32 ctx, u64 va, u64 size)
{
	mutex_lock(&vdev->map_lock);
	if (vdev->aperture)
		unmap_mapping_range(vdev->aperture->f_mapping, ((u64)ctx << vdev->va_bits) + va, size, 1);
	mutex_unlock(&vdev->map_lock);
}

static vm_fault_t vnpu_region_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct vnpu_region *region = vma->vm_private_data;
	u64 offset = ((u64)vmf->pgoff << PAGE_SHIFT) - region->offset;
	vm_fault_t ret;

	if (!vnpu_fw_fault_begin(vma->vm_file))
		return VM_FAULT_SIGBUS;
	ret = vmf_insert_pfn(vma, vmf->address, vmalloc_to_pfn(region->mem + offset));
	vnpu_fw_fault_end(vma->vm_file);
	return ret;
}

static const struct vm_operations_struct vnpu_region_vm_ops = {
	.fault = vnpu_region_fault,
};

static int vnpu_fw_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct vnpu_session *session = file->private_data;
	struct vnpu_device *vdev = session->vdev;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	u64 size = vma->vm_end - vma->vm_start;

	if (vma->vm_pgoff >> (vdev->va_bits - PAGE_SHIFT))
		return vnpu_vm_mmap(vdev, vma);
	if (!(vma->vm_flags & VM_SHARED) || (vma->vm_flags & VM_EXEC))
		return -EINVAL;
	for (int i = 0; i < VNPU_NR_REGIONS; i++) {
		struct vnpu_region *r = &vdev->regions[i];

		if (offset < r->offset || offset >= r->offset + r->size)
			continue;
		if (size > r->size - (offset - r->offset))
			return -EINVAL;
		if (!r->writable && (vma->vm_flags & VM_WRITE))
			return -EACCES;
		vm_flags_mod(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY,
			     VM_MAYEXEC | (r->writable ? 0 : VM_MAYWRITE));
		vma->vm_private_data = r;
		vma->vm_ops = &vnpu_region_vm_ops;
		return 0;
	}
	return -EINVAL;
}

/* ---- kernel to firmware; under vdev->lock ---- */

/* False if there is no firmware, or no room. */
bool vnpu_fw_send(struct vnpu_device *vdev, const struct vnpu_fw_sqe *sqe)
{
	lockdep_assert_held(&vdev->lock);
	if (!vdev->ready || !vnpu_ring_push(&vdev->ring, sqe))
		return false;
	/* The barrier in wq_has_sleeper() pairs with the one in prepare_to_wait(): either side sees the other's store. */
	if (wq_has_sleeper(&vdev->fw_wait))
		wake_up_interruptible(&vdev->fw_wait);
	return true;
}

/* Contexts that closed, as far as there is room for them; what is left goes with the next completion. */
void vnpu_fw_send_closes(struct vnpu_device *vdev)
{
	lockdep_assert_held(&vdev->lock);
	/* Asked with every completion, so contexts are looked through only if there is one. */
	if (!vdev->closes_pending)
		return;
	for (u32 num = 1; num <= vdev->nr_ctx; num++) {
		struct vnpu_fw_sqe sqe = { .type = VNPU_FW_SQE_CTX_CLOSE, .ctx = num };
		struct vnpu_ctx *ctx = vdev->ctxs[num];

		if (!ctx || !ctx->close_pending)
			continue;
		if (!vnpu_fw_send(vdev, &sqe))
			return;
		ctx->close_pending = false;
	}
	vdev->closes_pending = false;
}

/* ---- firmware to kernel; under vdev->lock ---- */

static int vnpu_fw_status_error(u32 status)
{
	switch (status) {
	case VNPU_FW_OK:
		return 0;
	case VNPU_FW_INVALID:
		return -EINVAL;
	case VNPU_FW_FAULT:
		return -EFAULT;
	case VNPU_FW_CANCELED:
		return -ECANCELED;
	default:
		return -EIO;
	}
}

static void vnpu_fw_done(struct vnpu_device *vdev, const struct vnpu_fw_cqe *cqe)
{
	int error = vnpu_fw_status_error(cqe->status);
	u32 slot = vnpu_tag_hwq(cqe->tag);
	enum vnpu_hwq_match match;
	struct vnpu_queue *queue;
	struct vnpu_fence *fence;
	struct vnpu_hwq *hwq;

	if (slot >= vdev->nr_queues)
		return;
	hwq = &vdev->hwqs[slot];
	match = vnpu_hwq_answer(hwq, cqe->tag);
	if (match == VNPU_HWQ_STALE)
		return;
	vdev->alive_at = jiffies;
	if (match != VNPU_HWQ_LIVE)
		return;
	vdev->nr_jobs++;
	if (!error)
		vdev->resets_in_a_row = 0;
	fence = vnpu_hwq_drop_first(hwq);
	queue = fence->queue;
	vnpu_stats_job_done(fence, cqe->busy_ns);
	vnpu_queue_new_head(queue);
	if (error == -EFAULT) {
		struct vnpu_ctx *ctx = queue->ctx;

		if (!(ctx->state & DRM_VNPU_CTX_FAULT)) {
			ctx->fault_va = cqe->fault_va;
			ctx->fault_flags = cqe->flags & VNPU_FW_CQE_FAULT_WRITE ? DRM_VNPU_FAULT_WRITE : 0;
		}
		trace_vnpu_fault(fence, cqe->fault_va, cqe->flags & VNPU_FW_CQE_FAULT_WRITE);
		vnpu_job_finish(fence, error, true);
		vnpu_ctx_ban(ctx, DRM_VNPU_CTX_FAULT, fence, error);
	} else {
		vnpu_job_finish(fence, error, true);
	}
	dma_fence_put(&fence->base);
}

/* The firmware owes nothing any more for the context; the reference goes to @put. */
static void vnpu_fw_ctx_closed(struct vnpu_device *vdev, struct vnpu_ctx *ctx, struct list_head *put)
{
	ctx->fw_owes = false;
	ctx->close_pending = false;
	vdev->alive_at = jiffies;
	for (u32 i = 0; i < vdev->nr_queues; i++)
		if (vdev->hwqs[i].ctx == ctx->num && !vdev->hwqs[i].queue)
			vnpu_hwq_forget(&vdev->hwqs[i]);
	list_add(&ctx->put_node, put);
}

static void vnpu_fw_take(struct vnpu_device *vdev, const struct vnpu_fw_cqe *cqe, struct list_head *put)
{
	struct vnpu_ctx *ctx;

	switch (cqe->type) {
	case VNPU_FW_CQE_DONE:
		vnpu_fw_done(vdev, cqe);
		break;
	case VNPU_FW_CQE_CTX_CLOSED:
		ctx = cqe->tag <= vdev->nr_ctx ? vdev->ctxs[cqe->tag] : NULL;
		if (ctx && ctx->fw_owes && !ctx->close_pending)
			vnpu_fw_ctx_closed(vdev, ctx, put);
		break;
	default:
		drm_dbg(&vdev->drm, "completion of unknown type %u\n", cqe->type);
	}
}

static void vnpu_fw_put_ctxs(struct list_head *put)
{
	struct vnpu_ctx *ctx, *next;

	list_for_each_entry_safe (ctx, next, put, put_node) {
		list_del_init(&ctx->put_node);
		vnpu_ctx_put(ctx);
	}
}

/*
 * Finish what the firmware has completed. Entries taken, or -EPROTO if its indices are nonsense, for which it will be
 * reset. With a session given, only if that is the device's.
 */
int vnpu_fw_drain(struct vnpu_device *vdev, struct vnpu_session *session)
{
	struct vnpu_fw_cqe cqe;
	LIST_HEAD(put);
	int pending, n, total = 0;
	bool cookie;

	do {
		cookie = dma_fence_begin_signalling();
		spin_lock(&vdev->lock);
		pending = 0;
		if (vdev->ready && (!session || vdev->session == session))
			pending = vnpu_ring_pending(&vdev->ring);
		if (pending < 0)
			vnpu_reset_request(vdev, DRM_VNPU_LOSS_PROTOCOL);
		for (n = 0; n < pending && n < VNPU_DRAIN_BATCH; n++) {
			vnpu_ring_pop(&vdev->ring, &cqe);
			vnpu_fw_take(vdev, &cqe, &put);
		}
		if (n) {
			vnpu_ring_commit(&vdev->ring);
			vnpu_fw_send_closes(vdev);
		}
		spin_unlock(&vdev->lock);
		dma_fence_end_signalling(cookie);
		total += n;
		vnpu_fw_put_ctxs(&put);
		cond_resched();
		/* A firmware that posts faster than this drains would keep us here: one ring's worth is enough. */
	} while (n < pending && total < vdev->ring.cq_entries);

	return pending < 0 ? pending : total;
}

/* The firmware is gone: nothing that it had is ever answered. */
static void vnpu_fw_lost(struct vnpu_device *vdev, enum drm_vnpu_loss cause, struct list_head *put)
{
	lockdep_assert_held(&vdev->lock);
	vdev->ready = false;
	vdev->epoch++;
	vnpu_reset_count(vdev, cause);
	WRITE_ONCE(vdev->ring.info->epoch, vdev->epoch);
	for (u32 num = 1; num <= vdev->nr_ctx; num++) {
		struct vnpu_ctx *ctx = vdev->ctxs[num];

		/* On its last reference: only its number is left. */
		if (!ctx || !kref_read(&ctx->ref))
			continue;
		vnpu_ctx_ban(ctx, DRM_VNPU_CTX_FW_LOST, NULL, 0);
		if (ctx->fw_owes)
			vnpu_fw_ctx_closed(vdev, ctx, put);
	}
	for (u32 i = 0; i < vdev->nr_queues; i++) {
		struct drm_vnpu_queue_status *status = vnpu_status_page(vdev, i);

		vnpu_hwq_forget(&vdev->hwqs[i]);
		if (!READ_ONCE(status->error))
			WRITE_ONCE(status->error, EIO);
		WRITE_ONCE(status->epoch, vdev->epoch);
	}
}

/* ---- sessions ---- */

struct vnpu_session *vnpu_session_get(struct vnpu_session *session)
{
	kref_get(&session->ref);
	return session;
}

static void vnpu_session_release(struct kref *ref)
{
	struct vnpu_session *session = container_of(ref, struct vnpu_session, ref);
	struct vnpu_device *vdev = session->vdev;

	put_pid(session->pid);
	kfree(session);
	drm_dev_put(&vdev->drm);
}

void vnpu_session_put(struct vnpu_session *session)
{
	kref_put(&session->ref, vnpu_session_release);
}

/*
 * The firmware's time is over, for whatever reason. Its mappings are taken away first, so that the kernel writes last.
 * True if that cost a device that was ready its state; then @dump, if given, has been taken just before.
 */
bool vnpu_fw_session_end(struct vnpu_session *session, enum drm_vnpu_loss cause, int error, struct vnpu_coredump *dump,
			 const char *reason)
{
	struct vnpu_device *vdev = session->vdev;
	bool cookie, lost = false;
	LIST_HEAD(put);

	down_write(&session->lock);
	session->dead = true;
	up_write(&session->lock);
	mutex_lock(&vdev->map_lock);
	if (vdev->aperture && vdev->aperture->private_data == session) {
		unmap_mapping_range(vdev->aperture->f_mapping, 0, 0, 1);
		vdev->aperture = NULL;
	}
	mutex_unlock(&vdev->map_lock);

	cookie = dma_fence_begin_signalling();
	spin_lock(&vdev->lock);
	if (!session->error)
		session->error = error;
	if (vdev->session == session) {
		lost = vdev->ready;
		if (lost && dump)
			vnpu_coredump_take(dump, vdev, reason);
		if (lost)
			vnpu_fw_lost(vdev, cause, &put);
		vdev->session = NULL;
	}
	spin_unlock(&vdev->lock);
	dma_fence_end_signalling(cookie);
	wake_up_all(&vdev->fw_wait);
	if (lost)
		vnpu_reset_unwatch(vdev);
	vnpu_fw_put_ctxs(&put);
	return lost;
}

static int vnpu_fw_ioctl_start(struct vnpu_session *session, struct vnpu_fw_start __user *user)
{
	struct vnpu_device *vdev = session->vdev;
	struct vnpu_fw_start args;
	int ret = 0;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	if (args.flags)
		return -EINVAL;
	/* Known since ADD_DEV; told before anything happens, which could not be taken back. */
	args.accel_minor = vdev->drm.accel->index;
	if (copy_to_user(user, &args, sizeof(args)))
		return -EFAULT;
	mutex_lock(&vnpu_ctl_lock);
	spin_lock(&vdev->lock);
	if (vdev->session != session)
		ret = session->error ?: -ENODEV;
	else if (vdev->ready)
		ret = -EBUSY;
	else
		vdev->ready = true;
	vdev->alive_at = jiffies;
	spin_unlock(&vdev->lock);
	if (!ret && !vdev->registered) {
		ret = vnpu_device_register(vdev);
		/* The driver core adds no device twice, so this one is of no use any more. */
		if (ret)
			vnpu_ctl_forget(vdev);
	}
	mutex_unlock(&vnpu_ctl_lock);
	return ret;
}

/* Sleep until there is something new in the submission ring, the session ends, a signal comes, or the time. */
static int vnpu_fw_wait(struct vnpu_session *session, u32 sq_seen, s64 timeout_ns)
{
	struct vnpu_device *vdev = session->vdev;
	ktime_t until = timeout_ns < 0 ? KTIME_MAX : ns_to_ktime(timeout_ns);
	bool timed_out = false;
	DEFINE_WAIT(wait);
	int ret = 0;

	for (;;) {
		prepare_to_wait(&vdev->fw_wait, &wait, TASK_INTERRUPTIBLE);
		if (READ_ONCE(vdev->ring.sq_tail) != sq_seen || READ_ONCE(session->error) || timed_out)
			break;
		if (signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		timed_out = !schedule_hrtimeout_range(&until, current->timer_slack_ns, HRTIMER_MODE_ABS);
	}
	finish_wait(&vdev->fw_wait, &wait);
	return ret ?: READ_ONCE(session->error);
}

static int vnpu_fw_ioctl_enter(struct vnpu_session *session, struct vnpu_fw_enter __user *user)
{
	struct vnpu_fw_enter args;
	int ret;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	if ((args.flags & ~(VNPU_FW_ENTER_COMPLETE | VNPU_FW_ENTER_WAIT)) || args.pad)
		return -EINVAL;
	if (READ_ONCE(session->error))
		return session->error;
	args.nr_completed = 0;
	if (args.flags & VNPU_FW_ENTER_COMPLETE) {
		ret = vnpu_fw_drain(session->vdev, session);
		if (ret < 0) {
			vnpu_reset_session(session, DRM_VNPU_LOSS_PROTOCOL);
			return ret;
		}
		args.nr_completed = ret;
		if (put_user(args.nr_completed, &user->nr_completed))
			return -EFAULT;
	} else if (put_user(0, &user->nr_completed)) {
		return -EFAULT;
	}
	return args.flags & VNPU_FW_ENTER_WAIT ? vnpu_fw_wait(session, args.sq_seen, args.timeout_ns) : 0;
}

static long vnpu_fw_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct vnpu_session *session = file->private_data;

	switch (cmd) {
	case VNPU_FW_START:
		return vnpu_fw_ioctl_start(session, (void __user *)arg);
	case VNPU_FW_ENTER:
		return vnpu_fw_ioctl_enter(session, (void __user *)arg);
	default:
		return -ENOTTY;
	}
}

static __poll_t vnpu_fw_poll(struct file *file, struct poll_table_struct *table)
{
	struct vnpu_session *session = file->private_data;
	struct vnpu_device *vdev = session->vdev;

	poll_wait(file, &vdev->fw_wait, table);
	if (READ_ONCE(session->error))
		return EPOLLHUP | EPOLLERR;
	return vnpu_ring_readable(&vdev->ring) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int vnpu_fw_release(struct inode *inode, struct file *file)
{
	struct vnpu_session *session = file->private_data;
	struct vnpu_device *vdev = session->vdev;

	/* What it has answered counts, even if it came to say no more. */
	vnpu_fw_drain(vdev, session);
	mutex_lock(&vnpu_ctl_lock);
	vnpu_fw_session_end(session, DRM_VNPU_LOSS_EXIT, -ENODEV, NULL, NULL);
	/* Nobody else has ever known of it. */
	if (!vdev->registered)
		vnpu_ctl_forget(vdev);
	mutex_unlock(&vnpu_ctl_lock);
	vnpu_session_put(session);
	return 0;
}

static const struct file_operations vnpu_fw_fops = {
	.owner = THIS_MODULE,
	.mmap = vnpu_fw_mmap,
	.unlocked_ioctl = vnpu_fw_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = vnpu_fw_poll,
	.release = vnpu_fw_release,
	.llseek = noop_llseek,
};

/* Make the caller the device's firmware; the new file has an inode of its own. Under vnpu_ctl_lock. */
struct file *vnpu_fw_session_create(struct vnpu_device *vdev)
{
	struct vnpu_session *session;
	struct file *file;
	int ret;

	lockdep_assert_held(&vnpu_ctl_lock);
	spin_lock(&vdev->lock);
	ret = vdev->session ? -EBUSY : vdev->wedged ? -EIO : 0;
	spin_unlock(&vdev->lock);
	if (ret)
		return ERR_PTR(ret);
	session = kzalloc(sizeof(*session), GFP_KERNEL_ACCOUNT);
	if (!session)
		return ERR_PTR(-ENOMEM);
	kref_init(&session->ref);
	session->vdev = vdev;
	init_rwsem(&session->lock);
	session->pid = get_pid(task_tgid(current));
	file = anon_inode_create_getfile("[vnpu-fw]", &vnpu_fw_fops, session, O_RDWR, NULL);
	if (IS_ERR(file)) {
		put_pid(session->pid);
		kfree(session);
		return file;
	}
	drm_dev_get(&vdev->drm);
	mutex_lock(&vdev->map_lock);
	vdev->aperture = file;
	mutex_unlock(&vdev->map_lock);
	spin_lock(&vdev->lock);
	vnpu_ring_reset(&vdev->ring);
	vdev->session = session;
	spin_unlock(&vdev->lock);
	return file;
}
