// SPDX-License-Identifier: MIT
/*
 * Jobs of the simulated device: SUBMIT, waiting for fences and for room, the ring, and the end.
 *
 * SUBMIT checks everything, then collects fences to wait for, then reserves what publishing needs;
 * only then does it change anything. A job waits in the queue's list while its fences have not
 * signaled or the queue is full. Jobs of a queue leave that list in order and end in order,
 * including those whose fence timed out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* ---- in the device --------------------------------------------------------------------------- */

struct sim_job *sim_hwq_first(struct sim_hwq *hwq)
{
	for (uint32_t n = hwq->head; n != hwq->tail; n++)
		if (hwq->place[n % SIM_MAX_DEPTH] == SIM_PLACE_LIVE)
			return hwq->jobs[n % SIM_MAX_DEPTH];
	return NULL;
}

static void sim_job_free(struct sim_job *job)
{
	sim_fences_clear(&job->deps);
	sim_fence_put(job->done);
	free(job);
}

/* Signals the job's fence if it has one that has not been signaled. */
static void sim_job_signal(struct sim *sim, struct sim_job *job)
{
	if (!job->done || job->done->signaled)
		return;
	if (job->fenced_prev)
		job->fenced_prev->fenced_next = job->fenced_next;
	else
		sim->fenced = job->fenced_next;
	if (job->fenced_next)
		job->fenced_next->fenced_prev = job->fenced_prev;
	else
		sim->fenced_last = job->fenced_prev;
	sim_fence_signal(sim, job->done);
}

void sim_job_finish(struct sim *sim, struct sim_job *job, int error, bool by_firmware)
{
	struct sim_queue *queue = job->queue;
	struct drm_vnpu_queue_status *status = sim_queue_status(sim, queue);
	uint64_t seqno = job->sqe.seqno,
		 told = __atomic_load_n(&status->completed_seqno, __ATOMIC_RELAXED);

	*sim_queue_result(queue, seqno) = error;
	if (!by_firmware) {
		if (!__atomic_load_n(&status->error, __ATOMIC_RELAXED))
			__atomic_store_n(&status->error, (uint32_t)-error, __ATOMIC_RELAXED);
		/* The core raises it in the same way. */
		while (told < seqno &&
		       !__atomic_compare_exchange_n(&status->completed_seqno, &told, seqno, true,
						    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
	}
	queue->done = seqno;
	if (queue->waiters)
		sim_wake_later(sim, queue->hwq);
	sim_job_signal(sim, job);
	sim_job_free(job);
}

/* Tells the device to drop the job, once. */
static void sim_job_cancel(struct sim *sim, const struct sim_job *job)
{
	struct vnpu_fw_sqe cancel = {
		.type = VNPU_FW_SQE_CANCEL,
		.ctx = job->sqe.ctx,
		.queue = job->sqe.queue,
		.tag = job->sqe.tag,
	};

	/* If there is no room, the core is stuck and would not read it anyway. */
	if (job->sent && !job->late)
		sim_port_send(sim, &cancel);
}

/* Ends a job that the device has not answered; its answer will be ignored. */
static void sim_job_take_back(struct sim *sim, struct sim_job *job, int error)
{
	struct sim_hwq *hwq = &sim->hwqs[job->queue->hwq];
	uint32_t n = (uint32_t)job->sqe.tag;

	sim_job_cancel(sim, job);
	hwq->place[n % SIM_MAX_DEPTH] = SIM_PLACE_FINISHED;
	hwq->jobs[n % SIM_MAX_DEPTH] = NULL;
	sim_job_finish(sim, job, job->late ? -EBUSY : error, false);
}

void sim_queue_next_head(struct sim *sim, struct sim_queue *queue)
{
	struct sim_hwq *hwq = &sim->hwqs[queue->hwq];
	struct sim_job *job;

	while ((job = sim_hwq_first(hwq)) && job->late)
		sim_job_take_back(sim, job, -EBUSY);
	if (job)
		sim_timer_new_head(sim, queue, job);
}

void sim_job_give_up(struct sim *sim, struct sim_job *job)
{
	struct sim_queue *queue = job->queue;
	bool head = job->sent && job == sim_hwq_first(&sim->hwqs[queue->hwq]);

	sim_job_cancel(sim, job);
	job->late = true;
	sim_job_signal(sim, job);
	if (head)
		sim_queue_next_head(sim, queue);
}

/* The first job that waits for fences or for room. */
static struct sim_job *sim_queue_pop_pending(struct sim *sim, struct sim_queue *queue)
{
	struct sim_job *job = queue->pending;

	if (!job)
		return NULL;
	queue->pending = job->next;
	if (!queue->pending)
		queue->pending_tail = &queue->pending;
	sim->nr_pending--;
	return job;
}

void sim_queue_fail(struct sim *sim, struct sim_queue *queue, struct sim_job *culprit,
		    int culprit_error, int error)
{
	struct sim_hwq *hwq = &sim->hwqs[queue->hwq];
	struct sim_job *job;

	while ((job = sim_hwq_first(hwq)))
		sim_job_take_back(sim, job, job == culprit ? culprit_error : error);
	while ((job = sim_queue_pop_pending(sim, queue)))
		sim_job_finish(sim, job, job->late ? -EBUSY : error, false);
	sim_port_kick(sim);
}

/* Puts the queue's next job into the ring. The caller kicks the core. False if there is no room. */
static bool sim_job_send(struct sim *sim, struct sim_queue *queue, struct sim_job *job)
{
	struct sim_hwq *hwq = &sim->hwqs[queue->hwq];
	bool first = !sim_hwq_first(hwq);
	uint32_t n = hwq->tail;

	job->sqe.tag = (uint64_t)queue->hwq << 32 | n;
	if (!sim_port_send(sim, &job->sqe))
		return false;
	job->sent = true;
	hwq->place[n % SIM_MAX_DEPTH] = SIM_PLACE_LIVE;
	hwq->jobs[n % SIM_MAX_DEPTH] = job;
	hwq->tail++;
	if (first)
		sim_timer_new_head(sim, queue, job);
	return true;
}

static bool sim_queue_has_room(const struct sim *sim, const struct sim_queue *queue)
{
	const struct sim_hwq *hwq = &sim->hwqs[queue->hwq];

	return hwq->tail - hwq->head < queue->depth;
}

static void sim_queue_run_pending(struct sim *sim, struct sim_queue *queue)
{
	struct sim_job *job;

	while ((job = queue->pending)) {
		if (job->late) {
			/* Jobs before it have not ended. */
			if (sim_hwq_first(&sim->hwqs[queue->hwq]))
				break;
			sim_job_finish(sim, sim_queue_pop_pending(sim, queue), -EBUSY, false);
			continue;
		}
		if (!sim_queue_has_room(sim, queue) || !sim_fences_prune(&job->deps))
			break;
		if (!sim_job_send(sim, queue, job)) {
			/* The core is stuck. */
			sim_ctx_ban(sim, queue->ctx, DRM_VNPU_CTX_FW_LOST, NULL, 0);
			break;
		}
		sim_queue_pop_pending(sim, queue);
	}
}

void sim_run_pending(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->queues.size && sim->nr_pending; i++)
		if (sim->queues.slots[i])
			sim_queue_run_pending(sim, sim->queues.slots[i]);
}

/* ---- SUBMIT ---------------------------------------------------------------------------------- */

struct sim_submit_job {
	struct drm_vnpu_job in;
	struct sim_job *job;
};

struct sim_submit {
	struct sim *sim;
	struct sim_ctx *ctx;
	struct drm_vnpu_submit *args;
	struct sim_submit_job *jobs;
	uint32_t nr;
};

static int sim_submit_check(const struct drm_vnpu_job *in)
{
	uint64_t limit = 1ull << SIM_VA_BITS;

	if (in->flags || in->pad || !in->cmd_size || !in->table_size)
		return -EINVAL;
	if ((in->cmd_va | in->table_va | in->cmd_size | in->table_size) & 7)
		return -EINVAL;
	if (in->cmd_size > SIM_MAX_CMD_BYTES || in->table_size > SIM_MAX_CMD_BYTES)
		return -EINVAL;
	if (in->cmd_va > limit - in->cmd_size || in->table_va > limit - in->table_size)
		return -EINVAL;
	return in->timeout_ms > SIM_MAX_TIMEOUT_MS ? -EINVAL : 0;
}

/* *@signals: it signals a syncobj. */
static int sim_submit_check_syncs(struct sim *sim, const struct drm_vnpu_job *in, bool *signals)
{
	int ret = sim_array_check(&in->syncs, SIM_MAX_SYNCS, sizeof(struct drm_vnpu_sync_op));
	struct drm_vnpu_sync_op op;

	*signals = false;
	for (uint32_t i = 0; i < in->syncs.count && !ret; i++) {
		ret = sim_array_get(&in->syncs, i, &op, sizeof(op));
		if (!ret && (op.flags & ~DRM_VNPU_SYNC_SIGNAL))
			ret = -EINVAL;
		if (!ret && !sim_table_get(&sim->syncobjs, op.handle))
			ret = -ENOENT;
		*signals |= !ret && (op.flags & DRM_VNPU_SYNC_SIGNAL);
	}
	if (!ret && *signals && in->timeout_ms > sim->fence_ms)
		ret = -ERANGE;
	return ret;
}

static uint32_t sim_submit_timeout_ms(const struct sim *sim, const struct drm_vnpu_job *in,
				      bool signals)
{
	if (in->timeout_ms)
		return in->timeout_ms;
	return signals && sim->fence_ms < SIM_TIMEOUT_MS ? sim->fence_ms : SIM_TIMEOUT_MS;
}

static int sim_submit_prepare(struct sim_submit *s, struct sim_submit_job *sj)
{
	const struct drm_vnpu_job *in = &sj->in;
	struct sim_queue *queue;
	struct sim_job *job;
	int ret = sim_submit_check(in);
	bool signals;

	if (ret)
		return ret;
	queue = sim_table_get(&s->sim->queues, in->queue_id);
	if (!queue)
		return -ENOENT;
	if (queue->ctx != s->ctx)
		return -EINVAL;
	ret = sim_submit_check_syncs(s->sim, in, &signals);
	if (ret)
		return ret;
	job = calloc(1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	sj->job = job;
	if (signals) {
		job->done = sim_fence_create(false);
		if (!job->done)
			return -ENOMEM;
	}
	job->queue = queue;
	job->timeout_ns = sim_submit_timeout_ms(s->sim, in, signals) * SIM_MS;
	job->sqe = (struct vnpu_fw_sqe){
		.type = VNPU_FW_SQE_JOB,
		.priority = queue->priority,
		.ctx = s->ctx->id,
		.queue = queue->hwq,
		.cmd_va = in->cmd_va,
		.table_va = in->table_va,
		.cmd_size = in->cmd_size,
		.table_size = in->table_size,
	};
	return 0;
}

/* The fence that job @nr waits for if an earlier job of the batch signals the same syncobj. */
static struct sim_fence *sim_submit_sync_in_batch(struct sim_submit *s, uint32_t nr,
						  const struct drm_vnpu_sync_op *wait)
{
	struct drm_vnpu_sync_op op;

	while (nr--) {
		const struct drm_vnpu_obj_array *syncs = &s->jobs[nr].in.syncs;

		for (uint32_t i = 0; i < syncs->count; i++) {
			if (sim_array_get(syncs, i, &op, sizeof(op)))
				continue;
			if ((op.flags & DRM_VNPU_SYNC_SIGNAL) && op.handle == wait->handle &&
			    op.timeline_value >= wait->timeline_value)
				return s->jobs[nr].job->done;
		}
	}
	return NULL;
}

/* Collects fences to wait for, and reserves room for those to be signaled. */
static int sim_submit_syncs(struct sim_submit *s, uint32_t nr)
{
	struct sim_submit_job *sj = &s->jobs[nr];
	struct drm_vnpu_sync_op op;
	struct sim_fence *fence;
	int ret = 0;

	for (uint32_t i = 0; i < sj->in.syncs.count && !ret; i++) {
		ret = sim_array_get(&sj->in.syncs, i, &op, sizeof(op));
		if (ret)
			break;
		if (op.flags & DRM_VNPU_SYNC_SIGNAL) {
			ret = sim_syncobj_reserve(s->sim, op.handle, SIM_MAX_SYNCS * s->nr);
			continue;
		}
		fence = sim_submit_sync_in_batch(s, nr, &op);
		if (fence)
			ret = sim_fences_add(&sj->job->deps, fence);
		else
			ret = sim_syncobj_deps(s->sim, op.handle, op.timeline_value,
					       &sj->job->deps);
	}
	return ret;
}

/* Checks the queues' limits of jobs that are not done. */
static int sim_submit_check_room(const struct sim_submit *s)
{
	for (uint32_t i = 0; i < s->nr; i++) {
		const struct sim_queue *queue = s->jobs[i].job->queue;
		uint64_t undone = queue->submitted - queue->done;

		for (uint32_t k = 0; k <= i; k++)
			undone += s->jobs[k].job->queue == queue;
		if (undone > queue->depth + SIM_MAX_WAITING)
			return -ENOSPC;
	}
	return 0;
}

/* Cannot fail. */
static void sim_submit_commit(struct sim_submit *s)
{
	struct drm_vnpu_sync_op op;

	for (uint32_t i = 0; i < s->nr; i++) {
		struct sim_submit_job *sj = &s->jobs[i];
		struct sim_job *job = sj->job;
		struct sim_queue *queue = job->queue;
		uint64_t *seqno = (uint64_t *)(uintptr_t)(s->args->jobs.array +
							  (uint64_t)i * s->args->jobs.stride +
							  offsetof(struct drm_vnpu_job, seqno));

		job->sqe.seqno = ++queue->submitted;
		*seqno = job->sqe.seqno;
		sim_queue_forget(queue, job->sqe.seqno);
		for (uint32_t k = 0; k < sj->in.syncs.count; k++) {
			if (!sim_array_get(&sj->in.syncs, k, &op, sizeof(op)) &&
			    (op.flags & DRM_VNPU_SYNC_SIGNAL))
				sim_syncobj_add(s->sim, op.handle, op.timeline_value, job->done);
		}
		sj->job = NULL;
		if (job->done)
			sim_timer_fence(s->sim, job);
		*queue->pending_tail = job;
		queue->pending_tail = &job->next;
		s->sim->nr_pending++;
	}
	for (uint32_t i = 0; i < s->nr; i++)
		sim_queue_run_pending(s->sim,
				      sim_table_get(&s->sim->queues, s->jobs[i].in.queue_id));
	/* Their fences may have signaled since this ioctl began, without a report from the core. */
	if (s->sim->nr_pending) {
		atomic_store(&s->sim->backlog, true);
		sim_port_drain(s->sim);
	}
	sim_port_kick(s->sim);
}

int sim_submit(struct sim *sim, struct drm_vnpu_submit *args)
{
	struct sim_submit_job few[4] = { 0 };
	struct sim_submit s = { .sim = sim, .args = args, .nr = args->jobs.count, .jobs = few };
	int ret;

	if (args->flags)
		return -EINVAL;
	s.ctx = sim_table_get(&sim->ctxs, args->ctx_id);
	if (!s.ctx)
		return -ENOENT;
	ret = sim_array_check(&args->jobs, SIM_MAX_JOBS, sizeof(struct drm_vnpu_job));
	if (ret || !s.nr)
		return ret;
	if (s.nr > 4)
		s.jobs = calloc(s.nr, sizeof(*s.jobs));
	if (!s.jobs)
		return -ENOMEM;
	for (uint32_t i = 0; i < s.nr && !ret; i++) {
		ret = sim_array_get(&args->jobs, i, &s.jobs[i].in, sizeof(s.jobs[i].in));
		if (!ret)
			ret = sim_submit_prepare(&s, &s.jobs[i]);
	}
	if (!ret && s.ctx->state)
		ret = -ECANCELED;
	if (!ret)
		ret = sim_submit_check_room(&s);
	for (uint32_t i = 0; i < s.nr && !ret; i++)
		ret = sim_submit_syncs(&s, i);
	if (!ret)
		sim_submit_commit(&s);
	for (uint32_t i = 0; i < s.nr; i++)
		if (s.jobs[i].job)
			sim_job_free(s.jobs[i].job);
	if (s.jobs != few)
		free(s.jobs);
	return ret;
}
