/* SPDX-License-Identifier: MIT */
/* Threads of the CPU lane: a parallel loop in which the caller takes part. */
#ifndef THREADPOOL_H
#define THREADPOOL_H

struct llm_pool;

/*
 * A pool of @threads, of which one is the caller of llm_pool_run(): starts threads - 1. Idle
 * threads poll for @spin_us and then sleep; pass 0 if others, such as a device in the same process,
 * need the CPUs. NULL: no memory, or too many threads.
 */
struct llm_pool *llm_pool_create(unsigned int threads, unsigned int spin_us);
void llm_pool_free(struct llm_pool *pool);
unsigned int llm_pool_threads(const struct llm_pool *pool);

/*
 * Calls fn(arg, task, worker) once for each task in 0..tasks-1, in any order and from several
 * threads, and returns when all are done. worker is below llm_pool_threads() and differs between
 * concurrent calls. While another thread's loop occupies the pool, the caller runs all its tasks
 * itself, so results must not depend on which thread runs which task.
 */
void llm_pool_run(struct llm_pool *pool,
		  void (*fn)(void *arg, unsigned int task, unsigned int worker), void *arg,
		  unsigned int tasks);

#endif /* THREADPOOL_H */
