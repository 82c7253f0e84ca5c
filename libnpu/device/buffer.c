// SPDX-License-Identifier: MIT
/*
 * Buffers: memory that the program and the device share. Each is a GEM object, mapped here and
 * bound in its context. An unbound page behind it makes an overrun fault instead of reading other
 * data.
 *
 * The kernel maps a file by huge pages only where addresses and offsets in the file are the same
 * modulo a huge page. A buffer of a file therefore begins some bytes, its skew, behind a multiple
 * of one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "npu_private.h"
#include "probes.h"
#include "trace.h"

/* Buffers of this size or more are aligned, so that huge pages can serve them. */
#define NPU_HUGE (2ull << 20)

struct npu_buffer *npu_buffer_get(struct npu_buffer *buf)
{
	atomic_fetch_add(&buf->refs, 1);
	return buf;
}

static int npu_buffer_bind_op(struct npu_buffer *buf, uint32_t type)
{
	struct drm_vnpu_bind_op op = { .op = type, .va = buf->va, .size = buf->size };
	struct drm_vnpu_vm_bind bind = {
		.ctx_id = buf->ctx->id,
		.ops = { .stride = sizeof(op), .count = 1, .array = (uintptr_t)&op },
	};

	if (type == DRM_VNPU_BIND_MAP) {
		op.handle = buf->handle;
		if (buf->flags & NPU_BUFFER_DEVICE_READ_ONLY)
			op.flags = DRM_VNPU_BIND_READ_ONLY;
	}
	return transport_ioctl(buf->ctx->dev->t, DRM_IOCTL_VNPU_VM_BIND, &bind);
}

/* Takes addresses; 0: there are none. */
static uint64_t npu_buffer_place(struct npu_buffer *buf)
{
	struct npu_context *ctx = buf->ctx;
	uint64_t va;

	pthread_mutex_lock(&ctx->lock);
	va = npu_va_alloc(&ctx->va_free, buf->skew + buf->size + NPU_PAGE,
			  buf->size >= NPU_HUGE ? NPU_HUGE : NPU_PAGE);
	pthread_mutex_unlock(&ctx->lock);
	return va ? va + buf->skew : 0;
}

static void npu_buffer_unplace(struct npu_buffer *buf)
{
	struct npu_context *ctx = buf->ctx;

	pthread_mutex_lock(&ctx->lock);
	npu_va_free(&ctx->va_free, buf->va - buf->skew, buf->skew + buf->size + NPU_PAGE);
	pthread_mutex_unlock(&ctx->lock);
}

static int npu_buffer_bind(struct npu_buffer *buf)
{
	int ret;

	buf->va = npu_buffer_place(buf);
	if (!buf->va)
		return npu_fail(
			-ENOSPC,
			"buffer: %zu bytes do not fit into what is left of the context's address "
			"space",
			buf->wanted);
	ret = npu_buffer_bind_op(buf, DRM_VNPU_BIND_MAP);
	if (!ret)
		return 0;
	if (ret == -ECANCELED)
		return npu_fail(
			ret,
			"buffer: the context is banned; npu_context_state() says why, make a new "
			"one");
	return npu_fail(ret, "buffer: binding %zu bytes: %s", buf->wanted, strerror(-ret));
}

/* A part of a file that a buffer is made of. */
struct npu_buffer_file {
	int fd;
	uint64_t offset;
};

static int npu_buffer_alloc(struct npu_buffer *buf, const struct npu_buffer_file *file)
{
	struct npu_device *dev = buf->ctx->dev;
	struct drm_vnpu_bo_create create = { .size = buf->wanted };
	struct drm_vnpu_bo_info info = { 0 };
	int ret;

	if (buf->flags & NPU_BUFFER_DEVICE_READ_ONLY)
		create.flags = DRM_VNPU_BO_DEVICE_READ_ONLY;
	if (file && buf->wanted >= NPU_HUGE)
		buf->skew = file->offset % NPU_HUGE;
	ret = file ? dev->t->ops->import(dev->t, file->fd, file->offset, &create)
		   : transport_ioctl(dev->t, DRM_IOCTL_VNPU_BO_CREATE, &create);
	if (file && ret == -EOPNOTSUPP)
		return npu_fail(ret, "buffer: this device reads no files in place");
	if (file && ret == -EINVAL)
		return npu_fail(ret,
				"buffer: the file cannot be mapped from offset %llu on, or has not "
				"%zu bytes there",
				(unsigned long long)file->offset, buf->wanted);
	/* Only the size can be the cause. */
	if (ret == -EINVAL && buf->wanted > dev->limits.max_bo_bytes)
		ret = -ENOSPC;
	if (ret)
		return npu_fail(
			ret, "buffer: %zu bytes: %s", buf->wanted,
			ret == -ENOSPC	 ? "over the device's memory limit or its largest buffer"
			: ret == -EFBIG	 ? "the memory of a sim device counts as one file, which "
					   "may not be so large; raise ulimit -f"
			: ret == -EDQUOT ? "over the user's limit of this device's memory"
					 : strerror(-ret));
	buf->handle = create.handle;
	buf->size = create.size;
	info.handle = buf->handle;
	ret = transport_ioctl(dev->t, DRM_IOCTL_VNPU_BO_INFO, &info);
	if (!ret)
		ret = dev->t->ops->map(dev->t, info.mmap_offset, buf->size,
				       file ? PROT_READ : PROT_READ | PROT_WRITE, &buf->data);
	if (ret)
		return npu_fail(ret, "buffer: mapping %zu bytes: %s", buf->wanted, strerror(-ret));
	return 0;
}

static int npu_buffer_make(struct npu_context *ctx, size_t size_bytes, uint32_t flags,
			   const struct npu_buffer_file *file, struct npu_buffer **out)
{
	struct npu_buffer *buf;
	int ret;

	*out = NULL;
	if (flags & ~NPU_BUFFER_DEVICE_READ_ONLY)
		return npu_fail(-EINVAL, "buffer: flags 0x%x are not known", flags);
	if (!size_bytes)
		return npu_fail(-EINVAL, "buffer: 0 bytes");
	buf = calloc(1, sizeof(*buf));
	if (!buf)
		return npu_fail(-ENOMEM, "buffer: out of memory");
	atomic_init(&buf->refs, 1);
	buf->ctx = npu_context_get(ctx);
	buf->flags = flags;
	buf->wanted = size_bytes;
	ret = npu_buffer_alloc(buf, file);
	if (!ret)
		ret = npu_buffer_bind(buf);
	if (ret) {
		/* Nothing is bound: npu_buffer_free() must not unbind it. */
		if (buf->va)
			npu_buffer_unplace(buf);
		buf->va = 0;
		npu_buffer_free(buf);
		return ret;
	}
	npu_probe_buffer_create(ctx->id, buf->va, buf->size, flags);
	*out = buf;
	return 0;
}

static void npu_buffer_trace(int64_t start_ns, const char *call, const struct npu_context *ctx,
			     size_t size_bytes, uint32_t flags, const struct npu_buffer *made,
			     int ret)
{
	if (!start_ns)
		return;
	npu_trace_call(start_ns, call, ret,
		       "\"ctx\":%u,\"bytes\":%zu,\"flags\":%u,\"va\":\"0x%llx\"", ctx->id,
		       size_bytes, flags, ret ? 0 : (unsigned long long)made->va);
	if (!ret)
		npu_trace_memory((int64_t)made->size);
}

int npu_buffer_create(struct npu_context *ctx, size_t size_bytes, uint32_t flags,
		      struct npu_buffer **out)
{
	int64_t start_ns = npu_trace_begin();
	int ret = npu_buffer_make(ctx, size_bytes, flags, NULL, out);

	npu_buffer_trace(start_ns, "npu_buffer_create", ctx, size_bytes, flags, *out, ret);
	return ret;
}

int npu_buffer_map_file(struct npu_context *ctx, int fd, uint64_t offset, size_t size_bytes,
			struct npu_buffer **out)
{
	const struct npu_buffer_file file = { fd, offset };
	int64_t start_ns = npu_trace_begin();
	int ret = npu_buffer_make(ctx, size_bytes, NPU_BUFFER_DEVICE_READ_ONLY, &file, out);

	npu_buffer_trace(start_ns, "npu_buffer_map_file", ctx, size_bytes,
			 NPU_BUFFER_DEVICE_READ_ONLY, *out, ret);
	return ret;
}

void npu_buffer_free(struct npu_buffer *buf)
{
	struct drm_gem_close gem_close = { 0 };
	int64_t start_ns = npu_trace_begin();
	struct npu_context *ctx;
	struct transport *t;

	if (!buf || atomic_fetch_sub(&buf->refs, 1) != 1)
		return;
	ctx = buf->ctx;
	t = ctx->dev->t;
	if (buf->va)
		npu_probe_buffer_free(ctx->id, buf->va, buf->size);
	/* Do not reuse an address that could not be unbound. */
	if (buf->va && !npu_buffer_bind_op(buf, DRM_VNPU_BIND_UNMAP))
		npu_buffer_unplace(buf);
	npu_buffer_unmap(buf);
	if (buf->handle) {
		gem_close.handle = buf->handle;
		transport_ioctl(t, DRM_IOCTL_GEM_CLOSE, &gem_close);
	}
	if (start_ns && buf->va) {
		npu_trace_call(start_ns, "npu_buffer_free", 0,
			       "\"ctx\":%u,\"bytes\":%zu,\"va\":\"0x%llx\"", ctx->id, buf->wanted,
			       (unsigned long long)buf->va);
		npu_trace_memory(-(int64_t)buf->size);
	}
	npu_context_free(ctx);
	free(buf);
}

void *npu_buffer_data(const struct npu_buffer *buf)
{
	return buf->data;
}

void npu_buffer_unmap(struct npu_buffer *buf)
{
	struct transport *t = buf->ctx->dev->t;

	if (buf->data)
		t->ops->unmap(t, buf->data, buf->size);
	buf->data = NULL;
}

size_t npu_buffer_size(const struct npu_buffer *buf)
{
	return buf->wanted;
}

uint64_t npu_buffer_va(const struct npu_buffer *buf)
{
	return buf->va;
}
