// SPDX-License-Identifier: MIT
/* Queues of the simulated device: creation, destruction, and waiting. */
#include <errno.h>
#include <stdlib.h>

#include "sim.h"

struct drm_vnpu_queue_status *sim_queue_status(struct sim *sim, const struct sim_queue *queue)
{
	return (struct drm_vnpu_queue_status *)(sim->status + (size_t)queue->hwq * SIM_PAGE);
}

/* Takes a free slot of the device, for which the core owes no answer, with a clean status page. */
static int sim_queue_take_place(struct sim *sim, struct sim_queue *queue)
{
	for (uint32_t i = 0; i < SIM_NR_QUEUES; i++) {
		struct sim_hwq *hwq = &sim->hwqs[i];

		if (hwq->queue || hwq->head != hwq->tail)
			continue;
		if (!hwq->place)
			hwq->place = calloc(SIM_MAX_DEPTH, sizeof(*hwq->place));
		if (!hwq->jobs)
			hwq->jobs = calloc(SIM_MAX_DEPTH, sizeof(*hwq->jobs));
		if (!hwq->place || !hwq->jobs)
			return -ENOMEM;
		hwq->queue = queue;
		hwq->ctx = queue->ctx->id;
		queue->hwq = i;
		*sim_queue_status(sim, queue) =
			(struct drm_vnpu_queue_status){ .epoch = sim->epoch };
		return 0;
	}
	return -EBUSY;
}

static struct sim_queue *sim_queue_new(struct sim_ctx *ctx,
				       const struct drm_vnpu_queue_create *args)
{
	struct sim_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->nr_results = 1;
	while (queue->nr_results < args->depth + SIM_MAX_WAITING)
		queue->nr_results *= 2;
	queue->results = calloc(queue->nr_results, sizeof(*queue->results));
	if (!queue->results) {
		free(queue);
		return NULL;
	}
	queue->refs = 1;
	queue->ctx = ctx;
	queue->priority = args->priority;
	queue->depth = args->depth;
	queue->pending_tail = &queue->pending;
	return queue;
}

void sim_queue_put(struct sim_queue *queue)
{
	if (--queue->refs)
		return;
	free(queue->results);
	free(queue);
}

int sim_queue_create(struct sim *sim, struct drm_vnpu_queue_create *args)
{
	struct sim_ctx *ctx = sim_table_get(&sim->ctxs, args->ctx_id);
	struct sim_queue *queue;
	int ret;

	if (args->flags || args->pad || args->priority > DRM_VNPU_PRIORITY_HIGH)
		return -EINVAL;
	if (!args->depth || (args->depth & (args->depth - 1)) || args->depth > SIM_MAX_DEPTH)
		return -EINVAL;
	if (!ctx)
		return -ENOENT;
	if (ctx->state)
		return -ECANCELED;
	ret = sim_timer_start(sim);
	if (ret)
		return ret;
	queue = sim_queue_new(ctx, args);
	if (!queue)
		return -ENOMEM;
	ret = sim_queue_take_place(sim, queue);
	if (ret) {
		sim_queue_put(queue);
		return ret;
	}
	queue->id = sim_table_add(&sim->queues, queue, SIM_NR_QUEUES, &ret);
	if (!queue->id) {
		sim->hwqs[queue->hwq].queue = NULL;
		sim_queue_put(queue);
		return ret;
	}
	args->queue_id = queue->id;
	args->status_offset = (uint64_t)queue->hwq * SIM_PAGE;
	return 0;
}

/* Takes over the table's reference to a queue that is no longer in it. */
void sim_queue_kill(struct sim *sim, struct sim_queue *queue)
{
	queue->dead = true;
	sim_queue_fail(sim, queue, NULL, 0, -ECANCELED);
	sim->hwqs[queue->hwq].queue = NULL;
	sim_queue_put(queue);
}

int sim_queue_destroy(struct sim *sim, struct drm_vnpu_queue_destroy *args)
{
	struct sim_queue *queue;

	if (args->pad)
		return -EINVAL;
	queue = sim_table_del(&sim->queues, args->queue_id);
	if (!queue)
		return -ENOENT;
	sim_queue_kill(sim, queue);
	return 0;
}

/* ---- WAIT ---- */

int *sim_queue_result(const struct sim_queue *queue, uint64_t seqno)
{
	return &queue->results[seqno & (queue->nr_results - 1)];
}

void sim_queue_forget(struct sim_queue *queue, uint64_t seqno)
{
	int *result = sim_queue_result(queue, seqno);

	if (*result) {
		queue->forgotten_seqno = seqno - queue->nr_results;
		queue->forgotten_error = *result;
	}
	*result = 0;
}

static int sim_queue_remembered(const struct sim_queue *queue, uint64_t seqno)
{
	if (queue->submitted - seqno < queue->nr_results)
		return *sim_queue_result(queue, seqno);
	return seqno <= queue->forgotten_seqno ? queue->forgotten_error : 0;
}

int sim_queue_wait(struct sim *sim, struct drm_vnpu_wait *args)
{
	struct sim_queue *queue = sim_table_get(&sim->queues, args->queue_id);
	int ret = 0;

	if (args->flags)
		return -EINVAL;
	if (!queue)
		return -ENOENT;
	if (!args->seqno || args->seqno > queue->submitted)
		return -EINVAL;
	queue->refs++;
	queue->waiters++;
	sim_listen_begin(sim);
	while (queue->done < args->seqno && !ret)
		if (!sim_wait_end(sim, &sim->hwqs[queue->hwq], args->timeout_ns) &&
		    queue->done < args->seqno)
			ret = -ETIMEDOUT;
	sim_listen_end(sim);
	queue->waiters--;
	if (!ret) {
		args->status = sim_queue_remembered(queue, args->seqno);
		args->epoch = sim->epoch;
	}
	sim_queue_put(queue);
	return ret;
}
