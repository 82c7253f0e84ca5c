// SPDX-License-Identifier: GPL-2.0-only
/* Address spaces of contexts. See vnpu_space.h. */
#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/mm.h>
#include <linux/overflow.h>

#include "vnpu_space.h"

void vnpu_space_init(struct vnpu_space *space, u32 va_bits)
{
	space->va_bits = va_bits;
	drm_mm_init(&space->mm, VNPU_VA_START >> PAGE_SHIFT,
		    vnpu_space_pages(space) - (VNPU_VA_START >> PAGE_SHIFT));
}

void vnpu_space_fini(struct vnpu_space *space)
{
	drm_mm_takedown(&space->mm);
}

/* 0 or -EINVAL, by the operation alone, not by what is bound. */
int vnpu_space_check(const struct vnpu_space *space, const struct drm_vnpu_bind_op *op)
{
	u64 end;

	if (op->pad || !op->size)
		return -EINVAL;
	if ((op->va | op->size | op->bo_offset) & (DRM_VNPU_PAGE_SIZE - 1))
		return -EINVAL;
	if (op->va < VNPU_VA_START || check_add_overflow(op->va, op->size, &end) ||
	    end > 1ull << space->va_bits)
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

/* The binding of a page, or NULL. */
struct vnpu_binding *vnpu_space_find(struct vnpu_space *space, u64 page)
{
	struct drm_mm_node *node;

	drm_mm_for_each_node_in_range(node, &space->mm, page, page + 1)
		return container_of(node, struct vnpu_binding, node);
	return NULL;
}

static int vnpu_bind_apply(struct vnpu_space *space, const struct drm_vnpu_bind_op *op,
			   struct vnpu_bind_step *step)
{
	u64 page = op->va >> PAGE_SHIFT, nr = op->size >> PAGE_SHIFT;
	struct vnpu_binding *binding;

	if (step->map) {
		step->binding->node.start = page;
		step->binding->node.size = nr;
		if (drm_mm_reserve_node(&space->mm, &step->binding->node))
			return -ENOSPC;
	} else {
		binding = vnpu_space_find(space, page);
		if (!binding || binding->node.start != page || binding->node.size != nr)
			return -ENOENT;
		drm_mm_remove_node(&binding->node);
		step->binding = binding;
	}
	step->done = true;
	return 0;
}

/* Cannot fail: the range was removed or inserted a moment ago. */
static void vnpu_bind_revert(struct vnpu_space *space, struct vnpu_bind_step *step)
{
	if (!step->done)
		return;
	if (step->map)
		drm_mm_remove_node(&step->binding->node);
	else
		WARN_ON(drm_mm_reserve_node(&space->mm, &step->binding->node));
	step->done = false;
}

/*
 * Carry out operations that vnpu_space_check() has accepted, in order, all or none. The step of a
 * MAP has its binding; the step of an UNMAP gets the binding that it removed. After a failure
 * nothing has changed, and the steps of UNMAPs own no binding.
 */
int vnpu_space_commit(struct vnpu_space *space, const struct drm_vnpu_bind_op *ops,
		      struct vnpu_bind_step *steps, u32 nr)
{
	int ret = 0;
	u32 i;

	for (i = 0; i < nr && !ret; i++)
		ret = vnpu_bind_apply(space, &ops[i], &steps[i]);
	if (ret)
		while (i--)
			vnpu_bind_revert(space, &steps[i]);
	return ret;
}

/* Remove bindings, at most @max. Returns whether there are more. */
bool vnpu_space_clear(struct vnpu_space *space, struct list_head *gone, u32 max)
{
	struct drm_mm_node *node, *next;

	drm_mm_for_each_node_safe(node, next, &space->mm) {
		if (!max--)
			return true;
		drm_mm_remove_node(node);
		list_add(&container_of(node, struct vnpu_binding, node)->link, gone);
	}
	return false;
}
