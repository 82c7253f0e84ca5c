// SPDX-License-Identifier: MIT
/*
 * Contexts of the simulated device. The address space is a reserved, inaccessible range of this
 * process; binding maps part of a buffer there. No fault is ever raised: the core announces its
 * accesses, and sim_ctx_guard() checks them against the bindings while it keeps those from
 * changing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "sim.h"

/* Of a context's addresses: fewer hold no model. */
#define MIN_BYTES (64ull << 20)

static uint32_t sim_ctx_take_number(struct sim *sim)
{
	for (uint32_t id = 1; id <= SIM_NR_CTX; id++)
		if (!sim_table_get(&sim->ctxs, id) && !sim->closing[id - 1])
			return id;
	return 0;
}

static unsigned int sim_ctx_count(const struct sim *sim)
{
	unsigned int nr = 0;

	for (uint32_t i = 0; i < sim->ctxs.size; i++)
		nr += sim->ctxs.slots[i] != NULL;
	return nr;
}

/*
 * To try after @bytes. Where the process may not have that many (ulimit -v), half of what it may:
 * buffers are mapped once in the context and once for the program.
 */
static uint64_t sim_ctx_fewer(uint64_t bytes)
{
	struct rlimit limit;

	bytes /= 2;
	if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur / 2 < bytes)
		bytes = limit.rlim_cur / 2;
	return bytes > MIN_BYTES ? bytes & ~(uint64_t)(SIM_HUGE - 1) : MIN_BYTES;
}

/* Reserves the context's addresses: as many as can be had, whatever the reason that there are fewer
 * (valgrind gives no 64 GiB). */
static int sim_ctx_reserve(struct sim_ctx *ctx)
{
	ctx->bytes = 1ull << SIM_VA_BITS;
	while ((ctx->base = sim_reserve(ctx->bytes)) == MAP_FAILED) {
		if (ctx->bytes == MIN_BYTES)
			return -ENOMEM;
		ctx->bytes = sim_ctx_fewer(ctx->bytes);
	}
	return 0;
}

int sim_ctx_create(struct sim *sim, struct drm_vnpu_ctx_create *args)
{
	uint32_t id = sim_ctx_take_number(sim);
	pthread_rwlockattr_t attr;
	struct sim_ctx *ctx;
	void **slots;

	if (args->flags)
		return -EINVAL;
	if (sim_ctx_count(sim) >= SIM_MAX_CTX)
		return -EMFILE;
	if (!id)
		return -EBUSY;
	if (id > sim->ctxs.size) {
		slots = realloc(sim->ctxs.slots, id * sizeof(*slots));
		if (!slots)
			return -ENOMEM;
		memset(slots + sim->ctxs.size, 0, (id - sim->ctxs.size) * sizeof(*slots));
		sim->ctxs.slots = slots;
		sim->ctxs.size = id;
	}
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return -ENOMEM;
	if (sim_ctx_reserve(ctx)) {
		args->va_range = ctx->bytes;
		free(ctx);
		return -ENOMEM;
	}
	/* By default readers are preferred, and a busy device could block VM_BIND for ever. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&ctx->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	ctx->id = id;
	sim->ctxs.slots[id - 1] = ctx;
	args->ctx_id = id;
	args->va_start = SIM_VA_START;
	args->va_range = ctx->bytes - SIM_VA_START;
	return 0;
}

static void sim_ctx_clear(struct sim *sim, struct sim_ctx *ctx)
{
	pthread_rwlock_wrlock(&ctx->lock);
	for (unsigned int i = 0; i < ctx->nr_bindings; i++)
		sim_bo_put(sim, ctx->bindings[i].bo);
	ctx->nr_bindings = 0;
	mmap(ctx->base, ctx->bytes, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	pthread_rwlock_unlock(&ctx->lock);
}

void sim_ctx_free(struct sim *sim, struct sim_ctx *ctx)
{
	sim_ctx_clear(sim, ctx);
	munmap(ctx->base, ctx->bytes);
	pthread_rwlock_destroy(&ctx->lock);
	free(ctx->bindings);
	free(ctx);
}

int sim_ctx_destroy(struct sim *sim, struct drm_vnpu_ctx_destroy *args)
{
	struct sim_ctx *ctx = sim_table_get(&sim->ctxs, args->ctx_id);
	struct vnpu_fw_sqe close = { .type = VNPU_FW_SQE_CTX_CLOSE };

	if (args->pad)
		return -EINVAL;
	if (!ctx)
		return -ENOENT;
	sim->ctxs.slots[ctx->id - 1] = NULL;
	for (uint32_t i = 0; i < sim->queues.size; i++) {
		struct sim_queue *queue = sim->queues.slots[i];

		if (queue && queue->ctx == ctx) {
			sim->queues.slots[i] = NULL;
			sim_queue_kill(sim, queue);
		}
	}
	sim_ctx_clear(sim, ctx);
	sim->closing[ctx->id - 1] = ctx;
	close.ctx = ctx->id;
	if (sim_port_send(sim, &close))
		sim_port_kick(sim);
	return 0;
}

int sim_ctx_get_state(struct sim *sim, struct drm_vnpu_ctx_get_state *args)
{
	struct sim_ctx *ctx = sim_table_get(&sim->ctxs, args->ctx_id);

	if (args->pad)
		return -EINVAL;
	if (!ctx)
		return -ENOENT;
	args->state = ctx->state;
	args->fault_va = ctx->fault_va;
	args->fault_flags = ctx->fault_flags;
	args->queue_id = ctx->ban_queue;
	args->seqno = ctx->ban_seqno;
	args->epoch = sim->epoch;
	return 0;
}

void sim_ctx_ban(struct sim *sim, struct sim_ctx *ctx, uint32_t state, struct sim_job *culprit,
		 int error)
{
	int others = state == DRM_VNPU_CTX_FW_LOST ? -EIO : -ECANCELED;

	if (culprit && !ctx->state) {
		ctx->ban_queue = culprit->queue->id;
		ctx->ban_seqno = culprit->sqe.seqno;
	}
	ctx->state |= state;
	for (uint32_t i = 0; i < sim->queues.size; i++) {
		struct sim_queue *queue = sim->queues.slots[i];

		if (queue && queue->ctx == ctx)
			sim_queue_fail(sim, queue, culprit, error, others);
	}
}

/* ---- bindings ---- */

/* Index of the first binding that ends above @va. */
static unsigned int sim_ctx_find(const struct sim_ctx *ctx, uint64_t va)
{
	unsigned int lo = 0, hi = ctx->nr_bindings;

	while (lo < hi) {
		unsigned int mid = (lo + hi) / 2;

		if (ctx->bindings[mid].va + ctx->bindings[mid].size <= va)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool sim_ctx_refuses(const struct sim_ctx *ctx, const struct fw_access *acc,
			    struct fw_fault *fault)
{
	uint64_t va = acc->va, end = acc->va + acc->size;

	fault->write = acc->write;
	fault->va = va;
	if (!acc->size)
		return false;
	if (end < va)
		return true;
	for (unsigned int i = sim_ctx_find(ctx, va); va < end; i++) {
		const struct sim_binding *b = &ctx->bindings[i];

		fault->va = va;
		if (i == ctx->nr_bindings || b->va > va || (acc->write && b->read_only))
			return true;
		va = b->va + b->size;
	}
	return false;
}

int sim_ctx_guard(struct sim_ctx *ctx, const struct fw_access *acc, unsigned int nr_acc,
		  void (*fn)(void *arg), void *arg, struct fw_fault *fault)
{
	struct fw_fault f;
	int ret = 0;

	pthread_rwlock_rdlock(&ctx->lock);
	for (unsigned int i = 0; i < nr_acc && !ret; i++)
		if (sim_ctx_refuses(ctx, &acc[i], &f))
			ret = -EFAULT;
	if (!ret)
		fn(arg);
	pthread_rwlock_unlock(&ctx->lock);
	if (ret)
		*fault = f;
	return ret;
}

static int sim_bind_check(const struct sim_ctx *ctx, const struct drm_vnpu_bind_op *op)
{
	if (op->pad || !op->size || ((op->va | op->size | op->bo_offset) & (SIM_PAGE - 1)))
		return -EINVAL;
	if (op->va < SIM_VA_START || op->va + op->size < op->va || op->va + op->size > ctx->bytes)
		return -EINVAL;
	switch (op->op) {
	case DRM_VNPU_BIND_MAP:
		return op->flags & ~DRM_VNPU_BIND_READ_ONLY ? -EINVAL : 0;
	case DRM_VNPU_BIND_UNMAP:
		return op->flags || op->handle || op->bo_offset ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
}

static int sim_binding_pages(struct sim *sim, struct sim_ctx *ctx, const struct sim_binding *b)
{
	int prot = PROT_READ | (b->read_only ? 0 : PROT_WRITE);
	void *p = sim_map_pages(sim, b->bo, ctx->base + b->va, b->bo_offset, b->size, prot);

	return p == MAP_FAILED ? -errno : 0;
}

static int sim_bind_map(struct sim *sim, struct sim_ctx *ctx, const struct sim_binding *b)
{
	unsigned int i = sim_ctx_find(ctx, b->va);
	struct sim_binding *grown;
	int ret;

	if (i < ctx->nr_bindings && ctx->bindings[i].va < b->va + b->size)
		return -ENOSPC;
	if (ctx->nr_bindings == ctx->cap_bindings) {
		grown = realloc(ctx->bindings, (ctx->cap_bindings * 2 + 16) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		ctx->bindings = grown;
		ctx->cap_bindings = ctx->cap_bindings * 2 + 16;
	}
	ret = sim_binding_pages(sim, ctx, b);
	if (ret)
		return ret;
	memmove(&ctx->bindings[i + 1], &ctx->bindings[i], (ctx->nr_bindings - i) * sizeof(*b));
	ctx->bindings[i] = *b;
	ctx->nr_bindings++;
	return 0;
}

static int sim_bind_unmap(struct sim_ctx *ctx, uint64_t va, uint64_t size, struct sim_binding *old)
{
	unsigned int i = sim_ctx_find(ctx, va);
	void *p;

	if (i == ctx->nr_bindings || ctx->bindings[i].va != va || ctx->bindings[i].size != size)
		return -ENOENT;
	p = mmap(ctx->base + va, size, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	*old = ctx->bindings[i];
	memmove(&ctx->bindings[i], &ctx->bindings[i + 1],
		(ctx->nr_bindings - i - 1) * sizeof(*old));
	ctx->nr_bindings--;
	return 0;
}

/* One operation in progress: the new binding of a MAP, the removed one of an UNMAP. */
struct sim_bind_step {
	struct sim_binding binding;
	bool map, done;
};

static int sim_bind_prepare(struct sim *sim, struct sim_ctx *ctx, const struct drm_vnpu_bind_op *op,
			    struct sim_bind_step *step)
{
	int ret = sim_bind_check(ctx, op);
	struct sim_bo *bo;

	if (ret || op->op != DRM_VNPU_BIND_MAP)
		return ret;
	if (ctx->state)
		return -ECANCELED;
	bo = sim_table_get(&sim->bos, op->handle);
	if (!bo)
		return -ENOENT;
	if (op->bo_offset > bo->size || op->size > bo->size - op->bo_offset)
		return -EINVAL;
	if ((bo->flags & DRM_VNPU_BO_DEVICE_READ_ONLY) && !(op->flags & DRM_VNPU_BIND_READ_ONLY))
		return -EINVAL;
	step->map = true;
	step->binding = (struct sim_binding){
		.va = op->va,
		.size = op->size,
		.bo_offset = op->bo_offset,
		.bo = bo,
		.read_only = op->flags & DRM_VNPU_BIND_READ_ONLY,
	};
	return 0;
}

static int sim_bind_commit(struct sim *sim, struct sim_ctx *ctx, const struct drm_vnpu_bind_op *ops,
			   struct sim_bind_step *steps, uint32_t nr)
{
	struct sim_binding old;
	int ret = 0;

	pthread_rwlock_wrlock(&ctx->lock);
	for (uint32_t i = 0; i < nr && !ret; i++) {
		if (steps[i].map)
			ret = sim_bind_map(sim, ctx, &steps[i].binding);
		else
			ret = sim_bind_unmap(ctx, ops[i].va, ops[i].size, &steps[i].binding);
		steps[i].done = !ret;
	}
	for (uint32_t i = nr; ret && i--;) {
		if (steps[i].done && steps[i].map)
			sim_bind_unmap(ctx, ops[i].va, ops[i].size, &old);
		else if (steps[i].done)
			sim_bind_map(sim, ctx, &steps[i].binding);
	}
	pthread_rwlock_unlock(&ctx->lock);
	return ret;
}

int sim_vm_bind(struct sim *sim, struct drm_vnpu_vm_bind *args)
{
	struct sim_ctx *ctx = sim_table_get(&sim->ctxs, args->ctx_id);
	uint32_t nr = args->ops.count;
	struct drm_vnpu_bind_op *ops = NULL;
	struct sim_bind_step *steps = NULL;
	int ret;

	if (args->flags)
		return -EINVAL;
	if (!ctx)
		return -ENOENT;
	ret = sim_array_check(&args->ops, SIM_MAX_BINDS, sizeof(*ops));
	if (ret || !nr)
		return ret;
	ops = calloc(nr, sizeof(*ops));
	steps = calloc(nr, sizeof(*steps));
	if (!ops || !steps)
		ret = -ENOMEM;
	for (uint32_t i = 0; i < nr && !ret; i++)
		ret = sim_array_get(&args->ops, i, &ops[i], sizeof(*ops));
	for (uint32_t i = 0; i < nr && !ret; i++)
		ret = sim_bind_prepare(sim, ctx, &ops[i], &steps[i]);
	if (!ret)
		ret = sim_bind_commit(sim, ctx, ops, steps, nr);
	/* Take the references of MAPs and drop those of UNMAPs only after success. */
	for (uint32_t i = 0; i < nr && !ret; i++)
		if (steps[i].map)
			steps[i].binding.bo->refs++;
	for (uint32_t i = 0; i < nr && !ret; i++)
		if (!steps[i].map)
			sim_bo_put(sim, steps[i].binding.bo);
	free(steps);
	free(ops);
	return ret;
}
