// SPDX-License-Identifier: MIT
/*
 * Queues: submitting and waiting.
 *
 * A fast wait polls the queue's status page instead of making a device call. It expects a job to
 * take as long as the program's jobs took before (expect.h): it sleeps, polls until somewhat past
 * the expected end, and sleeps in WAIT if the job is later than that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "npu_private.h"
#include "probes.h"
#include "trace.h"

#define NPU_DEFAULT_DEPTH 16

/* A device that has been idle for this long has gone to sleep. */
#define NPU_DEVICE_NAPS_NS 50000
/* Polls of the status page per reading of the clock. */
#define NPU_POLL_LOOKS 64
/*
 * A wait for a job that is expected to last longer sleeps in the driver. Being woken takes some
 * thousandths of that time, while a sleep of the expected length can be much too long, because a
 * program's first job is the slowest.
 */
#define NPU_POLL_AHEAD_NS 20000000
/* The same if polling takes a CPU from the device: it costs more than being woken then. */
#define NPU_POLL_AHEAD_CROWDED_NS 1000000

/* ---- life ------------------------------------------------------------------------------------ */

struct npu_queue *npu_queue_get(struct npu_queue *queue)
{
	atomic_fetch_add(&queue->refs, 1);
	return queue;
}

void npu_queue_put(struct npu_queue *queue)
{
	if (atomic_fetch_sub(&queue->refs, 1) != 1)
		return;
	npu_context_free(queue->ctx);
	npu_flights_end(&queue->flights);
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}

bool npu_queue_ended(struct npu_queue *queue, uint64_t seqno)
{
	bool ended;

	pthread_mutex_lock(&queue->lock);
	ended = npu_queue_completed(queue) >= seqno;
	pthread_mutex_unlock(&queue->lock);
	return ended;
}

bool npu_queue_idle(struct npu_queue *queue, uint64_t seqno)
{
	bool idle;

	pthread_mutex_lock(&queue->lock);
	idle = queue->dead || npu_queue_completed(queue) >= seqno;
	pthread_mutex_unlock(&queue->lock);
	return idle;
}

/*
 * If the queue is released before the driver sees the call, the call fails or waits for a job of a
 * later queue with this id, and ends in bounded time as well.
 */
void npu_queue_drain(struct npu_queue *queue, uint64_t seqno)
{
	struct npu_device *dev = queue->ctx->dev;
	struct drm_vnpu_wait wait = {
		.queue_id = queue->id,
		.seqno = seqno,
		.timeout_ns = INT64_MAX,
	};

	if (npu_queue_idle(queue, seqno))
		return;
	atomic_fetch_add_explicit(&dev->waits, 1, memory_order_relaxed);
	transport_ioctl(dev->t, DRM_IOCTL_VNPU_WAIT, &wait);
}

static int npu_queue_open(struct npu_queue *queue, enum npu_priority priority)
{
	static const uint32_t priorities[] = {
		[NPU_PRIORITY_NORMAL] = DRM_VNPU_PRIORITY_NORMAL,
		[NPU_PRIORITY_LOW] = DRM_VNPU_PRIORITY_LOW,
		[NPU_PRIORITY_HIGH] = DRM_VNPU_PRIORITY_HIGH,
	};
	struct npu_device *dev = queue->ctx->dev;
	struct drm_vnpu_queue_create create = { .ctx_id = queue->ctx->id, .depth = queue->depth };
	struct drm_vnpu_queue_destroy destroy = { 0 };
	void *status;
	int ret;

	if ((unsigned int)priority > NPU_PRIORITY_HIGH)
		return npu_fail(-EINVAL, "queue: priority %d is not known", priority);
	create.priority = priorities[priority];
	ret = transport_ioctl(dev->t, DRM_IOCTL_VNPU_QUEUE_CREATE, &create);
	switch (ret) {
	case 0:
		break;
	case -EINVAL:
		return npu_fail(ret, "queue: depth %u is not a power of two up to %u", queue->depth,
				dev->limits.max_queue_depth);
	case -EACCES:
		return npu_fail(ret, "queue: high priority needs CAP_SYS_NICE; use normal");
	case -EMFILE:
		return npu_fail(ret,
				"queue: this device handle has reached its limit of %u; free one",
				dev->limits.max_queues_per_file);
	case -EDQUOT:
		return npu_fail(
			ret,
			"queue: your user has reached this device's limit of %u; free one, or give "
			"vnpu-fw more --user-queues",
			dev->limits.max_queues_per_user);
	case -EBUSY:
		return npu_fail(
			ret, "queue: all queues of the device are in use; try again later, or give "
			     "vnpu-fw more --queues");
	case -ECANCELED:
		return npu_fail(
			ret,
			"queue: the context is banned; npu_context_state() says why, make a new "
			"one");
	default:
		return npu_fail(ret, "queue: QUEUE_CREATE: %s", strerror(-ret));
	}
	queue->id = create.queue_id;
	ret = dev->t->ops->map(dev->t, create.status_offset, NPU_PAGE, PROT_READ, &status);
	if (ret) {
		destroy.queue_id = queue->id;
		transport_ioctl(dev->t, DRM_IOCTL_VNPU_QUEUE_DESTROY, &destroy);
		return npu_fail(ret, "queue: mapping its status page: %s", strerror(-ret));
	}
	queue->status = status;
	return 0;
}

static int npu_queue_make(struct npu_context *ctx, const struct npu_queue_options *opts,
			  struct npu_queue **out)
{
	struct npu_queue *queue = calloc(1, sizeof(*queue));
	uint32_t max = ctx->dev->limits.max_queue_depth;
	int ret;

	*out = NULL;
	if (!queue)
		return npu_fail(-ENOMEM, "queue: out of memory");
	atomic_init(&queue->refs, 1);
	pthread_mutex_init(&queue->lock, NULL);
	npu_flights_init(&queue->flights);
	queue->ctx = npu_context_get(ctx);
	queue->depth = opts && opts->depth	 ? opts->depth
		       : max < NPU_DEFAULT_DEPTH ? max
						 : NPU_DEFAULT_DEPTH;
	ret = npu_queue_open(queue, opts ? opts->priority : NPU_PRIORITY_NORMAL);
	if (ret) {
		npu_queue_put(queue);
		return ret;
	}
	queue->trace = npu_trace_queue_create(ctx->dev, ctx->id, queue->id, queue->status);
	*out = queue;
	return 0;
}

int npu_queue_create(struct npu_context *ctx, const struct npu_queue_options *opts,
		     struct npu_queue **out)
{
	int64_t start_ns = npu_trace_begin();
	int ret = npu_queue_make(ctx, opts, out);

	if (start_ns)
		npu_trace_call(start_ns, "npu_queue_create", ret,
			       "\"ctx\":%u,\"priority\":%d,\"depth\":%u,\"queue\":%u", ctx->id,
			       opts ? (int)opts->priority : NPU_PRIORITY_NORMAL,
			       ret ? 0 : (*out)->depth, ret ? 0 : (*out)->id);
	return ret;
}

/* Ends the queue's jobs. The status page goes away with it. */
static void npu_queue_destroy(struct npu_queue *queue)
{
	struct drm_vnpu_queue_destroy destroy = { .queue_id = queue->id };
	struct transport *t = queue->ctx->dev->t;

	pthread_mutex_lock(&queue->lock);
	/* Jobs may still ask whether they are done. */
	atomic_store(&queue->done, npu_queue_completed(queue));
	npu_trace_queue_free(queue->trace);
	queue->trace = NULL;
	transport_ioctl(t, DRM_IOCTL_VNPU_QUEUE_DESTROY, &destroy);
	queue->dead = true;
	t->ops->unmap(t, (void *)queue->status, NPU_PAGE);
	queue->status = NULL;
	pthread_mutex_unlock(&queue->lock);
}

void npu_queue_free(struct npu_queue *queue)
{
	int64_t start_ns = npu_trace_begin();

	if (!queue)
		return;
	npu_queue_destroy(queue);
	npu_buffer_free(queue->scratch);
	queue->scratch = NULL;
	if (start_ns)
		npu_trace_call(start_ns, "npu_queue_free", 0, "\"ctx\":%u,\"queue\":%u",
			       queue->ctx->id, queue->id);
	npu_queue_put(queue);
}

/* ---- submitting ------------------------------------------------------------------------------ */

/*
 * Calls SUBMIT. If the driver has no room for the batch, waits until so many jobs have ended that
 * it should fit, and then for one job at a time if it still does not.
 */
static int npu_queue_call_submit(struct npu_queue *queue, struct drm_vnpu_submit *submit)
{
	struct npu_device *dev = queue->ctx->dev;
	uint64_t room = queue->depth + dev->limits.max_waiting_jobs,
		 end = queue->submitted + submit->jobs.count;
	struct drm_vnpu_wait wait = {
		.queue_id = queue->id,
		.seqno = end > room ? end - room : 1,
		.timeout_ns = INT64_MAX,
	};
	int ret;

	while ((ret = transport_ioctl(dev->t, DRM_IOCTL_VNPU_SUBMIT, submit)) == -ENOSPC &&
	       wait.seqno <= queue->submitted) {
		atomic_fetch_add_explicit(&dev->waits, 1, memory_order_relaxed);
		ret = transport_ioctl(dev->t, DRM_IOCTL_VNPU_WAIT, &wait);
		if (ret)
			return ret;
		wait.seqno++;
	}
	return ret;
}

static void npu_queue_note_flight(struct npu_queue *queue, struct npu_job *job, uint64_t seqno,
				  int64_t now)
{
	npu_flights_note(&queue->flights, job->prog->pace, seqno, atomic_load(&queue->done), now);
	npu_queue_get(queue);
	if (job->queue)
		npu_queue_put(job->queue);
	job->queue = queue;
	job->seqno = seqno;
}

static int npu_queue_sync_ops(struct npu_queue *queue, const struct npu_sync *syncs,
			      unsigned int nr, uint32_t flags, struct drm_vnpu_sync_op *ops)
{
	for (unsigned int i = 0; i < nr; i++) {
		if (!syncs[i].fence || syncs[i].fence->dev != queue->ctx->dev)
			return npu_fail(-EINVAL, "submit: fence %u is of another device", i);
		ops[i] = (struct drm_vnpu_sync_op){
			.flags = flags,
			.handle = syncs[i].fence->handle,
			.timeline_value = syncs[i].point,
		};
	}
	return 0;
}

static int npu_queue_submit_invalid(struct npu_queue *queue, const struct drm_vnpu_job *raw,
				    unsigned int nr_jobs)
{
	uint32_t max_ms = queue->ctx->dev->limits.max_timeout_ms;

	for (unsigned int i = 0; i < nr_jobs; i++)
		if (raw[i].timeout_ms > max_ms)
			return npu_fail(-EINVAL,
					"submit: job %u of %u has a timeout of %u ms; the most is "
					"%u ms",
					i + 1, nr_jobs, raw[i].timeout_ms, max_ms);
	return npu_fail(-EINVAL, "submit: refused; a fence to wait for has nothing to signal it");
}

static int npu_queue_submit_error(struct npu_queue *queue, int ret, const struct drm_vnpu_job *raw,
				  unsigned int nr_jobs)
{
	struct npu_context_state state;

	switch (ret) {
	case -ECANCELED:
		if (npu_context_state(queue->ctx, &state))
			return ret;
		return npu_fail(ret,
				"submit: the context is banned (%s); free it and make a new one",
				state.state & NPU_CONTEXT_FAULT	     ? "a job faulted"
				: state.state & NPU_CONTEXT_TIMEDOUT ? "a job timed out"
								     : "the firmware was lost");
	case -ENODEV:
		return npu_fail(ret, "submit: the device is gone; open it again");
	case -ERANGE:
		return npu_fail(
			ret,
			"submit: a job with a timeout of %u ms cannot signal a fence, which lasts "
			"%u ms at the "
			"most; give it less with npu_job_timeout(), or npu_queue_wait() for it",
			raw[nr_jobs - 1].timeout_ms, queue->ctx->dev->limits.max_fence_ms);
	case -EINVAL:
		return npu_queue_submit_invalid(queue, raw, nr_jobs);
	default:
		return npu_fail(ret, "submit: %s", strerror(-ret));
	}
}

static void npu_queue_fill_job(struct npu_queue *queue, const struct npu_job *job,
			       struct drm_vnpu_job *out)
{
	const struct npu_program *prog = job->prog;

	*out = (struct drm_vnpu_job){
		.queue_id = queue->id,
		.cmd_va = prog->code->va,
		.table_va = job->table->va,
		.cmd_size = prog->image.cmd_bytes,
		.table_size = job->table_bytes,
		.timeout_ms = job->timeout_ms,
	};
}

static int npu_queue_submit_raw(struct npu_queue *queue, struct drm_vnpu_job *raw,
				unsigned int nr_jobs, const struct npu_submit_syncs *syncs)
{
	unsigned int nr_wait = syncs ? syncs->nr_wait : 0, nr_signal = syncs ? syncs->nr_signal : 0;
	struct drm_vnpu_sync_op few[8], *ops = few;
	struct npu_device *dev = queue->ctx->dev;
	struct drm_vnpu_submit submit = {
		.ctx_id = queue->ctx->id,
		.jobs = { .stride = sizeof(*raw), .count = nr_jobs, .array = (uintptr_t)raw },
	};
	int ret = 0;

	if (nr_wait > dev->limits.max_syncs_per_job ||
	    nr_signal > dev->limits.max_syncs_per_job - nr_wait)
		return npu_fail(-EINVAL, "submit: more than %u fences",
				dev->limits.max_syncs_per_job);
	if (nr_wait + nr_signal > 8)
		ops = calloc(nr_wait + nr_signal, sizeof(*ops));
	if (!ops)
		return npu_fail(-ENOMEM, "submit: out of memory");
	if (nr_wait)
		ret = npu_queue_sync_ops(queue, syncs->wait, nr_wait, 0, ops);
	if (!ret && nr_signal)
		ret = npu_queue_sync_ops(queue, syncs->signal, nr_signal, DRM_VNPU_SYNC_SIGNAL,
					 ops + nr_wait);
	if (!ret) {
		struct drm_vnpu_obj_array wait = { sizeof(*ops), nr_wait,
						   nr_wait ? (uintptr_t)ops : 0 };
		struct drm_vnpu_obj_array signal = { sizeof(*ops), nr_signal,
						     nr_signal ? (uintptr_t)(ops + nr_wait) : 0 };
		struct drm_vnpu_obj_array both = { sizeof(*ops), nr_wait + nr_signal,
						   (uintptr_t)ops };

		if (nr_wait)
			raw[0].syncs = wait;
		if (nr_signal)
			raw[nr_jobs - 1].syncs = nr_jobs == 1 && nr_wait ? both : signal;
		ret = npu_queue_call_submit(queue, &submit);
		if (ret)
			ret = npu_queue_submit_error(queue, ret, raw, nr_jobs);
	}
	if (ops != few)
		free(ops);
	return ret;
}

static int npu_queue_submit_jobs(struct npu_queue *queue, struct npu_job *const *jobs,
				 unsigned int nr_jobs, const struct npu_submit_syncs *syncs,
				 int64_t start_ns, uint64_t *seqno)
{
	struct npu_device *dev = queue->ctx->dev;
	struct drm_vnpu_job few[4], *raw = few;
	int64_t now;
	int ret = 0;

	if (!nr_jobs || nr_jobs > dev->limits.max_jobs_per_submit)
		return npu_fail(-EINVAL, "submit: %u jobs; 1 to %u fit into one call", nr_jobs,
				dev->limits.max_jobs_per_submit);
	if (nr_jobs > 4)
		raw = calloc(nr_jobs, sizeof(*raw));
	if (!raw)
		return npu_fail(-ENOMEM, "submit: out of memory");
	for (unsigned int i = 0; i < nr_jobs && !ret; i++) {
		ret = npu_job_prepare(jobs[i], queue);
		if (!ret)
			npu_queue_fill_job(queue, jobs[i], &raw[i]);
	}
	if (!ret) {
		npu_probe_submit(queue->ctx->id, queue->id, nr_jobs);
		for (unsigned int i = 0; i < nr_jobs; i++)
			npu_job_hide_times(jobs[i]);
		ret = npu_queue_submit_raw(queue, raw, nr_jobs, syncs);
		for (unsigned int i = 0; i < nr_jobs; i++)
			npu_job_show_times(jobs[i], ret);
	}
	if (!ret) {
		now = npu_now_ns();
		for (unsigned int i = 0; i < nr_jobs; i++) {
			npu_queue_note_flight(queue, jobs[i], raw[i].seqno, now);
			npu_probe_job_submit(queue->ctx->id, queue->id, raw[i].seqno,
					     (const char *)jobs[i]->prog->image.note.name);
			if (start_ns && queue->trace)
				npu_trace_job(queue->trace, raw[i].seqno,
					      jobs[i]->prog->image.note.name, start_ns);
		}
		atomic_store(&queue->submitted, raw[nr_jobs - 1].seqno);
		if (seqno)
			*seqno = raw[nr_jobs - 1].seqno;
		atomic_fetch_add_explicit(&dev->submits, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&dev->jobs, nr_jobs, memory_order_relaxed);
	}
	if (raw != few)
		free(raw);
	return ret;
}

int npu_queue_submit(struct npu_queue *queue, struct npu_job *const *jobs, unsigned int nr_jobs,
		     const struct npu_submit_syncs *syncs, uint64_t *seqno)
{
	int64_t start_ns = npu_trace_begin();
	int ret = npu_queue_submit_jobs(queue, jobs, nr_jobs, syncs, start_ns, seqno);

	if (start_ns)
		npu_trace_call(start_ns, "npu_queue_submit", ret,
			       "\"ctx\":%u,\"queue\":%u,\"jobs\":%u,\"wait_fences\":%u,"
			       "\"signal_fences\":%u,\"seqno\":%llu",
			       queue->ctx->id, queue->id, nr_jobs, syncs ? syncs->nr_wait : 0,
			       syncs ? syncs->nr_signal : 0,
			       ret ? 0 : (unsigned long long)queue->submitted);
	return ret;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static uint64_t npu_queue_look(const struct npu_queue *queue)
{
	uint64_t done = atomic_load_explicit(&queue->done, memory_order_relaxed), seen;

	if (!queue->status)
		return done;
	seen = __atomic_load_n(&queue->status->completed_seqno, __ATOMIC_ACQUIRE);
	return seen > done ? seen : done;
}

uint64_t npu_queue_completed(const struct npu_queue *queue)
{
	uint64_t done = npu_queue_look(queue);

	if (queue->trace)
		npu_trace_look_ended(queue->trace);
	return done;
}

static void npu_queue_known(struct npu_queue *queue, uint64_t seqno)
{
	uint64_t done = atomic_load(&queue->done);

	while (done < seqno && !atomic_compare_exchange_weak(&queue->done, &done, seqno))
		;
}

/* The watched job was seen to have ended, with @status. */
static void npu_queue_job_done(struct npu_queue *queue, struct npu_watch *w, uint64_t seqno,
			       enum npu_notice notice, int status)
{
	int64_t took_ns = npu_flights_learn(&queue->flights, w, notice, npu_now_ns());

	npu_queue_known(queue, seqno);
	npu_probe_job_done(queue->ctx->id, queue->id, seqno, status, took_ns);
	if (queue->trace)
		npu_trace_job_done(queue->trace, seqno, status);
}

/* Sleeps through most of a long job. True if the job is then done. */
static bool npu_queue_sleep(struct npu_queue *queue, struct npu_watch *w, int64_t now,
			    int64_t deadline)
{
	const struct npu_flight *f = &w->flight;
	int64_t sleep_ns = 0, start_ns;
	struct timespec ts;

	if (f->pace)
		sleep_ns = expect_sleep_ns(&f->pace->expect, &w->sleeps, now - f->submitted_ns);
	if (!sleep_ns || now + sleep_ns >= deadline)
		return false;
	ts.tv_sec = (now + sleep_ns) / 1000000000;
	ts.tv_nsec = (now + sleep_ns) % 1000000000;
	start_ns = npu_trace_begin();
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	sleeps_learn(&w->sleeps, sleep_ns, npu_now_ns() - now);
	if (start_ns)
		npu_trace_wait_part(start_ns, "sleep");
	return npu_queue_look(queue) >= f->seqno;
}

static int64_t npu_queue_poll_ahead_ns(const struct npu_queue *queue)
{
	return queue->ctx->dev->no_spare_cpu ? NPU_POLL_AHEAD_CROWDED_NS : NPU_POLL_AHEAD_NS;
}

/* When to stop polling for a job; @f NULL: its expected end is unknown. */
static int64_t npu_queue_poll_end(const struct npu_flight *f, int64_t now)
{
	if (!f || f->expected_ns <= now)
		return now + expect_patience_ns(0);
	return f->expected_ns + expect_patience_ns(f->expected_ns - f->submitted_ns);
}

/*
 * Polls until the job is done (true), or until polling costs more than sleeping. *@notice is set if
 * a sleep before that was too long. The clock is read only now and then: an empty job ends before
 * the first reading.
 */
static bool npu_queue_poll(struct npu_queue *queue, struct npu_watch *w, uint64_t seqno,
			   int64_t deadline, enum npu_notice *notice)
{
	const struct npu_flight *f = w->known ? &w->flight : NULL;
	int64_t end = 0, now, start_ns;
	bool seen;

	now = npu_now_ns();
	if (f && f->expected_ns - now > npu_queue_poll_ahead_ns(queue))
		return false;
	if (f && f->expected_ns - f->submitted_ns > EXPECT_LATE_NS &&
	    npu_queue_sleep(queue, w, now, deadline)) {
		*notice = NPU_NOTICE_OVERSLEPT;
		return true;
	}
	/* A sleeping device may have been woken on this CPU. */
	if (f && f->submitted_ns - w->last_done_ns > NPU_DEVICE_NAPS_NS)
		polling_woken(&w->poll);
	start_ns = npu_trace_begin();
	while (!(seen = npu_queue_look(queue) >= seqno)) {
		polling_again(&w->poll);
		if (w->poll.looks % NPU_POLL_LOOKS)
			continue;
		now = npu_now_ns();
		if (!end)
			end = npu_queue_poll_end(f, now);
		if (now >= end || now >= deadline)
			break;
	}
	polling_end(&w->poll, seen);
	if (start_ns)
		npu_trace_wait_part(start_ns, "poll");
	return seen;
}

static int npu_queue_job_error(struct npu_queue *queue, uint64_t seqno, int status)
{
	struct npu_context_state state;

	switch (status) {
	case 0:
		return 0;
	case -EINVAL:
		return npu_fail(-EINVAL,
				"job %llu: the firmware refused its stream or table: an operand is "
				"misaligned, lies outside its binding, or a param is out of range",
				(unsigned long long)seqno);
	case -EFAULT:
		if (!npu_context_state(queue->ctx, &state) && (state.state & NPU_CONTEXT_FAULT))
			return npu_fail(-EFAULT,
					"job %llu: fault %s address 0x%llx; the context is banned",
					(unsigned long long)seqno,
					state.fault_write ? "writing" : "reading",
					(unsigned long long)state.fault_va);
		return npu_fail(-EFAULT, "job %llu: fault; the context is banned",
				(unsigned long long)seqno);
	case -ETIMEDOUT:
		return npu_fail(
			-ETIME,
			"job %llu: took longer than its timeout; the context is banned, make a new "
			"one or give the job more with npu_job_timeout()",
			(unsigned long long)seqno);
	case -EBUSY:
		return npu_fail(-EBUSY,
				"job %llu: waited for too long, because others kept the device "
				"busy or its fence had to "
				"end; its context is not banned, submit it again",
				(unsigned long long)seqno);
	case -ECANCELED:
		return npu_fail(
			-ECANCELED,
			"job %llu: canceled, because its context was banned or its queue destroyed",
			(unsigned long long)seqno);
	default:
		return npu_fail(status, "job %llu: the firmware failed it or was lost: %s",
				(unsigned long long)seqno, strerror(-status));
	}
}

static int npu_queue_wait_watched(struct npu_queue *queue, struct npu_watch *w, uint64_t seqno,
				  int64_t timeout_ns, enum npu_wait_mode mode)
{
	struct npu_device *dev = queue->ctx->dev;
	struct drm_vnpu_wait wait = { .queue_id = queue->id, .seqno = seqno };
	enum npu_notice notice;
	int ret;

	wait.timeout_ns = npu_deadline_ns(timeout_ns);
	notice = npu_queue_look(queue) < seqno ? NPU_NOTICE_FRESH : NPU_NOTICE_STALE;
	if (mode == NPU_WAIT_FAST && (notice == NPU_NOTICE_STALE ||
				      npu_queue_poll(queue, w, seqno, wait.timeout_ns, &notice))) {
		/* The status page shows errors of any job; WAIT knows whether it is this one's. */
		if (!__atomic_load_n(&queue->status->error, __ATOMIC_RELAXED)) {
			atomic_fetch_add_explicit(&dev->polls, 1, memory_order_relaxed);
			npu_queue_job_done(queue, w, seqno, notice, 0);
			return 0;
		}
	}
	atomic_fetch_add_explicit(&dev->waits, 1, memory_order_relaxed);
	ret = transport_ioctl(dev->t, DRM_IOCTL_VNPU_WAIT, &wait);
	if (ret == -ETIMEDOUT)
		return npu_fail(ret, "job %llu: not done within %lld us", (unsigned long long)seqno,
				npu_timeout_us(timeout_ns));
	if (ret)
		return npu_fail(ret, "wait for job %llu: %s", (unsigned long long)seqno,
				strerror(-ret));
	npu_queue_job_done(queue, w, seqno, wait.status ? NPU_NOTICE_STALE : notice, wait.status);
	return npu_queue_job_error(queue, seqno, wait.status);
}

static int npu_queue_wait_job(struct npu_queue *queue, uint64_t seqno, int64_t timeout_ns,
			      enum npu_wait_mode mode)
{
	uint64_t last = atomic_load(&queue->submitted);
	struct npu_watch w;
	int ret;

	if (!seqno || seqno > last)
		return npu_fail(-EINVAL, "wait: job %llu was not submitted; the last one is %llu",
				(unsigned long long)seqno, (unsigned long long)last);
	npu_probe_wait(queue->ctx->id, queue->id, seqno, mode);
	if (queue->trace)
		npu_trace_look_started(queue->trace);
	npu_flights_watch(&queue->flights, seqno, &w);
	ret = npu_queue_wait_watched(queue, &w, seqno, timeout_ns, mode);
	npu_flights_leave(&queue->flights, &w);
	return ret;
}

int npu_queue_wait(struct npu_queue *queue, uint64_t seqno, int64_t timeout_ns,
		   enum npu_wait_mode mode)
{
	int64_t start_ns = npu_trace_begin();
	int ret = npu_queue_wait_job(queue, seqno, timeout_ns, mode);

	if (start_ns)
		npu_trace_call(start_ns, "npu_queue_wait", ret,
			       "\"ctx\":%u,\"queue\":%u,\"seqno\":%llu,\"timeout_ns\":%lld,"
			       "\"mode\":\"%s\"",
			       queue->ctx->id, queue->id, (unsigned long long)seqno,
			       (long long)timeout_ns, mode == NPU_WAIT_FAST ? "fast" : "driver");
	return ret;
}
