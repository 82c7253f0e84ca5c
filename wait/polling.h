/* SPDX-License-Identifier: MIT */
/*
 * Polling a word that another thread writes. If that thread has a CPU of its own, giving way
 * between two looks costs a system call and finds the change late; if the two share one, the word
 * changes only when the other is let run. Which of both it is changes with what else the host does,
 * so it is learned: a change that was found right after giving way speaks for a shared CPU, one
 * that came while this thread ran speaks against.
 *
 * Two threads that give way to each other stay together: to the scheduler neither waits, and
 * both are too hot in the cache to be moved, whatever other CPUs are idle. So a thread of
 * the device moves to another CPU after a while, and then polls without giving way at first;
 * in vain, it is tried again after twice as many polls. Where the threads of a client run is
 * not the device's to say.
 */
#ifndef POLLING_H
#define POLLING_H

#include <sched.h>
#include <stdbool.h>

/* As many looks at first, if the CPU is not shared: somewhat more than a short answer takes. */
#define POLLING_ALONE 128
/* Then, or else from the start, it gives way after so many. */
#define POLLING_LOOKS 8

/* Changes that come by giving way before the first move, and between two at most. */
#define POLLING_PATIENCE 16
#define POLLING_PATIENCE_MAX 65536

/* Kept from one poll to the next; all zero at first but for may_move. */
struct polling {
	bool may_move; /* the thread is the device's */
	bool shared;
	bool gave_way; /* just now */
	bool trial; /* the CPU may be another one now */
	unsigned int looks; /* in this poll */
	unsigned int together; /* changes that came by giving way since the last move */
	unsigned int patience; /* with how many of them; 0: POLLING_PATIENCE */
};

/* Between two looks at a word that another CPU writes. */
static inline void polling_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* The calling thread goes to another of the CPUs that it may use. False: there is none. */
bool polling_move(void);

/* Gives the CPU away, or leaves it if that has gone to and fro for long. */
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

/* After a look that found nothing. */
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

/* After one side has slept: the other may have woken it on its own CPU, and both are there now. */
static inline void polling_woken(struct polling *p)
{
	p->shared = true;
}

/*
 * After the last look. Where it gave way again and again, that the change
 * came just then says nothing.
 */
static inline void polling_end(struct polling *p, bool found)
{
	if (found && p->looks && !p->gave_way) {
		p->shared = false;
		p->together = 0;
		p->patience = 0;
	} else if (found && p->looks == POLLING_ALONE) {
		p->shared = true;
	}
	/* A move is tried out in what is left of its poll, or in the next one. */
	if (!p->gave_way || p->looks >= POLLING_ALONE)
		p->trial = false;
	else if (found)
		p->together++;
	p->gave_way = false;
	p->looks = 0;
}

#endif /* POLLING_H */
