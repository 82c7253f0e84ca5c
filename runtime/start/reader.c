// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Of offsets, lengths and addresses of direct reads. Devices ask for 512 or 4096. */
#define DIRECT_ALIGN 4096ull
/* A huge page: buffers of whole ones are touched once each. */
#define HUGE_PAGE (2ull << 20)
/* Reads under way: from 4 on, of 1 MiB and more, flash gives all its bandwidth. */
#define MAX_UNDER_WAY 8

enum state {
	PART_LATER, /* not asked for yet */
	PART_UNDER_WAY,
	PART_READ, /* in its buffer */
	PART_CACHED, /* is copied when it is waited for: a buffer is kept for it */
	PART_IN_PLACE, /* in a mapping of its own, or will be */
	PART_DONE, /* its buffer has been released */
};

struct part {
	enum state state;
	int16_t slot; /* -1: none */
	int32_t err; /* of its read; 0 or -errno */
};

struct reader {
	const struct reader_file *files;
	uint32_t nr_files;
	const struct reader_part *parts;
	uint32_t nr;
	pthread_mutex_t lock; /* of all that follows */
	struct part *state; /* by part */
	uint32_t next; /* the first part that is LATER */
	uint32_t nr_under_way;
	int *direct_fds; /* by file; NULL: no direct reads, and no ring */
	struct io_uring ring;
	uint8_t *buffers;
	size_t slot_bytes;
	unsigned int nr_slots;
	uint64_t free_slots; /* bits */
	unsigned int kept_slots; /* how many of them CACHED parts will take */
	int broken; /* 0, or -errno: the ring takes no more requests */
	struct reader_stats stats;
	size_t page;
	unsigned char *resident; /* for mincore(): a byte for each page of the longest part */
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- the range of a direct read ---- */

static uint64_t range_start(const struct reader_part *p)
{
	return p->offset / DIRECT_ALIGN * DIRECT_ALIGN;
}

static size_t range_bytes(const struct reader_part *p)
{
	uint64_t end = p->offset + p->bytes;

	return (size_t)((end + DIRECT_ALIGN - 1) / DIRECT_ALIGN * DIRECT_ALIGN - range_start(p));
}

/* ---- asking for parts ---- */

/*
 * Whether all of a part is in the page cache, or the kernel does not tell this user. (To try by a
 * read with RWF_NOWAIT would have the kernel read ahead.)
 */
static bool is_cached(const struct reader *r, const struct reader_part *p)
{
	uint64_t start = p->offset / r->page * r->page;
	size_t pages = (size_t)((p->offset + p->bytes - start + r->page - 1) / r->page);

	if (mincore((uint8_t *)r->files[p->file].map + start, pages * r->page, r->resident))
		return false;
	for (size_t i = 0; i < pages; i++)
		if (!(r->resident[i] & 1))
			return false;
	return true;
}

/* Reads of parts in place before may bring later ones into the page cache, so what is there is
 * counted first. */
static void take_in_place(struct reader *r, uint32_t i)
{
	const struct reader_part *p = &r->parts[i];

	r->state[i].state = PART_IN_PLACE;
	if (is_cached(r, p))
		r->stats.cached_bytes += p->bytes;
	else
		r->stats.buffered_bytes += p->bytes;
}

/* Whether another part can have a buffer. */
static bool has_slot(const struct reader *r)
{
	return (unsigned int)__builtin_popcountll(r->free_slots) > r->kept_slots;
}

/* Gives the part a buffer: the first free one, so that as few as possible are ever touched. */
static void take_slot(struct reader *r, struct part *s)
{
	size_t end;

	s->slot = (int16_t)__builtin_ctzll(r->free_slots);
	r->free_slots &= ~(1ull << s->slot);
	end = ((size_t)s->slot + 1) * r->slot_bytes;
	if (end > r->stats.peak_bytes)
		r->stats.peak_bytes = end;
}

/* Asks for parts as long as there are buffers. */
static void ask(struct reader *r)
{
	bool asked = false;

	for (; r->next < r->nr; r->next++) {
		const struct reader_part *p = &r->parts[r->next];
		struct part *s = &r->state[r->next];
		struct io_uring_sqe *sqe;

		if (p->at) {
			take_in_place(r, r->next);
			continue;
		}
		if (!has_slot(r))
			break;
		if (is_cached(r, p)) {
			s->state = PART_CACHED;
			r->kept_slots++;
			continue;
		}
		if (!r->direct_fds || r->nr_under_way == MAX_UNDER_WAY)
			break;
		sqe = io_uring_get_sqe(&r->ring);
		if (!sqe)
			break;
		take_slot(r, s);
		s->state = PART_UNDER_WAY;
		r->nr_under_way++;
		io_uring_prep_read(sqe, r->direct_fds[p->file],
				   r->buffers + (size_t)s->slot * r->slot_bytes,
				   (unsigned int)range_bytes(p), range_start(p));
		io_uring_sqe_set_data64(sqe, r->next);
		asked = true;
	}
	if (asked) {
		int n;

		do
			n = io_uring_submit(&r->ring);
		while (n == -EINTR || n == -EAGAIN || n == -EBUSY);
		r->broken = n < 0 ? n : 0;
	}
}

/* ---- what has been read ---- */

/* The whole range must have come, but for what is behind the end of the file. */
static int check(const struct reader *r, uint32_t i, int res)
{
	const struct reader_part *p = &r->parts[i];

	if (res < 0)
		return res;
	return range_start(p) + (uint64_t)res < p->offset + p->bytes ? -EIO : 0;
}

/* Takes what has been read; with @wait, first waits until anything has. 0 or -errno. */
static int reap(struct reader *r, bool wait)
{
	struct io_uring_cqe *cqe;
	int err;

	if (r->broken)
		return r->broken;
	if (wait) {
		/* Only this thread takes entries; others ask for parts meanwhile. */
		pthread_mutex_unlock(&r->lock);
		do
			err = io_uring_wait_cqe(&r->ring, &cqe);
		while (err == -EINTR);
		pthread_mutex_lock(&r->lock);
		if (err)
			return err;
	}
	while (!io_uring_peek_cqe(&r->ring, &cqe)) {
		uint32_t i = (uint32_t)io_uring_cqe_get_data64(cqe);

		r->state[i].err = check(r, i, cqe->res);
		r->state[i].state = PART_READ;
		r->stats.direct_bytes += r->state[i].err ? 0 : r->parts[i].bytes;
		r->nr_under_way--;
		io_uring_cqe_seen(&r->ring, cqe);
	}
	return 0;
}

static uint8_t *buffer_of(const struct reader *r, uint32_t i)
{
	const struct reader_part *p = &r->parts[i];

	return r->buffers + (size_t)r->state[i].slot * r->slot_bytes + (p->offset - range_start(p));
}

/* 0, -errno, or -EIO: the file ends before. */
static int read_whole(int fd, uint8_t *buf, const struct reader_part *p)
{
	ssize_t n;

	for (size_t done = 0; done < p->bytes; done += (size_t)n) {
		n = pread(fd, buf + done, p->bytes - done, (off_t)(p->offset + done));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			return -EIO;
		n = n < 0 ? 0 : n;
	}
	return 0;
}

/* Reads part @i through the page cache, and says what is wrong with it if that fails too. */
static int read_buffered(struct reader *r, uint32_t i)
{
	const struct reader_part *p = &r->parts[i];
	struct part *s = &r->state[i];
	uint64_t *bytes =
		s->state == PART_CACHED ? &r->stats.cached_bytes : &r->stats.buffered_bytes;

	if (s->state == PART_CACHED)
		r->kept_slots--;
	if (s->slot < 0)
		take_slot(r, s);
	/* The buffer is this part's now; others are released meanwhile. */
	pthread_mutex_unlock(&r->lock);
	s->err = read_whole(r->files[p->file].fd, buffer_of(r, i), p);
	pthread_mutex_lock(&r->lock);
	s->state = PART_READ;
	*bytes += s->err ? 0 : p->bytes;
	return s->err;
}

/* Until part @i is in a buffer or the cache, or nobody reads it. 0 or -errno of the ring. */
static int wait_for(struct reader *r, uint32_t i)
{
	int err = 0;

	for (ask(r); !err && r->nr_under_way && r->state[i].state <= PART_UNDER_WAY; ask(r))
		err = reap(r, true);
	return err;
}

/* Where part @i is, which has been waited for. */
static int find(struct reader *r, uint32_t i, const void **data)
{
	const struct part *s = &r->state[i];
	int err = 0;

	if (s->state == PART_LATER && !has_slot(r))
		return -ENOBUFS;
	if (s->state == PART_LATER)
		r->next = i + 1;
	/* A file system may refuse direct reads, or give less than was asked for. */
	if (s->state != PART_READ || s->err)
		err = read_buffered(r, i);
	*data = buffer_of(r, i);
	return err;
}

/* Brings part @i, which is in place, into memory. 0 or -errno. */
static int populate(struct reader *r, uint32_t i)
{
	const struct reader_part *p = &r->parts[i];
	uintptr_t start = (uintptr_t)p->at / r->page * r->page;
	size_t bytes = (uintptr_t)p->at + p->bytes - start;
	int err;

	/* The kernel reads, and may read much. */
	pthread_mutex_unlock(&r->lock);
	err = madvise((void *)start, bytes, MADV_POPULATE_READ) ? -errno : 0;
	pthread_mutex_lock(&r->lock);
	/* Before Linux 5.14 the pages come when they are touched. Pages that cannot be had: the
	 * storage's error, or the file has become shorter. */
	return err == -EINVAL ? 0 : err == -EFAULT ? -EIO : err;
}

int reader_wait(struct reader *r, uint32_t i, const void **data)
{
	uint64_t from_ns = now_ns();
	int err;

	pthread_mutex_lock(&r->lock);
	err = wait_for(r, i);
	if (!err && r->state[i].state == PART_IN_PLACE) {
		err = populate(r, i);
		*data = r->parts[i].at;
	} else if (!err) {
		err = find(r, i, data);
	}
	r->stats.wait_ns += now_ns() - from_ns;
	pthread_mutex_unlock(&r->lock);
	return err;
}

void reader_release(struct reader *r, uint32_t i)
{
	struct part *s = &r->state[i];

	pthread_mutex_lock(&r->lock);
	if (s->slot >= 0)
		r->free_slots |= 1ull << s->slot;
	s->slot = -1;
	s->state = PART_DONE;
	ask(r);
	pthread_mutex_unlock(&r->lock);
}

/* ---- life ---- */

static bool alloc_buffers(struct reader *r)
{
	size_t most = 0, longest = 0;

	for (uint32_t i = 0; i < r->nr; i++) {
		size_t bytes = range_bytes(&r->parts[i]);

		longest = bytes > longest ? bytes : longest;
		most = !r->parts[i].at && bytes > most ? bytes : most;
	}
	r->nr_slots = r->nr < READER_RING ? r->nr : READER_RING;
	r->page = (size_t)sysconf(_SC_PAGESIZE);
	r->resident = malloc(longest / r->page + 2);
	if (!r->resident)
		return false;
	r->slot_bytes = (most + DIRECT_ALIGN - 1) / DIRECT_ALIGN * DIRECT_ALIGN;
	r->stats.ring_bytes = (r->slot_bytes * r->nr_slots + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	if (!most)
		return true;
	r->free_slots = (1ull << r->nr_slots) - 1;
	r->buffers = mmap(NULL, r->stats.ring_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->buffers == MAP_FAILED) {
		r->buffers = NULL;
		return false;
	}
	madvise(r->buffers, r->stats.ring_bytes, MADV_HUGEPAGE);
	return true;
}

/* The same file again, for direct reads: a descriptor, or -1. */
static int open_again(const struct reader_file *file)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	return open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
}

static void close_direct(struct reader *r)
{
	for (uint32_t i = 0; i < r->nr_files && r->direct_fds[i] >= 0; i++)
		close(r->direct_fds[i]);
	free(r->direct_fds);
	r->direct_fds = NULL;
}

/* Opens all files for direct reads, and the ring; without either, reads are buffered. */
static void open_direct(struct reader *r)
{
	bool ok;

	r->direct_fds = malloc(r->nr_files * sizeof(*r->direct_fds));
	ok = r->direct_fds;
	for (uint32_t i = 0; i < r->nr_files && ok; i++) {
		r->direct_fds[i] = open_again(&r->files[i]);
		ok = r->direct_fds[i] >= 0;
	}
	if (ok && !io_uring_queue_init(2 * MAX_UNDER_WAY, &r->ring, 0))
		return;
	if (r->direct_fds)
		close_direct(r);
	for (uint32_t i = 0; i < r->nr_files; i++)
		posix_fadvise(r->files[i].fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

int reader_open(const struct reader_file *files, uint32_t nr_files, const struct reader_part *parts,
		uint32_t nr, struct reader **reader)
{
	struct reader *r = calloc(1, sizeof(*r));

	*reader = r;
	if (!r)
		return -ENOMEM;
	r->files = files;
	r->nr_files = nr_files;
	r->parts = parts;
	r->nr = nr;
	pthread_mutex_init(&r->lock, NULL);
	r->state = calloc((size_t)nr + 1, sizeof(*r->state));
	if (!r->state || !alloc_buffers(r)) {
		reader_close(r);
		*reader = NULL;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < nr; i++)
		r->state[i].slot = -1;
	/* Nothing is copied of a file whose parts are all in place. */
	if (r->buffers)
		open_direct(r);
	ask(r);
	return 0;
}

void reader_close(struct reader *r)
{
	if (!r)
		return;
	if (r->direct_fds) {
		/* The kernel writes to the buffers until these have ended. */
		while (r->nr_under_way && !reap(r, false) && r->nr_under_way)
			io_uring_submit_and_wait(&r->ring, 1);
		io_uring_queue_exit(&r->ring);
		close_direct(r);
	}
	if (r->buffers)
		munmap(r->buffers, r->stats.ring_bytes);
	pthread_mutex_destroy(&r->lock);
	free(r->resident);
	free(r->state);
	free(r);
}

void reader_stats(const struct reader *r, struct reader_stats *stats)
{
	*stats = r->stats;
}
