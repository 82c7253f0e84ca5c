// SPDX-License-Identifier: MIT
/* Resets at any moment, while firmwares start, exit and are removed, and clients go on. */
#include "recovery.h"

struct racer {
	int minor;
	bool stop;
	uint64_t jobs, waits; /* successful ones */
};

static void *race_client(void *arg)
{
	struct racer *r = arg;
	char path[64];

	snprintf(path, sizeof(path), "/dev/accel/accel%d", r->minor);
	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		struct drm_vnpu_ctx_create ctx = { 0 };
		struct drm_vnpu_queue_create q = { .depth = 4 };
		int fd = open(path, O_RDWR | O_CLOEXEC);

		if (fd < 0)
			continue;
		if (raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_CREATE, &ctx)) {
			usleep(500);
		} else {
			q.ctx_id = ctx.ctx_id;
			if (!raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &q)) {
				struct drm_vnpu_job job = raw_job(q.queue_id);

				job.timeout_ms = 1 + rand() % 20;
				for (int i = 0; i < 6; i++)
					if (!raw_submit_jobs(fd, ctx.ctx_id, &job, 1))
						__atomic_add_fetch(&r->jobs, 1, __ATOMIC_RELAXED);
				if (job.seqno) {
					int ret = raw_wait(fd, q.queue_id, job.seqno, RAW_LONG_MS,
							   NULL);

					if (ret == -ETIMEDOUT)
						abort();
					if (!ret)
						__atomic_add_fetch(&r->waits, 1, __ATOMIC_RELAXED);
				}
			}
		}
		close(fd);
	}
	return NULL;
}

static void resets_race_with_everything(void **state)
{
	struct bench *b = bench(state);
	unsigned int seed = (unsigned int)raw_now_ns();
	struct racer r = { .minor = b->fw.minor };
	pthread_t threads[3];
	int64_t until = raw_in_ms(4000), at_last = raw_in_ms(RAW_LONG_MS);
	struct vnpu_fw_sqe sqe;
	int resets = 0, rounds = 0;

	print_message("seed %u\n", seed);
	srand(seed);
	module_set("reset_ms", 1);
	module_set("max_resets", 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, race_client, &r), 0);
	/* On a slow machine, until something has happened. */
	while (raw_now_ns() < until || (!resets && raw_now_ns() < at_last)) {
		struct raw_fw *fw = &b->fw;

		/*
		 * Some stay for a while, some are gone before the reset comes; rings are accessed
		 * only through ENTER.
		 */
		raw_fw_enter(fw, VNPU_FW_ENTER_WAIT, raw_in_ms(rand() % 12), NULL);
		if (rand() % 3 == 0)
			raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
		if (rand() % 2)
			usleep(rand() % 5000);
		if (rand() % 8 == 0)
			usleep(30000);
		/*
		 * Some keep the device for long enough to be reset: waiting jobs have 250 ms more
		 * than their timeout.
		 */
		if (++rounds % 40 == 0)
			usleep(400000);
		fw_comes_again(b);
		resets = raw_state(b->fd).nr_resets;
	}
	__atomic_store_n(&r.stop, true, __ATOMIC_RELEASE);
	raw_fw_die(&b->fw);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	print_message("%d resets, %d losses, %llu jobs, %llu waits\n", resets,
		      (int)raw_state(b->fd).epoch, (unsigned long long)r.jobs,
		      (unsigned long long)r.waits);
	assert_true(resets > 0);
	assert_true(r.jobs && r.waits);
	module_set("reset_ms", module_was.reset_ms);
	assert_int_equal(raw_fw_attach(&b->fw), 0);
	raw_fw_start(&b->fw);
	assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
	device_works(b);
	while (raw_fw_pop(&b->fw, &sqe, 0))
		;
}

static void a_device_is_deleted_while_a_reset_is_due(void **state)
{
	struct bench *b = bench(state);

	for (int i = 0; i < 60; i++) {
		module_set("reset_ms", 1 + i % 8);
		raw_submit(b->fd, b->ctx, b->q.queue_id);
		assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
		usleep(i * 300);
		if (i % 2)
			close(b->fd);
		assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
		if (i % 2 == 0)
			close(b->fd);
		raw_fw_die(&b->fw);
		raw_fw_add(&b->fw, NULL);
		b->fd = raw_client(b->fw.minor);
		b->ctx = raw_ctx(b->fd);
		b->q = raw_queue_full(b->fd, b->ctx, 4);
	}
}

/* ---- a queue and its context are destroyed at once ---- */

struct destroyer {
	int fd;
	uint32_t id;
	pthread_barrier_t *start;
};

static void *destroy_queue(void *arg)
{
	struct destroyer *d = arg;

	pthread_barrier_wait(d->start);
	raw_queue_destroy(d->fd, d->id);
	return NULL;
}

/* More jobs than one section ends, so that the queue's end takes several. */
static void fill_queue(int fd, uint32_t ctx, uint32_t queue, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		raw_submit(fd, ctx, queue);
}

/* The firmware answers nothing but CTX_CLOSE, which stands for the answers of all its jobs. */
static void a_closed_context_owes_nothing_for_a_queue_that_is_being_destroyed(void **state)
{
	struct bench *b = bench(state);
	uint32_t resets = raw_state(b->fd).nr_resets;
	struct drm_vnpu_queue_create q;
	pthread_barrier_t start;
	struct vnpu_fw_sqe sqe = { 0 };
	pthread_t thread;

	module_set("reset_ms", 300);
	pthread_barrier_init(&start, NULL, 2);
	for (int i = 0; i < 60; i++) {
		uint32_t ctx = raw_ctx(b->fd);
		struct destroyer d = { .fd = b->fd, .start = &start };

		q = raw_queue_full(b->fd, ctx, 4);
		d.id = q.queue_id;
		fill_queue(b->fd, ctx, d.id, 200);
		assert_int_equal(pthread_create(&thread, NULL, destroy_queue, &d), 0);
		pthread_barrier_wait(&start);
		usleep(i % 10 * 20);
		assert_int_equal(raw_ctx_destroy(b->fd, ctx), 0);
		do
			assert_true(raw_fw_pop(&b->fw, &sqe, RAW_LONG_MS));
		while (sqe.type != VNPU_FW_SQE_CTX_CLOSE);
		raw_fw_closed(&b->fw, sqe.ctx);
		raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
		pthread_join(thread, NULL);
		/* CANCELs of jobs that the context's end has answered. */
		while (raw_fw_pop(&b->fw, &sqe, 0))
			;
	}
	usleep(700000);
	assert_int_equal(raw_state(b->fd).nr_resets, resets);
	module_set("reset_ms", module_was.reset_ms);
	pthread_barrier_destroy(&start);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECOVERY_TEST(resets_race_with_everything),
		RECOVERY_TEST(a_device_is_deleted_while_a_reset_is_due),
		RECOVERY_TEST(a_closed_context_owes_nothing_for_a_queue_that_is_being_destroyed),
	};

	return cmocka_run_group_tests_name("recovery races", tests, NULL, NULL);
}
