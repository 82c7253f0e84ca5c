// SPDX-License-Identifier: MIT
/*
 * Large buffers in the aperture: huge pages of memory, mapped by one entry where they are bound
 * whole and aligned, and by small ones everywhere else. To the firmware there must be no difference
 * but the number of faults.
 */
#include <sys/resource.h>

#include "aperture.h"

#define HUGE (2ull << 20)
#define VA (4 * HUGE)
#define PAGES (HUGE / PAGE)

/* Whether this kernel makes huge pages at all. User-mode Linux and some configurations do not. */
static void need_huge_pages(void)
{
	char line[128] = "";
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

	if (f && !fgets(line, sizeof(line), f))
		line[0] = 0;
	if (f)
		fclose(f);
	if (!line[0] || strstr(line, "[never]")) {
		print_message("skipped: this kernel has no transparent huge pages\n");
		skip();
	}
}

static long faults_so_far(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* A buffer in whose pages the client has written their numbers, from 1 on. */
static uint32_t numbered(int fd, uint64_t pages)
{
	uint32_t handle = raw_bo(fd, pages * PAGE);
	uint8_t *mem = raw_bo_map(fd, handle);

	for (uint64_t i = 0; i < pages; i++)
		*(uint32_t *)(mem + i * PAGE) = (uint32_t)i + 1;
	munmap(mem, pages * PAGE);
	return handle;
}

/* Reads @pages pages at @p, which must hold numbers from @first on. Returns the faults. */
static long read_numbers(volatile uint8_t *p, uint64_t pages, uint32_t first)
{
	long before = faults_so_far();

	for (uint64_t i = 0; i < pages; i++)
		if (*(volatile uint32_t *)(p + i * PAGE) != first + i)
			fail_msg("page %llu holds %u, not %llu", (unsigned long long)i,
				 *(volatile uint32_t *)(p + i * PAGE),
				 (unsigned long long)(first + i));
	return faults_so_far() - before;
}

static void a_huge_page_takes_one_fault(void **state)
{
	enum { COUNT = 4 };
	struct bench *b = bench(state);
	uint8_t *ap;
	long faults;

	need_huge_pages();
	ap = aperture(b, ctx_number(b, b->ctx, b->q.queue_id));
	assert_int_equal((uintptr_t)ap % HUGE, 0);
	assert_int_equal(
		raw_bind(b->fd, b->ctx, numbered(b->fd, COUNT * PAGES), VA, COUNT * HUGE, 0), 0);
	faults = read_numbers(ap + VA, COUNT * PAGES, 1);
	print_message("%ld faults for %d huge pages\n", faults, COUNT);
	/* Small pages take 8 faults for each, as a fault maps 64 of them. */
	assert_true(faults <= COUNT + 2);
	/* Writable at once: what was mapped for reading does not fault again. */
	faults = faults_so_far();
	for (uint64_t i = 0; i < COUNT * PAGES; i++)
		ap[VA + i * PAGE] = 7;
	assert_true(faults_so_far() - faults <= 2);
	munmap(ap, SPAN);
}

static void a_read_only_huge_page_refuses_writes_and_stays_readable(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = numbered(b->fd, PAGES);
	uint8_t *ap = aperture(b, ctx_number(b, b->ctx, b->q.queue_id));

	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, HUGE, DRM_VNPU_BIND_READ_ONLY), 0);
	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA + HUGE, HUGE, 0), 0);
	assert_false(poke(ap + VA + PAGE, 77));
	assert_int_equal(peek(ap + VA + PAGE), 2);
	/* The page is present now, which takes another path in the kernel. */
	assert_false(poke(ap + VA + PAGE, 77));
	read_numbers(ap + VA, PAGES, 1);
	/* The same page through its other binding. */
	assert_true(poke(ap + VA + HUGE + PAGE, 78));
	assert_int_equal(peek(ap + VA + PAGE), 78);
	assert_false(poke(ap + VA + PAGE, 77));
	munmap(ap, SPAN);
}

static void an_unbound_huge_page_is_gone(void **state)
{
	struct bench *b = bench(state);
	uint32_t handle = numbered(b->fd, 2 * PAGES);
	uint8_t *ap = aperture(b, ctx_number(b, b->ctx, b->q.queue_id));

	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA, 2 * HUGE, 0), 0);
	raw_bo_close(b->fd, handle);
	read_numbers(ap + VA, 2 * PAGES, 1);
	assert_int_equal(raw_unbind(b->fd, b->ctx, VA, 2 * HUGE), 0);
	for (uint64_t i = 0; i < 2 * PAGES; i += 63)
		assert_int_equal(peek(ap + VA + i * PAGE), -1);
	/* A small buffer in its place has nothing of the old one. */
	handle = raw_bo(b->fd, PAGE);
	assert_int_equal(raw_bind(b->fd, b->ctx, handle, VA + PAGE, PAGE, 0), 0);
	assert_int_equal(peek(ap + VA), -1);
	assert_int_equal(peek(ap + VA + PAGE), 0);
	assert_int_equal(peek(ap + VA + 2 * PAGE), -1);
	munmap(ap, SPAN);
}

static void the_firmware_may_unmap_a_part_of_a_huge_page(void **state)
{
	struct bench *b = bench(state);
	uint32_t num = ctx_number(b, b->ctx, b->q.queue_id);
	uint8_t *ap = aperture(b, num), *hole = ap + VA + 100 * PAGE;

	assert_int_equal(raw_bind(b->fd, b->ctx, numbered(b->fd, 2 * PAGES), VA, 2 * HUGE, 0), 0);
	read_numbers(ap + VA, 2 * PAGES, 1);
	assert_int_equal(munmap(hole, 3 * PAGE), 0);
	read_numbers(ap + VA, 100, 1);
	read_numbers(hole + 3 * PAGE, 2 * PAGES - 103, 104);
	assert_int_equal(peek(hole), -1);
	assert_int_equal(peek(hole + 2 * PAGE), -1);
	/* Mapped again, the hole is a VMA of three pages amid a huge page. */
	assert_ptr_equal(mmap(hole, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			      b->fw.fd, (off_t)(((uint64_t)num << 32) + VA + 100 * PAGE)),
			 hole);
	read_numbers(ap + VA, 2 * PAGES, 1);
	assert_int_equal(raw_unbind(b->fd, b->ctx, VA, 2 * HUGE), 0);
	assert_int_equal(peek(hole), -1);
	assert_int_equal(peek(hole - PAGE), -1);
	munmap(ap, SPAN);
}

/* Maps an aperture from @offset on: where the kernel chooses, or at any page of free addresses. */
static uint8_t *map_anywhere(int fd, uint64_t offset, uint64_t size, unsigned int *seed)
{
	uint8_t *room, *p;

	if (rand_r(seed) % 2)
		return raw_fw_map(fd, offset, size, PROT_READ | PROT_WRITE);
	room = mmap(NULL, size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(room, MAP_FAILED);
	munmap(room, size + HUGE);
	p = mmap(room + rand_r(seed) % PAGES * PAGE, size, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, fd, (off_t)offset);
	return p == MAP_FAILED ? NULL : p;
}

/*
 * Buffers of any length, bound from any of their pages at any address, seen through apertures that
 * are mapped anywhere: what is bound can be read, and not a page more.
 */
static void any_size_offset_and_address_shows_the_right_pages(void **state)
{
	struct bench *b = bench(state);
	uint32_t num = ctx_number(b, b->ctx, b->q.queue_id);
	unsigned int seed = (unsigned int)raw_now_ns();

	print_message("seed %u\n", seed);
	for (int round = 0; round < 32; round++) {
		/* Half of them aligned in each respect, so that all pairs come up. */
		uint64_t pages = 1 + rand_r(&seed) % (3 * PAGES);
		uint64_t from = rand_r(&seed) % 2 ? 0 : rand_r(&seed) % pages;
		uint64_t nr = rand_r(&seed) % 2 ? pages - from : 1 + rand_r(&seed) % (pages - from);
		uint64_t va = VA + (rand_r(&seed) % 2 ? 0 : rand_r(&seed) % PAGES * PAGE);
		uint64_t skip = rand_r(&seed) % 2 ? 0 : rand_r(&seed) % PAGES * PAGE;
		uint32_t handle = numbered(b->fd, pages);
		bool read_only = rand_r(&seed) % 2;
		struct drm_vnpu_bind_op op = {
			.flags = read_only ? DRM_VNPU_BIND_READ_ONLY : 0,
			.handle = handle,
			.bo_offset = from * PAGE,
			.va = va,
			.size = nr * PAGE,
		};
		uint64_t size = 8 * HUGE;
		uint8_t *ap = map_anywhere(b->fw.fd, ((uint64_t)num << 32) + skip, size, &seed);

		assert_non_null(ap);
		assert_int_equal(raw_bind_ops(b->fd, b->ctx, &op, 1), 0);
		assert_int_equal(peek(ap + va - skip - 1), -1);
		read_numbers(ap + va - skip, nr, (uint32_t)from + 1);
		assert_int_equal(peek(ap + va - skip + nr * PAGE), -1);
		assert_int_equal(poke(ap + va - skip + nr / 2 * PAGE + 9, 1), !read_only);
		assert_int_equal(raw_unbind(b->fd, b->ctx, va, nr * PAGE), 0);
		assert_int_equal(peek(ap + va - skip + nr / 2 * PAGE), -1);
		munmap(ap, size);
		raw_bo_close(b->fd, handle);
	}
}

/* ---- a device that accesses memory all the time while a client replaces what is bound ---- */

struct hammer {
	uint8_t *ap;
	bool writes;
	volatile uint64_t round; /* the least value that may be read now */
	bool stop;
	uint64_t stale, seen;
};

static void *hammer(void *arg)
{
	struct hammer *h = arg;
	unsigned int seed = 1;

	while (!__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE)) {
		volatile uint64_t *p = (uint64_t *)(h->ap + VA + rand_r(&seed) % PAGES * PAGE);
		uint64_t before = __atomic_load_n(&h->round, __ATOMIC_ACQUIRE);
		volatile uint64_t v = 0;

		fault_armed = 1;
		if (!sigsetjmp(fault_jump, 0)) {
			v = *p;
			h->seen++;
			if (v < before)
				h->stale++;
			/* Faults where the binding is read-only. */
			if (h->writes)
				p[1] = v;
		}
		fault_armed = 0;
	}
	return NULL;
}

/*
 * One call unbinds a buffer and binds the next at the same address, now read-only and now not.
 * Faults in between find an entry of the buffer that has just lost its binding.
 */
static void no_stale_huge_page_is_read_after_a_replacement(void **state)
{
	struct bench *b = bench(state);
	struct hammer h[2] = { 0 };
	uint32_t kept[4] = { 0 };
	pthread_t threads[2];

	h[0].ap = aperture(b, ctx_number(b, b->ctx, b->q.queue_id));
	h[1].ap = h[0].ap;
	h[1].writes = true;
	arm();
	for (uint64_t round = 1; round <= 40; round++) {
		uint32_t handle = raw_bo(b->fd, HUGE);
		uint8_t *mem = raw_bo_map(b->fd, handle);
		struct drm_vnpu_bind_op ops[2] = {
			{ .op = DRM_VNPU_BIND_UNMAP, .va = VA, .size = HUGE },
			{ .handle = handle,
			  .flags = round % 3 ? 0 : DRM_VNPU_BIND_READ_ONLY,
			  .va = VA,
			  .size = HUGE },
		};
		bool first = round == 1;

		for (uint64_t i = 0; i < PAGES; i++)
			*(uint64_t *)(mem + i * PAGE) = round;
		assert_int_equal(raw_bind_ops(b->fd, b->ctx, ops + first, 2 - first), 0);
		for (int i = 0; i < 2; i++)
			__atomic_store_n(&h[i].round, round, __ATOMIC_RELEASE);
		for (int i = 0; i < 2 && first; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, hammer, &h[i]), 0);
		usleep(1000);
		munmap(mem, HUGE);
		if (kept[round % 4])
			raw_bo_close(b->fd, kept[round % 4]);
		kept[round % 4] = handle;
	}
	for (int i = 0; i < 2; i++) {
		__atomic_store_n(&h[i].stop, true, __ATOMIC_RELEASE);
		pthread_join(threads[i], NULL);
		print_message("%llu reads\n", (unsigned long long)h[i].seen);
		assert_int_equal(h[i].stale, 0);
		assert_true(h[i].seen > 0);
	}
	munmap(h[0].ap, SPAN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BENCH_TEST(a_huge_page_takes_one_fault),
		BENCH_TEST(a_read_only_huge_page_refuses_writes_and_stays_readable),
		BENCH_TEST(an_unbound_huge_page_is_gone),
		BENCH_TEST(the_firmware_may_unmap_a_part_of_a_huge_page),
		BENCH_TEST(any_size_offset_and_address_shows_the_right_pages),
		BENCH_TEST(no_stale_huge_page_is_read_after_a_replacement),
	};

	return cmocka_run_group_tests_name("aperture_huge", tests, NULL, NULL);
}
