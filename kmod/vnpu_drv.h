/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * struct vnpu_device: one virtual NPU, from ADD_DEV until its last user is gone.
 *
 * Locks, outermost first
 *   vnpu_ctl_lock        mutex, global: adding, starting, attaching and deleting devices
 *   ctx->submit_lock     mutex: SUBMIT, QUEUE_CREATE and closing of one context. Held while user memory is accessed, so
 *                        never taken under mmap_lock
 *   (dma_resv locks of a submission's buffers)
 *   ctx->bind_lock       mutex: VM_BIND and closing
 *   mmap_lock            of a client or of the firmware: held where a fault handler runs
 *   session->lock        rwsem: read by the firmware's fault handlers, written to end the session
 *   ctx->vm_lock         rwsem: read by the fault handlers, written to change bindings
 *   vdev->map_lock       mutex: which file to take pages away from; i_mmap_rwsem nests inside
 *   vdev->lock           spinlock: rings, queue slots, context numbers, ban states. Fences are signalled under it, hence
 *                        nothing that sleeps or allocates
 *   vdev->users_lock     spinlock: who uses the device; nests inside nothing and holds nothing
 */
#ifndef VNPU_DRV_H
#define VNPU_DRV_H

#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <drm/drm_device.h>
#include <drm/drm_file.h>
#include <drm/vnpu_accel.h>
#include <linux/vnpu_fw.h>

#include "vnpu_ring.h"
#include "vnpu_user.h"

struct vnpu_ctx;
struct vnpu_session;

/* Bindings and apertures are in units of the ABI's page, and filled with the host's. */
static_assert(PAGE_SIZE == DRM_VNPU_PAGE_SIZE);

#define VNPU_MAX_CTX_PER_FILE 64
#define VNPU_MAX_QUEUES_PER_FILE 256
#define VNPU_MAX_JOBS_PER_SUBMIT 64
#define VNPU_MAX_SYNCS_PER_JOB 64
#define VNPU_MAX_BOS_PER_JOB 1024
#define VNPU_MAX_BINDS_PER_CALL 1024
#define VNPU_MAX_CMD_BYTES (16u << 20)

/* Parts of the firmware fd's file before the first aperture. */
enum vnpu_region_id {
	VNPU_REGION_INFO,
	VNPU_REGION_CTL,
	VNPU_REGION_SQ,
	VNPU_REGION_CQ,
	VNPU_REGION_STATUS,
	VNPU_NR_REGIONS,
};

struct vnpu_region {
	void *mem; /* vmalloc_user() */
	u64 offset;
	u64 size;
	bool writable;
};

struct vnpu_device {
	struct drm_device drm;
	struct device *parent;
	u32 id;

	/* As given to ADD_DEV. */
	char name[32];
	u64 features;
	u64 mem_limit;
	u32 isa_version;
	u32 nr_queues;
	u32 queue_depth;
	u32 nr_ctx;
	u32 va_bits;
	u32 timeout_ms; /* see vnpu_device_timeout_ms() */
	u32 max_timeout_ms;

	u64 user_limits[VNPU_USER_KINDS]; /* 0: none */

	atomic64_t mem_bytes;
	spinlock_t users_lock;
	struct list_head users; /* vnpu_user.node, under users_lock */
	struct workqueue_struct *submit_wq;
	struct workqueue_struct *watchdog_wq;
	struct delayed_work reset_work; /* see vnpu_reset.c */

	struct vnpu_region regions[VNPU_NR_REGIONS];

	/* Under vnpu_ctl_lock. */
	bool registered;
	struct dentry *force_reset; /* in debugfs */

	struct mutex map_lock;
	struct file *aperture; /* the session's file, not a reference: cleared before it goes */

	spinlock_t lock;
	/* Under lock. */
	bool ready; /* a firmware has called START and is alive */
	bool wedged; /* no firmware is let in any more */
	u32 epoch;
	u64 busy_ns; /* see vnpu_stats.c */
	u64 busy_until;
	u64 nr_jobs;
	bool closes_pending; /* a context may have close_pending */
	u32 nr_resets;
	u32 resets_in_a_row;
	enum drm_vnpu_loss last_loss;
	enum drm_vnpu_loss reset_wanted; /* why, until it is done */
	unsigned long alive_at; /* jiffies when the device last answered, or was seen to work */
	unsigned long sampled_at; /* jiffies when all queues were last looked at for that */
	struct vnpu_session *session; /* written under vnpu_ctl_lock too */
	struct vnpu_ring ring;
	struct vnpu_hwq *hwqs; /* [nr_queues] */
	struct vnpu_ctx **ctxs; /* [nr_ctx + 1], by number; 0 is unused */

	wait_queue_head_t fw_wait; /* the firmware, in ENTER or poll() */
};

static inline struct vnpu_device *to_vnpu_device(struct drm_device *drm)
{
	return container_of(drm, struct vnpu_device, drm);
}

/* One open of /dev/accel/accelN. */
struct vnpu_file {
	struct vnpu_device *vdev;
	struct vnpu_user *user; /* reference; who opened it */
	struct xarray ctxs; /* id -> struct vnpu_ctx, with a reference */
	struct xarray queues; /* id -> struct vnpu_queue, with a reference */
	u64 busy_ns; /* device time of all jobs so far; under vdev->lock */
};

static inline struct vnpu_file *to_vnpu_file(struct drm_file *file)
{
	return file->driver_priv;
}

static inline struct drm_vnpu_queue_status *vnpu_status_page(struct vnpu_device *vdev, u32 hwq)
{
	return vdev->regions[VNPU_REGION_STATUS].mem + (size_t)hwq * PAGE_SIZE;
}

/* Module parameters. */
extern bool vnpu_prime_export;
extern unsigned int vnpu_timeout_ms;
extern unsigned int vnpu_max_timeout_ms;
extern unsigned int vnpu_reset_ms;
extern unsigned int vnpu_max_resets;

/* The longest that a job may name, and that one may run. Both are bounded: fences are finite. */
static inline u32 vnpu_device_max_timeout_ms(const struct vnpu_device *vdev)
{
	return vdev->max_timeout_ms ?: clamp(READ_ONCE(vnpu_max_timeout_ms), 1u, VNPU_FW_MAX_TIMEOUT_MS);
}

/* Of a job that names none. */
static inline u32 vnpu_device_timeout_ms(const struct vnpu_device *vdev)
{
	u32 timeout_ms = vdev->timeout_ms ?: READ_ONCE(vnpu_timeout_ms);

	return clamp(timeout_ms, 1u, vnpu_device_max_timeout_ms(vdev));
}

/* Where queues are taken apart; not a scheduler's own queue, for drm_sched_fini() waits for that. */
extern struct workqueue_struct *vnpu_release_wq;

struct vnpu_device *vnpu_device_create(const struct vnpu_ctl_add_dev *args);
int vnpu_device_register(struct vnpu_device *vdev);
void vnpu_device_remove(struct vnpu_device *vdev);

#endif /* VNPU_DRV_H */
