// SPDX-License-Identifier: MIT
/*
 * A client that only makes valid calls, on devices whose firmwares misbehave, and checks the
 * driver's promises:
 *
 * - a fence signals within max_fence_ms of its SUBMIT, even if its job waits for a fence that never
 *   signals, if its queue, its context or the device goes, or if the firmware is stopped;
 * - a queue accepts depth + max_waiting_jobs jobs that are not done, no more;
 * - jobs are numbered 1, 2, 3, and end in this order, with one of the results in the header;
 * - nobody can make a status page writable.
 *
 * Time limits are generous, because an emulated machine is slow.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "fuzz_drm.h"

#define VA 0x10000ull
#define MAX_BATCH 8
#define MAX_FENCES 16
#define LATE_MS 20000

struct bench {
	int fd;
	uint32_t ctx, queue, depth;
	uint64_t accepted; /* number of jobs */
	struct drm_vnpu_query_limits limits;
	uint32_t never; /* syncobj with a fence that does not signal, or 0 */
	/* Fences that are checked at the end. */
	struct {
		int event;
		bool lasts; /* outlives the bench's file */
		int64_t since_ms;
	} fences[MAX_FENCES];
	int nr_fences;
};

/* ---- setup ---- */

static int open_device(void)
{
	struct vnpu_ctl_info info;
	char path[64];

	if (!fz_any_device(&info) || info.accel_minor < 0)
		return -1;
	snprintf(path, sizeof(path), "/dev/accel/accel%d", info.accel_minor);
	return open(path, O_RDWR | O_CLOEXEC);
}

static bool limits(struct bench *b)
{
	struct drm_vnpu_dev_query q = { .type = DRM_VNPU_QUERY_LIMITS,
					.size = sizeof(b->limits),
					.pointer = (uintptr_t)&b->limits };

	if (fz_ioctl(FZ_DEV_QUERY, b->fd, &q))
		return false;
	if (!b->limits.mem_limit_bytes || !b->limits.max_bytes_per_user ||
	    !b->limits.max_fence_ms || !b->limits.max_waiting_jobs)
		fz_wrong("a limit is 0");
	return true;
}

static bool bind_page(struct bench *b)
{
	struct drm_vnpu_bo_create create = { .size = PAGE };
	struct drm_vnpu_bind_op op = { .op = DRM_VNPU_BIND_MAP, .va = VA, .size = PAGE };
	struct drm_vnpu_vm_bind bind = { .ctx_id = b->ctx,
					 .ops = { sizeof(op), 1, (uintptr_t)&op } };

	if (fz_ioctl(FZ_BO_CREATE, b->fd, &create))
		return false;
	op.handle = create.handle;
	return !fz_ioctl(FZ_VM_BIND, b->fd, &bind);
}

static void look_at_status(int fd, uint64_t offset)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	if (p != MAP_FAILED) {
		fz_wrong("a status page can be mapped writable");
		munmap(p, PAGE);
	}
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, offset);
	fz_count(FZ_MMAP, p == MAP_FAILED ? -1 : 0);
	if (p == MAP_FAILED)
		return;
	if (!fz_count(FZ_MPROTECT, mprotect(p, PAGE, PROT_READ | PROT_WRITE)))
		fz_wrong("a status page can be made writable");
	munmap(p, PAGE);
}

static uint32_t make_never(int fd)
{
	struct drm_syncobj_create create = { 0 };
	struct drm_syncobj_handle import = {
		.flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE, .fd = fz_never()
	};
	bool ok;

	if (import.fd < 0)
		return 0;
	ok = !fz_ioctl(FZ_SYNCOBJ_CREATE, fd, &create);
	import.handle = create.handle;
	ok = ok && !fz_ioctl(FZ_SYNCOBJ_FD_TO_HANDLE, fd, &import);
	close(import.fd);
	return ok ? create.handle : 0;
}

static bool set_up(struct bench *b)
{
	struct drm_vnpu_ctx_create ctx = { 0 };
	struct drm_vnpu_queue_create queue = { .priority = fz_below(3),
					       .depth = 1u << fz_below(4) };

	*b = (struct bench){ .fd = open_device() };
	if (b->fd < 0 || !limits(b) || fz_ioctl(FZ_CTX_CREATE, b->fd, &ctx))
		return false;
	b->ctx = queue.ctx_id = ctx.ctx_id;
	if (!bind_page(b) || fz_ioctl(FZ_QUEUE_CREATE, b->fd, &queue))
		return false;
	b->queue = queue.queue_id;
	b->depth = queue.depth;
	look_at_status(b->fd, queue.status_offset);
	b->never = make_never(b->fd);
	return true;
}

/* ---- jobs ---- */

static uint32_t make_syncobj(struct bench *b)
{
	struct drm_syncobj_create create = { 0 };

	return fz_ioctl(FZ_SYNCOBJ_CREATE, b->fd, &create) ? 0 : create.handle;
}

/*
 * Watches a fence through a sync_file if fences may be exported, else through an eventfd, which
 * does not outlive the file.
 */
static void watch(struct bench *b, uint32_t handle, int64_t since_ms)
{
	struct drm_syncobj_handle export = {
		.handle = handle, .flags = DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE, .fd = -1
	};
	struct fuzz_syncobj_eventfd e = { .handle = handle };
	bool lasts = fz_one_in(2) && !fz_ioctl(FZ_SYNCOBJ_HANDLE_TO_FD, b->fd, &export);

	e.fd = lasts ? export.fd : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e.fd < 0)
		return;
	if (!lasts && fz_ioctl(FZ_SYNCOBJ_EVENTFD, b->fd, &e)) {
		close(e.fd);
		return;
	}
	b->fences[b->nr_fences].event = e.fd;
	b->fences[b->nr_fences].lasts = lasts;
	b->fences[b->nr_fences++].since_ms = since_ms;
}

/* Submits @nr jobs. The first waits for @in if not 0, the last has a fence if @signal. -errno. */
static int submit(struct bench *b, uint32_t nr, uint32_t in, bool signal)
{
	struct drm_vnpu_job jobs[MAX_BATCH] = { 0 };
	struct drm_vnpu_sync_op wait = { .handle = in }, out = { .flags = DRM_VNPU_SYNC_SIGNAL };
	struct drm_vnpu_sync_op both[2] = { wait };
	struct drm_vnpu_submit s = { .ctx_id = b->ctx,
				     .jobs = { sizeof(*jobs), nr, (uintptr_t)jobs } };
	int64_t since = fz_now_ms();
	int ret;

	if (signal && b->nr_fences < MAX_FENCES)
		out.handle = make_syncobj(b);
	for (uint32_t i = 0; i < nr; i++)
		jobs[i] = (struct drm_vnpu_job){ .queue_id = b->queue,
						 .cmd_va = VA,
						 .table_va = VA,
						 .cmd_size = 8,
						 .table_size = 8 };
	if (in)
		jobs[0].syncs = (struct drm_vnpu_obj_array){ sizeof(wait), 1, (uintptr_t)&wait };
	if (out.handle && in && nr == 1) {
		both[1] = out;
		jobs[0].syncs = (struct drm_vnpu_obj_array){ sizeof(out), 2, (uintptr_t)both };
	} else if (out.handle) {
		jobs[nr - 1].syncs = (struct drm_vnpu_obj_array){ sizeof(out), 1, (uintptr_t)&out };
	}
	ret = fz_ioctl(FZ_SUBMIT, b->fd, &s);
	if (!ret && out.handle)
		watch(b, out.handle, since);
	for (uint32_t i = 0; i < nr && !ret; i++)
		if (jobs[i].seqno != ++b->accepted)
			fz_wrong("job %llu of a queue has the number %llu",
				 (unsigned long long)b->accepted,
				 (unsigned long long)jobs[i].seqno);
	return ret;
}

static int wait_job(struct bench *b, uint64_t seqno, int64_t until_ns)
{
	struct drm_vnpu_wait wait = { .queue_id = b->queue,
				      .seqno = seqno,
				      .timeout_ns = until_ns };
	int ret = fz_ioctl(FZ_WAIT, b->fd, &wait);

	switch (ret ? 0 : wait.status) {
	case 0:
	case -EINVAL:
	case -EFAULT:
	case -ETIMEDOUT:
	case -EBUSY:
	case -ECANCELED:
	case -EIO:
		break;
	default:
		fz_wrong("a job ended with %d", wait.status);
	}
	return ret;
}

/* ---- actions ---- */

/* Jobs with and without fences; some of them wait for fences that never signal. */
static void some_jobs(struct bench *b)
{
	int ret = 0;

	for (int i = fz_below(12); i >= 0 && !ret; i--)
		ret = submit(b, 1 + fz_below(MAX_BATCH), fz_one_in(4) ? b->never : 0, fz_one_in(2));
}

/* Checks the limit: if more jobs were accepted, some of them must be done. */
static void look_at_bound(struct bench *b)
{
	uint64_t room = b->depth + b->limits.max_waiting_jobs;

	if (b->accepted > room && wait_job(b, b->accepted - room, 0) == -ETIMEDOUT)
		fz_wrong("a queue of depth %u has taken %llu jobs, of which more than %llu are not "
			 "done",
			 b->depth, (unsigned long long)b->accepted, (unsigned long long)room);
}

/* Fills a queue whose first job is stuck. */
static void flood(struct bench *b)
{
	uint32_t nr = 0, batch;
	int ret;

	if (!b->never || submit(b, 1, b->never, true))
		return;
	__atomic_fetch_add(&fz->floods, 1, __ATOMIC_RELAXED);
	for (ret = 0; !ret && nr < 2 * (b->depth + b->limits.max_waiting_jobs); nr += batch) {
		batch = 1 + fz_below(MAX_BATCH);
		ret = submit(b, batch, 0, fz_one_in(40));
		look_at_bound(b);
		/* A batch that does not fit is refused as a whole; a smaller one may fit. */
		if (ret == -ENOSPC && batch > 1) {
			ret = submit(b, 1, 0, false);
			look_at_bound(b);
		}
	}
	if (ret == -ENOSPC)
		__atomic_fetch_add(&fz->full, 1, __ATOMIC_RELAXED);
}

/* If a job is done, all jobs before it must be. */
static void look_at_order(struct bench *b)
{
	if (!b->accepted || wait_job(b, b->accepted, fz_now_ns() + fz_below(2000) * 1000000ll))
		return;
	for (uint64_t i = 1; i < b->accepted; i += 1 + fz_below(16))
		if (wait_job(b, i, 0) == -ETIMEDOUT)
			fz_wrong("job %llu is done and job %llu of the same queue is not",
				 (unsigned long long)b->accepted, (unsigned long long)i);
}

/* ---- the end ---- */

static void wait_fences(struct bench *b, bool closed)
{
	for (int i = 0; i < b->nr_fences; i++) {
		int64_t since = b->fences[i].since_ms,
			left = since + b->limits.max_fence_ms + LATE_MS - fz_now_ms(), took;
		struct pollfd p = { b->fences[i].event, POLLIN, 0 };

		if (closed && !b->fences[i].lasts)
			continue;
		while (poll(&p, 1, left > 0 ? left : 0) < 0 && errno == EINTR)
			;
		took = fz_now_ms() - since;
		if (!p.revents)
			fz_wrong("a fence has not signalled %lld ms after its SUBMIT",
				 (long long)took);
		__atomic_fetch_add(&fz->fences, 1, __ATOMIC_RELAXED);
		if (took > (int64_t)fz->worst_fence_ms)
			fz->worst_fence_ms = took;
	}
}

static void leave(struct bench *b)
{
	struct drm_vnpu_queue_destroy queue = { .queue_id = b->queue };
	struct drm_vnpu_ctx_destroy ctx = { .ctx_id = b->ctx };
	uint32_t how = fz_below(8);
	bool closed = how == 0;

	if (b->fd < 0)
		return;
	if (how < 4 && b->queue)
		fz_ioctl(FZ_QUEUE_DESTROY, b->fd, &queue);
	else if (how < 7 && b->ctx)
		fz_ioctl(FZ_CTX_DESTROY, b->fd, &ctx);
	if (closed)
		close(b->fd);
	wait_fences(b, closed);
	if (!closed)
		close(b->fd);
	for (int i = 0; i < b->nr_fences; i++)
		close(b->fences[i].event);
}

_Noreturn void fz_judge(void)
{
	struct bench b;

	fz_seed_thread();
	while (!fz_stopped()) {
		if (!set_up(&b)) {
			fz_sleep_ms(5);
		} else if (fz_one_in(4)) {
			flood(&b);
		} else {
			some_jobs(&b);
			look_at_order(&b);
		}
		leave(&b);
	}
	_exit(0);
}
