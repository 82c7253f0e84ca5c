// SPDX-License-Identifier: MIT
/* Contexts: address spaces of the device; libnpu allocates the addresses in them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "npu_private.h"
#include "trace.h"

struct npu_context *npu_context_get(struct npu_context *ctx)
{
	atomic_fetch_add(&ctx->refs, 1);
	return ctx;
}

static int npu_context_make(struct npu_device *dev, struct npu_context **out)
{
	struct drm_vnpu_ctx_create create = { 0 };
	struct drm_vnpu_ctx_destroy destroy = { 0 };
	struct npu_context *ctx;
	int ret;

	*out = NULL;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return npu_fail(-ENOMEM, "context: out of memory");
	ret = transport_ioctl(dev->t, DRM_IOCTL_VNPU_CTX_CREATE, &create);
	if (ret) {
		free(ctx);
		if (ret == -EMFILE)
			return npu_fail(
				ret,
				"context: this device handle has reached its limit of %u; free one",
				dev->limits.max_ctx_per_file);
		if (ret == -EDQUOT)
			return npu_fail(
				ret,
				"context: your user has reached this device's limit of %u; free "
				"one, or give vnpu-fw more --user-contexts",
				dev->limits.max_ctx_per_user);
		if (ret == -EBUSY)
			return npu_fail(
				ret,
				"context: all contexts of the device are in use, or its firmware "
				"is lost; try again later, npu-info --doctor says which");
		/* The sim transport says how many it asked for at last. */
		if (ret == -ENOMEM && create.va_range)
			return npu_fail(ret,
					"context: the sim transport cannot reserve even %" PRIu64
					" MiB of addresses; raise the limit (ulimit -v)",
					(uint64_t)create.va_range >> 20);
		return npu_fail(ret, "context: CTX_CREATE: %s", strerror(-ret));
	}
	ctx->id = create.ctx_id;
	ret = npu_va_init(&ctx->va_free, create.va_start, create.va_range);
	if (ret) {
		destroy.ctx_id = ctx->id;
		transport_ioctl(dev->t, DRM_IOCTL_VNPU_CTX_DESTROY, &destroy);
		free(ctx);
		return npu_fail(ret, "context: out of memory");
	}
	atomic_init(&ctx->refs, 1);
	pthread_mutex_init(&ctx->lock, NULL);
	ctx->dev = npu_device_get(dev);
	*out = ctx;
	return 0;
}

int npu_context_create(struct npu_device *dev, struct npu_context **out)
{
	int64_t start_ns = npu_trace_begin();
	int ret = npu_context_make(dev, out);

	if (start_ns)
		npu_trace_call(start_ns, "npu_context_create", ret, "\"device\":%u,\"ctx\":%u",
			       dev->trace_nr, ret ? 0 : (*out)->id);
	return ret;
}

void npu_context_free(struct npu_context *ctx)
{
	struct drm_vnpu_ctx_destroy destroy = { 0 };
	int64_t start_ns = npu_trace_begin();

	if (!ctx || atomic_fetch_sub(&ctx->refs, 1) != 1)
		return;
	destroy.ctx_id = ctx->id;
	transport_ioctl(ctx->dev->t, DRM_IOCTL_VNPU_CTX_DESTROY, &destroy);
	npu_va_fini(&ctx->va_free);
	pthread_mutex_destroy(&ctx->lock);
	if (start_ns)
		npu_trace_call(start_ns, "npu_context_free", 0, "\"device\":%u,\"ctx\":%u",
			       ctx->dev->trace_nr, ctx->id);
	npu_device_close(ctx->dev);
	free(ctx);
}

int npu_context_state(struct npu_context *ctx, struct npu_context_state *state)
{
	struct drm_vnpu_ctx_get_state get = { .ctx_id = ctx->id };
	int ret = transport_ioctl(ctx->dev->t, DRM_IOCTL_VNPU_CTX_GET_STATE, &get);

	if (ret)
		return npu_fail(ret, "context %u: CTX_GET_STATE: %s", ctx->id, strerror(-ret));
	*state = (struct npu_context_state){
		.fault_va = get.fault_va,
		.fault_write = get.fault_flags & DRM_VNPU_FAULT_WRITE,
		.seqno = get.seqno,
	};
	if (get.state & DRM_VNPU_CTX_TIMEDOUT)
		state->state |= NPU_CONTEXT_TIMEDOUT;
	if (get.state & DRM_VNPU_CTX_FAULT)
		state->state |= NPU_CONTEXT_FAULT;
	if (get.state & DRM_VNPU_CTX_FW_LOST)
		state->state |= NPU_CONTEXT_FW_LOST;
	return 0;
}
