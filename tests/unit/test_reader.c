// SPDX-License-Identifier: MIT
/*
 * The reader of a start's weights: every part's bytes, from storage, from the page cache or through
 * it, whoever releases them; at most a ring of them at a time; files that have become shorter.
 * TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "reader.h"
#include "tiny_random.h"

#define FILE_BYTES (3u << 20)
#define FILES 2
#define MAX_PARTS 200

/* Files of random bytes, and parts of them in any order that may overlap. */
struct fixture {
	char path[FILES][32];
	uint8_t *bytes[FILES];
	struct reader_file files[FILES];
	struct reader_part parts[MAX_PARTS];
	uint32_t nr;
};

static void file_make(struct fixture *f, uint32_t file)
{
	uint8_t *bytes = malloc(FILE_BYTES);
	int fd;

	strcpy(f->path[file], "/tmp/test_reader-XXXXXX");
	fd = mkstemp(f->path[file]);
	assert_true(fd >= 0);
	f->bytes[file] = bytes;
	for (size_t i = 0; i < FILE_BYTES; i += 8)
		memcpy(bytes + i, &(uint64_t){ random_u64(&seed_state) }, 8);
	assert_int_equal(write(fd, bytes, FILE_BYTES), FILE_BYTES);
	assert_int_equal(fsync(fd), 0);
	f->files[file] = (struct reader_file){
		.fd = fd,
		.map = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, fd, 0),
		.bytes = FILE_BYTES,
	};
	assert_true(f->files[file].map != MAP_FAILED);
}

static void fixture_make(struct fixture *f)
{
	for (uint32_t file = 0; file < FILES; file++)
		file_make(f, file);
	f->nr = any(1, MAX_PARTS);
	for (uint32_t i = 0; i < f->nr; i++) {
		uint32_t bytes = any(1, any(0, 1) ? 100 : 100000);

		f->parts[i] = (struct reader_part){ any(0, FILES - 1), any(0, FILE_BYTES - bytes),
						    bytes, NULL };
	}
	/* The last bytes are no whole page of a direct read. */
	f->parts[f->nr - 1] = (struct reader_part){ any(0, FILES - 1), FILE_BYTES - 77, 77, NULL };
}

static void fixture_drop(const struct fixture *f)
{
	for (int i = 0; i < FILES; i++) {
		madvise((void *)f->files[i].map, FILE_BYTES, MADV_DONTNEED);
		posix_fadvise(f->files[i].fd, 0, 0, POSIX_FADV_DONTNEED);
	}
}

/* Leaves about half of each file in the page cache. */
static void fixture_drop_some(const struct fixture *f)
{
	for (int i = 0; i < FILES; i++) {
		madvise((void *)f->files[i].map, FILE_BYTES, MADV_DONTNEED);
		for (uint32_t at = 0; at < FILE_BYTES; at += 65536)
			if (any(0, 1))
				posix_fadvise(f->files[i].fd, at, 65536, POSIX_FADV_DONTNEED);
	}
}

static void fixture_free(struct fixture *f)
{
	for (int i = 0; i < FILES; i++) {
		munmap((void *)f->files[i].map, FILE_BYTES);
		close(f->files[i].fd);
		unlink(f->path[i]);
		free(f->bytes[i]);
	}
}

/* Part @i by another way. */
static const uint8_t *want(const struct fixture *f, uint32_t i)
{
	return f->bytes[f->parts[i].file] + f->parts[i].offset;
}

/* Reads all parts, and releases each when up to @held others have been read after it. */
static void read_all(struct fixture *f, uint32_t held, struct reader_stats *stats)
{
	const void *data[MAX_PARTS];
	struct reader *r;

	assert_int_equal(reader_open(f->files, FILES, f->parts, f->nr, &r), 0);
	for (uint32_t i = 0; i < f->nr + held; i++) {
		if (i < f->nr)
			assert_int_equal(reader_wait(r, i, &data[i]), 0);
		if (i < f->nr && f->parts[i].at)
			assert_ptr_equal(data[i], f->parts[i].at);
		if (i < held)
			continue;
		assert_memory_equal(data[i - held], want(f, i - held), f->parts[i - held].bytes);
		reader_release(r, i - held);
	}
	reader_stats(r, stats);
	reader_close(r);
}

static uint64_t all_bytes(const struct fixture *f)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < f->nr; i++)
		bytes += f->parts[i].bytes;
	return bytes;
}

static void every_part_has_its_bytes(void **state)
{
	uint64_t read = 0, cached = 0;

	for (int round = 0; round < 20; round++) {
		struct reader_stats stats;
		struct fixture f;
		uint32_t held;

		fixture_make(&f);
		for (uint32_t i = 0; i < f.nr; i++)
			if (any(0, round % 3) > 1)
				f.parts[i].at = (const uint8_t *)f.files[f.parts[i].file].map +
						f.parts[i].offset;
		if (round % 4 == 1)
			fixture_drop(&f);
		if (round % 4 == 3)
			fixture_drop_some(&f);
		held = round % 4 == 3 ? READER_RING - 1 : any(0, READER_RING - 1);
		read_all(&f, f.nr < READER_RING ? 0 : held, &stats);
		assert_int_equal(stats.direct_bytes + stats.buffered_bytes + stats.cached_bytes,
				 all_bytes(&f));
		assert_true(stats.ring_bytes <= READER_RING * (100000 + 3 * 4096) + (2 << 20));
		assert_in_range(stats.peak_bytes, 0, stats.ring_bytes);
		/* Without places all is copied. */
		if (!(round % 3))
			assert_true(stats.peak_bytes > 0);
		read += stats.direct_bytes + stats.buffered_bytes;
		cached += stats.cached_bytes;
		fixture_free(&f);
	}
	printf("%llu bytes read, %llu found in the page cache\n", (unsigned long long)read,
	       (unsigned long long)cached);
	assert_true(cached > 0);
}

/* Reads past the page cache run ahead, but leave the buffers that parts before them need. */
static void cached_parts_have_buffers_before_later_ones(void **state)
{
	const uint32_t cached = any(1, READER_RING - 1);
	struct reader_stats stats;
	struct fixture f;

	fixture_make(&f);
	f.nr = 3 * READER_RING;
	for (uint32_t i = 0; i < f.nr; i++)
		f.parts[i] = (struct reader_part){ i >= cached, i * 50000, 50000, NULL };
	madvise((void *)f.files[1].map, FILE_BYTES, MADV_DONTNEED);
	posix_fadvise(f.files[1].fd, 0, 0, POSIX_FADV_DONTNEED);
	read_all(&f, READER_RING - 1, &stats);
	assert_in_range(stats.cached_bytes, cached * 50000, all_bytes(&f));
	fixture_free(&f);
}

static void so_it_has_without_direct_reads(void **state)
{
	struct rlimit limit, none;
	struct reader_stats stats;
	struct fixture f;

	fixture_make(&f);
	fixture_drop(&f);
	/* No second descriptor can be had, or one and no more. */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ any(0, 1) ? 3 : (rlim_t)f.files[1].fd + 2, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	read_all(&f, any(0, f.nr < READER_RING ? f.nr - 1 : READER_RING - 1), &stats);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(stats.direct_bytes, 0);
	assert_int_equal(stats.buffered_bytes + stats.cached_bytes, all_bytes(&f));
	fixture_free(&f);
}

struct releaser {
	struct reader *r;
	atomic_uint read;
	uint32_t nr;
};

static void *release(void *arg)
{
	struct releaser *rel = arg;

	for (uint32_t i = 0; i < rel->nr;)
		if (i < atomic_load(&rel->read))
			reader_release(rel->r, i++);
	return NULL;
}

static void another_thread_may_release(void **state)
{
	struct releaser rel;
	struct fixture f;
	pthread_t thread;

	fixture_make(&f);
	fixture_drop(&f);
	assert_int_equal(reader_open(f.files, FILES, f.parts, f.nr, &rel.r), 0);
	rel.nr = f.nr;
	atomic_init(&rel.read, 0);
	assert_int_equal(pthread_create(&thread, NULL, release, &rel), 0);
	for (uint32_t i = 0; i < f.nr; i++) {
		const void *data;

		while (reader_wait(rel.r, i, &data) == -ENOBUFS)
			assert_true(i >= READER_RING);
		assert_memory_equal(data, want(&f, i), f.parts[i].bytes);
		atomic_store(&rel.read, i + 1);
	}
	pthread_join(thread, NULL);
	reader_close(rel.r);
	fixture_free(&f);
}

static void a_read_part_can_be_waited_for_again(void **state)
{
	for (int direct = 0; direct < 2; direct++) {
		const void *first, *again;
		struct rlimit limit;
		struct fixture f;
		struct reader *r;

		fixture_make(&f);
		fixture_drop(&f);
		assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
		if (!direct)
			setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 3, limit.rlim_max });
		assert_int_equal(reader_open(f.files, FILES, f.parts, f.nr, &r), 0);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		assert_int_equal(reader_wait(r, 0, &first), 0);
		assert_int_equal(reader_wait(r, 0, &again), 0);
		assert_ptr_equal(again, first);
		assert_memory_equal(again, want(&f, 0), f.parts[0].bytes);
		reader_close(r);
		fixture_free(&f);
	}
}

static void a_file_that_has_become_shorter_is_an_io_error(void **state)
{
	const void *data;
	struct fixture f;
	struct reader *r;

	fixture_make(&f);
	fixture_drop(&f);
	f.parts[0] = (struct reader_part){ 0, FILE_BYTES - 5000, 5000, NULL };
	assert_int_equal(ftruncate(f.files[0].fd, FILE_BYTES - 1), 0);
	fixture_drop(&f);
	assert_int_equal(reader_open(f.files, FILES, f.parts, 1, &r), 0);
	assert_int_equal(reader_wait(r, 0, &data), -EIO);
	reader_close(r);
	fixture_free(&f);
}

static void so_is_one_that_is_read_in_place(void **state)
{
	const void *data;
	struct fixture f;
	struct reader *r;

	fixture_make(&f);
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t offset = FILE_BYTES - 5000 * (2 - i);

		f.parts[i] = (struct reader_part){ 0, offset, 5000,
						   (const uint8_t *)f.files[0].map + offset };
	}
	assert_int_equal(reader_open(f.files, FILES, f.parts, 2, &r), 0);
	assert_int_equal(reader_wait(r, 0, &data), 0);
	reader_release(r, 0);
	assert_int_equal(ftruncate(f.files[0].fd, FILE_BYTES - 4096), 0);
	assert_int_equal(reader_wait(r, 1, &data), -EIO);
	reader_close(r);
	fixture_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_part_has_its_bytes),
		cmocka_unit_test(cached_parts_have_buffers_before_later_ones),
		cmocka_unit_test(so_it_has_without_direct_reads),
		cmocka_unit_test(another_thread_may_release),
		cmocka_unit_test(a_read_part_can_be_waited_for_again),
		cmocka_unit_test(a_file_that_has_become_shorter_is_an_io_error),
		cmocka_unit_test(so_is_one_that_is_read_in_place),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
