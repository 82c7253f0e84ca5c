// SPDX-License-Identifier: MIT
/* A fuzzing client's driver calls: valid, nearly valid, and in useful sequences. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_client.h"

#define VA_BASE 0x10000ull
#define VA_STEP 0x40000ull
#define MAX_JOBS 6
#define MAX_SYNCS 4

/* ---- queries ---- */

static void dev_query(struct file *f)
{
	static _Thread_local uint8_t buf[2 * DRM_VNPU_PAGE_SIZE];
	struct drm_vnpu_dev_query q = { .type = fz_below(4),
					.size = fz_below(fz_one_in(4) ? sizeof(buf) : 256),
					.pointer = fz_one_in(4) ? 0 : (uintptr_t)buf };

	call(FZ_DEV_QUERY, f->fd, &q);
}

/* ---- buffers ---- */

static uint32_t bo_create(struct file *f, uint64_t size)
{
	struct drm_vnpu_bo_create create = { .size = size, .flags = fz_one_in(8) };
	struct drm_gem_close close = { 0 };

	if (call(FZ_BO_CREATE, f->fd, &create) || !create.handle)
		return 0;
	close.handle = put(f->bos, NR_BOS, create.handle);
	if (close.handle)
		fz_ioctl(FZ_GEM_CLOSE, f->fd, &close);
	return create.handle;
}

static void bo_close(struct file *f)
{
	struct drm_gem_close close = { .handle = fz_one_in(2) ? put(f->bos, NR_BOS, 0)
							      : pick(f->bos, NR_BOS) };

	call(FZ_GEM_CLOSE, f->fd, &close);
}

static void prime(struct file *f)
{
	struct drm_prime_handle p = { .handle = pick(f->bos, NR_BOS),
				      .flags =
					      fz_one_in(2) ? DRM_CLOEXEC : DRM_CLOEXEC | DRM_RDWR };

	if (fz_one_in(2)) {
		if (!call(FZ_PRIME_HANDLE_TO_FD, f->fd, &p) && p.fd > 2)
			put_fd(p.fd);
		return;
	}
	p = (struct drm_prime_handle){ .fd = pick_fd() };
	if (!call(FZ_PRIME_FD_TO_HANDLE, f->fd, &p))
		put(f->bos, NR_BOS, p.handle);
}

/* ---- contexts and bindings ---- */

static void ctx_end(struct file *f, uint32_t id)
{
	struct drm_vnpu_ctx_destroy destroy = { .ctx_id = id };

	call(FZ_CTX_DESTROY, f->fd, &destroy);
}

static uint32_t ctx_create(struct file *f)
{
	struct drm_vnpu_ctx_create create = { 0 };
	uint32_t old;

	if (call(FZ_CTX_CREATE, f->fd, &create) || !create.ctx_id)
		return 0;
	old = put(f->ctxs, NR_CTXS, create.ctx_id);
	if (old)
		ctx_end(f, old);
	return create.ctx_id;
}

static void ctx_state(struct file *f)
{
	struct drm_vnpu_ctx_get_state state = { .ctx_id = pick(f->ctxs, NR_CTXS) };

	call(FZ_CTX_GET_STATE, f->fd, &state);
}

static void vm_bind(struct file *f, uint32_t ctx, uint32_t handle)
{
	struct drm_vnpu_bind_op ops[6] = { 0 };
	struct drm_vnpu_vm_bind bind = { .ctx_id = ctx,
					 .ops = { sizeof(*ops), 1 + fz_below(fz_one_in(3) ? 6 : 1),
						  (uintptr_t)ops } };
	struct bind *b = &f->binds[fz_below(NR_BINDS)];

	for (uint32_t i = 0; i < bind.ops.count; i++) {
		if (fz_one_in(3)) {
			b = &f->binds[fz_below(NR_BINDS)];
			ops[i] = (struct drm_vnpu_bind_op){ .op = DRM_VNPU_BIND_UNMAP,
							    .va = b->va,
							    .size = b->size };
			if (fz_one_in(2))
				bind.ctx_id = b->ctx;
			continue;
		}
		ops[i] = (struct drm_vnpu_bind_op){
			.op = DRM_VNPU_BIND_MAP,
			.flags = fz_one_in(4),
			.handle = i ? pick(f->bos, NR_BOS) : handle,
			.bo_offset = fz_one_in(4) ? fz_below(4) * PAGE : 0,
			.va = VA_BASE + fz_below(16) * VA_STEP,
			.size = (1 + fz_below(fz_one_in(4) ? 64 : 4)) * PAGE
		};
		*b = (struct bind){ ctx, ops[i].handle, ops[i].va, ops[i].size };
	}
	if (fz_one_in(10))
		fz_mutate(&ops[fz_below(bind.ops.count)], sizeof(*ops));
	if (fz_one_in(30))
		bind.ops.array = fz_pointer();
	call(FZ_VM_BIND, f->fd, &bind);
}

/* ---- queues ---- */

static void queue_end(struct file *f, uint32_t id)
{
	struct drm_vnpu_queue_destroy destroy = { .queue_id = id };

	call(FZ_QUEUE_DESTROY, f->fd, &destroy);
}

static uint32_t queue_create(struct file *f, uint32_t ctx)
{
	struct drm_vnpu_queue_create create = { .ctx_id = ctx,
						.priority = fz_below(3),
						.depth = 1u << fz_below(4) };
	uint32_t at = fz_below(NR_QUEUES), old;

	if (call(FZ_QUEUE_CREATE, f->fd, &create) || !create.queue_id)
		return 0;
	f->status_offset[at] = create.status_offset;
	old = __atomic_exchange_n(&f->queues[at], create.queue_id, __ATOMIC_RELAXED);
	if (old)
		queue_end(f, old);
	return create.queue_id;
}

/* ---- jobs ---- */

struct batch {
	struct drm_vnpu_job jobs[MAX_JOBS];
	struct drm_vnpu_sync_op syncs[MAX_JOBS][MAX_SYNCS];
};

static void fill_job(struct file *f, struct batch *b, uint32_t i, uint32_t queue)
{
	static const uint32_t timeouts[] = { 0, 0, 1, 20, 100, 500, 2000, 20000 };
	uint32_t nr_syncs = fz_one_in(2) ? fz_below(MAX_SYNCS + 1) : 0;
	struct drm_vnpu_job *job = &b->jobs[i];

	*job = (struct drm_vnpu_job){
		.queue_id = fz_one_in(4) ? pick(f->queues, NR_QUEUES) : queue,
		.cmd_va = VA_BASE + fz_below(16) * VA_STEP,
		.table_va = VA_BASE + fz_below(16) * VA_STEP,
		.cmd_size = 8 * (1 + fz_below(64)),
		.table_size = 8 * (1 + fz_below(64)),
		.timeout_ms = timeouts[fz_below(8)],
	};
	for (uint32_t k = 0; k < nr_syncs; k++)
		b->syncs[i][k] =
			(struct drm_vnpu_sync_op){ .flags = fz_one_in(3) ? 0 : DRM_VNPU_SYNC_SIGNAL,
						   .handle = pick(f->syncobjs, NR_SYNCOBJS),
						   .timeline_value =
							   fz_one_in(2) ? 0 : fz_below(100) };
	if (nr_syncs)
		job->syncs = (struct drm_vnpu_obj_array){ sizeof(**b->syncs), nr_syncs,
							  (uintptr_t)b->syncs[i] };
	if (nr_syncs && fz_one_in(20))
		fz_mutate(b->syncs[i], sizeof(**b->syncs));
	if (fz_one_in(15))
		fz_mutate(job, sizeof(*job));
}

static uint64_t submit(struct file *f, uint32_t ctx, uint32_t queue)
{
	struct batch b;
	struct drm_vnpu_submit s = { .ctx_id = ctx,
				     .jobs = { sizeof(*b.jobs),
					       1 + fz_below(fz_one_in(2) ? MAX_JOBS : 1),
					       (uintptr_t)b.jobs } };

	for (uint32_t i = 0; i < s.jobs.count; i++)
		fill_job(f, &b, i, queue);
	if (fz_one_in(40))
		s.jobs.array = fz_pointer();
	return call(FZ_SUBMIT, f->fd, &s)
		       ? 0
		       : b.jobs[s.jobs.count <= MAX_JOBS ? s.jobs.count - 1 : 0].seqno;
}

static void wait_job(struct file *f, uint32_t queue, uint64_t seqno)
{
	struct drm_vnpu_wait wait = { .queue_id = queue,
				      .seqno = seqno,
				      .timeout_ns = some_deadline() };

	call(FZ_WAIT, f->fd, &wait);
}

/* ---- sequences ---- */

/* Submits as many jobs as a queue accepts, behind one that waits for a random syncobj. */
static void flood(struct file *f, uint32_t ctx, uint32_t queue)
{
	struct drm_vnpu_job job = { .queue_id = queue,
				    .cmd_va = VA_BASE,
				    .table_va = VA_BASE,
				    .cmd_size = 8,
				    .table_size = 8 };
	struct drm_vnpu_sync_op sync = { .handle = pick(f->syncobjs, NR_SYNCOBJS) };
	struct drm_vnpu_submit s = { .ctx_id = ctx, .jobs = { sizeof(job), 1, (uintptr_t)&job } };

	job.syncs = (struct drm_vnpu_obj_array){ sizeof(sync), 1, (uintptr_t)&sync };
	for (int i = 0; i < 300 && !fz_ioctl(FZ_SUBMIT, f->fd, &s); i++)
		job.syncs = (struct drm_vnpu_obj_array){ 0 };
}

/* What a normal client does, with its objects destroyed in any order or not at all. */
static void life(struct file *f)
{
	uint32_t ctx = ctx_create(f), bo = bo_create(f, (1 + fz_below(64)) * PAGE), queue;
	uint64_t seqno = 0;

	if (!ctx)
		return;
	for (int i = fz_below(3); i >= 0; i--)
		vm_bind(f, ctx, bo);
	queue = queue_create(f, ctx);
	for (int i = fz_below(6); i >= 0; i--)
		seqno = submit(f, ctx, queue);
	switch (fz_below(6)) {
	case 0:
		ctx_end(f, ctx);
		break;
	case 1:
		queue_end(f, queue);
		break;
	case 2:
		close(__atomic_exchange_n(&f->fd, -1, __ATOMIC_RELAXED));
		break;
	default:
		wait_job(f, queue, seqno);
	}
}

void drm_step(struct file *f)
{
	uint32_t ctx = pick(f->ctxs, NR_CTXS), queue = pick(f->queues, NR_QUEUES);

	switch (fz_below(32)) {
	case 0:
		dev_query(f);
		break;
	case 1:
	case 2:
		bo_create(f, fz_one_in(20) ? fz_number(PAGE)
					   : (1 + fz_below(fz_one_in(8) ? 256 : 16)) * PAGE);
		break;
	case 3:
		bo_close(f);
		break;
	case 4:
		if (fz_one_in(8))
			flood(f, ctx, queue);
		break;
	case 5:
		prime(f);
		break;
	case 6:
		ctx_state(f);
		break;
	case 7:
		if (fz_one_in(3))
			ctx_end(f, ctx);
		break;
	case 8:
		queue_end(f, queue);
		break;
	case 9:
	case 10:
		queue_create(f, ctx);
		break;
	case 11 ... 16:
		vm_bind(f, ctx, pick(f->bos, NR_BOS));
		break;
	case 17 ... 24:
		submit(f, ctx, queue);
		break;
	case 25 ... 27:
		wait_job(f, queue, 1 + fz_below(8));
		break;
	default:
		life(f);
	}
}
