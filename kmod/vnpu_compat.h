/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the kernels that vnpu builds for, behind one name each. The HAVE_ names come from conftest.sh.
 */
#ifndef VNPU_COMPAT_H
#define VNPU_COMPAT_H

#include <linux/err.h>
#include <drm/gpu_scheduler.h>

#include "vnpu_conf.h"

#ifdef HAVE_FAUX_DEVICE
#include <linux/device/faux.h>
#else
#include <linux/platform_device.h>
#endif

/*
 * A queue's scheduler. The timeout is off: jobs of one queue have timeouts of their own, which the scheduler does not
 * know, and its timeout handling differs from kernel to kernel (see vnpu_queue_watchdog()).
 */
static inline int vnpu_compat_sched_init(struct drm_gpu_scheduler *sched, const struct drm_sched_backend_ops *ops,
					 struct workqueue_struct *submit_wq, u32 credits, struct device *dev)
{
#ifdef HAVE_SCHED_INIT_ARGS
	const struct drm_sched_init_args args = {
		.ops = ops,
		.submit_wq = submit_wq,
#ifdef HAVE_SCHED_NUM_RQS
		.num_rqs = DRM_SCHED_PRIORITY_COUNT,
#endif
		.credit_limit = credits,
		.timeout = MAX_SCHEDULE_TIMEOUT,
		.name = "vnpu",
		.dev = dev,
	};

	return drm_sched_init(sched, &args);
#else
	return drm_sched_init(sched, ops, submit_wq, DRM_SCHED_PRIORITY_COUNT, credits, 0, MAX_SCHEDULE_TIMEOUT, NULL,
			      NULL, "vnpu", dev);
#endif
}

static inline int vnpu_compat_job_init(struct drm_sched_job *job, struct drm_sched_entity *entity, u64 client_id)
{
#ifdef HAVE_SCHED_JOB_CLIENT_ID
	return drm_sched_job_init(job, entity, 1, NULL, client_id);
#else
	return drm_sched_job_init(job, entity, 1, NULL);
#endif
}

/*
 * The device without a bus that stands behind the DRM device. Numbers are not used again: what is named after them in
 * debugfs stays until the last file of a device that was deleted is closed.
 */
static inline int vnpu_compat_parent_nr(void)
{
	static atomic_t nr = ATOMIC_INIT(-1);

	return atomic_inc_return(&nr) & INT_MAX;
}

#ifdef HAVE_FAUX_DEVICE
static inline struct device *vnpu_compat_parent_create(void)
{
	struct faux_device *faux;
	char name[24];

	snprintf(name, sizeof(name), "vnpu.%d", vnpu_compat_parent_nr());
	faux = faux_device_create(name, NULL, NULL);
	return faux ? &faux->dev : ERR_PTR(-ENODEV);
}

static inline void vnpu_compat_parent_destroy(struct device *dev)
{
	faux_device_destroy(to_faux_device(dev));
}
#else
static inline struct device *vnpu_compat_parent_create(void)
{
	struct platform_device *pdev = platform_device_register_simple("vnpu", vnpu_compat_parent_nr(), NULL, 0);

	return IS_ERR(pdev) ? ERR_CAST(pdev) : &pdev->dev;
}

static inline void vnpu_compat_parent_destroy(struct device *dev)
{
	platform_device_unregister(to_platform_device(dev));
}
#endif

#endif /* VNPU_COMPAT_H */
