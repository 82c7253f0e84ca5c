// SPDX-License-Identifier: MIT
/* Huge pages for what a KV cache holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache_pages.h"

#define HUGE (2ul << 20)
#define AREAS 3
#define ROW_BYTES 1024ul
#define STRIDE (5 * HUGE / 2)
#define BYTES (AREAS * STRIDE + HUGE)

/* A mapping whose first huge page begins a page behind its start. */
static uint8_t *map_cache(void)
{
	uint8_t *p = mmap(NULL, BYTES + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	assert_true(p != MAP_FAILED);
	return p + (-(uintptr_t)p % HUGE) + HUGE - 4096;
}

/* KiB of huge pages in the mapping that contains @at. */
static unsigned long huge_kib(const void *at)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long begin, end, kib, sum = 0;
	char line[512];
	int here = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
			here = (uintptr_t)at >= begin && (uintptr_t)at < end;
		if (here && sscanf(line, "AnonHugePages: %lu", &kib) == 1)
			sum += kib;
	}
	fclose(f);
	return sum;
}

/* Whether this host makes small pages a huge one when asked. */
static int host_collapses(void)
{
	uint8_t *p = map_cache() + 4096;
	int done;

	*p = 1;
	done = !madvise(p, HUGE, 25) && huge_kib(p) == HUGE >> 10;
	munmap(p, HUGE);
	return done;
}

static void write_rows(uint8_t *cache, unsigned int from, unsigned int to)
{
	for (size_t area = 0; area < AREAS; area++)
		for (size_t i = from * ROW_BYTES; i < to * ROW_BYTES; i++)
			cache[area * STRIDE + i] = (uint8_t)(area * 31 + i * 7 + i / 255);
}

static void check_rows(const uint8_t *cache, unsigned int rows)
{
	for (size_t area = 0; area < AREAS; area++)
		for (size_t i = 0; i < rows * ROW_BYTES; i++)
			if (cache[area * STRIDE + i] != (uint8_t)(area * 31 + i * 7 + i / 255))
				fail_msg("area %zu, byte %zu", area, i);
}

/*
 * Areas are 5 MiB, the first huge page begins at 4 KiB. Pages 0, 2, 4 and 5 have one of an area's
 * first rows. Page 3 begins with row 1028 of area 1, pages 1 and 6 with row 2052 of areas 0 and 2.
 * Pages are prepared for a multiple of 64 rows.
 */
static void pages_are_huge_before_their_first_row_is_written(void **state)
{
	static const struct {
		unsigned int rows, pages;
	} steps[] = { { 4, 4 }, { 1024, 4 }, { 1025, 5 }, { 2048, 5 }, { 2049, 7 }, { 5120, 7 } };
	const struct cache_layout l = { AREAS, STRIDE, ROW_BYTES };
	uint8_t *cache = map_cache();
	unsigned int rows = 0;
	struct cache_pages p;

	if (!host_collapses())
		skip();
	assert_int_equal(cache_pages_init(&p, cache, AREAS * STRIDE), 0);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		cache_pages_grow(&p, &l, steps[i].rows);
		assert_int_equal(huge_kib(cache), steps[i].pages * (HUGE >> 10));
		write_rows(cache, rows, steps[i].rows);
		rows = steps[i].rows;
		check_rows(cache, rows);
		assert_int_equal(huge_kib(cache), steps[i].pages * (HUGE >> 10));
	}
	cache_pages_fini(&p);
}

/* An earlier look may have come too late, and other rows are needed again after a truncation. */
static void rows_that_are_written_already_stay(void **state)
{
	const struct cache_layout l = { AREAS, STRIDE, ROW_BYTES };
	uint8_t *cache = map_cache();
	struct cache_pages p;

	if (!host_collapses())
		skip();
	assert_int_equal(cache_pages_init(&p, cache, AREAS * STRIDE), 0);
	write_rows(cache, 0, 3000);
	cache_pages_grow(&p, &l, 3000);
	assert_int_equal(huge_kib(cache), 7 * (HUGE >> 10));
	check_rows(cache, 3000);
	cache_pages_grow(&p, &l, 10);
	check_rows(cache, 3000);
	cache_pages_fini(&p);
}

static void memory_that_the_kernel_refuses_stays_as_it_is(void **state)
{
	const struct cache_layout l = { 1, 4 * HUGE, ROW_BYTES };
	FILE *file = tmpfile();
	struct cache_pages p;
	uint8_t *data;

	/* Pages of a file that is open for writing never become huge. */
	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), 5 * HUGE), 0);
	data = mmap(NULL, 5 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	assert_true(data != MAP_FAILED);
	memset(data, 7, 4 * HUGE);
	assert_int_equal(cache_pages_init(&p, data, 5 * HUGE), 0);
	for (unsigned int rows = 256; rows <= 8192; rows += 256)
		cache_pages_grow(&p, &l, rows);
	for (size_t i = 0; i < 4 * HUGE; i++)
		assert_int_equal(data[i], 7);
	cache_pages_fini(&p);
	munmap(data, 5 * HUGE);
	fclose(file);
}

static void memory_without_a_huge_page_or_none_at_all_is_left_alone(void **state)
{
	const struct cache_layout l = { AREAS, STRIDE, ROW_BYTES };
	uint8_t *cache = map_cache();
	struct cache_pages p;

	assert_int_equal(cache_pages_init(&p, cache, 4096 + HUGE - 1), 0);
	assert_int_equal(p.nr, 0);
	cache_pages_grow(&p, &l, 1536);
	cache_pages_fini(&p);
	assert_int_equal(cache_pages_init(&p, NULL, 0), 0);
	cache_pages_grow(&p, &l, 1536);
	cache_pages_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_are_huge_before_their_first_row_is_written),
		cmocka_unit_test(rows_that_are_written_already_stay),
		cmocka_unit_test(memory_that_the_kernel_refuses_stays_as_it_is),
		cmocka_unit_test(memory_without_a_huge_page_or_none_at_all_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
