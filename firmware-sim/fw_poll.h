/* SPDX-License-Identifier: MIT */
/*
 * Polling a word that another thread writes. If that thread has a CPU of its own, giving way between two looks costs a system
 * call and finds the change late; if the two share one, the word changes only when the other is let run. Which of both it is
 * changes with what else the host does, so it is learned: a change that was found right after giving way speaks for a shared
 * CPU, one that came while this thread ran speaks against.
 */
#ifndef FW_POLL_H
#define FW_POLL_H

#include <sched.h>
#include <stdbool.h>

/* As many looks at first, if the CPU is not shared: somewhat more than a short answer takes. */
#define FW_POLL_ALONE 128
/* Then, or else from the start, it gives way after so many. */
#define FW_POLL_LOOKS 8

/* Kept from one poll to the next; all zero at first. */
struct fw_poll {
	bool shared;
	bool gave_way; /* just now */
	unsigned int looks; /* in this poll */
};

/* Between two looks at a word that another CPU writes. */
static inline void fw_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* After a look that found nothing. */
static inline void fw_poll_again(struct fw_poll *p)
{
	p->looks++;
	p->gave_way = !(p->looks % FW_POLL_LOOKS) && (p->shared || p->looks >= FW_POLL_ALONE);
	if (p->gave_way)
		sched_yield();
	else
		fw_relax();
}

/* After one side has slept: the other may have woken it on its own CPU, and both are there now. */
static inline void fw_poll_woken(struct fw_poll *p)
{
	p->shared = true;
}

/* After the last look. Where it gave way again and again, that the change came just then says nothing. */
static inline void fw_poll_end(struct fw_poll *p, bool found)
{
	if (found && p->looks && !p->gave_way)
		p->shared = false;
	else if (found && p->looks == FW_POLL_ALONE)
		p->shared = true;
	p->gave_way = false;
	p->looks = 0;
}

#endif /* FW_POLL_H */
