/* SPDX-License-Identifier: MIT */
/*
 * Waiting for work of a kind that has been done before (HeteroLLM 4.2): what it took tells when
 * more of it will end. The waiter sleeps through most of that time, polls around the expected
 * end (polling.h), since sleeps end late by some tens of microseconds, and soon after it leaves the
 * rest to the driver:
 *
 *	begun              sleep ends   expected      out of patience
 *	  |-------- sleep -------|-- poll --|---- poll ----| wait in the driver
 *
 * libnpu waits like this for a queue's jobs, by program, and the runtime for the work that its
 * lanes have under way, by operator.
 */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Sleeps end so late as long as nothing else is known: 80 to 100 us on a phone (HeteroLLM 4.2). */
#define EXPECT_LATE_NS 80000
/* A shorter sleep is not worth its system call. */
#define EXPECT_MIN_SLEEP_NS 60000
/*
 * Of the expected time the last part is polled through, as work of one kind differs, but for no
 * longer than a few wake-ups cost; and so is another part after the expected end. Polling takes
 * a CPU from who is waited for, where CPUs are few.
 */
#define EXPECT_MOST_NS 200000
#define EXPECT_SPARE 8 /* one eighth before the end */
#define EXPECT_BEHIND 2 /* one half behind it */
/* Of work that nothing is known of, the end is polled for so long: as a wake-up costs. */
#define EXPECT_PATIENCE_NS 100000

/* What is known of one kind of work; all zero at first. Threads may share it: what one learns is
 * lost if another learns at the same time. */
struct expect {
	_Atomic int64_t took_ns; /* 0: nothing is known */
	_Atomic int64_t sleep_ns; /* so much of it may be over when a sleep ends */
};

/* How late sleeps end, which can be milliseconds on a host whose CPUs are busy; all zero at first.
 * Used by one thread at a time. */
struct sleeps {
	int64_t late_ns;
};

/* How long the next work of this kind will take, from its beginning; 0: nothing is known. */
static inline int64_t expect_ns(const struct expect *e)
{
	return atomic_load_explicit(&e->took_ns, memory_order_relaxed);
}

/* A part of @ns, which is no more than EXPECT_MOST_NS. */
static inline int64_t expect_part_ns(int64_t ns, int divisor)
{
	return ns / divisor < EXPECT_MOST_NS ? ns / divisor : EXPECT_MOST_NS;
}

/*
 * Work ended that took @took_ns, as far as the waiter saw. @overslept: it had ended before the
 * waiter's sleep did, so it took less than that.
 *
 * The time comes down fast and goes up slowly, because what makes work late is mostly not its
 * own. The sleep is learned apart from it: one that was too long is halved, while the expected
 * end stays where it is, as polling up to that is what shows how long the work takes.
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

/* How long to sleep when @passed_ns are over since the work began; 0: poll. */
static inline int64_t expect_sleep_ns(const struct expect *e, const struct sleeps *s,
				      int64_t passed_ns)
{
	int64_t until_ns = atomic_load_explicit(&e->sleep_ns, memory_order_relaxed), sleep_ns;

	until_ns -= s->late_ns > EXPECT_LATE_NS ? s->late_ns : EXPECT_LATE_NS;
	sleep_ns = until_ns - passed_ns;
	return sleep_ns >= EXPECT_MIN_SLEEP_NS ? sleep_ns : 0;
}

/* A sleep of @asked_ns took @took_ns. One that was later than known counts at once. */
static inline void sleeps_learn(struct sleeps *s, int64_t asked_ns, int64_t took_ns)
{
	int64_t more_ns = took_ns - asked_ns - s->late_ns;

	if (more_ns > 0)
		s->late_ns += more_ns / 2;
}

/* A wait took @took_ns, with or without a sleep: late sleeps are forgotten over a second. So where
 * they came to be too late for any, they are tried again after a while. */
static inline void sleeps_forget(struct sleeps *s, int64_t took_ns)
{
	const int64_t second_ns = 1000000000;

	/* No less is ever counted on. */
	if (s->late_ns > EXPECT_LATE_NS)
		s->late_ns -=
			took_ns < second_ns ? s->late_ns / (second_ns / (took_ns + 1)) : s->late_ns;
}

/* When polling stops to pay: so long after the expected end of work that was to take @expected_ns;
 * 0: of work that nothing is known of, so long after its beginning. */
static inline int64_t expect_patience_ns(int64_t expected_ns)
{
	return EXPECT_PATIENCE_NS + expect_part_ns(expected_ns, EXPECT_BEHIND);
}

#endif /* EXPECT_H */
