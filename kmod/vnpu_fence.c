// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fence of a job.
 */

#include "vnpu_queue.h"

/**
 * DOC: fences that a process signals
 *
 * A user process, the firmware, runs the jobs of this driver. Documentation/driver-api/dma-buf.rst
 * forbids fences that depend on user space, because memory management may wait for a fence while
 * user space waits for memory. Most jobs therefore have no fence: WAIT and the queue's status page
 * report their end by number. Only a job that signals a syncobj has a fence. The driver bounds its
 * lifetime by treating the process as hardware that may hang or lie:
 *
 * - The kernel alone decides when a fence signals. The firmware's completion entry only makes it
 *   signal earlier. Without one, the fence signals with an error at most %VNPU_FENCE_MS after
 *   SUBMIT, whatever the job waits for, whatever is ahead of it in its queue or in the device,
 *   whatever progress the process reports, and even while user space is frozen for a suspend. The
 *   death of the process or a reset of the device signal it at once.
 * - Nothing on the way to the signal waits for the firmware, faults on its memory, or allocates:
 *   rings are kernel memory mapped into the process; the fence and everything needed to publish it
 *   are allocated in the ioctl; the timer is a work item on a workqueue with a rescuer; the
 *   sections that signal are marked with dma_fence_begin_signalling().
 * - Memory management never waits for these fences: buffers are pinned while they are bound, no
 *   reservation object holds such a fence, there is no shrinker and no MMU notifier, and unbinding
 *   does not wait for jobs (a job that still accesses the memory faults).
 *
 * A waiter for a syncobj of this device that a job signals waits for the process at most
 * %VNPU_FENCE_MS. Another driver can wait only through a sync_file or a shared syncobj, which the
 * module parameter fence_export must allow. An exported buffer (module parameter prime_export)
 * carries no fence. WAIT sleeps interruptibly, with the caller's timeout.
 *
 * The fence's names are constants and it holds the module, so that a sync_file may outlive queue,
 * client and device.
 */

static const char *vnpu_fence_driver_name(struct dma_fence *fence)
{
	return "vnpu";
}

static const char *vnpu_fence_timeline_name(struct dma_fence *fence)
{
	return "queue";
}

static void vnpu_fence_release(struct dma_fence *base)
{
	/* Module exit waits for a grace period: this may run after the fence's last reference. */
	guard(rcu)();
	module_put(THIS_MODULE);
	dma_fence_free(base);
}

static const struct dma_fence_ops vnpu_fence_ops = {
	.get_driver_name = vnpu_fence_driver_name,
	.get_timeline_name = vnpu_fence_timeline_name,
	.release = vnpu_fence_release,
};

/* Allocate a fence; call vnpu_fence_init() or kfree() next. */
struct vnpu_fence *vnpu_fence_alloc(void)
{
	static_assert(offsetof(struct vnpu_fence, base) == 0);

	return kzalloc(sizeof(struct vnpu_fence), GFP_KERNEL_ACCOUNT);
}

void vnpu_fence_init(struct vnpu_fence *fence, u64 context, u64 seqno)
{
	__module_get(THIS_MODULE);
	INIT_LIST_HEAD(&fence->node);
	spin_lock_init(&fence->lock);
	dma_fence_init(&fence->base, &vnpu_fence_ops, &fence->lock, context, seqno);
}

/* Signal the fence, remove it from its queue's list and drop the job's reference. */
void vnpu_fence_end(struct vnpu_fence *fence, int error)
{
	list_del_init(&fence->node);
	if (error)
		dma_fence_set_error(&fence->base, error);
	dma_fence_signal(&fence->base);
	dma_fence_put(&fence->base);
}
