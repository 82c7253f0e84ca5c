/* SPDX-License-Identifier: MIT */
/*
 * Threads of the CPU lane.
 *
 * The caller opens a loop, workers that wake in time join it, and the caller closes it when no
 * tasks are left. It then waits only for the workers that joined, so one that wakes late costs no
 * time.
 *
 *   gen	counts loops; workers sleep on it
 *   state	OPEN | CALLER_SLEEPS | number of workers inside the loop
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "threadpool.h"

#define POOL_OPEN (1u << 31)
#define POOL_CALLER_SLEEPS (1u << 30)

struct llm_pool {
	unsigned int threads;
	uint64_t spin_ns;
	pthread_mutex_t busy;
	_Atomic uint32_t gen;
	_Atomic uint32_t sleepers;
	_Atomic uint32_t state;
	_Atomic uint32_t next; /* task */
	atomic_bool stop;
	void (*fn)(void *arg, unsigned int task, unsigned int worker);
	void *arg;
	unsigned int tasks;
	unsigned int started;
	struct pool_worker {
		struct llm_pool *pool;
		unsigned int index;
		pthread_t thread;
	} workers[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void pool_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static uint64_t pool_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Polls until *word differs from @value; false: it does not within @spin_ns. */
static bool pool_spin(_Atomic uint32_t *word, uint32_t value, uint64_t spin_ns)
{
	uint64_t end;

	if (atomic_load_explicit(word, memory_order_acquire) != value)
		return true;
	if (!spin_ns)
		return false;
	end = pool_now_ns() + spin_ns;
	do {
		for (int i = 0; i < 16; i++) {
			if (atomic_load_explicit(word, memory_order_acquire) != value)
				return true;
			pool_relax();
		}
	} while (pool_now_ns() < end);
	return false;
}

static void pool_tasks(struct llm_pool *pool, unsigned int worker)
{
	unsigned int task;

	while ((task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) <
	       pool->tasks)
		pool->fn(pool->arg, task, worker);
}

static bool pool_join(struct llm_pool *pool)
{
	uint32_t state = atomic_load(&pool->state);

	while (state & POOL_OPEN) {
		if (atomic_compare_exchange_weak(&pool->state, &state, state + 1))
			return true;
	}
	return false;
}

static void pool_leave(struct llm_pool *pool)
{
	uint32_t state = atomic_fetch_sub(&pool->state, 1) - 1;

	if (state == POOL_CALLER_SLEEPS)
		futex_wake(&pool->state, 1);
}

static void *pool_thread(void *arg)
{
	struct pool_worker *w = arg;
	struct llm_pool *pool = w->pool;
	uint32_t seen = 0;

	for (;;) {
		if (!pool_spin(&pool->gen, seen, pool->spin_ns)) {
			atomic_fetch_add(&pool->sleepers, 1);
			while (atomic_load(&pool->gen) == seen)
				futex_wait(&pool->gen, seen);
			atomic_fetch_sub(&pool->sleepers, 1);
		}
		seen = atomic_load(&pool->gen);
		if (atomic_load(&pool->stop))
			return NULL;
		if (pool_join(pool)) {
			pool_tasks(pool, w->index);
			pool_leave(pool);
		}
	}
}

struct llm_pool *llm_pool_create(unsigned int threads, unsigned int spin_us)
{
	struct llm_pool *pool = calloc(1, sizeof(*pool) + threads * sizeof(pool->workers[0]));

	if (!pool)
		return NULL;
	pool->threads = threads;
	pool->spin_ns = spin_us * 1000ull;
	pthread_mutex_init(&pool->busy, NULL);
	for (unsigned int i = 1; i < threads; i++) {
		struct pool_worker *w = &pool->workers[i];

		*w = (struct pool_worker){ .pool = pool, .index = i };
		if (pthread_create(&w->thread, NULL, pool_thread, w)) {
			llm_pool_free(pool);
			return NULL;
		}
		pool->started = i;
	}
	return pool;
}

void llm_pool_free(struct llm_pool *pool)
{
	if (!pool)
		return;
	atomic_store(&pool->stop, true);
	atomic_fetch_add(&pool->gen, 1);
	futex_wake(&pool->gen, INT_MAX);
	for (unsigned int i = 1; i <= pool->started; i++)
		pthread_join(pool->workers[i].thread, NULL);
	pthread_mutex_destroy(&pool->busy);
	free(pool);
}

unsigned int llm_pool_threads(const struct llm_pool *pool)
{
	return pool->threads;
}

/* Closes the loop and waits for the workers that joined it. */
static void pool_close(struct llm_pool *pool)
{
	uint32_t state = atomic_fetch_and(&pool->state, ~POOL_OPEN) & ~POOL_OPEN;

	while (state) {
		if (!pool_spin(&pool->state, state, 20000)) {
			/* Sleep only if no worker left since state was read. */
			if (!atomic_compare_exchange_strong(&pool->state, &state,
							    state | POOL_CALLER_SLEEPS))
				continue;
			futex_wait(&pool->state, state | POOL_CALLER_SLEEPS);
			atomic_fetch_and(&pool->state, ~POOL_CALLER_SLEEPS);
		}
		state = atomic_load(&pool->state);
	}
}

void llm_pool_run(struct llm_pool *pool,
		  void (*fn)(void *arg, unsigned int task, unsigned int worker), void *arg,
		  unsigned int tasks)
{
	uint32_t sleepers;

	if (tasks <= 1 || pool->threads <= 1 || pthread_mutex_trylock(&pool->busy)) {
		for (unsigned int i = 0; i < tasks; i++)
			fn(arg, i, 0);
		return;
	}
	pool->fn = fn;
	pool->arg = arg;
	pool->tasks = tasks;
	atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
	atomic_store(&pool->state, POOL_OPEN);
	atomic_fetch_add(&pool->gen, 1);
	sleepers = atomic_load(&pool->sleepers);
	if (sleepers)
		futex_wake(&pool->gen, (int)(sleepers < tasks - 1 ? sleepers : tasks - 1));
	pool_tasks(pool, 0);
	pool_close(pool);
	pthread_mutex_unlock(&pool->busy);
}
