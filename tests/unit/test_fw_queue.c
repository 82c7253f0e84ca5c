// SPDX-License-Identifier: MIT
/* The choice of the next waiting job, with a simulated time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <drm/vnpu_accel.h>

#include "fw_data.h"
#include "fw_queue.h"

#define MS 1000000ull
#define NR_QUEUES 32
#define NR_CTX 16

static struct fw_queues *queues;
static uint64_t now_ns;

static int setup(void **state)
{
	now_ns = 1000 * MS;
	queues = fw_queues_create(NR_QUEUES, NR_CTX, 256);
	return !queues;
}

static int teardown(void **state)
{
	fw_queues_destroy(queues);
	return 0;
}

static void push(uint32_t ctx, uint32_t queue, uint32_t priority, uint64_t tag)
{
	struct vnpu_fw_sqe job = { .ctx = ctx, .queue = queue, .priority = priority, .tag = tag };

	assert_true(fw_queues_push(queues, &job, now_ns));
}

static void push_many(uint32_t ctx, uint32_t queue, uint32_t priority, unsigned int nr)
{
	while (nr--)
		push(ctx, queue, priority, 0);
}

/* The next job, which takes @ns of the device's time. */
static struct vnpu_fw_sqe run(uint64_t ns)
{
	struct vnpu_fw_sqe job;

	assert_true(fw_queues_pop(queues, now_ns, &job));
	now_ns += ns;
	fw_queues_charge(queues, &job, ns);
	return job;
}

static void jobs_of_a_queue_keep_their_order_whatever_they_cost(void **state)
{
	for (uint64_t i = 0; i < 20; i++)
		push(1, 3, DRM_VNPU_PRIORITY_NORMAL, i);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(run(i % 3 * MS).tag, i);
	assert_true(fw_queues_empty(queues));
}

static void contexts_get_equal_time_however_long_their_jobs_are(void **state)
{
	uint64_t used[3] = { 0 };

	push_many(1, 1, DRM_VNPU_PRIORITY_NORMAL, 20);
	push_many(2, 2, DRM_VNPU_PRIORITY_NORMAL, 200);
	for (int i = 0; i < 110; i++) {
		uint64_t ns = 0;
		struct vnpu_fw_sqe job;

		assert_true(fw_queues_pop(queues, now_ns, &job));
		ns = job.ctx == 1 ? 10 * MS : MS;
		fw_queues_charge(queues, &job, ns);
		used[job.ctx] += ns;
	}
	assert_in_range(used[1], 90 * MS, 110 * MS);
	assert_in_range(used[2], 90 * MS, 110 * MS);
}

static void many_queues_are_no_advantage(void **state)
{
	unsigned int jobs[3] = { 0 };

	for (uint32_t q = 0; q < 15; q++)
		push_many(1, q, DRM_VNPU_PRIORITY_NORMAL, 10);
	push_many(2, 20, DRM_VNPU_PRIORITY_NORMAL, 50);
	for (int i = 0; i < 80; i++)
		jobs[run(MS).ctx]++;
	assert_in_range(jobs[1], 39, 41);
	assert_in_range(jobs[2], 39, 41);
}

static void queues_of_one_context_alternate(void **state)
{
	for (uint32_t q = 1; q <= 3; q++)
		push_many(1, q, DRM_VNPU_PRIORITY_NORMAL, 3);
	for (int i = 0; i < 9; i++)
		assert_int_equal(run((i + 1) * MS).queue, i % 3 + 1);
}

static void a_newcomer_neither_catches_up_nor_waits(void **state)
{
	unsigned int jobs[4] = { 0 };

	push_many(1, 1, DRM_VNPU_PRIORITY_NORMAL, 200);
	push_many(2, 2, DRM_VNPU_PRIORITY_NORMAL, 2);
	for (int i = 0; i < 100; i++)
		run(MS);
	/* A new context, and one that was away. */
	push_many(3, 3, DRM_VNPU_PRIORITY_NORMAL, 50);
	push_many(2, 2, DRM_VNPU_PRIORITY_NORMAL, 50);
	for (int i = 0; i < 30; i++)
		jobs[run(MS).ctx]++;
	for (int i = 1; i <= 3; i++)
		assert_in_range(jobs[i], 9, 11);
}

static void higher_priorities_go_first(void **state)
{
	push(1, 1, DRM_VNPU_PRIORITY_LOW, 1);
	push(2, 2, DRM_VNPU_PRIORITY_NORMAL, 2);
	push(3, 3, DRM_VNPU_PRIORITY_HIGH, 3);
	push(3, 3, DRM_VNPU_PRIORITY_HIGH, 4);
	assert_int_equal(run(MS).tag, 3);
	assert_int_equal(run(MS).tag, 4);
	assert_int_equal(run(MS).tag, 2);
	assert_int_equal(run(MS).tag, 1);
}

/*
 * High-priority jobs of 10 ms without end: in 10 s, the two lower priorities get one job per
 * FW_AGING_NS, and no more.
 */
static void no_priority_starves_and_the_high_one_is_hardly_delayed(void **state)
{
	uint64_t end = now_ns + 10000 * MS, longest = 0, last = now_ns;
	unsigned int low = 0, normal = 0;

	push_many(1, 1, DRM_VNPU_PRIORITY_LOW, 100);
	push_many(2, 2, DRM_VNPU_PRIORITY_NORMAL, 100);
	while (now_ns < end) {
		struct vnpu_fw_sqe job;

		push(3, 3, DRM_VNPU_PRIORITY_HIGH, 0);
		job = run(10 * MS);
		if (job.priority == DRM_VNPU_PRIORITY_HIGH)
			continue;
		low += job.priority == DRM_VNPU_PRIORITY_LOW;
		normal += job.priority == DRM_VNPU_PRIORITY_NORMAL;
		longest = now_ns - last > longest ? now_ns - last : longest;
		last = now_ns;
	}
	assert_in_range(low + normal, 30, 10000 * MS / FW_AGING_NS);
	assert_in_range(low, 10, 30);
	assert_in_range(normal, 10, 30);
	assert_in_range(longest, 0, 2 * FW_AGING_NS);
}

static void cancelled_jobs_are_answered_in_order(void **state)
{
	struct vnpu_fw_sqe job;

	for (uint64_t i = 1; i <= 4; i++)
		push(1, 1, DRM_VNPU_PRIORITY_NORMAL, i);
	fw_queues_cancel(queues, 1, 2);
	fw_queues_cancel(queues, 1, 99);
	assert_false(fw_queues_pop_canceled(queues, 1, now_ns, &job));
	fw_queues_cancel(queues, 1, 1);
	assert_true(fw_queues_pop_canceled(queues, 1, now_ns, &job));
	assert_int_equal(job.tag, 1);
	assert_true(fw_queues_pop_canceled(queues, 1, now_ns, &job));
	assert_int_equal(job.tag, 2);
	assert_false(fw_queues_pop_canceled(queues, 1, now_ns, &job));
	/* Its place is free for another job. */
	push(1, 1, DRM_VNPU_PRIORITY_NORMAL, 5);
	assert_int_equal(run(MS).tag, 3);
	assert_int_equal(run(MS).tag, 4);
	assert_false(fw_queues_pop_canceled(queues, 1, now_ns, &job));
	assert_int_equal(run(MS).tag, 5);
	assert_false(fw_queues_pop_canceled(queues, 1, now_ns, &job));
}

static void a_new_context_does_not_inherit_the_time_of_a_closed_one(void **state)
{
	struct vnpu_fw_sqe job;

	push_many(1, 1, DRM_VNPU_PRIORITY_NORMAL, 3);
	push_many(2, 2, DRM_VNPU_PRIORITY_NORMAL, 3);
	for (int i = 0; i < 2; i++)
		assert_int_equal(run(i ? MS : 1000 * MS).ctx, i + 1);
	while (fw_queues_pop_ctx(queues, 1, now_ns, &job))
		assert_int_equal(job.ctx, 1);
	push_many(1, 1, DRM_VNPU_PRIORITY_NORMAL, 1);
	/* With its former device time it would come after both. */
	assert_int_equal(run(MS).ctx, 1);
	assert_int_equal(run(MS).ctx, 2);
	assert_int_equal(run(MS).ctx, 2);
}

static void places_run_out_and_come_back(void **state)
{
	struct vnpu_fw_sqe job = { .ctx = 1, .queue = 1, .priority = DRM_VNPU_PRIORITY_NORMAL };

	for (int round = 0; round < 3; round++) {
		push_many(1, 1, DRM_VNPU_PRIORITY_NORMAL, 256);
		assert_false(fw_queues_push(queues, &job, now_ns));
		for (int i = 0; i < 256; i++)
			run(0);
		assert_false(fw_queues_pop(queues, now_ns, &job));
	}
}

static void passing_a_single_job_through_equals_pushing_and_taking_it(void **state)
{
	struct fw_queues *other = fw_queues_create(NR_QUEUES, NR_CTX, 256);
	struct vnpu_fw_sqe job, same;
	uint64_t ns;

	assert_non_null(other);
	rng_state = 20261122;
	print_message("%s: seed %llu\n", __func__, (unsigned long long)rng_state);
	for (uint64_t i = 0; i < 50000; i++) {
		ns = rng_below(100) * MS;
		if (rng_below(3) && !fw_queues_empty(queues)) {
			assert_true(fw_queues_pop(queues, now_ns, &job));
			assert_true(fw_queues_pop(other, now_ns, &same));
			assert_int_equal(job.tag, same.tag);
			now_ns += ns;
			fw_queues_charge(queues, &job, ns);
			fw_queues_charge(other, &job, ns);
			continue;
		}
		/* A context uses several priorities, but a queue has only one. */
		job = (struct vnpu_fw_sqe){ .ctx = 1 + rng_below(NR_CTX), .tag = i };
		job.priority = job.ctx % FW_NR_PRIORITIES;
		job.queue = job.ctx - 1 + NR_CTX * rng_below(2);
		if (fw_queues_empty(queues) && rng_below(2)) {
			fw_queues_pass(queues, &job);
			assert_true(fw_queues_empty(queues));
			assert_true(fw_queues_push(other, &job, now_ns));
			assert_true(fw_queues_pop(other, now_ns, &same));
			now_ns += ns;
			fw_queues_charge(queues, &job, ns);
			fw_queues_charge(other, &job, ns);
		} else if (fw_queues_push(other, &job, now_ns)) {
			assert_true(fw_queues_push(queues, &job, now_ns));
		}
	}
	fw_queues_destroy(other);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(jobs_of_a_queue_keep_their_order_whatever_they_cost),
		TEST(contexts_get_equal_time_however_long_their_jobs_are),
		TEST(many_queues_are_no_advantage),
		TEST(queues_of_one_context_alternate),
		TEST(a_newcomer_neither_catches_up_nor_waits),
		TEST(higher_priorities_go_first),
		TEST(no_priority_starves_and_the_high_one_is_hardly_delayed),
		TEST(cancelled_jobs_are_answered_in_order),
		TEST(a_new_context_does_not_inherit_the_time_of_a_closed_one),
		TEST(places_run_out_and_come_back),
		TEST(passing_a_single_job_through_equals_pushing_and_taking_it),
	};

	return cmocka_run_group_tests_name("fw_queue", tests, NULL, NULL);
}
