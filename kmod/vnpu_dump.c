// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's tables as text: in debugfs (/sys/kernel/debug/accel/DEVICE/), and in a device
 * coredump at each reset (/sys/class/devcoredump/devcdN/data).
 *
 * Dumping takes no references, so that it never drops the last one; it reads each entry under the
 * lock that protects it.
 */
#include <linux/debugfs.h>
#include <linux/devcoredump.h>
#include <linux/seq_file.h>
#include <drm/drm_debugfs.h>

#include "vnpu_fw.h"
#include "vnpu_queue.h"

/* state: DRM_VNPU_CTX_*; closing: the firmware has not answered CTX_CLOSE yet. */
static void vnpu_dump_contexts(struct drm_printer *p, struct vnpu_device *vdev)
{
	drm_puts(p, " num client  ctx     pid comm            ");
	drm_puts(p, "epoch queues state       fault_va closing\n");
	for (u32 num = 1; num <= vdev->nr_ctx; num++) {
		guard(spinlock)(&vdev->lock);
		struct vnpu_ctx *ctx = vdev->ctxs[num];

		if (!ctx)
			continue;
		drm_printf(p, "%4u %6llu %4u %7d %-15s ", num, ctx->client_id, ctx->id, ctx->pid,
			   ctx->comm);
		drm_printf(p, "%5u %6zu %#5x %#14llx %6s\n", ctx->epoch,
			   list_count_nodes(&ctx->queues), ctx->state, ctx->fault_va,
			   ctx->fw_owes ? "yes" : "no");
	}
}

static void vnpu_dump_hwq(struct drm_printer *p, struct vnpu_device *vdev, u32 i)
{
	const struct drm_vnpu_queue_status *status = vnpu_status_page(vdev, i);
	const struct vnpu_hwq *hwq = &vdev->hwqs[i];
	const struct vnpu_queue *q = hwq->queue;

	drm_printf(p, "%4u %4u ", i, hwq->ctx);
	if (q)
		drm_printf(p, "%6llu %4u %5u %4u %5u ", q->ctx->client_id, q->ctx->id, q->id,
			   q->priority, q->depth);
	else
		drm_printf(p, "%6s %4s %5s %4s %5s ", "-", "-", "-", "-", "-");
	drm_printf(p, "%8u %8u %8u ", hwq->acked, hwq->head, hwq->tail);
	drm_printf(p, "%9llu %9llu %9llu ", q ? q->submitted_seqno : 0, q ? q->sent_seqno : 0,
		   q ? q->done_seqno : 0);
	drm_printf(p, "%9llu %9llu %9llu %u\n", READ_ONCE(status->completed_seqno),
		   READ_ONCE(status->started_seqno), READ_ONCE(status->progress),
		   READ_ONCE(status->error));
}

/* Slots that have an owner or unanswered jobs. The last columns are from the status page. */
static void vnpu_dump_queues(struct drm_printer *p, struct vnpu_device *vdev)
{
	drm_puts(p, "slot  num client  ctx queue prio depth    acked     head     tail ");
	drm_puts(p, "submitted      sent      done completed   started  progress error\n");
	for (u32 i = 0; i < vdev->nr_queues; i++) {
		guard(spinlock)(&vdev->lock);
		if (vdev->hwqs[i].queue || !vnpu_hwq_answered(&vdev->hwqs[i]))
			vnpu_dump_hwq(p, vdev, i);
	}
}

/* The kernel's indices beside those in the firmware's memory. */
static void vnpu_dump_rings(struct drm_printer *p, struct vnpu_device *vdev)
{
	const struct vnpu_ring *ring = &vdev->ring;

	guard(spinlock)(&vdev->lock);
	drm_printf(p, "firmware   pid %d, %s, epoch %u, last sign of life %u ms ago\n",
		   vdev->session ? pid_nr(vdev->session->pid) : 0,
		   vdev->ready ? "ready" : "not ready", vdev->epoch,
		   jiffies_to_msecs(jiffies - vdev->alive_at));
	drm_printf(p, "submission %u entries, tail %u, firmware's head %u\n", ring->sq_entries,
		   ring->sq_tail, READ_ONCE(ring->ctl->sq_head));
	drm_printf(p, "completion %u entries, head %u, firmware's tail %u\n", ring->cq_entries,
		   ring->cq_head, READ_ONCE(ring->ctl->cq_tail));
}

/* ---- debugfs ---- */

static int vnpu_debugfs_show(struct seq_file *m, void *unused)
{
	void (*dump)(struct drm_printer *, struct vnpu_device *);
	struct drm_printer p = drm_seq_file_printer(m);
	struct drm_debugfs_entry *entry = m->private;

	dump = entry->file.data;
	dump(&p, to_vnpu_device(entry->dev));
	return 0;
}

static const struct drm_debugfs_info vnpu_debugfs_files[] = {
	{ "contexts", vnpu_debugfs_show, 0, vnpu_dump_contexts },
	{ "queues", vnpu_debugfs_show, 0, vnpu_dump_queues },
	{ "rings", vnpu_debugfs_show, 0, vnpu_dump_rings },
};

/* Any value written resets the device, as if it had hung. -ENODEV if it has no firmware. */
static int vnpu_debugfs_force_reset(void *data, u64 value)
{
	return vnpu_reset_device(data, DRM_VNPU_LOSS_FORCED);
}

DEFINE_DEBUGFS_ATTRIBUTE(vnpu_force_reset_fops, NULL, vnpu_debugfs_force_reset, "%llu\n");

/* Called before the device is registered. Read-only files are removed with the device. */
void vnpu_debugfs_add(struct vnpu_device *vdev)
{
	drm_debugfs_add_files(&vdev->drm, vnpu_debugfs_files, ARRAY_SIZE(vnpu_debugfs_files));
	vdev->force_reset = debugfs_create_file("force_reset", 0200, vdev->drm.debugfs_root, vdev,
						&vnpu_force_reset_fops);
}

/* Called while the device lives: a reset must not drop the device's last reference. */
void vnpu_debugfs_remove(struct vnpu_device *vdev)
{
	debugfs_remove(vdev->force_reset);
}

/* ---- coredumps ---- */

/*
 * Called while the session is being ended, before its jobs are failed. The kernel keeps the first
 * dump of a device until somebody writes to its data file or five minutes have passed. No dump is
 * made if memory is short or the device is being deleted.
 */
void vnpu_dump_reset(struct vnpu_device *vdev, const char *reason)
{
	struct drm_print_iterator iter = {
		.remain = 1024 + 256 * (vdev->nr_ctx + vdev->nr_queues),
	};
	struct drm_printer p = drm_coredump_printer(&iter);
	int idx;

	if (!drm_dev_enter(&vdev->drm, &idx))
		return;
	iter.data = vmalloc(iter.remain);
	if (iter.data) {
		drm_printf(&p, "reason: %s\n", reason);
		drm_printf(&p, "time: %lld s\n", ktime_get_real_seconds());
		drm_printf(&p, "device: %u \"%.32s\", isa %u.%u, features %#llx\n", vdev->id,
			   vdev->name, vdev->isa_version >> 16, vdev->isa_version & 0xffff,
			   vdev->features);
		scoped_guard(spinlock, &vdev->lock)
			drm_printf(&p, "resets before: %u, jobs: %llu\n", vdev->nr_resets,
				   vdev->nr_jobs);
		vnpu_dump_rings(&p, vdev);
		vnpu_dump_contexts(&p, vdev);
		vnpu_dump_queues(&p, vdev);
		dev_coredumpv(vdev->parent, iter.data, iter.offset, GFP_KERNEL);
	}
	drm_dev_exit(idx);
}
