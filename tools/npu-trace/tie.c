// SPDX-License-Identifier: MIT
/*
 * Adds the driver's events on separate tracks: a process per device, a thread per queue, a slice
 * per job, from the time that it became the first in its queue's ring to its end. Jobs of a queue
 * run one after another, so slices do not overlap.
 *
 * Pid, context, queue and seqno identify a job among libnpu's. If they recur, because a queue is
 * freed and another one made or a device is opened twice, it is the latest one that was submitted
 * before the driver's event.
 */
#define _GNU_SOURCE
#include "npu-trace.h"

#include <stdlib.h>
#include <string.h>

#include "npu_json.h"
#include "tool.h"

/* Greater than any process id. */
#define TIE_PID 10000000
/* tracefs prints rounded microseconds. */
#define TIE_ROUNDING_NS 1000

/* A job that has not ended. Lost events are NULL. */
struct tie_job {
	const struct kernel_event *submit, *start;
	uint64_t seqno;
};

struct tie {
	struct doc *doc;
	uint32_t dev; /* of the current track; UINT32_MAX before the first one */
	uint64_t client;
	uint32_t ctx, queue; /* queue 0: the context's own track */
	int tid;
	int64_t free_ns; /* end of the queue's last job */
	struct tie_job *jobs; /* the queue's, by time */
	size_t nr_jobs, room_jobs;
};

static int by_queue(const void *pa, const void *pb)
{
	const struct kernel_event *a = pa, *b = pb;

#define TIE_COMPARE(field)        \
	if (a->field != b->field) \
	return a->field < b->field ? -1 : 1
	TIE_COMPARE(dev);
	TIE_COMPARE(client);
	TIE_COMPARE(ctx);
	TIE_COMPARE(queue);
	TIE_COMPARE(time_ns);
	TIE_COMPARE(kind);
#undef TIE_COMPARE
	return 0;
}

static int tie_instant(struct tie *tie, const struct kernel_event *e, const char *name)
{
	char fields[NPU_JSON_TEXT_SIZE(sizeof(e->fields))];
	bool reset = e->kind == KERNEL_RESET;

	npu_json_text(fields, sizeof(fields), e->fields);
	return doc_add(tie->doc, 'i', TIE_PID + (int)e->dev, reset ? 0 : tie->tid, e->time_ns, 0,
		       name,
		       ",\"s\":\"%c\",\"cat\":\"vnpu\",\"args\":{\"seqno\":%llu,\"fields\":\"%s\"}",
		       reset ? 'p' : 't', (unsigned long long)e->seqno, fields);
}

/* Adds a flow from the call that submitted the job via its slice to the wait that saw its end. */
static int tie_arrows(struct tie *tie, const struct doc_job *job, int pid, int64_t start_ns)
{
	unsigned long long id = ++tie->doc->nr_flows;
	bool seen = job->end_ns && job->waited;
	int ret = doc_add(tie->doc, 's', job->pid, job->tid, job->begin_ns, 0, "job",
			  ",\"cat\":\"vnpu\",\"id\":%llu", id);

	if (!ret)
		ret = doc_add(tie->doc, seen ? 't' : 'f', pid, tie->tid, start_ns, 0, "job",
			      ",\"cat\":\"vnpu\",\"id\":%llu,\"bp\":\"e\"", id);
	if (!ret && seen)
		ret = doc_add(tie->doc, 'f', job->pid, job->end_tid, job->end_ns, 0, "job",
			      ",\"cat\":\"vnpu\",\"id\":%llu,\"bp\":\"e\"", id);
	return ret;
}

static int tie_slice(struct tie *tie, const struct kernel_event *e,
		     const struct kernel_event *start, const struct kernel_event *complete,
		     int64_t start_ns, int64_t run_ns, const char *name)
{
	char end[128] = "\"unfinished\":true";

	if (complete)
		snprintf(end, sizeof(end), "\"duration_ns\":%llu,\"busy_ns\":%llu,\"status\":%d",
			 (unsigned long long)complete->duration_ns,
			 (unsigned long long)complete->busy_ns, complete->error);
	return doc_add(tie->doc, 'X', TIE_PID + (int)e->dev, tie->tid, start_ns, run_ns, name,
		       ",\"cat\":\"vnpu\",\"args\":{\"pid\":%d,\"ctx\":%u,\"queue\":%u,\"hwq\":%u,"
		       "\"seqno\":%llu,\"queued_ns\":%llu,%s}",
		       e->pid, e->ctx, e->queue, e->hwq, (unsigned long long)e->seqno,
		       start ? (unsigned long long)start->queued_ns : 0, end);
}

/* Adds a job that ended, or with @complete NULL ran until the recording's end @last_ns. */
static int tie_job_end(struct tie *tie, const struct tie_job *j,
		       const struct kernel_event *complete, int64_t last_ns)
{
	const struct kernel_event *start = j->start, *e = complete ? complete
							  : start  ? start
								   : j->submit;
	int64_t end_ns = complete ? complete->time_ns : last_ns, start_ns = end_ns, run_ns,
		submit_ns;
	char name[NPU_JSON_TEXT_SIZE(128)];
	struct doc_job *job;
	int ret;

	if (start)
		start_ns = start->time_ns;
	else if (complete)
		start_ns -= (int64_t)complete->duration_ns;
	submit_ns =
		j->submit ? j->submit->time_ns : start_ns - (start ? (int64_t)start->queued_ns : 0);
	job = doc_find_job(tie->doc, e->pid, e->ctx, e->queue, e->seqno,
			   submit_ns + TIE_ROUNDING_NS);
	if (job)
		npu_json_text(name, sizeof(name), job->name);
	else
		snprintf(name, sizeof(name), "queue %u: job %llu", e->queue,
			 (unsigned long long)e->seqno);
	tie->doc->nr_kernel_jobs++;
	tie->doc->nr_tied += !!job;
	/* The job never reached the device. */
	if (complete ? !complete->duration_ns : !start)
		return tie_instant(tie, e, name);
	if (start_ns < tie->free_ns)
		start_ns = tie->free_ns;
	run_ns = end_ns > start_ns ? end_ns - start_ns : 0;
	tie->free_ns = start_ns + run_ns;
	if (job && complete)
		job->run_ns = run_ns;
	ret = tie_slice(tie, e, start, complete, start_ns, run_ns, name);
	return ret || !job ? ret : tie_arrows(tie, job, TIE_PID + (int)e->dev, start_ns);
}

static struct tie_job *tie_find(struct tie *tie, uint64_t seqno)
{
	for (size_t i = 0; i < tie->nr_jobs; i++)
		if (tie->jobs[i].seqno == seqno)
			return &tie->jobs[i];
	return NULL;
}

static int tie_job_event(struct tie *tie, const struct kernel_event *e)
{
	struct tie_job *j = tie_find(tie, e->seqno), *grown, none = { .seqno = e->seqno };
	int ret;

	if (e->kind == KERNEL_FAULT)
		return tie_instant(tie, e, "fault");
	if (e->kind == KERNEL_COMPLETE) {
		ret = tie_job_end(tie, j ? j : &none, e, 0);
		if (j)
			memmove(j, j + 1, (size_t)(tie->jobs + --tie->nr_jobs - j) * sizeof(*j));
		return ret;
	}
	if (!j) {
		grown = doc_grow(tie->jobs, tie->nr_jobs, &tie->room_jobs, sizeof(*grown));
		if (!grown)
			return 1;
		tie->jobs = grown;
		j = &tie->jobs[tie->nr_jobs++];
		*j = none;
	}
	if (e->kind == KERNEL_SUBMIT)
		*j = (struct tie_job){ .submit = e, .seqno = e->seqno };
	else
		j->start = e;
	return 0;
}

/* Ends a queue's track. */
static int tie_queue_end(struct tie *tie, int64_t last_ns)
{
	int ret = 0;

	for (size_t i = 0; i < tie->nr_jobs && !ret; i++)
		ret = tie_job_end(tie, &tie->jobs[i], NULL, last_ns);
	tie->nr_jobs = 0;
	return ret;
}

/* Changes to the track of an event, and names it at its first event. */
static int tie_track(struct tie *tie, const struct kernel_event *e, int64_t last_ns)
{
	char comm[NPU_JSON_TEXT_SIZE(sizeof(e->comm))], queue[32] = "";
	int ret;

	if (tie->dev == e->dev && tie->client == e->client && tie->ctx == e->ctx &&
	    tie->queue == e->queue)
		return 0;
	ret = tie_queue_end(tie, last_ns);
	if (!ret && tie->dev != e->dev)
		ret = doc_add(tie->doc, 'M', TIE_PID + (int)e->dev, 0, 0, 0, "process_name",
			      ",\"args\":{\"name\":\"accel%u (vnpu.ko)\"}", e->dev);
	tie->dev = e->dev;
	tie->client = e->client;
	tie->ctx = e->ctx;
	tie->queue = e->queue;
	tie->free_ns = 0;
	if (ret || e->kind == KERNEL_RESET)
		return ret;
	tie->tid++;
	npu_json_text(comm, sizeof(comm), e->comm);
	if (e->queue)
		snprintf(queue, sizeof(queue), ", queue %u", e->queue);
	return doc_add(tie->doc, 'M', TIE_PID + (int)e->dev, tie->tid, 0, 0, "thread_name",
		       ",\"args\":{\"name\":\"%s %d, context %u%s (client %llu)\"}", comm, e->pid,
		       e->ctx, queue, (unsigned long long)e->client);
}

static int tie_event(struct tie *tie, const struct kernel_event *e)
{
	switch (e->kind) {
	case KERNEL_BIND:
		return tie_instant(tie, e, "bind");
	case KERNEL_RESET:
		return tie_instant(tie, e, "reset");
	default:
		return tie_job_event(tie, e);
	}
}

int doc_add_kernel(struct doc *doc, struct kernel_trace *k)
{
	struct tie tie = { .doc = doc, .dev = UINT32_MAX };
	int64_t last_ns = 0;
	int ret = 0;

	if (!k->nr)
		return 0;
	qsort(k->events, k->nr, sizeof(*k->events), by_queue);
	for (size_t i = 0; i < k->nr; i++)
		if (k->events[i].time_ns > last_ns)
			last_ns = k->events[i].time_ns;
	for (size_t i = 0; i < k->nr && !ret; i++) {
		ret = tie_track(&tie, &k->events[i], last_ns);
		if (!ret)
			ret = tie_event(&tie, &k->events[i]);
	}
	if (!ret)
		ret = tie_queue_end(&tie, last_ns);
	free(tie.jobs);
	return ret;
}
