// SPDX-License-Identifier: GPL-2.0-only
/* /dev/vnpu-control: add, attach to, delete and list devices. */
#include <linux/ctype.h>
#include <linux/file.h>
#include <linux/miscdevice.h>

#include "vnpu_fw.h"

/* See vnpu_drv.h. */
DEFINE_MUTEX(vnpu_ctl_lock);

/* Sizes in the first release of the ABI. */
#define VNPU_CTL_ADD_DEV_SIZE_1 offsetofend(struct vnpu_ctl_add_dev, user_mem)
#define VNPU_CTL_ATTACH_SIZE_1 offsetofend(struct vnpu_ctl_attach, fw_fd)

/* id -> struct vnpu_device; under vnpu_ctl_lock. */
static DEFINE_XARRAY_ALLOC(vnpu_devices);

static int vnpu_ctl_version(struct vnpu_ctl_version __user *user)
{
	struct vnpu_ctl_version version = {
		.min = VNPU_FW_ABI_MIN,
		.max = VNPU_FW_ABI,
		.features = VNPU_FW_FEATURES,
	};

	return copy_to_user(user, &version, sizeof(version)) ? -EFAULT : 0;
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

/* Copy the structure at @user, which begins with its size; fill a shorter one with zeros. */
static int vnpu_ctl_copy(void *args, size_t size, size_t min_size, const void __user *user)
{
	u32 usize;

	if (get_user(usize, (const u32 __user *)user))
		return -EFAULT;
	if (usize < min_size)
		return -EINVAL;
	if (usize > PAGE_SIZE)
		return -E2BIG;
	return copy_struct_from_user(args, size, user, usize);
}

static int vnpu_ctl_check(const struct vnpu_ctl_add_dev *args)
{
	if (args->version < VNPU_FW_ABI_MIN || args->version > VNPU_FW_ABI)
		return -EPROTO;
	if (args->flags || !vnpu_ctl_name_ok(args->name, sizeof(args->name)))
		return -EINVAL;
	if (!args->nr_queues || args->nr_queues > VNPU_FW_MAX_QUEUES || !args->nr_ctx ||
	    args->nr_ctx > VNPU_FW_MAX_CTX)
		return -EINVAL;
	if (!is_power_of_2(args->queue_depth) || args->queue_depth > VNPU_FW_MAX_DEPTH ||
	    args->nr_queues * args->queue_depth > VNPU_FW_MAX_JOBS)
		return -EINVAL;
	if (args->user_ctx > args->nr_ctx || args->user_queues > args->nr_queues)
		return -EINVAL;
	if (args->va_bits < VNPU_FW_MIN_VA_BITS || args->va_bits > VNPU_FW_MAX_VA_BITS)
		return -EINVAL;
	if (args->max_timeout_ms > VNPU_FW_MAX_TIMEOUT_MS ||
	    args->timeout_ms > (args->max_timeout_ms ?: VNPU_FW_MAX_TIMEOUT_MS))
		return -EINVAL;
	return 0;
}

/* Make the device's firmware fd, for vnpu_ctl_return(). */
static int vnpu_ctl_open(struct vnpu_device *vdev, s32 *fw_fd, struct file **file)
{
	*fw_fd = get_unused_fd_flags(O_CLOEXEC);
	if (*fw_fd < 0)
		return *fw_fd;
	*file = vnpu_fw_session_create(vdev);
	if (!IS_ERR(*file))
		return 0;
	put_unused_fd(*fw_fd);
	return PTR_ERR(*file);
}

/* Copy the results to the caller, then install the fd. Without them the session ends. */
static int vnpu_ctl_return(void __user *user, const void *args, size_t size, s32 fw_fd,
			   struct file *file)
{
	if (copy_to_user(user, args, size)) {
		put_unused_fd(fw_fd);
		fput(file);
		return -EFAULT;
	}
	fd_install(fw_fd, file);
	return 0;
}

static int vnpu_ctl_add_locked(struct vnpu_ctl_add_dev *args, struct file **file)
{
	struct vnpu_device *vdev;
	int ret;

	guard(mutex)(&vnpu_ctl_lock);
	vdev = vnpu_device_create(args);
	if (IS_ERR(vdev))
		return PTR_ERR(vdev);
	ret = xa_alloc(&vnpu_devices, &vdev->id, vdev, xa_limit_31b, GFP_KERNEL);
	if (ret) {
		vnpu_device_remove(vdev);
		return ret;
	}
	vdev->ring.info->dev_id = vdev->id;
	args->dev_id = vdev->id;
	ret = vnpu_ctl_open(vdev, &args->fw_fd, file);
	if (ret)
		vnpu_ctl_forget(vdev);
	return ret;
}

static int vnpu_ctl_add(struct vnpu_ctl_add_dev __user *user)
{
	struct vnpu_ctl_add_dev args;
	struct file *file;
	u32 usize;
	int ret;

	ret = vnpu_ctl_copy(&args, sizeof(args), VNPU_CTL_ADD_DEV_SIZE_1, user);
	if (!ret)
		ret = vnpu_ctl_check(&args);
	if (ret)
		return ret;
	usize = min(args.size, sizeof(args));
	ret = vnpu_ctl_add_locked(&args, &file);
	args.abi_features &= VNPU_FW_FEATURES;
	return ret ?: vnpu_ctl_return(user, &args, usize, args.fw_fd, file);
}

static int vnpu_ctl_attach_locked(struct vnpu_ctl_attach *args, struct file **file)
{
	struct vnpu_device *vdev;

	guard(mutex)(&vnpu_ctl_lock);
	vdev = xa_load(&vnpu_devices, args->dev_id);
	return vdev ? vnpu_ctl_open(vdev, &args->fw_fd, file) : -ENOENT;
}

static int vnpu_ctl_attach(struct vnpu_ctl_attach __user *user)
{
	struct vnpu_ctl_attach args;
	struct file *file;
	int ret;

	ret = vnpu_ctl_copy(&args, sizeof(args), VNPU_CTL_ATTACH_SIZE_1, user);
	if (ret)
		return ret;
	if (args.version < VNPU_FW_ABI_MIN || args.version > VNPU_FW_ABI)
		return -EPROTO;
	ret = vnpu_ctl_attach_locked(&args, &file);
	args.abi_features &= VNPU_FW_FEATURES;
	return ret ?: vnpu_ctl_return(user, &args, min(args.size, sizeof(args)), args.fw_fd, file);
}

/*
 * Remove the device from the list and drop it; its users get -ENODEV. Called under vnpu_ctl_lock;
 * later calls have no effect.
 */
void vnpu_ctl_forget(struct vnpu_device *vdev)
{
	if (xa_cmpxchg(&vnpu_devices, vdev->id, vdev, NULL, 0) == vdev)
		vnpu_device_remove(vdev);
}

/* Call @fn for all devices. */
void vnpu_ctl_for_each(void (*fn)(struct vnpu_device *vdev))
{
	struct vnpu_device *vdev;
	unsigned long id;

	guard(mutex)(&vnpu_ctl_lock);
	xa_for_each(&vnpu_devices, id, vdev)
		fn(vdev);
}

static int vnpu_ctl_del(struct vnpu_ctl_del_dev __user *user)
{
	struct vnpu_ctl_del_dev args;
	struct vnpu_device *vdev;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	if (args.flags)
		return -EINVAL;
	guard(mutex)(&vnpu_ctl_lock);
	vdev = xa_load(&vnpu_devices, args.dev_id);
	if (!vdev)
		return -ENOENT;
	vnpu_ctl_forget(vdev);
	return 0;
}

/* The device with the number in @args, or the next one. */
static int vnpu_ctl_look(struct vnpu_ctl_info *args)
{
	unsigned long id = args->dev_id;
	struct vnpu_device *vdev;

	guard(mutex)(&vnpu_ctl_lock);
	vdev = xa_find(&vnpu_devices, &id, U32_MAX, XA_PRESENT);
	if (!vdev)
		return -ENOENT;
	*args = (struct vnpu_ctl_info){ .dev_id = id, .accel_minor = -1 };
	memcpy(args->name, vdev->name, sizeof(args->name));
	if (vdev->registered)
		args->accel_minor = vdev->drm.accel->index;
	guard(spinlock)(&vdev->lock);
	args->epoch = vdev->epoch;
	if (vdev->wedged)
		args->state = VNPU_CTL_DEV_WEDGED;
	else if (vdev->ready)
		args->state = VNPU_CTL_DEV_READY;
	else
		args->state = vdev->registered ? VNPU_CTL_DEV_LOST : VNPU_CTL_DEV_NEW;
	if (vdev->session)
		args->fw_pid = pid_vnr(vdev->session->pid);
	return 0;
}

static int vnpu_ctl_info(struct vnpu_ctl_info __user *user)
{
	struct vnpu_ctl_info args;
	int ret;

	if (copy_from_user(&args, user, sizeof(args)))
		return -EFAULT;
	if (args.pad)
		return -EINVAL;
	ret = vnpu_ctl_look(&args);
	if (!ret && copy_to_user(user, &args, sizeof(args)))
		ret = -EFAULT;
	return ret;
}

/* Each call takes vnpu_ctl_lock by itself, without user memory, which may make it wait for ever. */
static long vnpu_ctl_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;

	/* The number of a call includes the size of its structure, as the caller was compiled. */
	switch (cmd & ~IOCSIZE_MASK) {
	case VNPU_CTL_ADD_DEV & ~IOCSIZE_MASK:
		return vnpu_ctl_add(user);
	case VNPU_CTL_ATTACH & ~IOCSIZE_MASK:
		return vnpu_ctl_attach(user);
	}
	switch (cmd) {
	case VNPU_CTL_VERSION:
		return vnpu_ctl_version(user);
	case VNPU_CTL_DEL_DEV:
		return vnpu_ctl_del(user);
	case VNPU_CTL_INFO:
		return vnpu_ctl_info(user);
	default:
		return -ENOTTY;
	}
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

/* On module exit only devices whose firmware died are left. */
void vnpu_ctl_exit(void)
{
	misc_deregister(&vnpu_ctl_misc);
	vnpu_ctl_for_each(vnpu_ctl_forget);
	xa_destroy(&vnpu_devices);
}
