// SPDX-License-Identifier: MIT
/*
 * Fences and syncobjs of the simulated device. A syncobj is a list of points, each with the fence
 * of the job that will reach it. A point is reached when its fence and those of all points before
 * it have signaled.
 *
 * The kernel's rules for points that do not rise (dma_fence_chain_init(), drm_syncobj_query_ioctl()
 * of Linux 6.12) hold here too: such a point begins another run and gets the last point's value.
 * Points are looked for, and queries count, in the last run only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define SIM_MAX_WAIT_HANDLES 4096

struct sim_fence *sim_fence_create(bool signaled)
{
	struct sim_fence *fence = calloc(1, sizeof(*fence));

	if (fence) {
		fence->refs = 1;
		fence->signaled = signaled;
	}
	return fence;
}

struct sim_fence *sim_fence_get(struct sim_fence *fence)
{
	fence->refs++;
	return fence;
}

void sim_fence_put(struct sim_fence *fence)
{
	if (fence && !--fence->refs)
		free(fence);
}

void sim_fence_signal(struct sim *sim, struct sim_fence *fence)
{
	fence->signaled = true;
	sim->wake_cond = true;
}

int sim_fences_add(struct sim_fences *list, struct sim_fence *fence)
{
	struct sim_fence **grown;

	if (fence->signaled)
		return 0;
	if (list->nr == list->cap) {
		grown = realloc(list->items, (list->cap * 2 + 4) * sizeof(struct sim_fence *));
		if (!grown)
			return -ENOMEM;
		list->items = grown;
		list->cap = list->cap * 2 + 4;
	}
	list->items[list->nr++] = sim_fence_get(fence);
	return 0;
}

bool sim_fences_prune(struct sim_fences *list)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < list->nr; i++) {
		if (list->items[i]->signaled)
			sim_fence_put(list->items[i]);
		else
			list->items[kept++] = list->items[i];
	}
	list->nr = kept;
	return !kept;
}

void sim_fences_clear(struct sim_fences *list)
{
	for (unsigned int i = 0; i < list->nr; i++)
		sim_fence_put(list->items[i]);
	free(list->items);
	*list = (struct sim_fences){ 0 };
}

/* ---- syncobjs ---- */

static void sim_syncobj_reset(struct sim_syncobj *obj)
{
	for (unsigned int i = 0; i < obj->nr; i++)
		sim_fence_put(obj->points[i].fence);
	obj->nr = 0;
}

static void sim_syncobj_free(struct sim_syncobj *obj)
{
	sim_syncobj_reset(obj);
	free(obj->points);
	free(obj);
}

/* Merges the points that are reached, with all before them, into one. */
static void sim_syncobj_prune(struct sim_syncobj *obj)
{
	unsigned int reached = 0;

	while (reached < obj->nr && obj->points[reached].fence->signaled)
		reached++;
	if (reached < 2)
		return;
	for (unsigned int i = 0; i + 1 < reached; i++)
		sim_fence_put(obj->points[i].fence);
	memmove(obj->points, obj->points + reached - 1,
		(obj->nr - reached + 1) * sizeof(*obj->points));
	obj->nr -= reached - 1;
}

/* Number of points that a waiter for @point waits for; 0 if no fence will reach it. */
static unsigned int sim_syncobj_find(const struct sim_syncobj *obj, uint64_t point)
{
	unsigned int i = obj->nr;

	if (!point || !i)
		return i;
	if (obj->points[i - 1].value < point)
		return 0;
	while (i > 1 && obj->points[i - 1].before >= point &&
	       obj->points[i - 2].run == obj->points[i - 1].run)
		i--;
	return i;
}

int sim_syncobj_deps(struct sim *sim, uint32_t handle, uint64_t point, struct sim_fences *deps)
{
	struct sim_syncobj *obj = sim_table_get(&sim->syncobjs, handle);
	unsigned int nr;
	int ret = 0;

	if (!obj)
		return -ENOENT;
	nr = sim_syncobj_find(obj, point);
	if (!nr)
		return -EINVAL;
	for (unsigned int i = 0; i < nr && !ret; i++)
		ret = sim_fences_add(deps, obj->points[i].fence);
	return ret;
}

int sim_syncobj_reserve(struct sim *sim, uint32_t handle, unsigned int extra)
{
	struct sim_syncobj *obj = sim_table_get(&sim->syncobjs, handle);
	struct sim_point *grown;

	if (!obj)
		return -ENOENT;
	sim_syncobj_prune(obj);
	if (obj->nr + extra > obj->cap) {
		grown = realloc(obj->points, (obj->nr + extra) * 2 * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		obj->points = grown;
		obj->cap = (obj->nr + extra) * 2;
	}
	return 0;
}

static void sim_syncobj_replace(struct sim *sim, struct sim_syncobj *obj, struct sim_fence *fence)
{
	sim_fence_get(fence);
	sim_syncobj_reset(obj);
	obj->points[obj->nr++] = (struct sim_point){ .fence = fence };
	sim->wake_cond = true;
}

static void sim_syncobj_append(struct sim *sim, struct sim_syncobj *obj, uint64_t value,
			       struct sim_fence *fence)
{
	const struct sim_point *last = obj->nr ? &obj->points[obj->nr - 1] : NULL;
	struct sim_point point = { .value = value, .fence = sim_fence_get(fence) };

	if (last && last->run && value > last->value) {
		point.before = last->value;
		point.run = last->run;
	} else {
		if (last && last->value > value)
			point.value = last->value;
		point.run = ++obj->runs;
	}
	obj->points[obj->nr++] = point;
	sim->wake_cond = true;
}

void sim_syncobj_add(struct sim *sim, uint32_t handle, uint64_t point, struct sim_fence *fence)
{
	struct sim_syncobj *obj = sim_table_get(&sim->syncobjs, handle);

	if (point)
		sim_syncobj_append(sim, obj, point, fence);
	else
		sim_syncobj_replace(sim, obj, fence);
}

static uint64_t sim_syncobj_value(const struct sim_syncobj *obj, bool submitted)
{
	const struct sim_point *last = obj->nr ? &obj->points[obj->nr - 1] : NULL;
	bool reached = true;

	if (!last || submitted)
		return last ? last->value : 0;
	for (const struct sim_point *p = obj->points; p <= last; p++) {
		if (p->fence->signaled)
			continue;
		if (p->run == last->run)
			return p->before;
		reached = false;
	}
	return reached ? last->value : last->before;
}

/* ---- the DRM core's ioctls ---- */

static int sim_syncobj_create(struct sim *sim, struct drm_syncobj_create *args)
{
	struct sim_syncobj *obj;
	struct sim_fence *fence;
	int err;

	if (args->flags & ~DRM_SYNCOBJ_CREATE_SIGNALED)
		return -EINVAL;
	obj = calloc(1, sizeof(*obj));
	if (!obj)
		return -ENOMEM;
	args->handle = sim_table_add(&sim->syncobjs, obj, UINT32_MAX, &err);
	if (!args->handle) {
		free(obj);
		return err;
	}
	if (!(args->flags & DRM_SYNCOBJ_CREATE_SIGNALED))
		return 0;
	fence = sim_fence_create(true);
	err = fence ? sim_syncobj_reserve(sim, args->handle, 1) : -ENOMEM;
	if (err)
		sim_syncobj_free(sim_table_del(&sim->syncobjs, args->handle));
	else
		sim_syncobj_add(sim, args->handle, 0, fence);
	sim_fence_put(fence);
	return err;
}

static int sim_syncobj_destroy(struct sim *sim, struct drm_syncobj_destroy *args)
{
	struct sim_syncobj *obj;

	if (args->pad)
		return -EINVAL;
	obj = sim_table_del(&sim->syncobjs, args->handle);
	if (!obj)
		return -EINVAL;
	sim_syncobj_free(obj);
	return 0;
}

/* SIGNAL, RESET and TIMELINE_SIGNAL, all handles or none. @points NULL: all 0. */
static int sim_syncobj_array(struct sim *sim, unsigned long request, const uint32_t *handles,
			     const uint64_t *points, uint32_t nr)
{
	struct sim_fence *fence;
	int ret = 0;

	if (!nr || nr > SIM_MAX_WAIT_HANDLES)
		return -EINVAL;
	if (!handles)
		return -EFAULT;
	for (uint32_t i = 0; i < nr && !ret; i++)
		ret = sim_syncobj_reserve(sim, handles[i], nr);
	if (ret)
		return ret;
	fence = sim_fence_create(true);
	if (!fence)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr; i++) {
		struct sim_syncobj *obj = sim_table_get(&sim->syncobjs, handles[i]);

		if (request == DRM_IOCTL_SYNCOBJ_RESET)
			sim_syncobj_reset(obj);
		else if (request == DRM_IOCTL_SYNCOBJ_SIGNAL)
			sim_syncobj_replace(sim, obj, fence);
		else
			sim_syncobj_append(sim, obj, points ? points[i] : 0, fence);
	}
	sim_fence_put(fence);
	return 0;
}

static int sim_syncobj_query(struct sim *sim, struct drm_syncobj_timeline_array *args)
{
	const uint32_t *handles = (const uint32_t *)(uintptr_t)args->handles;
	uint64_t *points = (uint64_t *)(uintptr_t)args->points;

	if (args->flags & ~DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED)
		return -EINVAL;
	if (!args->count_handles || args->count_handles > SIM_MAX_WAIT_HANDLES)
		return -EINVAL;
	if (!handles || !points)
		return -EFAULT;
	for (uint32_t i = 0; i < args->count_handles; i++)
		if (!sim_table_get(&sim->syncobjs, handles[i]))
			return -ENOENT;
	for (uint32_t i = 0; i < args->count_handles; i++)
		points[i] = sim_syncobj_value(sim_table_get(&sim->syncobjs, handles[i]),
					      args->flags & DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED);
	return 0;
}

/* A point that a thread waits for: once it is there, points that come later do not matter. */
struct sim_waiter {
	bool found;
	struct sim_fences fences;
};

/* 1: done; 0: not yet; -errno. */
static int sim_waiter_poll(struct sim *sim, struct sim_waiter *w, uint32_t handle, uint64_t point,
			   uint32_t flags)
{
	int ret = w->found ? 0 : sim_syncobj_deps(sim, handle, point, &w->fences);

	if (ret == -EINVAL && (flags & (DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT |
					DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE)))
		return 0;
	if (ret)
		return ret;
	w->found = true;
	return sim_fences_prune(&w->fences) || (flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE);
}

/* Number of points that are done; -errno. */
static int sim_waiters_poll(struct sim *sim, struct sim_waiter *waiters,
			    struct drm_syncobj_timeline_wait *args)
{
	const uint32_t *handles = (const uint32_t *)(uintptr_t)args->handles;
	const uint64_t *points = (const uint64_t *)(uintptr_t)args->points;
	int done = 0, ret;

	for (uint32_t i = 0; i < args->count_handles; i++) {
		ret = sim_waiter_poll(sim, &waiters[i], handles[i], points ? points[i] : 0,
				      args->flags);
		if (ret < 0)
			return ret;
		if (ret && !done++)
			args->first_signaled = i;
	}
	return done;
}

static int sim_waiters_sleep(struct sim *sim, struct sim_waiter *waiters,
			     struct drm_syncobj_timeline_wait *args)
{
	int want = args->flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL ? (int)args->count_handles : 1;
	int ret;

	sim_listen_begin(sim);
	for (;;) {
		ret = sim_waiters_poll(sim, waiters, args);
		if (ret < 0 || ret >= want)
			break;
		if (!sim_cond_wait(sim, &sim->cond, args->timeout_nsec)) {
			ret = -ETIME;
			break;
		}
	}
	sim_listen_end(sim);
	return ret < 0 ? ret : 0;
}

static int sim_syncobj_wait(struct sim *sim, struct drm_syncobj_timeline_wait *args,
			    uint32_t allowed)
{
	struct sim_waiter *waiters;
	int ret;

	if ((args->flags & ~allowed) || !args->count_handles ||
	    args->count_handles > SIM_MAX_WAIT_HANDLES)
		return -EINVAL;
	if (!args->handles || (!args->points && (allowed & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE)))
		return -EFAULT;
	waiters = calloc(args->count_handles, sizeof(*waiters));
	if (!waiters)
		return -ENOMEM;
	ret = sim_waiters_sleep(sim, waiters, args);
	for (uint32_t i = 0; i < args->count_handles; i++)
		sim_fences_clear(&waiters[i].fences);
	free(waiters);
	return ret;
}

static int sim_syncobj_wait_binary(struct sim *sim, struct drm_syncobj_wait *args)
{
	struct drm_syncobj_timeline_wait wait = {
		.handles = args->handles,
		.timeout_nsec = args->timeout_nsec,
		.count_handles = args->count_handles,
		.flags = args->flags,
	};
	int ret = sim_syncobj_wait(sim, &wait,
				   DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL |
					   DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT);

	args->first_signaled = wait.first_signaled;
	return ret;
}

int sim_syncobj_ioctl(struct sim *sim, unsigned long request, void *arg)
{
	struct drm_syncobj_array *array = arg;
	struct drm_syncobj_timeline_array *timeline = arg;

	switch (request) {
	case DRM_IOCTL_SYNCOBJ_CREATE:
		return sim_syncobj_create(sim, arg);
	case DRM_IOCTL_SYNCOBJ_DESTROY:
		return sim_syncobj_destroy(sim, arg);
	case DRM_IOCTL_SYNCOBJ_WAIT:
		return sim_syncobj_wait_binary(sim, arg);
	case DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT:
		return sim_syncobj_wait(sim, arg,
					DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL |
						DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT |
						DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE);
	case DRM_IOCTL_SYNCOBJ_SIGNAL:
	case DRM_IOCTL_SYNCOBJ_RESET:
		if (array->pad)
			return -EINVAL;
		return sim_syncobj_array(sim, request, (const uint32_t *)(uintptr_t)array->handles,
					 NULL, array->count_handles);
	case DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL:
		if (timeline->flags)
			return -EINVAL;
		return sim_syncobj_array(
			sim, request, (const uint32_t *)(uintptr_t)timeline->handles,
			(const uint64_t *)(uintptr_t)timeline->points, timeline->count_handles);
	case DRM_IOCTL_SYNCOBJ_QUERY:
		return sim_syncobj_query(sim, arg);
	case DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD:
	case DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE:
		return -EOPNOTSUPP;
	default:
		return -ENOTTY;
	}
}

void sim_syncobj_free_all(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->syncobjs.size; i++)
		if (sim->syncobjs.slots[i])
			sim_syncobj_free(sim->syncobjs.slots[i]);
}
