// SPDX-License-Identifier: MIT
/* NPU_TRACE: wraps a transport and records its calls as slices. Unused without NPU_TRACE. */
#include <errno.h>
#include <stdlib.h>

#include "log_decode.h"
#include "npu_fail.h"
#include "trace.h"
#include "transport.h"

struct trace_transport {
	struct transport base;
	struct transport *inner;
};

static struct transport *inner_of(struct transport *t)
{
	return ((struct trace_transport *)((char *)t - offsetof(struct trace_transport, base)))
		->inner;
}

static void trace_text(int64_t start_ns, int64_t end_ns, const struct log_text *text, int ret)
{
	static const char prefix[] = "npu: ";

	npu_trace_device_call(start_ns, end_ns, text->buf + sizeof(prefix) - 1, ret);
}

static int trace_transport_ioctl(struct transport *t, unsigned long request, void *arg)
{
	struct transport *inner = inner_of(t);
	int64_t start_ns = npu_trace_begin(), end_ns;
	struct log_text text;
	int ret = inner->ops->ioctl(inner, request, arg);

	if (start_ns) {
		end_ns = npu_now_ns();
		text.len = 0;
		log_decode_ioctl(&text, request, arg, ret);
		trace_text(start_ns, end_ns, &text, ret);
	}
	return ret;
}

static int trace_transport_map(struct transport *t, uint64_t offset, size_t size, int prot,
			       void **addr)
{
	struct transport *inner = inner_of(t);
	int64_t start_ns = npu_trace_begin(), end_ns;
	struct log_text text;
	int ret = inner->ops->map(inner, offset, size, prot, addr);

	if (start_ns) {
		end_ns = npu_now_ns();
		text.len = 0;
		log_add(&text, "npu: mmap {offset=0x%llx size=%zu}", (unsigned long long)offset,
			size);
		trace_text(start_ns, end_ns, &text, ret);
	}
	return ret;
}

static int trace_transport_unmap(struct transport *t, void *addr, size_t size)
{
	struct transport *inner = inner_of(t);
	int64_t start_ns = npu_trace_begin(), end_ns;
	struct log_text text;
	int ret = inner->ops->unmap(inner, addr, size);

	if (start_ns) {
		end_ns = npu_now_ns();
		text.len = 0;
		log_add(&text, "npu: munmap {size=%zu}", size);
		trace_text(start_ns, end_ns, &text, ret);
	}
	return ret;
}

static int trace_transport_import(struct transport *t, int fd, uint64_t offset,
				  struct drm_vnpu_bo_create *create)
{
	struct transport *inner = inner_of(t);
	int64_t start_ns = npu_trace_begin(), end_ns;
	struct log_text text;
	int ret = inner->ops->import(inner, fd, offset, create);

	if (start_ns) {
		end_ns = npu_now_ns();
		text.len = 0;
		log_add_import(&text, fd, offset, create, ret);
		trace_text(start_ns, end_ns, &text, ret);
	}
	return ret;
}

static void trace_transport_close(struct transport *t)
{
	struct transport *inner = inner_of(t);

	inner->ops->close(inner);
	free((char *)t - offsetof(struct trace_transport, base));
}

static const struct transport_ops trace_transport_ops = {
	.ioctl = trace_transport_ioctl,
	.map = trace_transport_map,
	.unmap = trace_transport_unmap,
	.import = trace_transport_import,
	.close = trace_transport_close,
};

int npu_trace_wrap(struct transport *t, struct transport **out)
{
	struct trace_transport *trace;

	*out = t;
	if (!atomic_load(&npu_trace_on))
		return 0;
	trace = calloc(1, sizeof(*trace));
	if (!trace)
		return npu_fail(-ENOMEM, "trace: out of memory");
	trace->base.ops = &trace_transport_ops;
	trace->inner = t;
	*out = &trace->base;
	return 0;
}
