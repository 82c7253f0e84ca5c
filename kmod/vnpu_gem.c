// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers: GEM objects of shared memory, charged to the device's memory limit and to their user.
 *
 * Each device has its own mount of tmpfs, whose files get huge pages where they are large enough
 * and memory is not in fragments. The system's own mount, which DRM uses otherwise, has none by
 * default.
 */

#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <drm/drm_managed.h>

#include "vnpu_compat.h"
#include "vnpu_drv.h"
#include "vnpu_gem.h"
#include "vnpu_space.h"

#ifdef HAVE_DRM_GEM_HUGE_MNT
int vnpu_gem_init(struct vnpu_device *vdev)
{
	return drm_gem_huge_mnt_create(&vdev->drm, "within_size");
}

static struct drm_gem_shmem_object *vnpu_gem_shmem_create(struct vnpu_device *vdev, size_t size)
{
	return drm_gem_shmem_create(&vdev->drm, size);
}
#else
static void vnpu_gem_fini(struct drm_device *drm, void *unused)
{
	kern_unmount(to_vnpu_device(drm)->huge_mnt);
}

int vnpu_gem_init(struct vnpu_device *vdev)
{
	struct file_system_type *type = get_fs_type("tmpfs");
	char options[] = "huge=within_size";
	struct vfsmount *mnt;

	if (!type || !has_transparent_hugepage())
		return 0;
	mnt = vfs_kern_mount(type, SB_KERNMOUNT, type->name, options);
	if (IS_ERR(mnt))
		return PTR_ERR(mnt);
	vdev->huge_mnt = mnt;
	return drmm_add_action_or_reset(&vdev->drm, vnpu_gem_fini, NULL);
}

/* Replaces the file of a buffer, which has no pages yet, by one in the device's mount. */
static struct drm_gem_shmem_object *vnpu_gem_shmem_create(struct vnpu_device *vdev, size_t size)
{
	struct drm_gem_shmem_object *shmem = drm_gem_shmem_create(&vdev->drm, size);
	struct file *file;

	if (IS_ERR(shmem) || !vdev->huge_mnt || size < PMD_SIZE)
		return shmem;
	file = shmem_file_setup_with_mnt(vdev->huge_mnt, "vnpu", size, VM_NORESERVE);
	if (IS_ERR(file)) {
		drm_gem_object_put(&shmem->base);
		return ERR_CAST(file);
	}
	mapping_set_gfp_mask(file->f_mapping, mapping_gfp_mask(shmem->base.filp->f_mapping));
	fput(shmem->base.filp);
	shmem->base.filp = file;
	return shmem;
}
#endif

/* Size limit of a buffer: what can be bound, and what the host can hold. */
u64 vnpu_gem_max_size(const struct vnpu_device *vdev)
{
	return min((1ull << vdev->va_bits) - VNPU_VA_START, (u64)totalram_pages() << PAGE_SHIFT);
}

static void vnpu_gem_free(struct drm_gem_object *obj)
{
	struct vnpu_bo *bo = to_vnpu_bo(obj);

	if (bo->user)
		vnpu_user_uncharge(bo->user, VNPU_USER_MEM, obj->size);
	drm_gem_shmem_free(&bo->base);
}

static struct dma_buf *vnpu_gem_export(struct drm_gem_object *obj, int flags)
{
	/* An importer would read memory that a process may write at any time. */
	if (!vnpu_prime_export)
		return ERR_PTR(-EOPNOTSUPP);
	return drm_gem_prime_export(obj, flags);
}

static enum drm_gem_object_status vnpu_gem_status(struct drm_gem_object *obj)
{
	return vnpu_gem_resident(obj) ? DRM_GEM_OBJECT_RESIDENT : 0;
}

static const struct drm_gem_object_funcs vnpu_gem_funcs = {
	.free = vnpu_gem_free,
	.export = vnpu_gem_export,
	.status = vnpu_gem_status,
	.print_info = drm_gem_shmem_object_print_info,
	.pin = drm_gem_shmem_object_pin,
	.unpin = drm_gem_shmem_object_unpin,
	.get_sg_table = drm_gem_shmem_object_get_sg_table,
	.vmap = drm_gem_shmem_object_vmap,
	.vunmap = drm_gem_shmem_object_vunmap,
	.mmap = drm_gem_shmem_object_mmap,
	.vm_ops = &drm_gem_shmem_vm_ops,
};

struct drm_gem_object *vnpu_gem_create_object(struct drm_device *drm, size_t size)
{
	struct vnpu_bo *bo = kzalloc(sizeof(*bo), GFP_KERNEL_ACCOUNT);

	static_assert(offsetof(struct vnpu_bo, base) == 0);
	if (!bo)
		return ERR_PTR(-ENOMEM);
	bo->base.base.funcs = &vnpu_gem_funcs;
	/* PFN mappings do not mark pages dirty, and reclaim would drop clean pages. */
	bo->base.pages_mark_dirty_on_put = true;
	return &bo->base.base;
}

int vnpu_ioctl_bo_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct vnpu_device *vdev = to_vnpu_device(drm);
	struct vnpu_user *user = to_vnpu_file(file)->user;
	struct drm_vnpu_bo_create *args = data;
	struct drm_gem_shmem_object *shmem;
	struct vnpu_bo *bo;
	u64 size;
	int ret;

	if (args->flags & ~DRM_VNPU_BO_DEVICE_READ_ONLY)
		return -EINVAL;
	if (!args->size || args->size > vnpu_gem_max_size(vdev))
		return -EINVAL;
	size = PAGE_ALIGN(args->size);
	ret = vnpu_user_charge(user, VNPU_USER_MEM, size);
	if (ret)
		return ret;

	shmem = vnpu_gem_shmem_create(vdev, size);
	if (IS_ERR(shmem)) {
		vnpu_user_uncharge(user, VNPU_USER_MEM, size);
		/* tmpfs's error for a failed allocation; to clients it means the device's limit. */
		return PTR_ERR(shmem) == -ENOSPC ? -ENOMEM : PTR_ERR(shmem);
	}
	bo = to_vnpu_bo(&shmem->base);
	bo->user = user;
	bo->flags = args->flags;
	ret = drm_gem_create_mmap_offset(&shmem->base);
	if (!ret)
		ret = drm_gem_handle_create(file, &shmem->base, &args->handle);
	drm_gem_object_put(&shmem->base);
	if (!ret)
		args->size = size;
	return ret;
}

int vnpu_ioctl_bo_info(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_vnpu_bo_info *args = data;
	struct drm_gem_object *obj;

	obj = drm_gem_object_lookup(file, args->handle);
	if (!obj)
		return -ENOENT;
	args->flags = to_vnpu_bo(obj)->flags;
	args->size = obj->size;
	args->mmap_offset = drm_vma_node_offset_addr(&obj->vma_node);
	drm_gem_object_put(obj);
	return 0;
}
