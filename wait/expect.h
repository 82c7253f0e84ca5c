/* SPDX-License-Identifier: MIT */
/*
 * Waiting for work of a kind that was done before (HeteroLLM 4.2): the time that it took predicts
 * when it will end. The waiter sleeps through most of that time, polls around the expected end
 * (polling.h) because sleeps end late by some tens of microseconds, and soon after it waits in the
 * driver:
 *
 *	start              sleep ends   expected      out of patience
 *	  |-------- sleep -------|-- poll --|---- poll ----| wait in the driver
 *
 * libnpu waits like this for a queue's jobs, by program, and the runtime for its lanes' work, by
 * operator.
 */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How late sleeps end before that is measured: 80 to 100 us on a phone (HeteroLLM 4.2). */
#define EXPECT_LATE_NS 80000
/* Shorter sleeps are not worth their system call. */
#define EXPECT_MIN_SLEEP_NS 60000
/*
 * The last part of the expected time is polled, because work of one kind varies, and so is another
 * part after the expected end; each for at most the time of a few wake-ups. Where CPUs are few,
 * polling takes a CPU from the one who does the work.
 */
#define EXPECT_MOST_NS 200000
#define EXPECT_SPARE 8 /* one eighth before the end */
#define EXPECT_BEHIND 2 /* one half behind it */
/* How long to poll for the end of unknown work: the cost of a wake-up. */
#define EXPECT_PATIENCE_NS 100000

/* Times of one kind of work; all zero at first. Threads may share it: if two learn at the same
 * time, one result is lost. */
struct expect {
	_Atomic int64_t took_ns; /* 0: unknown */
	_Atomic int64_t sleep_ns; /* part of took_ns that may have passed when a sleep ends */
};

/* How late sleeps end, which can be milliseconds on a busy host; all zero at first. Used by one
 * thread at a time. */
struct sleeps {
	int64_t late_ns;
};

/* Expected time of the next work of this kind, from its start; 0: unknown. */
static inline int64_t expect_ns(const struct expect *e)
{
	return atomic_load_explicit(&e->took_ns, memory_order_relaxed);
}

/* The part of @ns, limited to EXPECT_MOST_NS. */
static inline int64_t expect_part_ns(int64_t ns, int divisor)
{
	return ns / divisor < EXPECT_MOST_NS ? ns / divisor : EXPECT_MOST_NS;
}

/*
 * Work has ended that took @took_ns as far as the waiter saw. @overslept: it had ended before the
 * waiter's sleep did, so it took less than that.
 *
 * The expected time falls fast and rises slowly, because what delays work is mostly not its own.
 * The sleep is learned separately: one that was too long is halved, while the expected end stays,
 * because polling up to it shows how long the work takes.
 */
static inline void expect_learn(struct expect *e, int64_t took_ns, bool overslept)
{
	int64_t old_ns = expect_ns(e), most_ns;
	int64_t sleep_ns = atomic_load_explicit(&e->sleep_ns, memory_order_relaxed);

	if (old_ns && took_ns > old_ns)
		took_ns = overslept ? old_ns : old_ns + (took_ns - old_ns) / 4;
	else if (old_ns)
		took_ns = old_ns - (old_ns - took_ns) / 2;
	most_ns = took_ns - expect_part_ns(took_ns, EXPECT_SPARE);
	if (overslept)
		sleep_ns /= 2;
	else
		sleep_ns = old_ns ? sleep_ns + (most_ns - sleep_ns) / 4 : most_ns;
	atomic_store_explicit(&e->took_ns, took_ns > 1 ? took_ns : 1, memory_order_relaxed);
	atomic_store_explicit(&e->sleep_ns, sleep_ns, memory_order_relaxed);
}

/* How long to sleep when @passed_ns have passed since the work began; 0: poll. */
static inline int64_t expect_sleep_ns(const struct expect *e, const struct sleeps *s,
				      int64_t passed_ns)
{
	int64_t until_ns = atomic_load_explicit(&e->sleep_ns, memory_order_relaxed), sleep_ns;

	until_ns -= s->late_ns > EXPECT_LATE_NS ? s->late_ns : EXPECT_LATE_NS;
	sleep_ns = until_ns - passed_ns;
	return sleep_ns >= EXPECT_MIN_SLEEP_NS ? sleep_ns : 0;
}

/* A sleep of @asked_ns took @took_ns. Lateness above the known one counts at once. */
static inline void sleeps_learn(struct sleeps *s, int64_t asked_ns, int64_t took_ns)
{
	int64_t more_ns = took_ns - asked_ns - s->late_ns;

	if (more_ns > 0)
		s->late_ns += more_ns / 2;
}

/* A wait took @took_ns, with or without a sleep: lateness is forgotten over a second, so that
 * sleeps that had become too late are tried again. */
static inline void sleeps_forget(struct sleeps *s, int64_t took_ns)
{
	const int64_t second_ns = 1000000000;

	/* The assumed lateness never falls below this. */
	if (s->late_ns > EXPECT_LATE_NS)
		s->late_ns -=
			took_ns < second_ns ? s->late_ns / (second_ns / (took_ns + 1)) : s->late_ns;
}

/* How long to poll after the expected end of work that should take @expected_ns; 0: after the start
 * of unknown work. */
static inline int64_t expect_patience_ns(int64_t expected_ns)
{
	return EXPECT_PATIENCE_NS + expect_part_ns(expected_ns, EXPECT_BEHIND);
}

#endif /* EXPECT_H */
