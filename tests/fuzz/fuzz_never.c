// SPDX-License-Identifier: MIT
/*
 * Fences that do not signal, from drivers for testing: sw_sync's signal when the process ends,
 * vgem's after ten seconds. Both need root.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/dma-buf.h>

#include "fuzz.h"
#include "fuzz_drm.h"

#define SW_SYNC "/sys/kernel/debug/sync/sw_sync"

/* Returns *@at if it is set; else sets it to @fd for good. */
static int keep(int *at, int fd)
{
	int none = -1;

	if (fd < 0 ||
	    __atomic_compare_exchange_n(at, &none, fd, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return fd;
	close(fd);
	return none;
}

static int sw_sync_fence(void)
{
	/* A timeline that nobody advances. */
	static int timeline = -1;
	struct fuzz_sw_sync_fence create = { .value = 1, .name = "never" };
	int fd = __atomic_load_n(&timeline, __ATOMIC_RELAXED);

	if (fd < 0)
		fd = keep(&timeline, open(SW_SYNC, O_RDWR | O_CLOEXEC));
	return fd < 0 || ioctl(fd, FUZZ_SW_SYNC_CREATE_FENCE, &create) ? -1 : create.fence;
}

static int open_vgem(void)
{
	DIR *dir = opendir("/dev/dri");
	struct dirent *e;
	int fd = -1;

	while (dir && fd < 0 && (e = readdir(dir))) {
		char name[8] = { 0 };
		struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };

		fd = strncmp(e->d_name, "card", 4)
			     ? -1
			     : openat(dirfd(dir), e->d_name, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && (ioctl(fd, DRM_IOCTL_VERSION, &version) || strcmp(name, "vgem"))) {
			close(fd);
			fd = -1;
		}
	}
	if (dir)
		closedir(dir);
	return fd;
}

/*
 * Uses a buffer of its own, because a buffer holds one fence at a time. Closing the file would
 * signal its fences.
 */
static int vgem_fence(void)
{
	static int vgem = -1;
	int fd = __atomic_load_n(&vgem, __ATOMIC_RELAXED);
	struct drm_mode_create_dumb create = { .width = 32, .height = 32, .bpp = 32 };
	struct fuzz_vgem_attach attach = { .flags = FUZZ_VGEM_WRITE };
	struct drm_prime_handle export = { .flags = DRM_CLOEXEC | DRM_RDWR };
	struct dma_buf_export_sync_file sync = { .flags = DMA_BUF_SYNC_RW, .fd = -1 };
	struct drm_gem_close bo = { 0 };

	if (fd < 0)
		fd = keep(&vgem, open_vgem());
	if (fd < 0 || ioctl(fd, DRM_IOCTL_MODE_CREATE_DUMB, &create))
		return -1;
	bo.handle = attach.handle = export.handle = create.handle;
	if (!ioctl(fd, FUZZ_VGEM_ATTACH, &attach) &&
	    !ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &export)) {
		if (ioctl(export.fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &sync))
			sync.fd = -1;
		close(export.fd);
	}
	ioctl(fd, DRM_IOCTL_GEM_CLOSE, &bo);
	return sync.fd;
}

int fz_never(void)
{
	int fd = fz_one_in(2) ? sw_sync_fence() : -1;

	if (fd < 0)
		fd = vgem_fence();
	return fd < 0 ? sw_sync_fence() : fd;
}
