// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fence of a job.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "vnpu_fence.h"
#include "vnpu_queue.h"

/**
 * DOC: fences that a process signals
 *
 * A job of this driver is run by a user process, the firmware, so its fence is signalled when that process says so.
 * Documentation/driver-api/dma-buf.rst forbids fences that depend on user space, because memory management may wait for
 * a fence and user space may wait for memory. This driver keeps its fences finite all the same by treating the process
 * as hardware that may hang or lie:
 *
 * - The kernel alone decides when a fence signals. The firmware's entry in the completion ring is a hint that makes it
 *   happen earlier. Without one, the job's timeout ends it with -ETIMEDOUT (&vnpu_queue.watchdog), and the death of the
 *   process or a reset of the device with -EIO. A job's clock starts when the job is the oldest of its queue in the ring.
 *   What the process says about its progress holds the clock, but not for ever: there is a bound that no progress moves,
 *   and a queue has a bounded number of jobs in the ring.
 * - Nothing on the way to the signal waits for the firmware, faults on its memory, or allocates: rings are kernel memory
 *   that is mapped into the process, not the other way round; the fence and all that its publication needs are allocated
 *   in the ioctl; the sections that signal are marked with dma_fence_begin_signalling().
 * - Memory management never waits for these fences: buffers are pinned while they are bound, there is no shrinker and no
 *   MMU notifier, and unbinding does not wait for jobs (a job that still touches the memory faults).
 * - Others can only come to wait by an explicit act: a syncobj or sync_file handed over, or a buffer exported, which a
 *   module parameter has to allow.
 *
 * What users see is this fence, not drm_sched's: its names are constants and its module is held, so that a sync_file may
 * outlive queue, client and device. drm_sched resolves dependencies and limits what is in the ring.
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
	/* The module's exit waits for a grace period, so this function outlives its last reference to the module. */
	rcu_read_lock();
	module_put(THIS_MODULE);
	dma_fence_free(base);
	rcu_read_unlock();
}

static const struct dma_fence_ops vnpu_fence_ops = {
	.get_driver_name = vnpu_fence_driver_name,
	.get_timeline_name = vnpu_fence_timeline_name,
	.release = vnpu_fence_release,
};

/* A fence that is not yet one: vnpu_fence_init() or vnpu_fence_free() comes next. */
struct vnpu_fence *vnpu_fence_alloc(void)
{
	return kzalloc(sizeof(struct vnpu_fence), GFP_KERNEL);
}

void vnpu_fence_init(struct vnpu_fence *fence, struct vnpu_queue *queue, u64 seqno)
{
	static_assert(offsetof(struct vnpu_fence, base) == 0);

	__module_get(THIS_MODULE);
	fence->queue = queue;
	spin_lock_init(&fence->lock);
	dma_fence_init(&fence->base, &vnpu_fence_ops, &fence->lock, queue->fence_context, seqno);
}

void vnpu_fence_free(struct vnpu_fence *fence)
{
	kfree(fence);
}
