// SPDX-License-Identifier: GPL-2.0-only
/*
 * The upper rungs of recovery: a device that owes answers, its reset, and its end.
 */
#include <linux/kobject.h>

#include "vnpu_fw.h"
#include "vnpu_queue.h"
#define CREATE_TRACE_POINTS
#include "vnpu_trace.h"

/**
 * DOC: recovery
 *
 * 1. A job that runs out of time ends with -ETIMEDOUT, one that waits for too long with -EBUSY
 *    (vnpu_watchdog.c).
 * 2. The context of the former is banned: its other jobs end with -ECANCELED, and nothing of it
 *    runs any more. Others go on.
 * 3. The device was told to give those jobs up. If it does not say within &vnpu_reset_ms that it
 *    has, or if it breaks its protocol, it is reset: its mappings are taken away, every job ends
 *    with -EIO, every context is lost, the epoch counts up, and the firmware has to ATTACH again.
 * 4. After &vnpu_max_resets resets within &vnpu_reset_window_s the device is wedged, and no
 *    firmware may come.
 *
 * Fences depend on the first rung only, whose work never waits or allocates. A reset is a repair:
 * it runs on a workqueue that may sleep, and takes the time that it takes.
 *
 * A firmware that leaves by itself is no reset, nor counts one that an administrator forced.
 */

static const char *vnpu_reset_reason(enum drm_vnpu_loss cause)
{
	if (cause == DRM_VNPU_LOSS_PROTOCOL)
		return "ring indices out of bounds";
	return cause == DRM_VNPU_LOSS_HANG ? "owes an answer for too long" : "forced";
}

/* ---- what the device owes; under vdev->lock ---- */

/*
 * The work holds a reference to the device while it is pending, and drops it when it has run.
 * Callers have one of their own, so that the one dropped here is never the last.
 */
static void vnpu_reset_schedule(struct vnpu_device *vdev, unsigned long delay, bool sooner)
{
	bool pending;

	drm_dev_get(&vdev->drm);
	if (sooner)
		pending = mod_delayed_work(vnpu_reset_wq, &vdev->reset_work, delay);
	else
		pending = !queue_delayed_work(vnpu_reset_wq, &vdev->reset_work, delay);
	if (pending)
		drm_dev_put(&vdev->drm);
}

/* The device has just come to owe an answer: look in time whether it came. */
void vnpu_reset_watch(struct vnpu_device *vdev)
{
	unsigned long delay = msecs_to_jiffies(READ_ONCE(vnpu_reset_ms));

	lockdep_assert_held(&vdev->lock);
	if (vdev->ready)
		vnpu_reset_schedule(vdev, delay, false);
}

/* Reset the device as soon as there is somebody who may sleep. */
void vnpu_reset_request(struct vnpu_device *vdev, enum drm_vnpu_loss cause)
{
	lockdep_assert_held(&vdev->lock);
	if (!vdev->ready)
		return;
	vdev->reset_wanted = cause;
	vnpu_reset_schedule(vdev, 0, true);
}

/* Does the device owe anything? Since when, if so. */
static bool vnpu_reset_owed(struct vnpu_device *vdev, unsigned long *since)
{
	u32 owed = 0;

	*since = jiffies;
	for (u32 i = 0; i < vdev->nr_queues; i++)
		if (vdev->hwqs[i].acked != vdev->hwqs[i].head && ++owed)
			*since = vnpu_earlier(*since, vdev->hwqs[i].owed_since);
	for (u32 num = 1; num <= vdev->nr_ctx; num++)
		if (vdev->ctxs[num] && vdev->ctxs[num]->fw_owes && ++owed)
			*since = vnpu_earlier(*since, vdev->ctxs[num]->owed_since);
	return owed;
}

/* Why the device must be reset now, if so; looks again later if it still owes something. */
static enum drm_vnpu_loss vnpu_reset_due(struct vnpu_device *vdev)
{
	unsigned long delay = msecs_to_jiffies(READ_ONCE(vnpu_reset_ms));
	unsigned long since, at;

	lockdep_assert_held(&vdev->lock);
	if (!vdev->ready)
		return DRM_VNPU_LOSS_NONE;
	if (vdev->reset_wanted)
		return vdev->reset_wanted;
	if (!vnpu_reset_owed(vdev, &since))
		return DRM_VNPU_LOSS_NONE;
	at = (vnpu_watchdog_frozen() ? jiffies : since) + delay;
	if (time_after_eq(jiffies, at))
		return DRM_VNPU_LOSS_HANG;
	vnpu_reset_schedule(vdev, at - jiffies, false);
	return DRM_VNPU_LOSS_NONE;
}

void vnpu_reset_work(struct work_struct *work)
{
	struct vnpu_device *vdev =
		container_of(to_delayed_work(work), struct vnpu_device, reset_work);
	enum drm_vnpu_loss cause;

	/* The answer may lie in the ring, posted by a firmware that was stopped just then. */
	vnpu_fw_drain(vdev, NULL);

	scoped_guard(spinlock, &vdev->lock)
		cause = vnpu_reset_due(vdev);
	if (cause)
		vnpu_reset_device(vdev, cause);
	drm_dev_put(&vdev->drm);
}

/* The firmware is gone, and owes nothing. */
void vnpu_reset_unwatch(struct vnpu_device *vdev)
{
	if (cancel_delayed_work(&vdev->reset_work))
		drm_dev_put(&vdev->drm);
}

/* ---- the reset ---- */

/* Were there as many resets as wedge the device, this one counted, in a short time? */
static bool vnpu_reset_too_often(struct vnpu_device *vdev)
{
	u32 max = READ_ONCE(vnpu_max_resets);
	unsigned long window = READ_ONCE(vnpu_reset_window_s) * HZ;
	unsigned long first;

	vdev->reset_at[vdev->nr_counted++ % VNPU_MAX_RESETS] = jiffies;
	if (!max || vdev->nr_counted < max)
		return false;
	first = vdev->reset_at[(vdev->nr_counted - max) % VNPU_MAX_RESETS];
	return time_before(jiffies, first + window);
}

/* Book a loss of the device. */
void vnpu_reset_count(struct vnpu_device *vdev, enum drm_vnpu_loss cause)
{
	lockdep_assert_held(&vdev->lock);
	vdev->reset_wanted = DRM_VNPU_LOSS_NONE;
	vdev->last_loss = cause;
	if (cause != DRM_VNPU_LOSS_EXIT)
		vdev->nr_resets++;
	if (cause == DRM_VNPU_LOSS_PROTOCOL || cause == DRM_VNPU_LOSS_HANG)
		vdev->wedged = vnpu_reset_too_often(vdev);
	trace_vnpu_reset(vdev, cause, pid_nr(vdev->session->pid));
}

/* As drm_dev_wedged_event() does for devices that have a primary node. */
static void vnpu_reset_tell_wedged(struct vnpu_device *vdev)
{
	static char *envp[] = { "WEDGED=vendor-specific", NULL };
	struct device *node = vdev->drm.accel->kdev;
	int idx;

	if (!drm_dev_enter(&vdev->drm, &idx))
		return;
	if (device_is_registered(node))
		kobject_uevent_env(&node->kobj, KOBJ_CHANGE, envp);
	drm_dev_exit(idx);
}

/* Only the first call ends the session, and only for a device that was ready. */
void vnpu_reset_session(struct vnpu_session *session, enum drm_vnpu_loss cause)
{
	struct vnpu_device *vdev = session->vdev;
	const char *reason = vnpu_reset_reason(cause);
	int error = cause == DRM_VNPU_LOSS_PROTOCOL ? -EPROTO : -EIO;
	bool wedged;
	u32 epoch;

	if (!vnpu_fw_session_end(session, cause, error, reason))
		return;
	scoped_guard(spinlock, &vdev->lock) {
		wedged = vdev->wedged;
		epoch = vdev->epoch;
	}
	drm_err(&vdev->drm, "firmware pid %d: %s: device reset, epoch %u%s\n", pid_nr(session->pid),
		reason, epoch, wedged ? ", wedged" : "");
	if (wedged)
		vnpu_reset_tell_wedged(vdev);
}

/* -ENODEV if no firmware runs the device. */
int vnpu_reset_device(struct vnpu_device *vdev, enum drm_vnpu_loss cause)
{
	struct vnpu_session *session = vnpu_session_get(vdev);

	if (!session)
		return -ENODEV;
	vnpu_reset_session(session, cause);
	vnpu_session_put(session);
	return 0;
}
