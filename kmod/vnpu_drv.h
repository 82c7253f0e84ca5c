/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * struct vnpu_device: one virtual NPU, from ADD_DEV until its last user is gone.
 *
 * Locks, outermost first
 *   vnpu_ctl_lock        mutex, global: adding, starting, attaching and deleting devices. No user
 *                        memory is accessed under it
 *   session->end_lock    mutex: the end of a session
 *   ctx->submit_lock     mutex: SUBMIT, QUEUE_CREATE and closing of one context. Held while user
 *                        memory is accessed, so never taken under mmap_lock
 *   ctx->bind_lock       mutex: VM_BIND and closing
 *   mmap_lock            of a client or of the firmware: held where a fault handler runs
 *   session->lock        rwsem: read by the firmware's fault handlers, written to end the session
 *   ctx->vm_lock         rwsem: read by the fault handlers, written to change bindings
 *   vdev->map_lock       mutex: the file whose mappings are zapped; i_mmap_rwsem nests inside
 *   vdev->lock           spinlock: rings, queue slots, jobs, context numbers, ban states. Fences
 *                        are signalled under it, so nothing under it sleeps or allocates, and
 *                        what one section does is bounded (VNPU_BATCH)
 *   vdev->users_lock     spinlock: the device's users; no lock is taken under it
 */
#ifndef VNPU_DRV_H
#define VNPU_DRV_H

#include <linux/cleanup.h>
#include <linux/dma-fence.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/overflow.h>
#include <linux/pid.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <drm/drm_accel.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_print.h>
#include <drm/vnpu_accel.h>
#include <linux/vnpu_fw.h>

#include "vnpu_ring.h"

struct vnpu_ctx;
struct vnpu_session;

/* The ABI's page, the unit of bindings and apertures, is mapped as one page of the host. */
static_assert(PAGE_SIZE == DRM_VNPU_PAGE_SIZE);

#define VNPU_MAX_CTX_PER_FILE 64
#define VNPU_MAX_QUEUES_PER_FILE 256
#define VNPU_MAX_JOBS_PER_SUBMIT 64
#define VNPU_MAX_SYNCS_PER_JOB 64
#define VNPU_MAX_BINDS_PER_CALL 1024
#define VNPU_MAX_CMD_BYTES (16u << 20)
#define VNPU_MAX_RESETS 16

/* How many jobs end in one section of vdev->lock at most, and how many enter the ring. */
#define VNPU_BATCH 64

enum vnpu_user_kind {
	VNPU_USER_CTX,
	VNPU_USER_QUEUES,
	VNPU_USER_MEM, /* bytes */
	VNPU_USER_KINDS,
};

/*
 * What one uid holds of one device. Each of its open files, and each charged object, which may
 * outlive the file, holds a reference.
 */
struct vnpu_user {
	struct kref ref;
	struct vnpu_device *vdev; /* holders of a vnpu_user reference hold one to the device */
	kuid_t uid;
	struct list_head node; /* vdev->users */
	u64 used[VNPU_USER_KINDS]; /* under users_lock */
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

	u64 user_limits[VNPU_USER_KINDS];

	spinlock_t users_lock; /* for users and used[] */
	struct list_head users; /* vnpu_user.node */
	u64 mem_bytes;
	struct delayed_work reset_work; /* see vnpu_reset.c */
	struct vfsmount *huge_mnt; /* of large buffers, where DRM has none; NULL: small pages */

	/* The firmware fd's file up to the first aperture; from vmalloc_user(). */
	void *shared;
	u64 shared_size;
	u64 shared_writable; /* offset from which the firmware may write */
	struct drm_vnpu_queue_status *status; /* in @shared, one page per slot */

	/* Under vnpu_ctl_lock. */
	bool registered;
	struct dentry *force_reset; /* in debugfs */

	struct mutex map_lock; /* for aperture */
	struct file *aperture; /* the session's, not a reference: cleared before the file goes */

	spinlock_t lock; /* for all fields below */
	/* What the present section may still do besides taking completions: see VNPU_BATCH. */
	u32 may_end;
	u32 may_send;
	bool ready; /* a firmware has called START and is alive */
	bool wedged; /* accepts no firmware any more */
	u32 epoch;
	u64 busy_ns; /* see vnpu_stats.c */
	u64 busy_until;
	u64 nr_jobs;
	u32 nr_resets;
	u32 nr_counted; /* resets that count towards wedged, and their times in jiffies */
	unsigned long reset_at[VNPU_MAX_RESETS];
	enum drm_vnpu_loss last_loss;
	enum drm_vnpu_loss reset_wanted; /* cause of the requested reset */
	/* Jiffies: the device's last answer or progress, and when progress was last sampled. */
	unsigned long alive_at;
	unsigned long sampled_at;
	struct vnpu_session *session;
	struct vnpu_ring ring;
	struct vnpu_hwq *hwqs; /* [nr_queues] */
	struct vnpu_ctx **ctxs; /* [nr_ctx + 1], by number; [0] is unused */

	wait_queue_head_t fw_wait; /* for the firmware in ENTER or poll() */
};

static inline void vnpu_section_begin(struct vnpu_device *vdev)
{
	spin_lock(&vdev->lock);
	vdev->may_end = VNPU_BATCH;
	vdev->may_send = VNPU_BATCH;
}

/* guard(vnpu_signalling)(vdev) takes vdev->lock and marks a section that may signal fences. */
/* clang-format off */
DEFINE_LOCK_GUARD_1(vnpu_signalling, struct vnpu_device,
		    _T->cookie = dma_fence_begin_signalling(); vnpu_section_begin(_T->lock),
		    spin_unlock(&_T->lock->lock); dma_fence_end_signalling(_T->cookie),
		    bool cookie)
/* clang-format on */

static inline struct vnpu_device *to_vnpu_device(struct drm_device *drm)
{
	return container_of(drm, struct vnpu_device, drm);
}

/* One open of /dev/accel/accelN. */
struct vnpu_file {
	struct vnpu_device *vdev;
	struct vnpu_user *user; /* reference; the user who opened it */
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
	return (void *)vdev->status + (size_t)hwq * PAGE_SIZE;
}

/* Module parameters. */
extern bool vnpu_prime_export;
extern bool vnpu_fence_export;
extern unsigned int vnpu_timeout_ms;
extern unsigned int vnpu_max_timeout_ms;
extern unsigned int vnpu_reset_ms;
extern unsigned int vnpu_max_resets;
extern unsigned int vnpu_reset_window_s;

/* The longest timeout that a job may set, and the longest time that a job may run. */
static inline u32 vnpu_device_max_timeout_ms(const struct vnpu_device *vdev)
{
	return vdev->max_timeout_ms ?: READ_ONCE(vnpu_max_timeout_ms);
}

/* The earlier of two times in jiffies. */
static inline unsigned long vnpu_earlier(unsigned long a, unsigned long b)
{
	return time_before(a, b) ? a : b;
}

/* The timeout of a job that does not set one. */
static inline u32 vnpu_device_timeout_ms(const struct vnpu_device *vdev)
{
	return min(vdev->timeout_ms ?: READ_ONCE(vnpu_timeout_ms),
		   vnpu_device_max_timeout_ms(vdev));
}

/* For work that ends jobs and fences: it neither waits nor allocates. */
extern struct workqueue_struct *vnpu_wq;
/* For resets, which do both. */
extern struct workqueue_struct *vnpu_reset_wq;

struct vnpu_device *vnpu_device_create(const struct vnpu_ctl_add_dev *args);
int vnpu_device_register(struct vnpu_device *vdev);
void vnpu_device_remove(struct vnpu_device *vdev);

/* ---- vnpu_uapi.c ---- */

int vnpu_uapi_new_array(const struct drm_vnpu_obj_array *in, u32 max, u32 min_stride, u32 size,
			void **out);

/*
 * Inline so that an empty array costs no call, and the compiler drops checks of sizes that it
 * knows.
 */
static __always_inline int vnpu_uapi_get_array(const struct drm_vnpu_obj_array *in, u32 max,
					       u32 min_stride, u32 size, void *one, void **out)
{
	*out = NULL;
	if (!in->count)
		return in->array ? -EINVAL : 0;
	if (!one || in->count != 1 || in->stride != size)
		return vnpu_uapi_new_array(in, max, min_stride, size, out);
	*out = one;
	return copy_from_user(one, u64_to_user_ptr(in->array), size) ? -EFAULT : 0;
}

/*
 * Copy a user's array to *out (NULL if it is empty). @last: last field of version 1. An array of
 * one element may be copied to @one, if it is not NULL; other arrays are allocated. The caller must
 * kvfree() *out unless it is NULL or @one. On failure nothing is allocated.
 */
#define VNPU_UAPI_GET_ARRAY(in, max, type, last, one, out) \
	vnpu_uapi_get_array(in, max, offsetofend(type, last), sizeof(type), one, (void **)(out))

bool vnpu_uapi_may_use_high(void);
signed long vnpu_uapi_timeout(s64 timeout_ns);

int vnpu_ioctl_dev_query(struct drm_device *drm, void *data, struct drm_file *file);

/* ---- vnpu_user.c ---- */

struct vnpu_user *vnpu_user_get(struct vnpu_device *vdev);
void vnpu_user_put(struct vnpu_user *user);
int vnpu_user_charge(struct vnpu_user *user, enum vnpu_user_kind kind, u64 amount);
void vnpu_user_uncharge(struct vnpu_user *user, enum vnpu_user_kind kind, u64 amount);

/* ---- vnpu_ctl.c ---- */

extern struct mutex vnpu_ctl_lock;

int vnpu_ctl_init(void);
void vnpu_ctl_exit(void);
void vnpu_ctl_forget(struct vnpu_device *vdev);
void vnpu_ctl_for_each(void (*fn)(struct vnpu_device *vdev));

/* ---- vnpu_reset.c ---- */

void vnpu_reset_work(struct work_struct *work);

/* Called with vdev->lock held. */
void vnpu_reset_watch(struct vnpu_device *vdev);
void vnpu_reset_request(struct vnpu_device *vdev, enum drm_vnpu_loss cause);
void vnpu_reset_count(struct vnpu_device *vdev, enum drm_vnpu_loss cause);

/* Called with no locks held. */
int vnpu_reset_device(struct vnpu_device *vdev, enum drm_vnpu_loss cause);
void vnpu_reset_session(struct vnpu_session *session, enum drm_vnpu_loss cause);
void vnpu_reset_unwatch(struct vnpu_device *vdev);

/* ---- vnpu_dump.c ---- */

void vnpu_debugfs_add(struct vnpu_device *vdev);
void vnpu_debugfs_remove(struct vnpu_device *vdev);
void vnpu_dump_reset(struct vnpu_device *vdev, const char *reason);

/* ---- vnpu_stats.c ---- */

u64 vnpu_stats_busy_ns(struct vnpu_device *vdev);
int vnpu_stats_add(struct vnpu_device *vdev);
void vnpu_stats_remove(struct vnpu_device *vdev);
void vnpu_show_fdinfo(struct drm_printer *p, struct drm_file *file);

/* ---- vnpu_submit.c ---- */

int vnpu_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file);

#endif /* VNPU_DRV_H */
