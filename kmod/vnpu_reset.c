// SPDX-License-Identifier: GPL-2.0-only
/* Recovery above single jobs: owed answers, resets, and the wedged state. */
#include <linux/kobject.h>

#include "vnpu_fw.h"
#include "vnpu_queue.h"
#define CREATE_TRACE_POINTS
#include "vnpu_trace.h"

/**
 * DOC: recovery
 *
 * 1. A job that exceeds its timeout ends with -ETIMEDOUT, one that waits for too long with -EBUSY
 *    (vnpu_watchdog.c).
 * 2. The context of a job that exceeded its timeout is banned: its other jobs end with -ECANCELED.
 *    Other contexts are not affected.
 * 3. The device was told to cancel those jobs. If it does not answer within &vnpu_reset_ms, or
 *    breaks the protocol, it is reset: its mappings are revoked, every job ends with -EIO, every
 *    context is lost, the epoch increments, and a firmware has to ATTACH again.
 * 4. After &vnpu_max_resets resets within &vnpu_reset_window_s the device is wedged and accepts no
 *    firmware.
 *
 * Fences depend on step 1 only, whose work items never wait or allocate. A reset runs on a
 * workqueue that may sleep, and has no time limit.
 *
 * A firmware that exits does not count as a reset, and a reset forced by an administrator does not
 * count towards wedged.
 */

static const char *vnpu_reset_reason(enum drm_vnpu_loss cause)
{
	if (cause == DRM_VNPU_LOSS_PROTOCOL)
		return "ring indices out of bounds";
	return cause == DRM_VNPU_LOSS_HANG ? "owes an answer for too long" : "forced";
}

/* ---- answers that the device owes; under vdev->lock ---- */

/*
 * The work holds a reference to the device while it is pending, and drops it after it has run.
 * Callers hold one of their own, so the one dropped here is never the last.
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

/* The device owes a new answer: schedule a check. */
void vnpu_reset_watch(struct vnpu_device *vdev)
{
	unsigned long delay = msecs_to_jiffies(READ_ONCE(vnpu_reset_ms));

	lockdep_assert_held(&vdev->lock);
	if (vdev->ready)
		vnpu_reset_schedule(vdev, delay, false);
}

/* Schedule a reset, which needs a context that may sleep. */
void vnpu_reset_request(struct vnpu_device *vdev, enum drm_vnpu_loss cause)
{
	lockdep_assert_held(&vdev->lock);
	if (!vdev->ready)
		return;
	vdev->reset_wanted = cause;
	vnpu_reset_schedule(vdev, 0, true);
}

/* True if the device owes an answer; *@since is when it first did. */
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

/* The reason to reset the device now, if any. Schedules another check if answers are still owed. */
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
	struct vnpu_session *session = NULL;
	enum drm_vnpu_loss cause;

	/* A firmware that is stopped at the moment may have posted the answer already. */
	vnpu_fw_drain(vdev, NULL);

	scoped_guard(spinlock, &vdev->lock) {
		cause = vnpu_reset_due(vdev);
		/* Of the session that is to blame: before the reset another may take its place. */
		if (cause) {
			session = vdev->session;
			kref_get(&session->ref);
		}
	}
	if (session) {
		vnpu_reset_session(session, cause);
		vnpu_session_put(session);
	}
	drm_dev_put(&vdev->drm);
}

/* The firmware is gone, so no answer is owed. */
void vnpu_reset_unwatch(struct vnpu_device *vdev)
{
	if (cancel_delayed_work(&vdev->reset_work))
		drm_dev_put(&vdev->drm);
}

/* ---- the reset ---- */

/* Record a reset. True if this makes as many resets within the window as wedge the device. */
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

/* Account for a loss of the device. */
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

/* Like drm_dev_wedged_event() for devices that have a primary node. */
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

/* Only the first call ends the session. Only the loss of a ready device is reported. */
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

/* -ENODEV if the device has no firmware. */
int vnpu_reset_device(struct vnpu_device *vdev, enum drm_vnpu_loss cause)
{
	struct vnpu_session *session = vnpu_session_get(vdev);

	if (!session)
		return -ENODEV;
	vnpu_reset_session(session, cause);
	vnpu_session_put(session);
	return 0;
}
