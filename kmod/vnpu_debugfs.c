// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the device's tables hold, for people: /sys/kernel/debug/accel/DEVICE/. Reading takes no references, so that it is never
 * what frees something; each entry is looked at under the lock that keeps it.
 */
#include <linux/debugfs.h>
#include <linux/pid.h>
#include <linux/seq_file.h>
#include <drm/drm_debugfs.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>

#include "vnpu_ctx.h"
#include "vnpu_debugfs.h"
#include "vnpu_drv.h"
#include "vnpu_fw.h"
#include "vnpu_gem.h"
#include "vnpu_queue.h"
#include "vnpu_reset.h"
#include "vnpu_user.h"

static struct vnpu_device *vnpu_debugfs_device(struct seq_file *m)
{
	struct drm_debugfs_entry *entry = m->private;

	return to_vnpu_device(entry->dev);
}

static void vnpu_debugfs_ctx(struct seq_file *m, const struct vnpu_ctx *ctx)
{
	unsigned int queues = list_count_nodes((struct list_head *)&ctx->queues);

	seq_printf(m, "%4u %6llu %4u %7d %-15s %5u %6u %#5x %#14llx %6s\n", ctx->num, ctx->client_id, ctx->id, ctx->pid,
		   ctx->comm, ctx->epoch, queues, ctx->state, ctx->fault_va, ctx->fw_owes ? "yes" : "no");
}

/* state: DRM_VNPU_CTX_*; closing: the firmware has not yet said that it is done with the context. */
static int vnpu_debugfs_contexts(struct seq_file *m, void *unused)
{
	struct vnpu_device *vdev = vnpu_debugfs_device(m);

	seq_puts(m, " num client  ctx     pid comm            epoch queues state       fault_va closing\n");
	for (u32 num = 1; num <= vdev->nr_ctx; num++) {
		spin_lock(&vdev->lock);
		if (vdev->ctxs[num])
			vnpu_debugfs_ctx(m, vdev->ctxs[num]);
		spin_unlock(&vdev->lock);
	}
	return 0;
}

static void vnpu_debugfs_hwq(struct seq_file *m, struct vnpu_device *vdev, u32 i)
{
	const struct drm_vnpu_queue_status *status = vnpu_status_page(vdev, i);
	const struct vnpu_hwq *hwq = &vdev->hwqs[i];
	const struct vnpu_queue *q = hwq->queue;

	seq_printf(m, "%4u %4u ", i, hwq->ctx);
	if (q)
		seq_printf(m, "%6llu %4u %5u %4u %5u ", q->ctx->client_id, q->ctx->id, q->id, q->priority, q->depth);
	else
		seq_printf(m, "%6s %4s %5s %4s %5s ", "-", "-", "-", "-", "-");
	seq_printf(m, "%8u %8u %8u ", hwq->acked, hwq->head, hwq->tail);
	seq_printf(m, "%6u %9llu %9llu ", q ? q->in_sched : 0, q ? q->submitted_seqno : 0, q ? q->done_seqno : 0);
	seq_printf(m, "%9llu %9llu %u\n", READ_ONCE(status->started_seqno), READ_ONCE(status->progress),
		   READ_ONCE(status->error));
}

/* Slots that have an owner, or jobs that the firmware has not answered. */
static int vnpu_debugfs_queues(struct seq_file *m, void *unused)
{
	struct vnpu_device *vdev = vnpu_debugfs_device(m);

	seq_puts(m, "slot  num client  ctx queue prio depth    acked     head     tail  sched submitted      done ");
	seq_puts(m, "  started  progress error\n");
	for (u32 i = 0; i < vdev->nr_queues; i++) {
		spin_lock(&vdev->lock);
		if (vdev->hwqs[i].queue || !vnpu_hwq_answered(&vdev->hwqs[i]))
			vnpu_debugfs_hwq(m, vdev, i);
		spin_unlock(&vdev->lock);
	}
	return 0;
}

/* The kernel's indices, and what the firmware's memory says. */
static int vnpu_debugfs_rings(struct seq_file *m, void *unused)
{
	struct vnpu_device *vdev = vnpu_debugfs_device(m);
	const struct vnpu_ring *ring = &vdev->ring;

	spin_lock(&vdev->lock);
	seq_printf(m, "firmware   pid %d, %s, epoch %u\n", vdev->session ? pid_vnr(vdev->session->pid) : 0,
		   vdev->ready ? "ready" : "not ready", vdev->epoch);
	seq_printf(m, "submission %u entries, tail %u, firmware's head %u\n", ring->sq_entries, ring->sq_tail,
		   READ_ONCE(ring->ctl->sq_head));
	seq_printf(m, "completion %u entries, head %u, firmware's tail %u\n", ring->cq_entries, ring->cq_head,
		   READ_ONCE(ring->ctl->cq_tail));
	spin_unlock(&vdev->lock);
	return 0;
}

static void vnpu_debugfs_file_bos(struct seq_file *m, struct drm_file *file)
{
	struct drm_gem_object *obj;
	int handle;

	spin_lock(&file->table_lock);
	idr_for_each_entry (&file->object_idr, obj, handle)
		seq_printf(m, "%6llu %6d %12zu %8s %6s %4u %4u\n", file->client_id, handle, obj->size,
			   vnpu_gem_resident(obj) ? "yes" : "no",
			   drm_gem_object_is_shared_for_memory_stats(obj) ? "yes" : "no", kref_read(&obj->refcount),
			   to_vnpu_bo(obj)->flags);
	spin_unlock(&file->table_lock);
}

/* Buffers that have a handle, by file. */
static int vnpu_debugfs_bos(struct seq_file *m, void *unused)
{
	struct vnpu_device *vdev = vnpu_debugfs_device(m);
	struct drm_file *file;

	seq_puts(m, "client handle        bytes resident shared refs flags\n");
	mutex_lock(&vdev->drm.filelist_mutex);
	list_for_each_entry (file, &vdev->drm.filelist, lhead)
		vnpu_debugfs_file_bos(m, file);
	mutex_unlock(&vdev->drm.filelist_mutex);
	seq_printf(m, "total %lld bytes, limit %llu\n", atomic64_read(&vdev->mem_bytes), vdev->mem_limit);
	return 0;
}

/* What each uid holds, and the limits; 0 is none. */
static int vnpu_debugfs_users(struct seq_file *m, void *unused)
{
	struct vnpu_device *vdev = vnpu_debugfs_device(m);
	const struct vnpu_user *user;

	seq_puts(m, "   uid contexts queues        bytes\n");
	spin_lock(&vdev->users_lock);
	list_for_each_entry (user, &vdev->users, node)
		seq_printf(m, "%6u %8lld %6lld %12lld\n", from_kuid_munged(seq_user_ns(m), user->uid),
			   atomic64_read(&user->used[VNPU_USER_CTX]), atomic64_read(&user->used[VNPU_USER_QUEUES]),
			   atomic64_read(&user->used[VNPU_USER_MEM]));
	spin_unlock(&vdev->users_lock);
	seq_printf(m, " limit %8llu %6llu %12llu\n", vdev->user_limits[VNPU_USER_CTX],
		   vdev->user_limits[VNPU_USER_QUEUES], vdev->user_limits[VNPU_USER_MEM]);
	return 0;
}

static const struct drm_debugfs_info vnpu_debugfs_files[] = {
	{ "contexts", vnpu_debugfs_contexts }, { "queues", vnpu_debugfs_queues }, { "rings", vnpu_debugfs_rings },
	{ "bos", vnpu_debugfs_bos },	       { "users", vnpu_debugfs_users },
};

/* Whatever is written: reset the device, as if it had hung. -ENODEV if no firmware runs it. */
static int vnpu_debugfs_force_reset(void *data, u64 value)
{
	return vnpu_reset_device(data, DRM_VNPU_LOSS_FORCED);
}

DEFINE_DEBUGFS_ATTRIBUTE(vnpu_force_reset_fops, NULL, vnpu_debugfs_force_reset, "%llu\n");

/* Before the device is registered. What is only read goes with the device's memory. */
void vnpu_debugfs_add(struct vnpu_device *vdev)
{
	drm_debugfs_add_files(&vdev->drm, vnpu_debugfs_files, ARRAY_SIZE(vnpu_debugfs_files));
	vdev->force_reset =
		debugfs_create_file("force_reset", 0200, vdev->drm.debugfs_root, vdev, &vnpu_force_reset_fops);
}

/* While the device lives, for a reset takes references and drops them, and must not drop the last one. */
void vnpu_debugfs_remove(struct vnpu_device *vdev)
{
	debugfs_remove(vdev->force_reset);
}
