// SPDX-License-Identifier: MIT
/*
 * Time limits of the simulated device's jobs and fences, as in the kernel driver.
 *
 * The timer samples the progress of the oldest job that each queue has in the device. A job that
 * has started must make progress itself, and may run for SIM_MAX_TIMEOUT_MS; otherwise it is to
 * blame, and its context is banned. For a job that waits for the device, any progress of the device
 * counts, for ten times that long and with slightly longer timeouts than a running job; then it
 * alone ends, because other jobs are to blame.
 *
 * A fence lasts for sim->fence_ms from SUBMIT, whatever its job does. All fences have the same time
 * limit, so they expire in the order of SUBMIT.
 *
 * The timer is only ever moved to an earlier time: it wakes, checks, and sleeps again, so that a
 * job that ends in time costs nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>

#include "sim.h"

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

void sim_timer_new_head(struct sim *sim, struct sim_queue *queue, const struct sim_job *job)
{
	queue->head_since_ns = queue->alive_ns = sim_now_ns();
	queue->running = false;
	sim_timer_at(sim, queue->head_since_ns + sim_timer_period(job));
}

void sim_timer_fence(struct sim *sim, struct sim_job *job)
{
	job->fence_end_ns = sim_now_ns() + sim->fence_ms * SIM_MS;
	job->fenced_prev = sim->fenced_last;
	if (sim->fenced_last)
		sim->fenced_last->fenced_next = job;
	else
		sim->fenced = job;
	sim->fenced_last = job;
	sim_timer_at(sim, sim->fenced->fence_end_ns);
}

static void sim_timer_sample(struct sim *sim, struct sim_queue *queue, const struct sim_job *job,
			     int64_t now)
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

/* When a running job is to blame if no more progress is seen. */
static int64_t sim_timer_guilty(const struct sim *sim, const struct sim_queue *queue,
				const struct sim_job *job)
{
	int64_t longest = SIM_MAX_TIMEOUT_MS * SIM_MS;

	if (job->done)
		longest = sim_min(longest, sim->fence_ms * SIM_MS);
	return sim_min(queue->alive_ns + job->timeout_ns, queue->running_since_ns + longest);
}

/* When the time of the queue's oldest job is up unless more progress is seen. */
static int64_t sim_timer_deadline(const struct sim *sim, const struct sim_queue *queue,
				  const struct sim_job *job)
{
	int64_t heard = sim->alive_ns > queue->head_since_ns ? sim->alive_ns : queue->head_since_ns;

	if (queue->running)
		return sim_timer_guilty(sim, queue, job);
	return sim_min(heard + job->timeout_ns + SIM_WAIT_MORE_NS,
		       queue->head_since_ns + SIM_WAIT_FACTOR * SIM_MAX_TIMEOUT_MS * SIM_MS);
}

static struct sim_job *sim_timer_job(struct sim *sim, uint32_t hwq)
{
	return sim->hwqs[hwq].queue ? sim_hwq_first(&sim->hwqs[hwq]) : NULL;
}

static void sim_timer_ban(struct sim *sim, struct sim_job *job)
{
	sim_ctx_ban(sim, job->queue->ctx, DRM_VNPU_CTX_TIMEDOUT, job, -ETIMEDOUT);
}

/*
 * Expires fences. A job that has run for the whole time is to blame. Its start and its progress are
 * noticed up to a period late, and a busy host adds delay, hence the two periods.
 */
static void sim_timer_end_fences(struct sim *sim, int64_t now)
{
	struct sim_job *job;

	while ((job = sim->fenced) && job->fence_end_ns <= now) {
		struct sim_queue *queue = job->queue;

		if (queue->running && job == sim_timer_job(sim, queue->hwq) &&
		    sim_timer_guilty(sim, queue, job) - 2 * sim_timer_period(job) <= now)
			sim_timer_ban(sim, job);
		else
			sim_job_give_up(sim, job);
	}
}

/* Ends jobs and fences whose time is up. Returns when to check again. */
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

		if (!job || sim_timer_deadline(sim, job->queue, job) > now)
			continue;
		if (job->queue->running)
			sim_timer_ban(sim, job);
		else
			sim_job_give_up(sim, job);
	}
	sim_timer_end_fences(sim, now);
	for (uint32_t i = 0; i < SIM_NR_QUEUES; i++) {
		struct sim_job *job = sim_timer_job(sim, i);

		if (job)
			next = sim_min(next, sim_min(sim_timer_deadline(sim, job->queue, job),
						     now + sim_timer_period(job)));
	}
	return sim->fenced ? sim_min(next, sim->fenced->fence_end_ns) : next;
}

static void *sim_timer_main(void *arg)
{
	struct sim *sim = arg;

	pthread_mutex_lock(&sim->lock);
	while (!sim->timer_stop) {
		if (sim_cond_wait(sim, &sim->timer_cond, sim->timer_at_ns))
			continue;
		/* The core may have posted the answer without reporting it. */
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
	/* Leave the program's signals to its own threads. */
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
