// SPDX-License-Identifier: GPL-2.0-only
/* The firmware's fd: rings, mappings and sessions; completions, and the loss of the firmware. */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/hrtimer.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>

#include "vnpu_fw.h"
#include "vnpu_queue.h"
#include "vnpu_trace.h"

/* ---- the rings' memory ---- */

int vnpu_fw_alloc(struct vnpu_device *vdev)
{
	/*
	 * Room for each job, its CANCEL, and each context's CTX_CLOSE. Each is answered once. A job
	 * may be answered before its CANCEL is read, and its place be taken by another one.
	 */
	u32 entries = roundup_pow_of_two(3 * vdev->nr_queues * vdev->queue_depth + vdev->nr_ctx);
	u64 sq = PAGE_SIZE, ctl, cq, status;
	struct vnpu_fw_info *info;

	ctl = sq + PAGE_ALIGN((u64)entries * sizeof(struct vnpu_fw_sqe));
	cq = ctl + PAGE_SIZE;
	status = cq + PAGE_ALIGN((u64)entries * sizeof(struct vnpu_fw_cqe));
	vdev->shared_writable = ctl;
	vdev->shared_size = status + (u64)vdev->nr_queues * PAGE_SIZE;
	vdev->shared = vmalloc_user(vdev->shared_size);
	if (!vdev->shared)
		return -ENOMEM;
	vdev->status = vdev->shared + status;
	info = vdev->shared;
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
		.ctl_offset = ctl,
		.sq_offset = sq,
		.cq_offset = cq,
		.status_offset = status,
		.abi_features = VNPU_FW_FEATURES,
	};
	vdev->ring = (struct vnpu_ring){
		.info = info,
		.ctl = vdev->shared + ctl,
		.sq = vdev->shared + sq,
		.cq = vdev->shared + cq,
		.sq_entries = entries,
		.cq_entries = entries,
	};
	return 0;
}

/* ---- mappings ---- */

/*
 * Between the two, fault handlers insert pages and mmap() finds contexts; vnpu_fw_session_end()
 * waits for them, then zaps the pages.
 */
bool vnpu_fw_fault_begin(struct file *file)
{
	struct vnpu_session *session = file->private_data;

	down_read(&session->lock);
	if (!READ_ONCE(session->error))
		return true;
	up_read(&session->lock);
	return false;
}

void vnpu_fw_fault_end(struct file *file)
{
	struct vnpu_session *session = file->private_data;

	up_read(&session->lock);
}

/* Unmap pages of a context from the firmware. On return none of its threads can access them. */
void vnpu_fw_zap(struct vnpu_device *vdev, u32 ctx, u64 va, u64 size)
{
	guard(mutex)(&vdev->map_lock);
	if (vdev->aperture)
		unmap_mapping_range(vdev->aperture->f_mapping, ((u64)ctx << vdev->va_bits) + va,
				    size, 1);
}

static vm_fault_t vnpu_shared_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct vnpu_device *vdev = vma->vm_private_data;
	vm_fault_t ret;

	if (!vnpu_fw_fault_begin(vma->vm_file))
		return VM_FAULT_SIGBUS;
	ret = vmf_insert_pfn(vma, vmf->address,
			     vmalloc_to_pfn(vdev->shared + ((u64)vmf->pgoff << PAGE_SHIFT)));
	vnpu_fw_fault_end(vma->vm_file);
	return ret;
}

static const struct vm_operations_struct vnpu_shared_vm_ops = {
	.fault = vnpu_shared_fault,
};

static int vnpu_fw_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct vnpu_session *session = file->private_data;
	struct vnpu_device *vdev = session->vdev;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	bool writable = offset >= vdev->shared_writable;

	if (!(vma->vm_flags & VM_SHARED) || (vma->vm_flags & VM_EXEC))
		return -EINVAL;
	if (vma->vm_pgoff >> (vdev->va_bits - PAGE_SHIFT))
		return vnpu_vm_mmap(vdev, vma);
	if (offset + (vma->vm_end - vma->vm_start) > vdev->shared_size)
		return -EINVAL;
	if (!writable && (vma->vm_flags & VM_WRITE))
		return -EACCES;
	vm_flags_mod(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY,
		     VM_MAYEXEC | (writable ? 0 : VM_MAYWRITE));
	vma->vm_private_data = vdev;
	vma->vm_ops = &vnpu_shared_vm_ops;
	return 0;
}

/* ---- kernel to firmware; under vdev->lock ---- */

/*
 * False if there is no firmware, or if it is about to be reset: the ring has room for everything
 * that can be in flight, so a full ring means that the firmware's indices are invalid.
 */
bool vnpu_fw_send(struct vnpu_device *vdev, const struct vnpu_fw_sqe *sqe)
{
	lockdep_assert_held(&vdev->lock);
	if (!vdev->ready)
		return false;
	if (!vnpu_ring_push(&vdev->ring, sqe)) {
		vnpu_reset_request(vdev, DRM_VNPU_LOSS_PROTOCOL);
		return false;
	}
	/* Pairs with the barrier in prepare_to_wait(): either side sees the other's store. */
	if (wq_has_sleeper(&vdev->fw_wait))
		wake_up_interruptible(&vdev->fw_wait);
	return true;
}

/* ---- firmware to kernel; under vdev->lock ---- */

static int vnpu_fw_status_error(u32 status)
{
	static const int errors[] = {
		[VNPU_FW_OK] = 0,	   [VNPU_FW_INVALID] = -EINVAL,
		[VNPU_FW_FAULT] = -EFAULT, [VNPU_FW_CANCELED] = -ECANCELED,
		[VNPU_FW_FAILED] = -EIO,
	};

	if (status >= ARRAY_SIZE(errors))
		return -EIO;
	return errors[array_index_nospec(status, ARRAY_SIZE(errors))];
}

/* The queue's oldest job made an invalid access; the caller ends it with -EFAULT. */
static void vnpu_fw_fault(struct vnpu_queue *queue, const struct vnpu_fw_cqe *cqe)
{
	bool write = cqe->flags & VNPU_FW_CQE_FAULT_WRITE;
	struct vnpu_ctx *ctx = queue->ctx;

	if (!(ctx->state & DRM_VNPU_CTX_FAULT)) {
		ctx->fault_va = cqe->fault_va;
		ctx->fault_flags = write ? DRM_VNPU_FAULT_WRITE : 0;
	}
	trace_vnpu_fault(queue, vnpu_queue_job(queue, queue->done_seqno + 1), cqe->fault_va, write);
	vnpu_ctx_ban(ctx, DRM_VNPU_CTX_FAULT, queue);
}

static void vnpu_fw_done(struct vnpu_device *vdev, const struct vnpu_fw_cqe *cqe)
{
	int error = vnpu_fw_status_error(cqe->status);
	u32 slot = vnpu_tag_hwq(cqe->tag);
	enum vnpu_hwq_match match;
	struct vnpu_queue *queue;
	struct vnpu_hwq *hwq;

	if (slot >= vdev->nr_queues)
		return;
	hwq = &vdev->hwqs[array_index_nospec(slot, vdev->nr_queues)];
	match = vnpu_hwq_answer(hwq, cqe->tag);
	if (match == VNPU_HWQ_STALE)
		return;
	vdev->alive_at = jiffies;
	hwq->owed_since = jiffies;
	queue = hwq->queue;
	if (match == VNPU_HWQ_GIVEN_UP) {
		if (queue)
			vnpu_job_advance(queue);
		return;
	}
	vdev->nr_jobs++;
	vnpu_stats_job_done(queue, vnpu_queue_job(queue, queue->done_seqno + 1), cqe->busy_ns);
	if (error == -EFAULT)
		vnpu_fw_fault(queue, cqe);
	vnpu_job_end(queue, error, true);
	vnpu_watchdog_new_head(queue);
	vnpu_job_advance(queue);
}

/* The firmware has closed the context. The reference of @fw_owes goes to @put. */
static void vnpu_fw_ctx_closed(struct vnpu_device *vdev, struct vnpu_ctx *ctx,
			       struct list_head *put)
{
	ctx->fw_owes = false;
	ctx->fw_closed = true;
	vdev->alive_at = jiffies;
	/* Also of queues that are still being killed: vnpu_job_give_up() goes on forgetting. */
	for (u32 i = 0; i < vdev->nr_queues; i++)
		if (vdev->hwqs[i].ctx == ctx->num)
			vnpu_hwq_forget(&vdev->hwqs[i]);
	list_add(&ctx->put_node, put);
}

static void vnpu_fw_take(struct vnpu_device *vdev, const struct vnpu_fw_cqe *cqe,
			 struct list_head *put)
{
	struct vnpu_ctx *ctx;

	if (vnpu_cqe_well_formed(cqe) && cqe->type == VNPU_FW_CQE_DONE) {
		vnpu_fw_done(vdev, cqe);
	} else if (vnpu_cqe_well_formed(cqe) && cqe->type == VNPU_FW_CQE_CTX_CLOSED) {
		if (cqe->tag > vdev->nr_ctx)
			return;
		ctx = vdev->ctxs[array_index_nospec(cqe->tag, vdev->nr_ctx + 1)];
		if (ctx && ctx->fw_owes)
			vnpu_fw_ctx_closed(vdev, ctx, put);
	} else {
		drm_dbg(&vdev->drm, "malformed completion of type %u\n", cqe->type);
	}
}

static void vnpu_fw_put_ctxs(struct list_head *put)
{
	struct vnpu_ctx *ctx, *next;

	list_for_each_entry_safe(ctx, next, put, put_node) {
		list_del_init(&ctx->put_node);
		vnpu_ctx_put(ctx);
	}
}

/*
 * Process up to VNPU_BATCH completions. Returns their number, or -EPROTO if the firmware's indices
 * are invalid, and then requests a reset. If @session is given, only if it is the current one.
 */
int vnpu_fw_drain_batch(struct vnpu_device *vdev, struct vnpu_session *session)
{
	struct vnpu_fw_cqe cqe;
	LIST_HEAD(put);
	int n = 0;

	scoped_guard(vnpu_signalling, vdev) {
		if (vdev->ready && (!session || vdev->session == session))
			n = vnpu_ring_pending(&vdev->ring);
		if (n < 0)
			vnpu_reset_request(vdev, DRM_VNPU_LOSS_PROTOCOL);
		n = min(n, VNPU_BATCH);
		for (int i = 0; i < n; i++) {
			vnpu_ring_pop(&vdev->ring, &cqe);
			vnpu_fw_take(vdev, &cqe, &put);
		}
		if (n > 0)
			vnpu_ring_commit(&vdev->ring);
	}
	vnpu_fw_put_ctxs(&put);
	cond_resched();
	return n;
}

/* Process all completions, but at most one ring's worth if the firmware keeps posting. */
int vnpu_fw_drain(struct vnpu_device *vdev, struct vnpu_session *session)
{
	int n, total = 0;

	do {
		n = vnpu_fw_drain_batch(vdev, session);
		total += n;
	} while (n == VNPU_BATCH && total < vdev->ring.cq_entries);
	return n < 0 ? n : total;
}

/* After the loss of the firmware: nothing will be answered for the context, and its jobs fail. */
static void vnpu_fw_lost_ctx(struct vnpu_device *vdev, u32 num)
{
	struct vnpu_ctx *ctx;
	LIST_HEAD(put);

	scoped_guard(spinlock, &vdev->lock) {
		ctx = vdev->ctxs[num];
		/* If the last reference is being dropped, there are no jobs any more. */
		if (!ctx || !kref_get_unless_zero(&ctx->ref))
			return;
		WRITE_ONCE(ctx->state, ctx->state | DRM_VNPU_CTX_FW_LOST);
		if (ctx->fw_owes)
			vnpu_fw_ctx_closed(vdev, ctx, &put);
	}
	vnpu_ctx_fail(ctx);
	vnpu_fw_put_ctxs(&put);
	vnpu_ctx_put(ctx);
}

/* The device as a whole has lost its firmware. No other can attach until this returns. */
static void vnpu_fw_lost(struct vnpu_device *vdev, enum drm_vnpu_loss cause)
{
	struct drm_vnpu_queue_status *status;

	scoped_guard(spinlock, &vdev->lock) {
		WRITE_ONCE(vdev->epoch, vdev->epoch + 1);
		WRITE_ONCE(vdev->ring.info->epoch, vdev->epoch);
		vnpu_reset_count(vdev, cause);
	}
	for (u32 num = 1; num <= vdev->nr_ctx; num++)
		vnpu_fw_lost_ctx(vdev, num);
	for (u32 i = 0; i < vdev->nr_queues; i++) {
		guard(spinlock)(&vdev->lock);
		vnpu_hwq_forget(&vdev->hwqs[i]);
		status = vnpu_status_page(vdev, i);
		if (!READ_ONCE(status->error))
			WRITE_ONCE(status->error, EIO);
		WRITE_ONCE(status->epoch, vdev->epoch);
	}
}

/* ---- sessions ---- */

/* The device's session with a reference, or NULL. */
struct vnpu_session *vnpu_session_get(struct vnpu_device *vdev)
{
	guard(spinlock)(&vdev->lock);
	if (vdev->session)
		kref_get(&vdev->session->ref);
	return vdev->session;
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
 * End the session for any reason. First tells the firmware, then revokes its mappings so that only
 * the kernel writes after that. Returns true if a ready device lost its state; with a @reason it is
 * dumped before. Only the first call has an effect; others wait for it.
 */
bool vnpu_fw_session_end(struct vnpu_session *session, enum drm_vnpu_loss cause, int error,
			 const char *reason)
{
	struct vnpu_device *vdev = session->vdev;
	bool lost;

	guard(mutex)(&session->end_lock);
	scoped_guard(spinlock, &vdev->lock) {
		if (session->error)
			return false;
		/* Release: a firmware that finds its pages gone also finds the session over. */
		smp_store_release(&vdev->ring.info->over, 1);
		WRITE_ONCE(session->error, error);
		lost = vdev->ready;
		vdev->ready = false;
	}
	wake_up_all(&vdev->fw_wait);

	/* Earlier faults have inserted their pages after this, and later ones see the error. */
	down_write(&session->lock);
	up_write(&session->lock);
	scoped_guard(mutex, &vdev->map_lock) {
		unmap_mapping_range(vdev->aperture->f_mapping, 0, 0, 1);
		vdev->aperture = NULL;
	}
	if (lost) {
		if (reason)
			vnpu_dump_reset(vdev, reason);
		vnpu_fw_lost(vdev, cause);
		vnpu_reset_unwatch(vdev);
	}
	scoped_guard(spinlock, &vdev->lock)
		vdev->session = NULL;
	return lost;
}

static int vnpu_fw_ioctl_start(struct vnpu_session *session, struct vnpu_fw_start __user *user)
{
	struct vnpu_device *vdev = session->vdev;
	struct vnpu_fw_start args;
	int ret;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	if (args.flags)
		return -EINVAL;
	/* Known since ADD_DEV. Copied first, because START cannot be undone if the copy fails. */
	args.accel_minor = vdev->drm.accel->index;
	if (copy_to_user(user, &args, sizeof(args)))
		return -EFAULT;
	guard(mutex)(&vnpu_ctl_lock);
	scoped_guard(spinlock, &vdev->lock) {
		if (session->error)
			return session->error;
		if (vdev->ready)
			return -EBUSY;
		vdev->ready = true;
		vdev->alive_at = jiffies;
	}
	if (vdev->registered)
		return 0;
	ret = vnpu_device_register(vdev);
	/* The driver core does not add a device twice, so this one is of no use any more. */
	if (ret)
		vnpu_ctl_forget(vdev);
	return ret;
}

/* Sleep until the ring has new entries, the session ends, a signal arrives or time is up. */
static int vnpu_fw_wait(struct vnpu_session *session, u32 sq_seen, s64 timeout_ns)
{
	struct vnpu_device *vdev = session->vdev;
	ktime_t until = timeout_ns < 0 ? KTIME_MAX : ns_to_ktime(timeout_ns);
	bool timed_out = false;
	DEFINE_WAIT(wait);
	int ret = 0;

	while (!timed_out && !ret) {
		prepare_to_wait(&vdev->fw_wait, &wait, TASK_INTERRUPTIBLE);
		if (READ_ONCE(vdev->ring.sq_tail) != sq_seen || READ_ONCE(session->error))
			break;
		if (signal_pending(current))
			ret = -EINTR;
		else
			timed_out = !schedule_hrtimeout_range(&until, current->timer_slack_ns,
							      HRTIMER_MODE_ABS);
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
	ret = READ_ONCE(session->error);
	if (ret)
		return ret;
	if (args.flags & VNPU_FW_ENTER_COMPLETE)
		ret = vnpu_fw_drain(session->vdev, session);
	if (ret < 0) {
		vnpu_reset_session(session, DRM_VNPU_LOSS_PROTOCOL);
		return ret;
	}
	if (put_user(ret, &user->nr_completed))
		return -EFAULT;
	if (args.flags & VNPU_FW_ENTER_WAIT)
		return vnpu_fw_wait(session, args.sq_seen, args.timeout_ns);
	return 0;
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

	/* Completions posted before the fd was closed still count. */
	vnpu_fw_drain(vdev, session);
	scoped_guard(mutex, &vnpu_ctl_lock) {
		vnpu_fw_session_end(session, DRM_VNPU_LOSS_EXIT, -ENODEV, NULL);
		/* Never started, so nobody else knows the device. */
		if (!vdev->registered)
			vnpu_ctl_forget(vdev);
	}
	vnpu_session_put(session);
	return 0;
}

static const struct file_operations vnpu_fw_fops = {
	.owner = THIS_MODULE,
	.mmap = vnpu_fw_mmap,
	.get_unmapped_area = thp_get_unmapped_area,
	.unlocked_ioctl = vnpu_fw_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = vnpu_fw_poll,
	.release = vnpu_fw_release,
	.llseek = noop_llseek,
};

/* Make the caller the device's firmware, with an inode of its own. Called under vnpu_ctl_lock. */
struct file *vnpu_fw_session_create(struct vnpu_device *vdev)
{
	struct vnpu_session *session;
	struct file *file;

	lockdep_assert_held(&vnpu_ctl_lock);
	scoped_guard(spinlock, &vdev->lock) {
		if (vdev->session)
			return ERR_PTR(-EBUSY);
		if (vdev->wedged)
			return ERR_PTR(-EIO);
	}
	session = kzalloc(sizeof(*session), GFP_KERNEL_ACCOUNT);
	if (!session)
		return ERR_PTR(-ENOMEM);
	kref_init(&session->ref);
	session->vdev = vdev;
	init_rwsem(&session->lock);
	mutex_init(&session->end_lock);
	session->pid = get_pid(task_tgid(current));
	file = anon_inode_create_getfile("[vnpu-fw]", &vnpu_fw_fops, session, O_RDWR, NULL);
	if (IS_ERR(file)) {
		put_pid(session->pid);
		kfree(session);
		return file;
	}
	drm_dev_get(&vdev->drm);
	scoped_guard(mutex, &vdev->map_lock)
		vdev->aperture = file;
	guard(spinlock)(&vdev->lock);
	vnpu_ring_reset(&vdev->ring);
	vdev->session = session;
	return file;
}
