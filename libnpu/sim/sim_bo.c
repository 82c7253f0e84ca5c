// SPDX-License-Identifier: MIT
/*
 * Buffers of the simulated device: ranges of one memfd, which grows as needed. The file is sparse:
 * a new buffer is zero without being written, and a freed one becomes a hole that the next buffers
 * may take. A client's mmap offset is the file's. A buffer that is part of another file only has a
 * mmap offset, above those of the memfd.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "npu_fail.h"
#include "npu_fsize.h"
#include "sim.h"

uint64_t sim_bo_max_bytes(void)
{
	uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t range = (1ull << SIM_VA_BITS) - SIM_VA_START;

	return host < range ? host : range;
}

int sim_file_grow(struct sim *sim, uint64_t bytes)
{
	struct npu_fsize fsize;
	int ret;

	if (bytes <= sim->file_bytes)
		return 0;
	npu_fsize_begin(&fsize);
	ret = ftruncate(sim->memfd, (off_t)bytes) ? -errno : 0;
	npu_fsize_end(&fsize);
	if (!ret)
		sim->file_bytes = bytes;
	return ret;
}

/* @fd: as in struct sim_bo, which the buffer takes over. */
static int sim_bo_add(struct sim *sim, struct drm_vnpu_bo_create *args, uint64_t offset, int fd,
		      uint64_t file_offset)
{
	struct sim_bo *bo = calloc(1, sizeof(*bo));
	int err;

	if (!bo)
		return -ENOMEM;
	*bo = (struct sim_bo){
		.refs = 1,
		.offset = offset,
		.size = args->size,
		.fd = fd,
		.file_offset = file_offset,
		.flags = args->flags,
	};
	args->handle = sim_table_add(&sim->bos, bo, UINT32_MAX, &err);
	if (!args->handle) {
		free(bo);
		return err;
	}
	sim->mem_bytes += bo->size;
	return 0;
}

static int sim_bo_make(struct sim *sim, struct drm_vnpu_bo_create *args, int fd,
		       uint64_t file_offset)
{
	struct npu_va_range **room = fd >= 0 ? &sim->free_imports : &sim->free_offsets;
	uint64_t size = (args->size + SIM_PAGE - 1) & ~(uint64_t)(SIM_PAGE - 1), offset;
	int ret = 0;

	if (args->flags & ~DRM_VNPU_BO_DEVICE_READ_ONLY)
		return -EINVAL;
	if (!args->size || args->size > sim_bo_max_bytes())
		return -EINVAL;
	if (sim->mem_bytes > sim->mem_limit_bytes || size > sim->mem_limit_bytes - sim->mem_bytes)
		return -ENOSPC;
	offset = npu_va_alloc(room, size, size >= SIM_HUGE ? SIM_HUGE : SIM_PAGE);
	if (!offset)
		return -ENOMEM;
	if (fd < 0)
		ret = sim_file_grow(sim, offset + size);
	args->size = size;
	if (!ret)
		ret = sim_bo_add(sim, args, offset, fd, file_offset);
	if (ret)
		npu_va_free(room, offset, size);
	return ret;
}

int sim_bo_create(struct sim *sim, struct drm_vnpu_bo_create *args)
{
	return sim_bo_make(sim, args, -1, 0);
}

int sim_bo_import(struct sim *sim, int fd, uint64_t offset, struct drm_vnpu_bo_create *args)
{
	struct stat st;
	int copy, ret;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || !(args->flags & DRM_VNPU_BO_DEVICE_READ_ONLY) ||
	    offset % SIM_PAGE || offset > (uint64_t)st.st_size ||
	    args->size > (uint64_t)st.st_size - offset)
		return -EINVAL;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return -errno;
	ret = sim_bo_make(sim, args, copy, offset);
	if (ret)
		close(copy);
	return ret;
}

void sim_bo_put(struct sim *sim, struct sim_bo *bo)
{
	if (--bo->refs)
		return;
	if (bo->fd >= 0) {
		close(bo->fd);
		npu_va_free(&sim->free_imports, bo->offset, bo->size);
	} else if (!fallocate(sim->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      (off_t)bo->offset, (off_t)bo->size)) {
		/* Else its memory and offsets stay until the device is closed. */
		npu_va_free(&sim->free_offsets, bo->offset, bo->size);
	}
	sim->mem_bytes -= bo->size;
	free(bo);
}

int sim_bo_info(struct sim *sim, struct drm_vnpu_bo_info *args)
{
	struct sim_bo *bo = sim_table_get(&sim->bos, args->handle);

	if (!bo)
		return -ENOENT;
	args->flags = bo->flags;
	args->size = bo->size;
	args->mmap_offset = bo->offset;
	return 0;
}

int sim_bo_close(struct sim *sim, uint32_t handle)
{
	struct sim_bo *bo = sim_table_del(&sim->bos, handle);

	if (!bo)
		return -EINVAL;
	sim_bo_put(sim, bo);
	return 0;
}

/* ---- mappings of the client ---- */

static struct sim_bo *sim_bo_by_offset(struct sim *sim, uint64_t offset, size_t size)
{
	for (uint32_t i = 0; i < sim->bos.size; i++) {
		struct sim_bo *bo = sim->bos.slots[i];

		if (bo && offset >= bo->offset && offset - bo->offset < bo->size)
			return size <= bo->size - (offset - bo->offset) ? bo : NULL;
	}
	return NULL;
}

void *sim_reserve(size_t size)
{
	uint8_t *room, *start, *end;

	size = (size + SIM_PAGE - 1) & ~(size_t)(SIM_PAGE - 1);
	room = mmap(NULL, size + SIM_HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	if (room == MAP_FAILED)
		return MAP_FAILED;
	start = (uint8_t *)(((uintptr_t)room + SIM_HUGE - 1) & ~(uintptr_t)(SIM_HUGE - 1));
	end = room + size + SIM_HUGE;
	if (start > room)
		munmap(room, (size_t)(start - room));
	munmap(start + size, (size_t)(end - (start + size)));
	return start;
}

void *sim_map_pages(struct sim *sim, const struct sim_bo *bo, void *at, uint64_t offset,
		    size_t size, int prot)
{
	int fd = bo && bo->fd >= 0 ? bo->fd : sim->memfd;
	void *p;

	if (bo)
		offset += bo->fd >= 0 ? bo->file_offset : bo->offset;
	p = mmap(at, size, prot, MAP_SHARED | (at ? MAP_FIXED : 0), fd, (off_t)offset);

	if (p != MAP_FAILED && size >= SIM_HUGE)
		madvise(p, size, MADV_HUGEPAGE);
	return p;
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

#define SIM_HUGE_THREADS 4
#define SIM_HUGE_CALL (8 * SIM_HUGE) /* by one call, as calls have a cost of their own */

/* Memory being backed by huge pages, by any number of threads. */
struct sim_huge {
	uint8_t *at;
	size_t size;
	atomic_size_t next;
};

/* Takes some pages at a time that no other thread has taken. */
static void *sim_huge_main(void *arg)
{
	struct sim_huge *h = arg;
	size_t i;

	while ((i = atomic_fetch_add(&h->next, SIM_HUGE_CALL)) < h->size) {
		size_t n = h->size - i < SIM_HUGE_CALL ? h->size - i : SIM_HUGE_CALL;

		for (size_t page = 0; page < n; page += SIM_HUGE)
			__atomic_fetch_or(h->at + i + page, 0, __ATOMIC_RELAXED);
		if (madvise(h->at + i, n, MADV_COLLAPSE))
			atomic_store(&h->next, h->size);
	}
	return NULL;
}

/*
 * Each job reads all weights, and with 4 KiB pages each page costs a page-table walk, so this
 * memory is backed by huge pages before it is filled. MADV_COLLAPSE does so whatever the host's
 * setting for shared memory is, but needs the first page to be present. If the kernel cannot, small
 * pages are used as for other memory. Clearing the memory is a large part of loading a model, hence
 * the threads. They block all signals except those of their own accesses, raised if memory runs
 * out.
 */
void sim_map_huge(const struct sim *sim, void *addr, size_t size)
{
	struct sim_huge h = { .at = addr, .size = size / SIM_HUGE * SIM_HUGE };
	pthread_t id[SIM_HUGE_THREADS - 1];
	unsigned int n = 0,
		     most = sim->threads < SIM_HUGE_THREADS ? sim->threads : SIM_HUGE_THREADS;
	sigset_t all, old;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	while (n + 1 < most && (n + 1) * SIM_HUGE_CALL < h.size &&
	       !pthread_create(&id[n], NULL, sim_huge_main, &h))
		n++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	sim_huge_main(&h);
	while (n)
		pthread_join(id[--n], NULL);
}

/* An address for a mapping of @bo from @offset on; NULL: any; MAP_FAILED: there is none. Huge pages
 * of a file are those of its offsets. */
static void *sim_map_place(const struct sim_bo *bo, uint64_t offset, size_t size)
{
	uint64_t skew = bo && bo->fd >= 0 ? (bo->file_offset + offset) % SIM_HUGE : 0;
	uint8_t *at;

	if (size < SIM_HUGE)
		return NULL;
	at = sim_reserve(size + skew);
	if (at == MAP_FAILED || !skew)
		return at;
	munmap(at, skew);
	return at + skew;
}

int sim_map(struct sim *sim, uint64_t offset, size_t size, int prot, void **addr, bool *weights)
{
	bool status = offset < (uint64_t)SIM_NR_QUEUES * SIM_PAGE;
	struct sim_bo *bo = NULL;
	struct sim_mapping *m;
	void *at;
	int err;

	if (!size || offset % SIM_PAGE)
		return -EINVAL;
	if (status && (size != SIM_PAGE || (prot & PROT_WRITE)))
		return -EACCES;
	if (!status) {
		bo = sim_bo_by_offset(sim, offset, size);
		if (!bo)
			return -EINVAL;
		if (bo->fd >= 0 && (prot & PROT_WRITE))
			return -EACCES;
		offset -= bo->offset;
	}
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	at = sim_map_place(bo, offset, size);
	m->addr = at == MAP_FAILED ? at : sim_map_pages(sim, bo, at, offset, size, prot);
	if (m->addr == MAP_FAILED) {
		err = errno;
		if (at && at != MAP_FAILED)
			munmap(at, size);
		free(m);
		return -err;
	}
	if (bo)
		bo->refs++;
	*weights = bo && (bo->flags & DRM_VNPU_BO_DEVICE_READ_ONLY) && (prot & PROT_WRITE);
	m->size = size;
	m->bo = bo;
	m->next = sim->mappings;
	sim->mappings = m;
	*addr = m->addr;
	return 0;
}

int sim_unmap(struct sim *sim, void *addr, size_t size)
{
	for (struct sim_mapping **p = &sim->mappings; *p; p = &(*p)->next) {
		struct sim_mapping *m = *p;

		if (m->addr != addr || m->size != size)
			continue;
		*p = m->next;
		munmap(addr, size);
		if (m->bo)
			sim_bo_put(sim, m->bo);
		free(m);
		return 0;
	}
	return -EINVAL;
}
