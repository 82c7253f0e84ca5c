// SPDX-License-Identifier: MIT
/*
 * The aperture: what a firmware sees of a context's memory. The test plays the firmware and reads
 * and writes through the aperture like a device, counting the faults.
 */
#include <sched.h>
#include <sys/wait.h>

#include "aperture.h"

#define VA 0x100000ull

static void both_sides_see_each_other_s_writes(void **state)
{
	struct bench *b = bench(state);
	enum { SIZE = 200 * 4096 };
	uint32_t handle = raw_bo(b->fd, SIZE);
	uint8_t *mem = raw_bo_map(b->fd, handle),
		*ap = aperture(b, ctx_number(b, b->ctx, b->q.queue_id));

	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, SIZE, 0), 0);
	for (int i = 0; i < SIZE; i += 509)
		mem[i] = i * 7;
	for (int i = 0; i < SIZE; i += 509)
		assert_int_equal(ap[VA + i], (uint8_t)(i * 7));
	for (int i = 0; i < SIZE; i += 251)
		ap[VA + i] = i * 13;
	for (int i = 0; i < SIZE; i += 251)
		assert_int_equal(mem[i], (uint8_t)(i * 13));
	munmap(ap, SPAN);
	munmap(mem, SIZE);
}

static void an_offset_into_the_buffer_is_honoured(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, 8 * PAGE);
	uint8_t *mem = raw_bo_map(b->fd, handle),
		*ap = aperture(b, ctx_number(b, b->ctx, b->q.queue_id));
	struct drm_vnpu_bind_op op = {
		.handle = handle, .bo_offset = 3 * PAGE, .va = VA, .size = 2 * PAGE
	};

	for (unsigned int i = 0; i < 8; i++)
		mem[i * PAGE] = i + 1;
	assert_int_equal(raw_bind_ops(b->fd, b->ctx, &op, 1), 0);
	assert_int_equal(peek(ap + VA - 1), -1);
	assert_int_equal(peek(ap + VA), 4);
	assert_int_equal(peek(ap + VA + PAGE), 5);
	assert_int_equal(peek(ap + VA + 2 * PAGE), -1);
	munmap(ap, SPAN);
	munmap(mem, 8 * PAGE);
}

static void access_to_unbound_memory_faults(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, 2 * PAGE);
	uint8_t *ap = aperture(b, ctx_number(b, b->ctx, b->q.queue_id));

	assert_int_equal(peek(ap), -1);
	assert_int_equal(peek(ap + VA), -1);
	assert_false(poke(ap + VA, 1));
	assert_int_equal(peek(ap + SPAN - 1), -1);
	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, 2 * PAGE, 0), 0);
	assert_int_equal(peek(ap + VA), 0);
	assert_true(poke(ap + VA + 2 * PAGE - 1, 9));
	assert_int_equal(peek(ap + VA + 2 * PAGE), -1);
	munmap(ap, SPAN);
}

static void a_read_only_binding_refuses_writes_and_stays_readable(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, PAGE);
	uint8_t *mem = raw_bo_map(b->fd, handle),
		*ap = aperture(b, ctx_number(b, b->ctx, b->q.queue_id));

	mem[5] = 55;
	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, PAGE, DRM_VNPU_BIND_READ_ONLY), 0);
	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA + PAGE, PAGE, 0), 0);
	assert_false(poke(ap + VA + 5, 1));
	assert_int_equal(peek(ap + VA + 5), 55);
	/* The page is present now, which takes another path in the kernel. */
	assert_false(poke(ap + VA + 5, 1));
	assert_int_equal(peek(ap + VA + 5), 55);
	assert_int_equal(mem[5], 55);
	/* The same page through its other binding. */
	assert_true(poke(ap + VA + PAGE + 5, 56));
	assert_int_equal(peek(ap + VA + 5), 56);
	munmap(ap, SPAN);
	munmap(mem, PAGE);
}

static void unbinding_and_closing_remove_the_pages(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, 4 * PAGE);
	uint8_t *ap = aperture(b, ctx_number(b, b->ctx, b->q.queue_id));

	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, 4 * PAGE, 0), 0);
	raw_bo_close(b->fd, handle);
	assert_true(poke(ap + VA, 1));
	assert_int_equal(raw_unbind(b->fd, b->ctx, VA, 4 * PAGE), 0);
	assert_int_equal(peek(ap + VA), -1);
	assert_false(poke(ap + VA, 1));
	handle = raw_bo(b->fd, PAGE);
	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, PAGE, 0), 0);
	/* A new buffer has nothing of the old one. */
	assert_int_equal(peek(ap + VA), 0);
	assert_int_equal(raw_ctx_destroy(b->fd, b->ctx), 0);
	assert_int_equal(peek(ap + VA), -1);
	munmap(ap, SPAN);
}

static void contexts_do_not_see_one_another(void **state)
{
	struct bench *b = bench(state);
	uint32_t ctx2 = raw_ctx(b->fd), q2 = raw_queue(b->fd, ctx2);
	uint32_t x = raw_bo(b->fd, PAGE), y = raw_bo(b->fd, PAGE);
	uint8_t *one = aperture(b, ctx_number(b, b->ctx, b->q.queue_id)),
		*two = aperture(b, ctx_number(b, ctx2, q2));

	assert_int_equal(raw_bind(b->fd, b->ctx, x, VA, PAGE, 0), 0);
	assert_int_equal(peek(two + VA), -1);
	assert_int_equal(raw_bind(b->fd, ctx2, y, VA, PAGE, 0), 0);
	assert_true(poke(one + VA, 1));
	assert_int_equal(peek(two + VA), 0);
	assert_true(poke(two + VA, 2));
	assert_int_equal(peek(one + VA), 1);
	munmap(one, SPAN);
	munmap(two, SPAN);
}

static void apertures_and_rings_are_mapped_only_as_they_should(void **state)
{
	struct bench *b = bench(state);
	uint32_t num = ctx_number(b, b->ctx, b->q.queue_id);
	uint64_t at = (uint64_t)num << 32, end = b->fw.info->status_offset + b->fw.status_size;
	int fd = b->fw.fd;
	uint8_t *p;

	/* This context no longer exists. */
	assert_null(raw_fw_map(fd, 8ull << 32, PAGE, PROT_READ));
	assert_null(raw_fw_map(fd, 9ull << 32, PAGE, PROT_READ)); /* this number does not exist */
	assert_null(raw_fw_map(fd, 1ull << 50, PAGE, PROT_READ));
	assert_null(raw_fw_map(fd, at + SPAN - PAGE, 2 * PAGE, PROT_READ));
	assert_null(raw_fw_map(fd, at, PAGE, PROT_READ | PROT_EXEC));
	assert_ptr_equal(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, at), MAP_FAILED);
	assert_null(raw_fw_map(fd, 0, PAGE, PROT_READ | PROT_WRITE));
	assert_null(raw_fw_map(fd, b->fw.info->sq_offset, PAGE, PROT_READ | PROT_WRITE));
	/* Parts may be mapped together, but the kernel's own parts stay read-only. */
	assert_null(raw_fw_map(fd, 0, end + PAGE, PROT_READ));
	assert_null(raw_fw_map(fd, 0, end, PROT_READ | PROT_WRITE));
	p = raw_fw_map(fd, 0, end, PROT_READ);
	if (p) {
		assert_int_equal(mprotect(p, end, PROT_READ | PROT_WRITE), -1);
		munmap(p, end);
	}
	assert_null(raw_fw_map(fd, b->fw.info->status_offset + b->fw.status_size, PAGE, PROT_READ));
	assert_int_equal(mprotect((void *)b->fw.info, PAGE, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(mprotect((void *)b->fw.sq, PAGE, PROT_READ | PROT_WRITE), -1);
	/* mprotect() would make page table entries differ from the bindings. */
	p = raw_fw_map(fd, at, 4 * PAGE, PROT_READ | PROT_WRITE);
	assert_non_null(p);
	assert_int_equal(mprotect(p, PAGE, PROT_READ), -1);
	munmap(p, 4 * PAGE);
}

static void a_part_of_an_aperture_can_be_mapped_split_and_unmapped(void **state)
{
	struct bench *b = bench(state);
	uint32_t num = ctx_number(b, b->ctx, b->q.queue_id), handle = raw_bo(b->fd, 16 * PAGE);
	uint8_t *mem = raw_bo_map(b->fd, handle), *p;

	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, 16 * PAGE, 0), 0);
	for (unsigned int i = 0; i < 16; i++)
		mem[i * PAGE] = i + 1;
	p = raw_fw_map(b->fw.fd, ((uint64_t)num << 32) + VA + 4 * PAGE, 8 * PAGE,
		       PROT_READ | PROT_WRITE);
	assert_non_null(p);
	assert_int_equal(peek(p), 5);
	munmap(p + 2 * PAGE, 2 * PAGE);
	assert_int_equal(peek(p + PAGE), 6);
	assert_int_equal(peek(p + 7 * PAGE), 12);
	assert_int_equal(raw_unbind(b->fd, b->ctx, VA, 16 * PAGE), 0);
	assert_int_equal(peek(p), -1);
	assert_int_equal(peek(p + 7 * PAGE), -1);
	munmap(p, 2 * PAGE);
	munmap(p + 4 * PAGE, 4 * PAGE);
	munmap(mem, 16 * PAGE);
}

static void system_calls_cannot_access_unbound_memory_either(void **state)
{
	struct bench *b = bench(state);
	uint32_t num = ctx_number(b, b->ctx, b->q.queue_id), handle = raw_bo(b->fd, PAGE);
	uint8_t *ap = aperture(b, num);
	int zero = open("/dev/zero", O_RDONLY);

	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, PAGE, 0), 0);
	assert_int_equal(read(zero, ap + VA, PAGE), PAGE);
	assert_int_equal(read(zero, ap + VA + PAGE, PAGE), -1);
	assert_int_equal(errno, EFAULT);
	close(zero);
	munmap(ap, SPAN);
}

static void a_lost_session_s_mappings_fault(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, PAGE);
	uint8_t *ap = aperture(b, ctx_number(b, b->ctx, b->q.queue_id));

	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, PAGE, 0), 0);
	assert_true(poke(ap + VA, 1));
	assert_int_equal(raw_del_dev(b->fw.dev_id), 0);
	assert_int_equal(peek(ap + VA), -1);
	assert_int_equal(peek((uint8_t *)b->fw.info), -1);
	assert_false(poke((uint8_t *)b->fw.ctl, 1));
	munmap(ap, SPAN);
	raw_fw_die(&b->fw);
	close(b->fd);
	b->fd = -1;
	raw_fw_add(&b->fw, NULL);
}

static void a_child_of_the_firmware_inherits_no_aperture(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = raw_bo(b->fd, PAGE);
	uint8_t *ap = aperture(b, ctx_number(b, b->ctx, b->q.queue_id));
	int status;
	pid_t pid;

	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, PAGE, 0), 0);
	assert_true(poke(ap + VA, 1));
	pid = fork();
	if (!pid)
		_exit(peek(ap + VA) == -1 ? 0 : 1);
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	munmap(ap, SPAN);
}

/* ---- a device that reads memory all the time while a client binds and unbinds ---- */

struct hammer {
	uint8_t *ap;
	volatile uint64_t round; /* the value that may be read now */
	bool stop;
	uint64_t stale, seen, faults;
};

/*
 * Each round's buffer holds the round's number. A value older than the round that had begun before
 * the read comes from a page that should be gone.
 */
static void *hammer(void *arg)
{
	struct hammer *h = arg;

	while (!__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE)) {
		uint64_t before = __atomic_load_n(&h->round, __ATOMIC_ACQUIRE);
		volatile uint64_t v = 0;
		volatile bool ok = false;

		fault_armed = 1;
		if (!sigsetjmp(fault_jump, 0)) {
			v = *(volatile uint64_t *)(h->ap + VA);
			ok = true;
		}
		fault_armed = 0;
		if (!ok) {
			h->faults++;
			continue;
		}
		h->seen++;
		if (v && v < before)
			h->stale++;
	}
	return NULL;
}

static void no_stale_page_is_read_after_an_unbind(void **state)
{
	enum { KEPT = 32 };
	struct bench *b = bench(state);
	struct hammer h = { .ap = aperture(b, ctx_number(b, b->ctx, b->q.queue_id)) };
	uint32_t kept[KEPT] = { 0 };
	pthread_t thread;

	arm();
	assert_int_equal(pthread_create(&thread, NULL, hammer, &h), 0);
	for (uint64_t round = 1; round <= 300; round++) {
		uint32_t handle = raw_bo(b->fd, PAGE);
		uint64_t *mem = (uint64_t *)raw_bo_map(b->fd, handle);

		*mem = round;
		assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, PAGE, 0), 0);
		/* The previous buffer is gone since the last unbind has returned. */
		__atomic_store_n(&h.round, round, __ATOMIC_RELEASE);
		if (round % 4 == 0)
			usleep(1000);
		assert_int_equal(raw_unbind(b->fd, b->ctx, VA, PAGE), 0);
		munmap(mem, PAGE);
		/*
		 * Old buffers are kept for a while, so that a stale page shows its old number and
		 * not the next buffer's.
		 */
		if (kept[round % KEPT])
			raw_bo_close(b->fd, kept[round % KEPT]);
		kept[round % KEPT] = handle;
	}
	__atomic_store_n(&h.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	print_message("%llu reads, %llu faults\n", (unsigned long long)h.seen,
		      (unsigned long long)h.faults);
	assert_int_equal(h.stale, 0);
	assert_true(h.seen > 0);
	munmap(h.ap, SPAN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(both_sides_see_each_other_s_writes),
		BENCH_TEST(an_offset_into_the_buffer_is_honoured),
		BENCH_TEST(access_to_unbound_memory_faults),
		BENCH_TEST(a_read_only_binding_refuses_writes_and_stays_readable),
		BENCH_TEST(unbinding_and_closing_remove_the_pages),
		BENCH_TEST(contexts_do_not_see_one_another),
		BENCH_TEST(apertures_and_rings_are_mapped_only_as_they_should),
		BENCH_TEST(a_part_of_an_aperture_can_be_mapped_split_and_unmapped),
		BENCH_TEST(system_calls_cannot_access_unbound_memory_either),
		BENCH_TEST(a_lost_session_s_mappings_fault),
		BENCH_TEST(a_child_of_the_firmware_inherits_no_aperture),
		BENCH_TEST(no_stale_page_is_read_after_an_unbind),
	};

	return cmocka_run_group_tests_name("aperture", tests, NULL, NULL);
}
