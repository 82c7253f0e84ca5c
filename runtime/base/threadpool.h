/* SPDX-License-Identifier: MIT */
/* Threads of the CPU lane: a parallel loop in which the caller takes part. */
#ifndef THREADPOOL_H
#define THREADPOOL_H

struct llm_pool;

/* CPUs that the process may use. */
unsigned int llm_pool_cpus(void);

/*
 * @threads of work, the caller of llm_pool_run() among them: threads - 1 are started. Idle ones
 * poll for @spin_us and then sleep; 0 where others (a device in the same process) need the CPUs.
 * NULL: no memory or no threads.
 */
struct llm_pool *llm_pool_create(unsigned int threads, unsigned int spin_us);
void llm_pool_free(struct llm_pool *pool);
unsigned int llm_pool_threads(const struct llm_pool *pool);

/*
 * Calls fn(arg, task, worker) once for each task in 0..tasks-1, in any order and from several
 * threads, and returns when all are done. worker is below llm_pool_threads() and no two calls at
 * one time have the same. If another thread's loop holds the pool, the caller does all its tasks
 * alone, so results must not depend on who does what.
 */
void llm_pool_run(struct llm_pool *pool,
		  void (*fn)(void *arg, unsigned int task, unsigned int worker), void *arg,
		  unsigned int tasks);

#endif /* THREADPOOL_H */
