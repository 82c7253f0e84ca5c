// SPDX-License-Identifier: MIT
/* Device calls as text. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <drm/vnpu_accel.h>

#include "log_decode.h"

typedef unsigned long long ull;

/* Room kept for the result and the duration. */
#define LOG_TAIL 128

void log_add(struct log_text *text, const char *fmt, ...)
{
	size_t room = sizeof(text->buf) - text->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text->buf + text->len, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		text->len += (size_t)n < room ? (size_t)n : room - 1;
}

static bool log_full(struct log_text *text, size_t more)
{
	return text->len + more + LOG_TAIL > sizeof(text->buf);
}

static const char *log_query_name(uint32_t type)
{
	static const char *const names[] = { "device", "limits", "state" };

	return type < 3 ? names[type] : "?";
}

static void log_query(struct log_text *t, const struct drm_vnpu_dev_query *a, int ret)
{
	const void *p = (const void *)(uintptr_t)a->pointer;
	const struct drm_vnpu_query_device *d = p;
	const struct drm_vnpu_query_state *s = p;
	const struct drm_vnpu_query_limits *l = p;

	log_add(t, "DEV_QUERY {type=%s size=%u", log_query_name(a->type), a->size);
	if (!ret && p && a->type == DRM_VNPU_QUERY_DEVICE && a->size >= sizeof(*d))
		log_add(t, " name=%.32s isa_version=%u.%u fw_abi=%u fw_features=0x%llx va_bits=%u",
			d->name, d->isa_version >> 16, d->isa_version & 0xffff, d->fw_abi,
			(ull)d->fw_features, d->va_bits);
	if (!ret && p && a->type == DRM_VNPU_QUERY_STATE && a->size >= sizeof(*s))
		log_add(t,
			" state=%u epoch=%u busy_ns=%llu mem_bytes=%llu nr_jobs=%llu nr_resets=%u "
			"last_loss=%u",
			s->state, s->epoch, (ull)s->busy_ns, (ull)s->mem_bytes, (ull)s->nr_jobs,
			s->nr_resets, s->last_loss);
	if (!ret && p && a->type == DRM_VNPU_QUERY_LIMITS && a->size >= sizeof(*l))
		log_add(t,
			" max_ctx_per_file=%u max_queues_per_file=%u max_queue_depth=%u "
			"max_jobs_per_submit=%u "
			"max_syncs_per_job=%u max_waiting_jobs=%u max_binds_per_call=%u "
			"priorities=0x%x "
			"max_bo_bytes=%llu "
			"mem_limit_bytes=%llu max_cmd_bytes=%u default_timeout_ms=%u "
			"max_timeout_ms=%u "
			"max_fence_ms=%u max_ctx_per_user=%u max_queues_per_user=%u "
			"max_bytes_per_user=%llu",
			l->max_ctx_per_file, l->max_queues_per_file, l->max_queue_depth,
			l->max_jobs_per_submit, l->max_syncs_per_job, l->max_waiting_jobs,
			l->max_binds_per_call, l->priorities, (ull)l->max_bo_bytes,
			(ull)l->mem_limit_bytes, l->max_cmd_bytes, l->default_timeout_ms,
			l->max_timeout_ms, l->max_fence_ms, l->max_ctx_per_user,
			l->max_queues_per_user, (ull)l->max_bytes_per_user);
	log_add(t, "}");
}

static void log_bind(struct log_text *t, const struct drm_vnpu_vm_bind *a)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)a->ops.array;

	log_add(t, "VM_BIND {ctx_id=%u flags=0x%x ops=[", a->ctx_id, a->flags);
	for (uint32_t i = 0; p && i < a->ops.count; i++) {
		const struct drm_vnpu_bind_op *op = (const void *)(p + (size_t)i * a->ops.stride);

		if (a->ops.stride < sizeof(*op) || log_full(t, 160)) {
			log_add(t, "...");
			break;
		}
		log_add(t, "%s{op=%s flags=0x%x handle=%u bo_offset=0x%llx va=0x%llx size=%llu}",
			i ? " " : "", op->op == DRM_VNPU_BIND_MAP ? "map" : "unmap", op->flags,
			op->handle, (ull)op->bo_offset, (ull)op->va, (ull)op->size);
	}
	log_add(t, "]}");
}

static void log_job_syncs(struct log_text *t, const struct drm_vnpu_job *j)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)j->syncs.array;

	log_add(t, " syncs=[");
	for (uint32_t i = 0; p && i < j->syncs.count; i++) {
		const struct drm_vnpu_sync_op *op = (const void *)(p + (size_t)i * j->syncs.stride);

		if (j->syncs.stride < sizeof(*op) || log_full(t, 96)) {
			log_add(t, "...");
			break;
		}
		log_add(t, "%s{%s handle=%u timeline_value=%llu}", i ? " " : "",
			op->flags & DRM_VNPU_SYNC_SIGNAL ? "signal" : "wait", op->handle,
			(ull)op->timeline_value);
	}
	log_add(t, "]");
}

static void log_submit(struct log_text *t, const struct drm_vnpu_submit *a, int ret)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)a->jobs.array;

	log_add(t, "SUBMIT {ctx_id=%u flags=0x%x count=%u jobs=[", a->ctx_id, a->flags,
		a->jobs.count);
	for (uint32_t i = 0; p && i < a->jobs.count; i++) {
		const struct drm_vnpu_job *j = (const void *)(p + (size_t)i * a->jobs.stride);

		if (a->jobs.stride < sizeof(*j) || log_full(t, 256)) {
			log_add(t, "...");
			break;
		}
		log_add(t,
			"%s{queue_id=%u flags=0x%x cmd_va=0x%llx cmd_size=%u table_va=0x%llx "
			"table_size=%u timeout_ms=%u",
			i ? " " : "", j->queue_id, j->flags, (ull)j->cmd_va, j->cmd_size,
			(ull)j->table_va, j->table_size, j->timeout_ms);
		log_job_syncs(t, j);
		if (!ret)
			log_add(t, " seqno=%llu", (ull)j->seqno);
		log_add(t, "}");
	}
	log_add(t, "]}");
}

static void log_ctx(struct log_text *t, unsigned long request, const void *arg, int ret)
{
	const struct drm_vnpu_ctx_create *c = arg;
	const struct drm_vnpu_ctx_destroy *d = arg;
	const struct drm_vnpu_ctx_get_state *s = arg;

	switch (request) {
	case DRM_IOCTL_VNPU_CTX_CREATE:
		log_add(t, "CTX_CREATE {flags=0x%x", c->flags);
		if (!ret)
			log_add(t, " ctx_id=%u va_start=0x%llx va_range=0x%llx", c->ctx_id,
				(ull)c->va_start, (ull)c->va_range);
		break;
	case DRM_IOCTL_VNPU_CTX_DESTROY:
		log_add(t, "CTX_DESTROY {ctx_id=%u", d->ctx_id);
		break;
	default:
		log_add(t, "CTX_GET_STATE {ctx_id=%u", s->ctx_id);
		if (!ret)
			log_add(t,
				" state=0x%x fault_va=0x%llx fault_flags=0x%x queue_id=%u "
				"seqno=%llu epoch=%u",
				s->state, (ull)s->fault_va, s->fault_flags, s->queue_id,
				(ull)s->seqno, s->epoch);
	}
	log_add(t, "}");
}

static void log_bo(struct log_text *t, unsigned long request, const void *arg, int ret)
{
	const struct drm_vnpu_bo_create *c = arg;
	const struct drm_vnpu_bo_info *i = arg;
	const struct drm_gem_close *g = arg;

	switch (request) {
	case DRM_IOCTL_VNPU_BO_CREATE:
		log_add(t, "BO_CREATE {size=%llu flags=0x%x", (ull)c->size, c->flags);
		if (!ret)
			log_add(t, " handle=%u", c->handle);
		break;
	case DRM_IOCTL_VNPU_BO_INFO:
		log_add(t, "BO_INFO {handle=%u", i->handle);
		if (!ret)
			log_add(t, " flags=0x%x size=%llu mmap_offset=0x%llx", i->flags,
				(ull)i->size, (ull)i->mmap_offset);
		break;
	default:
		log_add(t, "GEM_CLOSE {handle=%u", g->handle);
	}
	log_add(t, "}");
}

static void log_queue(struct log_text *t, unsigned long request, const void *arg, int ret)
{
	const struct drm_vnpu_queue_create *c = arg;
	const struct drm_vnpu_queue_destroy *d = arg;
	const struct drm_vnpu_wait *w = arg;

	switch (request) {
	case DRM_IOCTL_VNPU_QUEUE_CREATE:
		log_add(t, "QUEUE_CREATE {ctx_id=%u priority=%u depth=%u flags=0x%x", c->ctx_id,
			c->priority, c->depth, c->flags);
		if (!ret)
			log_add(t, " queue_id=%u status_offset=0x%llx", c->queue_id,
				(ull)c->status_offset);
		break;
	case DRM_IOCTL_VNPU_QUEUE_DESTROY:
		log_add(t, "QUEUE_DESTROY {queue_id=%u", d->queue_id);
		break;
	default:
		log_add(t, "WAIT {queue_id=%u flags=0x%x seqno=%llu timeout_ns=%lld", w->queue_id,
			w->flags, (ull)w->seqno, (long long)w->timeout_ns);
		if (!ret)
			log_add(t, " status=%d epoch=%u", w->status, w->epoch);
	}
	log_add(t, "}");
}

static void log_handles(struct log_text *t, uint64_t handles, uint64_t points, uint32_t count)
{
	const uint32_t *h = (const uint32_t *)(uintptr_t)handles;
	const uint64_t *p = (const uint64_t *)(uintptr_t)points;

	log_add(t, "handles=[");
	for (uint32_t i = 0; h && i < count && !log_full(t, 40); i++)
		log_add(t, "%s%u", i ? " " : "", h[i]);
	log_add(t, "]");
	if (!p)
		return;
	log_add(t, " points=[");
	for (uint32_t i = 0; i < count && !log_full(t, 40); i++)
		log_add(t, "%s%llu", i ? " " : "", (ull)p[i]);
	log_add(t, "]");
}

static void log_syncobj(struct log_text *t, unsigned long request, const void *arg, int ret)
{
	const struct drm_syncobj_create *c = arg;
	const struct drm_syncobj_destroy *d = arg;
	const struct drm_syncobj_wait *w = arg;
	const struct drm_syncobj_timeline_wait *tw = arg;
	const struct drm_syncobj_array *a = arg;
	const struct drm_syncobj_timeline_array *ta = arg;
	const struct drm_syncobj_handle *fd = arg;

	switch (request) {
	case DRM_IOCTL_SYNCOBJ_CREATE:
		log_add(t, "SYNCOBJ_CREATE {flags=0x%x", c->flags);
		if (!ret)
			log_add(t, " handle=%u", c->handle);
		break;
	case DRM_IOCTL_SYNCOBJ_DESTROY:
		log_add(t, "SYNCOBJ_DESTROY {handle=%u", d->handle);
		break;
	case DRM_IOCTL_SYNCOBJ_WAIT:
		log_add(t, "SYNCOBJ_WAIT {");
		log_handles(t, w->handles, 0, w->count_handles);
		log_add(t, " timeout_nsec=%lld flags=0x%x", (long long)w->timeout_nsec, w->flags);
		break;
	case DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT:
		log_add(t, "SYNCOBJ_TIMELINE_WAIT {");
		log_handles(t, tw->handles, tw->points, tw->count_handles);
		log_add(t, " timeout_nsec=%lld flags=0x%x", (long long)tw->timeout_nsec, tw->flags);
		break;
	case DRM_IOCTL_SYNCOBJ_SIGNAL:
	case DRM_IOCTL_SYNCOBJ_RESET:
		log_add(t, "SYNCOBJ_%s {",
			request == DRM_IOCTL_SYNCOBJ_SIGNAL ? "SIGNAL" : "RESET");
		log_handles(t, a->handles, 0, a->count_handles);
		break;
	case DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL:
	case DRM_IOCTL_SYNCOBJ_QUERY:
		log_add(t, "SYNCOBJ_%s {",
			request == DRM_IOCTL_SYNCOBJ_QUERY ? "QUERY" : "TIMELINE_SIGNAL");
		log_handles(t, ta->handles, ta->points, ta->count_handles);
		log_add(t, " flags=0x%x", ta->flags);
		break;
	case DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD:
		log_add(t, "SYNCOBJ_HANDLE_TO_FD {handle=%u flags=0x%x", fd->handle, fd->flags);
		if (!ret)
			log_add(t, " fd=%d", fd->fd);
		break;
	default:
		log_add(t, "ioctl 0x%lx {", request);
	}
	log_add(t, "}");
}

void log_decode_ioctl(struct log_text *t, unsigned long request, const void *arg, int ret)
{
	log_add(t, "npu: ");
	switch (request) {
	case DRM_IOCTL_VNPU_DEV_QUERY:
		log_query(t, arg, ret);
		break;
	case DRM_IOCTL_VNPU_BO_CREATE:
	case DRM_IOCTL_VNPU_BO_INFO:
	case DRM_IOCTL_GEM_CLOSE:
		log_bo(t, request, arg, ret);
		break;
	case DRM_IOCTL_VNPU_CTX_CREATE:
	case DRM_IOCTL_VNPU_CTX_DESTROY:
	case DRM_IOCTL_VNPU_CTX_GET_STATE:
		log_ctx(t, request, arg, ret);
		break;
	case DRM_IOCTL_VNPU_VM_BIND:
		log_bind(t, arg);
		break;
	case DRM_IOCTL_VNPU_QUEUE_CREATE:
	case DRM_IOCTL_VNPU_QUEUE_DESTROY:
	case DRM_IOCTL_VNPU_WAIT:
		log_queue(t, request, arg, ret);
		break;
	case DRM_IOCTL_VNPU_SUBMIT:
		log_submit(t, arg, ret);
		break;
	default:
		log_syncobj(t, request, arg, ret);
	}
}

void log_add_import(struct log_text *text, int fd, uint64_t offset,
		    const struct drm_vnpu_bo_create *create, int ret)
{
	log_add(text, "npu: import {fd=%d offset=0x%llx size=%llu", fd, (ull)offset,
		(ull)create->size);
	if (!ret)
		log_add(text, " handle=%u", create->handle);
	log_add(text, "}");
}
