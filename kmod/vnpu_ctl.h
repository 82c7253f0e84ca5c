/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_CTL_H
#define VNPU_CTL_H

#include <linux/mutex.h>

struct vnpu_device;

extern struct mutex vnpu_ctl_lock;

int vnpu_ctl_init(void);
void vnpu_ctl_exit(void);
void vnpu_ctl_forget(struct vnpu_device *vdev);

#endif /* VNPU_CTL_H */
