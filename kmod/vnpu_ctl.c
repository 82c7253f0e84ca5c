// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/vnpu-control: adding, taking over, deleting and listing devices.
 */
#include <linux/ctype.h>
#include <linux/file.h>
#include <linux/log2.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>
#include <drm/drm_accel.h>
#include <drm/drm_drv.h>

#include "vnpu_ctl.h"
#include "vnpu_drv.h"
#include "vnpu_fw.h"

DEFINE_MUTEX(vnpu_ctl_lock);

/* id -> struct vnpu_device; under vnpu_ctl_lock. */
static DEFINE_XARRAY_ALLOC(vnpu_devices);

static int vnpu_ctl_version(struct vnpu_ctl_version __user *user)
{
	struct vnpu_ctl_version version = { .min = VNPU_FW_ABI_MIN, .max = VNPU_FW_ABI };

	return copy_to_user(user, &version, sizeof(version)) ? -EFAULT : 0;
}

static bool vnpu_ctl_version_ok(u32 version)
{
	return version >= VNPU_FW_ABI_MIN && version <= VNPU_FW_ABI;
}

static bool vnpu_ctl_name_ok(const char *name, size_t size)
{
	size_t len = strnlen(name, size);

	if (!len || len == size)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isascii(name[i]) || !isprint(name[i]))
			return false;
	return !memchr_inv(name + len, 0, size - len);
}

static int vnpu_ctl_check(const struct vnpu_ctl_add_dev *args)
{
	if (!vnpu_ctl_version_ok(args->version))
		return -EPROTO;
	if (args->flags || args->pad || memchr_inv(args->reserved, 0, sizeof(args->reserved)))
		return -EINVAL;
	if (!vnpu_ctl_name_ok(args->name, sizeof(args->name)))
		return -EINVAL;
	if (!args->nr_queues || args->nr_queues > VNPU_FW_MAX_QUEUES || !args->nr_ctx || args->nr_ctx > VNPU_FW_MAX_CTX)
		return -EINVAL;
	if (!is_power_of_2(args->queue_depth) || args->queue_depth > VNPU_FW_MAX_DEPTH ||
	    args->nr_queues * args->queue_depth > VNPU_FW_MAX_JOBS)
		return -EINVAL;
	if (args->user_ctx > args->nr_ctx || args->user_queues > args->nr_queues)
		return -EINVAL;
	if (args->va_bits < VNPU_FW_MIN_VA_BITS || args->va_bits > VNPU_FW_MAX_VA_BITS)
		return -EINVAL;
	if (args->timeout_ms > VNPU_FW_MAX_TIMEOUT_MS || args->max_timeout_ms > VNPU_FW_MAX_TIMEOUT_MS)
		return -EINVAL;
	if (args->max_timeout_ms && args->timeout_ms > args->max_timeout_ms)
		return -EINVAL;
	return 0;
}

/* Open the device's firmware fd for the caller, and tell him its number before he has it. */
static int vnpu_ctl_open(struct vnpu_device *vdev, void __user *user, void *args, size_t size, s32 *fw_fd)
{
	int fd = get_unused_fd_flags(O_CLOEXEC);
	struct file *file;

	if (fd < 0)
		return fd;
	*fw_fd = fd;
	if (copy_to_user(user, args, size)) {
		put_unused_fd(fd);
		return -EFAULT;
	}
	file = vnpu_fw_session_create(vdev);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	fd_install(fd, file);
	return 0;
}

static int vnpu_ctl_add(struct vnpu_ctl_add_dev __user *user)
{
	struct vnpu_ctl_add_dev args;
	struct vnpu_device *vdev;
	int ret;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	ret = vnpu_ctl_check(&args);
	if (ret)
		return ret;
	vdev = vnpu_device_create(&args);
	if (IS_ERR(vdev))
		return PTR_ERR(vdev);
	ret = xa_alloc(&vnpu_devices, &vdev->id, vdev, xa_limit_31b, GFP_KERNEL);
	if (ret) {
		vnpu_device_remove(vdev);
		return ret;
	}
	vdev->ring.info->dev_id = vdev->id;
	args.dev_id = vdev->id;
	ret = vnpu_ctl_open(vdev, user, &args, sizeof(args), &args.fw_fd);
	if (ret)
		vnpu_ctl_forget(vdev);
	return ret;
}

static int vnpu_ctl_attach(struct vnpu_ctl_attach __user *user)
{
	struct vnpu_ctl_attach args;
	struct vnpu_device *vdev;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	if (!vnpu_ctl_version_ok(args.version))
		return -EPROTO;
	if (args.pad)
		return -EINVAL;
	vdev = xa_load(&vnpu_devices, args.dev_id);
	if (!vdev)
		return -ENOENT;
	return vnpu_ctl_open(vdev, user, &args, sizeof(args), &args.fw_fd);
}

/* Take the device out of the list and let it go; its users see -ENODEV. Under vnpu_ctl_lock; only the first call counts. */
void vnpu_ctl_forget(struct vnpu_device *vdev)
{
	if (xa_cmpxchg(&vnpu_devices, vdev->id, vdev, NULL, 0) == vdev)
		vnpu_device_remove(vdev);
}

static int vnpu_ctl_del(struct vnpu_ctl_del_dev __user *user)
{
	struct vnpu_ctl_del_dev args;
	struct vnpu_device *vdev;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	if (args.flags)
		return -EINVAL;
	vdev = xa_load(&vnpu_devices, args.dev_id);
	if (!vdev)
		return -ENOENT;
	vnpu_ctl_forget(vdev);
	return 0;
}

static int vnpu_ctl_info(struct vnpu_ctl_info __user *user)
{
	struct vnpu_ctl_info args;
	struct vnpu_device *vdev;
	unsigned long id;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	if (args.pad)
		return -EINVAL;
	id = args.dev_id;
	vdev = xa_find(&vnpu_devices, &id, U32_MAX, XA_PRESENT);
	if (!vdev)
		return -ENOENT;
	args = (struct vnpu_ctl_info){ .dev_id = id, .accel_minor = -1 };
	memcpy(args.name, vdev->name, sizeof(args.name));
	if (vdev->registered)
		args.accel_minor = vdev->drm.accel->index;
	spin_lock(&vdev->lock);
	args.epoch = vdev->epoch;
	if (vdev->wedged)
		args.state = VNPU_CTL_DEV_WEDGED;
	else if (vdev->ready)
		args.state = VNPU_CTL_DEV_READY;
	else
		args.state = vdev->registered ? VNPU_CTL_DEV_LOST : VNPU_CTL_DEV_NEW;
	if (vdev->session)
		args.fw_pid = pid_vnr(vdev->session->pid);
	spin_unlock(&vdev->lock);
	return copy_to_user(user, &args, sizeof(args)) ? -EFAULT : 0;
}

static long vnpu_ctl_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	long ret;

	mutex_lock(&vnpu_ctl_lock);
	switch (cmd) {
	case VNPU_CTL_VERSION:
		ret = vnpu_ctl_version(user);
		break;
	case VNPU_CTL_ADD_DEV:
		ret = vnpu_ctl_add(user);
		break;
	case VNPU_CTL_ATTACH:
		ret = vnpu_ctl_attach(user);
		break;
	case VNPU_CTL_DEL_DEV:
		ret = vnpu_ctl_del(user);
		break;
	case VNPU_CTL_INFO:
		ret = vnpu_ctl_info(user);
		break;
	default:
		ret = -ENOTTY;
	}
	mutex_unlock(&vnpu_ctl_lock);
	return ret;
}

static const struct file_operations vnpu_ctl_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = vnpu_ctl_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice vnpu_ctl_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = VNPU_FW_CONTROL_NODE,
	.mode = 0600,
	.fops = &vnpu_ctl_fops,
};

int vnpu_ctl_init(void)
{
	return misc_register(&vnpu_ctl_misc);
}

/* The module goes: what is left are devices whose firmware died. */
void vnpu_ctl_exit(void)
{
	struct vnpu_device *vdev;
	unsigned long id;

	misc_deregister(&vnpu_ctl_misc);
	mutex_lock(&vnpu_ctl_lock);
	xa_for_each (&vnpu_devices, id, vdev)
		vnpu_ctl_forget(vdev);
	mutex_unlock(&vnpu_ctl_lock);
	xa_destroy(&vnpu_devices);
}
