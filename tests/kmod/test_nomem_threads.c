// SPDX-License-Identifier: MIT
/*
 * Allocations of vnpu.ko that fail at random in any thread, including the kernel's own, while a
 * client makes all kinds of calls. kmemleak and lockdep report leaks, and sleeping with locks held.
 */
#include "nomem.h"

/* Only allocations from the module's code fail. */
static void fail_in_the_module(void)
{
	unsigned long start = 0, size = 0;
	char line[128];
	FILE *f = fopen("/sys/module/vnpu/sections/.text", "re");

	assert_true(f && fgets(line, sizeof(line), f));
	start = strtoul(line, NULL, 16);
	fclose(f);
	f = fopen("/proc/modules", "re");
	while (!size && f && fgets(line, sizeof(line), f))
		sscanf(line, "vnpu %lu", &size);
	assert_true(start && size);
	fclose(f);
	snprintf(line, sizeof(line), "%#lx", start);
	fail_set("failslab/require-start", line);
	snprintf(line, sizeof(line), "%#lx", start + size);
	fail_set("failslab/require-end", line);
}

struct churn {
	struct bench *b;
	bool stop;
	uint64_t rounds, failed, jobs;
	int other; /* an unexpected error */
};

/* A client's calls, each of which may fail for lack of memory only. */
static void *churn_run(void *arg)
{
	struct churn *c = arg;
	char path[64];

	snprintf(path, sizeof(path), "/dev/accel/accel%d", c->b->fw.minor);
	for (; !__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE); c->rounds++) {
		struct drm_vnpu_ctx_create ctx = { 0 };
		struct drm_vnpu_queue_create queue = { .depth = 2 };
		struct drm_vnpu_queue_create waiting = { .depth = 2 };
		struct drm_vnpu_bo_create create = { .size = SIZE };
		struct drm_syncobj_create syncobj = { 0 };
		int fd = open(path, O_RDWR | O_CLOEXEC), ret = 0;

		if (fd < 0) {
			c->failed++;
			continue;
		}
		ret = raw_ioctl(fd, DRM_IOCTL_VNPU_CTX_CREATE, &ctx);
		queue.ctx_id = waiting.ctx_id = ctx.ctx_id;
		if (!ret)
			ret = raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &queue);
		if (!ret)
			ret = raw_ioctl(fd, DRM_IOCTL_VNPU_QUEUE_CREATE, &waiting);
		if (!ret)
			ret = raw_ioctl(fd, DRM_IOCTL_SYNCOBJ_CREATE, &syncobj);
		if (!ret)
			ret = raw_ioctl(fd, DRM_IOCTL_VNPU_BO_CREATE, &create);
		if (!ret)
			ret = raw_bind(fd, ctx.ctx_id, create.handle, VA, SIZE, 0);
		for (int i = 0; i < 6 && !ret; i++) {
			struct drm_vnpu_sync_op out = { DRM_VNPU_SYNC_SIGNAL, syncobj.handle,
							i + 1 };
			struct drm_vnpu_sync_op in = { 0, syncobj.handle, i + 1 };
			struct drm_vnpu_job jobs[] = { raw_job(queue.queue_id),
						       raw_job(waiting.queue_id) };

			raw_job_syncs(&jobs[0], &out, 1);
			raw_job_syncs(&jobs[1], &in, 1);
			ret = raw_submit_jobs(fd, ctx.ctx_id, jobs, 2);
			if (!ret && i == 5)
				ret = raw_wait(fd, waiting.queue_id, jobs[1].seqno, RAW_LONG_MS,
					       NULL);
			c->jobs += ret ? 0 : 2;
		}
		if (ret && ret != -ENOMEM && ret != -EBUSY)
			c->other = ret;
		c->failed += !!ret;
		close(fd);
	}
	return NULL;
}

static void serve_one(struct raw_fw *fw)
{
	struct vnpu_fw_sqe sqe;

	if (!raw_fw_pop(fw, &sqe, 5))
		return;
	if (sqe.type == VNPU_FW_SQE_JOB)
		raw_fw_done(fw, &sqe, VNPU_FW_OK);
	if (sqe.type == VNPU_FW_SQE_CTX_CLOSE)
		raw_fw_closed(fw, sqe.ctx);
	raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, NULL);
}

static void any_allocation_of_the_module_may_fail_in_any_thread(void **state)
{
	struct bench *b = nomem(state);
	struct churn c = { .b = b };
	int64_t until = raw_in_ms(3000);
	pthread_t thread;

	if (access("/sys/kernel/debug/failslab/require-start", W_OK))
		skip();
	fail_in_the_module();
	fail_set("failslab/task-filter", "N");
	fail_set("failslab/interval", "1");
	fail_set("failslab/times", "-1");
	fail_set("failslab/probability", "3");
	assert_int_equal(pthread_create(&thread, NULL, churn_run, &c), 0);
	while (raw_now_ns() < until || !c.stop) {
		if (raw_now_ns() >= until) {
			fail_set("failslab/probability", "0");
			/* A second more, for the client's waits and a round without failures. */
			__atomic_store_n(&c.stop, raw_now_ns() >= until + 1000000000ll,
					 __ATOMIC_RELEASE);
		}
		serve_one(&b->fw);
	}
	/* Wait for the end of the last round. */
	for (until = raw_in_ms(1000); raw_now_ns() < until;)
		serve_one(&b->fw);
	pthread_join(thread, NULL);
	fail_set("failslab/require-start", "0");
	fail_set("failslab/require-end", "0xffffffffffffffff");
	print_message("%llu lives, %llu cut short, %llu jobs\n", (unsigned long long)c.rounds,
		      (unsigned long long)c.failed, (unsigned long long)c.jobs);
	assert_int_equal(c.other, 0);
	assert_true(c.failed > 0);
	assert_true(c.failed < c.rounds);
	assert_true(c.jobs > 0);
	for (until = raw_in_ms(RAW_LONG_MS); raw_state(b->fd).mem_bytes; usleep(1000))
		assert_true(raw_now_ns() < until);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NOMEM_TEST(any_allocation_of_the_module_may_fail_in_any_thread),
	};

	return cmocka_run_group_tests_name("nomem_threads", tests, NULL, NULL);
}
