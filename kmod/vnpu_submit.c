// SPDX-License-Identifier: GPL-2.0-only
/*
 * SUBMIT: a batch of jobs, accepted as a whole or not at all.
 *
 * 1. Copy and check everything; look up queues and syncobjs; allocate fences and timeline nodes for
 *    jobs that signal. Other jobs allocate nothing for this, here or below.
 * 2. Under the context's submit_lock: number the jobs, write the numbers to the user, collect the
 *    fences to wait for. This is the last step that can fail.
 * 3. Publish the fences, then hand the jobs to their queues, where they enter the ring or wait.
 *    Nothing here allocates, sleeps for memory or fails.
 *
 * Jobs of a batch may wait for one another through a syncobj, in the order of the array. Jobs of
 * one queue run in order anyway and need no such wait.
 */
#include <linux/dma-fence-chain.h>
#include <drm/drm_syncobj.h>

#include "vnpu_queue.h"
#include "vnpu_trace.h"

struct vnpu_submit_sync {
	struct drm_syncobj *syncobj; /* reference */
	struct dma_fence_chain *chain; /* for signalling a point */
	u64 point;
	bool signal;
};

/* A job being submitted. The ioctl releases what the job has not taken over when it ends. */
struct vnpu_submit_job {
	struct vnpu_queue *queue; /* reference */
	struct vnpu_fence *fence; /* NULL: it signals nothing */
	bool fence_ready; /* @fence is initialised, and this is a reference */
	u32 timeout; /* jiffies */
	struct vnpu_deps *deps; /* NULL: it waits for nothing */
	struct vnpu_submit_sync *syncs;
	u32 nr_syncs;
	u64 seqno;
	const struct drm_vnpu_job *in;
};

struct vnpu_submit {
	struct drm_file *file;
	u32 ctx_id; /* from the user */
	struct vnpu_ctx *ctx; /* kept alive by the first job's queue */
	struct vnpu_submit_job *jobs; /* allocated, or @one */
	u32 nr_jobs;
	bool signals; /* a job of the batch signals */
	struct vnpu_submit_job one; /* most batches have one job */
};

/* ---- 1: parse ---- */

static int vnpu_submit_check(const struct vnpu_device *vdev, const struct drm_vnpu_job *in)
{
	u64 limit = 1ull << vdev->va_bits;

	if (in->flags || in->pad || !in->cmd_size || !in->table_size)
		return -EINVAL;
	if ((in->cmd_va | in->table_va | in->cmd_size | in->table_size) & 7)
		return -EINVAL;
	if (in->cmd_size > VNPU_MAX_CMD_BYTES || in->table_size > VNPU_MAX_CMD_BYTES)
		return -EINVAL;
	if (in->cmd_va > limit - in->cmd_size || in->table_va > limit - in->table_size)
		return -EINVAL;
	if (in->timeout_ms > vnpu_device_max_timeout_ms(vdev))
		return -EINVAL;
	return 0;
}

/* Look up the queue; the first one brings the context, which saves a look-up. */
static int vnpu_submit_find_queue(struct vnpu_submit *submit, struct vnpu_submit_job *sj)
{
	struct vnpu_file *vfile = to_vnpu_file(submit->file);

	sj->queue = vnpu_queue_get(vfile, sj->in->queue_id);
	if (!sj->queue)
		return -ENOENT;
	if (!submit->ctx)
		submit->ctx = sj->queue->ctx;
	if (sj->queue->ctx == submit->ctx && submit->ctx->id == submit->ctx_id)
		return 0;
	return xa_load(&vfile->ctxs, submit->ctx_id) ? -EINVAL : -ENOENT;
}

static int vnpu_submit_parse_sync(struct vnpu_submit *submit, struct vnpu_submit_job *sj,
				  const struct drm_vnpu_sync_op *op)
{
	struct vnpu_submit_sync *sync = &sj->syncs[sj->nr_syncs];

	if (op->flags & ~DRM_VNPU_SYNC_SIGNAL)
		return -EINVAL;
	sync->syncobj = drm_syncobj_find(submit->file, op->handle);
	if (!sync->syncobj)
		return -ENOENT;
	sj->nr_syncs++;
	sync->point = op->timeline_value;
	sync->signal = op->flags & DRM_VNPU_SYNC_SIGNAL;
	if (!sync->signal)
		return 0;
	submit->signals = true;
	if (!sj->fence)
		sj->fence = vnpu_fence_alloc();
	/* dma_fence_chain_alloc() would not charge the memory to the caller's memcg. */
	if (sync->point)
		sync->chain = kmalloc(sizeof(*sync->chain), GFP_KERNEL_ACCOUNT);
	return sj->fence && (sync->chain || !sync->point) ? 0 : -ENOMEM;
}

static int vnpu_submit_parse_syncs(struct vnpu_submit *submit, struct vnpu_submit_job *sj)
{
	const struct drm_vnpu_obj_array *in = &sj->in->syncs;
	struct drm_vnpu_sync_op *ops;
	int ret;

	ret = VNPU_UAPI_GET_ARRAY(in, VNPU_MAX_SYNCS_PER_JOB, struct drm_vnpu_sync_op,
				  timeline_value, NULL, &ops);
	if (ret || !ops)
		return ret;
	sj->syncs = kvcalloc(in->count, sizeof(*sj->syncs), GFP_KERNEL_ACCOUNT);
	if (!sj->syncs)
		ret = -ENOMEM;
	for (u32 i = 0; i < in->count && !ret; i++)
		ret = vnpu_submit_parse_sync(submit, sj, &ops[i]);
	kvfree(ops);
	return ret;
}

static int vnpu_submit_parse_job(struct vnpu_submit *submit, struct vnpu_submit_job *sj)
{
	const struct vnpu_device *vdev = to_vnpu_file(submit->file)->vdev;
	u32 timeout_ms = sj->in->timeout_ms ?: vnpu_device_timeout_ms(vdev);
	int ret;

	ret = vnpu_submit_check(vdev, sj->in);
	if (!ret)
		ret = vnpu_submit_find_queue(submit, sj);
	if (!ret)
		ret = vnpu_submit_parse_syncs(submit, sj);
	if (ret)
		return ret;
	if (sj->fence && sj->in->timeout_ms > VNPU_FENCE_MS)
		return -ERANGE;
	if (sj->fence)
		timeout_ms = min(timeout_ms, VNPU_FENCE_MS);
	sj->timeout = msecs_to_jiffies(timeout_ms);
	return 0;
}

/* ---- 2: numbers and fences to wait for ---- */

static int vnpu_submit_number(struct vnpu_submit *submit, const struct drm_vnpu_obj_array *out)
{
	if (submit->ctx->closing)
		return -ENOENT;
	if (vnpu_ctx_banned(submit->ctx))
		return -ECANCELED;
	for (u32 i = 0; i < submit->nr_jobs; i++)
		if (submit->jobs[i].queue->dead)
			return -ENOENT;
	for (u32 i = 0; i < submit->nr_jobs; i++) {
		struct vnpu_submit_job *sj = &submit->jobs[i];

		if (!vnpu_queue_has_room(sj->queue, sj->queue->last_seqno + 1))
			return -ENOSPC;
		sj->seqno = ++sj->queue->last_seqno;
		if (sj->fence) {
			vnpu_fence_init(sj->fence, sj->queue->fence_context, sj->seqno);
			sj->fence_ready = true;
		}
	}
	for (u32 i = 0; i < submit->nr_jobs; i++) {
		u64 __user *to = u64_to_user_ptr(out->array + (u64)i * out->stride +
						 offsetof(struct drm_vnpu_job, seqno));

		if (put_user(submit->jobs[i].seqno, to))
			return -EFAULT;
	}
	return 0;
}

/* Takes over the reference to @fence. */
static int vnpu_submit_depend(struct vnpu_submit_job *sj, struct dma_fence *fence)
{
	if (fence->context == sj->queue->fence_context || dma_fence_is_signaled(fence)) {
		dma_fence_put(fence);
		return 0;
	}
	if (!sj->deps)
		sj->deps = vnpu_deps_alloc(sj->nr_syncs);
	if (!sj->deps) {
		dma_fence_put(fence);
		return -ENOMEM;
	}
	sj->deps->fences[sj->deps->nr++] = fence;
	return 0;
}

/* The fence that job @nr waits for if an earlier job of the batch signals the same syncobj. */
static struct dma_fence *vnpu_submit_sync_in_batch(struct vnpu_submit *submit, u32 nr,
						   const struct vnpu_submit_sync *wait)
{
	while (submit->signals && nr--) {
		struct vnpu_submit_job *sj = &submit->jobs[nr];

		for (u32 i = 0; sj->fence && i < sj->nr_syncs; i++) {
			struct vnpu_submit_sync *sync = &sj->syncs[i];

			/* The latest signal before the wait; on a timeline it reaches the point. */
			if (sync->signal && sync->syncobj == wait->syncobj &&
			    sync->point >= wait->point)
				return dma_fence_get(&sj->fence->base);
		}
	}
	return NULL;
}

static int vnpu_submit_wait_sync(struct vnpu_submit *submit, u32 nr,
				 const struct vnpu_submit_sync *wait)
{
	struct dma_fence *fence = vnpu_submit_sync_in_batch(submit, nr, wait);
	int ret;

	if (!fence) {
		fence = drm_syncobj_fence_get(wait->syncobj);
		if (!fence)
			return -EINVAL;
		ret = dma_fence_chain_find_seqno(&fence, wait->point);
		if (ret) {
			dma_fence_put(fence);
			return ret;
		}
		/* The point has already signalled. */
		if (!fence)
			return 0;
	}
	return vnpu_submit_depend(&submit->jobs[nr], fence);
}

static int vnpu_submit_wait_syncs(struct vnpu_submit *submit)
{
	int ret = 0;

	for (u32 i = 0; i < submit->nr_jobs && !ret; i++) {
		for (u32 k = 0; k < submit->jobs[i].nr_syncs && !ret; k++)
			if (!submit->jobs[i].syncs[k].signal)
				ret = vnpu_submit_wait_sync(submit, i, &submit->jobs[i].syncs[k]);
		/* Each wait looks through the signals of all jobs before it. */
		cond_resched();
	}
	return ret;
}

/* ---- 3: the point of no return ---- */

static void vnpu_submit_publish(struct vnpu_submit_job *sj)
{
	struct dma_fence *fence = &sj->fence->base;

	for (u32 k = 0; k < sj->nr_syncs; k++) {
		struct vnpu_submit_sync *sync = &sj->syncs[k];

		if (!sync->signal)
			continue;
		if (sync->chain) {
			drm_syncobj_add_point(sync->syncobj, sync->chain, fence, sync->point);
			sync->chain = NULL;
		} else {
			drm_syncobj_replace_fence(sync->syncobj, fence);
		}
	}
}

/* Fill the queue's next array entry. WAIT has forgotten the job that was there. */
static void vnpu_submit_fill(struct vnpu_submit_job *sj)
{
	const struct drm_vnpu_job *in = sj->in;
	struct vnpu_queue *queue = sj->queue;
	struct vnpu_job *job = vnpu_queue_job(queue, sj->seqno);

	if (job->error) {
		queue->forgotten_seqno = job->sqe.seqno;
		queue->forgotten_error = job->error;
	}
	/* The tag is set when the job enters the ring. */
	job->sqe.type = VNPU_FW_SQE_JOB;
	job->sqe.priority = queue->priority;
	job->sqe.ctx = queue->ctx->num;
	job->sqe.queue = queue->hwq;
	job->sqe.seqno = sj->seqno;
	job->sqe.cmd_va = in->cmd_va;
	job->sqe.table_va = in->table_va;
	job->sqe.cmd_size = in->cmd_size;
	job->sqe.table_size = in->table_size;
	job->fence = sj->fence;
	job->deps = sj->deps;
	job->submitted_ns = ktime_get_ns();
	job->started_ns = 0;
	job->busy_ns = 0;
	job->timeout = sj->timeout;
	job->error = 0;
	job->expired = false;
	sj->fence = NULL;
	sj->deps = NULL;
	trace_vnpu_job_submit(queue, job);
}

static void vnpu_submit_commit(struct vnpu_submit *submit)
{
	bool cookie = dma_fence_begin_signalling();
	struct vnpu_ctx *ctx = submit->ctx;

	for (u32 i = 0; i < submit->nr_jobs; i++) {
		struct vnpu_submit_job *sj = &submit->jobs[i];
		struct vnpu_fence *fence = sj->fence;
		struct vnpu_queue *queue = sj->queue;

		if (fence)
			vnpu_submit_publish(sj);
		guard(vnpu_signalling)(ctx->vdev);
		vnpu_submit_fill(sj);
		WRITE_ONCE(queue->submitted_seqno, sj->seqno);
		if (fence)
			vnpu_watchdog_fence(queue, fence);
		vnpu_job_advance(queue);
		/* Banned meanwhile: the work that ends its jobs may have missed this one. */
		if (ctx->state)
			vnpu_ctx_fail_later(ctx);
	}
	dma_fence_end_signalling(cookie);
}

static int vnpu_submit_locked(struct vnpu_submit *submit, const struct drm_vnpu_obj_array *out)
{
	int ret;

	ret = vnpu_submit_number(submit, out);
	if (!ret)
		ret = vnpu_submit_wait_syncs(submit);
	if (!ret)
		vnpu_submit_commit(submit);
	/* Take the numbers back. */
	for (u32 i = 0; ret && i < submit->nr_jobs; i++)
		if (submit->jobs[i].seqno)
			submit->jobs[i].queue->last_seqno--;
	return ret;
}

static void vnpu_submit_release_syncs(struct vnpu_submit_job *sj)
{
	for (u32 k = 0; k < sj->nr_syncs; k++) {
		dma_fence_chain_free(sj->syncs[k].chain);
		drm_syncobj_put(sj->syncs[k].syncobj);
	}
	kvfree(sj->syncs);
	vnpu_deps_free(sj->deps);
	if (sj->fence && sj->fence_ready)
		dma_fence_put(&sj->fence->base);
	else
		kfree(sj->fence);
}

static void vnpu_submit_release(struct vnpu_submit *submit)
{
	for (u32 i = 0; i < submit->nr_jobs; i++) {
		struct vnpu_submit_job *sj = &submit->jobs[i];

		if (sj->syncs)
			vnpu_submit_release_syncs(sj);
		if (sj->queue)
			vnpu_queue_put(sj->queue);
	}
	if (submit->jobs != &submit->one)
		kvfree(submit->jobs);
}

int vnpu_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_vnpu_submit *args = data;
	struct vnpu_submit submit = { .file = file, .ctx_id = args->ctx_id };
	struct drm_vnpu_job one, *in;
	int ret;

	if (args->flags)
		return -EINVAL;
	ret = VNPU_UAPI_GET_ARRAY(&args->jobs, VNPU_MAX_JOBS_PER_SUBMIT, struct drm_vnpu_job, seqno,
				  &one, &in);
	if (ret)
		return ret;
	if (!in)
		return xa_load(&to_vnpu_file(file)->ctxs, args->ctx_id) ? 0 : -ENOENT;
	submit.jobs = &submit.one;
	if (args->jobs.count > 1)
		submit.jobs = kvcalloc(args->jobs.count, sizeof(*submit.jobs), GFP_KERNEL_ACCOUNT);
	ret = submit.jobs ? 0 : -ENOMEM;
	for (u32 i = 0; i < args->jobs.count && !ret; i++) {
		submit.nr_jobs = i + 1;
		submit.jobs[i].in = &in[i];
		ret = vnpu_submit_parse_job(&submit, &submit.jobs[i]);
	}
	if (!ret) {
		guard(mutex)(&submit.ctx->submit_lock);
		ret = vnpu_submit_locked(&submit, &args->jobs);
	}
	vnpu_submit_release(&submit);
	if (in != &one)
		kvfree(in);
	return ret;
}
