// SPDX-License-Identifier: GPL-2.0-only
/*
 * SUBMIT: a batch of jobs, taken whole or not at all.
 *
 * 1. Copy and check everything; look up queues, syncobjs and buffers; allocate fences and timeline nodes.
 * 2. Under the context's submit_lock: number the jobs, write the numbers to the user, collect the fences to wait for.
 * 3. Lock the buffers, collect their fences. Decide which jobs go straight into the ring; the others get what the scheduler
 *    needs. This is the last step that can fail.
 * 4. Publish the fences, then put the jobs into the ring or push them to the scheduler. Nothing here allocates, sleeps
 *    for memory or fails.
 *
 * Jobs of a batch may wait for one another through a syncobj or a buffer, in the order of the array. Jobs of one queue run
 * in order anyway and need no such wait.
 */
#include <linux/dma-fence-chain.h>
#include <linux/dma-resv.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/uaccess.h>
#include <drm/drm_exec.h>
#include <drm/drm_gem.h>
#include <drm/drm_syncobj.h>

#include "vnpu_ctx.h"
#include "vnpu_drv.h"
#include "vnpu_fence.h"
#include "vnpu_job.h"
#include "vnpu_queue.h"
#include "vnpu_submit.h"
#include "vnpu_trace.h"
#include "vnpu_uapi.h"

struct vnpu_submit_sync {
	struct drm_syncobj *syncobj; /* reference */
	struct dma_fence_chain *chain; /* for signalling a point */
	u64 point;
	bool signal;
};

struct vnpu_submit_bo {
	struct drm_gem_object *obj; /* reference */
	bool write;
};

/* A job on its way in. What is here is released when the ioctl ends, but for @fence and @job if the job is sent. */
struct vnpu_submit_job {
	struct vnpu_queue *queue; /* reference */
	struct vnpu_fence *fence;
	bool fence_ready; /* fence is initialised and this holds a reference to it */
	struct vnpu_job *job; /* NULL: the job does not need the scheduler */
	struct vnpu_fw_sqe sqe; /* but for its tag */
	struct vnpu_submit_sync *syncs;
	u32 nr_syncs;
	struct vnpu_submit_bo *bos; /* sorted by object */
	u32 nr_bos;
};

struct vnpu_submit {
	struct drm_file *file;
	u32 ctx_id; /* as the user says */
	struct vnpu_ctx *ctx; /* held by the first job's queue */
	struct vnpu_submit_job *jobs; /* new, or @one */
	u32 nr_jobs;
	bool has_bos;
	struct vnpu_submit_job one; /* most batches are of one job */
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

static int vnpu_submit_wrong_ctx(const struct vnpu_submit *submit)
{
	return xa_load(&to_vnpu_file(submit->file)->ctxs, submit->ctx_id) ? -EINVAL : -ENOENT;
}

/* Look up the queue, and with the first one the context, which needs no look into its own table. */
static int vnpu_submit_find_queue(struct vnpu_submit *submit, struct vnpu_submit_job *sj, u32 id)
{
	sj->queue = vnpu_queue_get(to_vnpu_file(submit->file), id);
	if (!sj->queue)
		return -ENOENT;
	if (!submit->ctx)
		submit->ctx = sj->queue->ctx;
	return sj->queue->ctx == submit->ctx && submit->ctx->id == submit->ctx_id ? 0 : vnpu_submit_wrong_ctx(submit);
}

static int vnpu_submit_parse_syncs(struct vnpu_submit *submit, struct vnpu_submit_job *sj,
				   const struct drm_vnpu_obj_array *in)
{
	struct drm_vnpu_sync_op *ops;
	int ret;

	ret = VNPU_UAPI_GET_ARRAY(in, VNPU_MAX_SYNCS_PER_JOB, struct drm_vnpu_sync_op, timeline_value, NULL, &ops);
	if (ret || !ops)
		return ret;
	sj->syncs = kvcalloc(in->count, sizeof(*sj->syncs), GFP_KERNEL);
	if (!sj->syncs)
		ret = -ENOMEM;
	for (u32 i = 0; i < in->count && !ret; i++) {
		struct vnpu_submit_sync *sync = &sj->syncs[i];

		if (ops[i].flags & ~DRM_VNPU_SYNC_SIGNAL) {
			ret = -EINVAL;
			break;
		}
		sync->syncobj = drm_syncobj_find(submit->file, ops[i].handle);
		if (!sync->syncobj) {
			ret = -ENOENT;
			break;
		}
		sj->nr_syncs = i + 1;
		sync->point = ops[i].timeline_value;
		sync->signal = ops[i].flags & DRM_VNPU_SYNC_SIGNAL;
		if (sync->signal && sync->point) {
			sync->chain = dma_fence_chain_alloc();
			if (!sync->chain)
				ret = -ENOMEM;
		}
	}
	kvfree(ops);
	return ret;
}

static int vnpu_submit_bo_cmp(const void *a, const void *b)
{
	const struct drm_gem_object *x = ((const struct vnpu_submit_bo *)a)->obj;
	const struct drm_gem_object *y = ((const struct vnpu_submit_bo *)b)->obj;

	return x < y ? -1 : x > y;
}

static int vnpu_submit_parse_bos(struct vnpu_submit *submit, struct vnpu_submit_job *sj,
				 const struct drm_vnpu_obj_array *in)
{
	struct drm_vnpu_bo_use *uses;
	int ret;

	ret = VNPU_UAPI_GET_ARRAY(in, VNPU_MAX_BOS_PER_JOB, struct drm_vnpu_bo_use, flags, NULL, &uses);
	if (ret || !uses)
		return ret;
	sj->bos = kvcalloc(in->count, sizeof(*sj->bos), GFP_KERNEL);
	if (!sj->bos)
		ret = -ENOMEM;
	for (u32 i = 0; i < in->count && !ret; i++) {
		if (uses[i].flags & ~DRM_VNPU_BO_USE_WRITE) {
			ret = -EINVAL;
			break;
		}
		sj->bos[i].obj = drm_gem_object_lookup(submit->file, uses[i].handle);
		if (!sj->bos[i].obj) {
			ret = -ENOENT;
			break;
		}
		sj->bos[i].write = uses[i].flags & DRM_VNPU_BO_USE_WRITE;
		sj->nr_bos = i + 1;
		submit->has_bos = true;
	}
	kvfree(uses);
	if (!ret)
		sort(sj->bos, sj->nr_bos, sizeof(*sj->bos), vnpu_submit_bo_cmp, NULL);
	return ret;
}

static int vnpu_submit_parse_job(struct vnpu_submit *submit, struct vnpu_submit_job *sj, const struct drm_vnpu_job *in)
{
	const struct vnpu_device *vdev = to_vnpu_file(submit->file)->vdev;
	u32 timeout_ms = in->timeout_ms ?: vnpu_device_timeout_ms(vdev);
	int ret;

	ret = vnpu_submit_check(vdev, in);
	if (!ret)
		ret = vnpu_submit_find_queue(submit, sj, in->queue_id);
	if (ret)
		return ret;
	ret = vnpu_submit_parse_syncs(submit, sj, &in->syncs);
	if (!ret)
		ret = vnpu_submit_parse_bos(submit, sj, &in->bos);
	if (ret)
		return ret;

	sj->fence = vnpu_fence_alloc();
	if (!sj->fence)
		return -ENOMEM;
	sj->fence->timeout = msecs_to_jiffies(timeout_ms) ?: 1;
	/* Field by field: the rest is zero, and a structure made elsewhere would be copied. */
	sj->sqe.type = VNPU_FW_SQE_JOB;
	sj->sqe.priority = sj->queue->priority;
	sj->sqe.ctx = submit->ctx->num;
	sj->sqe.queue = sj->queue->hwq;
	sj->sqe.cmd_va = in->cmd_va;
	sj->sqe.table_va = in->table_va;
	sj->sqe.cmd_size = in->cmd_size;
	sj->sqe.table_size = in->table_size;
	return 0;
}

/* ---- 2: numbers and explicit dependencies ---- */

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
		u64 seqno = ++sj->queue->last_seqno;

		vnpu_fence_init(sj->fence, sj->queue, seqno);
		sj->fence_ready = true;
		sj->sqe.seqno = seqno;
	}
	for (u32 i = 0; i < submit->nr_jobs; i++) {
		u64 __user *to =
			u64_to_user_ptr(out->array + (u64)i * out->stride + offsetof(struct drm_vnpu_job, seqno));

		if (put_user(submit->jobs[i].sqe.seqno, to))
			return -EFAULT;
	}
	return 0;
}

/* The job goes to the scheduler. */
static int vnpu_submit_to_sched(struct vnpu_submit *submit, struct vnpu_submit_job *sj)
{
	struct vnpu_job *job;

	if (sj->job)
		return 0;
	job = vnpu_job_create(sj->queue, submit->file->client_id);
	if (IS_ERR(job))
		return PTR_ERR(job);
	sj->job = job;
	return 0;
}

/* Takes over the reference. */
static int vnpu_submit_depend(struct vnpu_submit *submit, struct vnpu_submit_job *sj, struct dma_fence *fence)
{
	int ret = 0;

	if (fence->context != sj->queue->fence_context && !dma_fence_is_signaled(fence)) {
		ret = vnpu_submit_to_sched(submit, sj);
		if (!ret)
			return drm_sched_job_add_dependency(&sj->job->base, fence);
	}
	dma_fence_put(fence);
	return ret;
}

/* What job @nr waits for if an earlier job of the batch signals the same syncobj. */
static struct dma_fence *vnpu_submit_sync_in_batch(struct vnpu_submit *submit, u32 nr,
						   const struct vnpu_submit_sync *wait)
{
	while (nr--) {
		struct vnpu_submit_job *sj = &submit->jobs[nr];

		for (u32 i = 0; i < sj->nr_syncs; i++) {
			struct vnpu_submit_sync *sync = &sj->syncs[i];

			/* The latest signal before the wait; of a timeline, one that reaches the point. */
			if (sync->signal && sync->syncobj == wait->syncobj && sync->point >= wait->point)
				return dma_fence_get(&sj->fence->base);
		}
	}
	return NULL;
}

static int vnpu_submit_wait_sync(struct vnpu_submit *submit, u32 nr, const struct vnpu_submit_sync *wait)
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
		/* The point is passed. */
		if (!fence)
			return 0;
	}
	return vnpu_submit_depend(submit, &submit->jobs[nr], fence);
}

static int vnpu_submit_wait_syncs(struct vnpu_submit *submit)
{
	int ret = 0;

	for (u32 i = 0; i < submit->nr_jobs && !ret; i++)
		for (u32 k = 0; k < submit->jobs[i].nr_syncs && !ret; k++)
			if (!submit->jobs[i].syncs[k].signal)
				ret = vnpu_submit_wait_sync(submit, i, &submit->jobs[i].syncs[k]);
	return ret;
}

/* ---- 3: buffers ---- */

static int vnpu_submit_lock_bos(struct vnpu_submit *submit, struct drm_exec *exec)
{
	int ret = 0;

	drm_exec_until_all_locked (exec) {
		ret = 0;
		for (u32 i = 0; i < submit->nr_jobs && !ret; i++) {
			struct vnpu_submit_job *sj = &submit->jobs[i];

			for (u32 k = 0; k < sj->nr_bos && !ret; k++) {
				ret = drm_exec_prepare_obj(exec, sj->bos[k].obj, submit->nr_jobs);
				drm_exec_retry_on_contention(exec);
			}
		}
	}
	return ret;
}

/* Do jobs @a and @b use a buffer that one of them writes? Both lists are sorted. */
static bool vnpu_submit_conflict(const struct vnpu_submit_job *a, const struct vnpu_submit_job *b)
{
	for (u32 i = 0, k = 0; i < a->nr_bos && k < b->nr_bos;) {
		if (a->bos[i].obj == b->bos[k].obj) {
			if (a->bos[i].write || b->bos[k].write)
				return true;
			/* The same buffer may stand in a list twice, read and written: compare with each. */
			if (k + 1 < b->nr_bos && b->bos[k + 1].obj == b->bos[k].obj)
				k++;
			else
				i++;
		} else if (a->bos[i].obj < b->bos[k].obj) {
			i++;
		} else {
			k++;
		}
	}
	return false;
}

static int vnpu_submit_wait_bos(struct vnpu_submit *submit, u32 nr)
{
	struct vnpu_submit_job *sj = &submit->jobs[nr];
	struct dma_resv_iter cursor;
	struct dma_fence *fence;
	int ret;

	for (u32 k = 0; k < sj->nr_bos; k++) {
		dma_resv_for_each_fence(&cursor, sj->bos[k].obj->resv, dma_resv_usage_rw(sj->bos[k].write), fence)
		{
			ret = vnpu_submit_depend(submit, sj, dma_fence_get(fence));
			if (ret)
				return ret;
		}
	}
	for (u32 i = 0; i < nr; i++) {
		if (!vnpu_submit_conflict(&submit->jobs[i], sj))
			continue;
		ret = vnpu_submit_depend(submit, sj, dma_fence_get(&submit->jobs[i].fence->base));
		if (ret)
			return ret;
	}
	return 0;
}

/* ---- the ways ---- */

/* The last job before @nr that goes to the same queue, or NULL. */
static const struct vnpu_submit_job *vnpu_submit_before(const struct vnpu_submit *submit, u32 nr)
{
	const struct vnpu_queue *queue = submit->jobs[nr].queue;

	while (nr--)
		if (submit->jobs[nr].queue == queue)
			return &submit->jobs[nr];
	return NULL;
}

/* Jobs that may not go straight into the ring go to the scheduler, even if they wait for nothing. */
static int vnpu_submit_choose(struct vnpu_submit *submit)
{
	int ret = 0;

	for (u32 i = 0; i < submit->nr_jobs && !ret; i++) {
		struct vnpu_submit_job *sj = &submit->jobs[i];
		const struct vnpu_submit_job *before = vnpu_submit_before(submit, i);

		if ((before && before->job) || !vnpu_job_may_go_now(sj->queue, sj->sqe.seqno))
			ret = vnpu_submit_to_sched(submit, sj);
	}
	return ret;
}

/* ---- 4: the point of no return ---- */

static void vnpu_submit_publish(struct vnpu_submit_job *sj)
{
	struct dma_fence *fence = &sj->fence->base;

	for (u32 k = 0; k < sj->nr_bos; k++)
		dma_resv_add_fence(sj->bos[k].obj->resv, fence,
				   sj->bos[k].write ? DMA_RESV_USAGE_WRITE : DMA_RESV_USAGE_READ);
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

static void vnpu_submit_commit(struct vnpu_submit *submit)
{
	struct vnpu_device *vdev = submit->ctx->vdev;
	bool cookie = dma_fence_begin_signalling();

	for (u32 i = 0; i < submit->nr_jobs; i++) {
		struct vnpu_submit_job *sj = &submit->jobs[i];
		struct vnpu_fence *fence = sj->fence;
		struct vnpu_job *job = sj->job;

		vnpu_submit_publish(sj);
		sj->fence = NULL;
		sj->job = NULL;
		spin_lock(&vdev->lock);
		WRITE_ONCE(sj->queue->submitted_seqno, sj->sqe.seqno);
		fence->submitted_ns = ktime_get_ns();
		trace_vnpu_job_submit(fence, &sj->sqe);
		if (job)
			WRITE_ONCE(sj->queue->in_sched, sj->queue->in_sched + 1);
		else
			vnpu_job_send(sj->queue, fence, &sj->sqe, fence->submitted_ns);
		spin_unlock(&vdev->lock);
		if (job)
			vnpu_job_push(job, fence, &sj->sqe);
	}
	dma_fence_end_signalling(cookie);
}

static int vnpu_submit_send(struct vnpu_submit *submit)
{
	int ret = vnpu_submit_choose(submit);

	if (!ret)
		vnpu_submit_commit(submit);
	return ret;
}

static int vnpu_submit_with_bos(struct vnpu_submit *submit)
{
	struct drm_exec exec;
	int ret;

	drm_exec_init(&exec, DRM_EXEC_INTERRUPTIBLE_WAIT | DRM_EXEC_IGNORE_DUPLICATES, 0);
	ret = vnpu_submit_lock_bos(submit, &exec);
	for (u32 i = 0; i < submit->nr_jobs && !ret; i++)
		ret = vnpu_submit_wait_bos(submit, i);
	if (!ret)
		ret = vnpu_submit_send(submit);
	drm_exec_fini(&exec);
	return ret;
}

static int vnpu_submit_locked(struct vnpu_submit *submit, const struct drm_vnpu_obj_array *out)
{
	int ret;

	ret = vnpu_submit_number(submit, out);
	if (!ret)
		ret = vnpu_submit_wait_syncs(submit);
	if (!ret && submit->has_bos)
		ret = vnpu_submit_with_bos(submit);
	else if (!ret)
		ret = vnpu_submit_send(submit);
	/* The numbers were only lent. */
	for (u32 i = 0; ret && i < submit->nr_jobs; i++)
		if (submit->jobs[i].fence_ready)
			submit->jobs[i].queue->last_seqno--;
	return ret;
}

/* What is left of a job that was not sent. */
static void vnpu_submit_release_unsent(struct vnpu_submit_job *sj)
{
	if (sj->job)
		vnpu_job_destroy(sj->job);
	if (sj->fence_ready)
		dma_fence_put(&sj->fence->base);
	else
		vnpu_fence_free(sj->fence);
}

static void vnpu_submit_release_lists(struct vnpu_submit_job *sj)
{
	for (u32 k = 0; k < sj->nr_syncs; k++) {
		dma_fence_chain_free(sj->syncs[k].chain);
		drm_syncobj_put(sj->syncs[k].syncobj);
	}
	for (u32 k = 0; k < sj->nr_bos; k++)
		drm_gem_object_put(sj->bos[k].obj);
	kvfree(sj->syncs);
	kvfree(sj->bos);
}

static void vnpu_submit_release(struct vnpu_submit *submit)
{
	for (u32 i = 0; i < submit->nr_jobs; i++) {
		struct vnpu_submit_job *sj = &submit->jobs[i];

		if (sj->fence)
			vnpu_submit_release_unsent(sj);
		if (sj->syncs || sj->bos)
			vnpu_submit_release_lists(sj);
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
	ret = VNPU_UAPI_GET_ARRAY(&args->jobs, VNPU_MAX_JOBS_PER_SUBMIT, struct drm_vnpu_job, seqno, &one, &in);
	if (ret)
		return ret;
	if (!in)
		return xa_load(&to_vnpu_file(file)->ctxs, args->ctx_id) ? 0 : -ENOENT;
	submit.jobs = &submit.one;
	if (args->jobs.count > 1)
		submit.jobs = kvcalloc(args->jobs.count, sizeof(*submit.jobs), GFP_KERNEL);
	ret = submit.jobs ? 0 : -ENOMEM;
	for (u32 i = 0; i < args->jobs.count && !ret; i++) {
		submit.nr_jobs = i + 1;
		ret = vnpu_submit_parse_job(&submit, &submit.jobs[i], &in[i]);
	}
	if (!ret) {
		mutex_lock(&submit.ctx->submit_lock);
		ret = vnpu_submit_locked(&submit, &args->jobs);
		mutex_unlock(&submit.ctx->submit_lock);
	}
	vnpu_submit_release(&submit);
	if (in != &one)
		kvfree(in);
	return ret;
}
