// SPDX-License-Identifier: MIT
/*
 * Room for jobs is allocated once, for as many as the submission ring can hold. A place is linked
 * into the free list or into the FIFO of its queue. Queues with jobs are in one ready list per
 * priority, that of their first job; when a queue's job is taken, the queue moves to the end of the
 * list for its next job. The search for the next job walks a list.
 *
 * Device time is kept per context and priority. clock[] is the time used by the context that was
 * served last: those that wait have used at least as much.
 */
#include "fw_queue.h"

#include <stdlib.h>

#define NONE UINT32_MAX

struct place {
	struct vnpu_fw_sqe job;
	uint32_t next;
	bool canceled;
};

struct fifo {
	uint32_t first, last; /* indices of places */
	uint32_t next, prev; /* neighbours in the ready list */
	uint64_t since_ns; /* when the first job became the first */
};

struct share {
	uint64_t used_ns;
	uint32_t nr_ready; /* queues in ready lists */
};

struct fw_queues {
	struct place *places;
	uint32_t free; /* list of returned places */
	uint32_t fresh; /* first place that was never used, whose memory is untouched */
	uint32_t nr_places;
	uint32_t nr_waiting;
	uint32_t nr_queues;
	struct fifo *fifos;
	uint32_t head[FW_NR_PRIORITIES], tail[FW_NR_PRIORITIES]; /* ready lists */
	struct share *shares; /* [nr_ctx + 1][FW_NR_PRIORITIES] */
	uint64_t clock[FW_NR_PRIORITIES];
	uint64_t aged_ns; /* when a job last went first because of its age */
};

struct fw_queues *fw_queues_create(uint32_t nr_queues, uint32_t nr_ctx, uint32_t nr_jobs)
{
	struct fw_queues *q = calloc(1, sizeof(*q));
	uint32_t i;

	if (!q)
		return NULL;
	q->places = calloc(nr_jobs, sizeof(*q->places));
	q->fifos = calloc(nr_queues, sizeof(*q->fifos));
	q->shares = calloc((nr_ctx + 1) * FW_NR_PRIORITIES, sizeof(*q->shares));
	if (!q->places || !q->fifos || !q->shares) {
		fw_queues_destroy(q);
		return NULL;
	}
	q->nr_places = nr_jobs;
	q->nr_queues = nr_queues;
	q->free = NONE;
	for (i = 0; i < nr_queues; i++)
		q->fifos[i].first = q->fifos[i].last = NONE;
	for (i = 0; i < FW_NR_PRIORITIES; i++)
		q->head[i] = q->tail[i] = NONE;
	return q;
}

void fw_queues_destroy(struct fw_queues *q)
{
	if (!q)
		return;
	free(q->places);
	free(q->fifos);
	free(q->shares);
	free(q);
}

static const struct vnpu_fw_sqe *first_of(const struct fw_queues *q, uint32_t queue)
{
	return &q->places[q->fifos[queue].first].job;
}

static struct share *share_of(const struct fw_queues *q, const struct vnpu_fw_sqe *job)
{
	return &q->shares[job->ctx * FW_NR_PRIORITIES + job->priority];
}

static void ready(struct fw_queues *q, uint32_t queue, uint64_t now_ns)
{
	const struct vnpu_fw_sqe *job = first_of(q, queue);
	struct share *share = share_of(q, job);
	struct fifo *f = &q->fifos[queue];
	uint32_t p = job->priority;

	if (!share->nr_ready++ && share->used_ns < q->clock[p])
		share->used_ns = q->clock[p];
	f->since_ns = now_ns;
	f->next = NONE;
	f->prev = q->tail[p];
	if (f->prev == NONE)
		q->head[p] = queue;
	else
		q->fifos[f->prev].next = queue;
	q->tail[p] = queue;
}

static void unready(struct fw_queues *q, uint32_t queue)
{
	const struct vnpu_fw_sqe *job = first_of(q, queue);
	struct fifo *f = &q->fifos[queue];
	uint32_t p = job->priority;

	share_of(q, job)->nr_ready--;
	if (f->prev == NONE)
		q->head[p] = f->next;
	else
		q->fifos[f->prev].next = f->next;
	if (f->next == NONE)
		q->tail[p] = f->prev;
	else
		q->fifos[f->next].prev = f->prev;
}

bool fw_queues_push(struct fw_queues *q, const struct vnpu_fw_sqe *job, uint64_t now_ns)
{
	struct fifo *f = &q->fifos[job->queue];
	uint32_t place = q->free;

	if (place != NONE)
		q->free = q->places[place].next;
	else if (q->fresh < q->nr_places)
		place = q->fresh++;
	else
		return false;
	q->places[place] = (struct place){ .job = *job, .next = NONE };
	if (f->first == NONE) {
		f->first = f->last = place;
		ready(q, job->queue, now_ns);
	} else {
		q->places[f->last].next = place;
		f->last = place;
	}
	q->nr_waiting++;
	return true;
}

/* Takes the first job of @queue. */
static void take(struct fw_queues *q, uint32_t queue, uint64_t now_ns, struct vnpu_fw_sqe *job)
{
	struct fifo *f = &q->fifos[queue];
	uint32_t place = f->first;

	*job = q->places[place].job;
	unready(q, queue);
	f->first = q->places[place].next;
	if (f->first == NONE)
		f->last = NONE;
	else
		ready(q, queue, now_ns);
	q->places[place].next = q->free;
	q->free = place;
	q->nr_waiting--;
}

/* The queue below priority @p whose first job has waited too long, or NONE. */
static uint32_t pick_aged(const struct fw_queues *q, int p, uint64_t now_ns)
{
	uint32_t queue, oldest = NONE;

	if (now_ns - q->aged_ns < FW_AGING_NS)
		return NONE;
	while (--p >= 0)
		for (queue = q->head[p]; queue != NONE; queue = q->fifos[queue].next)
			if (oldest == NONE || q->fifos[queue].since_ns < q->fifos[oldest].since_ns)
				oldest = queue;
	return oldest != NONE && now_ns - q->fifos[oldest].since_ns > FW_AGING_NS ? oldest : NONE;
}

/*
 * The queue of priority @p whose context has used the least device time; among equals, the one that
 * is in the list for longest.
 */
static uint32_t pick_fair(const struct fw_queues *q, int p)
{
	uint32_t queue, best = q->head[p];

	for (queue = q->head[p]; queue != NONE; queue = q->fifos[queue].next)
		if (share_of(q, first_of(q, queue))->used_ns <
		    share_of(q, first_of(q, best))->used_ns)
			best = queue;
	return best;
}

bool fw_queues_pop(struct fw_queues *q, uint64_t now_ns, struct vnpu_fw_sqe *job)
{
	int p = FW_NR_PRIORITIES - 1;
	uint32_t queue;

	if (!q->nr_waiting)
		return false;
	while (q->head[p] == NONE)
		p--;
	queue = pick_aged(q, p, now_ns);
	if (queue != NONE) {
		q->aged_ns = now_ns;
	} else {
		queue = pick_fair(q, p);
		q->clock[p] = share_of(q, first_of(q, queue))->used_ns;
	}
	take(q, queue, now_ns, job);
	return true;
}

void fw_queues_pass(struct fw_queues *q, const struct vnpu_fw_sqe *job)
{
	uint64_t *used_ns = &share_of(q, job)->used_ns, *clock_ns = &q->clock[job->priority];

	if (*used_ns < *clock_ns)
		*used_ns = *clock_ns;
	else
		*clock_ns = *used_ns;
}

void fw_queues_charge(struct fw_queues *q, const struct vnpu_fw_sqe *job, uint64_t ns)
{
	share_of(q, job)->used_ns += ns;
}

void fw_queues_cancel(struct fw_queues *q, uint32_t queue, uint64_t tag)
{
	uint32_t place;

	for (place = q->fifos[queue].first; place != NONE; place = q->places[place].next)
		if (q->places[place].job.tag == tag)
			q->places[place].canceled = true;
}

bool fw_queues_pop_canceled(struct fw_queues *q, uint32_t queue, uint64_t now_ns,
			    struct vnpu_fw_sqe *job)
{
	uint32_t first = q->fifos[queue].first;

	if (first == NONE || !q->places[first].canceled)
		return false;
	take(q, queue, now_ns, job);
	return true;
}

bool fw_queues_pop_ctx(struct fw_queues *q, uint32_t ctx, uint64_t now_ns, struct vnpu_fw_sqe *job)
{
	uint32_t queue, p;

	for (queue = 0; queue < q->nr_queues; queue++) {
		if (q->fifos[queue].first != NONE && first_of(q, queue)->ctx == ctx) {
			take(q, queue, now_ns, job);
			return true;
		}
	}
	for (p = 0; p < FW_NR_PRIORITIES; p++)
		q->shares[ctx * FW_NR_PRIORITIES + p].used_ns = 0;
	return false;
}

bool fw_queues_empty(const struct fw_queues *q)
{
	return !q->nr_waiting;
}
