/* SPDX-License-Identifier: MIT */
/*
 * The one door to a device: every device call of libnpu goes through these four functions, so that
 * a transport can be logged, and replaced in a test.
 *
 * A request is an ioctl number of uapi/drm/vnpu_accel.h, or one of the DRM core's for GEM_CLOSE and
 * syncobjs, with its structure. Everything returns 0 or -errno.
 */
#ifndef NPU_PRIVATE_TRANSPORT_H
#define NPU_PRIVATE_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

struct transport;

struct transport_ops {
	int (*ioctl)(struct transport *t, unsigned long request, void *arg);
	/* Map [offset, offset + size) of the device's file; prot as for mmap(). */
	int (*map)(struct transport *t, uint64_t offset, size_t size, int prot, void **addr);
	int (*unmap)(struct transport *t, void *addr, size_t size);
	void (*close)(struct transport *t);
};

struct transport {
	const struct transport_ops *ops;
};

struct sim_options {
	unsigned int threads; /* 0: one per CPU that the process may use */
	const char *isa; /* NULL: the best there is */
	const char *profile; /* NULL: the default, if it is installed */
	/* How long a fence lasts at the most; 0: as long as vnpu.ko's, 10 s. */
	unsigned int fence_ms;
	uint64_t mem_limit_bytes; /* 0: half of the host's memory */
};

/* Why a path, or all of /dev/accel, gives no device. */
enum drm_verdict {
	DRM_VERDICT_OK,
	DRM_VERDICT_NO_MODULE, /* no node, and vnpu.ko is not loaded */
	DRM_VERDICT_NO_NODE, /* the module is loaded, but no firmware has made a device */
	DRM_VERDICT_NO_PERMISSION,
	DRM_VERDICT_NOT_VNPU,
	DRM_VERDICT_FW_LOST,
	DRM_VERDICT_VERSION,
	DRM_VERDICT_ERROR,
};

/*
 * Open @path, or with NULL the first vnpu below /dev/accel. @path_out gets the node
 * that the verdict is about, if there is one. On failure npu_error() says what and what
 * to do; returns its -errno.
 */
int transport_drm_open(const char *path, struct transport **t, char *path_out, size_t path_size,
		       enum drm_verdict *verdict);
int transport_sim_open(const struct sim_options *opts, struct transport **t);
/* What NPU_LOG asks for around @t; @t itself if it asks for nothing. */
int transport_log_wrap(struct transport *t, struct transport **out);

static inline int transport_ioctl(struct transport *t, unsigned long request, void *arg)
{
	return t->ops->ioctl(t, request, arg);
}

#endif /* NPU_PRIVATE_TRANSPORT_H */
