// SPDX-License-Identifier: MIT
/*
 * Limits of time and memory, on a simulated device with short fences and little memory: on vnpu.ko
 * a fence lasts ten seconds, and buffers may have half of the host's memory.
 */
#include <errno.h>
#include <unistd.h>

#include "npu_fixture.h"
#include "npu_private.h"

#define FENCE_MS 600
#define MEMORY_BYTES (8u << 20)

struct bounded {
	struct npu_device *dev;
	struct npu_context *ctx;
	struct npu_queue *queue;
	struct npu_buffer *x, *y;
	struct npu_fence *fence;
	struct npu_sync signal;
	struct npu_submit_syncs syncs; /* signals the fence */
};

static int bounded_setup(void **state)
{
	const struct sim_options opts = { .threads = 1,
					  .fence_ms = FENCE_MS,
					  .mem_limit_bytes = MEMORY_BYTES };
	struct bounded *b = calloc(1, sizeof(*b));
	struct transport *t;

	npu_ok(transport_sim_open(&opts, &t));
	npu_ok(npu_device_open_on(t, NPU_TRANSPORT_SIM, "", "test", &b->dev));
	npu_ok(npu_context_create(b->dev, &b->ctx));
	npu_ok(npu_queue_create(b->ctx, NULL, &b->queue));
	b->x = fixture_floats(b->ctx, 8, 0);
	b->y = fixture_floats(b->ctx, 8, 0);
	npu_ok(npu_fence_create(b->dev, false, &b->fence));
	b->signal = (struct npu_sync){ b->fence, 0 };
	b->syncs = (struct npu_submit_syncs){ .signal = &b->signal, .nr_signal = 1 };
	*state = b;
	return 0;
}

static int bounded_teardown(void **state)
{
	struct bounded *b = *state;

	npu_fence_free(b->fence);
	npu_buffer_free(b->x);
	npu_buffer_free(b->y);
	npu_queue_free(b->queue);
	npu_context_free(b->ctx);
	npu_device_close(b->dev);
	free(b);
	return 0;
}

/* A job that makes progress every 20 ms; a sleep makes none. */
static struct npu_job *steady_job(struct bounded *b, int ms)
{
	struct npu_graph *g = npu_graph_create("steady");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 1, 8);
	struct npu_job *job;

	for (; ms > 0; ms -= 20) {
		npu_ok(npu_sleep(g, 20 * MS));
		x = npu_add(g, x, x);
	}
	npu_graph_output(g, "y", x);
	job = fixture_job(b->ctx, g);
	fixture_bind(job, "x", b->x);
	fixture_bind(job, "y", b->y);
	return job;
}

static uint32_t context_state(struct npu_context *ctx)
{
	struct npu_context_state st;

	npu_ok(npu_context_state(ctx, &st));
	return st.state;
}

/* The fence signals in time, long before @end_ns. */
static void fence_ends(struct bounded *b, int64_t start_ns, int64_t end_ns)
{
	int64_t now;

	npu_fails(npu_fence_wait(b->fence, 0, 20 * MS), -ETIMEDOUT, "not reached");
	npu_ok(npu_fence_wait(b->fence, 0, NPU_FOREVER));
	now = fixture_now_ns() - start_ns;
	assert_true(now >= FENCE_MS * MS && now < end_ns);
}

/* @depth 1: the job waits before the device; else in it. */
static void a_waiting_job_s_fence_ends(struct bounded *b, uint32_t depth)
{
	struct npu_job *slow = fixture_sleep(b->ctx, 3000 * MS), *late = fixture_sleep(b->ctx, 0),
		       *next = fixture_sleep(b->ctx, 0);
	uint64_t seqno[3];
	struct npu_queue *queue;
	int64_t start = fixture_now_ns();

	npu_ok(npu_queue_create(b->ctx, &(struct npu_queue_options){ .depth = depth }, &queue));
	npu_ok(npu_queue_submit(queue, &slow, 1, NULL, &seqno[0]));
	npu_ok(npu_queue_submit(queue, &late, 1, &b->syncs, &seqno[1]));
	npu_ok(npu_queue_submit(queue, &next, 1, NULL, &seqno[2]));
	fence_ends(b, start, 3000 * MS);
	/* It ends in the order of its number. */
	npu_fails(npu_queue_wait(queue, seqno[1], 0, NPU_WAIT_DRIVER), -ETIMEDOUT, "not done");
	assert_int_equal(npu_queue_completed(queue), 0);
	npu_ok(npu_queue_wait(queue, seqno[0], NPU_FOREVER, NPU_WAIT_DRIVER));
	npu_fails(npu_queue_wait(queue, seqno[1], NPU_FOREVER, NPU_WAIT_DRIVER), -EBUSY,
		  "waited for too long");
	npu_ok(npu_queue_wait(queue, seqno[2], NPU_FOREVER, NPU_WAIT_DRIVER));
	assert_int_equal(npu_queue_completed(queue), seqno[2]);
	assert_int_equal(context_state(b->ctx), 0);
	npu_queue_free(queue);
	npu_job_free(slow);
	npu_job_free(late);
	npu_job_free(next);
}

static void fences_of_jobs_waiting_in_the_device_signal_in_time_jobs_end_in_turn(void **state)
{
	a_waiting_job_s_fence_ends(*state, 16);
}

static void fences_of_jobs_waiting_for_room_signal_in_time_jobs_end_in_turn(void **state)
{
	a_waiting_job_s_fence_ends(*state, 1);
}

static void a_job_that_started_late_and_makes_progress_is_not_to_blame_for_its_fence(void **state)
{
	struct bounded *b = *state;
	struct npu_job *before = fixture_sleep(b->ctx, 500 * MS), *job = steady_job(b, 3000),
		       *next = fixture_sleep(b->ctx, 0);
	int64_t start = fixture_now_ns();
	uint64_t seqno;

	npu_ok(npu_queue_submit(b->queue, &before, 1, NULL, NULL));
	npu_ok(npu_queue_submit(b->queue, &job, 1, &b->syncs, &seqno));
	fence_ends(b, start, 3000 * MS);
	npu_fails(npu_queue_wait(b->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER), -EBUSY,
		  "submit it again");
	assert_int_equal(context_state(b->ctx), 0);
	/* The device has dropped it, and is free. */
	npu_ok(npu_queue_submit(b->queue, &next, 1, NULL, &seqno));
	npu_ok(npu_queue_wait(b->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	assert_true(fixture_now_ns() - start < 3000 * MS);
	npu_job_free(before);
	npu_job_free(job);
	npu_job_free(next);
}

static void job_is_to_blame(struct bounded *b, struct npu_job *job)
{
	uint64_t seqno;

	npu_ok(npu_queue_submit(b->queue, &job, 1, &b->syncs, &seqno));
	npu_ok(npu_fence_wait(b->fence, 0, NPU_FOREVER));
	npu_fails(npu_queue_wait(b->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER), -ETIME, "timeout");
	assert_int_equal(context_state(b->ctx), NPU_CONTEXT_TIMEDOUT);
	npu_job_free(job);
}

static void a_job_with_a_fence_that_hangs_is_to_blame(void **state)
{
	struct bounded *b = *state;
	struct npu_job *job = fixture_sleep(b->ctx, 5000 * MS);
	int64_t start = fixture_now_ns();

	npu_job_timeout(job, 50);
	job_is_to_blame(b, job);
	assert_true(fixture_now_ns() - start < FENCE_MS * MS);
}

static void a_job_with_a_fence_and_no_timeout_that_hangs_is_to_blame(void **state)
{
	struct bounded *b = *state;

	job_is_to_blame(b, fixture_sleep(b->ctx, 5000 * MS));
}

static void a_job_with_a_fence_that_works_for_all_of_its_time_is_to_blame(void **state)
{
	struct bounded *b = *state;

	job_is_to_blame(b, steady_job(b, 3000));
}

static void a_job_without_a_fence_may_take_longer_than_a_fence(void **state)
{
	struct bounded *b = *state;
	struct npu_job *job = fixture_sleep(b->ctx, 3 * FENCE_MS * MS);
	uint64_t seqno;

	npu_ok(npu_queue_submit(b->queue, &job, 1, NULL, &seqno));
	npu_ok(npu_queue_wait(b->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	npu_job_free(job);
}

static void fences_that_end_with_their_jobs_are_not_ended_again(void **state)
{
	struct bounded *b = *state;
	struct npu_job *job = fixture_sleep(b->ctx, 0);
	uint64_t seqno, point;
	struct npu_fence *timeline;
	struct npu_submit_syncs syncs = b->syncs;
	struct npu_sync signal;

	npu_ok(npu_fence_create(b->dev, false, &timeline));
	signal.fence = timeline;
	syncs.signal = &signal;
	for (signal.point = 1; signal.point <= 50; signal.point++) {
		npu_ok(npu_queue_submit(b->queue, &job, 1, &syncs, &seqno));
		npu_ok(npu_queue_wait(b->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	}
	usleep(2 * FENCE_MS * 1000);
	npu_ok(npu_fence_query(timeline, &point));
	assert_int_equal(point, 50);
	npu_ok(npu_queue_wait(b->queue, seqno, 0, NPU_WAIT_DRIVER));
	npu_fence_free(timeline);
	npu_job_free(job);
}

static void the_end_of_a_queue_ends_its_fences(void **state)
{
	struct bounded *b = *state;
	struct npu_job *slow = fixture_sleep(b->ctx, 5000 * MS), *late = fixture_sleep(b->ctx, 0);
	int64_t start = fixture_now_ns();
	struct npu_queue *queue;

	npu_ok(npu_queue_create(b->ctx, &(struct npu_queue_options){ .depth = 1 }, &queue));
	npu_ok(npu_queue_submit(queue, &slow, 1, NULL, NULL));
	npu_ok(npu_queue_submit(queue, &late, 1, &b->syncs, NULL));
	npu_queue_free(queue);
	npu_ok(npu_fence_wait(b->fence, 0, NPU_FOREVER));
	assert_true(fixture_now_ns() - start < FENCE_MS * MS);
	/* Nothing is left that could end again. */
	usleep(2 * FENCE_MS * 1000);
	assert_int_equal(context_state(b->ctx), 0);
	npu_job_free(slow);
	npu_job_free(late);
}

static void buffers_can_have_the_limit_of_memory_and_no_more(void **state)
{
	struct bounded *b = *state;
	uint64_t free_bytes = b->dev->limits.mem_limit_bytes;
	struct npu_device_state st;
	struct npu_buffer *buf, *more;
	size_t half;

	assert_int_equal(free_bytes, MEMORY_BYTES);
	npu_ok(npu_device_state(b->dev, &st));
	half = (free_bytes - st.mem_bytes) / 2 / NPU_PAGE * NPU_PAGE;
	npu_ok(npu_buffer_create(b->ctx, half, 0, &buf));
	npu_fails(npu_buffer_create(b->ctx, half + 3 * NPU_PAGE, 0, &more), -ENOSPC,
		  "the device's memory limit");
	npu_ok(npu_buffer_create(b->ctx, half, 0, &more));
	npu_buffer_free(more);
	npu_buffer_free(buf);
	npu_ok(npu_buffer_create(b->ctx, 2 * half, 0, &buf));
	npu_buffer_free(buf);
}

static void the_memory_limit_is_half_of_the_host_s_by_default(void **state)
{
	uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	struct npu_device *dev;

	npu_ok(npu_device_open(&(struct npu_device_options){ .transport = NPU_TRANSPORT_SIM },
			       &dev));
	assert_int_equal(npu_device_info(dev)->mem_limit_bytes, host / 2);
	assert_int_equal(dev->limits.max_bytes_per_user, host / 2);
	npu_device_close(dev);
}

#define with_bounds(name) cmocka_unit_test_setup_teardown(name, bounded_setup, bounded_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_bounds(fences_of_jobs_waiting_in_the_device_signal_in_time_jobs_end_in_turn),
		with_bounds(fences_of_jobs_waiting_for_room_signal_in_time_jobs_end_in_turn),
		with_bounds(
			a_job_that_started_late_and_makes_progress_is_not_to_blame_for_its_fence),
		with_bounds(a_job_with_a_fence_that_hangs_is_to_blame),
		with_bounds(a_job_with_a_fence_and_no_timeout_that_hangs_is_to_blame),
		with_bounds(a_job_with_a_fence_that_works_for_all_of_its_time_is_to_blame),
		with_bounds(a_job_without_a_fence_may_take_longer_than_a_fence),
		with_bounds(fences_that_end_with_their_jobs_are_not_ended_again),
		with_bounds(the_end_of_a_queue_ends_its_fences),
		with_bounds(buffers_can_have_the_limit_of_memory_and_no_more),
		cmocka_unit_test(the_memory_limit_is_half_of_the_host_s_by_default),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
