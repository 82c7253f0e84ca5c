// SPDX-License-Identifier: MIT
/*
 * Queues, SUBMIT and WAIT of vnpu.ko, without libnpu: their effects, and their refusal of bad
 * values in each field.
 */
#include "vnpu_raw.h"

/* Tables of bad arguments: a good one with one field changed. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define VA 0x100000ull

/* ---- queues ---- */

static void queue_create_and_destroy(void **state)
{
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd);
	struct drm_vnpu_queue_create q = raw_queue_full(fd, ctx, 16);

	assert_int_equal(q.status_offset % PAGE, 0);
	assert_int_equal(raw_queue_destroy(fd, q.queue_id), 0);
	assert_int_equal(raw_queue_destroy(fd, q.queue_id), -ENOENT);
	q = raw_queue_full(fd, ctx, 1);
	assert_int_equal(raw_ctx_destroy(fd, ctx), 0);
	assert_int_equal(raw_queue_destroy(fd, q.queue_id), -ENOENT);
}

static void queue_create_refuses_every_bad_field(void **state)
{
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd);
	const struct {
		struct drm_vnpu_queue_create q;
		int error;
	} bad[] = {
		{ { .ctx_id = 0, .depth = 1 }, ENOENT },
		{ { .ctx_id = ctx + 1, .depth = 1 }, ENOENT },
		{ { .ctx_id = ctx, .depth = 0 }, EINVAL },
		{ { .ctx_id = ctx, .depth = 3 }, EINVAL },
		{ { .ctx_id = ctx, .depth = 32 }, EINVAL },
		{ { .ctx_id = ctx, .depth = 1u << 31 }, EINVAL },
		{ { .ctx_id = ctx, .depth = 1, .priority = 3 }, EINVAL },
		{ { .ctx_id = ctx, .depth = 1, .priority = UINT32_MAX }, EINVAL },
		{ { .ctx_id = ctx, .depth = 1, .flags = 1 }, EINVAL },
		{ { .ctx_id = ctx, .depth = 1, .pad = 1 }, EINVAL },
	};
	struct drm_vnpu_queue_destroy destroy = { .queue_id = raw_queue(fd, ctx), .pad = 1 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct drm_vnpu_queue_create q = bad[i].q;

		print_message("case %zu\n", i);
		refuse(fd, QUEUE_CREATE, &q, bad[i].error);
	}
	refuse(fd, QUEUE_DESTROY, &destroy, EINVAL);
	assert_int_equal(raw_queue_destroy(fd, 0), -ENOENT);
	assert_int_equal(raw_queue_destroy(fd, 4711), -ENOENT);
}

static void queues_run_out_per_file_and_per_device(void **state)
{
	int fd = client(state), other = raw_client(server.fw.minor), n = 0, ret;
	struct drm_vnpu_queue_create q = { .ctx_id = raw_ctx(fd), .depth = 1 };

	while (!(ret = raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &q)))
		n++;
	assert_int_equal(ret, -EMFILE);
	assert_int_equal(n, 256);
	q.ctx_id = raw_ctx(other);
	while (!(ret = raw_ioctl(other, DRM_IOCTL_VNPU_QUEUE_CREATE, &q)))
		n++;
	assert_int_equal(ret, -EBUSY);
	assert_int_equal(n, 300);
	close(other);
}

static void the_status_page_is_read_only_and_ones_own(void **state)
{
	int fd = client(state), other = raw_client(server.fw.minor);
	struct drm_vnpu_queue_create q = raw_queue_full(fd, raw_ctx(fd), 1);
	const struct drm_vnpu_queue_status *page = raw_queue_status(fd, &q);

	assert_int_equal(page->epoch, 1);
	assert_ptr_equal(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, q.status_offset),
			 MAP_FAILED);
	assert_ptr_equal(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, q.status_offset), MAP_FAILED);
	assert_ptr_equal(mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, q.status_offset),
			 MAP_FAILED);
	assert_ptr_equal(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, q.status_offset + 64 * PAGE),
			 MAP_FAILED);
	assert_ptr_equal(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_ptr_equal(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, other, q.status_offset),
			 MAP_FAILED);
	assert_int_equal(mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(errno, EACCES);
	munmap((void *)page, PAGE);
	close(other);
}

/* ---- SUBMIT and WAIT ---- */

static void jobs_are_numbered_and_waited_for(void **state)
{
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd), q = raw_queue(fd, ctx), q2 = raw_queue(fd, ctx);
	struct drm_vnpu_job jobs[] = { raw_job(q), raw_job(q2), raw_job(q) };

	assert_int_equal(raw_submit_jobs(fd, ctx, jobs, 3), 0);
	assert_int_equal(jobs[0].seqno, 1);
	assert_int_equal(jobs[1].seqno, 1);
	assert_int_equal(jobs[2].seqno, 2);
	assert_int_equal(raw_result(fd, q, 2), 0);
	assert_int_equal(raw_result(fd, q, 1), 0);
	assert_int_equal(raw_result(fd, q2, 1), 0);
	for (int i = 0; i < 200; i++)
		raw_submit(fd, ctx, q);
	assert_int_equal(raw_result(fd, q, 202), 0);
}

static void wait_refuses_jobs_that_were_not_submitted(void **state)
{
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd), q = raw_queue(fd, ctx);
	struct drm_vnpu_wait wait = { .queue_id = q, .seqno = 1, .timeout_ns = INT64_MAX };

	refuse(fd, WAIT, &wait, EINVAL);
	raw_submit(fd, ctx, q);
	wait.seqno = 0;
	refuse(fd, WAIT, &wait, EINVAL);
	wait.seqno = 2;
	refuse(fd, WAIT, &wait, EINVAL);
	wait.seqno = UINT64_MAX;
	refuse(fd, WAIT, &wait, EINVAL);
	wait.seqno = 1;
	wait.flags = 1;
	refuse(fd, WAIT, &wait, EINVAL);
	wait.flags = 0;
	wait.queue_id = q + 1;
	refuse(fd, WAIT, &wait, ENOENT);
	wait.queue_id = q;
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_WAIT, &wait), 0);
}

static void submit_refuses_every_bad_field_and_takes_no_number(void **state)
{
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd), q = raw_queue(fd, ctx), stranger = raw_queue(fd, raw_ctx(fd));
	struct drm_vnpu_sync_op sync = { .handle = 4242 };
	const struct {
		struct drm_vnpu_job job;
		int error;
	} bad[] = {
#define JOB(error, ...)      \
	{ { .queue_id = q,   \
	    .cmd_va = VA,    \
	    .table_va = VA,  \
	    .cmd_size = 8,   \
	    .table_size = 8, \
	    __VA_ARGS__ },   \
	  error }
		JOB(ENOENT, .queue_id = 0),
		JOB(ENOENT, .queue_id = 4242),
		JOB(EINVAL, .queue_id = stranger),
		JOB(EINVAL, .flags = 1),
		JOB(EINVAL, .pad = 1),
		JOB(EINVAL, .cmd_va = VA + 4),
		JOB(EINVAL, .cmd_va = 1ull << 32),
		JOB(EINVAL, .cmd_va = ~7ull),
		JOB(EINVAL, .table_va = VA + 1),
		JOB(EINVAL, .table_va = (1ull << 32) - 8, .table_size = 16),
		JOB(EINVAL, .cmd_size = 0),
		JOB(EINVAL, .cmd_size = 4),
		JOB(EINVAL, .cmd_size = UINT32_MAX & ~7u),
		JOB(EINVAL, .table_size = 0),
		JOB(EINVAL, .table_size = 12),
		JOB(EINVAL, .table_size = 1u << 31),
		JOB(EINVAL, .timeout_ms = UINT32_MAX),
		JOB(ENOENT, .syncs = { sizeof(sync), 1, (uintptr_t)&sync }),
		JOB(EFAULT, .syncs = { sizeof(sync), 1, 0 }),
		JOB(EINVAL, .syncs = { sizeof(sync), 0, (uintptr_t)&sync }),
		JOB(EINVAL, .syncs = { 8, 1, (uintptr_t)&sync }),
		JOB(EINVAL, .syncs = { sizeof(sync), 100000, (uintptr_t)&sync }),
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct drm_vnpu_job jobs[] = { raw_job(q), bad[i].job };

		print_message("case %zu\n", i);
		assert_int_equal(raw_submit_jobs(fd, ctx, jobs, 2), -bad[i].error);
	}
	assert_int_equal(raw_submit(fd, ctx, q), 1);
}

static void submit_checks_the_arrays_and_the_context(void **state)
{
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd), other = raw_ctx(fd), q = raw_queue(fd, ctx);
	struct {
		struct drm_vnpu_job job;
		uint64_t more;
	} wide[2] = { { raw_job(q), 0 }, { raw_job(q), 1 } };
	struct drm_vnpu_submit submit = { .ctx_id = ctx };
	struct drm_vnpu_job many[65];
	void *ro;

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_SUBMIT, &submit), 0);
	submit.flags = 1;
	refuse(fd, SUBMIT, &submit, EINVAL);
	submit.flags = 0;
	submit.ctx_id = 0;
	refuse(fd, SUBMIT, &submit, ENOENT);
	submit.ctx_id = ctx;
	submit.jobs = (struct drm_vnpu_obj_array){ sizeof(wide[0].job) - 8, 1, (uintptr_t)wide };
	refuse(fd, SUBMIT, &submit, EINVAL);
	submit.jobs = (struct drm_vnpu_obj_array){ sizeof(wide[0]), 2, (uintptr_t)wide };
	refuse(fd, SUBMIT, &submit, E2BIG);
	for (int i = 0; i < 65; i++)
		many[i] = raw_job(q);
	assert_int_equal(raw_submit_jobs(fd, ctx, many, 65), -EINVAL);
	/* The queue is of another context, or the context does not exist. */
	assert_int_equal(raw_submit_jobs(fd, other, many, 1), -EINVAL);
	many[1].queue_id = raw_queue(fd, other);
	assert_int_equal(raw_submit_jobs(fd, ctx, many, 2), -EINVAL);
	assert_int_equal(raw_submit_jobs(fd, other, many, 2), -EINVAL);
	many[1].queue_id = q;
	assert_int_equal(raw_ctx_destroy(fd, other), 0);
	assert_int_equal(raw_submit_jobs(fd, other, many, 1), -ENOENT);
	wide[1].more = 0;
	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_SUBMIT, &submit), 0);
	assert_int_equal(wide[0].job.seqno, 1);
	assert_int_equal(wide[1].job.seqno, 2);
	assert_int_equal(raw_submit_jobs(fd, ctx, many, 64), 0);
	assert_int_equal(many[63].seqno, 66);

	/* The numbers cannot be written back: nothing is submitted. */
	ro = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(ro, many, sizeof(many[0]));
	mprotect(ro, PAGE, PROT_READ);
	assert_int_equal(raw_submit_jobs(fd, ctx, ro, 1), -EFAULT);
	munmap(ro, PAGE);
	assert_int_equal(raw_submit(fd, ctx, q), 67);
	assert_int_equal(raw_result(fd, q, 67), 0);
}

static void waiting_for_an_empty_syncobj_is_refused(void **state)
{
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd), q = raw_queue(fd, ctx);
	struct drm_vnpu_sync_op sync = { .handle = raw_syncobj(fd) };
	struct drm_vnpu_job job = raw_job(q);

	raw_job_syncs(&job, &sync, 1);
	assert_int_equal(raw_submit_jobs(fd, ctx, &job, 1), -EINVAL);
	sync.timeline_value = 5;
	assert_int_equal(raw_submit_jobs(fd, ctx, &job, 1), -EINVAL);
	sync.flags = 2;
	assert_int_equal(raw_submit_jobs(fd, ctx, &job, 1), -EINVAL);
	/* A point that has been passed is not waited for. */
	raw_syncobj_signal(fd, sync.handle, 7);
	sync.flags = 0;
	assert_int_equal(raw_submit_jobs(fd, ctx, &job, 1), 0);
	assert_int_equal(raw_result(fd, q, job.seqno), 0);
}

static void destroyed_queues_and_contexts_take_no_jobs(void **state)
{
	int fd = client(state);
	uint32_t ctx = raw_ctx(fd), q = raw_queue(fd, ctx), q2 = raw_queue(fd, ctx);
	struct drm_vnpu_job job = raw_job(q);

	assert_int_equal(raw_queue_destroy(fd, q), 0);
	assert_int_equal(raw_submit_jobs(fd, ctx, &job, 1), -ENOENT);
	assert_int_equal(raw_wait(fd, q, 1, 0, NULL), -ENOENT);
	assert_int_equal(raw_ctx_destroy(fd, ctx), 0);
	job = raw_job(q2);
	assert_int_equal(raw_submit_jobs(fd, ctx, &job, 1), -ENOENT);
}

/* ---- races: all threads get something done, and the kernel reports nothing ---- */

struct race {
	int fd;
	uint32_t ctx;
	bool stop;
	uint64_t queues, jobs, waits, contexts;
};

static void count(uint64_t *what, int ret)
{
	if (!ret)
		__atomic_add_fetch(what, 1, __ATOMIC_RELAXED);
}

static void *race_submit(void *arg)
{
	struct race *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		struct drm_vnpu_queue_create q = { .ctx_id = r->ctx, .depth = 4 };
		struct drm_vnpu_job job;

		if (raw_ioctl(r->fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &q))
			continue;
		count(&r->queues, 0);
		job = raw_job(q.queue_id);
		for (int i = 0; i < 8; i++)
			count(&r->jobs, raw_submit_jobs(r->fd, r->ctx, &job, 1));
		count(&r->waits,
		      raw_wait(r->fd, q.queue_id, job.seqno ?: 1, 10 * raw_slow(), NULL));
		raw_queue_destroy(r->fd, q.queue_id);
	}
	return NULL;
}

static void *race_ctx(void *arg)
{
	struct race *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		struct drm_vnpu_ctx_create create = { 0 };

		raw_ctx_destroy(r->fd, r->ctx);
		raw_ioctl(r->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create);
		count(&r->contexts, !create.ctx_id);
		if (create.ctx_id)
			__atomic_store_n(&r->ctx, create.ctx_id, __ATOMIC_RELEASE);
		usleep(500);
	}
	return NULL;
}

static void contexts_may_be_destroyed_while_others_submit(void **state)
{
	struct race r = { .fd = client(state) };
	pthread_t threads[3];

	r.ctx = raw_ctx(r.fd);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, race_submit, &r), 0);
	assert_int_equal(pthread_create(&threads[2], NULL, race_ctx, &r), 0);
	usleep(1500000 * (raw_slow() > 1 ? 4 : 1));
	__atomic_store_n(&r.stop, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	print_message("%llu contexts, %llu queues, %llu jobs, %llu waits\n",
		      (unsigned long long)r.contexts, (unsigned long long)r.queues,
		      (unsigned long long)r.jobs, (unsigned long long)r.waits);
	assert_true(r.contexts && r.queues && r.jobs && r.waits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVER_TEST(queue_create_and_destroy),
		SERVER_TEST(queue_create_refuses_every_bad_field),
		SERVER_TEST(queues_run_out_per_file_and_per_device),
		SERVER_TEST(the_status_page_is_read_only_and_ones_own),
		SERVER_TEST(jobs_are_numbered_and_waited_for),
		SERVER_TEST(wait_refuses_jobs_that_were_not_submitted),
		SERVER_TEST(submit_refuses_every_bad_field_and_takes_no_number),
		SERVER_TEST(submit_checks_the_arrays_and_the_context),
		SERVER_TEST(waiting_for_an_empty_syncobj_is_refused),
		SERVER_TEST(destroyed_queues_and_contexts_take_no_jobs),
		SERVER_TEST(contexts_may_be_destroyed_while_others_submit),
	};

	return cmocka_run_group_tests_name("submit", tests, server_start, server_stop);
}
