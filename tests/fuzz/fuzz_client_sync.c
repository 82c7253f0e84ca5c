// SPDX-License-Identifier: MIT
/*
 * A fuzzing client's syncobjs and sync_files. Counts of handles stay small: how much the DRM core
 * allocates for large ones is not this driver's concern.
 */
#define _GNU_SOURCE
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/sync_file.h>

#include "fuzz_client.h"
#include "fuzz_drm.h"

#define MAX_HANDLES 4

struct handles {
	uint32_t h[MAX_HANDLES];
	uint64_t point[MAX_HANDLES];
	uint32_t nr;
};

static void some_handles(struct file *f, struct handles *s)
{
	s->nr = 1 + fz_below(MAX_HANDLES);
	for (uint32_t i = 0; i < s->nr; i++) {
		s->h[i] = pick(f->syncobjs, NR_SYNCOBJS);
		s->point[i] = fz_one_in(6) ? fz_number(0) : fz_below(100);
	}
}

static void syncobj_end(struct file *f, uint32_t handle)
{
	struct drm_syncobj_destroy destroy = { .handle = handle };

	call(FZ_SYNCOBJ_DESTROY, f->fd, &destroy);
}

static void syncobj_create(struct file *f)
{
	struct drm_syncobj_create create = { .flags = fz_below(2) };
	uint32_t old;

	if (call(FZ_SYNCOBJ_CREATE, f->fd, &create) || !create.handle)
		return;
	old = put(f->syncobjs, NR_SYNCOBJS, create.handle);
	if (old)
		syncobj_end(f, old);
}

static void syncobj_fd(struct file *f)
{
	struct drm_syncobj_handle h = { .handle = pick(f->syncobjs, NR_SYNCOBJS),
					.flags = fz_below(2) };

	if (fz_one_in(2)) {
		h.fd = -1;
		if (!call(FZ_SYNCOBJ_HANDLE_TO_FD, f->fd, &h) && h.fd > 2)
			put_fd(h.fd);
		return;
	}
	h.fd = pick_fd();
	if (!call(FZ_SYNCOBJ_FD_TO_HANDLE, f->fd, &h) &&
	    !(h.flags & DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE))
		put(f->syncobjs, NR_SYNCOBJS, h.handle);
}

/* Makes a syncobj with a fence that does not signal, and a sync_file of it for others to import. */
static void syncobj_never(struct file *f)
{
	struct drm_syncobj_handle h = { .handle = pick(f->syncobjs, NR_SYNCOBJS),
					.flags = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE,
					.fd = fz_never() };

	if (h.fd < 0)
		return;
	call(FZ_SYNCOBJ_FD_TO_HANDLE, f->fd, &h);
	put_fd(h.fd);
}

static void syncobj_transfer(struct file *f)
{
	struct drm_syncobj_transfer t = { .src_handle = pick(f->syncobjs, NR_SYNCOBJS),
					  .dst_handle = pick(f->syncobjs, NR_SYNCOBJS),
					  .src_point = fz_one_in(2) ? 0 : fz_below(100),
					  .dst_point = fz_one_in(2) ? 0 : fz_below(100),
					  .flags = fz_below(4) };

	call(FZ_SYNCOBJ_TRANSFER, f->fd, &t);
}

static void syncobj_wait(struct file *f)
{
	struct handles s;
	struct drm_syncobj_wait wait = { .handles = (uintptr_t)s.h,
					 .timeout_nsec = some_deadline(),
					 .flags = fz_below(8) };
	struct drm_syncobj_timeline_wait tl = { .handles = (uintptr_t)s.h,
						.points = (uintptr_t)s.point,
						.timeout_nsec = some_deadline(),
						.flags = fz_below(8) };

	some_handles(f, &s);
	wait.count_handles = tl.count_handles = fz_one_in(20) ? 0 : s.nr;
	if (fz_one_in(2))
		fz_ioctl(FZ_SYNCOBJ_WAIT, f->fd, arg_or_none(&wait, sizeof(wait)));
	else
		fz_ioctl(FZ_SYNCOBJ_TIMELINE_WAIT, f->fd, arg_or_none(&tl, sizeof(tl)));
}

static void syncobj_array(struct file *f)
{
	static const enum fz_call calls[] = { FZ_SYNCOBJ_RESET, FZ_SYNCOBJ_SIGNAL,
					      FZ_SYNCOBJ_TIMELINE_SIGNAL, FZ_SYNCOBJ_QUERY };
	enum fz_call c = calls[fz_below(4)];
	struct handles s;
	struct drm_syncobj_timeline_array tl = { .handles = (uintptr_t)s.h,
						 .points = (uintptr_t)s.point,
						 .flags = fz_one_in(4) ? fz_below(4) : 0 };
	struct drm_syncobj_array array = { .handles = (uintptr_t)s.h };

	some_handles(f, &s);
	tl.count_handles = array.count_handles = fz_one_in(20) ? 0 : s.nr;
	if (fz_one_in(20))
		tl.handles = array.handles = fz_pointer();
	if (c == FZ_SYNCOBJ_RESET || c == FZ_SYNCOBJ_SIGNAL)
		fz_ioctl(c, f->fd, arg_or_none(&array, sizeof(array)));
	else
		fz_ioctl(c, f->fd, arg_or_none(&tl, sizeof(tl)));
}

static void syncobj_eventfd(struct file *f)
{
	struct fuzz_syncobj_eventfd e = { .handle = pick(f->syncobjs, NR_SYNCOBJS),
					  .flags = fz_one_in(2)
							   ? DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE
							   : 0,
					  .point = fz_below(100) };

	e.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e.fd < 0)
		return;
	put_fd(e.fd);
	if (fz_one_in(4))
		e.fd = pick_fd();
	call(FZ_SYNCOBJ_EVENTFD, f->fd, &e);
}

static void sync_file(void)
{
	struct sync_fence_info fences[4];
	struct sync_file_info info = { .num_fences = fz_below(5),
				       .sync_fence_info = (uintptr_t)fences };
	struct sync_merge_data merge = { .name = "fuzz", .fd2 = pick_fd() };

	if (fz_one_in(2)) {
		if (!info.num_fences)
			info.sync_fence_info = 0;
		call(FZ_SYNC_FILE_INFO, pick_fd(), &info);
	} else if (!call(FZ_SYNC_MERGE, pick_fd(), &merge) && merge.fence > 2) {
		put_fd(merge.fence);
	}
}

void sync_step(struct file *f)
{
	switch (fz_below(16)) {
	case 0:
		if (fz_one_in(4))
			syncobj_never(f);
		break;
	case 1:
	case 2:
		syncobj_create(f);
		break;
	case 3:
		syncobj_end(f, pick(f->syncobjs, NR_SYNCOBJS));
		break;
	case 4 ... 6:
		syncobj_fd(f);
		break;
	case 7:
		syncobj_transfer(f);
		break;
	case 8:
	case 9:
		syncobj_wait(f);
		break;
	case 10 ... 12:
		syncobj_array(f);
		break;
	case 13:
		syncobj_eventfd(f);
		break;
	default:
		sync_file();
	}
}
