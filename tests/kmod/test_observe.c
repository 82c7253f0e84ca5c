// SPDX-License-Identifier: MIT
/*
 * What vnpu.ko shows: fdinfo, sysfs and debugfs. The test plays the firmware and so knows the right
 * values. Tracepoints are in test_trace.c.
 */
#define _GNU_SOURCE
#include <glob.h>

#include "observe.h"

#define VA 0x100000ull
#define MS 1000000ull

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

/* A job that stays in the firmware for @ms, and for which it reports @busy. */
static void job(struct bench *b, int fd, uint32_t ctx, uint32_t queue, unsigned int ms,
		uint64_t busy)
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
	close(other);
}

static void a_job_is_charged_the_reported_time_but_no_more_than_has_passed(void **state)
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

static void clients_are_charged_separately_and_add_up_to_the_device(void **state)
{
	struct bench *b = bench(state);
	int other = raw_client(b->fw.minor), dir = sysfs_dir(b->fw.minor);
	uint32_t ctx = raw_ctx(other), queue = raw_queue(other, ctx);

	job(b, b->fd, b->ctx, b->q.queue_id, 20, 4 * MS);
	job(b, other, ctx, queue, 20, 8 * MS);
	job(b, b->fd, b->ctx, b->q.queue_id, 20, 3 * MS);
	assert_int_equal(busy_ns(b->fd), 7 * MS);
	assert_int_equal(busy_ns(other), 8 * MS);
	assert_int_equal(raw_state(b->fd).busy_ns, 15 * MS);
	assert_int_equal(sysfs_number(dir, "npu_busy_time_us"), 15000);
	/* The device keeps the busy time of clients that are gone. */
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

static void a_batch_of_answers_is_charged_all_of_its_time(void **state)
{
	struct bench *b = bench(state);
	struct vnpu_fw_sqe sqe[4];

	for (int i = 0; i < 4; i++) {
		raw_submit(b->fd, b->ctx, b->q.queue_id);
		sqe[i] = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	}
	usleep(40000);
	for (int i = 0; i < 4; i++)
		raw_fw_post(&b->fw, (struct vnpu_fw_cqe){ .type = VNPU_FW_CQE_DONE,
							  .tag = sqe[i].tag,
							  .busy_ns = 10 * MS });
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
	raw_fw_started(&b->fw, &runs);
	for (int i = 0; i < 10; i++) {
		usleep(5000);
		now = busy_ns(b->fd);
		assert_true(now >= last + 5 * MS);
		last = now;
	}
	assert_in_range(last, 50 * MS, raw_now_ns() - t);
	assert_int_equal(busy_ns(other), 0);
	/* In the end it was less, but what has been shown stays. */
	answer(&b->fw, &runs, (struct vnpu_fw_cqe){ .busy_ns = 1 });
	assert_in_range(busy_ns(b->fd), last, raw_now_ns() - t);
	raw_fw_started(&b->fw, &waits);
	last = busy_ns(b->fd);
	usleep(10000);
	assert_int_equal(busy_ns(b->fd), last);
	now = busy_ns(other);
	assert_true(now >= 10 * MS);
	/* In the end it was more, within the elapsed time: the rest is added. */
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
	raw_fw_started(&b->fw, &sqe);
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
	raw_fw_die(&b->fw);
	assert_int_equal(busy_ns(b->fd), 5 * MS);
}

/* ---- fdinfo: memory ---- */

static void fdinfo_memory_is_that_of_the_buffers(void **state)
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
	/* Bound or mapped buffers have pages. */
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

/* Values that a query returns are not repeated here. */
static void sysfs_has_two_attributes(void **state)
{
	struct bench *b = bench(state);
	char pattern[96];
	glob_t g;

	snprintf(pattern, sizeof(pattern), "/sys/class/accel/accel%d/device/npu_*", b->fw.minor);
	assert_int_equal(glob(pattern, 0, NULL, &g), 0);
	assert_int_equal(g.gl_pathc, 2);
	assert_string_equal(strrchr(g.gl_pathv[0], '/') + 1, "npu_busy_time_us");
	assert_string_equal(strrchr(g.gl_pathv[1], '/') + 1, "npu_memory_utilization");
	globfree(&g);
}

static void files_of_a_deleted_device_are_gone_and_an_open_one_ends(void **state)
{
	struct bench *b = bench(state);
	int dir = sysfs_dir(b->fw.minor),
	    fd = openat(dir, "npu_busy_time_us", O_RDONLY | O_CLOEXEC);
	char text[64];

	assert_true(fd >= 0);
	assert_true(pread(fd, text, sizeof(text), 0) > 0);
	raw_fw_remove(&b->fw);
	assert_int_equal(pread(fd, text, sizeof(text), 0), -1);
	assert_int_equal(errno, ENODEV);
	assert_true(openat(dir, "npu_busy_time_us", O_RDONLY | O_CLOEXEC) < 0);
	/* The client still exists, and so does its busy time. */
	assert_int_equal(busy_ns(b->fd), 0);
	close(fd);
	close(dir);
	close(b->fd);
	raw_fw_add(&b->fw, NULL);
	b->fd = raw_client(b->fw.minor);
}

/* ---- debugfs ---- */

static const char *debugfs(int dir, const char *name)
{
	static char text[65536];

	assert_true(read_at(dir, name, text, sizeof(text)) > 0);
	return text;
}

/* The number in a column of the only row whose column "ctx" is the bench's context. */
static int64_t column(struct bench *b, int dir, const char *file, const char *name)
{
	char *head, *row, *line, *rest, *word;
	int at = 0, wanted = -1, ctx = -1;
	static char text[65536];

	strcpy(text, debugfs(dir, file));
	head = strtok_r(text, "\n", &rest);
	assert_non_null(head);
	for (word = strtok_r(head, " ", &line); word; word = strtok_r(NULL, " ", &line), at++) {
		if (!strcmp(word, name))
			wanted = at;
		if (!strcmp(word, "ctx"))
			ctx = at;
	}
	assert_true(wanted >= 0 && ctx >= 0);
	while ((row = strtok_r(NULL, "\n", &rest))) {
		int64_t value = -1;
		bool ours = false;

		at = 0;
		for (word = strtok_r(row, " ", &line); word;
		     word = strtok_r(NULL, " ", &line), at++) {
			if (at == wanted)
				value = strtoll(word, NULL, 0);
			ours = ours || (at == ctx && strtoul(word, NULL, 10) == b->ctx);
		}
		if (ours)
			return value;
	}
	return -1;
}

static void debugfs_lists_contexts_queues_and_rings(void **state)
{
	static const char *const files[] = { "contexts", "queues", "rings", "force_reset" };
	static const char *const gone[] = { "bos", "users" };
	struct bench *b = bench(state);
	int dir = debugfs_dir(b->fw.minor);
	struct vnpu_fw_sqe sqe;
	char want[128];

	if (dir < 0)
		skip();
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		assert_int_equal(faccessat(dir, files[i], F_OK, 0), 0);
	for (size_t i = 0; i < sizeof(gone) / sizeof(*gone); i++)
		assert_int_equal(faccessat(dir, gone[i], F_OK, 0), -1);
	for (int i = 0; i < 7; i++)
		raw_submit(b->fd, b->ctx, b->q.queue_id);
	sqe = raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
	assert_int_equal(column(b, dir, "contexts", "client"),
			 fdinfo_number(b->fd, "drm-client-id"));
	assert_int_equal(column(b, dir, "contexts", "pid"), getpid());
	assert_non_null(strstr(debugfs(dir, "contexts"), " test_observe"));
	assert_int_equal(column(b, dir, "contexts", "queues"), 1);
	assert_int_equal(column(b, dir, "queues", "client"), fdinfo_number(b->fd, "drm-client-id"));
	assert_int_equal(column(b, dir, "queues", "queue"), b->q.queue_id);
	assert_int_equal(column(b, dir, "queues", "depth"), 4);
	assert_int_equal(column(b, dir, "queues", "submitted"), 7);
	assert_int_equal(column(b, dir, "queues", "sent"), 4);
	assert_int_equal(column(b, dir, "queues", "done"), 0);
	answer(&b->fw, &sqe, (struct vnpu_fw_cqe){ 0 });
	assert_int_equal(column(b, dir, "queues", "sent"), 5);
	assert_int_equal(column(b, dir, "queues", "done"), 1);
	snprintf(want, sizeof(want), "pid %d, ready, epoch 1", getpid());
	assert_non_null(strstr(debugfs(dir, "rings"), want));
	assert_non_null(strstr(debugfs(dir, "rings"), "tail 5, firmware's head 1\n"));
	assert_non_null(strstr(debugfs(dir, "rings"), "head 1, firmware's tail 1\n"));
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
		/* The file is closed before its device goes, or after. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(fdinfo_names_driver_client_and_engine),
		BENCH_TEST(a_job_is_charged_the_reported_time_but_no_more_than_has_passed),
		BENCH_TEST(clients_are_charged_separately_and_add_up_to_the_device),
		BENCH_TEST(jobs_at_the_same_time_do_not_make_the_device_busier_than_the_clock),
		BENCH_TEST(a_batch_of_answers_is_charged_all_of_its_time),
		BENCH_TEST(a_running_job_counts_while_it_runs_and_a_waiting_one_does_not),
		BENCH_TEST(a_job_that_the_kernel_ends_is_charged_if_it_ran),
		BENCH_TEST(busy_time_outlives_queue_context_and_firmware),
		BENCH_TEST(fdinfo_memory_is_that_of_the_buffers),
		BENCH_TEST(a_buffer_that_two_files_have_is_shared_in_both_and_the_devices_once),
		BENCH_TEST(sysfs_has_two_attributes),
		BENCH_TEST(files_of_a_deleted_device_are_gone_and_an_open_one_ends),
		BENCH_TEST(debugfs_lists_contexts_queues_and_rings),
		cmocka_unit_test(everything_can_be_read_while_devices_come_and_go),
	};

	return cmocka_run_group_tests_name("observe", tests, NULL, NULL);
}
