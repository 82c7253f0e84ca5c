/* SPDX-License-Identifier: MIT */
/*
 * What the kernel's drm.h has and an older libdrm's has not.
 */
#ifndef FUZZ_DRM_H
#define FUZZ_DRM_H

#include <drm.h>

struct fuzz_syncobj_eventfd {
	__u32 handle;
	__u32 flags;
	__u64 point;
	__s32 fd;
	__u32 pad;
};

#define FUZZ_SYNCOBJ_EVENTFD DRM_IOWR(0xCF, struct fuzz_syncobj_eventfd)

#endif /* FUZZ_DRM_H */
