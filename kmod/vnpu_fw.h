/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_FW_H
#define VNPU_FW_H

#include <linux/rwsem.h>

#include "vnpu_drv.h"

struct file;
struct pid;

/* One firmware's time with a device: from ADD_DEV or ATTACH until its fd is released. */
struct vnpu_session {
	struct kref ref; /* held by the fd and by a reset of the device */
	struct vnpu_device *vdev; /* holds a drm_dev reference */
	struct pid *pid;
	struct rw_semaphore lock; /* read by fault handlers */
	struct mutex end_lock; /* held while the session is ended */
	int error; /* returned by ENTER once the session is over; written under vdev->lock */
};

int vnpu_fw_alloc(struct vnpu_device *vdev);
struct file *vnpu_fw_session_create(struct vnpu_device *vdev);
bool vnpu_fw_session_end(struct vnpu_session *session, enum drm_vnpu_loss cause, int error,
			 const char *reason);
struct vnpu_session *vnpu_session_get(struct vnpu_device *vdev);
void vnpu_session_put(struct vnpu_session *session);

bool vnpu_fw_fault_begin(struct file *file);
void vnpu_fw_fault_end(struct file *file);
void vnpu_fw_zap(struct vnpu_device *vdev, u32 ctx, u64 va, u64 size);

bool vnpu_fw_send(struct vnpu_device *vdev, const struct vnpu_fw_sqe *sqe);
int vnpu_fw_drain(struct vnpu_device *vdev, struct vnpu_session *session);
int vnpu_fw_drain_batch(struct vnpu_device *vdev, struct vnpu_session *session);

#endif /* VNPU_FW_H */
