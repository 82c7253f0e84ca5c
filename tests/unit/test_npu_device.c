// SPDX-License-Identifier: MIT
/*
 * Devices, contexts, buffers, queues and fences as a program uses them. Runs on sim, and with
 * NPU_TRANSPORT=drm on vnpu.ko.
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "cpus.h"
#include "npu_fixture.h"
#include "npu_private.h"

/* ---- devices ---- */

static void environment_chooses_the_transport_where_the_program_does_not(void **state)
{
	const struct npu_device_options sim = { .transport = NPU_TRANSPORT_SIM };
	char *kept = getenv("NPU_TRANSPORT") ? strdup(getenv("NPU_TRANSPORT")) : NULL;
	struct npu_device *dev;

	setenv("NPU_TRANSPORT", "pci", 1);
	npu_fails(npu_device_open(NULL, &dev), -EINVAL, "NPU_TRANSPORT='pci'");
	npu_ok(npu_device_open(&sim, &dev));
	assert_int_equal(npu_device_info(dev)->transport, NPU_TRANSPORT_SIM);
	npu_device_close(dev);
	setenv("NPU_TRANSPORT", "sim", 1);
	npu_ok(npu_device_open(NULL, &dev));
	assert_int_equal(npu_device_info(dev)->transport, NPU_TRANSPORT_SIM);
	assert_non_null(strstr(npu_device_info(dev)->reason, "NPU_TRANSPORT"));
	npu_device_close(dev);
	if (kept)
		setenv("NPU_TRANSPORT", kept, 1);
	else
		unsetenv("NPU_TRANSPORT");
	free(kept);
}

static void a_node_that_is_not_a_vnpu_is_refused_with_its_reason(void **state)
{
	struct npu_device_options opts = { .transport = NPU_TRANSPORT_DRM, .path = "/dev/null" };
	struct npu_device *dev;

	npu_fails(npu_device_open(&opts, &dev), -ENODEV, "/dev/null: not a vnpu");
	opts.path = "/dev/accel/accel_that_is_not";
	npu_fails(npu_device_open(&opts, &dev), -ENOENT, "no such node");
	/* A given path is used even with auto. */
	opts.transport = NPU_TRANSPORT_AUTO;
	unsetenv("NPU_DEVICE");
	if (!getenv("NPU_TRANSPORT"))
		npu_fails(npu_device_open(&opts, &dev), -ENOENT, "no such node");
	if (access("/sys/module/vnpu", F_OK)) {
		opts = (struct npu_device_options){ .transport = NPU_TRANSPORT_DRM };
		npu_fails(npu_device_open(&opts, &dev), -ENOENT, "modprobe vnpu");
	}
}

static void the_isa_of_the_simulated_device_can_be_chosen(void **state)
{
	struct npu_device_options opts = { .transport = NPU_TRANSPORT_SIM, .isa = "generic" };
	struct npu_device *dev;

	npu_ok(npu_device_open(&opts, &dev));
	npu_device_close(dev);
	opts.isa = "mmx";
	npu_fails(npu_device_open(&opts, &dev), -EINVAL, "isa 'mmx'");
}

static void a_given_profile_must_exist(void **state)
{
	struct npu_device_options opts = { .transport = NPU_TRANSPORT_SIM,
					   .profile = "no-such-soc" };
	char *kept = getenv("NPU_PROFILE") ? strdup(getenv("NPU_PROFILE")) : NULL;
	struct npu_device *dev;

	npu_fails(npu_device_open(&opts, &dev), -ENOENT, "profile no-such-soc: No such file");
	opts.profile = "/dev/null";
	npu_fails(npu_device_open(&opts, &dev), -EINVAL, "profile /dev/null: ");
	opts.profile = "sd8elite";
	setenv("NPU_PROFILE", "no-such-soc", 1);
	npu_ok(npu_device_open(&opts, &dev));
	npu_device_close(dev);
	/* The environment's profile is used if the program sets none. */
	opts.profile = NULL;
	npu_fails(npu_device_open(&opts, &dev), -ENOENT, "profile no-such-soc");
	setenv("NPU_PROFILE", "", 1);
	npu_ok(npu_device_open(&opts, &dev));
	npu_device_close(dev);
	if (kept)
		setenv("NPU_PROFILE", kept, 1);
	else
		unsetenv("NPU_PROFILE");
	free(kept);
}

static void a_device_reports_its_memory_and_its_busy_time(void **state)
{
	struct fixture *f = *state;
	struct npu_device_state before, after;
	struct npu_job *job = fixture_sleep(f->ctx, 5 * MS);
	struct npu_buffer *buf;

	npu_ok(npu_device_state(f->dev, &before));
	assert_false(before.lost);
	assert_true(before.epoch >= 1);
	npu_ok(npu_buffer_create(f->ctx, 100000, 0, &buf));
	npu_ok(fixture_run(f, job));
	npu_ok(npu_device_state(f->dev, &after));
	assert_true(after.mem_bytes >= before.mem_bytes + 100000);
	assert_true(after.busy_ns >= before.busy_ns + 5 * MS);
	npu_buffer_free(buf);
	npu_job_free(job);
}

/* ---- buffers ---- */

static void buffers_are_zeroed_separate_and_of_the_requested_size(void **state)
{
	struct fixture *f = *state;
	const size_t sizes[] = { 1, 4095, 4096, 4097, 3 << 20 };
	struct npu_buffer *bufs[5];

	for (int i = 0; i < 5; i++) {
		npu_ok(npu_buffer_create(f->ctx, sizes[i], 0, &bufs[i]));
		assert_int_equal(npu_buffer_size(bufs[i]), sizes[i]);
		for (size_t k = 0; k < sizes[i]; k += 97)
			assert_int_equal(((uint8_t *)npu_buffer_data(bufs[i]))[k], 0);
		memset(npu_buffer_data(bufs[i]), i + 1, sizes[i]);
		for (int k = 0; k < i; k++) {
			uint64_t a = npu_buffer_va(bufs[k]), b = npu_buffer_va(bufs[i]);

			assert_true(a + sizes[k] <= b || b + sizes[i] <= a);
			assert_int_equal(((uint8_t *)npu_buffer_data(bufs[k]))[sizes[k] - 1],
					 k + 1);
		}
	}
	for (int i = 0; i < 5; i++)
		npu_buffer_free(bufs[i]);
}

/* Large enough for huge pages, plus one page. */
static void the_device_still_reads_memory_that_the_program_has_unmapped(void **state)
{
	struct fixture *f = *state;
	const uint32_t n = ((4 << 20) + 4096) / 4;
	struct npu_graph *g = npu_graph_create("sum");
	struct npu_buffer *w = NULL, *y = fixture_floats(f->ctx, n, 0);
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 1, n);
	struct npu_job *job;

	npu_graph_output(g, "y", npu_add(g, x, x));
	job = fixture_job(f->ctx, g);
	npu_ok(npu_buffer_create(f->ctx, n * 4ull, NPU_BUFFER_DEVICE_READ_ONLY, &w));
	for (uint32_t i = 0; i < n; i++) {
		assert_true(fixture_float(w, i) == 0.0f);
		((float *)npu_buffer_data(w))[i] = (float)i;
	}
	npu_buffer_unmap(w);
	assert_null(npu_buffer_data(w));
	npu_buffer_unmap(w);
	fixture_bind(job, "x", w);
	fixture_bind(job, "y", y);
	npu_ok(fixture_run(f, job));
	for (uint32_t i = 0; i < n; i++)
		assert_true(fixture_float(y, i) == 2.0f * (float)i);
	npu_job_free(job);
	npu_buffer_free(w);
	npu_buffer_free(y);
}

static void a_buffer_that_is_too_large_is_refused_with_its_size(void **state)
{
	struct fixture *f = *state;
	struct npu_buffer *buf;

	npu_fails(npu_buffer_create(f->ctx, 0, 0, &buf), -EINVAL, "0 bytes");
	npu_fails(npu_buffer_create(f->ctx, 4096, 1u << 7, &buf), -EINVAL, "flags 0x80");
	assert_true(npu_buffer_create(f->ctx, 1ull << 50, 0, &buf) < 0);
	assert_non_null(strstr(npu_error(), "1125899906842624 bytes"));
	assert_null(buf);
}

static void addresses_of_freed_buffers_are_used_again(void **state)
{
	struct fixture *f = *state;
	struct npu_buffer *buf, *keep;
	uint64_t first = 0;

	npu_ok(npu_buffer_create(f->ctx, 4096, 0, &keep));
	for (int i = 0; i < 300; i++) {
		npu_ok(npu_buffer_create(f->ctx, 1 << 20, 0, &buf));
		if (!i)
			first = npu_buffer_va(buf);
		assert_int_equal(npu_buffer_va(buf), first);
		npu_buffer_free(buf);
	}
	npu_buffer_free(keep);
}

static void free_ranges_merge_and_the_first_fit_is_used(void **state)
{
	struct npu_va_range *list;
	uint64_t a, b, c;

	assert_int_equal(npu_va_init(&list, 0x10000, 0x100000), 0);
	a = npu_va_alloc(&list, 0x4000, 0x1000);
	b = npu_va_alloc(&list, 0x4000, 0x10000);
	c = npu_va_alloc(&list, 0x1000, 0x1000);
	assert_int_equal(a, 0x10000);
	assert_int_equal(b, 0x20000);
	assert_int_equal(c, 0x14000);
	assert_int_equal(npu_va_alloc(&list, 0x200000, 0x1000), 0);
	assert_int_equal(npu_va_free(&list, b, 0x4000), 0);
	assert_int_equal(npu_va_free(&list, a, 0x4000), 0);
	assert_int_equal(npu_va_free(&list, c, 0x1000), 0);
	assert_non_null(list);
	assert_null(list->next);
	assert_int_equal(npu_va_alloc(&list, 0x100000, 0x1000), 0x10000);
	npu_va_fini(&list);
}

static void objects_may_be_released_in_any_order(void **state)
{
	struct npu_device *dev;
	struct npu_context *ctx;
	struct npu_buffer *x, *y;
	struct npu_queue *queue;
	struct npu_fence *fence;
	struct npu_job *job;
	uint64_t seqno;

	npu_ok(npu_device_open(NULL, &dev));
	npu_ok(npu_context_create(dev, &ctx));
	npu_ok(npu_queue_create(ctx, NULL, &queue));
	npu_ok(npu_fence_create(dev, false, &fence));
	job = fixture_increment(ctx, 8, 0);
	x = fixture_floats(ctx, 8, 41);
	y = fixture_floats(ctx, 8, 0);
	fixture_bind(job, "x", x);
	fixture_bind(job, "y", y);
	npu_device_close(dev);
	npu_context_free(ctx);
	npu_buffer_free(x);
	npu_ok(npu_queue_submit(queue, &job, 1, NULL, &seqno));
	npu_ok(npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	assert_true(fixture_float(y, 7) == 42);
	npu_queue_free(queue);
	npu_buffer_free(y);
	npu_job_free(job);
	npu_fence_free(fence);
}

/* ---- binding ---- */

static void binding_refuses_what_the_graph_cannot_use(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_increment(f->ctx, 64, 0);
	struct npu_buffer *buf = fixture_floats(f->ctx, 128, 0), *foreign;
	struct npu_context *other;

	npu_fails(npu_job_bind(job, "z", buf, 0, 256), -ENOENT, "no symbol 'z'");
	npu_fails(npu_job_bind(job, "x", buf, 0, 252), -ERANGE, "needs 256 bytes");
	npu_fails(npu_job_bind(job, "x", buf, 32, 256), -EINVAL, "multiple of 64");
	npu_fails(npu_job_bind(job, "x", buf, 320, 256), -EINVAL, "outside the buffer");
	npu_fails(npu_job_bind(job, "x", buf, SIZE_MAX - 63, 256), -EINVAL, "outside the buffer");
	npu_fails(npu_job_param(job, "pos", 1), -ENOENT, "no param 'pos'");
	npu_ok(npu_context_create(f->dev, &other));
	npu_ok(npu_buffer_create(other, 256, 0, &foreign));
	npu_fails(npu_job_bind(job, "x", foreign, 0, 256), -EINVAL, "another context");
	fixture_bind(job, "x", buf);
	npu_fails(fixture_run(f, job), -EINVAL, "'y' is not bound");
	npu_buffer_free(foreign);
	npu_context_free(other);
	npu_buffer_free(buf);
	npu_job_free(job);
}

static void a_running_job_can_neither_be_bound_nor_submitted(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_increment(f->ctx, 16, 100 * MS);
	struct npu_buffer *x = fixture_floats(f->ctx, 16, 1), *y = fixture_floats(f->ctx, 16, 0);
	uint64_t seqno;

	fixture_bind(job, "x", x);
	fixture_bind(job, "y", y);
	npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &seqno));
	npu_fails(npu_job_bind(job, "x", y, 0, 64), -EBUSY, "still running");
	npu_fails(npu_queue_submit(f->queue, &job, 1, NULL, NULL), -EBUSY, "still running");
	npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	fixture_bind(job, "x", y);
	npu_ok(fixture_run(f, job));
	assert_true(fixture_float(y, 3) == 3);
	npu_buffer_free(x);
	npu_buffer_free(y);
	npu_job_free(job);
}

static void jobs_of_one_queue_share_scratch_memory_that_grows(void **state)
{
	struct fixture *f = *state;
	struct npu_job *jobs[3];
	struct npu_buffer *x[3], *y[3];
	uint64_t seqno;

	for (int i = 0; i < 3; i++) {
		uint32_t n = 1000u << (2 * i);
		struct npu_graph *g = npu_graph_create("twice");
		struct npu_tensor *t = npu_graph_input(g, "x", NPU_F32, 1, n);

		t = npu_add(g, t, t);
		npu_graph_output(g, "y", npu_add(g, t, t));
		jobs[i] = fixture_job(f->ctx, g);
		x[i] = fixture_floats(f->ctx, n, (float)i + 1);
		y[i] = fixture_floats(f->ctx, n, 0);
		fixture_bind(jobs[i], "x", x[i]);
		fixture_bind(jobs[i], "y", y[i]);
	}
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++)
			npu_ok(npu_queue_submit(f->queue, &jobs[round % 2 ? 2 - i : i], 1, NULL,
						&seqno));
		npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
		for (int i = 0; i < 3; i++)
			assert_true(fixture_float(y[i], 999) == 4 * (i + 1));
	}
	for (int i = 0; i < 3; i++) {
		npu_job_free(jobs[i]);
		npu_buffer_free(x[i]);
		npu_buffer_free(y[i]);
	}
}

/* ---- waiting ---- */

static void both_wait_modes_see_the_same_results(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_increment(f->ctx, 100, 0);
	struct npu_buffer *a = fixture_floats(f->ctx, 100, 0), *b = fixture_floats(f->ctx, 100, 0);
	struct npu_device_counts counts;
	uint64_t seqno;

	for (int i = 0; i < 400; i++) {
		struct npu_buffer *x = i & 1 ? b : a, *y = i & 1 ? a : b;

		fixture_bind(job, "x", x);
		fixture_bind(job, "y", y);
		npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &seqno));
		npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER,
				      i % 3 ? NPU_WAIT_FAST : NPU_WAIT_DRIVER));
		assert_true(fixture_float(y, 99) == (float)(i + 1));
		assert_true(npu_queue_completed(f->queue) >= seqno);
	}
	npu_device_counts(f->dev, &counts);
	assert_int_equal(counts.submits, 400);
	assert_int_equal(counts.jobs, 400);
	assert_int_equal(counts.waits + counts.polls, 400);
	npu_job_free(job);
	npu_buffer_free(a);
	npu_buffer_free(b);
}

/* Fast waits for jobs of 10 ms each that end by polling, on a sim device with @threads workers. */
static unsigned int ends_by_polling(unsigned int threads, unsigned int jobs)
{
	const struct npu_device_options opts = { .transport = NPU_TRANSPORT_SIM,
						 .threads = threads };
	struct npu_device_counts counts;
	struct npu_device *dev;
	struct npu_context *ctx;
	struct npu_queue *queue;
	struct npu_job *job;
	uint64_t seqno;

	npu_ok(npu_device_open(&opts, &dev));
	npu_ok(npu_context_create(dev, &ctx));
	npu_ok(npu_queue_create(ctx, NULL, &queue));
	job = fixture_sleep(ctx, 10 * MS);
	for (unsigned int i = 0; i < jobs; i++) {
		npu_ok(npu_queue_submit(queue, &job, 1, NULL, &seqno));
		npu_ok(npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_FAST));
	}
	npu_device_counts(dev, &counts);
	assert_int_equal(counts.waits + counts.polls, jobs);
	npu_job_free(job);
	npu_queue_free(queue);
	npu_context_free(ctx);
	npu_device_close(dev);
	return (unsigned int)counts.polls;
}

static void a_fast_wait_polls_for_a_long_job_only_beside_a_spare_cpu(void **state)
{
	/* A wait that begins shortly before the end of its job may poll. */
	assert_true(ends_by_polling(host_threads(), 10) < 5);
	if (host_threads() > 1)
		assert_true(ends_by_polling(1, 10) > 0);
}

static void a_fast_wait_for_a_long_job_does_not_poll_all_the_time(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_sleep(f->ctx, 30 * MS);
	struct timespec before, after;
	int64_t used, least = INT64_MAX;
	uint64_t seqno;

	npu_ok(fixture_run(f, job));
	npu_ok(fixture_run(f, job));
	/* The minimum of several, because a busy host or emulator adds to a thread's CPU time. */
	for (int i = 0; i < 10; i++) {
		npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &seqno));
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
		npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_FAST));
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
		used = (after.tv_sec - before.tv_sec) * 1000000000ll + after.tv_nsec -
		       before.tv_nsec;
		if (used < least)
			least = used;
	}
	assert_true(least < 15 * MS);
	npu_job_free(job);
}

static void a_wait_that_times_out_does_not_affect_the_job(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_sleep(f->ctx, 1000 * MS);
	uint64_t seqno;

	npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &seqno));
	npu_fails(npu_queue_wait(f->queue, seqno, 0, NPU_WAIT_DRIVER), -ETIMEDOUT, "not done");
	npu_fails(npu_queue_wait(f->queue, seqno, 2 * MS, NPU_WAIT_DRIVER), -ETIMEDOUT,
		  "not done within 2000 us");
	npu_fails(npu_queue_wait(f->queue, seqno, 2 * MS, NPU_WAIT_FAST), -ETIMEDOUT, "not done");
	npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	npu_fails(npu_queue_wait(f->queue, seqno + 1, 0, NPU_WAIT_DRIVER), -EINVAL,
		  "was not submitted");
	npu_fails(npu_queue_wait(f->queue, 0, 0, NPU_WAIT_FAST), -EINVAL, "was not submitted");
	npu_job_free(job);
}

static void a_batch_is_submitted_as_a_whole_or_not_at_all(void **state)
{
	struct fixture *f = *state;
	struct npu_job *jobs[6];
	struct npu_buffer *bufs[7];
	struct npu_device_counts counts;
	uint64_t seqno;

	for (int i = 0; i < 7; i++)
		bufs[i] = fixture_floats(f->ctx, 8, 0);
	for (int i = 0; i < 6; i++) {
		jobs[i] = fixture_increment(f->ctx, 8, 0);
		fixture_bind(jobs[i], "x", bufs[i]);
		if (i != 4)
			fixture_bind(jobs[i], "y", bufs[i + 1]);
	}
	npu_fails(npu_queue_submit(f->queue, jobs, 6, NULL, &seqno), -EINVAL, "'y' is not bound");
	npu_fails(npu_queue_submit(f->queue, jobs, 0, NULL, &seqno), -EINVAL, "0 jobs");
	npu_device_counts(f->dev, &counts);
	assert_int_equal(counts.jobs, 0);
	assert_int_equal(npu_queue_completed(f->queue), 0);
	fixture_bind(jobs[4], "y", bufs[5]);
	npu_ok(npu_queue_submit(f->queue, jobs, 6, NULL, &seqno));
	assert_int_equal(seqno, 6);
	npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	assert_true(fixture_float(bufs[6], 0) == 6);
	npu_device_counts(f->dev, &counts);
	assert_int_equal(counts.submits, 1);
	assert_int_equal(counts.jobs, 6);
	for (int i = 0; i < 6; i++)
		npu_job_free(jobs[i]);
	for (int i = 0; i < 7; i++)
		npu_buffer_free(bufs[i]);
}

static void more_jobs_than_the_queue_is_deep_wait_for_room(void **state)
{
	struct fixture *f = *state;
	const struct npu_queue_options opts = { .depth = 2 };
	struct npu_queue *queue;
	struct npu_job *jobs[20];
	struct npu_buffer *bufs[21];
	uint64_t seqno;

	npu_ok(npu_queue_create(f->ctx, &opts, &queue));
	for (int i = 0; i < 21; i++)
		bufs[i] = fixture_floats(f->ctx, 8, 0);
	for (int i = 0; i < 20; i++) {
		jobs[i] = fixture_increment(f->ctx, 8, MS);
		fixture_bind(jobs[i], "x", bufs[i]);
		fixture_bind(jobs[i], "y", bufs[i + 1]);
	}
	npu_ok(npu_queue_submit(queue, jobs, 20, NULL, &seqno));
	npu_ok(npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	assert_true(fixture_float(bufs[20], 0) == 20);
	for (int i = 0; i < 20; i++)
		npu_job_free(jobs[i]);
	for (int i = 0; i < 21; i++)
		npu_buffer_free(bufs[i]);
	npu_queue_free(queue);
}

static void more_jobs_than_the_driver_lets_wait_can_be_submitted(void **state)
{
	enum { JOBS = 700 };
	struct fixture *f = *state;
	const uint32_t room = 2 + npu_device_info(f->dev)->max_waiting_jobs;
	struct npu_job *slow = fixture_sleep(f->ctx, 1000 * MS), *jobs[JOBS];
	struct npu_device_counts counts;
	struct npu_queue *queue;
	uint64_t seqno;

	npu_ok(npu_queue_create(f->ctx, &(struct npu_queue_options){ .depth = 2 }, &queue));
	for (int i = 0; i < JOBS; i++)
		jobs[i] = fixture_sleep(f->ctx, 0);
	npu_ok(npu_queue_submit(queue, &slow, 1, NULL, NULL));
	for (int i = 0; i < 400; i++)
		npu_ok(npu_queue_submit(queue, &jobs[i], 1, NULL, &seqno));
	/* The driver refused the first job for which it had no room, and libnpu waited. */
	npu_device_counts(f->dev, &counts);
	assert_true(counts.waits);
	assert_true(npu_queue_completed(queue) >= seqno - room);
	for (int i = 400; i < JOBS; i += 60)
		npu_ok(npu_queue_submit(queue, &jobs[i], 60, NULL, &seqno));
	npu_ok(npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	assert_int_equal(seqno, JOBS + 1);
	for (int i = 0; i < JOBS; i++)
		npu_job_free(jobs[i]);
	npu_job_free(slow);
	npu_queue_free(queue);
}

static void a_queue_refuses_invalid_depths_and_priorities(void **state)
{
	struct fixture *f = *state;
	struct npu_queue_options opts = { .depth = 3 };
	struct npu_queue *queue;

	npu_fails(npu_queue_create(f->ctx, &opts, &queue), -EINVAL, "depth 3");
	opts.depth = npu_device_info(f->dev)->max_queue_depth * 2;
	npu_fails(npu_queue_create(f->ctx, &opts, &queue), -EINVAL, "power of two up to");
	opts = (struct npu_queue_options){ .priority = 9 };
	npu_fails(npu_queue_create(f->ctx, &opts, &queue), -EINVAL, "priority 9");
}

/* ---- fences ---- */

static void a_binary_fence_orders_two_queues(void **state)
{
	struct fixture *f = *state;
	struct npu_queue *second;
	struct npu_fence *fence;
	struct npu_job *slow = fixture_increment(f->ctx, 8, 40 * MS),
		       *fast = fixture_increment(f->ctx, 8, 0);
	struct npu_buffer *a = fixture_floats(f->ctx, 8, 1), *b = fixture_floats(f->ctx, 8, 0);
	struct npu_buffer *c = fixture_floats(f->ctx, 8, 0);
	uint64_t seqno;

	npu_ok(npu_queue_create(f->ctx, NULL, &second));
	npu_ok(npu_fence_create(f->dev, false, &fence));
	fixture_bind(slow, "x", a);
	fixture_bind(slow, "y", b);
	fixture_bind(fast, "x", b);
	fixture_bind(fast, "y", c);
	npu_ok(npu_queue_submit(f->queue, &slow, 1,
				&(struct npu_submit_syncs){
					.signal = &(struct npu_sync){ fence, 0 }, .nr_signal = 1 },
				NULL));
	npu_ok(npu_queue_submit(
		second, &fast, 1,
		&(struct npu_submit_syncs){ .wait = &(struct npu_sync){ fence, 0 }, .nr_wait = 1 },
		&seqno));
	npu_fails(npu_fence_wait(fence, 0, MS), -ETIMEDOUT, "not reached");
	npu_ok(npu_queue_wait(second, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	assert_true(fixture_float(c, 0) == 3);
	npu_ok(npu_fence_wait(fence, 0, 0));
	npu_job_free(slow);
	npu_job_free(fast);
	npu_queue_free(second);
	npu_fence_free(fence);
	npu_buffer_free(a);
	npu_buffer_free(b);
	npu_buffer_free(c);
}

static void a_timeline_fence_counts_jobs_of_several_queues(void **state)
{
	struct fixture *f = *state;
	struct npu_queue *queues[2];
	struct npu_fence *fence;
	struct npu_job *jobs[8];
	struct npu_buffer *bufs[9];
	uint64_t point;

	queues[0] = f->queue;
	npu_ok(npu_queue_create(f->ctx, NULL, &queues[1]));
	npu_ok(npu_fence_create(f->dev, false, &fence));
	for (int i = 0; i < 9; i++)
		bufs[i] = fixture_floats(f->ctx, 8, 0);
	for (int i = 0; i < 8; i++) {
		struct npu_sync wait = { fence, (uint64_t)i }, signal = { fence, (uint64_t)i + 1 };
		struct npu_submit_syncs syncs = { &wait, i ? 1 : 0, &signal, 1 };

		jobs[i] = fixture_increment(f->ctx, 8, 3 * MS);
		fixture_bind(jobs[i], "x", bufs[i]);
		fixture_bind(jobs[i], "y", bufs[i + 1]);
		npu_ok(npu_queue_submit(queues[i & 1], &jobs[i], 1, &syncs, NULL));
	}
	npu_ok(npu_fence_wait(fence, 5, NPU_FOREVER));
	assert_true(fixture_float(bufs[5], 0) == 5);
	npu_ok(npu_fence_query(fence, &point));
	assert_true(point >= 5 && point <= 8);
	npu_ok(npu_fence_wait(fence, 8, NPU_FOREVER));
	assert_true(fixture_float(bufs[8], 0) == 8);
	npu_ok(npu_fence_query(fence, &point));
	assert_int_equal(point, 8);
	for (int i = 0; i < 8; i++)
		npu_job_free(jobs[i]);
	for (int i = 0; i < 9; i++)
		npu_buffer_free(bufs[i]);
	npu_queue_free(queues[1]);
	npu_fence_free(fence);
}

static void a_fence_can_be_signaled_by_the_program(void **state)
{
	struct fixture *f = *state;
	struct npu_fence *binary, *timeline, *done;
	uint64_t point;

	npu_ok(npu_fence_create(f->dev, false, &binary));
	npu_ok(npu_fence_create(f->dev, false, &timeline));
	npu_ok(npu_fence_create(f->dev, true, &done));
	npu_ok(npu_fence_wait(done, 0, 0));
	npu_fails(npu_fence_wait(binary, 0, 0), -ETIMEDOUT, "not reached");
	npu_ok(npu_fence_signal(binary, 0));
	npu_ok(npu_fence_wait(binary, 0, 0));
	npu_ok(npu_fence_signal(timeline, 7));
	npu_ok(npu_fence_wait(timeline, 7, 0));
	npu_ok(npu_fence_wait(timeline, 3, 0));
	npu_fails(npu_fence_wait(timeline, 8, MS), -ETIMEDOUT, "point 8");
	npu_ok(npu_fence_query(timeline, &point));
	assert_int_equal(point, 7);
	npu_fence_free(binary);
	npu_fence_free(timeline);
	npu_fence_free(done);
}

static void waiting_for_a_fence_that_nothing_will_signal_is_refused(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_sleep(f->ctx, 0);
	struct npu_fence *fence;
	struct npu_sync wait;
	struct npu_submit_syncs syncs = { .wait = &wait, .nr_wait = 1 };
	uint64_t seqno;

	npu_ok(npu_fence_create(f->dev, false, &fence));
	wait = (struct npu_sync){ fence, 0 };
	npu_fails(npu_queue_submit(f->queue, &job, 1, &syncs, &seqno), -EINVAL,
		  "nothing to signal it");
	wait.point = 4;
	npu_ok(npu_fence_signal(fence, 3));
	npu_fails(npu_queue_submit(f->queue, &job, 1, &syncs, &seqno), -EINVAL,
		  "nothing to signal it");
	wait.point = 3;
	npu_ok(npu_queue_submit(f->queue, &job, 1, &syncs, &seqno));
	/* The refused jobs took no number. */
	assert_int_equal(seqno, 1);
	npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	npu_job_free(job);
	npu_fence_free(fence);
}

static void a_fence_for_a_job_with_a_longer_timeout_is_refused(void **state)
{
	struct fixture *f = *state;
	struct npu_job *job = fixture_sleep(f->ctx, 0);
	struct npu_fence *fence;
	struct npu_sync signal;
	struct npu_submit_syncs syncs = { .signal = &signal, .nr_signal = 1 };
	uint64_t seqno;

	npu_ok(npu_fence_create(f->dev, false, &fence));
	signal = (struct npu_sync){ fence, 0 };
	npu_job_timeout(job, npu_device_info(f->dev)->max_fence_ms + 1);
	npu_fails(npu_queue_submit(f->queue, &job, 1, &syncs, &seqno), -ERANGE,
		  "a timeout of 10001 ms cannot signal a fence, which lasts 10000 ms");
	npu_fails(npu_fence_wait(fence, 0, 0), -ETIMEDOUT, "not reached");
	npu_ok(npu_queue_submit(f->queue, &job, 1, NULL, &seqno));
	npu_ok(npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	npu_job_free(job);
	npu_fence_free(fence);
}

/* ---- threads ---- */

struct hammer {
	struct fixture *f;
	unsigned int seed;
	const char *failed;
};

/* Runs jobs, and creates bindings and contexts, while three other threads do the same. */
static void *hammer_main(void *arg)
{
	struct hammer *h = arg;
	struct npu_context *ctx;
	struct npu_queue *queue;
	struct npu_buffer *x, *y;
	struct npu_job *job;
	uint64_t seqno;

	for (int round = 0; round < 8; round++) {
		uint32_t n = 100 + (uint32_t)rand_r(&h->seed) % 5000;

		if (npu_context_create(h->f->dev, &ctx) || npu_queue_create(ctx, NULL, &queue)) {
			h->failed = "create";
			return NULL;
		}
		job = fixture_increment(ctx, n, 0);
		x = fixture_floats(ctx, n, 0);
		for (int i = 0; i < 25; i++) {
			y = fixture_floats(ctx, n, 0);
			fixture_bind(job, "x", x);
			fixture_bind(job, "y", y);
			if (npu_queue_submit(queue, &job, 1, NULL, &seqno) ||
			    npu_queue_wait(queue, seqno, NPU_FOREVER,
					   i & 1 ? NPU_WAIT_FAST : NPU_WAIT_DRIVER))
				h->failed = "run";
			else if (fixture_float(y, n - 1) != (float)(i + 1))
				h->failed = "result";
			npu_buffer_free(x);
			x = y;
		}
		npu_buffer_free(x);
		npu_job_free(job);
		npu_queue_free(queue);
		npu_context_free(ctx);
	}
	return NULL;
}

static void threads_use_one_device_without_disturbing_each_other(void **state)
{
	struct hammer hammers[4];
	pthread_t threads[4];

	for (unsigned int i = 0; i < 4; i++) {
		hammers[i] = (struct hammer){ .f = *state, .seed = i + 1 };
		assert_int_equal(pthread_create(&threads[i], NULL, hammer_main, &hammers[i]), 0);
	}
	for (unsigned int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (unsigned int i = 0; i < 4; i++)
		if (hammers[i].failed)
			fail_msg("thread %u: %s: %s", i, hammers[i].failed, npu_error());
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(environment_chooses_the_transport_where_the_program_does_not),
		cmocka_unit_test(a_node_that_is_not_a_vnpu_is_refused_with_its_reason),
		cmocka_unit_test(the_isa_of_the_simulated_device_can_be_chosen),
		cmocka_unit_test(a_given_profile_must_exist),
		with_device(a_device_reports_its_memory_and_its_busy_time),
		with_device(buffers_are_zeroed_separate_and_of_the_requested_size),
		with_device(the_device_still_reads_memory_that_the_program_has_unmapped),
		with_device(a_buffer_that_is_too_large_is_refused_with_its_size),
		with_device(addresses_of_freed_buffers_are_used_again),
		cmocka_unit_test(free_ranges_merge_and_the_first_fit_is_used),
		cmocka_unit_test(objects_may_be_released_in_any_order),
		with_device(binding_refuses_what_the_graph_cannot_use),
		with_device(a_running_job_can_neither_be_bound_nor_submitted),
		with_device(jobs_of_one_queue_share_scratch_memory_that_grows),
		with_device(both_wait_modes_see_the_same_results),
		cmocka_unit_test(a_fast_wait_polls_for_a_long_job_only_beside_a_spare_cpu),
		with_device(a_fast_wait_for_a_long_job_does_not_poll_all_the_time),
		with_device(a_wait_that_times_out_does_not_affect_the_job),
		with_device(a_batch_is_submitted_as_a_whole_or_not_at_all),
		with_device(more_jobs_than_the_queue_is_deep_wait_for_room),
		with_device(more_jobs_than_the_driver_lets_wait_can_be_submitted),
		with_device(a_queue_refuses_invalid_depths_and_priorities),
		with_device(a_binary_fence_orders_two_queues),
		with_device(a_timeline_fence_counts_jobs_of_several_queues),
		with_device(a_fence_can_be_signaled_by_the_program),
		with_device(waiting_for_a_fence_that_nothing_will_signal_is_refused),
		with_device(a_fence_for_a_job_with_a_longer_timeout_is_refused),
		with_device(threads_use_one_device_without_disturbing_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
