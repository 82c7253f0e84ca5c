// SPDX-License-Identifier: MIT
/*
 * What vnpu.ko shows of itself: fdinfo, sysfs, debugfs and the tracepoints. The test plays the firmware, so that it knows
 * what each of them has to say.
 */
#define _GNU_SOURCE
#include <glob.h>
#include <sys/mount.h>

#include "vnpu_raw.h"

#define VA 0x100000ull
#define MS 1000000ull
#define TRACING "/sys/kernel/tracing"

/* ---- reading ---- */

/* The whole file in @text; its length, or -errno. */
static int read_at(int dir, const char *path, char *text, size_t size)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n, total = 0;
	int error = 0;

	if (fd < 0)
		return -errno;
	while (total < (ssize_t)size - 1 && (n = read(fd, text + total, size - 1 - total))) {
		if (n < 0) {
			error = -errno;
			break;
		}
		total += n;
	}
	text[total] = 0;
	close(fd);
	return error ? error : (int)total;
}

static void write_file(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, value, strlen(value)), strlen(value));
	close(fd);
}

/* The value of "key:\tvalue" in the fdinfo of @fd, or NULL. */
static const char *fdinfo(int fd, const char *key)
{
	static char text[8192];
	char path[64], *line;
	size_t len = strlen(key);

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	assert_true(read_at(AT_FDCWD, path, text, sizeof(text)) > 0);
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (!strncmp(line, key, len) && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, " \t");
	return NULL;
}

/* As drm-usage-stats.rst has it: a number and perhaps a unit. A key that is not there is 0, as the core leaves some out. */
static uint64_t fdinfo_number(int fd, const char *key)
{
	const char *value = fdinfo(fd, key);
	uint64_t n;
	char *end;

	if (!value)
		return 0;
	n = strtoull(value, &end, 10);
	assert_ptr_not_equal(end, value);
	if (!strcmp(end, " KiB"))
		return n << 10;
	if (!strcmp(end, " MiB"))
		return n << 20;
	assert_true(!*end || !strcmp(end, " ns"));
	return n;
}

static uint64_t busy_ns(int fd)
{
	return fdinfo_number(fd, "drm-engine-npu");
}

static int sysfs_dir(int minor)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/class/accel/accel%d/device", minor);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static const char *sysfs(int dir, const char *name)
{
	static char text[4096];
	int n = read_at(dir, name, text, sizeof(text));

	assert_true(n > 1);
	assert_int_equal(text[n - 1], '\n');
	text[n - 1] = 0;
	return text;
}

static uint64_t sysfs_number(int dir, const char *name)
{
	const char *value = sysfs(dir, name);
	char *end;
	uint64_t n = strtoull(value, &end, 10);

	assert_int_equal(*end, 0);
	return n;
}

static struct drm_vnpu_query_state dev_state(int fd)
{
	struct drm_vnpu_query_state state = { 0 };
	struct drm_vnpu_dev_query query = { DRM_VNPU_QUERY_STATE, sizeof(state), (uintptr_t)&state };

	assert_int_equal(raw_ioctl(fd, DRM_IOCTL_VNPU_DEV_QUERY, &query), 0);
	return state;
}

/* ---- the firmware ---- */

static void answer(struct raw_fw *fw, const struct vnpu_fw_sqe *sqe, struct vnpu_fw_cqe cqe)
{
	struct drm_vnpu_queue_status *page = raw_fw_status(fw, sqe->queue);

	cqe.type = VNPU_FW_CQE_DONE;
	cqe.tag = sqe->tag;
	__atomic_store_n(&page->completed_seqno, sqe->seqno, __ATOMIC_RELEASE);
	raw_fw_post(fw, cqe);
	assert_int_equal(raw_fw_enter(fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
}

/* The firmware says that it works on the job. */
static void begin(struct raw_fw *fw, const struct vnpu_fw_sqe *sqe)
{
	__atomic_store_n(&raw_fw_status(fw, sqe->queue)->started_seqno, sqe->seqno, __ATOMIC_RELEASE);
}

/* A job that sits in the firmware for @ms, of which it says that it worked @busy. */
static void job(struct bench *b, int fd, uint32_t ctx, uint32_t queue, unsigned int ms, uint64_t busy)
{
	uint64_t seqno = raw_submit(fd, ctx, queue);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);

	usleep(ms * 1000);
	answer(&b->fw, &sqe, (struct vnpu_fw_cqe){ .busy_ns = busy });
	assert_int_equal(raw_result(fd, queue, seqno), 0);
}

/* ---- fdinfo: device time ---- */

static void fdinfo_names_driver_client_and_engine(void **state)
{
	struct bench *b = bench(state);
	int other = raw_client(b->fw.minor);
	uint64_t id = fdinfo_number(b->fd, "drm-client-id");

	assert_string_equal(fdinfo(b->fd, "drm-driver"), "vnpu");
	assert_int_not_equal(id, fdinfo_number(other, "drm-client-id"));
	assert_string_equal(fdinfo(b->fd, "drm-engine-npu"), "0 ns");
	assert_string_equal(fdinfo(b->fd, "drm-engine-capacity-npu"), "1");
	assert_string_equal(fdinfo(b->fd, "vnpu-contexts"), "1");
	assert_string_equal(fdinfo(b->fd, "vnpu-queues"), "1");
	assert_string_equal(fdinfo(other, "vnpu-contexts"), "0");
	close(other);
}

static void a_job_is_charged_what_the_firmware_says_but_not_more_than_has_passed(void **state)
{
	struct bench *b = bench(state);
	uint64_t before;
	int64_t t;

	job(b, b->fd, b->ctx, b->q.queue_id, 30, 10 * MS + 7);
	assert_int_equal(busy_ns(b->fd), 10 * MS + 7);
	job(b, b->fd, b->ctx, b->q.queue_id, 0, 0);
	assert_int_equal(busy_ns(b->fd), 10 * MS + 7);
	before = busy_ns(b->fd);
	t = raw_now_ns();
	job(b, b->fd, b->ctx, b->q.queue_id, 20, 3600000 * MS);
	t = raw_now_ns() - t;
	assert_in_range(busy_ns(b->fd) - before, 20 * MS, t);
}

static void clients_are_charged_apart_and_add_up_to_the_device(void **state)
{
	struct bench *b = bench(state);
	int other = raw_client(b->fw.minor), dir = sysfs_dir(b->fw.minor);
	uint32_t ctx = raw_ctx(other), queue = raw_queue(other, ctx);

	job(b, b->fd, b->ctx, b->q.queue_id, 20, 4 * MS);
	job(b, other, ctx, queue, 20, 8 * MS);
	job(b, b->fd, b->ctx, b->q.queue_id, 20, 3 * MS);
	assert_int_equal(busy_ns(b->fd), 7 * MS);
	assert_int_equal(busy_ns(other), 8 * MS);
	assert_int_equal(dev_state(b->fd).busy_ns, 15 * MS);
	assert_int_equal(sysfs_number(dir, "npu_busy_time_us"), 15000);
	/* What a client that is gone has had is the device's for ever. */
	close(other);
	assert_int_equal(sysfs_number(dir, "npu_busy_time_us"), 15000);
	close(dir);
}

static void jobs_at_the_same_time_do_not_make_the_device_busier_than_the_clock(void **state)
{
	struct bench *b = bench(state);
	int64_t t = raw_now_ns();
	struct vnpu_fw_sqe sqe[8];
	uint32_t queue[4];

	for (int i = 0; i < 4; i++)
		queue[i] = raw_queue(b->fd, b->ctx);
	for (int i = 0; i < 8; i++) {
		raw_submit(b->fd, b->ctx, queue[i % 4]);
		sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	}
	usleep(20000);
	for (int i = 0; i < 8; i++)
		answer(&b->fw, &sqe[i], (struct vnpu_fw_cqe){ .busy_ns = 20 * MS });
	assert_in_range(busy_ns(b->fd), 20 * MS, raw_now_ns() - t);
}

static void a_batch_of_answers_loses_none_of_its_time(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe sqe[4];

	for (int i = 0; i < 4; i++) {
		raw_submit(b->fd, b->ctx, b->q.queue_id);
		sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	}
	usleep(40000);
	for (int i = 0; i < 4; i++)
		raw_fw_post(&b->fw,
			    (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE, .tag = sqe[i].tag, .busy_ns = 10 * MS });
	assert_int_equal(raw_fw_enter(&b->fw, VNPU_FW_ENTER_COMPLETE, 0, NULL), 0);
	assert_int_equal(busy_ns(b->fd), 40 * MS);
}

static void a_running_job_counts_while_it_runs_and_a_waiting_one_does_not(void **state)
{
	struct bench *b = bench(state);
	int other = raw_client(b->fw.minor);
	uint32_t ctx = raw_ctx(other), queue = raw_queue(other, ctx);
	struct vnpu_fw_sqe runs, waits;
	uint64_t last = 0, now;
	int64_t t = raw_now_ns();

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	runs = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	raw_submit(other, ctx, queue);
	waits = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	usleep(5000);
	assert_int_equal(busy_ns(b->fd), 0);
	begin(&b->fw, &runs);
	for (int i = 0; i < 10; i++) {
		usleep(5000);
		now = busy_ns(b->fd);
		assert_true(now >= last + 5 * MS);
		last = now;
	}
	assert_in_range(last, 50 * MS, raw_now_ns() - t);
	assert_int_equal(busy_ns(other), 0);
	/* It was less, in the end: what has been shown stays. */
	answer(&b->fw, &runs, (struct vnpu_fw_cqe){ .busy_ns = 1 });
	assert_in_range(busy_ns(b->fd), last, raw_now_ns() - t);
	begin(&b->fw, &waits);
	last = busy_ns(b->fd);
	usleep(10000);
	assert_int_equal(busy_ns(b->fd), last);
	now = busy_ns(other);
	assert_true(now >= 10 * MS);
	/* It was more, though not by so much that it had not had the time: the rest is added. */
	usleep(10000);
	answer(&b->fw, &waits, (struct vnpu_fw_cqe){ .busy_ns = now + 5 * MS });
	assert_int_equal(busy_ns(other), now + 5 * MS);
	close(other);
}

static void a_job_that_the_kernel_ends_is_charged_if_it_ran(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe sqe;
	uint64_t had;

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	begin(&b->fw, &sqe);
	usleep(10000);
	assert_int_equal(raw_queue_destroy(b->fd, b->q.queue_id), 0);
	had = busy_ns(b->fd);
	assert_true(had >= 10 * MS);
	answer(&b->fw, &sqe, (struct vnpu_fw_cqe){ .busy_ns = 3600000 * MS });
	assert_int_equal(busy_ns(b->fd), had);
}

static void busy_time_outlives_queue_context_and_firmware(void **state)
{
	struct bench *b = bench(state);

	job(b, b->fd, b->ctx, b->q.queue_id, 10, 5 * MS);
	assert_int_equal(raw_queue_destroy(b->fd, b->q.queue_id), 0);
	assert_int_equal(busy_ns(b->fd), 5 * MS);
	assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
	assert_int_equal(busy_ns(b->fd), 5 * MS);
	assert_string_equal(fdinfo(b->fd, "vnpu-contexts"), "0");
	assert_string_equal(fdinfo(b->fd, "vnpu-queues"), "0");
	raw_fw_die(&b->fw);
	assert_int_equal(busy_ns(b->fd), 5 * MS);
}

/* ---- fdinfo: memory ---- */

static void memory_is_that_of_the_buffers(void **state)
{
	struct bench *b = bench(state);
	int dir = sysfs_dir(b->fw.minor);
	uint32_t a = raw_bo(b->fd, 3 * PAGE), c = raw_bo(b->fd, 2 << 20);
	uint64_t total = 3 * PAGE + (2 << 20);
	uint8_t *p;

	raw_bo(b->fd, 1);
	total += PAGE;
	assert_int_equal(fdinfo_number(b->fd, "drm-total-memory"), total);
	assert_int_equal(fdinfo_number(b->fd, "drm-shared-memory"), 0);
	assert_int_equal(fdinfo_number(b->fd, "drm-resident-memory"), 0);
	assert_int_equal(fdinfo_number(b->fd, "drm-active-memory"), 0);
	assert_int_equal(sysfs_number(dir, "npu_memory_utilization"), total);
	/* Bound or mapped: it has pages. */
	assert_int_equal(raw_bind(b->fd, b->ctx, c, VA, 2 << 20, 0), 0);
	assert_int_equal(fdinfo_number(b->fd, "drm-resident-memory"), 2 << 20);
	p = raw_bo_map(b->fd, a);
	assert_int_equal(fdinfo_number(b->fd, "drm-resident-memory"), (2 << 20) + 3 * PAGE);
	munmap(p, 3 * PAGE);
	raw_bo_close(b->fd, a);
	total -= 3 * PAGE;
	assert_int_equal(fdinfo_number(b->fd, "drm-total-memory"), total);
	assert_int_equal(sysfs_number(dir, "npu_memory_utilization"), total);
	close(dir);
}

static void memory_is_active_while_a_job_names_it(void **state)
{
	struct bench *b = bench(state);
	struct drm_vnpu_bo_use use = { .handle = raw_bo(b->fd, 5 * PAGE), .flags = DRM_VNPU_BO_USE_WRITE };
	struct drm_vnpu_job job = raw_job(b->q.queue_id);

	raw_bo(b->fd, PAGE);
	raw_job_bos(&job, &use, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, &job, 1), 0);
	assert_int_equal(fdinfo_number(b->fd, "drm-active-memory"), 5 * PAGE);
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(raw_result(b->fd, b->q.queue_id, job.seqno), 0);
	assert_int_equal(fdinfo_number(b->fd, "drm-active-memory"), 0);
}

static void a_buffer_that_two_files_have_is_shared_in_both_and_the_devices_once(void **state)
{
	struct bench *b = bench(state);
	int other = raw_client(b->fw.minor), dir = sysfs_dir(b->fw.minor);
	struct drm_prime_handle prime = { .handle = raw_bo(b->fd, 4 * PAGE), .flags = DRM_CLOEXEC };

	raw_bo(b->fd, PAGE);
	write_file("/sys/module/vnpu/parameters/prime_export", "Y");
	assert_int_equal(raw_ioctl(b->fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime), 0);
	write_file("/sys/module/vnpu/parameters/prime_export", "N");
	assert_int_equal(raw_ioctl(other, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime), 0);
	close(prime.fd);
	assert_int_equal(fdinfo_number(b->fd, "drm-total-memory"), 5 * PAGE);
	assert_int_equal(fdinfo_number(b->fd, "drm-shared-memory"), 4 * PAGE);
	assert_int_equal(fdinfo_number(other, "drm-total-memory"), 4 * PAGE);
	assert_int_equal(fdinfo_number(other, "drm-shared-memory"), 4 * PAGE);
	assert_int_equal(sysfs_number(dir, "npu_memory_utilization"), 5 * PAGE);
	close(other);
	close(dir);
}

/* ---- sysfs ---- */

static void sysfs_tells_what_the_device_is_and_how_it_is(void **state)
{
	struct bench *b = bench(state);
	int dir = sysfs_dir(b->fw.minor);

	assert_string_equal(sysfs(dir, "npu_name"), "test device");
	assert_string_equal(sysfs(dir, "npu_state"), "ready");
	assert_int_equal(sysfs_number(dir, "npu_epoch"), 1);
	assert_int_equal(sysfs_number(dir, "npu_resets"), 0);
	assert_int_equal(sysfs_number(dir, "npu_fw_pid"), getpid());
	assert_int_equal(sysfs_number(dir, "npu_memory_limit"), 0);
	raw_fw_die(&b->fw);
	assert_string_equal(sysfs(dir, "npu_state"), "lost");
	assert_int_equal(sysfs_number(dir, "npu_epoch"), 2);
	assert_int_equal(sysfs_number(dir, "npu_fw_pid"), 0);
	assert_int_equal(raw_fw_attach(&b->fw), 0);
	raw_fw_start(&b->fw);
	assert_string_equal(sysfs(dir, "npu_state"), "ready");
	assert_int_equal(sysfs_number(dir, "npu_resets"), 0);
	close(dir);
}

static void files_of_a_deleted_device_are_gone_and_an_open_one_ends(void **state)
{
	struct bench *b = bench(state);
	int dir = sysfs_dir(b->fw.minor), fd = openat(dir, "npu_busy_time_us", O_RDONLY | O_CLOEXEC);
	char text[64];

	assert_true(fd >= 0);
	assert_true(pread(fd, text, sizeof(text), 0) > 0);
	raw_fw_remove(&b->fw);
	assert_int_equal(pread(fd, text, sizeof(text), 0), -1);
	assert_int_equal(errno, ENODEV);
	assert_true(openat(dir, "npu_busy_time_us", O_RDONLY | O_CLOEXEC) < 0);
	/* The client is still there, and so is what it has had. */
	assert_int_equal(busy_ns(b->fd), 0);
	close(fd);
	close(dir);
	close(b->fd);
	raw_fw_add(&b->fw, NULL);
	b->fd = raw_client(b->fw.minor);
}

/* ---- debugfs ---- */

static int debugfs_dir(int minor)
{
	char link[64], device[256], path[320];
	ssize_t len;

	snprintf(link, sizeof(link), "/sys/class/accel/accel%d/device", minor);
	len = readlink(link, device, sizeof(device) - 1);
	assert_true(len > 0);
	device[len] = 0;
	snprintf(path, sizeof(path), "/sys/kernel/debug/accel/%s", strrchr(device, '/') + 1);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static const char *debugfs(int dir, const char *name)
{
	static char text[65536];

	assert_true(read_at(dir, name, text, sizeof(text)) > 0);
	return text;
}

static void debugfs_lists_contexts_queues_rings_buffers_and_users(void **state)
{
	struct bench *b = bench(state);
	int dir = debugfs_dir(b->fw.minor);
	unsigned int client = fdinfo_number(b->fd, "drm-client-id"), pid = getpid();
	struct vnpu_fw_sqe sqe;
	char want[128];

	if (dir < 0)
		skip();
	raw_bo(b->fd, 7 * PAGE);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	snprintf(want, sizeof(want), " %u %4u %7u test_observe", client, b->ctx, pid);
	assert_non_null(strstr(debugfs(dir, "contexts"), want));
	snprintf(want, sizeof(want), " %u %4u %5u    1     4        0        0        2      0         2         0 ",
		 client, b->ctx, b->q.queue_id);
	assert_non_null(strstr(debugfs(dir, "queues"), want));
	answer(&b->fw, &sqe, (struct vnpu_fw_cqe){ 0 });
	snprintf(want, sizeof(want), " %u %4u %5u    1     4        1        1        2      0         2         1 ",
		 client, b->ctx, b->q.queue_id);
	assert_non_null(strstr(debugfs(dir, "queues"), want));
	snprintf(want, sizeof(want), "pid %u, ready, epoch 1\n", pid);
	assert_non_null(strstr(debugfs(dir, "rings"), want));
	assert_non_null(strstr(debugfs(dir, "rings"), "tail 2, firmware's head 1\n"));
	assert_non_null(strstr(debugfs(dir, "rings"), "head 1, firmware's tail 1\n"));
	assert_non_null(strstr(debugfs(dir, "bos"), "        28672       no     no    1    0\n"));
	assert_non_null(strstr(debugfs(dir, "users"), "\n     0        1      1        28672\n"));
	close(dir);
}

/* ---- readers while devices come and go ---- */

struct readers {
	bool stop;
	uint64_t reads;
};

static void read_all(struct readers *r, const char *pattern)
{
	char text[4096];
	glob_t g;

	if (glob(pattern, 0, NULL, &g))
		return;
	for (size_t i = 0; i < g.gl_pathc; i++)
		if (read_at(AT_FDCWD, g.gl_pathv[i], text, sizeof(text)) > 0)
			__atomic_add_fetch(&r->reads, 1, __ATOMIC_RELAXED);
	globfree(&g);
}

static void *reader(void *arg)
{
	struct readers *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		read_all(r, "/sys/class/accel/*/device/npu_*");
		read_all(r, "/sys/kernel/debug/accel/*/*");
		read_all(r, "/proc/self/fdinfo/*");
	}
	return NULL;
}

static void everything_can_be_read_while_devices_come_and_go(void **state)
{
	struct readers r = { 0 };
	pthread_t threads[3];

	if (access(RAW_CONTROL, R_OK | W_OK))
		skip();
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reader, &r), 0);
	for (int i = 0; i < 60; i++) {
		struct raw_fw fw;
		uint32_t ctx, queue;
		int fd;

		raw_fw_add(&fw, NULL);
		fd = raw_client(fw.minor);
		ctx = raw_ctx(fd);
		queue = raw_queue(fd, ctx);
		raw_bo(fd, PAGE);
		raw_submit(fd, ctx, queue);
		raw_fw_serve(&fw, VNPU_FW_OK);
		busy_ns(fd);
		/* The file goes before its device, or after it. */
		if (i & 1)
			close(fd);
		raw_fw_remove(&fw);
		if (!(i & 1))
			close(fd);
	}
	__atomic_store_n(&r.stop, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_true(r.reads > 100);
	print_message("%llu files read\n", (unsigned long long)r.reads);
}

/* ---- tracepoints ---- */

static int trace_start(void **state)
{
	int ret = bench_setup(state);

	if (ret || !((struct bench *)*state)->fw.info)
		return ret;
	if (access(TRACING "/trace", R_OK))
		mount("tracefs", TRACING, "tracefs", 0, NULL);
	if (access(TRACING "/events/vnpu/enable", W_OK))
		return -1;
	write_file(TRACING "/trace", "\n");
	write_file(TRACING "/events/vnpu/enable", "1");
	return 0;
}

static int trace_stop(void **state)
{
	if (((struct bench *)*state)->fw.info)
		write_file(TRACING "/events/vnpu/enable", "0");
	return bench_teardown(state);
}

/* The fields of the latest event of that name in the trace. */
static const char *event(const char *name)
{
	static char text[1 << 16];
	char pattern[64], *at, *last = NULL;

	assert_true(read_at(AT_FDCWD, TRACING "/trace", text, sizeof(text)) > 0);
	snprintf(pattern, sizeof(pattern), ": %s: ", name);
	for (at = text; (at = strstr(at, pattern)); at++)
		last = at + strlen(pattern);
	if (!last)
		fail_msg("no %s in the trace", name);
	strtok(last, "\n");
	return last;
}

static void has(const char *fields, const char *key, const char *value)
{
	char want[128];

	snprintf(want, sizeof(want), "%s=%s", key, value);
	for (const char *at = fields; (at = strstr(at, want)); at++)
		if ((at == fields || at[-1] == ' ') && (!at[strlen(want)] || at[strlen(want)] == ' '))
			return;
	fail_msg("no %s in: %s", want, fields);
}

static uint64_t number(const char *fields, const char *key)
{
	char want[64];
	const char *at;

	snprintf(want, sizeof(want), " %s=", key);
	at = strstr(fields, want);
	if (!at)
		fail_msg("no %s in: %s", key, fields);
	return strtoull(at + strlen(want), NULL, 0);
}

/* What all events of jobs have in common. */
static const char *job_event(struct bench *b, const char *name, uint64_t seqno)
{
	const char *e = event(name);

	assert_non_null(strstr(e, "dev="));
	assert_int_equal(strtoul(strstr(e, "dev=") + 4, NULL, 10), b->fw.minor);
	assert_int_equal(number(e, "client"), fdinfo_number(b->fd, "drm-client-id"));
	assert_int_equal(number(e, "pid"), getpid());
	has(e, "comm", "test_observe");
	assert_int_equal(number(e, "ctx"), b->ctx);
	assert_int_equal(number(e, "queue"), b->q.queue_id);
	assert_int_equal(number(e, "seqno"), seqno);
	return e;
}

static void a_jobs_way_is_traced(void **state)
{
	struct bench *b = bench(state);
	uint64_t seqno = raw_submit(b->fd, b->ctx, b->q.queue_id);
	struct vnpu_fw_sqe sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	int64_t t = raw_now_ns();
	const char *e;

	e = job_event(b, "vnpu_job_submit", seqno);
	has(e, "cmd_va", "0x10000");
	has(e, "cmd_bytes", "64");
	has(e, "table_bytes", "64");
	has(e, "priority", "normal");
	assert_int_equal(number(job_event(b, "vnpu_job_start", seqno), "hwq"), sqe.queue);
	usleep(20000);
	t = raw_now_ns() - t;
	answer(&b->fw, &sqe, (struct vnpu_fw_cqe){ .busy_ns = 12345678 });
	e = job_event(b, "vnpu_job_complete", seqno);
	has(e, "error", "0");
	has(e, "by", "firmware");
	has(e, "busy_ns", "12345678");
	assert_true(number(e, "duration_ns") >= (uint64_t)t);
	assert_true(number(e, "duration_ns") < 10000 * MS);
}

static void a_job_that_waits_starts_later_than_it_was_submitted(void **state)
{
	struct bench *b = bench(state);
	uint32_t syncobj = raw_syncobj(b->fd);
	struct drm_vnpu_sync_op wait = { .handle = syncobj, .timeline_value = 1 };
	struct drm_vnpu_sync_op signal = { .flags = DRM_VNPU_SYNC_SIGNAL, .handle = syncobj, .timeline_value = 1 };
	struct drm_vnpu_job jobs[2] = { raw_job(b->q.queue_id), raw_job(raw_queue(b->fd, b->ctx)) };
	struct vnpu_fw_sqe sqe;

	raw_job_syncs(&jobs[0], &signal, 1);
	raw_job_syncs(&jobs[1], &wait, 1);
	assert_int_equal(raw_submit_jobs(b->fd, b->ctx, jobs, 2), 0);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(number(event("vnpu_job_start"), "queue"), jobs[0].queue_id);
	usleep(20000);
	answer(&b->fw, &sqe, (struct vnpu_fw_cqe){ 0 });
	raw_fw_serve(&b->fw, VNPU_FW_OK);
	assert_int_equal(number(event("vnpu_job_start"), "queue"), jobs[1].queue_id);
	assert_true(number(event("vnpu_job_start"), "queued_ns") >= 20 * MS);
}

static void failures_and_faults_are_traced(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe sqe;
	const char *e;

	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_serve(&b->fw, VNPU_FW_INVALID);
	has(job_event(b, "vnpu_job_complete", 1), "error", "-22");
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	answer(&b->fw, &sqe,
	       (struct vnpu_fw_cqe){ .status = VNPU_FW_FAULT, .fault_va = 0xabc000, .flags = VNPU_FW_CQE_FAULT_WRITE });
	e = job_event(b, "vnpu_fault", 2);
	has(e, "va", "0xabc000");
	has(e, "access", "write");
	/* The one behind it goes with its context. */
	e = job_event(b, "vnpu_job_complete", 3);
	has(e, "error", "-125");
	has(e, "by", "kernel");
}

static void bindings_are_traced_when_they_are_made(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, 4 * PAGE);
	char text[32];
	const char *e;

	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, 4 * PAGE, DRM_VNPU_BIND_READ_ONLY), 0);
	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, PAGE, 0), -ENOSPC);
	e = event("vnpu_bind");
	snprintf(text, sizeof(text), "%u", handle);
	has(e, "handle", text);
	has(e, "op", "map");
	has(e, "va", "0x100000");
	has(e, "bytes", "16384");
	has(e, "flags", "read_only");
	assert_int_equal(raw_unbind(b->fd, b->ctx, VA, 4 * PAGE), 0);
	has(event("vnpu_bind"), "op", "unmap");
	assert_int_equal(number(event("vnpu_bind"), "client"), fdinfo_number(b->fd, "drm-client-id"));
}

static void a_reset_by_hand_is_counted_and_traced(void **state)
{
	struct bench *b = bench(state);
	int sys = sysfs_dir(b->fw.minor), dir = debugfs_dir(b->fw.minor), fd;
	const char *e;

	if (dir < 0)
		skip();
	fd = openat(dir, "force_reset", O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "1", 1), 1);
	e = event("vnpu_reset");
	has(e, "cause", "forced");
	has(e, "epoch", "2");
	has(e, "nr_resets", "1");
	has(e, "state", "lost");
	assert_int_equal(sysfs_number(sys, "npu_resets"), 1);
	assert_int_equal(sysfs_number(sys, "npu_epoch"), 2);
	assert_string_equal(sysfs(sys, "npu_state"), "lost");
	/* Now there is nobody to reset. */
	assert_int_equal(write(fd, "1", 1), -1);
	assert_int_equal(errno, ENODEV);
	close(fd);
	close(dir);
	close(sys);
}

static void the_loss_of_a_firmware_is_traced(void **state)
{
	struct bench *b = bench(state);
	const char *e;

	raw_fw_die(&b->fw);
	e = event("vnpu_reset");
	has(e, "cause", "exit");
	has(e, "epoch", "2");
	has(e, "nr_resets", "0");
	has(e, "state", "lost");
	assert_int_equal(number(e, "fw_pid"), getpid());
}

#define TRACE_TEST(f) cmocka_unit_test_setup_teardown(f, trace_start, trace_stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(fdinfo_names_driver_client_and_engine),
		BENCH_TEST(a_job_is_charged_what_the_firmware_says_but_not_more_than_has_passed),
		BENCH_TEST(clients_are_charged_apart_and_add_up_to_the_device),
		BENCH_TEST(jobs_at_the_same_time_do_not_make_the_device_busier_than_the_clock),
		BENCH_TEST(a_batch_of_answers_loses_none_of_its_time),
		BENCH_TEST(a_running_job_counts_while_it_runs_and_a_waiting_one_does_not),
		BENCH_TEST(a_job_that_the_kernel_ends_is_charged_if_it_ran),
		BENCH_TEST(busy_time_outlives_queue_context_and_firmware),
		BENCH_TEST(memory_is_that_of_the_buffers),
		BENCH_TEST(memory_is_active_while_a_job_names_it),
		BENCH_TEST(a_buffer_that_two_files_have_is_shared_in_both_and_the_devices_once),
		BENCH_TEST(sysfs_tells_what_the_device_is_and_how_it_is),
		BENCH_TEST(files_of_a_deleted_device_are_gone_and_an_open_one_ends),
		BENCH_TEST(debugfs_lists_contexts_queues_rings_buffers_and_users),
		cmocka_unit_test(everything_can_be_read_while_devices_come_and_go),
		TRACE_TEST(a_jobs_way_is_traced),
		TRACE_TEST(a_job_that_waits_starts_later_than_it_was_submitted),
		TRACE_TEST(failures_and_faults_are_traced),
		TRACE_TEST(bindings_are_traced_when_they_are_made),
		TRACE_TEST(a_reset_by_hand_is_counted_and_traced),
		TRACE_TEST(the_loss_of_a_firmware_is_traced),
	};

	return cmocka_run_group_tests_name("observe", tests, NULL, NULL);
}
