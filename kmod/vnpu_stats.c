// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device time: how much of it each client has had, and fdinfo.
 *
 * The firmware says how long it worked on a job, and is not trusted. But the device does one job at a time, so all jobs
 * together cannot have had more time than has passed: what is charged is laid end to end, and vdev->busy_until is where
 * the last of it ends. A job is charged behind that and behind its own entry into the ring, up to now. An honest firmware
 * is never cut short by this, since its jobs do come one after another; a lying one can only move time between clients.
 *
 * A job that runs when somebody looks is charged for what has passed so far, there and then. Counters only grow, and
 * readers see a long job's load while it runs.
 */
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <drm/drm_file.h>
#include <drm/drm_print.h>

#include "vnpu_ctx.h"
#include "vnpu_drv.h"
#include "vnpu_fence.h"
#include "vnpu_queue.h"
#include "vnpu_stats.h"

/* Charge at most @ns; a job that is in the ring has a queue whose file is open. */
static void vnpu_stats_charge(struct vnpu_fence *fence, u64 ns, u64 now)
{
	struct vnpu_queue *queue = fence->queue;
	struct vnpu_device *vdev = queue->ctx->vdev;
	u64 from = max(vdev->busy_until, fence->started_ns);

	lockdep_assert_held(&vdev->lock);
	if (from >= now || !ns)
		return;
	ns = min(ns, now - from);
	vdev->busy_until = from + ns;
	vdev->busy_ns += ns;
	queue->vfile->busy_ns += ns;
	fence->busy_ns += ns;
}

/* The firmware has ended the job, after so much work. */
void vnpu_stats_job_done(struct vnpu_fence *fence, u64 busy_ns)
{
	if (busy_ns > fence->busy_ns)
		vnpu_stats_charge(fence, busy_ns - fence->busy_ns, ktime_get_ns());
}

/* If the job is the one that the device says it works on, it has had the time until now. */
void vnpu_stats_job_so_far(struct vnpu_fence *fence)
{
	struct vnpu_queue *queue = fence->queue;
	struct drm_vnpu_queue_status *status = vnpu_status_page(queue->ctx->vdev, queue->hwq);
	u64 seqno = fence->base.seqno;

	if (fence->started_ns && READ_ONCE(status->started_seqno) == seqno &&
	    READ_ONCE(status->completed_seqno) < seqno)
		vnpu_stats_charge(fence, U64_MAX, ktime_get_ns());
}

/* Charge what runs. Under vdev->lock. */
static void vnpu_stats_catch_up(struct vnpu_device *vdev)
{
	for (u32 i = 0; i < vdev->nr_queues; i++) {
		struct vnpu_fence *fence = vnpu_hwq_first(&vdev->hwqs[i]);

		if (fence)
			vnpu_stats_job_so_far(fence);
	}
}

u64 vnpu_stats_busy_ns(struct vnpu_device *vdev)
{
	u64 busy_ns;

	spin_lock(&vdev->lock);
	vnpu_stats_catch_up(vdev);
	busy_ns = vdev->busy_ns;
	spin_unlock(&vdev->lock);
	return busy_ns;
}

static unsigned int vnpu_stats_count(struct xarray *xa)
{
	unsigned int nr = 0;
	unsigned long id;
	void *entry;

	xa_for_each (xa, id, entry)
		nr++;
	return nr;
}

/* See Documentation/gpu/drm-usage-stats.rst. */
void vnpu_show_fdinfo(struct drm_printer *p, struct drm_file *file)
{
	struct vnpu_file *vfile = to_vnpu_file(file);
	struct vnpu_device *vdev = vfile->vdev;
	u64 busy_ns;

	spin_lock(&vdev->lock);
	vnpu_stats_catch_up(vdev);
	busy_ns = vfile->busy_ns;
	spin_unlock(&vdev->lock);
	drm_printf(p, "drm-engine-npu:\t%llu ns\n", busy_ns);
	drm_printf(p, "drm-engine-capacity-npu:\t1\n");
	drm_show_memory_stats(p, file);
	drm_printf(p, "vnpu-contexts:\t%u\n", vnpu_stats_count(&vfile->ctxs));
	drm_printf(p, "vnpu-queues:\t%u\n", vnpu_stats_count(&vfile->queues));
}
