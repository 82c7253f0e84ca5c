// SPDX-License-Identifier: MIT
/*
 * vnpu.ko when things end in the middle of others: firmware that dies, devices that are deleted, clients that are killed,
 * while jobs come and go. Little is asserted but that every wait ends, that nothing is left, and that the kernel survives
 * (the VM's runner reads its log).
 */
#include <signal.h>
#include <sys/wait.h>

#include "vnpu_raw.h"

#define VA 0x100000ull
#define RUN_MS 2500

struct client_load {
	int minor;
	bool stop;
	uint64_t jobs;
	pthread_t thread;
};

static uint64_t total_jobs;

/* A client's life: a context, a queue, bound memory, jobs with fences, waits that end; again when the context is lost. */
static bool live_once(int fd, struct client_load *load)
{
	struct drm_vnpu_ctx_create ctx = { 0 };
	struct drm_vnpu_queue_create queue = { .depth = 4 };
	struct drm_vnpu_sync_op out = { .flags = DRM_VNPU_SYNC_SIGNAL };
	struct drm_syncobj_create syncobj = { 0 };
	struct drm_vnpu_bo_create bo = { .size = 16 * PAGE };
	struct drm_vnpu_bo_use use = { .flags = DRM_VNPU_BO_USE_WRITE };
	struct drm_vnpu_job jobs[3];
	int ret;

	if (raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_CREATE, &ctx))
		return false;
	queue.ctx_id = ctx.ctx_id;
	if (raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &queue) || raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &syncobj) ||
	    raw_ioctl(fd, DRM_IOCTL_VNPU_BO_CREATE, &bo))
		goto out;
	use.handle = bo.handle;
	for (int i = 0; i < 40; i++) {
		raw_bind(fd, ctx.ctx_id, bo.handle, VA, 16 * PAGE, 0);
		out.handle = syncobj.handle;
		out.timeline_value = i + 1;
		for (int k = 0; k < 3; k++)
			jobs[k] = raw_job(queue.queue_id);
		raw_job_syncs(&jobs[2], &out, 1);
		raw_job_bos(&jobs[1], &use, 1);
		jobs[0].timeout_ms = 400;
		if (raw_submit_jobs(fd, ctx.ctx_id, jobs, 3))
			break;
		load->jobs += 3;
		if (i % 3 == 0)
			raw_unbind(fd, ctx.ctx_id, VA, 16 * PAGE);
		ret = raw_wait(fd, queue.queue_id, jobs[2].seqno, RAW_LONG_MS, NULL);
		if (ret && ret != -ENODEV)
			fail_msg("a job did not end: %d", ret);
	}
out:
	if (bo.handle)
		raw_ioctl(fd, DRM_IOCTL_GEM_CLOSE, &(struct drm_gem_close){ .handle = bo.handle });
	if (syncobj.handle)
		raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_DESTROY, &(struct drm_syncobj_destroy){ .handle = syncobj.handle });
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

		for (int i = 0; i < 5 && fd >= 0; i++)
			if (!live_once(fd, load))
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
	for (int i = 0; i < n; i++)
		total_jobs += load[i].jobs;
}

/* Serve whatever comes for so long, forgetting one job in @forget. */
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
			raw_fw_post(fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_CTX_CLOSED, .tag = sqe.ctx });
		else if (sqe.type == VNPU_FW_SQE_JOB && (!forget || rand() % forget))
			raw_fw_post(fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = sqe.tag });
		if (rand() % 3 == 0)
			raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
	}
	raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
}

/* Nothing of all the clients is left: the device has all its contexts to give. */
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
	for (int i = 0; i < 3; i++)
		__atomic_store_n(&load[i].stop, true, __ATOMIC_RELEASE);
	serve_for(&b->fw, 300, 0);
	raw_fw_die(&b->fw); /* whoever waits gets an end */
	load_stop(load, 3);
	assert_int_equal(raw_fw_attach(&b->fw), 0);
	raw_fw_start(&b->fw);
	assert_nothing_left(&b->fw);
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
}

static void devices_are_deleted_under_load(void **state)
{
	struct bench *b = bench(state);
	struct client_load load[2];
	int64_t until = raw_in_ms(RUN_MS);

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
	}
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
	assert_nothing_left(&b->fw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(firmware_dies_again_and_again),
		BENCH_TEST(firmware_forgets_some_jobs),
		BENCH_TEST(devices_are_deleted_under_load),
		BENCH_TEST(clients_are_killed_at_any_time),
	};
	unsigned int seed = (unsigned int)raw_now_ns();

	int ret;

	printf("seed %u\n", seed);
	srand(seed);
	ret = cmocka_run_group_tests_name("stress", tests, NULL, NULL);

	printf("%llu jobs\n", (unsigned long long)total_jobs);
	return ret;
}
