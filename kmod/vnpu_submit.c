// SPDX-License-Identifier: GPL-2.0-only
/*
 * SUBMIT: a batch of jobs, taken whole or not at all.
 *
 * 1. Copy and check everything; look up queues, syncobjs and buffers; allocate jobs, fences and timeline nodes.
 * 2. Under the context's submit_lock: number the jobs, write the numbers to the user, collect the fences to wait for.
 * 3. Lock the buffers, collect their fences. This is the last step that can fail.
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

#include "vnpu_compat.h"
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

/* A job on its way in. What is here is released when the ioctl ends, but for @job if it is pushed to the scheduler. */
struct vnpu_submit_job {
	struct vnpu_job *job;
	struct vnpu_queue *queue; /* reference */
	struct vnpu_fence *fence;
	bool fence_ready; /* fence is initialised and this holds a reference to it */
	struct vnpu_submit_sync *syncs;
	u32 nr_syncs;
	struct vnpu_submit_bo *bos; /* sorted by object */
	u32 nr_bos;
};

struct vnpu_submit {
	struct drm_file *file;
	struct vnpu_ctx *ctx;
	struct vnpu_submit_job *jobs;
	u32 nr_jobs;
	bool has_bos;
};

/* ---- 1: parse ---- */

static int vnpu_submit_check(const struct vnpu_ctx *ctx, const struct drm_vnpu_job *in)
{
	u64 limit = 1ull << ctx->vdev->va_bits;

	if (in->flags || in->pad || !in->cmd_size || !in->table_size)
		return -EINVAL;
	if ((in->cmd_va | in->table_va | in->cmd_size | in->table_size) & 7)
		return -EINVAL;
	if (in->cmd_size > VNPU_MAX_CMD_BYTES || in->table_size > VNPU_MAX_CMD_BYTES)
		return -EINVAL;
	if (in->cmd_va > limit - in->cmd_size || in->table_va > limit - in->table_size)
		return -EINVAL;
	if (in->timeout_ms > vnpu_device_max_timeout_ms(ctx->vdev))
		return -EINVAL;
	return 0;
}

static int vnpu_submit_parse_syncs(struct vnpu_submit *submit, struct vnpu_submit_job *sj,
				   const struct drm_vnpu_obj_array *in)
{
	struct drm_vnpu_sync_op *ops;
	int ret;

	ret = VNPU_UAPI_GET_ARRAY(in, VNPU_MAX_SYNCS_PER_JOB, struct drm_vnpu_sync_op, timeline_value, &ops);
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

	ret = VNPU_UAPI_GET_ARRAY(in, VNPU_MAX_BOS_PER_JOB, struct drm_vnpu_bo_use, flags, &uses);
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
	u32 timeout_ms = in->timeout_ms ?: vnpu_device_timeout_ms(submit->ctx->vdev);
	struct vnpu_job *job;
	int ret;

	ret = vnpu_submit_check(submit->ctx, in);
	if (ret)
		return ret;
	sj->queue = vnpu_queue_get(to_vnpu_file(submit->file), in->queue_id);
	if (!sj->queue)
		return -ENOENT;
	if (sj->queue->ctx != submit->ctx)
		return -EINVAL;
	ret = vnpu_submit_parse_syncs(submit, sj, &in->syncs);
	if (!ret)
		ret = vnpu_submit_parse_bos(submit, sj, &in->bos);
	if (ret)
		return ret;

	sj->fence = vnpu_fence_alloc();
	if (!sj->fence)
		return -ENOMEM;
	sj->fence->timeout = msecs_to_jiffies(timeout_ms) ?: 1;
	job = kzalloc(sizeof(*job), GFP_KERNEL_ACCOUNT);
	if (!job)
		return -ENOMEM;
	ret = vnpu_compat_job_init(&job->base, &sj->queue->entity, submit->file->client_id);
	if (ret) {
		kfree(job);
		return ret;
	}
	job->queue = sj->queue;
	job->fence = sj->fence;
	job->sqe = (struct vnpu_fw_sqe){
		.type = VNPU_FW_SQE_JOB,
		.priority = sj->queue->priority,
		.ctx = submit->ctx->num,
		.queue = sj->queue->hwq,
		.cmd_va = in->cmd_va,
		.table_va = in->table_va,
		.cmd_size = in->cmd_size,
		.table_size = in->table_size,
	};
	sj->job = job;
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
		sj->job->sqe.seqno = seqno;
	}
	for (u32 i = 0; i < submit->nr_jobs; i++) {
		u64 __user *to =
			u64_to_user_ptr(out->array + (u64)i * out->stride + offsetof(struct drm_vnpu_job, seqno));

		if (put_user(submit->jobs[i].job->sqe.seqno, to))
			return -EFAULT;
	}
	return 0;
}

/* Takes over the reference. */
static int vnpu_submit_depend(struct vnpu_submit_job *sj, struct dma_fence *fence)
{
	if (fence->context == sj->queue->fence_context || dma_fence_is_signaled(fence)) {
		dma_fence_put(fence);
		return 0;
	}
	return drm_sched_job_add_dependency(&sj->job->base, fence);
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
	return vnpu_submit_depend(&submit->jobs[nr], fence);
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
			ret = vnpu_submit_depend(sj, dma_fence_get(fence));
			if (ret)
				return ret;
		}
	}
	for (u32 i = 0; i < nr; i++) {
		if (!vnpu_submit_conflict(&submit->jobs[i], sj))
			continue;
		ret = vnpu_submit_depend(sj, dma_fence_get(&submit->jobs[i].fence->base));
		if (ret)
			return ret;
	}
	return 0;
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

static void vnpu_submit_push(struct vnpu_submit_job *sj)
{
	struct vnpu_job *job = sj->job;

	/* The job's own references: the ones in sj stay with sj. */
	kref_get(&sj->queue->ref);
	dma_fence_get(&sj->fence->base);
	sj->job = NULL;
	drm_sched_job_arm(&job->base);
	drm_sched_entity_push_job(&job->base);
}

static void vnpu_submit_commit(struct vnpu_submit *submit)
{
	struct vnpu_device *vdev = submit->ctx->vdev;
	bool cookie = dma_fence_begin_signalling();
	bool sent;

	for (u32 i = 0; i < submit->nr_jobs; i++) {
		struct vnpu_submit_job *sj = &submit->jobs[i];

		vnpu_submit_publish(sj);
		spin_lock(&vdev->lock);
		WRITE_ONCE(sj->queue->submitted_seqno, sj->fence->base.seqno);
		sj->fence->submitted_ns = ktime_get_ns();
		trace_vnpu_job_submit(sj->fence, &sj->job->sqe);
		sent = vnpu_job_send_now(sj->job);
		spin_unlock(&vdev->lock);
		if (!sent)
			vnpu_submit_push(sj);
	}
	dma_fence_end_signalling(cookie);
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
		vnpu_submit_commit(submit);
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
		vnpu_submit_commit(submit);
	/* The numbers were only lent. */
	for (u32 i = 0; ret && i < submit->nr_jobs; i++)
		if (submit->jobs[i].fence_ready)
			submit->jobs[i].queue->last_seqno--;
	return ret;
}

static void vnpu_submit_release(struct vnpu_submit *submit)
{
	for (u32 i = 0; i < submit->nr_jobs; i++) {
		struct vnpu_submit_job *sj = &submit->jobs[i];

		if (sj->job) {
			drm_sched_job_cleanup(&sj->job->base);
			kfree(sj->job);
		}
		if (sj->fence_ready)
			dma_fence_put(&sj->fence->base);
		else
			vnpu_fence_free(sj->fence);
		for (u32 k = 0; k < sj->nr_syncs; k++) {
			dma_fence_chain_free(sj->syncs[k].chain);
			drm_syncobj_put(sj->syncs[k].syncobj);
		}
		for (u32 k = 0; k < sj->nr_bos; k++)
			drm_gem_object_put(sj->bos[k].obj);
		kvfree(sj->syncs);
		kvfree(sj->bos);
		if (sj->queue)
			vnpu_queue_put(sj->queue);
	}
	kvfree(submit->jobs);
}

int vnpu_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_vnpu_submit *args = data;
	struct vnpu_submit submit = { .file = file };
	struct drm_vnpu_job *in;
	int ret;

	if (args->flags)
		return -EINVAL;
	submit.ctx = vnpu_ctx_get(to_vnpu_file(file), args->ctx_id);
	if (!submit.ctx)
		return -ENOENT;
	ret = VNPU_UAPI_GET_ARRAY(&args->jobs, VNPU_MAX_JOBS_PER_SUBMIT, struct drm_vnpu_job, seqno, &in);
	if (ret || !in)
		goto out;
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
	kvfree(in);
out:
	vnpu_ctx_put(submit.ctx);
	return ret;
}
