// SPDX-License-Identifier: MIT
/*
 * Places for jobs are allocated once, for as many as the submission ring can hold, and linked: into a list of free ones
 * or into the FIFO of their queue. Queues with jobs stand in a list per priority, that of their first job; a queue whose
 * job was taken goes to the end of the list of its next one.
 */
#include "fw_queue.h"

#include <stdlib.h>

#define NONE UINT32_MAX

struct place {
	struct vnpu_fw_sqe job;
	uint32_t next;
};

struct fifo {
	uint32_t first, last; /* places */
	uint32_t next, prev; /* queues of the same ready list */
};

struct fw_queues {
	struct place *places;
	uint32_t free; /* returned places */
	uint32_t fresh; /* places from here on were never used: their memory was never touched */
	uint32_t nr_places;
	uint32_t nr_waiting;
	uint32_t nr_queues;
	struct fifo *fifos;
	uint32_t head[FW_NR_PRIORITIES], tail[FW_NR_PRIORITIES]; /* ready lists */
};

struct fw_queues *fw_queues_create(uint32_t nr_queues, uint32_t nr_jobs)
{
	struct fw_queues *q = calloc(1, sizeof(*q));
	uint32_t i;

	if (!q)
		return NULL;
	q->places = calloc(nr_jobs, sizeof(*q->places));
	q->fifos = calloc(nr_queues, sizeof(*q->fifos));
	if (!q->places || !q->fifos) {
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
	free(q);
}

static uint32_t priority_of(const struct fw_queues *q, uint32_t queue)
{
	return q->places[q->fifos[queue].first].job.priority;
}

static void ready(struct fw_queues *q, uint32_t queue)
{
	uint32_t p = priority_of(q, queue);
	struct fifo *f = &q->fifos[queue];

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
	uint32_t p = priority_of(q, queue);
	struct fifo *f = &q->fifos[queue];

	if (f->prev == NONE)
		q->head[p] = f->next;
	else
		q->fifos[f->prev].next = f->next;
	if (f->next == NONE)
		q->tail[p] = f->prev;
	else
		q->fifos[f->next].prev = f->prev;
}

bool fw_queues_push(struct fw_queues *q, const struct vnpu_fw_sqe *job)
{
	struct fifo *f = &q->fifos[job->queue];
	uint32_t place = q->free;

	if (place != NONE)
		q->free = q->places[place].next;
	else if (q->fresh < q->nr_places)
		place = q->fresh++;
	else
		return false;
	q->places[place].job = *job;
	q->places[place].next = NONE;
	if (f->first == NONE) {
		f->first = f->last = place;
		ready(q, job->queue);
	} else {
		q->places[f->last].next = place;
		f->last = place;
	}
	q->nr_waiting++;
	return true;
}

/* Takes the place after @prev (NONE: the first) out of @queue. */
static void take(struct fw_queues *q, uint32_t queue, uint32_t prev, struct vnpu_fw_sqe *job)
{
	struct fifo *f = &q->fifos[queue];
	uint32_t place = prev == NONE ? f->first : q->places[prev].next;

	*job = q->places[place].job;
	if (prev == NONE) {
		unready(q, queue);
		f->first = q->places[place].next;
		if (f->first != NONE)
			ready(q, queue);
	} else {
		q->places[prev].next = q->places[place].next;
	}
	if (f->last == place)
		f->last = prev;
	q->places[place].next = q->free;
	q->free = place;
	q->nr_waiting--;
}

bool fw_queues_pop(struct fw_queues *q, struct vnpu_fw_sqe *job)
{
	int p;

	for (p = FW_NR_PRIORITIES - 1; p >= 0; p--) {
		if (q->head[p] != NONE) {
			take(q, q->head[p], NONE, job);
			return true;
		}
	}
	return false;
}

bool fw_queues_cancel(struct fw_queues *q, uint32_t queue, uint64_t tag, struct vnpu_fw_sqe *job)
{
	uint32_t place, prev = NONE;

	for (place = q->fifos[queue].first; place != NONE; prev = place, place = q->places[place].next) {
		if (q->places[place].job.tag == tag) {
			take(q, queue, prev, job);
			return true;
		}
	}
	return false;
}

bool fw_queues_pop_ctx(struct fw_queues *q, uint32_t ctx, struct vnpu_fw_sqe *job)
{
	uint32_t queue, place, prev;

	for (queue = 0; queue < q->nr_queues; queue++) {
		prev = NONE;
		for (place = q->fifos[queue].first; place != NONE; prev = place, place = q->places[place].next) {
			if (q->places[place].job.ctx == ctx) {
				take(q, queue, prev, job);
				return true;
			}
		}
	}
	return false;
}

bool fw_queues_empty(const struct fw_queues *q)
{
	return !q->nr_waiting;
}
