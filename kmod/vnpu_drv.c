// SPDX-License-Identifier: GPL-2.0-only
/* vnpu.ko: an accel driver whose device is a process. Module, devices, files. */
#include <linux/suspend.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_managed.h>

#include "vnpu_compat.h"
#include "vnpu_fw.h"
#include "vnpu_gem.h"
#include "vnpu_queue.h"

/* ---- parameters ---- */

bool vnpu_prime_export;
module_param_named(prime_export, vnpu_prime_export, bool, 0644);
MODULE_PARM_DESC(prime_export, "let buffers leave as dma-bufs (default: no)");

bool vnpu_fence_export;
module_param_named(fence_export, vnpu_fence_export, bool, 0644);
MODULE_PARM_DESC(fence_export,
		 "let fences leave as sync_files and syncobjs, to be waited for (default: no)");

struct vnpu_param {
	unsigned int *value, min, max;
};

static int vnpu_param_set(const char *val, const struct kernel_param *kp)
{
	const struct vnpu_param *param = kp->arg;
	unsigned int value;
	int ret = kstrtouint(val, 0, &value);

	if (ret)
		return ret;
	if (value < param->min || value > param->max)
		return -ERANGE;
	WRITE_ONCE(*param->value, value);
	return 0;
}

static int vnpu_param_get(char *buf, const struct kernel_param *kp)
{
	const struct vnpu_param *param = kp->arg;

	return sysfs_emit(buf, "%u\n", *param->value);
}

static const struct kernel_param_ops vnpu_param_ops = {
	.set = vnpu_param_set,
	.get = vnpu_param_get,
};

/* A parameter with bounds; other values are refused. */
#define VNPU_PARAM(name, first, min, max, text)                                  \
	unsigned int vnpu_##name = first;                                        \
	static struct vnpu_param vnpu_param_##name = { &vnpu_##name, min, max }; \
	module_param_cb(name, &vnpu_param_ops, &vnpu_param_##name, 0644);        \
	__MODULE_PARM_TYPE(name, "uint");                                        \
	MODULE_PARM_DESC(name, text " (default: " #first ")")

VNPU_PARAM(timeout_ms, 10000, 1, VNPU_FW_MAX_TIMEOUT_MS, "timeout of a job that names none");
VNPU_PARAM(max_timeout_ms, 60000, 1, VNPU_FW_MAX_TIMEOUT_MS,
	   "longest timeout that a job may name, and longest run of a job");
VNPU_PARAM(reset_ms, 10000, 1, VNPU_FW_MAX_TIMEOUT_MS,
	   "a device that owes an answer for longer is reset");
VNPU_PARAM(max_resets, 3, 0, VNPU_MAX_RESETS,
	   "resets within reset_window_s that wedge a device; 0: none do");
VNPU_PARAM(reset_window_s, 600, 1, 86400, "the time in which resets are counted");

struct workqueue_struct *vnpu_wq;
struct workqueue_struct *vnpu_reset_wq;

/* Devices whose memory is not freed yet; module exit waits for them. */
static atomic_t vnpu_live_devices = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(vnpu_live_wait);

/* ---- files ---- */

static int vnpu_open(struct drm_device *drm, struct drm_file *file)
{
	struct vnpu_file *vfile __free(kfree) = kzalloc(sizeof(*vfile), GFP_KERNEL_ACCOUNT);

	if (!vfile)
		return -ENOMEM;
	vfile->vdev = to_vnpu_device(drm);
	vfile->user = vnpu_user_get(vfile->vdev);
	if (!vfile->user)
		return -ENOMEM;
	xa_init_flags(&vfile->ctxs, XA_FLAGS_ALLOC1);
	xa_init_flags(&vfile->queues, XA_FLAGS_ALLOC1);
	file->driver_priv = no_free_ptr(vfile);
	return 0;
}

static void vnpu_postclose(struct drm_device *drm, struct drm_file *file)
{
	struct vnpu_file *vfile = to_vnpu_file(file);
	struct vnpu_ctx *ctx;
	unsigned long id;

	xa_for_each(&vfile->ctxs, id, ctx) {
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

/*
 * Some of DRM's core calls assume a master, which the files of an accel node do not have, and
 * others are useless without a display. Clients get only those that they need.
 */
static bool vnpu_ioctl_allowed(unsigned int nr)
{
	switch (nr) {
	case DRM_COMMAND_BASE ... DRM_COMMAND_END - 1:
	case DRM_IOCTL_NR(DRM_IOCTL_VERSION):
	case DRM_IOCTL_NR(DRM_IOCTL_GET_CAP):
	case DRM_IOCTL_NR(DRM_IOCTL_SET_CLIENT_CAP):
#ifdef DRM_IOCTL_SET_CLIENT_NAME
	case DRM_IOCTL_NR(DRM_IOCTL_SET_CLIENT_NAME):
#endif
	case DRM_IOCTL_NR(DRM_IOCTL_GEM_CLOSE):
	case DRM_IOCTL_NR(DRM_IOCTL_PRIME_HANDLE_TO_FD):
	case DRM_IOCTL_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_CREATE):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_DESTROY):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_WAIT):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_RESET):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_SIGNAL):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_QUERY):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_TRANSFER):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_EVENTFD):
		return true;
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD):
	case DRM_IOCTL_NR(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE):
		/* See "DOC: fences that a process signals". */
		return READ_ONCE(vnpu_fence_export);
	default:
		return false;
	}
}

static long vnpu_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return vnpu_ioctl_allowed(DRM_IOCTL_NR(cmd)) ? drm_ioctl(filp, cmd, arg) : -EOPNOTSUPP;
}

#ifdef CONFIG_COMPAT
static long vnpu_compat_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	if (!vnpu_ioctl_allowed(DRM_IOCTL_NR(cmd)))
		return -EOPNOTSUPP;
	return drm_compat_ioctl(filp, cmd, arg);
}
#endif

static const struct file_operations vnpu_fops = {
	.owner = THIS_MODULE,
	.open = accel_open,
	.release = drm_release,
	.unlocked_ioctl = vnpu_ioctl,
#ifdef CONFIG_COMPAT
	.compat_ioctl = vnpu_compat_ioctl,
#endif
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.mmap = vnpu_mmap,
#ifdef HAVE_DRM_GEM_GET_UNMAPPED_AREA
	.get_unmapped_area = drm_gem_get_unmapped_area,
#endif
	.show_fdinfo = drm_show_fdinfo,
	.fop_flags = FOP_UNSIGNED_OFFSET,
};

static const struct drm_ioctl_desc vnpu_ioctls[] = {
	DRM_IOCTL_DEF_DRV(VNPU_DEV_QUERY, vnpu_ioctl_dev_query, 0),
	DRM_IOCTL_DEF_DRV(VNPU_BO_CREATE, vnpu_ioctl_bo_create, 0),
	DRM_IOCTL_DEF_DRV(VNPU_BO_INFO, vnpu_ioctl_bo_info, 0),
	DRM_IOCTL_DEF_DRV(VNPU_CTX_CREATE, vnpu_ioctl_ctx_create, 0),
	DRM_IOCTL_DEF_DRV(VNPU_CTX_DESTROY, vnpu_ioctl_ctx_destroy, 0),
	DRM_IOCTL_DEF_DRV(VNPU_CTX_GET_STATE, vnpu_ioctl_ctx_get_state, 0),
	DRM_IOCTL_DEF_DRV(VNPU_VM_BIND, vnpu_ioctl_vm_bind, 0),
	DRM_IOCTL_DEF_DRV(VNPU_QUEUE_CREATE, vnpu_ioctl_queue_create, 0),
	DRM_IOCTL_DEF_DRV(VNPU_QUEUE_DESTROY, vnpu_ioctl_queue_destroy, 0),
	DRM_IOCTL_DEF_DRV(VNPU_SUBMIT, vnpu_ioctl_submit, 0),
	DRM_IOCTL_DEF_DRV(VNPU_WAIT, vnpu_ioctl_wait, 0),
};

/* Without gem_prime_import_sg_table DRM refuses buffers of other devices. */
static const struct drm_driver vnpu_driver = {
	.driver_features =
		DRIVER_COMPUTE_ACCEL | DRIVER_GEM | DRIVER_SYNCOBJ | DRIVER_SYNCOBJ_TIMELINE,
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

/* The last reference is gone: nobody can access the device any more. */
static void vnpu_device_free(struct drm_device *drm, void *unused)
{
	struct vnpu_device *vdev = to_vnpu_device(drm);

	vfree(vdev->shared);
	kvfree(vdev->hwqs);
	kvfree(vdev->ctxs);
	if (atomic_dec_and_test(&vnpu_live_devices))
		wake_up(&vnpu_live_wait);
}

static int vnpu_device_init(struct vnpu_device *vdev)
{
	int ret;

	mutex_init(&vdev->map_lock);
	spin_lock_init(&vdev->lock);
	spin_lock_init(&vdev->users_lock);
	INIT_LIST_HEAD(&vdev->users);
	init_waitqueue_head(&vdev->fw_wait);
	INIT_DELAYED_WORK(&vdev->reset_work, vnpu_reset_work);
	vdev->epoch = 1;
	atomic_inc(&vnpu_live_devices);
	ret = drmm_add_action_or_reset(&vdev->drm, vnpu_device_free, NULL);
	if (ret)
		return ret;
	vdev->ctxs = kvcalloc(vdev->nr_ctx + 1, sizeof(*vdev->ctxs), GFP_KERNEL_ACCOUNT);
	vdev->hwqs = kvcalloc(vdev->nr_queues, sizeof(*vdev->hwqs), GFP_KERNEL_ACCOUNT);
	if (!vdev->ctxs || !vdev->hwqs)
		return -ENOMEM;
	ret = vnpu_gem_init(vdev);
	if (ret)
		return ret;
	return vnpu_fw_alloc(vdev);
}

/* Drop the reference of devm_drm_dev_alloc(). */
static void vnpu_device_drop(struct device *parent)
{
	devres_release_group(parent, NULL);
	vnpu_compat_parent_destroy(parent);
}

/* Create a device that nobody sees yet. Release it with vnpu_device_remove(). */
struct vnpu_device *vnpu_device_create(const struct vnpu_ctl_add_dev *args)
{
	u64 half = (u64)totalram_pages() << PAGE_SHIFT >> 1;
	struct device *parent = vnpu_compat_parent_create();
	struct vnpu_device *vdev;
	int ret;

	if (IS_ERR(parent))
		return ERR_CAST(parent);
	/* No driver unbinds the parent: its resources go with the device's last reference. */
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
	vdev->features = args->client_features;
	vdev->mem_limit = args->mem_limit ?: half;
	vdev->isa_version = args->isa_version;
	vdev->nr_queues = args->nr_queues;
	vdev->queue_depth = args->queue_depth;
	vdev->nr_ctx = args->nr_ctx;
	vdev->va_bits = args->va_bits;
	vdev->timeout_ms = args->timeout_ms;
	vdev->max_timeout_ms = args->max_timeout_ms;
	vdev->user_limits[VNPU_USER_CTX] = args->user_ctx ?: max(1u, args->nr_ctx / 2);
	vdev->user_limits[VNPU_USER_QUEUES] = args->user_queues ?: max(1u, args->nr_queues / 2);
	vdev->user_limits[VNPU_USER_MEM] = args->user_mem ?: half;
	ret = vnpu_device_init(vdev);
	if (ret) {
		vnpu_device_drop(parent);
		return ERR_PTR(ret);
	}
	return vdev;
}

/* Called under vnpu_ctl_lock. */
int vnpu_device_register(struct vnpu_device *vdev)
{
	int ret;

	vnpu_debugfs_add(vdev);
	/* Before the node is announced, so that listeners find the files. */
	ret = vnpu_stats_add(vdev);
	if (ret)
		return ret;
	ret = drm_dev_register(&vdev->drm, 0);
	if (ret)
		vnpu_stats_remove(vdev);
	vdev->registered = !ret;
	return ret;
}

/* Called under vnpu_ctl_lock. The device is freed when no file, mapping or job holds it. */
void vnpu_device_remove(struct vnpu_device *vdev)
{
	struct vnpu_session *session = vnpu_session_get(vdev);

	if (session) {
		vnpu_fw_session_end(session, DRM_VNPU_LOSS_EXIT, -ENODEV, NULL);
		vnpu_session_put(session);
	}
	vnpu_debugfs_remove(vdev);
	if (vdev->registered) {
		vnpu_stats_remove(vdev);
		drm_dev_unplug(&vdev->drm);
	}
	vnpu_device_drop(vdev->parent);
}

/* ---- the module ---- */

static int __init vnpu_init(void)
{
	int ret = -ENOMEM;

	vnpu_wq = alloc_workqueue("vnpu", WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_HIGHPRI, 0);
	vnpu_reset_wq = alloc_workqueue("vnpu-reset", WQ_UNBOUND, 0);
	if (!vnpu_wq || !vnpu_reset_wq)
		goto err_wq;
	ret = register_pm_notifier(&vnpu_watchdog_nb);
	if (ret)
		goto err_wq;
	ret = vnpu_ctl_init();
	if (!ret)
		return 0;

	unregister_pm_notifier(&vnpu_watchdog_nb);
err_wq:
	if (vnpu_reset_wq)
		destroy_workqueue(vnpu_reset_wq);
	if (vnpu_wq)
		destroy_workqueue(vnpu_wq);
	return ret;
}

static void __exit vnpu_exit(void)
{
	unregister_pm_notifier(&vnpu_watchdog_nb);
	vnpu_ctl_exit();
	/* A reset or the work item of a banned context may still hold its device. */
	wait_event(vnpu_live_wait, !atomic_read(&vnpu_live_devices));
	destroy_workqueue(vnpu_reset_wq);
	destroy_workqueue(vnpu_wq);
	synchronize_rcu();
}

module_init(vnpu_init);
module_exit(vnpu_exit);

MODULE_DESCRIPTION("virtual NPU");
MODULE_LICENSE("GPL");
