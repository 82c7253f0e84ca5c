/* SPDX-License-Identifier: MIT */
/* Definitions that the kernel's drm.h has and an older libdrm's lacks. */
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

struct fuzz_set_client_name {
	__u64 name_len;
	__u64 name;
};

#define FUZZ_SET_CLIENT_NAME DRM_IOWR(0xD1, struct fuzz_set_client_name)

/* sw_sync's and vgem's calls are in no installed header. */
struct fuzz_sw_sync_fence {
	__u32 value;
	char name[32];
	__s32 fence;
};

#define FUZZ_SW_SYNC_CREATE_FENCE _IOWR('W', 0, struct fuzz_sw_sync_fence)

struct fuzz_vgem_attach {
	__u32 handle;
	__u32 flags;
	__u32 out_fence;
	__u32 pad;
};

#define FUZZ_VGEM_ATTACH DRM_IOWR(DRM_COMMAND_BASE + 1, struct fuzz_vgem_attach)
#define FUZZ_VGEM_WRITE 1

#endif /* FUZZ_DRM_H */
