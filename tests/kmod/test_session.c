// SPDX-License-Identifier: MIT
/*
 * The end of a firmware's session and of its device: what the firmware is told before its memory is
 * revoked, and that the order in which client, firmware, mappings and device end makes no
 * difference. The test is the firmware.
 */
#include <poll.h>
#include <signal.h>

#include "observe.h"

#define VA 0x100000ull

/* ---- a firmware that reads its ring when its session ends ---- */

static __thread sigjmp_buf fault_jump;

static void on_fault(int sig)
{
	siglongjmp(fault_jump, 1);
}

struct reader {
	const struct raw_fw *fw;
	bool reads, faulted, zeros, over;
	int enter, revents;
	pthread_t thread;
};

/*
 * Reads as fast as it can until the session is over: until it is told so, or until its memory is
 * gone, of which it must have been told before.
 */
static void *reader_run(void *arg)
{
	struct reader *r = arg;
	struct vnpu_fw_enter enter = { .flags = VNPU_FW_ENTER_COMPLETE };
	struct pollfd p = { .fd = r->fw->fd, .events = POLLIN };

	if (sigsetjmp(fault_jump, 1)) {
		r->faulted = true;
	} else {
		for (;;) {
			uint32_t over = __atomic_load_n(&r->fw->info->over, __ATOMIC_ACQUIRE);
			uint32_t type = ((const volatile struct vnpu_fw_sqe *)r->fw->sq)->type;

			__atomic_store_n(&r->reads, true, __ATOMIC_RELEASE);
			if (over) {
				r->over = true;
				break;
			}
			/* The ring's first entry is a job, and stays one during the session. */
			r->zeros = r->zeros || type != VNPU_FW_SQE_JOB;
		}
	}
	r->enter = raw_ioctl(r->fw->fd, VNPU_FW_ENTER, &enter);
	poll(&p, 1, 0);
	r->revents = p.revents;
	return NULL;
}

static void reader_start(struct reader *r, const struct raw_fw *fw)
{
	struct sigaction sa = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	sigaction(SIGBUS, &sa, NULL);
	*r = (struct reader){ .fw = fw };
	assert_int_equal(pthread_create(&r->thread, NULL, reader_run, r), 0);
	while (!__atomic_load_n(&r->reads, __ATOMIC_ACQUIRE))
		usleep(50);
}

static void reader_end(struct reader *r, int error)
{
	pthread_join(r->thread, NULL);
	assert_false(r->zeros);
	assert_true(r->faulted || r->over);
	assert_int_equal(r->enter, error);
	assert_true(r->revents & POLLHUP);
}

/* A job whose entry is the first in the ring. */
static void fill_ring(struct bench *b)
{
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	raw_fw_expect(&b->fw, VNPU_FW_SQE_JOB);
}

static void bench_again(struct bench *b)
{
	b->fd = raw_client(b->fw.minor);
	b->ctx = raw_ctx(b->fd);
	b->q = raw_queue_full(b->fd, b->ctx, 4);
}

static void a_firmware_that_is_reset_is_told_before_its_memory_is_revoked(void **state)
{
	struct bench *b = bench(state);
	int dir = debugfs_dir(b->fw.minor), told = 0, reset;

	if (dir < 0)
		skip();
	reset = openat(dir, "force_reset", O_WRONLY | O_CLOEXEC);
	assert_true(reset >= 0);
	for (int i = 0; i < 60; i++) {
		struct reader r;

		fill_ring(b);
		reader_start(&r, &b->fw);
		assert_int_equal(write(reset, "1", 1), 1);
		reader_end(&r, -EIO);
		told += r.over;
		close(b->fd);
		raw_fw_die(&b->fw);
		assert_int_equal(raw_fw_attach(&b->fw), 0);
		raw_fw_start(&b->fw);
		bench_again(b);
	}
	print_message("%d of 60 were told by the info page\n", told);
	close(reset);
	close(dir);
}

static void a_firmware_whose_device_is_deleted_is_told_before_its_memory_is_revoked(void **state)
{
	struct bench *b = bench(state);

	for (int i = 0; i < 30; i++) {
		struct reader r;

		fill_ring(b);
		reader_start(&r, &b->fw);
		assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
		reader_end(&r, -ENODEV);
		close(b->fd);
		raw_fw_die(&b->fw);
		raw_fw_add(&b->fw, NULL);
		bench_again(b);
	}
}

/* ---- sleepers in ENTER ---- */

static void *sleeper_run(void *arg)
{
	struct raw_fw *fw = arg;
	struct vnpu_fw_enter enter = { .flags = VNPU_FW_ENTER_WAIT,
				       .sq_seen = fw->sq_head,
				       .timeout_ns = -1 };

	return (void *)(intptr_t)raw_ioctl(fw->fd, VNPU_FW_ENTER, &enter);
}

static void a_firmware_that_sleeps_is_woken_when_its_device_is_deleted(void **state)
{
	struct bench *b = bench(state);
	pthread_t thread;
	void *ret;

	assert_int_equal(pthread_create(&thread, NULL, sleeper_run, &b->fw), 0);
	usleep(50000);
	assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
	pthread_join(thread, &ret);
	assert_int_equal((intptr_t)ret, -ENODEV);
	raw_fw_die(&b->fw);
	close(b->fd);
	raw_fw_add(&b->fw, NULL);
	b->fd = -1;
}

/* ---- every order of ends ---- */

enum end { END_CLIENT, END_CLIENT_MAPS, END_FW, END_FW_MAPS, END_DEVICE, NR_ENDS };

static const char *const names[NR_ENDS] = { "client", "its mappings", "firmware fd", "its mappings",
					    "device" };

struct scene {
	struct raw_fw fw;
	int fd;
	uint32_t ctx;
	struct drm_vnpu_queue_create q;
	const struct drm_vnpu_queue_status *page;
	uint8_t *mem, *aperture;
};

/* Everything at once: mapped memory, a status page, jobs in the ring, waiting jobs, a fence. */
static void scene_make(struct scene *s)
{
	struct drm_vnpu_sync_op out = { .flags = DRM_VNPU_SYNC_SIGNAL };
	uint32_t bo, q2;
	struct drm_vnpu_job job;

	raw_fw_add(&s->fw, NULL);
	s->fd = raw_client(s->fw.minor);
	s->ctx = raw_ctx(s->fd);
	s->q = raw_queue_full(s->fd, s->ctx, 4);
	s->page = raw_queue_status(s->fd, &s->q);
	bo = raw_bo(s->fd, PAGE);
	s->mem = raw_bo_map(s->fd, bo);
	assert_int_equal(raw_bind(s->fd, s->ctx, bo, VA, PAGE, 0), 0);
	s->aperture = raw_fw_map(s->fw.fd, (1ull << 32) + VA, PAGE, PROT_READ | PROT_WRITE);
	assert_non_null(s->aperture);
	s->mem[0] = s->aperture[0] + s->page->epoch;
	q2 = raw_queue(s->fd, s->ctx);
	out.handle = raw_syncobj(s->fd);
	job = raw_job(q2);
	raw_job_syncs(&job, &out, 1);
	assert_int_equal(raw_submit_jobs(s->fd, s->ctx, &job, 1), 0);
	out.flags = 0;
	for (int i = 0; i < 8; i++) {
		job = raw_job(i % 2 ? q2 : s->q.queue_id);
		if (i == 2)
			raw_job_syncs(&job, &out, 1);
		assert_int_equal(raw_submit_jobs(s->fd, s->ctx, &job, 1), 0);
	}
}

static void scene_end(struct scene *s, enum end what)
{
	switch (what) {
	case END_CLIENT:
		close(s->fd);
		break;
	case END_CLIENT_MAPS:
		munmap((void *)s->page, PAGE);
		munmap(s->mem, PAGE);
		break;
	case END_FW:
		close(s->fw.fd);
		break;
	case END_FW_MAPS:
		raw_fw_unmap(&s->fw);
		munmap(s->aperture, PAGE);
		break;
	default:
		assert_int_equal(raw_del_dev(s->fw.dev_id), 0);
	}
}

/* Checks that the remaining parts of the client report what has ended. */
static void scene_look(struct scene *s, const bool *gone)
{
	struct drm_vnpu_wait wait = { .queue_id = s->q.queue_id,
				      .seqno = 1,
				      .timeout_ns = INT64_MAX };
	bool session = !gone[END_DEVICE] && !(gone[END_FW] && gone[END_FW_MAPS]);
	struct drm_vnpu_ctx_create create = { 0 };
	int ret;

	if (!gone[END_CLIENT_MAPS] && !gone[END_DEVICE])
		s->mem[1]++;
	if (gone[END_CLIENT])
		return;
	ret = raw_ioctl(s->fd, DRM_IOCTL_VNPU_CTX_CREATE, &create);
	assert_int_equal(ret, gone[END_DEVICE] ? -ENODEV : session ? 0 : -EBUSY);
	if (!session && !gone[END_DEVICE]) {
		assert_int_equal(raw_ioctl(s->fd, DRM_IOCTL_VNPU_WAIT, &wait), 0);
		assert_int_equal(wait.status, -EIO);
	}
}

static void assert_new_device_works(void)
{
	uint32_t ctx, queue;
	struct raw_fw fw;
	int fd;

	raw_fw_add(&fw, NULL);
	fd = raw_client(fw.minor);
	ctx = raw_ctx(fd);
	queue = raw_queue(fd, ctx);
	raw_submit(fd, ctx, queue);
	raw_fw_serve(&fw, VNPU_FW_OK);
	assert_int_equal(raw_result(fd, queue, 1), 0);
	close(fd);
	raw_fw_remove(&fw);
}

static unsigned int orders;

static void try_orders(enum end *order, int depth, bool *used)
{
	if (depth == NR_ENDS) {
		bool gone[NR_ENDS] = { false };
		struct scene s;

		scene_make(&s);
		for (int i = 0; i < NR_ENDS; i++) {
			scene_end(&s, order[i]);
			gone[order[i]] = true;
			scene_look(&s, gone);
		}
		assert_new_device_works();
		orders++;
		return;
	}
	for (enum end e = 0; e < NR_ENDS; e++) {
		if (used[e])
			continue;
		used[e] = true;
		order[depth] = e;
		try_orders(order, depth + 1, used);
		used[e] = false;
	}
}

static void client_firmware_mappings_and_device_may_end_in_any_order(void **state)
{
	enum end order[NR_ENDS];
	bool used[NR_ENDS] = { false };

	if (access(RAW_CONTROL, R_OK | W_OK))
		skip();
	orders = 0;
	try_orders(order, 0, used);
	print_message("%u orders of the ends of:", orders);
	for (int i = 0; i < NR_ENDS; i++)
		print_message(" %s%s", names[i], i + 1 < NR_ENDS ? "," : "\n");
	assert_int_equal(orders, 120);
}

static void a_firmware_that_was_reset_maps_no_context_of_the_next_one(void **state)
{
	struct bench *b = bench(state);
	int dir = debugfs_dir(b->fw.minor), reset;
	struct raw_fw old = b->fw;
	struct vnpu_fw_sqe sqe;
	uint64_t aperture;

	if (dir < 0)
		skip();
	reset = openat(dir, "force_reset", O_WRONLY | O_CLOEXEC);
	assert_true(reset >= 0);
	assert_int_equal(write(reset, "1", 1), 1);
	close(b->fd);
	assert_int_equal(raw_fw_attach(&b->fw), 0);
	raw_fw_start(&b->fw);
	bench_again(b);
	raw_submit(b->fd, b->ctx, b->q.queue_id);
	sqe = raw_fw_serve(&b->fw, VNPU_FW_OK);
	aperture = (uint64_t)sqe.ctx << b->fw.info->va_bits;
	/* The first one's file is still open. */
	assert_null(raw_fw_map(old.fd, aperture, PAGE, PROT_READ));
	assert_int_equal(errno, ENODEV);
	assert_non_null(raw_fw_map(b->fw.fd, aperture, PAGE, PROT_READ));
	raw_fw_die(&old);
	close(reset);
	close(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(a_firmware_that_was_reset_maps_no_context_of_the_next_one),
		BENCH_TEST(a_firmware_that_is_reset_is_told_before_its_memory_is_revoked),
		BENCH_TEST(a_firmware_whose_device_is_deleted_is_told_before_its_memory_is_revoked),
		BENCH_TEST(a_firmware_that_sleeps_is_woken_when_its_device_is_deleted),
		cmocka_unit_test(client_firmware_mappings_and_device_may_end_in_any_order),
	};

	return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
