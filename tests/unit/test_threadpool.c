// SPDX-License-Identifier: MIT
/*
 * The CPU lane's threads: every task once, no worker twice at a time, whoever sleeps or comes late.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "threadpool.h"

#define MAX_TASKS 500
#define MAX_THREADS 8

struct loop {
	atomic_uint done[MAX_TASKS];
	atomic_uint inside[MAX_THREADS]; /* by worker */
	atomic_uint clashes;
	unsigned int threads, work;
};

static void loop_task(void *arg, unsigned int task, unsigned int worker)
{
	struct loop *loop = arg;

	if (worker >= loop->threads || atomic_fetch_add(&loop->inside[worker], 1))
		atomic_fetch_add(&loop->clashes, 1);
	for (unsigned int i = 0; i < loop->work * (task % 7); i++)
		atomic_load(&loop->clashes);
	atomic_fetch_add(&loop->done[task], 1);
	atomic_fetch_sub(&loop->inside[worker], 1);
}

static void check_loop(struct llm_pool *pool, unsigned int tasks, unsigned int work)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	loop->threads = llm_pool_threads(pool);
	loop->work = work;
	llm_pool_run(pool, loop_task, loop, tasks);
	for (unsigned int i = 0; i < MAX_TASKS; i++)
		assert_int_equal(atomic_load(&loop->done[i]), i < tasks);
	assert_int_equal(atomic_load(&loop->clashes), 0);
	free(loop);
}

static void check_pool(unsigned int threads, unsigned int spin_us)
{
	struct llm_pool *pool = llm_pool_create(threads, spin_us);

	assert_non_null(pool);
	assert_int_equal(llm_pool_threads(pool), threads);
	for (unsigned int i = 0; i < 400; i++) {
		check_loop(pool, i * 37 % (MAX_TASKS + 1), i % 3 * 20);
		/* Long enough that idle threads sleep. */
		if (i % 100 == 99)
			usleep(2000);
	}
	llm_pool_free(pool);
}

static void test_every_task_is_done_once(void **state)
{
	for (unsigned int threads = 1; threads <= MAX_THREADS; threads++) {
		check_pool(threads, 0);
		check_pool(threads, 50);
	}
}

static void *run_loops(void *arg)
{
	for (int i = 0; i < 300; i++)
		check_loop(arg, (unsigned int)i % 60, 10);
	return NULL;
}

static void test_loops_of_two_threads_both_finish(void **state)
{
	struct llm_pool *pool = llm_pool_create(3, 20);
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, run_loops, pool), 0);
	run_loops(pool);
	pthread_join(thread, NULL);
	llm_pool_free(pool);
}

static void test_a_pool_that_never_ran_can_be_freed(void **state)
{
	llm_pool_free(llm_pool_create(4, 1000));
	llm_pool_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_task_is_done_once),
		cmocka_unit_test(test_loops_of_two_threads_both_finish),
		cmocka_unit_test(test_a_pool_that_never_ran_can_be_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
