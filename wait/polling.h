/* SPDX-License-Identifier: MIT */
/*
 * Polling a word that another thread writes. If that thread has a CPU of its own, yielding between
 * two polls costs a system call and sees the change late; if both share a CPU, the word changes
 * only when the other thread can run. Which of the two holds depends on what else the host does, so
 * it is learned: a change found right after yielding suggests a shared CPU, a change found without
 * yielding suggests separate ones.
 *
 * Two threads that yield to each other stay on one CPU: the scheduler sees neither waiting, and
 * moves neither because both are cache-hot, even if other CPUs are idle. So a thread of the device
 * moves itself to another CPU after a while, and then polls without yielding at first; if the move
 * does not help, it tries again after twice as many polls. A client's threads stay where they are:
 * the device does not decide that.
 */
#ifndef POLLING_H
#define POLLING_H

#include <sched.h>
#include <stdbool.h>

/* Polls before the first yield if the CPU is not shared: more than a short answer takes. */
#define POLLING_ALONE 128
/* Polls between later yields, or between all yields if the CPU is shared. */
#define POLLING_LOOKS 8

/* Changes found after yielding before the first move, and at most between two moves. */
#define POLLING_PATIENCE 16
#define POLLING_PATIENCE_MAX 65536

/* Kept from one poll to the next; all zero at first, except may_move. */
struct polling {
	bool may_move; /* the thread belongs to the device */
	bool shared;
	bool gave_way; /* in the last step */
	bool trial; /* the thread may have a CPU of its own now */
	unsigned int looks; /* in this wait */
	unsigned int together; /* changes found after yielding since the last move */
	unsigned int patience; /* value of @together that causes a move; 0: POLLING_PATIENCE */
};

/* Call between two polls of a word that another CPU writes. */
static inline void polling_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Moves the calling thread to another CPU that it may use. False if there is none. */
bool polling_move(void);

/* Yields the CPU, or moves away from it if both threads have yielded to each other for long. */
static inline void polling_give_way(struct polling *p)
{
	unsigned int patience = p->patience ? p->patience : POLLING_PATIENCE;

	if (!p->may_move || p->together < patience || p->looks >= POLLING_ALONE) {
		sched_yield();
		return;
	}
	p->trial = polling_move();
	p->together = 0;
	p->patience = patience < POLLING_PATIENCE_MAX ? 2 * patience : patience;
}

/* Call after a poll that found no change. */
static inline void polling_again(struct polling *p)
{
	p->looks++;
	p->gave_way = !(p->looks % POLLING_LOOKS) &&
		      ((p->shared && !p->trial) || p->looks >= POLLING_ALONE);
	if (p->gave_way)
		polling_give_way(p);
	else
		polling_relax();
}

/* Call after one side has slept: the other may have woken it on its own CPU, now shared. */
static inline void polling_woken(struct polling *p)
{
	p->shared = true;
}

/* Call after the last poll. After repeated yields, a change right after one says nothing. */
static inline void polling_end(struct polling *p, bool found)
{
	if (found && p->looks && !p->gave_way) {
		p->shared = false;
		p->together = 0;
		p->patience = 0;
	} else if (found && p->looks == POLLING_ALONE) {
		p->shared = true;
	}
	/* A move is tested in the rest of its wait, or in the next one. */
	if (!p->gave_way || p->looks >= POLLING_ALONE)
		p->trial = false;
	else if (found)
		p->together++;
	p->gave_way = false;
	p->looks = 0;
}

#endif /* POLLING_H */
