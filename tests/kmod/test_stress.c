// SPDX-License-Identifier: MIT
/*
 * vnpu.ko when objects end while others use them: firmwares die, devices are deleted and clients
 * are killed while jobs run. The tests check that every kind of call succeeds at times, that every
 * wait ends, that nothing is left over, and that the kernel survives (the VM's runner reads its
 * log).
 */
#include <signal.h>
#include <sys/wait.h>

#include "vnpu_raw.h"

#define VA 0x100000ull
#define RUN_MS (2500 * (raw_slow() > 1 ? 4 : 1))

/* Counts of successful calls by kind: without any, a test has tested nothing. */
enum kind {
	CONTEXTS,
	QUEUES,
	BUFFERS,
	BINDINGS,
	UNBINDINGS,
	SYNCOBJS,
	JOBS,
	WAITS,
	GOOD_JOBS,
	FILES,
	NR_KINDS
};

static const char *const kinds[NR_KINDS] = { "contexts",   "queues",   "buffers", "bindings",
					     "unbindings", "syncobjs", "jobs",	  "waits",
					     "good jobs",  "files" };

/* Shared with children, so that their counts are known after their death. */
static uint64_t *counts;

/* Counts a call if it succeeded. Returns its result. */
static int count(enum kind kind, int ret)
{
	if (!ret)
		__atomic_add_fetch(&counts[kind], 1, __ATOMIC_RELAXED);
	return ret;
}

/* Checks the counts, and clears them for the next test. */
static void assert_counts(void)
{
	for (int i = 0; i < NR_KINDS; i++) {
		print_message("%llu %s%s", (unsigned long long)counts[i], kinds[i],
			      i + 1 < NR_KINDS ? ", " : "\n");
		if (!counts[i])
			fail_msg("no %s", kinds[i]);
		counts[i] = 0;
	}
}

struct client_load {
	int minor;
	bool stop;
	pthread_t thread;
};

/*
 * A client's calls: a context, a queue, bound memory, jobs with fences, waits that end; again when
 * the context is lost.
 */
static bool live_once(int fd)
{
	struct drm_vnpu_ctx_create ctx = { 0 };
	struct drm_vnpu_queue_create queue = { .depth = 4 };
	struct drm_vnpu_sync_op out = { .flags = DRM_VNPU_SYNC_SIGNAL };
	struct drm_syncobj_create syncobj = { 0 };
	struct drm_vnpu_bo_create bo = { .size = 16 * PAGE };
	struct drm_vnpu_job jobs[3];
	int ret, status;

	if (count(CONTEXTS, raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_CREATE, &ctx)))
		return false;
	queue.ctx_id = ctx.ctx_id;
	if (count(QUEUES, raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &queue)) ||
	    count(SYNCOBJS, raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &syncobj)) ||
	    count(BUFFERS, raw_ioctl(fd, DRM_IOCTL_VNPU_BO_CREATE, &bo)))
		goto out;
	for (int i = 0; i < 40; i++) {
		count(BINDINGS, raw_bind(fd, ctx.ctx_id, bo.handle, VA, 16 * PAGE, 0));
		out.handle = syncobj.handle;
		out.timeline_value = i + 1;
		for (int k = 0; k < 3; k++) {
			jobs[k] = raw_job(queue.queue_id);
			jobs[k].timeout_ms = 400;
		}
		raw_job_syncs(&jobs[2], &out, 1);
		if (count(JOBS, raw_submit_jobs(fd, ctx.ctx_id, jobs, 3)))
			break;
		if (i % 3 == 0)
			count(UNBINDINGS, raw_unbind(fd, ctx.ctx_id, VA, 16 * PAGE));
		ret = count(WAITS,
			    raw_wait(fd, queue.queue_id, jobs[2].seqno, RAW_LONG_MS, &status));
		if (ret && ret != -ENODEV) {
			/* cmocka cannot fail a test from another thread. */
			fprintf(stderr, "a job did not end: %d\n", ret);
			abort();
		}
		count(GOOD_JOBS, ret ?: status);
	}
out:
	if (bo.handle)
		raw_ioctl(fd, DRM_IOCTL_GEM_CLOSE, &(struct drm_gem_close){ .handle = bo.handle });
	if (syncobj.handle)
		raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_DESTROY,
			  &(struct drm_syncobj_destroy){ .handle = syncobj.handle });
	raw_ctx_destroy(fd, ctx.ctx_id);
	return true;
}

static void *client_run(void *arg)
{
	struct client_load *load = arg;
	char path[64];

	snprintf(path, sizeof(path), "/dev/accel/accel%d", load->minor);
	while (!__atomic_load_n(&load->stop, __ATOMIC_ACQUIRE)) {
		int fd = open(path, O_RDWR | O_CLOEXEC);

		count(FILES, fd < 0);
		for (int i = 0; i < 5 && fd >= 0; i++)
			if (!live_once(fd))
				usleep(1000);
		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

static void load_start(struct client_load *load, int n, int minor)
{
	for (int i = 0; i < n; i++) {
		load[i] = (struct client_load){ .minor = minor };
		assert_int_equal(pthread_create(&load[i].thread, NULL, client_run, &load[i]), 0);
	}
}

static void load_stop(struct client_load *load, int n)
{
	for (int i = 0; i < n; i++)
		__atomic_store_n(&load[i].stop, true, __ATOMIC_RELEASE);
	for (int i = 0; i < n; i++)
		pthread_join(load[i].thread, NULL);
}

/* Serves all jobs for @ms, but forgets one in @forget. */
static void serve_for(struct raw_fw *fw, int64_t ms, int forget)
{
	int64_t until = raw_in_ms(ms);
	struct vnpu_fw_sqe sqe;

	while (raw_now_ns() < until) {
		if (!raw_fw_pop(fw, &sqe, 2)) {
			raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
			continue;
		}
		if (sqe.type == VNPU_FW_SQE_CTX_CLOSE)
			raw_fw_closed(fw, sqe.ctx);
		else if (sqe.type == VNPU_FW_SQE_CANCEL)
			raw_fw_post(fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE,
							      .status = VNPU_FW_CANCELED,
							      .tag = sqe.tag });
		else if (sqe.type == VNPU_FW_SQE_JOB && (!forget || rand() % forget))
			raw_fw_post(fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE,
							      .tag = sqe.tag });
		if (rand() % 3 == 0)
			raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
	}
	raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
}

/* Checks that nothing of the clients is left: all contexts of the device are free. */
static void assert_nothing_left(struct raw_fw *fw)
{
	struct drm_vnpu_ctx_create create = { 0 };
	int64_t until = raw_in_ms(RAW_LONG_MS);
	int fd = raw_client(fw->minor), n;

	do {
		assert_true(raw_now_ns() < until);
		serve_for(fw, 20, 0);
		for (n = 0; n < 8 && !raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_CREATE, &create); n++)
			;
		if (n < 8) {
			close(fd);
			fd = raw_client(fw->minor);
		}
	} while (n < 8);
	close(fd);
}

static void firmware_dies_again_and_again(void **state)
{
	struct bench *b = bench(state);
	struct client_load load[3];
	int64_t until = raw_in_ms(RUN_MS);
	int deaths = 0;

	close(b->fd);
	b->fd = -1;
	load_start(load, 3, b->fw.minor);
	while (raw_now_ns() < until) {
		serve_for(&b->fw, rand() % 20, 0);
		raw_fw_die(&b->fw);
		if (rand() & 1)
			usleep(rand() % 5000);
		assert_int_equal(raw_fw_attach(&b->fw), 0);
		if (rand() % 4 == 0) { /* not even started */
			raw_fw_die(&b->fw);
			assert_int_equal(raw_fw_attach(&b->fw), 0);
		}
		raw_fw_start(&b->fw);
		deaths++;
	}
	print_message("%d deaths\n", deaths);
	assert_true(deaths > 0);
	for (int i = 0; i < 3; i++)
		__atomic_store_n(&load[i].stop, true, __ATOMIC_RELEASE);
	serve_for(&b->fw, 300, 0);
	raw_fw_die(&b->fw); /* every waiter gets a result */
	load_stop(load, 3);
	assert_int_equal(raw_fw_attach(&b->fw), 0);
	raw_fw_start(&b->fw);
	assert_nothing_left(&b->fw);
	assert_counts();
}

static void firmware_forgets_some_jobs(void **state)
{
	struct bench *b = bench(state);
	struct client_load load[2];

	close(b->fd);
	b->fd = -1;
	load_start(load, 2, b->fw.minor);
	serve_for(&b->fw, RUN_MS, 20);
	for (int i = 0; i < 2; i++)
		__atomic_store_n(&load[i].stop, true, __ATOMIC_RELEASE);
	serve_for(&b->fw, 1500, 0);
	raw_fw_die(&b->fw);
	load_stop(load, 2);
	assert_int_equal(raw_fw_attach(&b->fw), 0);
	raw_fw_start(&b->fw);
	assert_nothing_left(&b->fw);
	assert_counts();
}

static void devices_are_deleted_under_load(void **state)
{
	struct bench *b = bench(state);
	struct client_load load[2];
	int64_t until = raw_in_ms(RUN_MS);
	int deleted = 0;

	close(b->fd);
	b->fd = -1;
	while (raw_now_ns() < until) {
		load_start(load, 2, b->fw.minor);
		serve_for(&b->fw, rand() % 50, 0);
		if (rand() & 1) {
			assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
			raw_fw_die(&b->fw);
		} else {
			raw_fw_die(&b->fw);
			usleep(rand() % 2000);
			assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
		}
		load_stop(load, 2);
		raw_fw_add(&b->fw, NULL);
		deleted++;
	}
	print_message("%d devices deleted\n", deleted);
	assert_true(deleted > 0);
	assert_counts();
}

static void clients_are_killed_at_any_time(void **state)
{
	struct bench *b = bench(state);
	int64_t until = raw_in_ms(RUN_MS);
	int kills = 0;

	close(b->fd);
	b->fd = -1;
	while (raw_now_ns() < until) {
		pid_t pid[2];

		for (int i = 0; i < 2; i++) {
			fflush(stdout);
			pid[i] = fork();
			if (!pid[i]) {
				struct client_load load = { .minor = b->fw.minor };

				client_run(&load);
				_exit(0);
			}
		}
		serve_for(&b->fw, 5 + rand() % 40, 0);
		for (int i = 0; i < 2; i++) {
			kill(pid[i], SIGKILL);
			serve_for(&b->fw, rand() % 3, 0);
			kills++;
		}
		for (int i = 0; i < 2; i++)
			assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
	}
	print_message("%d kills\n", kills);
	assert_true(kills > 0);
	assert_nothing_left(&b->fw);
	assert_counts();
}

/* ---- four threads that share a few objects ---- */

struct sharer {
	int fd, minor;
	unsigned int seed;
	bool *stop;
	pthread_t thread;
};

/* Ids are the lowest free ones, so every object has one of these. */
static uint32_t some(struct sharer *s)
{
	return 1 + rand_r(&s->seed) % 2;
}

static void share_job(struct sharer *s)
{
	struct drm_vnpu_sync_op syncs[] = {
		{ .handle = some(s), .timeline_value = rand_r(&s->seed) % 4 },
		{ DRM_VNPU_SYNC_SIGNAL, some(s), rand_r(&s->seed) % 100 }
	};
	struct drm_vnpu_job jobs[4];
	uint32_t ctx = some(s);
	int status = -1, ret;

	for (int i = 0; i < 4; i++) {
		jobs[i] = raw_job(some(s));
		jobs[i].timeout_ms = 1000;
		if (i % 2)
			raw_job_syncs(&jobs[i], &syncs[rand_r(&s->seed) % 2], 1);
	}
	/* They often wait for a syncobj without a fence, and are then refused together. */
	if (count(JOBS, raw_submit_jobs(s->fd, ctx, jobs, 1 + rand_r(&s->seed) % 4)))
		return;
	ret = count(WAITS, raw_wait(s->fd, jobs[0].queue_id, jobs[0].seqno, rand_r(&s->seed) % 5,
				    &status));
	count(GOOD_JOBS, ret ?: status);
}

static void share_syncobj(struct sharer *s)
{
	uint32_t handle = some(s);
	struct drm_syncobj_create create = { 0 };
	struct drm_syncobj_destroy destroy = { .handle = handle };
	struct drm_syncobj_array array = { (uintptr_t)&handle, 1, 0 };

	switch (rand_r(&s->seed) % 8) {
	case 0:
		raw_ioctl(s->fd, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy);
		break;
	case 1:
		raw_ioctl(s->fd, DRM_IOCTL_SYNCOBJ_RESET, &array);
		break;
	case 2:
		raw_ioctl(s->fd, DRM_IOCTL_SYNCOBJ_SIGNAL, &array);
		break;
	case 3:
	case 4:
		raw_syncobj_wait(s->fd, handle, rand_r(&s->seed) % 4, 1);
		break;
	default:
		count(SYNCOBJS, raw_ioctl(s->fd, DRM_IOCTL_SYNCOBJ_CREATE, &create));
		if (create.handle > 2) { /* one of a few objects, or none */
			destroy.handle = create.handle;
			raw_ioctl(s->fd, DRM_IOCTL_SYNCOBJ_DESTROY, &destroy);
		}
	}
}

static void share_buffer(struct sharer *s)
{
	struct drm_vnpu_bo_create create = { .size = 4 * PAGE };
	struct drm_gem_close gem = { .handle = some(s) };
	uint64_t va = VA + some(s) * 4 * PAGE;

	switch (rand_r(&s->seed) % 6) {
	case 0:
		raw_ioctl(s->fd, DRM_IOCTL_GEM_CLOSE, &gem);
		break;
	case 1:
	case 2:
		count(UNBINDINGS, raw_unbind(s->fd, some(s), va, 4 * PAGE));
		break;
	case 3:
		count(BUFFERS, raw_ioctl(s->fd, DRM_IOCTL_VNPU_BO_CREATE, &create));
		gem.handle = create.handle;
		if (create.handle > 2)
			raw_ioctl(s->fd, DRM_IOCTL_GEM_CLOSE, &gem);
		break;
	default:
		count(BINDINGS, raw_bind(s->fd, some(s), some(s), va, 4 * PAGE, 0));
	}
}

static void share_queue(struct sharer *s)
{
	struct drm_vnpu_queue_create queue = { .ctx_id = some(s),
					       .depth = 1u << rand_r(&s->seed) % 4 };
	struct drm_vnpu_ctx_create ctx = { 0 };

	switch (rand_r(&s->seed) % 16) {
	case 0:
		raw_ctx_destroy(s->fd, some(s));
		break;
	case 1:
	case 2:
		raw_queue_destroy(s->fd, some(s));
		break;
	case 3:
	case 4:
	case 5:
		count(CONTEXTS, raw_ioctl(s->fd, DRM_IOCTL_VNPU_CTX_CREATE, &ctx));
		if (ctx.ctx_id > 2)
			raw_ctx_destroy(s->fd, ctx.ctx_id);
		break;
	default:
		count(QUEUES, raw_ioctl(s->fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &queue));
		if (queue.queue_id > 2)
			raw_queue_destroy(s->fd, queue.queue_id);
	}
}

/* Replaces the file with all its objects while others are in its calls. */
static void share_file(struct sharer *s)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/accel/accel%d", s->minor);
	fd = open(path, O_RDWR | O_CLOEXEC);
	count(FILES, fd < 0);
	if (fd < 0)
		return;
	dup2(fd, s->fd);
	close(fd);
}

static void *share_run(void *arg)
{
	void (*const calls[])(struct sharer *) = { share_job, share_job, share_syncobj,
						   share_buffer, share_queue };
	struct sharer *s = arg;

	while (!__atomic_load_n(s->stop, __ATOMIC_ACQUIRE))
		if (rand_r(&s->seed) % 3000 == 0)
			share_file(s);
		else
			calls[rand_r(&s->seed) % (sizeof(calls) / sizeof(*calls))](s);
	return NULL;
}

static void four_threads_use_the_same_buffers_queues_and_syncobjs(void **state)
{
	struct bench *b = bench(state);
	int64_t until = raw_in_ms(2 * RUN_MS);
	struct sharer s[4];
	bool stop = false;

	count(FILES, 0); /* the bench's file; a slow machine may have no time for another */
	for (int i = 0; i < 4; i++) {
		s[i] = (struct sharer){
			.fd = b->fd, .minor = b->fw.minor, .seed = rand(), .stop = &stop
		};
		assert_int_equal(pthread_create(&s[i].thread, NULL, share_run, &s[i]), 0);
	}
	/* Some jobs are forgotten, and a firmware dies now and then. */
	while (raw_now_ns() < until) {
		serve_for(&b->fw, 300, 50);
		if (rand() % 3)
			continue;
		raw_fw_die(&b->fw);
		assert_int_equal(raw_fw_attach(&b->fw), 0);
		raw_fw_start(&b->fw);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 4; i++)
		pthread_join(s[i].thread, NULL);
	close(b->fd);
	b->fd = -1;
	assert_nothing_left(&b->fw);
	assert_counts();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(firmware_dies_again_and_again),
		BENCH_TEST(firmware_forgets_some_jobs),
		BENCH_TEST(devices_are_deleted_under_load),
		BENCH_TEST(clients_are_killed_at_any_time),
		BENCH_TEST(four_threads_use_the_same_buffers_queues_and_syncobjs),
	};
	unsigned int seed = (unsigned int)raw_now_ns();

	printf("seed %u\n", seed);
	srand(seed);
	counts = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests_name("stress", tests, NULL, NULL);
}
