// SPDX-License-Identifier: GPL-2.0-only
/*
 * Time limits of jobs and of fences.
 *
 * The watchdog samples started_seqno and progress in the status page for the oldest job that each
 * queue has in the ring. Each job has its own timeout.
 *
 * - A job that has started must make progress itself, and may not run for longer than the longest
 *   timeout. Otherwise it is to blame: it ends with -ETIMEDOUT, and its context is banned.
 * - For a job that has not started, any progress of the device counts. That may be a lie, so this
 *   time is limited too: the job then ends with -EBUSY, and its context lives. Its timeout is
 *   slightly longer, so that a hanging job is found before those that wait for it.
 * - A fence lasts at most VNPU_FENCE_MS from SUBMIT, whatever the job does.
 *
 * The timer is only ever moved to an earlier time; when it runs it checks the state and is set
 * again. A job that ends in time therefore costs no timer.
 *
 * While tasks are frozen for a suspend, jobs are not judged, and their time limits start again when
 * tasks are thawed. Fences still expire, because others may wait for them before they can suspend.
 */
#include <linux/suspend.h>

#include "vnpu_fw.h"
#include "vnpu_queue.h"

#define VNPU_SAMPLE_MIN (HZ / 100 ?: 1)
#define VNPU_SAMPLE_MAX (HZ / 2)
#define VNPU_WAIT_MORE (HZ / 4)
#define VNPU_WAIT_FACTOR 10

static bool vnpu_frozen;

bool vnpu_watchdog_frozen(void)
{
	return READ_ONCE(vnpu_frozen);
}

static void vnpu_watchdog_at(struct vnpu_queue *queue, unsigned long at)
{
	lockdep_assert_held(&queue->ctx->vdev->lock);
	if (queue->watching && time_before_eq(queue->watch_at, at))
		return;
	queue->watching = true;
	queue->watch_at = at;
	mod_delayed_work(vnpu_wq, &queue->watchdog, time_after(at, jiffies) ? at - jiffies : 0);
}

static struct vnpu_job *vnpu_watchdog_head(const struct vnpu_queue *queue)
{
	if (!vnpu_hwq_live(&queue->ctx->vdev->hwqs[queue->hwq]))
		return NULL;
	return vnpu_queue_job(queue, queue->done_seqno + 1);
}

static unsigned long vnpu_watchdog_period(const struct vnpu_job *job)
{
	return clamp(job->timeout / 4ul, (unsigned long)VNPU_SAMPLE_MIN,
		     (unsigned long)VNPU_SAMPLE_MAX);
}

/* The oldest live job has changed: start its time limit. */
void vnpu_watchdog_new_head(struct vnpu_queue *queue)
{
	struct vnpu_job *job = vnpu_watchdog_head(queue);

	queue->head_since = jiffies;
	queue->alive_at = jiffies;
	queue->running = false;
	if (job)
		vnpu_watchdog_at(queue, jiffies + vnpu_watchdog_period(job));
}

/* A job with a fence was added to the queue. */
void vnpu_watchdog_fence(struct vnpu_queue *queue, struct vnpu_fence *fence)
{
	fence->deadline = jiffies + msecs_to_jiffies(VNPU_FENCE_MS);
	list_add_tail(&fence->node, &queue->fences);
	vnpu_watchdog_at(queue, fence->deadline);
}

/* ---- signs of life ---- */

static void vnpu_watchdog_sample(struct vnpu_queue *queue)
{
	struct vnpu_device *vdev = queue->ctx->vdev;
	const struct drm_vnpu_queue_status *status = vnpu_status_page(vdev, queue->hwq);
	u64 started = READ_ONCE(status->started_seqno), progress = READ_ONCE(status->progress);

	if (started != queue->seen_started || progress != queue->seen_progress) {
		queue->seen_started = started;
		queue->seen_progress = progress;
		queue->alive_at = jiffies;
		vdev->alive_at = jiffies;
	}
	if (!queue->running && vnpu_watchdog_head(queue) && started > queue->done_seqno) {
		queue->running = true;
		queue->running_since = jiffies;
		queue->alive_at = jiffies;
	}
}

/* Sample all queues, at most once per jiffy however many callers there are. */
static void vnpu_watchdog_sample_all(struct vnpu_device *vdev)
{
	if (time_after_eq(vdev->sampled_at, jiffies))
		return;
	vdev->sampled_at = jiffies;
	for (u32 i = 0; i < vdev->nr_queues; i++)
		if (vdev->hwqs[i].queue && vnpu_hwq_live(&vdev->hwqs[i]))
			vnpu_watchdog_sample(vdev->hwqs[i].queue);
}

/* When the oldest job's time is up unless more progress is seen. */
static unsigned long vnpu_watchdog_deadline(const struct vnpu_queue *queue,
					    const struct vnpu_job *job)
{
	struct vnpu_device *vdev = queue->ctx->vdev;
	unsigned long max = msecs_to_jiffies(vnpu_device_max_timeout_ms(vdev));
	unsigned long heard = queue->head_since;

	if (job->fence)
		max = min(max, msecs_to_jiffies(VNPU_FENCE_MS));
	if (queue->running)
		return vnpu_earlier(queue->alive_at + job->timeout, queue->running_since + max);
	if (time_after(vdev->alive_at, heard))
		heard = vdev->alive_at;
	return vnpu_earlier(heard + job->timeout + VNPU_WAIT_MORE,
			    queue->head_since + VNPU_WAIT_FACTOR * max);
}

/* ---- the work; under vdev->lock ---- */

/* End the oldest job in the ring if its time is up; otherwise check again later. */
static void vnpu_watchdog_judge_head(struct vnpu_queue *queue)
{
	struct vnpu_job *job = vnpu_watchdog_head(queue);
	unsigned long deadline;

	if (!job || queue->killed || queue->ctx->state)
		return;
	if (vnpu_watchdog_frozen()) {
		vnpu_watchdog_at(queue, jiffies + VNPU_SAMPLE_MAX);
		return;
	}
	vnpu_watchdog_sample(queue);
	if (!queue->running)
		vnpu_watchdog_sample_all(queue->ctx->vdev);
	deadline = vnpu_watchdog_deadline(queue, job);
	/* Do not let the end of the fence excuse a guilty job that was sampled too late. */
	if (job->fence && time_after_eq(jiffies, job->fence->deadline) && queue->running)
		deadline -= 2 * vnpu_watchdog_period(job);
	if (time_before(jiffies, deadline)) {
		vnpu_watchdog_at(queue,
				 vnpu_earlier(deadline, jiffies + vnpu_watchdog_period(job)));
	} else if (queue->running) {
		vnpu_ctx_ban(queue->ctx, DRM_VNPU_CTX_TIMEDOUT, queue);
		vnpu_job_give_up(queue, -ETIMEDOUT);
	} else {
		vnpu_job_give_up(queue, -EBUSY);
		vnpu_watchdog_new_head(queue);
		vnpu_job_advance(queue);
	}
}

/* Fences are in the order of their deadlines. */
static void vnpu_watchdog_end_fences(struct vnpu_queue *queue)
{
	struct vnpu_device *vdev = queue->ctx->vdev;
	struct vnpu_fence *fence;
	bool judged = false;

	while ((fence = list_first_entry_or_null(&queue->fences, struct vnpu_fence, node))) {
		/* All jobs of a banned context end anyway. */
		if (queue->killed || queue->ctx->state)
			return;
		if (time_before(jiffies, fence->deadline) || !vdev->may_end) {
			vnpu_watchdog_at(queue, fence->deadline);
			return;
		}
		vdev->may_end--;
		if (!judged)
			vnpu_watchdog_judge_head(queue);
		else
			vnpu_job_expire(queue, fence->base.seqno);
		judged = true;
	}
}

void vnpu_watchdog_work(struct work_struct *work)
{
	struct vnpu_queue *queue = container_of(to_delayed_work(work), struct vnpu_queue, watchdog);
	struct vnpu_device *vdev = queue->ctx->vdev;
	u32 drained = 0;
	int n;

	scoped_guard(spinlock, &vdev->lock)
		queue->watching = false;
	/*
	 * A firmware that is stopped at the moment may have posted the answer already. Check fences
	 * after each batch, so that a firmware that keeps posting cannot delay them.
	 */
	do {
		n = vnpu_fw_drain_batch(vdev, NULL);
		drained += VNPU_BATCH;
		scoped_guard(vnpu_signalling, vdev)
			vnpu_watchdog_end_fences(queue);
	} while (n == VNPU_BATCH && drained < vdev->ring.cq_entries);
	guard(vnpu_signalling)(vdev);
	vnpu_watchdog_judge_head(queue);
}

/* ---- suspend ---- */

/* Restart all time limits. */
static void vnpu_watchdog_thaw(struct vnpu_device *vdev)
{
	guard(spinlock)(&vdev->lock);
	vdev->alive_at = jiffies;
	for (u32 i = 0; i < vdev->nr_queues; i++) {
		struct vnpu_queue *queue = vdev->hwqs[i].queue;

		vdev->hwqs[i].owed_since = jiffies;
		if (!queue)
			continue;
		queue->head_since = jiffies;
		queue->alive_at = jiffies;
		queue->running_since = jiffies;
	}
	for (u32 num = 1; num <= vdev->nr_ctx; num++)
		if (vdev->ctxs[num])
			vdev->ctxs[num]->owed_since = jiffies;
}

static int vnpu_watchdog_pm(struct notifier_block *nb, unsigned long event, void *unused)
{
	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		WRITE_ONCE(vnpu_frozen, true);
		break;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		vnpu_ctl_for_each(vnpu_watchdog_thaw);
		WRITE_ONCE(vnpu_frozen, false);
		break;
	}
	return NOTIFY_DONE;
}

struct notifier_block vnpu_watchdog_nb = { .notifier_call = vnpu_watchdog_pm };
