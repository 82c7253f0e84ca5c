/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_GEM_H
#define VNPU_GEM_H

#include <drm/drm_gem_shmem_helper.h>

struct vnpu_device;
struct vnpu_user;

/* A buffer: cached shared memory, pinned while it is bound or mapped. */
struct vnpu_bo {
	struct drm_gem_shmem_object base; /* first: drm_gem_shmem_free() frees this address */
	u32 flags; /* DRM_VNPU_BO_* */
	struct vnpu_user *user; /* reference; charged for it, as is the device. NULL: nobody */
};

static inline struct vnpu_bo *to_vnpu_bo(struct drm_gem_object *obj)
{
	return container_of(to_drm_gem_shmem_obj(obj), struct vnpu_bo, base);
}

/* True if the buffer has pages. It keeps them when it is unpinned, but they may be swapped out. */
static inline bool vnpu_gem_resident(struct drm_gem_object *obj)
{
	return READ_ONCE(to_vnpu_bo(obj)->base.pages);
}

int vnpu_gem_init(struct vnpu_device *vdev);
u64 vnpu_gem_max_size(const struct vnpu_device *vdev);
struct drm_gem_object *vnpu_gem_create_object(struct drm_device *drm, size_t size);

int vnpu_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file);
int vnpu_ioctl_bo_info(struct drm_device *drm, void *data, struct drm_file *file);

#endif /* VNPU_GEM_H */
