/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_USER_H
#define VNPU_USER_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/uidgid.h>

struct vnpu_device;

enum vnpu_user_kind {
	VNPU_USER_CTX,
	VNPU_USER_QUEUES,
	VNPU_USER_MEM, /* bytes */
	VNPU_USER_KINDS,
};

/*
 * What one uid holds of one device. References: each of its open files, and each thing that is charged, which may live
 * longer than the file.
 */
struct vnpu_user {
	struct kref ref;
	struct vnpu_device *vdev; /* whoever holds a reference to the user holds one to the device */
	kuid_t uid;
	struct list_head node; /* vdev->users */
	atomic64_t used[VNPU_USER_KINDS];
};

struct vnpu_user *vnpu_user_get(struct vnpu_device *vdev);
void vnpu_user_put(struct vnpu_user *user);
int vnpu_user_charge(struct vnpu_user *user, enum vnpu_user_kind kind, u64 amount);
void vnpu_user_uncharge(struct vnpu_user *user, enum vnpu_user_kind kind, u64 amount);

#endif /* VNPU_USER_H */
