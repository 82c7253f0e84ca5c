/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_SYSFS_H
#define VNPU_SYSFS_H

struct vnpu_device;

int vnpu_sysfs_add(struct vnpu_device *vdev);
void vnpu_sysfs_remove(struct vnpu_device *vdev);

#endif /* VNPU_SYSFS_H */
