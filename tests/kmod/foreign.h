/* SPDX-License-Identifier: MIT */
/*
 * A fence of another driver that signals when the test says so: sw_sync's, which has no time limit,
 * or if the kernel lacks that, vgem's, which times out after ten seconds.
 */
#ifndef FOREIGN_H
#define FOREIGN_H

#include <linux/dma-buf.h>

#include "vgem.h"

#define SW_SYNC "/sys/kernel/debug/sync/sw_sync"

/* The kernel has no header for this. */
struct sw_sync_create {
	uint32_t value;
	char name[32];
	int32_t fence;
};

#define SW_SYNC_CREATE _IOWR('W', 0, struct sw_sync_create)
#define SW_SYNC_INC _IOW('W', 1, uint32_t)

struct foreign {
	int driver, sync_file;
	bool for_ever; /* does not time out */
	uint32_t fence;
};

static inline bool foreign_sw_sync(struct foreign *f)
{
	struct sw_sync_create create = { .value = 1, .name = "test" };

	f->driver = open(SW_SYNC, O_RDWR | O_CLOEXEC);
	if (f->driver < 0)
		return false;
	assert_int_equal(raw_ioctl(f->driver, SW_SYNC_CREATE, &create), 0);
	f->sync_file = create.fence;
	f->for_ever = true;
	return true;
}

/* A buffer of vgem's with a fence, as if it were being written. */
static inline bool foreign_vgem(struct foreign *f)
{
	struct drm_mode_create_dumb dumb = { .width = 64, .height = 64, .bpp = 32 };
	struct dma_buf_export_sync_file out = { .flags = DMA_BUF_SYNC_READ };
	int dmabuf;

	f->driver = vgem_open();
	if (f->driver < 0)
		return false;
	assert_int_equal(raw_ioctl(f->driver, DRM_IOCTL_MODE_CREATE_DUMB, &dumb), 0);
	dmabuf = vgem_export(f->driver, dumb.handle);
	assert_true(dmabuf >= 0);
	f->fence = vgem_attach(f->driver, dmabuf);
	assert_int_equal(raw_ioctl(dmabuf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &out), 0);
	close(dmabuf);
	f->sync_file = out.fd;
	f->for_ever = false;
	return true;
}

/* False if the kernel has neither. */
static inline bool foreign_make(struct foreign *f)
{
	memset(f, 0, sizeof(*f));
	return foreign_sw_sync(f) || foreign_vgem(f);
}

static inline void foreign_signal(struct foreign *f)
{
	uint32_t one = 1;

	if (f->for_ever)
		assert_int_equal(raw_ioctl(f->driver, SW_SYNC_INC, &one), 0);
	else
		vgem_signal(f->driver, f->fence);
}

/* Signals the fence if it has not signalled. */
static inline void foreign_end(struct foreign *f)
{
	close(f->sync_file);
	close(f->driver);
}

#endif /* FOREIGN_H */
