// SPDX-License-Identifier: MIT
/*
 * A fuzzing client's mappings of buffers, status pages, firmware files and anything else, and what
 * can be done to mappings.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_client.h"

static uint8_t *some_place(void)
{
	return cl->places + fz_below(NR_PLACES) * PLACE_SIZE;
}

static void map_at(int fd, uint64_t offset, size_t size)
{
	static const int prots[] = { PROT_READ, PROT_READ | PROT_WRITE, PROT_WRITE, PROT_NONE,
				     PROT_READ | PROT_EXEC };
	int prot = prots[fz_one_in(6) ? fz_below(5) : fz_below(2)];
	int flags = fz_one_in(12) ? MAP_PRIVATE : MAP_SHARED;

	if (size > PLACE_SIZE)
		size = PLACE_SIZE;
	fz_count(FZ_MMAP, mmap(some_place(), size, prot,
			       flags | MAP_FIXED | (fz_one_in(20) ? MAP_POPULATE : 0), fd,
			       offset) == MAP_FAILED
				  ? -1
				  : 0);
}

static void map_something(struct file *f)
{
	struct drm_vnpu_bo_info info = { .handle = pick(f->bos, NR_BOS) };
	uint64_t offset;

	switch (fz_below(8)) {
	case 0 ... 3:
		if (!call(FZ_BO_INFO, f->fd, &info))
			map_at(f->fd, info.mmap_offset + (fz_one_in(8) ? fz_below(8) * PAGE : 0),
			       fz_one_in(8) ? (1 + fz_below(64)) * PAGE : info.size);
		break;
	case 4:
	case 5:
		offset = f->status_offset[fz_below(NR_QUEUES)];
		map_at(f->fd, offset, fz_one_in(8) ? 2 * PAGE : PAGE);
		break;
	case 6:
		offset = fz_one_in(2) ? fz_below(32) * PAGE : fz_number(0) & ~(PAGE - 1);
		map_at(f->fd, offset, (1 + fz_below(4)) * PAGE);
		break;
	default:
		/* If it is a firmware fd: the rings, or an aperture of a small context number. */
		offset = fz_one_in(2) ? fz_below(16) * PAGE
				      : (uint64_t)(1 + fz_below(4)) << (30 + fz_below(8));
		map_at(pick_fd(), offset, (1 + fz_below(32)) * PAGE);
	}
}

static void touch_something(void)
{
	uint8_t *place = some_place();

	for (int i = fz_below(4); i >= 0; i--)
		fz_touch(place + fz_below(fz_one_in(2) ? 4 : PLACE_SIZE / PAGE) * PAGE +
				 fz_below(PAGE),
			 fz_one_in(2));
}

static void change_something(void)
{
	uint8_t *place = some_place();
	size_t at = fz_below(4) * PAGE, size = (1 + fz_below(16)) * PAGE;
	void *p;

	switch (fz_below(5)) {
	case 0:
		fz_count(FZ_MPROTECT, mprotect(place + at, size, fz_below(8)));
		break;
	case 1:
		munmap(place + at, size);
		break;
	case 2:
		madvise(place + at, size, fz_one_in(2) ? MADV_DONTNEED : MADV_DONTFORK);
		break;
	case 3:
		p = mremap(place, size, size + (fz_one_in(2) ? PAGE : 0),
			   MREMAP_MAYMOVE | MREMAP_FIXED, some_place());
		fz_count(FZ_MREMAP, p == MAP_FAILED ? -1 : 0);
		break;
	default:
		msync(place, size, MS_SYNC);
	}
}

void memory_step(struct file *f)
{
	switch (fz_below(8)) {
	case 0 ... 2:
		map_something(f);
		break;
	case 3 ... 6:
		touch_something();
		break;
	default:
		change_something();
	}
}
