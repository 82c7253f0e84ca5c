// SPDX-License-Identifier: MIT
/*
 * Errors in the device: faults, isolation, refused streams, timeouts, and the end of queues and
 * contexts with jobs in flight. Runs on sim, and with NPU_TRANSPORT=drm on vnpu.ko.
 */
#include <errno.h>
#include <unistd.h>

#include "npu_fixture.h"
#include "npu_private.h"

/* Slot @i of the job's table, which the test changes behind libnpu's back. */
static struct vnpu_slot *job_slot(struct npu_job *job, uint32_t i)
{
	return job->slots + i;
}

static void an_unmapped_operand_faults_with_its_address_and_bans_its_context(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_increment(f->ctx, 2000, 0),
		       *good = fixture_increment(f->ctx, 2000, 0);
	struct npu_buffer *x = fixture_floats(f->ctx, 2000, 0),
			  *y = fixture_floats(f->ctx, 2000, 0), *late;
	struct npu_context_state st;
	struct npu_context *other;
	struct npu_queue *queue;
	uint64_t seqno;

	fixture_bind(job, "x", x);
	fixture_bind(job, "y", y);
	fixture_bind(good, "x", x);
	fixture_bind(good, "y", y);
	npu_ok(fixture_run(f, job));
	npu_ok(npu_context_state(f->ctx, &st));
	assert_int_equal(st.state, 0);

	/* The second page at x's new address is not bound. */
	job_slot(job, 0)->va = npu_buffer_va(x) + 4096;
	npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &seqno));
	npu_fails(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_FAST), -EFAULT,
		  "fault reading address 0x");
	npu_ok(npu_context_state(f->ctx, &st));
	assert_int_equal(st.state, NPU_CONTEXT_FAULT);
	assert_int_equal(st.fault_va & ~4095ull, npu_buffer_va(x) + 8192);
	assert_false(st.fault_write);
	assert_int_equal(st.seqno, seqno);

	npu_fails(npu_queue_submit(f->queue, &good, 1, NULL, &seqno), -ECANCELED, "a job faulted");
	npu_fails(npu_queue_create(f->ctx, NULL, &queue), -ECANCELED, "banned");
	npu_fails(npu_buffer_create(f->ctx, 4096, 0, &late), -ECANCELED, "banned");

	/* Other contexts are not affected. */
	npu_ok(npu_context_create(f->dev, &other));
	npu_ok(npu_queue_create(other, NULL, &queue));
	npu_job_free(good);
	good = fixture_sleep(other, 0);
	npu_ok(npu_queue_submit(queue, &good, 1, NULL, &seqno));
	npu_ok(npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	npu_job_free(good);
	npu_queue_free(queue);
	npu_context_free(other);
	npu_job_free(job);
	npu_buffer_free(x);
	npu_buffer_free(y);
}

static void a_fault_cancels_later_jobs_without_a_call(void **state)
{
	struct fixture *f = *state;
	struct npu_job *jobs[2] = { fixture_increment(f->ctx, 64, 0),
				    fixture_sleep(f->ctx, 5000 * MS) };
	struct npu_buffer *x = fixture_floats(f->ctx, 64, 0), *y = fixture_floats(f->ctx, 64, 0);
	struct npu_context_state st;
	uint64_t seqno;

	fixture_bind(jobs[0], "x", x);
	fixture_bind(jobs[0], "y", y);
	job_slot(jobs[0], 0)->va = npu_buffer_va(x) + (1 << 20);
	npu_ok(npu_queue_submit(f->queue, jobs, 2, NULL, &seqno));
	/*
	 * Only reads the status page, which is no device call; and takes far less than the second
	 * job's time.
	 */
	for (int ms = 0; ms < 2500 && npu_queue_completed(f->queue) < seqno; ms++)
		usleep(1000);
	assert_int_equal(npu_queue_completed(f->queue), seqno);
	npu_ok(npu_context_state(f->ctx, &st));
	assert_int_equal(st.state, NPU_CONTEXT_FAULT);
	assert_int_equal(st.seqno, seqno - 1);
	npu_fails(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER), -ECANCELED,
		  "canceled");
	npu_job_free(jobs[0]);
	npu_job_free(jobs[1]);
	npu_buffer_free(x);
	npu_buffer_free(y);
}

static void what_a_job_writes_cannot_be_bound_to_a_read_only_buffer(void **state)
{
	struct fixture *f = *state;
	struct npu_graph *g = npu_graph_create("store");
	struct npu_job *job = fixture_increment(f->ctx, 64, 0), *store;
	struct npu_buffer *ro, *y = fixture_floats(f->ctx, 64, 0);

	npu_ok(npu_buffer_create(f->ctx, 256, NPU_BUFFER_DEVICE_READ_ONLY, &ro));
	npu_ok(npu_store_rows(g, npu_graph_input(g, "x", NPU_F32, 1, 64),
			      npu_graph_state(g, "s", NPU_F32, 1, 64), NPU_NO_PARAM));
	store = fixture_job(f->ctx, g);
	npu_fails(npu_job_bind(store, "s", ro, 0, 256), -EACCES, "it writes 's'");
	fixture_bind(job, "x", ro);
	fixture_bind(job, "y", y);
	npu_fails(npu_job_bind(job, "y", ro, 0, 256), -EACCES, "it writes 'y'");
	/* What was bound before still is. */
	npu_ok(fixture_run(f, job));
	assert_true(fixture_float(y, 63) == 1);
	npu_job_free(job);
	npu_job_free(store);
	npu_buffer_free(ro);
	npu_buffer_free(y);
}

/* Bound behind libnpu's back. */
static void writing_to_a_read_only_buffer_faults(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_increment(f->ctx, 64, 0);
	struct npu_buffer *x, *y, *other = fixture_floats(f->ctx, 64, 0);
	struct npu_context_state st;

	npu_ok(npu_buffer_create(f->ctx, 256, NPU_BUFFER_DEVICE_READ_ONLY, &x));
	npu_ok(npu_buffer_create(f->ctx, 256, NPU_BUFFER_DEVICE_READ_ONLY, &y));
	fixture_bind(job, "x", x);
	fixture_bind(job, "y", other);
	job_slot(job, 1)->va = npu_buffer_va(y);
	npu_fails(fixture_run(f, job), -EFAULT, "fault writing address 0x");
	npu_ok(npu_context_state(f->ctx, &st));
	assert_int_equal(st.state, NPU_CONTEXT_FAULT);
	assert_true(st.fault_write);
	assert_int_equal(st.fault_va & ~4095ull, npu_buffer_va(y));
	assert_true(fixture_float(y, 0) == 0);
	npu_job_free(job);
	npu_buffer_free(x);
	npu_buffer_free(y);
	npu_buffer_free(other);
}

static void a_context_cannot_reach_the_memory_of_another(void **state)
{
	struct fixture *f = *state;
	struct npu_context *other;
	struct npu_buffer *pad, *secret, *x = fixture_floats(f->ctx, 16, 0),
					 *y = fixture_floats(f->ctx, 16, 5);
	struct npu_job *job = fixture_increment(f->ctx, 16, 0);

	npu_ok(npu_context_create(f->dev, &other));
	/* At an address where this context has nothing. */
	npu_ok(npu_buffer_create(other, 1 << 20, 0, &pad));
	secret = fixture_floats(other, 16, 1234);
	fixture_bind(job, "x", x);
	fixture_bind(job, "y", y);
	job_slot(job, 0)->va = npu_buffer_va(secret);
	npu_fails(fixture_run(f, job), -EFAULT, "fault reading");
	assert_true(fixture_float(y, 0) == 5);
	npu_job_free(job);
	npu_buffer_free(x);
	npu_buffer_free(y);
	npu_buffer_free(secret);
	npu_buffer_free(pad);
	npu_context_free(other);
}

static void a_table_that_the_firmware_refuses_fails_its_job_alone(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_increment(f->ctx, 16, 0);
	struct npu_buffer *x = fixture_floats(f->ctx, 16, 2), *y = fixture_floats(f->ctx, 16, 0);
	uint64_t bad, good;

	fixture_bind(job, "x", x);
	fixture_bind(job, "y", y);
	job_slot(job, 0)->size_bytes = 4;
	npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &bad));
	npu_fails(npu_queue_wait(f->queue, bad, NPU_FOREVER, NPU_WAIT_DRIVER), -EINVAL, "refused");
	fixture_bind(job, "x", x);
	npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &good));
	npu_ok(npu_queue_wait(f->queue, good, NPU_FOREVER, NPU_WAIT_FAST));
	assert_true(fixture_float(y, 0) == 3);
	/* The error can be read again. */
	npu_fails(npu_queue_wait(f->queue, bad, NPU_FOREVER, NPU_WAIT_FAST), -EINVAL, "refused");
	npu_job_free(job);
	npu_buffer_free(x);
	npu_buffer_free(y);
}

/* The job ended long before its expected end, and a later wait has nothing to expect. */
static void a_freed_job_can_still_be_waited_for(void **state)
{
	struct fixture *f = *state;
	struct npu_job *bad = fixture_increment(f->ctx, 16, 5 * MS),
		       *job = fixture_sleep(f->ctx, 500 * MS);
	struct npu_buffer *x = fixture_floats(f->ctx, 16, 2), *y = fixture_floats(f->ctx, 16, 0);
	uint64_t seqno;

	npu_ok(fixture_run(f, job));
	fixture_bind(bad, "x", x);
	fixture_bind(bad, "y", y);
	job_slot(bad, 0)->va = 4096;
	npu_ok(npu_queue_submit(f->queue, &bad, 1, NULL, NULL));
	npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &seqno));
	npu_fails(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER), -ECANCELED,
		  "canceled");
	npu_job_free(job);
	npu_fails(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_FAST), -ECANCELED,
		  "canceled");
	npu_job_free(bad);
	npu_buffer_free(x);
	npu_buffer_free(y);
}

static void a_job_over_its_timeout_is_stopped_and_the_next_canceled(void **state)
{
	struct fixture *f = *state;
	struct npu_job *stuck = fixture_sleep(f->ctx, 20000 * MS), *next = fixture_sleep(f->ctx, 0),
		       *quick;
	struct npu_context_state st;
	struct npu_context *other;
	struct npu_queue *queue;
	uint64_t first, second;
	int64_t start = fixture_now_ns();

	npu_job_timeout(stuck, 50);
	npu_ok(npu_queue_submit(f->queue, &stuck, 1, NULL, &first));
	npu_ok(npu_queue_submit(f->queue, &next, 1, NULL, &second));
	npu_fails(npu_queue_wait(f->queue, first, NPU_FOREVER, NPU_WAIT_DRIVER), -ETIME, "timeout");
	npu_fails(npu_queue_wait(f->queue, second, NPU_FOREVER, NPU_WAIT_FAST), -ECANCELED,
		  "canceled");
	npu_ok(npu_context_state(f->ctx, &st));
	assert_int_equal(st.state, NPU_CONTEXT_TIMEDOUT);
	assert_int_equal(st.seqno, first);
	npu_fails(npu_queue_submit(f->queue, &next, 1, NULL, NULL), -ECANCELED, "timed out");
	/* The device is free again long before the job would have ended. */
	npu_ok(npu_context_create(f->dev, &other));
	npu_ok(npu_queue_create(other, NULL, &queue));
	quick = fixture_sleep(other, 0);
	npu_ok(npu_queue_submit(queue, &quick, 1, NULL, &first));
	npu_ok(npu_queue_wait(queue, first, NPU_FOREVER, NPU_WAIT_DRIVER));
	assert_true(fixture_now_ns() - start < 15000 * MS);
	npu_job_free(quick);
	npu_queue_free(queue);
	npu_context_free(other);
	npu_job_free(stuck);
	npu_job_free(next);
}

static void a_job_that_never_started_fails_alone(void **state)
{
	struct fixture *f = *state;
	struct npu_job *slow = fixture_sleep(f->ctx, 3000 * MS), *never, *next;
	struct npu_context_state st;
	struct npu_context *other;
	struct npu_queue *queue;
	uint64_t first, seqno[2];
	int64_t start;

	npu_ok(npu_context_create(f->dev, &other));
	npu_ok(npu_queue_create(other, NULL, &queue));
	never = fixture_sleep(other, 0);
	next = fixture_sleep(other, 0);
	start = fixture_now_ns();
	npu_ok(npu_queue_submit(f->queue, &slow, 1, NULL, &first));
	/* Only after it has started: otherwise the device would take the other one first. */
	npu_fails(npu_queue_wait(f->queue, first, 100 * MS, NPU_WAIT_DRIVER), -ETIMEDOUT,
		  "not done");
	npu_job_timeout(never, 50);
	npu_ok(npu_queue_submit(queue, &never, 1, NULL, &seqno[0]));
	npu_ok(npu_queue_submit(queue, &next, 1, NULL, &seqno[1]));
	npu_fails(npu_queue_wait(queue, seqno[0], NPU_FOREVER, NPU_WAIT_DRIVER), -EBUSY,
		  "others kept the device busy");
	assert_true(fixture_now_ns() - start < 3000 * MS);
	npu_ok(npu_context_state(other, &st));
	assert_int_equal(st.state, 0);
	/* Neither the job behind it nor the one that it waited for is affected. */
	npu_ok(npu_queue_wait(f->queue, first, NPU_FOREVER, NPU_WAIT_DRIVER));
	npu_ok(npu_queue_wait(queue, seqno[1], NPU_FOREVER, NPU_WAIT_DRIVER));
	npu_job_free(slow);
	npu_job_free(never);
	npu_job_free(next);
	npu_queue_free(queue);
	npu_context_free(other);
}

static void a_timeout_over_the_device_s_maximum_is_refused(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_sleep(f->ctx, 0), *good = fixture_sleep(f->ctx, 0);
	struct npu_job *jobs[2] = { good, job };

	npu_job_timeout(job, npu_device_info(f->dev)->max_timeout_ms + 1);
	npu_fails(npu_queue_submit(f->queue, jobs, 2, NULL, NULL), -EINVAL,
		  "submit: job 2 of 2 has a timeout of");
	assert_null(strstr(npu_error(), "signal"));
	npu_job_free(job);
	npu_job_free(good);
}

static void freeing_a_queue_cancels_its_jobs_and_the_fence_still_signals(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_sleep(f->ctx, 20000 * MS), *after = fixture_sleep(f->ctx, 0);
	struct npu_fence *fence;
	struct npu_queue *queue;
	struct npu_sync signal;

	npu_ok(npu_fence_create(f->dev, false, &fence));
	signal = (struct npu_sync){ fence, 0 };
	npu_ok(npu_queue_create(f->ctx, NULL, &queue));
	npu_ok(npu_queue_submit(queue, &job, 1,
				&(struct npu_submit_syncs){ .signal = &signal, .nr_signal = 1 },
				NULL));
	npu_queue_free(queue);
	npu_ok(npu_fence_wait(fence, 0, NPU_FOREVER));
	/* The job can be used again elsewhere, and the context is not banned. */
	npu_job_free(job);
	npu_ok(fixture_run(f, after));
	npu_job_free(after);
	npu_fence_free(fence);
}

static void closing_everything_with_jobs_in_flight_ends_them(void **state)
{
	struct npu_device *dev;
	struct npu_context *ctx;
	struct npu_queue *queue;
	struct npu_job *jobs[4];
	int64_t start = fixture_now_ns();

	npu_ok(npu_device_open(NULL, &dev));
	npu_ok(npu_context_create(dev, &ctx));
	npu_ok(npu_queue_create(ctx, NULL, &queue));
	for (int i = 0; i < 4; i++)
		jobs[i] = fixture_sleep(ctx, 20000 * MS);
	npu_ok(npu_queue_submit(queue, jobs, 4, NULL, NULL));
	npu_queue_free(queue);
	for (int i = 0; i < 4; i++)
		npu_job_free(jobs[i]);
	npu_context_free(ctx);
	npu_device_close(dev);
	assert_true(fixture_now_ns() - start < 15000 * MS);
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_device(an_unmapped_operand_faults_with_its_address_and_bans_its_context),
		with_device(a_fault_cancels_later_jobs_without_a_call),
		with_device(writing_to_a_read_only_buffer_faults),
		with_device(what_a_job_writes_cannot_be_bound_to_a_read_only_buffer),
		with_device(a_context_cannot_reach_the_memory_of_another),
		with_device(a_table_that_the_firmware_refuses_fails_its_job_alone),
		with_device(a_freed_job_can_still_be_waited_for),
		with_device(a_job_over_its_timeout_is_stopped_and_the_next_canceled),
		with_device(a_job_that_never_started_fails_alone),
		with_device(a_timeout_over_the_device_s_maximum_is_refused),
		with_device(freeing_a_queue_cancels_its_jobs_and_the_fence_still_signals),
		cmocka_unit_test(closing_everything_with_jobs_in_flight_ends_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
