/* SPDX-License-Identifier: MIT */
/*
 * vgem, the kernel's test driver, as the other side of a shared buffer: it can put a fence on the
 * buffer that signals when the test says so, or ten seconds later.
 */
#ifndef VGEM_H
#define VGEM_H

#include <dirent.h>

#include "vnpu_raw.h"

#define VGEM_EXPORT_PARAMETER "/sys/module/vnpu/parameters/prime_export"

/* vgem's fences, for which libdrm has no header. */
struct vgem_attach {
	uint32_t handle;
	uint32_t flags;
	uint32_t out_fence;
	uint32_t pad;
};

struct vgem_signal {
	uint32_t fence;
	uint32_t flags;
};

#define VGEM_ATTACH DRM_IOWR(DRM_COMMAND_BASE + 1, struct vgem_attach)
#define VGEM_ATTACH_WRITE 1
#define VGEM_SIGNAL DRM_IOW(DRM_COMMAND_BASE + 2, struct vgem_signal)

/* vnpu.ko's parameter prime_export. */
static inline bool vgem_allow_export(bool on)
{
	int fd = open(VGEM_EXPORT_PARAMETER, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, on ? "Y" : "N", 1) == 1;

	if (fd >= 0)
		close(fd);
	return ok;
}

/* A dma-buf or -errno. */
static inline int vgem_export(int fd, uint32_t handle)
{
	struct drm_prime_handle prime = { .handle = handle, .flags = DRM_CLOEXEC | DRM_RDWR };
	int ret = raw_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime);

	return ret ?: prime.fd;
}

static inline int vgem_import(int fd, int dmabuf, uint32_t *handle)
{
	struct drm_prime_handle prime = { .fd = dmabuf };
	int ret = raw_ioctl(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime);

	*handle = prime.handle;
	return ret;
}

/* The first vgem node in /dev/dri, or -1. */
static inline int vgem_open(void)
{
	DIR *dir = opendir("/dev/dri");
	struct dirent *entry;
	int fd = -1;

	while (dir && fd < 0 && (entry = readdir(dir))) {
		char name[8] = { 0 };
		struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };

		if (strncmp(entry->d_name, "card", 4))
			continue;
		fd = openat(dirfd(dir), entry->d_name, O_RDWR | O_CLOEXEC);
		if (fd >= 0 &&
		    (raw_ioctl(fd, DRM_IOCTL_VERSION, &version) || strcmp(name, "vgem"))) {
			close(fd);
			fd = -1;
		}
	}
	if (dir)
		closedir(dir);
	return fd;
}

/* Attaches a fence of vgem's to the buffer, as for writing. Returns its id for vgem_signal(). */
static inline uint32_t vgem_attach(int vgem, int dmabuf)
{
	struct vgem_attach attach = { .flags = VGEM_ATTACH_WRITE };

	assert_int_equal(vgem_import(vgem, dmabuf, &attach.handle), 0);
	assert_int_equal(raw_ioctl(vgem, VGEM_ATTACH, &attach), 0);
	return attach.out_fence;
}

static inline void vgem_signal(int vgem, uint32_t fence)
{
	struct vgem_signal signal = { .fence = fence };

	assert_int_equal(raw_ioctl(vgem, VGEM_SIGNAL, &signal), 0);
}

#endif /* VGEM_H */
