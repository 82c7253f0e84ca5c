// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device time per client: fdinfo, and the two sysfs files that NPU monitors read
 * (/sys/class/accel/accelN/device/npu_*).
 *
 * The firmware reports the time spent on a job, but is not trusted. The device runs one job at a
 * time, so charged intervals must not overlap: a job is charged from the later of vdev->busy_until
 * and its entry into the ring. This never shortens the times of an honest firmware, and a lying one
 * can only shift time between clients. A reader charges the running job for its time so far, so
 * that it sees the load of a long job.
 */

#include "vnpu_queue.h"

/* Charge at most @ns. */
static void vnpu_stats_charge(struct vnpu_queue *queue, struct vnpu_job *job, u64 ns, u64 now)
{
	struct vnpu_device *vdev = queue->ctx->vdev;
	u64 from = max(vdev->busy_until, job->started_ns);

	lockdep_assert_held(&vdev->lock);
	if (from >= now || !ns)
		return;
	ns = min(ns, now - from);
	vdev->busy_until = from + ns;
	vdev->busy_ns += ns;
	queue->vfile->busy_ns += ns;
	job->busy_ns += ns;
}

/* The firmware has ended the job after @busy_ns of work. */
void vnpu_stats_job_done(struct vnpu_queue *queue, struct vnpu_job *job, u64 busy_ns)
{
	if (busy_ns > job->busy_ns)
		vnpu_stats_charge(queue, job, busy_ns - job->busy_ns, ktime_get_ns());
}

/* Charge the job up to now if the device reports that it works on it. */
void vnpu_stats_job_so_far(struct vnpu_queue *queue, struct vnpu_job *job)
{
	struct drm_vnpu_queue_status *status = vnpu_status_page(queue->ctx->vdev, queue->hwq);

	if (job->started_ns && READ_ONCE(status->started_seqno) == job->sqe.seqno &&
	    READ_ONCE(status->completed_seqno) < job->sqe.seqno)
		vnpu_stats_charge(queue, job, U64_MAX, ktime_get_ns());
}

/* Charge running jobs. Called with vdev->lock held. */
static void vnpu_stats_catch_up(struct vnpu_device *vdev)
{
	for (u32 i = 0; i < vdev->nr_queues; i++) {
		struct vnpu_queue *queue = vdev->hwqs[i].queue;

		if (queue && vnpu_hwq_live(&vdev->hwqs[i]))
			vnpu_stats_job_so_far(queue, vnpu_queue_job(queue, queue->done_seqno + 1));
	}
}

u64 vnpu_stats_busy_ns(struct vnpu_device *vdev)
{
	guard(spinlock)(&vdev->lock);
	vnpu_stats_catch_up(vdev);
	return vdev->busy_ns;
}

/* See Documentation/gpu/drm-usage-stats.rst. */
void vnpu_show_fdinfo(struct drm_printer *p, struct drm_file *file)
{
	struct vnpu_file *vfile = to_vnpu_file(file);
	struct vnpu_device *vdev = vfile->vdev;
	u64 busy_ns;

	scoped_guard(spinlock, &vdev->lock) {
		vnpu_stats_catch_up(vdev);
		busy_ns = vfile->busy_ns;
	}
	drm_printf(p, "drm-engine-npu:\t%llu ns\n", busy_ns);
	drm_printf(p, "drm-engine-capacity-npu:\t1\n");
	drm_show_memory_stats(p, file);
}

/* ---- sysfs ---- */

static ssize_t npu_busy_time_us_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	u64 busy_ns = vnpu_stats_busy_ns(dev_get_drvdata(dev));

	return sysfs_emit(buf, "%llu\n", div_u64(busy_ns, 1000));
}
static DEVICE_ATTR_RO(npu_busy_time_us);

static ssize_t npu_memory_utilization_show(struct device *dev, struct device_attribute *attr,
					   char *buf)
{
	struct vnpu_device *vdev = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%llu\n", READ_ONCE(vdev->mem_bytes));
}
static DEVICE_ATTR_RO(npu_memory_utilization);

static struct attribute *vnpu_stats_attrs[] = {
	&dev_attr_npu_busy_time_us.attr,
	&dev_attr_npu_memory_utilization.attr,
	NULL,
};
ATTRIBUTE_GROUPS(vnpu_stats);

int vnpu_stats_add(struct vnpu_device *vdev)
{
	dev_set_drvdata(vdev->parent, vdev);
	return sysfs_create_groups(&vdev->parent->kobj, vnpu_stats_groups);
}

/* Called while the device lives. On return no reader is left. */
void vnpu_stats_remove(struct vnpu_device *vdev)
{
	sysfs_remove_groups(&vdev->parent->kobj, vnpu_stats_groups);
}
