/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_RESET_H
#define VNPU_RESET_H

#include <linux/types.h>
#include <drm/vnpu_accel.h>

struct vnpu_device;
struct vnpu_session;

void vnpu_reset_init(struct vnpu_device *vdev);

/* Under vdev->lock. */
void vnpu_reset_watch(struct vnpu_device *vdev);
void vnpu_reset_request(struct vnpu_device *vdev, enum drm_vnpu_loss cause);
void vnpu_reset_count(struct vnpu_device *vdev, enum drm_vnpu_loss cause);

/* With nothing held. */
int vnpu_reset_device(struct vnpu_device *vdev, enum drm_vnpu_loss cause);
void vnpu_reset_session(struct vnpu_session *session, enum drm_vnpu_loss cause);
void vnpu_reset_unwatch(struct vnpu_device *vdev);

/* ---- vnpu_coredump.c ---- */

struct vnpu_coredump {
	char *text; /* vmalloc() */
	size_t size;
	size_t len;
};

void vnpu_coredump_alloc(struct vnpu_coredump *dump, const struct vnpu_device *vdev);
void vnpu_coredump_take(struct vnpu_coredump *dump, struct vnpu_device *vdev, const char *reason);
void vnpu_coredump_publish(struct vnpu_coredump *dump, struct vnpu_device *vdev);

#endif /* VNPU_RESET_H */
