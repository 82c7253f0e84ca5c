/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_CTX_H
#define VNPU_CTX_H

#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "vnpu_drv.h"
#include "vnpu_space.h"

struct vm_area_struct;
struct vnpu_queue;

/*
 * A context: an address space and the queues that work in it.
 *
 * References: the file's table, each queue, each aperture mapping of the firmware, @fail_work and
 * @fw_owes. The number becomes free when all of them are gone.
 */
struct vnpu_ctx {
	struct kref ref;
	struct vnpu_device *vdev; /* holds a drm_dev reference */
	u32 num; /* aperture number */
	u32 epoch; /* when it was created */

	/* The creator, for tracing. */
	u32 id; /* in the file */
	u64 client_id; /* of the file */
	pid_t pid;
	char comm[TASK_COMM_LEN];
	struct vnpu_user *user; /* reference; charged for the context and its queues */

	struct mutex submit_lock; /* see vnpu_drv.h */
	/* Set under submit_lock before bindings are removed under bind_lock; check under either. */
	bool closing;

	struct mutex bind_lock; /* see vnpu_drv.h */
	struct rw_semaphore vm_lock;
	struct vnpu_space space; /* changed under bind_lock and vm_lock */

	/* Under vdev->lock. */
	struct list_head queues; /* vnpu_queue.node */
	u32 state; /* DRM_VNPU_CTX_*; banned if not 0 */
	u64 fault_va;
	u32 fault_flags;
	struct work_struct fail_work; /* ends the jobs of a banned context; holds a reference */
	u32 ban_queue_id;
	u64 ban_seqno;
	bool fw_owes; /* CTX_CLOSED is outstanding; holds a reference */
	bool fw_closed; /* the firmware has dropped the context's jobs, or is lost */
	unsigned long owed_since; /* jiffies at which it became outstanding */
	struct list_head put_node; /* in a list of contexts to vnpu_ctx_put() */
};

static inline bool vnpu_ctx_banned(const struct vnpu_ctx *ctx)
{
	return READ_ONCE(ctx->state);
}

struct vnpu_ctx *vnpu_ctx_get(struct vnpu_file *vfile, u32 id);
struct vnpu_ctx *vnpu_ctx_get_by_num(struct vnpu_device *vdev, u32 num);
void vnpu_ctx_put(struct vnpu_ctx *ctx);
void vnpu_ctx_close(struct vnpu_file *vfile, struct vnpu_ctx *ctx);
void vnpu_ctx_ban(struct vnpu_ctx *ctx, u32 state, struct vnpu_queue *culprit);
void vnpu_ctx_fail(struct vnpu_ctx *ctx);
void vnpu_ctx_fail_later(struct vnpu_ctx *ctx);

int vnpu_ioctl_ctx_create(struct drm_device *drm, void *data, struct drm_file *file);
int vnpu_ioctl_ctx_destroy(struct drm_device *drm, void *data, struct drm_file *file);
int vnpu_ioctl_ctx_get_state(struct drm_device *drm, void *data, struct drm_file *file);

/* ---- vnpu_vm.c ---- */

void vnpu_vm_clear(struct vnpu_ctx *ctx);
int vnpu_vm_mmap(struct vnpu_device *vdev, struct vm_area_struct *vma);

int vnpu_ioctl_vm_bind(struct drm_device *drm, void *data, struct drm_file *file);

#endif /* VNPU_CTX_H */
