/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_DEBUGFS_H
#define VNPU_DEBUGFS_H

struct vnpu_device;

void vnpu_debugfs_add(struct vnpu_device *vdev);
void vnpu_debugfs_remove(struct vnpu_device *vdev);

#endif /* VNPU_DEBUGFS_H */
