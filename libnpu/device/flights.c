// SPDX-License-Identifier: MIT
#include "flights.h"

#include <stdlib.h>

struct npu_pace *npu_pace_get(struct npu_pace *pace)
{
	atomic_fetch_add(&pace->refs, 1);
	return pace;
}

void npu_pace_put(struct npu_pace *pace)
{
	if (pace && atomic_fetch_sub(&pace->refs, 1) == 1)
		free(pace);
}

void npu_flights_init(struct npu_flights *f)
{
	pthread_mutex_init(&f->lock, NULL);
}

void npu_flights_end(struct npu_flights *f)
{
	for (unsigned int i = 0; i < NPU_QUEUE_HISTORY; i++)
		npu_pace_put(f->latest[i].pace);
	pthread_mutex_destroy(&f->lock);
}

void npu_flights_note(struct npu_flights *f, struct npu_pace *pace, uint64_t seqno, uint64_t done,
		      int64_t now)
{
	struct npu_flight *at = &f->latest[seqno % NPU_QUEUE_HISTORY];
	const struct npu_flight *prev = &f->latest[(seqno - 1) % NPU_QUEUE_HISTORY];
	int64_t run_ns = expect_ns(&pace->expect), start = now;

	pthread_mutex_lock(&f->lock);
	if (prev->seqno == seqno - 1 && done < prev->seqno && prev->expected_ns > start)
		start = prev->expected_ns;
	npu_pace_put(at->pace);
	*at = (struct npu_flight){
		.seqno = seqno,
		.pace = npu_pace_get(pace),
		.submitted_ns = now,
		.expected_ns = run_ns ? start + run_ns : 0,
	};
	pthread_mutex_unlock(&f->lock);
}

void npu_flights_watch(struct npu_flights *f, uint64_t seqno, struct npu_watch *w)
{
	pthread_mutex_lock(&f->lock);
	*w = (struct npu_watch){
		.flight = f->latest[seqno % NPU_QUEUE_HISTORY],
		.last_done_ns = f->last_done_ns,
		.sleeps = f->sleeps,
		.poll = f->poll,
	};
	w->known = w->flight.seqno == seqno;
	w->flight.pace = w->known && w->flight.pace ? npu_pace_get(w->flight.pace) : NULL;
	pthread_mutex_unlock(&f->lock);
}

void npu_flights_leave(struct npu_flights *f, struct npu_watch *w)
{
	pthread_mutex_lock(&f->lock);
	f->sleeps = w->sleeps;
	f->poll = w->poll;
	npu_pace_put(w->flight.pace);
	pthread_mutex_unlock(&f->lock);
}

int64_t npu_flights_learn(struct npu_flights *f, struct npu_watch *w, enum npu_notice notice,
			  int64_t now)
{
	struct npu_flight *at = &f->latest[w->flight.seqno % NPU_QUEUE_HISTORY];
	int64_t start = w->flight.submitted_ns;

	pthread_mutex_lock(&f->lock);
	if (w->known && at->seqno == w->flight.seqno && at->pace && notice != NPU_NOTICE_STALE) {
		if (f->last_done_ns > start)
			start = f->last_done_ns;
		expect_learn(&at->pace->expect, now - start, notice == NPU_NOTICE_OVERSLEPT);
		sleeps_forget(&w->sleeps, now - start);
		npu_pace_put(at->pace);
		at->pace = NULL;
	}
	f->last_done_ns = now;
	pthread_mutex_unlock(&f->lock);
	return w->known ? now - w->flight.submitted_ns : 0;
}
