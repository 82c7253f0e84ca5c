// SPDX-License-Identifier: MIT
/*
 * Queues of the simulated device: creation, the end, waiting, and the timer of job timeouts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "sim.h"

struct drm_vnpu_queue_status *sim_queue_status(struct sim *sim, const struct sim_queue *queue)
{
	return (struct drm_vnpu_queue_status *)(sim->status + (size_t)queue->hwq * SIM_PAGE);
}

/* A free place of the device with a clean status page: one for whose jobs the core owes no answer. */
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
		*sim_queue_status(sim, queue) = (struct drm_vnpu_queue_status){ .epoch = sim->epoch };
		return 0;
	}
	return -EBUSY;
}

static struct sim_queue *sim_queue_new(struct sim_ctx *ctx, const struct drm_vnpu_queue_create *args)
{
	struct sim_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->failures = calloc(args->depth, sizeof(*queue->failures));
	if (!queue->failures) {
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
	free(queue->failures);
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

/* Take over the table's reference to a queue that is no longer in it. */
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

static int sim_queue_result(const struct sim_queue *queue, uint64_t seqno)
{
	uint32_t kept = queue->nr_failures < queue->depth ? queue->nr_failures : queue->depth;

	for (uint32_t i = 1; i <= kept; i++) {
		const struct sim_failure *f = &queue->failures[(queue->nr_failures - i) & (queue->depth - 1)];

		if (f->seqno == seqno)
			return f->error;
		/* Older than all that is remembered: some job back there failed, and nobody knows any more which. */
		if (i == kept && kept < queue->nr_failures && seqno < f->seqno)
			return f->error;
	}
	return 0;
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
		if (!sim_wait_end(sim, &sim->hwqs[queue->hwq], args->timeout_ns) && queue->done < args->seqno)
			ret = -ETIMEDOUT;
	sim_listen_end(sim);
	queue->waiters--;
	if (!ret) {
		args->status = sim_queue_result(queue, args->seqno);
		args->epoch = sim->epoch;
	}
	sim_queue_put(queue);
	return ret;
}

/* ---- timeouts ---- */

/*
 * As the kernel's: the oldest job of each queue in the device is watched for signs of life. One that has started must make
 * progress itself, and may run for SIM_MAX_TIMEOUT_MS; one that waits for the device is content with any progress of the
 * device, for ten times that long, and has some time more than one that runs.
 *
 * The timer is only ever moved to be earlier: it wakes, finds how things stand, and goes to sleep again, so that a job that
 * ends in time costs nothing.
 */
#define SIM_SAMPLE_NS (500 * SIM_MS)
#define SIM_WAIT_MORE_NS (250 * SIM_MS)
#define SIM_WAIT_FACTOR 10

static void sim_timer_at(struct sim *sim, int64_t at_ns)
{
	if (at_ns >= sim->timer_at_ns)
		return;
	sim->timer_at_ns = at_ns;
	pthread_cond_signal(&sim->timer_cond);
}

static int64_t sim_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t sim_timer_period(const struct sim_job *job)
{
	return sim_min(job->timeout_ns / 4, SIM_SAMPLE_NS);
}

void sim_queue_new_head(struct sim *sim, struct sim_queue *queue)
{
	struct sim_job *job = sim_hwq_first(&sim->hwqs[queue->hwq]);

	if (!job)
		return;
	queue->head_since_ns = queue->alive_ns = sim_now_ns();
	queue->running = false;
	sim_timer_at(sim, queue->head_since_ns + sim_timer_period(job));
}

static void sim_timer_sample(struct sim *sim, struct sim_queue *queue, const struct sim_job *job, int64_t now)
{
	struct drm_vnpu_queue_status *status = sim_queue_status(sim, queue);
	uint64_t started = __atomic_load_n(&status->started_seqno, __ATOMIC_RELAXED);
	uint64_t progress = __atomic_load_n(&status->progress, __ATOMIC_RELAXED);

	if (started != queue->seen_started || progress != queue->seen_progress) {
		queue->seen_started = started;
		queue->seen_progress = progress;
		queue->alive_ns = sim->alive_ns = now;
	}
	if (!queue->running && started >= job->sqe.seqno) {
		queue->running = true;
		queue->running_since_ns = queue->alive_ns = now;
	}
}

/* When the time of the queue's oldest job is up if nothing more is heard. */
static int64_t sim_timer_deadline(const struct sim *sim, const struct sim_queue *queue, const struct sim_job *job)
{
	int64_t heard = sim->alive_ns > queue->head_since_ns ? sim->alive_ns : queue->head_since_ns;

	if (queue->running)
		return sim_min(queue->alive_ns + job->timeout_ns,
			       queue->running_since_ns + SIM_MAX_TIMEOUT_MS * SIM_MS);
	return sim_min(heard + job->timeout_ns + SIM_WAIT_MORE_NS,
		       queue->head_since_ns + SIM_WAIT_FACTOR * SIM_MAX_TIMEOUT_MS * SIM_MS);
}

static struct sim_job *sim_timer_job(struct sim *sim, uint32_t hwq)
{
	return sim->hwqs[hwq].queue ? sim_hwq_first(&sim->hwqs[hwq]) : NULL;
}

/* When to look again, after all whose time is up were dealt with. */
static int64_t sim_timer_check(struct sim *sim)
{
	int64_t next = INT64_MAX, now = sim_now_ns();

	if (sim->answered)
		sim->alive_ns = now;
	sim->answered = false;
	for (uint32_t i = 0; i < SIM_NR_QUEUES; i++) {
		struct sim_job *job = sim_timer_job(sim, i);

		if (job)
			sim_timer_sample(sim, job->queue, job, now);
	}
	for (uint32_t i = 0; i < SIM_NR_QUEUES; i++) {
		struct sim_job *job = sim_timer_job(sim, i);
		int64_t deadline;

		if (!job)
			continue;
		deadline = sim_timer_deadline(sim, job->queue, job);
		if (deadline <= now)
			sim_ctx_ban(sim, job->queue->ctx, DRM_VNPU_CTX_TIMEDOUT, job, -ETIMEDOUT);
		else
			next = sim_min(next, sim_min(deadline, now + sim_timer_period(job)));
	}
	return next;
}

static void *sim_timer_main(void *arg)
{
	struct sim *sim = arg;

	pthread_mutex_lock(&sim->lock);
	while (!sim->timer_stop) {
		if (sim_cond_wait(sim, &sim->timer_cond, sim->timer_at_ns))
			continue;
		/* The answer may lie in the ring, posted by a core that has not come to say so. */
		sim_port_drain(sim);
		sim->timer_at_ns = sim_timer_check(sim);
		sim_run_pending(sim);
		sim_port_kick(sim);
		sim_unlock(sim);
		pthread_mutex_lock(&sim->lock);
	}
	sim_unlock(sim);
	return NULL;
}

int sim_timer_start(struct sim *sim)
{
	sigset_t all, old;
	int ret;

	if (sim->timer_started)
		return 0;
	sim->timer_at_ns = INT64_MAX;
	/* The program's signals are none of our business. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	ret = -pthread_create(&sim->timer_thread, NULL, sim_timer_main, sim);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	sim->timer_started = !ret;
	return ret;
}

void sim_timer_stop(struct sim *sim)
{
	if (!sim->timer_started)
		return;
	pthread_mutex_lock(&sim->lock);
	sim->timer_stop = true;
	pthread_cond_signal(&sim->timer_cond);
	sim_unlock(sim);
	pthread_join(sim->timer_thread, NULL);
}
