// SPDX-License-Identifier: GPL-2.0-only
/*
 * vnpu.ko: an accel driver whose device is a process. Module, devices, files.
 */
#include <linux/device.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <drm/drm_accel.h>
#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_managed.h>
#include <drm/drm_print.h>

#include "vnpu_compat.h"
#include "vnpu_ctl.h"
#include "vnpu_ctx.h"
#include "vnpu_debugfs.h"
#include "vnpu_drv.h"
#include "vnpu_fw.h"
#include "vnpu_gem.h"
#include "vnpu_queue.h"
#include "vnpu_reset.h"
#include "vnpu_stats.h"
#include "vnpu_submit.h"
#include "vnpu_sysfs.h"
#include "vnpu_uapi.h"
#include "vnpu_user.h"
#include "vnpu_vm.h"

bool vnpu_prime_export;
module_param_named(prime_export, vnpu_prime_export, bool, 0644);
MODULE_PARM_DESC(prime_export,
		 "allow buffers to leave as dma-bufs; whoever imports them may wait for a process (default: no)");

unsigned int vnpu_timeout_ms = 10000;
module_param_named(timeout_ms, vnpu_timeout_ms, uint, 0644);
MODULE_PARM_DESC(timeout_ms, "timeout of a job that names none (default: 10000)");

unsigned int vnpu_max_timeout_ms = 60000;
module_param_named(max_timeout_ms, vnpu_max_timeout_ms, uint, 0644);
MODULE_PARM_DESC(max_timeout_ms, "longest timeout that a job may name, and longest run of a job (default: 60000)");

unsigned int vnpu_reset_ms = 2000;
module_param_named(reset_ms, vnpu_reset_ms, uint, 0644);
MODULE_PARM_DESC(reset_ms, "a device that owes an answer for longer is reset (default: 2000)");

unsigned int vnpu_max_resets = 3;
module_param_named(max_resets, vnpu_max_resets, uint, 0644);
MODULE_PARM_DESC(max_resets, "resets in a row, without a job that succeeds, that wedge a device; 0: none do (default: 3)");

struct workqueue_struct *vnpu_release_wq;

/* Devices whose memory is not yet free, for the module's exit. */
static atomic_t vnpu_live_devices = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(vnpu_live_wait);

/* ---- files ---- */

static int vnpu_open(struct drm_device *drm, struct drm_file *file)
{
	struct vnpu_file *vfile = kzalloc(sizeof(*vfile), GFP_KERNEL_ACCOUNT);

	if (!vfile)
		return -ENOMEM;
	vfile->vdev = to_vnpu_device(drm);
	vfile->user = vnpu_user_get(vfile->vdev);
	if (!vfile->user) {
		kfree(vfile);
		return -ENOMEM;
	}
	xa_init_flags(&vfile->ctxs, XA_FLAGS_ALLOC1);
	xa_init_flags(&vfile->queues, XA_FLAGS_ALLOC1);
	file->driver_priv = vfile;
	return 0;
}

static void vnpu_postclose(struct drm_device *drm, struct drm_file *file)
{
	struct vnpu_file *vfile = to_vnpu_file(file);
	struct vnpu_ctx *ctx;
	unsigned long id;

	xa_for_each (&vfile->ctxs, id, ctx) {
		xa_erase(&vfile->ctxs, id);
		vnpu_ctx_close(vfile, ctx);
	}
	xa_destroy(&vfile->ctxs);
	xa_destroy(&vfile->queues);
	vnpu_user_put(vfile->user);
	kfree(vfile);
}

static int vnpu_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct drm_file *file = filp->private_data;

	if (drm_dev_is_unplugged(&to_vnpu_file(file)->vdev->drm))
		return -ENODEV;
	/* GEM's offsets begin at 4 GiB. */
	if (vma->vm_pgoff < DRM_FILE_PAGE_OFFSET_START)
		return vnpu_queue_mmap(to_vnpu_file(file), vma);
	return drm_gem_mmap(filp, vma);
}

static const struct file_operations vnpu_fops = {
	.owner = THIS_MODULE,
	.open = accel_open,
	.release = drm_release,
	.unlocked_ioctl = drm_ioctl,
	.compat_ioctl = drm_compat_ioctl,
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.mmap = vnpu_mmap,
	.show_fdinfo = drm_show_fdinfo,
	.fop_flags = FOP_UNSIGNED_OFFSET,
};

#define VNPU_IOCTL(name, func) DRM_IOCTL_DEF_DRV(VNPU_##name, func, 0)
static const struct drm_ioctl_desc vnpu_ioctls[] = {
	VNPU_IOCTL(DEV_QUERY, vnpu_ioctl_dev_query),
	VNPU_IOCTL(BO_CREATE, vnpu_ioctl_bo_create),
	VNPU_IOCTL(BO_INFO, vnpu_ioctl_bo_info),
	VNPU_IOCTL(BO_WAIT, vnpu_ioctl_bo_wait),
	VNPU_IOCTL(CTX_CREATE, vnpu_ioctl_ctx_create),
	VNPU_IOCTL(CTX_DESTROY, vnpu_ioctl_ctx_destroy),
	VNPU_IOCTL(CTX_GET_STATE, vnpu_ioctl_ctx_get_state),
	VNPU_IOCTL(VM_BIND, vnpu_ioctl_vm_bind),
	VNPU_IOCTL(QUEUE_CREATE, vnpu_ioctl_queue_create),
	VNPU_IOCTL(QUEUE_DESTROY, vnpu_ioctl_queue_destroy),
	VNPU_IOCTL(SUBMIT, vnpu_ioctl_submit),
	VNPU_IOCTL(WAIT, vnpu_ioctl_wait),
};

/* Without gem_prime_import_sg_table DRM refuses buffers of other devices. */
static const struct drm_driver vnpu_driver = {
	.driver_features = DRIVER_COMPUTE_ACCEL | DRIVER_GEM | DRIVER_SYNCOBJ | DRIVER_SYNCOBJ_TIMELINE,
	.open = vnpu_open,
	.postclose = vnpu_postclose,
	.gem_create_object = vnpu_gem_create_object,
	.show_fdinfo = vnpu_show_fdinfo,
	.ioctls = vnpu_ioctls,
	.num_ioctls = ARRAY_SIZE(vnpu_ioctls),
	.fops = &vnpu_fops,
	.name = "vnpu",
	.desc = "virtual NPU",
#ifdef HAVE_DRM_DRIVER_DATE
	.date = "20260101",
#endif
	.major = 1,
	.minor = 0,
};

/* ---- devices ---- */

/* The last reference is gone: nobody can reach the device any more. */
static void vnpu_device_free(struct drm_device *drm, void *unused)
{
	struct vnpu_device *vdev = to_vnpu_device(drm);

	if (vdev->submit_wq)
		destroy_workqueue(vdev->submit_wq);
	if (vdev->watchdog_wq)
		destroy_workqueue(vdev->watchdog_wq);
	vnpu_fw_free_regions(vdev);
	if (vdev->hwqs)
		kvfree(vdev->hwqs[0].slots);
	kvfree(vdev->hwqs);
	kvfree(vdev->ctxs);
	if (atomic_dec_and_test(&vnpu_live_devices))
		wake_up(&vnpu_live_wait);
}

static int vnpu_device_init(struct vnpu_device *vdev)
{
	struct vnpu_fence **slots;
	int ret;

	mutex_init(&vdev->map_lock);
	spin_lock_init(&vdev->lock);
	spin_lock_init(&vdev->users_lock);
	INIT_LIST_HEAD(&vdev->users);
	init_waitqueue_head(&vdev->fw_wait);
	vnpu_reset_init(vdev);
	vdev->epoch = 1;
	atomic_inc(&vnpu_live_devices);
	ret = drmm_add_action_or_reset(&vdev->drm, vnpu_device_free, NULL);
	if (ret)
		return ret;

	/* drm_sched asks for WQ_MEM_RECLAIM: the end of a job may be what frees memory. */
	vdev->submit_wq = alloc_workqueue("vnpu-submit", WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_HIGHPRI, 0);
	vdev->watchdog_wq = alloc_workqueue("vnpu-watchdog", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!vdev->submit_wq || !vdev->watchdog_wq)
		return -ENOMEM;
	vdev->ctxs = kvcalloc(vdev->nr_ctx + 1, sizeof(*vdev->ctxs), GFP_KERNEL_ACCOUNT);
	vdev->hwqs = kvcalloc(vdev->nr_queues, sizeof(*vdev->hwqs), GFP_KERNEL_ACCOUNT);
	if (!vdev->ctxs || !vdev->hwqs)
		return -ENOMEM;
	slots = kvcalloc(array_size(vdev->nr_queues, vdev->queue_depth), sizeof(*slots), GFP_KERNEL_ACCOUNT);
	if (!slots)
		return -ENOMEM;
	for (u32 i = 0; i < vdev->nr_queues; i++) {
		vdev->hwqs[i].slots = slots + (size_t)i * vdev->queue_depth;
		vdev->hwqs[i].mask = vdev->queue_depth - 1;
	}
	return vnpu_fw_alloc_regions(vdev);
}

/* Drop the reference of devm_drm_dev_alloc(). */
static void vnpu_device_drop(struct device *parent)
{
	devres_release_group(parent, NULL);
	vnpu_compat_parent_destroy(parent);
}

/* A device that nobody sees yet. It is let go with vnpu_device_remove(). */
struct vnpu_device *vnpu_device_create(const struct vnpu_ctl_add_dev *args)
{
	struct device *parent = vnpu_compat_parent_create();
	struct vnpu_device *vdev;
	int ret;

	if (IS_ERR(parent))
		return ERR_CAST(parent);
	/* Without a driver that is unbound, the parent's resources wait for its last reference, which the device holds. */
	if (!devres_open_group(parent, NULL, GFP_KERNEL)) {
		vnpu_compat_parent_destroy(parent);
		return ERR_PTR(-ENOMEM);
	}
	vdev = devm_drm_dev_alloc(parent, &vnpu_driver, struct vnpu_device, drm);
	if (IS_ERR(vdev)) {
		vnpu_device_drop(parent);
		return vdev;
	}
	vdev->parent = parent;
	memcpy(vdev->name, args->name, sizeof(vdev->name));
	vdev->features = args->features;
	vdev->mem_limit = args->mem_limit;
	vdev->isa_version = args->isa_version;
	vdev->nr_queues = args->nr_queues;
	vdev->queue_depth = args->queue_depth;
	vdev->nr_ctx = args->nr_ctx;
	vdev->va_bits = args->va_bits;
	vdev->timeout_ms = args->timeout_ms;
	vdev->max_timeout_ms = args->max_timeout_ms;
	vdev->user_limits[VNPU_USER_CTX] = args->user_ctx ?: max(1u, args->nr_ctx / 2);
	vdev->user_limits[VNPU_USER_QUEUES] = args->user_queues ?: max(1u, args->nr_queues / 2);
	vdev->user_limits[VNPU_USER_MEM] = args->user_mem;
	ret = vnpu_device_init(vdev);
	if (ret) {
		vnpu_device_drop(parent);
		return ERR_PTR(ret);
	}
	return vdev;
}

/* Under vnpu_ctl_lock. */
int vnpu_device_register(struct vnpu_device *vdev)
{
	int ret;

	vnpu_debugfs_add(vdev);
	/* Before the node is announced, so that whoever hears of it finds them. */
	ret = vnpu_sysfs_add(vdev);
	if (ret)
		return ret;
	ret = drm_dev_register(&vdev->drm, 0);
	if (ret)
		vnpu_sysfs_remove(vdev);
	vdev->registered = !ret;
	return ret;
}

/* Under vnpu_ctl_lock. Frees the device unless files, mappings or jobs hold it. */
void vnpu_device_remove(struct vnpu_device *vdev)
{
	if (vdev->session)
		vnpu_fw_session_end(vdev->session, DRM_VNPU_LOSS_EXIT, -ENODEV, NULL, NULL);
	vnpu_debugfs_remove(vdev);
	if (vdev->registered) {
		vnpu_sysfs_remove(vdev);
		drm_dev_unplug(&vdev->drm);
	}
	vnpu_device_drop(vdev->parent);
}

/* ---- the module ---- */

static int __init vnpu_init(void)
{
	int ret;

	vnpu_release_wq = alloc_workqueue("vnpu-release", WQ_UNBOUND, 0);
	if (!vnpu_release_wq)
		return -ENOMEM;
	ret = vnpu_ctl_init();
	if (ret)
		destroy_workqueue(vnpu_release_wq);
	return ret;
}

static void __exit vnpu_exit(void)
{
	vnpu_ctl_exit();
	/* Queues of files that were closed just now may still be taken apart, and hold their devices. */
	wait_event(vnpu_live_wait, !atomic_read(&vnpu_live_devices));
	destroy_workqueue(vnpu_release_wq);
	synchronize_rcu();
}

module_init(vnpu_init);
module_exit(vnpu_exit);

MODULE_DESCRIPTION("virtual NPU");
MODULE_LICENSE("GPL");
