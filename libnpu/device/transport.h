/* SPDX-License-Identifier: MIT */
/*
 * Every device call of libnpu goes through these functions, so that a transport can be logged,
 * or replaced in a test.
 *
 * A request is an ioctl number of uapi/drm/vnpu_accel.h, or one of the DRM core's for GEM_CLOSE and
 * syncobjs, with its structure. All functions return 0 or -errno.
 */
#ifndef NPU_PRIVATE_TRANSPORT_H
#define NPU_PRIVATE_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct drm_vnpu_bo_create;
struct transport;

struct transport_ops {
	int (*ioctl)(struct transport *t, unsigned long request, void *arg);
	/* Maps [offset, offset + size) of the device's file; prot as for mmap(). */
	int (*map)(struct transport *t, uint64_t offset, size_t size, int prot, void **addr);
	int (*unmap)(struct transport *t, void *addr, size_t size);
	/* BO_CREATE of part of a file, in place. -EOPNOTSUPP: the device reads no files. */
	int (*import)(struct transport *t, int fd, uint64_t offset,
		      struct drm_vnpu_bo_create *create);
	void (*close)(struct transport *t);
};

struct transport {
	const struct transport_ops *ops;
	/* The device's workers take all CPUs that this process may use, so a thread that polls
	 * while they compute takes a CPU from one of them. */
	bool no_spare_cpu;
};

struct sim_options {
	unsigned int threads; /* 0: one per CPU that the process may use */
	const char *isa; /* NULL: the best one supported */
	const char *profile; /* NULL: the default, if it is installed */
	/* Longest lifetime of a fence; 0: that of vnpu.ko, 10 s. */
	unsigned int fence_ms;
	uint64_t mem_limit_bytes; /* 0: half of the host's memory */
};

/* Why there is no usable device at a path, or in /dev/accel. */
enum drm_verdict {
	DRM_VERDICT_OK,
	DRM_VERDICT_NO_MODULE, /* no node, and vnpu.ko is not loaded */
	DRM_VERDICT_NO_NODE, /* the module is loaded, but no firmware has created a device */
	DRM_VERDICT_NO_PERMISSION,
	DRM_VERDICT_NOT_VNPU,
	DRM_VERDICT_FW_LOST,
	DRM_VERDICT_VERSION,
	DRM_VERDICT_ERROR,
};

/*
 * Opens @path, or the first vnpu in /dev/accel if it is NULL. @path_out gets the node that the
 * verdict is about, if there is one. On failure returns -errno and sets npu_error().
 */
int transport_drm_open(const char *path, struct transport **t, char *path_out, size_t path_size,
		       enum drm_verdict *verdict);
int transport_sim_open(const struct sim_options *opts, struct transport **t);
/* Wraps @t in what NPU_LOG asks for; *@out is @t itself if that is nothing. */
int transport_log_wrap(struct transport *t, struct transport **out);

static inline int transport_ioctl(struct transport *t, unsigned long request, void *arg)
{
	return t->ops->ioctl(t, request, arg);
}

#endif /* NPU_PRIVATE_TRANSPORT_H */
