/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_FW_H
#define VNPU_FW_H

#include <linux/kref.h>
#include <linux/rwsem.h>
#include <linux/types.h>
#include <drm/vnpu_accel.h>
#include <linux/vnpu_fw.h>

struct file;
struct pid;
struct vnpu_coredump;
struct vnpu_device;

/* One firmware's time with a device: from ADD_DEV or ATTACH until its fd is released. */
struct vnpu_session {
	struct kref ref; /* the fd's, and one of whoever resets the device */
	struct vnpu_device *vdev; /* holds a drm_dev reference */
	struct pid *pid;
	struct rw_semaphore lock;
	bool dead; /* under lock: its mappings raise SIGBUS */
	int error; /* what ENTER returns, once dead; under vdev->lock */
};

int vnpu_fw_alloc_regions(struct vnpu_device *vdev);
void vnpu_fw_free_regions(struct vnpu_device *vdev);
struct file *vnpu_fw_session_create(struct vnpu_device *vdev);
bool vnpu_fw_session_end(struct vnpu_session *session, enum drm_vnpu_loss cause, int error, struct vnpu_coredump *dump,
			 const char *reason);
struct vnpu_session *vnpu_session_get(struct vnpu_session *session);
void vnpu_session_put(struct vnpu_session *session);

bool vnpu_fw_fault_begin(struct file *file);
void vnpu_fw_fault_end(struct file *file);
void vnpu_fw_zap(struct vnpu_device *vdev, u32 ctx, u64 va, u64 size);

bool vnpu_fw_send(struct vnpu_device *vdev, const struct vnpu_fw_sqe *sqe);
void vnpu_fw_send_closes(struct vnpu_device *vdev);
int vnpu_fw_drain(struct vnpu_device *vdev, struct vnpu_session *session);

#endif /* VNPU_FW_H */
