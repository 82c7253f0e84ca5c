/* SPDX-License-Identifier: MIT */
/*
 * The latest jobs of a queue: when each was submitted and when it should end (expect.h), and how
 * those who waited have fared. One thread may submit while others wait, so waiters work on a copy;
 * of waiters at the same time, what the last to leave has learned of sleeps and polling stays.
 */
#ifndef FLIGHTS_H
#define FLIGHTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "expect.h"
#include "polling.h"

/* Number of latest jobs with an expected end; the wait for older ones does not poll. */
#define NPU_QUEUE_HISTORY 256

/* How long a program's jobs take; lives until the last of them has been waited for or forgotten. */
struct npu_pace {
	atomic_uint refs;
	struct expect expect;
};

struct npu_pace *npu_pace_get(struct npu_pace *pace);
/* NULL: does nothing. */
void npu_pace_put(struct npu_pace *pace);

struct npu_flight {
	uint64_t seqno;
	struct npu_pace *pace; /* NULL: learned already */
	int64_t submitted_ns;
	int64_t expected_ns; /* expected end of the job; 0: unknown */
};

struct npu_flights {
	pthread_mutex_t lock;
	struct npu_flight latest[NPU_QUEUE_HISTORY];
	int64_t last_done_ns; /* when a job was last seen to have ended */
	struct sleeps sleeps; /* of fast waits */
	struct polling poll;
};

/* A waiter's copy of what it needs. */
struct npu_watch {
	struct npu_flight flight; /* pace: a reference */
	bool known; /* the job is among the latest */
	int64_t last_done_ns;
	struct sleeps sleeps;
	struct polling poll;
};

void npu_flights_init(struct npu_flights *f);
void npu_flights_end(struct npu_flights *f);

/* A job of a program with @pace was submitted at @now; @done: the last job that has ended. */
void npu_flights_note(struct npu_flights *f, struct npu_pace *pace, uint64_t seqno, uint64_t done,
		      int64_t now);

/* Begins a wait, and ends it. */
void npu_flights_watch(struct npu_flights *f, uint64_t seqno, struct npu_watch *w);
void npu_flights_leave(struct npu_flights *f, struct npu_watch *w);

/* How a job's end was noticed. */
enum npu_notice {
	NPU_NOTICE_STALE, /* it had ended at an unknown time before */
	NPU_NOTICE_FRESH, /* it has just ended */
	NPU_NOTICE_OVERSLEPT, /* it had ended when the sleep before polling ended */
};

/* The watched job was seen to have ended, now: records how long it took, once. Returns that in ns,
 * from its submission on; 0: unknown. */
int64_t npu_flights_learn(struct npu_flights *f, struct npu_watch *w, enum npu_notice notice,
			  int64_t now);

#endif /* FLIGHTS_H */
