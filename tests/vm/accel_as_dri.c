// SPDX-License-Identifier: MIT
/*
 * For LD_PRELOAD: provides what tools for /dev/dri assume and accel nodes lack. gputop recognises
 * DRM files by their major number; igt's core_debugfs and core_sysfs become master before they
 * read.
 */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <stdarg.h>
#include <unistd.h>

#include <drm.h>

#define EXPORT __attribute__((visibility("default")))
#define DRM_MAJOR 226
#define ACCEL_MAJOR 261

EXPORT int fstatat64(int dir, const char *restrict path, struct stat64 *restrict st, int flags);
EXPORT int ioctl(int fd, unsigned long request, ...);

int fstatat64(int dir, const char *restrict path, struct stat64 *restrict st, int flags)
{
	int ret = syscall(SYS_newfstatat, dir, path, st, flags);

	if (!ret && S_ISCHR(st->st_mode) && major(st->st_rdev) == ACCEL_MAJOR)
		st->st_rdev = makedev(DRM_MAJOR, minor(st->st_rdev));
	return ret;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	if (request == DRM_IOCTL_SET_MASTER || request == DRM_IOCTL_DROP_MASTER)
		return 0;
	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	return syscall(SYS_ioctl, fd, request, arg);
}
