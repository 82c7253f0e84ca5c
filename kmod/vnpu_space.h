/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A context's address space: the bound pages, and VM_BIND's operations on them, all or none. No
 * sleeping, allocation or access to buffers here. The caller excludes readers during changes.
 */
#ifndef VNPU_SPACE_H
#define VNPU_SPACE_H

#include <linux/list.h>
#include <drm/drm_mm.h>
#include <drm/vnpu_accel.h>

struct vnpu_bo;

/* The lowest address that a context may bind, so that a null pointer plus a small offset faults. */
#define VNPU_VA_START 0x10000ull

struct vnpu_space {
	struct drm_mm mm; /* in pages */
	u32 va_bits;
};

struct vnpu_binding {
	struct drm_mm_node node; /* in pages */
	struct vnpu_bo *bo; /* referenced and pinned */
	u64 bo_page; /* first page of the buffer */
	bool read_only;
	struct list_head link; /* in the list of vnpu_space_clear() */
};

/* One operation of a VM_BIND in progress. */
struct vnpu_bind_step {
	struct vnpu_binding *binding; /* MAP: new; UNMAP: removed */
	bool map;
	bool done;
};

static inline u64 vnpu_space_pages(const struct vnpu_space *space)
{
	return 1ull << (space->va_bits - PAGE_SHIFT);
}

void vnpu_space_init(struct vnpu_space *space, u32 va_bits);
void vnpu_space_fini(struct vnpu_space *space);
int vnpu_space_check(const struct vnpu_space *space, const struct drm_vnpu_bind_op *op);
struct vnpu_binding *vnpu_space_find(struct vnpu_space *space, u64 page);
int vnpu_space_commit(struct vnpu_space *space, const struct drm_vnpu_bind_op *ops,
		      struct vnpu_bind_step *steps, u32 nr);
bool vnpu_space_clear(struct vnpu_space *space, struct list_head *gone, u32 max);

#endif /* VNPU_SPACE_H */
