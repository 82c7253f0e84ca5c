// SPDX-License-Identifier: MIT
/*
 * Every DRM ioctl number, 0 to 255, on a client's file: with libdrm's size or any other, with
 * sensible or random arguments. Other files call those that the node supports and the driver's own;
 * here they get arguments of other sizes. fuzz_calls.c checks that no other number ever succeeds.
 */
#define _GNU_SOURCE
#include <string.h>

#include "fuzz_client.h"
#include "fuzz_drm.h"

/* Calls with a known size. Display, lease and older calls are refused with any argument. */
static const unsigned long known[] = {
	DRM_IOCTL_VERSION,
	DRM_IOCTL_GET_UNIQUE,
	DRM_IOCTL_GET_MAGIC,
	DRM_IOCTL_IRQ_BUSID,
	DRM_IOCTL_GET_MAP,
	DRM_IOCTL_GET_CLIENT,
	DRM_IOCTL_GET_STATS,
	DRM_IOCTL_SET_VERSION,
	DRM_IOCTL_GEM_CLOSE,
	DRM_IOCTL_GEM_FLINK,
	DRM_IOCTL_GEM_OPEN,
	DRM_IOCTL_GET_CAP,
	DRM_IOCTL_SET_CLIENT_CAP,
	DRM_IOCTL_SET_UNIQUE,
	DRM_IOCTL_AUTH_MAGIC,
	DRM_IOCTL_ADD_MAP,
	DRM_IOCTL_SET_MASTER,
	DRM_IOCTL_DROP_MASTER,
	DRM_IOCTL_ADD_CTX,
	DRM_IOCTL_LOCK,
	DRM_IOCTL_UNLOCK,
	DRM_IOCTL_WAIT_VBLANK,
	DRM_IOCTL_CRTC_GET_SEQUENCE,
	DRM_IOCTL_MODE_GETRESOURCES,
	DRM_IOCTL_MODE_SETCRTC,
	DRM_IOCTL_MODE_CREATE_DUMB,
	DRM_IOCTL_MODE_MAP_DUMB,
	DRM_IOCTL_MODE_ATOMIC,
	DRM_IOCTL_MODE_CREATEPROPBLOB,
	DRM_IOCTL_MODE_CREATE_LEASE,
	DRM_IOCTL_MODE_LIST_LESSEES,
	DRM_IOCTL_MODE_GETFB2,
	FUZZ_SET_CLIENT_NAME,
};

/* Calls with arrays of handles, whose count the core trusts; fuzz_client_sync.c makes them. */
static bool counts_handles(unsigned int nr)
{
	static const unsigned long arrays[] = {
		DRM_IOCTL_SYNCOBJ_WAIT,
		DRM_IOCTL_SYNCOBJ_RESET,
		DRM_IOCTL_SYNCOBJ_SIGNAL,
		DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT,
		DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
		DRM_IOCTL_SYNCOBJ_QUERY,
	};

	for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
		if (_IOC_NR(arrays[i]) == nr)
			return true;
	return false;
}

static uint64_t some_word(struct file *f, void *buf)
{
	switch (fz_below(8)) {
	case 0:
		return fz_number(1);
	case 1:
		return (uintptr_t)buf;
	case 2:
		return fz_pointer();
	case 3:
		return pick(f->bos, NR_BOS);
	case 4:
		return pick(f->syncobjs, NR_SYNCOBJS) | (uint64_t)fz_below(3) << 32;
	case 5:
		return (uint32_t)pick_fd();
	default:
		return fz_below(64);
	}
}

static void any_number(struct file *f)
{
	uint64_t words[32], buf[32] = { 0 };
	unsigned long request;
	unsigned int nr;

	for (int i = 0; i < 32; i++)
		words[i] = fz_one_in(2) ? 0 : some_word(f, buf);
	if (fz_one_in(3)) {
		request = known[fz_below(sizeof(known) / sizeof(*known))];
	} else {
		nr = fz_below(256);
		if (counts_handles(nr))
			return;
		request = _IOC(fz_below(4), DRM_IOCTL_BASE, nr,
			       fz_one_in(3) ? fz_below(sizeof(words))
					    : 8 * fz_below(sizeof(words) / 8));
	}
	fz_ioctl_raw(FZ_CORE, f->fd, request,
		     fz_one_in(30) ? (void *)(uintptr_t)fz_pointer() : words);
}

/* The call as libdrm makes it. */
static void as_meant(struct file *f)
{
	char text[64] = "fuzz";
	struct drm_version version = { .name = text, .name_len = fz_below(sizeof(text)) };
	struct drm_get_cap cap = { .capability = fz_below(0x16) };
	struct drm_set_client_cap set = { .capability = fz_below(8), .value = fz_below(3) };
	struct fuzz_set_client_name name = { .name_len = fz_below(sizeof(text)),
					     .name = (uintptr_t)text };

	switch (fz_below(4)) {
	case 0:
		call(FZ_VERSION, f->fd, &version);
		break;
	case 1:
		call(FZ_GET_CAP, f->fd, &cap);
		break;
	case 2:
		call(FZ_SET_CLIENT_CAP, f->fd, &set);
		break;
	default:
		call(FZ_SET_CLIENT_NAME, f->fd, &name);
	}
}

void core_step(struct file *f)
{
	if (fz_one_in(3))
		as_meant(f);
	else
		any_number(f);
}
