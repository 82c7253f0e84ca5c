// SPDX-License-Identifier: GPL-2.0-only
/*
 * One-value files beside the accel node: /sys/class/accel/accelN/device/npu_*. Names that other NPU drivers have too mean
 * the same here, so that monitors find them.
 */
#include <linux/device.h>
#include <linux/math64.h>
#include <linux/pid.h>
#include <linux/sysfs.h>

#include "vnpu_drv.h"
#include "vnpu_fw.h"
#include "vnpu_stats.h"
#include "vnpu_sysfs.h"

static ssize_t npu_busy_time_us_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", div_u64(vnpu_stats_busy_ns(dev_get_drvdata(dev)), 1000));
}
static DEVICE_ATTR_RO(npu_busy_time_us);

static ssize_t npu_memory_utilization_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct vnpu_device *vdev = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%lld\n", atomic64_read(&vdev->mem_bytes));
}
static DEVICE_ATTR_RO(npu_memory_utilization);

static ssize_t npu_memory_limit_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct vnpu_device *vdev = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%llu\n", vdev->mem_limit);
}
static DEVICE_ATTR_RO(npu_memory_limit);

static ssize_t npu_epoch_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct vnpu_device *vdev = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%u\n", READ_ONCE(vdev->epoch));
}
static DEVICE_ATTR_RO(npu_epoch);

static ssize_t npu_resets_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct vnpu_device *vdev = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%u\n", READ_ONCE(vdev->nr_resets));
}
static DEVICE_ATTR_RO(npu_resets);

static ssize_t npu_fw_pid_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct vnpu_device *vdev = dev_get_drvdata(dev);
	pid_t pid;

	spin_lock(&vdev->lock);
	pid = vdev->session ? pid_vnr(vdev->session->pid) : 0;
	spin_unlock(&vdev->lock);
	return sysfs_emit(buf, "%d\n", pid);
}
static DEVICE_ATTR_RO(npu_fw_pid);

static ssize_t npu_name_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct vnpu_device *vdev = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%s\n", vdev->name);
}
static DEVICE_ATTR_RO(npu_name);

static ssize_t npu_state_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct vnpu_device *vdev = dev_get_drvdata(dev);
	const char *state;

	spin_lock(&vdev->lock);
	state = vdev->ready ? "ready" : vdev->wedged ? "wedged" : "lost";
	spin_unlock(&vdev->lock);
	return sysfs_emit(buf, "%s\n", state);
}
static DEVICE_ATTR_RO(npu_state);

static struct attribute *vnpu_attrs[] = {
	&dev_attr_npu_busy_time_us.attr,
	&dev_attr_npu_memory_utilization.attr,
	&dev_attr_npu_memory_limit.attr,
	&dev_attr_npu_epoch.attr,
	&dev_attr_npu_resets.attr,
	&dev_attr_npu_fw_pid.attr,
	&dev_attr_npu_name.attr,
	&dev_attr_npu_state.attr,
	NULL,
};
ATTRIBUTE_GROUPS(vnpu);

int vnpu_sysfs_add(struct vnpu_device *vdev)
{
	dev_set_drvdata(vdev->parent, vdev);
	return sysfs_create_groups(&vdev->parent->kobj, vnpu_groups);
}

/* While the device lives; on return nobody reads any more. */
void vnpu_sysfs_remove(struct vnpu_device *vdev)
{
	sysfs_remove_groups(&vdev->parent->kobj, vnpu_groups);
}
