// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a device looked like when it was reset, as a device coredump: /sys/class/devcoredump/devcdN/data.
 *
 * The kernel keeps one dump per device, the first, until somebody has read it (writing to data drops it) or five minutes
 * have passed. The text is written where nothing may sleep, so the memory is there before.
 */
#include <linux/devcoredump.h>
#include <linux/dma-fence.h>
#include <linux/pid.h>
#include <linux/sprintf.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>
#include <drm/drm_drv.h>

#include "vnpu_ctx.h"
#include "vnpu_drv.h"
#include "vnpu_fence.h"
#include "vnpu_fw.h"
#include "vnpu_queue.h"
#include "vnpu_reset.h"

#define VNPU_DUMP_HEAD 1024
#define VNPU_DUMP_LINE 256

/* Without memory there is a reset without a dump. */
void vnpu_coredump_alloc(struct vnpu_coredump *dump, const struct vnpu_device *vdev)
{
	*dump = (struct vnpu_coredump){ .size = VNPU_DUMP_HEAD + VNPU_DUMP_LINE * (vdev->nr_ctx + vdev->nr_queues) };
	dump->text = vmalloc(dump->size);
}

__printf(2, 3) static void vnpu_coredump_add(struct vnpu_coredump *dump, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	dump->len += vscnprintf(dump->text + dump->len, dump->size - dump->len, fmt, args);
	va_end(args);
}

static void vnpu_coredump_device(struct vnpu_coredump *dump, struct vnpu_device *vdev, const char *reason)
{
	const struct vnpu_ring *ring = &vdev->ring;

	vnpu_coredump_add(dump, "reason: %s\n", reason);
	vnpu_coredump_add(dump, "time: %lld s\n", ktime_get_real_seconds());
	vnpu_coredump_add(dump, "device: %u \"%.32s\", isa %u.%u, features %#llx\n", vdev->id, vdev->name,
			  vdev->isa_version >> 16, vdev->isa_version & 0xffff, vdev->features);
	vnpu_coredump_add(dump, "firmware: pid %d\n", pid_nr(vdev->session->pid));
	vnpu_coredump_add(dump, "epoch: %u, resets before: %u\n", vdev->epoch, vdev->nr_resets);
	vnpu_coredump_add(dump, "jobs: %llu, busy: %llu ns, last sign of life: %u ms ago\n", vdev->nr_jobs,
			  vdev->busy_ns, jiffies_to_msecs(jiffies - vdev->alive_at));
	vnpu_coredump_add(dump, "submissions: tail %u, head %u of %u; completions: tail %u, head %u of %u\n",
			  ring->sq_tail, READ_ONCE(ring->ctl->sq_head), ring->sq_entries, READ_ONCE(ring->ctl->cq_tail),
			  ring->cq_head, ring->cq_entries);
}

static void vnpu_coredump_ctx(struct vnpu_coredump *dump, const struct vnpu_ctx *ctx)
{
	vnpu_coredump_add(dump, "context %u: epoch %u, state %#x", ctx->num, ctx->epoch, ctx->state);
	if (ctx->state & DRM_VNPU_CTX_FAULT)
		vnpu_coredump_add(dump, ", fault at %#llx", ctx->fault_va);
	if (ctx->fw_owes)
		vnpu_coredump_add(dump, ", closed %u ms ago%s", jiffies_to_msecs(jiffies - ctx->owed_since),
				  ctx->close_pending ? ", no room to say so" : "");
	vnpu_coredump_add(dump, "\n");
}

/* Queues that have something in the device. */
static void vnpu_coredump_hwq(struct vnpu_coredump *dump, struct vnpu_device *vdev, u32 i)
{
	const struct drm_vnpu_queue_status *status = vnpu_status_page(vdev, i);
	const struct vnpu_hwq *hwq = &vdev->hwqs[i];
	const struct vnpu_fence *head = vnpu_hwq_first(hwq);

	if (vnpu_hwq_answered(hwq))
		return;
	vnpu_coredump_add(dump, "queue %u: context %u, jobs %u..%u, given up before %u", i, hwq->ctx, hwq->acked,
			  hwq->tail - 1, hwq->head);
	if (hwq->acked != hwq->head)
		vnpu_coredump_add(dump, ", %u ms ago", jiffies_to_msecs(jiffies - hwq->owed_since));
	if (head)
		vnpu_coredump_add(dump, ", seqno %llu first for %u ms", head->base.seqno,
				  jiffies_to_msecs(jiffies - head->queue->head_since));
	vnpu_coredump_add(dump, ", completed %llu, started %llu, progress %llu\n", READ_ONCE(status->completed_seqno),
			  READ_ONCE(status->started_seqno), READ_ONCE(status->progress));
}

/* Under vdev->lock, while the session is still the device's. */
void vnpu_coredump_take(struct vnpu_coredump *dump, struct vnpu_device *vdev, const char *reason)
{
	lockdep_assert_held(&vdev->lock);
	if (!dump->text)
		return;
	vnpu_coredump_device(dump, vdev, reason);
	for (u32 num = 1; num <= vdev->nr_ctx; num++)
		if (vdev->ctxs[num])
			vnpu_coredump_ctx(dump, vdev->ctxs[num]);
	for (u32 i = 0; i < vdev->nr_queues; i++)
		vnpu_coredump_hwq(dump, vdev, i);
}

/* Hand the text over, or free it if there is none. A device that is being deleted has nothing to link it to. */
void vnpu_coredump_publish(struct vnpu_coredump *dump, struct vnpu_device *vdev)
{
	int idx;

	if (dump->len && drm_dev_enter(&vdev->drm, &idx)) {
		dev_coredumpv(vdev->parent, dump->text, dump->len, GFP_KERNEL);
		drm_dev_exit(idx);
	} else {
		vfree(dump->text);
	}
}
