// SPDX-License-Identifier: MIT
/*
 * The transport to the simulated device: open, close, and the table of ioctls, which are
 * implemented in sim_*.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <npu/vnpu_isa.h>

#include "cpus.h"
#include "npu_fail.h"
#include "npu_fd.h"
#include "sim.h"

/* ---- what all parts share ---- */

int64_t sim_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

void sim_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

bool sim_cond_wait(struct sim *sim, pthread_cond_t *cond, int64_t timeout_ns)
{
	struct timespec ts = { .tv_sec = timeout_ns / 1000000000,
			       .tv_nsec = timeout_ns % 1000000000 };

	if (timeout_ns <= 0)
		return false;
	sim_wake_now(sim);
	if (timeout_ns == INT64_MAX)
		return !pthread_cond_wait(cond, &sim->lock);
	return pthread_cond_timedwait(cond, &sim->lock, &ts) != ETIMEDOUT;
}

int sim_array_check(const struct drm_vnpu_obj_array *a, uint32_t max, uint32_t min_stride)
{
	if (!a->count)
		return a->array ? -EINVAL : 0;
	if (a->count > max || a->stride < min_stride)
		return -EINVAL;
	if (a->stride > SIM_PAGE)
		return -E2BIG;
	return a->array ? 0 : -EFAULT;
}

int sim_array_get(const struct drm_vnpu_obj_array *a, uint32_t i, void *out, size_t size)
{
	const uint8_t *from = (const uint8_t *)(uintptr_t)a->array + (size_t)i * a->stride;

	for (size_t k = size; k < a->stride; k++)
		if (from[k])
			return -E2BIG;
	memcpy(out, from, size);
	return 0;
}

void *sim_table_get(const struct sim_table *t, uint32_t id)
{
	return id && id <= t->size ? t->slots[id - 1] : NULL;
}

uint32_t sim_table_add(struct sim_table *t, void *obj, uint32_t max, int *err)
{
	uint32_t i = 0, size;
	void **slots;

	*err = 0;
	while (i < t->size && t->slots[i])
		i++;
	if (i >= max) {
		*err = -EMFILE;
		return 0;
	}
	if (i == t->size) {
		size = t->size ? t->size * 2 : 8;
		slots = realloc(t->slots, size * sizeof(*slots));
		if (!slots) {
			*err = -ENOMEM;
			return 0;
		}
		memset(slots + t->size, 0, (size - t->size) * sizeof(*slots));
		t->slots = slots;
		t->size = size;
	}
	t->slots[i] = obj;
	return i + 1;
}

void *sim_table_del(struct sim_table *t, uint32_t id)
{
	void *obj = sim_table_get(t, id);

	if (obj)
		t->slots[id - 1] = NULL;
	return obj;
}

/* ---- DEV_QUERY ---- */

static void sim_query_device(struct drm_vnpu_query_device *q)
{
	strcpy(q->name, "vnpu-sim");
	q->isa_version = VNPU_ISA_VERSION;
	q->fw_abi = VNPU_FW_ABI;
	q->va_bits = SIM_VA_BITS;
}

static void sim_query_limits(const struct sim *sim, struct drm_vnpu_query_limits *q)
{
	q->max_ctx_per_file = SIM_MAX_CTX;
	q->max_queues_per_file = SIM_NR_QUEUES;
	q->max_queue_depth = SIM_MAX_DEPTH;
	q->max_jobs_per_submit = SIM_MAX_JOBS;
	q->max_syncs_per_job = SIM_MAX_SYNCS;
	q->max_waiting_jobs = SIM_MAX_WAITING;
	q->max_binds_per_call = SIM_MAX_BINDS;
	/* Only this process uses the device. */
	q->priorities = 1u << DRM_VNPU_PRIORITY_LOW | 1u << DRM_VNPU_PRIORITY_NORMAL |
			1u << DRM_VNPU_PRIORITY_HIGH;
	q->max_bo_bytes = sim_bo_max_bytes();
	q->mem_limit_bytes = sim->mem_limit_bytes;
	q->max_cmd_bytes = SIM_MAX_CMD_BYTES;
	q->default_timeout_ms = SIM_TIMEOUT_MS;
	q->max_timeout_ms = SIM_MAX_TIMEOUT_MS;
	q->max_fence_ms = sim->fence_ms;
	/* There is only one file of one user. */
	q->max_ctx_per_user = SIM_MAX_CTX;
	q->max_queues_per_user = SIM_NR_QUEUES;
	q->max_bytes_per_user = sim->mem_limit_bytes;
}

static int sim_dev_query(struct sim *sim, struct drm_vnpu_dev_query *args)
{
	union {
		struct drm_vnpu_query_device device;
		struct drm_vnpu_query_limits limits;
		struct drm_vnpu_query_state state;
	} q = { 0 };
	uint32_t room = args->size;
	uint8_t *to = (uint8_t *)(uintptr_t)args->pointer;

	if (to && room > DRM_VNPU_PAGE_SIZE)
		return -EINVAL;
	switch (args->type) {
	case DRM_VNPU_QUERY_DEVICE:
		sim_query_device(&q.device);
		args->size = sizeof(q.device);
		break;
	case DRM_VNPU_QUERY_LIMITS:
		sim_query_limits(sim, &q.limits);
		args->size = sizeof(q.limits);
		break;
	case DRM_VNPU_QUERY_STATE:
		q.state.epoch = sim->epoch;
		q.state.busy_ns = sim->busy_ns;
		q.state.mem_bytes = sim->mem_bytes;
		q.state.nr_jobs = sim->nr_jobs;
		args->size = sizeof(q.state);
		break;
	default:
		return -EINVAL;
	}
	if (!to)
		return 0;
	memcpy(to, &q, room < args->size ? room : args->size);
	if (room > args->size)
		memset(to + args->size, 0, room - args->size);
	return 0;
}

/* ---- struct transport_ops ---- */

static int sim_gem_close(struct sim *sim, struct drm_gem_close *args)
{
	return args->pad ? -EINVAL : sim_bo_close(sim, args->handle);
}

static int sim_ioctl_locked(struct sim *sim, unsigned long request, void *arg)
{
	switch (request) {
	case DRM_IOCTL_VNPU_DEV_QUERY:
		return sim_dev_query(sim, arg);
	case DRM_IOCTL_VNPU_BO_CREATE:
		return sim_bo_create(sim, arg);
	case DRM_IOCTL_VNPU_BO_INFO:
		return sim_bo_info(sim, arg);
	case DRM_IOCTL_VNPU_CTX_CREATE:
		return sim_ctx_create(sim, arg);
	case DRM_IOCTL_VNPU_CTX_DESTROY:
		return sim_ctx_destroy(sim, arg);
	case DRM_IOCTL_VNPU_CTX_GET_STATE:
		return sim_ctx_get_state(sim, arg);
	case DRM_IOCTL_VNPU_VM_BIND:
		return sim_vm_bind(sim, arg);
	case DRM_IOCTL_VNPU_QUEUE_CREATE:
		return sim_queue_create(sim, arg);
	case DRM_IOCTL_VNPU_QUEUE_DESTROY:
		return sim_queue_destroy(sim, arg);
	case DRM_IOCTL_VNPU_SUBMIT:
		return sim_submit(sim, arg);
	case DRM_IOCTL_VNPU_WAIT:
		return sim_queue_wait(sim, arg);
	case DRM_IOCTL_GEM_CLOSE:
		return sim_gem_close(sim, arg);
	default:
		return sim_syncobj_ioctl(sim, request, arg);
	}
}

static struct sim *to_sim(struct transport *t)
{
	return (struct sim *)((char *)t - offsetof(struct sim, base));
}

static int sim_transport_ioctl(struct transport *t, unsigned long request, void *arg)
{
	struct sim *sim = to_sim(t);
	int ret;

	if (!arg)
		return -EFAULT;
	pthread_mutex_lock(&sim->lock);
	ret = sim_port_drain(sim);
	if (!ret)
		ret = sim_ioctl_locked(sim, request, arg);
	sim_unlock(sim);
	return ret;
}

static int sim_transport_map(struct transport *t, uint64_t offset, size_t size, int prot,
			     void **addr)
{
	struct sim *sim = to_sim(t);
	bool weights = false;
	int ret;

	pthread_mutex_lock(&sim->lock);
	ret = sim_map(sim, offset, size, prot, addr, &weights);
	sim_unlock(sim);
	if (!ret && weights)
		sim_map_huge(sim, *addr, size);
	return ret;
}

static int sim_transport_unmap(struct transport *t, void *addr, size_t size)
{
	struct sim *sim = to_sim(t);
	int ret;

	pthread_mutex_lock(&sim->lock);
	ret = sim_unmap(sim, addr, size);
	sim_unlock(sim);
	return ret;
}

static int sim_transport_import(struct transport *t, int fd, uint64_t offset,
				struct drm_vnpu_bo_create *create)
{
	struct sim *sim = to_sim(t);
	int ret;

	pthread_mutex_lock(&sim->lock);
	ret = sim_bo_import(sim, fd, offset, create);
	sim_unlock(sim);
	return ret;
}

/* Frees what the client has left; no other thread runs any more. */
static void sim_free_objects(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->ctxs.size; i++)
		if (sim->ctxs.slots[i])
			sim_ctx_free(sim, sim->ctxs.slots[i]);
	for (uint32_t i = 0; i < SIM_NR_CTX; i++)
		if (sim->closing[i])
			sim_ctx_free(sim, sim->closing[i]);
	while (sim->mappings)
		sim_unmap(sim, sim->mappings->addr, sim->mappings->size);
	for (uint32_t i = 0; i < sim->bos.size; i++)
		if (sim->bos.slots[i])
			sim_bo_put(sim, sim->bos.slots[i]);
	sim_syncobj_free_all(sim);
	for (uint32_t i = 0; i < SIM_NR_QUEUES; i++) {
		free(sim->hwqs[i].place);
		free(sim->hwqs[i].jobs);
	}
	free(sim->bos.slots);
	free(sim->ctxs.slots);
	free(sim->queues.slots);
	free(sim->syncobjs.slots);
}

static void sim_transport_close(struct transport *t)
{
	struct sim *sim = to_sim(t);

	pthread_mutex_lock(&sim->lock);
	for (uint32_t i = 0; i < sim->queues.size; i++) {
		if (sim->queues.slots[i])
			sim_queue_kill(sim, sim->queues.slots[i]);
		sim->queues.slots[i] = NULL;
	}
	sim_unlock(sim);
	sim_timer_stop(sim);
	sim_port_stop(sim);
	sim_free_objects(sim);
	if (sim->status)
		munmap(sim->status, (size_t)SIM_NR_QUEUES * SIM_PAGE);
	if (sim->memfd >= 0)
		close(sim->memfd);
	npu_va_fini(&sim->free_offsets);
	npu_va_fini(&sim->free_imports);
	pthread_cond_destroy(&sim->timer_cond);
	pthread_cond_destroy(&sim->cond);
	pthread_mutex_destroy(&sim->lock);
	free(sim);
}

static const struct transport_ops sim_transport_ops = {
	.ioctl = sim_transport_ioctl,
	.map = sim_transport_map,
	.unmap = sim_transport_unmap,
	.import = sim_transport_import,
	.close = sim_transport_close,
};

static uint64_t sim_half_of_memory(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

static int sim_open_memory(struct sim *sim)
{
	size_t status_bytes = (size_t)SIM_NR_QUEUES * SIM_PAGE;
	int ret;

	sim->memfd = npu_fd_keep(memfd_create("vnpu-sim", MFD_CLOEXEC));
	if (sim->memfd < 0)
		return npu_fail(-errno, "sim: memfd_create: %s", strerror(errno));
	ret = sim_file_grow(sim, status_bytes);
	if (ret)
		return npu_fail(ret, "sim: a file of %zu bytes in memory: %s%s", status_bytes,
				strerror(-ret), ret == -EFBIG ? "; raise ulimit -f" : "");
	if (npu_va_init(&sim->free_offsets, status_bytes, SIM_IMPORTS - status_bytes) ||
	    npu_va_init(&sim->free_imports, SIM_IMPORTS, SIM_IMPORTS))
		return npu_fail(-ENOMEM, "sim: out of memory");
	sim->status = mmap(NULL, status_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, sim->memfd, 0);
	if (sim->status == MAP_FAILED) {
		sim->status = NULL;
		return npu_fail(-errno, "sim: status pages: %s", strerror(errno));
	}
	return 0;
}

int transport_sim_open(const struct sim_options *opts, struct transport **t)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	pthread_mutexattr_t attr;
	int ret;

	if (!sim)
		return npu_fail(-ENOMEM, "sim: out of memory");
	sim->base.ops = &sim_transport_ops;
	sim->epoch = 1;
	sim->threads = opts->threads ? opts->threads : host_threads();
	sim->base.no_spare_cpu = sim->threads >= host_threads();
	sim->fence_ms = opts->fence_ms ? opts->fence_ms : SIM_FENCE_MS;
	sim->mem_limit_bytes = opts->mem_limit_bytes ? opts->mem_limit_bytes : sim_half_of_memory();
	/* Held only briefly, so spinning costs less than sleeping. */
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&sim->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	sim_cond_init(&sim->cond);
	sim_cond_init(&sim->timer_cond);
	ret = sim_open_memory(sim);
	if (!ret)
		ret = sim_port_start(sim, opts);
	if (ret) {
		sim_transport_close(&sim->base);
		return ret;
	}
	*t = &sim->base;
	return 0;
}
